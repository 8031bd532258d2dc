#!/usr/bin/env python3
"""Each PE puts numbers to the next one, with a signal, from a kernel of numba-cuda.

    python -m gshmem -n 2 examples/python/numba_ring.py

It needs GPUs, numba-cuda, cffi, and a gshmem for GPUs.
"""
import cffi
from numba import cuda, types

import gshmem

N = 1024
FFI = cffi.FFI()
INTS, WORD = types.CPointer(types.int32), types.CPointer(types.uint64)
SET, EQ = gshmem.SET, gshmem.EQ


def ring_for(arch):
    """The kernel for a GPU of compute capability arch / 10, linked with gshmem's device library."""
    library = gshmem.get_device_library("fatbin", arch)
    # The callback gives the loaded module the PE of this process.
    link = cuda.Fatbin(library.read_bytes(), name=library.name, setup_callback=gshmem.library_init)
    my_pe = cuda.declare_device("gshmem_my_pe", types.int32(), link=link, abi="c")
    n_pes = cuda.declare_device("gshmem_n_pes", types.int32(), link=link, abi="c")
    put_signal = cuda.declare_device("gshmemx_int_put_signal_block", types.void(
        INTS, INTS, types.uint64, WORD, types.uint64, types.int32, types.int32), link=link, abi="c")
    signal_wait = cuda.declare_device("gshmem_signal_wait_until", types.uint64(WORD, types.int32, types.uint64), link=link, abi="c")

    def ring(dest, source, signal):
        right = (my_pe() + 1) % n_pes()
        for i in range(cuda.threadIdx.x, source.size, cuda.blockDim.x):
            source[i] = i + source.size * my_pe()
        cuda.syncthreads()
        put_signal(FFI.from_buffer(dest), FFI.from_buffer(source), source.size, FFI.from_buffer(signal), 1, SET, right)
        signal_wait(FFI.from_buffer(signal), EQ, 1)
        for i in range(cuda.threadIdx.x, source.size, cuda.blockDim.x):
            source[i] = dest[i] + 1
    return ring


def main():
    gshmem.init()
    arrays = gshmem.zeros(N, "int32"), gshmem.zeros(N, "int32"), gshmem.zeros(1, "uint64")
    dest, source, signal = map(cuda.as_cuda_array, arrays)
    major, minor = cuda.get_current_device().compute_capability
    cuda.jit(ring_for(10 * major + minor), lto=True)[1, 256](dest, source, signal)
    cuda.synchronize()
    left = (gshmem.my_pe() - 1) % gshmem.n_pes()
    wrong = sum(value != i + N * left + 1 for i, value in enumerate(source.copy_to_host().tolist()))
    print(f"PE {gshmem.my_pe()}: {N - wrong} of {N} numbers came from PE {left}")
    gshmem.finalize()
    return wrong


if __name__ == "__main__":
    raise SystemExit(main() != 0)
