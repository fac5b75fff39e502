#!/usr/bin/python3
"""Kills agents and peers at every step of what they do, and looks whether anything is lost.

    kill.py --build build/test               what `make check` runs: a part, spread evenly
    kill.py --build build/test --all         many more
    kill.py --list [--all]                   names of the cases
    kill.py --only 'import_memory/COMMIT_AFTER_FACT:3/*'

A case's name is VICTIM/POINT:N/RECOVERER, with a recoverer that is killed, too,
VICTIM/POINT:N/RECOVERER/POINT:N/RECOVERER, or random/SEED. Names may have * in them. The last line
is "N passed, N failed". --only picks among the cases that the other arguments stand for. README.md
says what is checked.
"""

import argparse
import collections
import fnmatch
import multiprocessing
import os
import re
import shutil
import sys
import tempfile
import time
import traceback

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "tests", "support")]

ROUNDS = 20  # of random kills


def parse_arguments():
    parser = argparse.ArgumentParser(description="kills at every step, and looks what is lost")
    parser.add_argument("--build", default=os.environ.get("MEMSYNC_BUILD") or "build/test")
    parser.add_argument("--all", action="store_true", help="many more cases, for `make chaos`")
    parser.add_argument("--list", action="store_true", help="only the names")
    parser.add_argument("--only", metavar="NAME", help="cases with this name; * stands for anything")
    parser.add_argument("--seed", type=int, default=1, help="of the random kills, and of the part")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    return parser.parse_args()


ARGUMENTS = parse_arguments()
# Every recoverer killed everywhere after every kill, and each to finish it, are too many. So: one of
# SHARE recoverers, at about POSITIONS of its positions, and they take turns to finish it.
SHARE, POSITIONS = (1, 6) if ARGUMENTS.all else (16, 4)
os.environ["MEMSYNC_BUILD"] = os.path.join(ROOT, ARGUMENTS.build)

# pylint: disable=wrong-import-position
from random_kills import run_round  # noqa: E402
from reader import meaning, require  # noqa: E402
from recoverers import all_recoverers, first_recoverers  # noqa: E402
from victims import make_victims, named  # noqa: E402
from volumes import scratch_directory  # noqa: E402
from world import WORD, World, make_templates  # noqa: E402

Case = collections.namedtuple("Case", "name group victim position first first_position last seed",
                              defaults=(None,) * 6)
TEMPLATES = tempfile.mkdtemp(prefix="mskt-", dir=scratch_directory())
VICTIMS = make_victims()
OTHER, THIRD = "other", "third"


def by_name(recoverers, name):
    return next(recoverer for recoverer in recoverers if recoverer.name == name)


# ---- one case ----

def wanted_meaning(victim, old, commits):
    return victim.steps[commits] or meaning(old, old.facts)


def check_step(victim, old, state, commits, extras):
    """Are exactly so many commits there, and nothing of the one that was interrupted?"""
    if victim.steps[commits] is None and not extras:
        require(state.manifest == old.manifest, "the manifest is not the old one")
        require(state.facts == old.facts, f"other facts than before: {sorted(state.facts)}")
        return
    wanted = wanted_meaning(victim, old, commits)
    got = meaning(state, old.facts, extras)
    if wanted.manifest is None:
        got.manifest = None
    difference = got.differences(wanted)
    require(not difference, f"not as after {commits} commits:\n{difference}")


def check_recovered(world, victim, old, last, commits, extras):
    state = world.look()
    node = world.node("victim")
    if state.journal is None:
        check_step(victim, old, state, commits, extras)
    else:
        require(last.may_wait, f"the journal is still there: {state.journal}")
    if victim.reads_files and state.journal is None:
        world.check_agent(node)
        check_step(victim, old, world.look(), commits, extras)
    elif victim.reads_files:
        world.check_answers(node, wanted_meaning(victim, old, commits).facts)


def write_once_more(world, node, last, extras):
    """A write of the ordinary kind takes the last traces away."""
    before = world.look()
    content = f"{WORD} afterwards"
    result = node.rpc("create_fact", user_id=world.user, content=content)
    require(result["revision"] == before.revision + 1, f"{result['revision']} after {before.revision}")
    state = world.look()
    last.check_leftovers(state)
    extras.append(content)
    return state


