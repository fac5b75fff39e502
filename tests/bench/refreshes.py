"""What a peer changed, until a search sees it; and what others notice of a big refresh."""

import os
import shutil
import time

from harness import median_of, wait_until, is_settled
from make_volume import fact_path, render_fact, render_manifest
from searches import Searchers

# As on a network volume, where no event comes.
UNTOLD = {"sync": {"inotify": False, "poll_interval_min_ms": 3600000,
                   "poll_interval_max_ms": 3600000}}


def measure_changed(bench):
    """One changed fact: another node's write to the search that sees it. Nothing else tells of it."""
    sizes = [(100, 20, 0.7), (1000, 5, 1.0)]
    if not bench.quick:
        sizes = [(100, 200, 0.7), (1000, 50, 1.0), (10000, 10, 1.3), (100000, 1, 3.5)]
    for facts, users, target in sizes:
        volume = bench.volume(users, facts)
        count = max(2 * users, 6)
        with bench.copy_of(volume) as copy, bench.agent(copy, config=UNTOLD) as agent:
            wait_until(lambda: is_settled(agent))
            time.sleep(3)
            wait_until(lambda: is_settled(agent))
            found = [bench.tool("changes", agent.endpoint, copy, users, facts, count)
                     for _ in range(bench.runs)]
        bench.add("refresh", f"one changed fact among {facts:,}, until a search sees it",
                  median_of(found, "search", "p50_us") / 1000, "ms",
                  median_of(found, "search", "p99_us") / 1000,
                  median_of(found, "look", "p50_us") / 1000, target)


def replace_scope(volume, user, facts, revision):
    """Rewrites every fact of a user as a peer would, and then the manifest."""
    bucket = os.path.join(volume, "users", user)
    for number in range(facts):
        path = fact_path(bucket, f"f{number}")
        write(path, render_fact(user, number, f"replaced {revision} times over, number{number}, "
                                "with about as much text as a fact has that people wrote", revision))
    write(os.path.join(bucket, "memory.json"), render_manifest(revision))


def write(path, text):
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        file.write(text)
    os.rename(path + ".tmp", path)


def p99_ms(samples):
    ordered = sorted(samples)
    return ordered[len(ordered) * 99 // 100] * 1000


def measure_replaced(bench):
    """Readers of other users while a big scope is replaced: p99 beside an idle agent's.

    The files are written first, so that readers meet the agent's work and not the writer's.
    """
    facts = bench.big
    users = bench.many
    volume = bench.volume(users, 100)
    big = bench.volume(1, facts)
    with bench.copy_of(volume) as copy:
        shutil.copytree(f"{big}/users/u0", f"{copy}/users/big")
        with bench.agent(copy, config=UNTOLD) as agent:
            wait_until(lambda: is_settled(agent))
            idle, busy = [], []
            for run in range(bench.runs):
                replace_scope(copy, "big", facts, run + 10)
                with Searchers(agent.endpoint, bench.requests(users)) as searchers:
                    time.sleep(1)
                    begun = time.monotonic()
                    agent.rpc("refresh", user_id="big", timeout_ms=60000)
                    ended = time.monotonic()
                samples = searchers.samples
                idle.append(p99_ms([took for at, took in samples if at + took < begun]))
                busy.append(p99_ms([took for at, took in samples if begun <= at <= ended]))
    idle.sort()
    busy.sort()
    floor = idle[len(idle) // 2]
    bench.add("refresh", f"p99 of other users' searches while {facts:,} facts are replaced",
              busy[len(busy) // 2], "ms", busy[-1], floor, 3 * floor)
