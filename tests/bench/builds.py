"""Cold builds, warm starts, and what an agent costs when nothing happens.

Caches stay warm: what is measured is the agent, not the disk.
"""

import os
import shutil
import statistics
import time

from agent import Client, RpcError
from harness import median_of, wait_until, is_settled


COMPARES_PER_SECOND = 500  # the default budget of polling

def build_once(bench, volume, facts):
    """Facts a second of a build from nothing."""
    index = os.path.join(bench.scratch, "cold-index")
    shutil.rmtree(index, ignore_errors=True)
    agent = bench.agent(volume, index=index)
    try:
        begun = time.monotonic()
        agent.start()
        wait_until(lambda: is_settled(agent) and agent.rpc("status")["index"]["facts"] >= facts,
                   step_s=0.01)
        took = time.monotonic() - begun
    finally:
        agent.stop()
        agent.close()
    shutil.rmtree(index, ignore_errors=True)
    return facts / took


def measure_cold(bench):
    sizes = [(bench.many, 100), (1, bench.big if bench.quick else 100000)]
    for users, facts in sizes:
        volume = bench.volume(users, facts)
        floors = [bench.tool("files", volume)["files_per_second"] for _ in range(bench.runs)]
        rates = [build_once(bench, volume, users * facts) for _ in range(bench.runs)]
        bench.add("build", f"cold, {users:,} users with {facts:,} facts (floor: list and read)",
                  statistics.median(rates), "facts/s", floor=statistics.median(floors), target=20000)


def first_answer(endpoint, begun):
    """Seconds from the start of the agent to its first fresh answer."""
    with Client(endpoint) as client:
        while True:
            try:
                found = client.result(client.send("search", user_id="u7", query="tea"), 1)
            except (TimeoutError, RpcError):
                continue
            if found["scopes"][0]["state"] in ("fresh", "refreshed"):
                return time.monotonic() - begun


def measure_warm(bench):
    users, facts = bench.many, 100
    volume = bench.volume(users, facts)
    firsts, alls = [], []
    agent = bench.agent(volume, index=bench.index(volume))
    try:
        agent.start()
        wait_until(lambda: is_settled(agent))
        for _ in range(bench.runs):
            agent.stop()
            begun = time.monotonic()
            agent.start(wait=False)
            wait_until(lambda: os.path.exists(agent.endpoint.removeprefix("ipc://")), step_s=0.0005)
            firsts.append(first_answer(agent.endpoint, begun) * 1000)
            wait_until(lambda: is_settled(agent))
            alls.append((time.monotonic() - begun) * 1000)
            counted = agent.rpc("status")["sync"]
            if counted["files_read"]:
                raise SystemExit(f"a warm start has read {counted['files_read']} fact files")
    finally:
        agent.stop()
        agent.close()
    bench.add("start", f"warm, {users:,} users: first answer", statistics.median(firsts), "ms",
              max(firsts), target=50)
    bench.add("start", f"warm, {users:,} users: all compared", statistics.median(alls), "ms",
              max(alls), target=200)


def private_mib(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("Anonymous:")) / 1024


def count_of(pid, what):
    return len(os.listdir(f"/proc/{pid}/{what}"))


def measure_memory(bench):
    """Private memory and the index's size after a cold build and some searches."""
    sizes = [(bench.many, 100, 40)] + ([] if bench.quick else [(10000, 100, 100)])
    for users, facts, target in sizes:
        volume = bench.volume(users, facts)
        index = os.path.join(bench.scratch, "memory-index")
        with bench.agent(volume, index=index) as agent:
            wait_until(lambda: is_settled(agent) and
                       agent.rpc("status")["index"]["facts"] >= users * facts, 3600, 0.1)
            bench.tool("trips", "calls", agent.endpoint, bench.requests(users), 4, 2)
            private = private_mib(agent.pid)
            threads, descriptors = count_of(agent.pid, "task"), count_of(agent.pid, "fd")
            agent.stop()
            size = sum(os.path.getsize(os.path.join(index, name)) for name in os.listdir(index))
        bench.add("memory", f"private, {users * facts:,} facts", private, "MiB", target=target)
        bench.add("memory", f"index, {users * facts:,} facts", size / users / facts, "B/fact",
                  target=1500)
        bench.add("memory", f"threads, {users:,} users", threads, "")
        bench.add("memory", f"descriptors, {users:,} users", descriptors, "")
        shutil.rmtree(index, ignore_errors=True)


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure_polling(bench):
    """An idle agent that must poll, since nothing tells it of changes."""
    for users in [bench.many if bench.quick else 10000]:
        volume = bench.volume(users, 100)
        with bench.agent(volume, index=bench.index(volume),
                         config={"sync": {"inotify": False}}) as agent:
            wait_until(lambda: is_settled(agent), 3600, 0.1)
            time.sleep(3 + users / COMPARES_PER_SECOND)  # the first round reads what no cache has yet
            before, begun = cpu_seconds(agent.pid), time.monotonic()
            time.sleep(3 if bench.quick else 20)
            share = (cpu_seconds(agent.pid) - before) / (time.monotonic() - begun)
        bench.add("poll", f"an idle agent with {users:,} users, of one core", share * 100, "%",
                  target=2)
