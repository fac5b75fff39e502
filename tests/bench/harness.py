"""What all measurements share: volumes, programs, rows of the table."""

import collections
import contextlib
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from agent import Agent, binary
from corpus import Corpus
from make_volume import make_volume

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

QUIET_LOG = {"log": {"level": "warning"}}

# `value` and `p99` are in `unit`; `floor` is what was measured beside it, in the same unit, and `ratio`
# the one to the other (above 1: slower, or fewer a second, than the floor). `target` is a limit on the
# value, or on p99 where `of_p99`; for rates it is the least.
Row = collections.namedtuple("Row", "group what value unit p99 floor ratio target target_p99 met")


class MeasurementFailed(Exception):
    """A program that measures has ended without figures."""


def is_rate(unit):
    return unit.endswith("/s")


class Bench:
    """One run of the whole: collects rows, makes volumes once, and cleans up."""

    def __init__(self, options):
        self.options = options
        self.build = options.build
        self.quick = options.quick
        self.runs = options.runs or (1 if options.quick else 5)
        self.seconds = options.seconds or (1 if options.quick else 2)
        self.big = 2000 if options.quick else 10000  # facts of one scope, the same
        self.many = 200 if options.quick else 1000  # users with 100 facts, of the volume that most share
        self.rows = []
        self.charts = {}
        self.keep = options.directory is not None
        self.top = options.directory or tempfile.mkdtemp(prefix="memsync-bench-")
        os.makedirs(self.top, exist_ok=True)
        self.scratch = tempfile.mkdtemp(prefix="scratch-", dir=self.top)

    def close(self):
        """What was written are hundreds of thousands of files: a program for that is quicker than shutil."""
        self.say("removing what was written")
        subprocess.run(["rm", "-rf", self.scratch if self.keep else self.top], check=False)

    # -- what is measured on --

    def path(self, *parts):
        return os.path.join(self.top, *parts)

    def volume(self, users, facts, seed=1):
        """A volume of that size; made at its first use, kept for the next run with --directory."""
        path = self.path(f"volume-{users}x{facts}-{seed}")
        if not (os.path.exists(path + ".json") and os.path.isdir(path)):
            shutil.rmtree(path, ignore_errors=True)
            shutil.rmtree(self.index(path), ignore_errors=True)  # it knows its volume
            self.say(f"writing a volume of {users} users with {facts} facts each")
            told = make_volume(path, users, facts, seed=seed)
            with open(path + ".json", "w", encoding="utf-8") as file:
                json.dump(told, file)
        return path

    def index(self, volume):
        """The place of a volume's index, filled at its first use."""
        return volume + ".index"

    @contextlib.contextmanager
    def copy_of(self, volume):
        """A volume that may be changed."""
        path = tempfile.mkdtemp(prefix="copy-", dir=self.scratch)
        shutil.rmtree(path)
        subprocess.run(["cp", "-r", volume, path], check=True)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def requests(self, users, seed=3, count=4000):
        """A file of searches of three words, by users in random order."""
        path = os.path.join(self.scratch, f"requests-{users}-{seed}")
        if not os.path.exists(path):
            corpus = Corpus(seed, "en")
            rng = random.Random(seed)
            with open(path, "w", encoding="utf-8") as file:
                for _ in range(count):
                    file.write(json.dumps({"user_id": f"u{rng.randrange(users)}",
                                           "query": corpus.query(), "top_k": 5}) + "\n")
        return path

    # -- what measures --

    def tool(self, name, *arguments):
        """Runs one of the programs beside this file; its answer."""
        program = os.path.join(ROOT, self.build, "tests", "bench", name)
        done = subprocess.run([program, *map(str, arguments)], stdout=subprocess.PIPE, check=False,
                              stderr=None if self.options.verbose else subprocess.PIPE)
        if done.returncode != 0:
            said = (done.stderr or b"").decode(errors="replace").strip().splitlines()[-3:]
            raise MeasurementFailed(f"{name} ended with {done.returncode}: {' / '.join(said)}")
        return json.loads(done.stdout)

    def agent(self, volume, index=None, config=None):
        merged = {**QUIET_LOG, **(config or {})}
        return Agent(binary("memsyncd", self.build), volume, index=index, config=merged)

    # -- what comes out --

    def say(self, text):
        print(f"... {text}", file=sys.stderr, flush=True)

    def add(self, group, what, value, unit, p99=None, floor=None, target=None, target_p99=None):
        ratio = None
        if floor:
            ratio = floor / value if is_rate(unit) else value / floor
        met = None
        if target is not None:
            met = value >= target if is_rate(unit) else value <= target
        if target_p99 is not None:
            met = met is not False and p99 <= target_p99
        row = Row(group, what, value, unit, p99, floor, ratio, target, target_p99, met)
        self.rows.append(row)
        print(format_row(row), flush=True)


    def chart(self, name, title, panels):
        """Keeps a chart, which is drawn when that was asked for."""
        self.charts[name] = (title, panels)


def number(value):
    if value is None:
        return ""
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def format_row(row):
    target = number(row.target)
    if row.target_p99 is not None:
        target += f" ({number(row.target_p99)})"
    verdict = {True: "met", False: "MISSED", None: ""}[row.met]
    return (f"{row.group:9} {row.what:58} {number(row.value):>9} {row.unit:8} {number(row.p99):>8} "
            f"{number(row.floor):>9} {number(row.ratio):>6} {target:>14} {verdict}")


def heading():
    return (f"{'group':9} {'what':58} {'median':>9} {'unit':8} {'p99':>8} {'floor':>9} "
            f"{'x':>6} {'target (p99)':>14}")


def median_of(results, *keys):
    """The median of one number of several results."""
    values = []
    for result in results:
        for key in keys:
            result = result[key]
        values.append(result)
    return statistics.median(values)


def wait_until(condition, timeout_s=600.0, step_s=0.001):
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("it does not happen")
        time.sleep(step_s)


def is_settled(agent):
    """Nothing is left to be compared or refreshed."""
    status = agent.rpc("status")
    sync = status["sync"]
    return (status["watch"]["first_pass_done"] and sync["waiting"] == 0 and sync["running"] == 0)
