"""Runs the real `memsync` against a scripted agent: a ROUTER in a thread.

The command is $MEMSYNC_BUILD/memsync (build/plain when that is not set).
"""

import json
import os
import pty
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import unittest

import zmq

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MEMSYNC = os.path.join(ROOT, os.environ.get("MEMSYNC_BUILD", "build/plain"), "memsync")
DEADLINE_S = 30


class Refusal(Exception):
    def __init__(self, code, message, path=None, **data):
        super().__init__(message)
        self.code = code
        self.data = {"retryable": False, "path": path} | data


class Agent:
    """Answers each method with a value, raw JSON text, or what a function of the params says."""

    def __init__(self, directory):
        self.endpoint = f"ipc://{directory}/agent.sock"
        self.events_endpoint = f"ipc://{directory}/agent.events"
        self.answers = {}
        self.requests = []
        self.bodies = []  # the requests as they came
        self.arrived = threading.Event()
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.ROUTER)
        self.socket.linger = 0
        self.socket.bind(self.endpoint)
        self.events = self.context.socket(zmq.XPUB)
        self.events.linger = 0
        self.events.bind(self.events_endpoint)
        self.stop_read, self.stop_write = os.pipe()
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        poller = zmq.Poller()
        poller.register(self.socket, zmq.POLLIN)
        poller.register(self.stop_read, zmq.POLLIN)
        while True:
            ready = dict(poller.poll())
            if self.stop_read in ready:
                return
            *envelope, body = self.socket.recv_multipart()
            self.bodies.append(body)
            reply = self.reply(json.loads(body))
            self.arrived.set()
            if reply is not None:
                self.socket.send_multipart(envelope + [reply.encode()])

    def reply(self, request):
        self.requests.append((request["method"], request["params"]))
        answer = self.answers.get(request["method"])
        head = f'{{"jsonrpc":"2.0","id":{request["id"]},'
        try:
            if callable(answer):
                answer = answer(request["params"])
            if answer is None:
                return None
            text = answer if isinstance(answer, str) else json.dumps(answer)
            return f'{head}"result":{text}}}'
        except Refusal as refusal:
            error = {"code": refusal.code, "message": str(refusal), "data": refusal.data}
            return f'{head}"error":{json.dumps(error)}}}'

    def close(self):
        os.write(self.stop_write, b"x")
        self.thread.join()
        self.socket.close()
        self.events.close()
        self.context.term()
        os.close(self.stop_read)
        os.close(self.stop_write)


class Case(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="memsync-cli-")
        self.addCleanup(shutil.rmtree, self.directory, True)
        self.agent = Agent(self.directory)
        self.addCleanup(self.agent.close)
        self.environment = {"PATH": os.environ["PATH"], "MEMSYNC_ENDPOINT": self.agent.endpoint}
        for name, value in os.environ.items():
            if name.endswith("SAN_OPTIONS"):
                self.environment[name] = value

    def start(self, *arguments, **options):
        return subprocess.Popen([MEMSYNC, *arguments], env=self.environment, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, **options)

    def run_cli(self, *arguments, **environment):
        result = subprocess.run([MEMSYNC, *arguments], env=self.environment | environment,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, timeout=DEADLINE_S, check=False)
        return (result.returncode, result.stdout.decode(errors="surrogateescape"),
                result.stderr.decode(errors="surrogateescape"))

    def expect(self, code, *arguments, **environment):
        """Runs it, checks the exit code, gives output and complaints."""
        got, out, err = self.run_cli(*arguments, **environment)
        self.assertEqual(got, code, f"{arguments}: {out}{err}")
        return out, err

    def run_on_terminal(self, *arguments, columns=60, **environment):
        master, slave = pty.openpty()
        settings = {"TERM": "xterm", "COLUMNS": str(columns), "LC_ALL": "C.UTF-8"}
        process = subprocess.Popen([MEMSYNC, *arguments], stdin=subprocess.DEVNULL, stdout=slave,
                                   stderr=subprocess.DEVNULL,
                                   env=self.environment | settings | environment)
        os.close(slave)
        output = b""
        while select.select([master], [], [], DEADLINE_S)[0]:
            try:
                data = os.read(master, 65536)
            except OSError:  # the other end is closed
                break
            output += data
        os.close(master)
        process.wait(DEADLINE_S)
        return output.decode().replace("\r\n", "\n")

    def watch_on_terminal(self, turns, *arguments, **environment):
        """Follows a live view until it was drawn so often; what came, and the exit code."""
        master, slave = pty.openpty()
        settings = {"TERM": "xterm", "COLUMNS": "80", "LINES": "24", "NO_COLOR": "1"}
        process = subprocess.Popen([MEMSYNC, *arguments], stdout=slave, stderr=slave,
                                   stdin=subprocess.DEVNULL,
                                   env=self.environment | settings | environment)
        os.close(slave)
        output = b""
        is_stopped = False
        while select.select([master], [], [], DEADLINE_S)[0]:
            try:
                output += os.read(master, 65536)
            except OSError:  # the other end is closed
                break
            if not is_stopped and output.count(b"\x1b[J") >= turns:
                process.send_signal(signal.SIGINT)
                is_stopped = True
        os.close(master)
        return output.decode(), process.wait(DEADLINE_S)

    def last_params(self):
        return self.agent.requests[-1][1]
