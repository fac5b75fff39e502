#!/usr/bin/python3
"""Serves every shared test volume and compares with what the peers answered for it.

Every deliberate difference is a row of DIFFERENCES, with what is expected instead; docs/conformance.md says why.
"""

import json
import os
import re
import unittest

import agent
import volumes
from agent import RpcError

UNAVAILABLE = -32007
CORRUPT = -32003
MIGRATION = "unmigrated"
TEMPORARY = re.compile(r"\.[^.].*\.[0-9a-f]{32}\.tmp")


class Row:
    """What we answer for a scope where the peers answer something else."""

    def __init__(self, refused=None, contents=None, broken=(), head=None, unmigrated=False, searched=None):
        self.refused = refused        # (code, path): every reading method answers this
        self.contents = contents      # of the facts that are listed, by id; None: the peers' documents
        self.broken = list(broken)    # (path, kind) of the files that are told as broken
        self.head = head              # "disk": the document without facts is what the manifest says
        self.unmigrated = unmigrated
        self.searched = searched      # ids that a search finds; None: all that are listed


PLAIN = Row()


def journal_of(user):
    return Row(refused=(UNAVAILABLE, f"users/{user}/.memory.journal.json"))


def manifest_of(user):
    return Row(refused=(CORRUPT, f"users/{user}/memory.json"))


def waiting(searched=(), **more):
    """A scope with data in an earlier layout: shown, not searched, not migrated."""
    return Row(unmigrated=True, head=more.pop("head", "disk"), searched=list(searched), **more)


NOTHING = waiting()


def not_taken(path, contents=None, **more):
    """The same, but the peers' migration would stop at `path`."""
    return waiting(contents=contents or {}, broken=[(path, MIGRATION)], **more)


GOOD = "f_good"
GOOD_CONTENT = "This one is fine."

