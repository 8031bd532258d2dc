"""PyTorch's symmetric memory by gshmem.

    import gshmem.torch
    import torch.distributed._symmetric_memory as symm_mem

    symm_mem.set_backend("GSHMEM")
    t = symm_mem.empty(1024, device="cuda")        # "cpu" in CPU mode
    handle = symm_mem.rendezvous(t, dist.group.WORLD)
    handle.barrier()
    torch.ops.gshmem.all_reduce_(t, "sum", dist.group.WORLD.group_name)

The first tensor makes the ranks of the default process group the PEs of a job, where gshmem.init() has not. torch's
interface to backends differs from version to version, so the import compiles the backend once for each, which takes a
minute; `python -m gshmem.torch` does that ahead. It needs a C++20 compiler and nothing of CUDA.
"""
from __future__ import annotations

import ctypes
import hashlib
import os
from typing import Optional

import torch
import torch.distributed as dist

import gshmem

from .. import _memory
from . import _build

if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 9):
    raise ImportError(f"gshmem.torch needs torch 2.9 or later, and this is {torch.__version__}")

#: "cuda", or "cpu" in CPU mode: of the tensors that this process may have.
device_type = "cuda" if torch.cuda.is_available() and os.environ.get("GSHMEM_DEVICE") != "cpu" else "cpu"

# What torch names after NVSHMEM, as calls of ours: it has no kernels for CPU tensors, and those for CUDA tensors work on
# memory of NVSHMEM alone. Rank `peer` is one of all ranks there.
_WORLD = "0"
_OPERATIONS = {
    "nvshmem_put": lambda tensor, peer: torch.ops.gshmem.put(tensor, peer, _WORLD),
    "nvshmem_get": lambda tensor, peer: torch.ops.gshmem.get(tensor, peer, _WORLD),
    "nvshmem_put_with_signal": lambda tensor, sigpad, signal, peer: torch.ops.gshmem.put_with_signal(
        tensor, sigpad, signal, peer, _WORLD),
    "nvshmem_wait_for_signal": lambda sigpad, signal, peer: torch.ops.gshmem.wait_for_signal(sigpad, signal, _WORLD),
    "nvshmem_broadcast": lambda input, root, group_name: torch.ops.gshmem.broadcast_(input, root, group_name),
    "nvshmem_all_to_all": lambda input, out, group_name: torch.ops.gshmem.all_to_all_out(input, out, group_name),
    "all_to_all_vdev": lambda input, out, in_splits, out_splits_offsets, group_name: torch.ops.gshmem.all_to_all_vdev(
        input, out, in_splits, out_splits_offsets, group_name),
}
# torch has kernels of its own for these on GPUs, which run on our memory.
_OPERATIONS_CPU = {
    "one_shot_all_reduce": lambda input, reduce_op, group_name: _one_shot(input, reduce_op, group_name),
    "one_shot_all_reduce_out": lambda input, reduce_op, group_name, out: out.copy_(_one_shot(input, reduce_op, group_name)),
    "two_shot_all_reduce_": lambda input, reduce_op, group_name: torch.ops.gshmem.all_reduce_(input, reduce_op, group_name),
}
_library: Optional[torch.library.Library] = None


def _one_shot(tensor: torch.Tensor, reduce_op: str, group_name: str) -> torch.Tensor:
    """Every rank reads the tensors of all."""
    if reduce_op != "sum":
        raise ValueError(f"one_shot_all_reduce: reduce_op {reduce_op!r} is not 'sum'")
    if not tensor.is_contiguous():
        raise ValueError("one_shot_all_reduce: input has gaps or another order of its axes: pass a contiguous tensor")
    handle = torch._C._distributed_c10d._SymmetricMemory.rendezvous(tensor, group_name)
    if handle is None:
        raise ValueError("one_shot_all_reduce: input is not in GSHMEM's symmetric memory: make it with symm_mem.empty()")
    first = handle.offset // tensor.element_size() + tensor.storage_offset()
    handle.barrier()
    parts = [handle.get_buffer(rank, tensor.shape, tensor.dtype, first) for rank in range(handle.world_size)]
    total = torch.stack(parts).sum(0, dtype=tensor.dtype)
    handle.barrier()
    return total


def _take_operations() -> None:
    """From the first tensor on, torch.ops.symm_mem is ours where NVSHMEM's memory is asked for."""
    global _library
    if _library is not None:
        return
    _library = torch.library.Library("symm_mem", "IMPL")
    for name, call in {**_OPERATIONS, **(_OPERATIONS_CPU if device_type == "cpu" else {})}.items():
        if hasattr(torch.ops.symm_mem, name):
            _library.impl(name, call, device_type.upper(), allow_override=True)


def init() -> None:
    """Collective: makes the ranks of the default process group the PEs of a job, rank r PE r. The first tensor calls it."""
    if not gshmem.is_initialized():
        if dist.is_initialized():
            rank, size = dist.get_rank(), dist.get_world_size()
            store = dist.PrefixStore(f"gshmem/{_memory._job}", dist.distributed_c10d._get_default_store())
            if rank == 0:
                store.set("uid", gshmem.get_uniqueid())
            gshmem.init(uid=store.get("uid"), rank=rank, size=size,
                        device=torch.cuda.current_device() if device_type == "cuda" else None)
        else:
            gshmem.init()
    _check_ranks()
    _take_operations()


def _check_ranks() -> None:
    if dist.is_initialized() and (gshmem.my_pe(), gshmem.n_pes()) != (dist.get_rank(), dist.get_world_size()):
        raise RuntimeError(f"rank {dist.get_rank()} of {dist.get_world_size()} is PE {gshmem.my_pe()} of {gshmem.n_pes()}: "
                           "symmetric memory needs equal numbers")


def _which(group_name: str) -> str:
    """What tells a group from others of its name: "world" is the default one, and others have their ranks."""
    _check_ranks()
    group = dist.distributed_c10d._resolve_process_group(group_name)
    if group is dist.group.WORLD:
        return "world"
    ranks = dist.distributed_c10d._world.pg_group_ranks.get(group, {})
    return hashlib.sha256(repr(sorted(ranks, key=lambda rank: ranks[rank])).encode()).hexdigest()[:32]


def reserve(nbytes: int) -> None:
    """Collective: room for `nbytes` more of tensors. Until it is used up, no allocation waits for other ranks.

    Tensors that all ranks allocate in the same order from here on are for collectives, also if a rank has allocated others alone.
    """
    init()
    torch.ops.gshmem.reserve(nbytes, torch.device(device_type, torch.cuda.current_device() if device_type == "cuda" else None))


@ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)
def _ask(group_name: Optional[bytes], answer: int, nbytes: int) -> bool:
    """See `Ask` in symmetric_group.h: the backend's questions."""
    said, well = "", True
    try:
        if group_name is None:
            init()
        else:
            said = _which(group_name.decode())
    except Exception as error:
        said, well = str(error), False
    text = said.encode()[:nbytes - 1] + b"\0"
    ctypes.memmove(answer, text, len(text))
    return well


_backend = ctypes.CDLL(str(_build.library()))
_backend.gshmem_torch_register(int(device_type == "cuda"), _ask)
_memory._at_end.append(_backend.gshmem_torch_job_ended)
