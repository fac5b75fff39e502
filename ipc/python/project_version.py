"""The project's version, for builds of the package: it stands in the Makefile at the top of the tree, and in a source
distribution beside this file."""

import pathlib
import re


def _find(here):
    made = here / "PKG-INFO"
    if made.is_file():
        return re.search(r"^Version: (\S+)$", made.read_text(encoding="utf-8"), re.M)[1]
    for parent in here.parents:
        makefile = parent / "Makefile"
        found = makefile.is_file() and re.search(r"^VERSION := (\S+)$", makefile.read_text(encoding="utf-8"), re.M)
        if found:
            return found[1]
    raise RuntimeError(f"there is no version above {here}")


VERSION = _find(pathlib.Path(__file__).resolve().parent)
