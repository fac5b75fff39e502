#!/usr/bin/python3
"""The commands of `memsync` that change memory.

Most tests run them against a scripted agent, where each request and each error can be seen and made. Journeys runs
them against a small agent of Python with a memory of its own, and against the real one.
"""

import copy
import fcntl
import json
import os
import pty
import select
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

import volumes
from agent import Agent as RealAgent, binary
from process import skip
from scripted_agent import DEADLINE_S, MEMSYNC, Agent as ScriptedAgent, Case, Refusal
from stub_memory import StubMemory

HELLO = {"protocol": 1, "name": "memsyncd", "version": "0.1.0", "backend": "deermem", "events": None, "pid": 1}
DONE = {"revision": 8, "changed": True, "last_updated": "2026-03-01T08:00:00Z", "index": "current", "attempts": 1}
FRESH = {"user_id": "u1", "agent_name": "__default__", "revision": 7, "state": "fresh"}
TEA = {"id": "fact_tea", "content": "Likes green tea", "category": "preference", "revision": 3}
QUESTION = "go on? [y/N] "
BEHIND = "memsync import: done; the agent's index does not have it yet, and searches will wait for it\n"


class WriteCase(Case):
    def setUp(self):
        super().setUp()
        self.agent.answers["ping"] = HELLO

    def run_cli(self, *arguments, data=b"", **environment):
        """Without any terminal."""
        result = subprocess.run([MEMSYNC, *arguments], env=self.environment | environment, input=data,
                                capture_output=True, timeout=DEADLINE_S, check=False, start_new_session=True)
        return result.returncode, result.stdout.decode(), result.stderr.decode()

    def methods(self):
        """What was asked for, without greetings."""
        return [method for method, _ in self.agent.requests if method not in ("ping", "status")]

    def params(self, method):
        """The parameters of the only request of that name."""
        found = [params for name, params in self.agent.requests if name == method]
        self.assertEqual(len(found), 1, self.agent.requests)
        return {name: value for name, value in found[0].items() if name != "timeout_ms"}

    def timeout(self, method):
        return [params["timeout_ms"] for name, params in self.agent.requests if name == method][-1]

    def on_terminal(self, arguments, steps, redirect=None):
        """Runs it on a terminal of its own, standard output apart. `steps` are pairs: what must have appeared, and
        what is typed then (a signal is sent). `redirect` is what a shell is told besides."""
        master, slave = pty.openpty()
        command = ["setsid", "--ctty", MEMSYNC, *arguments]
        if redirect is not None:
            command = ["setsid", "--ctty", "sh", "-c", f'exec "$@" {redirect}', "sh", MEMSYNC, *arguments]
        process = subprocess.Popen(command, stdin=slave, stdout=subprocess.PIPE, stderr=slave,
                                   env=self.environment | {"TERM": "xterm", "LC_ALL": "C.UTF-8"})
        os.close(slave)
        screen, steps = "", list(steps)
        while select.select([master], [], [], DEADLINE_S)[0]:
            try:
                screen += os.read(master, 65536).decode()
            except OSError:  # the other end is closed
                break
            if steps and steps[0][0] in screen:
                _, reply = steps.pop(0)
                if isinstance(reply, signal.Signals):
                    process.send_signal(reply)
                else:
                    os.write(master, reply.encode())
        os.close(master)
        out, _ = process.communicate(timeout=DEADLINE_S)
        self.assertEqual(steps, [], screen)
        return process.returncode, out.decode(), screen.replace("\r\n", "\n")


class Add(WriteCase):
    def setUp(self):
        super().setUp()
        self.agent.answers["create_fact"] = {"fact_id": "fact_1", "fact": TEA, "evicted": []} | DONE

    def test_prints_the_id_alone(self):
        self.assertEqual(self.expect(0, "-u", "u1", "add", "Likes", "green tea"), ("fact_1\n", ""))
        self.assertEqual(self.params("create_fact"),
                         {"user_id": "u1", "agent_name": None, "content": "Likes green tea"})
        self.assertGreater(self.timeout("create_fact"), 25000)

    def test_sends_what_the_options_say(self):
        self.expect(0, "add", "-u", "u1", "-a", "coder", "-c", "goal", "--confidence", "0.25", "--topic", "a b",
                    "--topic", "", "--topic", "c", "--source", "thread-9", "--source-error", "said so", "--timeout",
                    "1000", "x")
        self.assertEqual(self.params("create_fact"), {
            "user_id": "u1", "agent_name": "coder", "content": "x", "category": "goal", "confidence": 0.25,
            "topics": ["a b", "c"], "source": "thread-9", "source_error": "said so"})
        self.assertEqual(self.timeout("create_fact"), 900)

    def test_standard_input_is_the_text_when_there_is_none_else(self):
        for arguments in ((), ("-",)):
            self.agent.requests.clear()
            self.expect(0, "-u", "u1", "add", *arguments, data="  one\n\ntwo é\0x\n\n".encode())
            self.assertEqual(self.params("create_fact")["content"], "  one\n\ntwo é\0x")

    def test_what_is_no_text_is_not_sent(self):
        for arguments, data, wanted in (((), b"", "no text"), ((), b" \n\t\n", "no text"), ((" ",), b"", "no text"),
                                        ((), b"\xff", "UTF-8"), ((b"\xff",), b"", "UTF-8"),
                                        (("x", "--topic", b"\xff"), b"", "UTF-8"),
                                        (("x", "--source", b"\xff"), b"", "UTF-8")):
            _, err = self.expect(2, "-u", "u1", "add", *arguments, data=data)
            self.assertIn(wanted, err)
        _, err = self.expect(2, "add", "x")
        self.assertIn("whose memory", err)
        self.assertEqual(self.agent.requests, [])

    def test_what_had_to_go_is_told(self):
        self.agent.answers["create_fact"] |= {"evicted": ["fact_a", "fact_b\x1b"]}
        out, err = self.expect(0, "-u", "u1", "add", "x")
        self.assertEqual((out, err), ("fact_1\n", "memsync add: removed to make room: fact_a, fact_b\\x1b\n"))

    def test_of_many_that_had_to_go_some_are_told(self):
        self.agent.answers["create_fact"] |= {"evicted": [f"f{n}" for n in range(500)]}
        _, err = self.expect(0, "-u", "u1", "add", "x")
        self.assertTrue(err.endswith("f8, f9 and 490 more\n"), err)

    def test_a_fact_that_found_no_room_is_no_result(self):
        self.agent.answers["create_fact"] |= {"fact_id": None, "fact": None, "refused_id": "fact_new",
                                              "evicted": ["fact_new"], "changed": False}
        for arguments in ((), ("--json",)):
            out, err = self.expect(1, "-u", "u1", "add", "x", *arguments)
            self.assertEqual(err, "memsync add: not stored: the scope is full of facts that count for more\n")
        self.assertEqual(json.loads(out)["refused_id"], "fact_new")
        self.agent.answers["create_fact"] |= {"evicted": ["a", "fact_new", "b"], "changed": True}
        out, err = self.expect(1, "-u", "u1", "add", "x")
        self.assertEqual((out, err), ("", "memsync add: not stored: the scope is full of facts that count for more; it "
                                          "had more than it may, so these were removed: a, b\n"))

    def test_a_confidence_is_a_plain_number(self):
        for text in ("0x0.8p0", "0x1", " 0.5", "5e-1", "inf", "nan", "", "-", ".", "1.1", "-0.1", "0.5 "):
            _, err = self.expect(2, "-u", "u1", "add", "x", "--confidence", text)
            self.assertIn("from 0 to 1", err)
        self.assertEqual(self.agent.requests, [])
        for text, wanted in (("-0", "0.0"), ("-0.0", "0.0"), (".5", "0.5"), ("1", "1.0")):
            self.expect(0, "-u", "u1", "add", "x", "--confidence", text)
            self.assertIn(f'"confidence":{wanted},'.encode(), self.agent.bodies[-1])

    def test_json_is_the_answer_as_it_came(self):
        self.agent.answers["create_fact"] = '{"fact_id": "f", "revision":8, "n":0.90}'
        self.assertEqual(self.expect(0, "-u", "u1", "--json", "add", "x")[0],
                         '{"fact_id": "f", "revision":8, "n":0.90}\n')

    def test_who_types_is_told_how_to_end(self):
        code, out, screen = self.on_terminal(("-u", "u1", "add"), [("Ctrl-D", "typed\n\x04")])
        self.assertEqual((code, out), (0, "fact_1\n"), screen)
        self.assertEqual(self.params("create_fact")["content"], "typed")

    def test_an_interrupt_ends_the_reading(self):
        code, out, _ = self.on_terminal(("-u", "u1", "add"), [("Ctrl-D", "half\n\x03")])
        self.assertEqual((code, out, self.agent.requests), (130, "", []))


