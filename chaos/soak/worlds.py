"""What may have been: the states of one user's memory, revision by revision.

Each acknowledged write says at which revision it was done, so the state of every revision follows from the one
before. A write whose answer was lost is different: it was done at some revision from its beginning on, or never.
So for each revision there is a set of possible worlds (a state, and which of these writes it contains), in which an
answer with all facts of an agent leaves only those that agree with it. In most histories one world is left again
soon.
"""

import bisect
import itertools

WORLDS_MAX = 1000
TOGETHER_MAX = 5  # so many writes without an answer are tried in every combination; of more, only some


class World:
    """One possible state. `facts`: agent to {id: token}; never changed, only replaced."""

    __slots__ = ("facts", "summary", "used")

    def __init__(self, facts, summary, used):
        self.facts = facts
        self.summary = summary
        self.used = used  # the writes without an answer that were done

    def of(self, agent):
        return self.facts.get(agent, {})

    def key(self):
        return (frozenset((agent, frozenset(facts.items())) for agent, facts in self.facts.items()),
                self.summary, self.used)


BEGINNING = World({}, None, frozenset())


def fits(needs, facts, revision):
    """Would a write with these needs have been accepted, at this state?"""
    if needs.get("revision") is not None and needs["revision"] != revision:
        return False
    for fact_id, token in (needs.get("facts") or {}).items():
        there = facts.get(fact_id)
        if (there is None) if token is True else (there != token):
            return False
    return all(facts.get(fact_id) in (None, token)
               for fact_id, token in (needs.get("if_there") or {}).items())


class Write:
    """A write of the history, understood."""

    def __init__(self, operation, ids):
        self.operation = operation
        self.agent = operation["agent"]
        self.node = operation["node"]
        self.begin = operation["begin"]
        self.end = operation["end"]
        self.needs = operation.get("needs") or {}
        effect = operation["effect"]
        # Ids that the agent made up are known from answers only.
        self.set = {fact_id or ids.get(token, f"?{token}"): token
                    for fact_id, token in (effect.get("set") or {}).items()}
        self.remove = frozenset(effect.get("remove") or ())
        self.replace = bool(effect.get("replace"))
        self.kept = frozenset(operation.get("kept") or ())
        self.summary = effect.get("summary")

    def tokens(self):
        return set(self.set.values())

    def makes_facts(self):
        """Does it bring facts that were not there before?"""
        return not self.replace and (None in self.needs.get("facts", {}).values()
                                     or any(fact_id.startswith("?") for fact_id in self.set))

    def touches(self):
        return set(self.set) | self.remove

    def disturbs(self, other):
        """Does the order of the two matter?"""
        return (self.replace or other.replace or self.needs.get("revision") is not None
                or other.needs.get("revision") is not None or bool(self.touches() & other.touches())
                or (self.summary is not None and other.summary is not None))

    def apply(self, facts, revision):
        """The agent's facts afterwards; None when it would have been refused."""
        if not fits(self.needs, facts, revision):
            return None
        return self.change(facts)

    def change(self, facts):
        """The same whatever it needs."""
        after = {fact_id: token for fact_id, token in facts.items()
                 if (fact_id in self.kept if self.replace else fact_id not in self.remove)}
        after.update(self.set)
        return after


def orders(writes):
    """The orders in which writes of one commit may have come, as far as that matters."""
    tangled = [write for write in writes if any(write.disturbs(other) for other in writes if other is not write)]
    rest = [write for write in writes if write not in tangled]
    if len(tangled) > 6:
        tangled.sort(key=lambda write: (write.needs.get("revision") is None, write.begin))
        yield rest + tangled
        return
    for some in itertools.permutations(tangled):
        yield [*some, *rest]


