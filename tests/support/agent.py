"""Starts the real agent on a volume and talks to it, for integration tests.

    with Agent(binary("memsyncd"), "/srv/volume", config={"sync": {"inotify": False}}) as agent:
        found = agent.rpc("search", user_id="u1", query="green tea")
        agent.kill()          # SIGKILL
        agent.start()         # the same index and endpoint again

Index, socket, configuration and log lie in a directory of the agent's own, which goes away with it.
"""

import itertools
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.parse

import yaml
import zmq

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEFAULT_AGENT = "__default__"


def binary(name, build=None):
    """A program of the build: `build`, else $MEMSYNC_BUILD, else build/plain."""
    build = build or os.environ.get("MEMSYNC_BUILD") or "build/plain"
    return os.path.join(ROOT, build, name)


class AgentFailed(Exception):
    """The agent did not do what an agent must; the message ends with its log."""


class RpcError(Exception):
    """The agent answered with an error."""

    def __init__(self, error):
        super().__init__(f"{error['code']} {error['message']}")
        self.code = error["code"]
        self.message = error["message"]
        self.data = error.get("data") or {}
        self.kind = self.data.get("kind")


class Connection:
    """A connected socket, which a `with` statement closes."""

    def __init__(self, kind):
        self.socket = zmq.Context.instance().socket(kind)
        self.socket.linger = 0

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Client(Connection):
    """One connection (DEALER), for one thread. Several requests may be under way."""

    def __init__(self, endpoint, timeout_s=10.0):
        super().__init__(zmq.DEALER)
        self.timeout_s = timeout_s
        self.ids = itertools.count(1)
        self.replies = {}
        self.socket.connect(endpoint)

    def send(self, method, **params):
        """Sends a request and returns its id."""
        request_id = next(self.ids)
        request = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
        self.socket.send(json.dumps(request).encode())
        return request_id

    def send_raw(self, *frames):
        """Sends frames as they are."""
        self.socket.send_multipart([f if isinstance(f, bytes) else f.encode() for f in frames])

    def receive_raw(self, timeout_s=None):
        """The next message as a list of frames; TimeoutError when none comes."""
        timeout_s = self.timeout_s if timeout_s is None else timeout_s
        if not self.socket.poll(max(0, int(timeout_s * 1000))):
            raise TimeoutError(f"no reply within {timeout_s:.1f} s")
        return self.socket.recv_multipart()

    def reply(self, request_id, timeout_s=None):
        """The whole reply to a request; those to others that come first are kept."""
        deadline = time.monotonic() + (self.timeout_s if timeout_s is None else timeout_s)
        while request_id not in self.replies:
            frames = self.receive_raw(max(0.0, deadline - time.monotonic()))
            reply = json.loads(frames[-1])
            self.replies[reply.get("id")] = reply
        return self.replies.pop(request_id)

    def result(self, request_id, timeout_s=None):
        """The result of a request; RpcError when the agent answered with an error."""
        reply = self.reply(request_id, timeout_s)
        if "error" in reply:
            raise RpcError(reply["error"])
        return reply["result"]

    def rpc(self, method, **params):
        """Sends a request and waits; `timeout_ms`, if given, goes to the agent as well."""
        timeout_s = self.timeout_s
        if isinstance(params.get("timeout_ms"), int):
            timeout_s = params["timeout_ms"] / 1000 + 2.0
        return self.result(self.send(method, **params), timeout_s)

    def search(self, query, user_id, agent_name=None, **params):
        """The contents that a search finds, best first."""
        found = self.rpc("search", query=query, user_id=user_id, agent_name=agent_name, **params)
        return [result["fact"]["content"] for result in found["results"]]


def topic(user_id, agent_name=None):
    parts = (user_id or "", (agent_name or DEFAULT_AGENT).lower())
    return "scope/" + "/".join(urllib.parse.quote(part, safe="") for part in parts) + "/"


class Subscriber(Connection):
    """Receives events; `prefix` "" means all."""

    def __init__(self, endpoint, prefix=""):
        super().__init__(zmq.SUB)
        self.socket.subscribe(prefix)
        self.socket.connect(endpoint)

    def next(self, timeout_s=5.0):
        """Topic and body of the next event; TimeoutError when none comes."""
        if not self.socket.poll(int(timeout_s * 1000)):
            raise TimeoutError(f"no event within {timeout_s:.1f} s")
        name, body = self.socket.recv_multipart()
        return name.decode(), json.loads(body)

    def wait_for(self, matches, timeout_s=5.0):
        """The first event for which `matches(topic, body)` holds."""
        deadline = time.monotonic() + timeout_s
        while True:
            name, body = self.next(max(0.0, deadline - time.monotonic()))
            if matches(name, body):
                return body


def merge(base, over):
    """`over` wins; sections are merged, not replaced."""
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if both else value
    return merged


