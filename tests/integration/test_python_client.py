#!/usr/bin/python3
"""The Python client (ipc/python) against the real agent, and against one that answers what a test wants."""

import asyncio
import datetime
import fcntl
import inspect
import itertools
import json
import os
import pickle
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

import zmq

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests", "support"), os.path.join(ROOT, "ipc", "python")]

# pylint: disable=wrong-import-position
import agent as raw_agent  # noqa: E402
import memsync  # noqa: E402
from memsync import AsyncClient, Client, aio, requests, results, wire  # noqa: E402
from memsync.errors import AGENT_ERRORS  # noqa: E402
from peer import add, update  # noqa: E402
from process import IS_SANITIZED, ProcessCase, wait_until  # noqa: E402

SLOW = 4 if IS_SANITIZED else 1
# Methods here that are other forms of one of the protocol's.
FORMS = {"search_scopes": "search", "all_scopes": "scopes", "refresh_all": "refresh"}
BUILDERS = {name: build for name, build in vars(requests).items()
            if inspect.isfunction(build) and not name.startswith("_") and name != "describe"}


def document(name):
    with open(os.path.join(ROOT, *name.split("/")), encoding="utf-8") as file:
        return file.read()


def look_at_all(result):
    """Reads every member that the result's class names, and those of the results in it."""
    kinds = (results.Member, results.One, results.Perhaps, results.Many)
    names = [name for kind in type(result).__mro__ for name, each in vars(kind).items() if isinstance(each, kinds)]
    for name in names:
        value = getattr(result, name)
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, results.Result):
                look_at_all(each)
    return names


class FakeAgent:
    """Answers requests as a function says, which is given each request and returns the replies to send: objects, or
    bytes as they are. Keeps the requests."""

    numbers = itertools.count()

    def __init__(self, case, answer):
        self.endpoint = f"ipc://{case.directory}/fake{next(self.numbers)}"
        self.answer = answer
        self.requests = []
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        case.addCleanup(self.stop)

    def run(self):
        with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
            router.linger = 0
            router.bind(self.endpoint)
            while not self.ended.is_set():
                if not router.poll(20):
                    continue
                who, request = router.recv_multipart()
                request = json.loads(request)
                self.requests.append(request)
                for reply in self.answer(request):
                    router.send_multipart([who, reply if isinstance(reply, bytes) else json.dumps(reply).encode()])

    def stop(self):
        self.ended.set()
        self.thread.join(10)


def result(request, value):
    return {"jsonrpc": "2.0", "id": request["id"], "result": value}


def error(request_id, code, kind, retryable=False, **data):
    return {"jsonrpc": "2.0", "id": request_id, "error": {
        "code": code, "message": f"it is {kind}",
        "data": {"kind": kind, "user_id": None, "agent_name": None, "path": None, "retryable": retryable, **data}}}


class ClientCase(ProcessCase):
    def client(self, endpoint, **options):
        client = Client(endpoint, **options)
        self.addCleanup(client.close)
        return client

    def tea(self, **options):
        """An agent whose u1 has two facts, and a client of it."""
        self.peer.commit("u1", changes=[add("fact_1", "Likes green tea", "preference", 0.9),
                                        add("fact_2", "Works on Mondays")])
        running = self.agent(**options)
        self.wait_indexed(running, 2)
        return running, self.client(running.endpoint)

    def at_least_once(self, client, **options):
        """A call whose first answer may be slow, so that what follows is not."""
        return client.search("tea", user_id="u1", timeout=20, **options)

    def wait_asked(self, running, method):
        """Waits until a request is on its way to an agent that cannot read it."""
        time.sleep(0.3 * SLOW)
        self.assertTrue(running.is_running(), method)


