#!/usr/bin/python3
"""The volume that misbehaves (chaos/netvol): each way of misbehaving is what it says, and otherwise it is a volume."""

import contextlib
import ctypes
import errno
import fcntl
import io
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

from netvol import EXIT_NO_FUSE, Netvol, NetvolError
from process import BUILD, ROOT, binary, skip, wait_until

AT_FDCWD, AT_STATX_FORCE_SYNC = -100, 0x2000
STATX_BASIC_STATS, STATX_SIZE_AT, STATX_SIZE = 0x7ff, 40, 256
IN_CREATE, IN_NONBLOCK = 0x100, 0x800
HOUR_NS = 3600 * 10**9
LIBC = ctypes.CDLL(None, use_errno=True)


def forced_size(path):
    """The size that the server tells when it must be asked."""
    buffer = ctypes.create_string_buffer(STATX_SIZE)
    if LIBC.statx(AT_FDCWD, os.fsencode(path), AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, buffer) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return int.from_bytes(buffer.raw[STATX_SIZE_AT:STATX_SIZE_AT + 8], sys.byteorder)


def write(path, text, mode="w"):
    with open(path, mode, encoding="utf-8") as file:
        file.write(text)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def replace(path, text):
    """As the peers do it: a new file takes the place of the old one."""
    write(path + ".new", text)
    os.rename(path + ".new", path)


def took_s(act):
    begun = time.monotonic()
    act()
    return time.monotonic() - begun


class Background:
    """A call in a thread of its own."""

    def __init__(self, act, *arguments):
        self.value = None
        self.problem = None
        self.thread = threading.Thread(target=self.run, args=(act, *arguments), daemon=True)
        self.thread.start()

    def run(self, act, *arguments):
        try:
            self.value = act(*arguments)
        except OSError as problem:
            self.problem = problem

    def is_done(self):
        return not self.thread.is_alive()

    def result(self, timeout_s=15.0):
        self.thread.join(timeout_s)
        if self.thread.is_alive():
            raise AssertionError("it hangs")
        if self.problem:
            raise self.problem
        return self.value


class VolumeCase(unittest.TestCase):
    """Two nodes: `self.a` and `self.b` are paths of theirs, `self.backing` what the server has."""

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="mst-")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.volume = Netvol(self.directory, nodes=2)
        self.addCleanup(self.volume.close)
        self.backing = self.volume.backing
        self.nodes = self.volume.nodes

    def a(self, *names):
        return os.path.join(self.nodes[0].path, *names)

    def b(self, *names):
        return os.path.join(self.nodes[1].path, *names)

    def behind(self, *names):
        return os.path.join(self.backing, *names)

    def fails(self, name, act, *arguments):
        with self.assertRaises(OSError) as caught:
            act(*arguments)
        self.assertEqual(errno.errorcode[caught.exception.errno], name)

    def descriptors(self):
        self.volume.command("help")  # our own connection is one
        return len(os.listdir(f"/proc/{self.volume.process.pid}/fd"))


    def await_closed(self):
        """The kernel tells of a close when it has time."""
        wait_until(lambda: [node.state()["open"] for node in self.nodes] == [0, 0], 5, "that nothing is open")


