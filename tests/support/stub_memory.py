"""A small memory that answers as the protocol says, to try clients of writes on: answers for a scripted agent.

    memory = StubMemory()
    agent.answers.update(memory.answers())

It keeps what is documented for well-formed requests, and refuses some wrong ones; it has no volume and no index.
"""

import copy
import itertools

from scripted_agent import Refusal

DEFAULT_AGENT = "__default__"
SECTIONS = {"user": ("workContext", "personalContext", "topOfMind"),
            "history": ("recentMonths", "earlierContext", "longTermBackground")}


def empty_summaries():
    return {group: {name: {"summary": "", "updatedAt": ""} for name in names} for group, names in SECTIONS.items()}


class User:
    def __init__(self):
        self.revision = 0
        self.summaries = empty_summaries()
        self.agents = {}


class StubMemory:
    METHODS = ("ping", "status", "get_fact", "list_facts", "get_memory", "get_summaries", "export_memory", "scopes",
               "search", "create_fact", "update_fact", "delete_fact", "apply_changes", "update_summaries",
               "clear_memory", "delete_memory", "import_memory", "migrate")

    def __init__(self):
        self.users = {}
        self.ids = itertools.count(1)
        self.clock = itertools.count(1)

    def answers(self):
        return {method: getattr(self, method) for method in self.METHODS}

    # -- what all have in common --

    def user(self, params):
        return self.users.setdefault(params["user_id"], User())

    def agent_name(self, params):
        return (params.get("agent_name") or DEFAULT_AGENT).lower()

    def facts(self, params):
        return self.user(params).agents.setdefault(self.agent_name(params), {})

    def now(self):
        return f"2026-03-01T08:{next(self.clock) // 60:02}:{next(self.clock) % 60:02}Z"

    def scope(self, params):
        return {"user_id": params["user_id"], "agent_name": self.agent_name(params),
                "revision": self.user(params).revision, "state": "fresh"}

    def document(self, params):
        user, facts = self.user(params), self.facts(params)
        return {"version": "2.0", "revision": user.revision, "lastUpdated": "2026-03-01T08:00:00Z",
                **copy.deepcopy(user.summaries), "facts": [copy.deepcopy(facts[name]) for name in sorted(facts)]}

    def commit(self, params, changed=True, **more):
        """The common members of a write's result."""
        user = self.user(params)
        user.revision += changed
        return more | {"revision": user.revision, "changed": changed, "last_updated": "2026-03-01T08:00:00Z",
                       "index": "current", "attempts": 1}

    def stored(self, params):
        fact = self.facts(params).get(params["fact_id"])
        if fact is None:
            raise Refusal(-32001, "no fact " + params["fact_id"])
        expected = params.get("expected_revision")
        if expected is not None and expected != fact["revision"]:
            raise Refusal(-32002, "the fact has changed", reason="fact_revision", fact_id=fact["id"],
                          expected=expected, current=fact["revision"])
        return fact

    def check_manifest(self, params):
        expected, current = params.get("expected_revision"), self.user(params).revision
        if expected is not None and expected != current:
            raise Refusal(-32002, "the memory has changed", reason="manifest_revision", expected=expected,
                          current=current)

    # -- reading --

    def ping(self, _):
        return {"protocol": 1, "name": "memsyncd", "version": "0.1.0", "backend": "stub", "events": None, "pid": 1}

    def status(self, _):
        return {"ipc": {"max_message_bytes": 4 << 20}}

    def get_fact(self, params):
        return {"fact": self.stored(params), "scope": self.scope(params)}

    def list_facts(self, params):
        facts = self.facts(params)
        return {"facts": [facts[name] for name in sorted(facts)][:params.get("limit")], "count": len(facts),
                "scope": self.scope(params), "broken": []}

    def search(self, params):
        hits = [fact for fact in self.facts(params).values() if params["query"].lower() in fact["content"].lower()]
        return {"results": [{"fact": fact, "score": 1.0} for fact in hits], "count": len(hits),
                "scopes": [self.scope(params)]}

    def get_memory(self, params):
        return {"memory": self.document(params), "scope": self.scope(params)}

    export_memory = get_memory

    def get_summaries(self, params):
        document = self.document(params)
        del document["facts"]
        return {"summaries": document, "scope": self.scope(params)}

    def scopes(self, params):
        user = self.user(params)
        return {"scopes": [{"user_id": params["user_id"], "agent_name": name, "facts": len(facts)}
                           for name, facts in sorted(user.agents.items())], "count": len(user.agents)}

    # -- writing --

    def create_fact(self, params):
        content, facts = params["content"].strip(), self.facts(params)
        for fact in facts.values():
            if fact["content"].casefold() == content.casefold():
                raise Refusal(-32002, "that content is there already", reason="duplicate_fact", fact_id=fact["id"])
        name, now = f"fact_{next(self.ids):08x}", self.now()
        source = params.get("source", "manual")
        facts[name] = {"id": name, "content": content, "title": content.split("\n")[0],
                       "category": params.get("category", "context"), "confidence": params.get("confidence", 0.5),
                       "topics": params.get("topics", []), "source": {"type": source, "threadId": None},
                       "createdAt": now, "updatedAt": now, "revision": 1}
        return self.commit(params, fact_id=name, fact=facts[name], evicted=[])

    def update_fact(self, params):
        fact = self.stored(params)
        before = copy.deepcopy(fact)
        for name in ("content", "category", "confidence", "topics"):
            if params.get(name) is not None:
                fact[name] = params[name]
        changed = fact != before
        if changed:
            fact["revision"] += 1
            fact["updatedAt"] = self.now()
        return self.commit(params, changed, fact=fact)

    def delete_fact(self, params):
        del self.facts(params)[self.stored(params)["id"]]
        return self.commit(params, deleted=[params["fact_id"]])

    def apply_changes(self, params):
        facts = self.facts(params)
        for name, revision in params.get("expected_fact_revisions", {}).items():
            self.stored(params | {"fact_id": name, "expected_revision": revision})
        gone = [name for name in params["deletes"] if facts.pop(name, None)]
        return self.commit(params, bool(gone), upserted=[], deleted=gone)

    def update_summaries(self, params):
        self.check_manifest(params)
        user = self.user(params)
        before = copy.deepcopy(user.summaries)
        for group, members in params["summaries"].items():
            user.summaries[group].update(members)
        return self.commit(params, user.summaries != before, summaries=user.summaries)

    def clear_memory(self, params):
        user = self.user(params)
        if bool(params.get("all")) == bool(params.get("agent_name")):
            raise Refusal(-32602, "agent_name or all")
        names = list(user.agents) if params.get("all") else [self.agent_name(params)]
        count = sum(len(user.agents.pop(name, {})) for name in names)
        if params.get("all"):
            user.summaries = empty_summaries()
        return self.commit(params, cleared=count, agents=names, kept=[])

    delete_memory = clear_memory

    def import_memory(self, params):
        before = copy.deepcopy(self.users)
        answer = self.run_import(params)
        if params.get("dry_run"):
            self.users = before
            answer |= {"dry_run": True, "revision": self.user(params).revision}
        return answer

    def run_import(self, params):
        document, user = params["memory_data"], self.user(params)
        old, counts = self.facts(params), {"imported": 0, "added": 0, "replaced": 0, "deleted": 0, "unchanged": 0}
        texts = {"replaced_summaries": [], "added_summaries": []}
        self.check_manifest(params)
        if any(not str(fact.get("content") or "").strip() for fact in document.get("facts", [])):
            raise Refusal(-32602, "memory_data.facts[0].content: must not be blank")
        for group, sections in user.summaries.items():
            for name, section in document.get(group, {}).items():
                text, stored = section.get("summary"), sections.get(name, {}).get("summary")
                if text and text != stored:
                    texts["replaced_summaries" if stored else "added_summaries"].append(f"{group}.{name}")
                if text:
                    sections[name] = section
        if "facts" in document:
            self.replace_facts(params, old, document["facts"], counts)
        return self.commit(params, dry_run=False, evicted=[], kept=[], **counts, **texts)

    def replace_facts(self, params, old, documents, counts):
        new = {}
        for fact in copy.deepcopy(documents):
            name = fact.setdefault("id", f"fact_{next(self.ids):08x}")
            before = old.get(name, {})
            new[name] = fact | {"revision": before.get("revision", 0) + 1, "updatedAt": self.now()}
            same = {key: value for key, value in before.items() if key not in ("revision", "updatedAt")}
            if same == {key: value for key, value in fact.items() if key not in ("revision", "updatedAt")}:
                new[name] = before
        counts["unchanged"] = sum(1 for name, fact in new.items() if fact is old.get(name))
        counts["imported"] = len(new) - counts["unchanged"]
        counts["added"] = len(set(new) - set(old))
        counts["replaced"] = counts["imported"] - counts["added"]
        counts["deleted"] = len(set(old) - set(new))
        self.user(params).agents[self.agent_name(params)] = new

    def migrate(self, params):
        return {"migrated": False, "from_version": "2.0", "to_version": "2.0", "facts": 0,
                "revision": self.user(params).revision}
