#!/usr/bin/env python3
"""Runs clang-format 14 over every C++ and CUDA file. Usage: format_check.py [--fix] [ROOT]

Another version formats differently, so without 14 the check is skipped (exit 77).
"""
import os
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
    mode = ["-i"] if "--fix" in sys.argv else ["--dry-run", "-Werror"]
    code = subprocess.run([formatter, *mode, *files], cwd=root).returncode
    if code != 0:
        print("repair with: tests/lint/format_check.py --fix")
    return 1 if code else 0


if __name__ == "__main__":
    sys.exit(main())
