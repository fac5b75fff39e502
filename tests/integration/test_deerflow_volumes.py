#!/usr/bin/python3
"""Reads every shared test volume as a Gateway does that has its storage by the agent, makes the shared sequences of
calls, and compares with what DeerFlow's own storage answered.

Rows of DIFFERENCES and LEFT_AT are deliberate: docs/deerflow.md and docs/conformance.md say why.
"""

import math
import os
import sys
import unittest
import unittest.mock

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests", "support"), os.path.join(ROOT, "ipc", "python")]

# pylint: disable=wrong-import-position
import agent  # noqa: E402
import stand_in_deerflow as deerflow  # noqa: E402
import volumes  # noqa: E402
from memsync.deerflow import seam  # noqa: E402
from memsync.values import to_wire  # noqa: E402
from peer import Peer  # noqa: E402
from process import MEMSYNCD, skip  # noqa: E402

CORRUPT = "corrupt"  # instead of a document
SERVED = "served"    # instead of an error, or of what reading has made of a newer layout
KEPT = "kept"        # with members of the manifest that DeerFlow drops when it migrates
LATER = "later"      # at another revision: a bucket was moved before it was read
UNKNOWN_TO_JSON = "unknown to JSON"

DIFFERENCES = {
    **{("corrupt-journals", user): CORRUPT
       for user in ("opnull", "opnum", "factnum", "oldlist", "oldnopath", "bare", "barezero")},
    ("corrupt-facts", "dotfile"): SERVED,
    ("corrupt-manifests", "bigint"): CORRUPT,
    ("crash-u-lost-backups", "alice"): CORRUPT,
    ("journal-dotdot", "victim"): CORRUPT,
    ("lead-agent-other-read", "alice"): LATER,
    ("rebuild-poison-key", "anna"): UNKNOWN_TO_JSON,
    ("hand-written-facts", "patnested"): UNKNOWN_TO_JSON,
    **{("v1-version-only", user): KEPT for user in ("one", "missing", "number", "null", "spelt")},
    ("v1-version-only", "future"): SERVED,
}
EMPTY = ({}, {"summary": "", "updatedAt": ""})
# Sequences of calls that go another way than DeerFlow's from this step on.
LEFT_AT = {
    "summaries": 2,          # a section is an object
    "substring-search": 1,   # the index answers
    "v1-write-first": 0,     # of DeerFlow's defects: facts are not lost,
    "misplaced-write": 0,    # an id is not written twice,
    "extra-keys-lost": 0,    # unknown members are kept
}
TIME = "2026-01-01T00:00:00Z"


class NoFiles:
    """In place of DeerFlow's own storage, which is not to be asked."""

    def __init__(self, _config):
        raise AssertionError("DeerFlow's own storage was asked")


def spelt(value):
    """As the expectations spell it: numbers that JSON lacks as objects too."""
    if isinstance(value, dict):
        return {name: spelt(each) for name, each in value.items()}
    if isinstance(value, list):
        return [spelt(each) for each in value]
    if isinstance(value, set):
        return {"$set": sorted(value)}
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": repr(value)}
    return value if value is None or isinstance(value, (str, int, float)) else to_wire(value)


def without_empty_sections(document):
    """Newer versions of DeerFlow fill in the sections that a manifest lacks."""
    for name in ("user", "history"):
        sections = document.get(name)
        document[name] = {key: section for key, section in sorted(sections.items()) if section not in EMPTY} \
            if isinstance(sections, dict) else {}
    return document


def with_times(value):
    """Arguments in which times stand where any would do."""
    if volumes.varies(value):
        return TIME
    if isinstance(value, dict):
        return {name: with_times(each) for name, each in value.items()}
    return [with_times(each) for each in value] if isinstance(value, list) else value


def in_one_order(value):
    """The order of keys is told by the volumes, not by calls; a section that only newer versions have is not told."""
    if isinstance(value, dict):
        return {name: in_one_order(each) for name, each in sorted(value.items()) if name != "cognitiveStyle"}
    return [in_one_order(each) for each in value] if isinstance(value, list) else value


def setUpModule():
    deerflow.quiet_log()


