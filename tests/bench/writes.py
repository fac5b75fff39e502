"""How fast writes are.

The floor of a commit is four files, each written beside its name, synced, renamed, and its directory
synced: what nobody can do without who replaces a fact, a manifest and a journal (twice) durably. Times
are of whole requests from Python, so they contain the client. Writers are processes.
"""

import multiprocessing
import os
import shutil
import statistics
import time

from agent import Client, RpcError
from harness import is_settled, wait_until

CONFIG = {"backend": {"config": {"max_facts": 0}}}


def replace_durably(directory, name, text):
    path = os.path.join(directory, name)
    fd = os.open(path + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.write(fd, text)
    os.fsync(fd)
    os.close(fd)
    os.rename(path + ".tmp", path)
    fd = os.open(directory, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def measure_floor(directory, seconds):
    """Seconds of four durable replacements in four directories."""
    places = [os.path.join(directory, f"floor{i}") for i in range(4)]
    for place in places:
        os.makedirs(place, exist_ok=True)
    samples, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        begun = time.monotonic()
        for place in places:
            replace_durably(place, "file", b"x" * 400)
        samples.append(time.monotonic() - begun)
    return samples


def write_for(endpoint, user, number, method, seconds, answers):
    """One writer: samples of (seconds, revision)."""
    samples = []
    with Client(endpoint, timeout_s=30) as client:
        end = time.monotonic() + seconds
        count = 0
        while time.monotonic() < end:
            count += 1
            content = f"writer {number} notes fact {count} at {time.time()}"
            begun = time.monotonic()
            try:
                if method == "create_fact":
                    told = client.rpc("create_fact", user_id=user, content=content)
                else:
                    told = client.rpc("apply_changes", user_id=user, upserts=[{"content": content}])
            except RpcError as error:
                answers.put(str(error))
                return
            samples.append((time.monotonic() - begun, told["revision"]))
    answers.put(samples)


def run_writers(endpoints, users, method, seconds):
    """Writers side by side; (all times in order, requests a second, commits a second)."""
    answers = multiprocessing.Queue()
    writers = [multiprocessing.Process(target=write_for, args=(endpoints[i % len(endpoints)], user, i,
                                                               method, seconds, answers))
               for i, user in enumerate(users)]
    begun = time.monotonic()
    for writer in writers:
        writer.start()
    found = [answers.get() for _ in writers]
    took = time.monotonic() - begun
    for writer in writers:
        writer.join()
    for answer in found:
        if isinstance(answer, str):
            raise SystemExit(f"a writer was refused: {answer}")
    times = sorted(sample[0] for samples in found for sample in samples)
    revisions = len({(user, sample[1]) for user, samples in zip(users, found) for sample in samples})
    return times, len(times) / took, revisions / took


def p99(times):
    return times[len(times) * 99 // 100]


def measure_sizes(bench):
    """One writer, in scopes of several sizes."""
    sizes = (100,) if bench.quick else (100, 1000, 10000)
    for facts in sizes:
        with bench.copy_of(bench.volume(1, facts)) as copy, bench.agent(copy, config=CONFIG) as agent:
            wait_until(lambda: is_settled(agent))
            floors, runs = [], []
            for _ in range(bench.runs):
                floors.append(statistics.median(measure_floor(bench.scratch, bench.seconds)))
                runs.append(run_writers([agent.endpoint], ["u0"], "create_fact", bench.seconds)[0])
        floor = statistics.median(floors) * 1000
        bench.add("write", f"create_fact, {facts:,} facts (floor: four durable replacements)",
                  statistics.median(map(statistics.median, runs)) * 1000, "ms",
                  statistics.median(map(p99, runs)) * 1000, floor, 1.3 * floor)


def measure_crowds(bench):
    """Several writers at once."""
    volume = os.path.join(bench.scratch, "written")
    os.makedirs(volume)
    seconds = 2 * bench.seconds
    with bench.agent(volume, config=CONFIG) as one, bench.agent(volume, config=CONFIG) as two:
        for name, users, agents, least, most in (
                ("8 writers of one user", ["crowd"] * 8, 1, 600, 50),
                ("8 users", [f"u{i}" for i in range(8)], 1, None, None),
                ("8 writers of one user, two agents", ["shared"] * 8, 2, None, None),
                ("8 users, two agents", [f"v{i}" for i in range(8)], 2, None, None)):
            runs = [run_writers([one.endpoint, two.endpoint][:agents], users, "apply_changes",
                                seconds) for _ in range(bench.runs)]
            rate = statistics.median(run[1] for run in runs)
            commits = statistics.median(run[2] for run in runs)
            bench.add("write", f"apply_changes, {name}", rate, "req/s", target=least)
            bench.add("write", f"apply_changes, {name} ({commits:.0f} commits/s)",
                      statistics.median(statistics.median(run[0]) for run in runs) * 1000, "ms",
                      statistics.median(p99(run[0]) for run in runs) * 1000, target_p99=most)
    shutil.rmtree(volume)


def measure_writes(bench):
    measure_sizes(bench)
    measure_crowds(bench)