DIFFERENCES = {
    # -- a file that cannot be understood keeps nobody from the rest --
    "hand-written-refused": {
        (user, "store"): Row(contents={}, broken=[(f"users/{user}/agents/store/facts/30/f_x.md", "broken")])
        for user in ("equals", "seqkey", "seconddoc", "mapkey", "maponscalar", "badint", "baddate", "badtime",
                     "mergescalar")},
    "user-id-alias": {
        ("bob@example.com", "helper"): Row(
            contents={"f_bob": "Written as the e-mail user."},
            broken=[("users/bob-example-com-5ff860bf1190596c/agents/helper/facts/18/f_alias.md", "foreign")]),
        ("bob-example-com-5ff860bf1190596c", "helper"): Row(
            contents={"f_alias": "Written by somebody whose plain id equals the directory name."},
            broken=[("users/bob-example-com-5ff860bf1190596c/agents/helper/facts/c2/f_bob.md", "foreign")])},

    # -- manifests beyond what we take --
    "corrupt-manifests": {("bigint", None): manifest_of("bigint")},

    # -- journals that cannot be honoured: nothing is touched and nothing is served --
    "corrupt-journals": {
        (user, "store"): journal_of(user)
        for user in ("opnull", "opnum", "factnum", "oldlist", "oldnopath", "bare", "barezero")},
    "journal-dotdot": {("victim", name): journal_of("victim") for name in ("store", "other")},
    "crash-u-lost-backups": {("alice", name): journal_of("alice") for name in ("agent-a", "agent-b", None)},

    # -- memory in an earlier layout --
    "crash-x-migration": {("alice", "__default__"): waiting(), ("alice", None): NOTHING},
    "crash-y-lead-agent": {
        ("alice", "__default__"): Row(unmigrated=True),
        ("alice", "lead-agent"): Row(contents={"f_b": "Moved two."})},
    "lead-agent-moved": {
        ("alice", "__default__"): waiting(["fact_d1"]),
        ("alice", "lead-agent"): Row(head="disk", contents={
            "fact_l1": "Written and changed under the earlier mapping.", "fact_l2": "A second one."})},
    "lead-agent-other-read": {("alice", None): NOTHING},
    "lead-agent-root": {(None, "__default__"): waiting()},
    "lead-agent-conflict": {
        ("equal", "__default__"): Row(unmigrated=True),
        ("differs", "__default__"): not_taken("users/differs/agents/lead-agent/facts/9a/fact_l1.md",
                                              {"fact_l1": "Another text."}, searched=["fact_l1"])},
    "lead-agent-unexpected": {
        (user, "__default__"): not_taken(f"users/{user}/agents/lead-agent/{path}",
                                       {"fact_l1": "Beside an unexpected file."})
        for user, path in (("soul", "SOUL.md"), ("meta", ".metadata"), ("text", "facts/aa/readme.txt"),
                           ("leftover", "facts/aa/.fact_l1.md.0123.tmp"), ("old", "memory.json"))},
    "v1-list": {("alice", "__default__"): waiting(), ("alice", None): NOTHING, ("alice", "agent-a"): NOTHING},
    "v1-list-read-by-agent": {("alice", "agent-a"): NOTHING, ("alice", "__default__"): waiting()},
    "v1-list-read-summaries": {("alice", None): NOTHING, ("alice", "__default__"): waiting()},
    "v1-root": {(None, "__default__"): waiting(), (None, None): NOTHING},
    "v1-empty-list": {("alice", "__default__"): waiting()},
    "v1-version-only": {
        **{(user, None): NOTHING for user in ("one", "missing", "number", "null", "spelt")},
        ("future", None): Row(head="disk")},
    "v1-loose-facts": {("alice", "__default__"): waiting()},
    "v1-bad-facts": {
        **{(user, "__default__"): not_taken(f"users/{user}/memory.json")
           for user in ("notobject", "noid-chars", "nocontent", "empty", "confidence", "confbool", "confstr",
                        "status", "factsstring", "factsnumber")},
        ("dupdiff", "__default__"): not_taken("users/dupdiff/memory.json", {"fact_x": "One."}),
        ("second", "__default__"): not_taken("users/second/memory.json", {"fact_ok": "Fine."}),
        ("dupsame", "__default__"): waiting(),
        ("factsnull", "__default__"): waiting()},
    "v1-mapping": {("alice", "__default__"): waiting(), ("alice", "agent-a"): waiting(["fact_m3"])},
    "v1-mapping-bad": {
        **{(user, "__default__"): not_taken(f"users/{user}/{path}")
           for user, path in (("hash", "facts/fact_m1.md"), ("gone", "facts/fact_m1.md"),
                              ("idmix", "facts/fact_m2.md"), ("escape", "memory.json"),
                              ("absolute", "memory.json"), ("nopath", "memory.json"),
                              ("entrytext", "memory.json"))},
        ("emptymap", "__default__"): waiting()},
    "v1-per-agent": {("alice", "agent-a"): waiting(), ("alice", None): Row(head="disk"),
                     ("alice", "__default__"): Row(head="disk")},
    "v1-per-agent-merge": {("alice", "agent-a"): waiting(["fact_new", "fact_same"]),
                           ("alice", None): Row(head="disk")},
    "v1-per-agent-conflicts": {
        ("summary", "agent-a"): waiting(["fact_c"], contents={"fact_c": "The current text.",
                                                              "fact_z": "Never taken over."}),
        ("fact", "agent-a"): not_taken("users/fact/agents/agent-a/memory.json", {"fact_c": "The current text."},
                                       searched=["fact_c"])},
    "v1-both": {("alice", "agent-a"): waiting(), ("alice", "__default__"): waiting()},
    "v1-backup-exists": {("same", "__default__"): waiting(),
                         ("differs", "__default__"): waiting(contents={"fact_b": "Backed up before."})},
    "v1-custom-name": {("alice", "__default__"): waiting()},
    "v1-write-first": {("alice", "__default__"): waiting()},
}

