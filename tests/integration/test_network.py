#!/usr/bin/python3
"""What network volumes do to those who read and write them: caches that are old, clocks that are coarse, errors,
locks that do not lock, files that stay, volumes that go. Two nodes have an agent each; a third party works at the
server, and so past all caches."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from agent import DEFAULT_AGENT, Client, RpcError
from network import POLLING, PROVEN, REACHING, SECOND_LOOK, UNTOLD, Nodes
from peer import Peer, RewritingPeer, Stopped, add, delete, fact_path, update
from process import MEMSYNC, contents, states, wait_until


class Caches(Nodes):
    """A minute of everything that a client may keep."""

    def test_a_write_on_one_node_is_in_the_next_search_on_the_other(self):
        a, b = self.start()
        self.cache()
        wanted = self.texts()
        self.expect(b, wanted)
        for number in range(8):
            writer, reader = (a, b) if number % 2 else (b, a)
            text = f"amber written{number}"
            writer.rpc("create_fact", user_id="u1", content=text)
            wanted.append(text)
            self.expect(reader, wanted)
            self.expect(writer, wanted)
        made = a.rpc("search", user_id="u1", query="written7")["results"][0]["fact"]
        a.rpc("update_fact", user_id="u1", fact_id=made["id"], content="amber rewritten")
        wanted[-1] = "amber rewritten"
        self.expect(b, wanted)
        b.rpc("delete_fact", user_id="u1", fact_id=made["id"])
        self.expect(a, wanted[:-1])

    def test_a_third_partys_changes_are_in_the_next_search(self):
        a, b = self.start()
        self.cache()
        for agent in (a, b):
            self.expect(agent, self.texts())
        self.peer.commit("u1", changes=[add("fact_5", "amber five"), delete("fact_1"),
                                        update("fact_2", "amber second")])
        wanted = ["amber five", "amber second"] + self.texts(numbers=(3, 4))
        for agent in (a, b):
            self.expect(agent, wanted)

    def test_a_user_who_was_not_there_when_asked_for_is_found(self):
        a, b = self.start()
        self.cache()
        for agent in (a, b):
            found = self.search(agent, user="newcomer")
            self.assertEqual(found["count"], 0)
        a.rpc("create_fact", user_id="newcomer", content="amber first")
        self.expect(b, ["amber first"], user="newcomer")
        self.peer.commit("another", changes=[add("fact_1", "amber other")])
        for agent in (a, b):
            self.expect(agent, ["amber other"], user="another")

    def test_an_agent_and_a_shard_that_were_not_there_are_found(self):
        a, b = self.start()
        self.cache()
        self.assertEqual(b.rpc("search", user_id="u1", agent_name="helper", query="amber")["count"], 0)
        self.peer.commit("u1", "helper", changes=[add("fact_1", "amber help")])
        for agent in (a, b):
            found = agent.rpc("search", user_id="u1", agent_name="helper", query="amber")
            self.assertEqual(contents(found), ["amber help"])
        made = [f"fact_s{number}" for number in range(40)]
        self.peer.commit("u1", changes=[add(name, f"shard {name}") for name in made])
        for agent in (a, b):
            self.assertEqual(self.search(agent, "shard")["count"], 40)

    def test_a_journal_that_was_not_there_is_seen(self):
        """A dead writer's change is taken back although both nodes have learnt that there is no journal."""
        a, b = self.start()
        self.cache()
        for agent in (a, b):
            self.expect(agent, self.texts())
        self.die("fact", 1)
        for agent in (b, a):
            self.expect_soon(agent, self.texts())
        a.rpc("create_fact", user_id="u2", content="amber free")
        b.rpc("create_fact", user_id="u1", content="amber after")
        self.expect(a, self.texts() + ["amber after"])
        self.expect_nothing_left()

    def die(self, step, number=0):
        def at_step(reached, reached_number):
            if (reached, reached_number) == (step, number):
                raise Stopped()
        with self.assertRaises(Stopped):
            self.peer.commit("u1", changes=[update("fact_1", "amber half"), add("fact_9", "amber half two"),
                                            delete("fact_2")], at_step=at_step)

    def test_writers_that_die_at_each_step_leave_the_old_or_the_new_state(self):
        a, b = self.start()
        self.cache()
        new = ["amber half", "amber half two"] + self.texts(numbers=(3, 4))
        for step, number, wanted in (("journal", 0, self.texts()), ("fact", 1, self.texts()),
                                     ("fact", 2, self.texts()), ("fact", 3, self.texts()),
                                     ("manifest", 0, self.texts()), ("committed", 0, new)):
            with self.subTest(step=step, number=number):
                self.die(step, number)
                for agent in (a, b):
                    self.expect_soon(agent, wanted)
                made = b.rpc("create_fact", user_id="u1", content="amber probe")
                self.expect(a, wanted + ["amber probe"])
                a.rpc("delete_fact", user_id="u1", fact_id=made["fact"]["id"])
                self.expect_nothing_left()

    def test_no_name_is_looked_up_that_the_latest_listing_did_not_show(self):
        a, _ = self.start()
        self.cache(0)
        self.net.trace_on()
        self.expect(a, self.texts())
        self.peer.commit("u1", changes=[add("fact_7", "amber seven"), delete("fact_1")])
        self.expect(a, self.texts(numbers=(2, 3, 4)) + ["amber seven"])
        for user in ("nobody", "noone"):
            self.assertEqual(self.search(a, user=user)["count"], 0)
        a.rpc("get_memory", user_id="u1")
        a.rpc("list_facts", user_id="u2")
        self.assertEqual(a.rpc("search", user_id="u2", agent_name="ghost", query="amber")["count"], 0)
        records = self.net.trace()
        misses = [record for record in records
                  if record["operation"] == "lookup" and record["node"] == 0
                  and record.get("error") == "ENOENT"]
        self.assertEqual(misses, [], "a client remembers for a minute that it was not there")
        self.assertTrue(any(record["operation"] == "lookup" for record in records))
        self.assertTrue(any(record["operation"] == "readdir" for record in records))


