"""Put, get, signals, atomics, order and collectives.

`stream`: None makes the call by the calling thread, which returns when its buffers may be used again. Anything else leaves
it in that CUDA stream and returns at once; the buffers must then be memory that the GPU reaches, and stay until the stream
has come there. In CPU mode there are no streams, and the call is made at once.
"""
from __future__ import annotations

import ctypes
import threading
from typing import Any, Optional

from ._library import check, function, integer, raise_fault, require
from ._memory import UINT64, DType, Memory, memory_of, pe_of, symmetric
from ._streams import on_stream
from ._teams import WORLD, Team, _team_of

EQ, NE, GT, LE, LT, GE = range(6)  #: comparisons of waits
SET, ADD = 9, 10                   #: what a signal does to its word

_pointer, _size, _int, _u64 = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_uint64


class _Pending(threading.local):
    """What this thread's transfers without a wait use: it stays until quiet()."""

    def __init__(self) -> None:
        self.buffers: list[Any] = []


_pending = _Pending()


def _call(stem: str, types: tuple[Any, ...], arguments: tuple[Any, ...], stream: Any, prefix: str = "gshmem_") -> None:
    """A function without a result."""
    if stream is None:
        function(prefix + stem, None, *types)(*arguments)
    else:
        on_stream(stem, None, *types)(*arguments, stream)
    raise_fault()


def _fits(dest: Memory, source: Memory, of_dest: int = 1, of_source: int = 1) -> None:
    if dest.dtype and source.dtype and dest.dtype != source.dtype:
        raise TypeError(f"dest has {dest.dtype.name}, source {source.dtype.name}")
    if dest.nbytes * of_source < source.nbytes * of_dest:
        raise ValueError(f"dest has {dest.nbytes} bytes; it takes {source.nbytes * of_dest // of_source}")


def _transfer(call: str, dest: Memory, source: Memory, pe: int, wait: bool, stream: Any) -> None:
    _fits(dest, source)
    pe = pe_of(call, pe)
    if not wait and stream is None:
        _pending.buffers.append((dest.owner, source.owner))
    _call(f"{call}mem" if wait else f"{call}mem_nbi", (_pointer, _pointer, _size, _int),
          (dest.address, source.address, source.nbytes, pe), stream)


def put(dest: Any, source: Any, pe: int, *, wait: bool = True, stream: Any = None) -> None:
    """Copies `source`, any memory, to the symmetric `dest` of PE `pe`. It is complete there after quiet().

    wait=False may return before the transfer is complete; `source` is in use until this thread's quiet().
    """
    require()
    _transfer("put", symmetric(dest, "dest"), memory_of(source), pe, wait, stream)


def get(dest: Any, source: Any, pe: int, *, wait: bool = True, stream: Any = None) -> None:
    """Copies the symmetric `source` of PE `pe` to `dest`, any memory. wait=False: it is there after quiet()."""
    require()
    _transfer("get", memory_of(dest, writable=True), symmetric(source, "source"), pe, wait, stream)


def _signal(signal: Any) -> int:
    memory = symmetric(signal, "signal")
    if memory.nbytes < 8 or memory.address % 8 or (memory.dtype and memory.dtype.name not in ("uint64", "int64")):
        raise TypeError("signal has to be an array of uint64; its first element is the word")
    return memory.address


def _update(call: str, value: int, op: int, pe: int) -> tuple[int, int, int]:
    """The last arguments of what updates a signal."""
    return (integer(call, "value", value, UINT64), integer(call, "op", op, (SET, ADD), "gshmem.SET or gshmem.ADD"),
            pe_of(call, pe))


def put_signal(dest: Any, source: Any, signal: Any, value: int, pe: int, *, op: int = SET, wait: bool = True,
               stream: Any = None) -> None:
    """As put(), and then updates the word `signal` of PE `pe`: SET to `value`, or ADD it.

    Who waits for the word with signal_wait() sees the data after that.
    """
    require()
    to, of, word = symmetric(dest, "dest"), memory_of(source), _signal(signal)
    _fits(to, of)
    update = _update("put_signal", value, op, pe)
    if not wait and stream is None:
        _pending.buffers.append(of.owner)
    _call("putmem_signal" if wait else "putmem_signal_nbi", (_pointer, _pointer, _size, _pointer, _u64, _int, _int),
          (to.address, of.address, of.nbytes, word, *update), stream)


