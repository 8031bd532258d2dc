"""Where the library, its headers and its prefix for NVSHMEM's programs are, and kernels that call its device library."""
from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

from ._library import PREFIX, check, function, library, require

NVSHMEM = "libnvshmem_host.so.3"


def get_prefix() -> Path:
    """The installed tree: include/, lib/, bin/, as `cmake --install` makes it."""
    return PREFIX


def get_include() -> Path:
    """For the compiler: -I."""
    return PREFIX / "include"


def get_library_dir() -> Path:
    """For the linker: -L, and -rpath."""
    return PREFIX / "lib"


def get_nvshmem_home() -> Path:
    """The prefix in NVSHMEM's shape: for NVSHMEM_HOME, NVSHMEM_DIR, or find_package(NVSHMEM)."""
    return PREFIX / "lib" / "gshmem" / "nvshmem"


def get_cmake_dir() -> Path:
    """For find_package(gshmem): -Dgshmem_DIR."""
    return PREFIX / "lib" / "cmake" / "gshmem"


def get_device_library_dir() -> Path:
    """The device API for code of other compilers: gshmem_sm_90.ltoir and its like."""
    return PREFIX / "lib" / "gshmem" / "device"


def get_device_library(format: str, arch: int) -> Path:
    """The device API as "ltoir", "bc" (LLVM bitcode), "fatbin" or "ptx" for a GPU of compute capability arch / 10.

    It is the file of that architecture, else of the newest one before it; a fatbin has the LTO-IR of all. Raises
    FileNotFoundError where there is none.
    """
    folder, for_nvshmem = get_device_library_dir(), get_nvshmem_home() / "lib"
    everything = folder / "gshmem.ltoir.fatbin", for_nvshmem / "libnvshmem_device.ltoir.fatbin"
    if format == "fatbin" and (found := [path for path in everything if path.exists()]):
        return found[0]
    # A wheel has no links, so it has what has two names under that for NVSHMEM alone.
    paths = [*for_nvshmem.glob(f"libnvshmem_device_sm_*.{format}"), *folder.glob(f"gshmem_sm_*.{format}")]
    there = {int(path.stem.rpartition("_")[2]): path for path in paths if path.stem.rpartition("_")[2].isdigit()}
    fitting = [each for each in there if each <= arch]
    if not fitting:
        raise FileNotFoundError(f"{folder} has no gshmem_sm_{arch}.{format}: build gshmem with "
                                f"GSHMEM_CUDA_ARCHITECTURES={arch} and the target gshmem_device_{format}")
    return there[max(fitting)]


def module_init(module: Any) -> None:
    """Gives the kernels of a CUmodule the PE, before their first launch; once more after another init()."""
    _give("gshmemx_cumodule_init", module)


def library_init(library: Any) -> None:
    """Gives the kernels of a CUlibrary the PE, as module_init. An ObjectCode of cuda.core has one."""
    _give("gshmemx_culibrary_init", library)


def _give(call: str, loaded: Any) -> None:
    require()
    check(function(call, ctypes.c_int, ctypes.c_void_p)(int(getattr(loaded, "handle", loaded))), call)


def _loaded(name: str) -> list[str]:
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        return sorted({line.split(maxsplit=5)[5].strip() for line in maps if name in line})


def use_as_nvshmem() -> Path:
    """Makes packages that load libnvshmem_host.so.3 in this process get gshmem's; returns its folder.

    Call it before they are imported: the loader gives each of them the first one of that name. Child processes have
    it by NVSHMEM_HOME, which is set where it is not. Raises RuntimeError where the process has another one already.
    """
    folder = get_nvshmem_home() / "lib"
    library()
    others = [path for path in _loaded("libnvshmem_host.so") if not path.startswith(str(folder.resolve()))]
    if others:
        raise RuntimeError(f"this process has loaded {others[0]} already: call gshmem.use_as_nvshmem() before the import "
                           "that loads it")
    ctypes.CDLL(str(folder / NVSHMEM), ctypes.RTLD_GLOBAL)
    os.environ.setdefault("NVSHMEM_HOME", str(get_nvshmem_home()))
    return folder
