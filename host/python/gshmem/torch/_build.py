"""Compiles the backend for the torch that is installed, once, and finds it again."""
from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import platform
import socket
import subprocess
import sys
from pathlib import Path
from typing import Optional

import torch

from .. import _paths
from .._library import SONAME, library as gshmem_library

_HERE = Path(__file__).resolve().parent
_SOURCES = ("backend.cpp", "symmetric_allocator.h", "symmetric_group.h", "symmetric_memory.h", "symmetric_pool.h")


def cache() -> Path:
    """Where compiled backends are."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gshmem"


def _command() -> list[str]:
    folder = Path(torch.__file__).resolve().parent
    # Torch's own one: a compiler that finds none but the archive would give the backend another, and text streams of the
    # two do not mix in a process.
    standard = [path for path in _paths._loaded("libstdc++.so") if os.path.exists(path)][:1]
    return [os.environ.get("CXX") or "c++", "-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden",
            f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}", f"-isystem{folder / 'include'}",
            f"-isystem{folder / 'include/torch/csrc/api/include'}", f"-I{_paths.get_include()}", str(_HERE / _SOURCES[0]),
            f"-L{folder / 'lib'}", "-Wl,--no-as-needed", "-ltorch", "-ltorch_cpu", "-lc10",
            str(_paths.get_library_dir() / SONAME), *standard]


def _path(command: list[str]) -> Path:
    """The name says what the result depends on: homes are shared by machines that differ. The compiler's version is not in
    it, because what was compiled ahead serves where there is no compiler.
    """
    headers = sorted(path for path in _paths.get_include().rglob("*") if path.is_file())
    digest = hashlib.sha256("\0".join([torch.__version__, platform.machine(), *command]).encode())
    for path in [*(_HERE / name for name in _SOURCES), *headers]:
        digest.update(path.read_bytes())
    return cache() / f"torch-{torch.__version__}-{digest.hexdigest()[:16]}.so"


def _compile(path: Path, command: list[str], wrong: Optional[os.stat_result]) -> None:
    """Processes that come at the same time wait for one of them. `wrong` is a file that does not load."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_suffix(".lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists() and not (wrong and os.path.samestat(path.stat(), wrong)):
            return
        print(f"gshmem.torch is being compiled for torch {torch.__version__}, once: {path}", file=sys.stderr)
        made = path.with_suffix(f".{socket.gethostname()}.{os.getpid()}.part")  # not each file system has locks
        try:
            done = subprocess.run([*command, "-o", str(made)], capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise RuntimeError(f"gshmem.torch is compiled once for torch {torch.__version__}, and there is no compiler "
                               f"{command[0]!r}: install one, or name it with CXX") from None
        if done.returncode != 0:
            made.unlink(missing_ok=True)
            raise RuntimeError(f"gshmem.torch does not compile for torch {torch.__version__}:\n{' '.join(command)}\n"
                               f"{done.stderr}")
        made.replace(path)


@functools.lru_cache(maxsize=None)
def library() -> Path:
    """The compiled backend, which torch has loaded then."""
    gshmem_library()  # the backend has the one that is loaded, whatever its path
    command = _command()
    path = _path(command)
    if not path.exists():
        _compile(path, command, None)
    try:
        torch.ops.load_library(str(path))
    except OSError:  # as where the compiler of another machine made it
        _compile(path, command, path.stat())
        torch.ops.load_library(str(path))
    return path
