"""Requests and replies as bytes, deadlines, and which requests may be sent once more: for both clients."""

from __future__ import annotations

import json
import math
import random
import re
from time import monotonic
from typing import Any, Dict, NoReturn, Optional

from .errors import BadReplyError, BusyError, MemsyncError, NoAgentError, agent_error
from .values import to_wire

PROTOCOL = 1
DEFAULT_TIMEOUT = 5.0
TIMEOUT_MAX = 1e6
ANSWER_MARGIN_MS_MAX = 100
RECONNECT_PAUSE = 0.05
BUSY_PAUSE = 0.01
BUSY_TRIES = 4

# They change nothing that a second time would change again.
READS = frozenset((
    "ping", "search", "list_facts", "get_fact", "get_memory", "export_memory", "reload_memory", "get_summaries",
    "refresh", "verify", "scopes", "capabilities", "status", "warm", "get_context"))
# Of several commits each: an error does not tell that none of them was made.
SEVERAL_COMMITS = frozenset(("clear_memory", "delete_memory", "migrate"))

_METHOD = re.compile(r"[A-Za-z0-9_.]{1,64}")
_encode = json.JSONEncoder(separators=(",", ":"), default=to_wire).encode
_decode = json.loads


class Deadline:
    """When a call has to be over."""

    __slots__ = ("timeout", "at")

    def __init__(self, timeout: float) -> None:
        if not 0 < timeout <= TIMEOUT_MAX:
            raise ValueError(f"a timeout is a number of seconds above 0 and up to {TIMEOUT_MAX:.0f}: {timeout!r}")
        self.timeout = timeout
        self.at = monotonic() + timeout

    def left(self) -> float:
        """Seconds; below 0 when it is over."""
        return self.at - monotonic()

    def left_ms(self) -> int:
        """Whole milliseconds, 0 only when it is over."""
        return max(0, math.ceil((self.at - monotonic()) * 1000))

    def told(self) -> str:
        """For people."""
        return f"{self.timeout * 1000:.0f} ms"


class Message:
    """A request, encoded once, whatever the number of times that it is sent."""

    __slots__ = ("method", "params", "has_timeout")

    def __init__(self, method: str, params: Dict[str, Any]) -> None:
        if not _METHOD.fullmatch(method):
            raise ValueError(f"that is no name of a method: {method!r}")
        self.method = method
        self.params = _encode(params)
        self.has_timeout = "timeout_ms" in params

    def encode(self, request_id: int, deadline: Deadline) -> bytes:
        """The bytes to send. The agent's deadline is a little before ours, so that its own "timeout" arrives."""
        params = self.params
        if not self.has_timeout:
            left = deadline.left_ms()
            left = max(1, left - min(left // 10, ANSWER_MARGIN_MS_MAX))
            params = f'{{"timeout_ms":{left}{"," if len(params) > 2 else ""}{params[1:]}'
        return (f'{{"jsonrpc":"2.0","id":{request_id},"method":"{self.method}","params":{params}}}').encode()


def decode(frame: bytes, endpoint: str) -> Dict[str, Any]:
    """A reply. BadReplyError: what answers there does not speak the protocol."""
    try:
        reply = _decode(frame)
    except (ValueError, RecursionError) as error:
        raise BadReplyError(f"what answers at {endpoint} cannot be read: {error}") from None
    if type(reply) is not dict or "id" not in reply or ("result" in reply) == ("error" in reply):
        raise BadReplyError(f"what answers at {endpoint} does not speak memsyncd's protocol")
    return reply


def result_of(reply: Dict[str, Any]) -> Any:
    """The result of a reply; raises its error."""
    if "error" in reply:
        raise agent_error(reply["error"])
    return reply["result"]


def broken(endpoint: str) -> NoAgentError:
    """The connection broke while an answer was waited for."""
    return NoAgentError(f"the connection to {endpoint} broke before the answer came: the agent was restarted, or a "
                        "message was larger than it allows", may_be_done=True)


def unanswered(endpoint: str, deadline: Deadline) -> NoAgentError:
    """The request was sent, and nothing came in time."""
    return NoAgentError(f"no answer from {endpoint} within {deadline.told()}", may_be_done=True)


def unaccepted(endpoint: str, deadline: Deadline) -> NoAgentError:
    """Somebody listens, but the handshake was not done in time."""
    return NoAgentError(f"no answer from {endpoint} within {deadline.told()}: it listens, but does not take "
                        "connections")


class Retry:
    """Whether and when a request that failed is sent once more.

    A read whose connection broke is repeated once, when there is an agent again. Whatever the method, a request
    that was refused since a limit was reached did not begin, and is tried again a few times. Nothing else is.
    """

    __slots__ = ("method", "deadline", "was_broken", "refusals")

    def __init__(self, method: str, deadline: Deadline) -> None:
        self.method = method
        self.deadline = deadline
        self.was_broken = False
        self.refusals = 0

    def pause(self, error: MemsyncError) -> float:
        """Seconds to wait before the next time; raises the error where there is none, or no time left for it."""
        pause = self._pause(error)
        if pause is None or self.deadline.left() <= pause:
            _raise(error)
        return pause

    def _pause(self, error: MemsyncError) -> Optional[float]:
        if isinstance(error, BusyError):
            return self._refused(error)
        if not isinstance(error, NoAgentError):
            return None
        if not error.may_be_done:
            return RECONNECT_PAUSE if self.was_broken else None
        if self.method not in READS or self.was_broken:
            return None
        self.was_broken = True
        return 0.0

    def _refused(self, error: BusyError) -> Optional[float]:
        self.refusals += 1
        if self.refusals >= BUSY_TRIES or error.attempts or self.method in SEVERAL_COMMITS:
            return None
        return BUSY_PAUSE * (1 << self.refusals) * random.uniform(0.5, 1.0)


def _raise(error: MemsyncError) -> NoReturn:
    raise error
