#!/usr/bin/python3
"""The command lines of the chaos programs: what cannot be is refused, with the option and what it may be."""

import os
import re
import subprocess
import unittest

from process import BUILD

FAULTS, EXPLORER, REPLAY = (os.path.join(BUILD, "chaos", name, "run") for name in ("faults", "explorer", "replay"))
NETVOL = os.path.join(BUILD, "chaos", "netvol", "netvol")

WRONG = (
    (FAULTS, "--source", "nope", "file, sqlite, step or allocation"),
    (FAULTS, "--fault", "nope", "a fault"),
    (FAULTS, "--scenario", "nope", "a scenario"),
    (FAULTS, "--mode", "nope", "once, persistent or both"),
    (FAULTS, "--at", "0", "from 1"),
    (FAULTS, "--at", "3x", "from 1"),
    (FAULTS, "--at", "99999999999999999999", "from 1"),
    (FAULTS, "--stride", "0", "from 1"),
    (FAULTS, "--budget", "nan", "seconds"),
    (FAULTS, "--budget", "0", "seconds, from 0.1"),
    (FAULTS, "--seed", "-1", "a number"),
    (FAULTS, "--jobs", "257", "from 1 to 256"),
    (EXPLORER, "--scenario", "nope", "a scenario"),
    (EXPLORER, "--bound", "+", "a number"),
    (EXPLORER, "--bound", "-1", "a number"),
    (EXPLORER, "--seconds", "soon", "seconds"),
    (EXPLORER, "--walks", "-1", "a number"),
    (EXPLORER, "--seed", "", "a number"),
    (EXPLORER, "--twice", "1.5", "a number"),
    (EXPLORER, "--jobs", "0", "from 1"),
    (EXPLORER, "--shrink", "-1", "seconds"),
    (EXPLORER, "--slice", "nope", "mutants"),
    (REPLAY, "--repeat", "0", "from 1"),
    (REPLAY, "--seed", "x", "a number"),
    (REPLAY, "--rounds", "many", "from 1"),
    (REPLAY, "--seconds", "4294967296", "from 1 to 4294967295"),
)


class ChaosOptions(unittest.TestCase):
    def run_it(self, *command):
        return subprocess.run(command, text=True, capture_output=True, timeout=60, check=False)

    def test_a_value_that_cannot_be(self):
        for program, option, value, allowed in WRONG:
            with self.subTest(program=program, option=option, value=value):
                done = self.run_it(program, option, value)
                self.assertEqual((done.returncode, done.stdout), (2, ""), done)
                self.assertRegex(done.stderr, f"^{option} .*: must be ")
                self.assertIn(allowed, done.stderr)

    def test_what_is_no_option(self):
        for program in (FAULTS, EXPLORER, REPLAY):
            for word in ("--nope", "nope"):
                done = self.run_it(program, word)
                self.assertEqual((done.returncode, done.stdout), (2, ""), done)
                self.assertIn(word, done.stderr)

    def test_help_is_no_error(self):
        for program in filter(os.path.exists, (FAULTS, EXPLORER, REPLAY, NETVOL)):
            done = self.run_it(program, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""), done)
            self.assertRegex(done.stdout, "^usage: ")

    def test_faults_that_there_are_not(self):
        done = self.run_it(FAULTS, "--source", "file", "--fault", "memory")
        self.assertEqual(done.returncode, 2, done)
        self.assertIn("no fault", done.stderr)

    def test_an_operation_that_there_is_not(self):
        one = (FAULTS, "--scenario", "create", "--fault", "eio", "--mode", "once", "--at")
        done = self.run_it(*one, "100000")
        self.assertEqual(done.returncode, 1, done)
        count = int(self.expect(done.stdout, r"nothing failed: there are (\d+) such operations\n"))
        self.assertEqual(self.run_it(*one, str(count)).returncode, 0)
        self.assertEqual(self.run_it(*one, str(count + 1)).returncode, 1)

    def test_a_schedule_that_there_is_not(self):
        scenario = self.expect(self.run_it(EXPLORER, "--list").stdout, r"^(\S+) ")
        for schedule in ("#0", "#x", "#"):
            done = self.run_it(EXPLORER, "--replay", f"{scenario}:{schedule}")
            self.assertEqual(done.returncode, 2, done)
            self.assertIn(schedule, done.stderr)

    def expect(self, text, pattern):
        self.assertRegex(text, pattern)
        return re.search(pattern, text).group(1)


if __name__ == "__main__":
    unittest.main()
