#!/usr/bin/env python3
"""Runs the perftests with PEs as threads and looks at exit status, errors, JSON and CSV.
Usage: command_line_test.py FOLDER-OF-PROGRAMS
"""
import csv
import io
import json
import os
import resource
import subprocess
import sys
import unittest

FOLDER = None
# Programs and the options that make a run of them short.
SMALL = ["-n", "5", "-w", "2", "-r", "2"]
SIZES = ["-b", "64", "-e", "256"]
PROGRAMS = {
    "put_bw": SIZES, "get_bw": SIZES, "put_latency": SIZES, "get_latency": SIZES, "p_bw": SIZES,
    "g_bw": SIZES, "p_latency": [], "g_latency": [], "put_ping_pong": SIZES,
    "put_signal_ping_pong": SIZES, "signal_ping_pong": [], "atomic_latency": [],
    "atomic_bw": SIZES, "init_time": [], "issue_cost": [], "call_latency": SIZES,
    "collective_latency": SIZES, "list_bw": SIZES,
}
NOTHING_TO_CORRUPT = ["init_time"]
NO_FLOOR = ["init_time", "issue_cost"]  # only a time of zero is impossible


def run(program, *options, pes=2):
    return subprocess.run([os.path.join(FOLDER, program), "--pes", str(pes), *options],
                          capture_output=True, text=True, timeout=1200)


def small(program, *options, pes=2):
    return run(program, *SMALL, *PROGRAMS[program], *options, pes=pes)


