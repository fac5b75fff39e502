#!/usr/bin/python3
"""Odd, damaged and hostile files, as real users had them, served by the real agent: what must be answered for each.

The inputs are this file's own; those of ../shared/cases are run by the same rules where they are there.
"""

import json
import os
import unittest

import agent
import volumes
from agent import RpcError

CORRUPT = -32003
PARSE_ERROR = -32700
INVALID = -32602
DEFAULT = agent.DEFAULT_AGENT
IN_STEP = ("fresh", "refreshed")  # which of the two depends on how fast the kernel tells of a change


class Served(unittest.TestCase):
    """A volume of the test's own and an agent on it."""

    def setUp(self):
        self.directory = volumes.Directory()
        self.addCleanup(self.directory.__exit__)
        self.running = None

    def start(self):
        self.running = agent.Agent(agent.binary("memsyncd"), self.directory.volume)
        self.addCleanup(self.running.close)
        self.running.start()
        volumes.wait_quiet(self.running)

    def write_facts(self, user="u1", revision=7, **contents):
        facts = [{"id": fact_id, "content": content} for fact_id, content in contents.items()]
        volumes.write_scope(self.directory, user, DEFAULT, facts, revision)

    def search(self, query, user="u1", **params):
        """Contents by id, and the state of the scope."""
        found = self.running.rpc("search", query=query, user_id=user, top_k=100, **params)
        return {hit["fact"]["id"]: hit["fact"]["content"] for hit in found["results"]}, found["scopes"][0]

    def listed(self, user="u1", name=None):
        return self.running.rpc("list_facts", user_id=user, agent_name=name)

    def refused(self, method, **params):
        """The error of a call that must fail."""
        with self.assertRaises(RpcError) as caught:
            self.running.rpc(method, **params)
        return caught.exception

    def read(self, path):
        with open(os.path.join(self.directory.volume, path), "rb") as file:
            return file.read()


def manifest_bytes(revision, **more):
    summary = {"workContext": {"summary": "Keeps the lighthouse.", "updatedAt": "2026-05-02T07:00:00Z"}}
    return json.dumps({"version": "2.0", "revision": revision, "lastUpdated": "2026-05-02T07:00:00Z",
                       "user": summary, "history": {}, **more})


def nested(depth):
    return '{"version":"2.0","revision":11,"user":{},"history":{},"deep":' + "[" * depth + "]" * depth + "}"


# What the manifest says in the end: its revision, or None where it cannot be understood.
MANIFESTS = {
    "plain": (manifest_bytes(12), 12),
    "the last of two equal keys counts": ('{"version":"2.0","revision":5,"user":{},"revision":9,"history":{}}', 9),
    "beyond a double": (manifest_bytes(9007199254740993), 9007199254740993),
    "the largest": (manifest_bytes(2**63 - 1), 2**63 - 1),
    "one more than 64 bits": (manifest_bytes(2**63), None),
    "far beyond": (manifest_bytes(10**40), None),
    "negative": (manifest_bytes(-3), -3),
    "half a surrogate pair": ('{"version":"2.0","revision":7,"user":{"topOfMind":{"summary":"la \\ud83d"}}}', 7),
    "a list around it": (f"[{manifest_bytes(7)}]", None),
    "something behind it": (manifest_bytes(7) + "\n{}", None),
    "cut": (manifest_bytes(8)[:90], None),
    "nothing": (b"", None),
    "zeros": (bytes(400), None),
    "no UTF-8": (manifest_bytes(8).encode().replace(b"lighthouse", b"light\xffouse"), None),
    "nested within reason": (nested(24), 11),
    "nested too deeply": (nested(100_000), None),
}

SHARED_MANIFESTS = {
    "ok_rev7": 7, "dup_revision": 9, "big_revision": 9007199254740993, "beyond_int64": None, "negative_revision": -3,
    "lone_surrogate": 7, "array_root": None, "trailing_text": None, "half": None, "nul_filled": None,
}


