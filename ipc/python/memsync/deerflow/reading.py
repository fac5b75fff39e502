"""Memories, facts and summaries as they are now."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Tuple

from ..client import Client
from ..errors import NotFoundError, UnavailableError
from ..events import DEFAULT_AGENT
from ..results import Memory, Scope
from .base import StorageBase
from .documents import SECTIONS, facts_of, memory_document, told


class Reading(StorageBase):
    """What only reads, but for memories of an earlier layout."""

    def load(self, agent_name: Optional[str] = None, *, user_id: Optional[str] = None) -> Dict[str, Any]:
        """The memory as it is now; without an agent's name, the summaries alone."""
        self._check_user(user_id)
        return self._do(lambda client: self._read(client, agent_name, user_id, is_anew=False),
                        lambda files: files.load(agent_name, user_id=user_id))

    def reload(self, agent_name: Optional[str] = None, *, user_id: Optional[str] = None) -> Dict[str, Any]:
        """The same, after every file of it was read anew, also those that were changed by hand."""
        self._check_user(user_id)
        return self._do(lambda client: self._read(client, agent_name, user_id, is_anew=True),
                        lambda files: files.reload(agent_name, user_id=user_id))

    def _read(self, client: Client, agent_name: Optional[str], user_id: Optional[str], is_anew: bool) -> Dict[str, Any]:
        memory, scope = self._ask(client, agent_name, user_id, is_anew)
        if scope.unmigrated:  # the agent migrates before a write, DeerFlow before a read
            self._migrate(client, agent_name, user_id)
            memory, scope = self._ask(client, agent_name, user_id, is_anew)
        if scope.state == "unverified":  # what was known last is for searches; this tells what is wrong
            memory, scope = self._ask(client, agent_name, user_id, is_anew=True)
            if scope.state == "unverified":
                raise UnavailableError(scope.reason or "the volume cannot be read", {"path": scope.path})
        if scope.broken and agent_name is not None:
            self._refuse_broken(client, agent_name, user_id)
        document = memory_document(memory.raw, self.deerflow.empty_memory())
        if agent_name is None:
            document["facts"] = []
        return document

    @staticmethod
    def _ask(client: Client, agent_name: Optional[str], user_id: Optional[str],
             is_anew: bool) -> Tuple[Memory, Scope]:
        if is_anew:
            read = client.reload_memory(user_id=user_id, agent_name=agent_name)
            return read.memory, read.scope
        if agent_name is None:
            told = client.get_summaries(user_id=user_id)
            return told.summaries, told.scope
        read = client.get_memory(user_id=user_id, agent_name=agent_name)
        return read.memory, read.scope

    def _refuse_broken(self, client: Client, agent_name: str, user_id: Optional[str]) -> None:
        """DeerFlow serves all facts of an agent or none."""
        broken = client.list_facts(user_id=user_id, agent_name=agent_name, limit=1).broken
        if broken:
            raise self.deerflow.Corruption("; ".join(map(told, broken)))

    def _migrate(self, client: Client, agent_name: Optional[str], user_id: Optional[str]) -> None:
        """An old list goes to the default bucket, whoever reads it; an agent's own old file to that agent."""
        client.migrate(user_id=user_id, timeout=self._write_timeout)
        if agent_name not in (None, DEFAULT_AGENT):
            client.migrate(user_id=user_id, agent_name=agent_name, timeout=self._write_timeout)

    def get_fact(self, fact_id: str, *, user_id: Optional[str] = None,
                 agent_name: Optional[str] = None) -> Optional[Dict[str, Any]]:
        """A fact; None: there is none of that id."""
        self._check_user(user_id)
        name = self._check_agent(agent_name)
        return self._do(lambda client: self._get_fact(client, fact_id, name, user_id),
                        lambda files: files.get_fact(fact_id, user_id=user_id, agent_name=name))

    def _get_fact(self, client: Client, fact_id: str, agent_name: str,
                  user_id: Optional[str]) -> Optional[Dict[str, Any]]:
        try:
            found = client.get_fact(fact_id, user_id=user_id, agent_name=agent_name).fact
            return facts_of([found])[0]
        except NotFoundError:
            pass
        broken = client.list_facts(user_id=user_id, agent_name=agent_name, limit=1, freshness="local").broken
        for each in broken:
            if each.path.endswith(f"/{fact_id}.md"):
                raise self.deerflow.Corruption(told(each))
        return None

    def list_facts(self, *, user_id: Optional[str] = None, agent_name: Optional[str] = None,
                   filters: Optional[Mapping[str, Any]] = None, cursor: int = 0,
                   limit: int = 100) -> List[Dict[str, Any]]:
        """Facts in the order of their ids that have members of such values."""
        if cursor < 0 or limit < 1:
            raise ValueError("cursor is at least 0, and limit at least 1")
        facts = self.load(agent_name, user_id=user_id)["facts"]
        wanted = (filters or {}).items()
        found = [fact for fact in facts if all(name in fact and fact[name] == value for name, value in wanted)]
        return found[cursor:cursor + limit]

    def get_summaries(self, *, user_id: Optional[str] = None, agent_name: Optional[str] = None) -> Dict[str, Any]:
        """A user's summaries, which all agents have in common."""
        document = self.load(user_id=user_id)
        return {name: document[name] for name in (*SECTIONS, "revision")}
