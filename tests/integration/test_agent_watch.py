#!/usr/bin/python3
"""Changes that nobody asks about: inotify, polling, the first look at new users, and events."""

import os
import shutil
import statistics
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from agent import topic
from peer import Peer, add, delete, update
from process import ProcessCase, Stream, contents, states, wait_until

NO_POLLING = {"poll_interval_min_ms": 3600000, "poll_interval_max_ms": 86400000}
QUICK_POLLING = {"inotify": False, "poll_interval_min_ms": 50, "poll_interval_max_ms": 200}


class Changes:
    """Found without a search that looks at the volume."""

    sync = None

    def start(self):
        return self.agent(config={"sync": self.sync})

    def local(self, agent, user, query="amber"):
        """What the index holds, whatever the volume says."""
        return sorted(agent.search(query, user, top_k=100, freshness="local"))

    def test_a_new_fact_a_changed_one_and_a_removed_one(self):
        agent = self.start()
        self.fill(users=2)
        self.wait_indexed(agent, 8)
        self.peer.commit("u1", changes=[update("fact_1", "amber changed"), delete("fact_2"),
                                        add("fact_new", "amber new")])
        agent.wait_until(lambda: "amber changed" in self.local(agent, "u1"))
        self.assertEqual(self.local(agent, "u1"), sorted([
            "amber changed", "amber new", "amber number3 of user1", "amber number4 of user1"]))

    def test_new_users_and_new_agents(self):
        agent = self.start()
        self.fill(users=1)
        self.wait_indexed(agent, 4)
        self.peer.commit("late", changes=[add("fact_1", "amber of a new user")])
        self.wait_indexed(agent, 5)
        self.peer.commit("u1", "coder", changes=[add("fact_1", "amber of a new agent")])
        self.wait_indexed(agent, 6)
        self.peer.commit(None, changes=[add("fact_1", "amber of nobody")])
        self.wait_indexed(agent, 7)

    def test_a_fact_in_a_new_shard_whose_directory_appears_with_it(self):
        agent = self.start()
        self.fill(users=1, facts=2)
        self.wait_indexed(agent, 2)
        for number in range(3, 30):
            self.peer.commit("u1", changes=[add(f"fact_{number}", f"amber number{number}")])
        self.wait_indexed(agent, 29)
        self.assertEqual(len(self.local(agent, "u1")), len(set(self.local(agent, "u1"))))

    def test_a_tree_moved_in_and_out_by_one_rename(self):
        agent = self.start()
        self.fill(users=1)
        outside = Peer(os.path.join(self.directory, "outside"), durable=False)
        outside.commit("u9", changes=[add(f"fact_{n}", f"amber moved{n}") for n in range(12)])
        self.wait_indexed(agent, 4)
        os.rename(outside.bucket("u9"), self.peer.bucket("u9"))
        self.wait_indexed(agent, 16)
        self.peer.commit("u9", changes=[add("fact_more", "amber more")])
        self.wait_indexed(agent, 17)
        os.rename(self.peer.bucket("u9"), outside.bucket("u9"))
        self.wait_indexed(agent, 4)
        outside.commit("u9", changes=[add("fact_gone", "amber gone")])
        self.peer.commit("u1", changes=[add("fact_last", "amber last")])
        self.wait_indexed(agent, 5)
        self.assertEqual(self.local(agent, "u9"), [])

    def test_a_directory_removed_and_made_again_under_its_name(self):
        agent = self.start()
        self.fill(users=1, facts=6)
        self.wait_indexed(agent, 6)
        shutil.rmtree(os.path.join(self.peer.bucket("u1"), "agents", "__default__", "facts"))
        self.peer.commit("u1", changes=[add("fact_a", "amber again"), add("fact_b", "amber b")])
        self.wait_indexed(agent, 2)
        self.peer.commit("u1", changes=[add("fact_c", "amber third")])
        agent.wait_until(lambda: len(self.local(agent, "u1")) == 3)
        self.assertEqual(self.local(agent, "u1"), ["amber again", "amber b", "amber third"])

    def test_a_user_who_is_removed(self):
        agent = self.start()
        self.fill(users=3)
        self.wait_indexed(agent, 12)
        shutil.rmtree(self.peer.bucket("u2"))
        self.wait_indexed(agent, 8)


class ChangesByInotify(Changes, ProcessCase):
    sync = NO_POLLING


class ChangesByPolling(Changes, ProcessCase):
    sync = QUICK_POLLING


