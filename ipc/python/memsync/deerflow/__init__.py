"""DeerFlow on memsyncd: two ways in, each one line of a Gateway's configuration.

    memory:
      backend_config:
        retrieval_adapter: memsync.deerflow.retrieval_adapter     # searches go to the agent of this node
        storage_class: memsync.deerflow.AgentMemoryStorage        # everything does

Nothing of DeerFlow is imported before `AgentMemoryStorage` is asked for. What is promised stands in docs/deerflow.md of
memsyncd.
"""

from __future__ import annotations

from typing import Any

from .retrieval import AgentRetrieval, retrieval_adapter

# AgentMemoryStorage is missing: `import *` would ask for it.
__all__ = ["AgentRetrieval", "retrieval_adapter"]


def __getattr__(name: str) -> Any:
    if name == "AgentMemoryStorage":
        from .seam import agent_memory_storage
        return agent_memory_storage()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
