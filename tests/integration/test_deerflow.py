#!/usr/bin/python3
"""memsync.deerflow against the real agent: both ways in, as DeerFlow itself would take them."""

import datetime
import errno
import glob
import json
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
import unittest.mock

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests", "support"), os.path.join(ROOT, "ipc", "python")]

# pylint: disable=wrong-import-position
import memsync.deerflow  # noqa: E402
import stand_in_deerflow as deerflow  # noqa: E402
from memsync import errors  # noqa: E402
from memsync.deerflow import agent as volume_agent  # noqa: E402
from memsync.deerflow import base, retrieval, seam  # noqa: E402
from memsync.deerflow.failures import as_deerflow, is_for_files  # noqa: E402
from memsync.deerflow.volume import Identity, identify  # noqa: E402
from peer import Peer, add, delete, update  # noqa: E402
from process import IS_SANITIZED, ProcessCase  # noqa: E402

ADAPTER = "memsync.deerflow.retrieval_adapter"
STORAGE = "memsync.deerflow.AgentMemoryStorage"
SLOW = 4 if IS_SANITIZED else 1
QUIET = {"sync": {"inotify": False, "poll_interval_min_ms": 3600000, "poll_interval_max_ms": 86400000}}
ALICE = {"userId": "alice", "agentName": "agent-a"}


def fact(fact_id, content, **more):
    return {"id": fact_id, "content": content, "category": "context", "confidence": 0.8,
            "createdAt": "2026-07-21T00:00:00Z", "source": {"type": "manual", "threadId": None}, **more}


def found(hits):
    return sorted(hit["fact"]["id"] for hit in hits)


def ids(document):
    return [each["id"] for each in document["facts"]]


def setUpModule():
    deerflow.quiet_log()


class DeerFlowCase(ProcessCase):
    def setUp(self):
        super().setUp()
        self.use_deerflow()
        deerflow.FileMemoryStorage.calls.clear()
        self.point_at("ipc:///nowhere/memsyncd.sock")

    def use_deerflow(self, without=deerflow.FENCE):
        """As of the version that the project knows; the class is made anew."""
        deerflow.install(without)
        seam.agent_memory_storage.cache_clear()
        self.addCleanup(seam.agent_memory_storage.cache_clear)
        self.addCleanup(deerflow.remove)

    def point_at(self, endpoint):
        patched = unittest.mock.patch.dict(os.environ, {"MEMSYNC_ENDPOINT": endpoint})
        patched.start()
        self.addCleanup(patched.stop)

    def serve(self, **options):
        """An agent of the volume, where a Gateway looks for it."""
        running = self.agent(**options)
        self.point_at(running.endpoint)
        return running

    def gateway(self, **config):
        """The storage that DeerFlow makes of its configuration."""
        storage = deerflow.create_storage(deerflow.Config(**{"storage_path": self.volume, **config}))
        self.addCleanup(storage.close)
        return storage

    def searcher(self, **config):
        return self.gateway(retrieval_adapter=ADAPTER, **config)

    def storage(self, **config):
        return self.gateway(storage_class=STORAGE, **config)

    def files_asked(self):
        """What DeerFlow's own storage was asked for since the last time."""
        calls = list(deerflow.FileMemoryStorage.calls)
        deerflow.FileMemoryStorage.calls.clear()
        return calls

    def fact_file(self, fact_id):
        path, = glob.glob(f"{self.volume}/**/facts/*/{fact_id}.md", recursive=True)
        return path

    def edit(self, fact_id, old, new):
        """As somebody with an editor does it: no revision tells."""
        path = self.fact_file(fact_id)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace(old, new))


class Import(unittest.TestCase):
    def run_python(self, code):
        done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=False, timeout=60,
                              env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "ipc", "python")})
        self.assertEqual(done.stderr, "")
        return done.stdout

    def test_nothing_of_deerflow_is_imported_before_its_base_class_is_needed(self):
        told = self.run_python(
            "import sys, types, memsync.deerflow\n"
            "from memsync.deerflow import *\n"
            "memsync.deerflow.retrieval_adapter(types.SimpleNamespace(storage_path='/tmp')).close()\n"
            "print([name for name in sys.modules if name.split('.')[0] == 'deerflow'])\n"
            "try: memsync.deerflow.AgentMemoryStorage\n"
            "except ImportError as error: print(error)\n"
            "print(hasattr(memsync.deerflow, 'Storage'))\n")
        self.assertEqual(told.splitlines(), ["[]", "No module named 'deerflow'", "False"])


class Seam(DeerFlowCase):
    def test_the_class_is_one_that_deerflow_takes(self):
        kind = deerflow.named(STORAGE)
        self.assertTrue(issubclass(kind, deerflow.MemoryStorage))
        self.assertIs(kind, deerflow.named(STORAGE))
        self.assertEqual((kind.__module__, kind.__name__), ("memsync.deerflow", "AgentMemoryStorage"))
        for name in ("apply_changes", "clear_all"):  # DeerFlow looks whether a storage has its own
            self.assertIsNot(getattr(kind, name), getattr(deerflow.MemoryStorage, name))

    def test_a_version_that_lacks_what_is_needed_is_refused_by_name(self):
        self.use_deerflow(without=["MemoryFactRevisionConflict"])
        with self.assertRaisesRegex(ImportError, "MemoryFactRevisionConflict"):
            deerflow.named(STORAGE)

    def test_an_endpoint_that_is_none_fails_when_the_gateway_starts(self):
        self.point_at("nonsense")
        for make in (self.searcher, self.storage):
            with self.assertRaises(errors.BadEndpointError):
                make()

    def test_nothing_is_connected_before_it_is_needed(self):
        for storage in (self.searcher(), self.storage()):
            storage.close()


