"""Workers of one agent: they search, read and write through it, and write down what it answered.

Each has a dice of its own, made from the seed, which alone decides what it does next; what it has seen last of a
scope decides what there is to change.
"""

import collections
import os
import random
import signal
import threading
import time
import traceback

from agent import Client, RpcError
from history import WORD, WORDS, Recorder, text_of, token_of

PAUSE_S = 0.08       # between two operations, on average
FACTS_FEW, FACTS_MANY = 6, 24
TIMEOUTS_MS = (300, 1000, 3000, 5000)
EXTRA_S = 1.0        # how much longer than the agent a worker waits


class Place(collections.namedtuple("Place", "node endpoint users agents seed workers owners")):
    """Where somebody works. `owners`: user to the node that writes it; None: all nodes write all users."""

    def may_write(self, user):
        return self.owners is None or self.owners[user] == self.node



def outcome_of(error):
    """Of a write that was answered with an error: was it certainly not done?"""
    if error.data.get("reason") == "unconfirmed":
        return "unknown"
    if error.kind == "timeout":
        return "refused" if error.data.get("attempts") == 0 else "unknown"
    return "refused"


class Worker:
    """One of them, a thread."""

    def __init__(self, place, number, recorder, stop):
        self.place = place
        self.name = f"n{place.node}w{number}"
        self.chance = random.Random(f"{place.seed}/{self.name}")
        self.recorder = recorder
        self.stop = stop
        self.seen = {}       # scope to {id: (token, revision of the fact)}
        self.memories = {}   # scope to the last memory
        self.steps = 0
        self.problem = None
        self.client = None

    def token(self):
        self.steps += 1
        return f"{self.name}s{self.steps}"

    def run(self):
        try:
            while not self.stop.is_set():
                with Client(self.place.endpoint) as self.client:
                    while not self.stop.is_set() and self.turn():
                        self.stop.wait(self.chance.expovariate(1 / PAUSE_S))
        except Exception:
            self.problem = f"{self.name}: {traceback.format_exc()}"

    def turn(self):
        """One operation; False when there was no answer: what was sent must not be kept for the next agent."""
        scope = self.chance.choice(self.place.users), self.chance.choice(self.place.agents)
        kinds, weights = zip(*(KINDS if self.place.may_write(scope[0]) else READING))
        return self.chance.choices(kinds, weights)[0](self, *scope) is not False

    # -- asking --

    def call(self, method, user, agent, params):
        """The result, and how the operation went; a result of None: there is an error."""
        timeout_ms = self.chance.choice(TIMEOUTS_MS)
        told = {"who": self.name, "node": self.place.node, "user": user, "agent": agent, "what": method,
                "begin": time.monotonic_ns()}
        result = None
        try:
            request = self.client.send(method, user_id=user, agent_name=agent, timeout_ms=timeout_ms, **params)
            result = self.client.result(request, timeout_ms / 1000 + EXTRA_S)
        except RpcError as error:
            told["error"], told["failed"] = error.kind, error
        except TimeoutError:
            told["error"], told["failed"] = "no answer", None
        told["end"] = time.monotonic_ns()
        return result, told

    def mode(self, told):
        """How fresh it has to be."""
        told["freshness"] = self.chance.choices(("strict", "bounded", "local"), (6, 2, 2))[0]
        told["max_staleness_ms"] = self.chance.choice((100, 1000, 5000))
        return {"freshness": told["freshness"], "max_staleness_ms": told["max_staleness_ms"]}

    # -- reading --

    def read(self, method, user, agent, params, take, **more):
        """`take`: the facts of a result, and its scope."""
        asked = {**more}
        result, told = self.call(method, user, agent, {**params, **self.mode(asked)})
        failed = told.pop("failed", None)
        if result is None:
            self.recorder.write(kind="read", **told, **asked)
            return failed is not None
        documents, scope = take(result)
        facts = [[fact["id"], token_of(user, agent, fact["content"])] for fact in documents]
        answer = answered(scope)
        if method == "get_memory":
            answer["summary"] = result["memory"]["user"]["workContext"].get("summary") or None
        self.recorder.write(kind="read", **told, **asked, **answer, facts=facts)
        if not more:
            self.seen[user, agent] = {fact["id"]: (token_of(user, agent, fact["content"]), fact["revision"])
                                      for fact in documents}
        return True

    def search_all(self, user, agent):
        return self.read("search", user, agent, {"query": WORD, "top_k": 1000}, found)

    def search_word(self, user, agent):
        word = self.chance.choice(WORDS)
        return self.read("search", user, agent, {"query": word, "top_k": 1000}, found, word=word)

    def search_some(self, user, agent):
        limit = self.chance.choice((1, 5))
        return self.read("search", user, agent, {"query": WORD, "top_k": limit}, found, limit=limit)

    def list_facts(self, user, agent):
        return self.read("list_facts", user, agent, {}, lambda result: (result["facts"], result["scope"]))

    def get_fact(self, user, agent):
        known = sorted(self.seen.get((user, agent), ()))
        if not known:
            return self.list_facts(user, agent)
        fact_id = self.chance.choice(known)
        return self.read("get_fact", user, agent, {"fact_id": fact_id},
                         lambda result: ([result["fact"]], result["scope"]), id=fact_id)

    def get_memory(self, user, agent):
        def take(result):
            self.memories[user, agent] = result["memory"]
            return result["memory"]["facts"], result["scope"]
        return self.read("get_memory", user, agent, {}, take)

    def search_several(self, user, agent):
        """All agents of two users at once; one read each."""
        users = sorted({user, self.chance.choice(self.place.users)})
        scopes = [{"user_id": each, "agent_name": name} for each in users for name in self.place.agents]
        asked = {}
        result, told = self.call("search", None, None, {"query": WORD, "top_k": 1000, "scopes": scopes,
                                                        **self.mode(asked)})
        failed = told.pop("failed", None)
        if result is None:
            self.recorder.write(kind="read", **told, **asked)
            return failed is not None
        for scope in result["scopes"]:
            told.update(user=scope["user_id"], agent=scope["agent_name"])
            facts = [[hit["fact"]["id"], token_of(told["user"], told["agent"], hit["fact"]["content"])]
                     for hit in result["results"] if is_of(hit["fact"], scope)]
            answer = answered(scope)
            self.recorder.write(kind="read", **told, **asked, **answer, facts=facts)
        return True

    # -- writing --

    def write(self, method, user, agent, params, effect, needs=None, told_agent=None):
        """`effect` may have an id "" that is learnt from the answer."""
        result, told = self.call(method, user, agent, params)
        failed = told.pop("failed", None)
        told.update(agent=told_agent or agent, effect=effect, needs=needs or {})
        if result is None:
            told["outcome"] = outcome_of(failed) if failed else "unknown"
        else:
            told.update(outcome="done" if result["changed"] else "nothing", revision=result["revision"],
                        index=result["index"])
            if result.get("kept"):
                told["kept"] = [name_of_fact(one["path"]) for one in result["kept"]]
            if result.get("fact_id") and "" in effect.get("set", {}):
                effect["set"] = {result["fact_id"]: effect["set"][""]}
        self.recorder.write(kind="write", **told)
        return result is not None or failed is not None

    def create_fact(self, user, agent):
        if len(self.seen.get((user, agent), ())) >= FACTS_MANY:
            return self.apply_changes(user, agent)
        token = self.token()
        return self.write("create_fact", user, agent, {"content": text_of(user, agent, token)},
                          {"set": {"": token}})

    def one(self, user, agent):
        """A fact that was seen, its token and its revision; None: there is none."""
        seen = self.seen.get((user, agent))
        if not seen:
            return None
        fact_id = self.chance.choice(sorted(seen))
        return (fact_id, *seen[fact_id])

    def update_fact(self, user, agent):
        fact = self.one(user, agent)
        if not fact:
            return self.list_facts(user, agent)
        token = self.token()
        params = {"fact_id": fact[0], "content": text_of(user, agent, token)}
        needs = {"facts": {fact[0]: True}}
        if self.chance.random() < 0.5:
            params["expected_revision"] = fact[2]
            needs = {"facts": {fact[0]: fact[1]}}
        return self.write("update_fact", user, agent, params, {"set": {fact[0]: token}}, needs)

    def delete_fact(self, user, agent):
        fact = self.one(user, agent)
        if not fact or len(self.seen[user, agent]) <= FACTS_FEW:
            return self.create_fact(user, agent)
        params, needs = {"fact_id": fact[0]}, {"facts": {fact[0]: True}}
        if self.chance.random() < 0.5:
            params["expected_revision"] = fact[2]
            needs = {"facts": {fact[0]: fact[1]}}
        return self.write("delete_fact", user, agent, params, {"remove": [fact[0]]}, needs)

    def apply_changes(self, user, agent):
        """Several at once: some new, some changed, some removed; perhaps only at the revision that was seen."""
        seen = self.seen.get((user, agent), {})
        known = self.chance.sample(sorted(seen), min(len(seen), 4))
        room = len(seen) < FACTS_MANY
        removed, changed = (known[:1], known[1:3]) if room else (known[:3], known[3:])
        upserts, effect, needs = [], {"set": {}, "remove": []}, {"facts": {}, "if_there": {}}
        for fact_id in changed:
            upserts.append(self.document(user, agent, fact_id, effect, revision=seen[fact_id][1]))
            needs["facts"][fact_id] = seen[fact_id][0]
        for _ in range(self.chance.randint(1, 3 if room else 1)):
            fact_id = f"f{self.token()}"
            upserts.append(self.document(user, agent, fact_id, effect))
            needs["facts"][fact_id] = None
        params = {"upserts": upserts}
        expects = self.chance.random() < 0.5
        if removed and len(seen) > FACTS_FEW:
            params["deletes"] = effect["remove"] = removed
            if expects:
                params["expected_fact_revisions"] = {fact_id: seen[fact_id][1] for fact_id in removed}
                needs["if_there"] = {fact_id: seen[fact_id][0] for fact_id in removed}
        if self.chance.random() < 0.2:
            effect["summary"] = self.token()
            params["summaries"] = {"user": {"workContext": {"summary": effect["summary"]}}}
        return self.write("apply_changes", user, agent, params, effect, needs)

    def document(self, user, agent, fact_id, effect, **members):
        token = self.token()
        effect["set"][fact_id] = token
        return {"id": fact_id, "content": text_of(user, agent, token), "category": "context", "confidence": 0.7,
                **members}

    def update_summaries(self, user, agent):
        token = self.token()
        params = {"summaries": {"user": {"workContext": {"summary": token}}}}
        result = self.write("update_summaries", user, None, params, {"summary": token})
        return result

    def import_memory(self, user, agent):
        """The memory that was seen last, with one fact fewer and a new one, if nobody has written since."""
        memory = self.memories.pop((user, agent), None)
        if not memory:
            return self.get_memory(user, agent)
        kept = memory["facts"][1:] if len(memory["facts"]) > FACTS_FEW else memory["facts"]
        effect = {"replace": True, "set": {fact["id"]: token_of(user, agent, fact["content"]) for fact in kept}}
        effect["old"] = sorted(effect["set"].values())
        new = self.document(user, agent, f"f{self.token()}", effect)
        params = {"memory_data": {"version": "2.0", "facts": [*kept, new]},
                  "expected_revision": memory["revision"]}
        return self.write("import_memory", user, agent, params, effect, {"revision": memory["revision"]})

    def clear_memory(self, user, agent):
        memory = self.memories.pop((user, agent), None)
        if not memory:
            return self.get_memory(user, agent)
        return self.write("clear_memory", user, agent, {"expected_revision": memory["revision"]},
                          {"replace": True}, {"revision": memory["revision"]})


