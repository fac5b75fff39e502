#!/usr/bin/python3
"""Measures the agent; each figure beside a floor that was measured in the same run.

    bench.py [--quick] [--only NAME,...] [--runs N] [--seconds S] [--build DIR] [--directory DIR]
             [--json FILE] [--charts DIR]

What is measured: --list; `--only slow` takes everything that begins so. Figures are medians over the
runs, and p99 the median of the runs' 99th percentiles. With --directory the volumes are kept there, and
the next run does not write them again. Targets hold for two cores; ratios to the floors are what can be
compared between machines.
"""

import argparse
import json
import os
import platform
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "tests", "support"), os.path.join(ROOT, "ipc", "python")]

# pylint: disable=wrong-import-position
import builds  # noqa: E402
import charts  # noqa: E402
import refreshes  # noqa: E402
import scaling  # noqa: E402
import searches  # noqa: E402
import slow  # noqa: E402
import writes  # noqa: E402
from agent import AgentFailed  # noqa: E402
from harness import Bench, MeasurementFailed, heading  # noqa: E402
from options import positive  # noqa: E402
from program_end import run  # noqa: E402

MEASUREMENTS = {
    "inside": searches.measure_inside,
    "socket": searches.measure_socket,
    "python": searches.measure_python,
    "changed": refreshes.measure_changed,
    "replaced": refreshes.measure_replaced,
    "cold": builds.measure_cold,
    "warm": builds.measure_warm,
    "writes": writes.measure_writes,
    "poll": builds.measure_polling,
    "memory": builds.measure_memory,
    "scaling": scaling.measure_scaling,
    **slow.MEASUREMENTS,
}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="smaller volumes, one run of each")
    parser.add_argument("--only", help="some measurements, with commas between them")
    parser.add_argument("--list", action="store_true", help="the names of the measurements")
    parser.add_argument("--runs", type=positive(int), help="of each measurement (5; quick 1)")
    parser.add_argument("--seconds", type=positive(int), help="of each run (2; quick 1)")
    parser.add_argument("--build", default="build/plain", help="where the programs are")
    parser.add_argument("--directory", help="where volumes are written, and kept (default: $TMPDIR)")
    parser.add_argument("--json", help="write the rows there as well")
    parser.add_argument("--charts", help="draw what was measured there, as SVG")
    parser.add_argument("--verbose", action="store_true", help="what the programs say")
    return parser.parse_args()


LONG = ("scaling",)  # a quick run has them only when asked for


def chosen_by(only, quick):
    """The names that were asked for: whole, or the word that some begin with. An unknown one ends it."""
    if only is None:
        return [name for name in MEASUREMENTS if not (quick and name in LONG)]
    chosen = []
    for wanted in only.split(","):
        names = [name for name in MEASUREMENTS if name == wanted or name.startswith(wanted + "-")]
        if not names:
            print(f"no such measurement: {wanted} (--list names them)", file=sys.stderr)
            sys.exit(2)
        chosen += names
    return chosen


def machine():
    model = platform.machine()
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        models = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return {"cpus": os.cpu_count(), "model": models[0] if models else model,
            "kernel": platform.release(), "load": os.getloadavg()[0]}


def write_charts(bench, told):
    """One file a chart; its foot says how it was made, and on what."""
    options = bench.options
    only = f" --only {options.only}" if options.only else ""
    runs = f" --runs {options.runs}" if options.runs else ""
    made_by = (f"bench.py{' --quick' if options.quick else ''}{only}{runs}; "
               f"{told['cpus']} x {told['model']}, Linux {told['kernel']}")
    os.makedirs(options.charts, exist_ok=True)
    for name, (title, panels) in bench.charts.items():
        charts.write_chart(os.path.join(options.charts, f"{name}.svg"), title, made_by, panels)


def measure(bench, chosen):
    """Everything that was chosen; how long each took, and the names of those that failed."""
    took, failed = {}, []
    for name in chosen:
        begun = time.monotonic()
        try:
            MEASUREMENTS[name](bench)
        except (MeasurementFailed, AgentFailed, AssertionError, OSError) as problem:
            failed.append(name)
            print(f"{name} FAILED: {problem}", flush=True)
        took[name] = round(time.monotonic() - begun, 1)
    return took, failed


def main():
    options = parse_arguments()
    if options.list:
        print("\n".join(MEASUREMENTS))
        return 0
    chosen = chosen_by(options.only, options.quick)
    told = machine()
    begun = time.monotonic()
    bench = Bench(options)
    try:
        print(f"{told['cpus']} x {told['model']}, Linux {told['kernel']}, load {told['load']:.1f}")
        print(heading(), flush=True)
        took, failed = measure(bench, chosen)
    finally:
        bench.close()
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"machine": told, "quick": options.quick, "seconds": time.monotonic() - begun,
                       "failed": failed, "took_s": took,
                       "rows": [row._asdict() for row in bench.rows]}, file, indent=2)
    if options.charts:
        write_charts(bench, told)
    missed = sum(row.met is False for row in bench.rows)
    print(f"{len(bench.rows)} rows, {missed} targets missed, "
          f"{f'failed: ' + ', '.join(failed) + ', ' if failed else ''}{time.monotonic() - begun:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    run(main)