class Unseen(ProcessCase):
    """Changes of which no event tells."""

    def test_a_search_finds_a_change_that_neither_inotify_nor_polling_saw(self):
        self.fill(users=1)
        agent = self.agent(config={"sync": {**NO_POLLING, "inotify": False}})
        self.wait_indexed(agent, 4)
        for number in range(20):
            self.peer.commit("u1", changes=[update("fact_1", f"amber turn {number}")])
            found = agent.rpc("search", query="turn", user_id="u1")
            self.assertEqual((contents(found), states(found)), ([f"amber turn {number}"],
                                                               ["refreshed"]))
        self.assertFalse(agent.rpc("status")["watch"]["inotify"])

    def test_inotify_is_switched_off_by_the_environment(self):
        self.fill(users=1)
        agent = self.agent(env={"MEMSYNC_SYNC_INOTIFY": "false",
                                "MEMSYNC_SYNC_POLL_INTERVAL_MIN_MS": "50",
                                "MEMSYNC_SYNC_POLL_INTERVAL_MAX_MS": "200"})
        self.wait_indexed(agent, 4)
        self.peer.commit("u1", changes=[add("fact_new", "amber unseen")])
        self.wait_indexed(agent, 5)
        watch = agent.rpc("status")["watch"]
        self.assertEqual((watch["inotify"], watch["events"], watch["watched"]), (False, 0, 0))


class Limits(ProcessCase):
    """A namespace of its own, in which the kernel grants few watches."""

    def check_served(self, agent, users):
        self.wait_indexed(agent, 2 * users)
        for user in range(1, users + 1):
            found = agent.rpc("search", query="amber", user_id=f"u{user}")
            self.assertEqual((found["count"], states(found)), (2, ["fresh"]))
            self.peer.commit(f"u{user}", changes=[add("fact_3", "amber third")])
        self.wait_indexed(agent, 3 * users)

    def test_too_few_watches_for_all_users(self):
        self.fill(users=40, facts=2)
        agent = self.limited_agent("max_inotify_watches", 2, config={
            "sync": {"poll_interval_min_ms": 50, "poll_interval_max_ms": 500}})
        self.check_served(agent, 40)
        status = agent.rpc("status")
        watch = status["watch"]
        self.assertLessEqual(watch["watched"], 2)
        self.assertGreater(watch["wanted"], 40)
        self.assertIn("max_user_watches", watch["limit"])
        self.assertRegex(" ".join(status["problems"]), rf"max_user_watches.*\b{watch['wanted']}\b")
        told = [line for line in agent.log_lines("max_user_watches") if "event=agent" not in line]
        self.assertEqual(len(told), 1, "said once")
        self.assertNotRegex(agent.log(), "(?i)no space left|storage_full")

    def test_no_inotify_at_all(self):
        self.fill(users=3, facts=2)
        agent = self.limited_agent("max_inotify_instances", 0, config={
            "sync": {"poll_interval_min_ms": 50, "poll_interval_max_ms": 500}})
        self.check_served(agent, 3)
        self.assertEqual(agent.rpc("status")["watch"]["watched"], 0)
        self.assertTrue(agent.log_lines("polling"))


class Storm(ProcessCase):
    def test_one_busy_user_keeps_nobody_else_waiting(self):
        self.fill(users=3)
        agent = self.agent()
        self.wait_indexed(agent, 12)
        search = lambda client: client.rpc("search", query="amber", user_id="u3")
        ended = threading.Event()

        def storm():
            number = 0
            while not ended.is_set():
                number += 1
                self.peer.commit("u1", summary=f"turn {number}")
                time.sleep(0.003)

        with Stream(agent.endpoint, search, pause_s=0.002) as stream:
            stream.wait_for_more(100)
            calm = statistics.median(seconds for seconds, _ in stream.results)
            before = len(stream.results)
            writer = threading.Thread(target=storm)
            writer.start()
            try:
                time.sleep(0.5)
                begun = time.monotonic()
                self.peer.commit("u2", changes=[add("fact_new", "amber amid the storm")])
                agent.wait_until(lambda: "amber amid the storm" in agent.search(
                    "storm", "u2", freshness="local"), timeout_s=5)
                self.assertLess(time.monotonic() - begun, 3.0)
                deadline = time.monotonic() + 2.0
                waiting = 0
                while time.monotonic() < deadline:
                    sync = agent.rpc("status")["sync"]
                    waiting = max(waiting, sync["waiting"])
                    time.sleep(0.05)
                self.assertLessEqual(waiting, 3, "one entry a scope, however many events come")
            finally:
                ended.set()
                writer.join()
        stormy = [seconds for seconds, _ in stream.results[before:]]
        self.assertLess(statistics.median(stormy), max(20 * calm, 0.05))
        for _, reply in stream.results:
            self.assertEqual((reply["count"], states(reply)), (4, ["fresh"]))
        found = agent.rpc("get_summaries", user_id="u1")
        self.assertEqual(found["scope"]["revision"], self.peer.revision("u1"))


