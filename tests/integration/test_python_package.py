#!/usr/bin/python3
"""The Python client as a package: what is built, that it works on its own, and what its types say."""

import ast
import glob
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from process import ROOT, ProcessCase, skip

PACKAGE = os.path.join(ROOT, "ipc", "python")
MODULES = sorted(glob.glob(os.path.join(PACKAGE, "memsync", "**", "*.py"), recursive=True))
OLDEST = (3, 9)

# What a user's type checker must know: it accepts the first and finds each fault of the second.
USE = """
import asyncio
from typing import List, Optional
from memsync import AsyncClient, Client, ConflictError, Fact

def contents(client: Client) -> List[str]:
    found = client.search("tea", user_id=None, top_k=3, timeout=1.0)
    revision: int = found.scopes[0].revision
    age: Optional[int] = found.scopes[0].age_ms
    print(revision, age)
    return [hit.fact.content for hit in found.hits]

async def first(client: AsyncClient) -> Fact:
    both = await asyncio.gather(client.get_fact("fact_1", user_id="u1"), client.get_fact("fact_2", user_id="u1"))
    async with client.events() as events:
        async for event in events:
            print(event.missed, event.revision)
    return both[0].fact

def write(client: Client) -> Optional[str]:
    try:
        return client.create_fact("Runs", user_id="u1").fact_id
    except ConflictError as error:
        return error.reason
"""
MISUSE = """
from memsync import AsyncClient, Client

def faults(client: Client, other: AsyncClient) -> None:
    client.search("tea")
    client.search("tea", user_id="u1", topk=3)
    client.search("tea", user_id=5)
    number: int = client.ping().name
    other.ping().name
    client.get_fact("fact_1", user_id="u1").facts
"""


def version():
    with open(os.path.join(ROOT, "Makefile"), encoding="utf-8") as file:
        return re.search(r"^VERSION := (\S+)$", file.read(), re.M)[1]


class Built(ProcessCase):
    """Both distributions, built once, in a directory that is not the tree's."""

    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.mkdtemp(prefix="mst-package-")
        cls.addClassCleanup(shutil.rmtree, cls.place, ignore_errors=True)
        done = subprocess.run(
            ["make", "--no-print-directory", "-C", ROOT, "python-package", f"PYTHON_BUILD={cls.place}"],
            env={name: value for name, value in os.environ.items()
                 if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "PYTHONPATH")},
            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=300)
        if "No module named 'setuptools'" in done.stdout:
            skip("setuptools is not installed: the Python package cannot be built")
        if done.returncode != 0:
            raise AssertionError(done.stdout)
        cls.dist = os.path.join(cls.place, "dist")

    def wheel(self):
        return os.path.join(self.dist, f"memsync-{version()}-py3-none-any.whl")

    def test_wheel_and_source_distribution_hold_the_package_and_nothing_else(self):
        self.assertEqual(sorted(os.listdir(self.dist)),
                         [os.path.basename(self.wheel()), f"memsync-{version()}.tar.gz"])
        modules = {os.path.relpath(path, PACKAGE) for path in MODULES} | {"memsync/py.typed"}
        with zipfile.ZipFile(self.wheel()) as wheel:
            names = set(wheel.namelist())
            info = f"memsync-{version()}.dist-info/"
            self.assertEqual({name for name in names if not name.startswith(info)}, modules)
            self.assertEqual([os.path.basename(name) for name in names if "LICENSE" in name], ["LICENSE"])
            metadata = wheel.read(info + "METADATA").decode()
        for line in (f"Version: {version()}", "Requires-Python: >=3.9", "License: MIT"):
            self.assertIn(line, metadata.splitlines())
        self.assertEqual(re.findall(r"^Requires-Dist: (.*)$", metadata, re.M), ["pyzmq (>=20)"]
                         if "pyzmq (>=20)" in metadata else ["pyzmq>=20"])
        self.assertIn("# memsync for Python", metadata)
        with tarfile.open(os.path.join(self.dist, f"memsync-{version()}.tar.gz")) as source:
            names = {name.partition("/")[2] for name in source.getnames()}
        self.assertLessEqual(modules | {"pyproject.toml", "README.md", "LICENSE", "project_version.py"}, names)
        self.assertEqual([name for name in names if "__pycache__" in name or name.endswith(".pyc")], [])

    def test_the_tree_is_left_as_it_was(self):
        self.assertEqual(sorted(name for name in os.listdir(PACKAGE) if not name.startswith((".", "__"))),
                         ["MANIFEST.in", "README.md", "memsync", "project_version.py", "pyproject.toml"])

    def test_the_wheel_works_without_the_tree(self):
        running = self.agent()
        with zipfile.ZipFile(self.wheel()) as wheel:
            wheel.extractall(os.path.join(self.directory, "site"))
        code = ("import importlib.metadata, sys, memsync\n"
                "print(memsync.__file__, importlib.metadata.version('memsync'))\n"
                "print(memsync.Client(sys.argv[1]).ping().name)\n")
        done = subprocess.run(
            [sys.executable, "-c", code, running.endpoint], cwd=self.directory, text=True, capture_output=True,
            check=False, timeout=60, env={**os.environ, "PYTHONPATH": os.path.join(self.directory, "site")})
        self.assertEqual((done.stderr, done.stdout.splitlines()),
                         ("", [f"{self.directory}/site/memsync/__init__.py {version()}", "memsyncd"]))


