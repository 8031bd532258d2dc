#!/usr/bin/env python3
"""Runs tests/errors again and again, each round with a seed of its own, until one fails.

Usage: run.py --rounds N [--program build/release/bin/errors_test] [--first-seed S] [TEST...]

Prints a line per round. Exit status 0: all rounds passed; 1: the first failure, with its output and
the command that repeats it.
"""
import argparse
import os
import subprocess
import sys
import time

LIMIT_SECONDS = 1800  # of a round; a case that hangs ends before that
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def run_round(program, seed, names):
    """Returns (passed, output)."""
    environment = dict(os.environ, GSHMEM_TEST_SEED=str(seed))
    command = [program, *([",".join(names)] if names else [])]
    try:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired as expired:
        return False, f"no end after {LIMIT_SECONDS} s\n" + (expired.stdout or b"").decode()
    output = done.stdout.decode(errors="replace")
    return done.returncode == 0 and "All tests passed" in output, output


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--program", default=os.path.join(TOP, "build/release/bin/errors_test"))
    parser.add_argument("names", nargs="*", metavar="TEST")
    options = parser.parse_args()
    program = os.path.abspath(options.program)
    for number in range(options.rounds):
        seed = options.first_seed + number
        begin = time.monotonic()
        passed, output = run_round(program, seed, options.names)
        took = time.monotonic() - begin
        print(f"round {number + 1} of {options.rounds}, seed {seed}: "
              f"{'passed' if passed else 'FAILED'} ({took:.1f} s)", flush=True)
        if not passed:
            print(output)
            print(f"again: GSHMEM_TEST_SEED={seed} {program} {','.join(options.names)}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
