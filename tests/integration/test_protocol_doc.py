#!/usr/bin/python3
"""docs/protocol.md against the real agent: its example runs, its methods exist, what it says of
results is so."""

import json
import os
import re
import subprocess
import sys
import threading
import unittest
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from agent import RpcError
from peer import add, update
from process import ROOT, ProcessCase

with open(os.path.join(ROOT, "docs", "protocol.md"), encoding="utf-8") as document:
    TEXT = document.read()


def section(title, level=2):
    """The text below a heading, up to the next one of its level or above."""
    mark = "#" * level
    found = re.search(rf"^{mark} {re.escape(title)}$(.*?)(?=^#{{1,{level}}} |\Z)", TEXT,
                      re.M | re.S)
    if not found:
        raise AssertionError(f"docs/protocol.md has no section {title!r}")
    return found[1]


def reference():
    """The titles of the reference: method name to its section."""
    found = {}
    for title in re.findall(r"^### (.+)$", section("Methods"), re.M):
        if title == "Not served by this version":
            continue
        for name in title.split(", "):
            found[name] = section(title, 3)
    return found


def other_methods():
    """Of those that this version does not serve: the names that answer with an error, and those
    that answer something fixed, with the answer."""
    refused, _, fixed = section("Not served by this version", 3).partition("These are answered")
    answers = {name: json.loads(answer)
               for name, answer in re.findall(r"`([a-z_]+)` \(`(\{.*?\})`\)", fixed)}
    return set(re.findall(r"`([a-z_]+)`", refused.split(":", 1)[1])), answers


def result_members(text):
    """The names in the sentence behind "Result:", without what stands in brackets."""
    sentence = text.split("Result:", 1)[1].split("\n\n")[0]
    while re.search(r"\([^()]*\)", sentence):
        sentence = re.sub(r"\([^()]*\)", "", sentence)
    sentence = re.split(r"\.(?: |$)", sentence, 1, re.M)[0]
    return set(re.findall(r"`([a-z_]+)`", sentence)) - {"deermem"}


