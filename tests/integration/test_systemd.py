#!/usr/bin/python3
"""The units under a real systemd: an overlay of this system is booted in a container of its own, a
probe in it installs nothing but what `make install` made, drives the service, and writes down what
it saw. Needs root and systemd-nspawn."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
SUPPORT = os.path.join(HERE, "..", "support")
sys.path.insert(0, SUPPORT)

BOOT_TIMEOUT_S = 90
VOLUME = "/srv/memsync"
ENDPOINT = "ipc:///run/memsync/memsyncd.sock"


# ---- inside: the probe (what it imports lies beside it there) ----

def call(*command, timeout_s=30, **options):
    """Runs a command: exit code, what it printed, how long it took."""
    begun = time.monotonic()
    done = subprocess.run(command, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=timeout_s, check=False, **options)
    return {"code": done.returncode, "output": done.stdout, "seconds": time.monotonic() - begun}


def show(unit, *names):
    """Properties of a unit."""
    lines = call("systemctl", "show", unit, *[f"--property={name}" for name in names])["output"]
    return dict(line.split("=", 1) for line in lines.splitlines() if "=" in line)


def describe(path):
    """Mode, owner and group of a path; None when there is nothing."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    owner = call("stat", "--format=%U:%G", path)["output"].strip()
    return {"mode": oct(found.st_mode & 0o7777), "owner": owner}


def search_as(*identity):
    return call("setpriv", *identity, "/usr/bin/memsync", "--timeout", "2000", "-u", "u1", "search",
                "amber")


def wait_for(condition, timeout_s=20):
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


def probe_start(seen):
    from peer import Peer, add
    seen["sysusers"] = call("systemd-sysusers")
    seen["tmpfiles"] = call("systemd-tmpfiles", "--create", "/usr/lib/tmpfiles.d/memsyncd.conf")
    seen["volume"] = describe(VOLUME)
    Peer(VOLUME, durable=False).commit("u1", changes=[add("fact_1", "amber in the container")])
    call("chown", "-R", "memsync:memsync", VOLUME)
    call("systemctl", "daemon-reload")
    seen["start"] = call("systemctl", "start", "memsyncd.service")
    seen["started"] = show("memsyncd.service", "ActiveState", "MainPID", "NRestarts", "StatusText")
    seen["sockets"] = {name: describe("/run/memsync/" + name)
                       for name in ("", "memsyncd.sock", "memsyncd.sock.events")}
    seen["index"] = describe("/var/cache/memsyncd")
    seen["as_member"] = search_as("--reuid=4711", "--regid=4711", "--groups=memsync")
    seen["as_stranger"] = search_as("--reuid=4711", "--regid=4711", "--clear-groups")
    seen["status_text"] = wait_for(lambda: "1 facts" in show("memsyncd.service", "StatusText").get(
        "StatusText", ""), 10)


def probe_reload(seen):
    path = "/etc/memsyncd/memsyncd.yaml"
    with open(path, encoding="utf-8") as file:
        text = file.read()
    before = show("memsyncd.service", "MainPID")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace("level: info", "level: debug"))
    seen["reload"] = call("systemctl", "reload", "memsyncd.service")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace("level: info", "level: loud"))
    seen["bad_reload"] = call("systemctl", "reload", "memsyncd.service")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    seen["same_process"] = before == show("memsyncd.service", "MainPID")
    seen["after_reload"] = search_as("--reuid=4711", "--regid=4711", "--groups=memsync")


def probe_watchdog(seen):
    drop_in = "/etc/systemd/system/memsyncd.service.d"
    os.makedirs(drop_in)
    with open(drop_in + "/quick.conf", "w", encoding="utf-8") as file:
        file.write("[Service]\nWatchdogSec=2\nRestartSec=100ms\nTimeoutAbortSec=5\n")
    call("systemctl", "daemon-reload")
    seen["restart"] = call("systemctl", "restart", "memsyncd.service")
    time.sleep(3)
    seen["fed"] = show("memsyncd.service", "ActiveState", "NRestarts")
    pid = show("memsyncd.service", "MainPID")["MainPID"]
    call("kill", "-STOP", pid)

    def came_back():
        now = show("memsyncd.service", "ActiveState", "MainPID", "NRestarts")
        return now["ActiveState"] == "active" and now["MainPID"] not in ("0", pid)
    seen["came_back"] = wait_for(came_back, 20)
    seen["after_watchdog"] = search_as("--reuid=4711", "--regid=4711", "--groups=memsync")
    seen["restarts"] = show("memsyncd.service", "NRestarts")


