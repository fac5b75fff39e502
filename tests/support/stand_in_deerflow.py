"""Stands in for the parts of DeerFlow that memsync.deerflow meets, for tests.

    stand_in_deerflow.install()                       # for `import deerflow...`, until remove()
    storage = create_storage(Config(storage_path="/srv/volume", storage_class="memsync.deerflow.AgentMemoryStorage"))

An implementation of its own, on the tests' peer: names, arguments and errors are DeerFlow's, and it does no more than
the tests need. Its storage of files tells its index of its own writes, and has it rebuilt where another program has
written, as DeerFlow's does.
"""

import abc
import copy
import importlib
import json
import logging
import os
import sys
import types

from peer import CATEGORIES, DEFAULT_AGENT, Peer, Refused, add, delete, update

MODULE = "deerflow.agents.memory.backends.deermem.deermem.core.storage"
SUMMARIES = {"user": ("workContext", "personalContext", "topOfMind", "cognitiveStyle"),
             "history": ("recentMonths", "earlierContext", "longTermBackground")}
CLEAR_GENERATION_CAPABILITY = "clear-generation"


class Config:
    """The backend's configuration, as far as it is looked at."""

    def __init__(self, storage_path="", storage_class="", retrieval_adapter="", strict_user_scope=False,
                 file_lock_timeout_seconds=10):
        self.storage_path = storage_path
        self.storage_class = storage_class
        self.retrieval_adapter = retrieval_adapter
        self.strict_user_scope = strict_user_scope
        self.file_lock_timeout_seconds = file_lock_timeout_seconds


class MemoryStorageError(RuntimeError):
    pass


class MemoryStorageCorruption(MemoryStorageError):
    pass


class MemoryRevisionConflict(MemoryStorageError):
    pass


class MemoryManifestRevisionConflict(MemoryRevisionConflict):
    pass


class MemoryFactRevisionConflict(MemoryRevisionConflict):
    pass


class MemoryClearGenerationConflict(MemoryStorageError):
    pass


def create_empty_memory():
    empty = {section: {name: {"summary": "", "updatedAt": ""} for name in names}
             for section, names in SUMMARIES.items()}
    return {"version": "1.0", "revision": 0, "lastUpdated": "2026-01-01T00:00:00Z", **empty, "facts": []}


def scope_clear_generation(document, agent_name):
    return (document.get("clearGeneration", 0), document.get("agentClearGenerations", {}).get(agent_name, 0))


def is_stale_clear_generation(expected, current):
    return any(now > then for now, then in zip(current, expected))


class MemoryStorage(abc.ABC):
    @abc.abstractmethod
    def load(self, agent_name=None, *, user_id=None):
        ...

    @abc.abstractmethod
    def reload(self, agent_name=None, *, user_id=None):
        ...

    @abc.abstractmethod
    def save(self, memory_data, agent_name=None, *, user_id=None, expected_revision=None):
        ...

    def apply_changes(self, change_set, **scope):
        raise NotImplementedError

    def clear_all(self, *, user_id=None):
        raise NotImplementedError

    def close(self):
        pass


