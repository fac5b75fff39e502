#!/usr/bin/python3
"""Asks the real agent the shared questions: what the peers find, and what must be found whatever they do."""

import unittest

import agent
import volumes
from agent import RpcError

INVALID = -32602
WIDE = 40  # results enough to see everything that matches well

# Where a word cutter makes the peers find more; docs/conformance.md says why we do not follow.
TORN = "the cutter tears words at accented letters, so that a lone c or e matches"
LONE = "one shared character out of a longer run makes no hit"
NOT_FOUND = {
    "C++": {"s29": TORN}, "C#": {"s29": TORN}, "c": {"s29": TORN},
    "josé": {"s29": TORN, "s30": TORN}, "café": {"s28": TORN, "s30": TORN},
    "straße": {"s28": TORN, "s29": TORN},
    "用户喜欢在晚上跑步": {"s36": LONE, "s43": LONE},
    "用户喜欢在晚上跑步。": {"s36": LONE, "s43": LONE},
    "用户在哪里工作？": {"s36": LONE, "s43": LONE},
}

# Queries of words that nearly every fact has: our statistics rank them in another order.
OTHER_ORDER = ("the", "NOT beta")


def text_of(query):
    if "query" in query:
        return query["query"]
    repeat = query["query_repeat"]
    return repeat["unit"] * repeat["times"] + repeat.get("then", "")


def ids_of(found):
    return [hit["fact"]["id"] for hit in found["results"]]


class WithAgent(unittest.TestCase):
    """One agent on a volume of facts, for all tests of a class."""

    @classmethod
    def setUpClass(cls):
        cls.directory = volumes.Directory()
        cls.addClassCleanup(cls.directory.__exit__)
        cls.fill()
        cls.running = agent.Agent(agent.binary("memsyncd"), cls.directory.volume)
        cls.addClassCleanup(cls.running.close)
        cls.running.start()

    @classmethod
    def fill(cls):
        raise NotImplementedError


