"""The library's programs as commands of the environment that has the package."""
from __future__ import annotations

import os
import sys

from ._library import PREFIX

PERFTESTS = "libexec/gshmem/perftest"


def _become(*command: str) -> None:
    program = PREFIX / command[0]
    if not program.exists():
        sys.exit(f"{program} is not there: the package was built without it")
    os.execv(program, [str(program), *command[1:]])


def info() -> None:
    """gshmem-info"""
    _become("bin/gshmem-info", *sys.argv[1:])


def perftest() -> None:
    """gshmem-perftest NAME [ARGUMENTS...]"""
    folder = PREFIX / PERFTESTS
    names = sorted(path.name for path in folder.glob("*"))
    if len(sys.argv) < 2 or sys.argv[1] not in names:
        sys.exit(f"usage: gshmem-perftest NAME [ARGUMENTS...], under a launcher or alone; NAME is one of: {' '.join(names)}")
    _become(f"{PERFTESTS}/{sys.argv[1]}", *sys.argv[2:])
