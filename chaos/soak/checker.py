#!/usr/bin/python3
"""Does the history of a soak keep every promise?

    checker.py HISTORY

Each violation is printed with the operations that show it, and a summary. Ends with 0 when there is none, with 1
otherwise, with 2 when it is no history. README.md says what is checked and how; history.py what a history is.
"""

import bisect
import collections
import json
import sys

from history import read_history, where_from, words_of
from worlds import BEGINNING, Candidates, World, Write, next_worlds

FRESH = ("fresh", "refreshed")
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000
EVER = float("inf")
REFUSAL_TOLD_S = 30  # so long after a refusal has passed it may still be told
SHOWN = 8  # violations of one invariant that are told
WIDTH = 600  # of an operation that is told

Violation = collections.namedtuple("Violation", "invariant text operations")


class NoHistory(Exception):
    """The file is not what it should be."""


def end_of(operation):
    return operation["end"] if operation["end"] is not None else EVER


class Timeline:
    """When what was known of a user's revisions."""

    def __init__(self):
        self.evidence = []  # (revision, end, operation): it was there by then
        self.begun = []     # (revision, begin, operation): it was not there before

    def is_there(self, revision, operation):
        self.evidence.append((revision, end_of(operation), operation))

    def is_made(self, revision, operation):
        self.begun.append((revision, operation["begin"], operation))

    def settle(self):
        self.revisions, self.first = self.extremes(sorted(self.evidence, key=lambda e: -e[0]),
                                                   lambda new, old: new[1] < old[1])
        self.made, self.last = self.extremes(sorted(self.begun, key=lambda e: e[0]),
                                             lambda new, old: new[1] > old[1])
        self.revisions.reverse()
        self.first.reverse()

    @staticmethod
    def extremes(entries, better):
        """Of each entry and those before it the best."""
        best, keys = [], []
        for entry in entries:
            best.append(entry if not best or better(entry, best[-1]) else best[-1])
            keys.append(entry[0])
        return keys, best

    def known_by(self, revision):
        """The earliest end of an operation that shows that this revision, or a later one, was there."""
        at = bisect.bisect_left(self.revisions, revision)
        return self.first[at] if at < len(self.first) else (None, EVER, None)

    def not_before(self, revision):
        """The latest begin of a write that made this revision or an earlier one."""
        at = bisect.bisect_right(self.made, revision)
        return self.last[at - 1] if at else (None, -EVER, None)


class User:
    """One user's part of the history."""

    def __init__(self, name):
        self.name = name
        self.done = collections.defaultdict(list)  # by revision
        self.unknown, self.refused = [], []
        self.reads = collections.defaultdict(list)  # by revision
        self.files = None
        self.timeline = Timeline()
        self.states = {}  # revision to the world, or one of several
        self.mismatches = []  # answers that fit no world, with one that they do not fit


