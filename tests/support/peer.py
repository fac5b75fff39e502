#!/usr/bin/python3
"""A peer: another program that reads and writes the volume format, for tests.

An implementation of its own, sharing no code with the agent. As a program:

    peer.py VOLUME commit --user u --agent a --add f1 "some text" --update f2 "new text" --delete f3
    peer.py VOLUME commit --user u --summary "what the user works on"
    peer.py VOLUME commit ... --stop-after journal|fact:N|manifest|committed   (dies there)
    peer.py VOLUME commit ... --hold-after ...     (prints "holding", goes on after a line of input)
    peer.py VOLUME show --user u --agent a         (the memory as JSON)
    peer.py VOLUME recover --user u [--stop-after manifest|fact:N|backup:N|backups]   (dies there)
    peer.py VOLUME recover ... --facts-first       (facts back first, not the manifest)

    peer.py VOLUME serve                           (one request a line, one answer a line)

A commit prints the revision. Without --user it is the scope without a user; without --agent the
default bucket. Exit codes: 0 done, 1 refused (the reason on standard error), 2 usage.

As a module:

    peer = Peer("/srv/volume")
    peer.commit("u", "a", [add("f1", "some text"), update("f2", "new"), delete("f3")])

Requests and answers of `serve` are JSON objects:

    {"do": "commit", "user": "u", "agent": "a", "changes": [["add", "f1", "some text"]]}
    {"ok": true, "revision": 6}         or {"ok": false, "error": "..."}

"volume" in a request moves to another volume. What can be done: the methods of Server.
"""

import argparse
import collections
import datetime
import fcntl
import hashlib
import json
import os
import re
import shutil
import sys
import time
import uuid

import yaml

DEFAULT_AGENT = "__default__"
LOCK_NAME = ".memory.lock"
JOURNAL_NAME = ".memory.journal.json"
RECOVERY_NAME = ".recovery"
TITLE_MAX = 160
CATEGORIES = ("preference", "correction", "context", "goal", "behavior", "identity", "constraint",
              "decision", "other")
SUMMARIES = {"user": ("workContext", "personalContext", "topOfMind"),
             "history": ("recentMonths", "earlierContext", "longTermBackground")}

Change = collections.namedtuple("Change", "kind fact_id text category confidence")


class Refused(Exception):
    """The change cannot be made; nothing was."""


class Stopped(Exception):
    """The commit ended where the test wanted it to, and left everything as it was then."""


def add(fact_id, text, category="context", confidence=0.8):
    return Change("add", fact_id, text, category, confidence)


def update(fact_id, text, category=None, confidence=None):
    return Change("update", fact_id, text, category, confidence)


def delete(fact_id):
    return Change("delete", fact_id, None, None, None)


# ---- names ----

def bucket_name(user):
    """The directory of a user below users/."""
    if not user:
        raise Refused("an empty user")
    if re.fullmatch(r"[A-Za-z0-9_-]+", user):
        return user
    digest = hashlib.sha256(user.encode()).hexdigest()[:16]
    return re.sub(r"[^A-Za-z0-9_-]", "-", user) + "-" + digest


def agent_directory(agent):
    if agent != DEFAULT_AGENT and not re.fullmatch(r"[A-Za-z0-9-]+", agent):
        raise Refused(f"no agent name: {agent!r}")
    return agent.lower()


def fact_path(agent, fact_id):
    """The place of a fact, relative to the bucket."""
    if not re.fullmatch(r"[A-Za-z0-9_-]+", fact_id):
        raise Refused(f"no fact id: {fact_id!r}")
    shard = hashlib.sha256(fact_id.encode()).hexdigest()[:2]
    return f"agents/{agent_directory(agent)}/facts/{shard}/{fact_id}.md"


def now():
    return datetime.datetime.utcnow().strftime("%Y-%m-%dT%H:%M:%S.%fZ")


# ---- facts ----

def make_title(text):
    lines = [line for line in text.split("\n") if line.strip()]
    return lines[0].strip()[:TITLE_MAX] if lines else ""


def render_fact(front_matter, title, content):
    """The text of a fact file."""
    head = yaml.safe_dump(front_matter, sort_keys=False, allow_unicode=True)
    return f"---\n{head}---\n\n# {title}\n\n{content}\n"


