#!/usr/bin/env python3
"""The search code of nvshmem4py, and of PyTorch's Triton bindings, over this project's prefix for NVSHMEM.

    find_device.py PREFIX

What the prefix has is found there: the archive in every build, LTO-IR in builds for GPUs, bitcode where it was built. PREFIX
stands where a conda environment does, because nvshmem4py looks for headers there after NVIDIA's wheel. Exit 77: neither
package is there, or a wheel of NVIDIA comes first.
"""
import ctypes
import os
import sys
from pathlib import Path

prefix = Path(sys.argv[1]).resolve()
os.environ.update(CONDA_PREFIX=str(prefix), NVSHMEM_LIB_DIR=str(prefix / "lib"))
# Before a package looks for one: PyTorch, which nvshmem.core imports if it is installed, has its own.
ctypes.CDLL(str(prefix / "lib" / "libnvshmem_host.so.3"), ctypes.RTLD_GLOBAL)
tried = []


def found(path, name):
    if Path(path).resolve() != (prefix / "lib" / name).resolve():
        raise SystemExit(f"{name}: {path} is found, not the one of {prefix}")
    tried.append(name)


def there(name):
    return (prefix / "lib" / name).exists()


try:
    import nvshmem.core.init_fini as search
except ImportError as error:
    print(f"not tried: no nvshmem4py: {error}")
else:
    if not Path(search.find_nvidia_header_directory("nvshmem") or "").is_relative_to(prefix):
        print("not tried: nvshmem4py finds the headers of NVIDIA's wheel first")
    else:
        formats = search.DeviceLibLanguage
        found(search.find_device_bitcode_library(language=formats.STATIC), "libnvshmem_device.a")
        if there("libnvshmem_device.ltoir.fatbin"):
            found(search.find_device_bitcode_library(language=formats.LTOIR), "libnvshmem_device.ltoir.fatbin")
        if there("libnvshmem_device_sm_90.bc"):
            found(search.find_device_bitcode_library(arch="90"), "libnvshmem_device_sm_90.bc")
try:
    from torch.distributed._symmetric_memory._nvshmem_triton import NvshmemLibFinder
except ImportError as error:
    print(f"not tried: no finder of PyTorch: {error}")
else:
    if there("libnvshmem_device.bc"):
        found(NvshmemLibFinder.find_device_library(), "libnvshmem_device.bc")
print(f"found: {', '.join(tried) or 'nothing'}")
sys.exit(0 if tried else 77)
