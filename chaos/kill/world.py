"""The surroundings of one case: a volume made from a template, agents, peers, and a history."""

import json
import os
import shutil
import signal
import socket
import tempfile
import time

from agent import DEFAULT_AGENT, Agent, RpcError
from peer import Peer, add
from process import MEMSYNCD
from reader import History, State, require
from volumes import scratch_directory

PATIENCE_S = 20.0
QUIET = {"sync": {"inotify": False, "poll_interval_min_ms": 3600000,
                  "poll_interval_max_ms": 3600000},
         "backend": {"config": {"max_facts": 500}}}  # nothing is evicted
WORD = "amber"  # every fact contains it, so that a search finds all
AGENTS = (DEFAULT_AGENT, "helper", "zeta")


# A memory of the earlier layout.
EARLIER = {
    "version": "1.0", "lastUpdated": "2025-03-01T10:00:00Z",
    "user": {"workContext": {"summary": "works as before", "updatedAt": "2025-03-01T10:00:00Z"}},
    "history": {},
    "facts": [{"id": f"old_{number}", "content": f"{WORD} old number{number}",
               "category": "context", "confidence": 0.9, "createdAt": "2025-02-01T10:00:00Z",
               "source": "manual"} for number in range(1, 5)],
}


def make_templates(directory):
    """The volumes that cases begin with, for users u1 and nobody."""
    def peer(name):
        path = os.path.join(directory, name)
        os.mkdir(path)
        return Peer(path, durable=False)

    def facts(agent, count):
        return [add(f"{agent.strip('_')}_{number}", f"{WORD} {agent} number{number}")
                for number in range(1, count + 1)]

    peer("empty")
    for name, user in (("small", "u1"), ("root", None)):
        small = peer(name)
        for agent, count in zip(AGENTS, (6, 3, 2)):
            small.commit(user, agent, facts(agent, count), summary=f"works with {agent}")
    bucket = peer("v1").bucket("u1")
    os.makedirs(bucket)
    with open(os.path.join(bucket, "memory.json"), "w", encoding="utf-8") as file:
        json.dump(EARLIER, file)
    peer("twenty").commit("u1", changes=facts(DEFAULT_AGENT, 20), summary="has twenty facts")


class Node(Agent):
    """An agent that does nothing unasked, takes orders at pause points, and starts at once."""

    def __init__(self, world, name):
        place = os.path.join(world.directory, name)
        os.makedirs(place, exist_ok=True)
        self.orders = os.path.join(place, "orders")
        self.trace_path = os.path.join(place, "trace")
        super().__init__(MEMSYNCD, world.volume, index=os.path.join(place, "index"), config=QUIET,
                         env={"MEMSYNC_PAUSE": f"orders:{self.orders}"})
        self.world = world

    def wait_ready(self, timeout_s=PATIENCE_S):
        """Sooner than by a ping, whose socket tries again only now and then."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and self.is_running():
            with socket.socket(socket.AF_UNIX) as probe:
                try:
                    probe.connect(self.endpoint.removeprefix("ipc://"))
                    return
                except OSError:
                    time.sleep(0.001)
        super().wait_ready(timeout_s)

    def settle(self):
        """Waits until the index is in step and nothing is under way."""
        for agent in AGENTS:
            self.rpc("search", user_id=self.world.user, agent_name=agent, query=WORD,
                     freshness="strict")
        self.wait_soon(lambda: "event=volume.looked" in self.log())
        self.wait_idle()
        return self

    def wait_idle(self):
        def is_idle():
            sync = self.rpc("status")["sync"]
            return sync["waiting"] == 0 and sync["running"] == 0
        self.wait_soon(is_idle)

    def wait_soon(self, condition):
        """As wait_until(), for what is there in a few milliseconds."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            require(self.is_running() and time.monotonic() < deadline, "the agent does not settle")
            time.sleep(0.001)

    def order(self, text):
        with open(self.orders + ".new", "w", encoding="ascii") as file:
            file.write(text)
        os.rename(self.orders + ".new", self.orders)

    def order_kill(self, point, nth):
        self.order(f"kill:{point}:{nth}")

    def order_trace(self):
        self.order(f"trace:{self.trace_path}")

    def trace(self):
        """The points that were met since order_trace()."""
        try:
            with open(self.trace_path, encoding="ascii") as file:
                return file.read().split()
        except FileNotFoundError:
            return []

    def wait_killed(self, client):
        """Waits for the kill that was ordered while a request of `client` is under way."""
        code = self.wait_killed_or_answered(client)
        require(code == -signal.SIGKILL, f"not killed, the point was not met: {code}")
        require(not os.path.exists(self.orders), "killed by somebody else: the order is still there")
        self.disconnect()

    def wait_killed_or_answered(self, client):
        deadline = time.monotonic() + PATIENCE_S
        while self.is_running() and time.monotonic() < deadline:
            # A reply may come before the kill, but then the kill comes soon.
            if client.socket.poll(1):
                deadline = min(deadline, time.monotonic() + 2)
                time.sleep(0.001)
        return self.process.poll()


