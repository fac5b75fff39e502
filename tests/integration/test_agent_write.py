"""Writing through the real agent: methods, refusals, side data, and many writers at once."""
import json
import os
import shutil
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import peer
from agent import DEFAULT_AGENT, Agent, RpcError, binary

CONFLICT, INVALID, NOT_FOUND, CORRUPT, TIMEOUT = -32002, -32602, -32001, -32003, -32004


class WriteCase(unittest.TestCase):
    config = {}

    def setUp(self):
        self.volume = tempfile.mkdtemp(prefix="memsync-write-")
        self.addCleanup(shutil.rmtree, self.volume, ignore_errors=True)
        self.agent = Agent(binary("memsyncd"), self.volume, config=self.config)
        self.agent.__enter__()
        self.addCleanup(self.agent.close)
        self.peer = peer.Peer(self.volume)

    def rpc(self, method, **params):
        params.setdefault("user_id", "u")
        return self.agent.rpc(method, **params)

    def refused(self, code, method, **params):
        with self.assertRaises(RpcError) as caught:
            self.rpc(method, **params)
        self.assertEqual(caught.exception.code, code, caught.exception)
        return caught.exception

    def texts(self, user="u", agent=None):
        facts = self.rpc("list_facts", user_id=user, agent_name=agent)["facts"]
        return {fact["id"]: fact["content"] for fact in facts}

    def found(self, query):
        return [hit["fact"] for hit in self.rpc("search", query=query)["results"]]

    def files(self):
        """Every file below the volume but locks and the volume's marker."""
        found = {}
        for directory, _, names in os.walk(self.volume):
            for name in names:
                path = os.path.relpath(os.path.join(directory, name), self.volume)
                if name != ".memory.lock" and not path.startswith(".memsyncd/"):
                    with open(os.path.join(directory, name), "rb") as file:
                        found[path] = file.read()
        return found

    def assert_agrees(self, user="u", agent=None):
        """Index and files say the same, and nothing of a commit is left."""
        self.assertTrue(self.rpc("verify", user_id=user, agent_name=agent)["ok"])
        left = [path for path in self.files()
                if "/.recovery/" in path or path.endswith((".journal.json", ".tmp"))]
        self.assertEqual(left, [])