class Lags(Nodes):
    """What a client keeps although it is told not to: no force helps, only time."""

    def start_with_old_listings(self):
        """Node 0 remembers those of a commit."""
        a, b = self.start(config=SECOND_LOOK)
        self.net.node(0).set("listing_lag_s", 2)
        self.expect(a, self.texts())
        self.peer.commit("u1", changes=[update("fact_1", "amber one again")])
        self.search(a)
        return a, b

    def test_a_new_manifest_with_an_old_listing(self):
        a, b = self.start_with_old_listings()
        self.peer.commit("u1", changes=[add("fact_z", "amber zed")])
        self.search(a)  # the manifest is new, the listings are not
        wanted = ["amber one again", "amber zed"] + self.texts(numbers=(2, 3, 4))
        self.expect(b, wanted)
        self.wait_found(a, "u1", wanted)  # nobody searches: by the second look alone
        self.expect(a, wanted)

    def test_a_fact_that_only_an_old_listing_shows(self):
        a, b = self.start_with_old_listings()
        self.peer.commit("u1", changes=[delete("fact_2")])
        found = self.search(a)
        if states(found)[0] in PROVEN:
            self.assertNotIn(self.texts()[1], contents(found))
        wanted = ["amber one again"] + self.texts(numbers=(3, 4))
        self.expect(b, wanted)
        self.wait_found(a, "u1", wanted)
        self.expect(a, wanted)

    def test_fresh_bytes_under_old_attributes(self):
        """A third party writes files in place; node 0 is told what their attributes were."""
        a, b = self.start(config=SECOND_LOOK)
        self.net.node(0).set("attr_lag_s", 2)
        rewriting = RewritingPeer(self.net.backing, durable=False)
        self.expect(a, self.texts())
        for number in range(1, 4):
            rewriting.commit("u1", changes=[update("fact_1", "amber changed" + " again" * number)])
            wanted = ["amber changed" + " again" * number] + self.texts(numbers=(2, 3, 4))
            found = self.search(a)
            self.assertIn(self.texts()[1], contents(found), "never half of it, never nothing")
            self.expect_soon(a, wanted)
            self.expect_soon(b, wanted)

    def test_a_name_that_was_not_there_a_moment_ago(self):
        a, _ = self.start(config=SECOND_LOOK)
        self.net.node(0).set("negative_lag_s", 2)
        for number in range(5):
            self.assertEqual(self.search(a, user="later")["count"], 0)
        self.peer.commit("later", changes=[add("fact_1", "amber late")])
        self.expect_soon(a, ["amber late"], user="later")


