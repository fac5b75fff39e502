#!/usr/bin/python3
"""The agent as process 1 of a container, under what the sidecar's manifest and the Containerfile say. Namespaces and
mounts stand in for the container runtime, which nobody needs to install."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import agent
from agent import Client
from container import Container
from manifests import load, workloads
from peer import Peer, add
from process import IS_SANITIZED, ROOT, own_mounts, skip, wait_until

# What a kubelet gives the agent at least, see check_life() of the manifests' rules, less what a busy node takes.
ENDED_S = 10.0
MAKE_VOLUME = os.path.join(ROOT, "tests", "demo", "make_volume.py")
USERS, FACTS = 800, 15
WORKER = r"""
import sys, time
sys.path.insert(0, sys.argv[1])
from agent import Client
client = Client(sys.argv[2])
for line in sys.stdin:
    try:
        print(len(client.search(line.strip(), "u1")), flush=True)
    except TimeoutError:
        print("timeout", flush=True)
"""


def setUpModule():
    if IS_SANITIZED:
        skip("a process 1 is not what sanitizers are made for")
    refused = own_mounts()
    if refused:
        skip(f"mounts of one's own: {refused}")
    with tempfile.TemporaryDirectory(prefix="mst-") as directory:
        lower, merged = os.path.join(directory, "lower"), os.path.join(directory, "merged")
        os.mkdir(lower)
        os.mkdir(merged)
        done = subprocess.run(["mount", "-t", "overlay", "-o", f"lowerdir={lower}:/usr", "overlay", merged],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            skip(f"an overlay of /usr: {done.stderr.strip()}")
        subprocess.run(["umount", merged], check=True)


class ContainerCase(unittest.TestCase):
    def container(self, **options):
        workload = next(one for one in workloads(load("sidecar.yaml")) if one.agent)
        container = Container(workload, **options)
        self.addCleanup(container.close)
        self.peer = Peer(container.volume("srv/memsync"), durable=False)
        self.peer.commit("u1", changes=[add(f"fact_{number}", f"amber number{number}") for number in range(5)])
        subprocess.run(["chown", "-R", f"{container.uid}:{container.gid}", container.volume("srv/memsync")], check=True)
        return container


class Life(ContainerCase):
    def test_it_serves_as_process_one_without_a_name_a_home_or_a_right(self):
        container = self.container(uid=54321, gid=54322).start()
        with Client(container.endpoint) as client:
            self.assertEqual(client.rpc("ping")["pid"], 1)
            self.assertEqual(len(client.search("amber", "u1")), 5)
            client.rpc("create_fact", user_id="u1", agent_name=None, content="written in a container")
            self.assertEqual(len(client.search("container", "u1")), 1)
        with open(f"/proc/{container.pid}/status", encoding="ascii") as file:
            status = dict(line.rstrip().split(":\t", 1) for line in file if ":\t" in line)
        self.assertEqual(status["Uid"].split(), ["54321"] * 4)
        self.assertEqual({status[name] for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb")}, {"0" * 16})
        self.assertEqual(status["NoNewPrivs"], "1")
        with open(f"/proc/{container.pid}/environ", encoding="ascii") as file:
            self.assertNotIn("HOME=", file.read())
        self.assertTrue(os.statvfs(f"/proc/{container.pid}/root").f_flag & os.ST_RDONLY)
        self.assertTrue(os.listdir(container.volume("var/cache/memsyncd")))
        self.assertEqual([line for line in container.log().splitlines() if "level=warning" in line
                          or "level=error" in line], [])

    def test_the_image_needs_to_be_told_no_more_than_the_volume(self):
        container = self.container()
        container.workload.agent["env"] = [{"name": "MEMSYNC_VOLUME_PATH", "value": "/srv/memsync"}]
        container.start()
        with Client(container.endpoint) as client:
            self.assertEqual(len(client.search("amber", "u1")), 5)
        self.assertIn("memsyncd.sqlite3", os.listdir(container.volume("var/cache/memsyncd")))

    def test_a_service_of_that_name_is_a_warning_and_no_more(self):
        container = self.container().start(MEMSYNC_PORT="tcp://10.0.0.1:80", MEMSYNC_SERVICE_HOST="10.0.0.1")
        self.assertIn("unknown variable MEMSYNC_PORT", container.log())

    def test_sigterm_ends_process_one_in_time_and_leaves_no_socket(self):
        container = self.container().start()
        with Client(container.endpoint) as client:
            client.search("amber", "u1")
            begun = time.monotonic()
            self.assertEqual(container.stop(), 0)
            self.assertLess(time.monotonic() - begun, ENDED_S)
        self.assertEqual(os.listdir(container.volume("run/memsync")), [])
        self.assertIn("event=agent.stopped clean=true", container.log())

    def test_it_is_told_to_end_while_it_is_asked_to_write(self):
        """What was answered is on the volume; the others were told so, or are wholly there or not at all."""
        container = self.container().start()
        with Client(container.endpoint) as client:
            requests = {client.send("create_fact", user_id=f"w{number}", agent_name=None, content="late"): number
                        for number in range(30)}
            begun = time.monotonic()
            self.assertEqual(container.stop(), 0)
            self.assertLess(time.monotonic() - begun, ENDED_S)
            answered = []
            for request, number in requests.items():
                try:
                    if "result" in client.reply(request, 0.5):
                        answered.append(number)
                except TimeoutError:
                    break
        container.start()
        with Client(container.endpoint) as client:
            for number in answered:
                self.assertEqual(len(client.search("late", f"w{number}")), 1)


class Restart(ContainerCase):
    """The container is replaced, the pod stays."""

    def expect_taken_over(self, number):
        container = self.container().start()
        with Client(container.endpoint) as client:
            self.assertEqual(len(client.search("amber", "u1")), 5)
            wait_until(lambda: client.rpc("verify", user_id="u1")["ok"], 20, "facts that are old enough to be trusted")
            container.stop(number)
            container.start()
            wait_until(lambda: container.answers(client), 20, "the same connection to answer")
            self.assertEqual(len(client.search("amber", "u1")), 5)
            build = self.wait_built(client)["build"]
            self.assertEqual((build["facts"], build["facts_built"]), (5, 0), "the index was kept")

    @staticmethod
    def wait_built(client):
        return wait_until(lambda: (status := client.rpc("status"))["build"]["phase"] == "done" and status, 60,
                          "the whole index")

    def test_one_that_was_killed_is_followed_in_its_place(self):
        """Its socket and locks lie there, and say that process 1 has them: which is the new one as well."""
        self.expect_taken_over(signal.SIGKILL)

    def test_one_that_ended_is_followed_in_its_place(self):
        self.expect_taken_over(signal.SIGTERM)

    def test_a_worker_finds_the_next_one_through_a_directory_that_it_cannot_write(self):
        container = self.container().start()
        seen = os.path.join(container.directory, "seen")
        os.mkdir(seen)
        subprocess.run(["mount", "--bind", container.volume("run/memsync"), seen], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", seen], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", seen], check=True)
        shutil.copy(agent.__file__, container.directory)
        worker = subprocess.Popen(
            ["setpriv", f"--reuid={container.uid}", f"--regid={container.gid}", "--clear-groups", sys.executable, "-c",
             WORKER, container.directory, f"ipc://{seen}/memsyncd.sock"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(worker.communicate)

        def ask():
            worker.stdin.write("amber\n")
            worker.stdin.flush()
            return worker.stdout.readline().strip()

        self.assertEqual(ask(), "5")
        with self.assertRaises(OSError):
            os.unlink(seen + "/memsyncd.sock")
        container.stop(signal.SIGKILL)
        container.start()
        wait_until(lambda: ask() == "5", 30, "an answer by the next agent")

    def test_a_build_goes_on_where_the_container_before_was_killed(self):
        container = self.container()
        volume = container.volume("srv/memsync")
        shutil.rmtree(volume)
        subprocess.run([sys.executable, MAKE_VOLUME, volume, "--users", str(USERS), "--facts", str(FACTS),
                        "--agents", "1"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["chown", "-R", f"{container.uid}:{container.gid}", volume], check=True)
        container.start(MEMSYNC_SYNC_REFRESHERS="1", MEMSYNC_SYNC_READERS="1")
        self.assertTrue(container.probe("startupProbe"), "the index need not be whole")
        with Client(container.endpoint) as client:
            before = wait_until(lambda: (build := client.rpc("status")["build"])["facts"] > 100 and build, 60,
                                "a part of the build")
            self.assertNotEqual(before["phase"], "done", "the volume is too small for this test")
            container.stop(signal.SIGKILL)
            container.start()
            wait_until(lambda: container.answers(client), 20, "an answer")
            build = self.wait_built(client)["build"]
            self.assertEqual(build["facts"], USERS * FACTS)
            self.assertGreaterEqual(build["facts"] - build["facts_built"], before["facts"] // 2)


class Probes(ContainerCase):
    def test_they_succeed_while_it_serves_and_tell_the_version(self):
        container = self.container().start()
        for kind in ("startupProbe", "livenessProbe"):
            self.assertTrue(container.probe(kind), kind)
        self.assertIn("memsyncd", container.inside("/usr/bin/memsync", "ping")[1])

    def test_they_fail_in_time_when_it_hangs(self):
        container = self.container().start()
        os.kill(container.pid, signal.SIGSTOP)
        try:
            code, printed, seconds = container.inside(*container.workload.agent["livenessProbe"]["exec"]["command"])
        finally:
            os.kill(container.pid, signal.SIGCONT)
        self.assertEqual(code, 3, printed)
        self.assertLess(seconds, container.workload.agent["livenessProbe"]["timeoutSeconds"])
        self.assertTrue(container.probe("livenessProbe"), "it goes on")

    def test_requests_that_wait_are_not_taken_for_a_hang(self):
        """The one request thread has a write that waits for a peer's lock, and more are in the queue."""
        container = self.container().start(MEMSYNC_IPC_THREADS="1")
        lock = self.peer.lock("u1")
        self.addCleanup(os.close, lock)
        with Client(container.endpoint) as client:
            for number in range(4):
                client.send("create_fact", user_id="u1", agent_name=None, content=f"late {number}", timeout_ms=20000)
            wait_until(lambda: client.rpc("status")["ipc"]["waiting"] == 3, 10, "a full queue")
            self.assertTrue(container.probe("livenessProbe"))

    def test_who_has_neither_user_nor_group_of_the_agent_gets_no_answer(self):
        container = self.container().start()
        self.assertEqual(container.inside("/usr/bin/memsync", "ping", uid=4711)[0], 0)
        self.assertEqual(container.inside("/usr/bin/memsync", "ping", uid=4711, gid=4711)[0], 3)


if __name__ == "__main__":
    unittest.main()