def commit(world, writes, used, revision):
    """Every world that one commit of these writes may lead to; `revision`: the one before."""
    found = {}
    for order in orders(writes):
        facts, summary, moved = dict(world.facts), world.summary, False
        for write in order:
            if write.needs.get("revision") is not None and moved:
                break  # it would have waited for the next commit
            after = write.apply(facts.get(write.agent, {}), revision) if write.agent else {}
            if after is None:
                break
            if write.agent:
                facts[write.agent] = after
            if write.summary is not None:
                summary = write.summary
            moved = True
        else:
            after = World(facts, summary, world.used | used)
            found[after.key()] = after
    return list(found.values())


class Candidates:
    """The writes without an answer, and which of them may be part of a commit.

    `first_seen`: number of a write to the first revision of which an answer shows it. `whole`: agent to the
    revisions, sorted, of which there is an answer with all its facts; `replaced`: agent to those at which an
    import or the like has replaced them.
    """

    def __init__(self, writes, first_seen, whole, replaced, late_ns):
        self.writes = writes
        self.first_seen = first_seen
        self.whole = whole
        self.replaced = replaced
        self.late_ns = late_ns
        replacing = {write.agent for write in writes if write.replace}
        # Facts of which nobody knew, so that no change of a fact can have removed them unseen.
        self.unseen = {number for number, write in enumerate(writes) if number not in first_seen
                       and write.makes_facts() and write.agent not in replacing}

    def may_be_at(self, number, revision, earliest, latest):
        write = self.writes[number]
        end = write.end if write.end is not None else write.begin
        return (write.begin <= latest and earliest <= end + self.late_ns
                and self.agrees_with_answers(number, write, revision))

    def agrees_with_answers(self, number, write, revision):
        seen = self.first_seen.get(number)
        if seen is None:
            return number not in self.unseen or self.is_replaced_unseen(write.agent, revision)
        # What a write has brought stays until it is seen, so an answer without it was before.
        unseen_before = write.set and any_between(self.whole.get(write.agent, ()), revision, seen - 1)
        return revision <= seen and not unseen_before

    def is_replaced_unseen(self, agent, revision):
        whole = self.whole.get(agent, ())
        at = bisect.bisect_left(whole, revision)
        return any_between(self.replaced.get(agent, ()), revision + 1, whole[at] if at < len(whole) else revision)

    def choices(self, world, revision, known, earliest, latest):
        """Sets of them that may have been committed at this revision together with `known`."""
        free = [number for number in range(len(self.writes)) if number not in world.used
                and self.may_be_at(number, revision, earliest, latest)]
        if known:
            # One commit has writes of one agent of the user, all through one node.
            free = [number for number in free if known[0].node is not None
                    and self.writes[number].node == known[0].node and self.writes[number].agent == known[0].agent]
            yield from subsets(free, self.must(free, revision), allow_none=True)
            return
        groups = {}
        for number in free:
            write = self.writes[number]
            groups.setdefault((write.node, write.agent) if write.node is not None else number, []).append(number)
        for group in groups.values():
            yield from subsets(group, self.must(group, revision), allow_none=False)

    def must(self, numbers, revision):
        return [number for number in numbers if self.first_seen.get(number) == revision]


def any_between(revisions, first, last):
    """Is there one from `first` to `last`, both included?"""
    return bisect.bisect_left(revisions, first) < bisect.bisect_right(revisions, last)


def subsets(numbers, must, allow_none):
    may = [number for number in numbers if number not in must]
    most = len(may) if len(may) <= TOGETHER_MAX else 2
    for count in range(most + 1):
        for some in itertools.combinations(may, count):
            if must or some or allow_none:
                yield frozenset((*must, *some))


def next_worlds(worlds, revision, known, candidates, earliest, latest):
    """The worlds of `revision` from those of the one before, and whether there were too many."""
    found = {}
    for world in worlds:
        for some in candidates.choices(world, revision, known, earliest, latest):
            writes = known + [candidates.writes[number] for number in some]
            for after in commit(world, writes, some, revision - 1):
                found[after.key()] = after
    ordered = sorted(found.values(), key=lambda world: len(world.used))
    return ordered[:WORLDS_MAX], len(ordered) > WORLDS_MAX