class World:
    def __init__(self, templates, template, user="u1"):
        self.directory = tempfile.mkdtemp(prefix="msk-", dir=scratch_directory())
        self.volume = os.path.join(self.directory, "volume")
        self.user = user
        self.history = History()
        self.nodes = {}
        shutil.copytree(os.path.join(templates, template), self.volume)
        self.bucket = self.peer().bucket(user)
        self.user_was_there = os.path.exists(self.bucket)

    def peer(self, facts_first=True):
        return Peer(self.volume, durable=False, facts_first=facts_first)

    def stopped_node(self, name):
        """The agent of that name, as it is."""
        if name not in self.nodes:
            self.nodes[name] = Node(self, name)
        return self.nodes[name]

    def node(self, name):
        """The agent of that name, running, with the index that it had before."""
        node = self.stopped_node(name)
        if not node.is_running():
            node.start()
        node.signal(signal.SIGCONT)
        return node

    def freeze(self, name):
        """Until somebody asks for it: it may still want to look at what it was asked about, and
        would be the one to recover."""
        self.nodes[name].signal(signal.SIGSTOP)

    def running(self):
        return [self.node(name) for name, node in self.nodes.items() if node.is_running()]

    def look(self):
        return self.history.look(State(self.bucket))

    def close(self):
        for node in self.nodes.values():
            node.kill()
            node.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def logs(self):
        return "\n".join(f"-- {name}\n{node.log_tail(25)}" for name, node in self.nodes.items())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # -- what an agent says must be what the files say --

    def check_agent(self, node):
        state = self.look()
        known = set(state.agents) | {DEFAULT_AGENT}
        for agent in sorted(known):
            self.check_scope(node, state, agent)

    def check_scope(self, node, state, agent):
        where = {"user_id": self.user, "agent_name": agent, "freshness": "strict"}
        files = {front["id"]: (content, front["revision"], front["category"])
                 for front, _, content in state.parsed(agent).values()}
        try:
            found = node.rpc("search", query=WORD, top_k=1000, **where)
            listed = node.rpc("list_facts", **where)
            memory = node.rpc("get_memory", **where)["memory"]
            verdict = node.rpc("verify", user_id=self.user, agent_name=agent)
        except RpcError as error:
            raise AssertionError(f"{agent}: {error} {error.data}") from None
        scope = found["scopes"][0]
        require(scope["state"] in ("fresh", "refreshed"), f"{agent}: {scope}")
        require(sorted(hit["fact"]["content"] for hit in found["results"]) ==
                sorted(content for content, _, _ in files.values()),
                f"{agent}: a search finds {[hit['fact']['content'] for hit in found['results']]}, "
                f"the files say {files}")
        require(self.by_id(listed["facts"]) == files and not listed["broken"],
                f"{agent}: listed are {self.by_id(listed['facts'])}, the files say {files}")
        require(self.by_id(memory["facts"]) == files and memory["revision"] == state.revision,
                f"{agent}: the memory has revision {memory['revision']}, not {state.revision}")
        document = state.document or {}
        for section in ("user", "history"):
            require(document.get(section, {}) == memory.get(section, {}) or state.manifest is None,
                    f"{agent}: other summaries than the files have: {memory.get(section)}")
        require(verdict["ok"], f"{agent}: verify says {verdict}")
        self.history.saw(f"agent {agent}", memory["revision"], json.dumps(memory, sort_keys=True))

    def check_answers(self, node, facts):
        """What is found must be these facts (of a Meaning), although the files say otherwise: a
        journal was left, and the index needs nothing from the volume."""
        for agent in AGENTS:
            where = {"user_id": self.user, "agent_name": agent, "freshness": "strict"}
            wanted = sorted(content for whose, _, _, content in facts if whose == agent)
            found = [hit["fact"] for hit in
                     node.rpc("search", query=WORD, top_k=1000, **where)["results"]]
            listed = node.rpc("list_facts", **where)["facts"]
            for answer in (found, listed):
                contents = sorted(fact["content"] for fact in answer)
                require(contents == wanted, f"{agent}: {contents} and not {wanted}")

    @staticmethod
    def by_id(facts):
        return {fact["id"]: (fact["content"], fact["revision"], fact["category"]) for fact in facts}
