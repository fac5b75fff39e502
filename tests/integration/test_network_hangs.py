#!/usr/bin/python3
"""Calls to a network volume that do not return: who is kept waiting, for how long, and what it costs."""

import os
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from agent import DEFAULT_AGENT, Client, RpcError
from network import POLLING, UNTOLD, NetworkCase, thread_count, timed
from peer import add, update
from process import IS_SANITIZED, Supervisor, contents, states, wait_until

# A look is given a second; the rest is what two busy cores may add.
GIVEN_UP_S = 12.0 if IS_SANITIZED else 4.0
AT_ONCE_S = 4.0 if IS_SANITIZED else 1.0
DEADLINE_MS = 6000 if IS_SANITIZED else 1500
# A write does not wait for one that is in a call for longer.
PATIENCE_MS = 2000
REFUSED = ("timeout", "busy")
DRAINED_S = 25.0 if IS_SANITIZED else 12.0


class HangCase(NetworkCase):
    """Three users in the index of an agent that hears of nothing but what its searches see."""

    def setUp(self):
        super().setUp()
        self.fill(users=3)

    def served(self, config=None, **options):
        agent = self.node_agent(config=config or UNTOLD, **options)
        self.wait_indexed(agent, 12)
        return agent

    def expect_served(self, agent, user, state=("fresh", "refreshed")):
        seconds, found = timed(agent.rpc, "search", user_id=user, query="amber")
        self.assertNotIsInstance(found, Exception, str(found))
        self.assertEqual(found["count"], 4)
        self.assertIn(states(found)[0], state)
        return seconds

    def wait_fresh(self, agent, user):
        wait_until(lambda: states(agent.rpc("search", user_id=user, query="amber"))[0] in
                   ("fresh", "refreshed"), 20, "a fresh answer")

    def supervised(self, **options):
        """An agent with a watchdog of two seconds, and who feels it. (He hears all the while, or the agent waits.)"""
        supervisor = Supervisor(self.directory)
        self.addCleanup(supervisor.close)
        over = threading.Event()

        def listen():
            while not over.is_set():
                supervisor.receive(0.2)

        thread = threading.Thread(target=listen, daemon=True)
        self.addCleanup(thread.join)
        self.addCleanup(over.set)
        thread.start()
        return self.served(env={"NOTIFY_SOCKET": supervisor.path, "WATCHDOG_USEC": "2000000"}, **options), supervisor

    def expect_fed(self, supervisor):
        before = len(supervisor.messages)
        time.sleep(4)
        messages = supervisor.messages[before:]
        self.assertGreaterEqual(sum("WATCHDOG=1" in message for message in messages), 4, messages)

    def expect_end(self, agent):
        """The kernel lets a process go only when its calls return or are killed."""
        seconds, code = timed(agent.stop, DRAINED_S + 8)
        self.assertEqual(code, 0)
        self.assertLess(seconds, DRAINED_S)


