#!/usr/bin/python3
"""Reads every shared test volume as a Gateway does that has its storage by the agent, and compares with what DeerFlow's
own storage answered for it.

Rows of DIFFERENCES are deliberate: docs/deerflow.md and docs/conformance.md say why.
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
import memsync.deerflow  # noqa: E402
import stand_in_deerflow as deerflow  # noqa: E402
import volumes  # noqa: E402
from memsync.values import to_wire  # noqa: E402
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


class Volumes(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        if not volumes.shared_is_there():
            skip("the shared test volumes are not there")
        deerflow.install(without=deerflow.FENCE)
        cls.addClassCleanup(deerflow.remove)
        cls.kind = deerflow.named("memsync.deerflow.AgentMemoryStorage")

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
                    unittest.mock.patch.dict(os.environ, {"MEMSYNC_ENDPOINT": running.endpoint}), \
                    unittest.mock.patch.object(self.kind.deerflow, "Files", NoFiles):
                storage = self.kind(deerflow.Config(storage_path=directory.volume))
                self.addCleanup(storage.close)
                for scope in expected["scopes"]:
                    with self.subTest(case=case, user=scope["user_id"], agent=scope["agent"]):
                        seen.add((case, scope["user_id"]))
                        self.check(storage, case, scope)
        self.assertLessEqual(set(DIFFERENCES), seen)


if __name__ == "__main__":
    unittest.main()
