"""A network volume, on which each file operation takes a millisecond: latency is the cost, not CPU.

The agent has the volume through the mount of slow_volume.c; what another node writes goes to the directory
behind it. Where the table has no floor that somebody has measured, it is what the volume has counted:
operations x latency / reads in flight, as if nobody had ever waited for anybody.
"""

import contextlib
import ctypes
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time

from agent import Client
from harness import ROOT, wait_until, is_settled
from refreshes import UNTOLD, replace_scope

LATENCY_MS = 1.0
MNT_DETACH = 2


class SlowVolume:
    """A mount that shows `backing`, each operation delayed."""

    def __init__(self, bench, backing, cache_s=0):
        self.backing = backing
        self.path = tempfile.mkdtemp(prefix="slow-", dir=bench.scratch)
        program = os.path.join(ROOT, bench.build, "tests", "bench", "slow_volume")
        self.process = subprocess.Popen(
            [program, "--latency-us", str(round(LATENCY_MS * 1000)), "--cache-s", str(cache_s), backing,
             self.path])
        try:
            wait_until(lambda: os.path.ismount(self.path) or self.process.poll() is not None, 10)
        except TimeoutError:
            self.close()
            raise
        if self.process.poll() is not None:
            raise SystemExit("cannot mount a slow volume (is /dev/fuse there?)")

    def operations(self):
        counts = json.loads(os.getxattr(self.path, "user.slow_volume"))
        del counts["most_under_way"]
        return counts

    def close(self):
        self.process.terminate()
        self.process.wait()
        ctypes.CDLL(None).umount2(os.fsencode(self.path), MNT_DETACH)
        os.rmdir(self.path)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Counted:
    """How long a block takes, and how many operations it costs the volume."""

    def __init__(self, volume):
        self.volume = volume

    def __enter__(self):
        self.before = self.volume.operations()
        self.begun = time.monotonic()
        return self

    def __exit__(self, *_):
        self.ms = (time.monotonic() - self.begun) * 1000
        after = self.volume.operations()
        self.by_kind = {name: after[name] - self.before[name] for name in after}
        self.operations = sum(self.by_kind.values())

    def floor_ms(self, in_flight):
        return self.operations * LATENCY_MS / in_flight


def config_of(readers, **sync):
    return {"sync": {**UNTOLD["sync"], "readers": readers, **sync}}


@contextlib.contextmanager
def indexed(bench, users, facts):
    """A volume that may be changed, and an index that is in step with it and settled.

    Built on the directory behind: through the mount it would not settle before a network client's caches
    have forgotten everything, a minute later.
    """
    with bench.copy_of(bench.volume(users, facts)) as copy:
        index = copy + ".index"
        with bench.agent(copy, index=index, config=UNTOLD) as agent:
            wait_until(lambda: is_settled(agent), 3600, 0.05)
            time.sleep(3)
            wait_until(lambda: is_settled(agent), 3600, 0.05)
        try:
            yield copy, index
        finally:
            shutil.rmtree(index, ignore_errors=True)


def measure_changed(bench):
    """Another node's write until the search that sees it; without and with the kernel's caches."""
    users, facts = (2, 2000) if bench.quick else (10, 10000)
    for cache_s, told in ((0, "no caches"), (60, "caches of 60 s"))[1 if bench.quick else 0:]:
        with indexed(bench, users, facts) as (copy, index), \
                SlowVolume(bench, copy, cache_s) as volume, \
                bench.agent(volume.path, index=index, config=config_of(16)) as agent:
            wait_until(lambda: is_settled(agent))
            found = [bench.tool("changes", agent.endpoint, volume.path, users, facts, users, copy, 16)
                     for _ in range(bench.runs)]
        bench.add("slow", f"one changed fact among {facts:,}, {told}",
                  statistics.median(run["search"]["p50_us"] for run in found) / 1000, "ms",
                  max(run["search"]["p99_us"] for run in found) / 1000,
                  statistics.median(run["look"]["p50_us"] for run in found) / 1000,
                  None if bench.quick else 60)


def build_once(bench, volume, facts, readers):
    index = tempfile.mkdtemp(prefix="index-", dir=bench.scratch)
    with Counted(volume) as counted, \
            bench.agent(volume.path, index=index, config=config_of(readers)) as agent:
        wait_until(lambda: is_settled(agent) and agent.rpc("status")["index"]["facts"] >= facts,
                   3600, 0.01)
        took = time.monotonic() - counted.begun
    shutil.rmtree(index)
    return facts / took, counted.operations / facts