class Manifests(Served):
    def check(self, content, revision):
        """A manifest takes the place of one that was understood, and then a good one comes back."""
        good, bad = {"f_beam": "The beam turns every nine seconds."}, volumes.manifest_path("u1")
        before = self.search("beam")[1]["revision"]
        known = self.running.rpc("get_memory", user_id="u1")["memory"]
        self.directory.write(bad, content)
        found, state = self.search("beam")
        self.assertEqual(found, good)
        if revision is None:
            self.assertEqual((state["state"], state["path"]), ("unverified", bad))
            self.assertTrue(state["reason"])
            self.assertEqual(state["revision"], before)
            self.assertEqual(self.listed()["scope"]["state"], "unverified")
            self.last_good(known, bad)
        else:
            self.assertIn(state["state"], IN_STEP)
            self.assertEqual(state["revision"], revision)
            self.assertEqual(self.running.rpc("get_memory", user_id="u1")["memory"]["revision"], revision)
        self.assertEqual(self.read(bad), content if isinstance(content, bytes) else content.encode())
        _, other = self.search("harbour", user="u2")
        self.assertEqual(other["state"], "fresh")
        self.directory.write(bad, manifest_bytes(7))
        found, state = self.search("beam")
        self.assertIn(state["state"], IN_STEP)
        self.assertEqual((found, state["revision"]), (good, 7))

    def last_good(self, known, path):
        """Facts and summaries are those of the manifest that was understood last."""
        head = {key: value for key, value in known.items() if key != "facts"}
        for method, member, wanted in (("get_memory", "memory", known), ("export_memory", "memory", known),
                                       ("get_summaries", "summaries", head)):
            got = self.running.rpc(method, user_id="u1")
            self.assertEqual(got[member], wanted)
            self.assertEqual((got["scope"]["state"], got["scope"]["path"]), ("unverified", path))
        other = self.refused("get_summaries", user_id="u1", agent_name="never-indexed")
        self.assertEqual((other.code, other.data["path"]), (CORRUPT, path))

    def serve(self):
        self.write_facts(f_beam="The beam turns every nine seconds.")
        self.write_facts(user="u2", f_harbour="The harbour closes at dusk.")
        self.directory.write(volumes.manifest_path("u1"), manifest_bytes(7))
        self.start()
        self.search("harbour", user="u2")

    def test_each_manifest_is_understood_or_the_last_good_rows_answer(self):
        self.serve()
        for what, (content, revision) in MANIFESTS.items():
            with self.subTest(what):
                self.check(content, revision)

    @unittest.skipUnless(volumes.shared_is_there(), "no shared cases")
    def test_each_shared_manifest_too(self):
        self.serve()
        for name, revision in SHARED_MANIFESTS.items():
            with self.subTest(name):
                with open(volumes.shared_path("cases", "manifests", name + ".json"), "rb") as file:
                    self.check(file.read(), revision)

    def test_a_user_whose_manifest_was_never_understood_is_refused_by_name(self):
        for what, (content, revision) in MANIFESTS.items():
            if revision is None:
                user = what.replace(" ", "_")
                self.write_facts(user=user, f_lost="Nobody may see this one.")
                self.directory.write(volumes.manifest_path(user), content)
        self.write_facts(f_beam="The beam turns every nine seconds.")
        self.start()
        for what, (_, revision) in MANIFESTS.items():
            if revision is None:
                user = what.replace(" ", "_")
                for method, params in (("search", {"query": "nobody"}), ("list_facts", {}), ("get_memory", {}),
                                       ("get_summaries", {})):
                    failed = self.refused(method, user_id=user, **params)
                    self.assertEqual((failed.code, failed.data["path"]), (CORRUPT, volumes.manifest_path(user)))
        self.assertEqual(self.search("beam")[1]["state"], "fresh")
        self.assertTrue(any("cannot be read" in line for line in self.running.rpc("status")["problems"]))

    def test_a_request_nested_100000_deep_is_refused_and_the_next_one_served(self):
        self.write_facts(f_beam="The beam turns every nine seconds.")
        self.start()
        with self.running.client() as client:
            client.send_raw(b"[" * 100_000)
            reply = json.loads(client.receive_raw()[-1])
            self.assertEqual((reply["error"]["code"], reply["id"]), (PARSE_ERROR, None))
            self.assertEqual(client.search("beam", "u1"), ["The beam turns every nine seconds."])


