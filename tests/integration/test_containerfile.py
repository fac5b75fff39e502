#!/usr/bin/python3
"""containers/Containerfile without anything that could build it: that its stages get what they need, that what is
installed is what its second stage takes, and that nothing else can get in."""

import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from manifests import load, workloads
from process import BUILD, FLAVOUR, IS_SANITIZED, MEMSYNC, MEMSYNCD, ROOT, skip

# In debian:bookworm-slim, as in every Debian.
BASE_PACKAGES = {"libc6", "libgcc-s1"}


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def stages():
    """The stages of the file: lists of (instruction, text), lines that go on joined."""
    lines = [line for line in read("containers/Containerfile").splitlines() if not line.startswith("#")]
    text = "\n".join(lines).replace("\\\n", " ")
    found = []
    for line in filter(None, (line.strip() for line in text.splitlines())):
        instruction, rest = line.split(maxsplit=1)
        if instruction == "FROM":
            found.append([])
        found[-1].append((instruction, rest))
    return found


def all_of(stage, instruction):
    return [rest for name, rest in stage if name == instruction]


def packages_of(stage):
    """What a stage has apt install."""
    command = re.search(r"apt-get install -y --no-install-recommends (.*?) &&", " ".join(all_of(stage, "RUN")))
    return set(command[1].split())


def copied(stage):
    """(source, destination) of what comes from the tree, and of what comes from the other stage."""
    pairs = {"tree": [], "stage": []}
    for rest in all_of(stage, "COPY"):
        words = rest.split()
        where = "stage" if words[0].startswith("--from=") else "tree"
        words = words[1:] if where == "stage" else words
        pairs[where] += [(source, words[-1]) for source in words[:-1]]
    return pairs


class Containerfile(unittest.TestCase):
    def setUp(self):
        self.build, self.last = stages()

    def test_both_stages_begin_with_the_same_debian(self):
        self.assertEqual(all_of(self.build, "FROM"), ["debian:bookworm-slim AS build"])
        self.assertEqual(all_of(self.last, "FROM"), ["debian:bookworm-slim"])

    def test_it_builds_with_what_the_makefile_names(self):
        wanted = re.search(r"^DEBIAN_BUILD := (.*?[^\\])$", read("Makefile"), re.M | re.S)[1]
        self.assertEqual(packages_of(self.build), set(wanted.replace("\\\n", " ").split()))

    def test_it_runs_with_the_libraries_that_the_programs_are_linked_with(self):
        if not shutil.which("dpkg-query") or not shutil.which("readelf"):
            skip("dpkg-query and readelf tell whose libraries these are")
        if IS_SANITIZED:
            skip("sanitizers bring libraries of their own")
        needed = set()
        for program in (MEMSYNCD, MEMSYNC):
            listed = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
            paths = dict(re.findall(r"^\s+(\S+) => (\S+)", listed, re.M))
            names = re.findall(r"\(NEEDED\).*\[(.*)\]", subprocess.run(
                ["readelf", "-d", program], check=True, capture_output=True, text=True).stdout)
            needed |= {paths[name] for name in names if name in paths}
        found = subprocess.run(["dpkg-query", "-S", *(place for path in needed for place in self.places(path))],
                               capture_output=True, text=True, check=False).stdout
        owners = {place: package for package, place in re.findall(r"^([^:\s]+)(?::\w+)?: (\S+)$", found, re.M)}
        packages = {next((owners[place] for place in self.places(path) if place in owners), path) for path in needed}
        self.assertEqual(packages_of(self.last), packages - BASE_PACKAGES)

    @staticmethod
    def places(path):
        """What dpkg may know a library as: /lib leads to /usr/lib."""
        return path, os.path.realpath(path), "/usr" + path

    def test_the_agent_is_started_itself_and_not_by_a_shell(self):
        """A shell would be process 1, and would keep SIGTERM for itself."""
        self.assertEqual([json.loads(rest) for rest in all_of(self.last, "ENTRYPOINT")], [["/usr/sbin/memsyncd"]])
        self.assertEqual(all_of(self.last, "CMD"), [])

    def test_its_user_is_a_number_that_exists_and_is_not_root(self):
        uid, gid = all_of(self.last, "USER")[0].split(":")
        self.assertGreater(int(uid), 0)
        commands = " ".join(all_of(self.last, "RUN"))
        self.assertIn(f"groupadd --gid {gid} memsync", commands)
        self.assertIn(f"useradd --uid {uid} --gid {gid}", commands)
        for name in ("sidecar.yaml", "daemonset.yaml", "deerflow-gateway.yaml"):
            for one in workloads(load(name)):
                if one.agent:
                    self.assertEqual((one.security(one.agent, "runAsUser"), one.security(one.agent, "runAsGroup")),
                                     (int(uid), int(gid)), name)

    def test_the_image_configures_nothing(self):
        """The environment goes before the file, so what the image says nobody's file could change."""
        for name, rest in self.build + self.last:
            self.assertNotIn(name, ("ADD", "ARG", "EXPOSE", "VOLUME"))
            if name == "ENV":
                self.assertNotIn("MEMSYNC_", rest)

    def test_nothing_is_copied_but_parts_of_the_tree(self):
        sources = [source for source, _ in copied(self.build)["tree"]]
        tracked = {path.split("/")[0] for path in self.tracked()}
        for source in sources:
            self.assertIn(source, tracked)
        self.assertEqual(copied(self.last)["tree"], [])
        lines = [line for line in read(".containerignore").splitlines() if line and not line.startswith("#")]
        self.assertEqual(lines[0], "*")
        self.assertEqual(sorted(line[1:] for line in lines if line.startswith("!")), sorted(sources))
        for name in ("build", ".git", ".ci", "tests", "chaos"):
            self.assertFalse(any(fnmatch.fnmatch(name, line[1:]) for line in lines if line.startswith("!")))

    @staticmethod
    def tracked():
        """The files of the tree; where it is no repository, all that lies there."""
        done = subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard"], capture_output=True,
                              text=True, check=False)
        return done.stdout.splitlines() if done.returncode == 0 else os.listdir(ROOT)


