#!/usr/bin/env python3
"""Symbols of the soft NIC's libraries against those of the libraries of rdma-core that are installed.
Usage: verbs_symbols.py FOLDER

Every symbol that a program can import from the real ones must be exported at that version, as the
default one or not, as a function or a variable. Nothing else is exported, except at versions that
the real library does not have yet, and at the private one, which grows without a new name. Exit 77
where there is none to compare with.
"""
import os
import re
import subprocess
import sys

NAMES = ("libibverbs.so.1", "libmlx5.so.1")
# Versions from before 2007, whose structures have another layout: no program of a distribution imports them. The soft
# NIC has the one that reports so.
OLD = ("IBVERBS_1.0", "IBVERBS_1.1")


def objdump(option, path):
    return subprocess.run(["objdump", option, path], check=True, capture_output=True,
                          text=True).stdout


def exported(path):
    """Returns {(name, version, default or not, function or variable)} and the set of version nodes."""
    symbols, nodes = set(), set()
    for line in objdump("-T", path).splitlines():
        match = re.match(r"[0-9a-f]+ .{6}(.)\s+(\S+)\s+[0-9a-f]+\s+(\(?)([\w.]+)\)?\s+(\S+)$", line)
        if match is None or match.group(2) == "*UND*":
            continue
        kind, section, old, version, name = match.groups()
        if section == "*ABS*":
            nodes.add(name)
        else:
            symbols.add((name, version, "old" if old else "default", kind))
    return symbols, nodes


def installed(name):
    """Returns the path of the real library, or None."""
    for line in subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True,
                               check=False).stdout.splitlines():
        words = line.split()
        if words and words[0] == name:
            return words[-1]
    return None


def newest(nodes):
    public = [node for node in nodes if "PRIVATE" not in node]
    return max([int(number) for number in re.findall(r"\d+", node)] for node in public)


def check(ours, real):
    symbols, nodes = exported(ours)
    wanted, known = exported(real)
    if newest(known) > newest(nodes):
        print(f"{real} is newer than the soft NIC's table: only versions that both have are compared")
        known = {node for node in known & nodes if "PRIVATE" not in node}

    def compared(symbol):
        return symbol[1] in known and not (symbol[2] == "old" and symbol[1] in OLD)

    wanted = {symbol for symbol in wanted if compared(symbol)}
    extra = {symbol for symbol in symbols - wanted
             if compared(symbol) and "PRIVATE" not in symbol[1]}
    name = os.path.basename(ours)
    wrong = [f"{name}: not exported: {s}" for s in sorted(wanted - symbols)]
    wrong += [f"{name}: exported, but not by rdma-core: {s}" for s in sorted(extra)]
    wrong += [f"{name}: no version node {node}" for node in sorted(known - nodes)]
    soname = re.search(r"SONAME\s+(\S+)", objdump("-p", ours)).group(1)
    if soname != name:
        wrong.append(f"{name}: its soname is {soname}")
    print(f"{name}: {len(wanted)} symbols of {real} compared")
    return wrong


def main():
    real = {name: installed(name) for name in NAMES}
    lacking = [name for name, path in real.items() if path is None]
    if lacking:
        print(f"skipped: {', '.join(lacking)} of rdma-core is not installed (Debian: "
              "ibverbs-providers)")
        return 77
    wrong = [line for name in NAMES
             for line in check(os.path.join(sys.argv[1], name), real[name])]
    print("\n".join(wrong) or "verbs symbols: ok")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
