"""Symmetric arrays, and the memory of other libraries' arrays.

Lifetime: memory of the heap is given back by free() and finalize(), which are collective, and never by the garbage
collector, which is not. So what views a symmetric array ends with those calls, and not with the Python object.
"""
from __future__ import annotations

import ctypes
import functools
import math
from typing import Any, Callable, Iterator, NamedTuple, Optional, Sequence, Union

from ._library import Error, check, function, integer, raise_fault, require


class DType(NamedTuple):
    """An element type: names of it, in the C API and elsewhere."""
    name: str
    c_name: str
    itemsize: int
    value: Any                    #: the ctypes type, None where Python has no such number
    dlpack: tuple[int, int]       #: code and bits
    typestr: Optional[str]        #: of the array interfaces

    @property
    def bounds(self) -> tuple[int, int]:
        """The first and last number of an integer type."""
        bits = 8 * self.itemsize
        return (0, (1 << bits) - 1) if self.name.startswith("u") else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


DTYPES = {d.name: d for d in (
    *(DType(f"int{n}", f"int{n}", n // 8, getattr(ctypes, f"c_int{n}"), (0, n), f"<i{n // 8}") for n in (8, 16, 32, 64)),
    *(DType(f"uint{n}", f"uint{n}", n // 8, getattr(ctypes, f"c_uint{n}"), (1, n), f"<u{n // 8}") for n in (8, 16, 32, 64)),
    DType("float16", "half", 2, None, (2, 16), "<f2"),
    DType("bfloat16", "bfloat16", 2, None, (4, 16), None),
    DType("float32", "float", 4, ctypes.c_float, (2, 32), "<f4"),
    DType("float64", "double", 8, ctypes.c_double, (2, 64), "<f8"),
    DType("bool", "uint8", 1, ctypes.c_bool, (6, 8), "|b1"),
)}
INT, UINT64 = DTYPES["int32"].bounds, DTYPES["uint64"].bounds
_MOST = DTYPES["int64"].bounds[1]  # of elements and bytes
_BY_TYPESTR = {d.typestr.lstrip("<|"): d for d in DTYPES.values() if d.typestr}


_job: int = 0  # counts finalize(): arrays of an earlier job have no memory
_at_end: list[Callable[[], object]] = []  # calls that the end of a job makes


def dtype_of(what: Any) -> DType:
    """The element type that a name, a type of numpy or one of torch means."""
    if isinstance(what, DType):
        return what
    name = what if isinstance(what, str) else getattr(what, "name", None) or getattr(what, "__name__", None) or str(what)
    name = {"float": "float64", "int": "int64", "half": "float16", "bool_": "bool"}.get(name, name.rpartition(".")[2])
    if name not in DTYPES:
        raise TypeError(f"dtype {what!r} is none of {', '.join(DTYPES)}")
    return DTYPES[name]


class Memory(NamedTuple):
    """Bytes that follow each other, and their element type where it is known."""
    address: int
    nbytes: int
    dtype: Optional[DType]
    owner: Any


class _Buffer(ctypes.Structure):  # Py_buffer
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("rest", ctypes.c_void_p * 8)]


def _of_interface(array: Any, interface: dict[str, Any], writable: bool) -> Memory:
    address, read_only = interface["data"]
    if writable and read_only:
        raise ValueError("the array is read-only")
    dtype = _BY_TYPESTR.get(interface["typestr"].lstrip("<|="))
    itemsize = int(interface["typestr"][2:])
    steps, step = interface.get("strides"), itemsize
    for length, stride in zip(reversed(interface["shape"]), reversed(steps or ())):
        if length > 1 and stride != step:
            raise ValueError("the array has gaps or another order of its axes: pass a contiguous one")
        step *= length
    return Memory(address, math.prod(interface["shape"]) * itemsize, dtype, array)


def _of_buffer(array: Any, writable: bool) -> Memory:
    buffer = _Buffer()
    get = ctypes.pythonapi.PyObject_GetBuffer
    get.argtypes = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int]
    get(array, ctypes.addressof(buffer), 1 if writable else 0)  # PyBUF_WRITABLE, PyBUF_SIMPLE
    # A bytearray does not move while there is a view of it.
    memory = Memory(buffer.buf or 0, buffer.len, None, memoryview(array))
    release = ctypes.pythonapi.PyBuffer_Release
    release.argtypes = [ctypes.c_void_p]
    release(ctypes.addressof(buffer))
    return memory


def memory_of(array: Any, writable: bool = False) -> Memory:
    """The memory of a symmetric array, of what torch, numpy or CuPy have, or of bytes and other buffers."""
    if isinstance(array, SymmetricArray):
        return array._memory()
    if hasattr(array, "data_ptr"):  # torch
        if not array.is_contiguous():
            raise ValueError("the tensor has gaps or another order of its axes: pass tensor.contiguous()")
        name = str(array.dtype).rpartition(".")[2]
        return Memory(array.data_ptr(), array.numel() * array.element_size(), DTYPES.get(name), array)
    for interface in ("__cuda_array_interface__", "__array_interface__"):
        found = getattr(array, interface, None)
        if found is not None:
            return _of_interface(array, found, writable)
    try:
        return _of_buffer(array, writable)
    except (TypeError, BufferError) as error:
        raise TypeError(f"a {type(array).__name__} is no memory: pass an array of gshmem, torch, numpy or CuPy, or a buffer "
                        f"({error})") from None


def symmetric(array: Any, what: str) -> Memory:
    """The memory of `array`, which has to be in the symmetric heap."""
    memory = memory_of(array, writable=True)
    if isinstance(array, SymmetricArray):
        if array._of_peer:
            raise ValueError(f"{what} is another PE's memory here: pass the array itself, and the number of the PE")
    else:
        accessible = function("gshmem_addr_accessible", ctypes.c_int, ctypes.c_void_p, ctypes.c_int)
        me = function("gshmem_my_pe", ctypes.c_int)()
        last = memory.address + max(memory.nbytes, 1) - 1
        if not (accessible(memory.address, me) and accessible(last, me)):
            raise ValueError(f"{what} is not in the symmetric heap: make it with gshmem.empty() or gshmem.zeros()")
    return memory


@functools.lru_cache(maxsize=None)
def _cuda() -> Optional[ctypes.CDLL]:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None


def _gpu_of(address: int) -> int:
    """The GPU that has the memory at `address`; -1: the host has it."""
    cuda, value = _cuda(), ctypes.c_uint(0)
    if cuda is None:
        return -1
    memory_type, ordinal, device = 2, 9, 2  # CU_POINTER_ATTRIBUTE_MEMORY_TYPE, _DEVICE_ORDINAL, CU_MEMORYTYPE_DEVICE
    at = ctypes.c_uint64(address)
    if cuda.cuPointerGetAttribute(ctypes.byref(value), memory_type, at) != 0 or value.value != device:
        return -1
    if cuda.cuPointerGetAttribute(ctypes.byref(value), ordinal, at) != 0:
        return -1
    return value.value


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64),
                ("manager_ctx", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


def _capsule(array: "SymmetricArray") -> Any:
    """A DLPack capsule without a deleter.

    Tensors outlive the interpreter, and a deleter in Python would be called when there is none. So the description, some
    hundred bytes, is memory of malloc that stays, and the memory of the array is the heap's.
    """
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    name, ndim = b"dltensor\0", len(array.shape)
    size = ctypes.sizeof(_DLTensor)
    memory = libc.malloc(size + 16 * ndim + len(name))
    if not memory:
        raise MemoryError
    lengths = (ctypes.c_int64 * (2 * ndim)).from_address(memory + size)
    step = 1
    for axis in reversed(range(ndim)):
        lengths[axis], lengths[ndim + axis] = array.shape[axis], step
        step *= array.shape[axis]
    device_type, device = array.__dlpack_device__()
    code, bits = array.dtype.dlpack
    tensor = _DLTensor(array.address, device_type, device, ndim, code, bits, 1, memory + size, memory + size + 8 * ndim, 0)
    ctypes.memmove(memory, ctypes.addressof(tensor), size)
    ctypes.memmove(memory + size + 16 * ndim, name, len(name))
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p] * 3
    return new(memory, memory + size + 16 * ndim, None)


def _nested(values: Iterator[Any], shape: tuple[int, ...]) -> Any:
    return [_nested(values, shape[1:]) for _ in range(shape[0])] if shape else next(values)


class SymmetricArray:
    """An array in the symmetric heap, at the same offset on every PE: of empty() and zeros().

    torch.from_dlpack(a), cupy.asarray(a) and, in CPU mode, numpy.asarray(a) see the same memory. `a[i]` and `a[i:j]` are
    views along the first axis. free() and finalize() end them all: copy what is to stay.
    """

    def __init__(self, address: int, shape: tuple[int, ...], dtype: DType, gpu: int, root: Optional["SymmetricArray"] = None,
                 of_peer: bool = False):
        self.address = address        #: on this PE
        self.shape = shape
        self.dtype = dtype
        self.gpu = gpu                #: which one has it; -1: it is in the host's memory (CPU mode)
        self._root = self if root is None else root
        self._of_peer = of_peer
        self._freed = False
        self._job: int = _job if root is None else root._job

    @property
    def size(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def _memory(self) -> Memory:
        if self._root._freed or self._root._job != _job:
            raise ValueError("the array's memory was given back by free() or finalize()")
        return Memory(self.address, self.nbytes, self.dtype, self)

    def __len__(self) -> int:
        return self.shape[0] if self.shape else 0

    def __getitem__(self, index: Union[int, slice]) -> "SymmetricArray":
        self._memory()
        if not self.shape:
            raise IndexError("the array has no axis")
        row = math.prod(self.shape[1:]) * self.dtype.itemsize
        if isinstance(index, slice):
            start, stop, step = index.indices(self.shape[0])
            if step != 1:
                raise IndexError("a slice of a symmetric array has no step")
            return SymmetricArray(self.address + start * row, (max(stop - start, 0), *self.shape[1:]), self.dtype, self.gpu,
                                  self._root, self._of_peer)
        at = index + self.shape[0] if index < 0 else index
        if not 0 <= at < self.shape[0]:
            raise IndexError(f"index {index} of an axis of {self.shape[0]}")
        return SymmetricArray(self.address + at * row, self.shape[1:], self.dtype, self.gpu, self._root,
                              self._of_peer)

    def reshape(self, *shape: int) -> "SymmetricArray":
        """The same memory in another shape."""
        self._memory()
        lengths = _lengths("SymmetricArray.reshape", shape, 0)
        if math.prod(lengths) != self.size:
            raise ValueError(f"{self.size} elements have no shape {lengths}")
        return SymmetricArray(self.address, lengths, self.dtype, self.gpu, self._root, self._of_peer)

    def peer(self, pe: int) -> Optional["SymmetricArray"]:
        """This array on PE `pe`, for loads and stores; None where its memory is not mapped here."""
        self._memory()
        pe = pe_of("SymmetricArray.peer", pe)
        address = function("gshmem_ptr", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)(self.address, pe)
        raise_fault()
        return SymmetricArray(address, self.shape, self.dtype, _gpu_of(address), self._root, of_peer=True) if address else None

    def tolist(self) -> Any:
        """A copy of the elements: a list of lists as the shape says, one number where there is no axis.

        On a GPU it does not wait for streams.
        """
        memory = symmetric(self, "the array")
        if self.dtype.value is None:
            raise TypeError(f"Python has no number like {self.dtype.name}: use torch.from_dlpack()")
        values = (self.dtype.value * self.size)()
        get = function("gshmem_getmem", None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        get(ctypes.addressof(values), memory.address, memory.nbytes, function("gshmem_my_pe", ctypes.c_int)())
        raise_fault()
        return _nested(iter(values), self.shape)

    def free(self) -> None:
        """Collective: waits for all PEs, then gives the memory back. Never done by the garbage collector."""
        self._memory()
        if self._root is not self:
            raise ValueError("this is a view: free the array that it is of")
        function("gshmem_free", None, ctypes.c_void_p)(self.address)
        self._freed = True
        raise_fault()

    def _interface(self) -> dict[str, Any]:
        if self.dtype.typestr is None:
            raise AttributeError(f"the array interfaces have no {self.dtype.name}: use DLPack")
        self._memory()
        return {"shape": self.shape, "typestr": self.dtype.typestr, "data": (self.address, False), "version": 3}

    @property
    def __array_interface__(self) -> dict[str, Any]:
        if self.gpu >= 0:
            raise AttributeError("the array is in a GPU's memory")
        return self._interface()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self.gpu < 0:
            raise AttributeError("the array is in the host's memory")
        return self._interface()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, self.gpu) if self.gpu >= 0 else (1, 0)  # kDLCUDA, kDLCPU

    def __dlpack__(self, *, stream: Any = None, **options: Any) -> Any:
        """Nothing writes the array on a stream of its own: what the program has started on streams, it waits for."""
        if options.get("copy"):
            raise BufferError("a symmetric array is not copied: copy the tensor")
        wanted = options.get("dl_device")
        if wanted is not None and tuple(wanted) != self.__dlpack_device__():
            raise BufferError("a symmetric array stays on its device: copy the tensor")
        self._memory()
        return _capsule(self)

    def __repr__(self) -> str:
        where = f"GPU {self.gpu}" if self.gpu >= 0 else "host"
        return f"<gshmem.SymmetricArray {self.dtype.name}{list(self.shape)} on {where} at {self.address:#x}>"


def _jobs_end() -> None:
    global _job
    _job += 1
    Registration._kept.clear()
    for call in _at_end:
        call()


def pe_of(call: str, pe: Any, n_pes: Optional[int] = None, argument: str = "pe") -> int:
    """The number of a PE. The library would count another one as a fault, which ends a PE's work."""
    n_pes = function("gshmem_n_pes", ctypes.c_int)() if n_pes is None else n_pes
    return integer(call, argument, pe, (0, n_pes - 1))


def _lengths(call: str, shape: Any, least: int) -> tuple[int, ...]:
    """The lengths of the axes: those that `shape` has, or the one that it is."""
    bounds = least, _MOST
    try:
        given = tuple(shape)
    except TypeError:
        return (integer(call, "shape", shape, bounds, f"a length in {least} .. {_MOST}, or a sequence of lengths"),)
    return tuple(integer(call, f"shape[{axis}]", length, bounds) for axis, length in enumerate(given))


def _allocate(call: str, shape: Union[int, Sequence[int]], dtype: Any, zero: bool) -> SymmetricArray:
    require()
    kind = dtype_of(dtype)
    lengths = _lengths(call, shape, 1)
    count = math.prod(lengths)
    integer(call, f"the number of bytes of shape {lengths}", count * kind.itemsize, (1, _MOST))
    new = function("gshmem_calloc", ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t) if zero else None
    address = (new(count, kind.itemsize) if new else
               function("gshmem_malloc", ctypes.c_void_p, ctypes.c_size_t)(count * kind.itemsize))
    if not address:
        raise_fault()
        raise Error(f"no {count * kind.itemsize} bytes in the symmetric heap, and it does not grow: the log says why",
                    2)
    return SymmetricArray(address, lengths, kind, _gpu_of(address))


def empty(shape: Union[int, Sequence[int]], dtype: Any = "float32") -> SymmetricArray:
    """Collective: an array of the same shape on every PE. Its contents are undefined.

    `dtype` is a name ("float32", "bfloat16", "int64", ...) or a type of numpy or torch.
    """
    return _allocate("empty", shape, dtype, zero=False)


def zeros(shape: Union[int, Sequence[int]], dtype: Any = "float32") -> SymmetricArray:
    """Collective: as empty(), filled with zeros."""
    return _allocate("zeros", shape, dtype, zero=True)


class Registration:
    """Ordinary memory that this PE's NICs access themselves: of register().

    The array is kept until release(), so its memory stays, and a bytearray cannot change its length.
    """

    _kept: "set[Registration]" = set()

    def __init__(self, memory: Memory):
        self._memory: Optional[Memory] = memory
        self._job: int = _job
        self._kept.add(self)

    def release(self) -> None:
        """Completes transfers of this PE, then ends the registration. Wait for those on streams before.

        The end of a `with` block does the same. After that, and after finalize(), nothing is left to do.
        """
        memory, self._memory = self._memory, None
        self._kept.discard(self)
        if memory is None or self._job != _job or _is_registered(memory):
            return
        function("gshmem_quiet", None)()
        check(function("gshmemx_buffer_unregister", ctypes.c_int, ctypes.c_void_p)(memory.address), "release")

    def __enter__(self) -> "Registration":
        return self

    def __exit__(self, *_: Any) -> None:
        self.release()


def _is_registered(memory: Memory) -> bool:
    kept = [each._memory for each in Registration._kept if each._memory]
    return any((each.address, each.nbytes) == (memory.address, memory.nbytes) for each in kept)


def register(array: Any) -> Registration:
    """Local: makes transfers from and to ordinary memory as fast over a network as those of symmetric arrays.

    Register once what is used often. The memory of the array may be registered already, and stays so until all its
    registrations are released; a part of it may not.
    """
    require()
    memory = memory_of(array)
    if isinstance(array, SymmetricArray):
        raise ValueError("a symmetric array needs no registration")
    if not _is_registered(memory):
        call = function("gshmemx_buffer_register", ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)
        check(call(memory.address, memory.nbytes), "register")
    return Registration(memory)
