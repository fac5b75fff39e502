"""What an error of the client means for a Gateway: somebody else must answer, or which of DeerFlow's errors it is."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from ..errors import (BadReplyError, BusyError, ClosedError, ConflictError, CorruptError, DeniedError,
                      InvalidParamsError, InvalidRequestError, MemsyncError, NoAgentError, NoMethodError,
                      NotFoundError, ParseError, ProtocolError, RequestTimeoutError, StorageFullError, TooLargeError,
                      UnavailableError, UnsupportedError)

if TYPE_CHECKING:
    from .seam import DeerFlow

# There is none that could be asked.
_AWAY = (NoAgentError, BadReplyError, ProtocolError)
# It does not understand the request, or takes none of that size.
_BEYOND_IT = (ProtocolError, NoMethodError, UnsupportedError, TooLargeError)
_JOURNAL = ".memory.journal.json"
_WRONG_ARGUMENT = (InvalidParamsError, InvalidRequestError, ParseError)


def is_away(error: MemsyncError) -> bool:
    """Whether it tells of the agent, and not of what was asked for."""
    return isinstance(error, _AWAY)


def not_told(error: MemsyncError) -> bool:
    """Whether it says of a write that nobody knows what became of it."""
    return error.data.get("reason") == "unconfirmed"


def is_for_files(error: MemsyncError, is_write: bool) -> bool:
    """Whether DeerFlow's own code may do on the files what the agent did not. Never a write that may have been done,
    and nothing that an agent has refused: it knows the volume, and may have refused so that nobody touches it."""
    if isinstance(error, (NoAgentError, BadReplyError)):
        return not is_write or (isinstance(error, NoAgentError) and not error.may_be_done)
    return isinstance(error, _BEYOND_IT) and not not_told(error)


def as_deerflow(error: MemsyncError, deerflow: DeerFlow) -> Exception:
    """The exception that DeerFlow's callers know."""
    text = str(error)
    if isinstance(error, ConflictError):
        return _conflict(error, text, deerflow)
    if isinstance(error, CorruptError) or (error.path or "").endswith(_JOURNAL):  # one that cannot be honoured
        return deerflow.Corruption(text)
    if isinstance(error, _WRONG_ARGUMENT):
        return ValueError(error.message)
    if isinstance(error, NotFoundError):
        return KeyError(error.message)
    if isinstance(error, StorageFullError):
        return OSError(errno.ENOSPC, text)
    if isinstance(error, DeniedError):
        return PermissionError(errno.EACCES, text)
    if isinstance(error, (NoAgentError, RequestTimeoutError, BusyError)):
        return TimeoutError(errno.ETIMEDOUT, text)
    if isinstance(error, (UnavailableError, TooLargeError, ClosedError)):
        return OSError(errno.EIO, text)
    return deerflow.Error(text)


def _conflict(error: ConflictError, text: str, deerflow: DeerFlow) -> Exception:
    if error.reason in ("manifest_revision", "overtaken"):  # reading again and repeating cures both
        return deerflow.ManifestConflict(text)
    if error.reason == "fact_revision":
        is_new = error.expected is None
        return deerflow.FactConflict(f"{text}: the fact must not already exist" if is_new else text)
    if error.reason == "migration":  # no repeating cures this or the next
        return deerflow.Corruption(f"migration conflict: {text}")
    if error.reason == "newer_layout":
        return deerflow.Corruption(text)
    return deerflow.Conflict(text)