def parse_fact(text):
    """Front matter, title, content."""
    if not text.startswith("---\n"):
        raise Refused("no front matter")
    head, fence, rest = text[4:].partition("\n---\n")
    if not fence:
        raise Refused("front matter without an end")
    front_matter = yaml.safe_load(head)
    rest = rest.lstrip("\n")
    title = ""
    if rest.startswith("# "):
        title, _, rest = rest[2:].partition("\n")
        rest = rest.lstrip("\n")
    return front_matter, title, rest.rstrip("\n")


def new_front_matter(user, agent, change, moment):
    """The front matter of a fact that is made, in the order of the format."""
    known = change.category in CATEGORIES
    fields = {
        "id": change.fact_id,
        "category": change.category if known else "other",
        "confidence": float(change.confidence),
        "createdAt": moment,
        "source": {"type": "manual", "threadId": None},
        "schemaVersion": 2,
    }
    if not known:
        fields["categoryExtension"] = change.category
    fields.update({"status": "active", "topics": [], "consolidatedFrom": [], "updatedAt": moment,
                   "revision": 1, "user_id": user, "agent_name": agent})
    return fields


def next_fact(old_text, user, agent, change):
    """The new text of a fact, or None when nothing changes."""
    moment = now()
    if change.kind == "add":
        if old_text is not None:
            raise Refused(f"{change.fact_id} is there already")
        front_matter = new_front_matter(user, agent, change, moment)
        return render_fact(front_matter, make_title(change.text), change.text)
    if old_text is None:
        raise Refused(f"there is no {change.fact_id}")
    front_matter, title, content = parse_fact(old_text)
    before = (dict(front_matter), content)
    if change.category is not None:
        known = change.category in CATEGORIES
        front_matter["category"] = change.category if known else "other"
        if not known:
            front_matter.setdefault("categoryExtension", change.category)
    if change.confidence is not None:
        front_matter["confidence"] = float(change.confidence)
    if (front_matter, change.text) == before:
        return None
    front_matter["revision"] = int(front_matter.get("revision", 0)) + 1
    front_matter["updatedAt"] = moment
    return render_fact(front_matter, title, change.text)


def empty_manifest():
    manifest = {"version": "2.0", "revision": 0, "lastUpdated": ""}
    for section, names in SUMMARIES.items():
        manifest[section] = {name: {"summary": "", "updatedAt": ""} for name in names}
    return manifest


# ---- the writer ----

def no_step(_step, _number):
    """Goes on."""


