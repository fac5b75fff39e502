#!/usr/bin/python3
"""Runs the real `memsync` against a scripted agent (tests/support/scripted_agent.py).

The command is $MEMSYNC_BUILD/memsync (build/plain when that is not set).
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

from scripted_agent import DEADLINE_S, MEMSYNC, Case, Refusal

FRESH = {"user_id": "u1", "agent_name": "__default__", "revision": 7, "state": "fresh"}
TEA = {
    "id": "fact_tea", "content": "Likes green tea", "category": "preference", "confidence": 0.9,
    "createdAt": "2026-02-10T09:30:00Z", "title": "Likes green tea",
}


def found(*facts, scopes=(FRESH,)):
    results = [{"fact": fact, "score": 3.25, "matchType": "fts5", "retrieval": {"bm25": 3.1}}
               for fact in facts]
    return {"results": results, "count": len(results), "top_k": 5, "strategy": "words",
            "scopes": list(scopes), "took_us": 84}


NOTHING = {"user_id": "nobody", "agent_name": "__default__", "revision": 0, "state": "fresh"}
STATUS = {
    "version": "0.1.0", "protocol": 1, "pid": 42, "uptime_s": 90061, "backend": "deermem",
    "ipc": {"requests": 10, "errors": 1, "timeouts": 0, "busy": 0, "clients": 3, "waiting": 0,
            "threads_busy": 1, "oldest_running_ms": 7},
    "volume": {"path": "/srv/" + "long/" * 30, "filesystem": "nfs4", "kind": "nfs",
               "writable": True, "suspended": False},
    "index": {"scopes": 53, "facts": 2000, "broken": 4, "file_bytes": 3 << 20, "wal_bytes": 1 << 20,
              "damaged": False},
    "sync": {"buckets": 40, "compared": 40, "waiting": 2, "running": 1, "oldest_running_ms": 5,
             "searches": 100, "compares": 135, "compare_errors": 0, "refreshes": 53,
             "refreshes_failed": 0, "files_read": 2000, "fresh": 90, "refreshed": 5, "stale": 4,
             "unverified": 1},
    "watch": {"watched": 42, "wanted": 42, "polled": 40},
    "problems": [],
}
BUILD = {"phase": "building", "percent": 43, "scopes_done": 430, "scopes_total": 1000,
         "scopes_failed": 2, "facts": 43000, "facts_built": 43000, "facts_per_second": 18000,
         "elapsed_ms": 2400, "remaining_ms": 12400}


class Search(Case):
    def test_prints_a_line_with_tabs_for_each_result(self):
        self.agent.answers["search"] = found(TEA, TEA | {"id": "f2", "content": "a\tb\nc"})
        out, err = self.expect(0, "-u", "u1", "search", "tea")
        self.assertEqual(out, "3.250\tfact_tea\tpreference\t2026-02-10\tLikes green tea\n"
                              "3.250\tf2\tpreference\t2026-02-10\ta\\tb\\nc\n")
        self.assertEqual(err, "")

    def test_sends_what_the_options_say(self):
        self.agent.answers["search"] = found(TEA)
        self.expect(0, "search", "-u", "u/1", "-a", "Lead", "-k", "7", "-c", "goal", "--freshness",
                    "bounded", "--max-staleness", "250", "green", "tea", "--timeout", "1000")
        self.assertEqual(self.last_params(), {
            "user_id": "u/1", "agent_name": "Lead", "top_k": 7, "category": "goal",
            "freshness": "bounded", "max_staleness_ms": 250, "query": "green tea",
            "timeout_ms": 900})

    def test_words_after_two_dashes_are_no_options(self):
        self.agent.answers["search"] = found(TEA)
        self.expect(0, "-u", "u1", "search", "--", "-k", "tea")
        self.assertEqual(self.last_params()["query"], "-k tea")

    def test_takes_user_and_agent_from_the_environment(self):
        self.agent.answers["search"] = found(TEA)
        self.expect(0, "search", "tea", MEMSYNC_USER="u9", MEMSYNC_AGENT="coder")
        self.assertEqual(self.last_params()["user_id"], "u9")
        self.assertEqual(self.last_params()["agent_name"], "coder")
        self.expect(0, "search", "tea", "--no-user", MEMSYNC_USER="u9")
        self.assertIsNone(self.last_params()["user_id"])
        self.assertIsNone(self.last_params()["agent_name"])

    def test_without_a_user_it_says_what_to_give_and_asks_nothing(self):
        _, err = self.expect(2, "search", "tea")
        for wanted in ("-u USER", "MEMSYNC_USER", "--no-user"):
            self.assertIn(wanted, err)
        self.assertEqual(self.agent.requests, [])

    def test_no_result_is_exit_code_1(self):
        self.agent.answers["search"] = found()
        self.assertEqual(self.expect(1, "-u", "u1", "search", "x"), ("", ""))

    def test_json_is_the_answer_as_it_came(self):
        text = '{"results": [ {"fact":{"id":"a","n":123456789012345678901234567890,' \
               '"s":"\\ud800"},"score":0.90}], "count":1}'
        self.agent.answers["search"] = text
        out, _ = self.expect(0, "-u", "u1", "--json", "search", "x")
        self.assertEqual(out, text + "\n")

    def test_an_answer_that_may_be_outdated_gets_one_line(self):
        self.agent.answers["search"] = found(TEA, scopes=(
            FRESH,
            FRESH | {"agent_name": "coder", "state": "stale", "age_ms": 12340, "reason": "busy"},
            FRESH | {"user_id": None, "state": "unverified", "reason": "volume\x1b[31m away"}))
        for option in ("--json", "--timeout=1000"):
            out, err = self.expect(0, "-u", "u1", "search", "x", option)
            self.assertTrue(out)
            self.assertEqual(err, "memsync search: u1/coder is stale, last compared 12.3 s ago "
                                  "(busy); (no user)/__default__ is unverified "
                                  "(volume\\x1b[31m away)\n")

    def test_a_refreshed_answer_needs_no_remark(self):
        self.agent.answers["search"] = found(TEA, scopes=(FRESH | {"state": "refreshed"},))
        _, err = self.expect(0, "-u", "u1", "search", "x")
        self.assertEqual(err, "")

    def test_broken_files_are_remarked_on_with_a_command_that_names_them(self):
        self.agent.answers["search"] = found(TEA, scopes=(FRESH | {"broken": 2},))
        _, err = self.expect(0, "-u", "it's $x", "-a", "coder", "search", "x")
        self.assertEqual(err, "memsync search: u1/__default__ has files that cannot be read "
                              "(`memsync -u 'it'\\''s $x' -a coder list` names them)\n")
        _, err = self.expect(0, "search", "x", MEMSYNC_USER="u1")
        self.assertIn("`memsync -u u1 list`", err)
        _, err = self.expect(0, "--no-user", "-e", self.agent.endpoint, "search", "x")
        self.assertIn(f"`memsync -e {self.agent.endpoint} --no-user list`", err)

    def test_a_remark_names_the_file(self):
        for reason, shown in (("line 1: half", "users/u1/memory.json: line 1: half"),
                              ("users/u1/memory.json is half", "users/u1/memory.json is half"),
                              (None, "users/u1/memory.json")):
            scope = FRESH | {"state": "unverified", "path": "users/u1/memory.json"}
            if reason:
                scope["reason"] = reason
            self.agent.answers["search"] = found(TEA, scopes=(scope,))
            _, err = self.expect(0, "-u", "u1", "search", "x")
            self.assertEqual(err, f"memsync search: u1/__default__ is unverified ({shown})\n")

    def test_the_staleness_that_was_asked_for_needs_no_remark(self):
        stale = FRESH | {"state": "stale", "age_ms": 400}
        for scope, arguments, is_told in (
                (stale, ("local",), False),
                (FRESH | {"state": "stale"}, ("local",), False),
                (stale, ("bounded",), False),
                (stale, ("bounded", "--max-staleness", "5000"), False),
                (stale, ("bounded", "--max-staleness", "400"), False),
                (stale, ("bounded", "--max-staleness", "399"), True),
                (stale | {"reason": "busy"}, ("bounded",), True),
                (FRESH | {"state": "stale"}, ("bounded",), True),
                (stale, ("strict",), True),
                (FRESH | {"state": "unverified"}, ("local",), True)):
            self.agent.answers["search"] = found(TEA, scopes=(scope,))
            _, err = self.expect(0, "-u", "u1", "search", "x", "--freshness", *arguments)
            self.assertEqual("is stale" in err or "is unverified" in err, is_told, (arguments, err))
        self.agent.answers["search"] = found(TEA, scopes=(stale | {"broken": 1},))
        _, err = self.expect(0, "-u", "u1", "search", "x", "--freshness", "local")
        self.assertIn("__default__ has files", err)

    def test_a_lowered_limit_is_remarked_on(self):
        self.agent.answers["search"] = found(TEA) | {"top_k": 1000, "clamped": True}
        _, err = self.expect(0, "-u", "u1", "-k", "5000", "search", "x")
        self.assertIn("at most 1000", err)

    def test_text_that_is_not_utf8_is_refused(self):
        _, err = self.expect(2, "-u", "u1", "search", b"\xff")
        self.assertIn("UTF-8", err)


class Terminal(Case):
    ESCAPES = "a\x1b[2Jb\x07c\u009bd\u202ee\u2066f"

    def test_nothing_of_a_fact_is_a_control_sequence(self):
        self.agent.answers["search"] = found(TEA | {"content": self.ESCAPES, "id": "\x1b]0;x\x07"})
        self.agent.answers["get_fact"] = {"fact": TEA | {"content": self.ESCAPES, "\x1bk": "\x1bv"},
                                          "scope": FRESH}
        shown = "a\\x1b[2Jb\\x07c\\u009bd\\u202ee\\u2066f"
        for arguments in (("search", "x"), ("get", "x")):
            out, _ = self.expect(0, "-u", "u1", *arguments)
            self.assertIn(shown, out)
            on_terminal = self.run_on_terminal("-u", "u1", "--color", "never", *arguments,
                                               columns=200)
            self.assertIn(shown, on_terminal)
            for text in (out, on_terminal):
                self.assertNotRegex(text, "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\u2066]")

    def test_a_table_has_titles_and_keeps_to_the_width(self):
        self.agent.answers["search"] = found(TEA, TEA | {"content": "word " * 50},
                                             TEA | {"content": "お茶が好きです。" * 10})
        lines = self.run_on_terminal("-u", "u1", "--color", "never", "search", "x",
                                     columns=80).splitlines()
        self.assertRegex(lines[0], r"^SCORE  FACT +CATEGORY +CREATED +CONTENT$")
        self.assertTrue(lines[1].endswith("Likes green tea"))
        self.assertTrue(lines[2].endswith("…") and len(lines[2]) == 80, lines[2])
        columns = sum(2 if ord(c) > 0x2fff else 1 for c in lines[3])
        self.assertTrue(lines[3].endswith("…") and 79 <= columns <= 80, lines[3])
        self.assertEqual({line.index("preference") for line in lines[1:]},
                         {lines[0].index("CATEGORY")})

    def test_widths_count_without_a_utf8_locale_too(self):
        self.agent.answers["search"] = found(TEA | {"content": "茶" * 100})
        text = self.run_on_terminal("-u", "u1", "search", "x", "--color=never", LC_ALL="C")
        self.assertIn("茶…", text)

    def test_colour_is_for_terminals_that_want_it(self):
        self.agent.answers["search"] = found(TEA)
        search = ("-u", "u1", "search", "x")
        self.assertIn("\x1b[1m", self.run_on_terminal(*search))
        self.assertNotIn("\x1b", self.run_on_terminal(*search, NO_COLOR="1"))
        self.assertNotIn("\x1b", self.run_on_terminal(*search, TERM="dumb"))
        self.assertNotIn("\x1b", self.run_on_terminal(*search, "--color=never"))
        self.assertIn("\x1b", self.run_on_terminal(*search, "--color=always", NO_COLOR="1"))
        self.assertNotIn("\x1b", self.expect(0, *search)[0])

    def turns(self, output):
        """The lines of each drawing."""
        parts = re.sub(r"\x1b\[(K|\?[0-9]+[hl])", "", output).split("\x1b[H")[1:]
        return [part.split("\x1b[J")[0].split("\r\n") for part in parts]

    def test_status_is_redrawn_with_rates_until_interrupted(self):
        requests = iter(range(10, 1000, 90))
        self.agent.answers["status"] = lambda _: STATUS | {
            "ipc": STATUS["ipc"] | {"requests": next(requests)},
            "problems": [f"problem\x1b[2J {i} " + "x" * 200 for i in range(40)]}
        output, code = self.watch_on_terminal(2, "status", "--watch", "--interval", "0.2")
        self.assertEqual(code, 130)
        self.assertTrue(output.startswith("\x1b[?1049h"))
        self.assertTrue(output.endswith("\x1b[?25h\x1b[?1049l"), output[-40:])
        first, second = self.turns(output)[:2]
        for lines in (first, second):
            self.assertLessEqual(len(lines), 24)
            self.assertLessEqual(max(map(len, lines)), 80, lines)
            self.assertRegex(lines[-1], r"^\.\.\. \d+ more$")
        text = "\n".join(second)
        for wanted in ("up 1 d 01:01:01", "2000 facts in 53 scopes, 4 broken, 4.0 MiB", "nfs4, nfs",
                       "2 refreshes wait", "problem  problem\\x1b[2J 0"):
            self.assertIn(wanted, text)
        self.assertRegex("\n".join(first), r"(?m)^  requests +10 +-  errors")
        rate = float(re.search(r"(?m)^  requests +100 +([0-9.]+)/s", text)[1])
        self.assertTrue(0 < rate <= 450, rate)

    def test_a_build_is_shown_on_the_screen_until_and_after_its_end(self):
        builds = iter([BUILD] + [BUILD | {"phase": "done", "percent": 100, "scopes_done": 1000,
                                          "scopes_failed": 0, "facts": 100000}] * 100)
        self.agent.answers["status"] = lambda _: STATUS | {"build": next(builds)}
        output, code = self.watch_on_terminal(2, "status", "--watch", "--interval", "0.1")
        self.assertEqual(code, 130)
        first, second = self.turns(re.sub(r"\x1b\[(\d*m|0m)", "", output))[:2]
        self.assertIn("building 43 %, 430 of 1000 scopes (2 failed), 43000 facts, 18000 facts/s, ",
                      "\n".join(first))
        self.assertIn("build    100 %, 1000 of 1000 scopes, 100000 facts, 43000 of them built in ",
                      "\n".join(second))

    def test_a_restarted_agent_has_no_rate_yet(self):
        pids = iter(range(1, 100))
        self.agent.answers["status"] = lambda _: STATUS | {"pid": next(pids)}
        output, _ = self.watch_on_terminal(2, "status", "--watch", "--interval", "0.1")
        self.assertNotRegex("".join(self.turns(output)[1]), r"\d/s")
        self.assertIn("no problems", self.turns(output)[1])

    def test_an_agent_that_is_away_is_told_of_on_the_screen(self):
        output, code = self.watch_on_terminal(2, "status", "--watch", "--interval", "0.1", "-e",
                                              f"ipc://{self.directory}/none")
        self.assertEqual(code, 130)
        for lines in self.turns(output)[:2]:
            self.assertEqual(lines[1], "no answer")
            self.assertIn("no agent at", lines[2])
            self.assertLessEqual(max(map(len, lines)), 80, lines)
        output, code = self.watch_on_terminal(1, "status", "--watch", "-e", "http://x")
        self.assertEqual(code, 2)
        self.assertIn("unknown transport", output.split("\x1b[?1049l")[1])

    def test_tables_fit_forty_columns(self):
        self.agent.answers["search"] = found(TEA | {"content": "word " * 20,
                                                    "id": "fact_" + "0" * 30})
        self.agent.answers["scopes"] = {"scopes": [
            {"user_id": "somebody@example.com", "agent_name": "__default__", "state": "synced",
             "revision": 12, "facts": 345, "broken": 6, "unmigrated": True}], "count": 1}
        for columns in (20, 40, 60):
            for arguments in (("-u", "u1", "search", "x"), ("scopes",)):
                lines = self.run_on_terminal("--color=never", *arguments,
                                             columns=columns).splitlines()
                self.assertEqual(len(lines), 2)
                self.assertLessEqual(max(map(len, lines)), columns, lines)
        lines = self.run_on_terminal("--color=never", "scopes", columns=60).splitlines()
        self.assertRegex(lines[1], r" 12 +345 +6 ")

    def test_findings_and_help_are_wrapped(self):
        volume = os.path.join(self.directory, "v" * 50)
        os.mkdir(volume)
        for columns in (40, 80):
            lines = self.run_on_terminal("--color=never", "doctor", volume,
                                         columns=columns).splitlines()
            self.assertLessEqual(max(map(len, lines)), columns, lines)
            self.assertEqual([line for line in lines if line.endswith(" ")], [])
            self.assertIn("INDEX_DIR", "".join(lines))
        for columns, widest in ((40, 60), (70, 70), (200, 80)):
            for arguments in (("help",), ("help", "search"), ("help", "events")):
                lines = self.run_on_terminal(*arguments, columns=columns).splitlines()
                self.assertLessEqual(max(map(len, lines)), widest, lines)


class Reading(Case):
    def test_list_shows_facts_and_names_broken_files(self):
        self.agent.answers["list_facts"] = {
            "facts": [TEA, TEA | {"id": "b", "category": "other", "categoryExtension": "hobby"}],
            "count": 2, "scope": FRESH,
            "broken": [{"path": "users/u1/x.md", "problem": "no front matter", "kind": "broken"}]}
        out, err = self.expect(0, "-u", "u1", "list")
        self.assertEqual(out.splitlines()[1], "b\thobby\t2026-02-10\tLikes green tea")
        self.assertIn("cannot read users/u1/x.md: no front matter", err)
        self.agent.answers["list_facts"]["scope"] = FRESH | {"broken": 1}
        _, err = self.expect(0, "-u", "u1", "list")
        self.assertEqual(err.splitlines(), [
            "memsync list: u1/__default__ has files that cannot be read, named below",
            "memsync list: cannot read users/u1/x.md: no front matter"])

    def test_list_asks_for_a_part(self):
        self.agent.answers["list_facts"] = {"facts": [TEA], "count": 9, "scope": FRESH,
                                            "broken": []}
        self.expect(0, "-u", "u1", "list")
        self.assertFalse({"limit", "offset"} & set(self.last_params()))
        self.expect(0, "-u", "u1", "list", "--limit", "1", "--offset", "3")
        self.assertEqual((self.last_params()["limit"], self.last_params()["offset"]), (1, 3))

    def test_a_scope_without_anything_is_no_result(self):
        empty = {"revision": 0, "lastUpdated": "2026-02-01T00:00:00Z", "history": {},
                 "user": {"topOfMind": {"summary": "", "updatedAt": ""}}}
        checked = {"checked": 0, "missing": [], "extra": [], "different": [], "ok": True}
        for name, method, members in (
                ("memory", "get_memory", {"memory": empty | {"facts": []}}),
                ("summaries", "get_summaries", {"summaries": empty}),
                ("verify", "verify", checked)):
            self.agent.answers[method] = members | {"scope": NOTHING}
            out, err = self.expect(1, "-u", "nobody", name)
            self.assertEqual((out, err), ("", f"memsync {name}: there is no memory of "
                                              "nobody/__default__\n"))
            out, _ = self.expect(1, "-u", "nobody", name, "--json")
            self.assertEqual(json.loads(out)["scope"], NOTHING)
            for state in ({"broken": 1}, {"unmigrated": True}):
                self.agent.answers[method] = members | {"scope": NOTHING | state}
                _, err = self.run_cli("-u", "nobody", name)[1:]
                self.assertNotIn("no memory", err)

    def test_a_scope_with_a_revision_or_facts_is_a_result(self):
        checked = {"checked": 0, "missing": [], "extra": [], "different": [], "ok": True}
        self.agent.answers["verify"] = checked | {"scope": FRESH}
        self.expect(0, "-u", "u1", "verify")
        self.agent.answers["verify"] = checked | {"checked": 1, "scope": NOTHING}
        self.expect(0, "-u", "nobody", "verify")
        for memory in ({"revision": 3, "facts": []}, {"revision": 0, "facts": [TEA]}):
            self.agent.answers["get_memory"] = {"memory": memory, "scope": FRESH}
            self.expect(0, "-u", "u1", "memory")

    def test_get_shows_all_of_a_fact(self):
        self.agent.answers["get_fact"] = {"fact": TEA | {
            "content": "line one\nline two", "topics": ["a", "b"], "since": {"$date": "2026-01-01"},
            "big": 0, "nested": {"deep": {"x": 0.1}}}, "scope": FRESH}
        out, _ = self.expect(0, "-u", "u1", "get", "fact_tea")
        self.assertEqual(self.last_params()["fact_id"], "fact_tea")
        self.assertTrue(out.endswith("\nline one\nline two\n"))
        self.assertRegex(out, r"(?m)^topics +a, b$")
        self.assertRegex(out, r"(?m)^since +2026-01-01$")
        self.assertRegex(out, r"(?m)^confidence +0\.9$")
        self.assertRegex(out, r"(?m)^nested\n  deep\n    x  0\.1$")

    def test_numbers_and_surrogates_beyond_a_tree_are_shown(self):
        self.agent.answers["get_fact"] = \
            '{"fact":{"id":"a","big":-123456789012345678901234567890,"huge":1e999,' \
            '"s":"x\\ud800y\\ud83d\\ude00","nul\\u0000name" :"nul\\u0000value","list":[12345678901234567890],' \
            '"content":"c"}}'
        out, _ = self.expect(0, "-u", "u1", "get", "a")
        self.assertRegex(out, r"(?m)^big +-123456789012345678901234567890$")
        self.assertRegex(out, r"(?m)^huge +1e999$")
        self.assertRegex(out, "(?m)^s +x\ufffdy\U0001f600$")
        self.assertRegex(out, r"(?m)^list +12345678901234567890$")
        self.assertRegex(out, "(?m)^nul\ufffdname +nul\\\\x00value$")

    def test_export_keeps_every_spelling(self):
        self.agent.answers["export_memory"] = \
            ' {"scope":{"memory":1}, "memory": {"a" :0.90,"b":[1,{"c":"x\\u00e9, \\"{}"}],"d":{},' \
            '"e":[ ],"f":123456789012345678901234567890,"g":"\\ud800"} }'
        out, _ = self.expect(0, "-u", "u1", "export")
        self.assertEqual(out, '{\n  "a": 0.90,\n  "b": [\n    1,\n    {\n'
                              '      "c": "x\\u00e9, \\"{}"\n    }\n  ],\n  "d": {},\n  "e": [],\n'
                              '  "f": 123456789012345678901234567890,\n  "g": "\\ud800"\n}\n')

    def test_summaries_that_are_empty_are_left_out(self):
        def entry(text):
            return {"summary": text, "updatedAt": "2026-02-01T00:00:00Z" if text else ""}
        summaries = {"user": {"workContext": entry("Runs a team."), "topOfMind": entry("")},
                     "history": {"recentMonths": entry("Rested.\nThen worked.")}}
        self.agent.answers["get_summaries"] = {"summaries": summaries, "scope": FRESH}
        out, _ = self.expect(0, "-u", "u1", "summaries")
        self.assertEqual(out, "user.workContext  2026-02-01T00:00:00Z\nRuns a team.\n\n"
                              "history.recentMonths  2026-02-01T00:00:00Z\n"
                              "Rested.\nThen worked.\n\n")
        self.agent.answers["get_memory"] = {"memory": summaries | {"revision": 7, "facts": [TEA]},
                                            "scope": FRESH}
        out, _ = self.expect(0, "-u", "u1", "memory")
        self.assertIn("revision 7", out)
        self.assertIn("Runs a team.", out)
        self.assertIn("fact_tea\tpreference", out)
        self.agent.answers["get_summaries"] = {"summaries": {"user": {}}, "scope": FRESH}
        self.expect(1, "-u", "u1", "summaries")

    def test_summaries_that_are_text_alone_are_shown(self):
        self.agent.answers["get_summaries"] = {"summaries": {"user": {"workContext": "Runs a team.", "topOfMind": ""},
                                                             "history": {"odd": 7}}, "scope": FRESH}
        out, _ = self.expect(0, "-u", "u1", "summaries")
        self.assertEqual(out, "user.workContext  \nRuns a team.\n\n")

    def test_context_is_printed_as_it_is(self):
        self.agent.answers["get_context"] = {"text": "Facts:\n- likes tea"}
        self.assertEqual(self.expect(0, "-u", "u1", "context")[0], "Facts:\n- likes tea\n")
        self.agent.answers["get_context"] = {"text": ""}
        self.expect(1, "-u", "u1", "context")


class Operating(Case):
    def test_ping_tells_who_is_there(self):
        self.agent.answers["ping"] = {"protocol": 1, "name": "memsyncd", "version": "0.1.0",
                                      "backend": "deermem", "events": None, "pid": 42}
        out, _ = self.expect(0, "ping")
        self.assertRegex(out, r"^memsyncd 0\.1\.0 \(protocol 1, backend deermem, pid 42\) "
                              r"answered in")
        self.agent.answers["ping"]["protocol"] = 2
        _, err = self.expect(4, "ping")
        self.assertIn("protocol 2", err)

    def test_status_puts_problems_last(self):
        self.agent.answers["status"] = {
            "problems": ["the volume is away"], "version": "0.1.0", "uptime_s": 5,
            "volume": {"path": "/srv", "kind": "nfs"}, "sync": {"lag": [{"user_id": "u1"}]}}
        out, _ = self.expect(0, "status")
        self.assertTrue(out.endswith("problem  the volume is away\n"))
        self.assertRegex(out, r"(?m)^volume\n  path  /srv\n  kind  nfs$")

    def test_status_tells_how_far_a_build_is_while_it_runs(self):
        for change, wanted in (
                ({}, "building  43 %, 430 of 1000 scopes (2 failed), 43000 facts, 18000 facts/s, "
                     "12 s left"),
                ({"remaining_ms": 200000}, "3 min 20 s left"), ({"remaining_ms": 1240}, "1.2 s left"),
                ({"remaining_ms": 7260000}, "2 h 01 min left"),
                ({"remaining_ms": None}, "18000 facts/s, time left unknown"),
                ({"phase": "waiting"}, "building  not begun")):
            with self.subTest(change=change):
                self.agent.answers["status"] = {"build": BUILD | change, "problems": []}
                lines = self.expect(0, "status")[0].splitlines()
                self.assertEqual(lines[-1], "no problems")
                self.assertTrue(lines[-2].startswith("building  "), lines)
                self.assertTrue(lines[-2].endswith(wanted), lines[-2])
        self.agent.answers["status"] = {"build": BUILD | {"phase": "done"}, "problems": []}
        self.assertNotIn("building", self.expect(0, "status")[0])

    def test_a_build_is_in_the_lines_of_a_watch(self):
        self.agent.answers["status"] = STATUS | {"build": BUILD}
        process = self.start("status", "--watch", "--interval", "0.1")
        line = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=DEADLINE_S)
        self.assertEqual(process.returncode, 130)
        self.assertIn(" build.percent=43 build.facts_per_second=18000 build.remaining_ms=12400 ", line)

    def test_status_watch_without_a_terminal_prints_reports(self):
        self.agent.answers["status"] = {"version": "0.1.0", "problems": []}
        process = self.start("status", "--watch", "--json")
        for _ in range(2):
            self.assertEqual(json.loads(process.stdout.readline())["version"], "0.1.0")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=DEADLINE_S)
        self.assertEqual((process.returncode, err), (130, ""))

    def test_status_watch_without_a_terminal_prints_a_line_a_turn(self):
        searches = iter(range(100, 10000, 50))
        self.agent.answers["status"] = lambda _: STATUS | {
            "sync": STATUS["sync"] | {"searches": next(searches)}, "problems": ["a", "b"]}
        process = self.start("status", "--watch", "--interval", "0.1")
        first, second = process.stdout.readline(), process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=DEADLINE_S)
        self.assertEqual((process.returncode, err), (130, ""))
        self.assertRegex(first, r"^[-0-9]+ [:0-9]+ uptime=90061 index\.facts=2000 .* problems=2\n$")
        self.assertNotIn("_s=", first)
        self.assertRegex(second, r" sync\.searches=150 sync\.searches_s=[1-9][0-9.]* ")

    def test_an_interval_is_for_watching(self):
        self.assertIn("--watch", self.expect(2, "status", "--interval", "2")[1])
        for value in ("0", "-1", "nan", "inf", "1x", "", "3601"):
            self.assertIn("3600", self.expect(2, "status", "--watch", "--interval", value)[1])

    def test_scopes_are_fetched_page_by_page(self):
        rows = [{"user_id": f"u{i}", "agent_name": "a", "state": "synced", "revision": i,
                 "facts": 2, "broken": 0} for i in range(1500)]
        rows[3] |= {"user_id": None, "unmigrated": True}
        self.agent.answers["scopes"] = lambda params: {
            "scopes": rows[params["offset"]:params["offset"] + params["limit"]], "count": len(rows)}
        out, _ = self.expect(0, "scopes", MEMSYNC_USER="u9")
        lines = out.splitlines()
        self.assertEqual(len(lines), 1500)
        self.assertEqual(lines[3], "\ta\tsynced\t3\t2\t0\told format")
        self.assertEqual(lines[1499], "u1499\ta\tsynced\t1499\t2\t0\t")
        self.assertNotIn("user_id", self.last_params())
        self.agent.answers["scopes"] = {"scopes": [], "count": 0}
        self.expect(1, "scopes", "-u", "u1")
        self.assertEqual(self.last_params()["user_id"], "u1")

    def test_refresh_says_what_it_did(self):
        self.agent.answers["refresh"] = {"scope": FRESH | {"state": "refreshed"}, "facts": 120,
                                         "broken": 1, "read": 3, "took_us": 4200}
        out, _ = self.expect(0, "-u", "u1", "refresh", "--full")
        self.assertEqual(out, "u1/__default__: refreshed, revision 7, 120 facts (3 read, 1 broken) "
                              "in 4.2 ms\n")
        self.assertIs(self.last_params()["full"], True)
        self.agent.answers["refresh"] = {"requested": True, "accepted": False}
        out, _ = self.expect(0, "refresh", "--all", MEMSYNC_USER="u9")
        self.assertEqual(out, "every scope will be looked at again\n")
        self.agent.answers["refresh"] = {"requested": True, "accepted": True}
        out, _ = self.expect(0, "refresh", "--all", "--accept-volume")
        self.assertRegex(out, "^the volume .* right one; every scope will be looked at again$")
        self.assertEqual({name: self.last_params().get(name) for name in
                          ("all", "accept_volume", "user_id")},
                         {"all": True, "accept_volume": True, "user_id": None})
        self.expect(0, "refresh", "--accept-volume")
        self.assertNotIn("user_id", self.last_params())
        _, err = self.expect(2, "refresh")
        self.assertIn("--all", err)

    def test_what_is_about_every_scope_goes_with_nothing_else(self):
        for arguments in (("--all", "--full"), ("--all", "-u", "u1"), ("--all", "-a", "x"),
                          ("--accept-volume", "-u", "u1"), ("--accept-volume", "--no-user"),
                          ("--accept-volume", "--full")):
            _, err = self.expect(2, "refresh", *arguments)
            self.assertIn(f"does not go with {arguments[0]}", err)
        self.assertEqual(self.agent.requests, [])

    def test_verify_lists_differences(self):
        self.agent.answers["verify"] = {"checked": 3, "missing": ["a"], "extra": [],
                                        "different": ["b", "c"], "ok": False, "scope": FRESH}
        out, _ = self.expect(1, "-u", "u1", "verify")
        self.assertEqual(out.splitlines()[:3], ["missing  a", "different  b", "different  c"])
        self.assertIn("3 facts checked, 1 missing, 0 extra, 2 different", out)
        self.assertTrue(out.endswith("; `memsync -u u1 refresh --full` brings the index in step\n"))
        out, _ = self.expect(1, "-u", "a b", "-a", "x", "verify")
        self.assertIn("`memsync -u 'a b' -a x refresh --full`", out)
        self.agent.answers["verify"] = {"checked": 3, "missing": [], "extra": [], "different": [],
                                        "ok": True, "scope": FRESH}
        out, _ = self.expect(0, "-u", "u1", "verify")
        self.assertEqual(out, "ok: 3 facts checked, 0 missing, 0 extra, 0 different\n")

    def test_capabilities(self):
        self.agent.answers["capabilities"] = {"backend": "deermem", "methods": {"search": True}}
        for name in ("capabilities", "backends"):
            self.assertRegex(self.expect(0, name)[0], r"(?m)^  search  true$")


class Events(Case):
    def setUp(self):
        super().setUp()
        self.agent.answers["ping"] = {"protocol": 1, "events": self.agent.events_endpoint}

    def follow(self, *arguments):
        """Starts it and waits for its subscription, which is returned."""
        process = self.start("events", *arguments)
        self.assertTrue(self.agent.events.poll(DEADLINE_S * 1000))
        return process, self.agent.events.recv()[1:].decode()

    def publish(self, topic, **body):
        self.agent.events.send_multipart([topic.encode(), json.dumps(body).encode()])

    def test_prints_events_and_tells_of_missed_ones(self):
        process, prefix = self.follow("--count", "4")
        self.assertEqual(prefix, "")
        common = {"event": "refreshed", "user_id": "u1", "agent_name": "a", "cause": "\x1b[31m"}
        self.publish("scope/u1/a/", **common, epoch=1, n=3, revision=8)
        self.publish("scope/u2/a/", **common, epoch=1, n=9)
        self.publish("scope/u1/a/", **common, epoch=1, n=6)
        self.publish("scope/u1/a/", **common, epoch=2, n=7)
        out, err = process.communicate(timeout=DEADLINE_S)
        self.assertEqual(process.returncode, 0)
        lines = out.splitlines()
        self.assertEqual(len(lines), 4)
        self.assertRegex(lines[0], r"^[-0-9]+ [:0-9]+ refreshed u1/a cause=\\x1b\[31m revision=8$")
        self.assertEqual(err.splitlines(),
                         ["memsync events: missed 2 events of scope/u1/a/",
                          "memsync events: the agent counts anew; events of scope/u1/a/ may have "
                          "been missed"])

    def test_asks_for_the_scopes_wanted(self):
        for arguments, prefix in (
                (("-u", "u/1"), "scope/u%2F1/"),
                (("-u", "u1", "-a", "Lead-X"), "scope/u1/lead-x/"),
                (("--no-user",), "scope//"),
                (("--no-user", "-a", "x"), "scope//x/")):
            process, got = self.follow(*arguments)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=DEADLINE_S)
            self.assertEqual((got, process.returncode, err), (prefix, 130, ""))
            self.agent.events.recv()  # the end of the subscription

    def test_json_is_the_body_as_it_came(self):
        process, _ = self.follow("--json", "--count", "1")
        self.agent.events.send_multipart([b"scope/u1/a/", b'{"n": 1,"x":0.90}'])
        self.assertEqual(process.communicate(timeout=DEADLINE_S)[0], '{"n": 1,"x":0.90}\n')

    def test_a_timeout_is_no_result(self):
        process, _ = self.follow("--timeout", "50")
        process.communicate(timeout=DEADLINE_S)
        self.assertEqual(process.returncode, 1)

    def test_an_agent_without_events_refuses(self):
        self.agent.answers["ping"] = {"protocol": 1, "events": None}
        _, err = self.expect(4, "events")
        self.assertIn("no events", err)


class ExitCodes(Case):
    def test_the_agents_errors(self):
        for error, code in ((-32001, 1), (-32003, 5), (-32602, 4), (-32006, 4), (-32004, 4),
                            (-32009, 4), (-32099, 4)):
            def refuse(_, error=error):
                raise Refusal(error, "because\nof \x1bthis")
            self.agent.answers["get_fact"] = refuse
            out, err = self.expect(code, "-u", "u1", "get", "x")
            self.assertEqual(out, "")
            self.assertIn("because of \\x1bthis", err)
            self.assertEqual(err.count("\n"), 1)

    def test_an_error_names_its_file(self):
        def refuse(_):
            raise Refusal(-32003, "line 1 column 1: no JSON", "users/u1/memory.json")
        self.agent.answers["refresh"] = refuse
        self.assertEqual(self.expect(5, "-u", "u1", "refresh")[1],
                         "memsync refresh: corrupt: users/u1/memory.json: line 1 column 1: "
                         "no JSON\n")

    def test_with_json_an_error_is_one_line_of_json(self):
        def refuse(_):
            raise Refusal(-32003, "because\nof", "m.json")
        self.agent.answers["get_fact"] = refuse
        out, err = self.expect(5, "-u", "u1", "--json", "get", "x")
        self.assertEqual((out, err.count("\n")), ("", 1))
        self.assertEqual(json.loads(err), {"error": {
            "code": -32003, "message": "because\nof",
            "data": {"retryable": False, "path": "m.json"}}})
        out, err = self.expect(3, "--json", "-e", f"ipc://{self.directory}/none", "ping")
        error = json.loads(err)["error"]
        self.assertEqual((out, error["code"], error["data"]), ("", 1, {"kind": "no_agent"}))
        self.assertIn("systemctl", error["message"])
        self.agent.reply = lambda request: "hello"
        error = json.loads(self.expect(5, "--json", "ping")[1])["error"]
        self.assertEqual(error["data"]["kind"], "bad_reply")

    def test_nobody_at_the_endpoint_is_told_at_once(self):
        start = time.monotonic()
        _, err = self.expect(3, "-e", f"ipc://{self.directory}/none", "--timeout", "20000", "ping")
        self.assertLess(time.monotonic() - start, 5)
        self.assertIn("systemctl status memsyncd", err)

    def test_no_answer_within_the_timeout(self):
        _, err = self.expect(3, "--timeout", "100", "ping")
        self.assertIn("100 ms", err)

    def test_something_else_at_the_endpoint(self):
        self.agent.reply = lambda request: "hello"
        self.expect(5, "ping")

    def test_wrong_command_lines(self):
        for arguments, wanted in (
                (("serch",), "search"), (("stats",), "status"), (("xyzzy",), "memsync help"),
                (("help", "refesh"), "refresh"), (("ad",), "add"),
                (("search", "-u", "u1"), "search: QUERY is missing"),
                (("get", "-u", "u1"), "FACT is missing"), (("ping", "x"), '"x"'),
                (("list", "-u", "u1", "extra", "more"), '"extra"'),
                (("get", "-u", "u1", "a", "extra"), '"extra"'),
                (("ping", "--nope=3"), "unknown option --nope;"), (("ping", "--co"), "--count"),
                (("search", "x", "-ku"), "-k"), (("search", "x", "--user"), "--user needs"),
                (("list", "-u", "u", "--limit", "0"), "from 1"), (("events", "-a", "x"), "-u"),
                (("ping", "-k", "3"), "--top-k"), (("ping", "--nope"), "--nope"),
                (("ping", "-x"), "-x"), (("ping", "--json=1"), "no value"),
                (("search", "-u"), "needs a value"), (("search", "x", "-u", ""), "empty"),
                (("search", "x", "-u", "u", "--no-user"), "exclude"),
                (("search", "x", "-k", "0"), "from 1"), (("search", "x", "-k", "5x"), "5x"),
                (("ping", "--timeout", "0"), "from 1"), (("ping", "--color", "red"), "always"),
                (("search", "x", "--freshness", "new"), "strict"),
                (("-e", "http://x", "ping"), "unknown transport"),
                (("-e", "ipc:///" + 107 * "x", "ping"), "108"),
                (("doctor",), "VOLUME is missing")):
            out, err = self.expect(2, *arguments)
            self.assertEqual(out, "")
            self.assertIn(wanted, err)
            self.assertNotRegex(err, r"[ \t]\n")
        self.expect(2)
        self.assertEqual(self.agent.requests, [])

    def test_interrupt_ends_quietly(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            self.agent.arrived.clear()
            process = self.start("-u", "u1", "--timeout", "60000", "search", "x")
            self.assertTrue(self.agent.arrived.wait(DEADLINE_S))
            process.send_signal(number)
            out, err = process.communicate(timeout=DEADLINE_S)
            self.assertEqual((process.returncode, out, err), (128 + number, "", ""))

    def test_output_that_cannot_be_written(self):
        self.agent.answers["search"] = found(TEA)
        with open("/dev/full", "w", encoding="utf-8") as full:
            process = subprocess.run([MEMSYNC, "-u", "u1", "search", "x"], env=self.environment,
                                     stdout=full, stderr=subprocess.PIPE, timeout=DEADLINE_S,
                                     check=False)
        self.assertEqual(process.returncode, 4)
        self.assertIn(b"No space left", process.stderr)


class Help(Case):
    def commands(self):
        out, _ = self.expect(0, "help")
        part = out.split("Commands:\n")[1].split("\n\n")[0]
        return [line.split()[0] for line in part.splitlines()]

    def options_of(self, command):
        text, _ = self.expect(0, "help", command)
        return set(re.findall(r"(?m)^  (?:-\w,|   ) (--[a-z-]+)", text))

    def test_wrong_words_are_answered_with_the_usage(self):
        _, err = self.expect(2, "status", "x")
        self.assertIn("takes no \"x\"; usage: memsync status", err)
        _, err = self.expect(2, "list", "x")
        self.assertIn("usage: memsync list [OPTION]...\n", err)
        _, err = self.expect(2, "get")
        self.assertIn("FACT is missing; usage: memsync get [OPTION]... FACT\n", err)

    def test_every_command_has_help_in_both_ways(self):
        for command in self.commands():
            out, _ = self.expect(0, "help", command)
            self.assertTrue(out.startswith(f"usage: memsync {command}"))
            self.assertEqual(self.expect(0, command, "--help")[0], out)
            self.assertLessEqual(max(map(len, out.splitlines())), 80)
        self.assertLessEqual(max(map(len, self.expect(0, "help")[0].splitlines())), 80)

    def test_version(self):
        for arguments in (("version",), ("--version",), ("-V",), ("ping", "-V")):
            out, _ = self.expect(0, *arguments)
            self.assertRegex(out, r"^memsync \d+\.\d+\.\d+ \(protocol 1\)$")
            version = out.split()[1]
            out, _ = self.expect(0, *arguments, "--json")
            self.assertEqual(json.loads(out), {"name": "memsync", "version": version,
                                               "protocol": 1})

    def test_what_may_be_unsupported_is_told(self):
        self.assertIn("may not support it", self.expect(0, "help", "context")[0])

    def complete(self, *words):
        script = (f"source {ROOT}/ipc/cli/memsync.bash; COMP_WORDS=(\"$@\"); "
                  "COMP_CWORD=$(($# - 1)); _memsync; printf '%s\\n' \"${COMPREPLY[@]}\"")
        result = subprocess.run(["bash", "-c", script, "bash", *words], capture_output=True,
                                text=True, check=True, timeout=DEADLINE_S)
        return set(result.stdout.split())

    def test_completion_knows_all_commands_and_their_options(self):
        self.assertEqual(self.complete("memsync", ""), set(self.commands()))
        self.assertEqual(self.complete("memsync", "-u", "search", "se"), {"search"})
        for command in self.commands():
            offered = self.complete("memsync", command, "--")
            self.assertEqual(offered, self.options_of(command), command)
        self.assertEqual(self.complete("memsync", "search", "-u", ""), set())
        self.assertEqual(self.complete("memsync", "search", "--freshness", "b"), {"bounded"})

    def test_the_manual_knows_all_commands_and_options(self):
        with open(f"{ROOT}/docs/man/memsync.1", encoding="utf-8") as file:
            manual = file.read()
        named = set(re.findall(r"^\.It Cm ([a-z]+)(?: , ([a-z]+))?", manual, re.M))
        named = {name for pair in named for name in pair if name}
        self.assertLessEqual(set(self.commands()), named)
        options = {option for command in self.commands() for option in self.options_of(command)}
        described = {"-" + option for option in re.findall(r"^\.It Fl (?:\w , Fl )?(-[a-z-]+)",
                                                           manual, re.M)}
        self.assertEqual(options, described)
        for command in self.commands():
            lines = re.findall(rf"^\.It Cm (?:[a-z]+ , )?{command}\b(.*)$", manual, re.M)
            if "options" in "".join(lines):
                continue
            letters = {"user": "Fl u ", "agent": "Fl a "}
            for option in self.options_of(command) - self.options_of("version"):
                wanted = letters.get(option[2:], f"Fl {option[1:]}")
                self.assertIn(wanted, "".join(lines) + " ", command)


class Doctor(Case):
    def setUp(self):
        super().setUp()
        self.volume = os.path.join(self.directory, "volume")
        os.makedirs(os.path.join(self.volume, "users", "u1"))

    def files(self):
        return sorted(os.path.join(path, name) for path, directories, names in os.walk(self.volume)
                      for name in directories + names)

    def examine(self, code, *arguments):
        out, _ = self.expect(code, "doctor", "--json", self.volume, *arguments)
        return json.loads(out)

    def levels(self, report, check):
        return [finding["level"] for finding in report["findings"] if finding["check"] == check]

    def test_a_good_volume_is_told_and_left_as_it_was(self):
        before = self.files()
        report = self.examine(0, os.path.join(self.directory, "index", "deep"))
        for check in ("write", "locks", "times", "owner", "index"):
            self.assertEqual(self.levels(report, check), ["ok"], report)
        self.assertEqual(self.files(), before)

    def test_an_agents_own_directory_stays(self):
        os.makedirs(os.path.join(self.volume, ".memsyncd"))
        with open(os.path.join(self.volume, ".memsyncd", "volume-id"), "w", encoding="utf-8"):
            pass
        before = self.files()
        self.examine(0)
        self.assertEqual(self.files(), before)

    def test_an_index_in_the_volume_is_warned_about(self):
        report = self.examine(0, os.path.join(self.volume, ".retrieval"))
        self.assertEqual(self.levels(report, "index"), ["warning"])
        self.assertEqual(report["worst"], "warning")
        for place in ("", "users/i", "agents/i"):
            report = self.examine(1, os.path.join(self.volume, place))
            self.assertEqual(self.levels(report, "index")[0], "error", place)
        neighbour = self.volume + "-index"
        self.assertEqual(self.levels(self.examine(0, neighbour), "index"), ["ok"])

    def test_an_index_on_a_strange_file_system_is_an_error_with_a_cure(self):
        report = self.examine(1, "/proc")
        finding = [one for one in report["findings"]
                   if one["check"] == "index" and one["level"] == "error"][0]
        self.assertIn("index.path", finding["cure"])

    def test_a_link_in_the_place_of_its_directory_is_not_followed(self):
        elsewhere = os.path.join(self.directory, "elsewhere")
        os.makedirs(elsewhere)
        os.symlink(elsewhere, os.path.join(self.volume, ".memsyncd"))
        report = self.examine(1)
        self.assertEqual(self.levels(report, "write"), ["error"])
        self.assertEqual(os.listdir(elsewhere), [])

    def test_plain_output_has_a_line_with_tabs_for_each_finding(self):
        out, _ = self.expect(0, "doctor", self.volume)
        for line in out.splitlines():
            self.assertEqual(line.count("\t"), 3)
            self.assertIn(line.split("\t")[0], ("ok", "info", "warning"))

    def test_what_is_no_directory_is_an_error_with_a_cure(self):
        with socket.socket(socket.AF_UNIX) as sock:
            path = os.path.join(self.directory, "s")
            sock.bind(path)
            for volume in (os.path.join(self.directory, "none"), path, "", b"/none/\xff"):
                out, err = self.expect(1, "doctor", "--json", volume)
                report = json.loads(out)
                self.assertEqual((report["worst"], len(report["findings"]), err), ("error", 1, ""))
                self.assertEqual(self.levels(report, "volume"), ["error"])
                self.assertTrue(report["findings"][0]["cure"])
                self.assertTrue(self.expect(1, "doctor", volume)[0].startswith("error\tvolume\t"))

    def examine_as_nobody(self):
        command = [MEMSYNC, "doctor", "--json", self.volume]
        if os.geteuid() == 0:
            command = ["setpriv", "--reuid=65534", "--clear-groups", *command]
        result = subprocess.run(command, env=self.environment, capture_output=True, text=True,
                                timeout=DEADLINE_S, check=False)
        self.assertEqual(result.returncode, 1, result.stderr)
        return json.loads(result.stdout)

    @unittest.skipIf(os.geteuid() == 0 and not shutil.which("setpriv"), "needs setpriv as root")
    def test_a_volume_without_permission_is_an_error(self):
        os.chmod(self.directory, 0o755)
        self.addCleanup(os.chmod, self.volume, 0o755)
        os.chmod(self.volume, 0o555)
        self.assertEqual(self.levels(self.examine_as_nobody(), "write"), ["error"])
        os.chmod(self.volume, 0)
        report = self.examine_as_nobody()
        self.assertEqual(self.levels(report, "volume"), ["error"])
        self.assertIn("Permission denied", report["findings"][0]["message"])


if __name__ == "__main__":
    unittest.main()
