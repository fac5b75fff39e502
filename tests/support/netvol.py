"""A network volume that misbehaves as asked (chaos/netvol): one directory, seen by several nodes.

    with Netvol(directory, nodes=2) as volume:      # makes what it needs below `directory`
        volume.backing                              # what the server has
        volume.node(0).path                         # what a node sees of it
        volume.set("attr_cache_s", 60)
        volume.node(1).set("latency_us", 1000, operation="read")
        rule = volume.node(0).fail("open", "users/u1/*", "ESTALE", count=1)
        rule.fired()
        with volume.node(0).hang("flock", "users/u1/*") as held:
            held.wait_hanging()                     # released at the end of the block
        volume.gone("EIO"); volume.back(); volume.swap(path)
        volume.trace_on(); volume.trace()

What can be set and what a rule takes is told by chaos/netvol/README.md. Where no such volume can be
mounted the test is skipped.
"""

import ctypes
import json
import os
import re
import socket
import subprocess
import threading

from agent import binary
from process import BUILD, skip, wait_until

EXIT_NO_FUSE = 3
MNT_DETACH = 2
MS_REMOUNT = 32
LIBC = ctypes.CDLL(None, use_errno=True)


class NetvolError(Exception):
    """A command was refused."""


def word(value):
    """A word of a command line; in quotes where it needs them."""
    text = os.fsdecode(value) if isinstance(value, (bytes, os.PathLike)) else str(value)
    if text and not re.search(r'[\s"\\]', text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


class Rule:
    """A rule for what goes wrong; as a context it is removed at the end, and lets go what hangs."""

    def __init__(self, volume, number):
        self.volume = volume
        self.number = number

    def state(self):
        """What the rule is and how often it met an operation; None when it has been removed."""
        found = [rule for rule in self.volume.rules() if rule["rule"] == self.number]
        return found[0] if found else None

    def fired(self):
        return self.state()["fired"]

    def hanging(self):
        """Operations that hang by it: what and where."""
        return [one for one in self.volume.hanging() if one["rule"] == self.number]

    def wait_hanging(self, count=1, timeout_s=10.0):
        return wait_until(lambda: len(self.hanging()) >= count and self.hanging(), timeout_s,
                          f"{count} operations that hang")

    def wait_fired(self, count=1, timeout_s=10.0):
        wait_until(lambda: self.fired() >= count, timeout_s, f"a rule that has fired {count} times")

    def release(self):
        """Lets go what hangs now; what comes hangs again."""
        self.volume.command("release", self.number)

    def remove(self):
        if self.state():
            self.volume.command("remove", self.number)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()


class Rules:
    """What can be said of one node or of all; `number` is "all" for these."""

    def __init__(self, volume, number):
        self.of_volume = volume
        self.number = number

    def say(self, name, *words):
        return self.of_volume.command(name, self.number, *words)

    def set(self, knob, value, operation=None):
        self.say("set", knob, value, *([operation] if operation else []))

    def rule(self, name, *words, **options):
        """A rule; `options` are after, count, probability, seed and, for fail, late=True."""
        told = [f"{key}={int(value) if isinstance(value, bool) else value}"
                for key, value in options.items() if value is not None]
        return Rule(self.of_volume, self.say(name, *words, *told))

    def fail(self, operation, pattern, errno_name, **options):
        return self.rule("fail", operation, pattern, errno_name, **options)

    def hang(self, operation, pattern, **options):
        return self.rule("hang", operation, pattern, **options)

    def shorten(self, operation, pattern, size, **options):
        return self.rule("short", operation, pattern, size, **options)

    def delay(self, operation, pattern, microseconds, **options):
        return self.rule("delay", operation, pattern, microseconds, **options)

    def gone(self, errno_name):
        self.say("gone", errno_name)

    def back(self):
        self.say("back")

    def swap(self, path):
        self.say("swap", path)

    def counts(self):
        """Operations by kind since the start."""
        return self.say("counts")


class Node(Rules):
    """One mount: `path` is its mountpoint."""

    def __init__(self, volume, number, path):
        super().__init__(volume, number)
        self.path = path

    def get(self, knob):
        return self.say("get", knob)

    def knobs(self):
        return self.say("get")

    def state(self):
        """How many inodes it knows, how many handles are open, and what it is gone with."""
        return self.of_volume.command("nodes")[self.number]

    def forget(self):
        """Has the kernel forget the names that nobody uses; attributes and data of other files go with them."""
        if LIBC.mount(None, os.fsencode(self.path), None, MS_REMOUNT, None) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), self.path)


