"""Changes of memories."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional

from ..client import Client
from .agent import logger
from .base import TRIES
from .changes import Changes, replacement
from .commits import Commits
from .documents import SECTIONS, memory_document


class Writing(Commits):
    """What leads to a commit, or to several."""

    def save(self, memory_data: Dict[str, Any], agent_name: Optional[str] = None, *, user_id: Optional[str] = None,
             expected_revision: Optional[int] = None) -> bool:
        """Makes an agent's facts those of a document; without an agent's name, replaces the summaries that it names.
        False, and a line in the log, where that cannot be done."""
        try:
            self._save(memory_data, agent_name, user_id, expected_revision)
        except self.deerflow.Conflict:
            raise
        except (OSError, ValueError, self.deerflow.Corruption) as error:
            logger.error("the memory of %r for %r was not saved: %s", user_id, agent_name, error)
            return False
        return True

    def _save(self, document: Dict[str, Any], agent_name: Optional[str], user_id: Optional[str],
              expected_revision: Optional[int]) -> None:
        if not isinstance(document, dict):
            raise ValueError("memory_data is no object")
        if agent_name is None:
            if document.get("facts"):
                raise ValueError("agent_name is required for facts")
            self.apply_changes({"summaries": {name: document.get(name, {}) for name in SECTIONS}}, user_id=user_id,
                               expected_manifest_revision=expected_revision)
            return
        if "facts" not in document:
            raise ValueError("memory_data.facts is required to replace an agent's facts")
        for attempt in range(1, TRIES + 1):
            stored = self.load(agent_name, user_id=user_id)
            revision = stored["revision"] if expected_revision is None else expected_revision
            try:
                self.apply_changes(replacement(document, stored), user_id=user_id, agent_name=agent_name,
                                   expected_manifest_revision=revision)
                return
            except self.deerflow.ManifestConflict:
                if expected_revision is not None or attempt == TRIES:
                    raise

    def upsert_fact(self, fact: Dict[str, Any], *, user_id: Optional[str] = None, agent_name: Optional[str] = None,
                    expected_manifest_revision: Optional[int] = None,
                    expected_fact_revision: Optional[int] = None) -> Dict[str, Any]:
        """Writes a fact that is at that revision, or that is not there if none is named."""
        incoming, = Changes({"upserts": [fact]}).upserts
        return self.apply_changes({"upserts": [incoming], "upsertRevisions": {incoming["id"]: expected_fact_revision}},
                                  user_id=user_id, agent_name=self._check_agent(agent_name),
                                  expected_manifest_revision=expected_manifest_revision, allow_manifest_rebase=True)

    def delete_fact(self, fact_id: str, *, user_id: Optional[str] = None, agent_name: Optional[str] = None,
                    expected_manifest_revision: Optional[int] = None,
                    expected_fact_revision: Optional[int] = None) -> Dict[str, Any]:
        """Deletes a fact, at that revision if one is named."""
        revisions = None if expected_fact_revision is None else {fact_id: expected_fact_revision}
        return self.apply_changes({"deletes": [fact_id], "deleteRevisions": revisions}, user_id=user_id,
                                  agent_name=self._check_agent(agent_name),
                                  expected_manifest_revision=expected_manifest_revision, allow_manifest_rebase=True)

    def update_summaries(self, summaries: Mapping[str, Any], *, user_id: Optional[str] = None,
                         agent_name: Optional[str] = None, expected_revision: Optional[int] = None) -> Dict[str, Any]:
        """Replaces those that are named; the summaries as they are then."""
        expected = self.load(user_id=user_id)["revision"] if expected_revision is None else expected_revision
        document = {name: summaries[name] for name in SECTIONS if name in summaries}
        if not self.save(document, user_id=user_id, expected_revision=expected):
            raise self.deerflow.Error("the summaries could not be written")
        return self.load(user_id=user_id)

    def clear_all(self, *, user_id: Optional[str] = None) -> Dict[str, Any]:
        """Clears the facts of all of a user's agents, and the summaries."""
        self._check_user(user_id)
        if self.deerflow.clear_capability is not None:  # it is to be counted, which the protocol has no word for
            cleared: Dict[str, Any] = self._files().clear_all(user_id=user_id)
            return cleared
        return self._do(lambda client: self._clear_all(client, user_id),
                        lambda files: files.clear_all(user_id=user_id), is_write=True)

    def _clear_all(self, client: Client, user_id: Optional[str]) -> Dict[str, Any]:
        memory = client.clear_memory(user_id=user_id, all=True, timeout=self._write_timeout).memory
        return memory_document(memory.raw if memory else {}, self.deerflow.empty_memory())

    def migrate(self, *, user_id: Optional[str] = None, agent_name: Optional[str] = None) -> Dict[str, Any]:
        """Brings what is left of earlier layouts into the present one."""
        self._check_user(user_id)
        name = self._check_agent(agent_name)
        return self._do(lambda client: self._migrate_told(client, name, user_id),
                        lambda files: files.migrate(user_id=user_id, agent_name=name), is_write=True)

    def _migrate_told(self, client: Client, agent_name: str, user_id: Optional[str]) -> Dict[str, Any]:
        done = client.migrate(user_id=user_id, agent_name=agent_name, timeout=self._write_timeout)
        return {"migrated": done.migrated, "fromVersion": done.from_version, "toVersion": done.to_version,
                "revision": done.revision}
