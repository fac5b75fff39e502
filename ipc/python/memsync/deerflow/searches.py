"""A search of DeerFlow's, done by the agent."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence

from ..client import Client
from ..values import from_wire
from .scopes import Scope, of_facts

# What DeerFlow's own index understands. All are the same here.
MODES = frozenset(("hybrid", "fts5", "lexical"))
SCOPES_MAX = 64


def search(client: Client, query: str, scopes: Sequence[Scope], top_k: int, mode: str,
           filters: Optional[Mapping[str, Any]]) -> List[Dict[str, Any]]:
    """{"fact", "score", "matchType", "retrieval"} each, best first: with every change that was complete before."""
    if mode not in MODES:
        raise ValueError(f"no mode of searching: {mode!r}")
    category = (filters or {}).get("category")
    if category is not None and not isinstance(category, str):
        raise ValueError(f"a category is text: {category!r}")
    asked = list(of_facts(scopes))
    if not query.strip() or top_k <= 0:
        return []
    found: List[Dict[str, Any]] = []
    for start in range(0, len(asked), SCOPES_MAX):
        answer = client.search_scopes(query, asked[start:start + SCOPES_MAX], top_k=top_k, filters=filters or None)
        found += (hit.raw for hit in answer.hits)
    if len(asked) > SCOPES_MAX:  # scores of several answers do not compare quite
        found.sort(key=_score, reverse=True)
    return [from_wire(hit) for hit in found[:top_k]]


def _score(hit: Mapping[str, Any]) -> float:
    return float(hit["score"])