class Methods(WriteCase):
    def test_a_fact_lives_and_every_step_is_searchable(self):
        made = self.rpc("create_fact", content="  Drinks green tea \n", category="taste", confidence=1)
        fact = made["fact"]
        self.assertEqual((fact["content"], fact["category"], fact["categoryExtension"]),
                         ("Drinks green tea", "other", "taste"))
        self.assertEqual((made["revision"], made["changed"], made["index"], made["attempts"]),
                         (1, True, "current", 1))
        self.assertEqual(self.found("green tea"), [fact])
        changed = self.rpc("update_fact", fact_id=made["fact_id"], content="Drinks black tea",
                           category="preference")
        self.assertEqual((changed["fact"]["revision"], changed["fact"]["title"]),
                         (2, "Drinks green tea"))
        self.assertNotIn("categoryExtension", changed["fact"])
        self.assertEqual(self.found("green"), [])
        self.assertEqual(self.found("black"), [changed["fact"]])
        same = self.rpc("update_fact", fact_id=made["fact_id"], content="Drinks black tea")
        self.assertEqual((same["changed"], same["revision"]), (False, 2))
        gone = self.rpc("delete_fact", fact_id=made["fact_id"], expected_revision=2)
        self.assertEqual((gone["deleted"], gone["revision"]), ([made["fact_id"]], 3))
        self.assertEqual(self.found("tea"), [])
        self.assert_agrees()

    def test_the_peer_reads_what_is_written_and_the_other_way_round(self):
        made = self.rpc("create_fact", content="Says: yes\n---\n# no", topics=["no", "1:30", "~"])
        front, _, content = self.peer.facts("u")[made["fact_id"]]
        self.assertEqual((content, front["topics"]), ("Says: yes\n---\n# no", ["no", "1:30", "~"]))
        self.peer.commit("u", changes=[peer.update(made["fact_id"], "By a peer")])
        changed = self.rpc("update_fact", fact_id=made["fact_id"], confidence=0.25)
        self.assertEqual((changed["fact"]["content"], changed["fact"]["topics"],
                          changed["fact"]["revision"]), ("By a peer", ["no", "1:30", "~"], 3))
        self.assert_agrees()

    def test_a_create_of_what_is_there_is_refused_and_names_it(self):
        made = self.rpc("create_fact", content="Straße\r\nund mehr")
        before = self.files()
        error = self.refused(CONFLICT, "create_fact", content=" STRASSE\nUND MEHR\u2003")
        self.assertEqual((error.data["reason"], error.data["fact_id"]),
                         ("duplicate_fact", made["fact_id"]))
        self.assertEqual(self.files(), before)
        self.rpc("create_fact", content="Straße\nund mehr", agent_name="other")

    def test_change_sets_are_whole_or_nothing(self):
        done = self.rpc("apply_changes", upserts=[{"id": "a", "content": "one"}, {"content": "two"}],
                        summaries={"user": {"workContext": {"summary": "works", "updatedAt": "t"}}})
        self.assertEqual((done["revision"], len(done["upserted"])), (1, 2))
        before = self.files()
        for wrong in ({"upserts": [{"id": "a", "content": "x", "revision": 1},
                                   {"id": "b", "content": " "}]},
                      {"upserts": [{"id": "c", "content": "x"}, {"id": "c", "content": "y"}]},
                      {"upserts": [{"id": "c", "content": "x"}], "deletes": ["c"]},
                      {"upserts": [{"id": "c d", "content": "x"}]},
                      {"upserts": [{"id": "c", "content": "half \ud83d"}]},
                      {"upserts": [{"id": "c", "content": "x", "confidence": True}]},
                      {"upserts": [{"id": "c", "content": "x", "topics": [1]}]},
                      {"upserts": [{"id": "c", "content": "x", "status": "archived"}]},
                      {"upserts": "text"}, {"upserts": ["text"]}, {"deletes": [5]},
                      {"deletes": ["a", "a"]}, {"summaries": []}, {"summaries": {"user": 1}},
                      {"expected_revision": "1"}, {"expected_fact_revisions": {"a": "1"}},
                      {"deletes": ["a"], "expected_fact_revisions": {"a": None}},
                      {"upserts": [{"id": "c", "content": "x"}],
                       "expected_fact_revisions": {"c": None, "a": 9}}):
            with self.subTest(wrong=wrong):
                self.refused(INVALID, "apply_changes", **wrong)
        error = self.refused(CONFLICT, "apply_changes", upserts=[{"id": "a", "content": "x"}])
        self.assertEqual((error.data["reason"], error.data["fact_id"], error.data["expected"],
                          error.data["current"]), ("fact_revision", "a", None, 1))
        error = self.refused(CONFLICT, "apply_changes", deletes=["a"], expected_revision=0)
        self.assertEqual((error.data["reason"], error.data["expected"], error.data["current"]),
                         ("manifest_revision", 0, 1))
        self.refused(CONFLICT, "apply_changes", deletes=["a"], expected_revision=0,
                     allow_rebase=True)
        self.assertEqual(self.files(), before)
        done = self.rpc("apply_changes", deletes=["a"], expected_revision=0, allow_rebase=True,
                        expected_fact_revisions={"a": 1})
        self.assertEqual((done["deleted"], done["attempts"]), (["a"], 2))
        self.assert_agrees()

    def test_names_that_no_peer_could_find_are_refused(self):
        for name in ("\ud800", "a\udfff", "\ufdd1d800", "\ufdd0"):
            with self.subTest(name=name):
                self.refused(INVALID, "create_fact", user_id=name, content="lost")

    def test_clearing_never_widens(self):
        self.rpc("create_fact", content="one")
        self.rpc("create_fact", content="two", agent_name="coder")
        self.peer.commit("u", summary="known")
        before = self.files()
        self.refused(INVALID, "clear_memory")
        self.refused(INVALID, "clear_memory", agent_name="coder", all=True)
        self.refused(INVALID, "clear_memory", all=1)
        self.assertEqual(self.files(), before)
        cleared = self.rpc("clear_memory", agent_name="coder")
        self.assertEqual((cleared["cleared"], cleared["agents"]), (1, ["coder"]))
        self.assertEqual(self.texts(), {next(iter(self.texts())): "one"})
        everything = self.rpc("clear_memory", all=True)
        self.assertEqual((everything["cleared"], everything["agents"]), (1, ["__default__", "coder"]))
        self.assertEqual(everything["memory"]["user"]["workContext"],
                         {"summary": "", "updatedAt": ""})
        again = self.rpc("clear_memory", all=True)
        self.assertEqual((again["changed"], again["revision"]), (False, everything["revision"]))
        self.assert_agrees()

    def test_a_broken_fact_is_kept_and_told(self):
        made = self.rpc("create_fact", content="sound")
        broken = os.path.join(self.volume, "users/u", peer.fact_path(DEFAULT_AGENT, "bad"))
        os.makedirs(os.path.dirname(broken), exist_ok=True)
        with open(broken, "w", encoding="utf-8") as file:
            file.write("no fact at all")
        self.rpc("refresh", full=True)
        self.refused(CORRUPT, "update_fact", fact_id="bad", content="x")
        self.refused(CORRUPT, "apply_changes", upserts=[{"id": "bad", "content": "x"}])
        self.rpc("update_fact", fact_id=made["fact_id"], content="still sound")
        cleared = self.rpc("clear_memory", agent_name="__default__")
        self.assertEqual(cleared["cleared"], 1)
        self.assertEqual([entry["path"] for entry in cleared["kept"]],
                         ["users/u/" + peer.fact_path(DEFAULT_AGENT, "bad")])
        with open(broken, encoding="utf-8") as file:
            self.assertEqual(file.read(), "no fact at all")

    def break_in_place(self, fact_id, agent=DEFAULT_AGENT, data=b"no fact at all"):
        """The manifest does not move: the index is in step and knows nothing of it."""
        path = "users/u/" + peer.fact_path(agent, fact_id)
        with open(os.path.join(self.volume, path), "r+b") as file:
            file.truncate(0)
            file.write(data)
        return path

    def edit_in_place(self, fact_id, old, new):
        path = os.path.join(self.volume, "users/u", peer.fact_path(DEFAULT_AGENT, fact_id))
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.assertIn(old, text)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace(old, new))

    def get(self, fact_id):
        return self.rpc("get_fact", fact_id=fact_id)["fact"]

    def test_a_refusal_over_an_edited_file_makes_reading_tell_the_truth(self):
        self.rpc("apply_changes", upserts=[{"id": "f1", "content": "one"},
                                           {"id": "f2", "content": "two"}])
        for method, params in (("update_fact", {"fact_id": "f1", "content": "mine"}),
                               ("delete_fact", {"fact_id": "f1"}),
                               ("apply_changes", {"upserts": [{"id": "f1", "content": "mine"}]})):
            with self.subTest(method=method):
                before = self.get("f1")["revision"]
                self.edit_in_place("f1", f"revision: {before}\n", f"revision: {before + 40}\n")
                self.assertEqual(self.get("f1")["revision"], before)
                expected = ({"expected_fact_revisions": {"f1": before}}
                            if method == "apply_changes" else {"expected_revision": before})
                error = self.refused(CONFLICT, method, **params, **expected)
                self.assertEqual(error.data["reason"], "fact_revision")
                self.assertEqual(self.get("f1")["revision"], error.data["current"])
        self.rpc("update_fact", fact_id="f1", content="mine",
                 expected_revision=self.get("f1")["revision"])
        self.assert_agrees()

    def test_a_write_that_misses_a_removed_file_makes_reading_tell_the_truth(self):
        for method, params in (("update_fact", {"fact_id": "f1", "content": "x"}),
                               ("delete_fact", {"fact_id": "f1"}),
                               ("apply_changes", {"deletes": ["f1"]})):
            with self.subTest(method=method):
                self.rpc("apply_changes", upserts=[{"id": "f1", "content": "one"},
                                                   {"id": "f2", "content": "two"}][:1 + (
                                                       "f2" not in self.texts())])
                os.unlink(os.path.join(self.volume, "users/u",
                                       peer.fact_path(DEFAULT_AGENT, "f1")))
                self.assertIn("f1", self.texts())
                if method == "apply_changes":
                    self.assertFalse(self.rpc(method, **params)["changed"])
                else:
                    self.refused(NOT_FOUND, method, **params)
                self.assertEqual(self.texts(), {"f2": "two"})
                self.assert_agrees()

    def test_a_write_that_meets_a_broken_file_makes_reading_tell_the_truth(self):
        self.rpc("apply_changes", upserts=[{"id": "f1", "content": "one"},
                                           {"id": "f2", "content": "two"}])
        self.break_in_place("f1")
        self.refused(CORRUPT, "update_fact", fact_id="f1", content="x")
        self.assertEqual(self.texts(), {"f2": "two"})

    def test_a_content_that_only_the_index_has_is_no_duplicate(self):
        for change in (lambda: os.unlink(os.path.join(
                self.volume, "users/u", peer.fact_path(DEFAULT_AGENT, "f1"))),
                       lambda: self.edit_in_place("f1", "one", "uno")):
            with self.subTest(change=change):
                self.rpc("clear_memory", agent_name=DEFAULT_AGENT)
                self.rpc("apply_changes", upserts=[{"id": "f1", "content": "one"}])
                change()
                made = self.rpc("create_fact", content="one")
                self.assertEqual(self.texts()[made["fact_id"]], "one")
                self.assert_agrees()

    def test_a_refusal_that_the_index_knows_of_reads_nothing(self):
        self.rpc("apply_changes", upserts=[{"id": f"f{i}", "content": f"fact {i}"}
                                           for i in range(20)])
        self.rpc("refresh")
        before = self.rpc("status")["sync"]
        self.refused(CONFLICT, "update_fact", fact_id="f1", content="x", expected_revision=7)
        self.refused(NOT_FOUND, "update_fact", fact_id="none", content="x")
        self.refused(CONFLICT, "create_fact", content="fact 3")
        self.rpc("apply_changes", deletes=["none"])
        self.rpc("apply_changes", upserts=[{"id": "f2", "content": "fact 2", "revision": 1}])
        after = self.rpc("status")["sync"]
        self.assertEqual(after["files_read"], before["files_read"])

    def test_clearing_keeps_what_was_broken_in_place(self):
        for method, params in (("clear_memory", {"all": True}),
                               ("clear_memory", {"agent_name": DEFAULT_AGENT}),
                               ("delete_memory", {"all": True}),
                               ("delete_memory", {"agent_name": DEFAULT_AGENT})):
            for data in (b"no fact at all", b"x" * (5 << 20)):
                with self.subTest(method=method, params=params, size=len(data)):
                    for fact_id in ("f1", "f2"):
                        self.rpc("apply_changes", upserts=[{"id": fact_id, "content": fact_id}])
                    path = self.break_in_place("f1", data=data)
                    done = self.rpc(method, **params)
                    self.assertEqual((done["cleared"], [entry["path"] for entry in done["kept"]]),
                                     (1, [path]))
                    self.assertEqual(self.texts(), {})
                    self.assertEqual(self.files()[path], data)
                    self.assert_agrees()
                    os.unlink(os.path.join(self.volume, path))
                    self.rpc("refresh", full=True)

    def test_clearing_leaves_what_is_no_file_any_more(self):
        for make in (os.mkdir, lambda path: os.symlink("/etc/passwd", path)):
            for params in ({"all": True}, {"agent_name": DEFAULT_AGENT}):
                with self.subTest(make=make, params=params):
                    self.rpc("apply_changes", upserts=[{"id": "f1", "content": "one"},
                                                       {"id": "f2", "content": "two"}])
                    path = os.path.join(self.volume, self.break_in_place("f1"))
                    os.unlink(path)
                    make(path)
                    done = self.rpc("clear_memory", **params)
                    self.assertEqual((done["cleared"], done["kept"]), (1, []))
                    self.assertTrue(os.path.lexists(path))
                    self.assertEqual(self.texts(), {})
                    (os.unlink if os.path.islink(path) else os.rmdir)(path)

    def test_clearing_every_agent_gets_past_a_broken_fact_of_one(self):
        self.rpc("apply_changes", upserts=[{"id": "f1", "content": "one"}])
        self.rpc("apply_changes", agent_name="coder", upserts=[{"id": "g1", "content": "one"},
                                                               {"id": "g2", "content": "two"}])
        self.rpc("apply_changes", agent_name="writer", upserts=[{"id": "h1", "content": "one"}])
        path = self.break_in_place("g1", agent="coder")
        done = self.rpc("clear_memory", all=True)
        self.assertEqual((done["cleared"], [entry["path"] for entry in done["kept"]]), (3, [path]))
        for agent in (DEFAULT_AGENT, "coder", "writer"):
            self.assertEqual(self.texts(agent=agent), {})
            self.assert_agrees(agent=agent)

    def test_an_import_replaces_around_what_was_broken_in_place(self):
        self.rpc("apply_changes", upserts=[{"id": "f1", "content": "one"},
                                           {"id": "f2", "content": "two"}])
        path = self.break_in_place("f1")
        self.refused(CORRUPT, "import_memory",
                     memory_data={"facts": [{"id": "f1", "content": "three"}]})
        self.rpc("import_memory", memory_data={"facts": [{"id": "f3", "content": "three"}]})
        self.assertEqual(self.texts(), {"f3": "three"})
        self.assertEqual(self.files()[path], b"no fact at all")
        self.assert_agrees()

    def test_an_export_imported_elsewhere_is_the_same_memory(self):
        self.rpc("apply_changes", upserts=[
            {"id": f"f{i}", "content": f"fact {i}", "category": "taste" if i % 2 else "goal",
             "confidence": i / 10, "topics": ["a", "no"], "custom": {"x": [1, None, 2.5]}}
            for i in range(10)],
            summaries={"user": {"workContext": {"summary": "w", "updatedAt": "t"}}})
        self.rpc("update_fact", fact_id="f3", content="changed")
        memory = self.rpc("export_memory")["memory"]
        done = self.rpc("import_memory", user_id="v", memory_data=memory)
        self.assertEqual((done["imported"], done["deleted"], done["evicted"]), (10, 0, []))
        copy = self.rpc("export_memory", user_id="v")["memory"]
        for one, other in zip(memory["facts"], copy["facts"], strict=True):
            self.assertEqual({**one, "scope": None}, {**other, "scope": None})
        self.assertEqual((memory["user"], memory["history"]), (copy["user"], copy["history"]))
        self.rpc("update_fact", user_id="v", fact_id="f3", content="changed again")
        again = self.rpc("import_memory", user_id="v", memory_data=memory)
        self.assertEqual((again["imported"], again["unchanged"]), (1, 9))
        self.assert_agrees("v")

    def dry_and_done(self, document, **params):
        """What a dry run told, after the import came to the same."""
        before = self.files()
        told = self.rpc("import_memory", memory_data=document, dry_run=True, **params)
        self.assertEqual((self.files(), told["dry_run"]), (before, True))
        self.assertEqual(told["revision"], self.rpc("get_summaries")["summaries"]["revision"])
        done = self.rpc("import_memory", memory_data=document, expected_revision=told["revision"], **params)
        self.assertFalse(done["dry_run"])
        for name in ("imported", "added", "replaced", "unchanged", "deleted", "evicted", "changed",
                     "replaced_summaries", "added_summaries", "kept"):
            self.assertEqual(told[name], done[name], name)
        return told

    def test_a_dry_run_of_an_import_tells_what_the_import_comes_to(self):
        self.rpc("apply_changes", upserts=[{"id": f"f{i}", "content": f"fact {i}", "confidence": 0.5,
                                            "topics": ["a"]} for i in range(5)],
                 summaries={"user": {"workContext": {"summary": "w", "updatedAt": "t"}}})
        exported = self.rpc("export_memory")["memory"]
        self.assertFalse(self.dry_and_done(exported)["changed"])
        told = self.dry_and_done({"facts": [
            {"id": "f0", "content": " fact 0\n", "confidence": "0.5", "topics": ["a"]},  # the same, other spelling
            {"id": "f1", "content": "changed"}, {"id": "new", "content": "new"}],
            "user": {"workContext": "other", "topOfMind": {"summary": "x"}, "personalContext": {}}})
        self.assertEqual([told[name] for name in ("imported", "added", "replaced", "unchanged", "deleted")],
                         [2, 1, 1, 1, 3])
        self.assertEqual((told["replaced_summaries"], told["added_summaries"]),
                         (["user.workContext"], ["user.topOfMind"]))
        self.assert_agrees()

    def test_a_dry_run_is_refused_as_the_import_would_be(self):
        self.rpc("create_fact", content="stays")
        for code, data, params in ((INVALID, {"facts": [{"content": ""}]}, {}), (INVALID, {"facts": {}}, {}),
                                   (CONFLICT, {"facts": []}, {"expected_revision": 7}),
                                   (INVALID, {"facts": []}, {"memory": 1})):
            self.refused(code, "import_memory", memory_data=data, dry_run=True, **params)
        self.refused(INVALID, "import_memory", memory_data={"facts": []}, dry_run="yes")
        self.assertEqual(list(self.texts().values()), ["stays"])

    def test_a_dry_run_for_a_new_user_makes_nothing(self):
        told = self.rpc("import_memory", user_id="new", memory_data={"facts": [{"content": "x"}]}, dry_run=True,
                        memory=True)
        self.assertEqual((told["added"], told["revision"], told["changed"]), (1, 0, True))
        self.assertEqual(told["memory"]["facts"], [])
        self.assertFalse(os.path.exists(os.path.join(self.volume, "users/new")))
        self.refused(CONFLICT, "import_memory", user_id="new", memory_data={}, dry_run=True, expected_revision=3)

    def test_a_dry_run_takes_an_earlier_layout_as_it_is_read(self):
        facts = [{"id": f"f{i}", "content": f"fact {i}", "category": "context", "confidence": 0.5,
                  "createdAt": "2026-01-01T00:00:00Z", "source": "t"} for i in range(3)]
        os.makedirs(os.path.join(self.volume, "users/u"))
        with open(os.path.join(self.volume, "users/u/memory.json"), "w", encoding="utf-8") as file:
            json.dump({"version": "1.0", "lastUpdated": "2026-01-01T00:00:00Z", "facts": facts,
                       "user": {"workContext": {"summary": "w", "updatedAt": "t"}}, "history": {}}, file)
        document = self.rpc("export_memory")["memory"]
        document["facts"] = [document["facts"][0], document["facts"][1] | {"content": "changed"},
                             {"id": "new", "content": "new"}]
        document["user"]["workContext"]["summary"] = "other"
        before = self.files()
        told = self.rpc("import_memory", memory_data=document, dry_run=True)
        self.assertEqual((self.files(), told["unmigrated"]), (before, True))
        done = self.rpc("import_memory", memory_data=document)
        for name in ("added", "replaced", "unchanged", "deleted", "replaced_summaries"):
            self.assertEqual(told[name], done[name], name)
        self.assertEqual([told[name] for name in ("added", "replaced", "unchanged", "deleted")], [1, 1, 1, 1])
        self.assertNotIn("unmigrated", done)

    def test_an_import_tells_which_broken_files_it_leaves(self):
        self.rpc("apply_changes", upserts=[{"id": "f1", "content": "one"}, {"id": "f2", "content": "two"}])
        path = self.break_in_place("f1")
        document = {"facts": [{"id": "f3", "content": "three"}]}
        for data in (document, {"facts": [{"id": "f1", "content": "x"}]}):
            told = None
            try:
                told = self.rpc("import_memory", memory_data=data, dry_run=True)
            except RpcError as error:
                self.assertEqual(error.code, CORRUPT)
            self.assertEqual(told is None, data is not document)
        told = self.dry_and_done(document)
        self.assertEqual([one["path"] for one in told["kept"]], [path])
        self.assertEqual(told["deleted"], 1)
        self.assertEqual(self.dry_and_done({"user": {}})["kept"], [])

    def test_an_import_never_takes_malformed_for_empty(self):
        self.rpc("create_fact", content="stays")
        before = self.files()
        for data in (None, [], "x", {"facts": None}, {"facts": {}}, {"facts": [1]},
                     {"user": None}, {"history": []}, {"facts": [{"content": ""}]},
                     {"facts": [{"id": "a b", "content": "x"}]},
                     {"facts": [{"content": "x", "status": "gone"}]},
                     {"facts": [{"id": "a", "content": "x"}, {"id": "a", "content": "y"}]}):
            with self.subTest(data=data):
                self.refused(INVALID, "import_memory", memory_data=data)
        self.assertEqual(self.files(), before)
        done = self.rpc("import_memory", memory_data={"user": {}})
        self.assertEqual((done["deleted"], done["changed"]), (0, False))
        done = self.rpc("import_memory", memory_data={
            "facts": [{"content": "new", "confidence": "7"}, {"content": "newer", "confidence": None}]})
        self.assertEqual((done["imported"], done["deleted"]), (2, 1))
        self.assertEqual(sorted(f["confidence"] for f in self.rpc("list_facts")["facts"]), [0.5, 1.0])
        done = self.rpc("import_memory", memory_data={"facts": []})
        self.assertEqual(done["deleted"], 2)
        self.assert_agrees()

    STORED = {"user": {"workContext": {"summary": "stays", "updatedAt": "t"}}}
    NO_SECTIONS = (None, 5, True, [], ["plain"], {"summary": 5}, {"summary": None}, {"summary": {}})

    def test_what_is_no_section_hides_no_summary(self):
        self.rpc("update_summaries", summaries=self.STORED)
        before = self.files()
        for section in self.NO_SECTIONS + ("plain",):
            for method in ("update_summaries", "apply_changes"):
                with self.subTest(method=method, section=section):
                    error = self.refused(INVALID, method, summaries={"user": {"workContext": section}})
                    self.assertIn("summaries.user.workContext", str(error))
        for section in self.NO_SECTIONS:
            for group, name in (("user", "workContext"), ("user", "some"), ("history", "recentMonths")):
                with self.subTest(group=group, name=name, section=section):
                    error = self.refused(INVALID, "import_memory",
                                         memory_data={"facts": [{"content": "x"}], group: {name: section}})
                    self.assertIn(f"memory_data.{group}.{name}", str(error))
        for summaries in ({"foo": {}}, {"foo": {"workContext": {"summary": "x"}}}, {"workContext": {"summary": "x"}}):
            with self.subTest(summaries=summaries):
                self.assertIn("neither user nor history",
                              str(self.refused(INVALID, "update_summaries", summaries=summaries)))
        self.assertEqual(self.files(), before)

    def test_sections_with_and_without_a_text(self):
        self.rpc("update_summaries", summaries=self.STORED)
        for section in ({}, {"summary": ""}, {"updatedAt": "x"}, ""):
            with self.subTest(section=section):
                done = self.rpc("import_memory", memory_data={"user": {"workContext": section}})
                self.assertFalse(done["changed"])
        done = self.rpc("import_memory", memory_data={"user": {"topOfMind": "plain", "others": "plain"}})
        self.assertTrue(done["changed"])
        summaries = self.rpc("get_summaries")["summaries"]
        self.assertEqual([summaries["user"][name] for name in ("workContext", "topOfMind", "others")],
                         [self.STORED["user"]["workContext"], {"summary": "plain"}, "plain"])
        self.assertFalse(self.rpc("update_summaries", summaries=summaries)["changed"])
        for section in ({"summary": ""}, {}):
            done = self.rpc("update_summaries", summaries={"user": {"topOfMind": section}})
            self.assertEqual(done["summaries"]["user"]["topOfMind"], section)

    def test_an_import_takes_confidence_as_the_peers_do(self):
        for given, stored in ((None, 0.5), (True, 0.5), ("z", 0.5), ([], 0.5), ("0.7", 0.7), ("7", 1), (7, 1),
                              (-1, 0), (0.25, 0.25)):
            with self.subTest(given=given):
                self.rpc("import_memory", memory_data={"facts": [{"id": "f", "content": "x", "confidence": given}]})
                self.assertEqual([fact["confidence"] for fact in self.rpc("list_facts")["facts"]], [stored])

    def put_old(self, facts, user="u"):
        path = os.path.join(self.volume, "users", user, "memory.json")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"version": "1.0", "facts": facts}, file)
        return path

    def test_dates_that_old_facts_lack_are_those_of_their_file(self):
        os.utime(self.put_old([{"id": "o1", "content": "one"}]), (1700000000, 1700000000))
        for _ in range(2):
            fact = self.rpc("get_fact", fact_id="o1")["fact"]
            self.assertTrue(fact["createdAt"].startswith("2023-11-14T22:13:20"), fact)
            self.assertEqual(fact["updatedAt"], fact["createdAt"])
            self.rpc("create_fact", content="two") if "two" not in self.texts().values() else None

    def test_erasing_gets_past_an_old_list_with_one_id_twice(self):
        path = self.put_old([{"id": "o1", "content": "one"}, {"id": "o1", "content": "other"}])
        self.assertIn("o1 is there twice", self.rpc("list_facts")["broken"][0]["problem"])
        self.assertIn("o1 is there twice",
                      str(self.refused(CONFLICT, "create_fact", content="two")))
        self.refused(CONFLICT, "clear_memory", all=True)
        done = self.rpc("delete_memory", all=True)
        self.assertEqual((done["changed"], done["erased"]), (True, 1))
        self.assertFalse(os.path.exists(path + ".v1.bak"))
        self.assertEqual(self.texts(), {})
        self.assert_agrees()

    def test_a_document_of_a_newer_format_is_not_imported(self):
        for version in ("9.0", "3"):
            error = self.refused(INVALID, "import_memory",
                                 memory_data={"version": version, "facts": [{"content": "x"}]})
            self.assertIn("version", str(error))
        for number, version in enumerate(("2.0", "1.0", "2.9", None, 9)):
            self.rpc("import_memory", user_id=f"u{number}",
                     memory_data={"version": version, "facts": [{"content": "x"}]})

    def test_what_is_no_file_is_named_as_what_it_is(self):
        makes = (("a directory, not a regular file", os.mkdir),
                 ("a pipe, not a regular file", os.mkfifo),
                 ("a symbolic link, which is never followed",
                  lambda path: os.symlink("/etc/passwd", path)))
        for number, (words, make) in enumerate(makes):
            for name in ("memory.json", ".memory.journal.json", ".memory.lock", "fact"):
                user = f"{name.replace('.', '-')}{number}"
                with self.subTest(name=name, words=words):
                    self.rpc("apply_changes", user_id=user,
                             upserts=[{"id": "f1", "content": "one"}])
                    relative = f"users/{user}/" + (
                        peer.fact_path(DEFAULT_AGENT, "f1") if name == "fact" else name)
                    path = os.path.join(self.volume, relative)
                    if os.path.lexists(path):
                        os.unlink(path)
                    make(path)
                    error = self.refused(CORRUPT, "update_fact", user_id=user, fact_id="f1",
                                         content="x")
                    self.assertIn(words, str(error))
                    self.assertEqual((error.data["path"], error.data["retryable"]),
                                     (relative, False))

    def test_what_cannot_be_read_is_never_overwritten(self):
        self.rpc("create_fact", content="one")
        manifest = os.path.join(self.volume, "users/u/memory.json")
        for text in ("{", '{"version": "3.0", "revision": 7}'):
            with self.subTest(text=text):
                with open(manifest, "w", encoding="utf-8") as file:
                    file.write(text)
                before = self.files()
                for method, params in (("create_fact", {"content": "two"}),
                                       ("clear_memory", {"all": True}),
                                       ("import_memory", {"memory_data": {"facts": []}}),
                                       ("update_summaries", {"summaries": {"user": {}}})):
                    error = self.refused(CORRUPT if text == "{" else CONFLICT, method, **params)
                    self.assertEqual(error.data["path"], "users/u/memory.json")
                self.assertEqual(self.files(), before)
        self.rpc("create_fact", user_id="other", content="others notice nothing")

    def test_a_held_lock_is_told_at_the_deadline(self):
        self.rpc("create_fact", content="one")
        held = self.peer.lock("u")
        try:
            begun = time.monotonic()
            error = self.refused(TIMEOUT, "create_fact", content="two", timeout_ms=600)
            self.assertLess(time.monotonic() - begun, 5)
            self.rpc("create_fact", user_id="v", content="not held up")
        finally:
            os.close(held)
        self.assertIn("kind", error.data)
        self.rpc("create_fact", content="three")


