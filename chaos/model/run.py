#!/usr/bin/python3
"""Checks the protocol's model with spin: the sound configurations, then each with a rule left out.

The first must be free of errors. In the second spin must find one: a rule whose absence nobody
notices is either not modelled or not needed. Prints a line for each run and ends with 1 when any
came out otherwise.
"""
import argparse
import concurrent.futures
import dataclasses
import os
import re
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SCRATCH = os.path.join(ROOT, "build", "model")

DEPTH = 100_000       # steps of one schedule; reaching it fails the run
MEMORY_MB = 1_800     # each; two run side by side
SECONDS = 600         # each, however busy the machine is

# What may happen in a run, if it does not say otherwise.
NOTHING_HAPPENS = {"WRITES": 0, "PEER_COMMITS": 0, "DEATHS": 0, "ERRORS": 0, "RESTARTS": 0,
                   "SEARCHES": 0, "ROUNDS": 1, "UNPROMPTED": 0}


# What can go wrong, and how spin says it: words of the assertion.
HARM = {
    "wrong answer": ("facts_a[live]",),
    "old answer": ("before)",),
    "torn volume": ("fact_a==facts_a[manifest]", "fact_a==manifest"),
    "lost commit": ("ancestors[manifest]",),
    "revision used twice": ("used&",),
    "never right": ("acceptance cycle",),
}


@dataclasses.dataclass(frozen=True)
class Run:
    """One program for spin. `claim`: a formula over whole schedules, under weak fairness, else
    assertions and deadlocks in every state."""
    name: str
    what: str
    source: str = "memory.pml"
    bounds: tuple = ()
    switches: tuple = ()
    claim: bool = False
    finds: str = ""  # what spin is expected to find: a key of HARM

    def defines(self):
        values = dict(NOTHING_HAPPENS) if self.source == "memory.pml" else {}
        values.update(self.bounds)
        switches = list(self.switches)
        if self.claim:
            switches.append("HEALS")
        if self.finds:
            switches.append("RULE_LEFT_OUT")
        return [f"-D{name}={value}" for name, value in sorted(values.items())] + \
               [f"-D{name}" for name in switches]

    def compile_flags(self):
        # Most of a short run is gcc's time, and optimising gains a long one little.
        flags = ["-O0" if self.finds else "-O1", "-w", "-DCOLLAPSE", f"-DMEMLIM={MEMORY_MB}", "-DNFAIR=3"]
        return flags + ([] if self.claim else ["-DSAFETY"])

    def pan_flags(self):
        return [f"-m{DEPTH}", "-b"] + (["-a", "-f"] if self.claim else [])


def bounds(**values):
    return tuple(values.items())


NODES = bounds(COMMITS_EACH=2, DEATHS=1)  # of nolock.pml

