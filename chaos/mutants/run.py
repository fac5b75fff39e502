#!/usr/bin/python3
"""Leaves out one rule of the protocol at a time and says which scenario notices.

    chaos/mutants/run.py [--list] [--only NAME ...] [--keep-going] [--verbose]

Each mutant of core/mutant.h is built (only the files that know it are compiled again) and put through
the scenarios below, the cheap ones first, until one goes red. A mutant that all of them let pass has
survived, and the run fails: either a rule is not needed, or a scenario is missing. A rule that is
masked by another one (whatever it lets through, the other one catches) is left out together with that
one, and listed so.

First the scenarios run without any mutant, since red means nothing where green is not the rule.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TIMEOUT_S = 300

# Rules that others mask: left out together with them. What goes red must be more than what goes red without the
# masking rules alone. The reasons are in README.md.
TOGETHER = {
    "RECOVER_MANIFEST_FIRST": ["NO_SECOND_LOOK", "NO_LOOK_AFTER_CAPTURE"],
}

# Rules that matter on network volumes only: it is such a volume that has to notice.
OF_NETWORKS = ("UNFORCED", "STAT_ONLY", "PROBE_NOT_LIST", "NO_LATER_LOOK", "CLEAN_AT_ONCE", "NO_GRACE")
NETWORK_SCENARIOS = (("network", "tests/integration/test_network.py", ("-f",)),)

# What is run, in this order: name, program below the mutant's build, arguments.
SCENARIOS = (
    ("replay", "chaos/replay/run", ()),
    ("refresher", "tests/unit/test_refresher", ()),
    ("write_session", "tests/unit/test_write_session", ()),
    ("volume_snapshot", "tests/unit/test_volume_snapshot", ()),
    ("volume_recover", "tests/unit/test_volume_recover", ()),
    ("explorer", "chaos/explorer/run", ("--slice", "mutants")),
    ("replay --random", "chaos/replay/run", ("--random", "--seed", "1", "--rounds", "400")),
    ("kill", "chaos/kill/kill.py", ()),
)


def mutants():
    text = (ROOT / "core" / "mutant.h").read_text(encoding="utf-8")
    return re.findall(r"^\s+X\((\w+)\)", text, re.M)


def files_of(names):
    """The sources that have to be compiled anew."""
    pattern = re.compile(r"\bMUTANT\((" + "|".join(names) + r")\)")
    return [str(path.relative_to(ROOT)) for path in sorted((ROOT / "core").glob("*.c"))
            if pattern.search(path.read_text(encoding="utf-8"))]


def build(names, verbose):
    """Makes the programs of a mutant; the directory that has them."""
    directory = "build/mutants/" + ("-".join(names) or "none")
    command = ["make", "--no-print-directory", "-s", "-j2", "FLAVOUR=test",
               f"MUTANT_DIR={directory}", "MUTANT_FILES=" + " ".join(files_of(names) if names else []),
               "MUTANT_BITS=" + ("|".join(f"MUTANT_BIT({name})" for name in names) or "0u"),
               "mutant-programs"]
    done = subprocess.run(command, cwd=ROOT, stdout=None if verbose else subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{directory} cannot be built:\n{(done.stdout or b'').decode()}")
    return ROOT / directory


def failures(output):
    """The names of what went red: schedules, tests, scenarios."""
    found = re.findall(r"^(?:FAILED|\[FAIL\]|FAIL:|ERROR:) ([\w:-]+)", output, re.M)
    return found or [line.strip() for line in output.splitlines() if line.strip()][-1:] or ["it said nothing"]


def run_scenario(directory, program, arguments, verbose):
    """What went red."""
    path = directory / program
    command = [str(path), *arguments]
    if program.startswith("tests/integration/"):
        command = [sys.executable, str(ROOT / program), *arguments]
    elif program.endswith(".py"):
        command = [sys.executable, str(ROOT / program), "--build", str(directory), *arguments]
    environment = {**os.environ, "MEMSYNC_BUILD": str(directory)}
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return [f"it does not end within {TIMEOUT_S} s"]
    output = done.stdout.decode("utf-8", "replace")
    if verbose and done.returncode != 0:
        print(output)
    if done.returncode < 0:
        return [f"it ends by signal {-done.returncode}"]
    return failures(output) if done.returncode != 0 else []


def there_is(directory, program):
    return (ROOT / program if program.endswith(".py") else directory / program).exists()


def scenarios_for(names):
    if not names:
        return SCENARIOS + NETWORK_SCENARIOS
    return NETWORK_SCENARIOS if names[0] in OF_NETWORKS else SCENARIOS


def judge(names, verbose, ignored=()):
    """(scenario, what went red), or None for a survivor. `ignored`: (scenario, name) that count for nothing."""
    directory = build(names, verbose)
    for name, program, arguments in scenarios_for(names):
        if there_is(directory, program):
            red = [each for each in run_scenario(directory, program, arguments, verbose)
                   if (name, each) not in ignored]
            if red:
                return name, red[0]
    return None


def all_red(names, verbose):
    """Everything that goes red, as (scenario, name)."""
    directory = build(names, verbose)
    return {(name, each) for name, program, arguments in SCENARIOS if there_is(directory, program)
            for each in run_scenario(directory, program, arguments, verbose)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--list", action="store_true", help="name the mutants and end")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="just these mutants")
    parser.add_argument("--verbose", action="store_true", help="show what the scenarios print")
    options = parser.parse_args()
    known = mutants()
    if options.list:
        print("\n".join(known))
        return 0
    unknown = set(options.only) - set(known)
    if unknown:
        raise SystemExit(f"there is no mutant {', '.join(sorted(unknown))} (see --list)")

    red = judge([], options.verbose)
    if red:
        print(f"FAILED without any mutant: {red[0]}: {red[1]}")
        print("0 passed, 1 failed")
        return 1
    print("ok     without any mutant everything is green", flush=True)
    survivors = 0
    chosen = options.only or known
    for mutant in chosen:
        masking = TOGETHER.get(mutant, [])
        names = [mutant, *masking]
        begun = time.monotonic()
        ignored = all_red(masking, options.verbose) if masking else ()
        killer = judge(names, options.verbose, ignored)
        what = " with ".join(names)
        seconds = f"({time.monotonic() - begun:.0f} s)"
        if killer:
            print(f"ok     {what}: noticed by {killer[0]}: {killer[1][:150]} {seconds}", flush=True)
        else:
            survivors += 1
            print(f"FAILED {what}: nobody noticed {seconds}", flush=True)
    print(f"{len(chosen) - survivors + 1} passed, {survivors} failed")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
