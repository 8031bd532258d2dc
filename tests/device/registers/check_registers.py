#!/usr/bin/env python3
"""Compares the registers of kernels that might communicate with those of the same kernels alone.

Usage: check_registers.py NVCC ARCHITECTURE [NVCC-FLAG...]

Compiles kernels.cu, prints a table, and exits 1 when a kernel exceeds its limit. Registers are
counted as the hardware hands them out: per thread in steps of 8 (CUDA C++ Programming Guide,
occupancy: allocation unit of 256 per warp).
"""
import os
import re
import subprocess
import sys
import tempfile

STEP = 8
# Registers more than alone that a dormant call may cost, by kernel.
LIMITS = {"STREAM": 8, "MARCH": 24}
# The default depth of thread and warp copies buys bandwidth with registers (device/copy.h); checked
# against a total, so that it does not grow unnoticed.
DEEP = {"putmem": 120, "putmem_warp": 128}
ENTRY = re.compile(r"Compiling entry function '(\w+)'")
USED = re.compile(r"Used (\d+) registers")


def registers(nvcc, flags):
    """{kernel: registers} as ptxas reports them."""
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kernels.cu")
    with tempfile.TemporaryDirectory() as folder:
        report = subprocess.run(
            [nvcc, *flags, "-cubin", "-Xptxas", "-v", "-o", os.path.join(folder, "out"), source],
            capture_output=True, text=True)
    if report.returncode != 0:
        sys.exit(report.stderr)
    found, kernel = {}, None
    for line in report.stderr.splitlines():
        if match := ENTRY.search(line):
            kernel = match.group(1)
        elif (match := USED.search(line)) and kernel:
            found[kernel] = int(match.group(1))
            kernel = None
    if not found:
        sys.exit("ptxas reported no registers:\n" + report.stderr)
    return found


def allocated(count):
    return (count + STEP - 1) // STEP * STEP


def check(title, found, deep):
    """Prints a table and returns how many kernels exceed their limits."""
    print(title)
    failures = 0
    for name, count in found.items():
        body, call = name.split("_", 1)
        if call == "alone":
            continue
        alone = found[f"{body}_alone"]
        more = allocated(count) - allocated(alone)
        limit = deep.get(call, 10**6) if call in deep else allocated(alone) + LIMITS[body]
        bad = allocated(count) > limit
        failures += bad
        print(f"  {name:30} {alone:4} -> {count:4}   +{more:<4} limit {limit}"
              f"{'   TOO MANY' if bad else ''}")
    return failures


def main():
    nvcc, architecture, flags = sys.argv[1], sys.argv[2], sys.argv[3:]
    flags = ["-std=c++17", "-O3", f"-arch=sm_{architecture}", *flags]
    failures = check("default", registers(nvcc, flags), DEEP)
    failures += check("GSHMEM_COPY_DEPTH=4",
                      registers(nvcc, [*flags, "-DGSHMEM_COPY_DEPTH=4"]), {})
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