class Methods(ClientCase):
    def test_each_served_method_has_one_and_both_clients_have_the_same(self):
        running, client = self.tea()
        methods = running.rpc("capabilities")["methods"]
        fixed = {"warm", "shutdown_flush", "on_pre_compress", "on_turn_start"}
        served = {name for name, is_served in methods.items() if is_served} - fixed - {"add", "add_nowait"}
        self.assertEqual({FORMS.get(name, name) for name in BUILDERS}, served)
        for kind in (Client, AsyncClient):
            self.assertLessEqual(set(BUILDERS), set(dir(kind)))
        public = [{name for name in dir(kind) if not name.startswith("_")} for kind in (Client, AsyncClient)]
        self.assertEqual(public[0], public[1])
        self.assertEqual(client.capabilities().methods, methods)

    def test_a_method_says_what_it_takes_and_gives(self):
        for kind in (Client, AsyncClient):
            shown = inspect.signature(kind.search)
            self.assertEqual(list(shown.parameters)[:3], ["self", "query", "user_id"])
            self.assertEqual(list(inspect.signature(kind("ipc:///a").search).parameters)[:2], ["query", "user_id"])
            self.assertEqual(shown.return_annotation, "SearchResult")
            self.assertEqual((kind.search.__name__, kind.search.__doc__),
                             ("search", requests.search.__doc__))

    def test_each_parameter_is_sent_by_its_own_name_and_only_when_it_is_given(self):
        for name, build in BUILDERS.items():
            with self.subTest(method=name):
                given = {each: f"value of {each}" for each in inspect.signature(build).parameters}
                given.update({each: ["one"] for each in ("upserts", "deletes") if each in given})
                request = build(**given)
                self.assertEqual(request.timeout, given.pop("timeout"))
                if name == "refresh_all":
                    given["all"] = True
                self.assertEqual((request.method, request.params), (FORMS.get(name, name), given))
                needed = {each.name: None for each in inspect.signature(build).parameters.values()
                          if each.default is each.empty}
                sent = build(**needed).params
                defaults = {"refresh": {"full", "wait"}, "refresh_all": {"all", "accept_volume"}}.get(name, set())
                self.assertLessEqual(set(sent), set(needed) | defaults)
                self.assertEqual("user_id" in sent, "user_id" in needed)

    def test_a_method_documents_the_parameters_of_the_protocol(self):
        text = document("docs/protocol.md")
        for method in ("search", "create_fact", "apply_changes", "refresh"):
            section = re.search(rf"^### {method}\b.*?(?=^###? )", text, re.M | re.S)[0]
            rows = re.findall(r"^\| (`[a-z_`, ]+`) \|", section.split("```")[0], re.M)
            named = set(re.findall(r"`([a-z_]+)`", " ".join(rows)))
            forms = [each for each in BUILDERS if FORMS.get(each, each) == method]
            taken = {name for each in forms for name in inspect.signature(BUILDERS[each]).parameters}
            if method == "refresh":
                taken.add("all")
            with self.subTest(method=method):
                self.assertTrue(named)
                self.assertLessEqual(named, taken)

    def test_reading(self):
        _, client = self.tea()
        found = client.search("green tea", user_id="u1", top_k=3)
        self.assertEqual([hit.fact.content for hit in found.hits], ["Likes green tea"])
        self.assertEqual((found.hits[0].fact.id, found.hits[0].fact.confidence, found.hits[0].match_type),
                         ("fact_1", 0.9, "fts5"))
        self.assertGreater(found.hits[0].score, 0)
        self.assertEqual([(scope.user_id, scope.agent_name, scope.revision, scope.is_current)
                          for scope in found.scopes], [("u1", "__default__", 1, True)])
        self.assertEqual((found.clamped, client.search("tea", user_id="u1", top_k=5000).clamped), (False, True))
        both = client.search_scopes("tea", [{"user_id": "u1"}, {"user_id": "u2", "agent_name": "coder"}])
        self.assertEqual([scope.user_id for scope in both.scopes], ["u1", "u2"])
        self.assertEqual(client.search("tea", user_id="u1", category="goal").count, 0)
        self.assertEqual(client.search("tea", user_id="u1", filters={"confidence": 0.9}).count, 1)
        self.assertEqual(client.search("tea", user_id=None).count, 0)

        listed = client.list_facts(user_id="u1")
        self.assertEqual(([fact.id for fact in listed.facts], listed.count, listed.scope.revision),
                         (["fact_1", "fact_2"], 2, 1))
        self.assertEqual([fact.id for fact in client.list_facts(user_id="u1", offset=1, limit=1).facts], ["fact_2"])
        self.assertEqual(client.get_fact("fact_2", user_id="u1").fact.title, "Works on Mondays")
        for read in (client.get_memory, client.export_memory, client.reload_memory):
            memory = read(user_id="u1").memory
            self.assertEqual((memory.revision, len(memory.facts)), (1, 2))
        self.assertIn("workContext", client.get_summaries(user_id="u1").summaries.user)

    def test_the_three_freshness_modes(self):
        running, client = self.tea(config={"sync": {"inotify": False, "poll_interval_min_ms": 3600000,
                                                    "poll_interval_max_ms": 3600000}})
        self.at_least_once(client)
        self.peer.commit("u1", changes=[update("fact_1", "Likes black tea")])

        def ask(**options):
            found = client.search("tea", user_id="u1", **options)
            return found.hits[0].fact.content, found.scopes[0].state
        self.assertEqual(ask(freshness="local"), ("Likes green tea", "stale"))
        self.assertIsNotNone(client.search("tea", user_id="u1", freshness="local").scopes[0].age_ms)
        self.assertEqual(ask(freshness="bounded", max_staleness_ms=600000), ("Likes green tea", "stale"))
        content, state = ask(freshness="strict")
        self.assertEqual(content, "Likes black tea")
        self.assertIn(state, ("fresh", "refreshed"))

    def test_writing(self):
        _, client = self.tea()
        made = client.create_fact("Sings in a choir", user_id="u1", category="preference", topics=["music"])
        self.assertEqual((made.changed, made.index, made.revision, made.fact.topics, made.memory),
                         (True, "current", 2, ["music"], None))
        self.assertEqual(client.search("choir", user_id="u1").hits[0].fact.id, made.fact_id)
        self.assertEqual(client.remember_memory("Runs", user_id="u1", memory=True).memory.revision, 3)
        changed = client.update_fact(made.fact_id, user_id="u1", content="Sings", expected_revision=1)
        self.assertEqual((changed.fact.content, changed.fact.revision), ("Sings", 2))
        with self.assertRaises(memsync.ConflictError) as raised:
            client.delete_fact(made.fact_id, user_id="u1", expected_revision=1)
        self.assertEqual((raised.exception.reason, raised.exception.expected, raised.exception.current,
                          raised.exception.fact_id, raised.exception.retryable),
                         ("fact_revision", 1, 2, made.fact_id, True))
        self.assertEqual(client.delete_fact(made.fact_id, user_id="u1").deleted, [made.fact_id])

        facts = client.list_facts(user_id="u1")
        applied = client.apply_changes(
            user_id="u1", expected_revision=facts.scope.revision, deletes=iter(["fact_1"]),
            upserts=[facts.facts[1], {"content": "New"}], summaries={"user": {"topOfMind": {"summary": "Ghent"}}})
        self.assertEqual(([fact.content for fact in applied.upserted], applied.deleted), (["New"], ["fact_1"]))
        self.assertEqual(client.get_summaries(user_id="u1").summaries.user["topOfMind"]["summary"], "Ghent")
        written = client.update_summaries({"user": {"topOfMind": {"summary": "Bruges"}}}, user_id="u1")
        self.assertEqual(written.summaries.user["topOfMind"]["summary"], "Bruges")

        memory = client.export_memory(user_id="u1").memory
        trial = client.import_memory(memory, user_id="u2", dry_run=True)
        self.assertEqual((trial.dry_run, trial.added, client.list_facts(user_id="u2").count), (True, 3, 0))
        self.assertEqual(client.import_memory(memory, user_id="u2").imported, 3)
        cleared = client.clear_memory(user_id="u2", agent_name="__default__")
        self.assertEqual((cleared.cleared, cleared.agents, cleared.kept), (3, ["__default__"], []))
        self.assertEqual(client.delete_memory(user_id="u1", all=True).cleared, 3)
        self.assertFalse(client.migrate(user_id="u1").migrated)

    def test_operating(self):
        running, client = self.tea()
        pong = client.ping()
        self.assertEqual((pong.protocol, pong.name, pong.pid), (memsync.PROTOCOL, "memsyncd", running.pid))
        self.assertEqual(client.status().pid, running.pid)
        self.assertEqual(client.refresh(user_id="u1", full=True).read, 2)
        self.assertTrue(client.refresh(user_id="u1", wait=False).requested)
        self.assertTrue(client.refresh_all().requested)
        self.assertTrue(client.verify(user_id="u1").ok)
        self.assertEqual(client.scopes(user_id="u1").scopes[0].facts, 2)
        self.assertEqual(client.scopes(user_id="nobody").count, 0)
        self.assertEqual(client.all_scopes().count, 1)

    def test_what_a_result_has_is_there_and_what_is_new_is_kept(self):
        _, client = self.tea()
        calls = {
            "search": {"query": "tea", "user_id": "u1"},
            "search_scopes": {"query": "tea", "scopes": [{"user_id": "u1"}]},
            "get_fact": {"fact_id": "fact_1", "user_id": "u1"}, "create_fact": {"content": "one", "user_id": "w"},
            "remember_memory": {"content": "two", "user_id": "w"}, "migrate": {"user_id": "w"},
            "update_fact": {"fact_id": "fact_1", "user_id": "u1", "confidence": 0.5},
            "delete_fact": {"fact_id": "fact_2", "user_id": "u1"},
            "apply_changes": {"user_id": "w", "upserts": [{"content": "three"}]},
            "update_summaries": {"summaries": {"user": {}}, "user_id": "w"},
            "clear_memory": {"user_id": "w", "all": True}, "delete_memory": {"user_id": "w", "all": True},
            "import_memory": {"memory_data": {"facts": [{"content": "four"}]}, "user_id": "w", "memory": True}}
        for name in BUILDERS:
            with self.subTest(method=name):
                takes_user = "user_id" in inspect.signature(BUILDERS[name]).parameters
                answer = getattr(client, name)(**calls.get(name, {"user_id": "u1"} if takes_user else {}))
                self.assertTrue(look_at_all(answer))
                newer = type(answer)({**answer.raw, "not_known_yet": 1})
                self.assertEqual((look_at_all(newer), newer.raw["not_known_yet"]), (look_at_all(answer), 1))
                self.assertNotEqual(newer, answer)
        with self.assertRaises(memsync.BadReplyError):
            results.Hit({}).score  # pylint: disable=expression-not-assigned

    def test_values_that_json_lacks_there_and_back(self):
        _, client = self.tea()
        moved, met = datetime.date(2026, 2, 10), datetime.datetime(2026, 2, 10, 9, 30, tzinfo=datetime.timezone.utc)
        given = {"movedOn": moved, "metAt": met, "picture": b"\x00\xff", "words": {"a", "b"}, "share": float("inf"),
                 "count": 2 ** 200}
        client.apply_changes(user_id="u1", upserts=[{"id": "fact_v", "content": "Moved", **given}])
        stored = client.get_fact("fact_v", user_id="u1").fact.raw
        self.assertEqual(stored["movedOn"], {"$date": "2026-02-10"})
        back = memsync.from_wire(stored)
        self.assertEqual({name: back[name] for name in given}, given)
        self.assertEqual(memsync.from_wire({"$pairs": [[1, "one"]]}), {1: "one"})
        self.assertEqual(memsync.from_wire([{"$set": [["a"]]}, {"$pairs": [[["a"], 1]]}]), [[["a"]], [[["a"], 1]]])
        with self.assertRaises(TypeError):
            client.search("tea", user_id="u1", filters={"id": object()})

    def test_any_method_by_its_name(self):
        running, client = self.tea()
        self.assertEqual(client.call("warm"), {"warmed": None})
        self.assertEqual(client.call("search", query="tea", user_id="u1")["count"], 1)
        self.assertEqual(client.call("ping", method="a parameter of that name")["pid"], running.pid)
        for wrong in ("", "a b", 'ping","x":"', "x" * 65):
            with self.subTest(method=wrong), self.assertRaises(ValueError):
                client.call(wrong)


