"""Searches, and the index that is not there."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Set

from ..client import Client
from .base import StorageBase
from .rebuild import known_scopes, reread
from .scopes import Scope, of_facts
from .searches import search


class Searching(StorageBase):
    """What DeerFlow asks of its index."""

    def search_facts(self, query: str, *, scopes: Sequence[Scope], top_k: int = 10, mode: str = "hybrid",
                     filters: Optional[Mapping[str, Any]] = None) -> List[Dict[str, Any]]:
        """{"fact", "score", "matchType", "retrieval"} each, best first."""
        return self._do(lambda client: search(client, query, scopes, top_k, mode, filters),
                        lambda files: files.search_facts(query, scopes=scopes, top_k=top_k, mode=mode,
                                                         filters=filters))

    def rebuild_index(self, scopes: Optional[Sequence[Scope]] = None) -> Dict[str, Any]:
        """Has every file of these scopes read again; without scopes, every user compared."""
        return self._do(lambda client: self._rebuild(client, scopes), lambda files: files.rebuild_index(scopes))

    @staticmethod
    def _rebuild(client: Client, scopes: Optional[Sequence[Scope]]) -> Dict[str, Any]:
        if scopes is None:
            client.refresh_all()
            known = list(known_scopes(client))
            indexed, failed = sum(each.facts for each in known), sum(each.broken for each in known)
        else:
            done = reread(client, of_facts(scopes))
            indexed, failed = sum(each.facts for each in done), sum(each.broken for each in done)
        return {"supported": True, "indexed": indexed, "failed": failed}

    def notify_fact_upsert(self, fact: Mapping[str, Any], *, path: str = "") -> bool:
        """There is nobody to tell: the agent looks at the volume for every search."""
        return False

    def notify_fact_remove(self, fact_id: str, *, scope: Scope) -> bool:
        """As above."""
        return False

    @staticmethod
    def retrieval_status() -> Dict[str, Any]:
        """That searches have an index."""
        return {"configured": True, "mode": "external"}

    def capabilities(self) -> Set[str]:
        """What DeerFlow may ask for."""
        own = {"file", "markdown-facts", "global-summary-json", "revision", "journal", "fact-repository",
               "substring-fallback", "retrieval"}
        return own if self.deerflow.clear_capability is None else own | {self.deerflow.clear_capability}