class Hangs(HangCase):
    def expect_only_u1_waits(self, operation, pattern):
        agent = self.served()
        threads = thread_count(agent)
        with self.net.node(0).hang(operation, pattern) as held:
            self.assertLess(self.expect_served(agent, "u1", ("unverified",)), GIVEN_UP_S)
            held.wait_hanging()
            for user in ("u1", "u2", "u3"):
                state = ("unverified",) if user == "u1" else ("fresh", "refreshed")
                self.assertLess(self.expect_served(agent, user, state), AT_ONCE_S)
            hanging = self.hanging_told(agent)
            self.assertTrue(any("users/u1" in call["path"] for call in hanging["calls"]), hanging)
            self.assertGreaterEqual(hanging["calls"][0]["since_ms"], 1000)
            self.assertTrue(any("do not return" in line for line in
                                agent.rpc("status")["problems"]))
            for _ in range(20):
                agent.rpc("search", user_id="u1", query="amber")
            self.assertEqual(len(held.hanging()), 1, "no second thread is spent on the same user")
            self.assertLessEqual(thread_count(agent), threads + 4)
        self.wait_fresh(agent, "u1")
        self.assertEqual(agent.rpc("status")["volume"]["hanging"], {"count": 0, "calls": []})

    def test_an_open_that_hangs(self):
        self.expect_only_u1_waits("open", "users/u1/memory.json")

    def test_a_look_at_attributes_that_hangs(self):
        self.expect_only_u1_waits("getattr", "users/u1/*")

    def test_a_look_up_that_hangs(self):
        self.expect_only_u1_waits("lookup", "users/u1/memory.json")

    def test_a_read_that_hangs(self):
        self.expect_only_u1_waits("read", "users/u1/*")

    def test_the_watchdog_is_fed_all_the_while(self):
        agent, supervisor = self.supervised()
        with self.net.node(0).hang("any", "users/u1*"):
            self.expect_served(agent, "u1", ("unverified",))
            self.expect_fed(supervisor)

    def test_the_whole_volume_hangs_and_everybody_is_answered(self):
        agent = self.served()
        with self.net.node(0).hang("any", "*"):
            for user in ("u1", "u2", "u3"):
                self.assertLess(self.expect_served(agent, user, ("unverified",)), GIVEN_UP_S)
            seconds, pong = timed(agent.rpc, "ping")
            self.assertNotIsInstance(pong, Exception, str(pong))
            self.assertLess(seconds, AT_ONCE_S)
        for user in ("u1", "u2", "u3"):
            self.wait_fresh(agent, user)

    def test_it_ends_when_told_although_calls_hang(self):
        agent = self.served()
        self.peer.commit("u1", changes=[update("fact_1", "amber changed")])
        with self.net.node(0).hang("any", "users/u1*") as held:
            self.expect_served(agent, "u1", ("unverified",))
            held.wait_hanging()
            self.expect_end(agent)


