#!/usr/bin/python3
"""Metrics and health over HTTP: what is counted, in which form, what is told of the agent's health, and what
visitors can do to it. docs/monitoring/ is held against what the agent really tells."""

import glob
import http.client
import json
import os
import re
import signal
import socket
import sys
import time
import unittest

import yaml

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from agent import AgentFailed, RpcError, merge
from exposition import lint, parse
from network import LOCKS_REACH, UNTOLD, NetworkCase
from peer import add, update
from process import IS_SANITIZED, ROOT, ProcessCase, descriptors_of, skip, states, wait_until

DOCS = os.path.join(ROOT, "docs", "monitoring")
LISTEN = {"metrics": {"listen": 0}}
QUICK = {"sync": {"poll_interval_min_ms": 50, "poll_interval_max_ms": 200}}
AT_ONCE_S = 8.0 if IS_SANITIZED else 2.0


def port_of(agent):
    """Where it said last that it listens."""
    told = re.findall(r"event=metrics\.(?:listening|exposed) address=\"?\S*:(\d+)", agent.log())
    return int(told[-1])


def get(agent, path, method="GET", host="127.0.0.1"):
    """Status, headers and body of one request."""
    connection = http.client.HTTPConnection(host, port_of(agent), timeout=20)
    try:
        connection.request(method, path)
        reply = connection.getresponse()
        return reply.status, dict(reply.getheaders()), reply.read().decode()
    finally:
        connection.close()


def page_of(agent):
    code, _, body = get(agent, "/metrics")
    if code != 200:
        raise AssertionError(f"/metrics answered {code}: {body}")
    return body


def samples_of(agent):
    """Name and labels to value, of all samples."""
    return parse(page_of(agent)).samples


def key(name, **labels):
    return name, tuple(sorted(labels.items()))


class Told:
    """What the agent tells now, and how it differs from what it told before."""

    def __init__(self, agent):
        self.agent = agent
        self.before = samples_of(agent)

    def grown(self):
        """What was counted since: counters alone, and what of histograms."""
        now = samples_of(self.agent)
        return {sample: value - self.before[sample] for sample, value in now.items()
                if re.search(r"_total$|_count$", sample[0]) and value != self.before.get(sample, 0)}

    def grown_of(self, *names):
        return {sample: value for sample, value in self.grown().items() if sample[0] in names}


class MetricsCase(ProcessCase):
    def metered(self, config=None, **options):
        return self.agent(config=merge(LISTEN, config or {}), **options)

    def settled(self, agent, scopes=1):
        """Waits until everything is in the index and counted."""
        wait_until(lambda: samples_of(agent).get(key("memsyncd_index_scopes")) == scopes and
                   samples_of(agent)[key("memsyncd_index_building")] == 0, 60, f"{scopes} scopes in the index")
        return agent


    def quiet(self, agent):
        """Waits until no second look is to come, which would count beside what the test does."""
        wait_until(lambda: samples_of(agent)[key("memsyncd_refreshes_waiting", queue="delayed")] == 0 and
                   samples_of(agent)[key("memsyncd_refreshes_running")] == 0, 20, "an end of all refreshes")
        return agent


