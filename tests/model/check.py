#!/usr/bin/env python3
"""Checks tests/model/queue.pml or first_use.pml with spin.

Usage: check.py MODEL          every interleaving of the sets below has all properties
       check.py MODEL MUTATION spin must find what that mutation breaks
Exit 77: spin or a C compiler is missing.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

FOLDER = os.path.dirname(os.path.abspath(__file__))

# Each runs within a minute on one core, with 1 GB of memory. Another one has what the first leaves out: writers,
# posts of each, waits in between, polls whose two loads are interrupted, counters that wrap around. And: threads on
# one queue and on two, contexts of both PEs, failures.
SETS = {"queue": [
    ["WRITERS=3", "POSTS=1"],
    ["WRITERS=3", "POSTS=1", "START=14"],
    ["WRITERS=4", "POSTS=1", "NO_QUIETS"],
    ["WRITERS=2", "POSTS=2", "START=14", "SPLIT_POLL"],
    ["WRITERS=2", "POSTS=3", "START=11"],
    ["WRITERS=2", "POSTS=2", "START=12", "STALE"],
], "first_use": [
    ["WRITERS=2"],
    ["WRITERS=2", "QUEUES=2"],
    ["CONTEXTS=2"],
    ["WRITERS=2", "CONTEXTS=2", "OTHERS=0"],
    ["DEATH"],
    ["WRITERS=2", "QUEUES=2", "OTHERS=0", "REFUSAL"],
    ["REFUSAL"],
]}

DEADLOCK = "invalid end state"
UNWRITTEN = r"assertion violated \(slot"
OVERWRITTEN = r"assertion violated \(.*consumed>"
BACKWARDS = r"assertion violated \(.*end>(record|doorbell)"
INCOMPLETE = r"assertion violated \(consumed>=\(?end"
INVENTED = r"assertion violated \(seen<=reported"
UNANSWERED = r"assertion violated \(answers"
IMPOSSIBLE = r"assertion violated failed"  # an impossible message
MUTATIONS = {"queue": {  # the bug, and what spin must find
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
}, "first_use": {
    "wake_before_bell": DEADLOCK,
    "bell_before_question": DEADLOCK,
    "sleep_without_look": DEADLOCK,
    "not_woken_by_messages": DEADLOCK,
    "stopped_asleep": DEADLOCK,
    "cache_believed": r"assertion violated \(found==",
    "stage_not_looked_at": r"assertion violated \(\(created",
    "answer_before_connect": UNANSWERED,
    "answer_releases": UNANSWERED,
    "crossed_offer_releases": UNANSWERED,
    "crossed_offer_ignored": IMPOSSIBLE,
    "crossed_offer_makes_more": IMPOSSIBLE,
    "messages_overtake": IMPOSSIBLE,
    "fault_not_seen": DEADLOCK,
    "fault_not_told": DEADLOCK,
}}
# Options for the search of a mutation.
ALSO = {"queue": ["POSTS=1"], "fault_not_seen": ["DEATH"], "fault_not_told": ["REFUSAL"]}


def explore(folder, model, defines, compiler, level="-O1"):
    """Returns the verifier's output for the model with `defines`."""
    flags = ["-D" + define for define in defines]
    subprocess.run(["spin", "-a", *flags, model], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    # Safety only: no wait polls on unchanged values, so all runs end and a hang is a deadlock.
    subprocess.run([compiler, level, "-w", "-DSAFETY", "-DMEMLIM=4096", "-o", "pan",
                    "pan.c"], cwd=folder, check=True)
    done = subprocess.run(["./pan", "-m100000"], cwd=folder, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    return done.stdout


def states(output):
    match = re.search(r"(\d+) states, stored", output)
    return int(match.group(1)) if match else 0


def complete(output):
    """There is no error, and nothing was left out for lack of depth or memory."""
    return "errors: 0" in output and not re.search(
        r"max search depth too small|Search not completed|out of memory", output)


def main():
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not shutil.which("spin") or not compiler:
        print("skipped: needs " + ("a C compiler" if shutil.which("spin") else "spin"))
        return 77
    name, *mutation = sys.argv[1:]
    model = os.path.join(FOLDER, name + ".pml")
    with tempfile.TemporaryDirectory() as folder:
        for bug in mutation:
            also = ALSO.get(bug, ALSO.get(name, []))
            # The bug is found in less time than optimizing takes.
            output = explore(folder, model, [bug.upper(), *also], compiler, "-O0")
            if re.search(MUTATIONS[name][bug], output):
                print(f"{bug}: refuted after {states(output)} states")
                return 0
            print(f"{bug}: not refuted, or not as expected\n{output}")
            return 1
        for defines in SETS[name]:
            output = explore(folder, model, defines, compiler)
            print(f"{' '.join(defines)}: {states(output)} states", flush=True)
            if not complete(output):
                trail = os.path.join(folder, name + ".pml.trail")
                if os.path.exists(trail):
                    subprocess.run(["spin", *["-D" + d for d in defines], "-k", trail, "-p", "-g",
                                    model], cwd=folder, check=False)
                print(output)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
