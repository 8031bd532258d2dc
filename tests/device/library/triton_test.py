#!/usr/bin/env python3
"""triton_test.py BUILD ARCHITECTURE: Triton compiles kernels with the bitcode of the device library, without a GPU.

They are the one of examples/python, and one of NVSHMEM's names with the types that PyTorch's bindings give them. In the
machine code is the state that gshmemx_cumodule_init looks up. The bitcode is built in the folder BUILD. Exit 77: there is
no Triton.
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "host" / "python"), str(ROOT / "examples" / "python")]
STATE, VERSION = "gshmemi_device_state", "nvshmemi_device_lib_version_d"


if len(sys.argv) != 3:
    sys.exit(__doc__)
try:
    import triton
    import triton.language as tl
    from triton.backends.compiler import GPUTarget
except ImportError as error:
    print(f"skipped: no Triton: {error}")
    sys.exit(77)
from gshmem.triton import declare  # noqa: E402
from triton_ring import N, ring  # noqa: E402

nvshmem_my_pe = declare("nvshmem_my_pe", "int32")
nvshmem_n_pes = declare("nvshmem_n_pes", "int32")
nvshmem_fence = declare("nvshmem_fence", "int32")
nvshmem_quiet = declare("nvshmem_quiet", "int32")
nvshmem_barrier_all = declare("nvshmem_barrier_all", "int32")
nvshmem_sync_all = declare("nvshmem_sync_all", "int32")
nvshmemx_putmem_block = declare("nvshmemx_putmem_block", "int32", "int64", "int64", "int64", "int32")
nvshmemx_getmem_block = declare("nvshmemx_getmem_block", "int32", "int64", "int64", "int64", "int32")
nvshmemx_getmem_nbi_block = declare("nvshmemx_getmem_nbi_block", "int32", "int64", "int64", "int64", "int32")
nvshmemx_putmem_signal_block = declare(
    "nvshmemx_putmem_signal_block", "int32", "int64", "int64", "int64", "int64", "uint64", "int32", "int32")
nvshmemx_signal_op = declare("nvshmemx_signal_op", "int32", "int64", "int64", "int32", "int32")
nvshmem_signal_wait_until = declare("nvshmem_signal_wait_until", "int32", "int64", "int32", "uint64")
nvshmem_int_wait_until = declare("nvshmem_int_wait_until", "int32", "int64", "int32", "int32")
nvshmemx_alltoallmem_block = declare("nvshmemx_alltoallmem_block", "int32", "int32", "int64", "int64", "int64")
nvshmemx_broadcastmem_block = declare("nvshmemx_broadcastmem_block", "int32", "int32", "int64", "int64", "int64", "int32")
nvshmem_float_sum_reduce = declare("nvshmem_float_sum_reduce", "int32", "int32", "int64", "int64", "int64")


@triton.jit
def names_of_nvshmem(dest, source, signal, nbytes):
    pe = (nvshmem_my_pe() + 1) % nvshmem_n_pes()
    to, of, word, one = dest.to(tl.int64), source.to(tl.int64), signal.to(tl.int64), nbytes.to(tl.uint64)
    nvshmemx_putmem_block(to, of, nbytes, pe)
    nvshmem_fence()
    nvshmemx_signal_op(word, nbytes, 9, pe)
    nvshmemx_putmem_signal_block(to, of, nbytes, word, one, 9, pe)
    nvshmem_signal_wait_until(word, 0, one)
    nvshmem_int_wait_until(word, 0, 1)
    nvshmemx_getmem_block(to, of, nbytes, pe)
    nvshmemx_getmem_nbi_block(to, of, nbytes, pe)
    nvshmem_quiet()
    nvshmemx_alltoallmem_block(0, to, of, nbytes)
    nvshmemx_broadcastmem_block(0, to, of, nbytes, 0)
    nvshmem_float_sum_reduce(0, to, of, nbytes)
    nvshmem_barrier_all()
    nvshmem_sync_all()


def compiled(function, bitcode, architecture, signature, constants):
    source = triton.compiler.ASTSource(fn=function, signature=signature, constexprs=constants)
    return triton.compile(source, target=GPUTarget("cuda", architecture, 32), options={"extern_libs": {"gshmem": bitcode}}).asm


def check(name, asm):
    ptx = asm["ptx"]
    # One that is called by other types than its own stays a function, which gets nothing that it understands.
    kept = re.findall(r"^.*\.func.*\b((?:gshmem|nvshmem)x?_\w+)(?:\($|$)", ptx, re.M)
    assert not kept, f"Triton has not inlined {kept} into {name}"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(asm["cubin"])
        file.flush()
        symbols = subprocess.run(["readelf", "-sW", file.name], check=True, capture_output=True, text=True).stdout
    for symbol in (STATE, name):
        assert re.search(rf" GLOBAL .* {symbol}$", symbols, re.M), f"the machine code has no {symbol}:\n{symbols}"
    print(f"{name}: {len(asm['cubin'])} bytes of machine code, {ptx.count('.func')} functions")


def main():
    build, architecture = sys.argv[1], int(re.match(r"\d+", sys.argv[2])[0])
    subprocess.run(["cmake", "--build", build, "--target", "gshmem_device_bc"], check=True)
    bitcode = f"{build}/lib/device/gshmem_sm_{sys.argv[2]}.bc"
    ints = {name: "*i32" for name in ("dest", "source")}
    check("ring", compiled(ring.function, bitcode, architecture, {**ints, "signal": "*i64", "n": "constexpr"}, {"n": N}))
    check("names_of_nvshmem", compiled(names_of_nvshmem, bitcode, architecture,
                                       {**ints, "signal": "*i64", "nbytes": "i64"}, {}))


main()
