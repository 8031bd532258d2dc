"""Compiles the backend for the torch that is installed, once, and finds it again."""
from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import torch

from .. import _paths
from .._library import SONAME, library as gshmem_library

_HERE = Path(__file__).resolve().parent
_SOURCES = ("backend.cpp", "symmetric_memory.h", "symmetric_pool.h")


def cache() -> Path:
    """Where compiled backends are."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gshmem"


def _command() -> list[str]:
    folder = Path(torch.__file__).resolve().parent
    return [os.environ.get("CXX") or "c++", "-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden",
            f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}", f"-isystem{folder / 'include'}",
            f"-isystem{folder / 'include/torch/csrc/api/include'}", f"-I{_paths.get_include()}", str(_HERE / _SOURCES[0]),
            f"-L{folder / 'lib'}", "-Wl,--no-as-needed", "-ltorch", "-ltorch_cpu", "-lc10",
            str(_paths.get_library_dir() / SONAME)]


@functools.lru_cache(maxsize=None)
def library() -> Path:
    """The compiled backend; processes that ask at the same time wait for one of them to compile it."""
    gshmem_library()  # the backend has the one that is loaded, whatever its path
    command = _command()
    digest = hashlib.sha256("\0".join([torch.__version__, *command]).encode())
    for name in _SOURCES:
        digest.update((_HERE / name).read_bytes())
    folder = cache()
    path = folder / f"torch-{torch.__version__}-{digest.hexdigest()[:16]}.so"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    with open(path.with_suffix(".lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists():
            return path
        print(f"gshmem.torch is being compiled for torch {torch.__version__}, once: {path}", file=sys.stderr)
        made = path.with_suffix(".part")
        try:
            done = subprocess.run([*command, "-o", str(made)], capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise RuntimeError(f"gshmem.torch is compiled once for torch {torch.__version__}, and there is no compiler "
                               f"{command[0]!r}: install one, or name it with CXX") from None
        if done.returncode != 0:
            raise RuntimeError(f"gshmem.torch does not compile for torch {torch.__version__}:\n{' '.join(command)}\n"
                               f"{done.stderr}")
        made.replace(path)
    return path
