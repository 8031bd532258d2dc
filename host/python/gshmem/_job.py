"""Joining a job and leaving it."""
from __future__ import annotations

import ctypes
import os
from typing import Any, Optional

from . import _memory
from ._library import check, function, initialized, integer, raise_fault, require

_WITH_UNIQUEID = 8  # gshmemx_init_flags
UID_BYTES = 128


class _UniqueIdArgs(ctypes.Structure):
    _fields_ = [("version", ctypes.c_int), ("id", ctypes.c_void_p), ("rank", ctypes.c_int), ("size", ctypes.c_int)]


class _InitAttr(ctypes.Structure):  # gshmemx_init_attr with its args
    _fields_ = [("version", ctypes.c_int), ("mpi_comm", ctypes.c_void_p), ("args_version", ctypes.c_int),
                ("uid", _UniqueIdArgs), ("device", ctypes.c_int), ("thread_rank", ctypes.c_int), ("heap", ctypes.c_uint64),
                ("thread_world", ctypes.c_void_p), ("reserved", ctypes.c_char * 72)]


_VERSION = (2 << 16) + 144


def get_uniqueid() -> bytes:
    """An id for init(uid=...), made by one process of the job and carried to the others by the program's own means."""
    uid = ctypes.create_string_buffer((1).to_bytes(4, "little"), UID_BYTES)
    check(function("gshmemx_get_uniqueid", ctypes.c_int, ctypes.c_void_p)(ctypes.addressof(uid)), "gshmemx_get_uniqueid")
    return uid.raw


def init(*, uid: Optional[bytes] = None, rank: Optional[int] = None, size: Optional[int] = None, comm: Any = None,
         device: Optional[int] = None, heap: int = 0) -> None:
    """Collective: makes this process a PE of a job.

    Without `uid` and `comm` the environment says which: torchrun's variables, a launcher with PMIx (mpirun, srun), `python
    -m gshmem`, GSHMEM_UID_ADDRESS; else it is a job of one PE. Or the program says it: `uid` of get_uniqueid() with `rank`
    and `size`, or `comm`, a communicator of mpi4py or what else has Get_rank(), Get_size() and bcast().

    `device` is the GPU of this PE (by default the current one, else by the rank on the host), `heap` the bytes that its
    heap begins with (GSHMEM_SYMMETRIC_SIZE). Faults become exceptions: GSHMEM_FAULT is "report" where it is not set.
    """
    heap = integer("init", "heap", heap, _memory.UINT64)
    device = -1 if device is None else integer("init", "device", device, _memory.INT)
    if comm is not None:
        if uid is not None or rank is not None or size is not None:
            raise ValueError("comm says rank and size, and makes an id: pass it alone")
        if not all(hasattr(comm, name) for name in ("Get_rank", "Get_size", "bcast")):
            raise TypeError(f"init: comm = {comm!r} is not a communicator with Get_rank(), Get_size() and bcast()")
        rank, size = comm.Get_rank(), comm.Get_size()
        uid = comm.bcast(get_uniqueid() if rank == 0 else None, 0)
    elif (uid is None) != (rank is None) or (uid is None) != (size is None):
        raise ValueError("uid, rank and size are passed together")
    attr = _InitAttr(version=_VERSION, args_version=_VERSION, uid=_UniqueIdArgs(version=1), thread_rank=-1,
                     device=device, heap=heap)
    flags = 0
    if uid is not None:
        if not isinstance(uid, bytes):
            raise TypeError(f"init: uid = {uid!r} is not the bytes that get_uniqueid() gave")
        if len(uid) != UID_BYTES:
            raise ValueError(f"uid has {len(uid)} bytes: pass what get_uniqueid() gave, {UID_BYTES} bytes")
        size = integer("init", "size", size, (1, _memory.INT[1]))
        rank = integer("init", "rank", rank, (0, size - 1))
        memory = ctypes.create_string_buffer(uid, UID_BYTES)
        attr.uid = _UniqueIdArgs(1, ctypes.addressof(memory), rank, size)
        flags = _WITH_UNIQUEID
    mine = "GSHMEM_FAULT" not in os.environ
    if mine:
        os.environ["GSHMEM_FAULT"] = "report"
    try:
        start = function("gshmemx_init_attr", ctypes.c_int, ctypes.c_uint, ctypes.c_void_p)
        check(start(flags, ctypes.addressof(attr)), "gshmem.init")
    finally:
        if mine:
            del os.environ["GSHMEM_FAULT"]


def is_initialized() -> bool:
    """Is this process a PE?"""
    return initialized()


def finalize() -> None:
    """Collective: completes everything, ends all symmetric arrays, and leaves the job.

    A process that exits need not call it, and does not: the PEs that stay go on. As many calls answer as many of init().
    """
    require()
    function("gshmem_finalize", None)()
    if not initialized():
        _memory._jobs_end()


def global_exit(status: int) -> None:
    """Ends the job on all PEs with `status`; does not return."""
    require()
    function("gshmem_global_exit", None, ctypes.c_int)(integer("global_exit", "status", status, _memory.INT))


def my_pe() -> int:
    """The number of this PE."""
    require()
    return int(function("gshmem_my_pe", ctypes.c_int)())


def n_pes() -> int:
    """How many PEs the job has."""
    require()
    return int(function("gshmem_n_pes", ctypes.c_int)())


def version() -> str:
    """The version of libgshmem."""
    parts = (ctypes.c_int * 3)()
    at = ctypes.addressof(parts)
    function("gshmemx_vendor_get_version_info", None, *[ctypes.c_void_p] * 3)(at, at + 4, at + 8)
    return ".".join(map(str, parts))


def check_fault() -> None:
    """Raises the fault of this PE, where there is one: what kernels and streams did may have left it."""
    require()
    raise_fault()
