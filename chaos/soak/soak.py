#!/usr/bin/python3
"""Several agents on one volume, many workers, third parties and faults; then the whole history is checked.

    soak.py [--seed N] [--time SECONDS] [--round SECONDS] [--agents 2..4] [--workers N] [--users N]
            [--faults none|mild|all] [--volume plain|netvol] [--locks shared|node|none] [--build DIR]
            [--program FILE] [--directory DIR] [--keep]

The time is cut into rounds, each with a volume and a seed of its own: N, N + 1, ... One that fails tells the command
that repeats it and keeps its history and logs. The last line is "N passed, N failed", of rounds. README.md says what
is done and checked.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "tests", "support")]


def parse_arguments():
    parser = argparse.ArgumentParser(description="random operations and faults, and a check of the history")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--time", type=float, default=60, help="seconds (60)")
    parser.add_argument("--round", type=float, default=60, help="seconds of one round at most (60)")
    parser.add_argument("--agents", type=int, choices=(2, 3, 4), help="how many (the seed decides)")
    parser.add_argument("--workers", type=int, default=12, help="of each agent (12)")
    parser.add_argument("--users", type=int, default=3)
    parser.add_argument("--faults", choices=("none", "mild", "all"), default="all")
    parser.add_argument("--volume", choices=("plain", "netvol"),
                        help="a directory, or a network volume that misbehaves (the seed decides)")
    parser.add_argument("--locks", choices=("shared", "node", "none"),
                        help="whom a lock keeps out: everybody, its own node, or nobody; the last two on a network "
                             "volume only (the seed decides)")
    parser.add_argument("--build", default=os.environ.get("MEMSYNC_BUILD") or "build/test")
    parser.add_argument("--program", help="another agent than that of the build")
    parser.add_argument("--directory", help="where volume, history and logs are written (default: in memory)")
    parser.add_argument("--keep", action="store_true", help="keep them although nothing was found")
    options = parser.parse_args()
    if options.volume == "plain" and options.locks in ("node", "none"):
        parser.error("locks of a directory reach everybody")
    return options


OPTIONS = parse_arguments()
os.environ["MEMSYNC_BUILD"] = os.path.join(ROOT, OPTIONS.build)

# pylint: disable=wrong-import-position
from agent import DEFAULT_AGENT, Agent, Client, RpcError, binary  # noqa: E402
from checker import check, is_in_step, tell  # noqa: E402
from faults import AgentFaults, Node, VolumeFaults  # noqa: E402
from history import WORD, Recorder, join_histories, read_history, token_of  # noqa: E402
from netvol import Netvol  # noqa: E402
from peer import Peer  # noqa: E402
from process import wait_until  # noqa: E402
from program_end import run as run_program  # noqa: E402
from third_party import Sightings, Surroundings, ThirdParty  # noqa: E402
from volumes import scratch_directory  # noqa: E402
from workers import Place, answered, found, run_workers  # noqa: E402

AGENTS = (DEFAULT_AGENT, "helper")
LATE_S = 30.0      # how long after it was given up a request may still be done
CALM_S = 30.0      # within this every scope is in step without being asked for
FACTS_MAX = 500    # nothing is evicted
PARTIES = 2
CACHES_S = (0, 1, 60)  # of a node's kernel
VOLUMES = ("netvol", "plain", "netvol")  # seeds take turns
LOCKS = ("shared", "shared", "node", "none")  # of a network volume
GRACE_S = 3.0      # where locks do not reach
# How long one is held up at most who goes on afterwards: where locks do not reach it must be less than the grace.
HOLD_S, HOLD_IN_GRACE_S = 3.0, 1.0


def volume_of(options, seed):
    """Kind of volume, and whom a lock keeps out there."""
    kind = options.volume or (VOLUMES[seed % len(VOLUMES)] if options.locks in (None, "shared") else "netvol")
    locks = "shared" if kind == "plain" else random.Random(f"{seed}/locks").choice(LOCKS)
    return kind, options.locks or locks


def owners_of(users, nodes, seed):
    """User to the node that writes it; None: third parties do. Of both kinds there is one at least."""
    chance = random.Random(f"{seed}/owners")
    owners = {user: chance.choice((None, *range(nodes))) for user in users}
    owners[users[0]] = chance.randrange(nodes)
    owners[users[-1]] = None
    return owners


def config_of(locks):
    # FUSE does not tell whether they reach every node, so it is told as an operator has to.
    told = {"locks": "trusted"} if locks == "shared" else {"locks": "local", "recovery_grace_ms": int(GRACE_S * 1000)}
    return {
        "volume": told,
        "sync": {"poll_interval_min_ms": 100, "poll_interval_max_ms": 2000, "operations_per_second": 5000},
        "backend": {"config": {"max_facts": FACTS_MAX, "file_lock_timeout_seconds": 5}},
        "log": {"level": "debug"},
    }


class Round:
    """One volume, its agents and everybody who works on it."""

    def __init__(self, options, seed, seconds, directory):
        self.options = options
        self.seed = seed
        self.seconds = seconds
        self.directory = directory
        self.chance = random.Random(f"{seed}/round")
        self.users = [f"u{number}" for number in range(options.users)]
        self.parts = []
        self.recorder = self.record("driver")
        self.stop = multiprocessing.Event()
        self.locks = "shared"  # until the volume is another one
        self.owners = None
        self.netvol = self.volume = None
        self.nodes, self.processes, self.helpers = [], [], []

    def set_up(self):
        count = self.options.agents or self.chance.randint(2, 4)
        self.make_volume(count)
        # Two nodes that write one user at a time are the platform's to avoid, where no lock keeps them apart.
        if self.locks != "shared":
            self.owners = owners_of(self.users, count, self.seed)
        for number in range(count):
            self.nodes.append(Node(number, self.make_agent(number), self.recorder))

    def make_volume(self, count):
        """The network volume, if it is one, and the directory where it really lies."""
        kind, locks = volume_of(self.options, self.seed)
        if kind == "plain":
            self.make_plain_volume()
            return
        try:
            self.netvol = volume = Netvol(self.directory, count)
        except unittest.SkipTest:
            self.make_plain_volume()
            return
        cache_s = self.chance.choice(CACHES_S)
        for knob in ("attr_cache_s", "entry_cache_s", "negative_cache_s", "listing_cache_s", "data_cache_s"):
            volume.set(knob, cache_s)
        self.locks = locks
        volume.set("flock", "across" if locks == "shared" else locks)
        print(f"netvol, caches of {cache_s} s, locks: {locks}", flush=True)
        self.volume = volume.backing

    def make_plain_volume(self):
        self.volume = os.path.join(self.directory, "volume")
        os.mkdir(self.volume)

    def make_agent(self, number):
        path = self.netvol.node(number).path if self.netvol else self.volume
        agent = Agent(self.options.program or binary("memsyncd"), path, config=config_of(self.locks))
        # The socket's path has to be short, so only the log lies with all else.
        agent.log_path = os.path.join(self.directory, f"agent{number}.log")
        return agent

    def record(self, name):
        path = os.path.join(self.directory, f"{name}.jsonl")
        self.parts.append(path)
        return Recorder(path)

    def place(self, node):
        return Place(node, self.nodes[node].agent.endpoint if node is not None else None, self.users, AGENTS,
                     self.seed, self.options.workers, self.owners)

    @property
    def grace_s(self):
        """None: locks tell who is dead."""
        return None if self.locks == "shared" else GRACE_S

    # -- the time of disorder --

    def run(self):
        """What went wrong beside the history, a list of texts."""
        try:
            self.set_up()
            for node in self.nodes:
                node.start()
            problems = self.disorder()
            self.calm()
            return problems
        finally:
            self.close()

    def close(self):
        """Ends whoever still runs: all of them where the round was ended before its time."""
        with contextlib.ExitStack() as ends:  # the last first, and each whatever befalls the others
            if self.netvol:
                ends.callback(self.netvol.close)
            for node in self.nodes:
                ends.callback(node.agent.close)
            ends.callback(self.recorder.close)
            for process in self.processes:
                ends.callback(process.join)
                ends.callback(process.kill)
            # Before agents are ended, as one of them starts such; and before workers are killed, as one of those may
            # have the lock of `stop`.
            ends.callback(self.join_helpers)
            self.stop.set()

    def disorder(self):
        answers = multiprocessing.Queue()
        for node in self.nodes:
            path = os.path.join(self.directory, f"workers{node.number}.jsonl")
            self.parts.append(path)
            process = multiprocessing.Process(target=run_workers, daemon=True,
                                              args=(self.place(node.number), path, self.stop, answers))
            process.start()
            self.processes.append(process)
        self.helpers = self.parties() + self.faults()
        for helper in self.helpers:
            helper.thread.start()
        time.sleep(self.seconds)
        self.stop.set()
        problems = []
        for _ in self.processes:
            problems += answers.get(timeout=60)
        for process in self.processes:
            process.join()
        problems += self.join_helpers()
        for node in self.nodes:
            node.look()
            problems += [node.problem] if node.problem else []
        return problems

    def join_helpers(self):
        """What went wrong with them."""
        helpers, self.helpers = self.helpers, []
        for helper in helpers:
            if helper.thread.ident:  # it was started
                helper.thread.join(90)
            if isinstance(helper, VolumeFaults):
                helper.end()
        return [helper.problem for helper in helpers if helper.problem]

    def parties(self):
        how = Surroundings(self.volume, self.directory, self.recorder, self.stop, self.options.faults != "none",
                           self.grace_s)
        return [ThirdParty(number, self.place(None), how) for number in range(PARTIES)]

    def faults(self):
        if self.options.faults == "none":
            return []
        pause_s = 4 if self.options.faults == "mild" else 1.2
        hold_s = HOLD_S if self.locks == "shared" else HOLD_IN_GRACE_S
        faults = [AgentFaults(self.nodes, self.seed, self.stop, pause_s, hold_s)]
        if self.netvol:
            faults.append(VolumeFaults(self.netvol, self.recorder, self.seed, self.stop, pause_s, hold_s))
        return faults

    # -- and afterwards --

    def calm(self):
        """Cleans up behind those who died, and lets everybody come in step."""
        peer = Peer(self.volume, durable=False)
        sightings = Sightings(peer, self.grace_s)
        for user in self.users:
            wait_until(lambda user=user: sightings.is_free(user), LATE_S, "an end of the grace")
            peer.recover(user)
        for node in self.nodes:
            if not node.agent.is_running():
                node.start()
        begin = time.monotonic_ns()
        self.recorder.write(kind="event", what="calm", node=None, begin=begin, end=begin, bound_s=CALM_S)
        wanted = {user: self.look_at_files(peer, user) for user in self.users}
        deadline = time.monotonic() + CALM_S
        scopes = [(node, user, agent) for node in self.nodes for user in self.users for agent in AGENTS]
        behind = scopes
        while behind and time.monotonic() < deadline:
            behind = [scope for scope in behind if not self.is_in_step(*scope, wanted[scope[1]])]
            time.sleep(0.2)
        for node in {node.number: node for node, _, _ in behind}.values():
            self.keep_status(node)
        for scope in scopes:
            self.look_at_scope(*scope, "strict")

    def is_in_step(self, node, user, agent, files):
        told = self.look_at_scope(node, user, agent, "local")
        return "error" not in told and is_in_step(told, files["revision"], files["agents"][agent])

    def keep_status(self, node):
        """For whoever has to find out why it is not in step."""
        with Client(node.agent.endpoint) as client, \
                open(os.path.join(self.directory, f"status{node.number}.json"), "w", encoding="utf-8") as file:
            json.dump(client.rpc("status"), file, indent=1)

    def look_at_files(self, peer, user):
        manifest = peer.manifest(user) or {"revision": 0}
        agents = {agent: [[fact_id, token_of(user, agent, content)]
                          for fact_id, (_, _, content) in peer.facts(user, agent).items()] for agent in AGENTS}
        now = time.monotonic_ns()
        summary = manifest.get("user", {}).get("workContext", {}).get("summary") or None
        files = {"revision": manifest["revision"], "summary": summary, "agents": agents}
        self.recorder.write(kind="files", user=user, begin=now, end=now, **files)
        return files

    def look_at_scope(self, node, user, agent, mode):
        told = {"who": "driver", "node": node.number, "user": user, "agent": agent, "what": "search",
                "freshness": mode, "begin": time.monotonic_ns()}
        try:
            with Client(node.agent.endpoint) as client:
                result = client.rpc("search", user_id=user, agent_name=agent, query=WORD, top_k=1000, freshness=mode,
                                    timeout_ms=10000)
            documents, scope = found(result)
            told.update(answered(scope),
                        facts=[[fact["id"], token_of(user, agent, fact["content"])] for fact in documents])
        except RpcError as error:
            told["error"] = error.kind
        except TimeoutError:
            told["error"] = "no answer"
        told["end"] = time.monotonic_ns()
        self.recorder.write(kind="read", **told)
        return told

    def history(self):
        """All that was written down, in one file."""
        path = os.path.join(self.directory, "history.jsonl")
        join_histories({"kind": "begin", "seed": self.seed, "nodes": len(self.nodes), "locks": self.locks,
                        "late_s": LATE_S}, self.parts, path)
        for part in self.parts:
            os.unlink(part)
        return path


def command_of(options, seed, seconds):
    """What repeats one round."""
    words = ["chaos/soak/soak.py", f"--seed {seed}", f"--time {seconds:g}", f"--round {seconds:g}"]
    for name in ("agents", "workers", "users", "faults", "volume", "build", "program"):
        value = getattr(options, name)
        words += [f"--{name} {value}"] if value is not None else []
    return " ".join([*words, f"--locks {volume_of(options, seed)[1]}"])


def run_round(options, seed, seconds):
    """True when nothing was found."""
    top = options.directory or scratch_directory()
    os.makedirs(top, exist_ok=True)
    directory = tempfile.mkdtemp(prefix=f"memsync-soak-{seed}-", dir=top)
    print(f"seed {seed}, {seconds:g} s: {command_of(options, seed, seconds)}", flush=True)
    this = Round(options, seed, seconds, directory)
    try:
        problems = this.run()
    except SystemExit:  # told to end: nothing was found
        if not options.keep:
            shutil.rmtree(directory, ignore_errors=True)
        raise
    path = this.history()
    violations, summary = check(read_history(path))
    tell(violations)
    for problem in problems:
        print(f"PROBLEM {problem}")
    print(summary)
    good = not violations and not problems
    if not good:
        print(f"FAIL seed {seed}; history and logs: {directory}\nto repeat it: {command_of(options, seed, seconds)}",
              flush=True)
    elif not options.keep:
        shutil.rmtree(directory, ignore_errors=True)
    return good


def main():
    options = OPTIONS
    passed = failed = 0
    seed, left = options.seed, options.time
    while left > 0:
        seconds = min(left, options.round)
        if run_round(options, seed, seconds):
            passed += 1
        else:
            failed += 1
        seed, left = seed + 1, left - seconds
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    run_program(main)
