#!/usr/bin/env python3
"""Runs the standard set of perftests and prints the results as Markdown tables, beside NVSHMEM's
figures, the floor and the goal. Usage: table.py [--bin FOLDER] [--pes N] [--threads] [--only WORD]

Programs run under the mpirun in PATH, one process per PE, or with --threads as threads of one
process. On two GPUs it takes less than a minute.
"""
import argparse
import glob
import json
import os
import subprocess
import sys
import time
from collections import namedtuple

# Peer, floor and goal were measured elsewhere, on H200 SXM GPUs joined by NVLink (18 links each), with
# CUDA 13.0. Peer: NVSHMEM 3.4.5 and its own perftests, NVLink multicast off. Floor: kernels written by
# hand for the one purpose. Absolute times hold on that GPU only.
NOTE = ("Peer (NVSHMEM 3.4.5), floor (hand-written kernels) and goal were measured or set elsewhere, on "
        "H200 SXM GPUs over NVLink with CUDA 13.0; on other GPUs compare nothing with them.")

# Program and options; rows with the same run share it.
PUT = ("put_latency", "-s all -b 8 -e 256K -f 8")
GET = ("get_latency", "-s all -b 8 -e 256K -f 8")
SWEEP = "--sweep_ctas -c 32 -r 3 -e 64M"
KIB = 1024

# Which numbers of a run a row shows: the value `column` of the rows that have these values.
Pick = namedtuple("Pick", "column where")


def us(**where):
    return Pick("median_us", where)


def gbs(**where):
    return Pick("GB_s", where)


BLOCKS = Pick("blocks_for_95_percent", None)

# picks, goal: one per number in the cell. A goal is an upper bound, or for GB/s a lower one. peer and
# floor are text, or by number of PEs.
Row = namedtuple("Row", "work run picks unit peer floor goal")

POINT_TO_POINT = [
    Row("put bandwidth, 64 MiB, 32 blocks of 1024", ("put_bw", "-b 64M -e 64M"), [gbs()], "GB/s",
        "352.6", "362", [358]),
    Row("put bandwidth, 16 MiB, 1 block of 1024", ("put_bw", "-b 16M -e 16M -c 1"), [gbs()], "GB/s",
        "45.1", "45.6", [45]),
    Row("blocks for 95 % of peak put, 64 MiB", ("put_bw", SWEEP), [BLOCKS], "blocks", "32", "8", [9]),
    Row("get bandwidth, 64 MiB, 32 blocks of 1024", ("get_bw", "-b 64M -e 64M"), [gbs()], "GB/s",
        "337 (16 MiB)", "362", [358]),
    Row("blocks for 95 % of peak get, 64 MiB", ("get_bw", SWEEP), [BLOCKS], "blocks", "", "8", [9]),
    Row("`g` bandwidth, 4 MiB", ("g_bw", "-b 4M -e 4M"), [gbs()], "GB/s", "33.2", "362", [200]),
    Row("`p` bandwidth, 4 MiB", ("p_bw", "-b 4M -e 4M"), [gbs()], "GB/s", "282.8", "362", [315]),
    Row("put + quiet, thread, 512 B / 4 KiB / 32 KiB", PUT,
        [us(scope="thread", size_bytes=n) for n in (512, 4 * KIB, 32 * KIB)], "us",
        "3.9 / 23.6 / 183", "1.3 / 4.1 / 35", [1.7, 5, 40]),
    Row("get, thread, 512 B / 4 KiB / 32 KiB", GET,
        [us(scope="thread", size_bytes=n) for n in (512, 4 * KIB, 32 * KIB)], "us",
        "15.5 / 113 / 908", "1.5 / 14.8 / 126", [2.5, 17, 140]),
    Row("put + quiet, warp, 4 KiB / 32 KiB / 256 KiB", PUT,
        [us(scope="warp", size_bytes=n) for n in (4 * KIB, 32 * KIB, 256 * KIB)], "us",
        "2.5 / 12.4 / 91.2", "1.0 / 1.3 / 11.9", [1.5, 2.2, 14]),
    Row("get, warp, 4 KiB / 32 KiB / 256 KiB", GET,
        [us(scope="warp", size_bytes=n) for n in (4 * KIB, 32 * KIB, 256 * KIB)], "us",
        "8.1 / 58.7 / 465", "1.0 / 4.0 / 34.5", [2.2, 5.5, 40]),
    Row("get, block of 1024, 32 KiB / 256 KiB", GET,
        [us(scope="block", size_bytes=n) for n in (32 * KIB, 256 * KIB)], "us",
        "3.3 / 16.4", "1 / 5.5", [2.0, 8]),
    Row("put + quiet, 8 B, thread / warp / block", PUT,
        [us(scope=s, size_bytes=8) for s in ("thread", "warp", "block")], "us",
        "1.39 / 1.42 / 1.58", "0.86", [1.0, 1.0, 1.1]),
    Row("signal round trip", ("signal_ping_pong", ""), [us()], "us", "2.32", "1.48", [1.7]),
    Row("put_signal round trip, 8 B", ("put_signal_ping_pong", "-s thread -b 8 -e 8"), [us()], "us",
        "4.75", "1.48 to 2.54", [3.0]),
    Row("atomic fetch_add", ("atomic_latency", "-o fetch_add"), [us()], "us", "1.11 (inc)", "0.84",
        [0.9]),
    Row("`g`, each depends on the one before", ("g_latency", "-d uint64"), [us()], "us", "",
        "0.80 to 0.84", [0.9]),
]

