#!/usr/bin/python3
"""The checker of the soak (chaos/soak): good histories pass, and each doctored one is rejected for its reason."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SOAK = os.path.join(ROOT, "chaos", "soak")
sys.path[:0] = [SOAK, os.path.join(ROOT, "tests", "support")]

from checker import check
from history import WORDS, text_of, token_of, where_from, words_of

MS = 1_000_000


class Tale:
    """A history told operation by operation; each takes 10 ms, and there are 10 ms between two."""

    def __init__(self):
        self.operations = [{"kind": "begin", "seed": 1, "nodes": 2, "late_s": 1.0}]
        self.now = 1_000 * MS

    def add(self, **operation):
        operation.setdefault("begin", self.now)
        operation.setdefault("end", operation["begin"] + 10 * MS)
        self.now = max(self.now, operation["end"]) + 10 * MS
        self.operations.append(operation)
        return operation

    def write(self, revision, facts=None, user="u", agent="a", node=0, **more):
        """Acknowledged, unless told otherwise; `facts`: id to token, None removes it."""
        facts = facts or {}
        effect = {"set": {name: token for name, token in facts.items() if token},
                  "remove": [name for name, token in facts.items() if not token],
                  **{name: more.pop(name) for name in ("summary", "replace", "old") if name in more}}
        return self.add(**{"kind": "write", "who": f"w{node}", "node": node, "user": user, "agent": agent,
                           "what": "apply_changes", "effect": effect, "needs": {}, "outcome": "done",
                           "revision": revision, "index": "current", **more})

    def lost(self, facts, **more):
        """A write without an answer."""
        return self.write(None, facts, outcome="unknown", index=None, error="timeout", **more)

    def read(self, revision, facts, state="fresh", user="u", agent="a", node=0, **more):
        return self.add(**{"kind": "read", "who": f"w{node}", "node": node, "user": user, "agent": agent,
                           "what": "search", "freshness": "strict", "state": state, "revision": revision,
                           "age_ms": None, "reason": None, "facts": [list(fact) for fact in facts.items()], **more})

    def refusal(self, node):
        return self.add(kind="event", what="fail", node=None, where=node, operation="open", pattern="*.md",
                        words=["EACCES"])

    def calm(self):
        return self.add(kind="event", what="calm", node=None, bound_s=1.0)

    def files(self, revision, user="u", summary=None, **agents):
        return self.add(kind="files", user=user, revision=revision, summary=summary,
                        agents={agent: [list(fact) for fact in facts.items()] for agent, facts in agents.items()})

    def in_step(self, revision, facts, **more):
        """What shows at the end that both nodes have come in step by themselves."""
        for node in (0, 1):
            self.read(revision, facts, state="stale", freshness="local", age_ms=5, node=node, **more)
            self.read(revision, facts, node=node, **more)


def usual():
    """Two agents of one user, a third party, and an end. What is doctored is picked by its place in `marks`."""
    tale = Tale()
    tale.marks = {
        "first": tale.write(1, {"f1": "t1", "f2": "t2"}),
        "read first": tale.read(1, {"f1": "t1", "f2": "t2"}),
        "other agent": tale.write(2, {"g1": "t3"}, agent="b", node=1),
        "pair": tale.write(3, {"f1": "t4", "f2": "t5"}, needs={"facts": {"f1": "t1", "f2": "t2"}}),
        "read pair": tale.read(3, {"f1": "t4", "f2": "t5"}, state="refreshed", node=1),
        "party": tale.write(4, {"f3": "t6", "f1": None}, node=None, index=None),
        "read party": tale.read(4, {"f2": "t5", "f3": "t6"}),
        "read local": tale.read(3, {"f1": "t4", "f2": "t5"}, state="stale", freshness="local", age_ms=70, node=1),
        "read b": tale.read(4, {"g1": "t3"}, agent="b", node=1),
        "summary": tale.write(5, agent=None, summary="t7"),
        "memory": tale.read(5, {"f2": "t5", "f3": "t6"}, what="get_memory", summary="t7"),
        "refused": tale.write(None, {"f4": "t8"}, outcome="refused", index=None, error="conflict"),
        "calm": tale.calm(),
        "files": tale.files(5, summary="t7", a={"f2": "t5", "f3": "t6"}, b={"g1": "t3"}),
    }
    tale.in_step(5, {"f2": "t5", "f3": "t6"})
    tale.in_step(5, {"g1": "t3"}, agent="b")
    return tale


def invariants(tale):
    return {violation.invariant for violation in check(tale.operations)[0]}


class Good(unittest.TestCase):
    def accept(self, tale):
        violations, _ = check(tale.operations)
        self.assertEqual(violations, [])

    def test_the_usual(self):
        self.accept(usual())

    def test_one_commit_of_several_workers(self):
        tale = Tale()
        tale.write(1, {"f1": "t1"})
        begin = tale.now
        tale.write(2, {"f2": "t2"}, begin=begin)
        tale.write(2, {"f1": "t3"}, begin=begin, needs={"facts": {"f1": True}})
        tale.write(2, {"f1": "t4"}, begin=begin, needs={"facts": {"f1": "t3"}})
        tale.read(2, {"f1": "t4", "f2": "t2"})
        tale.files(2, a={"f1": "t4", "f2": "t2"})
        self.accept(tale)

    def test_facts_that_may_not_be_opened_for_a_while(self):
        tale = Tale()
        tale.write(1, {"f1": "t1", "f2": "t2"})
        tale.refusal(node=0)
        tale.read(1, {"f1": "t1"}, broken=1)
        tale.read(1, {"f2": "t2"}, broken=1, limit=2)
        tale.read(1, {}, broken=2)
        tale.read(1, {"f1": "t1", "f2": "t2"}, node=1)
        tale.write(2, {"f3": "t3"}, replace=True, kept=["f2"])
        tale.read(2, {"f2": "t2", "f3": "t3"})
        tale.files(2, a={"f2": "t2", "f3": "t3"})
        self.accept(tale)

    def test_a_lost_answer_may_mean_either(self):
        for done in (False, True):
            with self.subTest(done=done):
                tale = Tale()
                tale.write(1, {"f1": "t1"})
                tale.lost({"f1": "t2", "f2": "t3"}, needs={"facts": {"f1": "t1", "f2": None}})
                facts = {"f1": "t2", "f2": "t3"} if done else {"f1": "t1"}
                tale.read(1 + done, facts)
                tale.files(1 + done, a=facts)
                self.accept(tale)

    def test_a_lost_answer_may_come_true_later(self):
        tale = Tale()
        tale.write(1, {"f1": "t1"})
        tale.lost({"": "t2"})
        tale.read(1, {"f1": "t1"})
        tale.read(2, {"f1": "t1", "made_up": "t2"}, state="refreshed")
        tale.write(3, {"made_up": None}, needs={"facts": {"made_up": "t2"}})
        tale.files(3, a={"f1": "t1"})
        self.accept(tale)

    def test_of_several_lost_ones_some_are_done(self):
        """In an order that only the later answers tell."""
        tale = Tale()
        tale.write(1, {"f1": "t1"})
        begin = tale.now
        for number in range(4):
            tale.lost({"f1": f"x{number}"}, begin=begin, node=number % 2)
        tale.write(4, {"f9": "t9"})
        tale.read(4, {"f1": "x2", "f9": "t9"})
        tale.files(4, a={"f1": "x2", "f9": "t9"})
        self.accept(tale)

    def test_a_killed_writer_is_seen_or_not(self):
        tale = Tale()
        killed = tale.lost({"f1": "t1"}, node=None)
        killed["end"] = None
        tale.write(1, {"f2": "t2"})
        tale.files(1, a={"f2": "t2"})
        self.accept(tale)

    def test_imports_and_clears(self):
        tale = Tale()
        tale.write(1, {"f1": "t1", "f2": "t2"})
        tale.write(2, {"f2": "t2", "f3": "t3"}, replace=True, old=["t2"], needs={"revision": 1})
        tale.read(2, {"f2": "t2", "f3": "t3"})
        tale.write(3, replace=True, needs={"revision": 2})
        tale.read(3, {})
        tale.files(3, a={})
        self.accept(tale)

    def test_a_lost_index_may_go_back(self):
        tale = usual()
        at = tale.operations.index(tale.marks["read party"])
        gone = {"kind": "event", "what": "index deleted", "node": 0, "begin": tale.marks["read party"]["end"] + 1,
                "end": tale.marks["read party"]["end"] + 2}
        older = {**tale.marks["read first"], "begin": gone["end"] + 1, "end": gone["end"] + 2, "state": "unverified"}
        tale.operations[at + 1:at + 1] = [gone, older]
        self.accept(tale)

    def test_an_agent_that_knows_nothing_yet(self):
        tale = usual()
        tale.read(0, {}, state="stale", freshness="local", node=1)
        self.accept(tale)

    def test_an_agent_need_not_know_a_scope_without_facts(self):
        tale = Tale()
        tale.write(1, {"f1": "t1"})
        tale.write(2, {"f1": None})
        tale.calm()
        tale.files(2, a={})
        for node in (0, 1):
            tale.read(0, {}, state="stale", freshness="local", node=node)
            tale.read(2, {}, node=node)
        self.accept(tale)

    def test_parts_of_a_scope(self):
        tale = Tale()
        facts = {f"f{number}": f"t{number}" for number in range(20)}
        tale.write(1, facts)
        word = words_of("t3")[0]
        tale.read(1, {name: token for name, token in facts.items() if word in words_of(token)}, word=word)
        tale.read(1, {"f4": "t4", "f5": "t5"}, limit=2)
        tale.read(1, {"f6": "t6"}, what="get_fact", id="f6")
        tale.files(1, a=facts)
        self.accept(tale)


class Doctored(unittest.TestCase):
    """Each changes one thing in a history that is accepted without that."""

    def reject(self, tale, *wanted):
        self.assertEqual(invariants(tale), set(wanted))

    def doctor(self, mark, wanted, **changes):
        tale = usual()
        tale.marks[mark].update(changes)
        self.reject(tale, wanted)

    # -- what cannot be read --

    def broken(self, facts, told, refused=0, later_s=0):
        tale = Tale()
        tale.write(1, {"f1": "t1", "f2": "t2", "f3": "t3"})
        tale.refusal(refused)
        tale.now += later_s * 1000 * MS
        tale.read(1, facts, broken=told)
        return tale

    def test_more_is_missing_than_is_told_as_broken(self):
        self.reject(self.broken({"f1": "t1"}, told=1), "torn")

    def test_another_fact_than_was_written_beside_a_broken_one(self):
        self.reject(self.broken({"f1": "t2", "f3": "t3"}, told=1), "torn")

    def test_broken_although_nobody_refuses(self):
        self.reject(self.broken({"f1": "t1"}, told=2, refused=1), "broken")

    def test_broken_long_after_the_refusal(self):
        self.reject(self.broken({"f1": "t1"}, told=2, later_s=31), "broken")

    def test_a_fact_comes_back_that_an_import_has_not_kept(self):
        tale = Tale()
        tale.write(1, {"f1": "t1", "f2": "t2"})
        tale.write(2, {"f3": "t3"}, replace=True, kept=["f2"])
        tale.read(2, {"f1": "t1", "f2": "t2", "f3": "t3"})
        self.reject(tale, "resurrection")

    # -- fresh is true --

    def test_fresh_although_it_was_replaced_before(self):
        self.doctor("read party", "fresh", revision=3, facts=[["f1", "t4"], ["f2", "t5"]])

    def test_fresh_although_another_node_has_seen_the_next_one(self):
        tale = usual()
        tale.read(5, {"f2": "t5", "f3": "t6"})
        tale.read(4, {"f2": "t5", "f3": "t6"}, node=1, user="u2")
        tale.operations[-1].update(user="u", agent="a")
        self.reject(tale, "fresh", "monotone")

    def test_the_facts_of_one_revision_under_the_name_of_another(self):
        self.doctor("read party", "fresh", facts=[["f1", "t4"], ["f2", "t5"]])

    def test_told_before_it_was_written(self):
        tale = usual()
        read, write = tale.marks["read pair"], tale.marks["pair"]
        read["begin"], read["end"] = write["begin"] - 2 * MS, write["begin"] - MS
        self.reject(tale, "fresh")

    def test_a_revision_that_has_never_been(self):
        tale = usual()
        tale.read(6, {"f2": "t5", "f3": "t6"})
        self.reject(tale, "fresh")

    def test_an_old_version_of_one_fact(self):
        self.doctor("read party", "fresh", what="get_fact", id="f2", facts=[["f2", "t2"]])

    # -- no torn commit --

    def test_half_a_commit(self):
        self.doctor("read pair", "torn", facts=[["f1", "t4"], ["f2", "t2"]])

    def test_half_a_commit_in_a_stale_answer(self):
        self.doctor("read local", "torn", facts=[["f1", "t4"], ["f2", "t2"]])

    def test_half_of_a_write_whose_answer_was_lost(self):
        tale = Tale()
        tale.write(1, {"f1": "t1", "f2": "t2"})
        tale.lost({"f1": "t3", "f2": "t4"})
        tale.read(2, {"f1": "t3", "f2": "t2"})
        tale.files(2, a={"f1": "t3", "f2": "t4"})
        self.reject(tale, "torn")

    def test_a_summary_and_facts_of_different_revisions(self):
        self.doctor("memory", "torn", facts=[["f2", "t2"], ["f3", "t6"]])

    def test_a_memory_without_the_last_summary(self):
        self.doctor("memory", "fresh", summary=None)

    def test_a_word_that_is_not_found(self):
        tale = Tale()
        tale.write(1, {"f1": "t1", "f2": "t2"})
        tale.read(1, {}, word=words_of("t1")[0], agent="a")
        tale.files(1, a={"f1": "t1", "f2": "t2"})
        self.assertTrue(invariants(tale) <= {"torn", "fresh"} and invariants(tale))

    def test_fewer_than_were_asked_for(self):
        tale = Tale()
        tale.write(1, {"f1": "t1", "f2": "t2", "f3": "t3"})
        tale.write(2, {"f4": "t4"})
        tale.read(2, {"f1": "t1", "f4": "t4"}, limit=3)
        tale.files(2, a={"f1": "t1", "f2": "t2", "f3": "t3", "f4": "t4"})
        self.reject(tale, "torn")

    # -- no resurrection --

    def test_a_removed_fact_is_found(self):
        self.doctor("read party", "resurrection", facts=[["f1", "t4"], ["f2", "t5"], ["f3", "t6"]])

    def test_a_removed_fact_is_on_the_volume(self):
        tale = usual()
        tale.operations = tale.operations[:tale.operations.index(tale.marks["files"]) + 1]
        tale.operations.remove(tale.marks["calm"])
        tale.marks["files"]["agents"]["a"].append(["f1", "t4"])
        self.reject(tale, "resurrection")

    # -- no loss --

    def without_end(self):
        """The usual up to where the files are looked at."""
        tale = usual()
        tale.operations = tale.operations[:tale.operations.index(tale.marks["files"]) + 1]
        tale.operations.remove(tale.marks["calm"])
        return tale

    def test_an_acknowledged_fact_is_not_on_the_volume(self):
        tale = self.without_end()
        tale.marks["files"]["agents"]["a"] = [["f2", "t5"]]
        self.reject(tale, "loss")

    def test_an_acknowledged_change_is_not_on_the_volume(self):
        tale = self.without_end()
        tale.marks["files"]["agents"]["a"] = [["f2", "t2"], ["f3", "t6"]]
        self.reject(tale, "loss")

    def test_an_acknowledged_summary_is_not_on_the_volume(self):
        tale = self.without_end()
        tale.marks["files"]["summary"] = None
        self.reject(tale, "loss")

    def test_the_volume_ends_before_an_acknowledged_revision(self):
        tale = self.without_end()
        tale.operations.remove(tale.marks["memory"])
        tale.marks["files"].update(revision=4, summary=None)
        self.reject(tale, "loss")

    def test_two_nodes_make_one_revision(self):
        tale = self.without_end()
        tale.marks["other agent"]["revision"] = 3
        tale.operations[tale.operations.index(tale.marks["pair"])]["revision"] = 3
        tale.lost({"f9": "t9"})["begin"] = tale.marks["first"]["begin"]
        self.assertIn("loss", invariants(tale))

    def test_a_change_of_what_was_not_there_any_more(self):
        self.doctor("pair", "loss", needs={"facts": {"f1": "t0"}})

    def test_a_write_for_another_revision(self):
        self.doctor("pair", "loss", needs={"revision": 1})

    # -- never back --

    def test_an_agent_goes_back(self):
        tale = usual()
        tale.read(3, {"f1": "t4", "f2": "t5"}, state="stale", freshness="local", age_ms=1000)
        self.reject(tale, "monotone")

    def test_a_worker_does_not_find_its_own_write(self):
        tale = Tale()
        tale.write(1, {"f1": "t1"})
        tale.write(2, {"f1": "t2"})
        tale.read(1, {"f1": "t1"}, state="stale", freshness="local", age_ms=1000)
        tale.files(2, a={"f1": "t2"})
        self.reject(tale, "monotone")

    # -- isolation and origin --

    def test_a_fact_of_another_user(self):
        self.doctor("read pair", "isolation", facts=[["f1", "t4"], ["f2", "t5"], ["h1", text_of("v", "a", "t99")]])

    def test_a_fact_of_another_agent(self):
        self.doctor("read pair", "isolation", facts=[["f1", "t4"], ["f2", "t5"], ["g1", "t3"]])

    def test_a_fact_that_nobody_wrote(self):
        self.doctor("read pair", "phantom", facts=[["f1", "t4"], ["f2", "t5"], ["f7", "t77"]])

    def test_a_text_that_is_no_longer_what_was_written(self):
        self.doctor("read pair", "phantom", facts=[["f1", text_of("u", "a", "t4")[:-3]], ["f2", "t5"]])

    def test_a_revision_that_is_nobodys_write(self):
        tale = usual()
        tale.operations.remove(tale.marks["other agent"])
        self.assertIn("phantom", invariants(tale))

    def test_a_change_that_was_refused(self):
        tale = usual()
        tale.read(5, {"f2": "t5", "f3": "t6", "f4": "t8"})
        self.reject(tale, "refused")

    # -- liveness --

    def test_a_node_that_does_not_come_in_step(self):
        tale = usual()
        for read in tale.operations:
            if read["kind"] == "read" and read["begin"] > tale.marks["calm"]["begin"] and read["node"] == 1 \
                    and read["freshness"] == "local" and read["agent"] == "a":
                read.update(revision=4, age_ms=None)
        self.reject(tale, "liveness")

    def test_a_node_that_knows_nothing_of_a_scope_with_facts(self):
        tale = usual()
        for read in tale.operations:
            if read["kind"] == "read" and read["begin"] > tale.marks["calm"]["begin"] and read["node"] == 1 \
                    and read["freshness"] == "local" and read["agent"] == "b":
                read.update(revision=0, facts=[], age_ms=None)
        self.reject(tale, "liveness")

    def test_a_node_that_comes_in_step_too_late(self):
        self.doctor("calm", "liveness", bound_s=0.001)

    def test_a_node_that_is_not_fresh_in_the_end(self):
        tale = usual()
        tale.now += 2_000 * MS
        tale.read(5, {"f2": "t5", "f3": "t6"}, state="unverified", node=1)
        self.reject(tale, "liveness")

    # -- what a stale answer claims --

    def test_an_answer_that_is_older_than_it_says(self):
        self.doctor("read local", "age", age_ms=1)


class Command(unittest.TestCase):
    def run_checker(self, operations):
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
            file.write("".join(json.dumps(operation) + "\n" for operation in operations))
            file.flush()
            return subprocess.run([sys.executable, os.path.join(SOAK, "checker.py"), file.name],
                                  capture_output=True, text=True, check=False)

    def test_a_good_history(self):
        done = self.run_checker(usual().operations)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("22 operations", done.stdout)
        self.assertIn("1 users, 5 revisions", done.stdout)
        self.assertNotIn("VIOLATION", done.stdout)

    def test_a_bad_one_tells_the_operations(self):
        tale = usual()
        tale.marks["read pair"]["facts"] = [["f1", "t4"], ["f2", "t2"]]
        done = self.run_checker(tale.operations)
        self.assertEqual(done.returncode, 1)
        self.assertIn("VIOLATION torn", done.stdout)
        self.assertIn(json.dumps(tale.marks["read pair"]), done.stdout)

    def test_what_is_no_history(self):
        self.assertEqual(self.run_checker([]).returncode, 2)
        self.assertEqual(self.run_checker([{"kind": "read"}]).returncode, 2)


class Contents(unittest.TestCase):
    def test_a_text_tells_where_it_is_from(self):
        text = text_of("u0", "helper", "n0w1s2")
        self.assertEqual(token_of("u0", "helper", text), "n0w1s2")
        self.assertEqual(token_of("u1", "helper", text), text)
        self.assertEqual(where_from(text), ("u0", "helper", "n0w1s2"))
        self.assertIsNone(where_from(text + "x"))

    def test_every_word_is_in_some_fact(self):
        self.assertEqual({word for number in range(500) for word in words_of(f"n0w1s{number}")}, set(WORDS))


if __name__ == "__main__":
    unittest.main()