class Sources(unittest.TestCase):
    def test_the_oldest_python_can_read_them(self):
        self.assertGreater(len(MODULES), 8)
        for path in MODULES:
            with self.subTest(module=path), open(path, encoding="utf-8") as file:
                ast.parse(file.read(), feature_version=OLDEST)

    def test_they_need_nothing_but_the_standard_library_and_pyzmq(self):
        known = sys.stdlib_module_names | {"zmq"}
        for path in MODULES:
            with open(path, encoding="utf-8") as file:
                tree = ast.parse(file.read())
            for statement in tree.body:  # what stands below `if TYPE_CHECKING:` is for type checkers alone
                names = [each.name for each in statement.names] if isinstance(statement, ast.Import) else \
                    [statement.module] if isinstance(statement, ast.ImportFrom) and statement.level == 0 else []
                for name in names:
                    self.assertIn(name.partition(".")[0], known, path)

    def test_everything_that_is_offered_is_there(self):
        code = "import memsync; print(sorted(memsync.__all__) == sorted(set(memsync.__all__)), " \
               "all(hasattr(memsync, name) for name in memsync.__all__))"
        done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True,
                              env={**os.environ, "PYTHONPATH": PACKAGE})
        self.assertEqual(done.stdout, "True True\n")


class Types(unittest.TestCase):
    def setUp(self):
        if not shutil.which("mypy"):
            skip("mypy is not installed: the types of the Python client are not checked")
        self.directory = tempfile.mkdtemp(prefix="mst-")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)

    def mypy(self, *arguments, cwd=PACKAGE, **env):
        done = subprocess.run(
            ["mypy", "--cache-dir", os.path.join(self.directory, "cache"), *arguments], cwd=cwd, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=600, env={**os.environ, **env})
        return done.returncode, done.stdout

    def check_user(self, code):
        path = os.path.join(self.directory, "user.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(code)
        return self.mypy("--strict", path, cwd=self.directory, MYPYPATH=PACKAGE)

    def test_the_client_is_strictly_typed(self):
        code, output = self.mypy()
        self.assertEqual(code, 0, output)

    def test_a_users_code_is_checked(self):
        code, output = self.check_user(USE)
        self.assertEqual(code, 0, output)
        _, output = self.check_user(MISUSE)
        lines = {int(number) for number in re.findall(r"user\.py:(\d+): error", output)}
        first = MISUSE.splitlines().index("    client.search(\"tea\")") + 1
        self.assertEqual(lines, set(range(first, first + 6)), output)


if __name__ == "__main__":
    unittest.main()
