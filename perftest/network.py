#!/usr/bin/env python3
"""Runs perftests over the consumers of the network path and prints them side by side, as Markdown.
Usage: network.py [--bin FOLDER] [--pes N] [--nic WORD[,WORD...]] [--gdr]

By default `soft` and `ofi` (tcp on the loopback interface). --gdr instead compares GPUDirect RDMA on
with off, which is how GPU heaps go where it is missing: staged through host memory, in pieces. (In
CPU mode "off" sends the same pieces through the same staging memory.) For a verdict, and the
cause where it fails, run gshmem-info --gdr-proof. The last columns have the CPU time of all PEs for
one operation, in us. A run that fails shows the error below the table. PEs are threads of one
process, none is mapped (GSHMEM_P2P=0).
"""
import argparse
import json
import os
import subprocess
import sys

ROWS = [
    ("put + quiet, 8 B", "put_latency", "-s thread -b 8 -e 8", "median_us", "us"),
    ("put + quiet, 64 KiB", "put_latency", "-s thread -b 64K -e 64K", "median_us", "us"),
    ("get, 8 B", "get_latency", "-s thread -b 8 -e 8", "median_us", "us"),
    ("get, 64 KiB", "get_latency", "-s thread -b 64K -e 64K", "median_us", "us"),
    ("put_signal round trip, 8 B", "put_signal_ping_pong", "-s thread -b 8 -e 8", "median_us", "us"),
    ("atomic fetch_add", "atomic_latency", "-o fetch_add", "median_us", "us"),
    ("put bandwidth, 1 MiB, one message", "put_bw", "-b 1M -e 1M -c 1 -t 32", "GB_s", "GB/s"),
    ("get bandwidth, 1 MiB, one message", "get_bw", "-b 1M -e 1M -c 1 -t 32", "GB_s", "GB/s"),
    ("put bandwidth, 1 MiB, 32 messages", "put_bw", "-b 1M -e 1M -c 32", "GB_s", "GB/s"),
    ("get bandwidth, 1 MiB, 32 messages", "get_bw", "-b 1M -e 1M -c 32", "GB_s", "GB/s"),
]


def columns(args):
    if args.gdr:
        return [("GDR " + word, {"GSHMEM_NIC": args.nic or "ofi", "GSHMEM_GDR": word})
                for word in ("on", "off")]
    return [(nic, {"GSHMEM_NIC": nic}) for nic in (args.nic or "soft,ofi").split(",")]


def run(program, options, pes, variables):
    """The last row of the program's output, or what went wrong."""
    command = [program, "--pes", str(pes), "--format", "json"] + options.split()
    environment = {"GSHMEM_OFI_INTERFACE": "127.0.0.1", "GSHMEM_SYMMETRIC_SIZE": "256M", **os.environ,
                   "GSHMEM_P2P": "0", **variables}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, str(error)
    if done.returncode != 0:
        return None, (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return json.loads(done.stdout)["rows"][-1], ""


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin/perftest", help="folder of the perftests")
    parser.add_argument("--pes", type=int, default=2)
    parser.add_argument("--nic", help="words of GSHMEM_NIC")
    parser.add_argument("--gdr", action="store_true", help="GPUDirect RDMA on against off")
    args = parser.parse_args()

    chosen = columns(args)
    titles = [name for name, _ in chosen] + (["change"] if args.gdr else [])
    heads = ["work", *titles, "unit", *(f"CPU, {name}" for name, _ in chosen)]
    print("| " + " | ".join(heads) + " |")
    print("|" + "---|" * len(heads))
    errors = []
    for work, program, options, key, unit in ROWS:
        cells, values, cpu = [], [], []
        for name, variables in chosen:
            row, error = run(os.path.join(args.bin, program), options, args.pes, variables)
            values.append(row[key] if row else None)
            cells.append(f"{row[key]:.4g}" if row else "-")
            cpu.append(f"{row['cpu_us']:.4g}" if row and row.get("cpu_us") else "-")
            if error:
                errors.append(f"{name}, {work}: {error}")
        if args.gdr:
            on, off = values
            cells.append(f"{(on / off - 1) * 100:+.0f} %" if on and off else "-")
        print("| " + " | ".join([work, *cells, unit, *cpu]) + " |", flush=True)
    for error in errors:
        print(error, file=sys.stderr)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