class Update(WriteCase):
    def setUp(self):
        super().setUp()
        self.agent.answers["update_fact"] = {"fact": TEA} | DONE

    def test_sends_only_what_is_to_change(self):
        self.assertEqual(self.expect(0, "-u", "u1", "update", "fact_tea", "-c", "goal"),
                         ("fact_tea, revision 3\n", ""))
        common = {"user_id": "u1", "agent_name": None, "fact_id": "fact_tea"}
        self.assertEqual(self.params("update_fact"), common | {"category": "goal"})
        self.agent.requests.clear()
        self.expect(0, "-u", "u1", "update", "fact_tea", "--content", "new", "--confidence", "1", "--topic", "",
                    "--source-error", "e", "--expect-revision", "9223372036854775807")
        self.assertEqual(self.params("update_fact"), common | {
            "content": "new", "confidence": 1, "topics": [], "source_error": "e",
            "expected_revision": 9223372036854775807})

    def test_the_text_may_come_from_standard_input(self):
        self.expect(0, "-u", "u1", "update", "f", "--content", "-", data=b"new\ntext\n")
        self.assertEqual(self.params("update_fact")["content"], "new\ntext")

    def test_something_must_change(self):
        for arguments in ((), ("--expect-revision", "3")):
            _, err = self.expect(2, "-u", "u1", "update", "f", *arguments)
            self.assertIn("--content", err)
        self.expect(2, "-u", "u1", "update", "--content", "x")
        self.expect(2, "-u", "u1", "update", "f", "--content", " ")
        self.assertEqual(self.agent.requests, [])

    def test_nothing_to_change_is_no_failure(self):
        self.agent.answers["update_fact"] |= {"changed": False}
        out, err = self.expect(0, "-u", "u1", "update", "fact_tea", "-c", "preference")
        self.assertEqual((out, err), ("fact_tea, revision 3\n", "memsync update: nothing had to be changed\n"))

    def test_an_index_that_is_behind_is_told_of(self):
        self.agent.answers["update_fact"] |= {"index": "behind"}
        self.assertIn("index", self.expect(0, "-u", "u1", "update", "fact_tea", "-c", "x")[1])


class Delete(WriteCase):
    def setUp(self):
        super().setUp()
        self.facts = {"fact_tea": TEA, "b": TEA | {"id": "b", "content": "x\x1b[2J" + 100 * "y", "revision": 5}}
        self.agent.answers["get_fact"] = self.get
        self.agent.answers["delete_fact"] = lambda params: {"deleted": [params["fact_id"]]} | DONE
        self.agent.answers["apply_changes"] = lambda params: {
            "upserted": [], "deleted": [i for i in params["deletes"] if i in self.facts]} | DONE

    def get(self, params):
        if params["fact_id"] not in self.facts:
            raise Refusal(-32001, "no fact " + params["fact_id"])
        return {"fact": self.facts[params["fact_id"]], "scope": FRESH}

    def test_shows_what_it_will_delete_and_deletes_just_that(self):
        code, out, screen = self.on_terminal(("-u", "u1", "delete", "fact_tea"), [(QUESTION, "y\n")])
        self.assertEqual((code, out), (0, "deleted fact_tea\n"))
        self.assertIn("this deletes 1 fact:\n  fact_tea  Likes green tea\ngo on? [y/N] ", screen)
        self.assertEqual(self.params("delete_fact"), {"user_id": "u1", "agent_name": None, "fact_id": "fact_tea",
                                                      "expected_revision": 3})

    def test_every_other_answer_is_no(self):
        for answer in ("n\n", "\n", "yy\n", "yes please, all of it\n", "\x04"):
            code, out, screen = self.on_terminal(("-u", "u1", "delete", "fact_tea"), [(QUESTION, answer)])
            self.assertEqual((code, out), (1, ""), answer)
            self.assertIn("nothing was changed", screen)
        self.assertEqual(set(self.methods()), {"get_fact"})

    def test_an_interrupt_at_the_question_is_no(self):
        for stop in ("\x03", signal.SIGTERM):
            code, out, _ = self.on_terminal(("-u", "u1", "delete", "fact_tea"), [(QUESTION, stop)])
            self.assertEqual((code, out), (143 if stop is signal.SIGTERM else 130, ""))
        self.assertEqual(set(self.methods()), {"get_fact"})

    def test_without_a_terminal_it_wants_yes(self):
        for data in (b"", b"y\n"):
            out, err = self.expect(2, "-u", "u1", "delete", "fact_tea", data=data)
            self.assertEqual(out, "")
            self.assertIn("--yes", err)
            self.assertEqual(err.count("\n"), 1)
        self.assertEqual(set(self.methods()), {"get_fact"})

    def test_a_question_is_seen_where_errors_are_not(self):
        code, out, screen = self.on_terminal(("-u", "u1", "delete", "fact_tea"), [(QUESTION, "y\n")],
                                             redirect="2>/dev/null")
        self.assertEqual((code, out), (0, "deleted fact_tea\n"), screen)

    def test_yes_asks_and_looks_up_nothing(self):
        for option in ("-y", "--yes"):
            self.agent.requests.clear()
            self.assertEqual(self.expect(0, "-u", "u1", "delete", option, "x"), ("deleted x\n", ""))
            self.assertEqual(self.methods(), ["delete_fact"])
        self.agent.requests.clear()
        self.expect(0, "-u", "u1", "delete", "-y", "x", "--expect-revision", "4")
        self.assertEqual(self.params("delete_fact")["expected_revision"], 4)

    def test_several_go_in_one_commit(self):
        code, out, screen = self.on_terminal(("-u", "u1", "delete", "fact_tea", "b", "fact_tea"), [(QUESTION, "Y\n")])
        self.assertEqual((code, out), (0, "deleted fact_tea\ndeleted b\n"), screen)
        self.assertIn("this deletes 2 facts:", screen)
        self.assertRegex(screen, r"(?m)^  b  x\\x1b\[2Jy+\.\.\.$")
        self.assertEqual(self.params("apply_changes"), {
            "user_id": "u1", "agent_name": None, "deletes": ["fact_tea", "b"],
            "expected_fact_revisions": {"fact_tea": 3, "b": 5}})

    def test_more_than_can_be_shown(self):
        ids = [f"f{n}" for n in range(15)]
        self.facts |= {name: TEA | {"id": name} for name in ids}
        code, out, screen = self.on_terminal(("-u", "u1", "delete", *ids), [(QUESTION, "y\n")])
        self.assertEqual((code, out.count("deleted")), (0, 15), screen)
        self.assertIn("\n  and 5 more\n", screen)

    def test_a_missing_one_is_told_and_the_others_go(self):
        code, out, screen = self.on_terminal(("-u", "u1", "delete", "none", "b"), [(QUESTION, "y\n")])
        self.assertEqual((code, out), (1, "deleted b\n"))
        self.assertIn("no fact none", screen)
        self.agent.requests.clear()
        out, err = self.expect(1, "-u", "u1", "delete", "-y", "none", "b")
        self.assertEqual((out, err), ("deleted b\n", "memsync delete: there is no fact none\n"))
        code, _, screen = self.on_terminal(("-u", "u1", "delete", "none"), [])
        self.assertEqual(code, 1)
        self.assertNotIn(QUESTION, screen)

    def test_an_expected_revision_is_for_one(self):
        _, err = self.expect(2, "-u", "u1", "delete", "-y", "a", "b", "--expect-revision", "3")
        self.assertIn("one fact", err)
        self.assertEqual(self.agent.requests, [])


