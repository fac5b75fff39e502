#!/usr/bin/python3
"""Migrates every shared test volume of an earlier layout and compares with what the peers' migration makes of it.

A scope that the peers migrate when it is read is migrated here by asking for it. Every deliberate difference stands
in this file and in docs/conformance.md.
"""

import json
import os
import unittest

import agent
import volumes
from agent import RpcError

CONFLICT = -32002
CASES = ("v1-", "lead-agent-", "crash-x-", "crash-y-")

# Where the peers name no file, or another one.
STOPS_AT = {
    "v1-bad-facts": {user: f"users/{user}/memory.json" for user in (
        "notobject", "noid-chars", "nocontent", "empty", "confidence", "confbool", "confstr", "status", "dupdiff",
        "second", "factsstring", "factsnumber")},
    "v1-mapping-bad": {
        **{user: f"users/{user}/memory.json" for user in ("escape", "absolute", "nopath", "entrytext")},
        "hash": "users/hash/facts/fact_m1.md", "gone": "users/gone/facts/fact_m1.md",
        "idmix": "users/idmix/facts/fact_m2.md"},
    "v1-per-agent-conflicts": {user: f"users/{user}/agents/agent-a/memory.json" for user in ("summary", "fact")},
    "v1-backup-exists": {"differs": "users/differs/memory.json.v1.bak"},
    "lead-agent-conflict": {"differs": "users/differs/agents/lead-agent/facts/9a/fact_l1.md"},
    "lead-agent-unexpected": {
        user: f"users/{user}/agents/lead-agent/{path}"
        for user, path in (("soul", "SOUL.md"), ("meta", ".metadata"), ("text", "facts/aa/readme.txt"),
                           ("leftover", "facts/aa/.fact_l1.md.0123.tmp"), ("old", "memory.json"))},
}

# Members of the manifest that the peers drop and we keep.
KEPT = {"v1-version-only": {"futureKey": {"kept": "only in the backup"}}}

# Sections that every manifest of ours has, and the peers' migration leaves out where they were missing.
SECTIONS = {"user": ("workContext", "personalContext", "topOfMind"),
            "history": ("recentMonths", "earlierContext", "longTermBackground")}

# Not ours to change at all.
NEWER = {("v1-version-only", "future")}


def complete(head):
    for part, names in SECTIONS.items():
        blank = {name: {"summary": "", "updatedAt": ""} for name in names}
        head[part] = {**blank, **head[part]}


def user_of(path):
    """The directory of the user that a file belongs to; the root's own files have none."""
    parts = path.split("/")
    return parts[1] if parts[0] == "users" else None