class Errors(ClientCase):
    def refusal(self, expected, call, *arguments, **params):
        with self.assertRaises(expected) as raised:
            call(*arguments, **params)
        self.assertIs(type(raised.exception), expected)
        return raised.exception

    def test_the_classes_are_those_of_the_documented_kinds(self):
        rows = re.findall(r"^\| (-\d+) \| `(\w+)` \| (?:yes|no) \|", document("docs/protocol.md"), re.M)
        self.assertEqual(len(rows), 15)
        self.assertEqual({int(code): kind for code, kind in rows},
                         {code: each.kind for code, each in AGENT_ERRORS.items()})
        for each in AGENT_ERRORS.values():
            self.assertIs(getattr(memsync, each.__name__), each)

    def test_each_code_of_an_agent_comes_as_its_class(self):
        fake = FakeAgent(self, lambda request: [error(
            request["id"], request["params"]["code"], request["params"]["kind"], True, path="users/u1/x")])
        client = self.client(fake.endpoint)
        kinds = {**{code: each.kind for code, each in AGENT_ERRORS.items()}, -32099: "a_new_one"}
        for code, kind in kinds.items():
            with self.subTest(kind=kind):
                problem = self.refusal(AGENT_ERRORS.get(code, memsync.AgentError), client.call, "say", code=code,
                                       kind=kind)
                self.assertEqual((problem.code, problem.kind, problem.retryable, problem.path, problem.message),
                                 (code, kind, True, "users/u1/x", f"it is {kind}"))
                self.assertEqual(str(problem), f"{kind}: users/u1/x: it is {kind}")
                again = pickle.loads(pickle.dumps(problem))
                self.assertEqual((type(again), again.code, again.data, str(again)),
                                 (type(problem), code, problem.data, str(problem)))

    def test_kinds_of_the_real_agent(self):
        running, client = self.tea(config={"ipc": {"max_message_bytes": 65536}})
        self.at_least_once(client)
        deep = "tea"
        for _ in range(40):
            deep = [deep]
        self.refusal(memsync.ParseError, client.search, "tea", user_id="u1", filters={"id": deep})
        self.refusal(memsync.NoMethodError, client.call, "sing")
        self.assertIn("user_id", self.refusal(memsync.InvalidParamsError, client.search, "tea", user_id="").message)
        problem = self.refusal(memsync.NotFoundError, client.get_fact, "fact_9", user_id="u1", agent_name="Coder")
        self.assertEqual((problem.user_id, problem.retryable), ("u1", False))
        self.refusal(memsync.UnsupportedError, client.call, "get_context", user_id="u1")
        self.refusal(memsync.TooLargeError, client.search, "tea " * 20000, user_id="u1")
        problem = self.refusal(memsync.ConflictError, client.create_fact, "likes GREEN tea", user_id="u1")
        self.assertEqual((problem.reason, problem.fact_id, problem.attempts), ("duplicate_fact", "fact_1", 1))
        with open(os.path.join(self.volume, "users", "u1", "memory.json"), "w", encoding="utf-8") as file:
            file.write("{")
        problem = self.refusal(memsync.CorruptError, client.create_fact, "Runs", user_id="u1")
        self.assertEqual(problem.path, "users/u1/memory.json")
        self.assertEqual(client.ping().pid, running.pid)

    def test_what_waits_for_a_lock_is_told_by_the_agent_itself(self):
        _, client = self.tea()
        self.at_least_once(client)
        with open(os.path.join(self.volume, "users", "u1", ".memory.lock"), "ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            problem = self.refusal(memsync.RequestTimeoutError, client.create_fact, "Runs", user_id="u1",
                                   timeout=1.5)
            self.assertTrue(problem.retryable)

    def test_a_volume_that_went_away(self):
        running, client = self.tea()
        os.rename(self.volume, self.volume + ".away")
        running.wait_until(lambda: running.log_lines("event=volume.suspended "), what="a volume that is away")
        self.assertTrue(self.refusal(memsync.UnavailableError, client.create_fact, "Runs", user_id="u1").retryable)
        self.assertEqual(client.search("green", user_id="u1").scopes[0].state, "unverified")

    def test_an_agent_of_another_protocol_and_what_is_no_agent(self):
        answers = {"ping": {"protocol": 2, "name": "memsyncd"}}
        fake = FakeAgent(self, lambda request: [result(request, answers[request["method"]])
                                                if request["method"] in answers else request["params"]["say"].encode()])
        client = self.client(fake.endpoint)
        self.assertIn("version 2", self.refusal(memsync.ProtocolError, client.ping).message)
        for reply in ("no json", "[]", "1", "{}", '{"id": 1}', '{"id": 1, "result": 1, "error": {}}', "",
                      '{"id": 1, "error": 5}', '{"id": 1, "error": {"code": "x", "message": "y"}}'):
            with self.subTest(reply=reply):
                self.refusal(memsync.BadReplyError, client.call, "say", say=reply, timeout=2)
        self.assertEqual(client.call("ping")["protocol"], 2)

    def test_endpoints(self):
        for wrong in ("", "http://x", "ipc://", "ipc://@", "ipc://*", "ipc://" + "x" * 108, "tcp://127.0.0.1",
                      "tcp://127.0.0.1:0", "tcp://127.0.0.1:65536", "tcp://192.0.2.1:5000", "tcp://:5000",
                      "tcp://example.org:5000", "ipc:///a\nb"):
            with self.subTest(endpoint=wrong):
                self.assertIsNotNone(memsync.endpoint_error(wrong))
                self.refusal(memsync.BadEndpointError, Client, wrong)
                self.refusal(memsync.BadEndpointError, AsyncClient, wrong)
        for right in ("ipc:///a", "ipc://@name", "tcp://127.0.0.1:5000", "tcp://[::1]:5000", "tcp://localhost:1",
                      "ipc://" + "x" * 107):
            with self.subTest(endpoint=right):
                self.assertIsNone(memsync.endpoint_error(right))

    def test_the_endpoint_comes_from_the_environment(self):
        running, _ = self.tea()
        code = "from memsync import Client; c = Client(); print(c.endpoint)"
        for given, expected in ((running.endpoint, running.endpoint), ("", memsync.DEFAULT_ENDPOINT)):
            env = {**os.environ, "MEMSYNC_ENDPOINT": given, "PYTHONPATH": os.path.join(ROOT, "ipc", "python")}
            done = subprocess.run([sys.executable, "-c", code], env=env, text=True, capture_output=True, check=True)
            self.assertEqual(done.stdout.strip(), expected)

    def test_other_ways_to_connect(self):
        name = f"ipc://@memsync-test-{os.getpid()}"
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        for endpoint in (name, f"tcp://127.0.0.1:{port}"):
            with self.subTest(endpoint=endpoint):
                running = self.agent(config={"ipc": {"endpoint": endpoint}})
                client = self.client(endpoint)
                self.assertEqual(client.ping().pid, running.pid)
                running.kill()
                self.refusal(memsync.NoAgentError, client.ping)

    def test_a_timeout_is_a_number_of_seconds(self):
        for wrong in (0, -1, float("nan"), float("inf")):
            with self.subTest(timeout=wrong):
                self.refusal(ValueError, Client, timeout=wrong)
                self.refusal(ValueError, Client("ipc:///a").ping, timeout=wrong)