class Peer:
    """A program that works on one volume. `durable` False leaves every fsync out; `facts_first`
    is the order in which it takes a change back."""

    def __init__(self, root, manifest_name="memory.json", durable=True, facts_first=False):
        self.root = os.path.abspath(root)
        self.manifest_name = manifest_name
        self.durable = durable
        self.facts_first = facts_first

    # -- files --

    def bucket(self, user):
        return self.root if user is None else os.path.join(self.root, "users", bucket_name(user))

    def sync_directory(self, path):
        if not self.durable:
            return
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def make_directories(self, path):
        missing = []
        while not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        for path in reversed(missing):
            try:
                os.mkdir(path)
            except FileExistsError:
                continue
            self.sync_directory(os.path.dirname(path))

    def write(self, path, text):
        """Replaces a file as a whole: temporary, fsync, rename, fsync of the directory."""
        directory, name = os.path.split(path)
        self.make_directories(directory)
        temporary = os.path.join(directory, f".{name}.{uuid.uuid4().hex}.tmp")
        try:
            with open(temporary, "w", encoding="utf-8", newline="") as file:
                file.write(text)
                file.flush()
                if self.durable:
                    os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            if os.path.exists(temporary):
                os.unlink(temporary)
            raise
        self.sync_directory(directory)

    def remove(self, path):
        try:
            os.unlink(path)
        except FileNotFoundError:
            return
        self.sync_directory(os.path.dirname(path))

    @staticmethod
    def read(path):
        try:
            with open(path, encoding="utf-8", newline="") as file:
                return file.read()
        except FileNotFoundError:
            return None

    # -- reading --

    def manifest_path(self, user):
        return os.path.join(self.bucket(user), self.manifest_name)

    def manifest(self, user):
        text = self.read(self.manifest_path(user))
        return None if text is None else json.loads(text)

    def revision(self, user):
        manifest = self.manifest(user)
        return int(manifest.get("revision") or 0) if manifest else 0

    def facts(self, user, agent=None):
        """All facts of a scope: id to (front matter, title, content)."""
        top = os.path.join(self.bucket(user), "agents", agent_directory(agent or DEFAULT_AGENT),
                           "facts")
        found = {}
        for directory, _, names in sorted(os.walk(top)):
            for name in sorted(names):
                if name.startswith(".") or not name.endswith(".md"):
                    continue
                text = self.read(os.path.join(directory, name))
                if text is not None:
                    found[name[:-3]] = parse_fact(text)
        return found

    # -- lock and recovery --

    def lock(self, user, timeout_s=10.0):
        """Takes the user's lock; the descriptor, whose closing lets go of it."""
        bucket = self.bucket(user)
        self.make_directories(bucket)
        deadline = time.monotonic() + timeout_s
        while True:
            fd = os.open(os.path.join(bucket, LOCK_NAME), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC,
                         0o666)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return fd
            except BlockingIOError:
                os.close(fd)
            if time.monotonic() >= deadline:
                raise Refused(f"the lock of {user!r} is held by somebody")
            time.sleep(0.05)

    def recover_locked(self, user, at_step):
        """Takes a dead writer's change back, or cleans up behind a finished one."""
        bucket = self.bucket(user)
        journal_path = os.path.join(bucket, JOURNAL_NAME)
        text = self.read(journal_path)
        if text is None:
            return
        journal = json.loads(text)
        backups = os.path.join(bucket, RECOVERY_NAME, self.checked_name(journal["operationId"]))
        # Without backups and with the old manifest in place, an earlier recovery got this far.
        is_done = (not os.path.isdir(backups)
                   and self.revision(user) == journal["expectedRevision"])
        if journal["state"] == "prepared" and not is_done:
            self.roll_back(bucket, journal, backups, at_step)
        names = sorted(os.listdir(backups)) if os.path.isdir(backups) else []
        for number, name in enumerate(names, 1):
            os.unlink(os.path.join(backups, name))
            at_step("backup", number)
        shutil.rmtree(backups, ignore_errors=True)
        at_step("backups", 0)
        self.remove(journal_path)

    @staticmethod
    def checked_name(operation):
        if not re.fullmatch(r"[A-Za-z0-9_-]+", operation):
            raise Refused(f"an operation that is no name: {operation!r}")
        return operation

    def roll_back(self, bucket, journal, backups, at_step):
        if self.facts_first:
            self.restore_facts(bucket, journal, backups, at_step)
        # The manifest first is how the other program does it, and the harder case for a reader,
        # who may see the old manifest beside new facts.
        self.restore_manifest(bucket, journal, backups)
        at_step("manifest", 0)
        if not self.facts_first:
            self.restore_facts(bucket, journal, backups, at_step)

    def restore_manifest(self, bucket, journal, backups):
        manifest_path = os.path.join(bucket, self.manifest_name)
        manifest = self.read(os.path.join(backups, "memory.json"))
        if manifest is not None:
            self.write(manifest_path, manifest)
        elif journal["expectedRevision"] == 0:
            self.remove(manifest_path)
        else:
            raise Refused("the backup of the manifest is lost")

    def restore_facts(self, bucket, journal, backups, at_step):
        for number, fact_id in enumerate(journal["factIds"], 1):
            old = journal["oldEntries"].get(fact_id)
            if old is None:
                self.remove(os.path.join(bucket, fact_path(journal["agentName"], fact_id)))
                at_step("fact", number)
                continue
            text = self.read(os.path.join(backups, fact_id + ".md"))
            if text is None:
                raise Refused(f"the backup of {fact_id} is lost")
            self.write(os.path.join(bucket, old["path"]), text)
            at_step("fact", number)

    def recover(self, user, at_step=no_step):
        """`at_step(step, number)` is called after each step: manifest, fact (number from 1),
        backup (removed; number from 1), backups. When it raises Stopped, the recovery ends there."""
        fd = self.lock(user)
        try:
            self.recover_locked(user, at_step)
        finally:
            os.close(fd)

    # -- commits --

    def commit(self, user, agent=None, changes=(), summary=None, expected_revision=None,
               at_step=no_step):
        """Makes all changes in one commit; the new revision, or the old one when nothing changed.

        `at_step(step, number)` is called after each step: journal, fact (number from 1), manifest,
        committed. When it raises Stopped, the writer is dead: nothing is cleaned up.
        """
        fd = self.lock(user)
        try:
            self.recover_locked(user, no_step)
            return self.commit_locked(user, agent or DEFAULT_AGENT, changes, summary,
                                      expected_revision, at_step)
        finally:
            os.close(fd)

    def commit_locked(self, user, agent, changes, summary, expected_revision, at_step):
        bucket = self.bucket(user)
        manifest = self.manifest(user)
        revision = self.revision(user)
        if expected_revision is not None and expected_revision != revision:
            raise Refused(f"the revision is {revision}, not {expected_revision}")
        writes = self.plan(bucket, user, agent, changes)
        new_manifest = self.next_manifest(manifest, revision, summary)
        if not writes and new_manifest is None:
            return revision
        if new_manifest is None:
            new_manifest = self.next_manifest(manifest, revision, summary, even_if_equal=True)

        operation = uuid.uuid4().hex
        journal = self.prepare(bucket, operation, agent if changes else None, revision, writes)
        at_step("journal", 0)
        for number, (_, path, text) in enumerate(writes, 1):
            if text is None:
                self.remove(path)
            else:
                self.write(path, text)
            at_step("fact", number)
        self.write(os.path.join(bucket, self.manifest_name),
                   json.dumps(new_manifest, ensure_ascii=False, indent=2))
        at_step("manifest", 0)
        journal["state"] = "committed"
        self.write_journal(bucket, journal)
        at_step("committed", 0)
        shutil.rmtree(os.path.join(bucket, RECOVERY_NAME, operation))
        self.remove(os.path.join(bucket, JOURNAL_NAME))
        return revision + 1

    def plan(self, bucket, user, agent, changes):
        """What to write (id, path, text; text None: remove): writes first, then removals."""
        writes = []
        for change in changes:
            path = os.path.join(bucket, fact_path(agent, change.fact_id))
            old_text = self.read(path)
            if change.kind == "delete":
                if old_text is not None:
                    writes.append((change.fact_id, path, None))
                continue
            text = next_fact(old_text, user, agent, change)
            if text is not None:
                writes.append((change.fact_id, path, text))
        return sorted(writes, key=lambda write: write[2] is None)

    @staticmethod
    def next_manifest(manifest, revision, summary, even_if_equal=False):
        """The manifest of the next revision; None when no summary changes it."""
        manifest = json.loads(json.dumps(manifest)) if manifest else empty_manifest()
        work = manifest.setdefault("user", {}).setdefault("workContext", {})
        if summary is not None and work.get("summary") != summary:
            work.update({"summary": summary, "updatedAt": now()})
        elif not even_if_equal:
            return None
        manifest.update({"version": "2.0", "revision": revision + 1, "lastUpdated": now()})
        return manifest

    def prepare(self, bucket, operation, agent, revision, writes):
        """Backups first, then the journal that needs them."""
        backups = os.path.join(bucket, RECOVERY_NAME, operation)
        self.make_directories(backups)
        manifest = self.read(os.path.join(bucket, self.manifest_name))
        if manifest is not None:
            self.write(os.path.join(backups, "memory.json"), manifest)
        old_entries = {}
        for fact_id, path, _ in writes:
            old_text = self.read(path)
            if old_text is not None:
                self.write(os.path.join(backups, fact_id + ".md"), old_text)
                old_entries[fact_id] = {"path": os.path.relpath(path, bucket)}
        journal = {
            "operationId": operation,
            "state": "prepared",
            "agentName": agent,
            "expectedRevision": revision,
            "nextRevision": revision + 1,
            "factIds": [fact_id for fact_id, _, _ in writes],
            "oldEntries": old_entries,
        }
        self.write_journal(bucket, journal)
        return journal

    def write_journal(self, bucket, journal):
        self.write(os.path.join(bucket, JOURNAL_NAME),
                   json.dumps(journal, ensure_ascii=False, indent=2))