class Errors(WriteCase):
    CONFLICTS = (
        ({"reason": "manifest_revision", "expected": 3, "current": 5},
         " (expected revision 3, there is 5); somebody else wrote: look and try again (`memsync -u u1 memory`)"),
        ({"reason": "fact_revision", "fact_id": "f'1", "expected": 3, "current": None},
         " (f'1: expected revision 3, there is none); somebody else changed the fact: look and decide again "
         "(`memsync -u u1 get 'f'\\''1'`)"),
        ({"reason": "duplicate_fact", "fact_id": "f2"},
         "; there is a fact that says this (`memsync -u u1 get f2`)"),
        ({"reason": "duplicate_fact"}, "; there is a fact that says this"),
        ({"reason": "overtaken", "attempts": 3}, " (tried 3 times); somebody else wrote at the same time: try again"),
        ({"reason": "newer_layout"}, "; a newer version of the format is in use there: update this node"),
        ({"reason": "migration"}, "; repair what is named, then migrate (`memsync -u u1 migrate`)"),
        ({"reason": "of tomorrow"}, ""),
        ({}, ""),
    )

    def refuse(self, code, message, path=None, **data):
        def answer(_):
            raise Refusal(code, message, path, **data)
        self.agent.answers["update_fact"] = answer

    def update(self, code, *arguments):
        out, err = self.expect(code, "-u", "u1", "update", "f1", "-c", "x", *arguments)
        self.assertEqual((out, err.count("\n")), ("", 1), err)
        return err

    def test_a_conflict_says_what_to_do(self):
        for data, wanted in self.CONFLICTS:
            self.refuse(-32002, "because", "users/u1/memory.json", **data)
            self.assertEqual(self.update(4), f"memsync update: conflict: users/u1/memory.json: because{wanted}\n")

    def test_the_other_errors_of_the_agent(self):
        for number, kind, code, more in (
                (-32602, "invalid_params", 4, ""), (-32001, "not_found", 1, ""), (-32003, "corrupt", 5, ""),
                (-32004, "timeout", 4, "; it may have been done all the same, so look before you repeat it"),
                (-32005, "denied", 4, ""), (-32006, "unsupported", 4, ""), (-32007, "unavailable", 4, ""),
                (-32008, "storage_full", 4, ""), (-32009, "busy", 4, ""), (-32601, "no_method", 4, ""),
                (-32603, "internal", 4, ""), (-32010, "too_large", 4,
                                              "; a request's limit is ipc.max_message_bytes in the agent's "
                                              "configuration")):
            self.refuse(number, "be\ncause\x1b")
            self.assertEqual(self.update(code), f"memsync update: {kind}: be cause\\x1b{more}\n")

    def test_a_timeout_before_the_memory_was_opened_has_written_nothing(self):
        self.refuse(-32004, "because", attempts=0)
        self.assertEqual(self.update(4), "memsync update: timeout: because; nothing was written\n")
        self.refuse(-32004, "because", attempts=1)
        self.assertIn("may have been done", self.update(4))

    def test_with_json_an_error_is_the_agents_object(self):
        self.refuse(-32002, "because", "m.json", reason="overtaken")
        self.assertEqual(json.loads(self.update(4, "--json")), {"error": {
            "code": -32002, "message": "because",
            "data": {"retryable": False, "path": "m.json", "reason": "overtaken"}}})

    def test_silence_after_a_greeting_may_be_success(self):
        err = self.update(3, "--timeout", "200")
        self.assertIn("no answer", err)
        self.assertIn("may have been done", err)
        error = json.loads(self.update(3, "--timeout", "200", "--json"))["error"]
        self.assertEqual((error["code"], error["data"]["kind"]), (1, "no_agent"))
        self.assertIn("may have been done", error["message"])

    def test_nobody_at_the_endpoint_has_done_nothing(self):
        err = self.update(3, "-e", f"ipc://{self.directory}/none")
        self.assertNotIn("may have been done", err)
        self.assertIn("systemctl", err)

    def test_an_agent_of_another_protocol_is_not_asked(self):
        self.agent.answers["ping"] = HELLO | {"protocol": 2}
        self.assertIn("protocol 2", self.update(4))
        self.assertEqual(self.methods(), [])

    def test_an_answer_that_is_none(self):
        reply = self.agent.reply
        self.agent.reply = lambda request: "hello" if request["method"] == "update_fact" else reply(request)
        self.assertIn("may have been done", self.update(5))

    def test_an_interrupt_says_that_it_may_be_done(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            arrived = self.agent.arrived
            self.agent.answers["update_fact"] = lambda _: None
            self.agent.requests.clear()
            process = self.start("-u", "u1", "update", "f1", "-c", "x")
            deadline = time.monotonic() + DEADLINE_S
            while self.methods() != ["update_fact"]:
                self.assertLess(time.monotonic(), deadline)
                arrived.wait(0.05)
                arrived.clear()
            process.send_signal(number)
            out, err = process.communicate(timeout=DEADLINE_S)
            self.assertEqual((process.returncode, out), (128 + number, ""))
            self.assertIn("interrupted; it may have been done", err)

    def test_whoever_waits_at_a_terminal_sees_for_what(self):
        def answer(_):
            time.sleep(0.9)
            return {"fact": TEA} | DONE
        self.agent.answers["update_fact"] = answer
        code, out, screen = self.on_terminal(("-u", "u1", "update", "f1", "-c", "x"), [])
        self.assertEqual((code, out), (0, "f1, revision 3\n"))
        self.assertIn("memsync update: waiting for the agent, 0 s", screen)
        self.assertTrue(screen.endswith("\r\x1b[K"), repr(screen))
        code, _, screen = self.on_terminal(("-u", "u1", "update", "f1", "-c", "x", "--json"), [])
        self.assertEqual((code, screen), (0, ""))

    def test_wrong_options(self):
        for arguments, wanted in (
                (("add", "x", "--confidence", "1.5"), "from 0 to 1"), (("add", "x", "--confidence", "nan"), "nan"),
                (("add", "x", "--confidence", "-0.1"), "-0.1"), (("add", "x", "--confidence", "0.5x"), "0.5x"),
                (("add", "x", "--confidence", ""), "from 0"), (("add", "x", "--yes"), "--yes"),
                (("add", "x", "--expect-revision", "1"), "--expect-revision"),
                (("update", "x", "--source", "s"), "--source"), (("update",), "FACT is missing"),
                (("update", "x", "y"), '"y"'), (("update", "x", "--content", ""), "empty"),
                (("update", "x", "--expect-revision", "-1"), "from 0"),
                (("update", "x", "-c", "y", "--expect-revision", "0"), "at least 1"),
                (("delete", "x", "-y", "--expect-revision", "0"), "at least 1"),
                (("delete",), "FACT is missing"), (("import", "a", "b"), '"b"'), (("export", "a"), '"a"'),
                (("migrate", "a"), '"a"'), (("clear", "x"), '"x"'), (("import", "-o", "x"), "--output"),
                (("add", "x", *("--topic=x",) * 101), "100 times")):
            _, err = self.expect(2, "-u", "u1", *arguments)
            self.assertIn(wanted, err)
        self.assertEqual(self.agent.requests, [])


class Export(WriteCase):
    MEMORY = {"version": "2.0", "revision": 7, "facts": [TEA]}

    def setUp(self):
        super().setUp()
        self.agent.answers["export_memory"] = {"memory": self.MEMORY, "scope": FRESH}
        self.path = os.path.join(self.directory, "out", "u1.json")
        os.mkdir(os.path.dirname(self.path))

    def export(self, code, *arguments):
        return self.expect(code, "-u", "u1", "export", *arguments)

    def read(self):
        with open(self.path, encoding="utf-8") as file:
            return file.read()

    def files(self):
        return os.listdir(os.path.dirname(self.path))

    def test_a_file_gets_what_the_screen_would(self):
        out, _ = self.export(0)
        self.assertEqual(json.loads(out), self.MEMORY)
        for option in ("-o", "--output"):
            self.assertEqual(self.export(0, option, self.path), ("", ""))
            self.assertEqual((self.read(), self.files()), (out, ["u1.json"]))
        self.export(0, "-o", self.path, "--json")
        self.assertEqual(json.loads(self.read())["scope"], FRESH)
        self.assertEqual(self.export(0, "-o", "-"), (out, ""))

    def test_a_new_file_has_the_usual_mode_and_an_old_one_keeps_its_own(self):
        mask = os.umask(0o027)
        self.addCleanup(os.umask, mask)
        self.export(0, "-o", self.path)
        self.assertEqual(stat.S_IMODE(os.stat(self.path).st_mode), 0o640)
        os.chmod(self.path, 0o604)
        self.export(0, "-o", self.path)
        self.assertEqual(stat.S_IMODE(os.stat(self.path).st_mode), 0o604)

    def test_a_link_stays_one(self):
        link = os.path.join(self.directory, "link")
        os.symlink(self.path, link)
        with open(self.path, "w", encoding="utf-8") as file:
            file.write("old")
        self.export(0, "-o", link)
        self.assertTrue(os.path.islink(link))
        self.assertEqual(json.loads(self.read()), self.MEMORY)

    def test_a_failure_leaves_the_old_file(self):
        with open(self.path, "w", encoding="utf-8") as file:
            file.write("old")
        def refuse(_):
            raise Refusal(-32003, "half", "users/u1/memory.json")
        for answer in (refuse, {"scope": FRESH}, "{}"):
            self.agent.answers["export_memory"] = answer
            self.export(5, "-o", self.path)
            self.assertEqual((self.read(), self.files()), ("old", ["u1.json"]))
        self.agent.answers["export_memory"] = lambda _: None
        self.export(3, "-o", self.path, "--timeout", "100")
        self.assertEqual((self.read(), self.files()), ("old", ["u1.json"]))

    def test_an_interrupt_leaves_the_old_file(self):
        with open(self.path, "w", encoding="utf-8") as file:
            file.write("old")
        self.agent.answers["export_memory"] = lambda _: None
        process = self.start("-u", "u1", "export", "-o", self.path)
        self.assertTrue(self.agent.arrived.wait(DEADLINE_S))
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=DEADLINE_S)
        self.assertEqual((process.returncode, self.read(), self.files()), (130, "old", ["u1.json"]))

    def test_a_place_that_cannot_be_written_to_is_told_before_anything_is_asked(self):
        for path in (os.path.join(self.directory, "none", "x"), self.directory, "/dev/null/x"):
            _, err = self.export(4, "-o", path)
            self.assertIn(f"cannot write to {path}", err)
        self.assertEqual(self.agent.requests, [])

    def test_a_full_disk_is_an_error(self):
        _, err = self.export(4, "-o", "/dev/full")
        self.assertIn("No space left", err)

    def test_nobodys_memory_replaces_no_backup(self):
        with open(self.path, "w", encoding="utf-8") as file:
            file.write("old")
        self.agent.answers["export_memory"] = {
            "memory": {"version": "2.0", "revision": 0, "lastUpdated": "", "user": {"workContext": {"summary": ""}},
                       "history": {}, "facts": []}, "scope": FRESH | {"user_id": "nobody"}}
        for arguments in (("-o", self.path), ("--json", "-o", self.path), ()):
            out, err = self.export(1, *arguments)
            self.assertEqual((out, err), ("", "memsync export: there is no memory of nobody/__default__\n"))
        self.assertEqual((self.read(), self.files()), ("old", ["u1.json"]))
        self.agent.answers["export_memory"]["scope"]["broken"] = 1  # there is something
        self.export(0, "-o", self.path)

    def test_what_is_no_file_is_written_to_directly(self):
        out, _ = self.export(0, "-o", "/dev/stdout")
        self.assertEqual(json.loads(out), self.MEMORY)
        result = subprocess.run(["bash", "-c", '"$0" -u u1 export -o >(cat) | cat', MEMSYNC], env=self.environment,
                                capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        self.assertEqual((json.loads(result.stdout), result.stderr), (self.MEMORY, ""))

    def test_a_pipe_is_written_to_directly(self):
        fifo = os.path.join(self.directory, "fifo")
        os.mkfifo(fifo)
        process = self.start("-u", "u1", "export", "-o", fifo)
        with open(fifo, encoding="utf-8") as file:
            self.assertEqual(json.load(file), self.MEMORY)
        process.communicate(timeout=DEADLINE_S)
        self.assertEqual(process.returncode, 0)


class Import(WriteCase):
    def setUp(self):
        super().setUp()
        self.done = {"imported": 1, "added": 1, "replaced": 0, "deleted": 2, "unchanged": 3, "evicted": [],
                     "replaced_summaries": [], "added_summaries": [], "kept": []} | DONE
        self.planned = self.done | {"dry_run": True, "revision": 7, "deleted": 0}
        self.agent.answers["import_memory"] = lambda params: self.planned if params.get("dry_run") else self.done
        self.path = os.path.join(self.directory, "u1.json")

    def write(self, document):
        with open(self.path, "wb") as file:
            file.write(document if isinstance(document, bytes) else
                       (document if isinstance(document, str) else json.dumps(document)).encode())
        return self.path

    def load(self, code, document, *arguments):
        return self.expect(code, "-u", "u1", "import", self.write(document), *arguments)

    def test_what_is_no_json_is_found_with_line_and_column(self):
        for text, place, words in (
                (b"", "line 1, column 1", "ends too early"), (b" \n\n ", "line 3, column 2", "ends too early"),
                (b'{"facts": [\n  {"a": 1},\n  {"b" 2}\n]}', "line 3, column 8", "colon"),
                (b'{"facts": [1,]}', "line 1, column 14", "value"), (b'{"a": 1,}', "line 1, column 9", "name in"),
                (b"{'a': 1}", "line 1, column 2", "double quotes"), (b'{"a": 1} x', "line 1, column 10", "follows"),
                (b'{"a": [1, 2}', "line 1, column 12", "comma or ]"), (b'{"a": 1', "line 1, column 8", "comma or }"),
                ('{"é": "日本", x}'.encode(), "line 1, column 13", "name in"),
                (b'{"a": "x', "line 1, column 9", "string"),
                (b'{"a": "x\ny"}', "line 1, column 9", "line end"), (b'{"a": "\\x"}', "line 1, column 8", "escape"),
                (b'{"a": "\\u12g4"}', "line 1, column 8", "escape"), (b'{"a": "b\xff"}', "line 1, column 9", "UTF-8"),
                (b'{"a": "\xed\xa0\x80"}', "line 1, column 8", "UTF-8"), (b'{"a": "\xc0\xaf"}', "line 1", "UTF-8"),
                (b'{"a": "\xf4\x90\x80\x80"}', "line 1", "UTF-8"), (b'{"a": "\xe6\x97"}', "line 1", "UTF-8"),
                (b'{"a": 01}', "line 1, column 8", "comma or }"), (b'{"a": 1.}', "line 1, column 9", "digit"),
                (b'{"a": -}', "line 1, column 8", "digit"), (b'{"a": 1e+}', "line 1, column 10", "digit"),
                (b'{"a": .5}', "line 1, column 7", "value"), (b'{"a": truth}', "line 1, column 7", "value"),
                (b'\xef\xbb\xbf{}', "line 1, column 1", "byte order mark"),
                (b'{"a": 1}\0', "line 1, column 9", "follows"),
                (b'[' * 31 + b']' * 31, "line 1, column 31", "nested"), (b'[' * 5000000, "line 1", "nested"),
                (b'{"facts": [] // none\n}', "line 1, column 14", "comma or }")):
            out, err = self.load(5, text, "-y")
            self.assertEqual((out, err.count("\n")), ("", 1))
            self.assertTrue(err.startswith(f"memsync import: {self.path}: {place}"), (text[:40], err))
            self.assertIn(words, err)
            self.assertIn("nothing was changed", err)
        _, err = self.expect(5, "-u", "u1", "import", data=b"{")
        self.assertTrue(err.startswith("memsync import: standard input: line 1, column 2: "), err)
        self.assertEqual(self.agent.requests, [])

    def test_json_that_is_no_memory_is_refused(self):
        for document, words in (([], "no object"), (1, "no object"), ({}, "none of the members"),
                                ({"facts": {}}, "no list"), ({"facts": None}, "no list"), ({"facts": [1]}, "object"),
                                ({"user": []}, "user"), ({"user": None}, "user"), ({"history": ""}, "history"),
                                ({"memory": {}, "scope": {}}, "without --json")):
            _, err = self.load(5, document, "-y")
            self.assertIn(words, err)
        self.assertEqual(self.agent.requests, [])

    def test_the_document_goes_as_it_is_spelt(self):
        text = '{ "facts" : [ { "id":"a", "n" : 123456789012345678901234567890, "r": 0.10, "s": "\\ud800 \\u00e9 é" ' \
               '}, {} ] ,\n"user":{},\t"history":{"x":[ true, false ,null,-1.5E+3]} }'
        out, err = self.load(0, text, "--yes")
        self.assertEqual((out, err), ("imported 1, deleted 2, unchanged 3, revision 8\n", ""))
        self.assertEqual(self.params("import_memory"),
                         {"user_id": "u1", "agent_name": None, "memory_data": json.loads(text)})
        self.assertEqual(self.timeout("import_memory"), 599900)
        self.assertIn(b'"memory_data":{"facts":[{"id":"a","n":123456789012345678901234567890,"r":0.10,'
                      b'"s":"\\ud800 \\u00e9 \xc3\xa9"},{}],"user":{},"history":{"x":[true,false,null,-1.5E+3]}}',
                      self.agent.bodies[-1])

    def test_numbers_that_only_python_writes(self):
        self.load(0, '{"facts":[{"a":NaN,"b":Infinity,"c":-Infinity}]}', "-y")
        self.assertEqual(self.params("import_memory")["memory_data"]["facts"],
                         [{"a": {"$float": "nan"}, "b": {"$float": "inf"}, "c": {"$float": "-inf"}}])

    DOCUMENT = {"facts": [TEA | {"revision": 1, "updatedAt": "later"}, TEA | {"id": "b", "content": "Other"},
                          {"content": "new"}, {"id": "d", "content": "newer"}],
                "user": {"workContext": {"summary": "Rests"}, "topOfMind": {"summary": "x"}, "other": {}},
                "history": {}}
    LOSSES = {"imported": 3, "added": 2, "replaced": 1, "unchanged": 1, "deleted": 1,
              "replaced_summaries": ["user.workContext"]}
    PLAN = ("facts now: 3, in the document: 4; this adds 2, replaces 1, leaves 1 and deletes 1; it replaces the text "
            "of 1 summary: user.workContext")

    def imports(self):
        """The parameters of requests that did not only ask."""
        return [params for method, params in self.agent.requests
                if method == "import_memory" and not params.get("dry_run")]

    def test_a_dry_run_tells_what_the_agent_says(self):
        self.planned |= self.LOSSES
        self.assertEqual(self.load(0, self.DOCUMENT, "--dry-run"), (self.PLAN + "\n", ""))
        params = self.params("import_memory")
        self.assertEqual((params["dry_run"], params["memory_data"]), (True, self.DOCUMENT))
        out, _ = self.load(0, self.DOCUMENT, "--dry-run", "--json", "--yes")
        self.assertEqual(json.loads(out), self.planned)
        self.planned |= {"evicted": ["a"], "replaced_summaries": ["user.a\x1b", "user.b"], "unmigrated": True}
        out, _ = self.load(0, self.DOCUMENT, "--dry-run")
        self.assertTrue(out.endswith(" and deletes 1; 1 of the document is left out, for lack of room; it replaces the "
                                     "text of 2 summaries: user.a\\x1b, user.b; the memory is brought into the present "
                                     "format first\n"), out)
        self.planned |= {"added_summaries": ["history.b"], "evicted": [], "unmigrated": False}
        out, _ = self.load(0, self.DOCUMENT, "--dry-run")
        self.assertTrue(out.endswith("user.b; it adds the text of 1 summary: history.b\n"), out)
        self.planned |= {"replaced_summaries": [], "added_summaries": []}
        out, _ = self.load(0, {"user": {}}, "--dry-run")
        self.assertEqual(out, "the document has no member facts, so those that are there stay\n")
        self.assertEqual((self.imports(), set(self.methods())), ([], {"import_memory"}))

    def test_a_dry_run_is_refused_as_the_import_would_be(self):
        def refuse(_):
            raise Refusal(-32006, "this backend does not write")
        self.agent.answers["import_memory"] = refuse
        for arguments in (("--dry-run",), ("-y",), ()):
            self.assertIn("does not write", self.load(4, self.DOCUMENT, *arguments)[1])

    def test_a_dry_run_that_gets_no_answer_has_done_nothing(self):
        self.agent.answers["import_memory"] = lambda _: None
        _, err = self.load(3, self.DOCUMENT, "--dry-run", "--timeout", "100")
        self.assertNotIn("may have been done", err)

    def test_asks_before_something_is_lost(self):
        self.planned |= self.LOSSES
        self.write(self.DOCUMENT)
        code, out, screen = self.on_terminal(("-u", "u1", "import", self.path), [(QUESTION, "n\n")])
        self.assertEqual((code, out, self.imports()), (1, "", []))
        self.assertIn(f"u1/(default): {self.PLAN}\n{QUESTION}", screen)
        code, out, _ = self.on_terminal(("-u", "u1", "import", self.path), [(QUESTION, "y\n")])
        self.assertEqual((code, len(self.imports())), (0, 1))
        self.assertTrue(out.startswith("imported 1"))

    def test_asks_on_the_terminal_when_standard_input_is_the_document(self):
        self.planned |= self.LOSSES
        for answer, code in (("y\n", 0), ("n\n", 1)):
            got, _, screen = self.on_terminal(("-u", "u1", "import"), [(QUESTION, answer)],
                                              redirect="<" + self.write(self.DOCUMENT))
            self.assertEqual(got, code, screen)
        self.assertEqual(len(self.imports()), 1)

    def test_without_a_terminal_what_destroys_wants_yes(self):
        harmless = self.planned
        for loss in ({"deleted": 1}, {"replaced": 1}, {"evicted": ["a"]}, {"replaced_summaries": ["user.a"]},
                     {"unmigrated": True}):
            self.planned = harmless | loss
            _, err = self.load(2, self.DOCUMENT)
            self.assertIn("--yes", err)
            _, err = self.expect(2, "-u", "u1", "import", "-", data=json.dumps(self.DOCUMENT).encode())
            self.assertIn("--yes", err)
        self.assertEqual(self.imports(), [])

    def test_what_destroys_nothing_is_not_asked_about(self):
        self.planned |= {"added_summaries": ["user.a"]}
        self.load(0, self.DOCUMENT)
        self.assertEqual([params["expected_revision"] for params in self.imports()], [7])

    def test_an_expected_revision_is_that_of_the_question_and_of_the_import(self):
        for arguments, count in ((("--expect-revision", "3"), 2), (("--expect-revision", "3", "-y"), 1),
                                 (("--expect-revision", "3", "--dry-run"), 1)):
            self.agent.requests.clear()
            self.load(0, self.DOCUMENT, *arguments)
            self.assertEqual([params["expected_revision"] for method, params in self.agent.requests
                              if method == "import_memory"], [3] * count)

    def test_what_had_no_room_and_which_summaries_are_told(self):
        self.done |= {"evicted": ["a", "b"], "replaced_summaries": ["user.a"], "added_summaries": ["user.b"]}
        out, _ = self.load(0, self.DOCUMENT, "-y")
        self.assertRegex(out, r"(?m)^left out, .*: 2$")
        self.assertIn("unchanged 3, summaries replaced 1, summaries added 1, revision 8\n", out)

    def test_files_that_were_left_are_told(self):
        self.done["kept"] = self.planned["kept"] = [{"path": "users/u1/x.md", "problem": "no front matter"}]
        for arguments in ((), ("-y",), ("--dry-run",)):
            out, err = self.load(1, self.DOCUMENT, *arguments)
            self.assertEqual(err, "memsync import: left where it is: users/u1/x.md: no front matter\n")
            self.assertTrue(out)

    def test_a_broken_file_in_the_way_comes_with_what_to_do(self):
        def refuse(_):
            raise Refusal(-32003, "corrupt: no front matter", "users/u1/agents/a/facts/ab/x.md")
        self.agent.answers["import_memory"] = refuse
        for arguments in ((), ("-y",), ("--dry-run",)):
            self.assertIn("; repair that file by hand, or move it away", self.load(5, self.DOCUMENT, *arguments)[1])

    def test_files_that_cannot_be_read(self):
        for path in ("/none/x.json", self.directory):
            _, err = self.expect(2, "-u", "u1", "import", path)
            self.assertIn(path, err)
        self.assertEqual(self.agent.requests, [])

    def test_a_limit_that_the_agent_tells_is_kept_to(self):
        self.agent.answers["status"] = {"ipc": {"max_message_bytes": 8192}}
        document = {"facts": [{"content": "x" * 9000}]}
        out, err = self.load(4, document, "-y")
        self.assertEqual((out, err.count("\n")), ("", 1))
        for words in ("bytes", "8192", "ipc.max_message_bytes", "nothing was changed"):
            self.assertIn(words, err)
        error = json.loads(self.load(4, document, "-y", "--json")[1])["error"]
        self.assertEqual((error["code"], error["data"]["kind"]), (-32010, "too_large"))
        self.assertEqual(self.methods(), [])
        self.load(0, {"facts": [{"content": "x" * 7000}]}, "-y")
        for status in ({}, {"ipc": {}}, {"ipc": {"max_message_bytes": "x"}}):  # of an earlier version
            self.agent.answers["status"] = status
            self.load(0, document, "-y")

    def test_more_than_any_agent_takes_is_not_read_to_its_end(self):
        with open(self.path, "wb") as file:
            file.truncate(200 << 20)
        out, err = self.expect(4, "-u", "u1", "import", self.path, "-y")
        self.assertEqual(out, "")
        self.assertIn("ipc.max_message_bytes", err)
        self.assertEqual(self.agent.requests, [])

    def test_an_interrupt_while_a_slow_document_comes(self):
        reader, writer = os.pipe()
        process = subprocess.Popen([MEMSYNC, "-u", "u1", "import", "-y"], env=self.environment, stdin=reader,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        os.close(reader)
        os.write(writer, b'{"facts": [')
        self.wait_until_read(writer)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=DEADLINE_S)
        os.close(writer)
        self.assertEqual((process.returncode, out, err, self.agent.requests), (130, "", "", []))

    def wait_until_read(self, writer):
        """Until the other end has taken all of a pipe."""
        deadline = time.monotonic() + DEADLINE_S
        while struct.unpack("i", fcntl.ioctl(writer, termios.FIONREAD, b"\0\0\0\0"))[0] > 0:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)