class Writes(HangCase):
    """A write that hangs, in whatever call: it costs the thread of one request, however many others want to write
    the same user's memory."""

    def refused(self, agent, timeout_ms=1500, within_s=None, **params):
        """Sends a write and expects that it is told in time that it was not done, or may not have been."""
        seconds, refusal = timed(agent.rpc, "create_fact", user_id="u1", timeout_ms=timeout_ms, **params)
        self.assertIsInstance(refusal, RpcError, refusal)
        self.assertIn(refusal.kind, REFUSED, refusal)
        self.assertLess(seconds, within_s or timeout_ms / 1000 + AT_ONCE_S)
        return refusal

    def wait_known(self, agent, operation, below):
        """Until the call counts as one that does not return."""
        def is_known():
            call = self.hanging_told(agent)["calls"][0]
            self.assertEqual(call["operation"], operation)
            self.assertIn(f"users/u1{below}", call["path"])
            return call["since_ms"] > PATIENCE_MS
        wait_until(is_known, 20, "a call that hangs for long")

    def expect_others_write(self, agent, word):
        for user in ("u2", "u3"):
            self.assertLess(self.expect_answered(agent, user), AT_ONCE_S)
            seconds, made = timed(agent.rpc, "create_fact", user_id=user, content=f"cobalt {word}")
            self.assertNotIsInstance(made, Exception, str(made))
            self.assertLess(seconds, GIVEN_UP_S)

    def expect_answered(self, agent, user):
        seconds, found = timed(agent.rpc, "search", user_id=user, query="amber")
        self.assertNotIsInstance(found, Exception, str(found))
        self.assertGreaterEqual(found["count"], 4)
        if user != "u1":
            self.assertIn(states(found)[0], ("fresh", "refreshed"))
        return seconds

    def expect_healed(self, agent):
        def is_written():
            return not isinstance(timed(agent.rpc, "create_fact", user_id="u1", content="amber later")[1], RpcError)
        wait_until(is_written, 20, "a write that succeeds")
        wait_until(lambda: agent.rpc("status")["volume"]["hanging"]["count"] == 0, 20, "an end of the hanging")
        self.wait_fresh(agent, "u1")
        found = agent.rpc("search", user_id="u1", query="amber", top_k=100)
        told = sorted(content for _, _, content in self.peer.facts("u1", DEFAULT_AGENT).values())
        self.assertEqual(contents(found), [content for content in told if "amber" in content])

    def expect_others_search(self, agent, _word):
        for user in ("u2", "u3"):
            self.assertLess(self.expect_answered(agent, user), AT_ONCE_S)

    def expect_one_thread(self, operation, told, below="/", expect_others=None):
        expect_others = expect_others or self.expect_others_write
        agent = self.served()
        threads = thread_count(agent)
        with self.net.node(0).hang(operation, "users/u1/*") as held:
            self.refused(agent, content="amber held")
            held.wait_hanging()
            self.refused(agent, 1000, content="amber second")
            self.refused(agent, 1000, content="amber of another", agent_name="helper")
            expect_others(agent, "early")
            self.wait_known(agent, told, below)
            for number in range(6):
                agent_name = ("helper", None)[number % 2]
                refusal = self.refused(agent, 8000, AT_ONCE_S, content=f"amber n{number}", agent_name=agent_name)
                self.assertEqual((refusal.kind, refusal.data["attempts"]), ("busy", 0))
            self.assertLess(self.expect_answered(agent, "u1"), GIVEN_UP_S)
            expect_others(agent, "late")
            self.assertEqual(len(held.hanging()), 1, "no second thread is spent on the same user")
            self.assertLessEqual(thread_count(agent), threads + 4)
        self.expect_healed(agent)

    def test_locks(self):
        self.expect_one_thread("flock", "lock", "/.memory.lock")

    def test_renames(self):
        """While one between two directories hangs, the kernel begins no other one on that mount: nothing can be
        written then, but everything is found."""
        self.expect_one_thread("rename", "rename", expect_others=self.expect_others_search)

    def test_syncs(self):
        self.expect_one_thread("fsync", "sync")

    def test_writes(self):
        self.expect_one_thread("write", "write")

    def test_removals(self):
        self.expect_one_thread("unlink", "unlink")

    def test_rights(self):
        self.expect_one_thread("access", "access")

    def test_attributes(self):
        self.expect_one_thread("setattr", "chmod")

    def test_directories_that_are_opened(self):
        """Before there is a lock to take."""
        agent = self.served()
        with self.net.node(0).hang("opendir", "users/u1") as held:
            self.refused(agent, 1000, content="amber first")
            held.wait_hanging()
            for agent_name in ("helper", "another"):
                self.refused(agent, 1000, content="amber second", agent_name=agent_name)
            self.assertEqual(len(held.hanging()), 1, "no second thread is spent on the same user")
            self.expect_others_write(agent, "meanwhile")
        self.expect_healed(agent)

    def test_many_writers_of_one_user_keep_nobody_waiting(self):
        """More than there are request threads, with all the time in the world."""
        agent = self.served()
        with self.net.node(0).hang("flock", "users/u1/*") as held:
            clients = [Client(agent.endpoint, timeout_s=30) for _ in range(4)]
            for client in clients:
                self.addCleanup(client.close)
            first = clients[0].send("create_fact", user_id="u1", content="amber first", timeout_ms=60000)
            held.wait_hanging()
            sent = [(client, client.send("create_fact", user_id="u1", content=f"amber m{number}", timeout_ms=60000))
                    for number, client in enumerate(clients * 4)]
            for client, number in sent:
                reply = client.reply(number, GIVEN_UP_S + PATIENCE_MS / 1000)
                self.assertEqual(reply["error"]["data"]["kind"], "busy")
            self.expect_others_write(agent, "all the same")
            self.assertEqual(len(held.hanging()), 1)
        self.assertIn("result", clients[0].reply(first))
        self.expect_healed(agent)

    def test_members_of_a_group_leave_by_their_deadline(self):
        """They were taken into one commit, and it hangs; only who leads it stays."""
        agent = self.served()
        with Client(agent.endpoint, timeout_s=30) as client:
            first = self.net.node(0).hang("flock", "users/u1/*")
            sent = [client.send("update_fact", user_id="u1", fact_id="fact_1", content="amber changed1",
                                timeout_ms=DEADLINE_MS)]
            first.wait_hanging()
            sent += [client.send("update_fact", user_id="u1", fact_id=f"fact_{number}",
                                 content=f"amber changed{number}", timeout_ms=DEADLINE_MS)
                     for number in (2, 3, 4)]
            wait_until(lambda: agent.rpc("status")["ipc"]["threads_busy"] == len(sent), 10, "all of them at it")
            with self.net.node(0).hang("fsync", "users/u1/*") as held:
                first.remove()
                for number in sent:
                    self.assertEqual(client.reply(number)["error"]["data"]["kind"], "timeout")
                self.assertEqual(len(held.hanging()), 1)
                wait_until(lambda: agent.rpc("status")["ipc"]["threads_busy"] == 1, 10, "members that have left")
                self.expect_others_write(agent, "meanwhile")
        self.expect_healed(agent)
        told = {content for _, _, content in self.peer.facts("u1", DEFAULT_AGENT).values()}
        self.assertLessEqual({f"amber changed{number}" for number in (1, 2, 3, 4)}, told)

    def test_it_ends_when_told_although_a_write_hangs(self):
        agent = self.served()
        with self.net.node(0).hang("rename", "users/u1/*") as held:
            self.refused(agent, content="amber held")
            held.wait_hanging()
            self.expect_end(agent)