SOUND = [
    Run("writers", "own write and peers that may die; the index alone",
        bounds=bounds(WRITES=1, PEER_COMMITS=2, DEATHS=1, UNPROMPTED=1)),
    Run("own", "two own writes, an error, a restart at every step",
        bounds=bounds(WRITES=2, ERRORS=1, RESTARTS=1)),
    Run("own-two", "two workers' writes at once, told to the index in any order",
        switches=("TWO_WRITERS",), bounds=bounds(WRITES=1, SEARCHES=1)),
    Run("search", "searches beside an own write and a peer",
        bounds=bounds(WRITES=1, PEER_COMMITS=1, DEATHS=1, SEARCHES=2)),
    Run("recovery", "peers that die and recover each other, manifest first, below a search",
        bounds=bounds(PEER_COMMITS=2, DEATHS=2, SEARCHES=1, UNPROMPTED=1)),
    Run("restart", "the agent restarts at every step, a peer writes",
        bounds=bounds(WRITES=1, PEER_COMMITS=1, DEATHS=1, RESTARTS=1)),
    Run("first", "nothing is there before: no manifest, no fact", switches=("FIRST",),
        bounds=bounds(WRITES=1, ERRORS=1, PEER_COMMITS=1, SEARCHES=1)),
    Run("first-peers", "the same with peers that recover each other", switches=("FIRST",),
        bounds=bounds(PEER_COMMITS=2, DEATHS=2, SEARCHES=1, UNPROMPTED=1)),
    Run("heals", "after the last change and fault: in step, without a search", claim=True,
        bounds=bounds(WRITES=1, ERRORS=1, PEER_COMMITS=1, DEATHS=1)),
    Run("heals-restart", "the same with restarts", claim=True,
        bounds=bounds(PEER_COMMITS=2, DEATHS=1, RESTARTS=1)),
    Run("heals-first", "the same from nothing on", claim=True, switches=("FIRST",),
        bounds=bounds(WRITES=1, PEER_COMMITS=1, DEATHS=1)),
    Run("cached", "listings may be old ones: in step in the end", claim=True,
        switches=("CACHED",), bounds=bounds(PEER_COMMITS=2, DEATHS=1)),
    Run("cached-own", "the same with an own write on top", claim=True,
        switches=("CACHED",), bounds=bounds(WRITES=1, PEER_COMMITS=1)),
    Run("cached-restart", "the same with a restart", claim=True,
        switches=("CACHED",), bounds=bounds(PEER_COMMITS=1, DEATHS=1, RESTARTS=1)),
    Run("facts first", "taking back in our order heals even without a second look", claim=True,
        switches=("NO_SECOND_LOOK", "JOURNAL_THEN_CAPTURE", "CLOCK_MOVES", "RULE_LEFT_OUT"),
        bounds=bounds(WRITES=1, ERRORS=1, UNPROMPTED=1)),
    Run("busy", "an own writer that never rests: the rows move on", source="busy.pml", claim=True),
    Run("no lock", "two nodes and a lock that does not lock", source="nolock.pml",
        bounds=bounds(COMMITS_EACH=3, DEATHS=2)),
    Run("no lock, slow", "commits slower than the grace: no revision is used twice",
        source="nolock.pml", switches=("SLOW", "REVISIONS_ONLY"), bounds=NODES),
]

# The least that shows the harm.
PEER = bounds(PEER_COMMITS=1, SEARCHES=1, UNPROMPTED=1)
PEERS = bounds(PEER_COMMITS=2, DEATHS=1, SEARCHES=1, UNPROMPTED=1)
BOTH = bounds(WRITES=1, PEER_COMMITS=1, SEARCHES=1)
OWN = bounds(WRITES=1, ERRORS=1, SEARCHES=1, UNPROMPTED=1)


def without(name, what, switches, where, finds="wrong answer", **options):
    return Run(name, what, switches=tuple(switches.split()), bounds=where, finds=finds,
               claim=finds == "never right", **options)


