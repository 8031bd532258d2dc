#!/usr/bin/env python3
"""Compiles every public header by itself, in each language that may include it, without warnings.

Usage: headers_alone.py FOLDER:FOLDER... host CC CXX FLAG...
       headers_alone.py FOLDER:FOLDER... cuda NVCC FLAG...
(the folders that hold gshmem/)
"""
import os
import re
import subprocess
import sys

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
# Not for C: PODs and code that only C++ sees.
CXX_ONLY = ("abi/", "device/", "collective_launch.h", "deepep.h", "gpu_scope.h")
# Headers that need CUDA's headers.
NEEDS_CUDA = ("collective_launch.h",)
# All of nvcc takes seconds a piece, so it sees the headers that users name, and of the others and of orders its device
# compiler alone, which takes a third of a second. Of private headers, which g++ sees one by one, it sees those with
# something for nvcc.
CUDA_17 = ["gshmem.h", "compat/nvshmem.h", "collective_launch.h", "deepep.h"]
CUDA_20 = ["gshmem.hpp"]
PRIVATE = ("abi/", "device/")
FOR_NVCC = re.compile(r"\b__CUDA(CC|_ARCH)")
# device/core/machine.h includes the one or the other; names without a type are for the host's compilers.
NOT_IN_CUDA = ["device/core/machine_cpu.h", "generic.h"]
CUDA_ORDERS = [
    ["gshmemx.h", "compat/nvshmemx.h", "collective_launch.h", "types.h", "gshmem.h"],
    ["uniqueid.h", "constants.h", "abi/state.h", "status.h", "compat/nvshmem.h", "gshmemx.h"],
]
# nvshmem.h has its own names alone, and gshmem.h after it the others.
BOTH_NAMES = """
__global__ void kernel(int* dest, int pe, gshmem_ctx_t ctx) {
  nvshmem_int_p(dest, 1, pe);
  nvshmemx_int_put_block(dest, dest, 4, pe);
  nvshmemx_qp_int_p(dest, 1, pe, NVSHMEMX_QP_DEFAULT);
  gshmem_ctx_int_p(ctx, dest, 1, pe);
}
"""


def public_headers(roots):
    for root in (os.path.join(folder, "gshmem") for folder in roots.split(os.pathsep)):
        for path, folders, files in os.walk(root, followlinks=True):
            folders.sort()
            for name in sorted(files):
                if name.endswith((".h", ".hpp")):
                    yield os.path.relpath(os.path.join(path, name), root)


def is_for_nvcc(roots, header):
    if not header.startswith(PRIVATE):
        return True
    for folder in roots.split(os.pathsep):
        path = os.path.join(folder, "gshmem", header)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                return FOR_NVCC.search(file.read()) is not None
    return False


def compile_unit(command, headers, standard, stop=""):
    """True when a unit of just these headers compiles silently."""
    unit = "".join(f"#include <gshmem/{header}>\n" for header in headers) + stop
    result = subprocess.run([*command, standard, "-"], input=unit, capture_output=True, text=True)
    text = result.stdout + result.stderr
    if result.returncode == 0 and not text.strip():
        return True
    print(f"{' '.join([*command, standard])}: {', '.join(headers)}\n{text[:3000]}")
    return False


def check_host(roots, cc, cxx, *flags):
    failures = count = 0
    command = [*flags, *WARNINGS, "-fsyntax-only"]
    together = []  # in C++20; C++17 would show what is missing
    for header in public_headers(roots):
        if header in NEEDS_CUDA:
            continue
        units = []
        if header.endswith(".hpp"):
            units = [(cxx, "c++", "-std=c++20")]
        else:
            together.append(header)
            units = [(cxx, "c++", "-std=c++17")]
            if not header.startswith(CXX_ONLY):
                units.append((cc, "c", "-std=c11"))
        for compiler, language, standard in units:
            failures += not compile_unit([compiler, "-x", language, *command], [header], standard)
            count += 1
    failures += not compile_unit([cxx, "-x", "c++", *command], together, "-std=c++20")
    # Programs for NVSHMEM in C++14, the default of clang 14, compile without errors, but with warnings.
    for header in ("compat/nvshmem.h", "compat/nvshmemx.h"):
        failures += not compile_unit([cxx, "-x", "c++", *flags, "-w", "-fsyntax-only"], [header], "-std=gnu++14")
    count += 3
    print(f"{count} units, {failures} do not compile")
    return failures


def check_cuda(roots, nvcc, *flags):
    # nvcc's own output is full of line directives that -Wpedantic does not like.
    command = [nvcc, "-x", "cu", *flags, "-Werror=all-warnings", "-Xcompiler=-Wall,-Wextra,-Werror",
               "-o", "/dev/null"]
    units = [([h], "-std=c++17") for h in CUDA_17] + [([h], "-std=c++20") for h in CUDA_20]
    failures = sum(not compile_unit([*command, "-c"], *unit) for unit in units)
    others = [([header], "-std=c++20" if header.endswith(".hpp") else "-std=c++17")
              for header in public_headers(roots)
              if header not in CUDA_17 + CUDA_20 + NOT_IN_CUDA and is_for_nvcc(roots, header)]
    others += [(headers, "-std=c++17") for headers in CUDA_ORDERS]
    others.append((["compat/nvshmemx.h", "gshmem.h"], "-std=c++17", BOTH_NAMES))
    failures += sum(not compile_unit([*command, "-ptx"], *unit) for unit in others)
    print(f"{len(units) + len(others)} units, {failures} do not compile")
    return failures


def main():
    roots, kind, *rest = sys.argv[1:]
    failures = {"host": check_host, "cuda": check_cuda}[kind](roots, *rest)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