class Program(unittest.TestCase):
    """Start, end and refusals."""

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="mst-")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.program = binary("chaos/netvol/netvol", BUILD)
        if not os.path.exists(self.program):
            skip("netvol was not built: libfuse3 is missing")

    def run_with(self, *arguments):
        done = subprocess.run([self.program, *arguments], capture_output=True, text=True, timeout=20,
                              stdin=subprocess.DEVNULL, check=False)
        if done.returncode == EXIT_NO_FUSE:
            skip(f"no mounts by FUSE are possible here: {done.stderr.strip()}")
        return done

    def test_help_and_usage(self):
        done = self.run_with("--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("--control SOCKET", done.stdout)
        for wrong in ([], ["--control"], ["--control", "x"], ["--control", "x", "backing"], ["--nonsense"],
                      ["backing", "node"]):
            with self.subTest(arguments=wrong):
                done = self.run_with(*wrong)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn("usage:", done.stderr)

    def test_what_cannot_be_started_says_why_and_leaves_nothing(self):
        control = os.path.join(self.directory, "control")
        backing, node = os.path.join(self.directory, "backing"), os.path.join(self.directory, "node")
        missing = os.path.join(self.directory, "missing")
        os.mkdir(backing)
        os.mkdir(node)
        for name, arguments in (("backing", [control, missing, node]),
                                ("mountpoint", [control, backing, node, missing]),
                                ("socket", [os.path.join(missing, "control"), backing, node])):
            with self.subTest(missing=name):
                done = self.run_with("--control", *arguments)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertIn("netvol: ", done.stderr)
                self.assertFalse(os.path.ismount(node))
                self.assertFalse(os.path.exists(control))

    def test_where_no_mounts_are_possible_tests_are_skipped(self):
        if os.geteuid() != 0:
            skip("needs root")
        program = os.path.join(self.directory, "netvol")
        for missing, launcher in (("permission", 'setpriv --bounding-set=-sys_admin "$@"'),
                                  ("/dev/fuse", 'unshare -m sh -c "mount -t tmpfs none /dev; $*"')):
            write(program, f'#!/bin/sh\nset -- {self.program} "$@"\nexec {launcher}\n')
            os.chmod(program, 0o755)
            directory = os.path.join(self.directory, str(len(missing)))
            os.mkdir(directory)
            with self.subTest(missing=missing), mock.patch("netvol.binary", return_value=program), \
                    contextlib.redirect_stderr(io.StringIO()) as told, \
                    self.assertRaisesRegex(unittest.SkipTest, "(?s)no mounts by FUSE are possible here: .*netvol: "):
                Netvol(directory)
            self.assertIn("SKIPPED: no mounts", told.getvalue())

    def test_a_second_one_does_not_take_the_socket(self):
        with Netvol(self.directory, nodes=1) as volume:
            other = os.path.join(self.directory, "other")
            os.mkdir(other)
            done = self.run_with("--control", volume.socket_path, volume.backing, other)
            self.assertEqual(done.returncode, 1)
            self.assertIn("Address already in use", done.stderr)
            self.assertEqual(volume.command("nodes")[0]["path"], volume.node(0).path)

    def test_a_signal_or_the_end_of_input_unmounts(self):
        for name, end in (("SIGTERM", lambda process: process.send_signal(signal.SIGTERM)),
                          ("SIGINT", lambda process: process.send_signal(signal.SIGINT)),
                          ("end of input", lambda process: process.stdin.close())):
            directory = os.path.join(self.directory, name)
            os.mkdir(directory)
            volume = Netvol(directory, nodes=2)
            self.addCleanup(volume.disconnect)
            write(os.path.join(volume.node(1).path, "file"), "text")
            kept = os.open(os.path.join(volume.node(0).path, "file"), os.O_RDONLY)
            self.addCleanup(os.close, kept)
            end(volume.process)
            with self.subTest(end=name):
                self.assertEqual(volume.process.wait(20), 0, volume.process.stderr.read())
                self.assertEqual([os.path.ismount(node.path) for node in volume.nodes], [False, False])
                self.assertEqual(os.listdir(volume.backing), ["file"])
                self.assertFalse(os.path.exists(volume.socket_path))
                with self.assertRaises(OSError):
                    os.pread(kept, 1, 0)

    def test_one_that_was_killed_leaves_no_mount_to_the_next_test(self):
        volume = Netvol(self.directory, nodes=2)
        volume.process.kill()
        with self.assertRaisesRegex(AssertionError, "ended with -9"):
            volume.close()
        self.assertNotIn(self.directory, read("/proc/mounts"))

    def test_it_ends_with_the_last_mount(self):
        volume = Netvol(self.directory, nodes=2)
        self.addCleanup(volume.disconnect)
        for node in volume.nodes:
            LIBC.umount2(os.fsencode(node.path), 0)
        self.assertEqual(volume.process.wait(20), 1)
        self.assertIn(b"all mounts have gone", volume.process.stderr.read())


class Control(VolumeCase):
    def refused(self, *words):
        with self.assertRaises(NetvolError) as caught:
            self.volume.command(*words)
        return str(caught.exception)

    def test_what_is_no_command_is_refused_and_changes_nothing(self):
        before = self.nodes[0].knobs()
        for expected, *words in (
                ("no such command", "nonsense"), ("no such command", ""), ("no such node", "get", "2"),
                ("no such knob", "set", "all", "nonsense", "1"), ("no value", "set", "all", "attr_cache_s", "-1"),
                ("no value", "set", "all", "attr_cache_s", "nan"), ("no value", "set", "all", "flock", "some"),
                ("no value", "set", "all", "time_grain_ns", "1.5"),
                ("no value", "set", "0", "attr_cache_s", "1", "read"),
                ("no such operation", "set", "0", "latency_us", "1", "nonsense"), ("NODE KNOB VALUE", "set", "0"),
                ("no such errno", "fail", "all", "open", "*", "ENONSENSE"), ("no such errno", "gone", "all", "EXYZ"),
                ("no such operation", "hang", "all", "nonsense", "*"),
                ("no option", "hang", "all", "open", "*", "late=1"),
                ("no option", "fail", "all", "open", "*", "EIO", "a=1"),
                ("no option", "fail", "all", "open", "*", "EIO", "count=-1"),
                ("no option", "fail", "all", "open", "*", "EIO", "probability=2"),
                ("no option", "fail", "all", "open", "*", "EIO", "=1"),
                ("no such rule", "remove", "99"), ("no number", "release", "x"), ("one node", "get", "all"),
                ("No such file", "swap", "all", "/nowhere/at/all"), ("takes no words", "rules", "all")):
            with self.subTest(words=words):
                self.assertIn(expected, self.refused(*words))
        self.assertEqual(self.nodes[0].knobs(), before)
        self.assertEqual(self.volume.rules(), [])

    def test_every_knob_is_set_and_read_for_one_node_or_all(self):
        table = {knob["name"]: knob for knob in self.volume.command("knobs")}
        for name, knob in table.items():
            with self.subTest(knob=name):
                for value in (knob["most"], knob["least"]):
                    self.volume.set(name, value)
                self.assertEqual(self.nodes[0].get(name), self.nodes[1].get(name))
                self.nodes[1].set(name, knob["most"])
                self.assertNotEqual(self.nodes[0].get(name), self.nodes[1].get(name))
        self.assertEqual(set(self.nodes[0].knobs()), set(table))
        self.assertEqual(table["flock"]["values"], ["across", "node", "none"])
        self.assertEqual(self.nodes[1].get("flock"), "none")
        self.nodes[0].set("latency_us", 7, operation="read")
        self.assertEqual({name for name, value in self.nodes[0].get("latency_us").items() if value}, {"read"})

    def test_the_readme_names_everything(self):
        text = read(os.path.join(ROOT, "chaos", "netvol", "README.md"))
        named = [one.split(maxsplit=1)[0] for one in self.volume.command("help").split("; ")]
        named += [*self.nodes[0].knobs(), *self.nodes[0].counts()]
        self.assertEqual([name for name in named if not re.search(rf"`{name}[ `]", text)], [])

    def test_names_of_any_kind_pass_through_rules_and_trace(self):
        names = ["with blank", 'quote"d', "back\\slash", "new\nline", "\u00fcml\u00e4ut", os.fsdecode(b"\xff\xfe")]
        self.volume.trace_on()
        for name in names:
            with self.subTest(name=name):
                rule = self.nodes[0].fail("create", name.replace("\\", "\\\\"), "EDQUOT", count=1)
                self.fails("EDQUOT", write, self.a(name), "text")
                self.assertEqual(rule.fired(), 1)
                rule.remove()
                write(self.a(name), "text")
                self.assertEqual(read(self.b(name)), "text")
        self.assertEqual(sorted(os.listdir(self.b())), sorted(names))
        trace = self.volume.trace()
        self.assertEqual([one["name"] for one in trace if one["operation"] == "create"],
                         [name for name in names for _ in range(2)])
        listed = [name for one in trace if one["operation"] == "readdir" for name in one["names"]]
        self.assertEqual(sorted(listed), sorted(names))

    def test_several_may_be_connected(self):
        connection = socket.socket(socket.AF_UNIX)
        self.addCleanup(connection.close)
        connection.connect(self.volume.socket_path)
        connection.sendall(b"nodes\nnonsense\n")
        with connection.makefile() as answers:
            self.assertTrue(answers.readline().startswith("ok ["))
            self.assertTrue(answers.readline().startswith("error no such command"))
            self.assertEqual(len(self.volume.command("nodes")), 2)


class Plain(VolumeCase):
    """With no knob set it is one volume, seen alike by all."""

    def test_all_operations(self):
        os.makedirs(self.a("d/e"))
        write(self.a("d/file"), "text")
        self.assertEqual((read(self.b("d/file")), read(self.behind("d/file"))), ("text", "text"))
        os.symlink("file", self.a("d/link"))
        self.assertEqual((os.readlink(self.b("d/link")), read(self.b("d/link"))), ("file", "text"))
        os.link(self.a("d/file"), self.a("d/twin"))
        self.assertEqual(os.stat(self.b("d/twin")).st_nlink, 2)
        self.assertEqual(os.stat(self.b("d/twin")).st_ino, os.stat(self.behind("d/file")).st_ino)
        os.chmod(self.a("d/file"), 0o640)
        os.chown(self.a("d/file"), 7, 8)
        os.utime(self.a("d/file"), ns=(10**18, 10**18 + 5))
        os.truncate(self.a("d/file"), 2)
        found = os.stat(self.b("d/file"))
        self.assertEqual((found.st_mode & 0o777, found.st_uid, found.st_gid, found.st_size), (0o640, 7, 8, 2))
        os.utime(self.a("d/link"), ns=(1, 2 * 10**9), follow_symlinks=False)
        self.assertEqual(os.lstat(self.b("d/link")).st_mtime_ns, 2 * 10**9)
        self.assertEqual(sorted(os.listdir(self.b("d"))), ["e", "file", "link", "twin"])
        os.rename(self.a("d/file"), self.a("d/e/moved"))
        self.assertEqual(read(self.b("d/e/moved")), "te")
        self.assertEqual(LIBC.renameat2(AT_FDCWD, os.fsencode(self.a("d/twin")), AT_FDCWD,
                                        os.fsencode(self.a("d/link")), 1), -1)  # RENAME_NOREPLACE
        self.assertEqual(ctypes.get_errno(), errno.EEXIST)
        with open(self.a("d/twin"), "r+b") as file:
            os.fsync(file.fileno())
            file.truncate(1)
            file.seek(3)
            file.write(b"more")
        self.assertEqual(read(self.b("d/twin")), "t\0\0more")
        write(self.b("d/twin"), "!", "a")
        self.assertEqual(read(self.a("d/twin")), "t\0\0more!")
        directory = os.open(self.a("d"), os.O_RDONLY)
        os.fsync(directory)
        os.close(directory)
        self.assertTrue(os.access(self.a("d/twin"), os.R_OK))
        self.assertGreater(os.statvfs(self.a()).f_blocks, 0)
        self.fails("ENOTSUP", os.listxattr, self.a("d/twin"))
        self.fails("ENOTEMPTY", os.rmdir, self.a("d"))
        shutil.rmtree(self.a("d"))
        self.assertEqual((os.listdir(self.b()), os.listdir(self.behind())), ([], []))

    def test_a_long_listing_is_complete(self):
        names = {f"a_rather_long_name_of_a_file_{number:04}" for number in range(1500)}
        for name in names:
            write(self.behind(name), "")
        self.assertEqual(set(os.listdir(self.a())), names)
        with os.scandir(self.b()) as entries:
            self.assertEqual({entry.name for entry in entries if entry.is_file()}, names)

    def test_events_of_another_node_are_not_heard(self):
        watch = LIBC.inotify_init1(IN_NONBLOCK)
        self.addCleanup(os.close, watch)
        self.assertGreaterEqual(LIBC.inotify_add_watch(watch, os.fsencode(self.b()), IN_CREATE), 0)
        write(self.a("one"), "text")
        self.assertTrue(os.path.exists(self.b("one")))
        self.fails("EAGAIN", os.read, watch, 4096)
        write(self.b("two"), "text")
        self.assertIn(b"two", os.read(watch, 4096))

    def test_a_file_that_another_node_has_removed_is_a_stale_handle(self):
        for name, remove in (("removed", os.unlink), ("replaced", lambda path: replace(path, "new"))):
            with self.subTest(name), open(self.create("file", "old"), "rb", buffering=0) as file:
                self.assertEqual(os.pread(file.fileno(), 9, 0), b"old")
                remove(self.a("file"))
                self.fails("ESTALE", os.pread, file.fileno(), 9, 0)
                self.fails("ESTALE", os.fstat, file.fileno())
                self.fails("ESTALE", fcntl.flock, file.fileno(), fcntl.LOCK_SH)
        os.mkdir(self.b("gone"))
        directory = os.open(self.b("gone"), os.O_RDONLY)
        self.addCleanup(os.close, directory)
        os.rmdir(self.a("gone"))
        self.fails("ESTALE", os.listdir, directory)

    def create(self, name, text):
        write(self.b(name), text)
        return self.b(name)


class Caches(VolumeCase):
    """What the kernel of a node keeps."""

    def test_attributes_and_force(self):
        write(self.a("file"), "short")
        self.volume.set("attr_cache_s", 60)
        self.volume.set("entry_cache_s", 60)
        self.assertEqual(os.stat(self.b("file")).st_size, 5)
        write(self.a("file"), "and longer", "a")
        self.assertEqual(os.stat(self.b("file")).st_size, 5)
        self.assertEqual(os.stat(self.a("file")).st_size, 15)  # its own writes a node knows
        self.assertEqual(forced_size(self.b("file")), 15)
        self.assertEqual(os.stat(self.b("file")).st_size, 15)

    def test_attributes_are_kept_no_longer_than_said(self):
        write(self.a("file"), "short")
        self.nodes[1].set("attr_cache_s", 0.3)
        self.nodes[1].set("entry_cache_s", 60)
        self.assertEqual(os.stat(self.b("file")).st_size, 5)
        write(self.a("file"), "and longer", "a")
        wait_until(lambda: os.stat(self.b("file")).st_size == 15, 5, "new attributes")

    def test_a_name_that_stands_for_another_file_since(self):
        write(self.a("file"), "old")
        self.nodes[1].set("attr_cache_s", 60)
        self.nodes[1].set("entry_cache_s", 60)
        old = os.stat(self.b("file")).st_ino
        replace(self.a("file"), "newer")
        self.assertEqual(os.stat(self.b("file")).st_ino, old)
        self.assertEqual(read(self.b("file")), "newer")  # stale, so the kernel has asked again
        self.assertNotEqual(os.stat(self.b("file")).st_ino, old)

    def test_a_name_that_did_not_exist(self):
        self.nodes[1].set("negative_cache_s", 60)
        self.assertFalse(os.path.exists(self.b("file")))
        write(self.a("file"), "text")
        self.assertFalse(os.path.exists(self.b("file")))
        self.fails("ENOENT", forced_size, self.b("file"))
        self.assertEqual(os.listdir(self.b()), ["file"])
        self.nodes[0].set("negative_cache_s", 0)
        self.assertFalse(os.path.exists(self.a("other")))
        write(self.behind("other"), "text")
        self.assertTrue(os.path.exists(self.a("other")))

    def test_a_listing(self):
        write(self.a("one"), "")
        for knob in ("attr_cache_s", "listing_cache_s"):
            self.nodes[1].set(knob, 60)
        for _ in range(2):  # the first makes the time of access unknown, so that attributes are asked for again
            self.assertEqual(os.listdir(self.b()), ["one"])
        write(self.a("two"), "")
        before = self.nodes[1].counts()["readdir"]
        self.assertEqual(os.listdir(self.b()), ["one"])
        self.assertEqual(self.nodes[1].counts()["readdir"], before)
        self.assertTrue(os.path.exists(self.b("two")))
        self.nodes[1].set("listing_cache_s", 0)
        self.assertEqual(sorted(os.listdir(self.b())), ["one", "two"])

    def test_data(self):
        write(self.a("file"), "old bytes")
        self.nodes[1].set("data_cache_s", 60)
        self.assertEqual(read(self.b("file")), "old bytes")
        write(self.a("file"), "new bytes", "r+")
        self.assertEqual(read(self.b("file")), "old bytes")
        self.nodes[1].set("data_cache_s", 0)
        self.assertEqual(read(self.b("file")), "new bytes")


class Lags(VolumeCase):
    """What a client holds on to, whoever asks."""

    def test_attributes_under_fresh_bytes(self):
        write(self.a("file"), "short")
        self.nodes[1].set("attr_lag_s", 60)
        old = os.stat(self.b("file"))
        write(self.a("file"), "and longer", "a")
        self.assertEqual((os.stat(self.b("file")), forced_size(self.b("file"))), (old, 5))
        with open(self.b("file"), "rb", buffering=0) as file:
            self.assertEqual(os.fstat(file.fileno()).st_size, 5)
            self.assertEqual(os.pread(file.fileno(), 100, 0), b"shortand longer")
            self.assertEqual(os.fstat(file.fileno()).st_mtime_ns, old.st_mtime_ns)
        write(self.b("file"), "!", "a")
        self.assertEqual(os.stat(self.b("file")).st_size, 16)  # what it did itself it knows
        write(self.a("file"), "?", "a")
        self.assertEqual(os.stat(self.b("file")).st_size, 16)
        self.nodes[1].set("attr_lag_s", 0)
        self.assertEqual(os.stat(self.b("file")).st_size, 17)

    def test_a_lag_ends(self):
        write(self.a("file"), "short")
        self.nodes[1].set("attr_lag_s", 0.3)
        self.assertEqual(os.stat(self.b("file")).st_size, 5)
        write(self.a("file"), "and longer", "a")
        wait_until(lambda: os.stat(self.b("file")).st_size == 15, 5, "new attributes")

    def test_a_listing_under_new_attributes(self):
        write(self.a("one"), "")
        self.nodes[1].set("listing_lag_s", 60)
        self.assertEqual(os.listdir(self.b()), ["one"])
        write(self.a("two"), "")
        os.unlink(self.a("one"))
        self.assertEqual(os.stat(self.b()).st_mtime_ns, os.stat(self.behind()).st_mtime_ns)
        self.assertEqual(os.listdir(self.b()), ["one"])
        self.assertEqual((os.path.exists(self.b("one")), os.path.exists(self.b("two"))), (False, True))
        with os.scandir(self.b()) as entries:
            self.assertEqual([entry.name for entry in entries], ["one"])
        write(self.b("three"), "")
        self.assertEqual(sorted(os.listdir(self.b())), ["three", "two"])

    def test_a_name_that_did_not_exist(self):
        self.nodes[1].set("negative_lag_s", 60)
        self.fails("ENOENT", os.stat, self.b("file"))
        write(self.a("file"), "text")
        self.fails("ENOENT", forced_size, self.b("file"))
        self.fails("ENOENT", read, self.b("file"))
        self.assertEqual(os.listdir(self.b()), ["file"])
        self.fails("EEXIST", os.open, self.b("file"), os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        self.nodes[1].set("negative_lag_s", 0)
        self.assertEqual(read(self.b("file")), "text")
        self.nodes[1].set("negative_lag_s", 60)
        self.fails("ENOENT", os.stat, self.b("own"))
        write(self.b("own"), "text")
        self.assertEqual(read(self.b("own")), "text")


class Times(VolumeCase):
    def test_granularity(self):
        write(self.behind("file"), "text")
        at_ns = 1_700_000_001_987_654_321
        os.utime(self.behind("file"), ns=(at_ns, at_ns))
        for grain_ns, told_ns in ((1, at_ns), (10_000_000, 1_700_000_001_980_000_000),
                                  (10**9, 1_700_000_001 * 10**9), (2 * 10**9, 1_700_000_000 * 10**9)):
            self.nodes[1].set("time_grain_ns", grain_ns)
            found = os.stat(self.b("file"))
            with self.subTest(grain_ns=grain_ns):
                self.assertEqual((found.st_mtime_ns, found.st_atime_ns), (told_ns, told_ns))
                self.assertEqual(found.st_ctime_ns, os.stat(self.behind("file")).st_ctime_ns // grain_ns * grain_ns)
        self.assertEqual(os.stat(self.a("file")).st_mtime_ns, at_ns)

    def test_a_clock_that_is_ahead_or_behind(self):
        write(self.behind("file"), "text")
        for offset_ns in (HOUR_NS, -HOUR_NS):
            self.nodes[1].set("clock_offset_ms", offset_ns // 10**6)
            with self.subTest(offset_ns=offset_ns):
                self.assertEqual(os.stat(self.b("file")).st_mtime_ns,
                                 os.stat(self.behind("file")).st_mtime_ns + offset_ns)
                os.utime(self.b("file"), ns=(10**18, 10**18))  # a time that is told is no clock's
                self.assertEqual(os.stat(self.b("file")).st_mtime_ns, 10**18)
                os.utime(self.b("file"))
                self.assertAlmostEqual(os.stat(self.b("file")).st_mtime, time.time() + offset_ns / 10**9, delta=60)


class Errors(VolumeCase):
    def kinds(self):
        """For each operation something that needs it, on files that are there."""
        def on_descriptor(name, flags, act):
            descriptor = os.open(self.a(name), flags)
            try:
                return act(descriptor)
            finally:
                os.close(descriptor)

        return {
            "lookup": lambda: os.stat(self.a("d/file")),
            "getattr": lambda: on_descriptor("d/file", os.O_RDONLY, os.fstat),
            "setattr": lambda: os.chmod(self.a("d/file"), 0o600),
            "readlink": lambda: os.readlink(self.a("d/link")),
            "mkdir": lambda: os.mkdir(self.a("d/new_directory")),
            "rmdir": lambda: os.rmdir(self.a("d/new_directory")),
            "symlink": lambda: os.symlink("x", self.a("d/new_link")),
            "unlink": lambda: os.unlink(self.a("d/new_link")),
            "link": lambda: os.link(self.a("d/file"), self.a("d/twin")),
            "rename": lambda: os.rename(self.a("d/twin"), self.a("d/moved")),
            "open": lambda: on_descriptor("d/file", os.O_RDONLY, str),
            "create": lambda: write(self.a("d/created"), "text"),
            "read": lambda: on_descriptor("d/file", os.O_RDONLY, lambda fd: os.pread(fd, 10, 0)),
            "write": lambda: on_descriptor("d/file", os.O_WRONLY, lambda fd: os.pwrite(fd, b"x", 0)),
            "flush": lambda: os.close(os.open(self.a("d/file"), os.O_WRONLY)),
            "fsync": lambda: on_descriptor("d/file", os.O_WRONLY, os.fsync),
            "opendir": lambda: os.listdir(self.a("d")),
            "readdir": lambda: os.listdir(self.a("d")),
            "fsyncdir": lambda: on_descriptor("d", os.O_RDONLY, os.fsync),
            "statfs": lambda: os.statvfs(self.a("d")),
            "access": lambda: os.access(self.a("d/file"), os.R_OK) or self.deny(),
            "flock": lambda: on_descriptor("d/file", os.O_RDONLY, lambda fd: fcntl.flock(fd, fcntl.LOCK_SH)),
        }

    @staticmethod
    def deny():
        """access() without its reason."""
        raise OSError(errno.EIO, "access")

    def test_every_operation(self):
        os.mkdir(self.a("d"))
        write(self.a("d/file"), "text")
        os.symlink("file", self.a("d/link"))
        kinds = self.kinds()
        for operation, act in kinds.items():
            with self.subTest(operation), self.volume.fail(operation, "d*", "EIO") as rule:
                self.fails("EIO", act)
                self.assertGreaterEqual(rule.fired(), 1)
                rule.remove()
                act()
        quiet = {"release", "releasedir"}  # nobody waits for their answers
        self.assertEqual(set(self.nodes[0].counts()), set(kinds) | quiet)
        self.assertTrue(all(self.nodes[0].counts().values()))

    def test_every_errno(self):
        write(self.a("file"), "text")
        for name in ("EIO", "ESTALE", "ENOENT", "ENOSPC", "EDQUOT", "EROFS", "EACCES", "ENOLCK", "EBADF", "ETIMEDOUT"):
            with self.subTest(name), self.volume.fail("open", "file", name):
                self.fails(name, read, self.a("file"))
        with self.volume.fail("open", "file", "EINTR", count=2) as rule:
            self.assertEqual(read(self.a("file")), "text")  # Python asks again
            self.assertEqual(rule.fired(), 2)

    def test_patterns_nodes_and_any(self):
        for user in ("u1", "u2"):
            os.makedirs(self.a("users", user, "facts"))
            write(self.a("users", user, "facts/one"), user)
        with self.nodes[0].fail("any", "users/u1/*", "EIO"):
            self.fails("EIO", read, self.a("users/u1/facts/one"))
            self.fails("EIO", os.listdir, self.a("users/u1/facts"))
            self.assertEqual(read(self.a("users/u2/facts/one")), "u2")
            self.assertEqual(read(self.b("users/u1/facts/one")), "u1")
            self.assertEqual(sorted(os.listdir(self.a("users"))), ["u1", "u2"])
        with self.nodes[0].fail("rename", "users/u1/moved", "EIO"):
            self.fails("EIO", os.rename, self.a("users/u2/facts/one"), self.a("users/u1/moved"))
        with self.nodes[0].fail("opendir", ".", "EACCES"):
            self.fails("EACCES", os.listdir, self.a())
            os.listdir(self.a("users"))

    def answers(self, count):
        """For each of so many reads of a descriptor whether it failed."""
        descriptor = os.open(self.a("file"), os.O_RDONLY)
        found = ""
        for _ in range(count):
            try:
                os.pread(descriptor, 1, 0)
                found += "."
            except OSError:
                found += "x"
        os.close(descriptor)
        return found

    def test_after_and_count(self):
        write(self.a("file"), "text")
        with self.volume.fail("read", "file", "EIO", after=2, count=3) as rule:
            self.assertEqual(self.answers(8), "..xxx...")
            state = rule.state()
            self.assertEqual((state["met"], state["fired"], state["after"], state["count"]), (8, 3, 2, 3))
        self.assertEqual(self.volume.rules(), [])

    def test_chance_is_the_same_with_the_same_seed(self):
        write(self.a("file"), "text")
        runs = []
        for seed in (5, 5, 6):
            with self.volume.fail("read", "file", "EIO", probability=0.3, seed=seed):
                runs.append(self.answers(200))
        self.assertEqual(runs[0], runs[1])
        self.assertNotEqual(runs[0], runs[2])
        for run in runs:
            self.assertTrue(30 < run.count("x") < 90, run)
        with self.volume.fail("read", "file", "EIO", probability=0):
            self.assertEqual(self.answers(20), "." * 20)

    def test_the_first_rule_decides(self):
        write(self.a("file"), "text")
        first = self.volume.fail("open", "file", "EIO", count=1)
        second = self.volume.fail("open", "f*", "EACCES", count=1)
        self.assertEqual([rule["rule"] for rule in self.volume.rules()], [first.number, second.number])
        self.fails("EIO", read, self.a("file"))
        self.fails("EACCES", read, self.a("file"))
        self.assertEqual(read(self.a("file")), "text")
        self.volume.remove_rules()
        self.assertEqual(self.volume.rules(), [])

    def test_done_and_told_to_have_failed(self):
        write(self.a("file"), "text")
        with self.nodes[0].fail("rename", "file", "EIO", late=True):
            self.fails("EIO", os.rename, self.a("file"), self.a("moved"))
        self.assertEqual(read(self.b("moved")), "text")
        with self.nodes[0].fail("create", "created", "ENOSPC", late=True):
            self.fails("ENOSPC", write, self.a("created"), "")
        with self.nodes[0].fail("mkdir", "made", "EIO", late=True):
            self.fails("EIO", os.mkdir, self.a("made"))
        with self.nodes[0].fail("open", "moved", "EIO", late=True), \
                self.nodes[0].fail("opendir", "made", "EIO", late=True):
            self.fails("EIO", read, self.a("moved"))
            self.fails("EIO", os.listdir, self.a("made"))
        self.assertEqual(sorted(os.listdir(self.b())), ["created", "made", "moved"])
        self.assertEqual(self.nodes[0].state()["open"], 0)

    def test_short_reads_and_writes(self):
        write(self.a("file"), "some bytes")
        with open(self.a("file"), "r+b", buffering=0) as file:
            with self.volume.shorten("read", "file", 3, count=1):
                self.assertEqual(os.pread(file.fileno(), 100, 0), b"som")
                self.assertEqual(os.pread(file.fileno(), 100, 0), b"some bytes")
            with self.volume.shorten("any", "file", 2, count=1):
                self.assertEqual(os.pwrite(file.fileno(), b"SOME", 0), 2)
                self.assertEqual(os.pwrite(file.fileno(), b"ME", 2), 2)
        self.assertEqual(read(self.behind("file")), "SOME bytes")


class Waiting(VolumeCase):
    def test_latency_of_one_kind(self):
        write(self.a("file"), "text")
        descriptor = os.open(self.a("file"), os.O_RDONLY)
        self.addCleanup(os.close, descriptor)
        self.nodes[0].set("latency_us", 150_000, operation="read")
        self.assertGreaterEqual(took_s(lambda: os.pread(descriptor, 1, 0)), 0.15)
        readers = [Background(os.pread, descriptor, 1, 0) for _ in range(16)]
        self.assertLess(took_s(lambda: [reader.result() for reader in readers]), 16 * 0.15 / 2)
        self.nodes[0].set("latency_us", 0)
        with self.nodes[0].delay("read", "file", 150_000, count=1):
            self.assertGreaterEqual(took_s(lambda: os.pread(descriptor, 1, 0)), 0.15)
            self.assertLess(took_s(lambda: os.pread(descriptor, 1, 0)), 0.15)
        self.nodes[0].set("latency_us", 100_000)
        self.assertGreaterEqual(took_s(lambda: os.fstat(descriptor)), 0.1)

    def test_what_hangs_hinders_nothing_else(self):
        for name in ("slow", "fast"):
            write(self.a(name), name)
        with self.nodes[0].hang("open", "slow") as rule:
            held = [Background(read, self.a("slow")) for _ in range(40)]
            where = rule.wait_hanging(40)
            self.assertEqual({(one["node"], one["operation"], one["path"]) for one in where}, {(0, "open", "slow")})
            self.assertEqual(read(self.a("fast")), "fast")
            self.assertEqual(read(self.b("slow")), "slow")
            write(self.a("other"), "text")
            self.assertEqual(sorted(os.listdir(self.a())), ["fast", "other", "slow"])
            self.assertFalse(any(one.is_done() for one in held))
        self.assertEqual({one.result() for one in held}, {"slow"})
        self.assertEqual(self.volume.hanging(), [])

    def test_release_lets_go_what_hangs_and_no_more(self):
        write(self.a("file"), "text")
        rule = self.volume.hang("open", "file")
        first = Background(read, self.a("file"))
        rule.wait_hanging()
        rule.release()
        self.assertEqual(first.result(), "text")
        second = Background(read, self.a("file"))
        rule.wait_hanging()
        self.volume.command("release", "all")
        self.assertEqual(second.result(), "text")
        third = Background(read, self.a("file"))
        rule.wait_hanging()
        self.volume.fail("open", "file", "EIO", count=1)
        rule.remove()
        self.fails("EIO", third.result)  # what stands behind the rule counts as well

    def test_who_hangs_can_be_killed(self):
        write(self.a("file"), "text")
        with self.volume.hang("open", "file") as rule:
            victim = subprocess.Popen(["cat", self.a("file")], stdout=subprocess.DEVNULL)
            rule.wait_hanging()
            victim.kill()
            self.assertEqual(victim.wait(10), -signal.SIGKILL)
            wait_until(lambda: not self.volume.hanging(), 5, "the end of what nobody waits for")

    def test_the_volume_ends_though_something_hangs(self):
        write(self.a("file"), "text")
        rule = self.volume.hang("any", "file")
        held = Background(read, self.a("file"))
        rule.wait_hanging()
        self.assertEqual(self.volume.close(), 0)
        self.assertEqual([os.path.ismount(node.path) for node in self.nodes], [False, False])
        held.thread.join(10)
        self.assertTrue(held.is_done())


class Locks(VolumeCase):
    def setUp(self):
        super().setUp()
        write(self.a("lock"), "")
        self.files = {}

    def file(self, name, path):
        """An open file by a name of its own."""
        if name not in self.files:
            self.files[name] = os.open(path, os.O_RDWR)
            self.addCleanup(lambda: name in self.files and os.close(self.files.pop(name)))
        return self.files[name]

    def takes(self, name, path, kind=fcntl.LOCK_EX):
        try:
            fcntl.flock(self.file(name, path), kind | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            return False

    def drop(self, name):
        fcntl.flock(self.files[name], fcntl.LOCK_UN)

    def test_across_nodes_and_with_those_on_the_server(self):
        holders = {"a": self.a("lock"), "again": self.a("lock"), "b": self.b("lock"), "server": self.behind("lock")}
        for holder, path in holders.items():
            self.assertTrue(self.takes(holder, path))
            for other, other_path in holders.items():
                with self.subTest(holder=holder, other=other):
                    self.assertEqual(self.takes(other, other_path), other == holder)
            self.drop(holder)
        self.assertTrue(self.takes("a", self.a("lock"), fcntl.LOCK_SH))
        self.assertTrue(self.takes("b", self.b("lock"), fcntl.LOCK_SH))
        self.assertFalse(self.takes("server", self.behind("lock")))
        os.close(self.files.pop("a"))
        os.close(self.files.pop("b"))
        wait_until(lambda: self.takes("server", self.behind("lock")), 5, "a lock that ends with its file")

    def test_flock_of_the_shell_waits_its_turn(self):
        self.assertTrue(self.takes("a", self.a("lock")))
        waiting = subprocess.Popen(["flock", self.b("lock"), "echo", "mine"], stdout=subprocess.PIPE)
        self.addCleanup(waiting.stdout.close)
        refused = subprocess.run(["flock", "--nonblock", self.b("lock"), "true"], timeout=10, check=False)
        self.assertEqual(refused.returncode, 1)
        self.assertIsNone(waiting.poll())
        self.drop("a")
        self.assertEqual(waiting.communicate(timeout=10)[0], b"mine\n")

    def test_who_waits_can_be_interrupted(self):
        for mode in ("across", "node"):
            self.volume.set("flock", mode)
            self.assertTrue(self.takes("holder", self.b("lock")))
            for number in (signal.SIGTERM, signal.SIGKILL):
                before = self.nodes[1].counts()["flock"]
                waiting = subprocess.Popen(["flock", self.b("lock"), "true"])
                wait_until(lambda: self.nodes[1].counts()["flock"] > before, 5, "a waiter")
                with self.subTest(mode=mode, signal=number):
                    waiting.send_signal(number)
                    self.assertEqual(waiting.wait(10), -number)
            self.drop("holder")
            self.assertTrue(self.takes("holder", self.b("lock")))
            self.drop("holder")

    def test_within_a_node_only(self):
        self.volume.set("flock", "node")
        self.assertTrue(self.takes("a", self.a("lock")))
        self.assertTrue(self.takes("b", self.b("lock")))
        self.assertTrue(self.takes("server", self.behind("lock")))
        self.assertFalse(self.takes("again", self.a("lock")))
        self.assertFalse(self.takes("again", self.a("lock"), fcntl.LOCK_SH))
        waiting = Background(fcntl.flock, self.file("again", self.a("lock")), fcntl.LOCK_EX)
        time.sleep(0.05)
        self.assertFalse(waiting.is_done())
        os.close(self.files.pop("a"))
        waiting.result()
        self.assertTrue(self.takes("again", self.a("lock"), fcntl.LOCK_SH))
        self.assertTrue(self.takes("third", self.a("lock"), fcntl.LOCK_SH))
        self.assertFalse(self.takes("third", self.a("lock")))

    def test_locks_that_keep_nobody_out(self):
        self.volume.set("flock", "none")
        for name in ("one", "two"):
            self.assertTrue(self.takes(name, self.a("lock")))
        self.assertTrue(self.takes("server", self.behind("lock")))

    def test_no_locks(self):
        with self.volume.fail("flock", "lock", "ENOLCK"):
            self.fails("ENOLCK", fcntl.flock, self.file("a", self.a("lock")), fcntl.LOCK_EX)


class Renames(VolumeCase):
    def test_without_a_gap_the_target_is_always_there(self):
        write(self.a("file"), "0")
        ended = threading.Event()
        replacing = Background(lambda: [replace(self.a("file"), str(number)) for number in range(100)] and ended.set())
        while not ended.is_set():
            try:
                os.stat(self.b("file"))
            except OSError as problem:  # replaced again and again between the name and its attributes
                self.assertEqual(problem.errno, errno.ESTALE)
        replacing.result()

    def test_a_gap(self):
        write(self.a("file"), "old")
        self.nodes[0].set("rename_gap_ms", 400)
        write(self.a("new"), "new")
        begun = time.monotonic()
        renaming = Background(os.rename, self.a("new"), self.a("file"))
        wait_until(lambda: not os.path.exists(self.b("file")), 5, "the gap")
        self.assertEqual(os.listdir(self.b()), ["new"])
        wait_until(lambda: os.path.exists(self.b("file")), 5, "the end of the gap")
        self.assertGreaterEqual(time.monotonic() - begun, 0.4)
        renaming.result()
        self.assertEqual(read(self.b("file")), "new")
        self.assertLess(took_s(lambda: os.rename(self.a("file"), self.a("moved"))), 0.4)  # nothing to replace
        self.nodes[0].set("entry_cache_s", 60)
        write(self.a("file"), "newer")
        os.unlink(self.b("file"))
        self.fails("ENOENT", os.rename, self.a("file"), self.a("moved"))  # only the server knows
        self.assertEqual(read(self.b("moved")), "new")


class SillyRenames(VolumeCase):
    def silly(self):
        return [name for name in os.listdir(self.behind()) if name.startswith(".nfs")]

    def test_a_removed_file_keeps_a_name_until_the_last_close(self):
        for name, remove in (("removed", lambda: os.unlink(self.a("file"))),
                             ("replaced", lambda: replace(self.a("file"), "new"))):
            write(self.a("file"), "old")
            first, second = os.open(self.a("file"), os.O_RDWR), os.open(self.a("file"), os.O_RDONLY)
            remove()
            with self.subTest(name):
                self.assertEqual(len(self.silly()), 1)
                self.assertRegex(self.silly()[0], r"^\.nfs[0-9a-f]{16}$")
                self.assertIn(self.silly()[0], os.listdir(self.b()))
                self.assertEqual(os.pread(first, 9, 0), b"old")
                os.pwrite(first, b"OLD", 0)
                self.fails("EBUSY", os.unlink, self.a(self.silly()[0]))
                os.close(first)
                self.assertEqual(os.pread(second, 9, 0), b"OLD")
                os.close(second)
                wait_until(lambda: not self.silly(), 5, "the end of the name")
        self.assertEqual(read(self.b("file")), "new")

    def test_a_last_close_during_the_removal(self):
        ended = threading.Event()

        def open_again_and_again():
            while not ended.is_set():
                try:
                    os.close(os.open(self.a("file"), os.O_RDONLY))
                except OSError as problem:
                    self.assertIn(problem.errno, (errno.ENOENT, errno.ESTALE))

        readers = [Background(open_again_and_again) for _ in range(3)]
        for _ in range(400):
            write(self.a("file"), "text")
            os.unlink(self.a("file"))
        ended.set()
        for reader in readers:
            reader.result()
        wait_until(lambda: not self.silly(), 5, "the end of all names")

    def test_what_is_not_open_here_is_just_removed(self):
        write(self.a("file"), "text")
        with open(self.b("file"), "rb", buffering=0) as elsewhere:
            os.unlink(self.a("file"))
            self.assertEqual(self.silly(), [])
            self.fails("ESTALE", elsewhere.read)

    def test_a_removal_that_fails_leaves_no_second_name(self):
        self.nodes[0].set("entry_cache_s", 60)
        for name in ("file", "other"):
            write(self.a(name), name)
        with open(self.a("file"), "rb", buffering=0) as file:
            os.unlink(self.b("other"))
            self.fails("ENOENT", os.rename, self.a("other"), self.a("file"))  # the kernel believes in it
            self.assertEqual((self.silly(), file.read()), ([], b"file"))

    def test_switched_off(self):
        self.volume.set("silly_rename", "off")
        write(self.a("file"), "text")
        with open(self.a("file"), "rb", buffering=0) as file:
            os.unlink(self.a("file"))
            self.assertEqual(self.silly(), [])
            self.fails("ESTALE", file.read)


class WholeVolume(VolumeCase):
    def test_gone_and_back(self):
        write(self.a("file"), "text")
        with open(self.a("file"), "rb", buffering=0) as file:
            self.volume.gone("EIO")
            for act in (file.read, lambda: os.stat(self.a("file")), lambda: os.listdir(self.a()),
                        lambda: write(self.b("new"), ""), lambda: os.statvfs(self.b())):
                self.fails("EIO", act)
            self.assertEqual(self.nodes[0].state()["gone"], "EIO")
            self.volume.back()
            self.assertEqual((file.read(), os.listdir(self.b())), (b"text", ["file"]))
        self.nodes[1].gone("EHOSTDOWN")
        self.fails("EHOSTDOWN", os.listdir, self.b())
        self.assertEqual(read(self.a("file")), "text")
        self.nodes[1].back()
        self.assertEqual(read(self.b("file")), "text")

    def test_files_closed_while_it_is_gone_are_closed(self):
        write(self.a("file"), "text")
        self.await_closed()
        before = self.descriptors()
        file = os.open(self.a("file"), os.O_RDWR)
        self.volume.gone("EIO")
        self.fails("EIO", os.close, file)
        self.await_closed()
        self.assertEqual(self.descriptors(), before)

    def test_another_directory_comes_back(self):
        other = os.path.join(self.directory, "other")
        shutil.copytree(self.backing, other)
        os.makedirs(self.a("d/e"))
        write(self.a("d/e/file"), "old")
        os.makedirs(os.path.join(other, "d"))
        write(os.path.join(other, "d/new"), "new")
        self.volume.set("entry_cache_s", 60)
        self.volume.set("attr_cache_s", 60)
        directory = os.open(self.a("d/e"), os.O_RDONLY)
        self.addCleanup(os.close, directory)
        with open(self.a("d/e/file"), "rb", buffering=0) as file:
            self.volume.gone("EIO")
            self.volume.swap(other)
            self.fails("ESTALE", file.read)
            self.fails("ESTALE", fcntl.flock, file.fileno(), fcntl.LOCK_EX)
            self.fails("ESTALE", os.listdir, directory)
            self.assertEqual((os.listdir(self.a("d")), read(self.a("d/new"))), (["new"], "new"))
            self.fails("ENOENT", read, self.a("d/e/file"))
            write(self.b("d/more"), "more")
        self.assertEqual(read(os.path.join(other, "d/more")), "more")
        self.volume.swap(self.directory + "/backing")
        self.assertEqual(read(self.a("d/e/file")), "old")
        self.assertFalse(os.path.exists(self.b("d/more")))


class Told(VolumeCase):
    """Counts and trace."""

    def test_counts(self):
        write(self.a("file"), "text")
        self.await_closed()
        before = self.nodes[0].counts()
        descriptor = os.open(self.a("file"), os.O_RDONLY)
        os.pread(descriptor, 10, 0)
        os.pread(descriptor, 10, 0)
        os.close(descriptor)
        self.await_closed()
        after = self.nodes[0].counts()
        self.assertEqual({name: after[name] - before[name] for name in after if after[name] > before[name]},
                         {"lookup": 1, "open": 1, "read": 2, "release": 1})
        both = self.volume.counts()
        self.assertEqual(both, {name: after[name] + self.nodes[1].counts()[name] for name in after})

    def test_a_trace_tells_listings_and_look_ups_in_order(self):
        os.mkdir(self.a("d"))
        write(self.a("d/one"), "text")
        write(self.a("unseen"), "")
        self.assertEqual(self.volume.trace(), [])
        self.volume.trace_on()
        self.assertEqual(os.listdir(self.b("d")), ["one"])
        os.stat(self.b("d/one"))
        self.fails("ENOENT", os.stat, self.b("d/two"))
        os.rename(self.a("d/one"), self.a("d/two"))
        self.assertEqual(os.listdir(self.b("d")), ["two"])
        os.stat(self.b("d/two"))
        self.volume.trace_off()
        os.stat(self.b("unseen"))
        trace = self.volume.trace()
        self.assertEqual([one["seq"] for one in trace], sorted(one["seq"] for one in trace))
        told = [(one["operation"], one["names"] or one["complete"]) if one["operation"] == "readdir"
                else (one["operation"], one["name"], one["error"])
                for one in trace if one["node"] == 1 and one["path"] == "d"
                and one["operation"] in ("lookup", "readdir")]
        self.assertEqual(told, [("readdir", ["one"]), ("readdir", True), ("lookup", "one", None),
                                ("lookup", "two", "ENOENT"), ("readdir", ["two"]), ("readdir", True),
                                ("lookup", "two", None)])
        renamed = [one for one in trace if one["operation"] == "rename"]
        self.assertEqual([(one["node"], one["path"], one["name"], one["to_path"], one["to_name"], one["error"])
                          for one in renamed], [(0, "d", "one", "d", "two", None)])
        self.assertTrue(all(one["begun_ns"] <= one["ended_ns"] for one in trace))
        self.assertEqual(self.volume.trace(), [])

    def test_a_listing_in_several_answers(self):
        names = [f"a_rather_long_name_of_a_file_{number:04}" for number in range(500)]
        for name in names:
            write(self.behind(name), "")
        self.volume.trace_on()
        self.assertEqual(sorted(os.listdir(self.a())), names)
        answers = [one for one in self.volume.trace() if one["operation"] == "readdir"]
        self.assertEqual(sorted(name for one in answers for name in one["names"]), names)
        self.assertEqual([one["complete"] for one in answers if one["names"]][-1:], [True])
        self.assertFalse(answers[0]["complete"])
        self.assertEqual(answers[0]["offset"], 0)
        self.assertGreaterEqual(answers[1]["offset"], len(answers[0]["names"]))  # with "." and ".."

    def test_what_a_listing_shows_is_what_a_cold_reader_looks_up(self):
        """The trace is good enough to find a look-up that no listing has shown."""
        for name in ("one", "two"):
            write(self.behind(name), "")
        self.volume.trace_on()
        for name in os.listdir(self.a()):
            os.stat(self.a(name))
        os.path.exists(self.a("three"))
        listed, unseen = set(), []
        for one in self.volume.trace():
            if one["operation"] == "readdir":
                listed = (listed if one["offset"] else set()) | set(one["names"])
            elif one["operation"] == "lookup" and one["name"] not in listed:
                unseen.append(one["name"])
        self.assertEqual(unseen, ["three"])


class Load(VolumeCase):
    def test_many_files_and_none_of_them_kept(self):
        before = self.descriptors()
        names = [f"file{number}" for number in range(3000)]
        for name in names:
            write(self.behind(name), name)
        for name in names:
            os.stat(self.b(name))
        self.assertEqual(len(os.listdir(self.b())), len(names))
        self.assertEqual(self.nodes[1].state()["inodes"], len(names) + 1)
        self.assertGreaterEqual(self.descriptors(), before + len(names))
        for name in names[:1000]:
            os.unlink(self.b(name))
        for name in names[1000:]:
            os.unlink(self.behind(name))
            self.assertFalse(os.path.exists(self.b(name)))
        wait_until(lambda: self.nodes[1].state()["inodes"] == 1, 10, "nothing but the root")
        wait_until(lambda: self.descriptors() <= before, 10, "no more descriptors than before")

    def work(self, number, until, problems):
        """One of several writers: files of its own, and one that all replace."""
        here = (self.a, self.b)[number % 2]
        os.makedirs(here(f"own{number}"))
        round_number = 0
        while time.monotonic() < until:
            round_number += 1
            path = here(f"own{number}/file{round_number % 7}")
            text = f"{number}:{round_number} " * (round_number % 300 + 1)
            replace(path, text)
            if read(path) != text:
                problems.append(f"{path} is not what was written")
            write(here(f"shared.new{number}"), text)
            os.rename(here(f"shared.new{number}"), here("shared"))
            self.judge_shared(here, problems)
            if round_number % 5 == 0:
                os.unlink(path)
                os.mkdir(here(f"own{number}/directory"))
                os.rmdir(here(f"own{number}/directory"))
            if "shared" not in os.listdir(here()):
                problems.append("a listing lacks a file that was always there")

    def judge_shared(self, here, problems):
        """Whole and of one writer, or replaced by somebody else's while it was read."""
        try:
            words = read(here("shared")).split()
        except OSError as problem:
            if problem.errno != errno.ESTALE:
                problems.append(problem)
            return
        if len(set(words)) != 1 or len(words) != int(words[0].split(":")[1]) % 300 + 1:
            problems.append(f"torn: {set(words)}, {len(words)}")

    def tree(self, root):
        found = {}
        for place, folders, names in os.walk(root):
            for name in folders:
                found[os.path.relpath(os.path.join(place, name), root)] = None
            for name in names:
                path = os.path.join(place, name)
                found[os.path.relpath(path, root)] = (read(path), os.stat(path).st_ino)
        return found

    def test_eight_writers_on_two_nodes(self):
        before = self.descriptors()
        until, problems = time.monotonic() + 2.5, []
        writers = [Background(self.work, number, until, problems) for number in range(8)]
        for writer in writers:
            writer.result(60)
        self.assertEqual(problems, [])
        trees = [self.tree(root) for root in (self.a(), self.b(), self.behind())]
        self.assertGreater(len(trees[2]), 8 * 4)
        self.assertEqual(trees[0], trees[2])
        self.assertEqual(trees[1], trees[2])
        self.await_closed()
        shutil.rmtree(self.a(), ignore_errors=True)
        self.assertEqual(os.listdir(self.behind()), [])
        for node in self.nodes:
            node.forget()
        wait_until(lambda: [node.state()["inodes"] for node in self.nodes] == [1, 1], 10, "nothing but the roots")
        wait_until(lambda: self.descriptors() <= before, 10, "no more descriptors than before")


if __name__ == "__main__":
    unittest.main()
