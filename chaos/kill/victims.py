"""What is killed: operations of an agent, its refreshes, and commits of a peer.

A victim tells its positions, places where it can be killed, by doing once what it does. Each
position knows how many commits stand when it is killed there: everything up to `committed`.
"""

import collections

from agent import DEFAULT_AGENT, Client
from peer import Stopped, add, delete, update
from reader import Meaning, meaning, require
from world import AGENTS, WORD, World

# `commits`: how many stand. `prepared`: a journal is there and says so.
Position = collections.namedtuple("Position", "point nth commits prepared")


# How often these are met depends on which thread comes first. Once they are for certain.
UNCOUNTED = ("COMPARE_", "SEARCH_", "SNAPSHOT_", "REFRESH_", "RECOVER_AFTER_LOCK")


# Whether a search joins a refresh of somebody else depends on that, too, but for a scope that is not
# in the index: that is always the refreshers' work.
JOIN = "SEARCH_AFTER_JOIN"


def positions_of(trace, may_join=False):
    """The visits of a trace."""
    met = collections.Counter()
    commits, prepared = 0, False
    found = []
    for point in trace:
        met[point] += 1
        commits += point == "COMMIT_AFTER_COMMITTED"
        if point in ("COMMIT_AFTER_JOURNAL", "COMMIT_AFTER_COMMITTED"):
            prepared = point == "COMMIT_AFTER_JOURNAL"
        if point == JOIN and not may_join:
            continue
        if met[point] == 1 or not point.startswith(UNCOUNTED):
            found.append(Position(point, met[point], commits, prepared))
    return found


def met_for_certain(positions, world):
    """A user who was not there before is looked at by the watcher, too, once, some time within its
    first second. What only that look meets is not met for certain by a write."""
    return [position for position in positions
            if world.user_was_there or not position.point.startswith(UNCOUNTED)]


def named(position):
    return f"{position.point}:{position.nth}" if position.nth else position.point


class Victim:
    """`template` is the volume it begins with. After prepare() comes the old state."""

    reads_files = True  # an agent finds what is in the files, and nothing else

    def __init__(self, name, template="small", user="u1"):
        self.name = name
        self.template = template
        self.user = user
        self.positions = []
        self.steps = []  # what the volume means after 0, 1, ... commits; None: to the byte as before

    def prepare(self, world):
        """Everything before the operation."""

    def learn(self, templates):
        """Runs once without a kill and finds positions and steps."""
        raise NotImplementedError

    def kill(self, world, position):
        """Runs until killed; whether it was acknowledged."""
        raise NotImplementedError

    def pending(self, commits):
        """How many more of the commits anybody makes first who wants to write."""
        return 0

    def finish(self, world, commits):
        """What a caller does before anything is written again; how many commits stand then."""
        return commits

    def repeat(self, world):
        """What a caller does whose operation was interrupted, if a repeat has to finish it."""


class AgentVictim(Victim):
    """A request to an agent that is in step."""

    def __init__(self, name, method, params, template="small", user="u1", before=None):
        super().__init__(name, template, user)
        self.method = method
        self.params = params
        self.before = before

    def prepare(self, world):
        world.node("victim").settle()
        if self.before:
            self.before(world)

    def learn(self, templates):
        with World(templates, self.template, self.user) as world:
            self.prepare(world)
            old = world.look()
            node = world.node("victim")
            node.order_trace()
            node.rpc(self.method, user_id=self.user, **self.params)
            node.wait_idle()
            self.positions = met_for_certain(
                positions_of(node.trace(), may_join=self.before is agent_appears), world)
            self.steps = self.between(old, meaning(world.look(), old.facts))
            require(self.positions and self.positions[-1].commits == len(self.steps) - 1,
                    f"{self.name}: {self.positions[-1:]} for {len(self.steps)} steps")
        return self

    def between(self, old, new):
        """By default everything is in one commit, or in none."""
        return [None, new] if new.revision != old.revision else [None]

    def kill(self, world, position):
        node = world.node("victim")
        node.order_kill(position.point, position.nth)
        with Client(node.endpoint) as client:
            request = client.send(self.method, user_id=self.user, **self.params)
            node.wait_killed(client)
            try:
                client.result(request, 0.002)
                return True
            except TimeoutError:
                return False


class ClearAll(AgentVictim):
    """An agent at a time, then the summaries. A repeat finishes it."""

    def between(self, old, new):
        whole = meaning(old, old.facts)
        done = [whole.without(AGENTS_IN_ORDER[:count]) for count in range(1, len(AGENTS) + 1)]
        return [None, *done, new]

    def repeat(self, world):
        node = world.node("victim")
        revision = world.look().revision
        result = node.rpc(self.method, user_id=self.user, **self.params)
        state = world.look()
        require(not state.facts and state.revision == result["revision"] >= revision,
                f"after the repeat: {result}, {sorted(state.facts)}")
        texts = [section["summary"] for group in ("user", "history")
                 for section in state.document[group].values()]
        require(not any(texts), f"after the repeat there are summaries: {texts}")


AGENTS_IN_ORDER = tuple(sorted(AGENTS))


class Migration(AgentVictim):
    """A memory of the earlier layout, whose facts are no files yet. Whoever writes migrates first."""

    reads_files = False

    def between(self, old, new):
        if self.method == "migrate":
            return [None, new]
        migrated = Meaning([fact for fact in new.facts if fact[-1] != self.params["content"]],
                           new.manifest, new.revision - 1)
        return [None, migrated, new]

    def pending(self, commits):
        return 1 if commits == 0 else 0

    def finish(self, world, commits):
        world.node("victim").rpc("migrate", user_id=world.user)
        return commits + self.pending(commits)