class Watching(HangCase):
    """The watcher lists the users, and looks at the volume's root, on its own thread."""

    def expect_all_goes_on(self, operation, pattern, told, sync):
        agent, supervisor = self.supervised(config={**POLLING, "sync": {**POLLING["sync"], **sync}})
        with self.net.node(0).hang(operation, pattern) as held:
            held.wait_hanging()
            for user in ("u1", "u2", "u3"):
                self.assertLess(self.expect_served(agent, user), AT_ONCE_S)
            self.peer.commit("u1", changes=[update("fact_1", "amber anew")])
            found = agent.rpc("search", user_id="u1", query="anew")
            self.assertEqual((contents(found), states(found)), (["amber anew"], ["refreshed"]))
            seconds, made = timed(agent.rpc, "create_fact", user_id="u2", content="cobalt made")
            self.assertNotIsInstance(made, Exception, str(made))
            self.assertLess(seconds, GIVEN_UP_S)
            self.expect_fed(supervisor)
            calls = self.hanging_told(agent)["calls"]
            self.assertEqual([(call["operation"], os.path.relpath(call["path"], self.volume)) for call in calls],
                             [told])
            self.peer.commit("u9", changes=[add("fact_1", "amber nine")])
        wait_until(lambda: [one for one in agent.rpc("scopes")["scopes"] if one["user_id"] == "u9"], 20,
                   "the new user, unasked")

    def test_a_listing_of_the_users_that_hangs(self):
        self.expect_all_goes_on("readdir", "users", ("list", "users"), {"inotify": False})

    def test_a_listing_of_the_users_that_hangs_beside_inotify(self):
        self.expect_all_goes_on("readdir", "users", ("list", "users"), {})

    def test_a_listing_of_the_root_that_hangs(self):
        self.expect_all_goes_on("readdir", ".", ("list", "."), {"inotify": False})

    def test_a_root_that_cannot_be_opened(self):
        self.expect_all_goes_on("opendir", ".", ("open", "."), {"inotify": False})

    def test_a_look_at_the_file_system_that_hangs(self):
        self.expect_all_goes_on("statfs", ".", ("statfs", "."), {"inotify": False})

    def test_a_look_at_the_volumes_name_that_hangs(self):
        self.expect_all_goes_on("open", ".memsyncd/*", ("open", ".memsyncd/volume-id"), {"inotify": False})

    def test_it_ends_when_told_although_a_listing_hangs(self):
        agent = self.served(config=POLLING)
        with self.net.node(0).hang("readdir", "users") as held:
            held.wait_hanging()
            self.expect_end(agent)