class Searches(DeerFlowCase):
    """The first way in."""

    @staticmethod
    def noted(method, calls):
        """Has a method of the client note of whom it asks, and whether it waited for the answer."""
        real = getattr(memsync.Client, method)

        def call(client, **options):
            answer = real(client, **options)
            calls.append((method, options.get("user_id"), options.get("agent_name"), answer.requested))
            return answer
        return unittest.mock.patch.object(memsync.Client, method, call)

    def test_a_search_goes_to_the_agent(self):
        self.serve()
        storage = self.searcher()
        storage.apply_changes({"upserts": [fact("one", "Likes green tea", category="preference"),
                                           fact("two", "Drinks tea at noon")]}, user_id="alice", agent_name="agent-a")
        hits = storage.search_facts("green tea", scopes=[ALICE])
        self.assertEqual([hit["fact"]["id"] for hit in hits], ["one", "two"])
        self.assertEqual((hits[0]["matchType"], sorted(hits[0])), ("fts5", ["fact", "matchType", "retrieval", "score"]))
        self.assertGreater(hits[0]["score"], hits[1]["score"])
        self.assertEqual(hits[0]["fact"]["scope"], ALICE)
        self.assertEqual(found(storage.search_facts("green tea", scopes=[ALICE], top_k=1)), ["one"])
        preferences = storage.search_facts("tea", scopes=[ALICE], filters={"category": "preference"})
        self.assertEqual(found(preferences), ["one"])
        self.assertEqual(storage.search_facts("tea", scopes=[ALICE], filters={"category": "unheard"}), [])
        self.assertFalse(os.path.exists(os.path.join(self.volume, ".retrieval")))

    def test_what_others_write_is_seen_by_the_next_search(self):
        self.serve(config=QUIET)
        mine, other = self.searcher(), self.searcher()
        mine.apply_changes({"upserts": [fact("one", "alpha")]}, user_id="alice", agent_name="agent-a")
        self.assertEqual(found(other.search_facts("alpha", scopes=[ALICE])), ["one"])
        other.apply_changes({"upserts": [fact("two", "beta")]}, user_id="alice", agent_name="agent-a")
        self.assertEqual(found(mine.search_facts("beta", scopes=[ALICE])), ["two"])
        self.peer.commit("alice", "agent-a", [delete("one"), update("two", "gamma")])
        for storage in (mine, other):
            self.assertEqual(storage.search_facts("alpha", scopes=[ALICE]), [])
            self.assertEqual(found(storage.search_facts("gamma", scopes=[ALICE])), ["two"])

    def test_the_adapter_needs_not_to_be_told_of_anything(self):
        self.serve(config=QUIET)
        adapter = self.searcher().retrieval
        for number in range(3):
            self.peer.commit("alice", "agent-a", [add(f"fact_{number}", f"word{number}")])
            hits = adapter.search(f"word{number}", scopes=[ALICE], top_k=5, mode="hybrid", filters=None)
            self.assertEqual(found(hits), [f"fact_{number}"])

    def test_gateways_on_several_nodes_see_each_other(self):
        self.serve(config=QUIET)
        here = self.searcher()
        self.serve(config=QUIET)
        there = self.searcher()
        here.apply_changes({"upserts": [fact("one", "alpha")]}, user_id="alice", agent_name="agent-a")
        self.assertEqual(found(there.search_facts("alpha", scopes=[ALICE])), ["one"])
        there.apply_changes({"deletes": ["one"]}, user_id="alice", agent_name="agent-a")
        self.assertEqual(here.search_facts("alpha", scopes=[ALICE]), [])

    def test_scopes_are_kept_apart(self):
        self.serve()
        for user, text in (("alice", "alpha"), ("bob", "beta"), (None, "gamma")):
            self.peer.commit(user, "agent-a", [add("same", f"{text} word")])
        self.peer.commit("alice", None, [add("same", "delta word")])
        storage = self.searcher()

        def contents(*scopes):
            asked = [{"userId": user, "agentName": name} for user, name in scopes]
            return sorted(hit["fact"]["content"] for hit in storage.retrieval.search(
                "word", scopes=asked, top_k=9, mode="fts5", filters=None))

        self.assertEqual(contents(("alice", "agent-a")), ["alpha word"])
        self.assertEqual(contents(("bob", "Agent-A")), ["beta word"])
        self.assertEqual(contents((None, "agent-a")), ["gamma word"])
        self.assertEqual(contents(("alice", "__default__")), ["delta word"])
        self.assertEqual(contents(("alice", None)), [], "no agent is no bucket, and not the default one")
        self.assertEqual(contents(("alice", None), ("bob", "agent-a")), ["beta word"])
        many = [(f"nobody{number}", "agent-a") for number in range(70)]
        self.assertEqual(contents(*many, ("alice", "agent-a"), ("bob", "agent-a")), ["alpha word", "beta word"])

    def test_arguments_are_looked_at(self):
        self.serve()
        adapter = self.searcher().retrieval

        def search(query="tea", scopes=(ALICE,), top_k=5, mode="hybrid", filters=None):
            return adapter.search(query, scopes=list(scopes), top_k=top_k, mode=mode, filters=filters)

        for wrong in ({"mode": "vector"}, {"filters": {"category": 5}}, {"scopes": [{"userId": 5, "agentName": "a"}]},
                      {"scopes": [{"userId": "u", "agentName": b"a"}]}):
            with self.subTest(wrong), self.assertRaises(ValueError):
                search(**wrong)
        for nothing in ({"query": "  "}, {"top_k": 0}, {"top_k": -1}, {"scopes": []}):
            self.assertEqual(search(**nothing), [], nothing)

    def test_values_that_json_lacks_are_pythons_own(self):
        self.serve()
        self.peer.commit("alice", "agent-a", [add("one", "Moved to Ghent")])
        self.edit("one", "schemaVersion", "movedOn: 2026-02-10\nschemaVersion")
        hit, = self.searcher().search_facts("Ghent", scopes=[ALICE])
        self.assertEqual(hit["fact"]["movedOn"], datetime.date(2026, 2, 10))

    def test_a_notification_is_a_hint(self):
        self.serve()
        adapter = self.searcher().retrieval
        asked = []
        with self.noted("refresh", asked), self.noted("refresh_all", asked), \
                unittest.mock.patch.object(retrieval, "HINT_TIMEOUT", 20.0):
            adapter.upsert(fact("one", "what it says counts for nothing"), scope=ALICE, path="")
            adapter.remove("one", scope={"userId": None, "agentName": "agent-b"})
            adapter.remove("one", scope={"userId": "alice", "agentName": None})
            adapter.clear(scopes=[ALICE, {"userId": "bob", "agentName": "agent-b"}])
            adapter.clear()
        self.assertEqual(asked, [("refresh", "alice", "agent-a", True), ("refresh", None, "agent-b", True),
                                 ("refresh", "alice", "agent-a", True), ("refresh", "bob", "agent-b", True),
                                 ("refresh_all", None, None, True)])
        self.assertEqual(adapter.search("counts", scopes=[ALICE], top_k=5, mode="hybrid", filters=None), [])

    def test_a_hint_without_an_agent_is_no_error(self):
        adapter = self.searcher().retrieval
        with self.assertLogs("memsync.deerflow", logging.WARNING) as logged:
            adapter.upsert(fact("one", "x"), scope=ALICE, path="")
            adapter.remove("one", scope=ALICE)
            adapter.clear()
        self.assertEqual(len(logged.output), 1, "told once")
        self.assertIn(self.volume, logged.output[0])

    def test_a_hint_does_not_wait_long_for_an_agent_that_hangs(self):
        running = self.serve()
        adapter = self.searcher().retrieval
        adapter.upsert(fact("one", "x"), scope=ALICE, path="")
        running.signal(signal.SIGSTOP)
        self.addCleanup(running.signal, signal.SIGCONT)
        started = time.monotonic()
        with self.assertLogs("memsync.deerflow"):
            adapter.upsert(fact("one", "x"), scope=ALICE, path="")
        self.assertLess(time.monotonic() - started, 3 * SLOW)

    def test_a_reload_sees_what_somebody_wrote_into_a_file(self):
        self.serve(config=QUIET)
        storage = self.searcher()
        storage.apply_changes({"upserts": [fact("one", "original value")]}, user_id="alice", agent_name="agent-a")
        self.assertEqual(found(storage.search_facts("original", scopes=[ALICE])), ["one"])
        self.edit("one", "original", "edited")
        storage.reload("agent-a", user_id="alice")
        self.assertEqual(found(storage.search_facts("edited", scopes=[ALICE])), ["one"])
        self.assertEqual(storage.search_facts("original", scopes=[ALICE]), [])
        os.unlink(self.fact_file("one"))
        storage.reload("agent-a", user_id="alice")
        self.assertEqual(storage.search_facts("edited", scopes=[ALICE]), [])

    def test_a_rebuild_after_a_commit_has_nothing_read_twice(self):
        self.serve(config=QUIET)
        storage, asked = self.searcher(), []
        with self.noted("refresh", asked):
            for number in range(3):
                self.peer.commit("alice", "agent-a", [add(f"fact_{number}", f"word{number}", "unheard-of")])
                self.assertEqual(found(storage.search_facts(f"word{number}", scopes=[ALICE])), [f"fact_{number}"])
            self.assertEqual(asked, [])
            self.edit("fact_1", "word1", "edited")
            storage.reload("agent-a", user_id="alice")
        self.assertEqual(asked, [("refresh", "alice", "agent-a", False)])

    def test_a_full_rebuild_sees_files_that_somebody_removed(self):
        running = self.serve(config=QUIET)
        storage = self.searcher()
        for agent in ("agent-a", "agent-b"):
            storage.apply_changes({"upserts": [fact(f"of-{agent}", f"word for {agent}")]}, user_id="alice",
                                  agent_name=agent)
        self.wait_indexed(running, 2)
        os.unlink(self.fact_file("of-agent-a"))
        self.assertEqual(storage.rebuild_index(), {"supported": True, "indexed": 1, "failed": 0})
        self.assertEqual(storage.search_facts("word", scopes=[ALICE]), [])
        other = {**ALICE, "agentName": "agent-b"}
        self.assertEqual(found(storage.search_facts("word", scopes=[other])), ["of-agent-b"])

    def test_without_an_agent_deerflow_searches_until_there_is_one(self):
        running = self.agent(start=False)
        self.point_at(running.endpoint)
        storage = self.searcher()
        storage.apply_changes({"upserts": [fact("one", "Likes green tea")]}, user_id="alice", agent_name="agent-a")
        with self.assertRaises(errors.NoAgentError):
            storage.retrieval.search("tea", scopes=[ALICE], top_k=5, mode="hybrid", filters=None)
        with self.assertRaises(errors.NoAgentError):
            storage.retrieval.rebuild([], scopes=None)
        self.assertEqual([hit["matchType"] for hit in storage.search_facts("green tea", scopes=[ALICE])], ["substring"])
        running.start()
        with self.assertLogs("memsync.deerflow", logging.INFO) as logged:
            self.assertEqual([hit["matchType"] for hit in storage.search_facts("tea green", scopes=[ALICE])], ["fts5"])
        self.assertIn("again", logged.output[-1])
        running.kill()
        with self.assertRaises(errors.NoAgentError):
            storage.search_facts("tea green", scopes=[ALICE])
        running.start()
        self.assertEqual(found(storage.search_facts("tea green", scopes=[ALICE])), ["one"])


