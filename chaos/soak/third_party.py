"""Third parties: programs of their own (tests/support/peer.py) that commit to the volume without any agent, and
die in the middle of it."""

import collections
import json
import os
import random
import select
import subprocess
import sys
import threading
import time
import traceback

import peer
from history import text_of

PAUSE_S = 0.25
PATIENCE_S = 20.0
KILLED_AFTER_S = 0.03  # at most
STEPS = ("journal", "fact:1", "manifest", "committed")


# `directory`: for logs. `may_die`: whether commits are left half done. `grace_s`: see Sightings.
Surroundings = collections.namedtuple("Surroundings", "volume directory recorder stop may_die grace_s")


class Sightings:
    """Who is dead where locks do not tell: whose journal has stood unchanged for the time of grace since it was seen
    first. `grace_s` None: locks tell."""

    def __init__(self, volume, grace_s):
        self.volume = volume  # a Peer
        self.grace_s = grace_s
        self.seen = {}  # user to journal and time

    def is_free(self, user):
        """May a commit be begun, and what lies there be taken back?"""
        if self.grace_s is None:
            return True
        try:
            status = os.stat(os.path.join(self.volume.bucket(user), peer.JOURNAL_NAME))
        except FileNotFoundError:
            self.seen.pop(user, None)
            return True
        journal = status.st_ino, status.st_ctime_ns
        known, since = self.seen.get(user, (None, None))
        if known != journal:
            known, since = self.seen[user] = journal, time.monotonic()
        return time.monotonic() - since > self.grace_s


class Program:
    """peer.py, told line by line."""

    def __init__(self, volume, log_path):
        with open(log_path, "ab") as log:
            self.process = subprocess.Popen([sys.executable, peer.__file__, volume, "serve"], text=True,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)

    def send(self, request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()

    def answer(self, timeout_s=PATIENCE_S):
        """None: it died, or hangs."""
        if not select.select([self.process.stdout], [], [], timeout_s)[0]:
            return None
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass  # what it was told last it has not read


class ThirdParty:
    """One that commits now and then."""

    def __init__(self, number, place, surroundings):
        self.name = f"p{number}"
        self.place = place
        self.surroundings = surroundings
        self.chance = random.Random(f"{place.seed}/{self.name}")
        self.users = [user for user in place.users if place.may_write(user)]
        self.sightings = Sightings(peer.Peer(surroundings.volume), surroundings.grace_s)
        self.known = {}  # scope to the ids that it has added
        self.steps = 0
        self.problem = None
        self.program = None
        self.thread = threading.Thread(target=self.run, daemon=True)

    def token(self):
        self.steps += 1
        return f"{self.name}s{self.steps}"

    def run(self):
        try:
            while not self.surroundings.stop.wait(self.chance.expovariate(1 / PAUSE_S)):
                user = self.chance.choice(self.users)
                if self.sightings.is_free(user):
                    self.commit(user, self.chance.choice(self.place.agents), self.ending())
        except Exception:
            self.problem = f"{self.name}: {traceback.format_exc()}"
        finally:
            if self.program:
                self.program.end()

    def ending(self):
        """How this commit ends: None, a step after which it does not go on, or a time after which it is killed."""
        if not self.surroundings.may_die or self.chance.random() > 0.2:
            return None
        return self.chance.choice((*STEPS, self.chance.uniform(0, KILLED_AFTER_S),
                                   self.chance.uniform(0, KILLED_AFTER_S)))

    def start(self):
        return Program(self.surroundings.volume, os.path.join(self.surroundings.directory, f"{self.name}.log"))

    def choose(self, user, agent):
        """Changes as peer.py takes them, and their effect and needs."""
        known = self.known.setdefault((user, agent), [])
        changes, effect, needs = [], {"set": {}, "remove": []}, {"facts": {}}
        for _ in range(self.chance.randint(1, 2)):
            token = self.token()
            changes.append(["add", f"f{token}", text_of(user, agent, token)])
            effect["set"][f"f{token}"] = token
            needs["facts"][f"f{token}"] = None
        kinds = self.chance.sample(("update", "delete"), 2)
        for kind, fact_id in zip(kinds, self.chance.sample(known, min(2, len(known)))):
            if kind == "update":
                token = self.token()
                changes.append(["update", fact_id, text_of(user, agent, token)])
                effect["set"][fact_id] = token
                needs["facts"][fact_id] = True
            else:
                changes.append(["delete", fact_id, None])
                effect["remove"].append(fact_id)
        if self.chance.random() < 0.2:
            effect["summary"] = self.token()
        return changes, effect, needs

    def commit(self, user, agent, ending=None):
        changes, effect, needs = self.choose(user, agent)
        request = {"do": "commit", "user": user, "agent": agent, "changes": changes,
                   "summary": effect.get("summary")}
        if isinstance(ending, str):
            request["stop"] = ending
        self.program = self.program or self.start()
        told = {"who": self.name, "node": None, "user": user, "agent": agent, "what": "commit", "effect": effect,
                "needs": needs, "ending": ending, "begin": time.monotonic_ns()}
        self.program.send(request)
        if isinstance(ending, float):
            time.sleep(ending)
            os.kill(self.program.process.pid, 9)
        answer = self.program.answer()
        told["end"] = time.monotonic_ns()
        told.update(outcome_of(answer, ending))
        self.surroundings.recorder.write(kind="write", **told)
        if answer is None or isinstance(ending, float):
            self.program.end()
            self.program = None
        self.remember(user, agent, effect, told["outcome"])

    def remember(self, user, agent, effect, outcome):
        known = self.known[user, agent]
        if outcome == "done":
            known[:] = [fact_id for fact_id in known if fact_id not in effect["remove"]]
            known += [fact_id for fact_id in effect["set"] if fact_id not in known]
        elif outcome == "refused" and len(known) > 4:
            del known[:2]  # perhaps somebody else has removed it


def outcome_of(answer, ending):
    """One that ended before `committed` will be taken back by whoever comes next."""
    if answer is None:
        return {"outcome": "unknown", "error": "killed"}
    if not answer["ok"]:
        kind, _, why = answer["error"].partition(": ")
        return {"outcome": "refused" if kind == "Refused" else "unknown", "error": kind, "why": why}
    if isinstance(ending, str):
        return {"outcome": "unknown" if ending == "committed" else "refused"}
    return {"outcome": "done", "revision": answer["revision"]}