class Capacity(WriteCase):
    config = {"backend": {"config": {"max_facts": 10, "capacity_shadow": True,
                                     "eviction_audit_entries": 5}}}

    def test_the_weakest_goes_and_the_audit_tells(self):
        for i in range(10):
            self.rpc("apply_changes", upserts=[{"id": f"f{i}", "content": f"fact {i}",
                                                "confidence": 0.5 + i / 100}])
        self.agent.search("fact", "u")
        made = self.rpc("create_fact", content="better", confidence=0.9)
        self.assertEqual(made["evicted"], ["f0"])
        self.assertNotIn("f0", self.texts())
        loser = self.rpc("create_fact", content="worse", confidence=0.1)
        self.assertEqual((loser["fact_id"], loser["fact"], loser["changed"]), (None, None, False))
        self.assertEqual(len(self.texts()), 10)
        directory = os.path.join(self.volume, "users/u/agents/__default__/.metadata")
        with open(os.path.join(directory, "eviction-audit.json"), encoding="utf-8") as file:
            audit = json.load(file)
        self.assertEqual([e["factId"] for entry in audit for e in entry["evicted"]][0], "f0")
        self.assertIn("shadow", audit[0])
        self.agent.stop()
        with open(os.path.join(directory, "fact-usage.json"), encoding="utf-8") as file:
            usage = json.load(file)
        self.assertTrue(usage and all(entry["accessCount"] >= 1 for entry in usage.values()))
        self.assertNotIn("f0", usage)
        self.agent.start()
        self.rpc("clear_memory", agent_name="__default__")
        self.assertFalse(os.path.exists(directory))
        self.assert_agrees()

    def test_an_audit_that_cannot_be_written_is_told_once(self):
        def make(number):
            self.rpc("create_fact", content=f"fact {number}", confidence=0.5 + number / 1000)
        for i in range(11):
            make(i)
        path = "users/u/agents/__default__/.metadata/eviction-audit.json"
        full = os.path.join(self.volume, path)
        os.unlink(full)
        os.mkdir(full)
        for i in range(11, 14):
            make(i)
        lines = self.agent.log_lines("event=side_data.audit")
        self.assertEqual(len(lines), 1, lines)
        self.assertIn(f"path={path}", lines[0])
        os.rmdir(full)
        make(14)
        os.unlink(full)
        os.mkdir(full)
        make(15)
        self.assertEqual(len(self.agent.log_lines("event=side_data.audit")), 2)

    def test_notes_of_use_that_cannot_be_understood_are_told_once(self):
        for i in range(11):
            self.rpc("create_fact", content=f"fact {i}", confidence=0.5 + i / 1000)
        path = "users/u/agents/__default__/.metadata/fact-usage.json"
        with open(os.path.join(self.volume, path), "w", encoding="utf-8") as file:
            file.write("no notes")
        for i in range(11, 13):
            self.rpc("create_fact", content=f"fact {i}", confidence=0.5 + i / 1000)
        lines = self.agent.log_lines("event=side_data.read")
        self.assertEqual(len(lines), 1, lines)
        self.assertIn(f"path={os.path.dirname(path)} reason=malformed", lines[0])

    def test_a_dry_run_of_an_import_sees_what_was_broken_in_place(self):
        facts = [{"id": f"f{i}", "content": f"fact {i}", "confidence": 0.5} for i in range(3)]
        self.rpc("apply_changes", upserts=facts)
        document = self.rpc("export_memory")["memory"]
        document["facts"] = [fact for fact in document["facts"] if fact["id"] != "f1"]
        path = os.path.join(self.volume, "users/u", peer.fact_path(DEFAULT_AGENT, "f1"))
        with open(path, "w", encoding="utf-8") as file:
            file.write("no fact at all")
        told = self.rpc("import_memory", memory_data=document, dry_run=True)
        self.assertEqual((told["imported"], told["unchanged"], told["deleted"]), (0, 2, 0))

    def test_what_was_broken_in_place_does_not_lose_the_contest(self):
        for i in range(10):
            self.rpc("apply_changes", upserts=[{"id": f"f{i}", "content": f"fact {i}",
                                                "confidence": 0.5 + i / 100}])
        path = os.path.join(self.volume, "users/u", peer.fact_path(DEFAULT_AGENT, "f0"))
        with open(path, "w", encoding="utf-8") as file:
            file.write("no fact at all")
        made = self.rpc("create_fact", content="better", confidence=0.9)
        self.assertEqual((made["evicted"], made["attempts"]), ([], 1))
        self.assertTrue(os.path.exists(path))
        self.assert_agrees()

    def test_an_import_into_a_scope_beyond_its_limit_tells_what_goes(self):
        self.rpc("apply_changes", upserts=[{"id": f"f{i:02}", "content": f"fact {i}", "confidence": i / 100}
                                           for i in range(15)])
        document = self.rpc("export_memory")["memory"]
        before = self.files()
        told = self.rpc("import_memory", memory_data=document, dry_run=True)
        self.assertEqual(self.files(), before)
        done = self.rpc("import_memory", memory_data=document)
        for answer in (told, done):
            self.assertEqual((answer["imported"], answer["deleted"], answer["unchanged"], answer["evicted"]),
                             (0, 5, 10, ["f00", "f01", "f02", "f03", "f04"]))

    def test_an_import_keeps_what_fits(self):
        done = self.rpc("import_memory", memory_data={"facts": [
            {"id": f"f{i:02}", "content": f"fact {i}", "confidence": i / 100} for i in range(15)]})
        self.assertEqual((done["imported"], done["evicted"]),
                         (10, ["f00", "f01", "f02", "f03", "f04"]))


