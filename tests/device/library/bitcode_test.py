#!/usr/bin/env python3
"""bitcode_test.py link|run DEVICE_LIBRARY BITCODE FUNCTIONS ARCHITECTURE PTXAS CLANG...: the bitcode of the device library
has the functions of the header FUNCTIONS by their names. A kernel is linked with it as Triton does, lowered to PTX by
LLVM, and taken by ptxas. DEVICE_LIBRARY (main.cpp) looks at the machine code, or runs it. CLANG has its options.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

HOST_ONLY = "longdouble"
OF_CUDA = {"vprintf"}
KEPT = "work gshmemi_device_state nvshmemi_device_lib_version_d"


def output_of(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
    return done.stdout


def main():
    mode, device_library, bitcode, functions, architecture, ptxas, *clang = sys.argv[1:]
    tools = {tool: output_of(clang[0], f"-print-prog-name={tool}").strip()
             for tool in ("llvm-nm", "llvm-link", "opt", "llc")}
    if not os.path.exists(bitcode) or not all(map(shutil.which, tools.values())):
        print(f"skipped: needs the target gshmem_device_bc, and {', '.join(tools)} of {clang[0]}")
        return 77

    def llvm(tool, *arguments):
        return output_of(tools[tool], *arguments)

    with open(functions, encoding="utf-8") as file:
        names = re.findall(r"^GSHMEM_(?:API|EXPORT) [^(]+?(gshmemx?_\w+)\(", file.read(), re.M)
    wanted = {name for name in names if HOST_ONLY not in name}
    found = dict(line.split()[::-1][:2] for line in llvm("llvm-nm", bitcode).splitlines())
    missing = sorted(name for name in wanted if found.get(name) != "T")
    assert len(wanted) > 4000 and not missing, f"no function {missing[:9]}"
    needed = {name for name, kind in found.items() if kind == "U"}
    assert needed <= OF_CUDA, f"needs {needed}"

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "kernel")
        with open(f"{path}.cu", "w", encoding="utf-8") as file:
            file.write(output_of(device_library, "kernel"))
        # Triton's modules have their own flags for denormal numbers.
        output_of(*clang, "-fgpu-flush-denormals-to-zero", f"--cuda-gpu-arch=sm_{architecture}", f"{path}.cu", "-o",
                  f"{path}.bc")
        llvm("llvm-link", "--only-needed", f"{path}.bc", bitcode, "-o", f"{path}.linked")
        llvm("opt", "-passes=internalize,default<O3>", f"-internalize-public-api-list={KEPT.replace(' ', ',')}",
             f"{path}.linked", "-o", f"{path}.small")
        llvm("llc", "-O3", f"-mcpu=sm_{architecture}", "-mattr=+ptx82", f"{path}.small", "-o", f"{path}.ptx")
        output_of(ptxas, f"-arch=sm_{architecture}", f"{path}.ptx", "-o", f"{path}.cubin")
        return subprocess.run([device_library, mode, f"{path}.cubin", architecture], timeout=100).returncode


sys.exit(main())