def probe_instance(seen):
    os.makedirs("/srv/memsync-two")
    call("chown", "memsync:memsync", "/srv/memsync-two")
    with open("/etc/memsyncd/two.yaml", "w", encoding="utf-8") as file:
        file.write("config_version: 1\nvolume:\n  path: /srv/memsync-two\n"
                   "ipc:\n  endpoint: ipc:///run/memsync-two/memsyncd.sock\n")
    seen["instance"] = call("systemctl", "start", "memsyncd@two.service")
    seen["instance_ping"] = call("/usr/bin/memsync", "-e", "ipc:///run/memsync-two/memsyncd.sock",
                                 "ping")
    seen["instance_stop"] = call("systemctl", "stop", "memsyncd@two.service")


def drop_in_of_the_documentation():
    """What systemd/README.md says for an agent that listens on the network, as it was installed."""
    with open("/usr/share/doc/memsyncd/systemd/README.md", encoding="utf-8") as file:
        section = file.read().split("\n## A tcp endpoint, or metrics\n")[1]
    return section.split("```ini\n")[1].split("```")[0]


def visit(path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:9464{path}", timeout=10) as reply:
            return {"code": reply.status, "output": reply.read().decode()}
    except OSError as problem:
        return {"code": -1, "output": repr(problem)}


def probe_metrics(seen):
    with open("/etc/memsyncd/two.yaml", "a", encoding="utf-8") as file:
        file.write("metrics:\n  listen: 9464\n")
    seen["metrics_without_drop_in"] = call("systemctl", "start", "memsyncd@two.service")
    call("systemctl", "stop", "memsyncd@two.service")
    drop_in = "/etc/systemd/system/memsyncd@two.service.d"
    os.makedirs(drop_in)
    with open(drop_in + "/network.conf", "w", encoding="utf-8") as file:
        file.write(drop_in_of_the_documentation())
    call("systemctl", "daemon-reload")
    call("systemctl", "reset-failed", "memsyncd@two.service")
    seen["metrics_start"] = call("systemctl", "start", "memsyncd@two.service")
    seen["metrics_page"] = visit("/metrics")
    seen["metrics_ready"] = visit("/readyz")
    seen["metrics_stop"] = call("systemctl", "stop", "memsyncd@two.service")
    call("journalctl", "--sync")
    seen["metrics_journal"] = call("journalctl", "--unit=memsyncd@two.service", "--no-pager")


def probe_stop(seen):
    seen["stop"] = call("systemctl", "stop", "memsyncd.service")
    seen["stopped"] = show("memsyncd.service", "ActiveState", "Result", "ExecMainStatus")
    seen["run_after_stop"] = describe("/run/memsync")
    seen["index_after_stop"] = describe("/var/cache/memsyncd/memsyncd.sqlite3")
    call("journalctl", "--sync")
    seen["journal"] = call("journalctl", "--unit=memsyncd.service", "--output=json", "--no-pager")


def probe(result_path):
    """Runs as a oneshot service in the container."""
    seen = {}
    try:
        for step in (probe_start, probe_reload, probe_watchdog, probe_instance, probe_metrics,
                     probe_stop):
            step(seen)
    except Exception as problem:  # judged outside
        seen["problem"] = repr(problem)
    with open(result_path + ".new", "w", encoding="utf-8") as file:
        json.dump(seen, file)
    os.rename(result_path + ".new", result_path)


# ---- outside: the tests ----

PROBE_UNIT = """[Unit]
Description=Tries memsyncd out
After=systemd-journald.service basic.target
Requires=basic.target
[Service]
Type=oneshot
ExecStart=/usr/bin/python3 {script} --probe /probe/result.json
ExecStopPost=/usr/bin/systemctl --no-block exit
TimeoutStartSec={timeout}
"""

PROBE_TARGET = """[Unit]
Description=Nothing but the probe
Requires=basic.target probe.service
AllowIsolate=yes
"""


def run(*command, **options):
    return subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, **options)