class Waiting(ClientCase):
    def test_nobody_is_told_at_once_and_why(self):
        place = os.path.join(self.directory, "s")
        client = self.client(f"ipc://{place}")
        begun = time.monotonic()

        def reason():
            with self.assertRaises(memsync.NoAgentError) as raised:
                client.create_fact("Runs", user_id="u1", timeout=10)
            self.assertEqual((raised.exception.may_be_done, raised.exception.retryable), (False, True))
            return str(raised.exception)
        self.assertIn("there is no socket", reason())
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(place)
        self.assertIn("the socket is dead", reason())
        os.unlink(place)
        with open(place, "wb"):
            pass
        self.assertIn("no socket", reason())
        self.assertLess(time.monotonic() - begun, 5)

    def test_one_that_listens_and_takes_no_connection(self):
        place = os.path.join(self.directory, "s")
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(place)
            listening.listen(8)
            client = self.client(f"ipc://{place}")
            with self.assertRaises(memsync.NoAgentError) as raised:
                client.create_fact("Runs", user_id="u1", timeout=0.3)
        self.assertIn("does not take connections", str(raised.exception))
        self.assertFalse(raised.exception.may_be_done)

    def test_a_stopped_agent_costs_its_timeout_and_its_late_answers_reach_nobody(self):
        running, client = self.tea()
        self.at_least_once(client)
        running.signal(signal.SIGSTOP)
        for timeout in (0.005, 0.05, 0.3):
            begun = time.monotonic()
            with self.assertRaises(memsync.NoAgentError) as raised:
                client.get_fact("fact_1", user_id="u1", timeout=timeout)
            self.assertTrue(raised.exception.may_be_done)
            self.assertFalse(raised.exception.retryable)
            self.assertGreaterEqual(time.monotonic() - begun, timeout * 0.9)
            self.assertLess(time.monotonic() - begun, timeout + 1)
        running.signal(signal.SIGCONT)
        for _ in range(50):
            self.assertEqual(client.get_fact("fact_2", user_id="u1").fact.id, "fact_2")
        self.assertEqual(len(client._idle), 1)  # the same connection, so the late answers came over it

    def test_an_answer_with_another_id_is_passed_over(self):
        fake = FakeAgent(self, lambda request: [
            result({"id": 999}, "not yours"), result({"id": "1"}, "not yours"), result({"id": None}, "not yours"),
            result(request, request["params"]["n"])])
        client = self.client(fake.endpoint)
        self.assertEqual([client.call("say", n=n) for n in range(5)], [0, 1, 2, 3, 4])

    def test_an_error_without_an_id_belongs_to_the_only_request(self):
        held = []

        def answer(request):
            if request["method"] == "hold":
                held.append(request)
                return []
            return [*(error(None, -32010, "too_large") for _ in held), result(request, "mine")] if held \
                else [error(None, -32010, "too_large")]
        client = self.client(FakeAgent(self, answer).endpoint)
        with self.assertRaises(memsync.TooLargeError):
            client.call("say")
        with self.assertRaises(memsync.NoAgentError):
            client.call("hold", timeout=0.2)
        self.assertEqual(client.call("say"), "mine")  # the error was about the request that was given up

    def test_the_agents_deadline_is_a_little_before_ours(self):
        fake = FakeAgent(self, lambda request: [result(request, request["params"]["timeout_ms"])])
        client = self.client(fake.endpoint, timeout=4)
        client.call("say")
        for timeout, least, most in ((None, 3700, 3900), (10, 9700, 9900), (0.5, 300, 450)):
            with self.subTest(timeout=timeout):
                told = client.call("say", timeout=timeout)
                self.assertGreaterEqual(told, least / SLOW)
                self.assertLessEqual(told, most)
        self.assertEqual(client.call("say", timeout_ms=7), 7)

    def test_a_queue_full_of_given_up_requests_is_left(self):
        running, client = self.tea()
        self.at_least_once(client)
        running.signal(signal.SIGSTOP)
        for _ in range(150):
            with self.assertRaises(memsync.NoAgentError):
                client.search("tea " * 4000, user_id="u1", timeout=0.002)
        running.signal(signal.SIGCONT)
        self.assertEqual(client.search("green", user_id="u1", timeout=20).count, 1)

    def test_a_signal_ends_a_wait_and_the_next_call_gets_its_own_answer(self):
        class Stop(Exception):
            pass

        def stop(*_):
            raise Stop
        running, client = self.tea()
        self.at_least_once(client)
        before = signal.signal(signal.SIGALRM, stop)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        running.signal(signal.SIGSTOP)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        begun = time.monotonic()
        with self.assertRaises(Stop):
            client.get_fact("fact_1", user_id="u1", timeout=20)
        self.assertLess(time.monotonic() - begun, 5)
        running.signal(signal.SIGCONT)
        self.assertEqual(client.get_fact("fact_2", user_id="u1").fact.id, "fact_2")


