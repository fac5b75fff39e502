"""Volumes for integration tests: those that are shared between projects, and comparing what an agent makes of one."""

import hashlib
import json
import os
import re
import shutil
import tempfile

import yaml

import agent

SHARED = os.environ.get("MEMSYNC_SHARED") or os.path.join(agent.ROOT, "..", "shared")


def shared_path(*parts):
    return os.path.join(SHARED, *parts)


def shared_is_there():
    return os.path.isdir(shared_path("volumes"))


def shared_json(*parts):
    with open(shared_path(*parts), encoding="utf-8") as file:
        return json.load(file)


def scratch_directory():
    """Memory rather than a disk where there is such a place: who kills processes does not care."""
    memory = "/dev/shm"
    return memory if os.access(memory, os.W_OK) else tempfile.gettempdir()


class Directory:
    """A directory of the test's own, which goes away with it; its volume is in `volume`."""

    def __init__(self, copy_of=None):
        self.path = tempfile.mkdtemp(prefix="ms-volume-")
        self.volume = os.path.join(self.path, "volume")
        if copy_of:
            shutil.copytree(copy_of, self.volume, symlinks=True)
            for directory, _, _ in os.walk(self.volume):
                os.chmod(directory, 0o755)
        else:
            os.mkdir(self.volume)

    def write(self, path, content):
        """Writes a file of the volume, whole at once."""
        path = os.path.join(self.volume, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".new", "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        os.rename(path + ".new", path)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)


def bucket_of(user):
    """The directory of a user's id; None is nobody, whose bucket is the root."""
    if user is None:
        return "."
    if re.fullmatch(r"[A-Za-z0-9_-]+", user):
        return f"users/{user}"
    digest = hashlib.sha256(user.encode()).hexdigest()[:16]
    return "users/" + re.sub(r"[^A-Za-z0-9_-]", "-", user) + "-" + digest


def fact_path(user, name, fact_id):
    shard = hashlib.sha256(fact_id.encode()).hexdigest()[:2]
    return os.path.normpath(f"{bucket_of(user)}/agents/{name}/facts/{shard}/{fact_id}.md")


def manifest_path(user):
    return os.path.normpath(f"{bucket_of(user)}/memory.json")


def manifest_text(revision):
    return json.dumps({"version": "2.0", "revision": revision, "lastUpdated": "2026-03-01T08:00:00Z"})


def fact_file(fact, user, name):
    """A fact file as the peers write it; its title says nothing of the content, which may be anything."""
    date = fact.get("createdAt", "2026-02-10T09:30:00Z")
    front = {
        "id": fact["id"], "category": fact.get("category", "context"), "confidence": fact.get("confidence", 0.8),
        "createdAt": date, "source": {"type": "manual", "threadId": None}, "topics": [], "schemaVersion": 2,
        "status": "active", "consolidatedFrom": [], "updatedAt": date, "revision": 1, "user_id": user,
        "agent_name": name,
    }
    return f"---\n{yaml.safe_dump(front, sort_keys=False)}---\n\n# Note {fact['id']}\n\n{fact['content']}\n"


def write_scope(directory, user, name, facts, revision=1):
    """A user with one agent's facts; the manifest comes last, as in a commit."""
    for fact in facts:
        directory.write(fact_path(user, name, fact["id"]), fact_file(fact, user, name))
    directory.write(manifest_path(user), manifest_text(revision))


def files_of(volume):
    """Path to SHA-256 of every file but locks and the agent's own directory."""
    files = {}
    for directory, _, names in os.walk(volume):
        for name in names:
            path = os.path.join(directory, name)
            relative = os.path.relpath(path, volume)
            if name == ".memory.lock" or relative.startswith(".memsyncd/"):
                continue
            with open(path, "rb") as file:
                files[relative] = hashlib.sha256(file.read()).hexdigest()
    return files


def varies(expected):
    return isinstance(expected, dict) and expected.get("$varies") is True


def difference(value, expected, where="it"):
    """The first difference in words, None when there is none: types, values and the order of keys count."""
    if varies(expected):
        return None
    if type(value) is not type(expected):
        return f"{where}: {value!r} is not {expected!r}"
    if isinstance(expected, dict):
        if list(value) != list(expected):
            return f"{where}: keys {list(value)} are not {list(expected)}"
        pairs = ((f"{where}.{key}", value[key], expected[key]) for key in expected)
    elif isinstance(expected, list):
        if len(value) != len(expected):
            return f"{where}: {len(value)} items are not {len(expected)}"
        pairs = ((f"{where}[{i}]", a, b) for i, (a, b) in enumerate(zip(value, expected)))
    else:
        return None if value == expected else f"{where}: {value!r} is not {expected!r}"
    return next((found for where, a, b in pairs if (found := difference(a, b, where))), None)


def word_of(content):
    """The longest word of a text in lower case, None when it has none."""
    words = re.findall(r"[^\W_]+", content or "")
    return max(words, key=len)[:60].lower() if words else None


def wait_quiet(running, timeout_s=20.0):
    """Waits until everything was looked at and nothing is left to refresh."""
    def is_quiet():
        status = running.rpc("status")
        sync = status["sync"]
        return status["watch"]["first_pass_done"] and sync["waiting"] == 0 and sync["running"] == 0

    running.wait_until(is_quiet, timeout_s, "quiet")


def all_scopes(running):
    """What the agent knows, by user and agent."""
    return {(scope["user_id"], scope["agent_name"]): scope for scope in running.rpc("scopes")["scopes"]}
