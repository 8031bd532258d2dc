"""libgshmem by ctypes: where it is, its functions, and its errors as exceptions."""
from __future__ import annotations

import ctypes
import functools
import operator
import os
from pathlib import Path
from typing import Any, Optional

SONAME = "libgshmem.so.0.1"
PREFIX = Path(__file__).resolve().parent
INITIALIZED = 2  # gshmemx_init_state

STATUS = {
    1: "INVALID_VALUE", 2: "OUT_OF_MEMORY", 3: "NOT_SUPPORTED", 4: "SYMMETRY", 5: "GPU_NOT_SELECTED",
    6: "COLLECTIVE_LAUNCH_FAILED", 7: "INTERNAL", 8: "NOT_INITIALIZED", 9: "BOOTSTRAP", 10: "CONFIG",
    11: "TIMEOUT", 12: "PEER_FAILED", 13: "CUDA", 14: "SYSTEM", 15: "NIC",
}


class Error(RuntimeError):
    """What the library reports: its text, the name of its status, and the PE that it is about."""

    def __init__(self, text: str, code: int, pe: int = -1):
        super().__init__(text)
        self.code = code                             #: a gshmemx_status
        self.status = STATUS.get(code, str(code))    #: its name, as "PEER_FAILED"
        self.pe = pe                                 #: the PE concerned, -1: none


class _Fault(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("pe", ctypes.c_int), ("network", ctypes.c_uint * 4),
                ("message", ctypes.c_char * 512)]


@functools.lru_cache(maxsize=None)
def library() -> ctypes.CDLL:
    """libgshmem: the one that the process has, else this package's, else the one that the system finds."""
    try:
        return ctypes.CDLL(SONAME, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        pass
    mine = PREFIX / "lib" / SONAME
    try:
        return ctypes.CDLL(str(mine) if mine.exists() else SONAME)
    except OSError as error:
        raise OSError(f"{error}. This package, {PREFIX}, was not installed from a wheel, which has the library: set "
                      "LD_LIBRARY_PATH to the lib folder of a prefix of cmake --install before Python starts") from None


@functools.lru_cache(maxsize=None)
def function(name: str, result: Any, *arguments: Any) -> Any:
    """A function of the library with its types. `result` is None for void."""
    found = getattr(library(), name)
    # Another object than the attribute, which has one type for all who use it.
    return ctypes.CFUNCTYPE(result, *arguments)(ctypes.cast(found, ctypes.c_void_p).value or 0)


def status_text(status: int) -> str:
    return str(function("gshmemx_status_string", ctypes.c_char_p, ctypes.c_int)(status), "ascii")


def last_fault() -> Optional[Error]:
    """The first fault of this process's PE, or why init failed."""
    fault = _Fault()
    if function("gshmemx_last_fault", ctypes.c_int, ctypes.c_void_p)(ctypes.addressof(fault)) == 0:
        return None
    return Error(fault.message.decode(errors="replace"), fault.code, fault.pe)


def raise_fault() -> None:
    fault = last_fault()
    if fault is not None:
        raise fault


def check(status: int, what: str, why: str = "") -> None:
    """Raises the error that a status is, with the text of the fault where it is one, else with `why` or where it is told."""
    if status == 0:
        return
    fault = last_fault()
    if fault is not None:
        raise fault
    raise Error(f"{what}: {status_text(status) if status > 0 else 'failed'}: {why or 'the log says why'}", status)


def integer(call: str, argument: str, value: Any, bounds: tuple[int, int], accepted: str = "") -> int:
    """`value`, which is to be within `bounds`, both included: ctypes would cut off what does not fit.

    Otherwise the exception names `call`, `argument`, the value, and what is `accepted`.
    """
    first, last = bounds
    wrong: type[Exception] = ValueError
    try:
        number = operator.index(value)
        if first <= number <= last:
            return number
    except TypeError:
        wrong = TypeError
    raise wrong(f"{call}: {argument} = {value!r} is not {accepted or f'an integer in {first} .. {last}'}")


def initialized() -> bool:
    return bool(function("gshmemx_init_status", ctypes.c_int)() >= INITIALIZED)


def require() -> None:
    if not initialized():
        raise Error("this process is no PE: call gshmem.init() first", 8)
