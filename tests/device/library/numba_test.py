#!/usr/bin/env python3
"""numba_test.py FATBIN ARCHITECTURE: numba-cuda's kernel of examples/python is linked with the device library, without a GPU.

The machine code has the state that gshmemx_culibrary_init looks up. Exit 77: there is no numba-cuda, or no cffi.
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "host" / "python"), str(ROOT / "examples" / "python")]

try:
    from cuda.core import Linker, LinkerOptions, ObjectCode
    from numba import cuda, types
    import numba_ring
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

LIBRARY, ARCHITECTURE = Path(sys.argv[1]), int(re.match(r"\d+", sys.argv[2])[0])


def main():
    numba_ring.gshmem.get_device_library = lambda format, arch: LIBRARY
    ints = types.int32[::1]
    code, _ = cuda.compile(numba_ring.ring_for(ARCHITECTURE), types.void(ints, ints, types.uint64[::1]), device=False, abi="numba",
                           cc=divmod(ARCHITECTURE, 10), output="ltoir")
    options = LinkerOptions(arch=f"sm_{ARCHITECTURE}", link_time_optimization=True)
    cubin = Linker(ObjectCode.from_ltoir(code), ObjectCode.from_fatbin(LIBRARY.read_bytes()), options=options).link("cubin").code
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        symbols = subprocess.run(["readelf", "-sW", file.name], check=True, capture_output=True, text=True).stdout
    for symbol in ("gshmemi_device_state", r"\S*ring\S*"):
        assert re.search(rf" (GLOBAL|WEAK) .* {symbol}$", symbols, re.M), f"the machine code has no {symbol}:\n{symbols}"
    unknown = re.findall(r" UND +(\S*shmem\S*)$", symbols, re.M)
    assert not unknown, f"the machine code lacks {unknown}"
    print(f"{len(cubin)} bytes of machine code")


main()
