#!/usr/bin/python3
"""Runs every test of a build and sums them up: "N passed, N failed" is the last line.

Unit tests are Criterion programs, races and schedules are plain programs (they must run under the
thread sanitizer, where Criterion does not start), integration tests are unittest files that start the
real programs. Of the chaos suites a part runs here, and everything by `make chaos`.
"""

import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM_TIMEOUT_S = 900
# What runs under the thread sanitizer unless asked otherwise: every thread meets every other one there.
TSAN_SCRIPTS = ("test_agent_life.py", "test_agent_watch.py", "test_volume_cases.py", "test_network_hangs.py")


class Totals:
    def __init__(self):
        self.passed = 0
        self.failed = 0
        self.skipped = 0

    def add(self, name, passed, failed, skipped, seconds, output):
        self.passed += passed
        self.failed += failed
        self.skipped += skipped
        mark = "ok  " if failed == 0 else "FAIL"
        note = f", {skipped} skipped" if skipped else ""
        print(f"{mark} {name}: {passed} passed, {failed} failed{note} ({seconds:.1f} s)",
              flush=True)
        if failed:
            print(output, flush=True)


def run(command, env):
    begun = time.monotonic()
    try:
        done = subprocess.run(command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=PROGRAM_TIMEOUT_S, check=False)
        output, code = done.stdout.decode("utf-8", "replace"), done.returncode
    except subprocess.TimeoutExpired as error:
        output = (error.stdout or b"").decode("utf-8", "replace")
        output += f"\n(ended after {PROGRAM_TIMEOUT_S} s)"
        code = -1
    return output, code, time.monotonic() - begun


def judge(counted, code):
    """A program that counts no failure and still fails, or runs no test, has failed once."""
    passed, failed, skipped = counted
    if failed == 0 and (code != 0 or passed + skipped == 0):
        failed = 1
    return passed, failed, skipped


def criterion_counts(output):
    found = re.findall(r"Tested: (\d+) \| Passing: (\d+) \| Failing: (\d+) \| Crashing: (\d+)",
                       output)
    if not found:
        return 0, 0, 0
    tested, passing, _, _ = map(int, found[-1])
    return passing, tested - passing, 0


# chaos/: every schedule once, some made by chance, and everything at once for a moment; `make chaos`
# goes on for longer.
REPLAYS = (("schedules",), ("random", "--random", "--rounds", "40"),
           ("together", "--together", "--seconds", "3"))


# Scenarios side by side, each up to its own bound; where every step is slow, some by chance.
EXPLORER = ("--jobs", str(os.cpu_count() or 1))
EXPLORER_SLOW = ("--bound", "0", "--walks", "30")


# Several agents at once, with faults: a round on a directory, one on a network volume, and one on such a volume with
# locks that other nodes do not see.
SOAK = ("--round", "8", "--agents", "3", "--workers", "6")
SOAKS = (("soak", "--time", "16", "--locks", "shared"), ("soak-locks", "--time", "8", "--locks", "node"))
# Each scenario with each fault, at places that differ and are far from one another: as many as there is time for.
FAULTS = ("--distinct", "--budget", "40", "--jobs", str(os.cpu_count() or 1))


def race_counts(output):
    found = re.findall(r"^(\d+) passed, (\d+) failed$", output, re.M)
    return (int(found[-1][0]), int(found[-1][1]), 0) if found else (0, 0, 0)


def unittest_counts(output):
    ran = re.findall(r"^Ran (\d+) tests?", output, re.M)
    if not ran:
        return 0, 0, 0
    number = {key: int(value)
              for key, value in re.findall(r"(failures|errors|skipped)=(\d+)", output)}
    bad = number.get("failures", 0) + number.get("errors", 0)
    skipped = number.get("skipped", 0)
    return int(ran[-1]) - bad - skipped, bad, skipped


