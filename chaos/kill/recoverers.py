"""Who comes by after a kill and finishes what was begun; each can be killed at that, too."""

from agent import Client
from peer import Stopped
from reader import Broken, require
from victims import Position, met_for_certain, positions_of
from world import WORD


class Recoverer:
    """Whoever comes by next."""

    name = ""
    may_wait = False  # only looks, and leaves the journal to others where its index needs nothing
    sweeps = True     # takes a dead writer's unrenamed files away as well

    def check_leftovers(self, state):
        """After a write that followed."""
        left = [path for path in state.leftovers if self.sweeps or "/facts/" not in path]
        require(not left, f"left behind: {left}")

    def prepare(self, world):
        """Before the kill."""

    def added(self):
        """The contents that its own write adds, if it writes."""
        return []

    def recover(self, world):
        """Does it to the end."""
        raise NotImplementedError

    def learn(self, world):
        """Recovers, and returns the positions where it can be killed."""
        raise NotImplementedError

    def kill(self, world, position):
        """Recovers until killed there; returns how many commits of its own stand."""
        raise NotImplementedError


class Restart(Recoverer):
    """The victim's own agent, started again on its index; it looks at everything by itself."""

    name = "restart"
    may_wait = True

    def recover(self, world):
        world.node("victim").settle()


class NodeRecoverer(Recoverer):
    """Another node's agent, which was in step before and has not noticed anything."""

    def __init__(self, node="other"):
        self.node = node

    def prepare(self, world):
        world.node(self.node).settle()
        world.freeze(self.node)

    def request(self, world):
        """Method and parameters."""
        raise NotImplementedError

    def recover(self, world):
        method, params = self.request(world)
        world.node(self.node).rpc(method, user_id=world.user, **params)

    # An order is there before the node wakes up: it may have been frozen while it looked at the user
    # and then recovers before it is asked.
    def learn(self, world):
        node = world.nodes[self.node]
        node.order_trace()
        self.recover(world)
        node.wait_idle()
        return positions_of(node.trace())

    def kill(self, world, position):
        method, params = self.request(world)
        node = world.nodes[self.node]
        node.order_kill(position.point, position.nth)
        world.node(self.node)
        with Client(node.endpoint) as client:
            client.send(method, user_id=world.user, **params)
            node.wait_killed(client)
        return position.commits


class Search(NodeRecoverer):
    name = "search"
    may_wait = True

    def request(self, world):
        return "search", {"query": WORD, "freshness": "strict"}


class Write(NodeRecoverer):
    name = "write"

    def added(self):
        return [f"{WORD} written by {self.node}"]

    def learn(self, world):
        return met_for_certain(super().learn(world), world)

    def request(self, world):
        return "create_fact", {"content": self.added()[0]}


class PeerRecoverer(Recoverer):
    sweeps = False

    def __init__(self, facts_first):
        self.facts_first = facts_first
        self.name = "peer" if facts_first else "peer-manifest-first"

    def recover(self, world):
        world.peer(self.facts_first).recover(world.user)

    def learn(self, world):
        steps = []
        world.peer(self.facts_first).recover(
            world.user, lambda step, number: steps.append(Position(step, number, 0, True)))
        return steps

    def kill(self, world, position):
        def at_step(step, number):
            if (step, number) == (position.point, position.nth):
                raise Stopped
        try:
            world.peer(self.facts_first).recover(world.user, at_step)
        except Stopped:
            return 0
        raise Broken(f"the step was not met: {position}")


def first_recoverers():
    """Those that can be killed at it."""
    return [Search(), Write(), PeerRecoverer(True), PeerRecoverer(False)]


def all_recoverers(node="other"):
    return [Restart(), Search(node), Write(node), PeerRecoverer(True), PeerRecoverer(False)]
