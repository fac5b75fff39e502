"""The load of the soak test: programs that use an agent and its volume in every way, for as long as told.

Whatever they do, each user keeps FACTS facts, so an index that grows has no excuse. Each role is a
process. Users belong to one writer each: u0, u3, ... and u1, u4, ... to workers that write through the
agent, the others to a program that writes the volume's files itself. Everybody searches all of them.
Guests are users who come and go, with names from a short list.
"""

import os
import random
import shutil
import signal
import time
import traceback

import zmq

from agent import Client, RpcError, Subscriber
from corpus import Corpus
from peer import Peer, add, delete, update

FACTS = 40
GUESTS = 10
# What may be answered to anybody at a busy moment; the worker looks what has become of it and goes on.
PASSING = ("timeout", "busy", "conflict", "unavailable")
FOUND_WITHIN_S = 20


class Role:
    """One process of the load; a subclass does one thing in `turn`."""

    pause_s = 0.0

    def __init__(self, place, number, seed):
        self.place = place
        self.number = number
        self.rng = random.Random(f"{seed}/{type(self).__name__}/{number}")
        self.corpus = Corpus(self.rng.random(), "mixed")
        self.counted = {}
        self.client = None

    def count(self, what):
        self.counted[what] = self.counted.get(what, 0) + 1

    def rpc(self, method, **params):
        self.count(method)
        return self.client.rpc(method, **params)

    def fact(self):
        """Content that no other fact has."""
        return f"{self.corpus.fact()} {self.number}-{sum(self.counted.values())}-{self.rng.random()}"

    def anybody(self):
        return f"u{self.rng.randrange(self.place.users)}"

    def begin(self):
        pass

    def recover(self):
        """After an answer that leaves open what has happened."""

    def turn(self):
        raise NotImplementedError

    def run(self, stop, answers):
        """The process's main function: turns until told to stop; what was counted, or what went wrong."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        name = f"{type(self).__name__} {self.number}"
        try:
            with Client(self.place.endpoint, timeout_s=30) as self.client:
                self.begin()
                while not stop.is_set():
                    self.try_turn()
                    stop.wait(self.pause_s)
                self.recover()
            answers.put((name, self.counted, None))
        except BaseException:
            answers.put((name, self.counted, traceback.format_exc()))

    def try_turn(self):
        try:
            self.turn()
        except RpcError as error:
            if error.kind not in PASSING:
                raise
            self.count(f"answered {error.kind}")
            self.recover()


class Searcher(Role):
    """A worker that reads."""

    pause_s = 0.002

    def query(self):
        kind = self.rng.random()
        words = self.corpus.query()
        if kind < 0.7:
            return words
        if kind < 0.8:
            return f'"{words}" OR {words.split()[0]}'
        if kind < 0.9:
            return f"{words.split()[0][:3]}*"
        return f"nowhere{self.rng.randrange(1000)}"  # the fallback looks into every fact

    def turn(self):
        user = self.anybody()
        kind = self.rng.random()
        if kind < 0.85:
            self.rpc("search", user_id=user, query=self.query(), top_k=self.rng.choice((1, 5, 50)),
                     freshness=self.rng.choice(("strict", "strict", "bounded", "local")))
        elif kind < 0.90:
            self.rpc("search", user_id=user, query="tea", scopes=[
                {"user_id": self.anybody(), "agent_name": None} for _ in range(4)])
        elif kind < 0.95:
            self.rpc("list_facts", user_id=user)
        elif kind < 0.98:
            self.rpc("get_memory", user_id=user)
        else:
            self.rpc(self.rng.choice(("status", "scopes", "ping")))


class Writer(Role):
    """A worker that writes; after each turn its users have FACTS facts again."""

    pause_s = 0.01

    def begin(self):
        self.mine = [f"u{i}" for i in range(self.place.users) if i % 3 == self.number]
        self.ids = {user: [f"f{i}" for i in range(FACTS)] for user in self.mine}

    def recover(self):
        for user in self.mine:
            told = self.client.rpc("list_facts", user_id=user, limit=1000)
            ids = [fact["id"] for fact in told["facts"]]
            while len(ids) > FACTS:
                self.client.rpc("delete_fact", user_id=user, fact_id=ids.pop())
            while len(ids) < FACTS:
                ids.append(self.client.rpc("create_fact", user_id=user,
                                           content=self.fact())["fact_id"])
            self.ids[user] = ids

    def turn(self):
        user = self.rng.choice(self.mine)
        ids = self.ids[user]
        at = self.rng.randrange(len(ids))
        kind = self.rng.random()
        if kind < 0.5:
            self.rpc("update_fact", user_id=user, fact_id=ids[at], content=self.fact())
        elif kind < 0.8:
            self.rpc("delete_fact", user_id=user, fact_id=ids[at])
            ids[at] = self.rpc("create_fact", user_id=user, content=self.fact())["fact_id"]
        elif kind < 0.95:
            told = self.rpc("apply_changes", user_id=user, deletes=[ids[at]],
                            upserts=[{"content": self.fact()}])
            ids[at] = told["upserted"][0]["id"]
        else:
            memory = self.rpc("export_memory", user_id=user)["memory"]
            self.rpc("clear_memory", user_id=user, agent_name="__default__")
            self.rpc("import_memory", user_id=user, memory_data=memory)


class Neighbour(Role):
    """Another program of the volume, which the agent learns of by looking."""

    pause_s = 0.02

    def begin(self):
        self.peer = Peer(self.place.volume, durable=False)
        self.mine = [f"u{i}" for i in range(self.place.users) if i % 3 == 2]
        self.ids = {user: [f"f{i}" for i in range(FACTS)] for user in self.mine}

    def turn(self):
        user = self.rng.choice(self.mine)
        ids = self.ids[user]
        at = self.rng.randrange(len(ids))
        self.count("commit")
        if self.rng.random() < 0.5:
            self.peer.commit(user, changes=[update(ids[at], self.fact())])
            return
        new = f"n{self.counted['commit']}"
        self.peer.commit(user, changes=[delete(ids[at]), add(new, self.fact())])
        ids[at] = new


class Guests(Role):
    """Users who come, are searched, and go with all they had."""

    pause_s = 0.3

    def begin(self):
        self.peer = Peer(self.place.volume, durable=False)

    def found(self, user):
        return self.rpc("search", user_id=user, query="guest")["count"]

    def turn(self):
        self.count("guest")
        user = f"guest{self.counted['guest'] % GUESTS}"
        self.peer.commit(user, changes=[add(f"g{i}", f"guest {self.fact()}") for i in range(3)])
        if self.found(user) != 3:
            raise AssertionError(f"{user}: {self.found(user)} facts found of 3")
        shutil.rmtree(self.peer.bucket(user))
        end = time.monotonic() + FOUND_WITHIN_S
        while self.found(user):
            if time.monotonic() > end:
                raise AssertionError(f"{user} is still found after it went")
            time.sleep(0.05)


class Passers(Role):
    """Clients that connect, ask, and leave before the answer comes; some speak nonsense."""

    pause_s = 0.05

    def leave_early(self):
        with Client(self.place.endpoint) as client:
            for _ in range(self.rng.randrange(4)):
                client.send("search", user_id=self.anybody(), query=self.corpus.query())
            if self.rng.random() < 0.5:
                client.rpc("ping")

    def turn(self):
        kind = self.rng.random()
        if kind < 0.6:
            self.count("left early")
            self.leave_early()
        elif kind < 0.8:
            self.count("nonsense")
            with Client(self.place.endpoint) as client:
                client.send_raw(self.rng.choice((b"", b"{", b"\xff" * 100, b"[1]", b'{"id":1}')))
                client.receive_raw()
        else:
            self.count("subscribed")
            with Subscriber(self.place.events, f"scope/{self.anybody()}/") as subscriber:
                subscriber.socket.poll(100, zmq.POLLIN)


class Upkeep(Role):
    """An operator: complete looks, full refreshes, comparisons, the state in the log."""

    pause_s = 1.0

    def turn(self):
        kind = self.rng.random()
        if kind < 0.3:
            self.rpc("refresh", all=True)
        elif kind < 0.6:
            self.rpc("refresh", user_id=self.anybody(), full=True)
        elif kind < 0.9:
            self.rpc("verify", user_id=self.anybody())
        else:
            self.count("signal")
            os.kill(self.place.pid, self.rng.choice((signal.SIGUSR1, signal.SIGHUP)))


ROLES = ((Searcher, 0), (Searcher, 1), (Searcher, 2), (Writer, 0), (Writer, 1), (Neighbour, 0),
         (Guests, 0), (Passers, 0), (Upkeep, 0))
