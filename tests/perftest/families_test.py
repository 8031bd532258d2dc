#!/usr/bin/env python3
"""families_test.py FOLDER-OF-PROGRAMS FOLDER-OF-HEADERS TILES: every function of the tables and of tile.hpp (TILES),
by all who can call it, is measured by call_latency or collective_latency, or stands here with the reason.

A family is what the functions of a name share: the types, sizes, operators of reductions, and the contexts and queue
handles by which they go, do not count.
"""
import json
import os
import re
import subprocess
import sys

TYPES = ("bfloat16 half float double char schar short int long longlong uchar ushort uint ulong ulonglong int8 int16 "
         "int32 int64 uint8 uint16 uint32 uint64 size ptrdiff longdouble complexf complexd double2").split()
NOT_MEASURED = {
    "an answer of what this PE knows, or a hint; nothing crosses a path": (
        "my_pe n_pes team_my_pe team_n_pes team_translate_pe ptr team_ptr mc_ptr pe_accessible addr_accessible "
        "region_start region_stop region_is_active ask_smem").split(),
    "what it is for is measured: put_latency --smem": ["give_smem", "release_smem"],
    "measured by list_bw": [f"{of}{nbi}" for of in ("putv", "getv", "putv_signal") for nbi in ("", "_nbi")] + [
        "getv_signal"],
    "part of the rows set_lock and test_lock": ["clear_lock"],
    "of queue handles alone; a group's quiet_status and pe_quiet are measured": [
        f"{family} by {scope}" for family in ("fence", "quiet") for scope in ("warp", "block")],
    "by four warps, between the rows of one warp and of a block": [
        "barrier_warpgroup", *(f"tile_{of} by warpgroup" for of in "put get broadcast allgather reduce rooted_reduce".split())],
    "part of the rows of the other calls of tiles": ["tile_collective_wait"],
}


def family_of(function):
    """Returns (family, callers) of a function's full name."""
    name = re.sub(r"^gshmemx?_(qp_|ctx_)?", "", function)
    callers = ["thread", "host"]
    for end, caller in (("_on_stream", "stream"), ("_warp", "warp"), ("_block", "block")):
        if name.endswith(end):
            name, callers = name[:-len(end)], [caller]
    name = re.sub(rf"^({'|'.join(TYPES)})_", "", name)
    name = re.sub(r"^(i?b?(?:put|get))(?:\d+|mem)(?=_|$)", r"\1", name)
    name = re.sub(r"^(alltoalls?|broadcast|f?collect)mem$", r"\1", name)
    return re.sub(r"^(?:sum|prod|min|max|and|or|xor)_(reduce|reducescatter|inscan|exscan)$", r"\1", name), callers


def families(folder):
    found = set()
    for header in ("functions.h", "stream_functions.h"):
        with open(os.path.join(folder, header), encoding="utf-8") as file:
            functions = re.findall(r"^GSHMEM_(?:API|EXPORT) [^(]+?(gshmemx?_\w+)\(", file.read(), re.M)
        assert functions, header
        for function in functions:
            family, callers = family_of(function)
            found |= {(family, caller) for caller in callers}
    return found


def tiles(header):
    """Returns the families of templates, which only kernels can call."""
    with open(header, encoding="utf-8") as file:
        text = file.read()
    names = re.findall(r"^  GSHMEM_TILE_(?:MOVE|TO_MEMBERS)\((\w+), SCOPE", text, re.M)
    names += re.findall(r"^  GSHMEM_TILE_REDUCE\(NAME##_(\w+), SCOPE", text, re.M)
    names += re.findall(r"int tile_(\w+)##SCOPE\(gshmem_team_t team, uint64_t flag\)", text)
    scopes = re.findall(r"^GSHMEM_TILE_CALLS\(_?(\w*),", text, re.M)
    assert len(set(names)) == 7 and len(scopes) == 4, (names, scopes)
    return {(f"tile_{name}", scope or "thread") for name in names for scope in scopes}


def measured(folder):
    rows = []
    for program in ("call_latency", "collective_latency"):
        done = subprocess.run([os.path.join(folder, program), "--pes", "2", "-n", "5", "-w", "1", "-r", "1", "-b", "64", "-e",
                               "64", "--format", "json"], capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        rows += json.loads(done.stdout)["rows"]
    assert all(row["floor_us"] >= 0 for row in rows)
    return {(row["name"].removesuffix("_two_shot"), row["scope"]) for row in rows}


def main():
    there, rows = families(sys.argv[2]) | tiles(sys.argv[3]), measured(sys.argv[1])
    listed = {name for names in NOT_MEASURED.values() for name in names}
    excused = {call for call in there if call[0] in listed or " by ".join(call) in listed}
    unknown = listed - {family for family, _ in there} - {" by ".join(call) for call in there}
    bad = len(unknown)
    for name in unknown:
        print(f"{name} is listed, and in no table")
    for title, found in (("is not measured", there - rows - excused), ("is in no table", rows - there),
                         ("is listed, and measured", rows & excused)):
        for call in sorted(found):
            print(" by ".join(call), title)
        bad += len(found)
    print(f"{len({f for f, _ in there})} families, {len(there)} with their callers, {len(rows)} measured")
    return 1 if bad else 0


sys.exit(main())