# ---- what a test does to a volume, one line a request ----

class Server:
    """A peer that is told line by line what to do, also what no sound program does.

    It remembers the manifests that it has replaced, so that it can put back the one before.
    """

    BROKEN = {
        "cut": lambda text: text[:len(text) // 2],
        "empty": lambda text: b"",
        "encoding": lambda text: b"\xff\xfe" + text.decode().encode("utf-16-le"),
        "revision": lambda text: re.sub(rb'"revision": *\d+', b'"revision": "six"', text),
    }

    def __init__(self, root):
        self.begin(root)

    def begin(self, root):
        self.peer = RewritingPeer(root, durable=False)

    def run(self, request):
        if request.get("volume"):
            self.begin(request["volume"])
        action = getattr(self, "do_" + str(request.get("do")), None)
        if action is None:
            raise Refused(f"nothing to do: {request}")
        return action(request.get("user"), request.get("agent") or DEFAULT_AGENT, request) or {}

    # -- whole commits --

    @staticmethod
    def changes(request):
        return [Change(kind, fact_id, text, "context" if kind == "add" else None,
                       0.8 if kind == "add" else None)
                for kind, fact_id, text in request.get("changes") or ()]

    def do_commit(self, user, agent, request):
        stop = parse_step(request["stop"]) if request.get("stop") else None

        def at_step(step, number):
            if (step, number) == stop:
                raise Stopped

        try:
            revision = self.peer.commit(user, agent, self.changes(request),
                                        request.get("summary"), at_step=at_step)
        except Stopped:
            revision = self.peer.revision(user)
        return {"revision": revision}

    def do_recover(self, user, _agent, _request):
        self.peer.recover(user)

    # -- the start of a schedule, and its end --

    def do_start(self, user, agent, request):
        """Facts and a manifest of that revision, without any commit."""
        self.do_raw(user, agent, request)
        manifest = self.peer.manifest(user) or empty_manifest()
        manifest.update({"revision": request["revision"], "lastUpdated": now()})
        self.peer.write_manifest(user, json.dumps(manifest, ensure_ascii=False, indent=2))

    def do_facts(self, user, agent, _request):
        return {"facts": {fact_id: content for fact_id, (_, _, content)
                          in self.peer.facts(user, agent).items()}}

    # -- parts of a commit, and what happens to files --

    def do_raw(self, user, agent, request):
        bucket = self.peer.bucket(user)
        for _, path, text in self.peer.plan(bucket, user, agent, self.changes(request)):
            if text is None:
                self.peer.remove(path)
            else:
                self.peer.write(path, text)

    def do_manifest(self, user, _agent, _request):
        """Written anew, one revision up."""
        manifest = self.peer.next_manifest(self.peer.manifest(user), self.peer.revision(user), None,
                                           even_if_equal=True)
        self.peer.write_manifest(user, json.dumps(manifest, ensure_ascii=False, indent=2))
        return {"revision": manifest["revision"]}

    def do_rollback(self, user, _agent, _request):
        """The manifest of the revision before."""
        self.peer.write_manifest(user, self.peer.replaced[user][-1])

    def do_restore(self, user, _agent, _request):
        """The same bytes as another file."""
        self.peer.write_manifest(user, self.peer.read(self.peer.manifest_path(user)))

    def do_touch(self, user, _agent, _request):
        path = self.peer.manifest_path(user)
        status = os.stat(path)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1000000000))

    def do_freeze(self, _user, _agent, _request):
        self.peer.frozen = True

    def aside(self, path):
        """A place for the sound file beside the volume, on the same file system."""
        return os.path.join(os.path.dirname(self.peer.root), "aside-" +
                            hashlib.sha256(path.encode()).hexdigest())

    def do_break(self, user, _agent, request):
        path = self.peer.manifest_path(user)
        with open(path, "rb") as file:
            text = file.read()
        os.rename(path, self.aside(path))
        with open(path, "wb") as file:
            file.write(self.BROKEN[request["kind"]](text))

    def do_hide(self, user, _agent, _request):
        """The user's directory is gone, as when it was moved away."""
        bucket = self.peer.bucket(user)
        os.rename(bucket, self.aside(bucket))

    def do_show(self, user, _agent, _request):
        bucket = self.peer.bucket(user)
        os.rename(self.aside(bucket), bucket)

    def do_repair(self, user, _agent, _request):
        path = self.peer.manifest_path(user)
        os.rename(self.aside(path), path)


