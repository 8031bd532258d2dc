#!/usr/bin/env python3
"""Puts bugs into a copy of device/ and checks that the named test finds each of them.

Usage: mutate.py --compiler CXX --catch LIBRARY... --machine LIBRARY [--include FOLDER]
                 [--all | --sample N [--seed S] | NAME...]
LIBRARY is what the tests are linked with. A sample is chosen by the seed, which is printed; by
default it is the day, so that days take turns. That the texts of all mutations are still in the
sources is checked in every run. --all and names first run the tests without a bug; of a sample
ctest runs them.

       mutate.py --connections N --build FOLDER [--seed S] [NAME...]
       mutate.py --seeded N --build FOLDER [--seed S] [NAME...]
puts N bugs of connections.py or seeded.tsv, or those named, into host code (host.py): the tests that
are named there must see each of them. FOLDER is a build with all tests.
"""
import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

import host
from mutations import MODEL, MUTATIONS

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEVICE = os.path.join(ROOT, "device")
FLAGS = ["-std=c++20", "-O1", "-w"]
RUNS = "600"  # of store_buffer, as in tests/model
SECONDS = 600
# Files of a test of tests/unit besides its own.
WITH = {"collective_sync_test": ["tests/unit/lanes/lanes.cpp", "transport/nic/decode.cpp"]}


def sources(test):
    if test == MODEL:
        folder = os.path.join(ROOT, "tests", "model", "store_buffer")
        return [os.path.join(folder, "main.cpp"), os.path.join(folder, "producer.cpp")]
    return [os.path.join(ROOT, path) for path in [f"tests/unit/{test}.cpp", *WITH.get(test, [])]]


def patched(mutation):
    """Returns the file with the bug; raises ValueError unless the old text is there once."""
    with open(os.path.join(DEVICE, mutation.file), encoding="utf-8") as file:
        text = file.read()
    for old, new in mutation.edits:
        if text.count(old) != 1:
            raise ValueError(f"{mutation.name}: device/{mutation.file} has {text.count(old)} times "
                             f"what is to be changed:\n{old}")
        text = text.replace(old, new)
    return text


class Tests:
    """Programs compiled with a device/ of their own."""

    def __init__(self, options, folder):
        self.options = options
        self.folder = folder
        self.device = os.path.join(folder, "include", "gshmem", "device")

    def build(self, test, mutation):
        """Returns the program of a test over the sources with a mutation, or without one."""
        shutil.rmtree(self.device, ignore_errors=True)
        shutil.copytree(DEVICE, self.device)
        if mutation:
            with open(os.path.join(self.device, mutation.file), "w", encoding="utf-8") as file:
                file.write(patched(mutation))
        includes = [os.path.join(self.folder, "include"), os.path.join(ROOT, "include"), ROOT,
                    *self.options.include]
        program = os.path.join(self.folder, "program")
        libraries = [self.options.machine] if test == MODEL else self.options.catch
        subprocess.run([self.options.compiler, *FLAGS, *["-I" + path for path in includes],
                        *sources(test), *libraries, "-o", program], check=True)
        return program

    def run(self, test, mutation=None):
        """Returns exit status and output of the named test."""
        name, _, case = test.partition(":")
        program = self.build(name, mutation)
        arguments = [RUNS] if name == MODEL else [case] if case else []
        try:
            done = subprocess.run([program, *arguments], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, errors="replace",
                                  timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return None, f"no end within {SECONDS} s"
        return done.returncode, done.stdout


def finding(output):
    """Returns the line of the output with the error."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for at, line in enumerate(lines):
        if line.startswith("FAILED:"):
            return line if line != "FAILED:" else " ".join(lines[at:at + 2])
    return lines[-1] if lines else "nothing"


def failed_runs(output):
    """Returns the number of the run of store_buffer that found it."""
    match = re.search(r"of seed (\d+)", output)
    return f", run {match.group(1)}" if match else ""


def check(tests, mutation):
    """Returns whether the test finds the mutation as expected; prints the result."""
    begun = time.monotonic()
    status, output = tests.run(mutation.test, mutation)
    took = f"{time.monotonic() - begun:.0f} s"
    caught = status not in (0, None) and re.search(mutation.finds, output) is not None
    print(f"{'caught' if caught else 'NOT CAUGHT'}: {mutation.name} ({mutation.file}) by "
          f"{mutation.test}{failed_runs(output)}, {took}: {finding(output)[:150]}", flush=True)
    if not caught:
        print(f"  expected: {mutation.finds}\n{output[-3000:]}", flush=True)
    return caught


def choose(options):
    if options.names:
        return [m for m in MUTATIONS if m.name in options.names]
    if options.all:
        return MUTATIONS
    print(f"{options.sample} of {len(MUTATIONS)} mutations, --seed {options.seed}")
    return random.Random(options.seed).sample(MUTATIONS, options.sample)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compiler")
    parser.add_argument("--catch", nargs="+")
    parser.add_argument("--include", action="append", default=[])
    parser.add_argument("--machine")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--sample", type=int, default=3)
    parser.add_argument("--seed", type=int, default=int(time.time() // 86400))
    parser.add_argument("names", nargs="*")
    parser.add_argument("--connections", type=int)
    parser.add_argument("--seeded", type=int)
    parser.add_argument("--build")
    options = parser.parse_args()
    if options.connections is not None or options.seeded is not None:
        return host.main(options)

    stale = []
    for mutation in MUTATIONS:
        try:
            patched(mutation)
        except ValueError as error:
            stale.append(str(error))
    if stale:
        print("stale mutations:", *stale, sep="\n")
        return 1
    chosen = choose(options)
    with tempfile.TemporaryDirectory() as folder:
        tests = Tests(options, folder)
        by_hand = options.all or options.names
        for test in sorted({mutation.test.partition(":")[0] for mutation in chosen if by_hand}):
            status, output = tests.run(test)
            print(f"without a bug: {test} {'passes' if status == 0 else 'FAILS'}", flush=True)
            if status != 0:
                print(output)
                return 1
        missed = [mutation.name for mutation in chosen if not check(tests, mutation)]
    print(f"{len(chosen) - len(missed)} of {len(chosen)} caught", *missed)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
