"""What the order checker costs: cost.py BUILD CHECK, a build without it and one for ThreadSanitizer (the preset `check`). By hand.

Prints for each part of cost.cpp its processor time in both, in microseconds, and the quotient, then the sum and the memory.
Exit status 0: the whole program takes at most 30 times its processor time, and 4 times its memory.
"""
import os
import pathlib
import statistics
import subprocess
import sys

ROUNDS = 5


def measure(build, **settings):
    """The median of each number."""
    rounds = []
    for _ in range(ROUNDS):
        out = subprocess.run([pathlib.Path(build) / "bin/order_cost"], env=dict(os.environ, GSHMEM_DEVICE="cpu", **settings),
                             capture_output=True, text=True, check=True).stdout
        rounds.append({name: float(value) for name, value in map(str.split, out.splitlines())})
    return {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}


plain, checked = measure(sys.argv[1]), measure(sys.argv[2], GSHMEM_CHECK="order")
memory = plain.pop("memory"), checked.pop("memory")
rows = [(name, plain[name], checked[name]) for name in plain]
rows += [("all, us", sum(plain.values()), sum(checked.values())), ("memory, KiB", *memory)]
for name, before, after in rows:
    print(f"{name:<16}{before:>12.0f}{after:>12.0f}{after / before:>8.1f}")
sys.exit(rows[-2][2] > 30 * rows[-2][1] or memory[1] > 4 * memory[0])