def front(fact_id, *lines, fence="---", end="\n"):
    """A fact file with the usual front matter, in which `lines` take the place of what they name."""
    usual = {
        "id": fact_id, "category": "goal", "confidence": "0.7", "topics": "[]", "createdAt": "'2026-05-02T07:00:00Z'",
        "updatedAt": "'2026-05-02T07:00:00Z'", "source": "{type: manual, threadId: null}", "schemaVersion": "2",
        "status": "active", "consolidatedFrom": "[]", "revision": "1", "user_id": "u1", "agent_name": DEFAULT,
    }
    named = {line.split(":")[0] for line in lines}
    kept = [f"{key}: {value}" for key, value in usual.items() if key not in named]
    return end.join([fence, *kept, *lines, fence, "", f"# Note {fact_id}", "", ""])


def bomb():
    lines = ['a0: &a0 [x, x, x, x, x, x, x, x, x, x]']
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    return front("f_bomb", *lines) + "Zinc that expands.\n"


FENCES = "Sepia before.\n\n---\n\nuser_id: u2\nid: f_x\n\n---\n\nAnd after."

# File name to bytes, and members that its document has; None: broken, with a word of the reason.
FACTS = {
    "f_crlf": (front("f_crlf", end="\r\n") + "The ochre tram stops here.\r\nRing twice.\r\n",
               {"content": "The ochre tram stops here.\nRing twice."}),
    "f_cr": (front("f_cr", end="\r") + "Umber, with old line ends.\rAnd a second line.\r",
             {"content": "Umber, with old line ends.\nAnd a second line."}),
    "f_fences": (front("f_fences", 'topics: ["a --- b"]') + FENCES + "\n",
                 {"id": "f_fences", "topics": ["a --- b"], "content": FENCES}),
    "20260502": (front("20260502") + "Indigo meeting.\n", {"id": "20260502"}),
    "f_twice": (front("f_twice", "revision: 3", "revision: 4") + "Teal desk.\n", {"revision": 4}),
    "f_octal": (front("f_octal", "revision: 012") + "Mauve count.\n", {"revision": 10}),
    "f_alias": (front("f_alias", "topics: &t [f_older]", "consolidatedFrom: *t") + "Coral merge.\n",
                {"topics": ["f_older"], "consolidatedFrom": ["f_older"]}),
    "f_quoted": (front("f_quoted", "topics: ['no', \"1:30\", '1e3', '2026-05-02', '~', '0x1F', '-']") + "Quoted.\n",
                 {"topics": ["no", "1:30", "1e3", "2026-05-02", "~", "0x1F", "-"]}),
    "f_typed": (front("f_typed", "topics: [no, 2026-05-02, 1:30]") + "Olive.\n", "topics"),
    "f_date": (front("f_date", "createdAt: 2026-05-02T07:00:00Z") + "Plum.\n", "createdAt"),
    "f_bomb": (bomb(), "once aliases are expanded"),
    "f_tab": (front("f_tab", "source:\n\ttype: manual") + "Rust.\n", "line"),
    "f_zeros": (bytes(300), "line 1"),
    "f_cut": (front("f_cut")[:120], "front matter"),
    "f_empty": (b"", "line 1"),
}

SHARED_FACTS = {
    "f_crlf": {"content": "The crimson ferry leaves at nine.\nBring the second key."},
    "f_rules": {"id": "f_rules", "scope": {"userId": "u1", "agentName": DEFAULT}, "topics": ["left --- right"]},
    "20260718": {"id": "20260718"},
    "f_typed": "topics", "f_dup": {"revision": 4}, "f_octal": {"revision": 8},
    "f_alias_ok": {"topics": ["f_old1"], "consolidatedFrom": ["f_old1"]},
    "f_bomb": "once aliases are expanded", "f_tab": "line",
    "f_good": {"content": "Birch fact that must stay searchable."},
}


