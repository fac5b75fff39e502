#!/usr/bin/python3
"""Runs every fuzzer over its corpus, then for a fixed number of inputs from a fixed seed.

    tests/fuzz/smoke.py build/fuzz/tests/fuzz [--runs N] [--seed N]

Deterministic and bounded: it shows that the fuzzers still work and that the known inputs are fine.
To hunt, start one of the programs by hand: build/fuzz/tests/fuzz/fuzz_fact tests/fuzz/corpus/fact
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TIMEOUT_S = 300


def run(program, corpus, runs, seed):
    with tempfile.TemporaryDirectory(prefix="memsync-fuzz-") as scratch:
        command = [str(program), f"-runs={runs}", f"-seed={seed}", "-timeout=10", "-rss_limit_mb=2048", "-verbosity=0",
                   f"-artifact_prefix={scratch}/", scratch, str(corpus)]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  timeout=TIMEOUT_S, check=False)
            return done.returncode, done.stdout.decode("utf-8", "replace")
        except subprocess.TimeoutExpired:
            return -1, f"(ended after {TIMEOUT_S} s)"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", help="where the fuzzers were built")
    parser.add_argument("--runs", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    passed = failed = 0
    for source in sorted((ROOT / "tests" / "fuzz").glob("fuzz_*.c")):
        corpus = ROOT / "tests" / "fuzz" / "corpus" / source.stem.removeprefix("fuzz_")
        if not any(corpus.iterdir()):
            print(f"FAIL {source.stem}: no corpus in {corpus.relative_to(ROOT)}")
            failed += 1
            continue
        code, output = run(pathlib.Path(arguments.directory) / source.stem, corpus, arguments.runs, arguments.seed)
        print(f"{'ok  ' if code == 0 else 'FAIL'} {source.stem}: {len(list(corpus.iterdir()))} known inputs, "
              f"{arguments.runs} runs", flush=True)
        if code != 0:
            print(output)
        passed += code == 0
        failed += code != 0
    print(f"{passed} passed, {failed} failed")
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
