"""The first way in: DeerFlow keeps and writes the memories, and the agent searches them."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..errors import MemsyncError
from .agent import VolumeAgent
from .rebuild import reread_differing, reread_edited
from .scopes import Scope, of_facts
from .searches import search

# DeerFlow's own search waits for nothing, so a Gateway should not wait long before it takes that one.
TIMEOUT = 5.0
# A write waits for its hint.
HINT_TIMEOUT = 1.0


class AgentRetrieval:
    """What DeerFlow's storage tells of changes and asks for searches.

    It holds no index, so nothing that it is told can be missed: the agent looks at the volume for every search. Where
    no agent serves the volume, searches and rebuilds raise a MemsyncError, and DeerFlow searches for substrings.
    """

    def __init__(self, config: Any) -> None:
        self._agent = VolumeAgent(config, TIMEOUT)

    def upsert(self, fact: Mapping[str, Any], *, scope: Scope, path: str) -> None:
        """A fact was written: the agent may look, before somebody searches."""
        self._hint([scope])

    def remove(self, fact_id: str, *, scope: Scope) -> None:
        """A fact was deleted."""
        self._hint([scope])

    def clear(self, *, scopes: Optional[Sequence[Scope]] = None) -> None:
        """The index is the agent's, and follows the volume: it is not emptied."""
        self._hint(scopes)

    def _hint(self, scopes: Optional[Sequence[Scope]]) -> None:
        """The write stands, whatever becomes of this. None: about all scopes."""
        asked = None if scopes is None else list(of_facts(scopes))
        try:
            client = self._agent.client(HINT_TIMEOUT)
            if asked is None:
                client.refresh_all(timeout=HINT_TIMEOUT)
            for scope in asked or ():
                client.refresh(wait=False, timeout=HINT_TIMEOUT, **scope)
        except MemsyncError as error:
            self._agent.failed(error)

    def search(self, query: str, *, scopes: Sequence[Scope], top_k: int, mode: str,
               filters: Optional[Mapping[str, Any]]) -> List[Dict[str, Any]]:
        """The facts that fit, best first."""
        try:
            return search(self._agent.client(), query, scopes, top_k, mode, filters)
        except MemsyncError as error:
            self._agent.failed(error)
            raise

    def rebuild(self, records: Sequence[Tuple[Dict[str, Any], Scope, str]], *,
                scopes: Optional[Sequence[Scope]]) -> None:
        """DeerFlow has read these facts, of these scopes or of all. Where the index holds others, the agent reads all
        files again."""
        try:
            client = self._agent.client()
            if scopes is None:
                reread_differing(client, records)
            else:
                reread_edited(client, records, scopes)
        except MemsyncError as error:
            self._agent.failed(error)
            raise

    def close(self) -> None:
        """Closes the connections."""
        self._agent.close()


def retrieval_adapter(config: Any) -> AgentRetrieval:
    """For `retrieval_adapter` of a Gateway's configuration. Nothing is connected yet."""
    return AgentRetrieval(config)