# Peer and floor at 2, 4 and 8 PEs; the goal is the one at 8.
BARRIERS = [
    Row("sync, thread", ("call_latency", "-s all --call sync_all"), [us(scope="thread")], "us",
        {2: "1.62", 4: "2.55", 8: "3.39"}, {2: "0.76", 4: "0.80", 8: "0.90"}, [1.1]),
    Row("sync, block of 1024", ("call_latency", "-s all --call sync_all"), [us(scope="block")], "us",
        {2: "2.04", 4: "2.15", 8: "2.20"}, {2: "0.76", 4: "0.80", 8: "0.90"}, [1.2]),
    Row("barrier, thread", ("call_latency", "-s all --call barrier_all"), [us(scope="thread")], "us",
        {2: "2.53", 4: "3.57", 8: "4.51"}, "sync + 0.6 to 0.9", [2.2]),
    Row("barrier, block of 1024", ("call_latency", "-s all --call barrier_all"), [us(scope="block")], "us",
        {2: "3.14", 4: "3.34", 8: "3.43"}, "sync + 0.6 to 0.9", [2.2]),
]

TABLES = [("Point to point, 2 PEs", POINT_TO_POINT), ("Barriers", BARRIERS)]


def folder_of_programs(given):
    if given:
        return given
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for build in ("gpu", "release"):
        folder = os.path.join(root, "build", build, "bin", "perftest")
        if os.path.exists(os.path.join(folder, "put_bw")):
            return folder
    found = glob.glob(os.path.join(root, "build*", "bin", "perftest"))
    if not found:
        sys.exit("table.py: no built perftests under build/; name their folder with --bin")
    return found[0]


class Runner:
    def __init__(self, folder, threads):
        self.folder = folder
        self.threads = threads
        self.results = {}
        self.failures = []
        # As tests/launch/mpirun.sh: root may run it, more ranks than cores, no binding.
        self.environment = dict(
            os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
            OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_hwloc_base_binding_policy="none",
            PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe",
            PRTE_MCA_hwloc_default_binding_policy="none")

    def document(self, program, options, pes):
        """What the program printed as JSON, or None if it failed; runs it at most once."""
        key = (program, options, pes)
        if key not in self.results:
            self.results[key] = self.run(program, options, pes)
        return self.results[key]

    def run(self, program, options, pes):
        command = [os.path.join(self.folder, program), *options.split(), "--format", "json"]
        if self.threads:
            command += ["--pes", str(pes)]
        else:
            command = ["mpirun", "-np", str(pes), *command]
        print("running " + " ".join(command), file=sys.stderr)
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=120,
                                  env=self.environment)
            if done.returncode == 0:
                return json.loads(done.stdout)
            why = f"exit status {done.returncode}\n{done.stderr}"
        except subprocess.TimeoutExpired:
            why = "still running after 120 s"
        except (OSError, ValueError) as error:
            why = str(error)
        self.failures.append(" ".join(command) + ": " + why)
        return None


def value_of(document, pick):
    if pick.where is None:
        text = document["summary"].get(pick.column)
        return float(text.split()[0]) if text else None
    rows = [row for row in document["rows"]
            if all(row.get(column) == value for column, value in pick.where.items())]
    return rows[0][pick.column] if len(rows) == 1 else None


def shown(value, unit):
    if value is None:
        return "?"
    if unit == "blocks":
        return f"{value:.0f}"
    return f"{value:.1f}" if unit == "GB/s" or value >= 100 else f"{value:.2f}"


def at(text, pes):
    return text.get(pes, "") if isinstance(text, dict) else text


def print_table(title, rows, runner, pes):
    lines = []
    header = None
    for row in rows:
        document = runner.document(*row.run, pes)
        header = header or document
        values = [value_of(document, pick) if document else None for pick in row.picks]
        at_least = row.unit == "GB/s"
        met = all(value is not None and (value >= goal if at_least else value <= goal)
                  for value, goal in zip(values, row.goal))
        goal = (">= " if at_least else "<= ") + " / ".join(f"{g:g}" for g in row.goal)
        comparable = header is not None and "H200" in header["mode"]
        lines.append([row.work, " / ".join(shown(v, row.unit) for v in values), row.unit,
                      at(row.peer, pes) or "-", at(row.floor, pes) or "-", goal,
                      ("yes" if met else "no") if comparable else "-"])
    if header:
        print(f"### {title} ({header['mode']}, {header['pes']} PEs as {header['pes_are']}, "
              f"path: {header['path']}, {header['version']})\n")
    print("| work | gshmem | unit | peer | floor | goal | met |")
    print("|---|---|---|---|---|---|---|")
    for line in lines:
        print("| " + " | ".join(line) + " |")
    print(flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--bin", help="folder of the programs (default: that of this tree's build)")
    parser.add_argument("--pes", type=int, default=2, help="PEs of the barriers (default 2)")
    parser.add_argument("--threads", action="store_true", help="PEs are threads of one process")
    parser.add_argument("--only", default="", help="rows whose name has this in it")
    arguments = parser.parse_args()
    runner = Runner(folder_of_programs(arguments.bin), arguments.threads)
    started = time.monotonic()
    for title, rows in TABLES:
        rows = [row for row in rows if arguments.only in row.work]
        if rows:
            print_table(title, rows, runner, 2 if rows[0] in POINT_TO_POINT else arguments.pes)
    print(NOTE)
    print(f"took {time.monotonic() - started:.1f} s", file=sys.stderr)
    for failure in runner.failures:
        print("FAILED: " + failure, file=sys.stderr)
    return 1 if runner.failures else 0


if __name__ == "__main__":
    sys.exit(main())
