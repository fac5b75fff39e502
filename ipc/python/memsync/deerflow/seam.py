"""The one place that imports anything of DeerFlow: the module that its memory backend's storage stands in.

DeerFlow takes a class for `storage_class` only if it is derived from that module's own base class, and tells errors
apart by that module's exceptions. Where no agent serves the volume, that module's own storage does on the same files.
"""

from __future__ import annotations

import functools
import importlib
import types
from typing import Any, Dict, Optional, Type

from .storage import AgentStorage

MODULE = "deerflow.agents.memory.backends.deermem.deermem.core.storage"


class DeerFlow:
    """What is used of that module, under names of our own."""

    def __init__(self, module: types.ModuleType) -> None:
        self.Base: Any = self._needed(module, "MemoryStorage")
        self.Files: Any = self._needed(module, "FileMemoryStorage")
        self.Error: Type[Exception] = self._needed(module, "MemoryStorageError")
        self.Corruption: Type[Exception] = self._needed(module, "MemoryStorageCorruption")
        self.Conflict: Type[Exception] = self._needed(module, "MemoryRevisionConflict")
        self.ManifestConflict: Type[Exception] = self._needed(module, "MemoryManifestRevisionConflict")
        self.FactConflict: Type[Exception] = self._needed(module, "MemoryFactRevisionConflict")
        self.empty_memory: Any = self._needed(module, "create_empty_memory")
        # Of versions that keep what was cleared from coming back; all of these or none.
        self.clear_capability: Optional[str] = getattr(module, "CLEAR_GENERATION_CAPABILITY", None)
        self.ClearConflict: Any = getattr(module, "MemoryClearGenerationConflict", None)
        self.clear_generation: Any = getattr(module, "scope_clear_generation", None)
        self.is_cleared_since: Any = getattr(module, "is_stale_clear_generation", None)

    @staticmethod
    def _needed(module: types.ModuleType, name: str) -> Any:
        try:
            return getattr(module, name)
        except AttributeError:
            raise ImportError(f"{module.__name__} has no {name}: this version of DeerFlow keeps its memory in another "
                              "way") from None


@functools.lru_cache(maxsize=1)
def agent_memory_storage() -> type:
    """The class for `storage_class`. ImportError: DeerFlow is not there."""
    deerflow = DeerFlow(importlib.import_module(MODULE))

    def fill(namespace: Dict[str, Any]) -> None:
        namespace.update(__module__=__package__, __doc__=AgentStorage.__doc__, deerflow=deerflow)

    return types.new_class("AgentMemoryStorage", (AgentStorage, deerflow.Base), exec_body=fill)
