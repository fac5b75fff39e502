"""A commit of DeerFlow's."""

from __future__ import annotations

import functools
from typing import Any, Dict, Optional, Tuple

from ..client import Client
from ..errors import ConflictError
from ..results import Applied
from .base import TRIES
from .changes import Changes
from .documents import facts_of
from .reading import Reading

_LAYOUT = "2.0"


class Commits(Reading):
    """Several changes at once, all of them or none."""

    def apply_changes(self, change_set: Dict[str, Any], *, user_id: Optional[str] = None,
                      agent_name: Optional[str] = None, expected_manifest_revision: Optional[int] = None,
                      allow_manifest_rebase: bool = False,
                      expected_clear_generation: Optional[Tuple[int, int]] = None,
                      bump_clear_generation: Optional[str] = None) -> Dict[str, Any]:
        """Writes and deletes facts of one agent, and summaries, in one commit; what was changed."""
        self._check_user(user_id)
        changes = Changes(change_set)
        if changes.has_facts:
            self._check_agent(agent_name)
        options: Dict[str, Any] = {
            "user_id": user_id, "agent_name": agent_name, "expected_manifest_revision": expected_manifest_revision,
            "allow_manifest_rebase": allow_manifest_rebase}
        if expected_clear_generation is not None:
            options["expected_clear_generation"] = expected_clear_generation
        if bump_clear_generation is not None:
            options["bump_clear_generation"] = bump_clear_generation
        if bump_clear_generation is not None:  # the protocol has no word for it
            return self._apply_by_files(change_set, options, self._files())
        if expected_clear_generation is None:
            by_agent = functools.partial(self._apply, changes, options, expected_manifest_revision,
                                         allow_manifest_rebase)
        else:
            by_agent = functools.partial(self._apply_unless_cleared, changes, options, expected_clear_generation)
        return self._do(by_agent, functools.partial(self._apply_by_files, change_set, options), is_write=True)

    @staticmethod
    def _apply_by_files(change_set: Dict[str, Any], options: Dict[str, Any], files: Any) -> Dict[str, Any]:
        applied: Dict[str, Any] = files.apply_changes(change_set, **options)
        return applied

    def _apply(self, changes: Changes, options: Dict[str, Any], expected_revision: Optional[int], allow_rebase: bool,
               client: Client) -> Dict[str, Any]:
        applied = client.apply_changes(
            user_id=options["user_id"], agent_name=options["agent_name"], upserts=changes.upserts,
            deletes=changes.deletes, summaries=changes.summaries, expected_revision=expected_revision,
            expected_fact_revisions=changes.revisions or None, allow_rebase=allow_rebase,
            timeout=self._write_timeout)
        if not applied.changed and not applied.last_updated:
            # There is no manifest yet. DeerFlow begins one with the first write, be it empty.
            return self._apply_by_files({}, options, self._files())
        return self._applied(applied)

    @staticmethod
    def _applied(applied: Applied) -> Dict[str, Any]:
        return {"complete": False, "version": _LAYOUT, "revision": applied.revision,
                "lastUpdated": applied.last_updated, "upsertedFacts": facts_of(applied.upserted),
                "deletedFactIds": list(applied.deleted)}

    def _apply_unless_cleared(self, changes: Changes, options: Dict[str, Any], generation: Tuple[int, int],
                              client: Client) -> Dict[str, Any]:
        """A commit whose revision has not changed since its generation was read was not cleared in between."""
        expected, may_rebase = options["expected_manifest_revision"], options["allow_manifest_rebase"]
        for attempt in range(1, TRIES + 1):
            document = client.get_memory(user_id=options["user_id"], agent_name=options["agent_name"]).memory
            current = self.deerflow.clear_generation(document.raw, options["agent_name"])
            if self.deerflow.is_cleared_since(generation, current):
                raise self.deerflow.ClearConflict(f"the memory was cleared: generation {current}, not {generation}")
            is_free = expected is None or (may_rebase and changes.is_safe_to_rebase)
            try:
                return self._apply(changes, options, document.revision if is_free else expected, False, client)
            except ConflictError as error:
                if error.reason != "manifest_revision" or not is_free or attempt == TRIES:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def peek_clear_generation(self, agent_name: Optional[str] = None, *,
                              user_id: Optional[str] = None) -> Tuple[int, int]:
        """How often the user's memory and the agent's facts were cleared."""
        generation: Tuple[int, int] = self.deerflow.clear_generation(self.load(user_id=user_id), agent_name)
        return generation