class Stage(unittest.TestCase):
    """The commands of the first stage, in a directory with what it copies, but for compiling anew."""

    def setUp(self):
        if IS_SANITIZED:
            skip("sanitized programs are not installed")
        self.directory = tempfile.mkdtemp(prefix="mst-")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.source = os.path.join(self.directory, "source")
        self.build, self.last = stages()
        os.mkdir(self.source)
        for source, destination in copied(self.build)["tree"]:
            place = os.path.normpath(os.path.join(self.source, destination))
            if os.path.isdir(os.path.join(ROOT, source)):
                shutil.copytree(os.path.join(ROOT, source), place)
            else:
                shutil.copy2(os.path.join(ROOT, source), place)
        os.makedirs(os.path.dirname(os.path.join(self.source, "build", FLAVOUR)))
        os.symlink(os.path.join(ROOT, BUILD), os.path.join(self.source, "build", FLAVOUR))

    def staged(self):
        command = all_of(self.build, "RUN")[-1].replace("/staged", self.directory + "/staged")
        self.assertTrue(command.startswith("make "), command)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
        return subprocess.run(["/bin/sh", "-ec", command], cwd=self.source, env={**environment, "FLAVOUR": FLAVOUR},
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, check=False)

    def test_what_it_copies_is_all_that_installing_needs_and_what_the_second_takes_is_there(self):
        done = self.staged()
        self.assertEqual(done.returncode, 0, done.stdout)
        taken = copied(self.last)["stage"]
        self.assertEqual([source.removeprefix("/staged") for source, _ in taken], [place for _, place in taken])
        for source, _ in taken:
            self.assertTrue(os.path.isfile(self.directory + source), source)
        self.assertIn(json.loads(all_of(self.last, "ENTRYPOINT")[0])[0], [place for _, place in taken])


if __name__ == "__main__":
    unittest.main()