class RewritingPeer(Peer):
    """Knows the manifests that it has replaced, and can write within one tick of a coarse clock."""

    def __init__(self, root, **options):
        super().__init__(root, **options)
        self.frozen = False
        self.replaced = collections.defaultdict(list)

    def write(self, path, text):
        if os.path.basename(path) != self.manifest_name or RECOVERY_NAME in path:
            super().write(path, text)
            return
        before = self.read(path)
        if self.frozen and before is not None:
            self.write_in_same_tick(path, before, text)
        else:
            super().write(path, text)
        user = next((name for name in self.replaced if self.manifest_path(name) == path), None)
        if before is not None and user is not None:
            self.replaced[user].append(before)

    def write_in_same_tick(self, path, before, text):
        """File time and, if it fits, size stay; otherwise only inode and change time tell."""
        missing = len(before.encode()) - len(text.encode())
        time_ns = os.stat(path).st_mtime_ns
        super().write(path, text + " " * missing)
        os.utime(path, ns=(time_ns, time_ns))

    def commit(self, user, *rest, **options):
        self.replaced[user] += []
        return super().commit(user, *rest, **options)

    def write_manifest(self, user, text):
        self.replaced[user] += []
        self.write(self.manifest_path(user), text)


def serve(root):
    """Answers requests until the input ends."""
    server = Server(root)
    for line in sys.stdin:
        try:
            answer = {"ok": True, **server.run(json.loads(line))}
        except (Refused, OSError, KeyError, ValueError, IndexError) as error:
            answer = {"ok": False, "error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer, ensure_ascii=False), flush=True)


# ---- the program ----

class AddChange(argparse.Action):
    """Keeps the changes in the order of the command line."""

    def __call__(self, parser, namespace, values, option_string=None):
        namespace.changes = (namespace.changes or []) + [(option_string[2:], values)]


def parse_step(text):
    """"fact:2" is ("fact", 2), "journal" is ("journal", 0)."""
    step, _, number = text.partition(":")
    if (step not in ("journal", "fact", "manifest", "committed", "backup", "backups")
            or (step in ("fact", "backup")) != bool(number)):
        raise argparse.ArgumentTypeError(f"no step: {text}")
    return step, int(number or 0)


def parse_arguments():
    parser = argparse.ArgumentParser(description="another program that works on a volume")
    parser.add_argument("volume")
    parser.add_argument("command", choices=("commit", "show", "recover", "serve"))
    parser.add_argument("--user", help="without it: the scope without a user")
    parser.add_argument("--agent", default=DEFAULT_AGENT)
    parser.add_argument("--manifest-name", default="memory.json")
    parser.add_argument("--no-sync", action="store_true", help="leave every fsync out")
    parser.add_argument("--facts-first", action="store_true",
                        help="recover the facts before the manifest")
    parser.add_argument("--expect-revision", type=int)
    parser.add_argument("--category", help="of the facts that are added or updated")
    parser.add_argument("--confidence", type=float)
    parser.add_argument("--add", nargs=2, metavar=("ID", "TEXT"), action=AddChange, dest="changes")
    parser.add_argument("--update", nargs=2, metavar=("ID", "TEXT"), action=AddChange,
                        dest="changes")
    parser.add_argument("--delete", nargs=1, metavar="ID", action=AddChange, dest="changes")
    parser.add_argument("--summary", metavar="TEXT")
    parser.add_argument("--stop-after", type=parse_step, metavar="STEP")
    parser.add_argument("--hold-after", type=parse_step, metavar="STEP")
    return parser.parse_args()


def make_changes(arguments):
    changes = []
    for kind, values in arguments.changes or ():
        if kind == "delete":
            changes.append(delete(values[0]))
        elif kind == "add":
            confidence = 0.8 if arguments.confidence is None else arguments.confidence
            changes.append(add(*values, arguments.category or "context", confidence))
        else:
            changes.append(update(*values, arguments.category, arguments.confidence))
    return changes


def show(peer, arguments):
    memory = peer.manifest(arguments.user) or {"revision": 0}
    memory["facts"] = [{**front_matter, "title": title, "content": content}
                       for front_matter, title, content
                       in peer.facts(arguments.user, arguments.agent).values()]
    print(json.dumps(memory, ensure_ascii=False, indent=2, default=str))


def main():
    arguments = parse_arguments()
    peer = Peer(arguments.volume, arguments.manifest_name, not arguments.no_sync,
                arguments.facts_first)

    def at_step(step, number):
        if (step, number) == arguments.hold_after:
            print("holding", flush=True)
            sys.stdin.readline()
        if (step, number) == arguments.stop_after:
            raise Stopped

    try:
        if arguments.command == "serve":
            serve(arguments.volume)
        elif arguments.command == "show":
            show(peer, arguments)
        elif arguments.command == "recover":
            peer.recover(arguments.user, at_step)
        else:
            print(peer.commit(arguments.user, arguments.agent, make_changes(arguments),
                              arguments.summary, arguments.expect_revision, at_step))
    except Stopped:
        print("stopped")
    except Refused as refusal:
        print(f"peer: {refusal}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