LEFT_OUT = [
    without("second look", "nothing is compared after reading", "NO_SECOND_LOOK", PEER),
    without("journal looks", "journals are never looked for", "NO_JOURNAL_CHECK", PEER),
    without("journal look after", "only before the facts are read", "NO_JOURNAL_CHECK_AFTER", PEER),
    without("journal look while held", "only before the manifest is captured", "JOURNAL_THEN_CAPTURE",
            PEERS),
    without("capture before reading", "the mark is taken after the facts", "CAPTURE_AFTER_READ", PEER),
    without("generation", "a refresh installs over rows that moved", "NO_GENERATION",
            bounds(WRITES=1, PEER_COMMITS=1, SEARCHES=1, UNPROMPTED=1)),
    without("proof of promotion", "a delta is applied to any rows", "PROMOTE_UNPROVEN", BOTH),
    without("one transaction", "the mark, then the rows", "TWO_TRANSACTIONS", PEER),
    without("no-op changes nothing", "a write that wrote nothing moves the mark", "NOOP_ADVANCES", BOTH),
    without("mark read with the hits", "the hits are read after the compare", "HITS_UNCHECKED", PEER),
    without("compare after joining", "a run that was under way is good enough", "JOINED_IS_FRESH", BOTH,
            finds="old answer"),
    without("digest", "manifests of one revision are equal", "NO_DIGEST",
            bounds(PEER_COMMITS=2, DEATHS=1, SEARCHES=1)),
    without("inode and ctime", "equal bytes are the same manifest", "NO_INODE", PEERS),
    without("manifest held open", "its inode comes back while facts are read", "NOT_HELD_OPEN", PEERS),
    without("manifest written anew", "taking back leaves an old manifest as it is", "KEEP_MANIFEST",
            OWN),
    without("no manifest, no mark", "nothing equals nothing, facts are read without the lock",
            "FIRST ABSENT_IS_A_MARK", PEERS),
    without("facts first (no second look)", "taking back puts the manifest first",
            "MANIFEST_FIRST NO_SECOND_LOOK JOURNAL_THEN_CAPTURE CLOCK_MOVES",
            bounds(WRITES=1, ERRORS=1, UNPROMPTED=1), finds="never right"),
    without("later look at listings", "what a cached listing told stays", "CACHED NO_LATER_LOOK",
            bounds(PEER_COMMITS=1), finds="never right"),
    without("later look: manifest", "one at a newer manifest is the last", "CACHED ANY_MANIFEST_IS_LAST",
            bounds(PEER_COMMITS=2), finds="never right"),
    without("later look: facts", "one at other facts is the last", "CACHED ANY_FACTS_ARE_LAST",
            bounds(PEER_COMMITS=2, DEATHS=1), finds="never right"),
    without("later look: restart", "one that is due dies with the agent", "CACHED RESTART_FORGETS_LOOK",
            bounds(PEER_COMMITS=1, RESTARTS=1), finds="never right"),
    without("forgetting is no change", "it moves the generation", "FORGET_BUMPS", (),
            finds="never right", source="busy.pml"),
    without("reading with the lock", "attempts without it only", "NO_LOCKED_READING", (),
            finds="never right", source="busy.pml"),
    without("exclusive journal", "it replaces the one that is there", "NO_EXCLUSIVE", NODES,
            finds="torn volume", source="nolock.pml"),
    without("time of grace", "every journal is taken back at once", "NO_GRACE", NODES,
            finds="torn volume", source="nolock.pml"),
    without("manifest check", "a commit goes on upon another manifest", "NO_MANIFEST_CHECK", NODES,
            finds="revision used twice", source="nolock.pml"),
    without("manifest check (slow)", "the same where commits may be overtaken",
            "SLOW REVISIONS_ONLY NO_MANIFEST_CHECK", NODES, finds="revision used twice",
            source="nolock.pml"),
    without("check after the journal", "the base may have changed before it", "NO_FIRST_CHECK", NODES,
            finds="revision used twice", source="nolock.pml"),
    without("checks in recovery", "two take back what a third has overtaken", "RECOVERY_UNCHECKED",
            NODES, finds="revision used twice", source="nolock.pml"),
    without("check before removal", "a commit removes whatever journal is there", "REMOVAL_UNCHECKED",
            NODES, finds="torn volume", source="nolock.pml"),
]

LIMITS = [
    without("death before the check", "right behind its journal, upon an old base",
            "DIES_BEFORE_FIRST_CHECK", NODES, finds="revision used twice", source="nolock.pml"),
    without("slower than the grace", "a live commit is taken back", "SLOW", NODES, finds="torn volume",
            source="nolock.pml"),
]

GROUPS = (
    ("The protocol as it is: no error", SOUND),
    ("Without a rule: spin must find the harm", LEFT_OUT),
    ("Where locks do not lock, known limits: spin must find them", LIMITS),
)


@dataclasses.dataclass
class Outcome:
    """`verdict`: "no error", a key of HARM, or what went wrong with the run itself."""
    run: Run
    verdict: str
    states: int = 0
    transitions: int = 0
    depth: int = 0
    seconds: float = 0.0
    where: str = ""

    @property
    def passed(self):
        return self.verdict == (self.run.finds or "no error")


def number(pattern, text):
    match = re.search(pattern, text)
    return int(float(match[1])) if match else 0


def call(command, folder, seconds):
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=seconds, check=False)
    return done.returncode, done.stdout.decode(errors="replace")


def harm_of(message):
    for harm, words in HARM.items():
        if any(word in message for word in words):
            return harm
    return "other error"


