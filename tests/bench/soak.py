#!/usr/bin/python3
"""Does an agent that works for a long time grow? A mixed load, samples, and a verdict on each.

    soak.py [--time SECONDS] [--seed N] [--users N] [--build DIR] [--directory DIR] [--json FILE]
            [--svg FILE]

The load is that of soak_load.py: it keeps the number of facts as it is. Sampled are the agent's private
memory, threads, descriptors and inotify watches, the index and its log. Ends with 1 when one of them has
grown after the warm-up (trend.py says what counts as that), when a worker saw something wrong, or when
the index does not equal the volume at the end; with 2 when the time was too short to tell.
"""

import argparse
import collections
import contextlib
import json
import multiprocessing
import os
import shutil
import sqlite3
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "support")]

# pylint: disable=wrong-import-position
from agent import Agent, binary  # noqa: E402
from builds import count_of, private_mib  # noqa: E402
from charts import Axis, Panel, Series, write_chart  # noqa: E402
from harness import is_settled, wait_until  # noqa: E402
from make_volume import make_volume  # noqa: E402
from options import positive  # noqa: E402
from program_end import run as run_program  # noqa: E402
from soak_load import FACTS, ROLES  # noqa: E402
from trend import Allowance, TooShort, judge  # noqa: E402

SAMPLES = 300
INTERVAL_LEAST_S = 0.25
SETTLED_WITHIN_S = 120
LOG_MIB = 8  # the bound that the agent is given; it may swing as much, and must not leave it behind

# What is sampled: its unit, and how much the median may move between the thirds of a run. Connections
# come and go, so do guests. Files keep the size that they once needed, so they move by steps; whether
# more of the index is in use is judged by itself.
MEASURES = {
    "private memory": ("MiB", Allowance(2, 0.05)),
    "threads": ("", Allowance(0)),
    "descriptors": ("", Allowance(4)),
    "inotify watches": ("", Allowance(2)),
    "index in use": ("MiB", Allowance(0.25, 0.10)),
    "index file": ("MiB", Allowance(1, 0.5)),
    "write-ahead log": ("MiB", Allowance(LOG_MIB)),
    "facts": ("", Allowance(0, 0.01)),
}

# An index fills up for some minutes before its size tells anything.
FILLING = ("index in use", "index file")
FILLED_AFTER_S = 900

Place = collections.namedtuple("Place", "endpoint events volume users pid")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--time", type=positive(float), default=3600, help="seconds (3600)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--users", type=positive(int), default=60)
    parser.add_argument("--build", default="build/plain", help="where the programs are")
    parser.add_argument("--directory", help="where the volume is written (default: $TMPDIR)")
    parser.add_argument("--json", help="write samples and verdicts there")
    parser.add_argument("--svg", help="draw the samples there")
    return parser.parse_args()


def watches_of(pid):
    """The inotify watches of a process."""
    found = 0
    for name in os.listdir(f"/proc/{pid}/fdinfo"):
        try:
            with open(f"/proc/{pid}/fdinfo/{name}", encoding="ascii") as file:
                found += sum(line.startswith("inotify ") for line in file)
        except FileNotFoundError:
            pass  # closed meanwhile
    return found


def pages_in_use(path):
    """Bytes of a database's pages that are not free."""
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)) as database:
        pages, free, size = (database.execute(f"PRAGMA {name}").fetchone()[0]
                             for name in ("page_count", "freelist_count", "page_size"))
    return (pages - free) * size


def sample(agent):
    index = agent.rpc("status", timeout_ms=30000)["index"]
    mib = 1024 * 1024
    return {
        "private memory": private_mib(agent.pid),
        "threads": count_of(agent.pid, "task"),
        "descriptors": count_of(agent.pid, "fd"),
        "inotify watches": watches_of(agent.pid),
        "index in use": pages_in_use(index["path"]) / mib,
        "index file": (index["file_bytes"] - index["wal_bytes"]) / mib,
        "write-ahead log": index["wal_bytes"] / mib,
        "facts": index["facts"],
    }


class Load:
    """The processes of the load; what they say at the end is in `told` and `troubles`."""

    def __init__(self, place, seed):
        self.stop = multiprocessing.Event()
        self.answers = multiprocessing.Queue()
        self.told, self.troubles = {}, []
        self.processes = [multiprocessing.Process(target=role(place, number, seed).run,
                                                  args=(self.stop, self.answers))
                          for role, number in ROLES]

    def __enter__(self):
        for process in self.processes:
            process.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        while len(self.told) < len(self.processes):
            self.take(timeout_s=SETTLED_WITHIN_S)
        for process in self.processes:
            process.join()

    def take(self, timeout_s):
        name, counted, trouble = self.answers.get(timeout=timeout_s)
        self.told[name] = counted
        if trouble:
            self.troubles.append(f"{name}: {trouble}")

    def has_failed(self):
        """A worker that has left before it was told to has seen something wrong."""
        while not self.answers.empty():
            self.take(timeout_s=1)
        return bool(self.troubles)