class Clear(WriteCase):
    def setUp(self):
        super().setUp()
        self.counts = {None: 2, "__default__": 2, "coder": 3}
        self.agent.answers["list_facts"] = lambda params: {
            "facts": [], "count": self.counts[params["agent_name"]], "scope": FRESH, "broken": []}
        self.agent.answers["scopes"] = {"scopes": [{"user_id": "u1", "agent_name": name, "facts": 9}
                                                   for name in ("__default__", "coder")], "count": 2}
        self.agent.answers["get_summaries"] = {"summaries": {"revision": 7}, "scope": FRESH}
        answer = {"cleared": 3, "agents": ["coder"], "kept": []} | DONE
        self.agent.answers["clear_memory"] = self.agent.answers["delete_memory"] = answer

    def test_one_agent_or_all_must_be_named_on_the_command_line(self):
        for arguments in ((), ("-y",), ("-y", "--erase")):
            _, err = self.expect(2, "-u", "u1", "clear", *arguments, MEMSYNC_AGENT="coder")
            self.assertIn("--all", err)
        self.assertIn("exclude", self.expect(2, "-u", "u1", "clear", "-y", "-a", "x", "--all")[1])
        self.assertIn("whose", self.expect(2, "clear", "-y", "--all")[1])
        self.assertNotIn("or --all", self.expect(2, "clear", "-y", "-a", "x")[1])
        self.assertEqual(self.agent.requests, [])

    def test_shows_how_much_it_is_and_asks(self):
        code, out, screen = self.on_terminal(("-u", "u1", "clear", "-a", "coder"), [(QUESTION, "yes\n")])
        self.assertEqual((code, out), (0, "cleared 3 facts of 1 agent, revision 8\n"))
        self.assertIn("this clears all facts of u1/coder:\n  coder: 3 facts\ngo on?", screen)
        self.assertEqual(self.params("clear_memory"),
                         {"user_id": "u1", "agent_name": "coder", "expected_revision": 7})
        self.assertEqual(self.timeout("clear_memory"), 599900)

    def test_all_names_every_agent(self):
        code, _, screen = self.on_terminal(("-u", "u1", "clear", "--all"), [(QUESTION, "y\n")])
        self.assertEqual(code, 0)
        self.assertIn("this clears all facts and the text of all summaries of u1:\n  __default__: 2 facts\n"
                      "  coder: 3 facts\ngo on?", screen)
        self.assertEqual(self.params("clear_memory"), {"user_id": "u1", "all": True, "expected_revision": 7})
        self.assertEqual(self.params("scopes")["user_id"], "u1")

    def test_no_is_no(self):
        for arguments in (("-a", "coder"), ("--all", "--erase")):
            code, _, screen = self.on_terminal(("--no-user", "clear", *arguments), [(QUESTION, "\n")])
            self.assertEqual(code, 1)
            self.assertIn("nothing was changed", screen)
            _, err = self.expect(2, "-u", "u1", "clear", *arguments)
            self.assertIn("--yes", err)
        self.assertEqual(set(self.methods()), {"get_summaries", "list_facts", "scopes"})

    def test_a_memory_that_has_to_be_migrated_expects_no_revision(self):
        self.agent.answers["get_summaries"] = {"summaries": {"revision": 7}, "scope": FRESH | {"unmigrated": True}}
        self.on_terminal(("-u", "u1", "clear", "-a", "coder"), [(QUESTION, "yes\n")])
        self.assertEqual(self.params("clear_memory"), {"user_id": "u1", "agent_name": "coder"})

    def test_yes_asks_and_looks_up_nothing(self):
        self.expect(0, "-u", "u1", "clear", "--all", "-y", MEMSYNC_AGENT="coder")
        self.assertEqual(self.methods(), ["clear_memory"])
        self.assertEqual(self.params("clear_memory"), {"user_id": "u1", "all": True})
        self.agent.requests.clear()
        self.expect(0, "--no-user", "clear", "-a", "__default__", "-y")
        self.assertEqual(self.params("clear_memory"), {"user_id": None, "agent_name": "__default__"})

    def test_erase_is_another_method(self):
        for arguments, params in ((("-a", "coder"), {"agent_name": "coder"}), (("--all",), {"all": True})):
            self.agent.requests.clear()
            code, _, screen = self.on_terminal(("-u", "u1", "clear", "--erase", *arguments), [(QUESTION, "y\n")])
            self.assertEqual(code, 0)
            self.assertIn("earlier formats", screen)
            self.assertEqual(self.params("delete_memory"), {"user_id": "u1", "expected_revision": 7} | params)
            self.assertNotIn("clear_memory", self.methods())

    def test_what_was_left_is_told(self):
        self.agent.answers["clear_memory"] |= {"kept": [{"path": "users/u1/x.md", "problem": "no front matter"}]}
        out, err = self.expect(1, "-u", "u1", "clear", "--all", "-y")
        self.assertTrue(out.startswith("cleared 3"))
        self.assertEqual(err, "memsync clear: left where it is: users/u1/x.md: no front matter\n")

    def test_a_user_without_a_memory(self):
        """Nothing is asked, and it is no success."""
        self.counts = dict.fromkeys(self.counts, 0)
        self.agent.answers["get_summaries"] = {"summaries": {"revision": 0, "user": {"a": {"summary": ""}}},
                                               "scope": FRESH}
        for arguments in (("-a", "coder"), ("--all",)):
            out, err = self.expect(1, "-u", "u1", "clear", *arguments)
            self.assertEqual((out, err), ("", "memsync clear: there is no memory of u1/__default__\n"))
        self.assertNotIn("clear_memory", self.methods())
        self.agent.answers["clear_memory"] |= {"cleared": 0, "revision": 0, "changed": False}
        out, err = self.expect(1, "-u", "u1", "clear", "-a", "coder", "-y")
        self.assertEqual((out, err), ("", "memsync clear: there is no memory of u1/coder\n"))

    def test_what_a_user_has_is_asked_about(self):
        self.agent.answers["get_summaries"] = {"summaries": {"revision": 0}, "scope": FRESH}
        self.assertIn("--yes", self.expect(2, "-u", "u1", "clear", "-a", "coder")[1])  # there are facts
        self.counts = dict.fromkeys(self.counts, 0)
        for there in ({"revision": 3}, {"revision": 0, "history": {"x": {"summary": "text"}}}):
            self.agent.answers["get_summaries"] = {"summaries": there, "scope": FRESH}
            self.assertIn("--yes", self.expect(2, "-u", "u1", "clear", "--all")[1])

    def test_an_expected_revision(self):
        self.expect(0, "-u", "u1", "clear", "--all", "-y", "--expect-revision", "3")
        self.assertEqual(self.params("clear_memory")["expected_revision"], 3)
        self.agent.requests.clear()
        self.on_terminal(("-u", "u1", "clear", "-a", "coder", "--expect-revision", "3"), [(QUESTION, "y\n")])
        self.assertEqual(self.params("clear_memory")["expected_revision"], 3)

    def test_json(self):
        out, _ = self.expect(0, "-u", "u1", "clear", "--all", "-y", "--json")
        self.assertEqual(json.loads(out)["cleared"], 3)


