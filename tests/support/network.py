"""What the tests on a faulty network volume share: nodes, agents on them, and a third party at the server."""

import os
import time

from netvol import Netvol
from peer import Peer
from process import ProcessCase, wait_until

# Nothing tells of a change but the compare of a search: what a search finds it has looked for itself.
UNTOLD = {"sync": {"inotify": False, "poll_interval_min_ms": 600000, "poll_interval_max_ms": 600000}}
LOCKS_REACH = {"volume": {"locks": "trusted"}}


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
