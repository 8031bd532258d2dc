#!/usr/bin/env python3
"""NVIDIA's Python package for NVSHMEM (nvshmem4py) over this project's libnvshmem_host.so.3, unchanged.

    host_api.py cpu|gpu LIBRARIES [pes]

Starts `pes` processes (2), which take libnvshmem_host.so.3 from the folder LIBRARIES and find each other by a unique id. `cpu`: the package's bindings, whose symbols are looked
up by name. `gpu`: the package's own layer, too, on one GPU for all processes. Exit 77: the package or a GPU is missing.
"""
import ctypes
import os
import subprocess
import sys
import tempfile
import time

LIMIT = 60


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


# It is loaded before any package looks for one: PyTorch, which nvshmem.core imports if it is installed, has its own.
if len(sys.argv) > 4:
    ctypes.CDLL(os.path.join(sys.argv[2], "libnvshmem_host.so.3"), ctypes.RTLD_GLOBAL)
try:
    import nvshmem.bindings as b
except ImportError as error:
    skip(f"no nvshmem4py: {error}")
if sys.argv[1] == "gpu":
    try:
        import nvshmem.core as core
        from cuda.core import Device
        from cuda.bindings import runtime
        if runtime.cudaGetDeviceCount()[1] < 1:
            skip("no GPU")
    except (ImportError, RuntimeError) as error:
        skip(f"no cuda.core or no GPU: {error}")


def equal(got, want, what):
    if got != want:
        raise SystemExit(f"PE {b.my_pe()}: {what}: {got!r} instead of {want!r}")


class Memory:
    """Bytes at an address: of this process, or of a GPU."""

    def __init__(self, gpu):
        self.gpu = gpu

    def write(self, address, values):
        array = (ctypes.c_uint64 * len(values))(*values)
        self.copy(address, ctypes.addressof(array), ctypes.sizeof(array))

    def read(self, address, count):
        array = (ctypes.c_uint64 * count)()
        self.copy(ctypes.addressof(array), address, ctypes.sizeof(array))
        return list(array)

    def copy(self, to, source, size):
        if not self.gpu:
            ctypes.memmove(to, source, size)
            return
        error, = runtime.cudaMemcpy(to, source, size, runtime.cudaMemcpyKind.cudaMemcpyDefault)
        equal(int(error), 0, "cudaMemcpy")


def unique_id(rank, path):
    """The first process creates one and stores it in a file, like a program without a launcher."""
    uid = b.uniqueid()
    size = b.uniqueid_dtype.itemsize
    if rank == 0:
        b.get_uniqueid(uid.ptr)
        with open(path + ".new", "wb") as file:
            file.write(ctypes.string_at(uid.ptr, size))
        os.rename(path + ".new", path)
    end = time.monotonic() + LIMIT
    while not os.path.exists(path):
        if time.monotonic() > end:
            raise SystemExit(f"PE {rank}: no unique id within {LIMIT} s")
        time.sleep(0.01)
    with open(path, "rb") as file:
        ctypes.memmove(uid.ptr, file.read(), size)
    return uid