def run_case(case):
    victim = VICTIMS[case.victim]
    with World(TEMPLATES, victim.template, victim.user) as world:
        try:
            run_in(world, case, victim)
        except Exception:
            return f"{traceback.format_exc(limit=4)}{world.logs()}"
    return None


def run_in(world, case, victim):
    first = by_name(first_recoverers(), case.first) if case.first else None
    last = by_name(all_recoverers(THIRD if first else OTHER), case.last)
    victim.prepare(world)
    for recoverer in (first, last):
        if recoverer:
            recoverer.prepare(world)
    old = world.look()
    acknowledged = victim.kill(world, case.position)
    commits = case.position.commits
    require(not acknowledged or commits == len(victim.steps) - 1, "acknowledged, and not there")
    extras = []
    world.look()
    if first:
        made = first.kill(world, case.first_position)
        pending = victim.pending(commits)
        commits += min(made, pending)
        extras += first.added() if made > pending else []
        world.look()
    last.recover(world)
    if last.added():
        commits += victim.pending(commits)
        extras += last.added()

    check_recovered(world, victim, old, last, commits, extras)
    node = world.node("victim")
    commits = victim.finish(world, commits)
    state = write_once_more(world, node, last, extras)
    check_step(victim, old, state, commits, extras)
    for each in world.running():
        world.check_agent(each)
    victim.repeat(world)
    world.check_agent(node)


# ---- which cases ----

def learn_victim(number):
    try:
        return VICTIMS[number].learn(TEMPLATES), None
    except Exception:
        return VICTIMS[number], traceback.format_exc(limit=4)


def learn_first(job):
    """Where a recoverer can be killed after that kill."""
    number, position, name = job
    victim = VICTIMS[number]
    recoverer = by_name(first_recoverers(), name)
    with World(TEMPLATES, victim.template, victim.user) as world:
        try:
            victim.prepare(world)
            recoverer.prepare(world)
            victim.kill(world, position)
            return job, recoverer.learn(world), None
        except Exception:
            return job, [], f"{traceback.format_exc(limit=4)}{world.logs()}"


def single_cases():
    """Every position; each recoverer with --all, else they take turns."""
    names = [recoverer.name for recoverer in all_recoverers()]
    turn = ARGUMENTS.seed
    for number, victim in enumerate(VICTIMS):
        for position in victim.positions:
            turn += 1
            some = names if ARGUMENTS.all else [names[turn % len(names)]]
            for last in some:
                yield Case(f"{victim.name}/{named(position)}/{last}", victim.name, number, position,
                           last=last)


