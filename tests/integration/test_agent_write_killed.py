"""Agents that are killed in the middle of a write: what was acknowledged is there, the rest is whole or not there."""
import os
import shutil
import signal
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import peer
from agent import Agent, RpcError, binary

# Where an agent dies, and how often it passes there before.
STEPS = [
    ("COMMIT_AFTER_LOCK", 5),
    ("COMMIT_AFTER_BACKUP", 5),
    ("COMMIT_AFTER_JOURNAL", 5),
    ("COMMIT_AFTER_FACT", 5),
    ("COMMIT_BEFORE_CHECK", 5),
    ("COMMIT_BEFORE_MANIFEST", 5),
    ("COMMIT_AFTER_MANIFEST", 5),
    ("COMMIT_BEFORE_COMMITTED", 5),
    ("COMMIT_AFTER_COMMITTED", 5),
    ("COMMIT_AFTER_CLEANUP", 5),
    ("WRITE_AFTER_UNLOCK", 5),
    ("WRITE_BEFORE_INSTALL", 5),
]
CONFIG = {"backend": {"config": {"max_facts": 0}}}


class Worker(threading.Thread):
    """Counts one fact up through one agent until that does not answer any more, or `times` times."""

    def __init__(self, agent, fact, times):
        super().__init__()
        self.agent, self.fact, self.times = agent, fact, times
        self.begun = self.acknowledged = 0
        self.revisions, self.failures = [], []

    def write(self, client, number):
        """The answer, or None when the agent died over it."""
        request = client.send("update_fact", user_id="u", fact_id=self.fact, content=f"number {number}",
                              timeout_ms=15000)
        while True:
            is_dead = not self.agent.is_running()
            try:
                return client.result(request, 0.2)
            except TimeoutError:
                if is_dead:
                    return None

    def run(self):
        with self.agent.client() as client:
            for number in range(1, self.times + 1):
                self.begun = number
                try:
                    told = self.write(client, number)
                except RpcError as error:
                    self.failures.append(error)
                    return
                if not told:
                    return
                self.acknowledged = number
                self.revisions.append(told["revision"])


class Killed(unittest.TestCase):
    def setUp(self):
        self.volume = tempfile.mkdtemp(prefix="memsync-killed-")
        self.addCleanup(shutil.rmtree, self.volume, ignore_errors=True)
        self.peer = peer.Peer(self.volume)
        self.peer.commit("u", changes=[peer.add("here", "number 0"), peer.add("there", "number 0")])

    def number_of(self, fact):
        return int(self.peer.facts("u")[fact][2].split()[1])

    def leftovers(self):
        return [os.path.join(directory, name) for directory, below, names in os.walk(self.volume)
                for name in names + below
                if name.endswith((".tmp", ".journal.json")) or os.path.basename(directory) == ".recovery"]

    def run_to_its_death(self, victim):
        """A worker's writes until the agent dies of them."""
        worker = Worker(victim, "here", 100)
        worker.start()
        self.assertEqual(victim.wait_exit(60.0), -signal.SIGKILL)
        victim.disconnect()
        return worker

    def test_at_every_step_while_another_agent_writes(self):
        for point, nth in STEPS:
            with self.subTest(point=point), Agent(binary("memsyncd"), self.volume, config=CONFIG) as other:
                victim = Agent(binary("memsyncd"), self.volume, config=CONFIG,
                               env={"MEMSYNC_PAUSE": f"kill:{point}:{nth}"})
                try:
                    before = self.peer.revision("u")
                    victim.start()
                    other_worker = Worker(other, "there", 30)
                    other_worker.start()
                    worker = self.run_to_its_death(victim)
                    other_worker.join()
                    worker.join(30.0)
                    self.check(worker, other_worker, other, before)
                    victim.env = {}
                    victim.start()
                    self.assertTrue(victim.rpc("verify", user_id="u")["ok"])
                finally:
                    victim.close()

    def check(self, worker, other_worker, other, before):
        self.assertEqual(other_worker.failures, [])
        self.assertEqual(other_worker.acknowledged, 30)
        revisions = worker.revisions + other_worker.revisions
        self.assertEqual(len(revisions), len(set(revisions)), "two commits made one revision")
        other.rpc("update_fact", user_id="u", fact_id="there", content="number 99")
        self.assertEqual(self.leftovers(), [])
        self.assertEqual(self.number_of("there"), 99)
        self.assertIn(self.number_of("here"), {worker.acknowledged, worker.begun})
        self.assertGreaterEqual(self.peer.revision("u"), before + len(revisions) + 1)
        self.assertTrue(other.rpc("verify", user_id="u")["ok"])
        found = other.rpc("search", user_id="u", query="number", top_k=10)
        self.assertEqual({hit["fact"]["content"] for hit in found["results"]},
                         {f"number {self.number_of('here')}", "number 99"})


if __name__ == "__main__":
    unittest.main()