class Check:
    """All of it; what was found is in `violations`."""

    def __init__(self, operations):
        if not operations or operations[0].get("kind") != "begin":
            raise NoHistory("it does not begin with a header")
        self.header, self.operations = operations[0], operations[1:]
        self.late_ns = int(self.header["late_s"] * NS_PER_S)
        self.violations = []
        self.counts = collections.Counter()
        self.users = {}
        self.written = {}   # token to the write that brought it
        self.told_refused = {}
        self.refusals = [event for event in self.operations if is_refusal(event)]
        self.ambiguous = 0
        self.sort_out()

    def blame(self, invariant, text, *operations):
        self.violations.append(Violation(invariant, text, [each for each in operations if each]))

    # -- what there is --

    def user(self, name):
        if name not in self.users:
            self.users[name] = User(name)
        return self.users[name]

    def sort_out(self):
        for operation in self.operations:
            kind = operation["kind"]
            if kind == "read":
                self.take_read(operation)
            elif kind == "write":
                self.take_write(operation)
            elif kind == "files":
                self.user(operation["user"]).files = operation
        for user in self.users.values():
            user.timeline.settle()

    def take_read(self, read):
        self.counts["reads"] += 1
        if read.get("error"):
            self.counts[f"error {read['error']}"] += 1
            return
        self.counts[read["state"]] += 1
        if is_nothing_known(read):
            self.counts["nothing known"] += 1
            return
        if read.get("broken"):
            self.take_broken(read)
        user = self.user(read["user"])
        user.reads[read["revision"]].append(read)
        user.timeline.is_there(read["revision"], read)

    def take_broken(self, read):
        """Nobody writes facts that cannot be understood; some may not be read, for a while."""
        self.counts["broken"] += 1
        if not any(event["where"] in ("all", read["node"]) and event["begin"] <= end_of(read)
                   and read["begin"] <= event["end"] + REFUSAL_TOLD_S * NS_PER_S for event in self.refusals):
            self.blame("broken", f"facts of {read['user']}/{read['agent']} cannot be read, which nobody has refused",
                       read)

    def take_write(self, write):
        user = self.user(write["user"])
        outcome = write["outcome"]
        self.counts[f"writes {outcome}"] += 1
        if write.get("error"):
            self.counts[f"error {write['error']}"] += 1
        for token in new_tokens(write):
            self.written[token] = write
        if outcome == "done":
            user.done[write["revision"]].append(write)
            user.timeline.is_there(write["revision"], write)
            user.timeline.is_made(write["revision"], write)
        elif outcome == "unknown":
            user.unknown.append(write)
        elif outcome == "refused":
            user.refused.append(write)

    # -- all --

    def run(self):
        for user in self.users.values():
            self.check_user(user)
        self.check_monotone()
        self.check_liveness()
        return self.violations

    def check_user(self, user):
        ids = self.learn_ids(user)
        unknown = [Write(write, ids) for write in user.unknown]
        candidates = Candidates(unknown, self.first_seen(user, unknown), self.whole_answers(user),
                                self.replacements(user), self.late_ns)
        worlds, user.states[0] = [BEGINNING], BEGINNING
        self.judge(user, 0, worlds)
        last = max([0, *user.done, *user.reads, (user.files or {}).get("revision", 0)])
        if user.files:
            last = self.check_end(user)
        for revision in range(1, last + 1):
            worlds = self.step(user, revision, worlds, ids, candidates)
            user.states[revision] = worlds[0]
        self.check_files(user, worlds)
        for revision, reads in user.reads.items():
            if revision > last:
                for read in reads:
                    self.blame("fresh" if read["state"] in FRESH else "torn",
                               f"revision {revision} of {user.name} has never been", read)
        self.check_times(user)
        self.check_mismatches(user)

    def learn_ids(self, user):
        """Which id the agent has made up for a token, as answers tell."""
        ids = {}
        for reads in user.reads.values():
            for read in reads:
                ids.update({token: fact_id for fact_id, token in read["facts"]})
        for facts in (user.files or {}).get("agents", {}).values():
            ids.update({token: fact_id for fact_id, token in facts})
        return ids

    def whole_answers(self, user):
        """By agent the revisions of which all its facts are told."""
        told = collections.defaultdict(set)
        for revision, reads in user.reads.items():
            for read in reads:
                if is_whole(read):
                    told[read["agent"]].add(revision)
        for agent in (user.files or {}).get("agents", ()):
            told[agent].add(user.files["revision"])
        return {agent: sorted(revisions) for agent, revisions in told.items()}

    def replacements(self, user):
        made = collections.defaultdict(list)
        for revision in sorted(user.done):
            for write in user.done[revision]:
                if write["effect"].get("replace"):
                    made[write["agent"]].append(revision)
        return made

    def first_seen(self, user, unknown):
        shown = {}
        for revision in sorted(user.reads, reverse=True):
            for read in user.reads[revision]:
                shown.update(dict.fromkeys((token for _, token in read["facts"]), revision))
                if read.get("summary"):
                    shown[read["summary"]] = revision
        found = {}
        for number, write in enumerate(unknown):
            mine = [shown[token] for token in new_tokens(write.operation) if token in shown]
            if mine:
                found[number] = min(mine)
        return found

    # -- revision by revision --

    def step(self, user, revision, worlds, ids, candidates):
        known = user.done.get(revision, [])
        self.check_one_commit(user, revision, known)
        writes = [Write(write, ids) for write in known]
        latest = user.timeline.known_by(revision)[1]
        earliest = user.timeline.not_before(revision)[1]
        found, too_many = next_worlds(worlds, revision, writes, candidates, earliest, latest)
        self.ambiguous += too_many
        if not found:
            found = [self.explain(user, revision, worlds[0], writes)]
        return self.judge(user, revision, found)

    def check_one_commit(self, user, revision, known):
        """Writes of one revision are one commit: of one agent's facts, through one node."""
        places = {(write["node"], write["agent"]) for write in known}
        if len(places) > 1 or (len(known) > 1 and known[0]["node"] is None):
            self.blame("loss", f"revision {revision} of {user.name} was given to several commits", *known)

    def explain(self, user, revision, before, writes):
        """No world leads here. What the state is then: what an answer says, else the change without its needs."""
        if writes:
            self.blame("loss", f"a write that was acknowledged with revision {revision} of {user.name} does not fit "
                       f"what was there before", *(write.operation for write in writes), *user.done[revision - 1][:2])
        else:
            self.blame("phantom", f"revision {revision} of {user.name} is nobody's write",
                       *user.reads.get(revision, [])[:2])
        facts = dict(before.facts)
        for write in writes:
            if write.agent:
                facts[write.agent] = write.change(facts.get(write.agent, {}))
        for read in user.reads.get(revision, []):
            if is_whole(read):
                facts[read["agent"]] = dict(read["facts"])
        summary = next((write.summary for write in writes if write.summary), before.summary)
        return World(facts, summary, before.used)

    def judge(self, user, revision, worlds):
        """Leaves the worlds that agree with the answers of this revision, and notes the answers that fit none."""
        reads = user.reads.get(revision, [])
        for read in sorted(reads, key=lambda read: not is_whole(read)):
            self.counts["answers checked"] += 1
            fitting = [world for world in worlds if agrees(read, world)]
            if fitting:
                worlds = fitting
            else:
                user.mismatches.append((read, worlds[0]))
        return worlds

    # -- answers that are of no state of their revision --

    def check_mismatches(self, user):
        for read, world in user.mismatches:
            self.blame(*self.reason_of(user, read, world), read, *user.done.get(read["revision"], [])[:2])

    def reason_of(self, user, read, world):
        extra = [(fact_id, token) for fact_id, token in read["facts"]
                 if world.of(read["agent"]).get(fact_id) != token]
        for fact_id, token in extra:
            reason = self.reason_of_token(user, read, token)
            if reason:
                return reason[0], f"{reason[1]}: {fact_id} {token!r}"
        text = f"revision {read['revision']} of {user.name}/{read['agent']}: {difference(read, world)}"
        other = self.other_revision(user, read)
        if other is not None:
            invariant = "fresh" if read["state"] in FRESH else "torn"
            return invariant, f"{text}; these are the facts of revision {other}"
        back = [fact_id for fact_id, token in extra if self.was_removed(user, read, fact_id, token)]
        if back and len(back) == len(extra):
            return "resurrection", f"{text}; removed before: {back}"
        return "torn", text

    def reason_of_token(self, user, read, token):
        """What is wrong with a token whatever the revision is."""
        write = self.written.get(token)
        if write is None:
            where = where_from(token)
            if where:
                return "isolation", f"a fact of {where[0]}/{where[1]} in an answer for {user.name}/{read['agent']}"
            return "phantom", "nobody has written this"
        if write["user"] != user.name or write["agent"] != read["agent"]:
            return "isolation", f"a fact of {write['user']}/{write['agent']} in an answer for {user.name}"
        if write["outcome"] == "refused":
            return "refused", "a change that was refused is seen"
        return None

    def other_revision(self, user, read):
        for revision in sorted(user.states, key=lambda each: abs(each - read["revision"])):
            if revision != read["revision"] and agrees(read, user.states[revision]):
                return revision
        return None

    def was_removed(self, user, read, fact_id, token):
        """Was it there at an earlier revision, and removed by this one?"""
        there = user.states.get(read["revision"])
        return (there is not None and fact_id not in there.of(read["agent"])
                and any(user.states[revision].of(read["agent"]).get(fact_id) == token
                        for revision in range(read["revision"])))

    # -- the end --

    def check_end(self, user):
        """The last revision; acknowledged ones above it are lost."""
        last = user.files["revision"]
        for revision in sorted(revision for revision in user.done if revision > last):
            self.blame("loss", f"revision {revision} of {user.name} was acknowledged, the volume ends at {last}",
                       *user.done[revision], user.files)
        return last

    def check_files(self, user, worlds):
        if not user.files:
            return
        agents = {agent: dict(facts) for agent, facts in user.files["agents"].items()}
        names = set(agents)
        for world in worlds:
            names |= set(world.facts)
        if any(all(world.of(agent) == agents.get(agent, {}) for agent in names)
               and world.summary == user.files["summary"] for world in worlds):
            return
        world = worlds[0]
        for agent in sorted(names):
            there, wanted = agents.get(agent, {}), world.of(agent)
            lost = sorted(set(wanted.items()) - set(there.items()))
            more = sorted(set(there.items()) - set(wanted.items()))
            known = [self.written.get(token) for _, token in lost + more][:4]
            if lost:
                self.blame("loss", f"{user.name}/{agent}: not on the volume at the end: {lost}, but {more}", *known)
            elif more:
                self.blame("resurrection", f"{user.name}/{agent}: on the volume although removed: {more}", *known)
        if world.summary != user.files["summary"]:
            self.blame("loss", f"{user.name}: the summary is {user.files['summary']}, not {world.summary}",
                       self.written.get(world.summary))

    # -- time --

    def check_times(self, user):
        for reads in user.reads.values():
            for read in reads:
                self.check_time(user, read)

    def check_time(self, user, read):
        revision = read["revision"]
        _, begin, write = user.timeline.not_before(revision)
        if end_of(read) < begin:
            self.blame("fresh", f"revision {revision} of {user.name} was told before anybody made it", read, write)
        since = claimed_since(read)
        if since is None:
            return
        _, end, evidence = user.timeline.known_by(revision + 1)
        if end < since:
            late_ms = (since - end) / NS_PER_MS
            invariant = "fresh" if read["state"] in FRESH else "age"
            self.blame(invariant, f"revision {revision} of {user.name} counts as in step {late_ms:.1f} ms after "
                       f"revision {evidence['revision']} was there", read, evidence)

    # -- no going back --

    def check_monotone(self):
        moments = []
        for operation in self.operations:
            if operation["kind"] == "event" and operation["what"] == "index deleted":
                moments.append((operation["end"], 0, operation))
            elif shows_index(operation):
                moments.append((operation["begin"], 2, operation))
                moments.append((operation["end"], 1, operation))
        moments.sort(key=lambda moment: moment[:2])
        latest = {}
        for _, what, operation in moments:
            key = (operation.get("node"), operation.get("user"), operation.get("agent"))
            if what == 0:
                latest = {known: value for known, value in latest.items() if known[0] != operation["node"]}
            elif what == 1:
                if key not in latest or latest[key]["revision"] < operation["revision"]:
                    latest[key] = operation
            elif operation["kind"] == "read" and key in latest \
                    and operation["revision"] < latest[key]["revision"]:
                self.blame("monotone", f"node {key[0]} goes back from revision {latest[key]['revision']} of "
                           f"{key[1]}/{key[2]} to {operation['revision']}", latest[key], operation)

    # -- in the end everybody knows --

    def check_liveness(self):
        calm = next((each for each in self.operations if each["kind"] == "event" and each["what"] == "calm"), None)
        if calm is None:
            return
        until = calm["begin"] + int(calm["bound_s"] * NS_PER_S)
        looks = collections.defaultdict(list)
        for read in self.operations:
            if read["kind"] == "read" and read["begin"] >= calm["begin"] and not read.get("error"):
                looks[read["node"], read["user"], read["agent"]].append(read)
        for user in self.users.values():
            for agent, facts in (user.files or {}).get("agents", {}).items():
                for node in range(self.header["nodes"]):
                    self.check_live(looks[node, user.name, agent], until, user, agent, node, facts)

    def check_live(self, reads, until, user, agent, node, facts):
        where = f"{user.name}/{agent} on node {node}"
        local = [read for read in reads if read["freshness"] == "local"]
        if not any(read["begin"] <= until and is_in_step(read, user.files["revision"], facts) for read in local):
            self.blame("liveness", f"{where} has not come in step by itself", *local[-1:], user.files)
        for read in reads:
            if read["freshness"] == "strict" and read["begin"] > until and read["state"] not in FRESH:
                self.blame("liveness", f"{where} is not fresh although everything is calm", read)

    # -- telling --

    def summary(self):
        revisions = sum(max(user.states, default=0) for user in self.users.values())
        lines = [f"{len(self.operations)} operations, {len(self.users)} users, {revisions} revisions, "
                 f"{self.counts['answers checked']} answers checked"]
        for title, names in (("states", (*FRESH, "stale", "unverified", "nothing known", "broken")),
                             ("writes", ("done", "nothing", "refused", "unknown")),
                             ("errors", sorted(name[6:] for name in self.counts if name.startswith("error ")))):
            prefix = {"writes": "writes ", "errors": "error "}.get(title, "")
            lines.append(f"{title}: " + ", ".join(f"{self.counts[prefix + name]} {name}" for name in names))
        if self.ambiguous:
            lines.append(f"{self.ambiguous} revisions with too many possible states: not all were followed")
        return "\n".join(lines)


