#!/usr/bin/python3
"""Checks what no compiler sees: documentation of headers, names, marks, and lists that must agree.

Prints FILE:LINE: finding and ends with 1 when there is any. Run from the top of the tree, or give
its path. Every check is a function of the tree that yields (path, line, finding).
"""
import os
import re
import socket
import subprocess
import sys

CODE_FOLDERS = ("core", "backends", "ipc", "agent")
TEXT_SUFFIXES = (".c", ".h", ".py", ".md", ".yaml", ".yml", ".service", ".sysusers", ".tmpfiles",
                 ".sh", ".in", ".mk", "Makefile", ".1", ".5", ".8", ".txt", "LICENSE")

# clang-format keeps the C code; nothing lays out Python for us, and its tests quote long lines.
WIDTHS = {".c": 100, ".h": 100, ".py": 120}

# Built from parts, so that this file does not find itself.
MARKS = re.compile(r"\b(TO" + "DO|FIX" + "ME|XX" + "X|HA" + r"CK)\b")
PLACES = re.compile(
    r"(?<![\w.])/(?:wor" + r"k|roo" + r"t|home/\w+)/|/tmp/bas" + r"h_jobs|"
    r"\b(?:py" + r"pi\.org|npm" + r"js\.(?:org|com)|crates" + r"\.io|docker" + r"\.io|"
    r"ghcr" + r"\.io|quay" + r"\.io|proxy\.go" + r"lang\.org|deb\.deb" + r"ian\.org)")


class Tree:
    """The files of a source tree, read once."""

    def __init__(self, root):
        self.root = root
        self.paths = sorted(self._list())
        self._texts = {}

    def _list(self):
        try:
            listed = subprocess.run(
                ["git", "-C", self.root, "ls-files", "-co", "--exclude-standard", "-z"],
                check=True, capture_output=True).stdout.decode()
            return [path for path in listed.split("\0")
                    if path and os.path.isfile(os.path.join(self.root, path))]
        except (OSError, subprocess.CalledProcessError):
            return [os.path.relpath(os.path.join(place, name), self.root)
                    for place, folders, names in os.walk(self.root)
                    if not self._skip(place, folders) for name in names]

    @staticmethod
    def _skip(place, folders):
        folders[:] = [name for name in folders if name not in ("build", ".git", "__pycache__")]
        return False

    def text(self, path):
        if path not in self._texts:
            with open(os.path.join(self.root, path), encoding="utf-8", errors="replace",
                      newline="") as file:
                self._texts[path] = file.read()
        return self._texts[path]

    def lines(self, path):
        return self.text(path).split("\n")

    def code(self, suffixes=(".c", ".h")):
        return [path for path in self.paths
                if path.split("/")[0] in CODE_FOLDERS and path.endswith(suffixes)]

    def under(self, *folders):
        return [path for path in self.paths if path.split("/")[0] in folders]

    def texts(self):
        return [path for path in self.paths
                if path.endswith(TEXT_SUFFIXES) and "/corpus/" not in path]


def check_marks(tree):
    """No open ends, and nothing that only makes sense on one machine."""
    host = socket.gethostname()
    named = re.compile(r"\b" + re.escape(host) + r"\b") \
        if len(host) > 4 and host not in ("localhost", "debian") else None
    for path in tree.texts():
        for number, line in enumerate(tree.lines(path), 1):
            if MARKS.search(line):
                yield path, number, f"an open end: {MARKS.search(line)[0]}"
            if PLACES.search(line):
                yield path, number, f"a path or host of one machine: {PLACES.search(line)[0]}"
            if named and named.search(line):
                yield path, number, "this machine's name"


def check_blanks(tree):
    """Tabs, blanks at line ends, carriage returns, missing or needless lines at the end."""
    for path in tree.texts():
        text = tree.text(path)
        tabs_allowed = path.endswith(("Makefile", ".mk"))
        for number, line in enumerate(text.split("\n"), 1):
            if "\t" in line and not tabs_allowed:
                yield path, number, "a tab"
            if line != line.rstrip():
                yield path, number, "blanks at the end of the line"
            width = WIDTHS.get(os.path.splitext(path)[1], len(line))
            if len(line) > width:
                yield path, number, f"{len(line)} columns; {width} are allowed"
        if text and (not text.endswith("\n") or text.endswith("\n\n")):
            yield path, text.count("\n") + 1, "must end in exactly one newline"


