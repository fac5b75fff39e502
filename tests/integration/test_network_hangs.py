#!/usr/bin/python3
"""Calls to a network volume that do not return: who is kept waiting, for how long, and what it costs."""

import os
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from agent import Client, RpcError
from network import UNTOLD, NetworkCase, thread_count, timed
from peer import add, update
from process import IS_SANITIZED, Supervisor, contents, states, wait_until

# A look is given a second; the rest is what two busy cores may add.
GIVEN_UP_S = 12.0 if IS_SANITIZED else 4.0
AT_ONCE_S = 4.0 if IS_SANITIZED else 1.0
DEADLINE_MS = 6000 if IS_SANITIZED else 1500


class Hangs(NetworkCase):
    def setUp(self):
        super().setUp()
        self.fill(users=3)

    def served(self, user="u1", **options):
        agent = self.node_agent(config=UNTOLD, **options)
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

    def test_a_lock_that_hangs(self):
        agent = self.served()
        with self.net.node(0).hang("flock", "users/u1/*") as held:
            seconds, refusal = timed(agent.rpc, "create_fact", user_id="u1", content="amber held",
                                     timeout_ms=1500)
            self.assertIsInstance(refusal, RpcError)
            self.assertIn(refusal.kind, ("timeout", "busy"))
            self.assertLess(seconds, 1.5 + AT_ONCE_S)
            for user in ("u1", "u2"):
                self.assertLess(self.expect_served(agent, user), AT_ONCE_S)
            seconds, made = timed(agent.rpc, "create_fact", user_id="u2", content="cobalt free")
            self.assertNotIsInstance(made, Exception, str(made))
            seconds, again = timed(agent.rpc, "create_fact", user_id="u1", content="amber again",
                                   timeout_ms=1000)
            self.assertIsInstance(again, RpcError)
            self.assertEqual(len(held.hanging()), 1, "no second thread is spent on the same user")
            hanging = self.hanging_told(agent)
            self.assertEqual([call["operation"] for call in hanging["calls"]], ["lock"])
            self.assertIn("users/u1/.memory.lock", hanging["calls"][0]["path"])
        wait_until(lambda: not isinstance(
            timed(agent.rpc, "create_fact", user_id="u1", content="amber later")[1], RpcError), 10,
            "a write that succeeds")

    def test_the_watchdog_is_fed_all_the_while(self):
        supervisor = Supervisor(self.directory)
        self.addCleanup(supervisor.close)
        agent = self.served(env={"NOTIFY_SOCKET": supervisor.path, "WATCHDOG_USEC": "2000000"})
        with self.net.node(0).hang("any", "users/u1*"):
            self.expect_served(agent, "u1", ("unverified",))
            supervisor.messages.clear()
            supervisor.arrived.clear()
            end = time.monotonic() + 4
            while time.monotonic() < end:
                supervisor.receive(0.5)
            fed = sum("WATCHDOG=1" in message for message in supervisor.messages)
            self.assertGreaterEqual(fed, 4, supervisor.messages)

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
            seconds, code = timed(agent.stop, 20)
            # The kernel lets a process go only when its calls return or are killed.
            self.assertEqual(code, 0)
            self.assertLess(seconds, 12)


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
