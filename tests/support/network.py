"""What the tests on a faulty network volume share: nodes, agents on them, and a third party at the server."""

import os
import time

from netvol import Netvol
from peer import Peer
from process import ProcessCase, contents, states, wait_until

# Nothing tells of a change but the compare of a search: what a search finds it has looked for itself.
UNTOLD = {"sync": {"inotify": False, "poll_interval_min_ms": 600000, "poll_interval_max_ms": 600000}}
LOCKS_REACH = {"volume": {"locks": "trusted"}}
REACHING = {**UNTOLD, **LOCKS_REACH}
# A second look after what the volume may cache, instead of after a minute.
SECOND_LOOK = {**UNTOLD, "volume": {"cache_ms": 3000, "locks": "trusted"}}
POLLING = {**LOCKS_REACH, "sync": {"poll_interval_min_ms": 200, "poll_interval_max_ms": 500}}
CACHES_S = 60
PROVEN = ("fresh", "refreshed")


class NetworkCase(ProcessCase):
    """A volume with two nodes. `self.peer` works at the server, and so past all caches."""

    nodes = 2

    def setUp(self):
        super().setUp()
        self.net = Netvol(self.directory, nodes=self.nodes)
        self.addCleanup(self.net.close)
        self.volume = self.net.node(0).path
        self.peer = Peer(self.net.backing, durable=False)

    def node_agent(self, node=0, **options):
        return self.agent(volume=self.net.node(node).path, **options)

    def hanging_told(self, agent, count=1):
        """Waits until `status` tells of so many calls that do not return; what it tells of them."""
        def are_told():
            hanging = agent.rpc("status")["volume"]["hanging"]
            return hanging["count"] >= count and hanging
        return wait_until(are_told, 10, f"{count} calls that hang in `status`")


class Nodes(NetworkCase):
    """An agent on each node, and what a search of theirs must have."""

    def start(self, users=2, facts=4, config=None):
        """The agents, in step."""
        self.fill(users=users, facts=facts)
        self.agents = [self.node_agent(node, config=config or REACHING)
                       for node in range(self.nodes)]
        for agent in self.agents:
            self.wait_indexed(agent, users * facts)
        return self.agents

    def cache(self, seconds=CACHES_S, node="all"):
        """Caches of the kernel, as a client's with default options."""
        rules = self.net if node == "all" else self.net.node(node)
        for knob in ("attr_cache_s", "entry_cache_s", "negative_cache_s", "listing_cache_s"):
            rules.set(knob, seconds)

    def search(self, agent, query="amber", user="u1", **options):
        return agent.rpc("search", user_id=user, query=query, top_k=100, **options)

    def expect(self, agent, wanted, query="amber", user="u1"):
        """The very next search has exactly this, and vouches for it."""
        found = self.search(agent, query, user)
        self.assertIn(states(found)[0], PROVEN)
        self.assertEqual(contents(found), sorted(wanted))
        return found

    def expect_soon(self, agent, wanted, query="amber", user="u1", timeout_s=20):
        def has_it():
            found = self.search(agent, query, user)
            return (states(found)[0] in PROVEN and contents(found) == sorted(wanted)) and found
        return wait_until(has_it, timeout_s, f"an answer {wanted}")

    def indexed(self, agent, user="u1"):
        """What the index holds, whatever the volume says."""
        return sorted(fact["content"] for fact in
                      agent.rpc("list_facts", user_id=user, freshness="local")["facts"])

    def wait_found(self, agent, user, wanted, timeout_s=20):
        """Until it is in the index although nobody asks for it."""
        wait_until(lambda: self.indexed(agent, user) == sorted(wanted), timeout_s, f"{wanted} without a search")

    def texts(self, user=1, numbers=range(1, 5)):
        return [f"amber number{number} of user{user}" for number in numbers]

    def left_behind(self, user="u1"):
        """Journals, recovery directories and temporary files."""
        left = [os.path.join(directory, name)
                for directory, directories, files in os.walk(self.peer.bucket(user))
                for name in directories + files
                if name in (".memory.journal.json", ".recovery") or name.endswith(".tmp")
                or name.startswith((".new-", ".nfs"))]
        return [path for path in left if not (path.endswith(".recovery") and not os.listdir(path))]

    def expect_nothing_left(self):
        """A node tells the server of its last close of a file when it likes."""
        deadline = time.monotonic() + 10
        while self.left_behind() and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(self.left_behind(), [])


def timed(call, *arguments, **options):
    """Seconds, and what came back: the value, or the exception that was raised."""
    begun = time.monotonic()
    try:
        value = call(*arguments, **options)
    except Exception as problem:  # judged by the test
        value = problem
    return time.monotonic() - begun, value


def thread_count(agent):
    return len(os.listdir(f"/proc/{agent.pid}/task"))