class SharedCase(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        if not volumes.shared_is_there():
            skip("the shared test volumes are not there")
        deerflow.install(without=deerflow.FENCE)
        seam.agent_memory_storage.cache_clear()
        cls.addClassCleanup(seam.agent_memory_storage.cache_clear)
        cls.addClassCleanup(deerflow.remove)
        cls.kind = deerflow.named("memsync.deerflow.AgentMemoryStorage")

    def storage(self, running, directory, **config):
        """By an agent on a copy of a volume."""
        with unittest.mock.patch.dict(os.environ, {"MEMSYNC_ENDPOINT": running.endpoint}):
            storage = self.kind(deerflow.Config(storage_path=directory.volume, **config))
        self.addCleanup(storage.close)
        return storage


class Operations(SharedCase):
    def step(self, storage, directory, step, where):
        call = getattr(storage, step["op"])
        if "error" in step:
            with self.assertRaises(Exception, msg=where) as caught:
                call(**with_times(step["args"]))
            self.assertEqual(type(caught.exception).__name__, step["error"]["class"], where)
        else:
            result = in_one_order(spelt(call(**with_times(step["args"]))))
            self.assertIsNone(volumes.difference(result, in_one_order(step["result"]), where))
        user = step["args"].get("user_id")
        if "manifest_revision" in step and user != "":
            manifest = Peer(directory.volume).manifest(user)
            self.assertEqual(manifest and manifest["revision"], step["manifest_revision"], where)

    def test_what_calls_do_is_what_deerflow_does(self):
        names = set()
        for sequence in volumes.shared_json("volumes", "ops.json")["sequences"]:
            names.add(sequence["name"])
            start = sequence.get("start_from_case")
            copy_of = start and volumes.shared_path("volumes", start, "volume")
            with self.subTest(sequence["name"]), volumes.Directory(copy_of) as directory, \
                    agent.Agent(MEMSYNCD, directory.volume) as running:
                storage = self.storage(running, directory, **sequence.get("config", {}))
                for number, step in enumerate(sequence["steps"][:LEFT_AT.get(sequence["name"])]):
                    self.step(storage, directory, step, f"{sequence['name']}[{number}] {step['op']}")
        self.assertLessEqual(set(LEFT_AT), names)


class Volumes(SharedCase):
    def check(self, storage, case, scope):
        difference = DIFFERENCES.get((case, scope["user_id"]))
        where = f"{case} {scope['user_id']!r} {scope['agent']!r}"
        is_refused = difference == CORRUPT or (bool(scope.get("error")) and difference != SERVED)
        if is_refused:
            with self.assertRaises(deerflow.MemoryStorageCorruption, msg=where):
                storage.load(scope["agent"], user_id=scope["user_id"])
            return
        document = storage.load(scope["agent"], user_id=scope["user_id"])
        if difference in (SERVED, UNKNOWN_TO_JSON):
            return
        expected = without_empty_sections(dict(scope["document"]))
        if difference == LATER:
            expected.update({name: document[name] for name in ("revision", "lastUpdated")})
        got = without_empty_sections(document)
        if difference == KEPT:
            self.assertIn("futureKey", got, where)
        self.assertIsNone(volumes.difference(spelt({name: got[name] for name in expected}), expected, where))
        self.assertEqual(set(got) - set(expected), {"futureKey"} if difference == KEPT and "futureKey" not in expected
                         else {"history"} - set(expected), where)

    def test_what_is_read_is_what_deerflow_reads(self):
        seen = set()
        for case in sorted(os.listdir(volumes.shared_path("volumes"))):
            path = volumes.shared_path("volumes", case)
            if not os.path.isdir(path):
                continue
            expected = volumes.shared_json("volumes", case, "expect.json")
            name = expected.get("config", {}).get("manifest_filename", "memory.json")
            config = {"volume": {"manifest_filename": name}}
            with volumes.Directory(os.path.join(path, "volume")) as directory, \
                    agent.Agent(MEMSYNCD, directory.volume, config=config) as running, \
                    unittest.mock.patch.object(self.kind.deerflow, "Files", NoFiles):
                storage = self.storage(running, directory)
                for scope in expected["scopes"]:
                    with self.subTest(case=case, user=scope["user_id"], agent=scope["agent"]):
                        seen.add((case, scope["user_id"]))
                        self.check(storage, case, scope)
        self.assertLessEqual(set(DIFFERENCES), seen)


if __name__ == "__main__":
    unittest.main()
