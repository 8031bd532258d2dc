"""Streams of other libraries, and the functions that take one."""
from __future__ import annotations

import ctypes
from typing import Any

from ._library import function


def handle_of(stream: Any) -> int:
    """The cudaStream_t of a stream of torch, CuPy, numba or cuda.core; a number is one itself, 0 the default stream."""
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    for name in ("cuda_stream", "ptr", "handle"):  # torch, CuPy, numba
        if hasattr(stream, name):
            stream = getattr(stream, name)
            break
    number = getattr(stream, "value", stream) or 0
    if isinstance(number, (float, str, bytes)):
        raise TypeError(f"stream = {number!r} is not a CUDA stream, nor the number of one")
    return int(number)


def on_stream(stem: str, result: Any, *arguments: Any) -> Any:
    """The function gshmemx_<stem>_on_stream, whose last argument is anything that is a stream."""
    call = function(f"gshmemx_{stem}_on_stream", result, *arguments, ctypes.c_void_p)
    return lambda *given: call(*given[:-1], handle_of(given[-1]))