class Case:
    def __init__(self, test, name):
        self.test = test
        self.name = name
        self.expected = volumes.shared_json("volumes", name, "expect.json")
        self.config = self.expected.get("config") or {}
        self.manifest = self.config.get("manifest_filename", "memory.json")
        self.directory = self.running = None
        self.migrated = set()  # users

    def run(self):
        env = {f"MEMSYNC_VOLUME_{key.upper()}": value for key, value in self.config.items()}
        with volumes.Directory(volumes.shared_path("volumes", self.name, "volume")) as self.directory:
            with agent.Agent(agent.binary("memsyncd"), self.directory.volume, env=env) as self.running:
                for scope in self.expected["scopes"]:
                    with self.test.subTest(user=scope["user_id"], agent=scope["agent"]):
                        self.check_scope(scope)
                self.test.assertEqual(self.running.stop(), 0, self.running.log_tail())
            self.check_files()

    def manifest_on_disk(self, user):
        path = os.path.join(self.directory.volume, volumes.bucket_of(user), self.manifest)
        if not os.path.exists(path):
            return None
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    def is_old(self, user):
        manifest = self.manifest_on_disk(user)
        return manifest is not None and (manifest.get("version") != "2.0" or "facts" in manifest)

    def migrate(self, user, name):
        """As the peers do when they read this scope: an old manifest's facts go to the default agent."""
        results = []
        if self.is_old(user):
            results.append(self.running.rpc("migrate", user_id=user))
        if name:
            results.append(self.running.rpc("migrate", user_id=user, agent_name=name))
        return results

    def check_scope(self, scope):
        user, name = scope["user_id"], scope["agent"]
        if (self.name, user) in NEWER:
            self.check_stop(user, name, "newer_layout", volumes.manifest_path(user))
        elif "error" in scope:
            path = STOPS_AT[self.name][user]
            self.test.assertEqual(scope["error"].get("file", path), path)
            self.check_stop(user, name, "migration", path)
        else:
            results = self.migrate(user, name)
            self.migrated.update(user for result in results if result["migrated"])
            self.check_document(scope)
            for result in results:
                self.test.assertEqual(result["to_version"], "2.0")
                self.test.assertLessEqual(result["revision"], scope["document"]["revision"])
            # Again there is nothing to do.
            for result in self.migrate(user, name):
                self.test.assertFalse(result["migrated"], result)
                self.test.assertEqual(result["facts"], 0)

    def check_stop(self, user, name, reason, path):
        before = volumes.files_of(self.directory.volume)
        with self.test.assertRaises(RpcError) as caught:
            self.migrate(user, name)
        self.test.assertEqual((caught.exception.code, caught.exception.data["reason"], caught.exception.data["path"]),
                              (CONFLICT, reason, path))
        self.test.assertEqual(volumes.files_of(self.directory.volume), before)

    def check_document(self, scope):
        user, name, expected = scope["user_id"], scope["agent"], dict(scope["document"])
        facts = expected.pop("facts")
        head = self.running.rpc("get_summaries", user_id=user, agent_name=name)["summaries"]
        if user in self.migrated:
            complete(expected)
        expected.update(KEPT.get(self.name, {}))
        self.test.assertIsNone(volumes.difference(head, expected, "summaries"))
        if name is None:
            return  # the default agent to us; the peers answer summaries alone
        listed = self.running.rpc("list_facts", user_id=user, agent_name=name)
        self.test.assertEqual(listed["broken"], [])
        self.test.assertNotIn("unmigrated", listed["scope"])
        self.test.assertIsNone(volumes.difference(listed["facts"], facts, "facts"))
        self.test.assertEqual(listed["count"], scope["list_facts"]["count"])
        for fact in listed["facts"]:
            word = volumes.word_of(fact["content"])
            found = [hit["fact"] for hit in self.running.rpc("search", query=word, user_id=user, agent_name=name,
                                                             top_k=1000)["results"]]
            self.test.assertIn(fact, found)

    def check_files(self):
        """Byte for byte, but for manifests with the time of the migration and facts with made-up ids."""
        after = self.expected["files_after"]
        found = volumes.files_of(self.directory.volume)
        if after == "unchanged":
            with volumes.Directory(volumes.shared_path("volumes", self.name, "volume")) as original:
                self.test.assertEqual(found, volumes.files_of(original.volume))
            return
        wanted = {path: None if volumes.varies(file) else file["sha256"] for path, file in after.items()
                  if (self.name, user_of(path)) not in NEWER}
        newer = {path for path in found if (self.name, user_of(path)) in NEWER}
        others = set(found) - set(wanted) - newer
        self.test.assertEqual(len(others), self.expected.get("files_after_random_names", 0), others)
        for path, digest in wanted.items():
            self.test.assertIn(path, found)
            if digest:
                self.test.assertEqual(found[path], digest, path)


