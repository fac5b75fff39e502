"""What befalls agents and volume while the workers work: chosen by dice, one after the other, each for a short time.

Two of these run side by side: one for the agents, one for the volume, where it can be told to misbehave.
"""

import random
import shutil
import signal
import threading
import time
import traceback

from agent import AgentFailed

START_WITHIN_S = 40

class Node:
    """One agent of the soak, and whether it is meant to run."""

    def __init__(self, number, agent, recorder):
        self.number = number
        self.agent = agent
        self.recorder = recorder
        self.meant_to_run = False
        self.problem = None

    def note(self, what, begin, **more):
        self.recorder.write(kind="event", what=what, node=self.number, begin=begin, end=time.monotonic_ns(), **more)

    def start(self):
        """Again and again, as a service manager would: the volume may be away."""
        begin = time.monotonic_ns()
        deadline = time.monotonic() + START_WITHIN_S
        while True:
            try:
                self.agent.start(timeout_s=START_WITHIN_S)
                break
            except AgentFailed:
                self.agent.kill()
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
        self.meant_to_run = True
        self.note("started", begin)

    def look(self):
        """Ended although nobody has ended it?"""
        if self.meant_to_run and not self.agent.is_running():
            self.problem = (f"the agent of node {self.number} has ended with {self.agent.process.returncode}\n"
                            f"{self.agent.log_tail()}")
            self.meant_to_run = False

    def kill(self):
        self.look()
        begin, self.meant_to_run = time.monotonic_ns(), False
        self.agent.kill()
        self.note("killed", begin)

    def terminate(self):
        self.look()
        begin, self.meant_to_run = time.monotonic_ns(), False
        code = self.agent.stop(timeout_s=30)
        if code != 0:
            self.problem = f"the agent of node {self.number} ended with {code} when asked to\n{self.agent.log_tail()}"
        self.note("ended", begin, code=code)

    def delete_index(self):
        begin = time.monotonic_ns()
        shutil.rmtree(self.agent.index, ignore_errors=True)
        self.note("index deleted", begin)

    def pause(self, seconds):
        begin = time.monotonic_ns()
        self.agent.signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.agent.signal(signal.SIGCONT)
        self.note("paused", begin)


class Faults:
    """Throws the dice until it is told to stop; a thread."""

    name = None

    def __init__(self, seed, stop, pause_s, hold_s):
        """`hold_s`: how long one is held up at most who goes on afterwards."""
        self.chance = random.Random(f"{seed}/{self.name}")
        self.stop = stop
        self.pause_s = pause_s
        self.hold_s = hold_s
        self.problem = None
        self.done = 0
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        try:
            while not self.stop.wait(self.chance.uniform(0.2, 2 * self.pause_s)):
                kinds, weights = zip(*self.kinds())
                self.chance.choices(kinds, weights)[0]()
                self.done += 1
        except Exception:
            self.problem = f"{self.name}: {traceback.format_exc()}"

    def kinds(self):
        """(what to do, how often in comparison)"""
        raise NotImplementedError


class AgentFaults(Faults):
    """Ends agents and starts them again."""

    name = "faults of agents"

    def __init__(self, nodes, seed, stop, pause_s, hold_s):
        super().__init__(seed, stop, pause_s, hold_s)
        self.nodes = nodes

    def kinds(self):
        return ((self.kill, 5), (self.terminate, 2), (self.lose_index, 2), (self.pause, 2))

    def node(self):
        return self.chance.choice(self.nodes)

    def later(self):
        time.sleep(self.chance.choice((0, 0, self.chance.uniform(0, 1.0))))

    def kill(self):
        node = self.node()
        node.kill()
        self.later()
        node.start()

    def terminate(self):
        node = self.node()
        node.terminate()
        self.later()
        node.start()

    def lose_index(self):
        node = self.node()
        node.kill()
        node.delete_index()
        node.start()

    def pause(self):
        self.node().pause(self.chance.uniform(0.1, self.hold_s / 2))


class VolumeFaults(Faults):
    """Has the volume misbehave, on one node or on all (tests/support/netvol.py)."""

    name = "faults of the volume"

    def __init__(self, volume, recorder, seed, stop, pause_s, hold_s):
        super().__init__(seed, stop, pause_s, hold_s)
        self.volume = volume
        self.recorder = recorder

    def kinds(self):
        return ((self.fail, 5), (self.fail_late, 2), (self.fill, 2), (self.slow_down, 3), (self.hang, 3),
                (self.go, 2))

    def where(self):
        return self.chance.choice((*self.volume.nodes, self.volume))

    def pattern(self):
        return self.chance.choice(("*", "users/u0*", "*.md", "*memory.json", "*.lock", "*journal*"))

    def last(self, what, longest_s, **more):
        """Writes down what goes on, and lets it go on for a while."""
        begin = time.monotonic_ns()
        time.sleep(self.chance.uniform(0.1, longest_s))
        self.recorder.write(kind="event", what=what, node=None, begin=begin, end=time.monotonic_ns(), **more)

    def rule(self, name, operation, *words, longest_s=1.5, **options):
        where, pattern = self.where(), self.pattern()
        with getattr(where, name)(operation, pattern, *words, seed=self.chance.randrange(1 << 30), **options):
            self.last(name, longest_s, where=where.number, operation=operation, pattern=pattern, words=words,
                      options=options)

    def fail(self):
        operation, error = self.chance.choice(FAILURES)
        self.rule("fail", operation, error, probability=self.chance.choice((0.05, 0.3, 1)))

    def fail_late(self):
        """It was done, and is told as a failure."""
        self.rule("fail", self.chance.choice(("rename", "link", "unlink", "fsync")), "EIO",
                  probability=self.chance.choice((0.05, 0.3)), late=True)

    def fill(self):
        self.rule("fail", self.chance.choice(("write", "create", "mkdir")),
                  self.chance.choice(("ENOSPC", "EDQUOT")), probability=self.chance.choice((0.3, 1)))

    def slow_down(self):
        where = self.where()
        where.set("latency_us", self.chance.choice((300, 1000, 5000)))
        self.last("slow", 2, where=where.number)
        where.set("latency_us", 0)

    def hang(self):
        self.rule("hang", self.chance.choice(HANGING), probability=self.chance.choice((0.1, 1)), longest_s=self.hold_s)

    def go(self):
        node = self.chance.choice(self.volume.nodes)
        node.gone(self.chance.choice(("EIO", "ESTALE", "ENOTCONN")))
        self.last("gone", 2, where=node.number)
        node.back()

    def end(self):
        """Nothing of it is left."""
        self.volume.remove_rules()
        self.volume.set("latency_us", 0)
        self.volume.back()


FAILURES = (("open", "EIO"), ("open", "ESTALE"), ("open", "EACCES"), ("read", "EIO"), ("read", "ESTALE"),
            ("readdir", "EIO"), ("lookup", "ESTALE"), ("lookup", "EIO"), ("getattr", "ESTALE"), ("getattr", "EIO"),
            ("rename", "EIO"), ("link", "EIO"), ("fsync", "EIO"), ("write", "EIO"), ("unlink", "EIO"),
            ("flock", "ENOLCK"))
HANGING = ("open", "read", "readdir", "lookup", "getattr", "rename", "write", "fsync", "flock")
