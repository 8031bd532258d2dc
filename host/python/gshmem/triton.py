"""Calls of gshmem from Triton kernels.

    import triton
    import gshmem
    import gshmem.triton as shmem

    @shmem.kernel
    @triton.jit
    def exchange(dest, source, signal, nbytes, pe):
        shmem.put_signal(dest, source, nbytes, signal, 1, shmem.SET, pe)
        shmem.signal_wait(signal, shmem.GE, 1)

The threads of a program make each call together, as a block: `dest`, `source` and `signal` are pointers, and the same in
all of them. What the program stored before is put, and what it waited for is loaded after: `put_signal` and `signal_wait`
have the barriers of the block for that. Triton links LLVM bitcode of the device library, which has to be built for it.
"""
from __future__ import annotations

import weakref
from typing import Any

import triton
import triton.language as tl
from triton.language import core
from triton.runtime.jit import KernelInterface

from . import _memory, _operations
from ._paths import get_device_library, module_init

ADD, SET = tl.constexpr(_operations.ADD), tl.constexpr(_operations.SET)
EQ, NE, GT, LE, LT, GE = map(tl.constexpr, (_operations.EQ, _operations.NE, _operations.GT, _operations.LE, _operations.LT,
                                            _operations.GE))

_kernels: weakref.WeakSet[Any] = weakref.WeakSet()  # the functions whose modules have the PE of this job


def library(arch: int = 0) -> dict[str, str]:
    """The `extern_libs` of a kernel; `arch` is 90 for compute capability 9.0, and by default that of the current GPU."""
    return {"gshmem": str(get_device_library("bc", arch or triton.runtime.driver.active.get_current_target().arch))}


_earlier_hook: Any = None
_in_earlier_hook = False


def _module_init_hook(**compiled: Any) -> None:
    """Triton calls it when it has compiled a kernel, before the first launch."""
    global _in_earlier_hook
    if _in_earlier_hook:
        return  # the other one calls this one
    if _earlier_hook is not None:
        _in_earlier_hook = True
        try:
            _earlier_hook(**compiled)
        finally:
            _in_earlier_hook = False
    function = compiled["fn"].jit_function
    if function not in _kernels:
        return
    made = function.device_caches[compiled["compile"]["device"]][0]
    kernel = made[compiled["key"]]
    try:
        _ = kernel.run  # loads the module
        module_init(kernel.module)
    except BaseException:
        del made[compiled["key"]]
        raise


def _jobs_end() -> None:
    for function in _kernels:
        function.device_caches.clear()  # their modules have a PE that is no more


_memory._at_end.append(_jobs_end)


class kernel(KernelInterface):  # type: ignore[misc]
    """A function of triton.jit whose kernels make calls of this module, or of any function of the device library."""

    def __init__(self, function: Any) -> None:
        self.function = function
        _kernels.add(function)

    def run(self, *arguments: Any, **options: Any) -> Any:
        global _earlier_hook
        if triton.knobs.runtime.jit_post_compile_hook is not _module_init_hook:
            _earlier_hook = triton.knobs.runtime.jit_post_compile_hook
            triton.knobs.runtime.jit_post_compile_hook = _module_init_hook
        return self.function.run(*arguments, **options, extern_libs=library())


def use_in_torch() -> None:
    """Makes PyTorch's Triton bindings call gshmem: torch.distributed._symmetric_memory._nvshmem_triton.

    Call it before kernels are decorated with @requires_nvshmem. Tensors have to be of gshmem.torch.
    """
    import torch._C._distributed_c10d as c10d
    import torch.distributed._symmetric_memory._nvshmem_triton as bindings

    bindings.NvshmemLibFinder.found_device_lib_path = library()["gshmem"]
    c10d._nvshmemx_cumodule_init = module_init


def declare(name: str, result: str, *arguments: str) -> Any:
    """A function of the device library for kernels, by its types in Triton's words. Pointers are int64.

    All threads of a program call it, so it has to be one for blocks, or one that they may call at a time. Where it
    returns nothing, `result` is "int32", and the value has no meaning.
    """
    types = tuple(map(core.dtype, arguments))

    @core.extern
    def call(*given, _semantic=None):  # type: ignore[no-untyped-def]
        return core.extern_elementwise("", "", list(given), {types: (name, core.dtype(result))}, is_pure=False,
                                       _semantic=_semantic)
    return call


my_pe = declare("gshmem_my_pe", "int32")
n_pes = declare("gshmem_n_pes", "int32")
fence = declare("gshmem_fence", "int32")
quiet = declare("gshmem_quiet", "int32")
barrier_all = declare("gshmemx_barrier_all_block", "int32")
sync_all = declare("gshmemx_sync_all_block", "int32")
_put = declare("gshmemx_putmem_block", "int32", "int64", "int64", "int64", "int32")
_get = declare("gshmemx_getmem_block", "int32", "int64", "int64", "int64", "int32")
_put_signal = declare("gshmemx_putmem_signal_block", "int32", "int64", "int64", "int64", "int64", "int64", "int32", "int32")
_signal_wait = declare("gshmem_signal_wait_until", "int64", "int64", "int32", "int64")


@triton.jit  # type: ignore[untyped-decorator]
def put(dest, source, nbytes, pe):  # type: ignore[no-untyped-def]
    """Puts `nbytes` from `source` to `dest` of PE `pe`, where they are after quiet."""
    tl.debug_barrier()
    _put(tl.cast(dest, tl.int64), tl.cast(source, tl.int64), tl.cast(nbytes, tl.int64), tl.cast(pe, tl.int32))


@triton.jit  # type: ignore[untyped-decorator]
def get(dest, source, nbytes, pe):  # type: ignore[no-untyped-def]
    """Gets `nbytes` from `source` of PE `pe` to `dest`."""
    tl.debug_barrier()
    _get(tl.cast(dest, tl.int64), tl.cast(source, tl.int64), tl.cast(nbytes, tl.int64), tl.cast(pe, tl.int32))
    tl.debug_barrier()


@triton.jit  # type: ignore[untyped-decorator]
def put_signal(dest, source, nbytes, signal, value, op, pe):  # type: ignore[no-untyped-def]
    """Puts, then updates the uint64 at `signal` of PE `pe`; with 0 bytes it is a signal alone. `op` is SET or ADD."""
    tl.debug_barrier()
    _put_signal(tl.cast(dest, tl.int64), tl.cast(source, tl.int64), tl.cast(nbytes, tl.int64), tl.cast(signal, tl.int64),
                tl.cast(value, tl.int64), tl.cast(op, tl.int32), tl.cast(pe, tl.int32))


@triton.jit  # type: ignore[untyped-decorator]
def signal_wait(signal, cmp, value):  # type: ignore[no-untyped-def]
    """Waits until the uint64 at `signal` compares so with `value`; returns it."""
    seen = _signal_wait(tl.cast(signal, tl.int64), tl.cast(cmp, tl.int32), tl.cast(value, tl.int64))
    tl.debug_barrier()
    return seen
