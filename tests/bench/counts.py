#!/usr/bin/python3
"""Counts the instructions of a call: stable where times are not, so there can be limits.

    counts.py [--build DIR] [--directory DIR]

One user's 100 facts are indexed; then callgrind counts what `inside` does in counted_calls(), a kind of
call at a time. What the kernel does is not in it. Prints a table. With --directory everything stays
there; `callgrind_annotate DIR/KIND.out` then tells what the instructions were for.
tests/integration/test_instruction_counts.py holds the counts against the limits below.
"""

import argparse
import collections
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)

# pylint: disable=wrong-import-position
from corpus import Corpus  # noqa: E402
from make_volume import make_volume  # noqa: E402

FACTS = 100
CALLS = 30  # of each kind, each with words of its own
TIMEOUT_S = 120

# What `inside` is asked for, and whether the words are in a fact.
Call = collections.namedtuple("Call", "name inside hits")

SEARCH = Call("search", "search", True)
FALLBACK = Call("fallback", "search", False)
COMPARE = Call("compare", "compare", True)
BARE = Call("bare", "sqlite", True)
READ = Call("read", "read", True)

# A limit is what was measured and 15 % more: times the floor where the floor is most of the work, so that
# another SQLite or compiler changes both; else instructions. (Reading a manifest is all in the kernel.)
Limit = collections.namedtuple("Limit", "call what floor ratio count", defaults=(None, None, None))

LIMITS = (
    Limit(SEARCH, "search, 3 words", BARE, ratio=2.5),
    Limit(FALLBACK, "search whose words are in no fact", count=1190000),
    Limit(COMPARE, "compare", READ, count=21000),
)


class Counted(collections.namedtuple("Counted", "limit count floor")):
    """What a call took, beside its limit."""

    @property
    def ratio(self):
        return self.count / self.floor if self.floor else None

    def problem(self):
        """What is wrong with the count, or None. Far below the limit is wrong too: it guards nothing then."""
        limit = self.limit
        value, most = (self.ratio, limit.ratio) if limit.ratio else (self.count, limit.count)
        if most / 2 <= value <= most:
            return None
        told = f"{limit.what}: {self.count:,.0f} instructions a call"
        if limit.ratio:
            told += f", {self.ratio:.2f} times the floor's {self.floor:,.0f}"
        told += f"; the limit is {number(most)}. "
        if value < most / 2:
            return told + "That is less than half: if it is meant so, lower the limit in tests/bench/counts.py."
        return told + ("What they are for: make counts COUNTS='--directory DIR', then callgrind_annotate "
                       f"DIR/{limit.call.name}.out. Raise the limit in tests/bench/counts.py only with the "
                       "reason in the commit's message.")


def number(value):
    if value is None:
        return ""
    return f"{value:.2f}" if value < 100 else f"{value:,.0f}"


class Counter:
    """A volume, its index, and what was counted on it; all in `directory`, which may have them already."""

    def __init__(self, directory, build):
        self.directory = directory
        self.inside = os.path.join(ROOT, build, "tests", "bench", "inside")
        if not os.path.exists(self.path("volume")):
            make_volume(self.path("volume"), users=1, facts=FACTS, jobs=1)
        self.write_requests()
        # The index is built here, since callgrind would take longer for it.
        self.run([], SEARCH, 1)

    def path(self, name):
        return os.path.join(self.directory, name)

    def words(self):
        """All words of the facts."""
        words = set()
        for path in glob.glob(self.path("volume/users/u0/agents/*/facts/*/*.md")):
            with open(path, encoding="utf-8") as file:
                words.update(re.findall(r"\w+", file.read().lower()))
        return words

    def write_requests(self):
        """Queries as they come, apart by whether a fact has one of their words."""
        words = self.words()
        corpus = Corpus(3, "en")
        queries = {True: [], False: []}
        while any(len(each) < CALLS for each in queries.values()):
            query = corpus.query()
            queries[not words.isdisjoint(query.split())].append(query)
        for hits, each in queries.items():
            with open(self.requests(hits), "w", encoding="utf-8") as file:
                for query in each[:CALLS]:
                    file.write(json.dumps({"user_id": "u0", "query": query, "top_k": 5}) + "\n")

    def requests(self, hits):
        return self.path("requests-hits" if hits else "requests-misses")

    def run(self, under, call, calls):
        done = subprocess.run(
            [*under, self.inside, self.path("volume"), self.path("index"), self.requests(call.hits),
             call.inside, str(calls)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT_S, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{call.name} ended with {done.returncode}: " + done.stdout.decode("utf-8", "replace"))

    def count(self, call):
        """Instructions of one call."""
        out = self.path(call.name + ".out")
        # The star: a compiler may add to the name of a function that it has made its own version of.
        self.run(["valgrind", "-q", "--tool=callgrind", "--toggle-collect=counted_calls*",
                  f"--callgrind-out-file={out}"], call, CALLS)
        with open(out, encoding="utf-8") as file:
            return int(re.search(r"^totals: (\d+)", file.read(), re.M)[1]) / CALLS

    def all(self):
        return [Counted(limit, self.count(limit.call), limit.floor and self.count(limit.floor))
                for limit in LIMITS]


def table(counted):
    lines = [f"{'what':34} {'instructions':>12} {'floor':>9} {'ratio':>6} {'limit':>9}"]
    lines += [f"{each.limit.what:34} {number(each.count):>12} {number(each.floor):>9} {number(each.ratio):>6} "
              f"{number(each.limit.ratio or each.limit.count):>9}" for each in counted]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", default="build/test", help="where the programs are")
    parser.add_argument("--directory", help="where volume, index and profiles are written, and kept")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="memsync-counts-") as scratch:
        directory = options.directory or scratch
        os.makedirs(directory, exist_ok=True)
        print(table(Counter(directory, options.build).all()))


if __name__ == "__main__":
    main()