class CommandLineTest(unittest.TestCase):
    def test_json_is_json_and_has_rows(self):
        for program in PROGRAMS:
            with self.subTest(program):
                result = small(program, "--format", "json")
                self.assertEqual(result.returncode, 0, result.stderr)
                document = json.loads(result.stdout)
                self.assertEqual(document["program"], program)
                self.assertEqual(document["pes"], "2")
                self.assertGreater(len(document["rows"]), 0)
                for row in document["rows"]:
                    self.assertGreater(row["median_us"], 0)
                    self.assertGreaterEqual(row["median_us"], row["min_us"])

    def test_lost_output_is_a_failure_with_a_line(self):
        command = [os.path.join(FOLDER, "put_bw"), "--pes", "2", *SMALL, *SIZES, "--format", "json"]
        for where in ("> /dev/full", ">&-"):
            result = subprocess.run(["sh", "-c", f'"$@" {where}', "sh", *command], capture_output=True, text=True, timeout=300)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn("put_bw: the output is lost", result.stderr)

    def test_cpu_time_is_a_column_over_the_network_and_within_that_of_the_program(self):
        environment = {**os.environ, "GSHMEM_P2P": "0", "GSHMEM_NIC": "soft"}
        command = [os.path.join(FOLDER, "put_bw"), "--pes", "2", *SMALL, *SIZES, "--format", "json"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        result = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertEqual(result.returncode, 0, result.stderr)
        used_us = 1e6 * (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
        rows = json.loads(result.stdout)["rows"]
        self.assertGreater(max(row["cpu_us"] or 0 for row in rows), 0)
        for row in rows:
            self.assertLess((row["cpu_us"] or 0) * row["iters"], used_us)
        self.assertNotIn("cpu_us", json.loads(small("put_bw", "--format", "json").stdout)["rows"][0])

    def test_csv_has_the_same_columns_in_every_row(self):
        for program in PROGRAMS:
            with self.subTest(program):
                result = small(program, "--format=csv")
                self.assertEqual(result.returncode, 0, result.stderr)
                rows = list(csv.reader(io.StringIO(result.stdout)))
                self.assertGreater(len(rows), 1)
                self.assertIn("median_us", rows[0])
                self.assertEqual({len(row) for row in rows}, {len(rows[0])})

    def test_a_corrupted_byte_fails_the_run(self):
        for program in PROGRAMS:
            if program in NOTHING_TO_CORRUPT:
                continue
            with self.subTest(program):
                result = small(program, "--inject_corruption")
                self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
                self.assertIn("FAIL: ", result.stderr)

    def test_a_result_below_the_physical_floor_fails_the_run(self):
        for program in PROGRAMS:
            if program in NO_FLOOR:
                continue
            with self.subTest(program):
                # So many and so large that the error of the clock is less than the floor.
                sizes = ["-b", "4K", "-e", "4K"] if PROGRAMS[program] else []
                result = run(program, "-n", "1000", "-w", "2", "-r", "2", *sizes,
                             "--inject_fast_clock")
                self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
                self.assertIn("FAIL: below the physical floor", result.stderr)

    def test_a_wrong_byte_is_named(self):
        result = small("put_bw", "--inject_corruption")
        self.assertIn("byte 0 is 0x", result.stderr)

    def test_help_names_every_option_and_exits_0(self):
        for program in PROGRAMS:
            with self.subTest(program):
                result = run(program, "--help")
                self.assertEqual(result.returncode, 0)
                self.assertIn("--iters", result.stdout)
                self.assertNotIn("inject", result.stdout)

    def test_a_bad_option_is_an_error_of_use(self):
        for options, words in [
                (["--min_size", "5X"], ["--min_size", "'5X'", "suffix K, M or G"]),
                (["--scope", "grid"], ["--scope", "'grid'", "thread|warp|block|all"]),
                (["--pes", "0"], ["--pes", "'0'", "1 to 1024"]),
                (["--format", "xml"], ["--format", "'xml'", "table|csv|json"]),
                (["--atomic_op", "inc"], ["--atomic_op", "--help"]),
                (["--frobnicate"], ["--frobnicate", "--help"])]:
            with self.subTest(options):
                result = run("put_bw", *options)
                self.assertEqual(result.returncode, 2)
                self.assertEqual(result.stdout, "")
                for word in words:
                    self.assertIn(word, result.stderr)

    def test_an_option_that_does_not_fit_the_mode_is_an_error_of_use(self):
        result = run("put_bw", "-s", "warp", "-t", "6")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--threads_per_cta: '6' is not accepted", result.stderr)

    def test_a_call_that_is_not_made_so_is_an_error_of_use(self):
        for options, words in [(["--call", "fence", "-s", "stream"], "no 'fence' here by 'stream'"),
                               (["--call", "alltoall"], "no 'alltoall' here"),
                               (["--call", "sing"], "'sing' is not accepted"),
                               (["--scope", "grid"], "thread|warp|block|host|stream|all")]:
            with self.subTest(options):
                result = run("call_latency", *options)
                self.assertEqual(result.returncode, 2)
                self.assertIn(words, result.stderr)

    def test_a_type_without_atomics_is_an_error_of_use(self):
        result = run("atomic_latency", "-d", "half")
        self.assertEqual(result.returncode, 2)
        self.assertIn("'half'", result.stderr)
        self.assertEqual(run("atomic_latency", "-d", "float", "-o", "inc").returncode, 2)

    def test_ping_pong_with_one_pe_is_an_error_of_use(self):
        result = small("put_ping_pong", pes=1)
        self.assertEqual(result.returncode, 2)
        self.assertIn("at least 2 PEs", result.stderr)

    def test_variants_run(self):
        for program, options, pes in [
                ("put_bw", ["--bidir"], 2), ("put_bw", ["--pattern", "ring"], 3),
                ("put_bw", ["-s", "all", "-c", "2", "-t", "4"], 2), ("put_bw", [], 1),
                ("get_bw", ["-s", "thread", "--increment", "64"], 2),
                ("get_bw", ["--report_msgrate", "--smem"], 3),
                ("p_bw", ["-d", "uint8", "--stride", "3"], 2), ("g_bw", ["--unroll", "4"], 2),
                ("g_bw", ["-d", "short", "-i", "2", "--unroll", "4"], 2),
                ("get_latency", ["-s", "warp", "--smem"], 4), ("g_latency", ["-d", "float"], 1),
                ("atomic_latency", ["-d", "int", "-o", "fetch_add"], 1),
                ("atomic_bw", ["-d", "uint", "-o", "compare_swap"], 4),
                ("call_latency", ["-s", "block", "-t", "3"], 4), ("call_latency", [], 1),
                ("call_latency", ["--pattern", "ring"], 3), ("collective_latency", [], 1),
                ("collective_latency", ["-s", "host", "--call", "alltoalls"], 4)]:
            with self.subTest((program, options, pes)):
                result = small(program, *options, pes=pes)
                self.assertEqual(result.returncode, 0, result.stderr)

    def test_the_sweep_names_the_blocks_that_reach_95_percent(self):
        result = small("put_bw", "--sweep_ctas", "-c", "3", "--format", "json")
        self.assertEqual(result.returncode, 0, result.stderr)
        document = json.loads(result.stdout)
        self.assertEqual([row["blocks"] for row in document["rows"]], [1, 2, 3])
        self.assertRegex(document["summary"]["blocks_for_95_percent"], r"^[123] \(")


if __name__ == "__main__":
    FOLDER = sys.argv.pop(1)
    unittest.main()
