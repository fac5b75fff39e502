"""Eight writers at once on one agent, which is killed at any moment: every write that was
acknowledged is there afterwards, and of the others all or nothing."""

import random
import threading
import time
import traceback

from agent import DEFAULT_AGENT, Client
from reader import State, require
from recoverers import all_recoverers
from world import WORD, World

WRITERS = 8
KILL_POINTS = ("COMMIT_AFTER_LOCK", "COMMIT_AFTER_BACKUP", "COMMIT_AFTER_JOURNAL",
               "COMMIT_AFTER_FACT", "COMMIT_BEFORE_MANIFEST", "COMMIT_AFTER_MANIFEST",
               "COMMIT_AFTER_COMMITTED", "COMMIT_AFTER_CLEANUP", "REPLACE_BEFORE_RENAME",
               "WRITE_AFTER_UNLOCK",
               "WRITE_BEFORE_INSTALL", "INSTALL_BEFORE_COMMIT")


class Writer:
    """Changes facts of its own, one request at a time, and knows what must be there."""

    def __init__(self, node, number, seed):
        self.node = node
        self.number = number
        self.chance = random.Random(seed * 100 + number)
        self.facts = {}      # id to content, as acknowledged
        self.hoped = None    # the same if the last request was done as well
        self.revision = 0    # the last that was acknowledged
        self.steps = 0
        self.problem = None
        self.thread = threading.Thread(target=self.run, daemon=True)

    def content(self):
        self.steps += 1
        return f"{WORD} writer{self.number} step{self.steps}"

    def choose(self):
        """Method, parameters, and the facts after it."""
        after = dict(self.facts)
        known = sorted(self.facts)
        kind = self.chance.choice(("create", "update", "delete", "several")) if known else "several"
        if kind == "create":
            content = self.content()
            after["made up"] = content
            return "create_fact", {"content": content}, after
        if kind == "update":
            fact_id = self.chance.choice(known)
            after[fact_id] = self.content()
            return "update_fact", {"fact_id": fact_id, "content": after[fact_id]}, after
        if kind == "delete":
            fact_id = self.chance.choice(known)
            del after[fact_id]
            return "delete_fact", {"fact_id": fact_id}, after
        deletes = self.chance.sample(known, min(len(known), 2))
        for fact_id in deletes:
            del after[fact_id]
        upserts = []
        for _ in range(3):
            content = self.content()
            fact_id = f"w{self.number}_{self.steps}"
            after[fact_id] = content
            upserts.append({"id": fact_id, "content": content, "category": "context",
                            "confidence": 0.5})
        return "apply_changes", {"upserts": upserts, "deletes": deletes}, after

    def wait(self, client, request):
        """The result; None when the agent died first."""
        while True:
            running = self.node.process.poll() is None
            try:
                return client.result(request, 0.05)
            except TimeoutError:
                if not running:
                    return None

    def run(self):
        try:
            with Client(self.node.endpoint) as client:
                self.write_until_killed(client)
        except Exception:
            self.problem = traceback.format_exc(limit=3)

    def write_until_killed(self, client):
        while True:
            method, params, self.hoped = self.choose()
            request = client.send(method, user_id=self.node.world.user, timeout_ms=30000, **params)
            result = self.wait(client, request)
            if result is None:
                return
            if "made up" in self.hoped:
                self.hoped[result["fact_id"]] = self.hoped.pop("made up")
            require(result["revision"] > self.revision, f"{result['revision']} after {self.revision}")
            self.revision = result["revision"]
            self.facts, self.hoped = self.hoped, None

    def check(self, contents):
        mine = sorted(content for content in contents if f" writer{self.number} " in content)
        allowed = [sorted(facts.values()) for facts in (self.facts, self.hoped) if facts is not None]
        require(mine in allowed, f"writer {self.number}: {mine}, and not one of {allowed}")


class Watcher:
    """Reads all the time, and keeps what it sees between commits."""

    def __init__(self, world):
        self.world = world
        self.ended = threading.Event()
        self.problem = None
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        try:
            while not self.ended.is_set():
                try:
                    first, second = State(self.world.bucket), State(self.world.bucket)
                except ValueError:
                    continue
                # Twice the same without a journal: nobody was in between.
                if (first.journal is None and second.journal is None
                        and first.digest() == second.digest()):
                    self.world.history.look(second)
                time.sleep(0.005)
        except Exception:
            self.problem = traceback.format_exc(limit=3)


def end_agent(node, chance, by_point):
    if by_point:
        node.order_kill(chance.choice(KILL_POINTS), chance.randint(1, 60))
        node.wait_exit()
    else:
        time.sleep(chance.uniform(0.02, 0.4))
    node.kill()


def run_round(templates, seed):
    with World(templates, "small") as world:
        try:
            run_in(world, seed)
        except Exception:
            return f"{traceback.format_exc(limit=4)[:4000]}{world.logs()}"
    return None


def run_in(world, seed):
    chance = random.Random(seed)
    recoverers = all_recoverers("other")
    recoverer = recoverers[seed % len(recoverers)]
    node = world.node("victim").settle()
    recoverer.prepare(world)
    base = world.look()
    writers = [Writer(node, number, seed) for number in range(WRITERS)]
    watcher = Watcher(world)
    for worker in (watcher, *writers):
        worker.thread.start()
    end_agent(node, chance, by_point=seed % 2)
    for worker in writers:
        worker.thread.join(30)
    watcher.ended.set()
    watcher.thread.join(30)
    for worker in (watcher, *writers):
        require(worker.problem is None and not worker.thread.is_alive(), worker.problem)

    world.look()
    recoverer.recover(world)
    node = world.node("victim")
    result = node.rpc("create_fact", user_id=world.user, content=f"{WORD} afterwards")
    state = world.look()
    contents = [content for _, _, content in state.parsed(DEFAULT_AGENT).values()]
    for writer in writers:
        writer.check(contents)
        require(result["revision"] > writer.revision, f"{result['revision']} after {writer.revision}")
    for path, text in base.facts.items():
        require(state.facts.get(path) == text, f"{path} is not as before")
    recoverer.check_leftovers(state)
    for each in world.running():
        world.check_agent(each)