class Container:
    """An overlay of / that forgets everything that is written to it."""

    def __init__(self, directory):
        self.root = os.path.join(directory, "root")
        self.probe = os.path.join(directory, "probe")
        memory = os.path.join(directory, "memory")
        for path in (self.root, self.probe, memory):
            os.mkdir(path)
        run("mount", "-t", "tmpfs", "none", memory)
        for name in ("upper", "work"):
            os.mkdir(os.path.join(memory, name))
        run("mount", "-t", "overlay", "overlay", "-o",
            f"lowerdir=/,upperdir={memory}/upper,workdir={memory}/work", self.root)

    def prepare(self):
        from test_install import make
        done = make("install", self.root)
        if done.returncode != 0:
            raise AssertionError(done.stdout)
        for path, text in (
                ("etc/systemd/system/probe.service",
                 PROBE_UNIT.format(script="/probe/support/test_systemd.py",
                                   timeout=BOOT_TIMEOUT_S)),
                ("etc/systemd/system/probe.target", PROBE_TARGET)):
            with open(os.path.join(self.root, path), "w", encoding="utf-8") as file:
                file.write(text)
        support = os.path.join(self.probe, "support")
        os.mkdir(support)
        shutil.copy(os.path.abspath(__file__), support)
        shutil.copy(os.path.join(SUPPORT, "peer.py"), support)

    def boot(self):
        """Boots it and waits for its end: what systemd-nspawn printed, and the probe's result."""
        done = subprocess.run(
            ["systemd-nspawn", f"--directory={self.root}", "--register=no", "--keep-unit", "--boot",
             "--private-network", "--console=pipe", f"--bind={self.probe}:/probe",
             "systemd.unit=probe.target", "systemd.log_target=console"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=BOOT_TIMEOUT_S, check=False)
        try:
            with open(os.path.join(self.probe, "result.json"), encoding="utf-8") as file:
                return done.stdout.decode("utf-8", "replace"), json.load(file)
        except FileNotFoundError:
            return done.stdout.decode("utf-8", "replace"), None


class Booted(unittest.TestCase):
    seen = None

    @classmethod
    def setUpClass(cls):
        from process import IS_SANITIZED, own_mounts, skip
        if not shutil.which("systemd-nspawn"):
            skip("systemd-nspawn is not installed (package systemd-container)")
        if IS_SANITIZED:
            skip("the unit's restrictions leave a sanitizer no room")
        refused = own_mounts()
        if refused:
            skip(f"mounts of one's own: {refused}")
        directory = tempfile.mkdtemp(prefix="mst-")
        cls.addClassCleanup(cls.remove, directory)
        try:
            container = Container(directory)
        except subprocess.CalledProcessError as error:
            skip(f"an overlay of the root directory: {error.stdout.strip()}")
        container.prepare()
        try:
            printed, cls.seen = container.boot()
        except subprocess.TimeoutExpired as error:
            printed = (error.stdout or b"").decode("utf-8", "replace")
            raise AssertionError(f"the container hangs:\n{printed[-4000:]}") from None
        if cls.seen is None:
            if re.search("(?i)operation not permitted|permission denied|"
                         "failed to (allocate|mount|create)", printed):
                skip("booting a container is not permitted here: " + printed.strip()[-300:])
            raise AssertionError(f"the probe wrote nothing:\n{printed[-4000:]}")

    @staticmethod
    def remove(directory):
        for name in ("root", "memory"):
            subprocess.run(["umount", "-l", os.path.join(directory, name)], check=False,
                           stderr=subprocess.DEVNULL)
        shutil.rmtree(directory, ignore_errors=True)

    def ok(self, name):
        found = self.seen.get(name)
        self.assertIsNotNone(found, f"not reached: {self.seen.get('problem')}\n{self.log()}")
        self.assertEqual(found["code"], 0, f"{name}: {found['output']}\n{self.log()}")
        return found

    def log(self):
        lines = self.seen.get("journal", {}).get("output", "").splitlines()
        return "\n".join(str(json.loads(line).get("MESSAGE")) for line in lines[-40:])

    def test_the_probe_came_to_its_end(self):
        self.assertNotIn("problem", self.seen)

    def test_user_and_volume_are_made(self):
        self.ok("sysusers")
        self.ok("tmpfiles")
        self.assertEqual(self.seen["volume"], {"mode": "0o2770", "owner": "memsync:memsync"})

    def test_it_starts_and_is_active_when_it_is_ready(self):
        self.ok("start")
        self.assertEqual(self.seen["started"]["ActiveState"], "active")
        self.assertNotEqual(self.seen["started"]["MainPID"], "0")
        self.assertTrue(self.seen["status_text"], "systemctl status tells what is served")

    def test_the_sockets_are_for_the_group(self):
        self.assertEqual(self.seen["sockets"], {
            "": {"mode": "0o750", "owner": "memsync:memsync"},
            "memsyncd.sock": {"mode": "0o660", "owner": "memsync:memsync"},
            "memsyncd.sock.events": {"mode": "0o660", "owner": "memsync:memsync"}})
        self.assertEqual(self.seen["index"], {"mode": "0o700", "owner": "memsync:memsync"})

    def test_a_member_of_the_group_searches_and_a_stranger_does_not(self):
        self.assertIn("amber in the container", self.ok("as_member")["output"])
        self.assertEqual(self.seen["as_stranger"]["code"], 3, self.seen["as_stranger"]["output"])

    def test_a_reload_keeps_the_process_and_a_wrong_file_is_refused(self):
        self.ok("reload")
        self.assertNotEqual(self.seen["bad_reload"]["code"], 0)
        self.assertTrue(self.seen["same_process"])
        self.ok("after_reload")

    def test_the_watchdog_is_fed_and_ends_one_that_hangs(self):
        self.ok("restart")
        self.assertEqual(self.seen["fed"], {"ActiveState": "active", "NRestarts": "0"})
        self.assertTrue(self.seen["came_back"], self.log())
        self.assertGreaterEqual(int(self.seen["restarts"]["NRestarts"]), 1)
        self.assertIn("amber in the container", self.ok("after_watchdog")["output"])

    def test_an_instance_runs_beside_it(self):
        self.ok("instance")
        self.ok("instance_ping")
        self.ok("instance_stop")

    def test_metrics_are_served_with_the_drop_in_of_the_documentation_and_not_without(self):
        self.assertNotEqual(self.seen["metrics_without_drop_in"]["code"], 0)
        self.assertIn("metrics.listen: cannot listen on 127.0.0.1:9464: Address family not supported by protocol",
                      self.ok("metrics_journal")["output"].replace(" (under systemd this needs a drop-in)", ""))
        self.ok("metrics_start")
        for name, part in (("metrics_page", 'memsyncd_build_info{version="'), ("metrics_ready", "ok\n")):
            self.assertEqual(self.seen[name]["code"], 200, self.seen[name]["output"])
            self.assertIn(part, self.seen[name]["output"])
        self.ok("metrics_stop")

    def test_it_stops_in_time_and_leaves_nothing_but_the_index(self):
        self.assertLess(self.ok("stop")["seconds"], 10)
        self.assertEqual(self.seen["stopped"]["ActiveState"], "inactive")
        self.assertEqual(self.seen["stopped"]["ExecMainStatus"], "0")
        self.assertIsNone(self.seen["run_after_stop"])
        self.assertIsNotNone(self.seen["index_after_stop"])

    def test_the_journal_has_the_lines_with_their_priority(self):
        lines = [json.loads(line) for line in self.ok("journal")["output"].splitlines()]
        ready = [line for line in lines if "event=agent.ready" in str(line["MESSAGE"])]
        self.assertTrue(ready)
        self.assertEqual({line["PRIORITY"] for line in ready}, {"5"})
        self.assertTrue(str(ready[0]["MESSAGE"]).startswith("level="), ready[0]["MESSAGE"])
        texts = " ".join(str(line["MESSAGE"]) for line in lines)
        for part in ("event=config.reloaded log_level=debug", "event=agent.stopped clean=true",
                     "log.level"):
            self.assertIn(part, texts)


class Offline(unittest.TestCase):
    """What can be said of the units without starting them."""

    @classmethod
    def setUpClass(cls):
        from test_install import make
        cls.directory = tempfile.mkdtemp(prefix="mst-")
        cls.addClassCleanup(shutil.rmtree, cls.directory, ignore_errors=True)
        done = make("install", cls.directory)
        if done.returncode != 0:
            raise AssertionError(done.stdout)

    def analyze(self, *arguments):
        from process import skip
        if not shutil.which("systemd-analyze"):
            skip("systemd-analyze is not installed")
        return subprocess.run(["systemd-analyze", *arguments], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, check=False)

    def test_the_exposure_is_low(self):
        for unit in ("memsyncd.service", "memsyncd@.service"):
            with self.subTest(unit=unit):
                done = self.analyze("security", "--offline=true", "--threshold=20", "--no-pager",
                                    os.path.join(self.directory, "usr/lib/systemd/system", unit))
                self.assertEqual(done.returncode, 0, done.stdout[-1500:])
                level = re.search(r"exposure level for \S+: (\d+\.\d)", done.stdout)
                self.assertLessEqual(float(level[1]), 2.0)

    def test_the_units_are_understood(self):
        done = self.analyze("verify", f"--root={self.directory}", "memsyncd.service")
        self.assertNotRegex(done.stdout, r"(?i)memsyncd\S*:\d+: (unknown|invalid|failed|missing)")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--probe"]:
        probe(sys.argv[2])
    else:
        unittest.main()
