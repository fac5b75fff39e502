#!/usr/bin/python3
"""Faults of the volume, of its writers and of the index, met by a running agent."""

import os
import random
import shutil
import sqlite3
import statistics
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from agent import RpcError
from peer import Peer, add, delete, fact_path, update
from process import (MEMSYNCD, ProcessCase, Stream, contents, own_mounts, skip, states, wait_until)
from tiny_fuse import TinyFuse

PEER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support", "peer.py")
OTHER_UID = 65534
MOUNTS_REFUSED = None


def setUpModule():
    global MOUNTS_REFUSED
    MOUNTS_REFUSED = own_mounts()


def run(*command):
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def read_bytes(path):
    with open(path, "rb") as file:
        return file.read()


class Permissions(ProcessCase):
    """The agent runs as somebody whom modes bind."""

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            skip("starting the agent as another user needs root")
        self.wrapper = os.path.join(self.directory, "memsyncd")
        with open(self.wrapper, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nexec setpriv --reuid=%d --regid=%d --clear-groups %s \"$@\"\n"
                       % (OTHER_UID, OTHER_UID, MEMSYNCD))
        os.chmod(self.wrapper, 0o755)

    def give_away(self, path):
        run("chown", "-R", f"{OTHER_UID}:{OTHER_UID}", path)

    def unprivileged_agent(self, **options):
        self.give_away(self.directory)
        agent = self.agent(start=False, **options)
        agent.program = self.wrapper
        self.give_away(agent.directory)
        return agent.start()

    def test_a_user_who_may_not_be_read_is_refused_and_the_others_are_served(self):
        self.fill(users=3)
        lost = os.path.join(self.volume, "users", "lost+found")
        os.mkdir(lost)
        locked = self.peer.bucket("u3")
        os.chmod(lost, 0)
        os.chmod(locked, 0)
        agent = self.unprivileged_agent()
        for user in ("u1", "u2"):
            found = agent.rpc("search", query="amber", user_id=user)
            self.assertEqual(found["count"], 4)
            self.assertIn(states(found)[0], ("fresh", "refreshed"))
        for method in ("search", "list_facts", "get_memory"):
            with self.subTest(method=method), self.assertRaises(RpcError) as refusal:
                agent.rpc(method, user_id="u3", query="amber")
            self.assertEqual(refusal.exception.kind, "denied")
            self.assertIn("u3", refusal.exception.data["path"])
        for _ in range(5):
            with self.assertRaises(RpcError):
                agent.rpc("search", user_id="u3", query="amber")
        self.assertEqual(len(agent.log_lines("event=scope.unreadable user=u3")), 1,
                         "logged once, not per search")

        os.chmod(locked, 0o755)
        self.assertEqual(len(agent.search("amber", "u3")), 4)
        self.assertEqual(agent.rpc("status")["problems"], [])

    def test_rights_that_go_while_it_runs_leave_the_last_index(self):
        self.fill(users=2)
        agent = self.unprivileged_agent()
        self.wait_indexed(agent, 8)
        os.chmod(self.peer.bucket("u1"), 0)
        found = agent.rpc("search", query="amber", user_id="u1")
        self.assertEqual((found["count"], states(found)), (4, ["unverified"]))
        self.assertTrue(found["scopes"][0]["reason"])
        self.assertEqual(states(agent.rpc("search", query="amber", user_id="u2")), ["fresh"])
        os.chmod(self.peer.bucket("u1"), 0o755)
        self.assertEqual(states(agent.rpc("search", query="amber", user_id="u1"))[0], "fresh")

    def test_a_shard_that_may_not_be_read_takes_nothing_from_the_index(self):
        self.fill(users=1, facts=10)
        agent = self.unprivileged_agent()
        self.wait_indexed(agent, 10)
        fact = os.path.join(self.peer.bucket("u1"), fact_path("__default__", "fact_3"))
        shard = os.path.dirname(fact)
        self.peer.commit("u1", changes=[update("fact_1", "amber changed")],
                         at_step=lambda step, _: step == "fact" and os.chmod(shard, 0))
        found = agent.rpc("search", query="amber", user_id="u1", top_k=50)
        self.assertEqual((found["count"], states(found)), (10, ["unverified"]))
        os.chmod(shard, 0o755)
        found = agent.rpc("search", query="amber", user_id="u1", top_k=50)
        self.assertEqual((found["count"], states(found)[0] in ("fresh", "refreshed")), (10, True))
        self.assertIn("amber changed", contents(found))

    def test_a_fact_that_may_not_be_read_is_told_and_comes_back(self):
        self.fill(users=1)
        agent = self.unprivileged_agent()
        self.wait_indexed(agent, 4)
        relative = fact_path("__default__", "fact_2")
        path = os.path.join(self.peer.bucket("u1"), relative)
        self.peer.commit("u1", changes=[update("fact_2", "amber hidden")],
                         at_step=lambda step, _: step == "fact" and os.chmod(path, 0))
        found = agent.rpc("search", query="amber", user_id="u1")
        self.assertEqual((found["count"], found["scopes"][0].get("broken")), (3, 1))
        broken = agent.rpc("list_facts", user_id="u1")["broken"]
        self.assertEqual([entry["path"] for entry in broken], [f"users/u1/{relative}"])
        self.assertIn("ermission", broken[0]["problem"])
        os.chmod(path, 0o644)
        agent.rpc("refresh", user_id="u1", full=True)
        self.assertIn("amber hidden", agent.search("amber", "u1"))

    def test_an_index_directory_that_may_not_be_written_is_refused_with_its_path(self):
        index = os.path.join(self.directory, "index")
        os.mkdir(index)
        self.give_away(self.directory)
        os.chown(index, 0, 0)
        os.chmod(index, 0o755)
        agent = self.agent(start=False, index=index)
        agent.program = self.wrapper
        self.give_away(agent.directory)
        agent.start(wait=False)
        self.assertEqual(agent.wait_exit(), 1)
        self.assertIn(index, agent.log())


