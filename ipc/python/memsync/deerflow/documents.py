"""A memory as DeerFlow's callers expect it."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence

from ..results import BrokenFile, Fact
from ..values import from_wire

SECTIONS = ("user", "history")


def facts_of(facts: Sequence[Fact]) -> List[Dict[str, Any]]:
    """Documents of their own, with dates and the like as Python has them."""
    return [from_wire(fact.raw) for fact in facts]


def told(broken: BrokenFile) -> str:
    """Of a file that keeps an agent's facts from being served."""
    return f"{broken.path}: {broken.problem}"


def memory_document(raw: Mapping[str, Any], empty: Mapping[str, Any]) -> Dict[str, Any]:
    """A memory whose summaries are all there. `empty`: one of this DeerFlow's, without anything in it."""
    document: Dict[str, Any] = from_wire(dict(raw))
    for name in SECTIONS:
        document[name] = _sections(document.get(name), empty[name])
    document.setdefault("facts", [])
    return document


def _sections(given: Any, empty: Mapping[str, Any]) -> Dict[str, Any]:
    sections = {name: dict(section) for name, section in empty.items()}
    for name, section in (given if isinstance(given, dict) else {}).items():
        sections[name] = _section(section) if name in empty else section
    return sections


def _section(given: Any) -> Dict[str, Any]:
    section = dict(given) if isinstance(given, dict) else {}
    for name in ("summary", "updatedAt"):
        if not isinstance(section.get(name), str):
            section[name] = ""
    return section