class Agent:
    """One agent process. `config` is laid over the settings that a test needs anyway."""

    def __init__(self, program, volume, index=None, config=None, env=None, arguments=()):
        self.program = program
        self.volume = os.path.abspath(volume)
        self.directory = tempfile.mkdtemp(prefix="ms-")
        self.endpoint = f"ipc://{self.directory}/s"
        self.index = index or os.path.join(self.directory, "index")
        self.config_path = os.path.join(self.directory, "memsyncd.yaml")
        self.log_path = os.path.join(self.directory, "log")
        self.arguments = list(arguments)
        self.env = env or {}
        self.process = None
        self.connection = None
        self.set_config(config or {})

    def set_config(self, config):
        """Takes effect at the next start (or at SIGHUP, for what can be re-read)."""
        needed = {
            "config_version": 1,
            "volume": {"path": self.volume},
            "index": {"path": self.index},
            "ipc": {"endpoint": self.endpoint},
            "log": {"level": "debug"},
        }
        merged = merge(needed, config)
        self.endpoint = merged["ipc"]["endpoint"]
        with open(self.config_path, "w", encoding="utf-8") as file:
            yaml.safe_dump(merged, file, sort_keys=False, allow_unicode=True)

    # -- the process --

    def environment(self):
        mine = ("MEMSYNC_", "NOTIFY_SOCKET", "WATCHDOG_", "JOURNAL_STREAM", "CACHE_DIRECTORY")
        env = {name: value for name, value in os.environ.items() if not name.startswith(mine)}
        env.update(self.env)
        return env

    def start(self, wait=True, timeout_s=30.0):
        """Starts it; with `wait` it answers when this returns."""
        if self.is_running():
            raise AgentFailed("it is running already")
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [self.program, "--config", self.config_path, *self.arguments],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment())
        if wait:
            self.wait_ready(timeout_s)
        return self

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self):
        return self.process.pid

    def wait_ready(self, timeout_s=30.0):
        """Waits until it answers a ping."""
        deadline = time.monotonic() + timeout_s
        with Client(self.endpoint) as client:
            while time.monotonic() < deadline:
                if not self.is_running():
                    raise AgentFailed(f"it left with {self.process.returncode}\n{self.log_tail()}")
                try:
                    return client.result(client.send("ping"), 0.25)
                except TimeoutError:
                    continue
        raise AgentFailed(f"no answer within {timeout_s:.0f} s\n{self.log_tail()}")

    def signal(self, number):
        self.process.send_signal(number)

    def wait_exit(self, timeout_s=15.0):
        """Its exit code; -N when signal N ended it."""
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AgentFailed(f"still running after {timeout_s:.0f} s\n{self.log_tail()}") from None

    def stop(self, timeout_s=15.0):
        """SIGTERM, and waits; the exit code."""
        self.disconnect()
        if not self.is_running():
            return self.process.returncode if self.process else None
        self.signal(signal.SIGTERM)
        return self.wait_exit(timeout_s)

    def kill(self):
        """SIGKILL, and waits."""
        self.disconnect()
        if self.is_running():
            self.process.kill()
            self.process.wait()

    def restart(self):
        self.stop()
        return self.start()

    def close(self):
        """Ends it in any case and removes its directory."""
        try:
            if self.is_running():
                self.stop()
        finally:
            self.kill()
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.kill()
            shutil.rmtree(self.directory, ignore_errors=True)
            raise

    def __exit__(self, *_):
        self.close()

    # -- talking to it --

    def client(self, timeout_s=10.0):
        """A new connection; the caller closes it."""
        return Client(self.endpoint, timeout_s)

    def disconnect(self):
        if self.connection:
            self.connection.close()
            self.connection = None

    def rpc(self, method, **params):
        """A call over the agent's own connection."""
        if not self.connection:
            self.connection = self.client()
        return self.connection.rpc(method, **params)

    def search(self, query, user_id, agent_name=None, **params):
        """The contents that a search finds, best first."""
        if not self.connection:
            self.connection = self.client()
        return self.connection.search(query, user_id, agent_name, **params)

    def subscribe(self, prefix=""):
        """A subscriber; the endpoint of the events is asked for."""
        return Subscriber(self.rpc("ping")["events"], prefix)

    def wait_until(self, condition, timeout_s=10.0, what="the condition"):
        """Calls `condition` until it returns something true, and returns that."""
        deadline = time.monotonic() + timeout_s
        while True:
            value = condition()
            if value:
                return value
            if not self.is_running():
                raise AgentFailed(f"it is not running\n{self.log_tail()}")
            if time.monotonic() >= deadline:
                raise AgentFailed(f"{what} did not come about\n{self.log_tail()}")
            time.sleep(0.02)

    # -- its log --

    def log(self):
        try:
            with open(self.log_path, encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def log_tail(self, lines=40):
        return "\n".join(self.log().splitlines()[-lines:])

    def log_lines(self, part):
        """The lines that contain `part`, e.g. "event=watch.limit "."""
        return [line for line in self.log().splitlines() if part in line]
