"""Every file that includes a precompiled header is compiled with the options of the header's owner.

Usage: precompiled.py FOLDER..., each with a compile_commands.json.

Compilers differ in which options they compare: g++ 13 and clang refuse another -O, g++ 12 takes it.
"""
import json
import pathlib
import re
import shlex
import sys

OF_INTEREST = re.compile(r"-(O|f(?!pch-|sanitize-coverage=)|m|g|std=|pthread)")


def options(command):
    """Returns the options that affect code generation; the last -O counts."""
    words = [w for w in shlex.split(command) if OF_INTEREST.match(w)]
    levels = [w for w in words if w.startswith("-O")]
    return sorted({w for w in words if not w.startswith("-O")}) + levels[-1:]


def main(folders):
    includers, owners, bad = 0, {}, []
    entries = [entry for folder in folders
               for entry in json.loads((pathlib.Path(folder) / "compile_commands.json").read_text())]
    for entry in entries:
        if entry["file"].endswith("cmake_pch.hxx.cxx"):
            owners[entry["file"].removesuffix(".cxx")] = options(entry["command"])
    for entry in entries:
        header = next((w for w in shlex.split(entry["command"]) if w in owners), None)
        if header is None or entry["file"].endswith("cmake_pch.hxx.cxx"):
            continue
        includers += 1
        here = options(entry["command"])
        if here != owners[header]:
            bad.append(f"{entry['file']}: {' '.join(here)}\n    {header}: {' '.join(owners[header])}")
    print(f"{includers} files include one of {len(owners)} precompiled headers")
    print("\n".join(bad[:20]))
    return 1 if bad or not includers else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
