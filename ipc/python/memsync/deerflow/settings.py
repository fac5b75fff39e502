"""What is read of the configuration object of DeerFlow's memory backend. The endpoint is $MEMSYNC_ENDPOINT."""

from __future__ import annotations

import os
from typing import Any

# Where the configuration names no place, as a standalone backend has it.
ROOT_VARIABLE = "DEERMEM_DATA_DIR"
ROOT_DEFAULT = os.path.join("~", ".deermem")
# The backend's own limit for a user's lock.
LOCK_TIMEOUT = 10.0
# What a request needs besides waiting for the lock.
LOCK_MARGIN = 5.0


def storage_root(config: Any) -> str:
    """The directory with the memories."""
    named = getattr(config, "storage_path", None) or os.environ.get(ROOT_VARIABLE)
    return os.path.abspath(os.path.expanduser(str(named or ROOT_DEFAULT)))


def write_timeout(config: Any) -> float:
    """Seconds for a request that may have to wait for a user's lock."""
    return float(getattr(config, "file_lock_timeout_seconds", None) or LOCK_TIMEOUT) + LOCK_MARGIN


def is_user_required(config: Any) -> bool:
    """Whether there is no scope without a user."""
    return bool(getattr(config, "strict_user_scope", False))