class Times(Nodes):
    def change_within_ticks(self, grain_ns):
        a, b = self.start()
        self.net.set("time_grain_ns", grain_ns)
        self.expect_soon(a, self.texts())
        for number in range(12):
            text = f"amber t{number % 10}"
            self.peer.commit("u1", changes=[update("fact_1", text)])
            wanted = [text] + self.texts(numbers=(2, 3, 4))
            self.expect(a, wanted)
            if number % 3 == 0:
                self.expect(b, wanted)

    def test_changes_within_ten_milliseconds_of_one_tick(self):
        self.change_within_ticks(10_000_000)

    def test_changes_within_a_second_of_one_tick(self):
        self.change_within_ticks(1_000_000_000)

    def test_changes_within_two_seconds_of_one_tick(self):
        self.change_within_ticks(2_000_000_000)

    def test_a_server_whose_clock_is_wrong_and_is_put_right(self):
        a, b = self.start()
        for offset_ms in (86_000_000, -86_000_000, 0):
            self.net.set("clock_offset_ms", offset_ms)
            text = f"amber {offset_ms}"
            self.peer.commit("u1", changes=[update("fact_1", text)])
            for agent in (a, b):
                self.expect(agent, [text] + self.texts(numbers=(2, 3, 4)))

    def test_a_backup_with_the_same_time_size_and_revision_is_put_back(self):
        a, b = self.start()
        bucket = self.peer.bucket("u1")
        saved = os.path.join(self.directory, "saved")
        shutil.copytree(bucket, saved)
        self.peer.commit("u1", changes=[update("fact_1", "amber numberX of user1")])
        for agent in (a, b):
            self.expect(agent, ["amber numberX of user1"] + self.texts(numbers=(2, 3, 4)))
        os.rename(bucket, os.path.join(self.directory, "old"))
        shutil.copytree(saved, bucket)
        for agent in (a, b):
            self.expect(agent, self.texts())


class Watching(Nodes):
    """Nothing tells a node what others did; polling finds it, unasked."""

    def test_a_fact_of_another_node(self):
        a, b = self.start(config=POLLING)
        a.rpc("create_fact", user_id="u1", content="amber told")
        self.wait_found(b, "u1", self.texts() + ["amber told"])

    def test_a_tree_moved_in_and_out_on_another_node(self):
        a, b = self.start(config=POLLING)
        self.cache(5)
        outside = Peer(os.path.join(self.directory, "outside"), durable=False)
        os.mkdir(outside.root)
        outside.commit("u9", changes=[add(f"fact_{number}", f"amber moved{number}")
                                      for number in range(12)])
        moved = [f"amber moved{number}" for number in range(12)]
        shutil.move(outside.bucket("u9"), os.path.join(self.net.node(1).path, "users", "u9"))
        for agent in (a, b):
            self.wait_found(agent, "u9", moved)
            self.expect(agent, moved, user="u9")
        shutil.move(os.path.join(self.net.node(1).path, "users", "u9"), outside.bucket("u9"))
        for agent in (a, b):
            self.expect_soon(agent, [], user="u9")

    def test_a_directory_made_again_under_its_name(self):
        a, b = self.start(config=POLLING)
        self.cache(5)
        shutil.rmtree(self.peer.bucket("u1"))
        self.peer.commit("u1", changes=[add("fact_7", "amber seven"), add("fact_8", "amber eight")])
        time.sleep(1)
        self.peer.commit("u1", changes=[add("fact_9", "amber nine")])
        for agent in (a, b):
            self.expect_soon(agent, ["amber seven", "amber eight", "amber nine"])


class Doctor(Nodes):
    def test_it_tells_how_old_a_listing_may_be(self):
        done = subprocess.run([MEMSYNC, "doctor", "--json", self.net.node(0).path], text=True,
                              capture_output=True, timeout=60, check=False)
        told = [one for one in json.loads(done.stdout)["findings"] if one["check"] == "caches"]
        self.assertEqual([one["level"] for one in told], ["info"])
        self.assertIn("60 s old", told[0]["message"])
        self.assertIn("volume.cache_ms", told[0]["cure"])
        a, _ = self.start(config=SECOND_LOOK)
        self.assertEqual(a.rpc("status")["volume"]["settle_ms"], 5000)