# The first pass finds other facts than the peers' full rebuild: these scopes instead of what it lists.
REBUILD = {
    "corrupt-journals": {("committed", "store"): ["f_keep"]},
    "corrupt-revision-types": {(user, "store"): None for user in ("list1", "text", "nan", "inf", "floattext")},
    "crash-u-lost-backups": {},
    "crash-x-migration": {},
    "journal-dotdot": {("victim", "store"): None, ("victim", "other"): None},
    "rebuild-poison-id": {("anna", "store"): ["12345", "f_ok"], ("bert", "store"): ["f_ok"],
                          ("cora", "store"): ["f_ok"]},
    "rebuild-poison-key": {("anna", "store"): ["f_k", "f_ok"], ("bert", "store"): ["f_ok"],
                           ("cora", "store"): ["f_ok"]},
    "rebuild-poison-loop": {("anna", "store"): ["f_ok"], ("bert", "store"): ["f_ok"], ("cora", "store"): ["f_ok"]},
    "user-id-alias": {("bob@example.com", "helper"): None},
    "users-sanitised": {("agents", "helper"): ["f_note"]},
}


def default_row(case, scope):
    """The row of a scope that has none of its own: the peers' answer, or the rule for their refusal."""
    error = scope.get("error")
    user, file = scope["user_id"], (scope.get("error") or {}).get("file", "")
    if not error:
        return PLAIN
    if case == "corrupt-facts":
        hidden = os.path.basename(file).startswith(".")
        return Row(contents={GOOD: GOOD_CONTENT}, broken=[] if hidden else [(file, "broken")])
    if case in ("corrupt-manifests", "corrupt-revision-types"):
        return manifest_of(user)
    if case == "corrupt-journals":
        return journal_of(user)
    raise AssertionError(f"{case}: no row for {user!r}, {scope['agent']!r}")


class Scope:
    """One scope of one case, asked over the protocol."""

    def __init__(self, test, running, case, expected):
        self.test = test
        self.running = running
        self.expected = expected
        self.user, self.agent = expected["user_id"], expected["agent"]
        self.row = DIFFERENCES.get(case.name, {}).get((self.user, self.agent)) or default_row(case.name, expected)
        self.case = case
        self.document = expected.get("document")

    def call(self, method, **params):
        return self.running.rpc(method, user_id=self.user, agent_name=self.agent, **params)

    def same(self, value, expected, where):
        self.test.assertIsNone(volumes.difference(value, expected, where))

    def check(self):
        if self.row.refused:
            self.check_refused()
            return
        listed = self.call("list_facts")
        self.check_state(listed["scope"], len([1 for _, kind in self.row.broken if kind != MIGRATION]))
        self.check_broken(listed["broken"])
        if self.agent is None:
            # No agent is the default one to us; the peers answer summaries alone.
            named = self.running.rpc("list_facts", user_id=self.user, agent_name=agent.DEFAULT_AGENT)
            self.same(listed["facts"], named["facts"], "facts")
        else:
            self.check_list(listed)
        self.check_documents(listed["facts"])
        for fact in listed["facts"]:
            self.check_fact(fact, listed["facts"])

    def check_refused(self):
        code, path = self.row.refused
        for method, params in (("list_facts", {}), ("get_memory", {}), ("get_summaries", {}),
                               ("get_fact", {"fact_id": "f_x"}), ("search", {"query": "word"})):
            with self.test.assertRaises(RpcError) as caught:
                self.call(method, **params)
            self.test.assertEqual((caught.exception.code, caught.exception.data["path"]), (code, path), method)

    def check_state(self, state, broken):
        self.test.assertIn(state["state"], ("fresh", "refreshed"), state)
        self.test.assertEqual(state["user_id"], self.user)
        self.test.assertEqual(state["agent_name"], (self.agent or agent.DEFAULT_AGENT).lower())
        self.test.assertEqual(state.get("unmigrated", False), self.row.unmigrated)
        self.test.assertEqual(state.get("broken", 0), broken)
        self.test.assertNotIn("reason", state)

    def check_broken(self, broken):
        self.test.assertEqual([(one["path"], one["kind"]) for one in broken], self.row.broken)
        self.test.assertTrue(all(one["problem"] for one in broken))

    def check_list(self, listed):
        contents = self.row.contents
        if contents is not None:
            self.same({fact["id"]: fact["content"] for fact in listed["facts"]}, contents, "contents")
            self.test.assertTrue(all(fact["scope"]["userId"] == self.user for fact in listed["facts"]))
            self.test.assertEqual(listed["count"], len(contents))
            return
        self.same([fact["id"] for fact in listed["facts"]], self.expected["list_facts"]["ids"], "ids")
        self.test.assertEqual(listed["count"], self.expected["list_facts"]["count"])
        self.same(listed["facts"], self.document["facts"], "facts")

    def head(self):
        """What get_summaries must answer, or None where the peers refused the scope."""
        if self.row.head == "disk":
            return self.case.head_on_disk(self.user)
        return self.document and {key: value for key, value in self.document.items() if key != "facts"}

    def check_documents(self, facts):
        summaries = self.call("get_summaries")["summaries"]
        memory = self.call("get_memory")["memory"]
        head = self.head() or summaries
        self.same(summaries, head, "summaries")
        self.same(memory, {**head, "facts": facts}, "memory")

    def check_fact(self, fact, facts):
        got = self.call("get_fact", fact_id=fact["id"])["fact"]
        twins = [other for other in facts if other["id"] == fact["id"]]
        self.test.assertIn(got, twins)
        word = volumes.word_of(fact["content"])
        if not word:
            return
        found = [hit["fact"] for hit in self.call("search", query=word, top_k=1000)["results"]]
        searched = self.row.searched is None or fact["id"] in self.row.searched
        self.test.assertEqual(fact in found, searched, f"{fact['id']} by {word}")


