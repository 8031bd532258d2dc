#!/usr/bin/env python3
"""What including gshmem.h costs in compile time: nvcc on a trivial kernel with and without it.

Usage: compile_time.py NVCC FLAG...

Prints the shortest of each so far; exits 1 when they are more than LIMIT_SECONDS apart after TRIES
tries. Processor time of nvcc and its children. Other work, of other guests of the machine too, makes it
longer and never shorter.
"""
import os
import resource
import subprocess
import sys
import tempfile

LIMIT_SECONDS = 5
TRIES = 6
KERNEL = "__global__ void kernel(int* p) { *p = 1; }\n"
USING = ("#include <gshmem/gshmem.h>\n"
         "__global__ void kernel(int* p) { gshmem_int_p(p, 1, gshmem_my_pe()); }\n")


def seconds(command, text):
    """Processor time of one compilation."""
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "unit.cu")
        with open(source, "w", encoding="utf-8") as file:
            file.write(text)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*command, "-c", "-o", os.path.join(folder, "unit.o"), source], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)


def main():
    command = sys.argv[1:]
    best_without = best_using = float("inf")
    for _ in range(TRIES):
        best_without = min(best_without, seconds(command, KERNEL))
        best_using = min(best_using, seconds(command, USING))
        more = best_using - best_without
        print(f"without gshmem.h {best_without:.2f} s, with {best_using:.2f} s: {more:+.2f} s, "
              f"factor {best_using / best_without:.2f} (limit +{LIMIT_SECONDS} s)", flush=True)
        if more <= LIMIT_SECONDS:
            return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
