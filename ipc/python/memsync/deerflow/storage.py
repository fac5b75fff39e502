"""The second way in: DeerFlow's storage of memories, by the agent."""

from __future__ import annotations

from .searching import Searching
from .side_data import SideData
from .writing import Writing


class AgentStorage(Writing, Searching, SideData):
    """Memories that the agent of this node reads, writes and searches.

    It keeps nothing: each read is the volume's state of that moment, and each write is durable when it returns. Where
    no agent serves the volume, DeerFlow's own storage does the same on the same files, without an index and for that
    call alone.
    """
