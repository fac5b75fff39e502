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
SECONDS = 150         # each

# What may happen in a run, if it does not say otherwise.
NOTHING_HAPPENS = {"WRITES": 0, "PEER_COMMITS": 0, "DEATHS": 0, "ERRORS": 0, "RESTARTS": 0,
                   "SEARCHES": 0, "ROUNDS": 1, "UNPROMPTED": 0}


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
    finds: bool = False  # spin is expected to find an error

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
        flags = ["-O2", "-w", "-DCOLLAPSE", f"-DMEMLIM={MEMORY_MB}", "-DNFAIR=3"]
        return flags + ([] if self.claim else ["-DSAFETY"])

    def pan_flags(self):
        return [f"-m{DEPTH}", "-b"] + (["-a", "-f"] if self.claim else [])


def bounds(**values):
    return tuple(values.items())


SOUND = [
    Run("writers", "own write and peer, each may break off; the index alone",
        bounds=bounds(WRITES=1, ERRORS=1, PEER_COMMITS=2, DEATHS=1, UNPROMPTED=1)),
    Run("own", "two own writes, an error, a restart at every step",
        bounds=bounds(WRITES=2, ERRORS=1, RESTARTS=1)),
    Run("search", "searches beside an own write and a peer",
        bounds=bounds(WRITES=1, PEER_COMMITS=1, DEATHS=1, SEARCHES=2)),
    Run("recovery", "peers that die and recover each other, manifest first, below a search",
        bounds=bounds(PEER_COMMITS=2, DEATHS=2, SEARCHES=1, UNPROMPTED=1)),
    Run("restart", "the agent restarts at every step, a peer writes",
        bounds=bounds(WRITES=1, PEER_COMMITS=1, DEATHS=1, RESTARTS=1)),
    Run("heals", "after the last change and fault: in step, without a search", claim=True,
        bounds=bounds(WRITES=1, ERRORS=1, PEER_COMMITS=1, DEATHS=1)),
    Run("heals-restart", "the same with restarts", claim=True,
        bounds=bounds(PEER_COMMITS=2, DEATHS=1, RESTARTS=1)),
    Run("cached", "listings may be old ones: in step in the end", claim=True,
        switches=("CACHED",), bounds=bounds(PEER_COMMITS=2, DEATHS=1)),
    Run("cached-own", "the same with an own write on top", claim=True,
        switches=("CACHED",), bounds=bounds(WRITES=1, PEER_COMMITS=1)),
    Run("cached-restart", "the same with a restart", claim=True,
        switches=("CACHED",), bounds=bounds(PEER_COMMITS=1, DEATHS=1, RESTARTS=1)),
]

PEER_AND_SEARCH = bounds(PEER_COMMITS=2, DEATHS=1, SEARCHES=1, UNPROMPTED=1)
ALL_AND_SEARCH = bounds(WRITES=1, PEER_COMMITS=1, DEATHS=1, SEARCHES=1, UNPROMPTED=1)
OWN_AND_SEARCH = bounds(WRITES=1, ERRORS=1, SEARCHES=1, UNPROMPTED=1)


def left_out(name, what, switches, where, **options):
    return Run(name, what, switches=tuple(switches.split()), bounds=where, finds=True, **options)


LEFT_OUT = [
    left_out("no second look", "nothing is compared after reading", "NO_SECOND_LOOK", ALL_AND_SEARCH),
    left_out("no journal look", "journals are never looked for", "NO_JOURNAL_CHECK", ALL_AND_SEARCH),
    left_out("no journal look after", "only before reading", "NO_JOURNAL_CHECK_AFTER", ALL_AND_SEARCH),
    left_out("journal, then capture", "the journal is looked for before the manifest is held only",
             "JOURNAL_THEN_CAPTURE", PEER_AND_SEARCH),
    left_out("capture after reading", "the signature is taken after the facts", "CAPTURE_AFTER_READ",
             ALL_AND_SEARCH),
    left_out("no generation", "a refresh installs over rows that moved", "NO_GENERATION",
             ALL_AND_SEARCH),
    left_out("unproven promotion", "a delta is applied to any rows", "PROMOTE_UNPROVEN",
             ALL_AND_SEARCH),
    left_out("two transactions", "the mark, then the rows", "TWO_TRANSACTIONS", ALL_AND_SEARCH),
    left_out("a no-op advances", "a write that changes nothing moves the mark", "NOOP_ADVANCES",
             ALL_AND_SEARCH),
    left_out("hits unchecked", "the hits are read after the compare", "HITS_UNCHECKED", ALL_AND_SEARCH),
    left_out("joined is fresh", "no compare after a run that was under way", "JOINED_IS_FRESH",
             ALL_AND_SEARCH),
    left_out("no digest", "manifests of one revision are equal", "NO_DIGEST",
             bounds(PEER_COMMITS=2, DEATHS=1, SEARCHES=1)),
    left_out("no inode", "equal bytes are the same manifest", "NO_INODE", PEER_AND_SEARCH),
    left_out("manifest not held", "its inode may come back while facts are read", "NOT_HELD_OPEN",
             PEER_AND_SEARCH),
    left_out("manifest kept", "recovery leaves an old manifest as it is", "KEEP_MANIFEST",
             OWN_AND_SEARCH),
    left_out("no second look at listings", "what a cached listing told stays", "CACHED NO_LATER_LOOK",
             bounds(PEER_COMMITS=1), claim=True),
    left_out("any manifest is last", "a second look at a newer manifest has no third",
             "CACHED ANY_MANIFEST_IS_LAST", bounds(PEER_COMMITS=2), claim=True),
    left_out("any facts are last", "a second look at other facts has no third",
             "CACHED ANY_FACTS_ARE_LAST", bounds(PEER_COMMITS=2, DEATHS=1), claim=True),
    left_out("restart forgets the look", "a second look that is due dies with the agent",
             "CACHED RESTART_FORGETS_LOOK", bounds(PEER_COMMITS=1, RESTARTS=1), claim=True),
]