class Counts(MetricsCase):
    SEARCHES = ("memsyncd_searches_total", "memsyncd_stale_answers_total", "memsyncd_search_duration_seconds_count")

    def setUp(self):
        super().setUp()
        self.peer.commit("u1", changes=[add("fact_1", "amber one"), add("fact_2", "amber two")])

    def served(self, config=None, **options):
        return self.settled(self.metered(merge(UNTOLD, config or {}), **options))

    def expect_search(self, agent, expected, **params):
        told = Told(agent)
        try:
            agent.rpc("search", **{"user_id": "u1", "query": "amber", **params})
        except RpcError:
            pass
        expected = {key("memsyncd_search_duration_seconds_count"): 1, **expected}
        self.assertEqual(told.grown_of(*self.SEARCHES), expected)

    def test_searches_by_state(self):
        agent = self.served()
        self.expect_search(agent, {key("memsyncd_searches_total", state="fresh"): 1})
        self.peer.commit("u1", changes=[add("fact_3", "amber three")])
        self.expect_search(agent, {key("memsyncd_searches_total", state="refreshed"): 1})
        self.expect_search(agent, {key("memsyncd_searches_total", state="stale"): 1,
                                   key("memsyncd_stale_answers_total", reason="not_compared"): 1}, freshness="local")
        os.chmod(self.peer.manifest_path("u1"), 0o600)
        with open(self.peer.manifest_path("u1"), "w", encoding="utf-8") as file:
            file.write("{")
        self.expect_search(agent, {key("memsyncd_searches_total", state="unverified"): 1,
                                   key("memsyncd_stale_answers_total", reason="corrupt"): 1})

    def test_a_search_of_several_scopes_counts_once_and_each_scope_that_is_stale_by_its_reason(self):
        agent = self.served()
        self.expect_search(agent, {key("memsyncd_searches_total", state="stale"): 1,
                                   key("memsyncd_stale_answers_total", reason="not_compared"): 2}, freshness="local",
                           scopes=[{"user_id": "u1"}, {"user_id": "u1", "agent_name": "helper"}])

    def test_a_search_that_moves_to_another_thread_counts_once(self):
        """What may take long is begun on the serving thread, and done on another one."""
        agent = self.served()
        self.expect_search(agent, {key("memsyncd_searches_total", state="fresh"): 1}, query="am*", top_k=100)

    def test_a_search_that_fails_is_told_and_a_wrong_request_is_none(self):
        with open(self.peer.manifest_path("u1"), "w", encoding="utf-8") as file:
            file.write("{")
        agent = self.metered(UNTOLD)
        self.expect_search(agent, {key("memsyncd_searches_total", state="failed"): 1})
        told = Told(agent)
        with self.assertRaises(RpcError):
            agent.rpc("search", user_id="u1", query=5)
        self.assertEqual(told.grown_of(*self.SEARCHES), {})
        self.assertEqual(told.grown_of("memsyncd_request_errors_total"), {key("memsyncd_request_errors_total"): 1})

    def refreshes(self, told):
        return {(dict(labels)["cause"], dict(labels)["outcome"]): value
                for (_, labels), value in told.grown_of("memsyncd_refreshes_total").items()}

    def test_refreshes_by_cause(self):
        agent = self.served()
        self.assertEqual(samples_of(agent)[key("memsyncd_refreshes_total", cause="pass", outcome="installed")], 1)
        told = Told(self.quiet(agent))
        self.peer.commit("u1", changes=[add("fact_3", "amber three")])
        agent.rpc("search", user_id="u1", query="amber")
        self.assertEqual(self.refreshes(told), {("search", "installed"): 1})
        self.assertEqual(told.grown_of("memsyncd_refresh_duration_seconds_count"),
                         {key("memsyncd_refresh_duration_seconds_count"): 1})
        self.assertGreaterEqual(told.grown()[key("memsyncd_fact_files_read_total")], 1)
        told = Told(self.quiet(agent))
        agent.rpc("refresh", user_id="u1", full=True)
        self.assertEqual(self.refreshes(told), {("request", "installed"): 1})
        told = Told(self.quiet(agent))
        agent.rpc("refresh", user_id="u1")
        self.assertEqual(self.refreshes(told), {("request", "in_step"): 1})

    def expect_told(self, config, cause):
        agent = self.settled(self.metered(config))
        told = Told(self.quiet(agent))
        self.peer.commit("u1", changes=[add("fact_3", "amber three")])
        wait_until(lambda: self.refreshes(told).get((cause, "installed")), 20, f"a refresh for {cause}")
        self.assertNotIn(("search", "installed"), self.refreshes(told))

    def test_a_peers_commit_that_the_kernel_tells_of(self):
        self.expect_told({"sync": {"poll_interval_min_ms": 600000, "poll_interval_max_ms": 600000}}, "inotify")

    def test_a_peers_commit_that_polling_finds(self):
        self.expect_told(merge(QUICK, {"sync": {"inotify": False}}), "poll")

    def test_a_refresh_that_fails_and_is_tried_again(self):
        agent = self.served()
        told = Told(agent)
        manifest = self.peer.manifest("u1")
        with open(self.peer.manifest_path("u1"), "w", encoding="utf-8") as file:
            file.write("{")
        with self.assertRaises(RpcError):
            agent.rpc("refresh", user_id="u1")
        wait_until(lambda: self.refreshes(told).get(("retry", "failed")), 20, "a second try")
        self.assertEqual(self.refreshes(told)[("request", "failed")], 1)
        self.assertEqual(samples_of(agent)[key("memsyncd_unreadable_scopes")], 1)
        with open(self.peer.manifest_path("u1"), "w", encoding="utf-8") as file:
            json.dump(manifest, file)
        wait_until(lambda: samples_of(agent)[key("memsyncd_unreadable_scopes")] == 0, 20, "a scope that is readable")

    OWN = ("memsyncd_writes_total", "memsyncd_own_writes_total", "memsyncd_commit_duration_seconds_count")

    def test_own_writes_by_outcome(self):
        agent = self.served()
        told = Told(agent)
        made = agent.rpc("create_fact", user_id="u1", content="amber made")
        self.assertEqual(told.grown_of(*self.OWN), {key("memsyncd_writes_total", outcome="changed"): 1,
                                                    key("memsyncd_own_writes_total", outcome="promoted"): 1,
                                                    key("memsyncd_commit_duration_seconds_count"): 1})
        told = Told(agent)
        agent.rpc("update_fact", user_id="u1", fact_id=made["fact"]["id"], content="amber made")
        self.assertEqual(told.grown_of(*self.OWN), {key("memsyncd_writes_total", outcome="unchanged"): 1})
        told = Told(agent)
        with self.assertRaises(RpcError):
            agent.rpc("update_fact", user_id="u1", fact_id=made["fact"]["id"], content="amber", expected_revision=99)
        self.assertEqual(told.grown_of(*self.OWN), {key("memsyncd_writes_total", outcome="conflict"): 1})
        self.peer.commit("u1", changes=[add("fact_3", "amber of a peer")])
        told = Told(agent)
        agent.rpc("update_fact", user_id="u1", fact_id=made["fact"]["id"], content="amber changed")
        self.assertEqual(told.grown_of(*self.OWN), {key("memsyncd_writes_total", outcome="changed"): 1,
                                                    key("memsyncd_own_writes_total", outcome="forgotten"): 1,
                                                    key("memsyncd_commit_duration_seconds_count"): 1})

    def test_compares_and_requests(self):
        agent = self.served()
        agent.rpc("ping")
        told = Told(agent)
        for _ in range(5):
            agent.rpc("search", user_id="u1", query="amber")
        self.assertEqual(told.grown_of("memsyncd_requests_total", "memsyncd_compare_duration_seconds_count"),
                         {key("memsyncd_requests_total"): 5, key("memsyncd_compare_duration_seconds_count"): 5})
        self.assertEqual(samples_of(agent)[key("memsyncd_connections")], 1)

    def test_the_index_is_measured(self):
        agent = self.served()
        samples = samples_of(agent)
        self.assertEqual(samples[key("memsyncd_index_facts")], 2)
        on_disk = sum(os.path.getsize(path) for path in glob.glob(os.path.join(agent.index, "memsyncd.sqlite3*"))
                      if not path.endswith("-shm"))
        self.assertAlmostEqual(samples[key("memsyncd_index_size_bytes")], on_disk, delta=on_disk / 2)
        self.peer.commit("u1", changes=[add("fact_3", "amber three")])
        agent.rpc("search", user_id="u1", query="amber")
        wait_until(lambda: samples_of(agent)[key("memsyncd_index_facts")] == 3, 60, "a third fact")

    def test_a_lost_index_is_told(self):
        agent = self.served()
        os.unlink(os.path.join(agent.index, "memsyncd.sqlite3"))
        wait_until(lambda: samples_of(agent)[key("memsyncd_index_rebuilds_total")] == 1, 20, "a rebuild")
        self.settled(agent)
        self.assertEqual(get(agent, "/readyz")[0], 200)

    def test_the_other_backend_tells_of_requests_alone(self):
        agent = self.metered({"backend": {"name": "noop"}})
        agent.rpc("search", user_id="u1", query="amber")
        told = parse(page_of(agent))
        self.assertEqual(lint(told), [])
        self.assertEqual(told.samples[key("memsyncd_build_info", version="0.1.0", backend="noop")], 1)
        self.assertNotIn("memsyncd_searches_total", told.families)
        self.assertEqual(get(agent, "/readyz")[::2], (200, "ok\n"))