class Summaries(WriteCase):
    def setUp(self):
        super().setUp()
        self.stored = {"version": "2.0", "revision": 7, "lastUpdated": "x", "history": {}, "user": {
            "workContext": {"summary": "Works", "updatedAt": "x"},
            "mood": {"summary": "", "scale": [1], "updatedAt": ""}}}
        self.agent.answers["get_summaries"] = lambda _: {"summaries": self.stored, "scope": FRESH}
        self.agent.answers["update_summaries"] = {"summaries": self.stored} | DONE

    def set(self, code, *arguments, **options):
        return self.expect(code, "-u", "u1", "summaries", *arguments, **options)

    def test_sets_some_and_says_nothing_of_others(self):
        out, err = self.set(0, "--set", "user.workContext=a=b", "--set", "history.earlierContext=")
        self.assertEqual((out, err), ("user.workContext, revision 8\nhistory.earlierContext, revision 8\n", ""))
        params = self.params("update_summaries")
        now = params["summaries"]["user"]["workContext"].pop("updatedAt")
        self.assertLess(abs(time.time() - time.mktime(time.strptime(now + "UTC", "%Y-%m-%dT%H:%M:%SZ%Z"))
                            + time.timezone), 60)
        self.assertEqual(params, {"user_id": "u1", "agent_name": None, "summaries": {
            "user": {"workContext": {"summary": "a=b"}},
            "history": {"earlierContext": {"summary": "", "updatedAt": now}}}})

    def test_a_section_is_set_once(self):
        _, err = self.set(2, "--set", "user.topOfMind=a", "--set", "user.workContext=x", "--set", "user.topOfMind=a")
        self.assertIn("user.topOfMind twice", err)
        self.assertEqual(self.agent.requests, [])
        self.set(0, "--set", "user.topOfMind=a", "--set", "user.workContext=user.topOfMind=b")

    def test_a_section_must_exist(self):
        for arguments, words in ((("--set", "user.nope=x"), "no section user.nope"),
                                 (("--set", "user.nope=x"), "topOfMind"),
                                 (("--set", "workContext=x"), "SECTION=TEXT"),
                                 (("--set", "user.workContext"), "SECTION"),
                                 (("--set", "agent.x=y"), "user. or history."), (("--set", "user.=y"), "SECTION"),
                                 (("--set", ""), "SECTION"), (("--set", b"user.workContext=\xff"), "UTF-8"),
                                 (("--set", "history.workContext=x"), "history.workContext")):
            _, err = self.set(2, *arguments)
            self.assertIn(words, err)
        self.assertNotIn("update_summaries", self.methods())

    def test_other_members_of_a_section_stay_and_are_guarded(self):
        self.set(0, "--set", "user.mood=calm")
        params = self.params("update_summaries")
        self.assertEqual(params["expected_revision"], 7)
        self.assertEqual({k: v for k, v in params["summaries"]["user"]["mood"].items() if k != "updatedAt"},
                         {"summary": "calm", "scale": [1]})
        self.agent.requests.clear()
        self.set(0, "--set", "user.mood=calm", "--expect-revision", "3")
        self.assertEqual(self.params("update_summaries")["expected_revision"], 3)

    def test_a_member_that_cannot_be_kept_stops_it(self):
        self.agent.answers["get_summaries"] = \
            '{"summaries":{"revision":7,"user":{"mood":{"n":123456789012345678901234}}}}'
        _, err = self.set(4, "--set", "user.mood=calm")
        self.assertIn("user.mood", err)
        self.set(0, "--set", "user.workContext=x")

    def test_a_file_names_sections(self):
        path = os.path.join(self.directory, "s.json")
        document = {"user": {"workContext": "from file", "topOfMind": {"summary": "as it is", "more": 1}}, "facts": [1]}
        with open(path, "w", encoding="utf-8") as file:
            json.dump(document, file)
        self.set(0, "--set-file", path, "--set", "user.workContext=from line")
        sections = self.params("update_summaries")["summaries"]
        self.assertEqual(sections["user"]["workContext"]["summary"], "from line")
        self.assertEqual(sections["user"]["topOfMind"], {"summary": "as it is", "more": 1})
        self.agent.requests.clear()
        self.set(0, "--set-file", "-", data=json.dumps(document).encode())
        self.assertEqual(self.params("update_summaries")["summaries"]["user"]["workContext"]["summary"], "from file")

    def test_files_that_are_wrong(self):
        for text, code, words in ((b"{", 5, "line 1, column 2"), (b"[]", 5, "no object"), (b"{}", 5, "no summary"),
                                  (b'{"user": []}', 5, "user"), (b'{"history": {"x": 1}}', 5, "history.x"),
                                  (b'{"user": {"workContext": {}}}', 5, "workContext"),
                                  (b'{"user": {"nope": "x"}}', 2, "user.nope")):
            _, err = self.set(code, "--set-file", "-", data=text)
            self.assertIn(words, err)
        self.assertIn("/none", self.set(2, "--set-file", "/none")[1])
        self.assertNotIn("update_summaries", self.methods())

    def test_reading_and_writing_have_their_own_options(self):
        self.assertIn("without --set", self.set(2, "--set", "user.topOfMind=x", "--freshness", "local")[1])
        self.assertIn("with --set", self.set(2, "--expect-revision", "3")[1])
        self.assertEqual(self.agent.requests, [])
        self.set(0)


