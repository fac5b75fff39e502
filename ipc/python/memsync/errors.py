"""What can go wrong: a class for each kind, and MemsyncError above them all.

    MemsyncError
        AgentError              the agent answered with an error; one class for each kind of docs/protocol.md
            NotFoundError, ConflictError, CorruptError, ...
        NoAgentError            nobody answers
        BadEndpointError, BadReplyError, ProtocolError, ClosedError
"""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Type


class MemsyncError(Exception):
    """The base of all errors of this package.

    `kind` is the word that programs look at and `code` its number (docs/protocol.md; positive ones are those of
    the C client), `message` is one line for people, `data` what else is known. `retryable`: the same call again
    does no harm and may work; for a ConflictError after reading again.
    """

    kind: str = "unknown"
    code: int = 0

    def __init__(self, message: str, data: Optional[Mapping[str, Any]] = None, retryable: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.data: Dict[str, Any] = dict(data or {})
        self.retryable = retryable

    @property
    def path(self) -> Optional[str]:
        """The file concerned, relative to the volume."""
        return self.data.get("path")

    def __str__(self) -> str:
        path = self.path
        where = f"{path}: " if path and path not in self.message else ""
        return f"{self.kind}: {where}{self.message}"


# ---- the client's own ----


class NoAgentError(MemsyncError):
    """Nobody listens there, the connection broke, or no answer came in time.

    `may_be_done`: the request was sent, so it may or may not have been carried out. Where it is false nothing was
    sent, and the same call again can do no harm.
    """

    kind = "no_agent"
    code = 1

    def __init__(self, message: str, may_be_done: bool = False) -> None:
        super().__init__(message, retryable=not may_be_done)
        self.may_be_done = may_be_done


class BadEndpointError(MemsyncError, ValueError):
    """The endpoint cannot be used."""

    kind = "bad_endpoint"
    code = 2


class BadReplyError(MemsyncError):
    """An answer that is not the protocol's."""

    kind = "bad_reply"
    code = 4


class ClosedError(MemsyncError):
    """The client or the subscription was closed."""

    kind = "closed"
    code = 7


class ProtocolError(MemsyncError):
    """The agent speaks another version of the protocol than this client."""

    kind = "protocol"
    code = 8


# ---- the agent's ----


class AgentError(MemsyncError):
    """The agent answered with an error. Of a kind that this client does not know, if it is of no other class."""

    def __init__(self, message: str, data: Optional[Mapping[str, Any]] = None, retryable: bool = False) -> None:
        super().__init__(message, data, retryable)
        if "kind" in self.data:
            self.kind = str(self.data["kind"])

    @property
    def user_id(self) -> Optional[str]:
        """As in the request; None also where it was missing."""
        return self.data.get("user_id")

    @property
    def agent_name(self) -> Optional[str]:
        """As in the request; None also where it was missing."""
        return self.data.get("agent_name")

    @property
    def attempts(self) -> Optional[int]:
        """How often a write was tried. 0: nothing was written; None: it was refused before its turn came."""
        return self.data.get("attempts")


class ParseError(AgentError):
    """The request was no JSON, or nested too deeply."""

    kind = "parse_error"
    code = -32700


class InvalidRequestError(AgentError):
    """The request was JSON, but no request."""

    kind = "invalid_request"
    code = -32600


class NoMethodError(AgentError):
    """The agent does not know the method."""

    kind = "no_method"
    code = -32601


class InvalidParamsError(AgentError):
    """A parameter is missing, of the wrong type or out of range; the message names it."""

    kind = "invalid_params"
    code = -32602


class InternalError(AgentError):
    """A fault of the agent, or it is out of memory."""

    kind = "internal"
    code = -32603


class NotFoundError(AgentError):
    """There is no such fact."""

    kind = "not_found"
    code = -32001


class ConflictError(AgentError):
    """The memory is not as the request takes it to be: read again, then decide. `reason` tells what is in the way."""

    kind = "conflict"
    code = -32002

    @property
    def reason(self) -> Optional[str]:
        """"overtaken", "manifest_revision", "fact_revision", "duplicate_fact", "newer_layout", "migration"."""
        return self.data.get("reason")

    @property
    def fact_id(self) -> Optional[str]:
        """The fact that is in the way."""
        return self.data.get("fact_id")

    @property
    def expected(self) -> Optional[int]:
        """The revision that the request expected."""
        return self.data.get("expected")

    @property
    def current(self) -> Optional[int]:
        """The revision that is there; None: the fact is not there."""
        return self.data.get("current")


class CorruptError(AgentError):
    """Bytes on the volume that cannot be understood; `path` names the file."""

    kind = "corrupt"
    code = -32003


class RequestTimeoutError(AgentError):
    """The agent could not do it in time. A write may have been done: read before you repeat it."""

    kind = "timeout"
    code = -32004


class DeniedError(AgentError):
    """No permission, on the volume or for this caller."""

    kind = "denied"
    code = -32005


class UnsupportedError(AgentError):
    """The backend, or this version of the agent, does not do it."""

    kind = "unsupported"
    code = -32006


class UnavailableError(AgentError):
    """It cannot be answered now: the volume is away, an I/O error, the agent is shutting down."""

    kind = "unavailable"
    code = -32007


class StorageFullError(AgentError):
    """No space or quota is left."""

    kind = "storage_full"
    code = -32008


class BusyError(AgentError):
    """A limit was reached: later."""

    kind = "busy"
    code = -32009


class TooLargeError(AgentError):
    """The request or its result is beyond a limit."""

    kind = "too_large"
    code = -32010


AGENT_ERRORS: Dict[int, Type[AgentError]] = {
    each.code: each for each in (
        ParseError, InvalidRequestError, NoMethodError, InvalidParamsError, InternalError, NotFoundError,
        ConflictError, CorruptError, RequestTimeoutError, DeniedError, UnsupportedError, UnavailableError,
        StorageFullError, BusyError, TooLargeError)
}


def agent_error(answer: Any) -> MemsyncError:
    """The exception for the member `error` of a reply."""
    code = answer.get("code") if isinstance(answer, dict) else None
    if type(code) is not int or not isinstance(answer.get("message"), str):
        return BadReplyError("the agent answered with an error without a code or a message")
    data = answer.get("data")
    data = data if isinstance(data, dict) else {}
    error = AGENT_ERRORS.get(code, AgentError)(answer["message"], data, data.get("retryable") is True)
    error.code = code
    return error