class FileMemoryStorage(MemoryStorage):
    """Memories in files, by the peer. `calls` names what was asked of any of them."""

    calls = []

    def __init__(self, config, retrieval=None):
        self.peer = Peer(config.storage_path, durable=False)
        self.retrieval = retrieval
        self.synced = {}

    def _get_memory_file_path(self, agent_name=None, *, user_id=None):
        return self.peer.manifest_path(user_id)

    def load(self, agent_name=None, *, user_id=None):
        self.calls.append("load")
        try:
            manifest = self.peer.manifest(user_id)
            facts = self.peer.facts(user_id, agent_name) if agent_name else {}
        except (ValueError, Refused) as error:
            raise MemoryStorageCorruption(str(error)) from error
        document = {**create_empty_memory(), **(manifest or {})}
        document["facts"] = [self.fact(*facts[fact_id]) for fact_id in sorted(facts)]
        return document

    @staticmethod
    def fact(front_matter, title, content):
        fact = dict(front_matter)
        fact["scope"] = {"userId": fact.pop("user_id"), "agentName": fact.pop("agent_name")}
        return {**fact, "title": title, "content": content}

    def reload(self, agent_name=None, *, user_id=None):
        if agent_name and self.retrieval:
            self.rebuild_index([{"userId": user_id, "agentName": agent_name}])
        return self.load(agent_name, user_id=user_id)

    def save(self, memory_data, agent_name=None, *, user_id=None, expected_revision=None):
        raise NotImplementedError("no test needs it")

    def apply_changes(self, change_set, *, user_id=None, agent_name=None, expected_manifest_revision=None,
                      allow_manifest_rebase=False, bump_clear_generation=None, expected_clear_generation=None):
        self.calls.append("apply_changes")
        stored = self.peer.facts(user_id, agent_name)
        changes = [(update if fact["id"] in stored else add)(
            fact["id"], fact["content"], fact.get("category", CATEGORIES[2]), fact.get("confidence", 0.5))
            for fact in change_set.get("upserts", [])]
        changes += [delete(fact_id) for fact_id in change_set.get("deletes", [])]
        before = self.peer.revision(user_id)
        summaries = (change_set.get("summaries") or {}).get("user", {})
        summary = summaries.get("workContext", {}).get("summary", "" if self.peer.manifest(user_id) else None)
        try:
            revision = self.peer.commit(user_id, agent_name, changes, summary, expected_manifest_revision)
        except Refused as error:
            raise MemoryManifestRevisionConflict(str(error)) from error
        if revision == before == 0:  # a manifest is begun with the first write, be it empty
            revision = self.begin(user_id)
        if bump_clear_generation:
            revision = self.bump(user_id, agent_name if bump_clear_generation == "agent" else None)
        self.tell(changes, user_id, agent_name, before)
        return {"complete": False, "version": "2.0", "revision": revision, "lastUpdated": "",
                "upsertedFacts": copy.deepcopy(change_set.get("upserts", [])),
                "deletedFactIds": list(change_set.get("deletes", []))}

    def begin(self, user_id):
        return self.rewrite(user_id, {**create_empty_memory(), "version": "2.0", "facts": None})

    def bump(self, user_id, agent_name):
        manifest = self.peer.manifest(user_id)
        if agent_name is None:
            manifest["clearGeneration"] = manifest.get("clearGeneration", 0) + 1
        else:
            counts = manifest.setdefault("agentClearGenerations", {})
            counts[agent_name] = counts.get(agent_name, 0) + 1
        return self.rewrite(user_id, manifest)

    def rewrite(self, user_id, manifest):
        manifest = {name: value for name, value in manifest.items() if value is not None}
        manifest["revision"] += 1
        self.peer.write(self.peer.manifest_path(user_id), json.dumps(manifest))
        return manifest["revision"]

    def clear_all(self, *, user_id=None):
        self.calls.append("clear_all")
        top = os.path.join(self.peer.bucket(user_id), "agents")
        for agent in sorted(os.listdir(top)) if os.path.isdir(top) else []:
            self.peer.commit(user_id, agent, [delete(fact_id) for fact_id in self.peer.facts(user_id, agent)])
        self.bump(user_id, None)
        return self.load(DEFAULT_AGENT, user_id=user_id)

    def get_fact(self, fact_id, *, user_id=None, agent_name=None):
        return next((fact for fact in self.load(agent_name, user_id=user_id)["facts"] if fact["id"] == fact_id), None)

    # -- the index --

    def tell(self, changes, user_id, agent_name, before):
        if self.retrieval is None:
            return
        scope = {"userId": user_id, "agentName": agent_name}
        for change in changes:
            if change.kind == "delete":
                self.retrieval.remove(change.fact_id, scope=scope)
            else:
                self.retrieval.upsert({"id": change.fact_id, "content": change.text}, scope=scope, path="")
        if self.synced.get((user_id, agent_name)) == before:
            self.synced[user_id, agent_name] = self.peer.revision(user_id)

    def rebuild_index(self, scopes=None):
        if self.retrieval is None:
            return {"supported": False, "indexed": 0, "failed": 0, "reason": "retrieval_not_configured"}
        records = [(fact, fact["scope"], "") for scope in scopes or self.all_scopes()
                   for fact in self.load(scope["agentName"], user_id=scope["userId"])["facts"]]
        try:
            self.retrieval.rebuild(records, scopes=scopes)
        except Exception:  # pylint: disable=broad-except
            return {"supported": True, "indexed": 0, "failed": len(records) or 1, "fatal": True}
        for scope in scopes or self.all_scopes():
            self.synced[scope["userId"], scope["agentName"]] = self.peer.revision(scope["userId"])
        return {"supported": True, "indexed": len(records), "failed": 0}

    def all_scopes(self):
        top = os.path.join(self.peer.root, "users")
        return [{"userId": user, "agentName": agent} for user in sorted(os.listdir(top))
                for agent in sorted(os.listdir(os.path.join(top, user, "agents")))]

    def search_facts(self, query, *, scopes, top_k=10, mode="hybrid", filters=None):
        self.calls.append("search_facts")
        if self.retrieval is not None:
            behind = [scope for scope in scopes
                      if self.synced.get((scope["userId"], scope["agentName"])) != self.peer.revision(scope["userId"])]
            if not behind or not self.rebuild_index(behind)["failed"]:
                return self.retrieval.search(query, scopes=scopes, top_k=top_k, mode=mode, filters=filters)
        facts = [fact for scope in scopes for fact in self.load(scope["agentName"], user_id=scope["userId"])["facts"]]
        return [{"fact": fact, "score": fact["confidence"], "matchType": "substring"} for fact in facts
                if query.lower() in fact["content"].lower()][:top_k]

    # -- side data --

    def get_fact_usage(self, *, agent_name, user_id=None):
        self.calls.append(("get_fact_usage", user_id, agent_name))
        return {"fact_1": {"accessCount": 3}}

    def record_fact_accesses(self, fact_ids, *, agent_name, user_id=None, accessed_at=None):
        self.calls.append(("record_fact_accesses", user_id, agent_name, fact_ids, accessed_at))

    def record_capacity_eviction(self, decision, *, max_facts, agent_name, user_id=None):
        self.calls.append(("record_capacity_eviction", user_id, agent_name, decision, max_facts))

    def clear_fact_metadata(self, *, agent_name, user_id=None, fact_ids=None):
        self.calls.append(("clear_fact_metadata", user_id, agent_name, fact_ids))

    def close(self):
        if self.retrieval is not None:
            self.retrieval.close()