class Errors(Nodes):
    """Errors of node 0; the other node and other users are not concerned."""

    def expect_others_served(self, b):
        self.expect(self.agents[0], self.texts(2), user="u2")
        self.expect(b, self.texts())

    def test_estale_once_is_only_another_try(self):
        a, _ = self.start()
        for number, (operation, path) in enumerate((
                ("open", "users/u1/memory.json"), ("getattr", "users/u1/memory.json"),
                ("read", "users/u1/memory.json"), ("opendir", "users/u1"),
                ("readdir", "users/u1/agents/*"), ("open", "*.md"), ("read", "*.md"))):
            with self.subTest(operation=operation, path=path):
                text = f"amber e{number}"
                with self.net.node(0).fail(operation, path, "ESTALE", count=1) as rule:
                    self.peer.commit("u1", changes=[update("fact_1", text)])
                    self.expect(a, [text] + self.texts(numbers=(2, 3, 4)))
                    self.assertEqual(rule.fired(), 1)

    def test_no_error_of_a_listing_or_a_file_takes_facts_out_of_the_index(self):
        a, b = self.start(users=2, facts=40)
        wanted = self.texts(numbers=range(1, 41))
        for operation, path, errno_name, options in (
                ("opendir", "users/u1/agents/*", "EIO", {}),
                ("opendir", "users/u1/agents/__default__/facts/*", "EIO", {}),
                ("readdir", "users/u1/agents/__default__/facts/*", "EIO", {"after": 2}),
                ("readdir", "users/u1/agents/*/facts", "ESTALE", {}),
                ("opendir", "users/u1", "EACCES", {}),
                ("open", "users/u1/memory.json", "EIO", {}),
                ("open", "users/u1/memory.json", "EACCES", {}),
                ("read", "users/u1/memory.json", "EIO", {}),
                ("getattr", "users/u1/*", "EIO", {}),
                ("open", "users/u1/*.md", "EIO", {}),
                ("any", "users/u1*", "ENOTCONN", {}),
                ("any", "users*", "ESTALE", {})):
            with self.subTest(operation=operation, path=path, errno=errno_name):
                wanted[0] = f"amber changed by {operation} {path} {errno_name}"
                with self.net.node(0).fail(operation, path, errno_name, **options) as rule:
                    self.peer.commit("u1", changes=[update("fact_1", wanted[0])])
                    found = self.search(a)
                    self.assertGreaterEqual(rule.fired(), 1)
                    if states(found)[0] in PROVEN:
                        self.assertEqual(contents(found), sorted(wanted))
                    else:
                        self.assertEqual(found["count"], 40, "the last index, whole")
                    self.expect(b, wanted)
                    if "users*" != path:
                        self.expect(a, self.texts(2, range(1, 41)), user="u2")
                self.expect_soon(a, wanted)

    def test_users_that_cannot_be_listed_are_told_once_and_found_later(self):
        a, _ = self.start(config=POLLING)
        with self.net.node(0).fail("opendir", "users", "EIO"):
            wait_until(lambda: a.log_lines("event=volume.listing"), 20, "a line about the listing")
            self.peer.commit("u7", changes=[add("fact_1", "amber seven")])
            time.sleep(1)
            self.assertEqual(len(a.log_lines("event=volume.listing")), 1)
        def is_found():
            return [one for one in a.rpc("scopes")["scopes"] if one["user_id"] == "u7"]
        wait_until(is_found, 20, "the new user, unasked")
        self.expect(a, self.texts())

    def test_a_directory_that_may_not_be_read_is_refused_by_name(self):
        self.fill(users=2)
        with self.net.node(0).fail("any", "users/u1*", "EACCES"):
            a = self.node_agent(0, config=REACHING)
            self.wait_indexed(a, 4)
            with self.assertRaises(RpcError) as refusal:
                self.search(a)
            self.assertEqual(refusal.exception.kind, "denied")
            self.assertIn("users/u1", refusal.exception.data["path"])
            self.expect(a, self.texts(2), user="u2")
        self.expect_soon(a, self.texts())

    def refuse_a_fact(self, restart):
        """Its refusal passes, and nothing on the volume moves for it."""
        a, _ = self.start()
        others = self.texts(numbers=range(2, 5))
        with self.net.node(0).fail("open", "*/fact_1.md", "EACCES"):
            self.peer.commit("u1", changes=[update("fact_1", "amber again")])
            found = self.expect_soon(a, others)
            self.assertEqual(found["scopes"][0]["broken"], 1)
            if restart:
                a.restart()
                self.expect_soon(a, others)
        found = self.expect_soon(a, others + ["amber again"])
        self.assertNotIn("broken", found["scopes"][0])

    def test_a_fact_that_may_not_be_read_is_told_and_found_when_it_may(self):
        self.refuse_a_fact(restart=False)

    def test_a_fact_that_might_not_be_read_before_a_restart_is_found_when_it_may(self):
        self.refuse_a_fact(restart=True)

    def test_a_look_at_the_root_that_is_interrupted_is_no_other_volume(self):
        """Commits look whether the path still leads to the volume, before and after."""
        a, _ = self.start()
        with self.net.node(0).fail("getattr", ".", "EINTR", probability=0.3) as rule:
            for number in range(15):
                a.rpc("create_fact", user_id="u2", content=f"slate {number}")
            self.assertGreater(rule.fired(), 0)

    def test_a_full_volume_changes_nothing(self):
        a, b = self.start()
        made = a.rpc("create_fact", user_id="u1", content="amber before")
        wanted = self.texts() + ["amber before"]
        for errno_name in ("ENOSPC", "EDQUOT"):
            for operation, path in (
                    ("create", "*.md*"), ("create", "*"), ("write", "*"), ("fsync", "*"), ("flush", "*"),
                    ("rename", "*"), ("link", "*"), ("mkdir", "*"), ("fsyncdir", "*"),
                    ("rename", "*/facts/*"), ("rename", "*memory.json"), ("link", "*journal*")):
                for options in ({"count": 1}, {}):
                    with self.subTest(errno=errno_name, operation=operation, path=path, **options):
                        revision = self.peer.revision("u1")
                        with self.net.node(0).fail(operation, path, errno_name, **options) as rule:
                            text = f"amber {errno_name} {operation} {path} {options}"
                            try:
                                a.rpc("update_fact", user_id="u1", fact_id=made["fact"]["id"], content=text)
                                wanted[-1] = text
                            except RpcError as refusal:
                                self.assertEqual(refusal.kind, "storage_full", str(refusal))
                                self.assertGreaterEqual(rule.fired(), 1)
                        self.expect_soon(b, wanted)
                        made_after = a.rpc("create_fact", user_id="u1", content="amber room again")
                        a.rpc("delete_fact", user_id="u1", fact_id=made_after["fact"]["id"])
                        self.expect_soon(a, wanted)
                        self.expect_nothing_left()
                        self.assertGreaterEqual(self.peer.revision("u1"), revision + 2)

    def test_short_reads_and_writes(self):
        a, b = self.start()
        with self.net.node(0).shorten("read", "users/u1/*", 7), \
                self.net.node(0).shorten("write", "users/u1/*", 5):
            self.peer.commit("u1", changes=[update("fact_1", "amber short")])
            wanted = ["amber short"] + self.texts(numbers=(2, 3, 4))
            self.expect_soon(a, wanted)
            a.rpc("create_fact", user_id="u1", content="amber written in pieces")
            wanted.append("amber written in pieces")
            self.expect_soon(a, wanted)
            self.expect(b, wanted)

    def test_a_read_only_server(self):
        a, b = self.start()
        with self.net.node(0).fail("create", "*", "EROFS"), self.net.node(0).fail("mkdir", "*", "EROFS"), \
                self.net.node(0).fail("open", "*.lock", "EROFS"):
            with self.assertRaises(RpcError) as refusal:
                a.rpc("create_fact", user_id="u1", content="amber refused")
            self.assertIn(refusal.exception.kind, ("denied", "read_only", "io"))
            self.peer.commit("u1", changes=[update("fact_1", "amber read")])
            self.expect(a, ["amber read"] + self.texts(numbers=(2, 3, 4)))
        a.rpc("create_fact", user_id="u1", content="amber allowed")
        self.expect(b, ["amber read", "amber allowed"] + self.texts(numbers=(2, 3, 4)))