class Migrate(WriteCase):
    def test_says_what_was_done(self):
        self.agent.answers["migrate"] = {"migrated": True, "from_version": "1.0", "to_version": "2.0", "facts": 12,
                                         "revision": 2}
        self.assertEqual(self.expect(0, "-u", "u1", "-a", "x", "migrate"),
                         ("migrated from 1.0 to 2.0: 12 facts, revision 2\n", ""))
        self.assertEqual(self.params("migrate"), {"user_id": "u1", "agent_name": "x"})
        self.assertEqual(self.timeout("migrate"), 599900)
        self.agent.answers["migrate"] = {"migrated": False, "from_version": "2.0", "to_version": "2.0", "facts": 0,
                                         "revision": 2}
        self.assertEqual(self.expect(0, "-u", "u1", "migrate"), ("nothing to migrate\n", ""))
        self.assertEqual(json.loads(self.expect(0, "-u", "u1", "migrate", "--json")[0])["migrated"], False)
        self.agent.answers["migrate"] = {"migrated": True, "from_version": None, "to_version": 2, "facts": 1}
        self.assertEqual(self.expect(0, "-u", "u1", "migrate")[0], "migrated from null to 2: 1 fact\n")


class Journeys:
    """What people do, command after command, whichever agent answers. A class that inherits this has open(), which
    gives the endpoint of an agent with an empty memory."""

    TEXTS = ("Likes green tea", "---\nid: no front matter\n---", "null", "  - a\n  - b", "# Title\n\nand text",
             "\"quoted\" 'twice' \\ back", "日本語 é \U0001f600", "tab\there", "{'a': 1}", "2026-02-10", "x" * 20000)

    def setUp(self):
        super().setUp()
        self.environment["MEMSYNC_ENDPOINT"] = self.open()
        self.environment["MEMSYNC_USER"] = "u1"

    def memory(self, **environment):
        return json.loads(self.expect(0, "export", **environment)[0])

    def fill(self):
        """Facts and summaries of all kinds; the ids."""
        ids = [self.expect(0, "add", "-", "-c", "preference", "--confidence", "0.25", "--topic", "a, b", "--topic",
                           "c: d", data=text.encode())[0].strip() for text in self.TEXTS]
        self.expect(0, "summaries", "--set", "user.workContext=two\nlines", "--set", "history.recentMonths='é'")
        return ids

    @staticmethod
    def meaning(memory):
        """Without what every write sets."""
        memory = copy.deepcopy(memory)
        for name in ("revision", "lastUpdated"):
            del memory[name]
        for fact in memory["facts"]:
            for name in ("revision", "updatedAt"):
                del fact[name]
        return memory

    def test_a_fact_from_the_cradle_to_the_grave(self):
        name = self.expect(0, "add", "Likes green tea")[0].strip()
        self.assertIn(name, self.expect(0, "search", "green tea")[0])
        self.assertEqual(self.expect(0, "update", name, "--content", "Likes black tea", "-c", "goal"),
                         (f"{name}, revision 2\n", ""))
        self.assertIn("black tea", self.expect(0, "get", name)[0])
        out, err = self.expect(0, "update", name, "-c", "goal")
        self.assertEqual((out, err), (f"{name}, revision 2\n", "memsync update: nothing had to be changed\n"))
        err = self.expect(4, "update", name, "-c", "x", "--expect-revision", "1")[1]
        self.assertRegex(err, "^memsync update: conflict: .*expected revision 1, there is 2.*look and decide again")
        code, out, screen = self.on_terminal(("delete", name), [(QUESTION, "y\n")])
        self.assertEqual((code, out), (0, f"deleted {name}\n"), screen)
        self.assertIn("not_found", self.expect(1, "delete", "-y", name)[1])
        self.expect(1, "search", "tea")

    def test_what_is_there_already_is_named(self):
        name = self.expect(0, "add", "Likes green tea")[0].strip()
        err = self.expect(4, "add", "  likes GREEN tea ")[1]
        self.assertRegex(err, f"^memsync add: conflict: .*get {name}")

    def test_several_facts_go_at_once_and_missing_ones_are_told(self):
        ids = self.fill()
        revision = self.memory()["revision"]
        out, err = self.expect(1, "delete", "-y", ids[0], "fact_none", ids[1])
        self.assertEqual((out, err), (f"deleted {ids[0]}\ndeleted {ids[1]}\n",
                                      "memsync delete: there is no fact fact_none\n"))
        memory = self.memory()
        self.assertEqual(memory["revision"], revision + 1)
        self.assertEqual({fact["id"] for fact in memory["facts"]}, set(ids[2:]))

    def test_an_export_makes_an_equal_memory_elsewhere(self):
        self.fill()
        exported = self.memory()
        self.assertEqual(len(exported["facts"]), len(self.TEXTS))
        other = self.open()
        result = subprocess.run(["sh", "-c", 'set -e; "$0" export | "$0" -e "$1" import', MEMSYNC, other],
                                env=self.environment, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        self.assertEqual((result.returncode, result.stderr.replace(BEHIND, "")), (0, ""))
        self.assertRegex(result.stdout,
                         f"^imported {len(self.TEXTS)}, deleted 0, unchanged 0, summaries added 2, revision 1$")
        imported = self.memory(MEMSYNC_ENDPOINT=other)
        self.assertEqual(self.meaning(imported), self.meaning(exported))
        for here, there in zip(exported["facts"], imported["facts"]):
            self.assertEqual(here["createdAt"], there["createdAt"])

    def test_an_export_brings_back_what_was(self):
        ids = self.fill()
        path = os.path.join(self.directory, "u1.json")
        self.expect(0, "export", "-o", path)
        before = self.memory()
        self.expect(0, "update", ids[0], "--content", "changed")
        self.expect(0, "delete", "-y", ids[1])
        self.expect(0, "add", "new")
        self.expect(0, "summaries", "--set", "user.workContext=changed")
        plan = self.expect(0, "import", "--dry-run", path)[0]
        self.assertEqual(plan, f"facts now: {len(ids)}, in the document: {len(ids)}; this adds 1, replaces 1, leaves "
                               f"{len(ids) - 2} and deletes 1; it replaces the text of 1 summary: user.workContext\n")
        self.expect(2, "import", path)
        out, _ = self.expect(0, "import", "-y", path)
        self.assertRegex(out, f"^imported 2, deleted 1, unchanged {len(ids) - 2}, summaries replaced 1, revision ")
        self.assertEqual(self.meaning(self.memory()), self.meaning(before))

    def test_a_wrong_fact_refuses_the_whole_import(self):
        self.fill()
        before = self.memory()
        _, err = self.expect(4, "import", "-y", data=json.dumps({"facts": [{"content": " "}]}).encode())
        self.assertTrue(err.startswith("memsync import: invalid_params: memory_data.facts"), err)
        self.assertEqual(self.memory(), before)

    def test_clear_keeps_to_what_was_named(self):
        self.fill()
        self.expect(0, "-a", "coder", "add", "of coder")
        code, out, screen = self.on_terminal(("clear", "-a", "coder"), [(QUESTION, "y\n")])
        self.assertEqual(code, 0, screen)
        self.assertTrue(out.startswith("cleared 1 fact of 1 agent, "), out)
        self.assertEqual(len(self.memory()["facts"]), len(self.TEXTS))
        self.expect(0, "-a", "coder", "add", "of coder")
        code, out, screen = self.on_terminal(("clear", "--all"), [(QUESTION, "y\n")])
        self.assertIn(f"  __default__: {len(self.TEXTS)} facts\n  coder: 1 fact\n", screen)
        self.assertTrue(out.startswith(f"cleared {len(self.TEXTS) + 1} facts"), out)
        memory = self.memory()
        self.assertEqual((code, memory["facts"], memory["user"]["workContext"]["summary"]), (0, [], ""))

    def test_summaries_with_an_expected_revision(self):
        self.expect(0, "summaries", "--set", "user.topOfMind=one")
        revision = self.memory()["revision"]
        self.expect(0, "summaries", "--set", "user.topOfMind=two", "--expect-revision", str(revision))
        _, err = self.expect(4, "summaries", "--set", "user.topOfMind=three", "--expect-revision", str(revision))
        self.assertIn(f"expected revision {revision}, there is {revision + 1}", err)
        self.assertIn("two", self.expect(0, "summaries")[0])

    def test_there_is_nothing_to_migrate(self):
        self.expect(0, "add", "x")
        self.assertTrue(self.expect(0, "migrate")[0].startswith("nothing to migrate"))


class StubJourneys(Journeys, WriteCase):
    def open(self):
        agent = ScriptedAgent(tempfile.mkdtemp(dir=self.directory))
        self.addCleanup(agent.close)
        agent.answers.update(StubMemory().answers())
        return agent.endpoint


class RealJourneys(Journeys, WriteCase):
    CONFIG = {}

    def open(self):
        self.volume = tempfile.mkdtemp(dir=self.directory)
        self.running = RealAgent(binary("memsyncd"), self.volume, config=self.CONFIG)
        self.addCleanup(self.running.close)
        self.running.start()
        self.served = self.running.rpc("capabilities")["methods"]
        self.need("create_fact")
        return self.running.endpoint

    def need(self, method):
        if not self.served.get(method):
            skip(f"this agent does not serve {method}")

    def test_there_is_nothing_to_migrate(self):
        self.need("migrate")
        super().test_there_is_nothing_to_migrate()

    def test_erase(self):
        self.need("delete_memory")
        self.fill()
        backup = os.path.join(self.volume, "users", "u1", "memory.json.v1.bak")
        with open(backup, "w", encoding="utf-8") as file:
            file.write("{}")
        self.expect(0, "clear", "--all", "-y")
        self.assertTrue(os.path.exists(backup))
        self.expect(0, "clear", "--all", "--erase", "-y")
        self.assertFalse(os.path.exists(backup))

    def test_erasing_old_copies_alone_is_told(self):
        self.need("delete_memory")
        self.fill()
        self.expect(0, "clear", "--all", "-y")
        bucket = os.path.join(self.volume, "users", "u1")
        for name in ("memory.json.v1.bak", "agents/__default__/memory.json.v1.bak"):
            with open(os.path.join(bucket, name), "w", encoding="utf-8") as file:
                file.write("{}")
        out, err = self.expect(0, "clear", "-a", "__default__", "--erase", "-y")
        self.assertIn("erased 1 copy in earlier formats", out)
        self.assertNotIn("nothing had to be changed", err)
        out, err = self.expect(0, "clear", "--all", "--erase", "-y", "--json")
        done = json.loads(out)
        self.assertEqual((done["cleared"], done["erased"], done["changed"]), (0, 1, True))
        _, err = self.expect(0, "clear", "--all", "--erase", "-y")
        self.assertIn("nothing had to be changed", err)

    def test_an_import_that_the_scope_has_no_room_for_asks(self):
        self.running.rpc("apply_changes", user_id="u1", upserts=[
            {"id": f"f{n:03}", "content": f"fact {n}", "confidence": n / 1000} for n in range(150)])
        path = os.path.join(self.directory, "u1.json")
        self.expect(0, "export", "-o", path)
        plan = ("facts now: 150, in the document: 150; this adds 0, replaces 0, leaves 100 and deletes 50; 50 of the "
                "document are left out, for lack of room")
        self.assertEqual(self.expect(0, "import", "--dry-run", path)[0], plan + "\n")
        self.assertIn(plan, self.expect(2, "import", path)[1])
        self.assertEqual(len(self.memory()["facts"]), 150)
        self.assertIn("--yes", self.expect(2, "-u", "u2", "import", path)[1])  # nothing is there, and yet 50 are lost
        self.assertEqual(self.expect(0, "import", "-y", path)[0],
                         "imported 0, deleted 50, unchanged 100, revision 2\n"
                         "left out, since there are more than the scope has room for: 50\n")

    def test_a_dry_run_compares_as_the_import_does(self):
        self.expect(0, "-a", "coder", "add", "x", "--confidence", "0.5")
        document = self.memory(MEMSYNC_AGENT="coder")
        for change in ({"confidence": "0.50"}, {"content": " x\n"}, {"source": document["facts"][0]["source"]["type"]}):
            data = json.dumps({"facts": [document["facts"][0] | change]}).encode()
            self.assertIn("replaces 0, leaves 1", self.expect(0, "-a", "coder", "import", "--dry-run", data=data)[0])
            self.assertIn("unchanged 1", self.expect(0, "-a", "coder", "import", data=data)[0])

    def test_users_without_a_memory(self):
        path = os.path.join(self.directory, "backup.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write("old")
        self.assertIn("there is no memory of nobody", self.expect(1, "-u", "nobody", "export", "-o", path)[1])
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), "old")
        for arguments in (("--all",), ("-a", "coder"), ("--all", "-y"), ("-a", "coder", "-y"),
                          ("--all", "-y", "--erase")):
            out, err = self.expect(1, "-u", "nobody", "clear", *arguments)
            self.assertEqual((out, err.count("\n")), ("", 1))
            self.assertIn("there is no memory of nobody", err)
        self.expect(4, "-u", "nobody", "clear", "--all", "-y", "--expect-revision", "3")
        self.assertFalse(os.path.exists(os.path.join(self.volume, "users", "nobody")))

    def put_by_hand(self):
        """A second fact, and the first one moved, without a new revision of the manifest."""
        name = self.expect(0, "add", "first by the agent")[0].strip()
        facts = os.path.join(self.volume, "users", "u1", "agents", "__default__", "facts")
        path = next(os.path.join(directory, name + ".md") for directory, _, names in os.walk(facts)
                    if name + ".md" in names)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        os.mkdir(os.path.join(facts, "zz"))
        os.rename(path, os.path.join(facts, "zz", name + ".md"))
        with open(os.path.join(facts, "zz", "byhand.md"), "w", encoding="utf-8") as file:
            file.write(text.replace(name, "byhand").replace("first by the agent", "secret by hand"))
        return facts

    def test_what_was_put_there_by_hand_is_cleared_too(self):
        for arguments in (("-a", "__default__"), ("--all",), ("--all", "--erase")):
            facts = self.put_by_hand()
            self.assertIn("cleared 2 facts", self.expect(0, "clear", "-y", *arguments)[0])
            self.assertEqual([names for _, _, names in os.walk(facts) if names], [])
            shutil.rmtree(facts, ignore_errors=True)

    def test_what_was_put_there_by_hand_is_replaced_by_an_import(self):
        facts = self.put_by_hand()
        data = b'{"facts": [{"id": "z", "content": "z"}]}'
        self.assertIn("facts now: 2", self.expect(0, "import", "--dry-run", data=data)[0])
        self.assertIn("imported 1, deleted 2", self.expect(0, "import", "-y", data=data)[0])
        self.assertEqual([names for _, _, names in os.walk(facts) if names], [["z.md"]])

    def test_sections_that_are_text_alone_are_cleared_too(self):
        self.expect(0, "import", "-y", data=b'{"user": {"odd": "private text", "workContext": "job"}}')
        self.expect(0, "clear", "-y", "--all")
        with open(self.manifest(), encoding="utf-8") as file:
            user = json.load(file)["user"]
        self.assertEqual((user["odd"], user["workContext"]["summary"]), ("", ""))

    def test_a_broken_file_is_told_by_an_import(self):
        name = self.expect(0, "add", "x")[0].strip()
        self.expect(0, "add", "y")
        found = [os.path.join(directory, name + ".md") for directory, _, names in os.walk(self.volume)
                 if name + ".md" in names and "/.recovery" not in directory]
        with open(found[0], "w", encoding="utf-8") as file:
            file.write("no fact")
        path = os.path.relpath(found[0], self.volume)
        for arguments in (("--dry-run",), ("-y",)):
            _, err = self.expect(1, "import", *arguments, data=b'{"facts": [{"id": "z", "content": "z"}]}')
            self.assertIn(f"left where it is: {path}", err)
        data = json.dumps({"facts": [{"id": name, "content": "z"}]}).encode()
        for arguments in (("--dry-run",), ("-y",)):
            _, err = self.expect(5, "import", *arguments, data=data)
            self.assertIn(f"{path}", err)
            self.assertIn("; repair that file by hand, or move it away", err)

    def manifest(self):
        return os.path.join(self.volume, "users", "u1", "memory.json")

    def test_a_manifest_that_cannot_be_understood_is_named_and_left(self):
        self.expect(0, "add", "x")
        with open(self.manifest(), "w", encoding="utf-8") as file:
            file.write("{")
        for arguments in (("add", "y"), ("import", "-y"), ("clear", "--all", "-y")):
            _, err = self.expect(5, *arguments, data=b'{"facts": []}')
            self.assertIn("corrupt: users/u1/memory.json", err)
        with open(self.manifest(), encoding="utf-8") as file:
            self.assertEqual(file.read(), "{")

    def test_a_newer_format_is_not_written_to(self):
        self.expect(0, "add", "x")
        with open(self.manifest(), encoding="utf-8") as file:
            manifest = json.load(file)
        with open(self.manifest(), "w", encoding="utf-8") as file:
            json.dump(manifest | {"version": "3.0"}, file)
        _, err = self.expect(4, "add", "y")
        self.assertRegex(err, "^memsync add: conflict: .*; a newer version of the format is in use there")

    def test_a_lock_that_is_held_is_waited_for_until_the_timeout(self):
        self.expect(0, "add", "x")
        with open(os.path.join(os.path.dirname(self.manifest()), ".memory.lock"), "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            _, err = self.expect(4, "add", "y", "--timeout", "500")
            self.assertRegex(err, "^memsync add: timeout: .*; nothing was written$")
        self.expect(0, "add", "z")

    def test_an_interrupt_while_the_agent_waits_for_the_lock(self):
        self.expect(0, "add", "x")
        with open(os.path.join(os.path.dirname(self.manifest()), ".memory.lock"), "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            process = self.start("add", "y")
            self.running.wait_until(lambda: self.running.rpc("status")["ipc"]["oldest_running_ms"] >= 50)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=DEADLINE_S)
        self.assertEqual((process.returncode, out), (130, ""))
        self.assertIn("interrupted; it may have been done", err)


class RealAgentsThatDoNotWrite(WriteCase):
    def test_a_dry_run_is_refused_as_the_import_would_be(self):
        for config, words in (({"volume": {"read_only": True}}, "denied"),
                              ({"backend": {"name": "noop"}}, "unsupported")):
            with self.subTest(config=config), \
                    RealAgent(binary("memsyncd"), tempfile.mkdtemp(dir=self.directory), config=config) as agent:
                for arguments in (("--dry-run",), ("-y",), ()):
                    _, err = self.expect(4, "-e", agent.endpoint, "-u", "u1", "import", *arguments,
                                         data=b'{"facts": []}')
                    self.assertIn(words, err)


@unittest.skipUnless(volumes.shared_is_there(), "no shared volumes")
class RealRoundTrips(WriteCase):
    """Memories as other programs wrote them, brought into an empty volume."""

    VOLUMES = ("agents-share-manifest", "category-extension", "confidence-edges", "lifecycle-fields", "root-no-user",
               "source-shapes", "summaries-set", "text-controls", "text-line-separators", "text-long-lines",
               "text-markdown", "text-unicode", "user-id-alias", "v1-list", "yaml-hostile-values")

    @staticmethod
    def meaning(memory):
        """Summaries that are not empty, and facts without what every write sets."""
        memory = Journeys.meaning(memory)
        return [memory["facts"], {(group, name): entry for group in ("user", "history")
                                  for name, entry in memory.get(group, {}).items()
                                  if entry != {"summary": "", "updatedAt": ""}}]

    def test_every_scope_is_equal_afterwards(self):
        count = 0
        for name in self.VOLUMES:
            with volumes.Directory(volumes.shared_path("volumes", name, "volume")) as source, \
                    volumes.Directory() as target, RealAgent(binary("memsyncd"), source.volume) as here, \
                    RealAgent(binary("memsyncd"), target.volume) as there:
                if not there.rpc("capabilities")["methods"].get("import_memory"):
                    skip("this agent does not write")
                here.wait_until(lambda: here.rpc("status")["watch"]["first_pass_done"])
                for scope in here.rpc("scopes")["scopes"]:
                    self.bring(name, scope, here.endpoint, there.endpoint)
                    count += 1
        self.assertGreater(count, len(self.VOLUMES))

    def bring(self, name, scope, here, there):
        user = scope["user_id"]
        words = ["--no-user"] if user is None else ["-u", user]
        words += ["-a", scope["agent_name"]]
        with self.subTest(volume=name, scope=words):
            before, _ = self.expect(0, "-e", here, *words, "export")
            self.expect(0, "-e", there, *words, "import", data=before.encode())
            after, _ = self.expect(0, "-e", there, *words, "export")
            self.assertEqual(self.meaning(json.loads(after)), self.meaning(json.loads(before)))


class RealLimits(WriteCase):
    """What the real agent's limits are to this command, whether it writes or not."""

    def setUp(self):
        super().setUp()
        agent = RealAgent(binary("memsyncd"), tempfile.mkdtemp(dir=self.directory))
        self.addCleanup(agent.close)
        self.environment["MEMSYNC_ENDPOINT"] = agent.start().endpoint

    def load(self, document):
        return self.run_cli("-u", "u1", "import", "-y", data=document.encode())

    def test_a_document_beyond_the_limit_is_not_sent(self):
        code, _, err = self.load(json.dumps({"facts": [{"content": "x" * 5000000}]}))
        self.assertEqual(code, 4)
        self.assertIn("4194304 (ipc.max_message_bytes", err)

    def test_the_deepest_document_is_no_request_too_deep(self):
        code, _, err = self.load('{"facts": [], "deep": ' + "[" * 29 + "]" * 29 + "}")
        self.assertNotIn("parse_error", err)
        self.assertIn(code, (0, 4))
        code, _, err = self.load('{"facts": [], "deep": ' + "[" * 30 + "]" * 30 + "}")
        self.assertEqual(code, 5)
        self.assertIn("nested", err)


if __name__ == "__main__":
    unittest.main()
