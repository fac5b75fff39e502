"""Which volume a directory is the root of."""

from __future__ import annotations

import os
import re
from typing import NamedTuple, Optional

_MARKER = os.path.join(".memsyncd", "volume-id")
_DIGITS = re.compile(r"[0-9a-f]{32}\n*")


class Identity(NamedTuple):
    """The marker that agents give a volume, and the place of its root as they tell it: file system and inode."""

    marker: Optional[str]
    place: str

    def is_told_as(self, told: str) -> bool:
        """Whether an agent that serves this volume may call it that. One that it knew before it had a marker is told
        by its place for as long as that agent runs."""
        return told in (self.marker, self.place)

    def is_same(self, other: Identity) -> bool:
        """Markers decide where both have one, else the places."""
        if self.marker is not None and other.marker is not None:
            return self.marker == other.marker
        return self.place == other.place


def _marker(root: str) -> Optional[str]:
    try:
        with open(os.path.join(root, _MARKER), encoding="ascii") as file:
            text = file.read(256)
    except (OSError, UnicodeError):
        return None
    return text.strip() if _DIGITS.fullmatch(text) else None


def identify(root: str) -> Optional[Identity]:
    """None: there is no such directory."""
    try:
        place = f"{os.statvfs(root).f_fsid:016x}-{os.stat(root).st_ino}"
    except OSError:
        return None
    return Identity(_marker(root), place)