class Repeating(ClientCase):
    def restart_during(self, call):
        """What a call comes to whose agent is killed before it answers, and started anew."""
        running, client = self.tea()
        self.at_least_once(client)
        running.signal(signal.SIGSTOP)
        came = []

        def ask():
            try:
                came.append(call(client))
            except memsync.MemsyncError as problem:
                came.append(problem)
        thread = threading.Thread(target=ask)
        thread.start()
        self.wait_asked(running, "a request")
        running.kill()
        time.sleep(0.2)
        running.start()
        thread.join(30)
        return came[0], client

    def test_a_restart_between_two_calls_is_not_noticed(self):
        running, client = self.tea()
        for _ in range(3):
            self.at_least_once(client)
            running.kill()
            running.start()
            self.assertEqual(client.search("green", user_id="u1").count, 1)
            running.kill()
            running.start()
            self.assertTrue(client.create_fact(f"Runs on day {time.monotonic_ns()}", user_id="u1").changed)

    def test_nobody_is_waited_for_between_two_calls(self):
        running, client = self.tea()
        self.at_least_once(client)
        running.kill()
        begun = time.monotonic()
        with self.assertRaises(memsync.NoAgentError):
            client.create_fact("Runs", user_id="u1", timeout=20)
        self.assertLess(time.monotonic() - begun, 5)
        running.start()
        self.assertTrue(client.create_fact("Runs", user_id="u1").changed)

    def test_a_read_is_sent_once_more_to_the_next_agent(self):
        answer, _ = self.restart_during(lambda client: client.search("green", user_id="u1", timeout=30))
        self.assertEqual(getattr(answer, "count", answer), 1)

    def test_a_read_ends_in_time_when_no_agent_comes(self):
        running, client = self.tea()
        self.at_least_once(client)
        running.signal(signal.SIGSTOP)
        threading.Timer(0.3, running.kill).start()
        begun = time.monotonic()
        with self.assertRaises(memsync.NoAgentError):
            client.search("green", user_id="u1", timeout=1.5)
        self.assertLess(time.monotonic() - begun, 1.5 + 1)

    def test_a_write_is_never_sent_twice(self):
        answer, client = self.restart_during(lambda each: each.create_fact("Runs", user_id="u1", timeout=30))
        self.assertIsInstance(answer, memsync.NoAgentError)
        self.assertTrue(answer.may_be_done)
        self.assertFalse(answer.retryable)
        self.assertEqual(client.list_facts(user_id="u1").count, 2)

    def refused(self, method, times, **data):
        """What comes, and how often it was asked for, when the agent is busy so many times."""
        counted = []

        def answer(request):
            counted.append(request)
            if len(counted) <= times:
                return [error(request["id"], -32009, "busy", True, **data)]
            return [result(request, "done")]
        client = self.client(FakeAgent(self, answer).endpoint)
        try:
            return client.call(method, user_id="u1", timeout=5), len(counted)
        except memsync.BusyError as problem:
            return problem.kind, len(counted)

    def test_what_did_not_begin_is_tried_again(self):
        self.assertEqual(self.refused("search", 2), ("done", 3))
        self.assertEqual(self.refused("create_fact", 2), ("done", 3))
        self.assertEqual(self.refused("create_fact", 3, attempts=0), ("done", 4))
        self.assertEqual(self.refused("create_fact", 99), ("busy", wire.BUSY_TRIES))

    def test_what_may_have_begun_is_not(self):
        self.assertEqual(self.refused("create_fact", 1, attempts=1), ("busy", 1))
        self.assertEqual(self.refused("clear_memory", 1), ("busy", 1))

    def test_no_other_error_is_repeated(self):
        counted = []

        def answer(request):
            counted.append(request)
            return [error(request["id"], request["params"]["code"], "x", True)]
        client = self.client(FakeAgent(self, answer).endpoint)
        for number, code in enumerate(sorted(set(AGENT_ERRORS) - {-32009}), 1):
            for method in ("search", "create_fact"):
                with self.assertRaises(memsync.AgentError):
                    client.call(method, code=code)
            self.assertEqual(len(counted), 2 * number)


class Untouchable:
    """What ends the process when it is used."""

    def __getattr__(self, name):
        os._exit(3)


