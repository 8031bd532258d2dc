#!/usr/bin/env python3
"""Counts what nvcc has to read and to make for a kernel with one nvshmem_int_p, and exits 1 beyond a limit.

Usage: compile_budget.py NVCC ARCHITECTURE [NVCC-FLAG...]

Seconds depend on the machine and on what else it does, so this counts lines of the headers after preprocessing, and
functions and lines of PTX. With 9,106 lines, 37 functions and 5,109 lines of PTX, nvcc took 0.7 of the time that it takes
with NVSHMEM 3.8.0's headers. A header that a kernel's unit newly includes is seen here.
"""
import os
import re
import subprocess
import sys
import tempfile

KERNEL = "#include <nvshmem.h>\n__global__ void kernel(int* to, int value, int pe) { nvshmem_int_p(to, value, pe); }\n"
LIMITS = {"lines of headers": 9800, "functions": 38, "lines of PTX": 4800}


def lines_of_headers(text, folders):
    """Returns how many lines of `text`, the output of the preprocessor, come from files in `folders`."""
    count, ours = 0, False
    for line in text.splitlines():
        if marker := re.match(r'# \d+ "([^"]*)"', line):
            ours = os.path.abspath(marker.group(1)).startswith(folders)
        else:
            count += ours and line.strip() != ""
    return count


def main():
    nvcc, architecture, *flags = sys.argv[1:]
    folders = tuple(os.path.abspath(flag[2:]) + os.sep for flag in flags if flag.startswith("-I"))
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "kernel.cu")
        with open(source, "w", encoding="ascii") as file:
            file.write(KERNEL)
        command = [nvcc, "-std=c++17", "-O3", "-rdc=true", f"-arch=sm_{architecture}", *flags, source]
        read = subprocess.run([*command, "-E"], stdout=subprocess.PIPE, text=True, check=True).stdout
        made = os.path.join(folder, "kernel.ptx")
        subprocess.run([*command, "-ptx", "-o", made], check=True)
        with open(made, encoding="ascii") as file:
            ptx = file.read()
    counts = {"lines of headers": lines_of_headers(read, folders),
              "functions": len(re.findall(r"^(?:\.\w+ )*\.func\b", ptx, re.M)), "lines of PTX": ptx.count("\n")}
    for what, count in counts.items():
        print(f"{what}: {count}, limit {LIMITS[what]}")
    return 0 if all(0 < counts[what] <= limit for what, limit in LIMITS.items()) else 1


if __name__ == "__main__":
    sys.exit(main())
