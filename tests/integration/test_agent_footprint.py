#!/usr/bin/python3
"""What an agent takes of the node, by the formulas of docs/performance.md: threads, descriptors, watches."""

import os
import sys
import threading
import unittest

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", part)
                for part in ("support", "bench")]

from process import ProcessCase, descriptors_of, wait_until
from soak import watches_of

USERS, CLIENTS, SEARCHES = 30, 12, 60
THREADS, REFRESHERS, READERS = 8, 2, 8  # of a configuration that names none


def threads_of(pid):
    return len(os.listdir(f"/proc/{pid}/task"))


class Footprint(ProcessCase):
    def setUp(self):
        super().setUp()
        self.fill(USERS, 2)

    def start(self, **config):
        running = self.agent(config=config)
        self.wait_indexed(running, USERS * 2)
        return running

    def work(self, running):
        """All threads of the agent get something to do, so that each has opened what it opens."""
        def search(number):
            with running.client() as client:
                for i in range(SEARCHES):
                    client.rpc("search", user_id=f"u{(number + i) % USERS + 1}", query="amber")
                    client.rpc("refresh", user_id=f"u{(number + i) % USERS + 1}", full=True)
        workers = [threading.Thread(target=search, args=(number,)) for number in range(CLIENTS)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        running.disconnect()

    def test_threads_follow_the_configuration(self):
        for config, wanted in (
                ({}, THREADS + REFRESHERS + READERS + 7),
                ({"ipc": {"threads": 9}}, 9 + REFRESHERS + READERS + 7),
                ({"sync": {"refreshers": 5, "readers": 3}}, THREADS + 5 + 3 + 7),
                ({"ipc": {"events": "off"}}, THREADS + REFRESHERS + READERS + 6)):
            with self.subTest(config=config):
                running = self.start(**config)
                self.assertEqual(threads_of(running.pid), wanted)
                self.work(running)
                self.assertEqual(threads_of(running.pid), wanted)
                running.stop()

    def test_descriptors_are_bounded_by_the_configuration(self):
        for config, threads, refreshers in (({}, THREADS, REFRESHERS),
                                            ({"ipc": {"threads": 9}, "sync": {"refreshers": 5}}, 9, 5)):
            with self.subTest(config=config):
                running = self.start(**config)
                self.work(running)
                bound = 25 + 2 * (threads + refreshers + 5)
                held = wait_until(lambda: self.at_rest(running, bound), what=f"at most {bound} descriptors")
                with running.client() as one, running.client() as other:
                    one.rpc("ping")
                    other.rpc("ping")
                    self.assertLessEqual(len(self.held(running)), held + 2)
                running.stop()

    def held(self, running):
        """Descriptors that do not lead into the volume, where threads are for a moment."""
        inside = os.path.join(self.volume, "")
        return [path for path in descriptors_of(running.pid) if not path.startswith(inside)]

    def at_rest(self, running, bound):
        count = len(self.held(running))
        return count <= bound and count

    def test_a_watch_a_user_and_two(self):
        running = self.start()
        self.assertEqual(watches_of(running.pid), USERS + 2)
        running.stop()
        running = self.start(sync={"inotify": False})
        self.assertEqual(watches_of(running.pid), 0)


if __name__ == "__main__":
    unittest.main()