class Sharing(ClientCase):
    def test_threads_share_a_client_and_each_gets_its_own_answers(self):
        self.fill(users=8, facts=3)
        running = self.agent()
        client = self.client(running.endpoint, timeout=30)
        wrong = []

        def ask(user):
            try:
                for _ in range(60):
                    found = client.search("amber", user_id=user)
                    wrong.extend(hit for hit in found.hits if not hit.fact.content.endswith(f"of user{user[1:]}"))
                    if found.count != 3 or found.scopes[0].user_id != user:
                        wrong.append(found)
            except Exception as problem:  # judged below
                wrong.append(problem)
        threads = [threading.Thread(target=ask, args=(f"u{number}",)) for number in range(1, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        self.assertEqual(wrong, [])
        self.assertLessEqual(len(client._idle), 8)

    def test_connections_are_used_again_by_later_threads_and_go_with_the_client(self):
        running, client = self.tea()
        def connections():
            return running.rpc("status")["ipc"]["connections"]
        own = 1
        running.wait_until(lambda: connections() == own, what="no connection but the test's")
        for _ in range(30):
            thread = threading.Thread(target=self.at_least_once, args=(client,))
            thread.start()
            thread.join(30)
        self.assertEqual(connections() - own, 1)
        client.close()
        running.wait_until(lambda: connections() == own, what="closed connections")
        with self.assertRaises(memsync.ClosedError):
            client.ping()
        client.close()
        with Client(running.endpoint) as another:
            another.ping()
        del another
        forgotten = Client(running.endpoint)
        forgotten.ping()
        del forgotten
        running.wait_until(lambda: connections() == own, what="closed connections")

    def test_an_agent_that_dies_as_its_clients_close_stops_nothing_else(self):
        lasting, kept = self.tea()
        for _ in range(8):
            running = self.agent(volume=self.another_volume())
            clients = [Client(running.endpoint) for _ in range(20)]
            for client in clients:
                client.ping()
            for client in clients:
                client.close()
            running.kill()
            self.assertEqual(Client(lasting.endpoint).ping(timeout=10).pid, lasting.pid)
            self.assertEqual(kept.ping(timeout=10).pid, lasting.pid)

    def test_of_many_threads_at_once_few_connections_stay(self):
        running, client = self.tea()
        self.at_least_once(client)
        running.signal(signal.SIGSTOP)
        threads = [threading.Thread(target=self.at_least_once, args=(client,)) for _ in range(40)]
        for thread in threads:
            thread.start()
        self.wait_asked(running, "searches")
        running.signal(signal.SIGCONT)
        for thread in threads:
            thread.join(60)
        running.wait_until(lambda: running.rpc("status")["ipc"]["connections"] <= 18, what="few connections")

    def test_closing_lets_a_call_of_another_thread_end(self):
        running, client = self.tea()
        self.at_least_once(client)
        running.signal(signal.SIGSTOP)
        came = []
        thread = threading.Thread(target=lambda: came.append(self.at_least_once(client)))
        thread.start()
        self.wait_asked(running, "a search")
        client.close()
        running.signal(signal.SIGCONT)
        thread.join(30)
        self.assertEqual(came[0].count, 1)
        self.assertEqual(len(client._idle), 0)

    def another_volume(self):
        return tempfile.mkdtemp(dir=self.directory)

    def in_child(self, work):
        """Forks, does the work there, and returns a function that waits for its end and gives the exit code."""
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = work() or 0
            finally:
                os._exit(code)
        return lambda: os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def test_parent_and_child_go_on_side_by_side_after_a_fork(self):
        running, client = self.tea()
        self.at_least_once(client)
        stop = threading.Event()
        wrong = []

        def ask(fact_id, times):
            for _ in range(times):
                if client.get_fact(fact_id, user_id="u1", timeout=30).fact.id != fact_id:
                    return 2
            return 0

        def go_on():
            while not stop.is_set():
                if ask("fact_1", 5):
                    wrong.append("another's answer")
        thread = threading.Thread(target=go_on)  # its connection is in use while we fork
        thread.start()
        try:
            waits = [self.in_child(lambda: ask("fact_2", 150)) for _ in range(4)]
            self.assertEqual(ask("fact_1", 150), 0)
            self.assertEqual([wait() for wait in waits], [0, 0, 0, 0])
        finally:
            stop.set()
            thread.join(60)
        self.assertEqual(wrong, [])

    def test_a_child_leaves_the_parents_connection_alone(self):
        running, client = self.tea()
        self.at_least_once(client)

        def close():
            client.close()
            return 0

        def go_on():
            self.kept = [(each, each.socket, each.monitor) for each in client._idle]
            for each, *_ in self.kept:
                each.socket = each.monitor = Untouchable()
            client.ping()
            client.close()
            return 0
        self.assertEqual(self.in_child(close)(), 0)
        self.assertEqual(self.in_child(go_on)(), 0)
        self.assertEqual(self.in_child(lambda: 0 if Client(running.endpoint).ping() else 1)(), 0)
        connection = client._idle[0]
        self.assertEqual(client.get_fact("fact_1", user_id="u1").fact.id, "fact_1")
        self.assertIs(client._idle[0], connection)

    def test_nothing_is_left_to_complain_about_at_the_end(self):
        running, _ = self.tea()
        code = ("import os, sys, memsync, threading\n"
                "client = memsync.Client(sys.argv[1])\n"
                "client.ping()\n"
                "threading.Thread(target=client.ping).start()\n"
                "if os.fork() == 0:\n"
                "    client.ping()\n"
                "    client.close()\n"
                "    os._exit(0)\n"
                "os.wait()\n"
                "print(client.events().next(timeout=0.01))\n")
        done = subprocess.run(
            [sys.executable, "-W", "error", "-X", "dev", "-c", code, running.endpoint], text=True, capture_output=True,
            check=False, timeout=60, env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "ipc", "python")})
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "None\n", ""))


class Publisher:
    """Publishes events as a test wants them, beside a fake agent that names the endpoint."""

    def __init__(self, case):
        self.endpoint = f"ipc://{case.directory}/fake.events"
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.XPUB)
        self.socket.linger = 0
        self.socket.bind(self.endpoint)
        case.addCleanup(self.context.term)
        case.addCleanup(self.socket.close)
        self.agent = FakeAgent(case, lambda request: [result(request, {
            "protocol": 1, "name": "memsyncd", "version": "1", "backend": "deermem", "pid": 1,
            "events": self.endpoint})])

    def wait_subscribed(self):
        if not self.socket.poll(10000):
            raise AssertionError("nobody subscribed")
        return self.socket.recv()

    def send(self, topic, epoch, number):
        self.socket.send_multipart([topic.encode(), json.dumps(
            {"event": "refreshed", "user_id": "u1", "agent_name": "x", "epoch": epoch, "n": number}).encode()])


class Events(ClientCase):
    def test_topics_are_those_of_the_protocol(self):
        for user, name in (("u1", None), ("a/b@c", "Coder"), (None, None), ("ü ~", "x-1")):
            self.assertEqual(memsync.topic(user, name), raw_agent.topic(user, name))
        self.assertEqual(memsync.topic("a/b@c", "coder"), "scope/a%2Fb%40c/coder/")
        self.assertEqual(memsync.user_topics("u1"), "scope/u1/")
        self.assertEqual(memsync.user_topics(None), "scope//")

    def test_a_write_by_anybody_is_told(self):
        _, client = self.tea()
        with client.events(memsync.topic("u1")) as events, client.events() as everything:
            self.assertIsNone(events.next(timeout=0.2))
            client.create_fact("Sings", user_id="u1")
            client.create_fact("Sings", user_id="u2")
            event = events.next(timeout=10)
            self.assertEqual((event.event, event.user_id, event.agent_name, event.revision, event.missed, event.topic),
                             ("written", "u1", "__default__", 2, False, "scope/u1/__default__/"))
            self.peer.commit("u1", changes=[update("fact_1", "Likes black tea")])
            client.search("tea", user_id="u1")
            for event in events:
                if event.event == "refreshed":
                    break
            self.assertEqual((event.user_id, event.revision, event.facts, event.missed), ("u1", 3, 3, False))
            users = {everything.next(timeout=10).user_id for _ in range(2)}
            self.assertLessEqual(users, {"u1", "u2"})
        with self.assertRaises(memsync.ClosedError):
            events.next()
        self.assertEqual(list(events), [])

    def test_what_was_missed_is_told(self):
        publisher = Publisher(self)
        events = self.client(publisher.agent.endpoint).events("scope/u1/")
        self.addCleanup(events.close)
        self.assertEqual(publisher.wait_subscribed(), b"\x01scope/u1/")
        told = (("a", 7, 5, False), ("a", 7, 6, False), ("b", 7, 1, False), ("a", 7, 8, True), ("a", 7, 9, False),
                ("a", 8, 1, True), ("b", 8, 2, True), ("a", 8, 1, True), ("a", 8, 2, False))
        for name, epoch, number, missed in told:
            publisher.send(f"scope/u1/{name}/", epoch, number)
            event = events.next(timeout=10)
            self.assertEqual((event.topic, event.epoch, event.n, event.missed),
                             (f"scope/u1/{name}/", epoch, number, missed))

    def test_it_goes_on_after_a_restart_and_says_so(self):
        running, client = self.tea()
        with client.events() as events:
            client.create_fact("Sings", user_id="u1")
            self.assertEqual(events.next(timeout=10).event, "written")
            running.kill()
            self.assertIsNone(events.next(timeout=0.5))
            running.start()

            def event():
                return events.next(timeout=20 * SLOW)
            first = event()
            self.assertEqual((first.event, first.missed, first.user_id), (memsync.RECONNECTED, True, None))
            wait_until(lambda: client.create_fact(f"Runs {time.monotonic_ns()}", user_id="u1").changed
                       and events.next(timeout=0.5), what="an event of the next agent")

    def test_what_publishes_none_and_nobody(self):
        running, client = self.tea(config={"ipc": {"events": "off"}})
        with self.assertRaises(memsync.UnsupportedError):
            client.events()
        with self.assertRaises(memsync.NoAgentError):
            memsync.Subscription(running.endpoint + ".events", timeout=1)

    def test_another_thread_ends_the_wait(self):
        _, client = self.tea()
        events = client.events()
        came = []
        thread = threading.Thread(target=lambda: came.append(list(events)))
        thread.start()
        time.sleep(0.2)
        events.close()
        thread.join(10)
        self.assertFalse(thread.is_alive())
        self.assertIsInstance(came[0], list)
        events.close()

    def test_a_child_has_a_connection_of_its_own(self):
        _, client = self.tea()
        with client.events(memsync.topic("u7")) as events:
            reading, writing = os.pipe()
            child = os.fork()
            if child == 0:
                told = []
                try:
                    told.append(events.next(timeout=30).event)
                    os.write(writing, b"1")
                    told.append(events.next(timeout=30).event)
                finally:
                    os._exit(0 if told == [memsync.RECONNECTED, "written"] else 1)
            self.assertEqual(os.read(reading, 1), b"1")
            time.sleep(0.2)
            client.create_fact("Sings", user_id="u7")
            self.assertEqual(events.next(timeout=10).event, "written")
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            os.close(reading)
            os.close(writing)


