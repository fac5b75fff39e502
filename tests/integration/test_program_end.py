#!/usr/bin/python3
"""A program that starts others, told to end: it leaves nothing behind."""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from process import BUILD, ROOT, wait_until

MNT_DETACH = 2
SOON_S = 60.0


class Started:
    """A program with a directory for all that it makes, by which its children and mounts are known."""

    def __init__(self, *command):
        self.directory = tempfile.mkdtemp(prefix="mse-")
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [sys.executable, *command, "--directory", self.directory], cwd=ROOT,
            env={**os.environ, "TMPDIR": self.directory},
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True)

    def said(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def processes(self):
        """What runs of it: pids."""
        mark = b"\0TMPDIR=" + os.fsencode(self.directory) + b"\0"
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
                if mark in b"\0" + file.read():
                    found.append(int(pid))
        return found

    def mounts(self):
        with open("/proc/self/mounts", encoding="utf-8") as file:
            paths = [line.split()[1] for line in file]
        return [path for path in paths if path.startswith(self.directory + "/")]

    def has_written(self, name):
        """Is there a file of this name with something in it?"""
        paths = [os.path.join(top, name) for top, _, names in os.walk(self.directory) if name in names]
        return any(os.path.getsize(path) > 0 for path in paths)

    def close(self):
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        for path in self.mounts():
            ctypes.CDLL(None).umount2(os.fsencode(path), MNT_DETACH)
        self.log.close()
        shutil.rmtree(self.directory, ignore_errors=True)


class ToldToEnd(unittest.TestCase):
    def start_soak(self, volume):
        """One whose workers, third parties and faults are at work."""
        program = Started("chaos/soak/soak.py", "--build", BUILD, "--time", "120", "--agents", "2", "--workers", "2",
                          "--volume", volume)
        self.addCleanup(program.close)
        wait_until(lambda: program.process.poll() is not None or program.has_written("workers1.jsonl"), 60,
                   "a soak that works")
        self.assertIsNone(program.process.poll(), program.said())
        return program

    def expect_end(self, program, number):
        self.assertGreater(len(program.processes()), 2)
        program.process.send_signal(number)
        self.assertEqual(program.process.wait(SOON_S), 128 + number, program.said())
        self.assertEqual(program.processes(), [])
        self.assertEqual(program.mounts(), [])
        self.assertEqual(os.listdir(program.directory), [])
        self.assertNotIn("Traceback", program.said())

    def test_a_soak_on_a_directory(self):
        self.expect_end(self.start_soak("plain"), signal.SIGTERM)

    def test_a_soak_on_a_network_volume(self):
        self.expect_end(self.start_soak("netvol"), signal.SIGINT)


if __name__ == "__main__":
    unittest.main()
