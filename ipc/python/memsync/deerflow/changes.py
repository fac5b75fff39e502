"""DeerFlow's change set, as the agent takes it."""

from __future__ import annotations

import uuid
from typing import Any, Dict, List, Mapping, Optional


class Changes:
    """What is to be written and deleted, each with the revision that is expected. ValueError: it is no change set. What
    is in it the agent looks at."""

    def __init__(self, change_set: Mapping[str, Any]) -> None:
        self.upserts = [_with_id(fact) for fact in _list(change_set, "upserts")]
        self.deletes = [str(fact_id) for fact_id in _list(change_set, "deletes")]
        self.summaries: Optional[Dict[str, Any]] = _object(change_set, "summaries")
        self.revisions: Dict[str, Optional[int]] = {}
        given = _object(change_set, "upsertRevisions") or {}
        for fact in self.upserts:
            fact_id = fact["id"]
            self.revisions[fact_id] = given[fact_id] if fact_id in given else fact.get("revision")
        given = _object(change_set, "deleteRevisions") or {}
        self.revisions.update((fact_id, given[fact_id]) for fact_id in self.deletes if fact_id in given)

    @property
    def has_facts(self) -> bool:
        """Whether it is about any."""
        return bool(self.upserts or self.deletes)

    @property
    def is_safe_to_rebase(self) -> bool:
        """Whether each fact's revision tells if another state of the memory is one that it can be applied to."""
        return self.has_facts and self.summaries is None and all(each in self.revisions for each in self.deletes)


def replacement(document: Mapping[str, Any], stored: Mapping[str, Any]) -> Dict[str, Any]:
    """The change set that makes an agent's facts those of a document: others are deleted, as they were read."""
    revisions: Dict[str, int] = {fact["id"]: fact["revision"] for fact in stored["facts"]}
    upserts = [_with_id(fact) for fact in _list(document, "facts")]
    # A fact that is there must be at the revision that the document has, or at its first one.
    expected = {fact["id"]: fact.get("revision", 1) if fact["id"] in revisions else None for fact in upserts}
    gone = sorted(revisions.keys() - expected.keys())
    return {"upserts": upserts, "upsertRevisions": expected,
            "deletes": gone, "deleteRevisions": {fact_id: revisions[fact_id] for fact_id in gone}}


def _list(given: Mapping[str, Any], name: str) -> List[Any]:
    value = given.get(name, [])
    if not isinstance(value, list):
        raise ValueError(f"{name} is no list")
    return value


def _object(given: Mapping[str, Any], name: str) -> Optional[Dict[str, Any]]:
    value = given.get(name)
    if value is not None and not isinstance(value, dict):
        raise ValueError(f"{name} is no object")
    return value


def _with_id(fact: Any) -> Dict[str, Any]:
    if not isinstance(fact, dict):
        raise ValueError("a fact is an object")
    return {**fact, "id": str(fact.get("id") or f"fact_{uuid.uuid4().hex}")}