class Async(ClientCase):
    def go(self, work, endpoint, **options):
        """Runs a coroutine function with a client, as a program would."""
        async def run():
            async with AsyncClient(endpoint, **options) as client:
                return await asyncio.wait_for(work(client), 120)
        return asyncio.run(run())

    def test_many_calls_at_once_each_get_their_own_answer(self):
        self.fill(users=20, facts=2)
        running = self.agent()
        self.wait_indexed(running, 40)

        async def work(client):
            await client.ping()
            wanted = [f"u{number % 20 + 1}" for number in range(400)]
            found = await asyncio.gather(*(client.search("amber", user_id=user, timeout=60) for user in wanted))
            self.assertEqual([each.scopes[0].user_id for each in found], wanted)
            self.assertEqual({each.count for each in found}, {2})
            return (await client.status()).ipc
        ipc = self.go(work, running.endpoint)
        self.assertEqual(ipc["busy"], 0)

    def test_the_same_methods_and_errors(self):
        running, _ = self.tea()

        async def work(client):
            self.assertEqual((await client.search("green", user_id="u1")).hits[0].fact.id, "fact_1")
            self.assertTrue((await client.create_fact("Sings", user_id="u1")).changed)
            self.assertEqual(await client.call("warm"), {"warmed": None})
            with self.assertRaises(memsync.NotFoundError):
                await client.get_fact("fact_9", user_id="u1")
            with self.assertRaises(ValueError):
                await client.ping(timeout=0)
        self.go(work, running.endpoint)

    def test_a_cancelled_call_and_one_that_timed_out_leave_nothing_to_others(self):
        running, _ = self.tea()

        async def work(client):
            await client.ping()
            running.signal(signal.SIGSTOP)
            calls = [asyncio.create_task(client.get_fact("fact_1", user_id="u1", timeout=30)) for _ in range(5)]
            late = asyncio.create_task(client.get_fact("fact_1", user_id="u1", timeout=0.2))
            kept = asyncio.create_task(client.get_fact("fact_2", user_id="u1", timeout=30))
            with self.assertRaises(memsync.NoAgentError) as raised:
                await late
            self.assertTrue(raised.exception.may_be_done)
            for call in calls:
                call.cancel()
            self.assertEqual([type(each) for each in await asyncio.gather(*calls, return_exceptions=True)],
                             [asyncio.CancelledError] * 5)
            connection = client._connection
            self.assertEqual((len(connection.pending), len(connection.abandoned)), (1, 6))
            running.signal(signal.SIGCONT)
            self.assertEqual((await kept).fact.id, "fact_2")
            for _ in range(20):
                self.assertEqual((await client.get_fact("fact_2", user_id="u1")).fact.id, "fact_2")
            self.assertIs(client._connection, connection)
            self.assertEqual((len(connection.pending), len(connection.abandoned)), (0, 0))
        self.go(work, running.endpoint)

    def test_only_so_many_are_under_way_and_the_others_come_in_turn(self):
        most, under_way, clients = [0], [], []

        def answer(request):
            under_way.append(request)
            time.sleep(0.01)  # for more, if they come
            most[0] = max(most[0], len(clients[0]._connection.pending))
            if len(under_way) < 3 and request["params"]["n"] not in (-1, 20):
                return []
            ready, under_way[:] = list(under_way), []
            return [result(each, each["params"]["n"]) for each in reversed(ready)]
        fake = FakeAgent(self, answer)

        async def work(client):
            clients.append(client)
            await client.call("say", n=-1)  # from now on it is connected, and nobody overtakes
            answers = await asyncio.gather(*(client.call("say", n=n) for n in range(21)))
            self.assertEqual(answers, list(range(21)))
        self.go(work, fake.endpoint, in_flight=3, timeout=30)
        self.assertEqual(most, [3])
        self.assertEqual([request["params"]["n"] for request in fake.requests], list(range(-1, 21)))

    def test_whoever_waits_for_a_place_waits_no_longer_than_its_time(self):
        fake = FakeAgent(self, lambda request: [])

        async def work(client):
            first = asyncio.create_task(client.call("say", timeout=1.5))
            await asyncio.sleep(0.1)
            cancelled = asyncio.create_task(client.call("say", timeout=5))
            with self.assertRaises(memsync.NoAgentError) as raised:
                await client.call("say", timeout=0.3)
            self.assertFalse(raised.exception.may_be_done)
            cancelled.cancel()
            with self.assertRaises(memsync.NoAgentError):
                await first
        self.go(work, fake.endpoint, in_flight=1)
        self.assertEqual(len(fake.requests), 1)

    def test_an_error_without_an_id_ends_the_call_that_it_is_about(self):
        running, _ = self.tea(config={"ipc": {"max_message_bytes": 65536}})

        async def work(client):
            small = [client.search("green", user_id="u1") for _ in range(20)]
            came = await asyncio.gather(*small[:10], client.search("tea " * 20000, user_id="u1"), *small[10:],
                                        return_exceptions=True)
            self.assertIsInstance(came.pop(10), memsync.TooLargeError)
            self.assertEqual([getattr(each, "count", each) for each in came], [1] * 20)
        self.go(work, running.endpoint)

    def test_a_queue_full_of_given_up_requests_is_left(self):
        running, _ = self.tea()

        async def work(client):
            await client.ping()
            first = client._connection
            running.signal(signal.SIGSTOP)
            kept = asyncio.create_task(client.search("green", user_id="u1", timeout=60))
            await asyncio.sleep(0.1)
            for _ in range(100):
                with self.assertRaises(memsync.NoAgentError):
                    await client.search("tea " * 4000, user_id="u1", timeout=0.002)
            running.signal(signal.SIGCONT)
            self.assertEqual((await kept).count, 1)  # over the connection that was left
            self.assertEqual((await client.search("green", user_id="u1", timeout=20)).count, 1)
            self.assertIsNot(client._connection, first)
            self.assertTrue(first.is_closed)
        self.go(work, running.endpoint, in_flight=2)

    def test_restarts(self):
        running, _ = self.tea()

        async def work(client):
            await client.ping()
            running.kill()
            running.start()
            self.assertTrue((await client.create_fact("Sings", user_id="u1")).changed)
            running.signal(signal.SIGSTOP)
            read = asyncio.create_task(client.search("green", user_id="u1", timeout=30))
            write = asyncio.create_task(client.create_fact("Runs", user_id="u1", timeout=30))
            await asyncio.sleep(0.3)
            running.kill()
            await asyncio.sleep(0.2)
            running.start()
            self.assertEqual((await read).count, 1)
            with self.assertRaises(memsync.NoAgentError) as raised:
                await write
            self.assertTrue(raised.exception.may_be_done)
            self.assertEqual((await client.list_facts(user_id="u1")).count, 3)
            running.kill()
            begun = time.monotonic()
            with self.assertRaises(memsync.NoAgentError) as raised:
                await client.ping(timeout=20)
            self.assertFalse(raised.exception.may_be_done)
            self.assertLess(time.monotonic() - begun, 5)
        self.go(work, running.endpoint)

    def test_a_handshake_that_a_probe_meets_is_not_lost(self):
        running, _ = self.tea()

        async def work(client):
            call = asyncio.create_task(client.ping(timeout=20))
            await asyncio.sleep(0)
            time.sleep(0.2)  # it comes up, and the loop has not heard of it
            client._connection.probe(60.0)
            self.assertTrue(client._connection.ups)
            await call
        self.go(work, running.endpoint, timeout=5)

    def test_one_loop_after_another_and_a_child(self):
        running, _ = self.tea()
        client = AsyncClient(running.endpoint)

        async def ask():
            return (await client.get_fact("fact_1", user_id="u1")).fact.id
        self.assertEqual([asyncio.run(ask()) for _ in range(3)], ["fact_1"] * 3)

        async def meanwhile():
            await client.ping()
            came = []
            thread = threading.Thread(target=lambda: came.append(self.problem_of(ask)))
            thread.start()
            while thread.is_alive():
                await asyncio.sleep(0.01)
            self.assertIsInstance(came[0], RuntimeError)
            child = os.fork()
            if child == 0:
                try:
                    thread = threading.Thread(target=lambda: came.append(self.problem_of(ask)))
                    thread.start()
                    thread.join(30)
                finally:
                    os._exit(0 if came[1:] == ["fact_1"] else 1)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.assertEqual(await ask(), "fact_1")
            await client.close()
            with self.assertRaises(memsync.ClosedError):
                await client.ping()
        asyncio.run(meanwhile())

    @staticmethod
    def problem_of(work):
        try:
            return asyncio.run(work())
        except Exception as problem:  # judged by the test
            return problem

    def test_closing_ends_what_is_under_way(self):
        fake = FakeAgent(self, lambda request: [])

        async def work(client):
            calls = [asyncio.create_task(client.call("say")) for _ in range(3)]
            await asyncio.sleep(0.2)
            await client.close()
            self.assertEqual([type(each) for each in await asyncio.gather(*calls, return_exceptions=True)],
                             [memsync.ClosedError] * 3)
        self.go(work, fake.endpoint, in_flight=2)

    def test_events(self):
        running, _ = self.tea()

        async def work(client):
            async with client.events(memsync.topic("u1")) as events:
                self.assertIsNone(await events.next(timeout=0.2))
                await client.create_fact("Sings", user_id="u1")
                async for event in events:
                    self.assertEqual((event.event, event.user_id, event.missed), ("written", "u1", False))
                    break
                running.kill()
                running.start()
                first = await events.next(timeout=20 * SLOW)
                self.assertEqual((first.event, first.missed), (memsync.RECONNECTED, True))
                waiting = asyncio.create_task(self.rest_of(events))
                await asyncio.sleep(0.1)
                await events.close()
                self.assertEqual(await asyncio.wait_for(waiting, 10), [])
            with self.assertRaises(memsync.ClosedError):
                await events.next()
        self.go(work, running.endpoint)

    @staticmethod
    async def rest_of(events):
        return [event async for event in events]

    def test_an_event_that_nobody_takes_costs_nothing(self):
        running, _ = self.tea()

        async def work(client):
            async with client.events() as events:
                with unittest.mock.patch.object(aio, "_ring", wraps=aio._ring) as rung:
                    self.assertIsNone(await events.next(timeout=0.2))
                    await client.create_fact("Sings", user_id="u1")
                    await asyncio.sleep(0.5)
                    self.assertLess(rung.call_count, 10)
                self.assertEqual((await events.next(timeout=10)).event, "written")
        self.go(work, running.endpoint)


