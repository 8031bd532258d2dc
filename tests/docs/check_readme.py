#!/usr/bin/env python3
"""Checks README.md against what it describes. Usage:

check_readme.py variables README gshmem-info         the table of variables is the one of the library
check_readme.py paths README                         files and folders it names exist
check_readme.py program README nvcc arch out flags.. the first kernel compiles and links with these flags, and
                                                     the other pieces of CUDA compile
"""
import difflib
import os
import re
import subprocess
import sys


def check_variables(text, info):
    want = subprocess.run([info, "--markdown"], check=True, capture_output=True, text=True).stdout
    match = re.search(r"<!-- variables: .*? -->\n(.*?)<!-- end of variables -->", text, re.DOTALL)
    got = match.group(1) if match else ""
    diff = list(difflib.unified_diff(got.splitlines(), want.splitlines(), "README.md",
                                     "gshmem-info --markdown", lineterm=""))
    print("\n".join(diff) or f"{len(want.splitlines()) - 2} variables as in the library")
    return not diff


def check_paths(text, root):
    tops = [name for name in os.listdir(root) if not name.startswith((".git", "build"))]
    named = set(re.findall(r"`((?:%s)(?:/[\w.\-/]*)?)`" % "|".join(map(re.escape, tops)), text))
    missing = sorted(path for path in named if not os.path.exists(os.path.join(root, path)))
    print("\n".join(f"README.md names {path}, which does not exist" for path in missing)
          or f"{len(named)} paths exist")
    return not missing and len(named) > 10


def check_program(text, nvcc, arch, out, *flags):
    good = True
    for number, program in enumerate(re.findall(r"```cuda\n(.*?)```", text, re.DOTALL)):
        source = f"{out}{number or ''}.cu"
        with open(source, "w", encoding="utf-8") as file:
            file.write(program)
        target = ["-o", out] if number == 0 else ["-std=c++20", "-c", "-o", source + ".o"]
        command = [nvcc, f"-arch={arch}", "-Werror=all-warnings", source, *target, *flags]
        print(*command, flush=True)
        good &= subprocess.run(command).returncode == 0
    return good


def main():
    case, readme, *rest = sys.argv[1:]
    with open(readme, encoding="utf-8") as file:
        text = file.read()
    if case == "paths":
        rest = [os.path.dirname(os.path.abspath(readme))]
    check = {"variables": check_variables, "paths": check_paths, "program": check_program}[case]
    return 0 if check(text, *rest) else 1


if __name__ == "__main__":
    sys.exit(main())