class Locks(Nodes):
    def test_a_server_without_locks_refuses_writes_by_name(self):
        a, b = self.start()
        for errno_name in ("ENOLCK", "EBADF"):
            with self.net.node(0).fail("flock", "*", errno_name):
                with self.assertRaises(RpcError) as refusal:
                    a.rpc("create_fact", user_id="u1", content="amber refused")
                self.assertNotIn(refusal.exception.kind, ("timeout", "busy"))
                self.assertIn(".memory.lock", refusal.exception.data.get("path", "") +
                              refusal.exception.message)
                self.expect(a, self.texts())
                self.assertEqual(len(a.rpc("list_facts", user_id="u1")["facts"]), 4)
        a.rpc("create_fact", user_id="u1", content="amber later")
        self.expect(b, self.texts() + ["amber later"])

    def test_facts_without_a_manifest_are_vouched_for_under_the_lock_only(self):
        a, b = self.start()
        os.unlink(self.peer.manifest_path("u1"))
        with self.net.node(0).fail("flock", "users/u1/*", "EIO") as rule:
            found = self.search(a)
            self.assertEqual((states(found), contents(found)), (["unverified"], self.texts()))
            self.assertIn(".memory.lock", found["scopes"][0]["path"])
            self.assertGreaterEqual(rule.fired(), 1)
            self.expect(b, self.texts())
        self.expect(a, self.texts())

    def race(self, count=15):
        """Both agents write all the time, each saying what revision it expects; who succeeds has it alone."""
        won = {}
        clashes = []

        def write(number, agent):
            with Client(agent.endpoint) as client:
                for turn in range(count):
                    revision = self.peer.revision("u1")
                    try:
                        reply = client.rpc("apply_changes", user_id="u1", expected_revision=revision, upserts=[
                            {"content": f"amber w{number}t{turn}", "category": "context", "confidence": 0.5}])
                    except (RpcError, TimeoutError):
                        continue
                    made = reply["revision"]
                    if won.setdefault(made, (number, turn)) != (number, turn):
                        clashes.append((made, won[made], (number, turn)))

        threads = [threading.Thread(target=write, args=(number, agent))
                   for number, agent in enumerate(self.agents)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        return won, clashes

    def test_locks_that_reach_all_nodes(self):
        self.start()
        won, clashes = self.race()
        self.assertEqual(clashes, [])
        self.assertGreater(len(won), 10)
        wanted = self.texts() + [f"amber w{number}t{turn}" for number, turn in won.values()]
        for agent in self.agents:
            self.expect_soon(agent, wanted)

    def race_without_locks(self, mode):
        """What was acknowledged has a revision of its own, and both nodes end at what lies on the volume."""
        self.net.set("flock", mode)
        self.start(config={**UNTOLD, "volume": {"recovery_grace_ms": 300}})
        won, clashes = self.race()
        self.assertEqual(clashes, [])
        self.assertGreater(len(won), 3)
        agent, other = self.agents
        found = wait_until(lambda: (reply := self.search(agent)) and states(reply)[0] in PROVEN and reply, 20,
                           "an end of the recoveries")
        self.expect_soon(other, contents(found))

    def test_a_commit_under_way_is_not_taken_back_where_its_lock_is_not_seen(self):
        self.net.set("flock", "node")
        a, b = self.start(config={**UNTOLD, "volume": {"recovery_grace_ms": 60000}})
        elsewhere = Peer(self.net.node(1).path, durable=False)
        journal = os.path.join(self.peer.bucket("u1"), ".memory.journal.json")

        def at_step(step, number):
            if (step, number) not in (("fact", 1), ("manifest", 0)):
                return
            for _ in range(3):
                found = self.search(a)
                self.assertEqual(states(found)[0] in PROVEN, step == "fact",
                                 "until the manifest is new the old facts are the memory")
                self.assertEqual(contents(found), self.texts())
                with self.assertRaises(RpcError):
                    a.rpc("create_fact", user_id="u1", content="amber between", timeout_ms=500)
                self.assertTrue(os.path.exists(journal), "somebody is at it")

        elsewhere.commit("u1", changes=[update("fact_1", "amber one"), add("fact_5", "amber five")],
                         at_step=at_step)
        for agent in (a, b):
            self.expect(agent, ["amber one", "amber five"] + self.texts(numbers=(2, 3, 4)))

    def test_locks_that_other_nodes_do_not_see(self):
        self.race_without_locks("node")

    def test_locks_that_nobody_sees(self):
        self.race_without_locks("none")


class SillyNames(Nodes):
    def test_files_that_stay_since_somebody_has_them_open_are_no_facts(self):
        a, b = self.start()
        path = os.path.join(self.net.node(1).path, "users", "u1",
                            fact_path(DEFAULT_AGENT, "fact_1"))
        lock = os.path.join(self.net.node(1).path, "users", "u1", "memory.json")
        with open(path, "rb"), open(lock, "rb"):
            os.unlink(path)
            self.peer.commit("u1", changes=[update("fact_2", "amber two")])
            wanted = ["amber two"] + self.texts(numbers=(3, 4))
            self.expect(a, wanted)
            self.expect(b, wanted)
            made = b.rpc("create_fact", user_id="u1", content="amber made")
            b.rpc("delete_fact", user_id="u1", fact_id=made["fact"]["id"])
            self.expect(a, wanted)
        self.expect_nothing_left()

    def test_a_recovery_directory_that_cannot_be_removed_is_no_failure(self):
        a, b = self.start()
        with self.net.node(0).fail("rmdir", "*.recovery*", "ENOTEMPTY"):
            a.rpc("create_fact", user_id="u1", content="amber done")
            self.expect(b, self.texts() + ["amber done"])
        a.rpc("create_fact", user_id="u1", content="amber more")
        self.expect(b, self.texts() + ["amber done", "amber more"])


class GoneAndBack(Nodes):
    def test_the_volume_goes_and_comes_back(self):
        a, b = self.start()
        for errno_name in ("EIO", "ENOTCONN", "ESTALE"):
            with self.subTest(errno=errno_name):
                self.net.node(0).gone(errno_name)
                found = self.search(a)
                self.assertEqual(states(found), ["unverified"])
                self.assertEqual(found["count"], 4)
                self.expect(b, self.texts())
                self.net.node(0).back()
                self.expect_soon(a, self.texts())

    def test_an_empty_volume_in_its_place_removes_nothing(self):
        a, _ = self.start()
        empty = os.path.join(self.directory, "empty")
        os.mkdir(empty)
        backing = self.net.backing
        self.net.swap(empty)
        deadline = time.monotonic() + 4
        while time.monotonic() < deadline:
            found = self.search(a)
            self.assertEqual(states(found), ["unverified"])
            self.assertEqual(found["count"], 4)
            time.sleep(0.1)
        self.net.swap(backing)
        self.expect_soon(a, self.texts())

    def test_another_volume_in_its_place_waits_to_be_accepted(self):
        a, _ = self.start()
        other = os.path.join(self.directory, "other")
        os.mkdir(other)
        Peer(other, durable=False).commit("u1", changes=[add("fact_1", "amber of another world")])
        self.net.swap(other)
        time.sleep(1.5)
        found = self.search(a)
        self.assertEqual(states(found), ["unverified"])
        self.assertEqual(contents(found), self.texts())
        a.rpc("refresh", accept_volume=True)
        self.expect_soon(a, ["amber of another world"])


class HalfFiles(Nodes):
    def test_a_manifest_of_nuls_or_in_two_halves(self):
        a, b = self.start()
        self.cache(5)
        path = os.path.join(self.peer.bucket("u1"), "memory.json")
        with open(path, "rb") as file:
            good = file.read()
        for bad in (bytes(len(good)), good[:len(good) // 2], b""):
            with open(path, "wb") as file:
                file.write(bad)
            for agent in (a, b):
                found = self.search(agent)
                self.assertEqual(states(found), ["unverified"])
                self.assertEqual(found["count"], 4)
                with self.assertRaises(RpcError):
                    agent.rpc("create_fact", user_id="u1", content="amber refused")
                self.expect(agent, self.texts(2), user="u2")
            with open(path, "rb") as file:
                self.assertEqual(file.read(), bad, "what cannot be read is not written over")
            with open(path, "wb") as file:
                file.write(good)
            for agent in (a, b):
                self.expect_soon(agent, self.texts())

    def test_renames_that_others_see_in_two_steps(self):
        """The target of a rename is away for a moment: nobody takes that for an end."""
        a, b = self.start()
        self.net.node(0).set("rename_gap_ms", 30)
        done = threading.Event()
        answers = []

        def ask():
            with Client(b.endpoint) as client:
                while not done.is_set():
                    answers.append(client.rpc("search", user_id="u1", query="amber", top_k=100))

        thread = threading.Thread(target=ask)
        thread.start()
        for number in range(10):
            a.rpc("update_fact", user_id="u1", fact_id="fact_1", content=f"amber gap{number}")
        done.set()
        thread.join(60)
        for found in answers:
            self.assertEqual(found["count"], 4, (states(found), contents(found)))
        self.expect_soon(b, ["amber gap9"] + self.texts(numbers=(2, 3, 4)))


if __name__ == "__main__":
    unittest.main()
