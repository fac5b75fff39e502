#!/usr/bin/python3
"""A first build and a rebuild: how far they are is told, and what is built is served meanwhile."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from agent import Agent
from process import MEMSYNC, MEMSYNCD, ROOT, states

MAKE_VOLUME = os.path.join(ROOT, "tests", "demo", "make_volume.py")
USERS, FACTS = 800, 15
BUILD_S = 120


class Build(unittest.TestCase):
    """One volume for all tests; each has an agent of its own, which begins without an index."""

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(prefix="mst-")
        cls.addClassCleanup(shutil.rmtree, cls.directory, ignore_errors=True)
        cls.volume = os.path.join(cls.directory, "volume")
        subprocess.run([sys.executable, MAKE_VOLUME, cls.volume, "--users", str(USERS),
                        "--facts", str(FACTS), "--agents", "1"],
                       check=True, stdout=subprocess.DEVNULL)

    def setUp(self):
        self.agent = Agent(MEMSYNCD, self.volume, config={"sync": {"refreshers": 1, "readers": 1},
                                                          "log": {"level": "info"}})
        self.addCleanup(self.agent.close)

    def watch(self, until="done"):
        """What `status` says of the build, again and again until it has come that far."""
        seen = []
        deadline = time.monotonic() + BUILD_S
        while not seen or seen[-1]["phase"] != until:
            self.assertLess(time.monotonic(), deadline, seen[-1:])
            seen.append(self.agent.rpc("status")["build"])
            time.sleep(0.005)
        return seen

    def wait_begun(self, percent=10):
        """A status of a build that is under way."""
        def is_begun():
            build = self.agent.rpc("status")["build"]
            return build["phase"] in ("looking", "building") and build["percent"] >= percent and build
        return self.agent.wait_until(is_begun, BUILD_S, "a build that is under way")

    def expect_growth(self, seen):
        """Figures that only grow, by many steps, to the whole."""
        for name in ("percent", "scopes_done", "facts", "elapsed_ms"):
            values = [build[name] for build in seen]
            self.assertEqual(values, sorted(values), name)
        self.assertGreater(len({build["percent"] for build in seen}), 5, seen)
        under_way = [build for build in seen if 0 < build["percent"] < 100]
        self.assertTrue(any("remaining_ms" in build for build in under_way))
        self.assertTrue(all(build["percent"] < 100 for build in seen if build["phase"] != "done"))
        end = seen[-1]
        self.assertEqual((end["percent"], end["scopes_failed"]), (100, 0))
        self.assertEqual(end["scopes_done"], end["scopes_total"])
        status = self.agent.rpc("status")
        self.assertEqual((end["scopes_done"], end["facts"]),
                         (status["index"]["scopes"], status["index"]["facts"]))
        self.assertNotIn("remaining_ms", end)

    def test_progress_grows_to_the_whole(self):
        self.agent.start()
        seen = self.watch()
        self.expect_growth(seen)
        self.assertEqual(seen[-1]["facts_built"], seen[-1]["facts"])
        lines = self.agent.log_lines("event=index.built ")
        self.assertEqual(len(lines), 1)
        self.assertIn(f" scopes={seen[-1]['scopes_done']} failed=0 facts={seen[-1]['facts']} ",
                      lines[0])

    def test_what_is_built_is_served_meanwhile(self):
        self.agent.start()
        before = self.wait_begun()
        built = self.agent.rpc("scopes", limit=5)["scopes"]
        self.assertEqual(len(built), 5)
        answers = [self.agent.rpc("search", query="the", user_id=scope["user_id"])
                   for scope in built]
        after = self.agent.rpc("status")["build"]
        self.assertNotEqual(after["phase"], "done", "the searches were too late to tell anything")
        self.assertLess(before["percent"], 100)
        for answer in answers:
            self.assertEqual(states(answer), ["fresh"])
        self.assertEqual(self.watch()[-1]["percent"], 100)

    def test_what_is_searched_before_its_turn_counts_once(self):
        self.agent.start()
        self.wait_begun(1)
        for user in range(USERS - 20, USERS):
            self.agent.rpc("search", query="tea", user_id=f"u{user}")
        end = self.watch()[-1]
        status = self.agent.rpc("status")
        self.assertEqual((end["scopes_done"], end["facts"]),
                         (status["index"]["scopes"], status["index"]["facts"]))

    def test_the_command_line_tells(self):
        self.agent.start()
        self.wait_begun()
        told = subprocess.run([MEMSYNC, "-e", self.agent.endpoint, "status"], text=True, check=True,
                              capture_output=True).stdout
        self.assertRegex(told, r"(?m)^building  \d+ %, \d+ of \d+ scopes, \d+ facts, \d+ facts/s, ")
        self.watch()
        told = subprocess.run([MEMSYNC, "-e", self.agent.endpoint, "status"], text=True, check=True,
                              capture_output=True).stdout
        self.assertNotIn("building", told)

    def test_a_build_that_was_interrupted_goes_on_where_it_was(self):
        self.agent.start()
        before = self.wait_begun(20)
        self.agent.kill()
        self.agent.start()
        end = self.watch()[-1]
        self.assertEqual((end["percent"], end["scopes_done"]), (100, end["scopes_total"]))
        self.assertGreaterEqual(end["facts"] - end["facts_built"], before["facts"] // 2)
        self.agent.restart()
        warm = self.watch()[-1]
        self.assertEqual((warm["percent"], warm["facts"], warm["facts_built"]), (100, end["facts"], 0))

    def test_a_rebuild_is_told_like_a_first_build(self):
        self.agent.start()
        self.watch()
        self.agent.signal(signal.SIGSTOP)  # or it may begin with one file and lose the others while it builds
        for name in os.listdir(self.agent.index):
            if re.match(r"memsyncd\.sqlite3", name):
                os.unlink(os.path.join(self.agent.index, name))
        self.agent.signal(signal.SIGCONT)
        self.agent.wait_until(lambda: self.agent.rpc("status")["build"]["phase"] != "done", 20,
                              "a rebuild")
        seen = self.watch()
        while seen[0]["phase"] == "waiting":
            del seen[0]
        self.expect_growth(seen)


if __name__ == "__main__":
    unittest.main()
