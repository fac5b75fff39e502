#!/usr/bin/python3
"""Which rare places of core/ no test has reached: pause points, log lines, and branches that tell of an error.

    tests/coverage/report.py [--build build/coverage] [--all] [--json FILE]

After the tests have run in a build with FLAVOUR=coverage. Each place that was not reached is listed, with the reason
for which none of them does, from reasons.txt beside this file. A place without a reason fails the run, and so does a
reason that fits no place any more. --all lists every line that was not reached, of any kind.
"""

import argparse
import collections
import fnmatch
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
REASONS = pathlib.Path(__file__).resolve().parent / "reasons.txt"

# The first that fits a line's text says what it is.
KINDS = (
    ("pause point", re.compile(r"\bpause_(?:here|fails)\(")),
    ("log line", re.compile(r"\blog_(?:error|warning|notice|info|debug)\(")),
    ("error", re.compile(r"\berror_\w+\(|\breturn STATUS_(?!OK\b)\w+|= STATUS_(?!OK\b)\w+;|\bvolume_error_\w+\(")),
)

Place = collections.namedtuple("Place", "file line function kind text")


def kind_of(text):
    for kind, pattern in KINDS:
        if pattern.search(text):
            return kind
    return None


def read_gcov(build):
    """{file: {line: [count, function]}} of core/, summed over everything that was linked with it."""
    notes = sorted(build.glob("core/*.gcno"))
    if not notes:
        raise SystemExit(f"{build} has no coverage build: run `make coverage`")
    lines = collections.defaultdict(dict)
    for note in notes:
        done = subprocess.run(["gcov", "--json-format", "--stdout", str(note)], cwd=ROOT, check=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for document in done.stdout.splitlines():
            for file in json.loads(document)["files"]:
                path = os.path.normpath(file["file"])
                if not path.startswith("core/") or not path.endswith(".c"):
                    continue
                for line in file["lines"]:
                    known = lines[path].setdefault(line["line_number"], [0, line.get("function_name", "")])
                    known[0] += line["count"]
    return lines


def places_of(lines):
    """All places of interest, and those among them that were not reached."""
    every, missed, other = [], [], []
    for path in sorted(lines):
        source = (ROOT / path).read_text(encoding="utf-8").splitlines()
        for number, (count, function) in sorted(lines[path].items()):
            text = source[number - 1].strip()
            kind = kind_of(text)
            place = Place(path, number, function, kind, text)
            if kind:
                every.append(place)
            if count == 0:
                (missed if kind else other).append(place)
    return every, missed, other


def read_reasons():
    """[(file pattern, function pattern, kind or "*", text pattern, reason)]; a line of `#` is a comment."""
    reasons = []
    for number, line in enumerate(REASONS.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = [part.strip() for part in line.split("|")]
        if len(parts) != 5 or not parts[4]:
            raise SystemExit(f"{REASONS.name}:{number}: wanted: file | function | kind | text | reason")
        reasons.append(tuple(parts))
    return reasons


def fits(reason, place):
    file, function, kind, text, _ = reason
    return (fnmatch.fnmatchcase(place.file, file) and fnmatch.fnmatchcase(place.function, function)
            and kind in ("*", place.kind) and fnmatch.fnmatchcase(place.text, f"*{text}*"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--build", default="build/coverage")
    parser.add_argument("--all", action="store_true", help="list every line that was not reached")
    parser.add_argument("--json", help="write what was found there as well")
    options = parser.parse_args()
    lines = read_gcov(ROOT / options.build)
    every, missed, other = places_of(lines)
    reasons = read_reasons()
    used = set()
    unexplained = []
    for place in missed:
        reason = next((reason for reason in reasons if fits(reason, place)), None)
        if reason:
            used.add(reason)
        else:
            unexplained.append(place)
        print(f"{place.file}:{place.line}: {place.function}: {place.kind} not reached: {place.text}\n"
              f"    {'because ' + reason[4] if reason else 'NO REASON IS KNOWN'}")
    if options.all:
        for place in other:
            print(f"{place.file}:{place.line}: {place.function}: {place.text}")
    idle = [reason for reason in reasons if reason not in used]
    for reason in idle:
        print(f"{REASONS.name}: fits no place that was not reached: {' | '.join(reason[:4])}")
    total = sum(len(of_file) for of_file in lines.values())
    reached = sum(count > 0 for of_file in lines.values() for count, _ in of_file.values())
    for kind, _ in KINDS:
        wanted = sum(place.kind == kind for place in every)
        lacking = sum(place.kind == kind for place in missed)
        print(f"{kind}s: {wanted - lacking} of {wanted} reached")
    print(f"lines of core/: {reached} of {total} reached, {100 * reached / total:.1f} %")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"lines": total, "reached": reached,
                       "missed": [place._asdict() for place in missed]}, file, indent=2)
    print(f"{len(missed) - len(unexplained)} explained, {len(unexplained)} without a reason, "
          f"{len(idle)} reasons idle")
    return 1 if unexplained or idle else 0


if __name__ == "__main__":
    sys.exit(main())