def bindings(memory):
    """Memory, puts and gets, atomics, signals, teams and collectives by the package's bindings."""
    me, n = b.my_pe(), b.n_pes()
    right, left = (me + 1) % n, (me - 1) % n
    count = 100
    data, target, words = (b.malloc(8 * count * n) for _ in range(3))
    memory.write(data, [1000 * me + i for i in range(count * n)])
    memory.write(target, [0] * (count * n))
    memory.write(words, [0] * 16)
    b.barrier_all()

    b.putmem_on_stream(target, data, 8 * count, right, 0)
    b.barrier_all_on_stream(0)
    synchronize(memory)
    equal(memory.read(target, count), [1000 * left + i for i in range(count)], "putmem_on_stream")

    b.getmem_on_stream(target, data, 8 * count, right, 0)
    synchronize(memory)
    equal(memory.read(target, count), [1000 * right + i for i in range(count)], "getmem_on_stream")
    b.barrier_all()

    b.putmem_signal_on_stream(target, data, 8 * count, words, 7, b.Signal_op.SIGNAL_SET, right, 0)
    b.signal_wait_until_on_stream(words, b.Cmp_type.CMP_EQ, 7, 0)
    synchronize(memory)
    equal(memory.read(target, count), [1000 * left + i for i in range(count)], "putmem_signal_on_stream")
    equal(b.signal_fetch(words), 7, "signal_fetch")

    b.uint64_atomic_add(words + 8, me + 1, 0)
    b.barrier_all()
    equal(b.uint64_atomic_fetch(words + 8, 0), n * (n + 1) // 2, "uint64_atomic_add")
    b.barrier_all()

    world = b.Team_id.TEAM_WORLD
    equal(b.team_n_pes(world), n, "team_n_pes")
    equal(b.team_translate_pe(world, me, world), me, "team_translate_pe")
    for call, arguments, want in (
        ("uint64_sum_reduce_on_stream", (), [sum(1000 * pe + i for pe in range(n)) for i in range(count)]),
        ("uint64_fcollect_on_stream", (), [1000 * pe + i for pe in range(n) for i in range(count)]),
        ("uint64_alltoall_on_stream", (), [1000 * pe + count * me + i for pe in range(n) for i in range(count)]),
        ("uint64_broadcast_on_stream", (n - 1,), [1000 * (n - 1) + i for i in range(count)]),
    ):
        getattr(b, call)(world, target, data, count, *arguments, 0)
        synchronize(memory)
        equal(memory.read(target, len(want)), want, call)
        b.barrier_all()  # the next call writes the target
    for address in (data, target, words):
        b.free(address)


def synchronize(memory):
    if memory.gpu:
        equal(int(runtime.cudaDeviceSynchronize()[0]), 0, "cudaDeviceSynchronize")


def layer(memory, device):
    """The package's own layer: buffers, puts on a stream of its own, barriers, atomics, teams."""
    me, n = core.my_pe(), core.n_pes()
    right, left = (me + 1) % n, (me - 1) % n
    stream = device.create_stream()
    source, target, signal = (core.buffer(size) for size in (800, 800, 8))
    memory.write(int(source.handle), [10 * me + i for i in range(100)])
    memory.write(int(signal.handle), [0])
    core.barrier(core.Teams.TEAM_WORLD, stream=stream)
    core.put_signal(target, source, signal, 1, core.SignalOp.SIGNAL_ADD, remote_pe=right, stream=stream)
    core.signal_wait(signal, 1, core.ComparisonType.CMP_GE, stream=stream)
    core.quiet(stream=stream)
    stream.sync()
    equal(memory.read(int(target.handle), 100), [10 * left + i for i in range(100)], "core.put_signal")
    core.collective_on_buffer("reduce", core.Teams.TEAM_WORLD, target, source, dtype="uint64", op="max", stream=stream)
    stream.sync()
    equal(memory.read(int(target.handle), 100), [10 * (n - 1) + i for i in range(100)], "core.collective_on_buffer")
    core.barrier_all(stream=stream)
    stream.sync()
    equal(core.atomic_fetch_add(signal, 5, me, dtype="uint64"), 1, "core.atomic_fetch_add")
    peer = core.get_peer_buffer(source, right)
    equal(memory.read(int(peer.handle), 100), [10 * right + i for i in range(100)], "core.get_peer_buffer")
    core.barrier_all(stream=stream)
    stream.sync()
    # A single PE is its own peer, and the package takes its buffer for the one that it has returned.
    for buffer in (peer, source, target, signal)[n == 1:]:
        core.free(buffer)


def process(where, libraries, rank, pes, path):
    gpu = where == "gpu"
    memory = Memory(gpu)
    uid = unique_id(rank, path)
    if gpu:
        device = Device(0)
        device.set_current()
        core.init(device=device, uid=uid, rank=rank, nranks=pes, initializer_method="uid")
    else:
        attr = b.InitAttr()
        b.set_attr_uniqueid_args(rank, pes, uid.ptr, attr.ptr)
        b.hostlib_init_attr(b.Flags.INIT_WITH_UNIQUEID, attr.ptr)
    name = ctypes.create_string_buffer(256)
    b.info_get_name(ctypes.addressof(name))
    equal(name.value[:6], b"gshmem", "the library whose functions the package calls")
    equal((b.my_pe(), b.n_pes()), (rank, pes), "my_pe and n_pes")
    bindings(memory)
    if gpu:
        layer(memory, device)
        core.finalize()
    else:
        b.hostlib_finalize()
    print(f"PE {rank}: passed", flush=True)


def job(where, libraries, pes):
    environment = dict(os.environ, LD_LIBRARY_PATH=libraries, GSHMEM_MAX_PES_PER_GPU=str(pes))
    with tempfile.TemporaryDirectory() as folder:
        started = [
            subprocess.Popen([sys.executable, __file__, where, libraries, str(pes), str(rank), folder + "/uid"], env=environment)
            for rank in range(pes)
        ]
        failed = [pe for pe, process_ in enumerate(started) if process_.wait()]
    sys.exit(f"PEs {failed} failed" if failed else 0)


if len(sys.argv) > 4:
    process(sys.argv[1], sys.argv[2], int(sys.argv[4]), int(sys.argv[3]), sys.argv[5])
else:
    job(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 2)
