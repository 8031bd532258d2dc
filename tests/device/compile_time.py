#!/usr/bin/env python3
"""What including gshmem.h costs in compile time: nvcc on a trivial kernel with and without it.

Usage: compile_time.py NVCC FLAG...

Prints both; exits 1 when the difference exceeds LIMIT_SECONDS in three tries. Processor time of nvcc
and its children, so that other work on the machine does not count.
"""
import os
import resource
import subprocess
import sys
import tempfile

LIMIT_SECONDS = 5
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
    for _ in range(3):
        without, using = seconds(command, KERNEL), seconds(command, USING)
        print(f"without gshmem.h {without:.2f} s, with {using:.2f} s: {using - without:+.2f} s, "
              f"factor {using / without:.2f} (limit +{LIMIT_SECONDS} s)")
        if using - without <= LIMIT_SECONDS:
            return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
