#!/usr/bin/python3
"""How fast writes are, each figure beside a floor measured in the same run.

    tests/bench/writes.py [--build build/plain] [--directory DIR] [--seconds S] [--json FILE]

The floor of a commit is four files, each written beside its name, synced, renamed, and its directory
synced: what nobody can do without who replaces a fact, a manifest and a journal (twice) durably. Times
are of whole requests from Python, so they contain the client. Writers are processes. The figures are
medians and 99th percentiles; what counts is the ratio, since machines differ and drift.
"""
import argparse
import json
import multiprocessing
import os
import shutil
import statistics
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from agent import Agent, Client, RpcError, binary

CONFIG = {"backend": {"config": {"max_facts": 0}}, "log": {"level": "warning"}}


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
        os.makedirs(place)
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
            begun = time.monotonic()
            try:
                if method == "create_fact":
                    told = client.rpc("create_fact", user_id=user,
                                      content=f"writer {number} notes fact {count}")
                else:
                    told = client.rpc("apply_changes", user_id=user, upserts=[
                        {"content": f"writer {number} notes fact {count}"}])
            except RpcError as error:
                answers.put(str(error))
                return
            samples.append((time.monotonic() - begun, told["revision"]))
    answers.put(samples)


def run_writers(endpoints, users, method, seconds):
    """Writers side by side; (all times, requests a second, commits a second)."""
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
    times = [sample[0] for samples in found for sample in samples]
    revisions = len({(user, sample[1]) for user, samples in zip(users, found) for sample in samples})
    return times, len(times) / took, revisions / took


def row(name, times, floor, rate=None, commits=None):
    ordered = sorted(times)
    return {"name": name, "p50_ms": statistics.median(ordered) * 1000,
            "p99_ms": ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)] * 1000,
            "worst_ms": ordered[-1] * 1000, "ratio": statistics.median(ordered) / floor,
            "requests_per_second": rate, "commits_per_second": commits, "samples": len(ordered)}


def show(rows):
    print(f"{'what':44} {'p50 ms':>8} {'p99 ms':>8} {'worst':>8} {'x floor':>8} {'req/s':>7} {'commits/s':>9}")
    for entry in rows:
        rates = [f"{entry[key]:.0f}" if entry[key] else "" for key in
                 ("requests_per_second", "commits_per_second")]
        print(f"{entry['name']:44} {entry['p50_ms']:8.2f} {entry['p99_ms']:8.2f} "
              f"{entry['worst_ms']:8.1f} {entry['ratio']:8.2f} {rates[0]:>7} {rates[1]:>9}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", default="build/plain", help="where the programs are")
    parser.add_argument("--directory", default=None, help="where the volume lies (default: $TMPDIR)")
    parser.add_argument("--seconds", type=float, default=4, help="of each measurement")
    parser.add_argument("--json", default=None, help="write the rows there as well")
    options = parser.parse_args()

    top = tempfile.mkdtemp(prefix="memsync-bench-", dir=options.directory)
    rows = []
    try:
        volume = os.path.join(top, "volume")
        os.makedirs(volume)
        samples = measure_floor(top, options.seconds)
        floor = statistics.median(samples)
        rows.append(row("floor: four durable replacements", samples, floor))
        program = binary("memsyncd", options.build)
        with Agent(program, volume, config=CONFIG) as one, Agent(program, volume, config=CONFIG) as two:
            endpoints = [one.endpoint, two.endpoint]
            for name, users, method, agents in (
                    ("create_fact, one writer", ["solo"], "create_fact", 1),
                    ("apply_changes, one writer", ["single"], "apply_changes", 1),
                    ("apply_changes, 8 writers of one user", ["crowd"] * 8, "apply_changes", 1),
                    ("apply_changes, 8 users", [f"u{i}" for i in range(8)], "apply_changes", 1),
                    ("apply_changes, 8 of one user, two agents", ["shared"] * 8, "apply_changes", 2),
                    ("apply_changes, 8 users, two agents", [f"v{i}" for i in range(8)],
                     "apply_changes", 2)):
                times, rate, commits = run_writers(endpoints[:agents], users, method,
                                                   options.seconds)
                rows.append(row(name, times, floor, rate, commits))
            counters = one.rpc("status")["writes"]
        show(rows)
        print("of the first agent's writes:", ", ".join(f"{key} {value}"
                                                        for key, value in counters.items()))
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                json.dump({"rows": rows, "writes": counters}, file, indent=2)
    finally:
        shutil.rmtree(top, ignore_errors=True)


if __name__ == "__main__":
    main()