class Facts(Served):
    def serve(self, files):
        for fact_id, content in files.items():
            self.directory.write(volumes.fact_path("u1", DEFAULT, fact_id), content)
        self.directory.write(volumes.manifest_path("u1"), manifest_bytes(7))
        before = volumes.files_of(self.directory.volume)
        self.start()
        return before

    def check(self, expected):
        """Each document has the members of `expected`; each broken file is told with its reason."""
        listed = self.listed()
        broken = {one["path"]: one["problem"] for one in listed["broken"]}
        documents = {fact["id"]: fact for fact in listed["facts"]}
        for fact_id, members in expected.items():
            with self.subTest(fact_id):
                path = volumes.fact_path("u1", DEFAULT, fact_id)
                if isinstance(members, str):
                    self.assertIn(members, broken[path])
                    self.assertNotIn(fact_id, documents)
                    self.assertTrue(any(path in line for line in self.running.log_lines("event=fact.broken")))
                    continue
                got = {key: documents[fact_id][key] for key in members}
                self.assertIsNone(volumes.difference(got, members, fact_id))
                self.assertEqual(self.running.rpc("get_fact", user_id="u1", fact_id=fact_id)["fact"],
                                 documents[fact_id])
        sound = sorted(fact_id for fact_id, members in expected.items() if isinstance(members, dict))
        self.assertEqual(sorted(documents), sound)
        self.assertEqual(len(broken), len(expected) - len(sound))
        self.assertEqual(listed["scope"].get("broken", 0), len(broken))

    def test_odd_files_are_read_as_the_peers_read_them_and_broken_ones_told(self):
        before = self.serve({fact_id: content for fact_id, (content, _) in FACTS.items()})
        self.check({fact_id: members for fact_id, (_, members) in FACTS.items()})
        self.assertEqual(set(self.search("sepia before")[0]), {"f_fences"})
        self.assertEqual(set(self.search("tram ring")[0]), {"f_crlf"})
        self.assertEqual(self.search("zinc")[0], {})
        self.assertEqual(volumes.files_of(self.directory.volume), before)
        self.assertTrue(self.running.log_lines("event=fact.duplicate_key"))
        told = len(self.running.log_lines("event=fact.broken"))
        for _ in range(2):
            self.running.rpc("refresh", user_id="u1", full=True)
        self.assertEqual(len(self.running.log_lines("event=fact.broken")), told, "once per content")

    @unittest.skipUnless(volumes.shared_is_there(), "no shared cases")
    def test_the_shared_ones_too(self):
        names = os.listdir(volumes.shared_path("cases", "facts"))
        self.assertEqual(sorted(names), sorted(name + ".md" for name in SHARED_FACTS))
        files = {}
        for name in names:
            with open(volumes.shared_path("cases", "facts", name), "rb") as file:
                files[name[:-3]] = file.read()
        before = self.serve(files)
        self.check(SHARED_FACTS)
        for part in ("part one", "part two"):
            self.assertIn("f_rules", self.search(f'"{part}"')[0])
        self.assertEqual(set(self.search("birch")[0]), {"f_good"})
        self.assertEqual(volumes.files_of(self.directory.volume), before)

    def test_a_fact_that_breaks_is_left_out_and_comes_back_when_it_is_mended(self):
        self.write_facts(f_a="Amber is old.", f_b="Beryl is green.")
        self.start()
        self.assertEqual(set(self.search("amber beryl")[0]), {"f_a", "f_b"})
        path = volumes.fact_path("u1", DEFAULT, "f_a")
        sound = self.read(path)
        self.directory.write(path, sound[:-1] + b"\xff\n")
        self.directory.write(volumes.manifest_path("u1"), manifest_bytes(8))
        found, state = self.search("amber beryl")
        self.assertIn(state["state"], IN_STEP)
        self.assertEqual((set(found), state["broken"]), ({"f_b"}, 1))
        self.assertEqual(self.listed()["broken"], [{"path": path, "problem": "not UTF-8", "kind": "broken"}])
        self.directory.write(path, sound)
        self.directory.write(volumes.manifest_path("u1"), manifest_bytes(9))
        found, state = self.search("amber beryl")
        self.assertEqual(set(found), {"f_a", "f_b"})
        self.assertNotIn("broken", state)


