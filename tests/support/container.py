"""Runs the agent as a container of a manifest does, without a container runtime: process 1 of its own process
namespace, a root file system that cannot be written and holds no more than Debian and the two programs, a user
without a name, no capability and no way to one, no HOME, nothing in the environment but what image and manifest
set. Needs root and overlay mounts.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time

from agent import AgentFailed, Client
from manifests import image_environment
from process import MEMSYNC, MEMSYNCD, wait_until

# $1: the directory with layer/, root/ and the volumes; user and group; the rest: what to run.
ENTER = r"""
set -e
directory=$1 uid=$2 gid=$3
shift 3
root=$directory/root
mount --make-rprivate /
mount -t tmpfs -o mode=0755 root "$root"
mkdir -p "$root"/usr "$root"/etc "$root"/proc "$root"/dev "$root"/run/memsync "$root"/var/cache/memsyncd \
    "$root"/srv/memsync
for link in bin lib lib64 sbin; do ln -s usr/$link "$root/$link"; done
mount -t overlay -o "lowerdir=$directory/layer:/usr" overlay "$root/usr"
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
for volume in run/memsync var/cache/memsyncd srv/memsync; do
    mount --bind "$directory/volumes/$volume" "$root/$volume"
done
mount -o remount,bind,ro "$root"
exec chroot "$root" /usr/bin/setpriv --reuid "$uid" --regid "$gid" --groups "$gid" --no-new-privs \
    --inh-caps=-all --bounding-set=-all "$@"
"""


class Container:
    """One agent; volumes and with them the index and the socket's directory outlive it, as a pod's do."""

    def __init__(self, workload, uid=10001, gid=10001):
        self.workload, self.uid, self.gid = workload, uid, gid
        self.directory = tempfile.mkdtemp(prefix="mst-")
        self.process = None
        layer = os.path.join(self.directory, "layer")
        for name, program in (("sbin", MEMSYNCD), ("bin", MEMSYNC)):
            os.makedirs(os.path.join(layer, name))
            shutil.copy(program, os.path.join(layer, name))
        os.mkdir(os.path.join(self.directory, "root"))
        # What a kubelet makes of emptyDir and of a claim with fsGroup.
        for volume in ("run/memsync", "var/cache/memsyncd", "srv/memsync"):
            path = self.volume(volume)
            os.makedirs(path)
            os.chown(path, 0, gid)
            os.chmod(path, 0o2777 if volume != "srv/memsync" else 0o2770)
        os.chmod(self.directory, 0o755)

    def volume(self, path):
        return os.path.join(self.directory, "volumes", path)

    @property
    def endpoint(self):
        return f"ipc://{self.volume('run/memsync')}/memsyncd.sock"

    @property
    def log_path(self):
        return os.path.join(self.directory, "log")

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def environment(self, more):
        return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **self.workload.environment(self.workload.agent), **more}

    def start(self, wait=True, **more):
        """Starts it; `more` goes into its environment."""
        agent = self.workload.agent
        assert "command" not in agent and "args" not in agent
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                ["unshare", "--mount", "--pid", "--fork", "--kill-child", "/bin/sh", "-c", ENTER, "enter",
                 self.directory, str(self.uid), str(self.gid), "/usr/sbin/memsyncd"],
                env=self.environment(more), cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.pid = wait_until(self.child, what="the container")
        if wait:
            with Client(self.endpoint) as client:
                wait_until(lambda: self.answers(client), 30, "an answer")
        return self

    def child(self):
        """The process that is 1 inside; unshare waits for it."""
        if self.process.poll() is not None:
            raise AgentFailed(f"it left with {self.process.returncode}\n{self.log()}")
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as file:
            return int(file.read().strip() or 0)

    def answers(self, client):
        if self.process.poll() is not None:
            raise AgentFailed(f"it left with {self.process.returncode}\n{self.log()}")
        try:
            return client.result(client.send("ping"), 0.25)
        except TimeoutError:
            return None

    def inside(self, *command, timeout_s=20.0, uid=None, gid=None):
        """Runs a command as `kubectl exec`, and a probe, do: exit code, what it printed, seconds."""
        begun = time.monotonic()
        done = subprocess.run(
            ["nsenter", f"--target={self.pid}", "--mount", "--pid", "--root", "--wd", "/usr/bin/setpriv",
             f"--reuid={uid or self.uid}", f"--regid={gid or self.gid}", "--clear-groups", "--no-new-privs", *command],
            env=self.environment({}), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s,
            check=False)
        return done.returncode, done.stdout + done.stderr, time.monotonic() - begun

    def probe(self, kind):
        """Whether a probe of the manifest succeeds."""
        probe = self.workload.agent[kind]
        code, _, seconds = self.inside(*probe["exec"]["command"])
        return code == 0 and seconds < probe["timeoutSeconds"]

    def stop(self, number=signal.SIGTERM, timeout_s=20.0):
        """A signal to process 1, and its exit status as unshare passes it on."""
        os.kill(self.pid, number)
        return self.process.wait(timeout_s)

    def close(self):
        if self.process and self.process.poll() is None:
            self.stop(signal.SIGKILL)
        shutil.rmtree(self.directory, ignore_errors=True)