class ManyWriters(WriteCase):
    config = {"backend": {"config": {"max_facts": 0}}}

    def test_no_update_is_lost_between_two_agents_and_a_peer(self):
        """Eight writers of one user through two agents, and a third program, all on expected
        revisions: every success is a revision of its own, and all of them are in the files."""
        self.peer.commit("u", changes=[peer.add(f"f{i}", "0") for i in range(9)])
        revisions, failures = [], []
        guard = threading.Lock()
        with Agent(binary("memsyncd"), self.volume, config=self.config) as other:
            def work(agent, number):
                with agent.client() as client:
                    done = 0
                    while done < 12:
                        try:
                            fact = client.rpc("get_fact", user_id="u", fact_id=f"f{number}")["fact"]
                            told = client.rpc("update_fact", user_id="u", fact_id=f"f{number}",
                                              content=str(done + 1),
                                              expected_revision=fact["revision"])
                        except RpcError as error:
                            if error.code != CONFLICT:
                                failures.append(error)
                                return
                            continue
                        found = client.rpc("search", user_id="u", query=str(done + 1), top_k=20)
                        ids = [hit["fact"]["id"] for hit in found["results"]]
                        states = {scope["state"] for scope in found["scopes"]}
                        with guard:
                            revisions.append(told["revision"])
                            if f"f{number}" not in ids and states <= {"fresh", "refreshed"}:
                                failures.append((number, done, ids))
                        done += 1

            threads = [threading.Thread(target=work, args=((self.agent, other)[i % 2], i))
                       for i in range(8)]
            for thread in threads:
                thread.start()
            for i in range(12):
                self.peer.commit("u", changes=[peer.update("f8", str(i + 1))])
            for thread in threads:
                thread.join()
            self.assertEqual(failures, [])
            self.assertEqual(len(revisions), 96)
            final = self.peer.revision("u")
            self.assertEqual({key: fact[2] for key, fact in self.peer.facts("u").items()},
                             {f"f{i}": "12" for i in range(9)})
            # A group has one revision; a peer's commit has one of its own.
            self.assertEqual(len(set(revisions)) + 12 + 1, final)
            for agent in (self.agent, other):
                self.assertEqual({f["id"]: f["content"]
                                  for f in agent.rpc("list_facts", user_id="u")["facts"]},
                                 {f"f{i}": "12" for i in range(9)})
                self.assertTrue(agent.rpc("verify", user_id="u")["ok"])
        self.assert_agrees()


if __name__ == "__main__":
    unittest.main()