def named(path):
    module, name = path.rsplit(".", 1)
    return getattr(importlib.import_module(module), name)


def create_storage(config):
    """What DeerFlow makes of its configuration."""
    retrieval = named(config.retrieval_adapter)(config) if config.retrieval_adapter else None
    if not config.storage_class:
        return FileMemoryStorage(config, retrieval=retrieval)
    kind = named(config.storage_class)
    if not isinstance(kind, type) or not issubclass(kind, MemoryStorage):
        raise TypeError(f"{config.storage_class} is no MemoryStorage")
    return kind(config)


def quiet_log():
    """What is logged is told to those tests alone that ask for it."""
    log = logging.getLogger("memsync.deerflow")
    log.propagate = False
    log.addHandler(logging.NullHandler())


# What only newer versions have.
FENCE = ("CLEAR_GENERATION_CAPABILITY", "MemoryClearGenerationConflict", "scope_clear_generation",
         "is_stale_clear_generation")
NAMES = ("MemoryStorage", "FileMemoryStorage", "MemoryStorageError", "MemoryStorageCorruption",
         "MemoryRevisionConflict", "MemoryManifestRevisionConflict", "MemoryFactRevisionConflict",
         "create_empty_memory", *FENCE)


def install(without=()):
    """Makes `import deerflow...` find what stands here. `without`: names that it lacks."""
    parts = MODULE.split(".")
    for count in range(1, len(parts) + 1):
        sys.modules[".".join(parts[:count])] = types.ModuleType(".".join(parts[:count]))
    for name in NAMES:
        if name not in without:
            setattr(sys.modules[MODULE], name, globals()[name])


def remove():
    """Takes it away again."""
    for name in [name for name in sys.modules if name.split(".")[0] == "deerflow"]:
        del sys.modules[name]