@unittest.skipUnless(volumes.shared_is_there(), "no shared questions")
class PeersQuestions(WithAgent):
    """volumes/search.json: the corpus of one user beside another's."""

    @classmethod
    def fill(cls):
        cls.corpus = volumes.shared_json("volumes", "search.json")
        volumes.write_scope(cls.directory, "uma", "desk", cls.corpus["facts"])
        volumes.write_scope(cls.directory, "other", "desk", cls.corpus["other_facts"])

    def ask(self, query, **params):
        return self.running.rpc("search", query=query, user_id="uma", agent_name="desk", **params)

    def queries(self, with_options=False):
        return [query for query in self.corpus["queries"] if ("options" in query) == with_options]

    def test_the_corpus_is_served_as_it_was_written(self):
        for user, facts in (("uma", "facts"), ("other", "other_facts")):
            listed = self.running.rpc("list_facts", user_id=user, agent_name="desk")
            self.assertEqual(listed["broken"], [])
            self.assertEqual({fact["id"]: fact["content"] for fact in listed["facts"]},
                             {fact["id"]: fact["content"].strip() for fact in self.corpus[facts]})

    def test_what_the_peers_find_is_found(self):
        results = 0
        for query in self.queries():
            text = text_of(query)
            ours = ids_of(self.ask(text, top_k=WIDE))
            for variant in ("plain", "jieba"):
                excused = NOT_FOUND.get(text, {}) if variant == "jieba" else {}
                wanted = [result[0] for result in query[variant]["results"]]
                results += len(wanted)
                missing = [one for one in wanted if one not in ours and one not in excused]
                self.assertEqual(missing, [], f"{variant} {text!r}: {ours}")
        self.assertGreater(results, 300)

    def test_excuses_are_needed(self):
        """A difference that has gone must go from the list as well."""
        for text, excused in NOT_FOUND.items():
            ours = ids_of(self.ask(text, top_k=WIDE))
            self.assertEqual([one for one in excused if one in ours], [], text)

    def test_within_as_many_results_as_the_peers_the_best_is_among_ours(self):
        for query in self.queries():
            text = text_of(query)
            ours = ids_of(self.ask(text))
            theirs = [result[0] for result in query["plain"]["results"]]
            if theirs and text not in OTHER_ORDER:
                self.assertIn(theirs[0], ours, text)
            if len(theirs) < 5:
                self.assertLessEqual(set(theirs), set(ours), text)

    def test_where_the_peers_fall_back_to_substrings_the_same_facts_are_found(self):
        asked = 0
        for query in self.queries():
            found = self.ask(text_of(query), top_k=WIDE)
            if "substring" not in query or found["strategy"] == "empty":
                continue
            asked += 1
            self.assertLessEqual(set(query["substring"]), set(ids_of(found)), text_of(query))
        self.assertGreater(asked, 10)
        found = self.ask("peanut")
        self.assertEqual([(hit["fact"]["id"], hit["matchType"]) for hit in found["results"]], [("s23", "substring")])

    def test_queries_without_a_word_find_nothing_and_are_no_error(self):
        asked = 0
        for query in self.queries():
            found = self.ask(text_of(query))
            nothing = query["strategy"] == "empty" or not any(c.isalnum() or ord(c) > 0x2600 for c in text_of(query))
            nothing = nothing or text_of(query) == "。，"
            self.assertEqual(found["strategy"] == "empty", nothing, text_of(query))
            if nothing:
                asked += 1
                self.assertEqual((found["results"], found["count"]), ([], 0))
        self.assertGreater(asked, 10)

    def test_no_query_is_an_error_and_every_hit_is_of_the_scope(self):
        mine = {fact["id"]: fact["content"].strip() for fact in self.corpus["facts"]}
        for query in self.corpus["queries"]:
            found = self.ask(text_of(query), top_k=1000)
            for hit in found["results"]:
                self.assertEqual(hit["fact"]["content"], mine[hit["fact"]["id"]])
                self.assertEqual(hit["fact"]["scope"], {"userId": "uma", "agentName": "desk"})
            scores = [hit["score"] for hit in found["results"]]
            self.assertEqual(scores, sorted(scores, reverse=True))
            self.assertEqual(found["scopes"], [{"user_id": "uma", "agent_name": "desk", "revision": 1,
                                                "state": "fresh"}])

    # -- options --

    def test_category_and_filters_leave_what_the_peers_leave(self):
        asked = 0
        for query in self.queries(with_options=True):
            options = {key: value for key, value in query["options"].items() if key in ("category", "filters")}
            if not options or "error" in query["plain"]:
                continue
            asked += 1
            ours = ids_of(self.ask(query["query"], top_k=WIDE, **options))
            self.assertEqual(set(ours), {result[0] for result in query["plain"]["results"]}, options)
        self.assertGreaterEqual(asked, 4)

    def test_a_filter_that_no_document_has_finds_nothing(self):
        """The peers refuse a category that is no text; to us it is a value that no fact has."""
        self.assertEqual(ids_of(self.ask("deployment", filters={"category": 5})), [])
        for wrong in ({"filters": "status"}, {"category": 5}, {"top_k": "3"}, {"scopes": {}}):
            with self.assertRaises(RpcError) as caught:
                self.ask("deployment", **wrong)
            self.assertEqual(caught.exception.code, INVALID, wrong)

    def test_top_k_is_kept_and_its_ends_are_told(self):
        every = ids_of(self.ask("the", top_k=1000))
        self.assertGreater(len(every), 10)
        for top_k in (1, 3, 10):
            self.assertEqual(ids_of(self.ask("the", top_k=top_k)), every[:top_k])
        self.assertEqual(ids_of(self.ask("the")), every[:5])
        for top_k in (0, -1, -2**63):
            self.assertEqual((self.ask("deployment", top_k=top_k)["results"]), [])
        found = self.ask("the", top_k=2**63 - 1)
        self.assertEqual((ids_of(found), found["top_k"], found["clamped"]), (every, 1000, True))

    def test_several_scopes_are_searched_together_and_none_is_refused(self):
        scopes = [{"user_id": "uma", "agent_name": "desk"}, {"user_id": "other", "agent_name": "desk"}]
        found = self.running.rpc("search", query="deployment", scopes=scopes, top_k=1000)
        apart = [self.running.rpc("search", query="deployment", top_k=1000, **scope) for scope in scopes]
        self.assertEqual(sorted((hit["score"], hit["fact"]["content"]) for hit in found["results"]),
                         sorted((hit["score"], hit["fact"]["content"]) for one in apart for hit in one["results"]))
        self.assertEqual([scope["user_id"] for scope in found["scopes"]], ["uma", "other"])
        for query in self.queries(with_options=True):
            if query["options"].get("scopes") == "both":
                wanted = {tuple((one[0] + "@uma").split("@")[:2]) for one in query["plain"]["results"]}
                both = self.running.rpc("search", query=query["query"], scopes=scopes, top_k=100)["results"]
                ours = {(hit["fact"]["id"], hit["fact"]["scope"]["userId"]) for hit in both}
                self.assertLessEqual(wanted, ours, query["query"])
        with self.assertRaises(RpcError) as caught:
            self.running.rpc("search", query="deployment", scopes=[])
        self.assertEqual(caught.exception.code, INVALID)

    def test_another_users_facts_change_neither_results_nor_scores(self):
        with volumes.Directory() as alone:
            volumes.write_scope(alone, "uma", "desk", self.corpus["facts"])
            with agent.Agent(agent.binary("memsyncd"), alone.volume) as other:
                for query in self.corpus["queries"]:
                    params = {"query": text_of(query), "user_id": "uma", "agent_name": "desk", "top_k": WIDE}
                    self.assertEqual(other.rpc("search", **params)["results"],
                                     self.running.rpc("search", **params)["results"], text_of(query))

    def test_the_other_user_finds_only_his_own(self):
        theirs = {fact["id"]: fact["content"].strip() for fact in self.corpus["other_facts"]}
        hits = 0
        for query in self.corpus["queries"]:
            for hit in self.running.rpc("search", query=text_of(query), user_id="other", agent_name="desk",
                                        top_k=1000)["results"]:
                hits += 1
                self.assertEqual(hit["fact"]["content"], theirs[hit["fact"]["id"]])
        self.assertGreater(hits, 100)


@unittest.skipUnless(volumes.shared_is_there(), "no shared questions")
class MustBeFound(WithAgent):
    """cases/queries.json: queries that real users had no answer to."""

    @classmethod
    def fill(cls):
        cls.cases = volumes.shared_json("cases", "queries.json")
        volumes.write_scope(cls.directory, "u1", "__default__", cls.cases["facts"])

    def test_each_query_finds_what_it_must_and_not_what_it_must_not(self):
        for case in self.cases["queries"]:
            with self.subTest(query=case["q"], why=case.get("why")):
                ours = ids_of(self.running.rpc("search", query=case["q"], user_id="u1", top_k=20))
                self.assertEqual([one for one in case.get("must", []) if one not in ours], [], ours)
                self.assertEqual([one for one in case.get("must_not", []) if one in ours], [], ours)
                if case.get("empty"):
                    self.assertEqual(ours, [])
        self.assertGreater(len(self.cases["queries"]), 30)


if __name__ == "__main__":
    unittest.main()