class Netvol(Rules):
    """The volume itself; what is said of it goes for all nodes."""

    def __init__(self, directory, nodes=2, backing=None):
        super().__init__(self, "all")
        self.directory = directory
        self.backing = backing or os.path.join(directory, "backing")
        self.socket_path = os.path.join(directory, "netvol.socket")
        self.nodes = [Node(self, number, os.path.join(directory, f"node{number}"))
                      for number in range(nodes)]
        self.connection = None
        self.answers = None
        self.lock = threading.Lock()
        program = binary("chaos/netvol/netvol", BUILD)
        if not os.path.exists(program):
            skip("netvol was not built: libfuse3 is missing")
        os.makedirs(self.backing, exist_ok=True)
        for node in self.nodes:
            os.mkdir(node.path)
        # Its end is the end of our pipe: it does not outlive a test that is killed.
        self.process = subprocess.Popen(
            [program, "--control", self.socket_path, "--stdin", self.backing,
             *(node.path for node in self.nodes)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True)  # Ctrl-C does not take it away from those who still use it
        self.await_ready()

    def await_ready(self):
        if self.process.stdout.readline() != b"ready\n":
            problem = self.process.stderr.read().decode(errors="replace").strip()
            code = self.process.wait(10)
            self.disconnect()
            if code == EXIT_NO_FUSE:
                skip(f"no mounts by FUSE are possible here: {problem}")
            raise AssertionError(f"netvol ended with {code}: {problem}")
        self.connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.connection.settimeout(30)
        self.connection.connect(self.socket_path)
        self.answers = self.connection.makefile("rb")

    def node(self, number):
        return self.nodes[number]

    def command(self, *words):
        """Sends a line; returns what the answer says, as JSON where it is."""
        line = " ".join(map(word, words)) + "\n"
        with self.lock:
            self.connection.sendall(os.fsencode(line))
            answer = self.answers.readline().rstrip(b"\n")
        status, _, rest = answer.partition(b" ")
        if status != b"ok":
            raise NetvolError(f"{line.strip()}: {rest.decode(errors='replace')}")
        try:
            return json.loads(rest) if rest else None
        except ValueError:
            return rest.decode()

    def rules(self):
        return self.command("rules")

    def hanging(self):
        return self.command("hanging")

    def remove_rules(self):
        self.command("remove", "all")

    def trace_on(self):
        self.command("trace", "on")

    def trace_off(self):
        self.command("trace", "off")

    def trace(self):
        """Operations since the trace was switched on or last taken, in the order of their answers."""
        taken = self.command("trace", "take")
        if taken["dropped"]:
            raise AssertionError(f"{taken['dropped']} operations had no room in the trace")
        return taken["records"]

    def swap(self, path):
        """Another directory is the volume from now on."""
        super().swap(path)
        self.backing = path

    # ---- the end ----

    def disconnect(self):
        for file in (self.answers, self.connection, self.process.stdin, self.process.stdout, self.process.stderr):
            if file:
                file.close()

    def close(self, timeout_s=20.0):
        """Ends the program; its exit code. What it said on standard error is a failure."""
        if self.process.stdin.closed:
            return self.process.returncode
        self.process.terminate()
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        said = self.process.stderr.read().decode(errors="replace")
        self.disconnect()
        if code != 0:  # a mount without its program does not look like one
            for node in self.nodes:
                LIBC.umount2(os.fsencode(node.path), MNT_DETACH)
        if code != 0 or said:
            raise AssertionError(f"netvol ended with {code}: {said}")
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