def signal_op(signal: Any, value: int, pe: int, *, op: int = SET, stream: Any = None) -> None:
    """Updates the word `signal` of PE `pe` without data."""
    require()
    word = _signal(signal)
    _call("signal_op", (_pointer, _u64, _int, _int), (word, *_update("signal_op", value, op, pe)), stream, prefix="gshmemx_")


def signal_wait(signal: Any, value: int, *, cmp: int = GE, stream: Any = None) -> Optional[int]:
    """Waits until this PE's word `signal` compares with `value`, and returns it (None on a stream).

    With cmp=EQ a wait may never end: the next update may change the word before the wait sees it.
    """
    require()
    word = _signal(signal)
    value = integer("signal_wait", "value", value, UINT64)
    cmp = integer("signal_wait", "cmp", cmp, (EQ, GE), "one of gshmem.EQ, NE, GT, LE, LT, GE")
    types = (_pointer, _int, _u64)
    if stream is not None:
        _call("signal_wait_until", types, (word, cmp, value), stream)
        return None
    got = function("gshmem_signal_wait_until", _u64, *types)(word, cmp, value)
    raise_fault()
    return int(got)


def signal_fetch(signal: Any) -> int:
    """This PE's word `signal`."""
    require()
    return int(function("gshmem_signal_fetch", _u64, _pointer)(_signal(signal)))


def fence() -> None:
    """Orders this thread's puts, atomics and signals to each PE: those before it, those after it."""
    require()
    _call("fence", (), (), None)


def quiet(*, stream: Any = None) -> None:
    """Waits until this thread's operations are complete."""
    require()
    _call("quiet", (), (), stream)
    if stream is None:
        _pending.buffers.clear()


def barrier_all(*, stream: Any = None) -> None:
    """Collective: quiet(), and waits for all PEs."""
    require()
    _call("barrier_all", (), (), stream)
    if stream is None:
        _pending.buffers.clear()


def sync_all(*, stream: Any = None) -> None:
    """Collective: waits for all PEs, and completes nothing."""
    require()
    _call("sync_all", (), (), stream)


# --- Atomics -----------------------------------------------------------------------------------------------------------

_INTEGERS = {"int32", "int64", "uint32", "uint64"}


def _number(call: str, argument: str, value: Any, kind: DType) -> Any:
    """`value` as an element of `kind`."""
    if kind.name in _INTEGERS:
        return integer(call, argument, value, kind.bounds)
    try:
        return kind.value(value)
    except (TypeError, OverflowError) as error:
        wrong = TypeError if isinstance(error, TypeError) else ValueError
        raise wrong(f"{call}: {argument} = {value!r} is not a number of {kind.name}") from None


def _atomic(name: str, array: Any, pe: int, *, result: bool, **values: Any) -> Any:
    require()
    memory = symmetric(array, "array")
    kind: Optional[DType] = memory.dtype
    bits = name.rpartition("_")[2] in ("and", "or", "xor")
    real = kind is not None and kind.name in ("float32", "float64")
    allowed = kind is not None and (kind.name in _INTEGERS or (real and not bits and name != "compare_swap"))
    if kind is None or not allowed:
        raise TypeError(f"atomic {name} of {kind.name if kind else 'unknown elements'}: it takes {', '.join(sorted(_INTEGERS))}"
                        + ("" if bits or name == "compare_swap" else ", float32, float64"))
    if memory.nbytes < kind.itemsize:
        raise ValueError("array has no element")
    call = f"atomic_{name}"
    numbers = [_number(call, argument, value, kind) for argument, value in values.items()]
    pe = pe_of(call, pe)
    prefix = "gshmemx_" if real and name in ("add", "fetch_add") else "gshmem_"
    got = function(f"{prefix}{kind.c_name}_{call}", kind.value if result else None, _pointer,
                   *[kind.value] * len(numbers), _int)(memory.address, *numbers, pe)
    raise_fault()
    return got


def atomic_fetch(array: Any, pe: int) -> Any:
    """The first element of `array` on PE `pe`."""
    return _atomic("fetch", array, pe, result=True)


def atomic_set(array: Any, value: Any, pe: int) -> None:
    """Sets the first element of `array` on PE `pe`."""
    _atomic("set", array, pe, value=value, result=False)


def atomic_swap(array: Any, value: Any, pe: int) -> Any:
    """Sets it, and returns what it was."""
    return _atomic("swap", array, pe, value=value, result=True)


def atomic_compare_swap(array: Any, expected: int, value: int, pe: int) -> int:
    """Sets it where it is `expected`, and returns what it was."""
    return int(_atomic("compare_swap", array, pe, expected=expected, value=value, result=True))