class Case:
    def __init__(self, name):
        self.name = name
        self.expected = volumes.shared_json("volumes", name, "expect.json")
        self.config = self.expected.get("config") or {}
        self.manifest = self.config.get("manifest_filename", "memory.json")
        self.directory = None
        self.before = None

    def recovers(self):
        """A commit was cut short, and can be taken back or finished."""
        return self.name.startswith("crash-") and self.name not in ("crash-u-lost-backups", "crash-y-lead-agent")

    def head_on_disk(self, user):
        """The manifest as it lies on the volume; without one the empty document."""
        path = os.path.join(self.directory.volume, "users", user, self.manifest) if user \
            else os.path.join(self.directory.volume, self.manifest)
        if not os.path.exists(path):
            empty = {"summary": "", "updatedAt": ""}
            user_keys, history_keys = ("workContext", "personalContext", "topOfMind"), \
                ("recentMonths", "earlierContext", "longTermBackground")
            return {"version": "1.0", "revision": 0, "lastUpdated": {"$varies": True},
                    "user": dict.fromkeys(user_keys, empty), "history": dict.fromkeys(history_keys, empty)}
        with open(path, encoding="utf-8") as file:
            head = json.load(file)
        head.pop("facts", None)
        head.setdefault("revision", 0)
        return head

    def scopes_at_start(self):
        """The facts that the first pass must have found, by scope."""
        rows = {(row["user_id"], row["agent"]): row["ids"] for row in self.expected["full_rebuild"].get("rows", [])}
        changes = REBUILD.get(self.name)
        if changes is None and self.recovers():
            # We recover first, so the first pass finds what the scopes load.
            return {(scope["user_id"], scope["agent"].lower()): scope["list_facts"]["ids"]
                    for scope in self.expected["scopes"] if scope["agent"] and scope["list_facts"]["count"]}
        if changes is None:
            return rows
        if self.name in ("corrupt-journals", "crash-u-lost-backups", "crash-x-migration"):
            return changes
        return {key: ids for key, ids in {**rows, **changes}.items() if ids is not None}

    def files_after(self):
        """What must lie on the volume in the end."""
        after = self.expected["files_after"]
        if self.name == "corrupt-journals":
            # The one sound journal among them is a committed one.
            return {path: digest for path, digest in self.before.items()
                    if path != "users/committed/.memory.journal.json"}
        if self.name == "crash-x-migration":
            # Taken back to version 1 and left there.
            kept = ("users/alice/memory.json", "users/alice/memory.json.v1.bak")
            return dict.fromkeys(kept, self.before["users/alice/memory.json.v1.bak"])
        if not self.recovers() or after == "unchanged":
            return self.before
        # What a peer leaves there for ever goes here: the journal tells where a dead writer was.
        # What was going to be the journal itself goes with the next commit.
        return {path: file["sha256"] for path, file in after.items()
                if not TEMPORARY.fullmatch(path.rpartition("/")[2])}


