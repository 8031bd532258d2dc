#!/usr/bin/env python3
"""Runs clang-format 14 over every C++ and CUDA file. Usage: format_check.py [--fix] [ROOT]

Another version formats differently, so without 14 the check is skipped (exit 77).
"""
import collections
import os
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
import lint  # noqa: E402 (beside this file)

VERSION = "version 14."


def find_formatter():
    for name in ("clang-format-14", "clang-format"):
        path = shutil.which(name)
        if path and VERSION in subprocess.run([path, "--version"], capture_output=True,
                                              text=True).stdout:
            return path
    return None


def main():
    arguments = [a for a in sys.argv[1:] if a != "--fix"]
    root = os.path.abspath(arguments[0] if arguments else ".")
    formatter = find_formatter()
    if formatter is None:
        print("skipped: no clang-format 14 (Debian: apt-get install clang-format-14)")
        return 77
    files = [f for f in lint.list_files(root) if f.endswith(lint.SOURCES)]
    if not files:
        return 0
    if "--fix" in sys.argv:
        return subprocess.run([formatter, "-i", *files], cwd=root).returncode
    said = subprocess.run([formatter, "--dry-run", *files], cwd=root, capture_output=True,
                          text=True).stderr
    places = collections.Counter(re.findall(r"^(.+?):\d+:\d+: warning", said, re.MULTILINE))
    for path, count in sorted(places.items()):
        print(f"{path}: {count} place(s) differ from .clang-format")
    if said and not places:
        print(said)
    if said:
        print("repair with: tests/lint/format_check.py --fix")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