class Volumes(DeerFlowCase):
    """An agent is asked only about the volume that the Gateway is configured for."""

    def elsewhere(self):
        other = os.path.join(self.directory, "other")
        os.mkdir(other)
        Peer(other, durable=False).commit("alice", "agent-a", [add("foreign", "Likes green tea")])
        return other

    def test_another_volumes_agent_is_asked_for_nothing(self):
        other = self.elsewhere()
        running = self.serve(volume=other)
        self.peer.commit("alice", "agent-a", [add("mine", "Likes black tea")])
        with self.assertLogs("memsync.deerflow", logging.ERROR) as logged:
            self.assertEqual(found(self.searcher().search_facts("tea", scopes=[ALICE])), ["mine"])
        self.assertIn(other, logged.output[0])
        storage = self.storage()
        with self.assertLogs("memsync.deerflow", logging.ERROR):
            self.assertEqual(ids(storage.load("agent-a", user_id="alice")), ["mine"])
            storage.upsert_fact(fact("more", "Likes coffee"), user_id="alice", agent_name="agent-a")
        self.assertEqual(self.peer.revision("alice"), 2)
        self.assertEqual(running.rpc("get_memory", user_id="alice", agent_name="agent-a")["memory"]["revision"], 1)

    def test_a_volume_is_known_by_its_marker_on_another_path(self):
        self.peer.commit("alice", "agent-a", [add("mine", "Likes black tea")])
        running = self.serve()
        self.assertTrue(os.path.exists(os.path.join(self.volume, ".memsyncd", "volume-id")))
        link = os.path.join(self.directory, "link")
        os.symlink(self.volume, link)
        self.assertEqual(ids(self.storage(storage_path=link).load("agent-a", user_id="alice")), ["mine"])
        self.assertEqual((self.files_asked(), running.is_running()), ([], True))

    def test_a_volume_is_known_by_its_place_before_it_has_a_marker(self):
        self.serve()
        self.assertFalse(os.path.exists(os.path.join(self.volume, ".memsyncd", "volume-id")))
        storage = self.storage()
        storage.upsert_fact(fact("one", "alpha"), user_id="alice", agent_name="agent-a")
        self.assertEqual((ids(storage.load("agent-a", user_id="alice")), self.files_asked()), (["one"], []))

    def test_identities(self):
        marked, same = Identity("a" * 32, "1-2"), Identity("a" * 32, "3-4")
        self.assertTrue(marked.is_same(same) and marked.is_same(Identity(None, "1-2")))
        self.assertFalse(marked.is_same(Identity("b" * 32, "1-2")) or Identity(None, "1-2").is_same(same))
        self.assertTrue(marked.is_told_as("a" * 32) and marked.is_told_as("1-2"))
        self.assertFalse(marked.is_told_as("3-4") or Identity(None, "1-2").is_told_as(""))
        self.assertIsNone(identify(os.path.join(self.directory, "none")))
        os.makedirs(os.path.join(self.volume, ".memsyncd"))
        with open(os.path.join(self.volume, ".memsyncd", "volume-id"), "w", encoding="ascii") as file:
            file.write("no marker\n")
        self.assertIsNone(identify(self.volume).marker)

    def test_what_lies_at_the_root_instead_of_the_volume_is_not_written_to(self):
        running = self.serve()
        storage = self.storage()
        storage.upsert_fact(fact("one", "alpha"), user_id="alice", agent_name="agent-a")
        running.kill()
        os.rename(self.volume, self.volume + ".away")
        os.mkdir(self.volume)
        for call in (lambda: storage.load("agent-a", user_id="alice"),
                     lambda: storage.upsert_fact(fact("two", "beta"), user_id="alice", agent_name="agent-a"),
                     lambda: storage.get_fact_usage(user_id="alice", agent_name="agent-a")):
            with self.assertRaisesRegex(OSError, "not the volume"):
                call()
        self.assertFalse(storage.save({"facts": []}, "agent-a", user_id="alice"))
        self.assertEqual((os.listdir(self.volume), self.files_asked()), ([], []))

    def replaced(self, between):
        """A storage whose agent was replaced by one of another volume at the same endpoint."""
        running = self.serve()
        storage = self.storage()
        storage.upsert_fact(fact("one", "alpha"), user_id="alice", agent_name="agent-a")
        running.stop()
        between(storage)
        running.volume = self.elsewhere()
        running.set_config({})
        running.start()
        return storage

    def test_an_agent_that_took_anothers_place_is_noticed_in_a_while(self):
        storage = self.replaced(lambda storage: None)
        with unittest.mock.patch.object(volume_agent, "CHECK_EVERY", 0.0), self.assertLogs("memsync.deerflow"):
            self.assertEqual(ids(storage.load("agent-a", user_id="alice")), ["one"])

    def test_an_agent_that_took_anothers_place_is_noticed_at_once_after_a_failure(self):
        storage = self.replaced(lambda storage: storage.load("agent-a", user_id="alice"))
        self.assertEqual(ids(storage.load("agent-a", user_id="alice")), ["one"])