class Document(ProcessCase):
    def setUp(self):
        super().setUp()
        self.peer.commit("u1", changes=[add("fact_1", "Likes green tea", "preference", 0.9),
                                        add("fact_2", "Works on Mondays")])
        self.running = self.agent()
        self.wait_indexed(self.running, 2)

    def answer(self, method, **params):
        return self.running.rpc(method, **params)

    def refusal(self, method, **params):
        """The error that a call ends with."""
        with self.assertRaises(RpcError) as raised:
            self.answer(method, **params)
        return raised.exception

    def test_the_example_runs(self):
        code = re.findall(r"```python\n(.*?)```", section("A complete client in Python"), re.S)
        self.assertEqual(len(code), 1)
        done = subprocess.run(
            ["/usr/bin/python3", "-c", code[0]], text=True, capture_output=True, check=False,
            timeout=20, env={**os.environ, "MEMSYNC_ENDPOINT": self.running.endpoint})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = done.stdout.splitlines()
        self.assertRegex(lines[0], r"^\d+\.\d\d  Likes green tea$")
        self.assertEqual(lines[1], "u1 __default__ 1 fresh")
        self.assertTrue(lines[-1].startswith("-32001 not_found "), lines)

    def test_the_example_tells_a_request_that_is_too_large(self):
        code = re.findall(r"```python\n(.*?)```", section("A complete client in Python"), re.S)[0]
        names = {"__name__": "example"}
        warnings.simplefilter("ignore", ResourceWarning)
        exec(compile(code, "docs/protocol.md", "exec"), names)  # pylint: disable=exec-used
        client = names["Client"](self.running.endpoint)
        with self.assertRaises(names["MemsyncError"]) as raised:
            client.call("search", user_id="u1", query="x" * (5 << 20))
        self.assertEqual((raised.exception.code, raised.exception.data["kind"]),
                         (-32010, "too_large"))
        self.assertEqual(client.call("ping")["protocol"], 1)

    def test_the_examples_event_loop_tells_what_was_missed(self):
        code = re.findall(r"```python\n(.*?)```", section("A complete client in Python"), re.S)[0]
        names = {"__name__": "example"}
        warnings.simplefilter("ignore", ResourceWarning)  # the example lives as long as its process
        exec(compile(code, "docs/protocol.md", "exec"), names)  # pylint: disable=exec-used
        self.assertEqual(names["topic"]("a/b@c", "coder"), "scope/a%2Fb%40c/coder/")
        self.assertEqual(names["topic"](None), "scope//__default__/")
        stream = names["events"](self.answer("ping")["events"], names["topic"]("u1"))
        ended = threading.Event()

        def write():
            number = 0
            while not ended.wait(0.05):
                number += 1
                self.peer.commit("u1", changes=[update("fact_2", f"Works at {number}")])
        writer = threading.Thread(target=write)
        writer.start()
        try:
            events = [next(stream) for _ in range(3)]
        finally:
            ended.set()
            writer.join()
        self.assertEqual([event["missed"] for event in events], [False] * 3)
        for event in events:
            for member in ("event", "user_id", "agent_name", "epoch", "n"):
                self.assertRegex(section("Events"), rf"(?m)^\|[^|]*`{member}`")
                self.assertIn(member, event)

    def test_the_methods_are_those_that_capabilities_names(self):
        methods = self.answer("capabilities")["methods"]
        refused, fixed = other_methods()
        self.assertEqual(set(reference()) | refused | set(fixed), set(methods))
        self.assertEqual(len(reference()) + len(refused) + len(fixed), len(methods))
        self.assertEqual({name for name, served in methods.items() if served},
                         set(reference()) | set(fixed) | {"add", "add_nowait"})

    def test_what_is_not_served_answers_so(self):
        refused, fixed = other_methods()
        for name in sorted(refused):
            with self.subTest(method=name):
                error = self.refusal(name, user_id="u1", agent_name=None, fact_id="fact_1")
                self.assertEqual((error.code, error.kind), (-32006, "unsupported"))
        self.assertEqual(len(fixed), 4)
        for name, answer in fixed.items():
            with self.subTest(method=name):
                self.assertEqual(self.answer(name, user_id="u1"), answer)

    def test_every_documented_member_of_a_result_is_there(self):
        calls = {
            "ping": {}, "list_facts": {"user_id": "u1"}, "refresh": {"user_id": "u1"},
            "get_fact": {"user_id": "u1", "fact_id": "fact_1"}, "get_memory": {"user_id": "u1"},
            "export_memory": {"user_id": "u1"}, "reload_memory": {"user_id": "u1"},
            "get_summaries": {"user_id": "u1"}, "verify": {"user_id": "u1"}, "scopes": {},
            "capabilities": {}, "status": {}, "create_fact": {"user_id": "w", "content": "one"},
            "remember_memory": {"user_id": "w", "content": "two"},
            "update_fact": {"user_id": "u1", "fact_id": "fact_1", "confidence": 0.5},
            "delete_fact": {"user_id": "u1", "fact_id": "fact_2"},
            "apply_changes": {"user_id": "w", "upserts": [{"content": "three"}]},
            "update_summaries": {"user_id": "w", "summaries": {"user": {}}},
            "clear_memory": {"user_id": "w", "all": True},
            "import_memory": {"user_id": "w", "memory_data": {"facts": []}, "memory": True},
            "delete_memory": {"user_id": "w", "all": True}, "migrate": {"user_id": "w"},
        }
        documented = reference()
        self.assertEqual(set(calls) | {"search"}, set(documented))
        for method, params in calls.items():
            members = result_members(documented[method])
            with self.subTest(method=method):
                self.assertTrue(members)
                self.assertLessEqual(members, set(self.answer(method, **params)))

    def test_the_members_of_a_search_are_those_of_its_table_and_its_example(self):
        text = reference()["search"]
        found = self.answer("search", user_id="u1", query="green tea", top_k=3)
        example = json.loads(re.search(r"```json\n(\{\"results\".*?)```", text, re.S)[1])
        self.assertLessEqual(set(example), set(found))
        self.assertLessEqual(set(example["results"][0]), set(found["results"][0]))
        self.assertLessEqual(set(example["scopes"][0]), set(found["scopes"][0]))
        for name in re.findall(r"^\| `([a-z_]+)` \| (?!string|integer|object|list)", text, re.M):
            if name not in ("clamped", "truncated"):
                self.assertIn(name, found)
        self.assertNotIn("clamped", found)
        self.assertIs(self.answer("search", user_id="u1", query="tea", top_k=5000)["clamped"], True)

    def test_the_document_of_a_fact_has_the_documented_members(self):
        names = re.search(r"A fact is the \*document\*.*?: (.*?), \.\.\.", section("Methods"))[1]
        fact = self.answer("get_fact", user_id="u1", fact_id="fact_1")["fact"]
        self.assertLessEqual(set(re.findall(r"`(\w+)`", names)), set(fact))

    def test_the_members_of_the_status_are_documented_and_there(self):
        text = reference()["status"]
        status = self.answer("status")
        names = re.findall(r"`(\w+)`", text.split("In `ipc`:")[1].split(". ")[0])
        self.assertEqual(set(names), set(status["ipc"]))
        self.assertEqual(result_members(text), set(status))
        self.assertEqual(status["problems"], [])

    def test_the_members_of_a_scope_in_the_operators_list(self):
        names = re.search(r'a list of `(\{"user_id".*?\})`', reference()["scopes"])[1]
        listed = self.answer("scopes")["scopes"]
        self.assertEqual(len(listed), 1)
        self.assertLessEqual(set(re.findall(r'"(\w+)"', names)), set(listed[0]))
        self.assertEqual(listed[0]["state"], "synced")

    def test_each_error_has_the_documented_code_word_and_data(self):
        table = {int(code): (kind, retry == "yes") for code, kind, retry in re.findall(
            r"^\| (-\d+) \| `(\w+)` \| (yes|no) \|", section("Errors"), re.M)}
        self.assertEqual(len(table), 15)
        members = set(re.findall(r"`(\w+)`", " ".join(re.findall(
            r"^\| (`[a-z_`, ]+) \|", section("Errors"), re.M))))
        self.assertEqual(members, {"kind", "user_id", "agent_name", "path", "retryable"})
        asked = {
            -32601: ("sing", {}), -32602: ("search", {"query": "tea"}),
            -32001: ("get_fact", {"user_id": "u1", "fact_id": "fact_9"}),
            -32006: ("add", {"user_id": "u1"}),
        }
        for code, (method, params) in asked.items():
            with self.subTest(code=code):
                error = self.refusal(method, **params)
                self.assertEqual((error.code, (error.kind, error.data["retryable"])),
                                 (code, table[code]))
                self.assertLessEqual(members, set(error.data))

    def test_a_request_beyond_the_limit_is_refused_without_being_read(self):
        with self.running.client() as client:
            client.send("search", user_id="u1", query="tea " * 1500000)
            reply = json.loads(client.receive_raw()[-1])
        self.assertEqual((reply["id"], reply["error"]["code"]), (None, -32010))
        self.assertEqual(reply["error"]["data"]["kind"], "too_large")

    def test_requests_and_replies_of_the_envelope(self):
        with self.running.client() as client:
            for request, code in (("no json", -32700), ("[]", -32600),
                                  ('{"jsonrpc": "2.0"}', -32600),
                                  ('{"jsonrpc": "2.0", "id": 1.0, "method": "ping"}', -32600),
                                  ('{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}',
                                   -32602)):
                with self.subTest(request=request):
                    client.send_raw("a frame", "", request)
                    frames = client.receive_raw()
                    self.assertEqual(frames[:-1], [b"a frame", b""])
                    reply = json.loads(frames[-1])
                    self.assertEqual(reply["error"]["code"], code)
            client.send_raw('{"jsonrpc": "2.0", "method": "ping"}')
            reply = json.loads(client.receive_raw()[-1])
            self.assertEqual((reply["id"], reply["result"]["protocol"]), (None, 1))


if __name__ == "__main__":
    unittest.main()