def measure_cold(bench):
    """A build from nothing. The floor reads the same files with as many threads."""
    facts = 2000 if bench.quick else 20000
    for readers, target in ((16, 2500), (64, 4000)):
        with SlowVolume(bench, bench.volume(1, facts)) as volume:
            floors = [bench.tool("files", volume.path, readers)["files_per_second"]
                      for _ in range(bench.runs)]
            built = [build_once(bench, volume, facts, readers) for _ in range(bench.runs)]
        bench.add("slow", f"cold build of {facts:,} facts, {readers} readers",
                  statistics.median(rate for rate, _ in built), "facts/s",
                  floor=statistics.median(floors), target=target)
        bench.add("slow", f"operations of that, {readers} readers",
                  statistics.median(operations for _, operations in built), "a fact")


def measure_replaced(bench):
    """A refresh of a scope of which every file has changed."""
    facts = 2000 if bench.quick else 10000
    with indexed(bench, 1, facts) as (copy, index), SlowVolume(bench, copy) as volume, \
            bench.agent(volume.path, index=index, config=config_of(16)) as agent:
        wait_until(lambda: is_settled(agent))
        took, floors = [], []
        for run in range(bench.runs):
            replace_scope(copy, "u0", facts, run + 10)
            floors.append(facts * 1000 / bench.tool("files", f"{volume.path}/users/u0", 16)["files_per_second"])
            with Counted(volume) as counted:
                agent.rpc("refresh", user_id="u0", timeout_ms=600000)
            took.append(counted.ms)
    floor = statistics.median(floors)
    bench.add("slow", f"refresh of {facts:,} changed files, 16 readers", statistics.median(took), "ms",
              floor=floor, target=3 * floor)
    bench.add("slow", "operations of that", counted.operations / facts, "a file")


def measure_compared(bench):
    """The first compare of all users, warm; then the compare of single searches."""
    users = 500 if bench.quick else 10000
    with indexed(bench, users, 1) as (copy, index), SlowVolume(bench, copy) as volume:
        compare_all(bench, volume, index, users)
        compare_one(bench, volume, index)


def compare_all(bench, volume, index, users):
    took, floors = [], []
    for _ in range(bench.runs):
        read = bench.tool("files", volume.path, 16, "memory.json")
        floors.append(read["files"] * 1000 / read["files_per_second"])
        with Counted(volume) as counted, \
                bench.agent(volume.path, index=index, config=config_of(16)) as agent:
            wait_until(lambda: is_settled(agent), step_s=0.005)
            took.append((time.monotonic() - counted.begun) * 1000)
    floor = statistics.median(floors)
    bench.add("slow", f"first compare of {users:,} users, 16 readers", statistics.median(took), "ms",
              floor=floor, target=3 * floor)
    bench.add("slow", "operations of that", counted.operations / users, "a user")


def compare_one(bench, volume, index):
    # Next to no budget: what the watcher asks for is not the searches'.
    with bench.agent(volume.path, index=index,
                     config=config_of(16, operations_per_second=1)) as agent:
        wait_until(lambda: is_settled(agent))
        samples = []
        with Counted(volume) as counted, Client(agent.endpoint) as client:
            for number in range(100):
                begun = time.monotonic()
                client.result(client.send("search", user_id=f"u{number}", query="tea"), 30)
                samples.append((time.monotonic() - begun) * 1000)
    samples.sort()
    floor = counted.floor_ms(1) / len(samples)
    bench.add("slow", "search of a scope that is in step (floor: its operations)",
              samples[len(samples) // 2], "ms", samples[len(samples) * 99 // 100], floor, 1.5 * floor)
    bench.add("slow", "operations of that", counted.operations / len(samples), "a search")


def measure_polling(bench):
    """An idle agent that must poll: what that costs the volume."""
    users, budget = (500, 200) if bench.quick else (10000, 500)
    with indexed(bench, users, 1) as (copy, index), SlowVolume(bench, copy) as volume, \
            bench.agent(volume.path, index=index, config={"sync": {
                "inotify": False, "readers": 16, "operations_per_second": budget}}) as agent:
        wait_until(lambda: is_settled(agent))
        time.sleep(1)
        with Counted(volume) as counted:
            time.sleep(3 if bench.quick else 20)
    rate = counted.operations * 1000 / counted.ms
    # A tenth of a second's worth may have been saved up.
    bench.add("slow", f"polling of {users:,} users, budget of {budget} a second", rate, "ops",
              target=budget * (1 + 100 / counted.ms))


MEASUREMENTS = {
    "slow-changed": measure_changed,
    "slow-cold": measure_cold,
    "slow-replaced": measure_replaced,
    "slow-compared": measure_compared,
    "slow-poll": measure_polling,
}
