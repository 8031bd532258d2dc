"""gshmem: symmetric memory of many GPUs, or of many processes in CPU mode.

    import gshmem
    gshmem.init()
    a = gshmem.zeros(4, "int32")
    gshmem.atomic_add(a, gshmem.my_pe(), 0)
    gshmem.barrier_all()
    print(gshmem.my_pe(), a.tolist())

`python -m gshmem -n 2 job.py` runs it with two PEs, torchrun and mpirun do, too. Errors are exceptions: ValueError and
TypeError for arguments, which have no effect then, and gshmem.Error for what the library reports. The first fault of a PE
stays: each later call raises it again.
"""
from ._job import check_fault, finalize, get_uniqueid, global_exit, init, is_initialized, my_pe, n_pes, version
from ._library import Error
from ._memory import Registration, SymmetricArray, empty, register, zeros
from ._operations import (
    ADD, EQ, GE, GT, LE, LT, NE, SET, alltoall, atomic_add, atomic_and, atomic_compare_swap, atomic_fetch, atomic_fetch_add,
    atomic_or, atomic_set, atomic_swap, atomic_xor, barrier_all, broadcast, fcollect, fence, get, put, put_signal, quiet, reduce,
    reducescatter, signal_fetch, signal_op, signal_wait, sync_all)
from ._paths import (
    get_cmake_dir, get_device_library, get_device_library_dir, get_include, get_library_dir, get_nvshmem_home, get_prefix,
    library_init, module_init, use_as_nvshmem)
from ._teams import NODE, SHARED, WORLD, Team

# Type checkers read this list, so it is written out.
__all__ = [
    "ADD", "EQ", "Error", "GE", "GT", "LE", "LT", "NE", "NODE", "Registration", "SET", "SHARED",
    "SymmetricArray", "Team", "WORLD", "alltoall", "atomic_add", "atomic_and", "atomic_compare_swap", "atomic_fetch", "atomic_fetch_add",
    "atomic_or", "atomic_set", "atomic_swap", "atomic_xor", "barrier_all", "broadcast", "check_fault", "empty",
    "fcollect", "fence", "finalize", "get", "get_cmake_dir", "get_device_library", "get_device_library_dir", "get_include",
    "get_library_dir", "get_nvshmem_home", "get_prefix", "get_uniqueid", "global_exit", "init", "is_initialized", "library_init", "module_init",
    "my_pe", "n_pes", "put", "put_signal", "quiet", "reduce", "reducescatter", "register", "signal_fetch",
    "signal_op", "signal_wait", "sync_all", "use_as_nvshmem", "version", "zeros",
]