def new_tokens(write):
    """The tokens that a write has made: an import also carries old ones."""
    effect = write["effect"]
    tokens = set((effect.get("set") or {}).values()) - set(effect.get("old") or ())
    return tokens | ({effect["summary"]} if effect.get("summary") else set())


def is_nothing_known(read):
    """Of a scope that the index does not know, told without a look at the volume."""
    return read["state"] not in FRESH and read["revision"] == 0 and not read["facts"]


def is_in_step(read, revision, facts):
    """Are these the facts of the last revision? Of a scope without any an agent need not know anything."""
    return ((read.get("revision") == revision or is_nothing_known(read))
            and sorted(map(tuple, read["facts"])) == sorted(map(tuple, facts)))


def is_refusal(operation):
    """Somebody may not open some files."""
    return (operation["kind"] == "event" and operation["what"] == "fail" and operation["operation"] == "open"
            and "EACCES" in operation["words"])


def is_whole(read):
    return all(read.get(name) is None for name in ("word", "limit", "id", "broken"))


def shows_index(operation):
    """Does it tell what the index of its node had, at which revision?"""
    if operation["kind"] == "write":
        return operation["outcome"] == "done" and operation.get("index") == "current"
    return operation["kind"] == "read" and not operation.get("error") and not is_nothing_known(operation)


