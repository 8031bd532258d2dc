#!/usr/bin/env python3
"""Each PE puts numbers to the next one, with a signal, from a Triton kernel.

    python -m gshmem -n 2 examples/python/triton_ring.py

It needs GPUs, PyTorch, Triton, and a gshmem with LLVM bitcode of the device library.
"""
import triton
import triton.language as tl

import gshmem
import gshmem.triton as shmem

N = 1024


@shmem.kernel
@triton.jit
def ring(dest, source, signal, n: tl.constexpr):
    right = (shmem.my_pe() + 1) % shmem.n_pes()
    at = tl.arange(0, n)
    tl.store(source + at, at + n * shmem.my_pe())
    shmem.put_signal(dest, source, n * 4, signal, 1, shmem.SET, right)
    shmem.signal_wait(signal, shmem.EQ, 1)
    tl.store(source + at, tl.load(dest + at) + 1)


def main():
    import torch
    gshmem.init()
    numbers = [gshmem.zeros(N, "int32") for _ in range(2)]
    dest, source = map(torch.from_dlpack, numbers)
    signal = gshmem.zeros(1, "int64")
    ring[(1,)](dest, source, torch.from_dlpack(signal), N)
    torch.cuda.synchronize()
    left = (gshmem.my_pe() - 1) % gshmem.n_pes()
    wrong = int((source.cpu() != torch.arange(N) + N * left + 1).sum())
    print(f"PE {gshmem.my_pe()}: {N - wrong} of {N} numbers came from PE {left}")
    gshmem.finalize()
    return wrong


if __name__ == "__main__":
    raise SystemExit(main() != 0)