class DeadWriters(Served):
    @unittest.skipUnless(volumes.shared_is_there(), "no shared cases")
    def test_the_prepared_commit_is_taken_back_and_again_nothing_changes(self):
        self.directory.__exit__()
        self.directory = volumes.Directory(volumes.shared_path("cases", "journal_prepared"))
        untouched = volumes.fact_path("u1", DEFAULT, "fact_d")
        before = self.read(untouched)
        self.start()
        wanted = {"fact_a": "Old text of fact a.", "fact_c": "Fact c that was being deleted.",
                  "fact_d": "Fact d, never part of the operation."}
        after = None
        for _ in range(2):
            found, state = self.search("fact")
            self.assertEqual(found, wanted)
            self.assertEqual((state["state"], state["revision"]), ("fresh", 7))
            self.assertEqual({fact["id"]: fact["content"] for fact in self.listed()["facts"]}, wanted)
            self.assertEqual(self.running.rpc("get_summaries", user_id="u1")["summaries"]["revision"], 7)
            self.assertEqual(self.read(untouched), before)
            files = volumes.files_of(self.directory.volume)
            self.assertEqual(after or files, files)
            self.assertEqual([path for path in files if "journal" in path or ".recovery" in path], [])
            after = files
            self.running.restart()
            volumes.wait_quiet(self.running)


class Users(Served):
    USERS = (None, "default", "u1", "U1", "u2", "a/b", "a-b")

    def test_a_user_is_asked_for_by_name_or_not_at_all(self):
        for user in self.USERS:
            self.write_facts(user=user, f_same=f"The pearl of {user!r} lies here.")
        self.start()
        for user in self.USERS:
            with self.subTest(user):
                own = {"f_same": f"The pearl of {user!r} lies here."}
                self.assertEqual(self.search("pearl", user=user)[0], own)
                self.assertEqual([fact["content"] for fact in self.listed(user)["facts"]], list(own.values()))
                fact = self.running.rpc("get_fact", user_id=user, fact_id="f_same")["fact"]
                self.assertEqual(fact["content"], own["f_same"])
        for method, params in (("search", {"query": "pearl"}), ("list_facts", {}), ("get_memory", {}),
                               ("get_fact", {"fact_id": "f_same"}), ("get_summaries", {}), ("refresh", {}),
                               ("reload_memory", {}), ("verify", {})):
            for missing in ({}, {"user_id": ""}, {"user_id": 7}, {"user_id": ["u1"]}, {"user_id": "u\0"}):
                self.assertEqual(self.refused(method, **params, **missing).code, INVALID, (method, missing))

    def test_no_name_query_or_filter_leads_into_another_user(self):
        self.write_facts(user="u2", f_same="The pearl of somebody else.", f_theirs="Opal of somebody else.")
        self.write_facts(user="u1", f_same="The pearl of mine.")
        self.start()
        for user in ("../u2", "./u2", "u2/", "u2/agents", "..", "users/u2", "u1/../u2", "U2", "u2\n", " u2"):
            self.assertEqual(self.search("pearl", user=user)[0], {}, user)
            self.assertEqual(self.listed(user)["facts"], [], user)
        for name in ("../../u2/agents/__default__", "..", "a/b", "", "__default__/x", "a.b",
                     DEFAULT + "\0"):
            self.assertEqual(self.refused("list_facts", user_id="u1", agent_name=name).code, INVALID, name)
        for fact_id in ("../f_theirs", "f_theirs.md", "", "f_theirs\0", "../../../../../u2/memory"):
            self.assertEqual(self.refused("get_fact", user_id="u1", fact_id=fact_id).code, INVALID, fact_id)
        self.assertEqual(self.refused("get_fact", user_id="u1", fact_id="f_theirs").kind, "not_found")
        for scope in ({"user_id": "u2\0"}, {"user_id": "u1", "agent_name": DEFAULT + "\0x"}, {"user_id": ""}, {}):
            self.assertEqual(self.refused("search", query="pearl", scopes=[scope]).code, INVALID, scope)
        for params in ({"category": "context\0"}, {"freshness": "local\0"}):
            self.assertEqual(self.refused("search", query="pearl", user_id="u1", **params).code, INVALID, params)
        for query in ("opal", "opal OR pearl", "* OR opal", "somebody else", 'user:u2 opal', '"opal" NOT pearl',
                      "u2 opal*", "NEAR(opal somebody)", "scope:2 opal", "else"):
            self.assertLessEqual(set(self.search(query)[0].values()), {"The pearl of mine."}, query)
        theirs = {"scope": {"userId": "u2", "agentName": DEFAULT}}
        self.assertEqual(self.search("pearl", filters=theirs)[0], {})

    def test_facts_that_name_another_user_are_not_served(self):
        self.write_facts(f_mine="The pearl of mine.")
        stolen = volumes.fact_file({"id": "f_stolen", "content": "The pearl of u2."}, "u2", DEFAULT)
        self.directory.write(volumes.fact_path("u1", DEFAULT, "f_stolen"), stolen)
        self.start()
        self.assertEqual(self.search("pearl")[0], {"f_mine": "The pearl of mine."})
        self.assertEqual([one["path"] for one in self.listed()["broken"]],
                         [volumes.fact_path("u1", DEFAULT, "f_stolen")])


