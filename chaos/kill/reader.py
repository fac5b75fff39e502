"""An independent reader: what lies in a user's bucket, what it means, and whether a revision was
ever used twice. It shares no code with the agent."""

import functools
import hashlib
import json
import os
import re

import peer

TEMPORARY = re.compile(r"\..+\.[0-9a-f]{32}\.tmp")
TIMES = ("lastUpdated", "updatedAt")


class Broken(AssertionError):
    """An invariant does not hold."""


def require(holds, text):
    if not holds:
        raise Broken(text)


class State:
    """All that counts of a bucket, at one moment."""

    def __init__(self, bucket):
        self.bucket = bucket
        self.journal = self.read_journal()
        self.manifest = read(os.path.join(bucket, "memory.json"))
        self.facts = {}
        self.leftovers = []
        for directory, _, names in os.walk(os.path.join(bucket, "agents")):
            for name in names:
                path = os.path.relpath(os.path.join(directory, name), bucket)
                if TEMPORARY.fullmatch(name):
                    self.leftovers.append(path)
                elif "/facts/" in path and name.endswith(".md") and not name.startswith("."):
                    self.facts[path] = read(os.path.join(bucket, path))
        self.leftovers += self.list_leftovers()

    def read_journal(self):
        text = read(os.path.join(self.bucket, peer.JOURNAL_NAME))
        return None if text is None else json.loads(text)

    def list_leftovers(self):
        names = os.listdir(self.bucket) if os.path.isdir(self.bucket) else []
        found = [name for name in names
                 if name == peer.JOURNAL_NAME or TEMPORARY.fullmatch(name)]
        backups = os.path.join(self.bucket, peer.RECOVERY_NAME)
        if os.path.isdir(backups):
            found += [f"{peer.RECOVERY_NAME}/{name}" for name in os.listdir(backups)]
        return found

    @property
    def is_committed(self):
        return self.journal is None or self.journal["state"] == "committed"

    @property
    def document(self):
        return json.loads(self.manifest) if self.manifest is not None else None

    @property
    def revision(self):
        return self.document.get("revision", 0) if self.manifest is not None else 0

    @property
    def agents(self):
        return sorted({path.split("/")[1] for path in self.facts})

    def parsed(self, agent=None):
        """Front matter, title and content of every fact, by path."""
        return {path: parse(text) for path, text in sorted(self.facts.items())
                if agent is None or path.split("/")[1] == agent}

    def digest(self):
        return digest(self.manifest, *(part for path in sorted(self.facts)
                                       for part in (path.encode(), self.facts[path])))


@functools.lru_cache(maxsize=4096)
def parse(text):
    return peer.parse_fact(text.decode())


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def digest(*parts):
    joined = hashlib.sha256()
    for part in parts:
        joined.update(b"-" if part is None else b"+%d:" % len(part) + part)
    return joined.hexdigest()


def without_times(value):
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if key not in TIMES}
    return value


class Meaning:
    """A state without what differs from run to run: times, and ids that were made up."""

    def __init__(self, facts, manifest, revision):
        self.facts = facts        # sorted
        self.manifest = manifest  # without its revision; None: there is none
        self.revision = revision

    def differences(self, other):
        """What only one of the two has, for people; "" when they are equal."""
        ours, others = set(self.parts()), set(other.parts())
        return "\n".join([f"  there: {part}" for part in sorted(ours - others)] +
                         [f"  wanted: {part}" for part in sorted(others - ours)])

    def parts(self):
        return [*map(str, self.facts), f"manifest {self.manifest}", f"revision {self.revision}"]

    def without(self, agents):
        """The same without the facts of some agents, each a commit of its own."""
        return Meaning([fact for fact in self.facts if fact[0] not in agents],
                       self.manifest, self.revision + len(agents))


def meaning(state, known, extras=()):
    """`known`: paths that had a fact before. `extras`: contents of facts that were added one by one
    and do not count, nor do their revisions."""
    facts, seen = [], []
    for path, (front, title, content) in state.parsed().items():
        if content in extras:
            seen.append(content)
            continue
        kept = {key: value for key, value in front.items() if key != "updatedAt"}
        if path not in known:
            kept.update(id="made up", createdAt=None)
        facts.append((path.split("/")[1], json.dumps(kept, sort_keys=True, default=str), title,
                      content))
    require(sorted(seen) == sorted(extras), f"of {sorted(extras)} there are {sorted(seen)}")
    manifest = state.document
    if manifest is not None:
        manifest = {key: without_times(value) for key, value in manifest.items()
                    if key not in ("revision", *TIMES)}
    return Meaning(sorted(facts), manifest, state.revision - len(extras))


class History:
    """Every committed state that anybody saw: a revision must never mean two things."""

    def __init__(self):
        self.states = {}

    def saw(self, whose, revision, content):
        known = self.states.setdefault((whose, revision), content)
        require(known == content, f"{whose}: revision {revision} was used for two contents")

    def look(self, state):
        if state.is_committed:
            self.saw("volume", state.revision, state.digest())
        return state
