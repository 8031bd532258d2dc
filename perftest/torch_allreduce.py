#!/usr/bin/env python3
"""An allreduce of PyTorch by several means, side by side in one run: NCCL, torch's CUDA backend of symmetric memory, and
gshmem's (docs/python.md). Prints a table in Markdown, of microseconds a call.

    python3 perftest/torch_allreduce.py --pes 2 [--dtype bfloat16] [--smallest 1K] [--largest 64M] [--repeat 5]

A process has one backend of symmetric memory, so each runs in a job of its own; they take turns `--repeat` times, and each
cell is the median. Without a GPU, or with GSHMEM_DEVICE=cpu, it compares gloo and gshmem in CPU mode. Needs torch 2.9 and
the package gshmem.
"""
import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import time

SUFFIXES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size_of(text):
    return int(text[:-1]) * SUFFIXES[text[-1]] if text[-1] in SUFFIXES else int(text)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pes", type=int, default=2)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--smallest", type=size_of, default="1K")
    parser.add_argument("--largest", type=size_of, default="64M")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--backend", help="what the jobs are started with")
    return parser.parse_args()


def timed(torch, device, call, calls):
    """Microseconds a call, of as many in a row."""
    for _ in range(max(calls // 10, 3)):
        call()
    if device == "cpu":
        start = time.perf_counter()
        for _ in range(calls):
            call()
        return (time.perf_counter() - start) * 1e6 / calls
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    first.record()
    for _ in range(calls):
        call()
    last.record()
    torch.cuda.synchronize()
    return first.elapsed_time(last) * 1e3 / calls


def job(arguments):
    """A rank. Rank 0 prints what was measured."""
    import torch
    import torch.distributed as dist
    import torch.distributed._symmetric_memory as symm_mem
    rank, n = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = "cuda" if torch.cuda.is_available() and os.environ.get("GSHMEM_DEVICE") != "cpu" else "cpu"
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    else:
        torch.set_num_threads(1)
    dist.init_process_group("nccl" if device == "cuda" else "gloo")
    world = dist.group.WORLD.group_name
    if arguments.backend == "GSHMEM":
        importlib.import_module("gshmem.torch")
    dtype = getattr(torch, arguments.dtype)
    results = {}

    def measure(name, nbytes, call, tensor):
        tensor.fill_(1)
        dist.barrier()
        out = call()
        out = tensor if out is None else out
        if device == "cuda":
            torch.cuda.synchronize()
        if not bool((out == n).all()):
            sys.exit(f"{name} of {nbytes} bytes: rank {rank} has {out.flatten()[:4].tolist()} instead of {n}")
        tensor.zero_()  # sums of zeros stay what they are
        dist.barrier()
        results.setdefault(name, {})[nbytes] = timed(torch, device, call, 200 if nbytes <= 1 << 20 else 20)

    sizes = [1 << k for k in range(40) if arguments.smallest <= 1 << k <= arguments.largest]
    for nbytes in sizes:
        if arguments.backend in ("NCCL", "GLOO"):
            tensor = torch.empty(nbytes // dtype.itemsize, dtype=dtype, device=device)
            measure(arguments.backend.lower(), nbytes, lambda t=tensor: dist.all_reduce(t), tensor)
            continue
        if symm_mem.get_backend(device) != arguments.backend:  # torch does not find its own one by its name
            symm_mem.set_backend(arguments.backend)
        tensor = symm_mem.empty(nbytes // dtype.itemsize, dtype=dtype, device=device)
        symm_mem.rendezvous(tensor, world)
        ops, symm = torch.ops.gshmem, torch.ops.symm_mem
        measure(f"one-shot, {arguments.backend}", nbytes, lambda t=tensor: symm.one_shot_all_reduce(t, "sum", world), tensor)
        measure(f"two-shot, {arguments.backend}", nbytes, lambda t=tensor: symm.two_shot_all_reduce_(t, "sum", world), tensor)
        if arguments.backend == "GSHMEM":
            measure("gshmem.all_reduce_", nbytes, lambda t=tensor: ops.all_reduce_(t, "sum", world), tensor)
    if rank == 0:
        print("RESULT " + json.dumps({"device": torch.cuda.get_device_name() if device == "cuda" else "CPU mode",
                                      "torch": torch.__version__, "results": results}))
    dist.barrier()
    dist.destroy_process_group()


def main(arguments):
    import torch
    cuda = torch.cuda.is_available() and os.environ.get("GSHMEM_DEVICE") != "cpu"
    backends = ["NCCL", "CUDA", "GSHMEM"] if cuda else ["GLOO", "GSHMEM"]
    cells, said = {}, {}
    for _ in range(arguments.repeat):
        for backend in backends:
            done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
                                   str(arguments.pes), __file__, *sys.argv[1:], "--backend", backend],
                                  stdout=subprocess.PIPE, text=True, check=True, env={"OMP_NUM_THREADS": "1", **os.environ})
            said = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("RESULT "))[7:])
            for name, row in said["results"].items():
                for nbytes, us in row.items():
                    cells.setdefault(int(nbytes), {}).setdefault(name, []).append(us)
    names = list(dict.fromkeys(name for row in cells.values() for name in row))
    print(f"{arguments.pes} x {said['device']}, torch {said['torch']}, {arguments.dtype}, sum, microseconds a call, "
          f"median of {arguments.repeat}\n")
    print("| bytes | " + " | ".join(names) + " |\n" + "| --- " * (len(names) + 1) + "|")
    for nbytes, row in cells.items():
        print(f"| {nbytes} | " + " | ".join(f"{statistics.median(row[name]):.1f}" for name in names) + " |")


if __name__ == "__main__":
    given = parse()
    if given.backend:
        job(given)
    else:
        main(given)
