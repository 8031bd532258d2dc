#!/usr/bin/env python3
"""Compares the registers of kernels that might communicate with those of the same kernels alone.

Usage: check_registers.py [--all] NVCC ARCHITECTURE [NVCC-FLAG...]

Compiles kernels.cu and calls.cu as whole programs and as relocatable code, which it links (-rdc=true:
what ptxas says of a kernel there is without what the kernel calls), prints tables, and exits 1 when
a kernel exceeds its limit. In whole programs ptxas takes a second for each of the large calls, so
that of calls.cu a third is compiled that way, a day's own; with --all it is all of it.
Registers are counted as the hardware hands them out: per thread in steps of 8 (CUDA C++ Programming
Guide, occupancy: allocation unit of 256 per warp).
"""
import datetime
import os
import re
import subprocess
import sys
import tempfile

STEP = 8
# The registers that a block of 1024 threads leaves each of them, of the 65536 of an SM.
LAUNCHABLE = 64
# The registers that a dormant call may cost a whole program more than alone, by kernel.
LIMITS = {"STREAM": 8, "MARCH": 24}
# The cost of a call that keeps a stride, or a loop over PEs or handles, in a streaming kernel.
WIDE = re.compile(r"i(put|get)(_warp|_block)?|barrier_all(_warp)?|qp_quiet")
# Calls for a team are out of line in every scope, so they cost any kernel the same.
OF_TEAM = re.compile(r"(team_sync|barrier)(_warp|_block)?")
WIDE_LIMIT, MARCH_OF_TEAM = 16, 32
# Copies by threads and warps trade registers for bandwidth (device/pe/copy.h), bursts trade them for messages.
LARGE = re.compile(r"(ctx_)?(putmem|getmem)(_signal)?(_nbi)?(_warp)?|burst(_warp)?")
# The registers that it may cost after linking more than in a whole program.
LINKED = 8
KERNEL = re.compile(r"(?:entry function|properties for) '(\w+)'")
USED = re.compile(r"[Uu]sed (\d+) registers")


def run(command):
    """Returns what `command` wrote to standard error, and to standard output."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    return done.stderr + done.stdout


def registers(nvcc, flags, unit="kernels.cu", linked=False):
    """Returns {kernel: registers} as reported by ptxas, or by nvlink after linking."""
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), unit)
    with tempfile.TemporaryDirectory() as folder:
        made = os.path.join(folder, "made.cubin")
        if linked:
            run([nvcc, *flags, "-rdc=true", "-cubin", "-o", made, source])
            architecture = [flag for flag in flags if flag.startswith("-arch")]
            report = run([os.path.join(os.path.dirname(nvcc), "nvlink"), *architecture, "--verbose", "-o",
                          os.path.join(folder, "linked.cubin"), made])
        else:
            report = run([nvcc, *flags, "-cubin", "-Xptxas", "-v", "-o", made, source])
    found, kernel = {}, None
    for line in report.splitlines():
        if match := KERNEL.search(line):
            kernel = match.group(1)
        elif (match := USED.search(line)) and kernel:
            found[kernel] = int(match.group(1))
    ours = (*LIMITS, "CALL")
    found = {name: count for name, count in found.items() if name.startswith(ours)}
    if not found:
        sys.exit("no registers are reported:\n" + report)
    return found


def allocated(count):
    return (count + STEP - 1) // STEP * STEP


def limit_over(body, call):
    if OF_TEAM.fullmatch(call):
        return MARCH_OF_TEAM if body == "MARCH" else WIDE_LIMIT
    return WIDE_LIMIT if WIDE.fullmatch(call) else LIMITS[body]


def check(title, found, limit_of):
    """Prints a table and returns how many kernels exceed their limits."""
    print(title)
    failures = 0
    for name, count in found.items():
        body, call = name.split("_", 1)
        if call == "alone":
            continue
        alone = found[f"{body}_alone"]
        limit = limit_of(name, body, call, allocated(alone))
        bad = allocated(count) > limit
        failures += bad
        more = allocated(count) - allocated(alone)
        print(f"  {name:34} {alone:4} -> {count:4}   +{more:<4} limit {limit}"
              f"{'   TOO MANY' if bad else ''}")
    return failures


def check_calls(title, found):
    """Does the same as check, for kernels that do nothing else."""
    print(title)
    for name, count in found.items():
        print(f"  {name:34} {count:4}   limit {LAUNCHABLE}"
              f"{'   TOO MANY' if count > LAUNCHABLE else ''}")
    return sum(count > LAUNCHABLE for count in found.values())


def check_printf(nvcc, flags):
    """A kernel that can reach printf pays for it at every fence (device/core/fault.h)."""
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "few.cu")
    with tempfile.TemporaryDirectory() as folder:
        made = os.path.join(folder, "few.ptx")
        run([nvcc, *flags, "-ptx", "-o", made, source])
        with open(made, encoding="utf-8") as text:
            found = "vprintf" in text.read()
    print("kernels reach printf: TOO DEAR" if found else "kernels do not reach printf")
    return int(found)


def main(nvcc, architecture, *flags, all_parts=False):
    flags = ["-std=c++20", "-O3", f"-arch=sm_{architecture}", *flags]
    whole = registers(nvcc, flags)
    failures = check_printf(nvcc, flags)
    failures += check("default", whole,
                     lambda _, body, call, alone: LAUNCHABLE if LARGE.fullmatch(call)
                     else alone + limit_over(body, call))
    failures += check("-rdc=true, linked", registers(nvcc, flags, linked=True),
                      lambda name, *_: min(LAUNCHABLE, allocated(whole[name]) + LINKED))
    shallow = registers(nvcc, [*flags, "-DGSHMEM_COPY_DEPTH=4", "-DPUTS_ALONE"])
    failures += check("GSHMEM_COPY_DEPTH=4", shallow,
                      lambda _, body, call, alone: alone + LIMITS[body])
    third = datetime.date.today().toordinal() % 3
    part, title = ((), "") if all_parts else ((f"-DPART={third}",), f", third {third}")
    failures += check_calls(f"other families{title}", registers(nvcc, [*flags, *part], "calls.cu"))
    failures += check_calls("other families, -rdc=true, linked",
                            registers(nvcc, flags, "calls.cu", linked=True))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*[argument for argument in sys.argv[1:] if argument != "--all"],
                  all_parts="--all" in sys.argv))