def read_outcome(run, text):
    errors = re.search(r"errors: (\d+)", text)
    outcome = Outcome(run, "broke off",
                      states=number(r"([\d.e+]+) states, stored", text),
                      transitions=number(r"([\d.e+]+) transitions", text),
                      depth=number(r"depth reached (\d+)", text))
    if errors and "max search depth too small" in text:
        outcome.verdict = "too deep"
    elif errors and errors[1] != "0":
        outcome.where = re.search(r"pan:\d+: ([^\n]*)", text)[1]
        outcome.verdict = harm_of(outcome.where)
    elif errors and "Search not completed" not in text:
        outcome.verdict = "no error"
    else:
        outcome.where = text.strip()[-300:]
    return outcome


def check(run):
    """Builds and runs one; what lies in its folder afterwards is for replaying it."""
    folder = folder_of(run)
    os.makedirs(folder)
    begun = time.monotonic()
    try:
        status, text = call(["spin", "-a", *run.defines(), os.path.join(HERE, run.source)], folder, 60)
        if status != 0 or not os.path.exists(os.path.join(folder, "pan.c")):
            return Outcome(run, "spin refuses", where=text.strip()[-300:])
        status, text = call(["gcc", *run.compile_flags(), "-o", "pan", "pan.c"], folder, 120)
        if status != 0:
            return Outcome(run, "gcc refuses", where=text.strip()[-300:])
        _, text = call(["./pan", *run.pan_flags()], folder, SECONDS)
        outcome = read_outcome(run, text)
    except subprocess.TimeoutExpired:
        outcome = Outcome(run, "too slow")
    outcome.seconds = time.monotonic() - begun
    return outcome


ROW = "{:4} {:29} {:>10} {:>11} {:>6} {:>5}  {:19}  {}"


def line(outcome):
    run = outcome.run
    return ROW.format("ok" if outcome.passed else "FAIL", run.name, f"{outcome.states:,}",
                      f"{outcome.transitions:,}", f"{outcome.depth:,}", f"{outcome.seconds:.0f}",
                      outcome.verdict, run.what)


def folder_of(run):
    return os.path.join(SCRATCH, re.sub(r"\W+", "-", f"{'without ' if run.finds else ''}{run.name}").strip("-"))


def trail_of(run):
    return os.path.join(folder_of(run), run.source + ".trail")


def has_trail(outcome):
    return os.path.exists(trail_of(outcome.run))


def replay_command(run):
    source = os.path.relpath(os.path.join(HERE, run.source), ROOT)
    return " ".join(["spin -t -p -g -l -k", os.path.relpath(trail_of(run), ROOT), *run.defines(), source])


def run_all(title, runs, jobs, replays):
    print("\n" + title)
    print(ROW.format("", "run", "states", "transitions", "depth", "s", "verdict", "what"), flush=True)
    outcomes = []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for outcome in pool.map(check, runs):
            print(line(outcome), flush=True)
            if not outcome.passed and outcome.where:
                print(f"     {outcome.where}")
            if has_trail(outcome) and (replays or not outcome.passed):
                print("     " + replay_command(outcome.run))
            outcomes.append(outcome)
    return outcomes


def need(program, hint):
    if not shutil.which(program):
        sys.exit(f"model: {program} is missing; {hint}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pattern", nargs="*", help="only runs whose names contain one of these")
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side (2)")
    parser.add_argument("--replay", action="store_true",
                        help="keep the schedules that were found and print how to replay each")
    arguments = parser.parse_args()

    need("spin", "run 'make deps-model' (Debian: apt-get install spin)")
    need("gcc", "run 'make deps'")

    def wanted(runs):
        return [run for run in runs
                if not arguments.pattern or any(part in run.name for part in arguments.pattern)]

    shutil.rmtree(SCRATCH, ignore_errors=True)
    outcomes = []
    for title, runs in GROUPS:
        if wanted(runs):
            outcomes += run_all(title, wanted(runs), arguments.jobs, arguments.replay)
    if not outcomes:
        sys.exit("model: no run has such a name")
    failed = sum(not outcome.passed for outcome in outcomes)
    if not (failed or arguments.replay):
        shutil.rmtree(SCRATCH, ignore_errors=True)
    print(f"\nmodel: {len(outcomes) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
