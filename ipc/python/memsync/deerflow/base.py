"""Who does what DeerFlow asks its storage for: the agent, or DeerFlow's own code."""

from __future__ import annotations

from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Callable, ClassVar, Optional, TypeVar

from ..client import Client
from ..errors import MemsyncError, UnavailableError
from .agent import VolumeAgent
from .failures import as_deerflow, is_for_files, not_told
from .settings import is_user_required, write_timeout

if TYPE_CHECKING:
    from .seam import DeerFlow

T = TypeVar("T")
# DeerFlow's own code waits for nothing but a slow volume, so a Gateway should not wait long before it takes that one.
READ_TIMEOUT = 5.0
PATIENCE = 1.0
PAUSE = 0.05
# How often what can be done on a newer state of a memory is begun, as in DeerFlow.
TRIES = 3


class StorageBase:
    """The agent of a volume, and what there is without it."""

    deerflow: ClassVar[DeerFlow]

    def __init__(self, config: Any, retrieval: Any = None) -> None:
        """`retrieval` is taken, as DeerFlow's own storage does, and not used."""
        self._config = config
        self._agent = VolumeAgent(config, READ_TIMEOUT)
        self._write_timeout = write_timeout(config)

    def close(self) -> None:
        """Closes the connections."""
        self._agent.close()

    def _do(self, by_agent: Callable[[Client], T], by_files: Callable[[Any], Any], is_write: bool = False) -> T:
        """By the agent, or else by DeerFlow's own code, or it fails with an error of DeerFlow's."""
        try:
            return self._by_agent(by_agent, monotonic() + PATIENCE)
        except MemsyncError as error:
            self._agent.failed(error)
            if not is_for_files(error, is_write):
                raise as_deerflow(error, self.deerflow) from error
        done: T = by_files(self._files())
        return done

    def _by_agent(self, by_agent: Callable[[Client], T], until: float) -> T:
        """An agent that ends refuses everything for a moment, and is away then, or there again."""
        while True:
            try:
                return by_agent(self._agent.client())
            except UnavailableError as error:
                if error.path is not None or not_told(error) or monotonic() >= until:
                    raise
            sleep(PAUSE)

    def _files(self) -> Any:
        """DeerFlow's own storage, made anew: it would keep what it has read."""
        self._agent.require_volume()
        return self.deerflow.Files(self._config)

    def _get_memory_file_path(self, agent_name: Optional[str] = None, *, user_id: Optional[str] = None) -> Any:
        """Where the manifest lies. What belongs to DeerFlow's storage asks for it by this name."""
        return self._files()._get_memory_file_path(agent_name, user_id=user_id)

    def _check_user(self, user_id: Optional[str]) -> None:
        if user_id is None and is_user_required(self._config):
            raise ValueError("user_id is required (strict_user_scope)")

    @staticmethod
    def _check_agent(agent_name: Optional[str]) -> str:
        if agent_name is None:
            raise ValueError("agent_name is required for facts")
        return agent_name