class Events(ProcessCase):
    def subscribe(self, agent, prefix="scope/"):
        subscriber = agent.subscribe(prefix)
        self.addCleanup(subscriber.close)
        # A subscription takes a moment to arrive: it is there when an event of another scope is.
        for number in range(200):
            self.peer.commit("probe", changes=[update("fact_1", f"probe {number}")
                                               if number else add("fact_1", "probe")])
            agent.search("probe", "probe")
            if subscriber.socket.poll(50):
                break
        else:
            self.fail("no event arrived at all")
        return subscriber

    def test_each_refresh_of_changed_facts_is_told_with_a_number_that_grows_by_one(self):
        self.fill(users=1)
        agent = self.agent()
        self.wait_indexed(agent, 4)
        subscriber = self.subscribe(agent)
        seen = []
        for number in range(10):
            revision = self.peer.commit("u1", changes=[update("fact_1", f"amber turn {number}")])
            name = topic("u1")
            body = subscriber.wait_for(lambda got, body: got == name
                                       and body["revision"] == revision)
            self.assertEqual((body["event"], body["user_id"], body["agent_name"], body["facts"]),
                             ("refreshed", "u1", "__default__", 4))
            seen.append((body["epoch"], body["n"]))
        epochs = {epoch for epoch, _ in seen}
        numbers = [n for _, n in seen]
        self.assertEqual(len(epochs), 1)
        self.assertEqual(numbers, list(range(numbers[0], numbers[0] + 10)), "one event a change")

    def test_topics_are_encoded_so_that_none_is_the_prefix_of_another(self):
        agent = self.agent()
        subscriber = self.subscribe(agent)
        cases = {("a/b@c", "coder"): "scope/a%2Fb%40c/coder/", (None, None): "scope//__default__/",
                 ("名前", "x-1"): "scope/%E5%90%8D%E5%89%8D/x-1/",
                 ("u1.-_~", None): "scope/u1.-_~/__default__/"}
        for (user, name), expected in cases.items():
            with self.subTest(user=user, agent=name):
                self.peer.commit(user, name, changes=[add("fact_1", "amber")])
                agent.search("amber", user, name)
                body = subscriber.wait_for(lambda got, _, expected=expected: got == expected)
                self.assertEqual((body["user_id"], body["agent_name"]),
                                 (user, name or "__default__"))

    def test_a_subscriber_of_one_user_gets_nothing_of_others(self):
        self.fill(users=1)
        self.peer.commit("u11", changes=[add("fact_1", "amber")])
        agent = self.agent()
        everything = self.subscribe(agent)
        with agent.subscribe("scope/u1/") as subscriber:
            def arrived():
                self.peer.commit("u11", changes=[update("fact_1", f"amber {time.monotonic_ns()}")])
                self.peer.commit("u1", changes=[update("fact_1", f"amber {time.monotonic_ns()}")])
                return subscriber.socket.poll(100)
            wait_until(arrived)
            everything.wait_for(lambda name, _: name == topic("u11"))
            for _ in range(3):
                arrived()
            while subscriber.socket.poll(100):
                self.assertEqual(subscriber.next()[0], topic("u1"))

    def test_numbers_begin_anew_with_another_epoch_after_a_restart(self):
        self.fill(users=1)
        agent = self.agent()
        subscriber = self.subscribe(agent)
        is_u1 = lambda name, _: name == topic("u1")
        self.peer.commit("u1", changes=[update("fact_1", "amber before")])
        first = subscriber.wait_for(is_u1)
        agent.restart()

        def later():
            self.peer.commit("u1", changes=[update("fact_1", f"amber {time.monotonic_ns()}")])
            while subscriber.socket.poll(200):
                name, body = subscriber.next()
                if name == topic("u1") and body["epoch"] != first["epoch"]:
                    return body
            return None
        self.assertTrue(wait_until(later), "the same socket goes on after a restart")

    def test_a_scope_that_vanishes_and_one_that_gets_corrupt_are_told(self):
        self.fill(users=2)
        agent = self.agent()
        self.wait_indexed(agent, 8)
        subscriber = self.subscribe(agent)
        shutil.rmtree(self.peer.bucket("u2"))
        subscriber.wait_for(lambda name, body: name == topic("u2") and body["event"] == "removed")
        path = self.peer.manifest_path("u1")
        with open(path, "w", encoding="utf-8") as file:
            file.write("{")
        agent.rpc("search", query="amber", user_id="u1")
        subscriber.wait_for(lambda name, body: name == topic("u1") and body["event"] == "corrupt")

    def test_no_events_where_none_are_wanted(self):
        agent = self.agent(config={"ipc": {"events": "off"}})
        self.assertIsNone(agent.rpc("ping")["events"])
        self.assertFalse(os.path.exists(agent.endpoint[len("ipc://"):] + ".events"))


if __name__ == "__main__":
    unittest.main()