@unittest.skipUnless(volumes.shared_is_there(), "no shared volumes")
class SharedVolumes(unittest.TestCase):
    maxDiff = None

    def check_start(self, case, running):
        volumes.wait_quiet(running)
        known = volumes.all_scopes(running)
        found = {}
        for (user, name), scope in known.items():
            if scope["facts"] == 0:
                continue
            ids = [fact["id"] for fact in
                   running.rpc("list_facts", user_id=user, agent_name=name, freshness="local")["facts"]]
            found[user, name] = ids
            if not scope["unmigrated"]:
                self.assertEqual(len(ids), scope["facts"])
        wanted = case.scopes_at_start()
        self.assertEqual(set(found), set(wanted))
        for key, ids in wanted.items():
            if known[key]["unmigrated"]:
                # What waits for migration is listed with the others, but it is not in the index.
                self.assertEqual(known[key]["facts"], len(ids), key)
                self.assertLessEqual(set(ids), set(found[key]), key)
            else:
                self.assertEqual(found[key], ids, key)

    def run_case(self, name):
        case = Case(name)
        env = {f"MEMSYNC_VOLUME_{key.upper()}": value for key, value in case.config.items()}
        with volumes.Directory(volumes.shared_path("volumes", name, "volume")) as case.directory:
            case.before = volumes.files_of(case.directory.volume)
            with agent.Agent(agent.binary("memsyncd"), case.directory.volume, env=env) as running:
                self.check_start(case, running)
                for expected in case.expected["scopes"]:
                    with self.subTest(user=expected["user_id"], agent=expected["agent"]):
                        Scope(self, running, case, expected).check()
                # A second look finds what the first one left.
                self.check_quietly_again(running)
                self.assertEqual(running.stop(), 0, running.log_tail())
            self.assertEqual(volumes.files_of(case.directory.volume), case.files_after())

    def check_quietly_again(self, running):
        for (user, name), scope in volumes.all_scopes(running).items():
            if scope["state"] == "synced":
                checked = running.rpc("verify", user_id=user, agent_name=name)
                self.assertTrue(checked["ok"], checked)

    def test_every_row_has_its_case(self):
        names = set(os.listdir(volumes.shared_path("volumes")))
        self.assertLessEqual(set(DIFFERENCES) | set(REBUILD), names)
        for name, rows in DIFFERENCES.items():
            scopes = {(scope["user_id"], scope["agent"]) for scope in Case(name).expected["scopes"]}
            self.assertLessEqual(set(rows), scopes, name)


def add_cases():
    for name in sorted(os.listdir(volumes.shared_path("volumes"))):
        if os.path.isdir(volumes.shared_path("volumes", name)):
            method = "test_" + name.replace("-", "_")
            setattr(SharedVolumes, method, lambda self, name=name: self.run_case(name))


if volumes.shared_is_there():
    add_cases()

if __name__ == "__main__":
    unittest.main()