class OnTheNetwork(NetworkCase, MetricsCase):
    """What a volume does that fails or hangs."""

    def setUp(self):
        super().setUp()
        self.peer.commit("u1", changes=[add("fact_1", "amber one")])

    def served(self, config=None):
        return self.settled(self.metered(merge(merge(UNTOLD, LOCKS_REACH), config or {}), volume=self.net.node(0).path))

    def test_errors_by_operation_and_kind(self):
        agent = self.served()
        for operation, told_as, name, kind in (("open", "open", "EIO", "io"), ("read", "read", "ESTALE", "stale"),
                                               ("open", "open", "EACCES", "denied")):
            with self.subTest(operation=operation, error=name):
                told = Told(agent)
                with self.net.node(0).fail(operation, "users/u1/memory.json", name) as rule:
                    agent.rpc("search", user_id="u1", query="amber")
                    rule.wait_fired()
                self.assertGreaterEqual(told.grown_of("memsyncd_volume_errors_total").get(
                    key("memsyncd_volume_errors_total", operation=told_as, error=kind), 0), 1, told.grown())
                self.assertGreaterEqual(told.grown_of("memsyncd_compare_errors_total")[
                    key("memsyncd_compare_errors_total")], 1)

    def test_a_full_volume_is_told_and_a_name_that_is_not_there_is_no_error(self):
        agent = self.served()
        told = Told(agent)
        self.assertEqual(agent.rpc("search", user_id="nobody", query="amber")["count"], 0)
        self.assertEqual(told.grown_of("memsyncd_volume_errors_total"), {})
        with self.net.node(0).fail("write", "users/u1/*", "ENOSPC"), self.assertRaises(RpcError):
            agent.rpc("create_fact", user_id="u1", content="amber two")
        grown = told.grown_of("memsyncd_volume_errors_total", "memsyncd_writes_total")
        self.assertGreaterEqual(grown[key("memsyncd_volume_errors_total", operation="write", error="full")], 1)
        self.assertEqual(grown[key("memsyncd_writes_total", outcome="failed")], 1)

    def test_calls_that_hang_are_counted_and_keep_no_scrape_waiting(self):
        agent = self.served()
        with self.net.node(0).hang("open", "users/u1/memory.json") as held:
            self.assertEqual(states(agent.rpc("search", user_id="u1", query="amber")), ["unverified"])
            held.wait_hanging()
            wait_until(lambda: samples_of(agent)[key("memsyncd_stuck_calls")] == 1, 10, "a stuck call")
            begun = time.monotonic()
            samples = samples_of(agent)
            self.assertLess(time.monotonic() - begun, AT_ONCE_S)
            self.assertGreaterEqual(samples[key("memsyncd_oldest_stuck_call_age_seconds")], 1)
            self.assertEqual(samples[key("memsyncd_stale_answers_total", reason="unavailable")], 1)
            self.assertEqual(get(agent, "/healthz")[::2], (200, "ok\n"))
            self.assertEqual(get(agent, "/readyz")[::2], (200, "ok\n"), "one user's files are not the volume")
        wait_until(lambda: samples_of(agent)[key("memsyncd_stuck_calls")] == 0, 20, "an end of it")

    def test_a_volume_that_hangs_as_a_whole_is_not_ready_and_alive(self):
        agent = self.served()
        with self.net.node(0).hang("any", "*"):
            wait_until(lambda: get(agent, "/readyz")[0] == 503, 30, "an agent that is not ready")
            self.assertEqual(get(agent, "/readyz")[2], "the volume does not answer\n")
            begun = time.monotonic()
            self.assertEqual(samples_of(agent)[key("memsyncd_ready")], 0)
            self.assertEqual(get(agent, "/healthz")[::2], (200, "ok\n"))
            self.assertLess(time.monotonic() - begun, AT_ONCE_S)
            self.assertGreaterEqual(samples_of(agent)[key("memsyncd_watcher_call_age_seconds")], 5)
        wait_until(lambda: get(agent, "/readyz")[0] == 200, 30, "an agent that is ready again")

    def test_a_serving_loop_that_stands_still_is_not_alive(self):
        """It looks for itself where it is told that no call hangs, and is caught in one."""
        agent = self.agent(volume=self.net.node(0).path,
                           config=merge(merge(LISTEN, UNTOLD), {"volume": {"kind": "local"}}),
                           env={"WATCHDOG_USEC": "2000000"})
        self.settled(agent)
        self.assertEqual(get(agent, "/healthz")[::2], (200, "ok\n"))
        with agent.client() as client, self.net.node(0).hang("open", "users/u1/memory.json") as held:
            sent = client.send("search", user_id="u1", query="amber")
            held.wait_hanging()
            wait_until(lambda: get(agent, "/healthz")[0] == 503, 20, "an agent that is not alive")
            self.assertEqual(get(agent, "/healthz")[2], "the serving loop does not come round\n")
            samples_of(agent)
            held.remove()
            self.assertEqual(client.result(sent)["count"], 1)
            wait_until(lambda: get(agent, "/healthz")[0] == 200, 20, "an agent that is alive again")

    def test_while_it_stops_it_is_alive_and_not_ready(self):
        """A write that hangs keeps it from ending for a while."""
        agent = self.served()
        with agent.client() as client, self.net.node(0).hang("flock", "users/u1/*") as held:
            client.send("create_fact", user_id="u1", content="amber two", timeout_ms=60000)
            held.wait_hanging()
            agent.signal(signal.SIGTERM)
            wait_until(lambda: get(agent, "/readyz")[2] == "stopping\n", 10, "an agent that stops")
            self.assertEqual(get(agent, "/readyz")[0], 503)
            self.assertEqual(get(agent, "/healthz")[0], 200)
            self.assertEqual(samples_of(agent)[key("memsyncd_request_threads_busy")], 1)
            self.assertEqual(agent.wait_exit(30), 0)