@dataclasses.dataclass
class Outcome:
    run: Run
    verdict: str  # clean, error, or what went wrong with the run itself
    states: int = 0
    transitions: int = 0
    depth: int = 0
    seconds: float = 0.0
    where: str = ""

    @property
    def passed(self):
        return self.verdict == ("error" if self.run.finds else "clean")


def number(pattern, text):
    match = re.search(pattern, text)
    return int(float(match[1])) if match else 0


def call(command, folder, seconds):
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=seconds, check=False)
    return done.returncode, done.stdout.decode(errors="replace")


def read_outcome(run, text):
    errors = re.search(r"errors: (\d+)", text)
    outcome = Outcome(run, "broke off",
                      states=number(r"([\d.e+]+) states, stored", text),
                      transitions=number(r"([\d.e+]+) transitions", text),
                      depth=number(r"depth reached (\d+)", text))
    if errors and "max search depth too small" in text:
        outcome.verdict = "too deep"
    elif errors and errors[1] != "0":
        outcome.verdict = "error"
        outcome.where = re.search(r"pan:\d+: ([^\n]*)", text)[1]
    elif errors and "Search not completed" not in text:
        outcome.verdict = "clean"
    else:
        outcome.where = text.strip()[-300:]
    return outcome


def check(run, folder):
    """Builds and runs one; what lies in the folder afterwards is for replaying it."""
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


def line(outcome):
    run = outcome.run
    passed = "ok  " if outcome.passed else "FAIL"
    found = {"clean": "no error", "error": "error found"}.get(outcome.verdict, outcome.verdict)
    return (f"{passed} {run.name:27} {outcome.states:>11,} {outcome.transitions:>12,} "
            f"{outcome.depth:>6,} {outcome.seconds:>6.1f}  {found:12} {run.what}")


HEAD = f"     {'run':27} {'states':>11} {'transitions':>12} {'depth':>6} {'s':>6}  {'verdict':12} what"


def replay_command(run, folder):
    defines = " ".join(run.defines())
    source = os.path.relpath(os.path.join(HERE, run.source), ROOT)
    trail = os.path.relpath(os.path.join(folder, run.source + ".trail"), ROOT)
    return f"spin -t -p -g -l -k {trail} {defines} {source}"


def folder_of(run):
    return os.path.join(SCRATCH, re.sub(r"\W+", "-", run.name))


def run_all(title, runs, jobs):
    print(f"\n{title}\n{HEAD}", flush=True)
    outcomes = []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for outcome in pool.map(lambda run: check(run, folder_of(run)), runs):
            print(line(outcome), flush=True)
            if not outcome.passed and outcome.where:
                print(f"     {outcome.where}")
            if not outcome.passed and outcome.verdict == "error":
                print("     replay: " + replay_command(outcome.run, folder_of(outcome.run)))
            outcomes.append(outcome)
    return outcomes


def need(program, hint):
    if not shutil.which(program):
        sys.exit(f"model: {program} is missing; {hint}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pattern", nargs="*", help="only runs whose names contain one of these")
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side (2)")
    parser.add_argument("--keep", action="store_true", help="keep what was built and the trails")
    parser.add_argument("--replay", action="store_true",
                        help="print the command that replays each error; implies --keep")
    arguments = parser.parse_args()

    need("spin", "run 'make deps-model' (Debian: apt-get install spin)")
    need("gcc", "run 'make deps'")

    def wanted(runs):
        return [run for run in runs
                if not arguments.pattern or any(part in run.name for part in arguments.pattern)]

    shutil.rmtree(SCRATCH, ignore_errors=True)
    outcomes = []
    for title, runs in (("The protocol as it is", wanted(SOUND)),
                        ("With a rule left out: spin must find an error", wanted(LEFT_OUT))):
        if runs:
            outcomes += run_all(title, runs, arguments.jobs)
    if not outcomes:
        sys.exit("model: no run has such a name")
    if arguments.replay:
        for outcome in outcomes:
            if outcome.verdict == "error":
                print(f"\n{outcome.run.name}:\n{replay_command(outcome.run, folder_of(outcome.run))}")
    failed = sum(not outcome.passed for outcome in outcomes)
    if not (failed or arguments.keep or arguments.replay):
        shutil.rmtree(SCRATCH, ignore_errors=True)
    print(f"\nmodel: {len(outcomes) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