class Readme(ClientCase):
    def test_each_example_runs(self):
        text = document("ipc/python/README.md")
        examples = re.findall(r"```python\n(.*?)```", text, re.S)
        self.assertGreater(len(examples), 8)
        running, _ = self.tea()
        said = []
        for example in examples:
            with self.subTest(example=example):
                done = subprocess.run(
                    [sys.executable, "-W", "error", "-c", example], text=True, capture_output=True, check=False,
                    timeout=60, env={**os.environ, "MEMSYNC_ENDPOINT": running.endpoint,
                                     "PYTHONPATH": os.path.join(ROOT, "ipc", "python")})
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                said.append(done.stdout)
        self.assertRegex(said[0], r"^\d+\.\d\d  Likes green tea\n(fresh|refreshed) at revision 1\n$")
        self.assertIn("duplicate_fact True", "".join(said))
        self.assertIn("written u1 __default__", "".join(said))

    def test_the_example_at_the_top_of_the_tree(self):
        example, = re.findall(r"```python\n(.*?)```", document("README.md"), re.S)
        self.peer.commit("mira", changes=[add("fact_tea", "Drinks green tea")])
        running = self.agent()
        done = subprocess.run(
            [sys.executable, "-c", example], text=True, capture_output=True, check=False, timeout=60,
            env={**os.environ, "MEMSYNC_ENDPOINT": running.endpoint, "PYTHONPATH": os.path.join(ROOT, "ipc", "python")})
        self.assertEqual(done.stderr, "")
        self.assertRegex(done.stdout, r"^\d+\.\d\d  Drinks green tea\n(fresh|refreshed) at revision 1\n$")


if __name__ == "__main__":
    unittest.main()