class Damage(ProcessCase):
    """Files of the volume that cannot be understood."""

    def write_bad(self, path, data):
        with open(path, "wb") as file:
            file.write(data)

    def test_one_broken_fact_is_reported_and_the_rest_is_served(self):
        self.fill(users=2)
        relative = fact_path("__default__", "fact_2")
        self.write_bad(os.path.join(self.peer.bucket("u1"), relative), b"---\nid: [\n---\n\nno\n")
        agent = self.agent()
        found = agent.rpc("search", query="amber", user_id="u1")
        self.assertEqual((found["count"], found["scopes"][0].get("broken")), (3, 1))
        listed = agent.rpc("list_facts", user_id="u1")
        self.assertEqual((listed["count"], len(listed["broken"])), (3, 1))
        self.assertEqual(listed["broken"][0]["path"], f"users/u1/{relative}")
        self.assertEqual(len(agent.search("amber", "u2")), 4)

        self.peer.remove(os.path.join(self.peer.bucket("u1"), relative))
        self.peer.commit("u1", changes=[add("fact_2", "amber mended")])
        found = agent.rpc("search", query="amber", user_id="u1")
        self.assertEqual((found["count"], "broken" in found["scopes"][0]), (4, False))

    def test_of_many_broken_facts_twenty_are_named_in_the_log_and_the_rest_counted(self):
        self.fill(users=1, facts=30)
        for number in range(1, 26):
            path = os.path.join(self.peer.bucket("u1"), fact_path("__default__", f"fact_{number}"))
            self.write_bad(path, b"---\nid: [\n---\n\nno\n")
        agent = self.agent()
        found = agent.rpc("search", query="amber", user_id="u1", top_k=100)
        self.assertEqual((found["count"], found["scopes"][0]["broken"]), (5, 25))
        self.assertEqual(len(agent.log_lines("event=fact.broken")), 20)
        more = agent.log_lines("event=fact.more")
        self.assertEqual(len(more), 1)
        self.assertIn("files=5", more[0])

    def test_a_fact_that_gets_broken_while_it_runs_is_not_served_any_more(self):
        self.fill(users=1)
        agent = self.agent()
        self.wait_indexed(agent, 4)
        path = os.path.join(self.peer.bucket("u1"), fact_path("__default__", "fact_2"))
        self.peer.commit("u1", changes=[update("fact_2", "amber cut")], at_step=lambda step, _:
                         step == "fact" and self.write_bad(path, b"---\nid: [\n---\n\nno\n"))
        found = agent.rpc("search", query="amber", user_id="u1")
        self.assertEqual((found["count"], found["scopes"][0].get("broken")), (3, 1))
        self.assertEqual(agent.rpc("verify", user_id="u1")["extra"], [])
        self.peer.remove(path)
        self.peer.commit("u1", changes=[add("fact_2", "amber mended")])
        found = agent.rpc("search", query="amber", user_id="u1")
        self.assertEqual((found["count"], "broken" in found["scopes"][0]), (4, False))
        self.assertTrue(agent.rpc("verify", user_id="u1")["ok"])

    def test_a_manifest_of_nul_bytes_leaves_the_last_index_until_it_is_good_again(self):
        self.fill(users=2)
        agent = self.agent()
        self.wait_indexed(agent, 8)
        path = self.peer.manifest_path("u1")
        good = read_bytes(path)
        self.write_bad(path, b"\0" * len(good))
        for _ in range(3):
            found = agent.rpc("search", query="amber", user_id="u1")
            self.assertEqual((found["count"], states(found)), (4, ["unverified"]))
        self.assertIn("memory.json", " ".join(agent.log_lines("event=scope.unreadable")))
        self.assertEqual(len(agent.log_lines("event=scope.unreadable user=u1")), 1)
        self.assertEqual(read_bytes(path), b"\0" * len(good), "left as it is")
        self.assertEqual(states(agent.rpc("search", query="amber", user_id="u2")), ["fresh"])
        self.write_bad(path, good)
        found = agent.rpc("search", query="amber", user_id="u1")
        self.assertEqual((found["count"], states(found)[0] in ("fresh", "refreshed")), (4, True))

    def test_a_manifest_that_is_written_in_two_halves_never_empties_an_answer(self):
        self.fill(users=1)
        agent = self.agent()
        self.wait_indexed(agent, 4)
        path = self.peer.manifest_path("u1")
        text = read_bytes(path).replace(b'"revision": 1', b'"revision": 2')
        with Stream(agent.endpoint, lambda client: client.rpc(
                "search", query="amber", user_id="u1")) as stream:
            stream.wait_for_more(5)
            with open(path, "wb", buffering=0) as file:
                file.write(text[:len(text) // 2])
                stream.wait_for_more(20)
                file.write(text[len(text) // 2:])
            stream.wait_for_more(5)
        for _, reply in stream.results:
            self.assertEqual(reply["count"], 4)
        last = stream.results[-1][1]["scopes"][0]
        self.assertEqual((last["revision"], last["state"]), (2, "fresh"))


class Locks(ProcessCase):
    """Somebody holds a user's lock in the middle of a commit, and does not come on."""

    def setUp(self):
        super().setUp()
        self.fill(users=4, facts=5)

    def hold(self, user):
        held = subprocess.Popen(
            [sys.executable, PEER, self.volume, "commit", "--user", user, "--no-sync", "--update",
             "fact_1", "amber torn", "--add", "fact_new", "amber torn too",
             "--hold-after", "manifest"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(held.communicate)
        self.assertEqual(held.stdout.readline(), "holding\n")
        return held

    def test_facts_and_summaries_are_of_one_revision_while_a_commit_is_under_way(self):
        self.peer.commit("u1", summary="the summary before")
        agent = self.agent()
        before = agent.rpc("get_memory", user_id="u1")["memory"]
        head = {key: value for key, value in before.items() if key != "facts"}
        seen = []

        def look(step, _):
            if step == "manifest":
                for method, freshness in (("get_memory", "strict"), ("export_memory", "strict"),
                                          ("get_summaries", "strict"), ("get_memory", "local")):
                    seen.append(agent.rpc(method, user_id="u1", freshness=freshness))

        self.peer.commit("u1", changes=[update("fact_1", "amber after")], summary="the summary after",
                         at_step=look)
        self.assertEqual([found["scope"]["state"] for found in seen], ["stale"] * 4)
        self.assertEqual([found["scope"]["revision"] for found in seen], [before["revision"]] * 4)
        self.assertEqual([found.get("memory") or found["summaries"] for found in seen],
                         [before, before, head, before])
        after = agent.rpc("get_memory", user_id="u1")
        self.assertIn(after["scope"]["state"], ("fresh", "refreshed"))
        self.assertEqual(after["memory"]["revision"], before["revision"] + 1)
        self.assertIn("the summary after", str(after["memory"]["user"]))
        self.assertIn("amber after", [fact["content"] for fact in after["memory"]["facts"]])

    def check_others_go_on(self, kind, client_count):
        agent = self.agent(config={"volume": {"kind": kind}, "ipc": {"threads": 3}})
        self.wait_indexed(agent, 20)
        search = lambda client: client.rpc("search", query="amber", user_id="u2")
        with Stream(agent.endpoint, search, pause_s=0.002) as stream:
            stream.wait_for_more(100)
            calm = statistics.median(seconds for seconds, _ in stream.results)

            held = self.hold("u1")
            before = len(stream.results)
            clients = [agent.client() for _ in range(client_count)]
            try:
                waiting = [(client, client.send("search", query="amber", user_id="u1",
                                                timeout_ms=1500))
                           for client in clients for _ in range(12 // client_count)]
                stream.wait_for_more(100, timeout_s=10)
                begun = time.monotonic()
                agent.rpc("status")
                self.assertLess(time.monotonic() - begun, 1.0)
                for client, request in waiting:
                    reply = client.reply(request, 6.0)
                    if "result" in reply:
                        self.assertIn(states(reply["result"])[0], ("stale", "unverified"))
                        self.assertEqual(len(reply["result"]["results"]), 5)
                        self.assertNotIn("amber torn", contents(reply["result"]))
                    else:
                        self.assertIn(reply["error"]["data"]["kind"], ("timeout", "busy"))
            finally:
                for client in clients:
                    client.close()
            others = stream.results[before:]
            for seconds, reply in others:
                self.assertEqual((reply["count"], states(reply)), (5, ["fresh"]))
            self.assertLess(statistics.median(seconds for seconds, _ in others),
                            max(20 * calm, 0.05))
            self.assertLess(max(seconds for seconds, _ in others), 1.0,
                            "nobody waits for somebody else's lock")

            held.communicate("\n")
        found = agent.rpc("search", query="amber", user_id="u1", top_k=10)
        self.assertEqual((found["count"], states(found)[0] in ("fresh", "refreshed")), (6, True))
        self.assertIn("amber torn", contents(found))

    def test_other_users_are_served_on_a_local_volume(self):
        self.check_others_go_on("local", 6)

    def test_other_users_are_served_on_a_network_volume(self):
        self.check_others_go_on("cluster", 6)

    def test_a_fact_that_may_exist_is_not_denied(self):
        agent = self.agent()
        self.wait_indexed(agent, 20)
        held = self.hold("u1")
        client = agent.client()
        self.addCleanup(client.close)

        def kind(**params):
            request = client.send("get_fact", fact_id="fact_new", user_id="u1", **params)
            return client.reply(request, 6.0)["error"]["data"]["kind"]

        self.assertEqual(kind(timeout_ms=3000), "unavailable")
        self.assertEqual(kind(freshness="local"), "not_found")
        held.communicate("\n")
        self.assertEqual(agent.rpc("get_fact", fact_id="fact_new", user_id="u1")["fact"]["id"],
                         "fact_new")

    def test_a_writer_that_died_is_rolled_back(self):
        agent = self.agent()
        self.wait_indexed(agent, 20)
        held = self.hold("u1")
        held.kill()
        held.wait()
        found = agent.rpc("search", query="amber", user_id="u1", top_k=10)
        self.assertEqual((found["count"], states(found)[0] in ("fresh", "refreshed")), (5, True))
        self.assertNotIn("amber torn", contents(found))
        self.assertNotIn(".memory.journal.json", os.listdir(self.peer.bucket("u1")))
        self.assertEqual(self.peer.commit("u1", changes=[add("fact_next", "amber next")]), 2)
        self.assertIn("amber next", agent.search("amber", "u1", top_k=10))

    def test_a_dead_writer_is_left_alone_where_nothing_may_be_written(self):
        agent = self.agent(config={"volume": {"read_only": True}})
        self.wait_indexed(agent, 20)
        held = self.hold("u1")
        held.kill()
        held.wait()
        journal = os.path.join(self.peer.bucket("u1"), ".memory.journal.json")
        before = read_bytes(journal)
        found = agent.rpc("search", query="amber", user_id="u1", top_k=10, timeout_ms=3000)
        self.assertNotIn(states(found)[0], ("fresh", "refreshed"))
        self.assertEqual(found["count"], 5)
        self.assertNotIn("amber torn", contents(found))
        self.assertEqual(read_bytes(journal), before)

    def test_peers_never_time_out_because_of_reading(self):
        agent = self.agent()
        with Stream(agent.endpoint, lambda client: client.rpc(
                "search", query="amber", user_id="u1", top_k=50)) as first, \
            Stream(agent.endpoint, lambda client: client.rpc(
                "list_facts", user_id="u1")) as second:
            longest = 0.0
            for number in range(80):
                begun = time.monotonic()
                self.peer.commit("u1", changes=[update("fact_1", f"amber steady {number}"),
                                                update("fact_2", f"amber steady {number} too")])
                longest = max(longest, time.monotonic() - begun)
        self.assertLess(longest, 3.0)
        for stream in (first, second):
            for _, reply in stream.results:
                self.assertIsInstance(reply, dict, reply)
        for _, reply in first.results:
            steps = {text.split()[2] for text in contents(reply) if "steady" in text}
            self.assertLessEqual(len(steps), 1, "both facts come from one commit")


class Mounts(ProcessCase):
    """The volume goes, another one or nothing lies in its place, and it comes back."""

    def setUp(self):
        super().setUp()
        if MOUNTS_REFUSED:
            skip(f"mounts of one's own: {MOUNTS_REFUSED}")
        self.real = os.path.join(self.directory, "real")
        self.other = os.path.join(self.directory, "other")
        for path in (self.real, self.other):
            os.mkdir(path)
            run("mount", "-t", "tmpfs", "-o", "size=8m", "none", path)
            self.addCleanup(subprocess.run, ["umount", "-l", path], check=False)
        self.addCleanup(self.unmount_all)
        self.peer = Peer(self.real, durable=False)
        self.fill(users=3)
        Peer(self.other, durable=False).commit("u1", changes=[add("fact_x", "amber of another")])
        self.mount(self.real)

    def mount(self, path, *options):
        run("mount", "--bind", path, self.volume)
        if options:
            run("mount", "-o", "remount,bind," + ",".join(options), self.volume)

    def unmount(self):
        run("umount", "-l", self.volume)

    def unmount_all(self):
        while os.path.ismount(self.volume):
            self.unmount()

    def wait_suspended(self, agent, suspended=True):
        return agent.wait_until(
            lambda: agent.rpc("status")["volume"]["suspended"] == suspended,
            what="suspended" if suspended else "resumed")

    def check_suspended(self, agent):
        self.wait_suspended(agent)
        for _ in range(3):
            for user in ("u1", "u2", "u3"):
                found = agent.rpc("search", query="amber", user_id=user)
                self.assertEqual((found["count"], states(found)), (4, ["unverified"]))
                self.assertTrue(found["scopes"][0]["reason"])
        status = agent.rpc("status")
        self.assertEqual(status["index"]["facts"], 12)
        self.assertTrue(status["problems"])
        self.assertEqual(len(agent.log_lines("event=volume.suspended")), 1)

    def check_resumed(self, agent):
        self.wait_suspended(agent, False)
        found = agent.rpc("search", query="amber", user_id="u1", top_k=10)
        self.assertIn(states(found)[0], ("fresh", "refreshed"))
        return found

    def test_unmounted_and_mounted_again(self):
        agent = self.agent(config={"sync": {"poll_interval_min_ms": 50,
                                            "poll_interval_max_ms": 200}})
        self.wait_indexed(agent, 12)
        self.unmount()
        self.check_suspended(agent)
        self.assertEqual(os.listdir(self.volume), [], "nothing is written into the mount point")
        self.peer.commit("u1", changes=[add("fact_gap", "amber gap"), delete("fact_1")])
        self.mount(self.real)
        found = self.check_resumed(agent)
        self.assertIn("amber gap", contents(found))
        self.assertEqual(found["count"], 4)
        self.peer.commit("u2", changes=[add("fact_later", "amber later")])
        self.assertIn("amber later", agent.search("amber", "u2", top_k=10))
        agent.wait_until(lambda: agent.rpc("status")["problems"] == [],
                         what="a status without problems, though nobody searches u3")

    def test_events_of_the_returned_volume_are_seen(self):
        agent = self.agent(config={"sync": {"poll_interval_min_ms": 3600000,
                                            "poll_interval_max_ms": 86400000}})
        self.wait_indexed(agent, 12)
        self.unmount()
        self.wait_suspended(agent)
        self.mount(self.real)
        self.check_resumed(agent)
        self.peer.commit("u3", changes=[add("fact_later", "amber later")])
        self.wait_indexed(agent, 13)

    def test_another_volume_in_its_place_changes_nothing_until_it_is_accepted(self):
        agent = self.agent()
        self.wait_indexed(agent, 12)
        self.unmount()
        self.mount(self.other)
        self.check_suspended(agent)
        agent.rpc("refresh", all=True, accept_volume=True)
        found = agent.wait_until(lambda: [
            reply for reply in [agent.rpc("search", query="amber", user_id="u1")]
            if contents(reply) == ["amber of another"]])[0]
        self.assertIn(states(found)[0], ("fresh", "refreshed"))
        self.assertEqual(agent.search("amber", "u2"), [])
        self.wait_indexed(agent, 1)

    def test_started_while_the_volume_is_not_mounted(self):
        agent = self.agent()
        self.wait_indexed(agent, 12)
        agent.stop()
        self.unmount()
        agent.start()
        for user in ("u1", "u2", "u3"):
            found = agent.rpc("search", query="amber", user_id=user)
            self.assertEqual((found["count"], states(found)), (4, ["unverified"]))
        self.assertEqual(os.listdir(self.volume), [])
        self.mount(self.real)
        self.assertEqual(self.check_resumed(agent)["count"], 4)
        self.wait_indexed(agent, 12)

    def test_gone_for_a_moment_again_and_again_while_searches_go_on(self):
        agent = self.agent()
        self.wait_indexed(agent, 12)
        with Stream(agent.endpoint, lambda client: client.rpc(
                "search", query="amber", user_id="u2")) as stream:
            for place in (None, self.other, None, self.other):
                self.unmount()
                if place:
                    self.mount(place)
                time.sleep(0.3)
                if place:
                    self.unmount()
                self.mount(self.real)
                time.sleep(0.1)
            self.wait_suspended(agent, False)
            stream.wait_for_more(5)
        for _, reply in stream.results:
            self.assertIsInstance(reply, dict, reply)
            self.assertEqual(reply["count"], 4, reply["scopes"])
        self.assertEqual(stream.results[-1][1]["scopes"][0]["state"], "fresh")
        self.wait_indexed(agent, 12)

    def test_a_read_only_mount_is_served_and_followed(self):
        self.unmount()
        self.mount(self.real, "ro")
        agent = self.agent()
        self.wait_indexed(agent, 12)
        self.assertFalse(agent.rpc("status")["volume"]["writable"])
        self.peer.commit("u1", changes=[add("fact_new", "amber new")])
        found = agent.rpc("search", query="amber", user_id="u1", top_k=10)
        self.assertEqual((found["count"], states(found)[0] in ("fresh", "refreshed")), (5, True))
        self.assertFalse(os.path.exists(os.path.join(self.real, ".memsyncd")))

    def test_a_volume_that_comes_back_read_only(self):
        agent = self.agent()
        self.wait_indexed(agent, 12)
        for options, wanted in ((("ro",), False), ((), True)):
            self.unmount()
            self.wait_suspended(agent)
            self.mount(self.real, *options)
            self.check_resumed(agent)
            self.assertIs(agent.rpc("status")["volume"]["writable"], wanted)
            if wanted:
                agent.rpc("create_fact", user_id="u1", content="amber written")
                continue
            with self.assertRaises(RpcError) as refusal:
                agent.rpc("create_fact", user_id="u1", content="amber refused")
            self.assertEqual(refusal.exception.kind, "denied")
        self.assertEqual(agent.search("refused", "u1"), [])

    def test_read_only_by_configuration_writes_nothing(self):
        def snapshot():
            return sorted((path, sorted(files)) for path, _, files in os.walk(self.real))
        before = snapshot()
        agent = self.agent(config={"volume": {"read_only": True}})
        self.wait_indexed(agent, 12)
        self.assertEqual(len(agent.search("amber", "u1")), 4)
        agent.restart()
        self.assertEqual(len(agent.search("amber", "u1")), 4)
        self.assertEqual(snapshot(), before)

    def test_an_index_on_fuse_is_refused_unless_it_is_allowed(self):
        place = os.path.join(self.directory, "fuse")
        os.mkdir(place)
        try:
            mounted = TinyFuse(place)
        except OSError as error:
            skip(f"a FUSE mount: {error}")
        with mounted:
            agent = self.agent(start=False, index=place)
            agent.start(wait=False)
            self.assertEqual(agent.wait_exit(), 1)
            said = agent.log_lines("event=agent.start")[0]
            for part in (place, self.volume, "index.path", "index.allow_network", "fuse"):
                self.assertIn(part, said)

            agent.set_config({"index": {"allow_network": True}})
            agent.start(wait=False)
            self.assertEqual(agent.wait_exit(), 1, "this one cannot make files")
            self.assertNotIn("index.allow_network", agent.log_lines("event=agent.start")[1])

    def test_a_volume_on_fuse_is_taken_for_one_whose_locks_reach_nobody(self):
        place = os.path.join(self.directory, "fuse")
        os.mkdir(place)
        try:
            mounted = TinyFuse(place)
        except OSError as error:
            skip(f"a FUSE mount: {error}")
        with mounted:
            agent = self.agent(volume=place)
            self.assertEqual(agent.rpc("status")["volume"]["kind"], "unknown")
            agent.stop()


class FullDisk(ProcessCase):
    def setUp(self):
        super().setUp()
        if MOUNTS_REFUSED:
            skip(f"mounts of one's own: {MOUNTS_REFUSED}")
        self.index = os.path.join(self.directory, "index")
        os.mkdir(self.index)

    def mount_index(self, size):
        run("mount", "-t", "tmpfs", "-o", f"size={size}", "none", self.index)
        self.addCleanup(subprocess.run, ["umount", "-l", self.index], check=False)

    def test_an_index_without_room_says_so_and_answers_what_it_can(self):
        self.fill(users=2)
        self.mount_index("1m")
        agent = self.agent(index=self.index)
        self.wait_indexed(agent, 8)
        self.peer.commit("big", changes=[
            add(f"fact_{number}", f"amber {number} " + " ".join(
                f"{random.Random(number * 1000 + i).getrandbits(64):x}" for i in range(250)))
            for number in range(200)])
        for _ in range(3):
            try:
                found = agent.rpc("search", query="amber", user_id="big", timeout_ms=3000)
                self.assertNotIn(states(found)[0], ("fresh", "refreshed"))
            except RpcError as refusal:
                self.assertIn(refusal.kind, ("storage_full", "unavailable", "timeout"))
                self.assertRegex(refusal.message, "(?i)full|space|room")
        for user in ("u1", "u2"):
            found = agent.rpc("search", query="amber", user_id=user)
            self.assertEqual((found["count"], states(found)), (4, ["fresh"]))
        self.assertRegex(" ".join(agent.log_lines("kind=storage_full")), "big")
        self.assertTrue(agent.rpc("status")["problems"])

        run("mount", "-o", "remount,size=64m", self.index)
        found = agent.wait_until(lambda: [
            reply for reply in [agent.rpc("search", query="amber", user_id="big", top_k=500)]
            if states(reply)[0] in ("fresh", "refreshed")])[0]
        self.assertEqual(found["count"], 200)
        self.assertFalse(agent.log_lines("event=index.rebuild"), "a full disk is no damage")

    def test_no_room_at_all_is_told_at_the_start(self):
        self.mount_index("8k")
        agent = self.agent(start=False, index=self.index)
        agent.start(wait=False)
        self.assertEqual(agent.wait_exit(), 1)
        self.assertRegex(agent.log_lines("event=agent.start")[0], "(?i)storage_full.*(full|space)")


class IndexLoss(ProcessCase):
    """The index's files are damaged, removed or replaced. Searches go on all the time."""

    USERS, FACTS = 4, 6

    def setUp(self):
        super().setUp()
        self.fill(users=self.USERS, facts=self.FACTS)
        self.running = self.agent()
        self.settle()
        self.file = os.path.join(self.running.index, "memsyncd.sqlite3")

    def settle(self):
        return self.wait_indexed(self.running, self.USERS * self.FACTS)

    def attack(self, damage):
        """Searches without an end, one stream a user, while the index suffers `damage`."""
        streams = [Stream(self.running.endpoint, lambda client, user=user: client.rpc(
            "search", query="amber", user_id=user, top_k=50), pause_s=0.002)
            for user in ("u1", "u2")]
        try:
            for stream in streams:
                stream.wait_for_more(20)
            damage()
            rebuilt = self.running.wait_until(
                lambda: self.running.log_lines("event=index.rebuild"), what="a rebuild")
            for stream in streams:
                stream.wait_for_more(20)
        finally:
            for stream in streams:
                stream.stop()
        for stream in streams:
            for _, reply in stream.results:
                self.check_honest(reply)
        status = self.settle()
        self.assertEqual((status["problems"], status["index"]["damaged"]), ([], False))
        self.check_all_found()
        return rebuilt

    def check_honest(self, reply):
        if isinstance(reply, RpcError):
            self.assertIn(reply.kind, ("unavailable", "timeout"), reply)
            return
        self.assertIsInstance(reply, dict, reply)
        if reply["count"] != self.FACTS:
            self.assertNotIn(states(reply)[0], ("fresh", "refreshed"), reply)
            self.assertFalse(reply["count"] == 0, "an empty success")

    def check_all_found(self):
        for user in range(1, self.USERS + 1):
            found = self.running.rpc("search", query="amber", user_id=f"u{user}", top_k=50)
            self.assertEqual((found["count"], states(found)[0] in ("fresh", "refreshed")),
                             (self.FACTS, True))
            self.assertTrue(self.running.rpc("verify", user_id=f"u{user}")["ok"])

    def test_its_directory_is_removed(self):
        self.attack(lambda: shutil.rmtree(self.running.index))
        self.assertTrue(os.path.exists(self.file))

    def test_its_file_is_removed(self):
        self.attack(lambda: os.unlink(self.file))
        self.assertTrue(os.path.exists(self.file))

    def test_its_log_is_removed(self):
        def damage():
            for suffix in ("-wal", "-shm"):
                if os.path.exists(self.file + suffix):
                    os.unlink(self.file + suffix)
        self.attack(damage)

    def test_a_copy_is_renamed_over_it(self):
        def damage():
            shutil.copy(self.file, self.file + ".copy")
            os.rename(self.file + ".copy", self.file)
            self.peer.commit("u3", changes=[update("fact_1", "amber in the gap")])
        self.attack(damage)
        self.assertIn("amber in the gap", self.running.search("amber", "u3", top_k=50))

    def test_random_bytes_in_its_middle(self):
        def damage():
            noise = random.Random(7)
            size = os.path.getsize(self.file)
            with open(self.file, "r+b") as file:
                for at in range(4096, size, 4096):
                    file.seek(at)
                    file.write(noise.randbytes(4096))
            for user in range(1, self.USERS + 1):
                self.peer.commit(f"u{user}", changes=[update("fact_1", "amber after the noise")])
        self.running.stop()
        self.running.start()  # a clean end has brought everything from the log into the file
        self.settle()
        lines = self.attack(damage)
        self.assertRegex(lines[0], "malformed|corrupt|not a database|damaged")

    def cut(self, contents):
        """Ends the agent first, so that all is in the file and nothing in its log, and damages the
        file in place, which a mapped file would not let a process survive."""
        def damage():
            with open(self.file, "wb") as file:
                file.write(contents)
            for user in range(1, self.USERS + 1):
                self.peer.commit(f"u{user}", changes=[update("fact_1", "amber after the cut")])
        self.running.stop()
        self.running.start()
        self.settle()
        lines = self.attack(damage)
        self.assertTrue(self.running.is_running())
        return lines

    def test_its_file_is_cut_to_nothing(self):
        self.assertNotRegex(self.cut(b"")[0], "removed|replaced")

    def test_its_file_is_overwritten_in_place_with_a_few_words(self):
        self.cut(b"not a database at all\n")

    def test_its_file_is_overwritten_in_place_with_zeroes(self):
        self.cut(bytes(65536))

    def rewrite(self, *statements):
        """Changes the stopped agent's database behind its back."""
        self.running.kill()
        with sqlite3.connect(self.file) as database:
            for statement in statements:
                database.execute(statement)
        database.close()
        self.running.start()

    def check_rebuilt(self):
        self.check_all_found()
        status = self.settle()
        self.assertFalse(status["index"]["damaged"])

    def test_half_of_its_words_were_deleted_while_it_was_down(self):
        self.rewrite("DELETE FROM fts_data WHERE id % 2 = 0 AND id > 10")
        self.check_rebuilt()

    def test_a_shadow_table_was_dropped_while_it_was_down(self):
        self.rewrite("PRAGMA writable_schema = ON",
                     "DELETE FROM sqlite_schema WHERE name = 'fts_idx'")
        self.check_rebuilt()

    def test_its_schema_is_of_another_version(self):
        self.rewrite("PRAGMA user_version = 4711")
        self.check_rebuilt()

    def test_what_is_no_database_is_set_aside(self):
        self.running.kill()
        for suffix in ("-wal", "-shm"):
            if os.path.exists(self.file + suffix):
                os.unlink(self.file + suffix)
        with open(self.file, "wb") as file:
            file.write(b"not a database at all " * 500)
        neighbour = os.path.join(self.running.index, "memory_index.sqlite3")
        with open(neighbour, "wb") as file:
            file.write(b"somebody else's")
        self.running.start()
        self.check_rebuilt()
        self.assertEqual(read_bytes(neighbour), b"somebody else's")
        aside = [name for name in os.listdir(self.running.index)
                 if name.startswith("memsyncd.sqlite3.")]
        self.assertTrue(aside, "kept for whoever wants to know")


if __name__ == "__main__":
    unittest.main()
