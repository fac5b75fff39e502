"""The agent of this node, as long as it serves the volume that the Gateway is configured for."""

from __future__ import annotations

import logging
import time
from typing import Any, Optional

from ..client import Client
from ..errors import MemsyncError, NoAgentError
from .failures import is_away
from .settings import storage_root
from .volume import Identity, identify

logger = logging.getLogger("memsync.deerflow")

# An agent may be replaced by one of another volume without a call in between that fails.
CHECK_EVERY = 60.0


class OtherVolumeError(NoAgentError):
    """An agent answers, but not for the Gateway's volume. Nothing was asked of it."""

    kind = "other_volume"


class VolumeAgent:
    """A client for the agent of one volume. Used by any number of threads, and by children after a fork."""

    def __init__(self, config: Any, timeout: float) -> None:
        self.root = storage_root(config)
        self._client = Client(timeout=timeout)
        self._checked_at: Optional[float] = None
        self._identity: Optional[Identity] = None
        self._is_away = False

    @property
    def endpoint(self) -> str:
        """Where the agent is looked for."""
        return self._client.endpoint

    def client(self, timeout: Optional[float] = None) -> Client:
        """For calls about the Gateway's volume. NoAgentError: there is no agent for it."""
        checked_at = self._checked_at
        if checked_at is None or time.monotonic() >= checked_at + CHECK_EVERY:
            self._check(timeout)
        return self._client

    def _check(self, timeout: Optional[float]) -> None:
        try:
            self._client.ping(timeout=timeout)
            told = self._client.status(timeout=timeout).raw.get("volume") or {}
        except NoAgentError as error:
            raise NoAgentError(error.message) from error  # of what is to be asked, nothing was
        identity = identify(self.root)
        if identity is None or not identity.is_told_as(told.get("identity", "")):
            raise OtherVolumeError(f"the agent at {self.endpoint} serves {told.get('path')}, which is another volume "
                                   f"than {self.root}")
        self._identity = identity
        self._checked_at = time.monotonic()
        if self._is_away:
            self._is_away = False
            logger.info("the agent at %s serves %s again", self.endpoint, self.root)

    def failed(self, error: MemsyncError) -> None:
        """To be told of errors. After one that says that there is no agent it is looked for anew before the next call;
        the first of them is logged."""
        if not is_away(error):
            return
        self._checked_at = None
        if not self._is_away:
            self._is_away = True
            level = logging.ERROR if isinstance(error, OtherVolumeError) else logging.WARNING
            logger.log(level, "no agent serves %s, DeerFlow does without: %s", self.root, error)

    def require_volume(self) -> None:
        """OSError where another directory than the agent's volume lies at the root by now: an empty mount point would
        take what belongs to the volume."""
        known = self._identity
        if known is None:
            return
        found = identify(self.root)
        if found is None or not found.is_same(known):
            raise OSError(f"{self.root} is not the volume that the agent served")

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()
