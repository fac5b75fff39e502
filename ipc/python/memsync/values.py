"""Values that JSON lacks, as docs/protocol.md writes them: objects with one member whose name begins with $."""

from __future__ import annotations

import base64
import datetime
from typing import Any, Callable, Dict

from .results import Result


def to_wire(value: object) -> object:
    """What json.dumps() does not know by itself: for its parameter `default`."""
    if isinstance(value, Result):
        return value.raw
    if isinstance(value, datetime.datetime):
        return {"$datetime": value.isoformat()}
    if isinstance(value, datetime.date):
        return {"$date": value.isoformat()}
    if isinstance(value, (bytes, bytearray)):
        return {"$binary": base64.b64encode(value).decode()}
    if isinstance(value, (set, frozenset)):
        return {"$set": list(value)}
    raise TypeError(f"a {type(value).__name__} cannot be sent to the agent")


def _datetime(text: str) -> datetime.datetime:
    # Before Python 3.11 fromisoformat() does not know the Z.
    return datetime.datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)


def _set(members: Any) -> Any:
    try:
        return set(members)
    except TypeError:
        return members  # of what Python cannot put into a set


def _pairs(pairs: Any) -> Any:
    try:
        return dict(pairs)
    except TypeError:
        return pairs


_READERS: Dict[str, Callable[[Any], Any]] = {
    "$float": float, "$date": datetime.date.fromisoformat, "$datetime": _datetime,
    "$binary": base64.b64decode, "$set": _set, "$pairs": _pairs,
}


def from_wire(value: Any) -> Any:
    """A copy of a value of an answer, with Python's own values in place of such objects.

    Answers are not converted unasked: hardly a fact has such members, and a search would pay for looking.
    """
    if isinstance(value, list):
        return [from_wire(each) for each in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        (name, inner), = value.items()
        if name in _READERS:
            return _READERS[name](from_wire(inner))
    return {name: from_wire(inner) for name, inner in value.items()}
