"""Notes on use and evictions, which are never a part of a memory.

The protocol has no words for them. DeerFlow's own code keeps them in their files, under the user's lock.
"""

from __future__ import annotations

from typing import Any, Dict, List

from .base import StorageBase


class SideData(StorageBase):
    """What DeerFlow notes beside facts."""

    def get_fact_usage(self, **scope: Any) -> Dict[str, Dict[str, Any]]:
        """How often facts were found."""
        usage: Dict[str, Dict[str, Any]] = self._files().get_fact_usage(**scope)
        return usage

    def record_fact_accesses(self, fact_ids: List[str], **options: Any) -> None:
        """Facts were found."""
        self._files().record_fact_accesses(fact_ids, **options)

    def record_capacity_eviction(self, decision: Any, **options: Any) -> None:
        """Facts were evicted."""
        self._files().record_capacity_eviction(decision, **options)

    def clear_fact_metadata(self, **options: Any) -> None:
        """Drops the notes on facts, or on all of an agent's."""
        self._files().clear_fact_metadata(**options)
