#!/usr/bin/env python3
"""Checks tests/model/queue.pml with spin.

Usage: check.py          every interleaving of the queues below has all properties
       check.py MUTATION spin must find what that mutation breaks
Exit 77: spin or a C compiler is missing.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "queue.pml")

# Each within a minute on one core, and 1 GB of memory. What one leaves out another has: writers, posts of each,
# waits in between, polls whose two loads others come between, counters that wrap.
QUEUES = [
    ["WRITERS=3", "POSTS=1"],
    ["WRITERS=3", "POSTS=1", "START=14"],
    ["WRITERS=4", "POSTS=1", "NO_QUIETS"],
    ["WRITERS=2", "POSTS=2", "START=14", "SPLIT_POLL"],
    ["WRITERS=2", "POSTS=3", "START=11"],
    ["WRITERS=2", "POSTS=2", "START=12", "STALE"],
]

DEADLOCK = "invalid end state"
UNWRITTEN = r"assertion violated \(slot"
OVERWRITTEN = r"assertion violated \(.*consumed>"
BACKWARDS = r"assertion violated \(.*end>(record|doorbell)"
INCOMPLETE = r"assertion violated \(consumed>=\(?end"
INVENTED = r"assertion violated \(seen<=reported"
MUTATIONS = {  # what is wrong, and what spin has to find
    "no_batch_rule": DEADLOCK,
    "wide_batch": DEADLOCK,
    "unsignalled_tail": DEADLOCK,
    "ring_before_write": UNWRITTEN,
    "room_off_by_one": OVERWRITTEN,
    "counter_before_base": INVENTED,
    "ring_after_ready": BACKWARDS,
    "quiet_reads_twice": INCOMPLETE,
    "last_wqe_forgotten": DEADLOCK,
    "stale_believed": INVENTED,
}


def explore(folder, defines, compiler):
    """The verifier's output for the model with `defines`."""
    flags = ["-D" + define for define in defines]
    subprocess.run(["spin", "-a", *flags, MODEL], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    # Safety only: no wait polls on unchanged values, so all runs end and a hang is a deadlock.
    subprocess.run([compiler, "-O1", "-w", "-DSAFETY", "-DMEMLIM=4096", "-o", "pan",
                    "pan.c"], cwd=folder, check=True)
    done = subprocess.run(["./pan", "-m100000"], cwd=folder, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    return done.stdout


def states(output):
    match = re.search(r"(\d+) states, stored", output)
    return int(match.group(1)) if match else 0


def complete(output):
    """No error, and nothing left out for want of depth or memory."""
    return "errors: 0" in output and not re.search(
        r"max search depth too small|Search not completed|out of memory", output)


def main():
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not shutil.which("spin") or not compiler:
        print("skipped: needs " + ("a C compiler" if shutil.which("spin") else "spin"))
        return 77
    with tempfile.TemporaryDirectory() as folder:
        if len(sys.argv) > 1:
            mutation = sys.argv[1]
            output = explore(folder, [mutation.upper(), "POSTS=1"], compiler)
            if re.search(MUTATIONS[mutation], output):
                print(f"{mutation}: refuted after {states(output)} states")
                return 0
            print(f"{mutation}: not refuted, or not as expected\n{output}")
            return 1
        for defines in QUEUES:
            output = explore(folder, defines, compiler)
            print(f"{' '.join(defines)}: {states(output)} states", flush=True)
            if not complete(output):
                trail = os.path.join(folder, "queue.pml.trail")
                if os.path.exists(trail):
                    subprocess.run(["spin", *["-D" + d for d in defines], "-k", trail, "-p", "-g",
                                    MODEL], cwd=folder, check=False)
                print(output)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
