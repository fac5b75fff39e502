#!/usr/bin/python3
"""The life of an agent's process: start, readiness, signals, configuration, end, and death."""

import errno
import os
import random
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from agent import RpcError
from peer import add, delete, update
from process import MEMSYNCD, ProcessCase, Supervisor, skip, wait_until

KILL_POINTS = (
    "REFRESH_AFTER_PLAN", "SNAPSHOT_BEFORE_CAPTURE", "SNAPSHOT_AFTER_CAPTURE", "SNAPSHOT_AFTER_READ",
    "REFRESH_BEFORE_INSTALL", "INSTALL_BEFORE_COMMIT", "REFRESH_AFTER_INSTALL",
)


def has_pause_points():
    with open(MEMSYNCD, "rb") as file:
        return b"SNAPSHOT_AFTER_CAPTURE" in file.read()


class ServiceManager(ProcessCase):
    def setUp(self):
        super().setUp()
        self.fill(users=2, facts=3)
        self.supervisor = Supervisor(self.directory)
        self.addCleanup(self.supervisor.close)

    def supervised(self, **env):
        return self.agent(env={"NOTIFY_SOCKET": self.supervisor.path, **env})

    def test_readiness_is_told_once_it_answers_and_then_how_it_is_doing(self):
        agent = self.supervised()
        ready = self.supervisor.wait_for(r"^READY=1$")
        self.assertRegex(ready, r"(?m)^STATUS=.+")
        self.assertEqual(self.supervisor.messages.index(ready), 0, "nothing comes before READY=1")
        status = self.supervisor.wait_for(r"^STATUS=.*\b6 facts in 2 scopes")
        self.assertIn(agent.endpoint, status)

    def test_nothing_is_told_before_it_is_ready_when_it_cannot_start(self):
        shutil.rmtree(self.volume)
        agent = self.agent(start=False, env={"NOTIFY_SOCKET": self.supervisor.path})
        agent.start(wait=False)
        self.assertEqual(agent.wait_exit(), 1)
        self.assertIsNone(self.supervisor.receive(0.1))

    def test_the_watchdog_is_fed_several_times_within_its_period(self):
        agent = self.supervised(WATCHDOG_USEC="2000000")
        for _ in range(4):
            self.supervisor.wait_for(r"^WATCHDOG=1$", 4.0)
        fed = [at for at, message in zip(self.supervisor.arrived, self.supervisor.messages)
               if message == "WATCHDOG=1"]
        gaps = sorted(after - before for before, after in zip(fed, fed[1:]))
        self.assertLess(gaps[len(gaps) // 2], 1.0, "half of the period, as the manual asks for")
        self.assertTrue(agent.is_running())

    def test_the_watchdog_is_not_fed_where_none_was_asked_for(self):
        self.supervised()
        self.supervisor.wait_for(r"^STATUS=.*6 facts")
        self.assertNotIn("WATCHDOG=1", self.supervisor.messages)

    def test_a_reload_is_told_from_its_begin_to_its_end(self):
        agent = self.supervised()
        self.supervisor.wait_for(r"^READY=1$")
        agent.signal(signal.SIGHUP)
        begun = self.supervisor.wait_for(r"^RELOADING=1$")
        self.assertRegex(begun, r"(?m)^MONOTONIC_USEC=\d+$")
        self.supervisor.wait_for(r"^READY=1$")

    def test_stopping_is_told(self):
        agent = self.supervised()
        self.supervisor.wait_for(r"^READY=1$")
        self.assertEqual(agent.stop(), 0)
        self.supervisor.wait_for(r"^STOPPING=1$", 1.0)


class Stopping(ProcessCase):
    def slow_agent(self):
        """An agent and a user of whom an answer takes long: somebody holds the lock of a commit."""
        self.fill(users=2)
        agent = self.agent()
        self.wait_indexed(agent, 8)
        held = subprocess.Popen(
            [sys.executable, os.path.join(os.path.dirname(__file__), "..", "support", "peer.py"),
             self.volume, "commit", "--user", "u1", "--no-sync", "--add", "fact_new", "amber new",
             "--hold-after", "fact:1"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(held.communicate)
        self.assertEqual(held.stdout.readline(), "holding\n")
        return agent, held

    def start_slow_refresh(self, client, agent):
        busy = agent.rpc("status")["ipc"]["threads_busy"]
        request = client.send("refresh", user_id="u1", full=True, timeout_ms=20000)
        agent.wait_until(lambda: agent.rpc("status")["ipc"]["threads_busy"] > busy,
                         what="a request that waits")
        return request

    def test_sigterm_ends_an_idle_agent_at_once_and_leaves_no_socket(self):
        self.fill(users=1)
        agent = self.agent()
        begun = time.monotonic()
        self.assertEqual(agent.stop(), 0)
        self.assertLess(time.monotonic() - begun, 5.0)
        left = set(os.listdir(agent.directory)) - {"index", "log", "memsyncd.yaml"}
        self.assertFalse({name for name in left if not name.endswith(".lock")}, left)

    def test_a_request_under_way_is_answered_before_the_end(self):
        agent, held = self.slow_agent()
        with agent.client() as client:
            request = self.start_slow_refresh(client, agent)
            agent.signal(signal.SIGTERM)
            held.communicate("\n")
            reply = client.reply(request, 15.0)
        self.assertIn("result", reply)
        self.assertEqual(reply["result"]["facts"], 5)
        self.assertEqual(agent.wait_exit(), 0)

    def test_a_request_that_hangs_does_not_keep_it_from_leaving(self):
        agent, _ = self.slow_agent()
        with agent.client() as client:
            request = self.start_slow_refresh(client, agent)
            begun = time.monotonic()
            agent.signal(signal.SIGTERM)
            self.assertEqual(agent.wait_exit(12.0), 0)
            self.assertLess(time.monotonic() - begun, 10.5)
            reply = client.reply(request, 1.0)
        self.assertIn("error" if "error" in reply else "result", reply)

    def test_new_requests_during_the_drain_are_told_that_it_is_leaving(self):
        agent, held = self.slow_agent()
        with agent.client() as client, agent.client() as other:
            request = self.start_slow_refresh(client, agent)
            other.rpc("ping")
            agent.signal(signal.SIGTERM)
            wait_until(lambda: "event=agent.stopping" in agent.log())
            try:
                other.rpc("search", query="amber", user_id="u2", timeout_ms=1000)
            except RpcError as refusal:
                self.assertEqual(refusal.kind, "unavailable")
                self.assertTrue(refusal.data["retryable"])
            held.communicate("\n")
            client.reply(request, 15.0)
        self.assertEqual(agent.wait_exit(), 0)

    def test_clients_notice_the_end_at_once_though_the_backend_needs_longer(self):
        self.fill(users=1)
        agent = self.agent()
        self.wait_indexed(agent, 4)
        index = sqlite3.connect(os.path.join(agent.index, "memsyncd.sqlite3"), isolation_level=None)
        self.addCleanup(index.close)
        index.execute("BEGIN IMMEDIATE")
        self.peer.commit("u1", changes=[add("fact_new", "amber late")])
        agent.wait_until(lambda: agent.rpc("status")["sync"]["running"], what="a refresh that waits")
        path = agent.endpoint[len("ipc://"):]
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connected:
            connected.settimeout(4.0)
            connected.connect(path)
            self.assertTrue(connected.recv(64))
            agent.signal(signal.SIGTERM)
            while connected.recv(64):
                pass

        def is_refused():
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as late:
                return late.connect_ex(path) in (errno.ECONNREFUSED, errno.ENOENT)

        wait_until(is_refused, 2.0, "a refusal of new clients")
        self.assertTrue(agent.is_running(), "it still waits for the index")
        index.rollback()
        self.assertEqual(agent.wait_exit(), 0)

    def test_sigterm_twice_and_together_with_sigint_is_one_end(self):
        self.fill(users=1)
        agent = self.agent()
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            agent.signal(number)
        self.assertEqual(agent.wait_exit(), 0)
        self.assertEqual(len(agent.log_lines("event=agent.stopped")), 1)

    def test_sigint_ends_it_like_sigterm(self):
        agent = self.agent()
        agent.signal(signal.SIGINT)
        self.assertEqual(agent.wait_exit(), 0)
        self.assertTrue(agent.log_lines("event=agent.stopped clean=true"))

    def test_sigusr1_logs_the_state_and_nothing_else_happens(self):
        self.fill(users=1)
        agent = self.agent()
        self.wait_indexed(agent, 4)
        agent.signal(signal.SIGUSR1)
        line = agent.wait_until(lambda: agent.log_lines("event=agent.state"))[0]
        self.assertIn('"facts":4', line.replace("\\", ""))
        self.assertEqual(len(agent.search("amber", "u1")), 4)

    def test_sigpipe_and_a_client_that_dies_with_a_request_under_way_are_nothing(self):
        agent, held = self.slow_agent()
        client = agent.client()
        self.start_slow_refresh(client, agent)
        client.close()
        agent.signal(signal.SIGPIPE)
        held.communicate("\n")
        self.assertEqual(len(agent.search("amber", "u1", top_k=10)), 5)


class Reloading(ProcessCase):
    """Configuration that is swapped as container platforms do it: links to a directory of data."""

    def setUp(self):
        super().setUp()
        self.fill(users=1)
        self.mounted = os.path.join(self.directory, "mounted")
        os.mkdir(self.mounted)
        self.running = self.agent(start=False)
        with open(self.running.config_path, encoding="utf-8") as file:
            self.text = file.read()
        self.number = 0
        self.swap("debug")
        os.symlink("..data/memsyncd.yaml", os.path.join(self.mounted, "memsyncd.yaml"))
        self.running.config_path = os.path.join(self.mounted, "memsyncd.yaml")
        self.running.start()

    def swap(self, level, text=None):
        """Makes a new version, turns the link by one rename, and removes the old version."""
        text = text or self.text.replace("level: debug", f"level: {level}")
        old, self.number = self.number, self.number + 1
        version = os.path.join(self.mounted, f"..v{self.number}")
        os.mkdir(version)
        with open(os.path.join(version, "memsyncd.yaml"), "w", encoding="utf-8") as file:
            file.write(text)
        link = os.path.join(self.mounted, "..new")
        os.symlink(f"..v{self.number}", link)
        os.replace(link, os.path.join(self.mounted, "..data"))
        shutil.rmtree(os.path.join(self.mounted, f"..v{old}"), ignore_errors=True)

    def reload(self, event):
        before = len(self.running.log_lines(event))
        self.running.signal(signal.SIGHUP)
        return self.running.wait_until(lambda: self.running.log_lines(event)[before:])[0]

    def logs_searches(self):
        """True when a debug line is written for a change."""
        before = len(self.running.log_lines("event=refresh.done"))
        self.peer.commit("u1", changes=[add(f"fact_x{time.monotonic_ns()}", "amber more")])
        self.running.search("amber", "u1")
        return len(self.running.log_lines("event=refresh.done")) > before

    def test_new_content_is_in_force_after_every_swap(self):
        self.assertTrue(self.logs_searches())
        self.swap("notice")
        self.reload("event=config.reloaded")
        self.assertFalse(self.logs_searches())
        self.swap("debug")
        self.reload("event=config.reloaded")
        self.assertTrue(self.logs_searches())

    def test_content_that_does_not_parse_leaves_the_old_in_force_and_is_logged_once(self):
        self.swap("debug", text="config_version: 1\nlog:\n  level: [\n")
        line = self.reload("event=config.reload ")
        self.assertIn("memsyncd.yaml:", line, "the place is named")
        self.assertEqual(len(self.running.log_lines("event=config.reload ")), 1)
        self.assertTrue(self.logs_searches())
        self.swap("notice")
        self.reload("event=config.reloaded")
        self.assertFalse(self.logs_searches())

    def test_a_wrong_value_and_a_missing_file_leave_the_old_in_force(self):
        self.swap("loud")
        self.assertIn("log.level", self.reload("event=config.reload "))
        self.assertTrue(self.logs_searches())
        os.unlink(os.path.join(self.mounted, "..data"))
        self.reload("event=config.reload ")
        self.assertTrue(self.logs_searches())

    def test_a_changed_key_that_needs_a_restart_is_said_to_need_one(self):
        text = self.text + "sync:\n  readers: 3\n"
        self.swap("notice", text.replace("level: debug", "level: notice"))
        line = self.reload("event=config.reloaded")
        self.assertIn("sync.readers", line)
        self.assertNotIn("ipc.endpoint", line)
        self.assertFalse(self.logs_searches(), "what can be taken over is")

    def test_a_reload_says_what_level_is_in_force_also_when_it_is_the_first_one_again(self):
        for level in ("notice", "debug", "debug"):
            self.swap(level)
            line = self.reload("event=config.reloaded")
            self.assertIn(f"log_level={level}", line)
            self.assertNotIn("restart", line)


class CommandLine(ProcessCase):
    def write_config(self, text):
        path = os.path.join(self.directory, "memsyncd.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def good_config(self):
        return self.write_config(
            f"config_version: 1\nvolume:\n  path: {self.volume}\n"
            f"index:\n  path: {self.directory}/index\n"
            f"ipc:\n  endpoint: ipc://{self.directory}/s\n")

    def test_wrong_usage_ends_with_2_and_a_hint(self):
        for arguments in (["--no-such-option"], ["--config"], ["extra"], ["--check-config=1"],
                          ["-x"], ["--log-level", "loud"], ["--volume", ""],
                          ["--endpoint", "tcp://0.0.0.0:55"]):
            with self.subTest(arguments=arguments):
                done = self.run_agent(*arguments)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn("memsyncd --help", done.stderr)

    def test_a_bad_configuration_ends_with_1_and_its_place(self):
        path = self.write_config(
            f"config_version: 1\nvolume:\n  path: {self.volume}\nsync:\n  readers: 300\n")
        for arguments in ([], ["--check-config"], ["--print-config"]):
            with self.subTest(arguments=arguments):
                done = self.run_agent("--config", path, *arguments)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertIn("memsyncd.yaml:5:12: sync.readers", done.stderr)

    def test_check_config_tells_all_errors_and_the_warnings(self):
        path = self.write_config(
            f"config_version: 1\nvolume:\n  path: {self.volume}\n  lokcs: auto\n"
            "sync:\n  readers: 300\nlog:\n  level: loud\n")
        done = self.run_agent("--config", path, "--check-config")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        for place in (":4:3: unknown key volume.lokcs", ":6:12: sync.readers: ",
                      ":8:10: log.level: "):
            self.assertIn(f"memsyncd.yaml{place}", done.stderr)

    def test_what_only_the_parts_know_is_told_by_check_config_and_by_a_start_with_its_key(self):
        os.symlink(self.volume, os.path.join(self.directory, "link"))
        long = "ipc:///" + 110 * "x"
        for section, key, value, said in (
                ("ipc", "socket_group", "nosuch", "ipc.socket_group: there is no group nosuch"),
                ("ipc", "endpoint", "tcp://0.0.0.0:55", "ipc.endpoint: tcp:// may only listen on "
                 "the loopback interface (127.0.0.0/8 or [::1]), not on 0.0.0.0"),
                ("ipc", "endpoint", long, "ipc.endpoint: the socket path is 111 bytes long"),
                ("ipc", "events", long, "ipc.events: the socket path is 111 bytes long"),
                ("ipc", "endpoint", long[:-6],
                 "ipc.events (ipc.endpoint with .events appended): the socket path is 112 bytes"),
                ("backend", "name", "sundial", 'backend.name: there is no backend "sundial"'),
                ("index", "path", self.volume, "index.path: the index "),
                ("index", "path", ".", "index.path: the index "),
                ("index", "path", "users", "index.path: the index "),
                ("index", "path", f"{self.volume}/users/u1/index", "index.path: the index "),
                ("index", "path", f"{self.directory}/link/agents/x", "index.path: the index ")):
            with self.subTest(key=key, value=value):
                agent = self.agent(start=False, config={section: {key: value}})
                checked = self.run_agent("--config", agent.config_path, "--check-config")
                self.assertEqual((checked.returncode, checked.stdout), (1, ""))
                self.assertIn(f"memsyncd: {said}", checked.stderr)
                agent.start(wait=False)
                self.assertEqual(agent.wait_exit(), 1)
                self.assertIn(said, agent.log().replace("\\", ""))
                if key == "path":
                    self.assertIn(self.volume, checked.stderr)
                    self.assertEqual(os.listdir(self.volume), [])

    def test_an_index_beside_the_memories_is_fine(self):
        self.fill(users=1)
        for path in ("", "users.index", f"{self.directory}/index"):
            agent = self.agent(config={"index": {"path": path}})
            self.assertEqual(len(agent.search("amber", "u1")), 4)
            agent.stop()

    def test_lines_begin_with_the_time_outside_the_journal(self):
        agent = self.agent()
        for line in agent.log().splitlines():
            self.assertRegex(line, r"^time=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z level=\w+ event=")

    def test_a_configuration_that_is_not_there_ends_with_1(self):
        done = self.run_agent("--config", os.path.join(self.directory, "none.yaml"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("none.yaml", done.stderr)

    def test_a_volume_that_is_not_there_or_no_directory_ends_with_1_and_its_path(self):
        a_file = os.path.join(self.directory, "file")
        with open(a_file, "w", encoding="utf-8"):
            pass
        for path in (os.path.join(self.directory, "none"), a_file):
            with self.subTest(path=path):
                done = self.run_agent("--config", self.good_config(), "--volume", path)
                self.assertEqual(done.returncode, 1)
                self.assertIn(path, done.stderr)
                self.assertIn("event=agent.start", done.stderr)

    def test_check_config_starts_nothing(self):
        done = self.run_agent("--config", self.good_config(), "--check-config")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(sorted(os.listdir(self.directory)), ["memsyncd.yaml", "volume"])

    def test_print_config_tells_what_came_of_file_environment_and_defaults(self):
        done = self.run_agent("--config", self.good_config(), "--print-config",
                              env={"MEMSYNC_SYNC_READERS": "5", "MEMSYNC_LOG_LEVEL": "error"})
        self.assertEqual(done.returncode, 0)
        lines = done.stdout.splitlines()
        for line in (f"volume.path = {self.volume}", "sync.readers = 5", "log.level = error",
                     "sync.refreshers = 0"):
            self.assertIn(line, lines)

    def test_an_unknown_key_is_warned_about_and_does_not_keep_it_from_starting(self):
        agent = self.agent(config={"sync": {"redaers": 4}}, env={"MEMSYNC_SYNC_REDAERS": "4"})
        lines = agent.log_lines("event=config ")
        self.assertEqual(len(lines), 2)
        for line in lines:
            self.assertRegex(line.lower(), "readers")

    def test_an_unknown_backend_is_refused_by_its_name(self):
        agent = self.agent(start=False, config={"backend": {"name": "sundial"}})
        agent.start(wait=False)
        self.assertEqual(agent.wait_exit(), 1)
        self.assertIn("sundial", agent.log())


class Places(ProcessCase):
    """Who owns an endpoint and an index."""

    def refused(self, agent):
        agent.start(wait=False)
        self.assertEqual(agent.wait_exit(), 1)
        return agent.log_tail()

    def test_a_second_agent_on_the_endpoint_is_refused_and_the_first_goes_on(self):
        self.fill(users=1)
        first = self.agent()
        second = self.agent(start=False, config={"ipc": {"endpoint": first.endpoint}})
        said = self.refused(second)
        self.assertIn(f"ipc.endpoint: already running, pid {first.pid}, serves {first.endpoint}",
                      said)
        self.assertEqual(len(first.search("amber", "u1")), 4)
        with first.client() as client:
            self.assertEqual(client.rpc("ping")["pid"], first.pid)

    def test_a_second_agent_on_the_index_is_refused_and_the_first_goes_on(self):
        self.fill(users=1)
        first = self.agent()
        second = self.agent(start=False, index=first.index)
        said = self.refused(second)
        self.assertIn(first.index, said)
        self.assertRegex(said, "another|already")
        self.assertFalse(os.path.exists(second.endpoint[len("ipc://"):]))
        self.assertEqual(len(first.search("amber", "u1")), 4)
        self.peer.commit("u1", changes=[add("fact_new", "amber late")])
        self.assertEqual(len(first.search("amber", "u1")), 5)

    def test_two_agents_serve_one_volume_from_indexes_of_their_own(self):
        self.fill(users=1)
        agents = [self.agent(), self.agent()]
        self.peer.commit("u1", changes=[add("fact_new", "amber late")])
        for agent in agents:
            self.assertEqual(len(agent.search("amber", "u1")), 5)

    def test_a_regular_file_in_the_sockets_place_survives(self):
        agent = self.agent(start=False)
        path = agent.endpoint[len("ipc://"):]
        with open(path, "w", encoding="utf-8") as file:
            file.write("precious")
        self.assertIn(path, self.refused(agent))
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), "precious")

    def test_a_regular_file_in_the_place_of_the_events_socket_survives(self):
        agent = self.agent(start=False)
        path = agent.endpoint[len("ipc://"):] + ".events"
        with open(path, "w", encoding="utf-8") as file:
            file.write("precious")
        self.assertIn(path, self.refused(agent))
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), "precious")

    def test_a_dead_socket_is_replaced(self):
        agent = self.agent(start=False)
        for suffix in ("", ".events"):
            dead = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            dead.bind(agent.endpoint[len("ipc://"):] + suffix)
            dead.close()
        agent.start()
        self.assertEqual(agent.rpc("ping")["pid"], agent.pid)

    def test_sockets_have_the_mode_that_is_configured(self):
        for mode in ("0600", "0660", "0777"):
            with self.subTest(mode=mode):
                agent = self.agent(config={"ipc": {"socket_mode": mode}})
                for suffix in ("", ".events"):
                    found = os.stat(agent.endpoint[len("ipc://"):] + suffix)
                    self.assertEqual(found.st_mode & 0o7777, int(mode, 8))

    def test_a_path_of_107_bytes_works_and_one_of_108_is_refused(self):
        base = os.path.join(self.directory, "s")
        fits = base + "x" * (107 - len(base))
        agent = self.agent(config={"ipc": {"endpoint": f"ipc://{fits}", "events": "off"}})
        ping = agent.rpc("ping")
        self.assertEqual((ping["pid"], ping["events"]), (agent.pid, None))

        other = fits[:-1] + "y"  # whose events' socket has a longer name
        for settings in ({"endpoint": f"ipc://{fits}x", "events": "off"},
                         {"endpoint": f"ipc://{other}"}):
            with self.subTest(settings=settings):
                second = self.agent(start=False, config={"ipc": settings})
                second.start(wait=False)
                self.assertEqual(second.wait_exit(), 1)
                self.assertIn("107", second.log())
        self.assertEqual(agent.rpc("ping")["pid"], agent.pid)

    def test_an_index_path_that_is_a_file_is_refused_and_the_file_survives(self):
        path = os.path.join(self.directory, "file")
        with open(path, "w", encoding="utf-8") as file:
            file.write("precious")
        self.assertIn(path, self.refused(self.agent(start=False, index=path)))
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), "precious")


class Death(ProcessCase):
    """After SIGKILL at any moment the next start answers right and reads only what it must."""

    def corpus(self, agent, users):
        return {user: sorted(agent.search("amber", user, top_k=100)) for user in users}

    def expected(self, users):
        return {user: sorted(text for _, _, text in self.peer.facts(user).values())
                for user in users}

    def test_a_clean_restart_reads_no_fact(self):
        self.fill(users=5, facts=6)
        agent = self.agent()
        self.wait_indexed(agent, 30)
        time.sleep(0.1)
        agent.restart()
        status = self.wait_indexed(agent, 30)
        self.assertEqual(status["sync"]["files_read"], 0)
        users = [f"u{number}" for number in range(1, 6)]
        self.assertEqual(self.corpus(agent, users), self.expected(users))
        self.assertEqual(agent.rpc("status")["sync"]["files_read"], 0)

    def test_what_changed_while_it_was_dead_is_found_and_the_rest_is_not_read(self):
        self.fill(users=3, facts=8)
        agent = self.agent()
        self.settle(agent, 24)
        agent.kill()
        self.peer.commit("u2", changes=[update("fact_1", "amber changed"), delete("fact_2"),
                                        add("fact_new", "amber new")])
        agent.start()
        users = ["u1", "u2", "u3"]
        self.assertEqual(self.corpus(agent, users), self.expected(users))
        self.assertLessEqual(self.wait_indexed(agent, 24)["sync"]["files_read"], 10,
                             "at most the shards that changed")

    def settle(self, agent, facts):
        """Waits until what was read is old enough to be trusted."""
        self.wait_indexed(agent, facts)
        agent.wait_until(lambda: agent.rpc("verify", user_id="u1")["ok"])

    def test_killed_at_every_step_of_a_refresh(self):
        if not has_pause_points():
            skip("the build has no pause points")
        self.fill(users=2, facts=5)
        agent = self.agent()
        self.settle(agent, 10)
        agent.stop()
        users = ["u1", "u2"]
        for round_number, point in enumerate(KILL_POINTS):
            for nth in (1, 2):
                with self.subTest(point=point, nth=nth):
                    self.peer.commit("u1", changes=[
                        update("fact_1", f"amber round {round_number} {nth}"),
                        add(f"fact_r{round_number}{nth}", f"amber added {round_number} {nth}")])
                    self.peer.commit("u2", changes=[
                        update("fact_2", f"amber second {round_number} {nth}")])
                    agent.env = {"MEMSYNC_PAUSE": f"kill:{point}:{nth}"}
                    agent.start(wait=False)
                    self.assertEqual(agent.wait_exit(), -signal.SIGKILL)
                    agent.env = {}
                    agent.start()
                    self.assertEqual(self.corpus(agent, users), self.expected(users))
                    for user in users:
                        self.assertTrue(agent.rpc("verify", user_id=user)["ok"])
                    agent.stop()

    def test_killed_at_random_moments_while_a_peer_writes(self):
        seed = 20240607
        moments = random.Random(seed)
        self.fill(users=3, facts=3)
        agent = self.agent(start=False)
        users = ["u1", "u2", "u3"]
        ended = threading.Event()

        def write():
            number = 0
            while not ended.is_set():
                number += 1
                self.peer.commit(users[number % 3], changes=[
                    update("fact_1", f"amber step {number}"),
                    add(f"fact_w{number % 20}", f"amber written {number}")
                    if number % 40 < 20 else delete(f"fact_w{number % 20}")])
                time.sleep(0.002)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for _ in range(8):
                agent.start(wait=False)
                time.sleep(moments.uniform(0.02, 0.35))
                agent.kill()
        finally:
            ended.set()
            writer.join()
        agent.start()
        self.assertEqual(self.corpus(agent, users), self.expected(users), f"seed {seed}")
        for user in users:
            self.assertTrue(agent.rpc("verify", user_id=user)["ok"])
        self.assertFalse(agent.log_lines("event=index.rebuild"), "a kill never damages the index")

    def test_clients_find_the_new_agent_by_themselves(self):
        self.fill(users=1)
        agent = self.agent()
        with agent.client() as client:
            first = client.rpc("ping")["pid"]
            for end in (agent.stop, agent.kill):
                end()
                with self.assertRaises(TimeoutError):
                    client.result(client.send("ping"), 0.2)
                agent.start()
                self.assertEqual(len(client.search("amber", "u1", timeout_ms=5000)), 4)
            self.assertNotEqual(client.rpc("ping")["pid"], first)


if __name__ == "__main__":
    unittest.main()