def wanted(name, patterns):
    return not patterns or any(pattern in name for pattern in patterns)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, help="directory of the build, e.g. build/test")
    parser.add_argument("--tsan", action="store_true",
                        help="only what runs under the thread sanitizer")
    parser.add_argument("patterns", nargs="*",
                        help="run only tests whose file name contains one of these")
    arguments = parser.parse_args()
    build = ROOT / arguments.build
    env = dict(os.environ, MEMSYNC_BUILD=str(build), PYTHONPATH=str(ROOT / "tests" / "support"),
               PYTHONDONTWRITEBYTECODE="1")
    for name in list(env):
        if name.startswith("MEMSYNC_") and name not in ("MEMSYNC_BUILD", "MEMSYNC_SHARED"):
            del env[name]
    env.setdefault("ASAN_OPTIONS", "detect_leaks=1:abort_on_error=1:allocator_may_return_null=1")
    env.setdefault("UBSAN_OPTIONS", "print_stacktrace=1")
    suppressions = ROOT / "tests" / "race" / "tsan.supp"
    env.setdefault("TSAN_OPTIONS",
                   f"halt_on_error=1:second_deadlock_stack=1:suppressions={suppressions}")
    # Whoever started us in the background may have had SIGINT ignored; tests of Ctrl-C need it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    totals = Totals()

    if not arguments.tsan:
        for program in sorted((build / "tests" / "unit").glob("test_*")):
            if not program.suffix and wanted(program.name, arguments.patterns):
                output, code, seconds = run([str(program)], env)
                counted = judge(criterion_counts(output), code)
                totals.add(f"unit/{program.name}", *counted, seconds, output)
    race = build / "tests" / "race" / "run"
    if race.exists() and wanted("race", arguments.patterns):
        output, code, seconds = run([str(race)], env)
        totals.add("race", *judge(race_counts(output), code), seconds, output)
    replay = build / "chaos" / "replay" / "run"
    for name, *options in REPLAYS if replay.exists() else ():
        if wanted(f"chaos/{name}", arguments.patterns):
            output, code, seconds = run([str(replay), *options], env)
            totals.add(f"chaos/{name}", *judge(race_counts(output), code), seconds, output)
    explorer = build / "chaos" / "explorer" / "run"
    if not arguments.tsan and explorer.exists() and wanted("chaos/explorer", arguments.patterns):
        slow = EXPLORER_SLOW if build.name == "asan" else ()
        output, code, seconds = run([str(explorer), *EXPLORER, *slow], env)
        totals.add("chaos/explorer", *judge(race_counts(output), code), seconds, output)
    faults = build / "chaos" / "faults" / "run"
    if not arguments.tsan and faults.exists() and wanted("chaos/faults", arguments.patterns):
        output, code, seconds = run([str(faults), *FAULTS], env)
        totals.add("chaos/faults", *judge(race_counts(output), code), seconds, output)
    for script in sorted((ROOT / "tests" / "integration").glob("test_*.py")):
        if arguments.tsan and not arguments.patterns and script.name not in TSAN_SCRIPTS:
            continue
        if wanted(script.name, arguments.patterns):
            output, code, seconds = run([sys.executable, str(script)], env)
            counted = judge(unittest_counts(output), code)
            totals.add(f"integration/{script.name}", *counted, seconds, output)
    kill = ROOT / "chaos" / "kill" / "kill.py"
    if not arguments.tsan and wanted("chaos/kill", arguments.patterns):
        # Agents of the address sanitizer are slow to start, and this is nothing but starts.
        few = ["--only", "apply_changes/*"] if build.name == "asan" else []
        output, code, seconds = run([sys.executable, str(kill), "--build", arguments.build, *few], env)
        totals.add("chaos/kill", *judge(race_counts(output), code), seconds, output)

    soak = ROOT / "chaos" / "soak" / "soak.py"
    for name, *options in SOAKS if not arguments.tsan else ():
        if wanted(f"chaos/{name}", arguments.patterns):
            output, code, seconds = run([sys.executable, str(soak), "--build", arguments.build, *SOAK, *options], env)
            totals.add(f"chaos/{name}", *judge(race_counts(output), code), seconds, output)

    note = f", {totals.skipped} skipped" if totals.skipped else ""
    print(f"{totals.passed} passed, {totals.failed} failed{note}")
    return 0 if totals.failed == 0 and totals.passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