class ManyHang(NetworkCase):
    """More users hang than there are threads of any kind."""

    USERS = 24

    def setUp(self):
        super().setUp()
        self.fill(users=self.USERS + 2)
        self.agent_here = self.node_agent()
        self.wait_indexed(self.agent_here, 4 * (self.USERS + 2))
        self.free = [f"u{self.USERS + 1}", f"u{self.USERS + 2}"]

    def hang_all(self, operation, below):
        return [self.net.node(0).hang(operation, f"users/u{number}{below}")
                for number in range(1, self.USERS + 1)]

    def ask_for_all(self, method, **params):
        """All at once, on one connection as a gateway does."""
        with Client(self.agent_here.endpoint, timeout_s=30) as client:
            sent = [client.send(method, user_id=f"u{number}", timeout_ms=DEADLINE_MS, **params)
                    for number in range(1, self.USERS + 1)]
            return [client.reply(number) for number in sent]

    def expect_free_users_served(self, word):
        for user in self.free:
            seconds, found = timed(self.agent_here.rpc, "search", user_id=user, query="amber")
            self.assertNotIsInstance(found, Exception, str(found))
            self.assertIn(states(found)[0], ("fresh", "refreshed"))
            self.assertLess(seconds, GIVEN_UP_S)
            _, made = timed(self.agent_here.rpc, "create_fact", user_id=user, content=word + user)
            self.assertNotIsInstance(made, Exception, str(made))

    def expect_calm(self, rules):
        for rule in rules:
            rule.remove()
        wait_until(lambda: self.agent_here.rpc("status")["volume"]["hanging"]["count"] == 0, 20,
                   "an end of the hanging")
        for number in range(1, self.USERS + 1):
            wait_until(lambda: states(self.agent_here.rpc(
                "search", user_id=f"u{number}", query="amber"))[0] in ("fresh", "refreshed"), 20,
                "a fresh answer")

    def test_looks(self):
        threads = thread_count(self.agent_here)
        rules = self.hang_all("open", "/memory.json")
        self.ask_for_all("search", query="amber")
        for reply in self.ask_for_all("search", query="amber"):
            self.assertEqual(states(reply["result"]), ["unverified"])
        self.expect_free_users_served("looks ")
        self.peer.commit(self.free[0], changes=[add("fact_9", "amber nine")])
        self.agent_here.wait_until(
            lambda: len(self.agent_here.rpc("list_facts", user_id=self.free[0],
                                            freshness="local")["facts"]) == 6, 20,
            "a change that polling finds")
        self.assertLessEqual(thread_count(self.agent_here), threads + self.USERS + 4)
        self.expect_calm(rules)

    def test_writes(self):
        rules = self.hang_all("flock", "/*")
        for reply in self.ask_for_all("create_fact", content="held"):
            self.assertIn(reply["error"]["data"]["kind"], ("timeout", "busy"))
        self.expect_free_users_served("writes ")
        self.expect_calm(rules)

    def test_writes_with_all_the_time_in_the_world(self):
        """More than there are request threads, on one connection: they are replaced long before the deadlines."""
        rules = self.hang_all("flock", "/*")
        with Client(self.agent_here.endpoint, timeout_s=60) as client:
            sent = [client.send("create_fact", user_id=f"u{number}", content="held", timeout_ms=60000)
                    for number in range(1, 13)]
            self.hanging_told(self.agent_here, len(sent))
            self.expect_free_users_served("meanwhile ")
            user = self.free[0]
            self.assertEqual(client.rpc("search", user_id=user, query="meanwhile")["count"], 1)
            for rule in rules:
                rule.remove()
            for number in sent:
                self.assertIn("result", client.reply(number))
        self.expect_calm(rules)

    def test_refreshes(self):
        rules = self.hang_all("readdir", "/agents/*/facts/*")
        for number in range(1, self.USERS + 1):
            self.peer.commit(f"u{number}", changes=[update("fact_1", f"amber changed {number}")])
        self.ask_for_all("search", query="amber")
        time.sleep(1)
        for reply in self.ask_for_all("search", query="amber"):
            self.assertIn(states(reply["result"])[0], ("stale", "unverified"))
        self.peer.commit(self.free[0], changes=[update("fact_1", "amber anew")])
        found = wait_until(lambda: (reply := self.agent_here.rpc(
            "search", user_id=self.free[0], query="anew"))["count"] and reply, 20, "the new text")
        self.assertEqual(contents(found), ["amber anew"])
        self.expect_free_users_served("refreshes ")
        self.expect_calm(rules)


if __name__ == "__main__":
    unittest.main()