class EarlierLayout(Served):
    OLD = {"version": "1.0", "lastUpdated": "2025-05-02T07:00:00Z", "user": {}, "history": {},
           "facts": [{"id": "fact_old", "content": "The heron nests in May.", "category": "context",
                      "confidence": 0.9, "createdAt": "2025-05-01T07:00:00Z", "source": "chat-1"}]}

    def migrate(self, user):
        """What a peer does: the facts become files, the manifest one of the present kind."""
        self.directory.write(os.path.normpath(volumes.bucket_of(user) + "/memory.json.v1.bak"), json.dumps(self.OLD))
        volumes.write_scope(self.directory, user, DEFAULT,
                            [{"id": "fact_old", "content": "The heron nests in May."}], 1)

    def test_it_is_told_and_left_alone_and_found_once_a_peer_has_migrated_it(self):
        for user in (None, "old"):
            self.directory.write(volumes.manifest_path(user), json.dumps(self.OLD))
        self.write_facts(user="new", f_new="The heron has left.")
        before = volumes.files_of(self.directory.volume)
        self.start()
        known = volumes.all_scopes(self.running)
        for user, place in ((None, "."), ("old", "users/old")):
            self.assertTrue(known[user, DEFAULT]["unmigrated"])
            told = [line for line in self.running.rpc("status")["problems"] if line.startswith(place + " ")]
            self.assertEqual(len(told), 1)
            self.assertIn("old format, needs migration (a write, 'memsync migrate', or a peer)", told[0])
            found, state = self.search("heron", user=user)
            self.assertEqual((found, state["unmigrated"]), ({}, True))
            self.assertEqual([fact["id"] for fact in self.listed(user)["facts"]], ["fact_old"])
        self.assertEqual(self.running.rpc("status")["index"]["unmigrated"], 2)
        self.assertEqual(set(self.search("heron", user="new")[0]), {"f_new"})
        self.assertEqual(volumes.files_of(self.directory.volume), before)

        for user in (None, "old"):
            self.migrate(user)
            found, state = self.search("heron", user=user)
            self.assertIn(state["state"], IN_STEP)
            self.assertEqual(set(found), {"fact_old"})
            self.assertNotIn("unmigrated", state)
        volumes.wait_quiet(self.running)
        self.assertEqual(self.running.rpc("status")["problems"], [])

    def test_an_agents_own_old_file_without_a_manifest_is_shown_and_never_stale(self):
        self.directory.write("users/old/agents/scout/memory.json", json.dumps(self.OLD))
        self.start()
        self.assertTrue(volumes.all_scopes(self.running)["old", "scout"]["unmigrated"])
        for _ in range(5):
            listed = self.running.rpc("list_facts", user_id="old", agent_name="scout")
            self.assertEqual([fact["id"] for fact in listed["facts"]], ["fact_old"])
            self.assertEqual((listed["scope"]["state"], listed["scope"]["unmigrated"]), ("refreshed", True))

    def test_facts_of_the_default_agents_earlier_place_are_told(self):
        path = volumes.fact_path("old", "lead-agent", "fact_old")
        self.directory.write(path, volumes.fact_file({"id": "fact_old", "content": "Old place."}, "old", "lead-agent"))
        self.directory.write(volumes.manifest_path("old"), volumes.manifest_text(3))
        self.start()
        self.assertTrue(volumes.all_scopes(self.running)["old", DEFAULT]["unmigrated"])
        self.assertEqual([fact["id"] for fact in self.listed("old")["facts"]], ["fact_old"])


