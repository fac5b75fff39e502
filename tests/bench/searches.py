"""Searches: inside the agent, through its socket, from Python."""

import itertools
import json
import multiprocessing
import statistics
import time

import memsync
from agent import Client
from harness import median_of, wait_until, is_settled


def measure_inside(bench):
    """Flat in the number of tenants, and short in big scopes."""
    sizes = [(1, 100, 50), (bench.many, 100, 60)] if bench.quick else [
        (1, 100, 50), (1000, 100, 60), (10000, 100, 80)]
    compared = []
    for users, facts, target in sizes:
        volume = bench.volume(users, facts)
        found = [bench.tool("inside", volume, bench.index(volume), bench.requests(users),
                            bench.seconds) for _ in range(bench.runs)]
        compared += found
        bench.add("search", f"in the agent, 3 words, {facts} facts, {users:,} tenants",
                  median_of(found, "search", "p50_us"), "us", median_of(found, "search", "p99_us"),
                  median_of(found, "sqlite", "p50_us"), target)
    volume = bench.volume(1, bench.big)
    found = [bench.tool("inside", volume, bench.index(volume), bench.requests(1), bench.seconds)
             for _ in range(bench.runs)]
    bench.add("search", f"in the agent, 3 words, one scope of {bench.big:,} facts",
              median_of(found, "search", "p50_us"), "us", median_of(found, "search", "p99_us"),
              median_of(found, "sqlite", "p50_us"), 800)
    bench.add("search", "compare (open, fstat, read, revision, digest)",
              median_of(compared, "compare", "p50_us"), "us",
              median_of(compared, "compare", "p99_us"), median_of(compared, "read", "p50_us"), 10)


def with_agent(bench, users, facts):
    volume = bench.volume(users, facts)
    return bench.agent(volume, index=bench.index(volume))


def measure_socket(bench):
    """Through ZeroMQ from C; the floor is a ROUTER that answers at once with as many bytes."""
    users = bench.many
    requests = bench.requests(users)
    with with_agent(bench, users, 100) as agent:
        wait_until(lambda: is_settled(agent))
        for clients, target, target_p99, least in ((1, 150, 400, None), (8, None, None, 12000)):
            echoes, calls = [], []
            for _ in range(bench.runs):
                calls.append(bench.tool("trips", "calls", agent.endpoint, requests, clients,
                                        bench.seconds))
                echoes.append(bench.tool("trips", "echo", 120, calls[-1]["reply_bytes"], clients,
                                         bench.seconds))
            if clients == 1:
                bench.add("search", "through the socket, C client",
                          median_of(calls, "trip", "p50_us"), "us",
                          median_of(calls, "trip", "p99_us"), median_of(echoes, "trip", "p50_us"),
                          target, target_p99)
            else:
                bench.add("search", f"through the socket, {clients} C clients",
                          median_of(calls, "per_second"), "req/s",
                          floor=median_of(echoes, "per_second"), target=least)


def search_from_python(bench, requests, client, search):
    """Seconds of each search of one client, in order of length. `search` is given the client and the parameters."""
    with open(requests, encoding="utf-8") as file:
        params = [json.loads(line) for line in file]
    samples = []
    with client:
        for each in params[:200]:
            search(client, each)
        end = time.monotonic() + bench.seconds
        for each in itertools.cycle(params):
            begun = time.monotonic()
            search(client, each)
            samples.append(time.monotonic() - begun)
            if time.monotonic() > end:
                return sorted(samples)


def add_python(bench, name, runs, floor, target):
    bench.add("search", name, statistics.median(statistics.median(run) for run in runs) * 1e6, "us",
              statistics.median(run[len(run) * 99 // 100] for run in runs) * 1e6, floor, target)


def measure_python(bench):
    """A bare socket, and the Python client, which makes results of what a search answers."""
    users, bare, ours, calls = bench.many, [], [], []
    requests = bench.requests(users)
    with with_agent(bench, users, 100) as agent:
        wait_until(lambda: is_settled(agent))
        for _ in range(bench.runs):
            bare.append(search_from_python(bench, requests, Client(agent.endpoint),
                                           lambda client, each: client.rpc("search", **each)))
            ours.append(search_from_python(bench, requests, memsync.Client(agent.endpoint),
                                           lambda client, each: client.search(**each)))
            calls.append(bench.tool("trips", "calls", agent.endpoint, requests, 1, bench.seconds))
    floor = median_of(calls, "trip", "p50_us")
    add_python(bench, "through the socket, Python (floor: the C client)", bare, floor, 230)
    add_python(bench, "the same by the Python client", ours, floor, floor + 100)


def search_all_the_time(endpoint, requests, stop, answers):
    samples = []
    with open(requests, encoding="utf-8") as file:
        params = [json.loads(line) for line in file]
    with Client(endpoint, timeout_s=60) as client:
        for each in itertools.cycle(params):
            begun = time.monotonic()
            client.rpc("search", **each)
            samples.append((begun, time.monotonic() - begun))
            if stop.is_set():
                answers.put(samples)
                return


class Searchers:
    """Searches by other users, in a process of their own, until it is left."""

    def __init__(self, endpoint, requests):
        self.stop = multiprocessing.Event()
        self.answers = multiprocessing.Queue()
        self.process = multiprocessing.Process(
            target=search_all_the_time, args=(endpoint, requests, self.stop, self.answers))
        self.samples = []

    def __enter__(self):
        self.process.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.samples = self.answers.get()
        self.process.join()