def soak(agent, load, seconds):
    """Samples of the time under load: a list of (seconds since the start, sample)."""
    interval = max(INTERVAL_LEAST_S, seconds / SAMPLES)
    begun = time.monotonic()
    samples = []
    while time.monotonic() - begun < seconds and not load.has_failed():
        samples.append((time.monotonic() - begun, sample(agent)))
        time.sleep(max(0.0, begun + len(samples) * interval - time.monotonic()))
    return samples


def differences(agent, users):
    """What the index and the volume disagree about, once everything is quiet."""
    wait_until(lambda: is_settled(agent), SETTLED_WITHIN_S, 0.05)
    found = []
    for user in (f"u{i}" for i in range(users)):
        told = agent.rpc("verify", user_id=user, timeout_ms=30000)
        if not told["ok"] or told["checked"] != FACTS:
            found.append(f"{user}: {json.dumps(told)}")
    return found


def verdicts_of(samples):
    return {name: judge([values[name] for _, values in samples], allowance)
            for name, (_, allowance) in MEASURES.items()}


def print_table(verdicts, told):
    print(f"{'':16} {'first third':>12} {'last third':>12} {'growth':>10} {'allowed':>10}")
    for name, verdict in verdicts.items():
        unit = MEASURES[name][0]
        print(f"{name:16} {verdict.first:12,.2f} {verdict.last:12,.2f} {verdict.growth:10,.2f} "
              f"{verdict.allowed:10,.2f} {unit:4} {'GROWN' if verdict.grown else ''}".rstrip())
    for name, counted in sorted(told.items()):
        print(f"{name}: " + ", ".join(f"{number:,} {what}" for what, number in counted.items()))


def draw(path, samples, command):
    panels = []
    for name, (unit, _) in MEASURES.items():
        points = [(at / 60, values[name]) for at, values in samples]
        panels.append(Panel(name, Axis("minutes"), Axis(unit or "number"), [Series(name, points)],
                            height=110))
    write_chart(path, "What an agent takes under a mixed load", command, panels)


def run(options, agent, volume):
    """Everything there is to tell of a run."""
    wait_until(lambda: is_settled(agent), SETTLED_WITHIN_S, 0.05)
    place = Place(agent.endpoint, agent.rpc("ping")["events"], volume, options.users, agent.pid)
    load = Load(place, options.seed)
    with load:
        samples = soak(agent, load, options.time)
    troubles = load.troubles or differences(agent, options.users)
    return samples, load.told, troubles


def report(options, samples, told, troubles):
    """Prints, writes and judges; the exit code."""
    if options.svg and samples:
        draw(options.svg, samples, f"make bench-soak TIME={options.time:.0f} SEED={options.seed}")
    verdicts, too_short = {}, None
    try:
        verdicts = verdicts_of(samples)
    except TooShort as short:
        too_short = str(short)
    print_table(verdicts, told)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"seconds": options.time, "seed": options.seed, "users": options.users,
                       "verdicts": {name: verdict._asdict() for name, verdict in verdicts.items()},
                       "told": told, "troubles": troubles,
                       "samples": [{"at_s": at, **values} for at, values in samples]}, file, indent=1)
    for trouble in troubles:
        print(f"WRONG: {trouble}")
    unsure = [name for name in FILLING if options.time < FILLED_AFTER_S and name in verdicts]
    if unsure:
        print(f"not judged: {', '.join(unsure)}; that takes {FILLED_AFTER_S} s and more")
    grown = [name for name, verdict in verdicts.items() if verdict.grown and name not in unsure]
    for name in grown:
        verdict = verdicts[name]
        print(f"GREW: {name}, from {verdict.first:,.2f} to {verdict.last:,.2f} {MEASURES[name][0]} "
              f"(more than the {verdict.allowed:,.2f} that are allowed)".replace("  ", " "))
    if troubles or grown:
        return 1
    if too_short:
        print(f"nothing can be said: {too_short}; give it more time")
        return 2
    print("nothing grew")
    return 0


def main():
    options = parse_arguments()
    top = tempfile.mkdtemp(prefix="memsync-soak-", dir=options.directory)
    volume = os.path.join(top, "volume")
    print(f"seed {options.seed}, {options.time:.0f} s, {options.users} users with {FACTS} facts", flush=True)
    try:
        make_volume(volume, options.users, FACTS, seed=options.seed)
        config = {"log": {"level": "warning"}, "sync": {"poll_interval_max_ms": 5000},
                  "index": {"wal_bytes_max": LOG_MIB << 20}}
        with Agent(binary("memsyncd", options.build), volume, index=os.path.join(top, "index"),
                   config=config) as agent:
            samples, told, troubles = run(options, agent, volume)
    finally:
        shutil.rmtree(top, ignore_errors=True)
    return report(options, samples, told, troubles)


if __name__ == "__main__":
    run_program(main)