class WithoutManifest(Served):
    def test_facts_are_served_and_every_change_is_seen(self):
        for number in range(4):
            fact = {"id": f"f_{number}", "content": f"Walrus number {number}."}
            self.directory.write(volumes.fact_path("u1", DEFAULT, fact["id"]), volumes.fact_file(fact, "u1", DEFAULT))
            if not self.running:
                self.start()
            found, state = self.search("walrus")
            self.assertEqual((len(found), state["state"], state["revision"]), (number + 1, "refreshed", 0))
        os.remove(os.path.join(self.directory.volume, volumes.fact_path("u1", DEFAULT, "f_2")))
        self.assertEqual(sorted(self.search("walrus")[0]), ["f_0", "f_1", "f_3"])

    def test_the_numbers_of_a_refresh_are_those_of_the_run_that_was_asked_for(self):
        self.write_facts(f_a="Walrus.", f_b="Narwhal.")
        self.start()
        for _ in range(50):
            done = self.running.rpc("refresh", user_id="u1", full=True)
            self.assertEqual((done["facts"], done["broken"], done["read"]), (2, 0, 2))


class Words(Served):
    FACTS = {
        "w1": "Batch tag fern-grey-17 stays locked until Monday",
        "w2": "The night porter won't open the east gate",
        "w3": "仓库钥匙放在前台抽屉",
        "w4": "周五重启redis后连接数恢复正常",
        "w5": "Le café de l'église est fermé; lire le compte-rendu",
        "w6": "Mix 5:2 (OR not 3:2) for the mortar",
        "w7": "C++ tests use -O1 and bar*baz patterns",
        "w8": "setting cache.ttl.max is 90",
        "w9": "weekly import of 2026-03-09 failed",
    }
    # query: what must be found; the others may not be among the facts of the second set
    QUERIES = (
        ("won't open", {"w2"}, set()), ("won't", {"w2"}, set()), ('"mortar', {"w6"}, set()),
        ("bar*baz", {"w7"}, set()), ("it's won't", {"w2"}, set()),
        ("fern-grey-17", {"w1"}, {"w9"}), ("2026-03-09", {"w9"}, {"w1"}), ("tag: fern", {"w1"}, set()),
        ("setting: locked", {"w1", "w8"}, set()), ("cache.ttl.max", {"w8"}, {"w1"}), ("5:2", {"w6"}, set()),
        ("-O1", {"w7"}, set()), ("C++", {"w7"}, set()), ("not fern -locked", {"w1"}, set()),
        ("钥匙", {"w3"}, {"w4"}), ("库钥匙", {"w3"}, {"w4"}), ("钥匙放在前台", {"w3"}, {"w4"}),
        ("匙钥", set(), {"w3", "w4"}),
        ("redis", {"w4"}, {"w3"}), ("重启", {"w4"}, {"w3"}), ("连接", {"w4"}, {"w3"}),
        ("café", {"w5"}, set()), ("cafe", {"w5"}, set()), ("CAFE\u0301", {"w5"}, set()),
        ("église", {"w5"}, set()), ("EGLISE", {"w5"}, set()), ("compte rendu", {"w5"}, set()),
    )
    NOTHING = ("", " ", "\t\n", "(", ")", "*", '"', '""', "'", "-", "--", ":", ".", "()", "?!", "^", "…", "。，", "\0")

    def test_words_are_matched_as_text_whatever_stands_around_them(self):
        self.write_facts(**self.FACTS)
        self.start()
        for query, wanted, unwanted in self.QUERIES:
            with self.subTest(query):
                found = set(self.search(query)[0])
                self.assertLessEqual(wanted, found)
                self.assertEqual(unwanted & found, set())

    def test_without_a_word_nothing_is_found_and_it_is_no_error(self):
        self.write_facts(**self.FACTS)
        self.start()
        for query in self.NOTHING:
            with self.subTest(query):
                found = self.running.rpc("search", query=query, user_id="u1")
                self.assertEqual((found["results"], found["count"], found["strategy"]), ([], 0, "empty"))


if __name__ == "__main__":
    unittest.main()