def answered(scope):
    """What is written down of a scope in an answer."""
    return {name: scope.get(name) for name in ("state", "revision", "age_ms", "reason", "broken")}


def name_of_fact(path):
    return os.path.basename(path).removesuffix(".md")


def found(result):
    return [hit["fact"] for hit in result["results"]], result["scopes"][0]


def is_of(fact, scope):
    """Does the fact say that it belongs to this scope?"""
    return (fact["scope"].get("userId"), fact["scope"].get("agentName")) == (scope["user_id"], scope["agent_name"])


READING = ((Worker.search_all, 20), (Worker.search_word, 8), (Worker.search_some, 4), (Worker.search_several, 5),
           (Worker.list_facts, 8), (Worker.get_memory, 10), (Worker.get_fact, 4))
KINDS = (*READING,
         (Worker.create_fact, 9), (Worker.update_fact, 12), (Worker.delete_fact, 5), (Worker.apply_changes, 10),
         (Worker.update_summaries, 3), (Worker.import_memory, 2), (Worker.clear_memory, 0.2))


def run_workers(place, path, stop, answers):
    """The main function of a process: all workers of one agent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    recorder = Recorder(path)
    workers = [Worker(place, number, recorder, stop) for number in range(place.workers)]
    threads = [threading.Thread(target=worker.run, daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorder.close()
    answers.put([worker.problem for worker in workers if worker.problem])