def claimed_since(read):
    """The moment after which the answer's revision must still have been the last one; None: nothing is claimed."""
    if read["state"] in FRESH:
        return read["begin"]
    if read["state"] == "stale" and read.get("age_ms") is not None:
        return read["begin"] - (read["age_ms"] + 1) * NS_PER_MS
    return None


def agrees(read, world):
    """Are these the facts that the answer would have in that world?"""
    facts = world.of(read["agent"])
    got = dict(read["facts"])
    if len(got) != len(read["facts"]) or any(facts.get(fact_id) != token for fact_id, token in got.items()):
        return False
    if read["what"] == "get_memory" and read.get("summary") != world.summary:
        return False
    if read.get("id") is not None:
        return got == {read["id"]: facts.get(read["id"])}
    wanted = [fact_id for fact_id, token in facts.items() if read.get("word") in (None, *words_of(token))]
    broken = read.get("broken") or 0
    if read.get("limit") is not None:
        return len(got) >= min(read["limit"], len(wanted) - broken)
    return len(set(wanted) - set(got)) <= broken


def difference(read, world):
    got, wanted = set(map(tuple, read["facts"])), set(world.of(read["agent"]).items())
    parts = [f"too much: {sorted(got - wanted)}"] if got - wanted else []
    if is_whole(read) and wanted - got:
        parts.append(f"missing: {sorted(wanted - got)}")
    if read["what"] == "get_memory" and read.get("summary") != world.summary:
        parts.append(f"summary {read.get('summary')}, not {world.summary}")
    return ", ".join(parts) or "facts are missing"


def check(operations):
    """The violations of a history, and its summary."""
    checked = Check(operations)
    return checked.run(), checked.summary()


def tell(violations, file=sys.stdout):
    told = collections.Counter()
    for violation in violations:
        told[violation.invariant] += 1
        if told[violation.invariant] > SHOWN:
            continue
        print(f"VIOLATION {violation.invariant}: {violation.text}", file=file)
        for operation in violation.operations:
            text = json.dumps(operation)
            print(f"    {text if len(text) <= WIDTH else text[:WIDTH] + ' ...'}", file=file)
    if told:
        print("violations: " + ", ".join(f"{count} {name}" for name, count in sorted(told.items())), file=file)


def main():
    if len(sys.argv) != 2:
        print(__doc__.split("\n\n")[1].strip(), file=sys.stderr)
        return 2
    try:
        violations, summary = check(read_history(sys.argv[1]))
    except (OSError, ValueError, KeyError, NoHistory) as error:
        print(f"{sys.argv[1]}: no history: {type(error).__name__} {error}", file=sys.stderr)
        return 2
    tell(violations)
    print(summary)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