def double_positions(victim):
    """Where a journal is left, or backups alone: else there is nothing to be done. Of many facts
    the first, one in the middle, and the last."""
    facts = [position for position in victim.positions
             if position.prepared and "fact" in position.point.lower()]
    some = {facts[0], facts[len(facts) // 2], facts[-1]} if facts else set()
    for position in victim.positions:
        if position in some or (position.prepared and position not in facts):
            yield position
        elif position.point in ("COMMIT_AFTER_COMMITTED", "committed", "COMMIT_AFTER_BACKUP"):
            yield position


def double_jobs():
    turn = ARGUMENTS.seed
    for number, victim in enumerate(VICTIMS):
        for position in double_positions(victim):
            turn += 1
            for index, recoverer in enumerate(first_recoverers()):
                if (turn + index) % SHARE == 0:
                    yield number, position, recoverer.name


def some_of(positions, turn, seen):
    """A few, spread evenly, and all at points where nobody was killed yet."""
    step = max(1, len(positions) // POSITIONS)
    for index, position in enumerate(positions):
        if index % step == turn % step or position.point not in seen:
            seen.add(position.point)
            yield position


def double_cases(jobs):
    turn = ARGUMENTS.seed
    seen = set()
    for (number, position, first), found, _ in jobs:
        victim = VICTIMS[number]
        for first_position in some_of(found, turn, seen):
            turn += 1
            # A part of the backups is too little for a peer. Ours never leaves a part.
            names = [recoverer.name for recoverer in all_recoverers()
                     if first_position.point != "backup" or recoverer.sweeps]
            last = names[turn % len(names)]
            yield Case(f"{victim.name}/{named(position)}/{first}/{named(first_position)}/{last}",
                       f"{victim.name}, killed again", number, position, first, first_position, last)


def random_cases():
    for number in range(ROUNDS):
        seed = ARGUMENTS.seed * 1000 + number
        yield Case(f"random/{seed}", "random", seed=seed)


def wanted(case):
    return not ARGUMENTS.only or fnmatch.fnmatchcase(case.name, ARGUMENTS.only)


# ---- all together ----

class Report:
    def __init__(self):
        self.groups = {}
        self.met = set()

    def add(self, group, seconds=0.0, name=None, problem=None):
        entry = self.groups.setdefault(group, {"passed": 0, "failed": 0, "seconds": 0.0})
        entry["seconds"] += seconds
        entry["failed" if problem else "passed"] += 1
        if problem:
            print(f"FAIL {name}\n{problem}", flush=True)

    def print(self):
        passed = failed = 0
        for group, entry in self.groups.items():
            mark = "FAIL" if entry["failed"] else "ok  "
            print(f"{mark} {group}: {entry['passed']} passed, {entry['failed']} failed "
                  f"({entry['seconds']:.1f} s)")
            passed += entry["passed"]
            failed += entry["failed"]
        print(f"{passed} passed, {failed} failed", flush=True)
        return 0 if failed == 0 and passed > 0 else 1


def run_timed(case):
    begun = time.monotonic()
    problem = run_round(TEMPLATES, case.seed) if case.group == "random" else run_case(case)
    return case, time.monotonic() - begun, problem


def known_points():
    """The names in the one list of them."""
    with open(os.path.join(ROOT, "core", "pause_point.h"), encoding="utf-8") as file:
        return re.findall(r"^    X\((\w+)\)", file.read(), re.M)


def check_points(report, cases):
    """A point at which nobody was ever killed is a hole in this suite."""
    used = {position.point for case in cases for position in (case.position, case.first_position)
            if position}
    for point in known_points():
        if point not in used:
            report.add("points", 0.0, point, "no case kills there")
    if used:
        report.add("points")


def learn(pool, report):
    """Victims know their positions after this. In the parent, so that later workers know them."""
    for number, (victim, problem) in enumerate(pool.map(learn_victim, range(len(VICTIMS)), 1)):
        VICTIMS[number] = victim
        if problem:
            report.add(victim.name, 0.0, f"{victim.name}, without a kill", problem)


def first_part(pattern):
    return pattern.split("/")[0]


def collect(pool, report):
    jobs = list(double_jobs())
    if ARGUMENTS.only:
        jobs = [job for job in jobs
                if fnmatch.fnmatchcase(VICTIMS[job[0]].name, first_part(ARGUMENTS.only))]
    learnt = pool.map(learn_first, jobs, 1)
    for (number, position, first), _, problem in learnt:
        if problem:
            report.add(f"{VICTIMS[number].name}, killed again", 0.0,
                       f"{VICTIMS[number].name}/{named(position)}/{first}, not killed", problem)
    cases = [*single_cases(), *double_cases(learnt), *random_cases()]
    return [case for case in cases if wanted(case)]


def run():
    report = Report()
    make_templates(TEMPLATES)
    with multiprocessing.Pool(ARGUMENTS.jobs) as pool:
        learn(pool, report)
    with multiprocessing.Pool(ARGUMENTS.jobs) as pool:
        cases = collect(pool, report)
        if ARGUMENTS.list:
            print("\n".join(case.name for case in cases))
            return 0
        for case, seconds, problem in pool.imap_unordered(run_timed, cases, 2):
            report.add(case.group, seconds, case.name, problem)
    if not ARGUMENTS.only:
        check_points(report, cases)
    return report.print()


def main():
    try:
        return run()
    finally:
        shutil.rmtree(TEMPLATES, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