def atomic_add(array: Any, value: Any, pe: int) -> None:
    """Adds to the first element of `array` on PE `pe`."""
    _atomic("add", array, pe, value=value, result=False)


def atomic_fetch_add(array: Any, value: Any, pe: int) -> Any:
    """Adds, and returns what it was."""
    return _atomic("fetch_add", array, pe, value=value, result=True)


def atomic_and(array: Any, value: int, pe: int) -> None:
    """Bitwise and, of unsigned integers and of int32 and int64."""
    _atomic("and", array, pe, value=value, result=False)


def atomic_or(array: Any, value: int, pe: int) -> None:
    """Bitwise or."""
    _atomic("or", array, pe, value=value, result=False)


def atomic_xor(array: Any, value: int, pe: int) -> None:
    """Bitwise exclusive or."""
    _atomic("xor", array, pe, value=value, result=False)


# --- Collectives -------------------------------------------------------------------------------------------------------
# dest and source are symmetric, and as long on all members.


def _collective(stem: str, team: Team, dest: Memory, source: Memory, count: int, stream: Any, *more: int) -> None:
    types = (_int, _pointer, _pointer, _size, *[_int] * len(more))
    arguments = (team.handle, dest.address, source.address, count, *more)
    if stream is None:
        status = function("gshmem_" + stem, _int, *types)(*arguments)
    else:
        status = on_stream(stem, _int, *types)(*arguments, stream)
    check(status, stem)


def _reduction(stem: str, dest: Any, source: Any, op: str, team: Team, stream: Any) -> None:
    require()
    _team_of(stem, team)
    to, of = symmetric(dest, "dest"), symmetric(source, "source")
    kind = to.dtype or of.dtype
    members = team.n_pes if stem == "reducescatter" else 1
    _fits(to, of, of_source=members)
    ops = ["sum", "prod", "min", "max"] + (["and", "or", "xor"] if kind and "int" in kind.name else [])
    if kind is None or op not in ops or kind.name == "bool":
        raise TypeError(f"op {op!r} of {kind.name if kind else 'unknown elements'}: there are {', '.join(ops)}")
    if of.nbytes % (members * kind.itemsize):
        raise ValueError(f"source has {of.nbytes // kind.itemsize} elements, which {members} members do not share evenly")
    _collective(f"{kind.c_name}_{op}_{stem}", team, to, of, of.nbytes // kind.itemsize // members, stream)


def reduce(dest: Any, source: Any, op: str = "sum", *, team: Team = WORLD, stream: Any = None) -> None:
    """Collective: dest = the members' sources, element by element: "sum", "prod", "min", "max", "and", "or", "xor"."""
    _reduction("reduce", dest, source, op, team, stream)


def reducescatter(dest: Any, source: Any, op: str = "sum", *, team: Team = WORLD, stream: Any = None) -> None:
    """Collective: as reduce(), of which member i gets part i. `source` has a part for each member."""
    _reduction("reducescatter", dest, source, op, team, stream)


def broadcast(dest: Any, source: Any, root: int, *, team: Team = WORLD, stream: Any = None) -> None:
    """Collective: dest = the source of member `root`, on all."""
    require()
    _team_of("broadcast", team)
    to, of = symmetric(dest, "dest"), symmetric(source, "source")
    _fits(to, of)
    root = pe_of("broadcast", root, team.n_pes, "root")
    _collective("broadcastmem", team, to, of, of.nbytes, stream, root)


def fcollect(dest: Any, source: Any, *, team: Team = WORLD, stream: Any = None) -> None:
    """Collective: dest = the sources of the members, one after the other."""
    require()
    _team_of("fcollect", team)
    to, of = symmetric(dest, "dest"), symmetric(source, "source")
    _fits(to, of, of_dest=team.n_pes)
    _collective("fcollectmem", team, to, of, of.nbytes, stream)


def alltoall(dest: Any, source: Any, *, team: Team = WORLD, stream: Any = None) -> None:
    """Collective: part i of `source` goes to member i, as the part of `dest` that has this PE's number."""
    require()
    _team_of("alltoall", team)
    to, of = symmetric(dest, "dest"), symmetric(source, "source")
    _fits(to, of)
    members = team.n_pes
    if of.nbytes % members:
        raise ValueError(f"source has {of.nbytes} bytes, which {members} members do not share evenly")
    _collective("alltoallmem", team, to, of, of.nbytes // members, stream)
