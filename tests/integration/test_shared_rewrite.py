#!/usr/bin/python3
"""Rewrites what the peers wrote, through the agent, and reads it again: nothing may change but what was asked.

For every shared volume of the present layout, scope by scope. First a rewrite that asks for nothing: every
document as it was read. It must write nothing at all. Then every fact is really written anew (a member is
added and taken away again), after which the documents are the peers' own but for revision and updatedAt,
and every file reads the same to an independent reader.
"""

import os
import re
import unittest

import agent
import volumes
import yaml

# Volumes of the present layout whose scopes load for the peers. The others are refused, damaged or old: they have
# tests of their own.
LEFT_OUT = ("corrupt-", "crash-", "v1-", "lead-agent-", "rebuild-poison-", "hand-written-refused", "journal-dotdot",
            "user-id-alias", "foreign-files")
# What the peers take for line ends when they read a body; they come back as newlines.
LINE_ENDS = re.compile("[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")

CHANGED = ("revision", "updatedAt")


def cases():
    if not volumes.shared_is_there():
        return []
    found = []
    for name in sorted(os.listdir(volumes.shared_path("volumes"))):
        path = volumes.shared_path("volumes", name)
        if os.path.isdir(path) and not name.startswith(LEFT_OUT) and name != "custom-manifest-name":
            found.append(name)
    return found


def plain(fact):
    return {key: value for key, value in fact.items() if key not in CHANGED}


class SharedRewrite(unittest.TestCase):
    maxDiff = 4000

    def rewrite_nothing(self, running, scope, facts):
        told = running.rpc("apply_changes", **scope, upserts=facts)
        self.assertEqual((told["changed"], told["upserted"], told["deleted"]), (False, [], []), scope)

    def rewrite_all(self, running, scope, facts):
        """Two commits: one that adds a member, one that takes it away."""
        marked = [{**fact, "rewritten": True} for fact in facts]
        told = running.rpc("apply_changes", **scope, upserts=marked)
        self.assertEqual(len(told["upserted"]), len(facts))
        bare = [{key: value for key, value in fact.items() if key != "rewritten"} for fact in told["upserted"]]
        told = running.rpc("apply_changes", **scope, upserts=bare)
        self.assertEqual(len(told["upserted"]), len(facts))

    def check_scope(self, running, scope, expected):
        facts = running.rpc("list_facts", **scope)["facts"]
        self.assertEqual(running.rpc("list_facts", **scope)["facts"], facts)
        if not facts:
            return 0
        self.rewrite_all(running, scope, facts)
        again = running.rpc("list_facts", **scope)["facts"]
        self.assertEqual([plain(fact) for fact in again], [plain(fact) for fact in facts], scope)
        self.assertEqual([fact["revision"] for fact in again], [fact["revision"] + 2 for fact in facts])
        document = running.rpc("get_memory", **scope)["memory"]
        # Members that a hand-written file lacked stand where they were added.
        for fact, wanted in zip(document["facts"], expected["facts"], strict=True):
            fact, wanted = ({key: each[key] for key in sorted(plain(each))} for each in (fact, wanted))
            self.assertIsNone(volumes.difference(fact, wanted), scope)
        for group in ("user", "history"):  # sections that were not there are there now, without a text
            for section, wanted in expected[group].items():
                self.assertIsNone(volumes.difference(document[group][section], wanted), scope)
        self.assertTrue(running.rpc("verify", **scope)["ok"])
        return len(facts)

    def read_independently(self, directory):
        """Every fact file: its front matter by PyYAML, and the rest of its text."""
        found = {}
        for top, _, names in os.walk(directory):
            for name in names:
                path = os.path.join(top, name)
                if name.endswith(".md") and "/facts/" in path and not name.startswith("."):
                    with open(path, encoding="utf-8", newline="") as file:
                        front, _, body = file.read().replace("\r\n", "\n")[4:].partition("\n---\n")
                    values = yaml.load(front, Loader=yaml.SafeLoader)
                    found[os.path.relpath(path, directory)] = (
                        {key: repr(value) for key, value in values.items() if key not in CHANGED},
                        re.sub(" *\n *", "\n", LINE_ENDS.sub("\n", body)).strip())
        return found

    def check_files(self, after, before):
        """All that an independent reader found before is there after, beside defaults."""
        self.assertEqual(sorted(after), sorted(before))
        for path, (values, body) in before.items():
            self.assertEqual(after[path][1].removeprefix("# "), body.removeprefix("# "), path)
            self.assertLessEqual(values.items(), after[path][0].items(), path)

    def run_case(self, name):
        case = volumes.shared_json("volumes", name, "expect.json")
        scopes = [scope for scope in case["scopes"] if "document" in scope and scope.get("agent")]
        with volumes.Directory(volumes.shared_path("volumes", name, "volume")) as directory:
            volume = directory.volume
            before = volumes.files_of(volume)
            with agent.Agent(agent.binary("memsyncd"), volume,
                             config={"backend": {"config": {"max_facts": 0}}}) as running:
                for scope in scopes:
                    parameters = {"user_id": scope["user_id"], "agent_name": scope["agent"]}
                    self.rewrite_nothing(running, parameters, running.rpc("list_facts", **parameters)["facts"])
                self.assertEqual(volumes.files_of(volume), before, "a rewrite of nothing wrote something")
                read_before = self.read_independently(volume)
                written = sum(self.check_scope(running, {"user_id": scope["user_id"], "agent_name": scope["agent"]},
                                               scope["document"]) for scope in scopes)
            self.assertEqual(written, sum(len(scope["document"]["facts"]) for scope in scopes))
            if written and not name.startswith("hand-written"):
                self.check_files(self.read_independently(volume), read_before)


def add_cases():
    def make(name):
        def test(self):
            self.run_case(name)
        return test

    for name in cases():
        setattr(SharedRewrite, "test_" + name.replace("-", "_"), make(name))


add_cases()

if __name__ == "__main__":
    unittest.main()
