#!/usr/bin/python3
"""What real users met, on a network volume: events that get lost, watches that run out, times that lie, locks that
lock nobody out, files that are half there, writers that die. Two nodes have an agent each; a third party works at the
server."""

import os
import random
import shutil
import signal
import statistics
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from agent import DEFAULT_AGENT, Client, RpcError
from network import LOCKS_REACH, POLLING, PROVEN, UNTOLD, Nodes
from peer import Peer, RewritingPeer, add, delete, fact_path, update
from process import IS_SANITIZED, Stream, contents, states, wait_until

EVENTS_ONLY = {**LOCKS_REACH, "sync": {"poll_interval_min_ms": 600000, "poll_interval_max_ms": 600000}}
DEAD_SOON = {**UNTOLD, "volume": {"recovery_grace_ms": 300}}
COMMITS = 40 if IS_SANITIZED else 200


class LostEvents(Nodes):
    def overflow(self, directory):
        """More events than the kernel keeps."""
        with open("/proc/sys/fs/inotify/max_queued_events", encoding="ascii") as file:
            events = int(file.read())
        names = [os.path.join(directory, name) for name in ("one.unrelated", "other.unrelated")]
        with open(names[0], "wb"):
            pass
        for _ in range(events // 2 + 1):  # two events each
            os.rename(*names)
            names.reverse()
        os.unlink(names[0])

    def test_after_an_overflow_on_one_node_what_another_one_wrote_is_found_too(self):
        a, b = self.start(users=4, config=EVENTS_ONLY)
        a.signal(signal.SIGSTOP)
        try:
            self.overflow(os.path.join(self.net.node(0).path, "users", "u4"))
            Peer(self.net.node(0).path, durable=False).commit("u1", changes=[add("fact_9", "amber lost event")])
            b.rpc("create_fact", user_id="u2", content="amber of the other node")
            self.peer.commit("u3", changes=[delete("fact_1")])
        finally:
            a.signal(signal.SIGCONT)
        self.wait_found(a, "u1", self.texts(1) + ["amber lost event"])
        self.wait_found(a, "u2", self.texts(2) + ["amber of the other node"])
        self.wait_found(a, "u3", self.texts(3, numbers=(2, 3, 4)))
        watch = a.rpc("status")["watch"]
        self.assertTrue(watch["inotify"])
        self.assertEqual(watch["overflows"], 1)
        self.assertEqual(b.rpc("status")["watch"]["overflows"], 0)

    def test_too_few_watches_while_another_node_writes(self):
        users = 16
        self.fill(users=users)
        a = self.limited_agent("max_inotify_watches", 2, volume=self.net.node(0).path, config=POLLING)
        b = self.node_agent(1, config=POLLING)
        for agent in (a, b):
            self.wait_indexed(agent, users * 4)
        self.cache()
        for user in range(1, users + 1):
            b.rpc("create_fact", user_id=f"u{user}", content="amber fifth")
            if user % 2:
                self.expect(a, self.texts(user) + ["amber fifth"], user=f"u{user}")
        for user in range(2, users + 1, 2):
            self.wait_found(a, f"u{user}", self.texts(user) + ["amber fifth"])
        status = a.rpc("status")
        self.assertLessEqual(status["watch"]["watched"], 2)
        self.assertGreater(status["watch"]["wanted"], users)
        self.assertIn("max_user_watches", " ".join(status["problems"]))
        self.assertEqual(a.rpc("create_fact", user_id="u1", content="amber sixth")["index"], "current")
        self.assertNotRegex(a.log(), "(?i)no space left|storage_full")


class Stream5ms(Nodes):
    def test_a_manifest_touched_all_the_time_keeps_no_other_user_waiting(self):
        a, b = self.start(users=3, config=POLLING)
        self.cache()
        touched = self.peer.manifest_path("u1")
        ended = threading.Event()

        def touch():
            while not ended.wait(0.005):
                os.utime(touched)

        def search(client):
            return client.rpc("search", user_id="u3", query="amber")

        with Stream(a.endpoint, search, pause_s=0.005) as stream:
            stream.wait_for_more(50)
            calm = statistics.median(seconds for seconds, _ in stream.results)
            before = len(stream.results)
            toucher = threading.Thread(target=touch)
            toucher.start()
            try:
                time.sleep(0.5)
                b.rpc("create_fact", user_id="u2", content="amber amid the stream")
                self.wait_found(a, "u2", self.texts(2) + ["amber amid the stream"], timeout_s=5)
                self.assertLessEqual(a.rpc("status")["sync"]["waiting"], 3, "one entry a scope")
                found = self.search(a)
                self.assertEqual(contents(found), self.texts())
                stream.wait_for_more(50)
            finally:
                ended.set()
                toucher.join()
        amid = [seconds for seconds, _ in stream.results[before:]]
        self.assertLess(statistics.median(amid), max(20 * calm, 0.1))
        for _, reply in stream.results:
            self.assertEqual((reply["count"], states(reply)), (4, ["fresh"]))
        self.expect_soon(a, self.texts())


class Times(Nodes):
    def test_the_same_time_and_size_again_and_again(self):
        a, b = self.start()
        self.cache()
        server = RewritingPeer(self.net.backing, durable=False)
        server.frozen = True
        for number in range(6):
            text = f"amber x{number}"
            before = os.stat(server.manifest_path("u1"))
            server.commit("u1", changes=[update("fact_1", text)])
            after = os.stat(server.manifest_path("u1"))
            self.assertEqual((after.st_size, after.st_mtime_ns), (before.st_size, before.st_mtime_ns))
            for agent in (a, b):
                self.expect(agent, [text] + self.texts(numbers=(2, 3, 4)))

    def expect_dated(self, agents, text, year_of_time, revision):
        """After the manifest was given that time."""
        os.utime(self.peer.manifest_path("u1"), (year_of_time * 31556952.0 - 1970 * 31556952.0,) * 2)
        for agent in agents:
            found = self.expect(agent, [text] + self.texts(numbers=(2, 3, 4)))
            self.assertEqual(found["scopes"][0]["revision"], revision)

    def test_times_to_come_and_revisions_that_go_back(self):
        agents = self.start()
        self.cache()
        path = self.peer.manifest_path("u1")
        saved = os.path.join(self.directory, "saved")
        shutil.copytree(self.peer.bucket("u1"), saved)
        os.utime(path, (time.time() + 10 * 31556952,) * 2)
        for agent in agents:
            self.expect(agent, self.texts())
        made = agents[1].rpc("update_fact", user_id="u1", fact_id="fact_1", content="amber of today")
        self.expect_dated(agents, "amber of today", 2026, made["revision"])
        self.expect_dated(agents, "amber of today", 2036, made["revision"])
        self.peer.commit("u1", changes=[update("fact_1", "amber of tomorrow")])
        self.expect_dated(agents, "amber of tomorrow", 2020, made["revision"] + 1)
        shutil.rmtree(self.peer.bucket("u1"))
        shutil.copytree(saved, self.peer.bucket("u1"))
        self.expect_dated(agents, self.texts()[0], 2025, made["revision"] - 1)
        agents[0].rpc("apply_changes", user_id="u1", expected_revision=made["revision"] - 1,
                      upserts=[{"content": "amber after", "category": "context", "confidence": 0.5}])
        self.expect(agents[1], self.texts() + ["amber after"])


class LateReturns(Nodes):
    def test_a_write_whose_caller_has_given_up_is_not_begun(self):
        """The call returns when the caller has long been told that it did not."""
        a, b = self.start()
        revision = self.peer.revision("u1")
        for operation, path in (("flock", "users/u1/*"), ("opendir", "users/u1"), ("open", "users/u1/*")):
            with self.subTest(operation=operation):
                with self.net.node(0).hang(operation, path) as held:
                    with self.assertRaises(RpcError) as refusal:
                        a.rpc("create_fact", user_id="u1", content="amber late", timeout_ms=500)
                    self.assertEqual(refusal.exception.kind, "timeout")
                    held.wait_hanging()
                wait_until(lambda: a.rpc("status")["ipc"]["threads_busy"] == 0, 20, "an end of the request")
                for agent in (a, b):
                    self.expect_soon(agent, self.texts())
                self.assertEqual(self.peer.revision("u1"), revision)
                self.expect_nothing_left()
        a.rpc("create_fact", user_id="u1", content="amber in time")
        self.expect(b, self.texts() + ["amber in time"])


class AnotherVolume(Nodes):
    """It takes the place of the one that the agents know, with the same users."""

    def setUp(self):
        super().setUp()
        self.agents = self.start()
        self.own = self.net.backing
        self.other = Peer(os.path.join(self.directory, "other"), durable=False)
        os.mkdir(self.other.root)
        self.other.commit("u1", changes=[add("fact_1", "amber of another world")])

    def expect_other_untouched(self):
        self.assertEqual(self.other.revision("u1"), 1)
        self.assertEqual([text for _, _, text in self.other.facts("u1").values()], ["amber of another world"])

    def test_a_write_that_waited_meanwhile_does_not_go_there(self):
        a, b = self.agents
        for operation, path in (("flock", "*"), ("readdir", "users/u1"), ("fsync", "*"), ("link", "*"),
                                ("rename", "*memory.json")):
            with self.subTest(operation=operation):
                with a.client() as client, self.net.node(0).hang(operation, path, count=1) as held:
                    request = client.send("update_fact", user_id="u1", fact_id="fact_1", content="amber astray",
                                          timeout_ms=8000)
                    held.wait_hanging()
                    self.net.swap(self.other.root)
                    held.release()
                    self.assertIn("error", client.reply(request))
                self.expect_other_untouched()
                self.net.swap(self.own)
                for agent in (b, a):
                    self.expect_soon(agent, self.texts())


class NobodysLocks(Nodes):
    def test_of_two_commits_of_one_revision_the_slower_one_is_told_a_conflict(self):
        self.net.set("flock", "none")
        a, b = self.start(config=DEAD_SOON)
        self.assertIs(a.rpc("status")["volume"]["locks_reach_nodes"], False)
        self.assertEqual(len(a.log_lines("event=volume.locks ")), 1)
        revision = self.peer.revision("u1")
        with a.client() as slow, self.net.node(0).hang("fsync", "users/u1/*") as held:
            def change(text):
                return {"user_id": "u1", "expected_revision": revision,
                        "upserts": [{"content": text, "category": "context", "confidence": 0.5}]}

            request = slow.send("apply_changes", **change("amber slow"))
            held.wait_hanging()
            made = b.rpc("apply_changes", **change("amber quick"))
            self.assertEqual(made["revision"], revision + 1)
            held.remove()
            self.assertEqual(slow.reply(request)["error"]["data"]["kind"], "conflict")
        for agent in (a, b):
            self.expect(agent, ["amber quick"] + self.texts())
        self.assertEqual(self.peer.revision("u1"), revision + 1)
        self.expect_nothing_left()


class OddDirectories(Nodes):
    def test_what_is_no_users_directory_keeps_nobody_out(self):
        os.makedirs(os.path.join(self.net.backing, "users", "lost+found"))
        with self.net.node(0).fail("any", "users/lost+found*", "EACCES"), \
                self.net.node(0).fail("any", "users/u3*", "EACCES"):
            a, b = self.start(users=2, config=POLLING)
            self.peer.commit("u3", changes=[add("fact_1", "amber three")])
            self.expect(b, ["amber three"], user="u3")
            for user in (1, 2):
                b.rpc("create_fact", user_id=f"u{user}", content="amber news")
                self.wait_found(a, f"u{user}", self.texts(user) + ["amber news"])
            with self.assertRaises(RpcError) as refusal:
                self.search(a, user="u3")
            self.assertEqual(refusal.exception.kind, "denied")
            self.assertIn("users/u3", refusal.exception.data["path"])
            self.assertLessEqual(len(a.log_lines("lost+found")), 1)
        self.expect_soon(a, ["amber three"], user="u3")


class HalfThere(Nodes):
    """Tools that are not atomic, at the server, below caches of a minute."""

    def setUp(self):
        super().setUp()
        self.agents = self.start()
        self.cache()
        for agent in self.agents:
            self.expect(agent, self.texts())

    def write_over(self, path, *parts, pause_s=0.0):
        """In place: cut to nothing, then a part after the other."""
        with open(path, "r+b", buffering=0) as file:
            file.truncate(0)
            for number, part in enumerate(parts):
                if number and pause_s:
                    time.sleep(pause_s)
                file.write(part)

    def fact_at_server(self, fact_id="fact_1"):
        return os.path.join(self.peer.bucket("u1"), fact_path(DEFAULT_AGENT, fact_id))

    def new_manifest(self):
        """The next revision, for whoever changed facts without a commit."""
        text = self.peer.read(self.peer.manifest_path("u1"))
        revision = self.peer.revision("u1")
        self.peer.write(self.peer.manifest_path("u1"),
                        text.replace(f'"revision": {revision}', f'"revision": {revision + 1}'))

    def test_a_fact_of_nul_bytes_is_told_by_name_and_comes_back(self):
        path = self.fact_at_server()
        good = self.peer.read(path).encode()
        self.peer.write(path, "\0" * len(good))
        self.new_manifest()
        others = self.texts(numbers=(2, 3, 4))
        for agent in self.agents:
            found = self.expect(agent, others)
            self.assertEqual(found["scopes"][0]["broken"], 1)
            listed = agent.rpc("list_facts", user_id="u1")["broken"]
            self.assertIn("fact_1.md", str(listed))
            with self.assertRaises(RpcError) as refusal:
                agent.rpc("update_fact", user_id="u1", fact_id="fact_1", content="amber over it")
            self.assertEqual(refusal.exception.kind, "corrupt")
            self.assertIn("fact_1.md", refusal.exception.data["path"])
        with open(path, "rb") as file:
            self.assertEqual(file.read(), bytes(len(good)))
        self.agents[0].rpc("create_fact", user_id="u1", content="amber beside it")
        for agent in self.agents:
            self.expect(agent, others + ["amber beside it"])
        self.peer.write(path, good.decode())
        self.new_manifest()
        for agent in self.agents:
            self.expect(agent, self.texts() + ["amber beside it"])

    def ask_all_the_while(self, change):
        """All answers of both agents while `change` runs."""
        def search(client):
            return client.rpc("search", user_id="u1", query="amber", top_k=100)

        streams = [Stream(agent.endpoint, search, pause_s=0.002) for agent in self.agents]
        try:
            for stream in streams:
                stream.wait_for_more(3)
            change()
            for stream in streams:
                stream.wait_for_more(3)
        finally:
            for stream in streams:
                stream.stop()
        return [reply for stream in streams for _, reply in stream.results]

    def test_a_manifest_in_two_halves(self):
        path = self.peer.manifest_path("u1")

        def change():
            for number in range(5):
                text = self.peer.read(path).encode()
                revision = self.peer.revision("u1")
                text = text.replace(b'"revision": %d' % revision, b'"revision": %d' % (revision + 1))
                self.write_over(path, text[:len(text) // 2], text[len(text) // 2:], pause_s=0.1)
                time.sleep(0.02)

        for reply in self.ask_all_the_while(change):
            self.assertEqual(contents(reply), self.texts(), states(reply))
        for agent in self.agents:
            found = self.expect(agent, self.texts())
            self.assertEqual(found["scopes"][0]["revision"], self.peer.revision("u1"))

    def test_a_fact_in_two_halves(self):
        """The manifest is new before the fact is whole. Half a text is half a memory."""
        path = self.fact_at_server()
        good = self.peer.read(path)
        long = good.replace(self.texts()[0], "amber " + "long " * 3000 + "end").encode()
        cut = len(long) - 5000
        wanted = "amber " + "long " * 3000 + "end"

        def change():
            def tell():
                time.sleep(0.05)
                self.new_manifest()
            teller = threading.Thread(target=tell)
            teller.start()
            self.write_over(path, long[:cut], long[cut:], pause_s=0.1)
            teller.join()
            self.new_manifest()

        self.ask_all_the_while(change)
        for agent in self.agents:
            self.expect_soon(agent, [wanted] + self.texts(numbers=(2, 3, 4)))


class Deaths(Nodes):
    """Agents that die in the middle of their commits, and the agent of the other node."""

    STEPS = ("COMMIT_AFTER_LOCK", "COMMIT_AFTER_BACKUP", "COMMIT_AFTER_JOURNAL", "COMMIT_AFTER_FACT",
             "COMMIT_BEFORE_MANIFEST", "COMMIT_AFTER_MANIFEST", "COMMIT_BEFORE_COMMITTED",
             "COMMIT_AFTER_COMMITTED", "COMMIT_AFTER_CLEANUP", "WRITE_BEFORE_INSTALL")
    STANDS = STEPS.index("COMMIT_AFTER_COMMITTED")

    def begin_change(self, client):
        changed = {**client.rpc("get_fact", user_id="u1", fact_id="fact_1")["fact"], "content": "amber half"}
        client.send("apply_changes", user_id="u1", deletes=["fact_2"], upserts=[
            changed, {"content": "amber half two", "category": "context", "confidence": 0.5}])

    def die(self, victim, point):
        victim.env = {"MEMSYNC_PAUSE": f"kill:{point}:1"}
        victim.restart()
        with victim.client() as client:
            self.begin_change(client)
            self.assertEqual(victim.wait_exit(30), -signal.SIGKILL)
        victim.env = {}

    def test_at_each_step_the_other_node_finds_the_old_or_the_new_state(self):
        a, b = self.start()
        self.cache()
        bucket, saved = self.peer.bucket("u1"), os.path.join(self.directory, "saved")
        shutil.copytree(bucket, saved)
        new = ["amber half", "amber half two"] + self.texts(numbers=(3, 4))
        for number, point in enumerate(self.STEPS):
            with self.subTest(point=point):
                wanted = new if number >= self.STANDS else self.texts()
                shutil.rmtree(bucket)
                shutil.copytree(saved, bucket)
                self.expect_soon(b, self.texts())
                self.die(a, point)
                self.expect_soon(b, wanted)
                a.start()
                self.expect_soon(a, wanted)
                made = b.rpc("create_fact", user_id="u1", content="amber probe")
                self.expect(a, wanted + ["amber probe"])
                a.rpc("delete_fact", user_id="u1", fact_id=made["fact"]["id"])
                self.expect(b, wanted)
                self.expect_nothing_left()

    def count(self, agent, fact, told):
        """Writes a fact's number, one up each time, as long as the agent lives."""
        with Client(agent.endpoint) as client:
            for number in range(1, COMMITS + 1):
                told["begun"] = number
                request = client.send("update_fact", user_id="u1", fact_id=fact, content=f"amber at {number}",
                                      timeout_ms=20000)
                while True:
                    is_over = not agent.is_running()
                    try:
                        reply = client.result(request, 0.2)
                        break
                    except TimeoutError:
                        if is_over:
                            return
                told["revisions"].append(reply["revision"])

    def test_two_agents_with_hundreds_of_commits_and_one_is_killed(self):
        victim, other = self.start(config={**LOCKS_REACH, "sync": UNTOLD["sync"]})
        self.cache()
        before = self.peer.revision("u1")
        told = [{"begun": 0, "revisions": []} for _ in range(2)]
        threads = [threading.Thread(target=self.count, args=arguments) for arguments in
                   zip((victim, other), ("fact_1", "fact_2"), told)]
        for thread in threads:
            thread.start()
        chance = random.Random(before)
        wait_until(lambda: len(told[0]["revisions"]) >= COMMITS // 4, 60, "a quarter of the commits")
        time.sleep(chance.uniform(0, 0.02))
        victim.kill()
        for thread in threads:
            thread.join(120)
            self.assertFalse(thread.is_alive())
        acknowledged = [len(one["revisions"]) for one in told]
        self.assertEqual(acknowledged[1], COMMITS)
        self.assertLess(acknowledged[0], COMMITS)
        revisions = told[0]["revisions"] + told[1]["revisions"]
        self.assertEqual(len(revisions), len(set(revisions)), "two commits made one revision")
        self.assertIn(self.peer.revision("u1") - before, (len(revisions), len(revisions) + 1))
        victim.start()
        lost = {f"amber at {number}" for number in (told[0]["begun"], acknowledged[0])}
        for agent in (victim, other):
            found = self.search(agent)
            self.assertIn(states(found)[0], PROVEN)
            self.assertEqual(found["count"], 4)
            self.assertTrue(lost & set(contents(found)), contents(found))
            self.assertIn(f"amber at {COMMITS}", contents(found))
        victim.rpc("create_fact", user_id="u1", content="amber last")
        self.assertEqual(self.search(other)["count"], 5)
        self.expect_nothing_left()


if __name__ == "__main__":
    unittest.main()