class FirstLook(Victim):
    """An agent without an index, killed while it makes one."""

    def learn(self, templates):
        with World(templates, self.template, self.user) as world:
            node = world.stopped_node("victim")
            node.order_trace()
            node.start()
            node.settle()
            self.positions = positions_of(dict.fromkeys(node.trace()))  # there are several threads
            self.steps = [None]
        return self

    def kill(self, world, position):
        node = world.stopped_node("victim")
        node.order_kill(position.point, position.nth)
        node.start(wait=False)
        with Client(node.endpoint) as client:
            client.send("search", user_id=self.user, query=WORD, freshness="strict")
            node.wait_killed(client)
        return False


class PeerVictim(Victim):
    """A commit of a peer, which dies after one of its steps. An agent's index is from before."""

    def __init__(self, name, changes, summary=None, agent=DEFAULT_AGENT, template="small",
                 user="u1"):
        super().__init__(name, template, user)
        self.changes = changes
        self.summary = summary
        self.agent = agent

    def prepare(self, world):
        world.node("victim").settle().kill()

    def commit(self, world, at_step):
        world.peer().commit(self.user, self.agent, self.changes, self.summary, at_step=at_step)

    def learn(self, templates):
        with World(templates, self.template, self.user) as world:
            old = world.look()
            steps = []
            self.commit(world, lambda step, number: steps.append((step, number)))
            self.positions = [
                Position(step, number, int(step == "committed"), step != "committed")
                for step, number in steps]
            self.steps = [None, meaning(world.look(), old.facts)]
        return self

    def kill(self, world, position):
        def at_step(step, number):
            if (step, number) == (position.point, position.nth):
                raise Stopped
        try:
            self.commit(world, at_step)
        except Stopped:
            return False
        raise AssertionError(f"the step was not met: {position}")


def document(fact_id, content, **more):
    return {"id": fact_id, "content": content, "category": "context", "confidence": 0.7, **more}


SUMMARIES = {"user": {"workContext": {"summary": "counts kills"}},
             "history": {"recentMonths": {"summary": "was killed often"}}}

CHANGES = {
    "upserts": [document("new_1", f"{WORD} first of three"),
                document("default_2", f"{WORD} second of three", revision=1),
                document("new_3", f"{WORD} third of three")],
    "deletes": ["default_3", "default_4"],
    "summaries": SUMMARIES,
}

IMPORT = {"memory_data": {
    "facts": [document(f"default_{number}", f"{WORD} imported number{number}")
              for number in range(7, 27)],
    **SUMMARIES}}


def behind_its_back(world):
    """The agent's index is behind when it writes, so that its rows cannot be taken over."""
    world.peer().commit(world.user, DEFAULT_AGENT, [update("default_2", f"{WORD} by a peer")])


def agent_appears(world):
    """The agent's index has nothing of this scope yet."""
    world.peer().commit(world.user, "late", [add("late_1", f"{WORD} late")])


def make_victims():
    return [
        AgentVictim("create_fact", "create_fact", {"content": f"{WORD} created"}),
        AgentVictim("update_fact", "update_fact",
                    {"fact_id": "default_1", "content": f"{WORD} updated"}),
        AgentVictim("delete_fact", "delete_fact", {"fact_id": "default_6"}),
        AgentVictim("apply_changes", "apply_changes", CHANGES),
        AgentVictim("update_summaries", "update_summaries", {"summaries": SUMMARIES}),
        AgentVictim("clear_one", "clear_memory", {"agent_name": "helper"}),
        ClearAll("clear_all", "clear_memory", {"all": True}),
        AgentVictim("import_memory", "import_memory", IMPORT, template="twenty"),
        AgentVictim("first_write", "create_fact", {"content": f"{WORD} first of all"},
                    template="empty"),
        AgentVictim("first_changes", "apply_changes",
                    {"upserts": [document("first_1", f"{WORD} one"),
                                 document("first_2", f"{WORD} two")]}, template="empty"),
        AgentVictim("no_user", "apply_changes", CHANGES, template="root", user=None),
        Migration("migrate", "migrate", {}, template="v1"),
        Migration("write_migrating", "create_fact", {"content": f"{WORD} after the migration"},
                  template="v1"),
        AgentVictim("write_behind", "update_fact",
                    {"fact_id": "default_1", "content": f"{WORD} overtaking"},
                    before=behind_its_back),
        AgentVictim("refresh", "search", {"query": WORD, "freshness": "strict"},
                    before=behind_its_back),
        AgentVictim("new_scope", "search",
                    {"query": WORD, "agent_name": "late", "freshness": "strict"},
                    before=agent_appears),
        AgentVictim("search", "search", {"query": WORD, "freshness": "strict"}),
        FirstLook("first_look"),
        PeerVictim("peer_commit", [add("peer_1", f"{WORD} by a peer"),
                                   update("default_1", f"{WORD} changed by a peer"),
                                   delete("default_2")], summary="by a peer"),
        PeerVictim("peer_first_commit", [add("peer_1", f"{WORD} by a peer"),
                                         add("peer_2", f"{WORD} by a peer too")],
                   template="empty"),
    ]
