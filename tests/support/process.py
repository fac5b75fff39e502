"""What the tests with real agents share: a volume, a peer and agents that go away with the test."""

import ctypes
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from agent import Agent, Client, binary
from peer import Peer, add

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("MEMSYNC_BUILD") or "build/test"
FLAVOUR = os.path.basename(os.path.normpath(BUILD))
IS_SANITIZED = FLAVOUR in ("asan", "tsan")
COUNTS_LINES = FLAVOUR == "coverage"
MEMSYNCD = binary("memsyncd", BUILD)
MEMSYNC = binary("memsync", BUILD)

CLONE_NEWNS = 0x00020000
MS_REC, MS_PRIVATE = 0x4000, 0x40000


def wait_until(condition, timeout_s=10.0, what="the condition"):
    """Calls `condition` until it returns something true, and returns that."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= deadline:
            raise AssertionError(f"{what} did not come about within {timeout_s:.0f} s")
        time.sleep(0.02)


def own_mounts():
    """Gives this process mounts of its own, which end with it; the reason when that is refused.

    To be called before there are other threads.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() != 0:
        return "needs root"
    if libc.unshare(CLONE_NEWNS) != 0:
        return f"unshare: {os.strerror(ctypes.get_errno())}"
    if libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) != 0:
        return f"mount: {os.strerror(ctypes.get_errno())}"
    return None


def descriptors_of(pid):
    """What each descriptor of a process leads to."""
    found = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.append(os.readlink(f"/proc/{pid}/fd/{name}"))
        except FileNotFoundError:
            pass  # closed meanwhile
    return found


def states(reply):
    return [scope["state"] for scope in reply["scopes"]]


def contents(reply):
    return sorted(result["fact"]["content"] for result in reply["results"])


class ProcessCase(unittest.TestCase):
    """One directory for each test, with an empty volume in it and a peer that writes there."""

    maxDiff = None

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="mst-")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.volume = os.path.join(self.directory, "volume")
        os.mkdir(self.volume)
        self.peer = Peer(self.volume, durable=False)

    def agent(self, start=True, volume=None, **options):
        """An agent on the volume. Tests poll quickly unless they say otherwise."""
        agent = Agent(MEMSYNCD, volume or self.volume, **options)
        self.addCleanup(self.close_agent, agent)
        return agent.start() if start else agent

    def limited_agent(self, name, limit, **options):
        """An agent in a namespace of its own, in which the kernel grants so much of `name`."""
        probe = subprocess.run(
            ["unshare", "-Ur", "sh", "-c", f"echo {limit} > /proc/sys/user/{name}"],
            capture_output=True, text=True, check=False)
        if probe.returncode != 0:
            skip(f"a user namespace with limits of its own: {probe.stderr.strip()}")
        wrapper = os.path.join(self.directory, "memsyncd")
        with open(wrapper, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nexec unshare -Ur sh -c 'echo %d > /proc/sys/user/%s && "
                       "exec \"$0\" \"$@\"' %s \"$@\"\n" % (limit, name, MEMSYNCD))
        os.chmod(wrapper, 0o755)
        agent = self.agent(start=False, **options)
        agent.program = wrapper
        return agent.start()

    def close_agent(self, agent):
        """Ends an agent; what it logged is shown when the test has failed."""
        result = self._outcome.result
        if any(test is self for test, _ in result.errors + result.failures):
            state = "running" if agent.is_running() else f"left with {agent.process.returncode}" \
                if agent.process else "never started"
            print(f"---- log of {self.id()}, {state}\n{agent.log_tail()}", file=sys.stderr)
        agent.close()

    def fill(self, users=3, facts=4, word="amber"):
        """Users u1, u2, ... with facts that contain `word` and their own number."""
        for user in range(1, users + 1):
            self.peer.commit(f"u{user}", changes=[
                add(f"fact_{number}", f"{word} number{number} of user{user}")
                for number in range(1, facts + 1)])

    def wait_indexed(self, agent, facts, timeout_s=15.0):
        """Waits until the index holds so many facts and nothing is under way."""
        def is_done():
            status = agent.rpc("status")
            return (status["index"]["facts"] == facts and status["watch"]["first_pass_done"]
                    and status["sync"]["waiting"] == 0 and status["sync"]["running"] == 0
                    and status)
        return agent.wait_until(is_done, timeout_s, f"an index of {facts} facts")

    def run_agent(self, *arguments, env=None, timeout_s=15.0, config=None):
        """Runs memsyncd to its end."""
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("MEMSYNC_")}
        environment.update(env or {})
        return subprocess.run([MEMSYNCD, *arguments], env=environment, text=True,
                              capture_output=True, timeout=timeout_s, check=False)


class Supervisor:
    """Stands in for the service manager: collects what the agent tells it."""

    def __init__(self, directory):
        self.path = os.path.join(directory, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.messages = []
        self.arrived = []

    def receive(self, timeout_s):
        """Takes one message; None when none comes."""
        self.socket.settimeout(max(timeout_s, 0.001))
        try:
            message = self.socket.recv(65536).decode()
        except TimeoutError:
            return None
        self.messages.append(message)
        self.arrived.append(time.monotonic())
        return message

    def wait_for(self, pattern, timeout_s=10.0):
        """The first message with a line that matches, from now on."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            message = self.receive(deadline - time.monotonic())
            if message is not None and re.search(pattern, message, re.M):
                return message
        raise AssertionError(f"no message like {pattern!r}; seen: {self.messages}")

    def close(self):
        self.socket.close()


class Stream:
    """Calls a function on a connection of its own, again and again, in a thread, and keeps what
    came: pairs of (seconds, value or exception)."""

    def __init__(self, endpoint, call, pause_s=0.0):
        self.results = []
        self.endpoint = endpoint
        self.call = call
        self.pause_s = pause_s
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        client = Client(self.endpoint)
        while not self.ended.is_set():
            begun = time.monotonic()
            try:
                value = self.call(client)
            except Exception as problem:  # judged by the test
                value = problem
                if isinstance(problem, TimeoutError):
                    client.close()
                    client = Client(self.endpoint)
            self.results.append((time.monotonic() - begun, value))
            if self.pause_s:
                time.sleep(self.pause_s)
        client.close()

    def wait_for_more(self, count, timeout_s=20.0):
        """Waits for so many further results."""
        wanted = len(self.results) + count
        wait_until(lambda: len(self.results) >= wanted, timeout_s, f"{count} more answers")

    def stop(self):
        self.ended.set()
        self.thread.join(30)
        return self.results

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def skip(reason):
    """Skips a test and says so where nobody can miss it."""
    print(f"SKIPPED: {reason}", file=sys.stderr, flush=True)
    raise unittest.SkipTest(reason)