class Reads(DeerFlowCase):
    """The second way in: what DeerFlow reads."""

    def test_a_memory_has_the_shape_that_deerflow_knows(self):
        self.serve()
        self.peer.commit("alice", "agent-a", [add("two", "beta"), add("one", "alpha")], summary="Builds things")
        document = self.storage().load("agent-a", user_id="alice")
        self.assertEqual((document["version"], document["revision"], ids(document)), ("2.0", 1, ["one", "two"]))
        self.assertEqual(document["user"]["workContext"]["summary"], "Builds things")
        self.assertEqual(document["user"]["cognitiveStyle"], {"summary": "", "updatedAt": ""})
        self.assertEqual(sorted(document["history"]), ["earlierContext", "longTermBackground", "recentMonths"])
        one = document["facts"][0]
        self.assertEqual((one["content"], one["scope"], one["source"]),
                         ("alpha", ALICE, {"type": "manual", "threadId": None}))
        self.assertEqual(self.files_asked(), [])

    def test_nothing_is_an_empty_memory(self):
        self.serve()
        for agent, user in ((None, None), ("agent-a", "nobody")):
            document = self.storage().load(agent, user_id=user)
            self.assertEqual((document["version"], document["revision"], document["facts"]), ("1.0", 0, []))
            self.assertTrue(document["lastUpdated"])
        self.assertEqual(os.listdir(self.volume), [])

    def test_no_agent_means_the_summaries_alone(self):
        self.serve()
        self.peer.commit("alice", None, [add("one", "alpha")], summary="Builds things")
        storage = self.storage()
        for read in (storage.load, storage.reload):
            document = read(user_id="alice")
            self.assertEqual((document["facts"], document["user"]["workContext"]["summary"]), ([], "Builds things"))
        self.assertEqual(ids(storage.load("__default__", user_id="alice")), ["one"])
        self.assertEqual(storage.list_facts(user_id="alice"), [])
        for call in (lambda: storage.get_fact("one", user_id="alice"), lambda: storage.migrate(user_id="alice"),
                     lambda: storage.delete_fact("one", user_id="alice"),
                     lambda: storage.upsert_fact(fact("one", "x"), user_id="alice"),
                     lambda: storage.apply_changes({"deletes": ["one"]}, user_id="alice")):
            with self.assertRaisesRegex(ValueError, "agent_name"):
                call()
        self.assertEqual(ids(storage.load("__default__", user_id="alice")), ["one"])

    def test_no_user_is_a_scope_unless_the_configuration_forbids_it(self):
        self.serve()
        self.peer.commit(None, "agent-a", [add("one", "alpha")])
        self.assertEqual(ids(self.storage().load("agent-a")), ["one"])
        strict = self.storage(strict_user_scope=True)
        for call in (strict.load, strict.reload, strict.clear_all, strict.get_summaries,
                     lambda: strict.get_fact("one", agent_name="agent-a"), lambda: strict.list_facts(agent_name="a"),
                     lambda: strict.migrate(agent_name="agent-a"),
                     lambda: strict.delete_fact("one", agent_name="agent-a")):
            with self.assertRaisesRegex(ValueError, "user_id"):
                call()
        self.assertFalse(strict.save({"facts": []}, "agent-a"))

    def test_it_keeps_nothing_that_could_be_old(self):
        self.serve(config=QUIET)
        storage = self.storage()
        for number in range(3):
            self.peer.commit("alice", "agent-a", [add(f"fact_{number}", f"word{number}")], summary=f"at {number}")
            self.assertEqual(len(storage.load("agent-a", user_id="alice")["facts"]), number + 1)
            self.assertEqual(found(storage.search_facts(f"word{number}", scopes=[ALICE])), [f"fact_{number}"])
            self.assertEqual(storage.get_summaries(user_id="alice")["user"]["workContext"]["summary"], f"at {number}")
            self.assertEqual(storage.get_fact(f"fact_{number}", user_id="alice", agent_name="agent-a")["revision"], 1)
        first = storage.load("agent-a", user_id="alice")
        first["facts"][0]["content"] = "changed by its reader"
        self.assertEqual(storage.load("agent-a", user_id="alice")["facts"][0]["content"], "word0")
        self.assertEqual(self.files_asked(), [])

    def test_facts(self):
        self.serve()
        self.peer.commit("alice", "agent-a", [
            add(f"fact_{number:03}", f"word{number}", "goal" if number % 2 else "context") for number in range(120)])
        storage = self.storage()
        of_alice = {"user_id": "alice", "agent_name": "agent-a"}
        self.assertEqual(storage.get_fact("fact_007", **of_alice)["content"], "word7")
        self.assertIsNone(storage.get_fact("fact_none", **of_alice))
        with self.assertRaises(ValueError):
            storage.get_fact("../up", **of_alice)
        listed = storage.list_facts(**of_alice)
        self.assertEqual((len(listed), listed[0]["id"], listed[-1]["id"]), (100, "fact_000", "fact_099"))
        self.assertEqual([each["id"] for each in storage.list_facts(**of_alice, cursor=118, limit=9)],
                         ["fact_118", "fact_119"])
        self.assertEqual(len(storage.list_facts(**of_alice, filters={"category": "goal"}, limit=500)), 60)
        self.assertEqual(storage.list_facts(**of_alice, filters={"unheard": None}), [])
        for wrong in ({"cursor": -1}, {"limit": 0}):
            with self.assertRaises(ValueError):
                storage.list_facts(**of_alice, **wrong)

    def test_a_fact_that_cannot_be_understood_is_corruption(self):
        self.serve()
        self.peer.commit("alice", "agent-a", [add("one", "alpha"), add("two", "beta")])
        storage = self.storage()
        with open(self.fact_file("one"), "w", encoding="utf-8") as file:
            file.write("no front matter")
        for call in (lambda: storage.reload("agent-a", user_id="alice"),
                     lambda: storage.load("agent-a", user_id="alice"),
                     lambda: storage.get_fact("one", user_id="alice", agent_name="agent-a")):
            with self.assertRaisesRegex(deerflow.MemoryStorageCorruption, "one.md"):
                call()
        self.assertEqual(storage.get_fact("two", user_id="alice", agent_name="agent-a")["content"], "beta")
        self.assertIsNone(storage.get_fact("three", user_id="alice", agent_name="agent-a"))
        self.assertEqual(storage.load("agent-b", user_id="alice")["facts"], [])
        self.assertEqual(storage.load(user_id="alice")["facts"], [])
        self.peer.commit("alice", "agent-b", [add("three", "gamma")])
        self.edit("three", "user_id: alice", "user_id: bob")
        with self.assertRaisesRegex(deerflow.MemoryStorageCorruption, "three.md"):
            storage.reload("agent-b", user_id="alice")
        self.assertEqual(self.files_asked(), [])

    def test_where_the_manifest_lies(self):
        self.assertEqual(self.storage()._get_memory_file_path("agent-a", user_id="alice"),
                         os.path.join(self.volume, "users", "alice", "memory.json"))

    def test_a_manifest_or_a_journal_that_cannot_be_understood_is_corruption_and_stays(self):
        self.serve(config=QUIET)
        storage = self.storage()
        for user, name in (("alice", "memory.json"), ("bob", ".memory.journal.json")):
            self.peer.commit(user, "agent-a", [add("one", "alpha")])
            storage.load("agent-a", user_id=user)
            path = os.path.join(self.volume, "users", user, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write("{broken")
            calls = [lambda: storage.reload("agent-a", user_id=user), lambda: storage.load("agent-b", user_id=user),
                     lambda: storage.upsert_fact(fact("x", "x"), user_id=user, agent_name="agent-a")]
            if name == "memory.json":  # a scope in step with its manifest is served, whatever became of a commit
                calls += [lambda: storage.load("agent-a", user_id=user), lambda: storage.load(user_id=user)]
            with self.subTest(name):
                for call in calls:
                    with self.assertRaises(deerflow.MemoryStorageCorruption):
                        call()
                self.assertFalse(storage.save({"facts": []}, "agent-a", user_id=user))
                with open(path, encoding="utf-8") as file:
                    self.assertEqual(file.read(), "{broken")
        self.assertEqual(self.files_asked(), [], "DeerFlow's own code may not try what the agent has refused")

    def test_reading_an_earlier_layout_migrates_it_as_deerflow_does(self):
        self.serve()
        os.makedirs(os.path.join(self.volume, "users", "alice", "agents", "agent-a"))
        for place, fact_id in (("memory.json", "old"), ("agents/agent-a/memory.json", "older")):
            with open(os.path.join(self.volume, "users", "alice", place), "w", encoding="utf-8") as file:
                json.dump({"version": "1.0", "facts": [{"id": fact_id, "content": f"the {fact_id} one"}]}, file)
        storage = self.storage()
        self.assertEqual(ids(storage.load("agent-a", user_id="alice")), ["older"])
        self.assertEqual(ids(storage.load("__default__", user_id="alice")), ["old"])
        self.assertTrue(os.path.exists(os.path.join(self.volume, "users", "alice", "memory.json.v1.bak")))
        self.assertEqual(storage.migrate(user_id="alice", agent_name="agent-a")["migrated"], False)
        revision = storage.load(user_id="alice")["revision"]
        storage.upsert_fact(fact("new", "x"), user_id="alice", agent_name="agent-a",
                            expected_manifest_revision=revision)

    def test_an_explicit_migration_tells_what_it_did(self):
        self.serve()
        os.makedirs(os.path.join(self.volume, "users", "alice"))
        with open(os.path.join(self.volume, "users", "alice", "memory.json"), "w", encoding="utf-8") as file:
            json.dump({"version": "1.0", "facts": [{"id": "old", "content": "x"}]}, file)
        self.assertEqual(self.storage().migrate(user_id="alice", agent_name="__default__"),
                         {"migrated": True, "fromVersion": "1.0", "toVersion": "2.0", "revision": 1})

    def test_searching_and_the_index(self):
        running = self.serve(config=QUIET)
        storage = self.storage()
        storage.apply_changes({"upserts": [fact("one", "Likes green tea"), fact("two", "Likes coffee")]},
                              user_id="alice", agent_name="agent-a")
        hit, = storage.search_facts("green tea", scopes=[ALICE])
        self.assertEqual((hit["fact"]["id"], hit["matchType"]), ("one", "fts5"))
        with self.assertRaises(ValueError):
            storage.search_facts("tea", scopes=[ALICE], mode="vector")
        self.edit("two", "coffee", "cocoa")
        self.assertEqual(storage.rebuild_index([ALICE]), {"supported": True, "indexed": 2, "failed": 0})
        self.assertEqual(found(storage.search_facts("cocoa", scopes=[ALICE])), ["two"])
        with open(self.fact_file("two"), "w", encoding="utf-8") as file:
            file.write("broken")
        self.assertEqual(storage.rebuild_index([ALICE]), {"supported": True, "indexed": 1, "failed": 1})
        self.assertEqual(storage.rebuild_index(), {"supported": True, "indexed": 1, "failed": 1})
        self.assertEqual(storage.retrieval_status(), {"configured": True, "mode": "external"})
        self.assertLessEqual({"journal", "retrieval"}, storage.capabilities())
        self.assertFalse(storage.notify_fact_upsert(fact("x", "x")) or storage.notify_fact_remove("x", scope=ALICE))
        self.assertEqual((self.files_asked(), running.is_running()), ([], True))


class Writes(DeerFlowCase):
    """The second way in: what DeerFlow writes."""

    OF_ALICE = {"user_id": "alice", "agent_name": "agent-a"}

    def test_what_is_written_is_what_a_peer_reads(self):
        self.serve()
        storage = self.storage()
        done = storage.apply_changes({
            "upserts": [fact("one", "Likes green tea\nwithout sugar", topics=["tea"], due=datetime.date(2026, 2, 10))],
            "summaries": {"user": {"workContext": {"summary": "Builds things", "updatedAt": "2026-01-01T00:00:00Z"}}}},
            **self.OF_ALICE)
        self.assertEqual((done["complete"], done["version"], done["revision"], done["deletedFactIds"]),
                         (False, "2.0", 1, []))
        self.assertTrue(done["lastUpdated"])
        self.assertEqual([(each["id"], each["revision"], each["due"]) for each in done["upsertedFacts"]],
                         [("one", 1, datetime.date(2026, 2, 10))])
        front, title, content = self.peer.facts("alice", "agent-a")["one"]
        self.assertEqual((title, content), ("Likes green tea", "Likes green tea\nwithout sugar"))
        self.assertEqual(front, {
            "id": "one", "category": "context", "confidence": 0.8, "createdAt": "2026-07-21T00:00:00Z",
            "source": {"type": "manual", "threadId": None}, "topics": ["tea"], "due": datetime.date(2026, 2, 10),
            "schemaVersion": 2, "status": "active", "consolidatedFrom": [], "updatedAt": front["updatedAt"],
            "revision": 1, "user_id": "alice", "agent_name": "agent-a"})
        manifest = self.peer.manifest("alice")
        self.assertEqual((manifest["version"], manifest["revision"], "facts" in manifest), ("2.0", 1, False))
        self.assertEqual(manifest["user"]["workContext"]["summary"], "Builds things")
        self.peer.commit("alice", "agent-a", [update("one", "Likes black tea")])
        self.assertEqual(storage.get_fact("one", **self.OF_ALICE)["due"], datetime.date(2026, 2, 10))
        self.assertEqual(self.files_asked(), [])

    def test_a_fact_is_written_read_changed_and_deleted(self):
        self.serve()
        storage = self.storage()
        storage.upsert_fact(fact("one", "alpha"), **self.OF_ALICE, expected_manifest_revision=0)
        stored = storage.get_fact("one", **self.OF_ALICE)
        done = storage.upsert_fact({**stored, "content": "beta"}, **self.OF_ALICE, expected_manifest_revision=1,
                                   expected_fact_revision=stored["revision"])
        self.assertEqual((done["revision"], done["upsertedFacts"][0]["revision"]), (2, 2))
        again = storage.get_fact("one", **self.OF_ALICE)
        same = storage.upsert_fact(again, **self.OF_ALICE, expected_fact_revision=2)
        self.assertEqual((same["revision"], same["upsertedFacts"]), (2, []))
        gone = storage.delete_fact("one", **self.OF_ALICE, expected_fact_revision=2)
        self.assertEqual(gone["deletedFactIds"], ["one"])
        self.assertEqual(storage.delete_fact("one", **self.OF_ALICE)["deletedFactIds"], [])
        self.assertEqual(storage.load("agent-a", user_id="alice")["revision"], 3)
        made = storage.upsert_fact({"content": "without an id"}, **self.OF_ALICE)["upsertedFacts"][0]
        self.assertRegex(made["id"], "^fact_[0-9a-f]{32}$")

    def test_a_stale_revision_is_the_conflict_that_deerflow_knows(self):
        self.serve()
        storage = self.storage()
        storage.upsert_fact(fact("one", "alpha"), **self.OF_ALICE)
        self.peer.commit("alice", "agent-b", [add("other", "x")])
        with self.assertRaises(deerflow.MemoryManifestRevisionConflict):
            storage.apply_changes({"deletes": ["one"]}, **self.OF_ALICE, expected_manifest_revision=1)
        with self.assertRaises(deerflow.MemoryManifestRevisionConflict):
            storage.save({"facts": []}, "agent-a", user_id="alice", expected_revision=1)
        with self.assertRaises(deerflow.MemoryManifestRevisionConflict):
            storage.update_summaries({"user": {"topOfMind": {"summary": "x"}}}, user_id="alice", expected_revision=1)
        with self.assertRaisesRegex(deerflow.MemoryFactRevisionConflict, "must not already exist"):
            storage.apply_changes({"upserts": [fact("one", "beta")]}, **self.OF_ALICE)
        for change in ({"upserts": [fact("one", "beta")], "upsertRevisions": {"one": 7}},
                       {"upserts": [fact("one", "beta")], "upsertRevisions": {"one": None}},
                       {"upserts": [fact("one", "beta", revision=2)]}, {"upserts": [fact("new", "beta", revision=1)]},
                       {"deletes": ["one"], "deleteRevisions": {"one": 7}}):
            with self.subTest(change), self.assertRaises(deerflow.MemoryFactRevisionConflict):
                storage.apply_changes(change, **self.OF_ALICE)
        self.assertEqual(storage.get_fact("one", **self.OF_ALICE)["content"], "alpha")
        self.assertEqual(self.peer.revision("alice"), 2)

    def test_changes_of_facts_that_nobody_else_touched_are_rebased_when_asked(self):
        self.serve()
        storage = self.storage()
        storage.upsert_fact(fact("one", "alpha"), **self.OF_ALICE)
        self.peer.commit("alice", "agent-b", [add("other", "x")])
        change = {"upserts": [fact("two", "beta")], "deletes": ["one"], "deleteRevisions": {"one": 1}}
        done = storage.apply_changes(change, **self.OF_ALICE, expected_manifest_revision=1, allow_manifest_rebase=True)
        self.assertEqual((done["revision"], ids(storage.load("agent-a", user_id="alice"))), (3, ["two"]))

    def test_what_can_never_be_written_is_a_value_error(self):
        self.serve()
        storage = self.storage()
        for change in ({"upserts": {}}, {"deletes": "one"}, {"upserts": ["text"]}, {"upserts": [{"content": "  "}]},
                       {"upserts": [fact("../up", "x")]}, {"upserts": [fact("one", "x", confidence=7)]},
                       {"upserts": [fact("one", "x")], "upsertRevisions": []},
                       {"upserts": [fact("one", "x")], "upsertRevisions": {"one": 0}},
                       {"upserts": [fact("one", "x")], "upsertRevisions": {"one": True}},
                       {"deletes": ["one"], "deleteRevisions": ["one"]}, {"deletes": ["one", "one"]},
                       {"upserts": [fact("one", "x"), fact("one", "y")]},
                       {"upserts": [fact("one", "x")], "deletes": ["one"]}, {"summaries": []},
                       {"summaries": {"user": []}}, {"upserts": [fact("one", "x", status="gone")]}):
            with self.subTest(change), self.assertRaises(ValueError):
                storage.apply_changes(change, **self.OF_ALICE)
        for agent in ("", "a b", "../up"):
            with self.assertRaises(ValueError):
                storage.upsert_fact(fact("one", "x"), user_id="alice", agent_name=agent)
        with self.assertRaises(ValueError):
            storage.load("agent-a", user_id="")
        self.assertEqual(self.files_asked(), [])

    def test_revisions_of_facts_that_are_not_in_the_change_count_for_nothing(self):
        self.serve()
        done = self.storage().apply_changes({"upserts": [fact("one", "x")], "upsertRevisions": {"one": None, "two": 5},
                                             "deleteRevisions": {"three": 4}}, **self.OF_ALICE)
        self.assertEqual(done["revision"], 1)

    def test_saving_replaces_the_facts_of_one_agent(self):
        self.serve()
        storage = self.storage()
        self.peer.commit("alice", "agent-b", [add("other", "stays")], summary="Stays")
        document = {"facts": [fact("one", "alpha", revision=1), fact("two", "beta")],
                    "user": {"workContext": {"summary": "Not of an agent"}}}
        self.assertTrue(storage.save(document, "agent-a", user_id="alice"))
        document = storage.load("agent-a", user_id="alice")
        self.assertEqual(document["user"]["workContext"]["summary"], "Stays")
        document["facts"] = [{**document["facts"][1], "content": "gamma"}, fact("three", "delta")]
        self.assertTrue(storage.save(document, "agent-a", user_id="alice", expected_revision=document["revision"]))
        after = storage.load("agent-a", user_id="alice")
        self.assertEqual([(each["id"], each["content"], each["revision"]) for each in after["facts"]],
                         [("three", "delta", 1), ("two", "gamma", 2)])
        self.assertTrue(storage.save(after, "agent-a", user_id="alice"))
        self.assertEqual(storage.load("agent-a", user_id="alice")["revision"], after["revision"], "nothing has changed")
        with self.assertRaises(deerflow.MemoryFactRevisionConflict):
            storage.save({"facts": [fact("two", "epsilon", revision=1)]}, "agent-a", user_id="alice")
        self.assertEqual(ids(storage.load("agent-b", user_id="alice")), ["other"])
        self.assertTrue(storage.save({"facts": []}, "agent-a", user_id="alice"))
        self.assertEqual(ids(storage.load("agent-a", user_id="alice")), [])

    def test_saving_goes_on_from_what_others_have_written_meanwhile(self):
        self.serve()
        storage = self.storage()
        storage.upsert_fact(fact("one", "alpha"), **self.OF_ALICE)
        real, waiting = storage.load, ["agent-b", "agent-c"]

        def load(*args, **options):
            document = real(*args, **options)
            if waiting:
                self.peer.commit("alice", waiting.pop(), [add("other", "x")])
            return document

        with unittest.mock.patch.object(storage, "load", load):
            self.assertTrue(storage.save({"facts": [fact("two", "beta")]}, "agent-a", user_id="alice"))
        self.assertEqual((ids(storage.load("agent-a", user_id="alice")), waiting), (["two"], []))

    def test_what_cannot_be_saved_is_told_as_false(self):
        self.serve()
        storage = self.storage()
        for document, agent in (({}, "agent-a"), ({"facts": {}}, "agent-a"), ({"facts": ["text"]}, "agent-a"),
                                ([], None), ({"facts": [fact("one", "x"), fact("one", "y")]}, "agent-a"),
                                ({"facts": [fact("one", "x")]}, None), ({"facts": [{"content": ""}]}, "agent-a")):
            with self.subTest(document), self.assertLogs("memsync.deerflow", logging.ERROR):
                self.assertFalse(storage.save(document, agent, user_id="alice"))
        self.assertEqual((self.peer.manifest("alice"), self.peer.facts("alice", "agent-a")), (None, {}))

    def test_the_first_write_begins_a_manifest_be_it_empty(self):
        self.serve()
        storage = self.storage()
        self.assertTrue(storage.save({"version": "1.0", "facts": []}))
        self.assertEqual((self.peer.revision(None), storage.load()["revision"]), (1, 1))
        self.assertTrue(storage.save({"version": "1.0", "facts": []}))
        self.assertEqual(self.peer.revision(None), 1)

    def test_summaries(self):
        self.serve()
        storage = self.storage()
        style = {"summary": "Thinks in pictures", "updatedAt": "2026-01-01T00:00:00Z"}
        after = storage.update_summaries({"user": {"cognitiveStyle": style}, "facts": ["ignored"]}, user_id="alice")
        self.assertEqual((after["user"]["cognitiveStyle"], after["revision"]), (style, 1))
        storage.update_summaries({"history": {"recentMonths": {"summary": "Moved", "updatedAt": ""}}}, user_id="alice")
        told = storage.get_summaries(user_id="alice", agent_name="agent-a")
        self.assertEqual((told["user"]["cognitiveStyle"], told["history"]["recentMonths"]["summary"], told["revision"]),
                         (style, "Moved", 2))
        self.assertEqual(sorted(told), ["history", "revision", "user"])
        with self.assertRaises(deerflow.MemoryStorageError):
            storage.update_summaries({"user": {"workContext": "no section"}}, user_id="alice")

    def test_clearing_everything(self):
        self.serve()
        for agent in ("agent-a", "agent-b", None):
            self.peer.commit("alice", agent, [add("one", "alpha")], summary="Builds things")
        self.peer.commit("bob", "agent-a", [add("one", "stays")])
        document = self.storage().clear_all(user_id="alice")
        self.assertEqual((document["facts"], document["user"]["workContext"]["summary"]), ([], ""))
        self.assertEqual(document["user"]["cognitiveStyle"], {"summary": "", "updatedAt": ""})
        self.assertEqual([self.peer.facts("alice", agent) for agent in ("agent-a", "agent-b", None)], [{}, {}, {}])
        self.assertEqual(list(self.peer.facts("bob", "agent-a")), ["one"])
        self.assertEqual(self.files_asked(), [])

    def test_side_data_is_kept_by_deerflows_own_code(self):
        self.serve()
        storage = self.storage()
        self.assertEqual(storage.get_fact_usage(**self.OF_ALICE), {"fact_1": {"accessCount": 3}})
        storage.record_fact_accesses(["fact_1"], **self.OF_ALICE, accessed_at=None)
        storage.record_capacity_eviction("decision", max_facts=5, **self.OF_ALICE)
        storage.clear_fact_metadata(**self.OF_ALICE, fact_ids=["fact_1"])
        self.assertEqual(self.files_asked(), [
            ("get_fact_usage", "alice", "agent-a"), ("record_fact_accesses", "alice", "agent-a", ["fact_1"], None),
            ("record_capacity_eviction", "alice", "agent-a", "decision", 5),
            ("clear_fact_metadata", "alice", "agent-a", ["fact_1"])])

    def test_many_threads_write_through_one_storage(self):
        self.serve()
        storage = self.storage()
        failed = []

        def write(number):
            try:
                for turn in range(4):
                    storage.upsert_fact(fact(f"fact_{number}_{turn}", f"word{number}"), **self.OF_ALICE)
                    if f"fact_{number}_{turn}" not in ids(storage.load("agent-a", user_id="alice")):
                        failed.append("not read")
            except Exception as error:  # pylint: disable=broad-except
                failed.append(error)

        threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((failed, len(self.peer.facts("alice", "agent-a"))), ([], 32))
        self.assertEqual(len(storage.search_facts("word3", scopes=[ALICE])), 4)

    def test_children_after_a_fork_go_on(self):
        self.serve()
        storage, searcher = self.storage(), self.searcher()
        storage.upsert_fact(fact("parent", "word of the parent"), **self.OF_ALICE)
        searcher.search_facts("word", scopes=[ALICE])

        def write(number):
            storage.upsert_fact(fact(f"child_{number}", "word of a child"), **self.OF_ALICE)
            if f"child_{number}" not in found(searcher.retrieval.search("word", scopes=[ALICE], top_k=9, mode="hybrid",
                                                                        filters=None)):
                os._exit(3)

        children = [multiprocessing.get_context("fork").Process(target=write, args=(number,)) for number in range(3)]
        for child in children:
            child.start()
        for child in children:
            child.join(60)
        self.assertEqual([child.exitcode for child in children], [0, 0, 0])
        storage.upsert_fact(fact("after", "word of the parent"), **self.OF_ALICE)
        self.assertEqual(found(storage.search_facts("word", scopes=[ALICE])),
                         ["after", "child_0", "child_1", "child_2", "parent"])
        self.assertEqual(self.files_asked(), ["search_facts", "load"], "of the searcher, which was to search")


class WithoutAnAgent(DeerFlowCase):
    """The second way in: what happens while no agent serves the volume."""

    OF_ALICE = Writes.OF_ALICE

    def test_deerflow_works_on_the_same_files_until_there_is_an_agent(self):
        running = self.agent(start=False)
        self.point_at(running.endpoint)
        storage = self.storage()
        with self.assertLogs("memsync.deerflow", logging.WARNING) as logged:
            storage.upsert_fact(fact("one", "Likes green tea"), **self.OF_ALICE)
            self.assertEqual(ids(storage.load("agent-a", user_id="alice")), ["one"])
            self.assertEqual([hit["matchType"] for hit in storage.search_facts("green", scopes=[ALICE])], ["substring"])
        self.assertEqual((len(logged.output), self.files_asked()),
                         (1, ["apply_changes", "load", "search_facts", "load"]))
        self.assertEqual(storage.rebuild_index()["supported"], False)
        self.assertIsNone(storage.get_fact("none", **self.OF_ALICE))
        self.files_asked()

        running.start()
        with self.assertLogs("memsync.deerflow", logging.INFO):
            self.assertEqual(found(storage.search_facts("tea", scopes=[ALICE])), ["one"])
        storage.upsert_fact(fact("two", "Likes coffee"), **self.OF_ALICE)
        self.assertEqual(self.files_asked(), [])

        running.kill()
        storage.upsert_fact(fact("three", "Likes cocoa"), **self.OF_ALICE)
        self.assertEqual(ids(storage.reload("agent-a", user_id="alice")), ["one", "three", "two"])
        self.assertEqual(storage.clear_all(user_id="alice")["facts"], [])
        self.assertIn("clear_all", self.files_asked())
        running.start()
        self.assertEqual((ids(storage.load("agent-a", user_id="alice")), self.files_asked()), ([], []))

    def test_nothing_is_kept_of_what_was_read_without_an_agent(self):
        storage = self.storage()
        self.peer.commit("alice", "agent-a", [add("one", "alpha")])
        self.assertEqual(ids(storage.load("agent-a", user_id="alice")), ["one"])
        made = []
        with unittest.mock.patch.object(storage.deerflow, "Files",
                                        lambda config: made.append(config) or deerflow.FileMemoryStorage(config)):
            storage.load("agent-a", user_id="alice")
            storage.load("agent-a", user_id="alice")
        self.assertEqual(len(made), 2)
        self.assertFalse([each for each in vars(storage).values() if isinstance(each, deerflow.FileMemoryStorage)])

    def test_a_write_that_may_have_been_done_is_not_done_again(self):
        running = self.serve()
        storage = self.storage(file_lock_timeout_seconds=1)
        storage.upsert_fact(fact("one", "alpha"), **self.OF_ALICE)
        running.signal(signal.SIGSTOP)
        self.addCleanup(running.signal, signal.SIGCONT)
        started = time.monotonic()
        with unittest.mock.patch.object(storage, "_write_timeout", 0.5), self.assertRaises(TimeoutError):
            storage.upsert_fact(fact("two", "beta"), **self.OF_ALICE)
        self.assertLess(time.monotonic() - started, 5 * SLOW)
        self.assertEqual(self.files_asked(), [])
        running.signal(signal.SIGCONT)
        running.wait_until(lambda: "two" in self.peer.facts("alice", "agent-a"), what="the write that came late")

    def test_an_agent_that_hangs_keeps_no_reader_for_long(self):
        self.peer.commit("alice", "agent-a", [add("one", "alpha")])
        running = self.serve()
        with unittest.mock.patch.object(base, "READ_TIMEOUT", 2.0 * SLOW):
            storage = self.storage()
        self.assertEqual((ids(storage.load("agent-a", user_id="alice")), self.files_asked()), (["one"], []))
        running.signal(signal.SIGSTOP)
        self.addCleanup(running.signal, signal.SIGCONT)
        started = time.monotonic()
        self.assertEqual((ids(storage.load("agent-a", user_id="alice")), self.files_asked()), (["one"], ["load"]))
        self.assertLess(time.monotonic() - started, 10 * SLOW)

    def test_an_agent_that_hung_before_it_was_asked_has_not_written(self):
        running = self.serve()
        with unittest.mock.patch.object(base, "READ_TIMEOUT", 0.5):
            storage = self.storage()
        running.signal(signal.SIGSTOP)
        self.addCleanup(running.signal, signal.SIGCONT)
        storage.upsert_fact(fact("one", "alpha"), **self.OF_ALICE)
        self.assertEqual((self.files_asked(), list(self.peer.facts("alice", "agent-a"))), (["apply_changes"], ["one"]))

    def test_an_agent_of_another_protocol_is_none(self):
        self.serve()
        storage = self.storage()
        with unittest.mock.patch("memsync.requests.PROTOCOL", 9):
            storage.upsert_fact(fact("one", "alpha"), **self.OF_ALICE)
        self.assertEqual(self.files_asked(), ["apply_changes"])

    def test_an_agent_that_ends_is_waited_for_a_moment(self):
        running = self.serve()
        storage = self.storage()
        storage.upsert_fact(fact("one", "alpha"), **self.OF_ALICE)
        refusals = [errors.UnavailableError("shutting down", retryable=True)] * 3
        real = storage._agent.client

        def client():
            if refusals:
                raise refusals.pop()
            return real()

        with unittest.mock.patch.object(storage._agent, "client", client), \
                unittest.mock.patch.object(base, "PATIENCE", 20.0):
            storage.upsert_fact(fact("two", "beta"), **self.OF_ALICE)
        self.assertEqual((refusals, self.files_asked(), running.is_running()), ([], [], True))
        with unittest.mock.patch.object(storage._agent, "client",
                                        side_effect=errors.UnavailableError("away", {"path": "users/alice"})) as asked:
            with self.assertRaises(OSError):
                storage.load("agent-a", user_id="alice")
        self.assertEqual((asked.call_count, self.files_asked()), (1, []))

    def test_a_closed_storage_says_so(self):
        self.serve()
        storage = self.storage()
        storage.load()
        storage.close()
        with self.assertRaises(OSError):
            storage.load()
        self.assertEqual(self.files_asked(), [])


class Failures(DeerFlowCase):
    """Which of DeerFlow's errors an error is, and after which the files are asked."""

    KINDS = {
        errors.CorruptError: deerflow.MemoryStorageCorruption, errors.InvalidParamsError: ValueError,
        errors.InvalidRequestError: ValueError, errors.ParseError: ValueError, errors.NotFoundError: KeyError,
        errors.StorageFullError: OSError, errors.DeniedError: PermissionError, errors.RequestTimeoutError: TimeoutError,
        errors.BusyError: TimeoutError, errors.UnavailableError: OSError, errors.TooLargeError: OSError,
        errors.InternalError: deerflow.MemoryStorageError, errors.NoMethodError: deerflow.MemoryStorageError,
        errors.UnsupportedError: deerflow.MemoryStorageError, errors.ConflictError: deerflow.MemoryRevisionConflict}
    REASONS = {
        "manifest_revision": deerflow.MemoryManifestRevisionConflict,
        "fact_revision": deerflow.MemoryFactRevisionConflict, "overtaken": deerflow.MemoryManifestRevisionConflict,
        "duplicate_fact": deerflow.MemoryRevisionConflict,
        "migration": deerflow.MemoryStorageCorruption, "newer_layout": deerflow.MemoryStorageCorruption}

    def test_each_kind_of_the_agents_errors_has_one_of_deerflows(self):
        names = seam.DeerFlow(sys.modules[deerflow.MODULE])
        self.assertEqual(set(self.KINDS), set(errors.AGENT_ERRORS.values()))
        for kind, expected in self.KINDS.items():
            self.assertIs(type(as_deerflow(kind("it is so"), names)), expected, kind)
        for reason, expected in self.REASONS.items():
            self.assertIs(type(as_deerflow(errors.ConflictError("no", {"reason": reason}), names)), expected, reason)
        self.assertEqual(as_deerflow(errors.StorageFullError("full"), names).errno, errno.ENOSPC)
        journal = errors.UnavailableError("no", {"path": "users/alice/.memory.journal.json"})
        self.assertIs(type(as_deerflow(journal, names)), deerflow.MemoryStorageCorruption)

    def test_after_which_the_files_are_asked(self):
        both = [errors.NoAgentError("none"), errors.ProtocolError("9"), errors.NoMethodError("?"),
                errors.UnsupportedError("?"), errors.TooLargeError("big")]
        reads = [errors.NoAgentError("silence", may_be_done=True), errors.BadReplyError("?")]
        never = [kind("no") for kind in self.KINDS
                 if kind not in (errors.NoMethodError, errors.UnsupportedError, errors.TooLargeError)]
        never.append(errors.TooLargeError("big", {"reason": "unconfirmed"}))
        for cases, for_reads, for_writes in ((both, True, True), (reads, True, False), (never, False, False)):
            for error in cases:
                with self.subTest(repr(error)):
                    self.assertEqual((is_for_files(error, False), is_for_files(error, True)), (for_reads, for_writes))

    def test_a_volume_that_takes_no_writes(self):
        self.serve()
        storage = self.storage()
        with unittest.mock.patch("memsync.Client.apply_changes", side_effect=errors.StorageFullError("no space left")):
            with self.assertRaises(OSError) as caught:
                storage.upsert_fact(fact("one", "alpha"), user_id="alice", agent_name="agent-a")
            self.assertEqual(caught.exception.errno, errno.ENOSPC)
            self.assertFalse(storage.save({"facts": [fact("one", "alpha")]}, "agent-a", user_id="alice"))
        self.assertEqual(self.files_asked(), [])


class ClearedMeanwhile(DeerFlowCase):
    """Versions of DeerFlow that count how often a memory was cleared."""

    OF_ALICE = Writes.OF_ALICE

    def setUp(self):
        super().setUp()
        self.use_deerflow(without=())
        self.serve()
        self.gateway_storage = self.storage()

    def restore(self, generation, **options):
        return self.gateway_storage.apply_changes(
            {"upserts": [fact("restored", "x")], "upsertRevisions": {"restored": None}}, **self.OF_ALICE,
            expected_clear_generation=generation, **options)

    def test_what_was_cleared_does_not_come_back(self):
        storage = self.gateway_storage
        self.assertIn(deerflow.CLEAR_GENERATION_CAPABILITY, storage.capabilities())
        storage.upsert_fact(fact("one", "alpha"), **self.OF_ALICE)
        before = storage.peek_clear_generation("agent-a", user_id="alice")
        self.assertEqual(before, (0, 0))
        storage.apply_changes({"deletes": ["one"], "deleteRevisions": {"one": 1}}, **self.OF_ALICE,
                              bump_clear_generation="agent")
        self.assertEqual(storage.peek_clear_generation("agent-a", user_id="alice"), (0, 1))
        with self.assertRaises(deerflow.MemoryClearGenerationConflict):
            self.restore(before, expected_manifest_revision=1)
        storage.clear_all(user_id="alice")
        with self.assertRaises(deerflow.MemoryClearGenerationConflict):
            self.restore((0, 1))
        self.files_asked()
        self.assertEqual(self.restore((1, 1))["upsertedFacts"][0]["id"], "restored")
        self.assertEqual(self.peer.manifest("alice")["clearGeneration"], 1, "the agent's commit has kept it")
        self.assertEqual(self.files_asked(), [])

    def test_a_clear_between_the_look_and_the_commit_is_noticed(self):
        storage = self.gateway_storage
        storage.upsert_fact(fact("one", "alpha"), **self.OF_ALICE)
        real, turns = memsync.Client.apply_changes, []

        def apply_changes(client, **options):
            turns.append(options["expected_revision"])
            if len(turns) == 1:
                deerflow.FileMemoryStorage(deerflow.Config(self.volume)).clear_all(user_id="alice")
            return real(client, **options)

        with unittest.mock.patch("memsync.Client.apply_changes", apply_changes):
            with self.assertRaises(deerflow.MemoryClearGenerationConflict):
                self.restore((0, 0), expected_manifest_revision=1, allow_manifest_rebase=True)
        self.assertEqual((turns, self.peer.facts("alice", "agent-a")), ([1], {}))

    def test_another_write_in_between_is_a_conflict_unless_it_may_be_rebased(self):
        storage = self.gateway_storage
        storage.upsert_fact(fact("one", "alpha"), **self.OF_ALICE)
        self.peer.commit("alice", "agent-b", [add("other", "x")])
        with self.assertRaises(deerflow.MemoryManifestRevisionConflict):
            self.restore((0, 0), expected_manifest_revision=1)
        self.assertEqual(self.restore((0, 0), expected_manifest_revision=1, allow_manifest_rebase=True)["revision"], 3)


if __name__ == "__main__":
    unittest.main()
