#!/usr/bin/python3
"""Searches and compares take no more instructions than the limits in tests/bench/counts.py allow."""

import os
import platform
import shutil
import sys
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path[:0] = [os.path.join(ROOT, "tests", "bench"), os.path.join(ROOT, "tests", "support")]

from counts import COMPARE, FALLBACK, SEARCH, Counted, Counter, Limit
from process import BUILD, COUNTS_LINES, IS_SANITIZED, skip


class InstructionCounts(unittest.TestCase):
    def test_no_kind_of_call_takes_more_than_its_limit(self):
        if IS_SANITIZED:
            skip("callgrind and sanitizers do not go together")
        if COUNTS_LINES:
            skip("counting lines takes instructions")
        if platform.machine() != "x86_64":
            skip(f"the limits are of x86_64, this is {platform.machine()}")
        if not shutil.which("valgrind"):
            skip("valgrind is not installed")
        with tempfile.TemporaryDirectory(prefix="mst-") as directory:
            counted = Counter(directory, BUILD).all()
        problems = [problem for problem in (each.problem() for each in counted) if problem]
        if problems:
            self.fail("\n".join(problems))


class Judgement(unittest.TestCase):
    def test_a_count_is_held_against_its_floor_or_against_the_limit_itself(self):
        by_floor = Limit(SEARCH, "search", ratio=2.5)
        alone = Limit(COMPARE, "compare", count=1000)
        for counted, words in (
                (Counted(by_floor, 2500, 1000), None),
                (Counted(by_floor, 2510, 1000), "2,510 instructions a call, 2.51 times the floor's 1,000"),
                (Counted(by_floor, 1200, 1000), "lower the limit"),
                (Counted(alone, 1000, 10), None),
                (Counted(alone, 1001, 10), "compare: 1,001 instructions a call; the limit is 1,000."),
                (Counted(alone, 1001, 10), "callgrind_annotate DIR/compare.out"),
                (Counted(Limit(FALLBACK, "nothing", count=1000), 0, None), "lower the limit")):
            with self.subTest(counted):
                problem = counted.problem()
                self.assertEqual(problem is None, words is None, problem)
                self.assertIn(words or "", problem or "")


if __name__ == "__main__":
    unittest.main()