@unittest.skipUnless(volumes.shared_is_there(), "no shared volumes")
class Migration(unittest.TestCase):
    maxDiff = None

    def test_an_old_list_goes_to_the_agent_that_is_named(self):
        with volumes.Directory(volumes.shared_path("volumes", "v1-list", "volume")) as directory, \
                agent.Agent(agent.binary("memsyncd"), directory.volume) as running:
            result = running.rpc("migrate", user_id="alice", agent_name="agent-a")
            self.assertEqual(result, {"migrated": True, "from_version": "1.0", "to_version": "2.0", "facts": 3,
                                      "revision": 1})
            self.assertEqual(running.rpc("list_facts", user_id="alice", agent_name="agent-a")["count"], 3)
            self.assertEqual(running.rpc("list_facts", user_id="alice")["count"], 0)

    def test_reading_migrates_nothing(self):
        with volumes.Directory(volumes.shared_path("volumes", "v1-list", "volume")) as directory, \
                agent.Agent(agent.binary("memsyncd"), directory.volume) as running:
            before = volumes.files_of(directory.volume)
            volumes.wait_quiet(running)
            for method in ("get_memory", "list_facts", "reload_memory", "refresh", "verify"):
                running.rpc(method, user_id="alice")
            self.assertEqual(volumes.files_of(directory.volume), before)

    def test_searching_leaves_the_earlier_default_agent_as_it_is(self):
        # The notes on what was found would keep the peers from migrating it.
        with volumes.Directory(volumes.shared_path("volumes", "lead-agent-moved", "volume")) as directory, \
                agent.Agent(agent.binary("memsyncd"), directory.volume) as running:
            before = volumes.files_of(directory.volume)
            found = running.rpc("search", user_id="alice", agent_name="lead-agent", query="earlier mapping")
            self.assertTrue(found["results"])
            self.assertEqual(running.stop(), 0, running.log_tail())
            self.assertEqual(volumes.files_of(directory.volume), before)

    def test_a_write_comes_after_the_migration(self):
        for name in ("v1-write-first", "lead-agent-moved"):
            with self.subTest(name), \
                    volumes.Directory(volumes.shared_path("volumes", name, "volume")) as directory, \
                    agent.Agent(agent.binary("memsyncd"), directory.volume) as running:
                old = running.rpc("list_facts", user_id="alice")["facts"]
                made = running.rpc("create_fact", user_id="alice", content="Written first.")
                facts = running.rpc("list_facts", user_id="alice")["facts"]
                self.assertEqual([fact for fact in facts if fact["content"] != "Written first."], old)
                self.assertEqual(len(facts), len(old) + 1)
                last = volumes.shared_json("volumes", name, "expect.json")["scopes"][0]["document"]["revision"]
                self.assertEqual(made["revision"], last + 1)

    def test_a_write_for_another_agent_keeps_the_old_list(self):
        with volumes.Directory(volumes.shared_path("volumes", "v1-both", "volume")) as directory, \
                agent.Agent(agent.binary("memsyncd"), directory.volume) as running:
            made = running.rpc("create_fact", user_id="alice", agent_name="agent-b", content="Written first.")
            self.assertEqual(made["revision"], 2)
            for name, fact_id in (("__default__", "fact_user"), ("agent-a", "fact_agent")):
                facts = running.rpc("list_facts", user_id="alice", agent_name=name)["facts"]
                self.assertEqual([fact["id"] for fact in facts], [fact_id])
            running.rpc("update_summaries", user_id="alice", summaries={"user": {"topOfMind": {"summary": "New."}}})
            running.rpc("delete_fact", user_id="alice", agent_name="agent-a", fact_id="fact_agent")
            self.assertEqual(running.rpc("list_facts", user_id="alice", agent_name="agent-a")["count"], 0)

    def test_a_write_is_refused_where_the_migration_stops(self):
        with volumes.Directory(volumes.shared_path("volumes", "v1-bad-facts", "volume")) as directory, \
                agent.Agent(agent.binary("memsyncd"), directory.volume) as running:
            before = volumes.files_of(directory.volume)
            for method, params in (("create_fact", {"content": "New."}), ("update_summaries", {"summaries": {}}),
                                   ("clear_memory", {"all": True}), ("delete_fact", {"fact_id": "fact_x"})):
                with self.subTest(method), self.assertRaises(RpcError) as caught:
                    running.rpc(method, user_id="second", **params)
                self.assertEqual((caught.exception.code, caught.exception.data["reason"]), (CONFLICT, "migration"))
            self.assertEqual(volumes.files_of(directory.volume), before)

    def test_clearing_everything_takes_the_earlier_layouts_along(self):
        for name, copy in (("v1-both", "agents/agent-a/memory.json.v1.bak"), ("v1-list", "memory.json.v1.bak"),
                           ("lead-agent-moved", None)):
            with self.subTest(name), \
                    volumes.Directory(volumes.shared_path("volumes", name, "volume")) as directory, \
                    agent.Agent(agent.binary("memsyncd"), directory.volume) as running:
                running.rpc("clear_memory", user_id="alice", all=True)
                files = volumes.files_of(directory.volume)
                self.assertFalse([path for path in files if path.endswith(".md")], files)
                if copy:
                    self.assertIn(f"users/alice/{copy}", files)
                summaries = running.rpc("get_summaries", user_id="alice")["summaries"]
                self.assertFalse([section for part in ("user", "history") for section in summaries[part].values()
                                  if section["summary"]])

    def test_a_summary_in_its_way_does_not_keep_a_memory_from_being_cleared(self):
        with volumes.Directory(volumes.shared_path("volumes", "v1-per-agent-conflicts", "volume")) as directory, \
                agent.Agent(agent.binary("memsyncd"), directory.volume) as running:
            running.rpc("clear_memory", user_id="summary", all=True)
            self.assertIn("users/summary/agents/agent-a/memory.json.v1.bak", volumes.files_of(directory.volume))
            self.assertEqual(running.rpc("list_facts", user_id="summary", agent_name="agent-a")["count"], 0)

    def test_a_user_without_anything(self):
        with volumes.Directory(volumes.shared_path("volumes", "one-fact", "volume")) as directory, \
                agent.Agent(agent.binary("memsyncd"), directory.volume) as running:
            before = volumes.files_of(directory.volume)
            result = running.rpc("migrate", user_id="alice")
            self.assertEqual((result["migrated"], result["facts"]), (False, 0))
            self.assertEqual(volumes.files_of(directory.volume), before)


def add_cases():
    for name in sorted(os.listdir(volumes.shared_path("volumes"))):
        if name.startswith(CASES):
            setattr(Migration, "test_" + name.replace("-", "_"), lambda self, name=name: Case(self, name).run())


if volumes.shared_is_there():
    add_cases()

if __name__ == "__main__":
    unittest.main()