class Form(MetricsCase):
    """The rules of the format and of naming, by tests/support/exposition.py."""

    def busy(self):
        """An agent that has done one thing and another."""
        self.peer.commit("u1", changes=[add("fact_1", "amber one")])
        agent = self.settled(self.metered(QUICK))
        self.peer.commit("u1", changes=[update("fact_1", "amber two")])
        for freshness in ("strict", "local"):
            agent.rpc("search", user_id="u1", query="amber", freshness=freshness)
        agent.rpc("create_fact", user_id="u1", content="amber three")
        return agent

    def test_the_page_keeps_the_rules(self):
        agent = self.busy()
        code, headers, body = get(agent, "/metrics")
        self.assertEqual(code, 200)
        self.assertEqual(headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
        told = parse(body)
        self.assertGreater(len(told.families), 40)
        self.assertEqual(lint(told), [])

    def test_counters_never_go_back(self):
        agent = self.busy()
        before = samples_of(agent)
        for number in range(30):
            agent.rpc("search", user_id="u1", query="amber")
            if number % 10 == 0:
                self.peer.commit("u1", changes=[update("fact_1", f"amber {number}")])
            told = parse(page_of(agent))
            for sample, value in told.samples.items():
                family = told.family_of(sample[0])
                if family.kind in ("counter", "histogram"):
                    self.assertGreaterEqual(value, before.get(sample, 0), sample)
            before = told.samples

    def test_no_name_of_a_user_a_path_or_a_fact_is_told(self):
        self.peer.commit("zebra-user", "yak-agent", [add("fact_xylophone", "walrus content")])
        agent = self.settled(self.metered())
        agent.rpc("search", user_id="zebra-user", agent_name="yak-agent", query="walrus")
        with self.assertRaises(RpcError):
            agent.rpc("get_fact", user_id="quagga", fact_id="fact_unicorn")
        for word in ("zebra", "yak", "xylophone", "walrus", "quagga", "unicorn", self.directory, agent.directory):
            self.assertNotIn(word, page_of(agent))

    def test_the_number_of_samples_does_not_grow_with_the_users(self):
        agent = self.busy()
        before = set(samples_of(agent))
        for number in range(20):
            self.peer.commit(f"user{number}", f"agent{number}", [add("fact_1", "amber")])
            agent.rpc("search", user_id=f"user{number}", agent_name=f"agent{number}", query="amber")
        self.assertEqual(set(samples_of(agent)), before)
        self.assertLess(len(before), 500)


class Linter(unittest.TestCase):
    """What the rules find, one fault at a time."""

    GOOD = ("# HELP memsyncd_a_total Some of it.\n# TYPE memsyncd_a_total counter\nmemsyncd_a_total{b=\"c\"} 1\n"
            "# HELP memsyncd_d_seconds How long.\n# TYPE memsyncd_d_seconds histogram\n"
            "memsyncd_d_seconds_bucket{le=\"0.1\"} 1\nmemsyncd_d_seconds_bucket{le=\"+Inf\"} 2\n"
            "memsyncd_d_seconds_sum 5.5\nmemsyncd_d_seconds_count 2\n")

    def test_good_is_good(self):
        self.assertEqual(lint(parse(self.GOOD)), [])

    def test_each_fault_is_found(self):
        faults = {
            "no help": ("# HELP memsyncd_a_total Some of it.\n", ""),
            "no type": ("# TYPE memsyncd_a_total counter\n", ""),
            "an empty help": ("Some of it.", ""),
            "help twice": ("# TYPE memsyncd_a_total", "# HELP memsyncd_a_total Again.\n# TYPE memsyncd_a_total"),
            "no full stop": ("Some of it.", "Some of it"),
            "a counter without _total": ("memsyncd_a_total", "memsyncd_a"),
            "a gauge with _total": ("memsyncd_a_total counter", "memsyncd_a_total gauge"),
            "another prefix": ("memsyncd_a_total", "other_a_total"),
            "a capital": ("memsyncd_a_total", "memsyncd_aB_total"),
            "a unit that is not a base unit": ("memsyncd_d_seconds", "memsyncd_d_milliseconds"),
            "an abbreviated unit": ("memsyncd_a_total", "memsyncd_a_ms_total"),
            "a histogram without a unit": ("memsyncd_d_seconds", "memsyncd_d"),
            "a type that there is not": ("memsyncd_a_total counter", "memsyncd_a_total meter"),
            "a sample twice": ("memsyncd_a_total{b=\"c\"} 1\n", "memsyncd_a_total{b=\"c\"} 1\n" * 2),
            "a label's name": ("{b=", "{B="),
            "a label of the collector's": ("{b=", "{job="),
            "a reserved label": ("{b=", "{__b="),
            "a counter below zero": ("{b=\"c\"} 1", "{b=\"c\"} -1"),
            "classes that shrink": ("le=\"0.1\"} 1", "le=\"0.1\"} 3"),
            "no class for all": ("memsyncd_d_seconds_bucket{le=\"+Inf\"} 2\n", ""),
            "a count of its own": ("seconds_count 2", "seconds_count 3"),
            "no sum": ("memsyncd_d_seconds_sum 5.5\n", ""),
            "bounds out of order": ("le=\"0.1\"} 1\n",
                                    "le=\"0.1\"} 1\nmemsyncd_d_seconds_bucket{le=\"0.01\"} 1\n"),
            "a family in two places": ("memsyncd_d_seconds_count 2\n",
                                       "memsyncd_d_seconds_count 2\nmemsyncd_a_total{b=\"d\"} 1\n"),
        }
        for name, (what, instead) in faults.items():
            with self.subTest(fault=name):
                self.assertIn(what, self.GOOD)
                self.assertNotEqual(lint(parse(self.GOOD.replace(what, instead))), [])

    def test_what_is_no_line_of_the_format_is_refused(self):
        for line in ("memsyncd_a 1 2 3", "memsyncd_a{b=c} 1", "memsyncd_a{b=\"c} 1", "memsyncd_a", "memsyncd_a{} x",
                     "memsyncd_a{b=\"\\x\"} 1", "{b=\"c\"} 1", " memsyncd_a 1"):
            with self.subTest(line=line), self.assertRaises(ValueError):
                parse(line + "\n")
        with self.assertRaises(ValueError):
            parse("memsyncd_a 1")  # its last line does not end


class Monitoring(MetricsCase):
    """docs/monitoring/ names what there is: metrics with their labels, and values of these."""

    def told(self):
        self.peer.commit("u1", changes=[add("fact_1", "amber one")])
        return parse(page_of(self.settled(self.metered())))

    def read(self, name):
        with open(os.path.join(DOCS, name), encoding="utf-8") as file:
            return file.read()

    def expect_known(self, told, expression, where):
        """Every metric of the expression is told, with the labels, and the values, that are asked for."""
        bare = re.sub(r"\"[^\"]*\"", '""', expression)
        names = set(re.findall(r"\bmemsyncd_[a-zA-Z0-9_]*", bare))
        self.assertTrue(names, f"{where}: no metric in {expression}")
        labels = {}
        for name, told_labels in told.samples:
            for label, value in told_labels:
                labels.setdefault(name, {}).setdefault(label, set()).add(value)
        for name in names:
            self.assertIn(name, {sample[0] for sample in told.samples}, f"{where}: {expression}")
        for name, matchers in re.findall(r"\b(memsyncd_[a-zA-Z0-9_]*)\{([^}]*)\}", expression):
            for label, operator, value in re.findall(r"(\w+)\s*(=~|!~|!=|=)\s*\"([^\"]*)\"", matchers):
                if label in ("instance", "job"):
                    continue
                self.assertIn(label, labels.get(name, {}), f"{where}: {expression}")
                for one in value.split("|") if "~" in operator else [value]:
                    self.assertIn(one, labels[name][label], f"{where}: {expression}")
        for grouped in re.findall(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)", expression):
            for label in filter(None, re.split(r"[,\s]+", grouped)):
                known = {known for name in names for known in labels.get(name, {})} | {"instance", "job"}
                self.assertIn(label, known, f"{where}: {expression}")
        for function in re.findall(r"\b(rate|increase|irate)\s*\(\s*(memsyncd_\w+)", expression):
            self.assertEqual(told.family_of(function[1]).kind in ("counter", "histogram"), True,
                             f"{where}: {function[0]} of what is no counter in {expression}")

    def test_the_table_is_what_the_agent_tells(self):
        told = self.told()
        rows = {}
        for line in re.findall(r"^\| `memsyncd_.*", self.read("README.md"), re.M):
            name, kind, labels, meaning = (cell.strip() for cell in line.strip("|").split("|"))
            self.assertNotIn(name.strip("`"), rows, "it is in the table twice")
            self.assertTrue(meaning)
            rows[name.strip("`")] = kind, set(re.findall(r"`(\w+)`", labels))
        expected = {}
        for name, family in told.families.items():
            names, values = set(), set()
            for _, sample_labels in family.samples:
                for label, value in sample_labels:
                    if label != "le":
                        names.add(label)
                        values.add(value)
            expected[name] = family.kind, names, values
        self.assertEqual({name: row[0] for name, row in rows.items()},
                         {name: row[0] for name, row in expected.items()})
        for name, (_, names, values) in expected.items():
            with self.subTest(metric=name):
                words = rows[name][1]
                self.assertEqual(names - words, set())
                # What is found out on the node cannot be listed.
                self.assertEqual(words, names if name.endswith("_info") else names | values)

    def test_the_dashboard_is_made_of_what_there_is(self):
        told = self.told()
        board = json.loads(self.read("grafana.json"))
        panels = [panel for panel in board["panels"] if panel["type"] != "row"]
        self.assertGreater(len(panels), 10)
        self.assertEqual(len({panel["id"] for panel in board["panels"]}), len(board["panels"]))
        places = set()
        for panel in panels:
            with self.subTest(panel=panel["title"]):
                self.assertTrue(panel["targets"])
                self.assertIn("unit", panel["fieldConfig"]["defaults"])
                self.assertTrue(panel.get("description"))
                at = panel["gridPos"]
                self.assertLessEqual(at["x"] + at["w"], 24)
                cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
                self.assertFalse(cells & places, "it lies over another one")
                places |= cells
                for target in panel["targets"]:
                    self.assertEqual(target["datasource"]["uid"], "${source}")
                    self.expect_known(told, target["expr"], panel["title"])
        self.assertEqual({variable["name"] for variable in board["templating"]["list"]}, {"source", "instance"})

    def test_the_alerts_are_made_of_what_there_is(self):
        told = self.told()
        groups = yaml.safe_load(self.read("alerts.yaml"))["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        self.assertGreater(len(rules), 8)
        self.assertEqual(len({rule["alert"] for rule in rules}), len(rules))
        table = set(re.findall(r"^\| `(Memsyncd\w+)` \|", self.read("README.md"), re.M))
        self.assertEqual({rule["alert"] for rule in rules}, table)
        for rule in rules:
            with self.subTest(alert=rule["alert"]):
                self.assertRegex(rule["alert"], r"^Memsyncd[A-Z][A-Za-z]+$")
                self.assertRegex(rule["for"], r"^\d+[smh]$")
                self.assertIn(rule["labels"]["severity"], ("warning", "critical"))
                self.assertRegex(rule["annotations"]["summary"], r"\.$")
                self.assertIn("{{ $labels.instance }}", rule["annotations"]["summary"])
                self.assertTrue(rule["annotations"]["description"])
                if "memsyncd_" in rule["expr"]:
                    self.expect_known(told, rule["expr"], rule["alert"])
                else:
                    self.assertEqual(rule["expr"], 'up{job="memsyncd"} == 0')

    def test_what_is_not_there_is_found(self):
        told = self.told()
        for expression in ("memsyncd_no_such_total", "memsyncd_searches_total{mode=\"a\"}",
                           "memsyncd_searches_total{state=\"happy\"}",
                           "memsyncd_searches_total{state=~\"fresh|happy\"}",
                           "sum by (user) (memsyncd_searches_total)", "rate(memsyncd_stuck_calls[5m])", "1 + 1"):
            with self.subTest(expression=expression), self.assertRaises(AssertionError):
                self.expect_known(told, expression, "here")


class Health(MetricsCase):
    def test_alive_and_ready(self):
        agent = self.metered()
        for path in ("/healthz", "/readyz"):
            code, headers, body = get(agent, path)
            self.assertEqual((code, body), (200, "ok\n"))
            self.assertEqual(headers["Content-Type"], "text/plain; charset=utf-8")
            self.assertEqual(get(agent, path, "HEAD")[::2], (200, ""))

    def test_a_volume_that_is_gone_is_not_ready_until_it_is_back(self):
        self.peer.commit("u1", changes=[add("fact_1", "amber one")])
        agent = self.settled(self.metered(UNTOLD))
        os.rename(self.volume, self.volume + ".away")
        os.mkdir(self.volume)
        wait_until(lambda: get(agent, "/readyz")[0] == 503, 20, "an agent that is not ready")
        self.assertIn("the volume is gone", get(agent, "/readyz")[2])
        self.assertEqual(get(agent, "/healthz")[::2], (200, "ok\n"))
        self.assertEqual(states(agent.rpc("search", user_id="u1", query="amber")), ["unverified"])
        samples = samples_of(agent)
        self.assertEqual((samples[key("memsyncd_ready")], samples[key("memsyncd_volume_suspended")],
                          samples[key("memsyncd_stale_answers_total", reason="suspended")]), (0, 1, 1))
        os.rmdir(self.volume)
        os.rename(self.volume + ".away", self.volume)
        wait_until(lambda: get(agent, "/readyz")[0] == 200, 20, "an agent that is ready again")
        self.assertEqual(samples_of(agent)[key("memsyncd_volume_suspended")], 0)


class Visitors(MetricsCase):
    """Whatever they do, searches are answered, and so are others who ask."""

    def setUp(self):
        super().setUp()
        self.peer.commit("u1", changes=[add("fact_1", "amber one")])
        self.served = self.settled(self.metered(UNTOLD))

    def visit(self):
        connection = socket.create_connection(("127.0.0.1", port_of(self.served)), timeout=30)
        self.addCleanup(connection.close)
        return connection

    def expect_served(self):
        begun = time.monotonic()
        self.assertEqual(states(self.served.rpc("search", user_id="u1", query="amber")), ["fresh"])
        self.assertLess(time.monotonic() - begun, AT_ONCE_S)

    def ended(self, connection):
        """Reads to the end; what came."""
        came = b""
        try:
            while True:
                some = connection.recv(65536)
                if not some:
                    return came
                came += some
        except ConnectionResetError:
            return came

    def test_paths_and_methods_that_there_are_not(self):
        self.assertEqual(get(self.served, "/")[0], 404)
        self.assertEqual(get(self.served, "/metrics/")[0], 404)
        self.assertEqual(get(self.served, "/metrics?name[]=a")[0], 200)
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE"):
            code, headers, _ = get(self.served, "/metrics", method)
            self.assertEqual((code, headers["Allow"]), (405, "GET, HEAD"))
        code, headers, body = get(self.served, "/metrics", "HEAD")
        self.assertEqual((code, body), (200, ""))
        self.assertGreater(int(headers["Content-Length"]), 1000)

    def test_a_huge_request_is_refused(self):
        for text in (b"GET /metrics HTTP/1.1\r\nA: " + b"a" * 1000000, b"GET /" + b"a" * 1000000,
                     b"POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n" + b"a" * 1000000,
                     b"a" * 1000000, os.urandom(100000)):
            connection = self.visit()
            try:
                connection.sendall(text)
                connection.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # cut off already
            self.assertNotRegex(self.ended(connection), rb"HTTP/1.1 200")
        self.assertEqual(get(self.served, "/healthz")[0], 200)
        self.expect_served()

    def test_slow_ones_are_cut_off(self):
        """One that says nothing, and one that says a little all the time."""
        silent, slow = self.visit(), self.visit()
        begun = time.monotonic()
        slow.sendall(b"GET /metrics HTTP/1.1\r\n")
        with self.assertRaises(OSError):
            while time.monotonic() - begun < 30:
                slow.sendall(b"A: b\r\n")
                time.sleep(0.2)
                self.assertEqual(get(self.served, "/healthz")[0], 200)
        self.assertLess(time.monotonic() - begun, 15)
        self.assertEqual(self.ended(silent), b"")
        self.expect_served()

    def test_one_that_does_not_read_is_cut_off(self):
        connection = socket.socket()
        self.addCleanup(connection.close)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", port_of(self.served)))
        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
        self.assertEqual(get(self.served, "/healthz")[0], 200)
        self.expect_served()

    def test_many_at_once_cost_a_bounded_number_of_descriptors_and_no_search(self):
        self.expect_served()  # on a connection that stays
        descriptors = f"/proc/{self.served.pid}/fd"
        before = len(os.listdir(descriptors))
        threads = len(os.listdir(f"/proc/{self.served.pid}/task"))
        visitors = [self.visit() for _ in range(90)]
        self.expect_served()
        # The agent opens some for a moment; who is connected is cut off only later.
        wait_until(lambda: len(os.listdir(descriptors)) <= before + 32, 3, "no more descriptors than places")
        self.assertEqual(len(os.listdir(f"/proc/{self.served.pid}/task")), threads)
        for visitor in visitors:
            visitor.close()
        self.assertEqual(get(self.served, "/healthz")[0], 200)
        wait_until(lambda: len(os.listdir(descriptors)) <= before + 1, 20, "descriptors that are closed")

    def test_the_end_waits_for_nobody_who_is_connected(self):
        silent, slow = self.visit(), self.visit()
        slow.sendall(b"GET /metr")
        begun = time.monotonic()
        self.assertEqual(self.served.stop(), 0)
        self.assertLess(time.monotonic() - begun, 8.0 if IS_SANITIZED else 4.0)
        self.assertEqual(self.ended(silent), b"")


class Listening(MetricsCase):
    def refused(self, listen):
        agent = self.agent(start=False, config={"metrics": {"listen": listen}})
        with self.assertRaises(AgentFailed):
            agent.start()
        self.assertEqual(agent.process.returncode, 1)
        return agent.log()

    def test_a_port_in_use_is_an_error_that_names_the_key(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            log = self.refused(address)
        self.assertIn(f"metrics.listen: cannot listen on {address}: Address already in use", log)

    def test_an_address_that_is_not_ours_is_an_error_that_names_the_key(self):
        self.assertIn("metrics.listen: cannot listen on 192.0.2.1:9464: Cannot assign requested address",
                      self.refused("192.0.2.1:9464"))

    def test_what_is_no_address_is_refused_by_the_configuration(self):
        self.assertIn("metrics.listen: must be PORT, IPV4:PORT or [IPV6]:PORT, or \"\", not \"localhost:9464\"",
                      self.refused("localhost:9464"))

    def test_nothing_listens_unless_told(self):
        agent = self.agent()
        self.assertNotIn("metrics.", agent.log())
        with open(f"/proc/{agent.pid}/net/tcp", encoding="utf-8") as file:
            inodes = {line.split()[9] for line in file.readlines()[1:]}
        self.assertEqual([link for link in descriptors_of(agent.pid)
                          if link.removeprefix("socket:[").rstrip("]") in inodes], [])

    def test_a_port_alone_is_one_of_this_host(self):
        agent = self.metered()
        self.assertRegex(agent.log(), r"level=notice event=metrics\.listening address=127\.0\.0\.1:\d+\n")
        self.assertEqual(get(agent, "/healthz", host="127.0.0.1")[0], 200)
        with self.assertRaises(OSError):
            get(agent, "/healthz", host="127.0.0.2")

    def test_ipv6(self):
        try:
            with socket.socket(socket.AF_INET6) as probe:
                probe.bind(("::1", 0))
        except OSError as problem:
            skip(f"no IPv6 on this host: {problem}")
        agent = self.agent(config={"metrics": {"listen": "[::1]:0"}})
        self.assertRegex(agent.log(), r"event=metrics\.listening address=\[::1\]:\d+")
        self.assertEqual(get(agent, "/healthz", host="::1")[0], 200)

    def test_an_address_for_other_hosts_is_taken_and_warned_of(self):
        agent = self.agent(config={"metrics": {"listen": "0.0.0.0:0"}})
        self.assertRegex(agent.log(), r"level=warning event=metrics\.exposed address=0\.0\.0\.0:\d+ ")
        self.assertEqual(get(agent, "/healthz", host="127.0.0.2")[0], 200)

    def test_a_restart_has_the_port_again(self):
        agent = self.metered()
        port = port_of(agent)
        self.assertEqual(get(agent, "/healthz")[0], 200)
        agent.set_config({"metrics": {"listen": port}})
        agent.restart()
        self.assertEqual(port_of(agent), port)
        self.assertEqual(get(agent, "/healthz")[0], 200)

    def test_a_reload_tells_that_another_address_needs_a_restart(self):
        agent = self.metered()
        port = port_of(agent)
        agent.set_config({"metrics": {"listen": ""}})
        agent.signal(signal.SIGHUP)
        wait_until(lambda: agent.log_lines("event=config.reloaded"), 10, "a reload")
        self.assertIn("these keys need a restart: metrics.listen", agent.log_lines("event=config.reloaded")[0])
        self.assertEqual(port_of(agent), port)
        self.assertEqual(get(agent, "/healthz")[0], 200)


if __name__ == "__main__":
    unittest.main()