def without_comments(text):
    """Comments and literals replaced by blanks of the same length, so that lines stay."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match[0])
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', blank, text, flags=re.S)


PROTOTYPE = re.compile(
    r"^(?!typedef\b|static\b|#|\s|extern\b|struct \w+ \{|return\b)[A-Za-z_][\w \*\(\),]*?"
    r"\b(?P<name>[a-z_][a-z0-9_]*)\((?P<rest>[^;{}]*)\)[^;{}]*;", re.M)


def is_documented(lines, start, name, head):
    """A comment above it or above the block of prototypes it stands in, or its name in the head."""
    at = start - 1
    while at >= 0 and lines[at].strip() and not lines[at].rstrip().endswith("*/"):
        at -= 1
    return (at >= 0 and lines[at].rstrip().endswith("*/")) or re.search(rf"\b{name}\b", head)


def check_headers(tree):
    """Every header has a head and guards, and says something about every function."""
    for path in tree.code((".h",)):
        text = tree.text(path)
        lines = tree.lines(path)
        head = text[:text.find("*/")]
        if not re.match(r"/\* (\S+/)?" + re.escape(os.path.basename(path)) + r" - \S", text):
            yield path, 1, f'must begin with "/* {path} - what it is for"'
        if "#ifndef MEMSYNC_" not in text:
            yield path, 1, "has no include guard MEMSYNC_..."
        for match in PROTOTYPE.finditer(without_comments(text)):
            start = text.count("\n", 0, match.start())
            name = match["name"]
            if re.search(r"_(destroy|close|release|free)$", name):
                continue  # takes the address, clears it; told once in CONTRIBUTING.md
            if not is_documented(lines, start, name, head):
                yield path, start + 1, f"{name}() is not documented"


def first_word(path):
    return os.path.splitext(os.path.basename(path))[0].split("_")[0]


def check_names(tree):
    """One name, one file; every .c stands behind a header of its name or of its module."""
    seen = {}
    for path in tree.code():
        name = os.path.basename(path)
        # The command line is a program of its own.
        key = ("cli" if path.startswith("ipc/cli/") else "", name)
        if name != "main.c" and key in seen:
            yield path, 1, f"has the same name as {seen[key]}"
        seen.setdefault(key, path)
    modules = {(os.path.dirname(path), first_word(path)) for path in tree.code((".h",))}
    for path in tree.code((".c",)):
        behind = (os.path.dirname(path), first_word(path)) in modules
        # Behind a header that stands for many: cli.h, memsync.h, backend.h.
        shared = path.startswith(("ipc/cli/", "ipc/client", "backends/"))
        if not behind and not shared and os.path.basename(path) != "main.c":
            yield path, 1, "has no header of its name or of its module"


# Tests that are programs of their own because of their length or their subject.
FURTHER_TESTS = ("refusals", "writer_faults", "writer_index")


def check_tests(tree):
    """One unit test per module: the names agree."""
    modules = {os.path.splitext(os.path.basename(path))[0] for path in tree.code()}
    for path in tree.under("tests"):
        match = re.fullmatch(r"tests/unit/test_(\w+)\.c", path)
        if match and match[1] not in modules and match[1] not in FURTHER_TESTS \
                and not match[1].startswith("shared_"):
            yield path, 1, f"there is no module {match[1]}"
        if match and not re.search(r"^(Test|ParameterizedTest|Theory)\(", tree.text(path), re.M):
            yield path, 1, "has no test"


def check_pause_points(tree):
    """Every pause point is passed by the code and used by a test."""
    header = "core/pause_point.h"
    if header not in tree.paths:
        return
    code = "".join(tree.text(path) for path in tree.code((".c",)))
    tests = "".join(tree.text(path) for path in tree.under("tests", "chaos")
                    if path.endswith((".c", ".h", ".py")))
    for number, line in enumerate(tree.lines(header), 1):
        match = re.match(r"\s+X\(([A-Z_]+)\)", line)
        if not match:
            continue
        name = match[1]
        if not re.search(rf"pause_here\(\s*PAUSE_{name}\s*\)", code):
            yield header, number, f"PAUSE_{name} is nowhere in the code"
        if not re.search(rf"\b(PAUSE_)?{name}\b", tests):
            yield header, number, f"PAUSE_{name} is used by no test"


def check_config(tree):
    """The sample file and the documentation name every key, and the reading code uses it."""
    table, sample, page = "agent/config_table.c", "systemd/memsyncd.yaml", "docs/configuration.md"
    if table not in tree.paths:
        return
    texts = {path: tree.text(path) if path in tree.paths else "" for path in (sample, page)}
    for number, line in enumerate(tree.lines(table), 1):
        match = re.match(r'\s+\{"([a-z]+)\.([a-z_]+)", (CONFIG_\w+)', line)
        if not match:
            continue
        name = f"{match[1]}.{match[2]}"
        if f"MEMSYNC_{match[1]}_{match[2]}\n".upper() not in texts[sample]:
            yield table, number, f"{sample} lacks {name}"
        if f"`{name}`" not in texts[page]:
            yield table, number, f"{page} lacks {name}"
    for match in re.finditer(r"`((?:volume|index|sync|ipc|backend|access|log|metrics)\.[a-z_]+)`",
                             texts[page]):
        if f'"{match[1]}"' not in tree.text(table):
            yield page, texts[page].count("\n", 0, match.start()) + 1, f"{match[1]} is no key"


def check_units(tree):
    """The template unit is the plain one with the instance's name in it."""
    plain, template = "systemd/memsyncd.service", "systemd/memsyncd@.service"
    if plain not in tree.paths or template not in tree.paths:
        return
    def settings(path):
        return [(number, re.sub(r"-%i\b| \(%i\)", "", line).replace("%i.yaml", "memsyncd.yaml"))
                for number, line in enumerate(tree.lines(path), 1)
                if line and not line.startswith("#")]
    mine, theirs = settings(template), settings(plain)
    if len(mine) != len(theirs):
        yield template, 1, f"has {len(mine)} settings and {plain} {len(theirs)}"
    for (number, line), (_, other) in zip(mine, theirs):
        if line != other:
            yield template, number, f"differs from {plain}: {other}"


CHECKS = (check_marks, check_blanks, check_headers, check_names, check_tests, check_pause_points,
          check_config, check_units)


def main():
    tree = Tree(sys.argv[1] if len(sys.argv) > 1 else ".")
    if not tree.code():
        sys.exit(f"{tree.root}: no sources here")
    count = 0
    for check in CHECKS:
        for path, line, finding in check(tree):
            print(f"{path}:{line}: {finding}")
            count += 1
    print(f"check_hygiene: {len(tree.paths)} files, {count} findings")
    sys.exit(1 if count else 0)


if __name__ == "__main__":
    main()
