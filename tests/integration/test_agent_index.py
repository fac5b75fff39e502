#!/usr/bin/python3
"""A thousand users: what a warm start reads, what the agent keeps in memory, and that searching one
user costs the same however many others there are."""

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from agent import Agent
from process import IS_SANITIZED, MEMSYNCD, ROOT, states

MAKE_VOLUME = os.path.join(ROOT, "tests", "demo", "make_volume.py")
MANY, FEW, FACTS = 1000, 10, 20
ROUNDS, SEARCHES = 12, 40
PRIVATE_MIB_MAX = 64
ROOM_NEEDED = 512 << 20


def private_kib(pid):
    """Resident memory that no file backs: mapped pages of the index are the kernel's to take back."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as file:
        fields = dict(re.findall(r"^(\w+):\s+(\d+) kB", file.read(), re.M))
    return int(fields["Anonymous"])


class Scale(unittest.TestCase):
    """Two agents for all tests, since building their indexes is what takes long."""

    @classmethod
    def setUpClass(cls):
        # In memory where there is room: twenty thousand files take some file systems half a minute.
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) and \
            shutil.disk_usage("/dev/shm").free > ROOM_NEEDED else None
        cls.volumes = tempfile.mkdtemp(prefix="mst-", dir=memory)
        cls.addClassCleanup(shutil.rmtree, cls.volumes, ignore_errors=True)
        cls.agents = {}
        cls.cold = {}
        for users in (FEW, MANY):
            volume = os.path.join(cls.volumes, str(users))
            subprocess.run([sys.executable, MAKE_VOLUME, volume, "--users", str(users),
                            "--facts", str(FACTS), "--agents", "1"],
                           check=True, stdout=subprocess.DEVNULL)
            cls.agents[users] = Agent(MEMSYNCD, volume)
            cls.addClassCleanup(cls.agents[users].close)
            cls.cold[users] = cls.wait_built(cls.agents[users].start(), users)

    @staticmethod
    def wait_built(agent, users):
        def is_done():
            status = agent.rpc("status")
            return (status["watch"]["first_pass_done"] and status["index"]["scopes"] >= users
                    and status["sync"]["waiting"] == 0 and status["sync"]["running"] == 0
                    and status)
        return agent.wait_until(is_done, 60, f"an index of {users} users")

    def test_a_warm_start_reads_no_fact_and_memory_stays_small(self):
        agent, cold = self.agents[MANY], self.cold[MANY]
        self.assertGreaterEqual(cold["sync"]["files_read"], cold["index"]["facts"])
        self.assertLess(cold["index"]["file_bytes"] / cold["index"]["facts"], 4096)
        agent.restart()

        def is_compared():
            status = agent.rpc("status")
            return status["watch"]["first_pass_done"] and status
        warm = agent.wait_until(is_compared, 30)
        self.assertEqual(warm["sync"]["files_read"], 0)
        self.assertEqual(warm["sync"]["refreshes"], 0)
        self.assertEqual(warm["index"]["facts"], cold["index"]["facts"])
        found = agent.rpc("search", query="tea", user_id="mira")
        self.assertEqual(states(found), ["fresh"])
        self.assertIn("green tea", found["results"][0]["fact"]["content"])

        users = agent.rpc("scopes", limit=1000)["scopes"]
        for scope in users:
            agent.rpc("search", query="garden tea 绿茶", user_id=scope["user_id"])
        after = agent.rpc("status")
        self.assertEqual(after["sync"]["files_read"], 0, "searches read none either")
        self.assertGreaterEqual(after["sync"]["fresh"], len(users))
        if not IS_SANITIZED:  # sanitizers keep memory of their own
            self.assertLess(private_kib(agent.pid), PRIVATE_MIB_MAX * 1024)

    def test_a_search_costs_the_same_however_many_other_users_there_are(self):
        times = {users: [] for users in self.agents}
        for _ in range(ROUNDS):
            # In turn, so that whatever else the machine does falls on both.
            for users, agent in self.agents.items():
                for _ in range(SEARCHES):
                    begun = time.perf_counter()
                    found = agent.rpc("search", query="green tea", user_id="mira")
                    times[users].append(time.perf_counter() - begun)
                    self.assertEqual(states(found), ["fresh"])
        few, many = (statistics.median(times[users]) for users in (FEW, MANY))
        inside = {users: agent.rpc("search", query="green tea", user_id="mira")["took_us"]
                  for users, agent in self.agents.items()}
        self.assertLess(many, 3 * few, f"medians {few * 1e6:.0f} and {many * 1e6:.0f} us, "
                                       f"inside {inside}")

    def test_one_users_words_do_not_weigh_in_anothers_scores(self):
        answers = []
        for agent in self.agents.values():
            found = agent.rpc("search", query="green tea on Tuesdays", user_id="mira", top_k=20)
            answers.append([(hit["fact"]["id"], hit["retrieval"]["bm25"])
                            for hit in found["results"]])
        self.assertTrue(answers[0])
        self.assertEqual(answers[0], answers[1])


if __name__ == "__main__":
    unittest.main()
