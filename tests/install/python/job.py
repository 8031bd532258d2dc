"""A PE of a job over the Python package: every kind of call, and what it raises. `python -m gshmem -n N job.py`."""
import array
import subprocess
import sys
import types
import weakref

import gshmem as g


def raises(kind, text, call):
    try:
        call()
    except kind as error:
        assert text in str(error), f"{error!r} does not say {text!r}"
        return error
    raise SystemExit(f"nothing raised {kind.__name__} with {text!r}")


def equal(got, want):
    assert got == want, f"PE {g.my_pe()}: {got} instead of {want}"


def all_equal(array, want):
    equal(array.tolist(), want)
    g.barrier_all()  # the next call writes it


public = {name for name, what in vars(g).items() if name[0] != "_" and not isinstance(what, types.ModuleType)}
assert set(g.__all__) == public, set(g.__all__) ^ public
raises(g.Error, "gshmem.init()", g.my_pe)
raises(ValueError, "passed together", lambda: g.init(rank=0))
raises(TypeError, "init: comm = 3 is not a communicator", lambda: g.init(comm=3))
raises(TypeError, "init: uid = 3 is not the bytes", lambda: g.init(uid=3, rank=0, size=1))
raises(ValueError, "init: rank = 2 is not an integer in 0 .. 1", lambda: g.init(uid=bytes(128), rank=2, size=2))
raises(ValueError, "init: heap = -1 is not an integer in 0 .. 18446744073709551615", lambda: g.init(heap=-1))
raises(TypeError, "init: device = '0' is not", lambda: g.init(device="0"))
raises(g.Error, "gshmem.init()", lambda: g.module_init(64))
raises(FileNotFoundError, "no gshmem_sm_1.bc: build gshmem with", lambda: g.get_device_library("bc", 1))
g.init(heap=64 << 20)
me, n = g.my_pe(), g.n_pes()
right, left = (me + 1) % n, (me - 1) % n
a, b = g.zeros((n, 4), "int32"), g.zeros((n, 4), "int32")
signal, word = g.zeros(2, "uint64"), g.zeros(1, "int64")
if a.gpu < 0:
    raises(g.Error, "gshmemx_cumodule_init: not supported", lambda: g.module_init(64))
    raises(g.Error, "gshmemx_culibrary_init: not supported", lambda: g.library_init(types.SimpleNamespace(handle=64)))

g.put(a[0], array.array("i", range(me, me + 4)), right)
g.barrier_all()
equal(a[0].tolist(), list(range(left, left + 4)))
g.put_signal(b[0], a[0], signal, 3, right, op=g.ADD)
equal(g.signal_wait(signal, 2), 3)  # at least 2
equal(b[0].tolist()[0], (left - 1) % n)
equal(b.tolist()[0], b[0].tolist())
equal((len(b.tolist()), b[0][0].tolist(), b[0:0].tolist()), (n, b[0].tolist()[0], []))
g.signal_op(signal[1:], 9, right, stream=0)
g.signal_wait(signal[1:], 5, cmp=g.GT, stream=0)
equal(g.signal_wait(signal[1:], 9), 9)  # on a GPU the stream still waits
local = array.array("i", [0] * 4)
g.get(local, a[0], right, wait=False)
g.quiet()
equal(local[0], me)
big, many = g.zeros(25000, "int32"), array.array("i", range(me, me + 25000))
with g.register(many) as kept:
    raises(g.Error, "register: invalid value", lambda: g.register(memoryview(many)[1:]))
    g.put(big, many, right, wait=False)
    kept.release()
g.barrier_all()
all_equal(big, list(range(left, left + 25000)))
g.register(many).release()
first, second = g.register(many), g.register(many)
first.release()
raises(g.Error, "register: invalid value", lambda: g.register(memoryview(many)[1:]))
second.release()
bytes_ = bytearray(100)
with g.register(bytes_):
    raises(BufferError, "", lambda: bytes_.extend(bytes(1 << 20)))
bytes_.extend(bytes(1 << 20))
raises(ValueError, "needs no registration", lambda: g.register(big))
raises(ValueError, "not in the symmetric heap", lambda: g.put(local, a[0], 0))
raises(ValueError, "put: pe = -1", lambda: g.put(a, a, -1))
raises(ValueError, "dest has 16 bytes; it takes", lambda: g.put(a[0], a, 0))
raises(TypeError, "no memory", lambda: g.put(a, 3, 0))

raises(ValueError, "another PE's memory", lambda: g.put(a.peer(right)[0], a[0], 0))
equal(a.peer(right)[0].shape, (4,))

g.atomic_add(word, me + 1, 0)
g.barrier_all()
equal(g.atomic_fetch(word, 0), n * (n + 1) // 2)
g.barrier_all()
equal(g.atomic_compare_swap(b[n - 1], 0, 7, me), 0)
equal(g.atomic_fetch_add(b[n - 1], 1, me), 7)
g.atomic_xor(b[n - 1], 1, me)
equal(b[n - 1].tolist()[0], 9)

# What does not fit, or is no number, has no effect.
words = {name: g.zeros(1, name) for name in ("int32", "int64", "uint32", "uint64", "float32")}
for name, value, bounds in (("int32", 1 << 40, "-2147483648 .. 2147483647"), ("int32", 1 << 31, "-2147483648 .. 2147483647"),
                            ("int64", 1 << 70, "-9223372036854775808 .. 9223372036854775807"), ("uint32", -1, "0 .. 4294967295"),
                            ("uint64", -1, "0 .. 18446744073709551615")):
    text = f"value = {value} is not an integer in {bounds}"
    for call in (g.atomic_set, g.atomic_swap, g.atomic_add, g.atomic_fetch_add, g.atomic_and, g.atomic_or, g.atomic_xor):
        raises(ValueError, f"{call.__name__}: {text}", lambda: call(words[name], value, me))
    raises(ValueError, f"atomic_compare_swap: {text}", lambda: g.atomic_compare_swap(words[name], 0, value, me))
    raises(ValueError, f"expected = {value} is", lambda: g.atomic_compare_swap(words[name], value, 0, me))
    equal(g.atomic_fetch(words[name], me), 0)
    last = int(bounds.split()[-1])
    g.atomic_set(words[name], last, me)
    equal(g.atomic_swap(words[name], 0, me), last)
i8, u8, f4 = words["int64"], words["uint64"], words["float32"]
for value, kind in ((1 << 70, ValueError), (-1, ValueError), (1.5, TypeError)):
    text = f"value = {value} is not an integer in 0 .. 18446744073709551615"
    raises(kind, f"put_signal: {text}", lambda: g.put_signal(i8, bytes(range(8)), u8, value, me))
    raises(kind, f"signal_op: {text}", lambda: g.signal_op(u8, value, me))
    raises(kind, f"signal_wait: {text}", lambda: g.signal_wait(u8, value, cmp=g.NE))
members = f"is not an integer in 0 .. {n - 1}"
for kind, text, call in (
        (TypeError, "atomic_add: value = 1.5 is not an integer in", lambda: g.atomic_add(i8, 1.5, me)),
        (TypeError, "atomic_set: value = None is not", lambda: g.atomic_set(i8, None, me)),
        (TypeError, "atomic_add: value = 'x' is not a number of float32", lambda: g.atomic_add(f4, "x", me)),
        (ValueError, "is not a number of float32", lambda: g.atomic_add(f4, 1 << 2000, me)),
        (TypeError, "atomic_fetch: pe = 0.0 is not", lambda: g.atomic_fetch(i8, 0.0)),
        (TypeError, f"put: pe = 0.5 {members}", lambda: g.put(i8, bytes(range(8)), 0.5)),
        (TypeError, f"put: pe = None {members}", lambda: g.put(i8, bytes(range(8)), None)),
        (ValueError, f"get: pe = {n} {members}", lambda: g.get(bytearray(8), i8, n)),
        (ValueError, f"SymmetricArray.peer: pe = -1 {members}", lambda: i8.peer(-1)),
        (ValueError, f"broadcast: root = {n} {members}", lambda: g.broadcast(i8, i8, n)),
        (TypeError, "put_signal: op = 'ADD' is not gshmem.SET or gshmem.ADD",
         lambda: g.put_signal(i8, bytes(range(8)), u8, 1, me, op="ADD")),
        (ValueError, "signal_op: op = 99 is not gshmem.SET or gshmem.ADD", lambda: g.signal_op(u8, 1, me, op=99)),
        (TypeError, "signal_wait: cmp = 2.0 is not one of gshmem.EQ", lambda: g.signal_wait(u8, 0, cmp=2.0)),
        (TypeError, "Team.split_strided: stride = 'a' is not", lambda: g.WORLD.split_strided(0, "a", 1)),
        (ValueError, "Team.split_2d: xrange = 4294967297 is not", lambda: g.WORLD.split_2d((1 << 32) + 1)),
        (TypeError, "Team.translate_pe: pe = '0' is not", lambda: g.WORLD.translate_pe("0", g.WORLD)),
        (TypeError, "empty: shape[0] = 'x' is not an integer in 1 ..", lambda: g.empty("x")),
        (TypeError, "zeros: shape[1] = 'a' is not", lambda: g.zeros((2, "a"))),
        (TypeError, "empty: shape = 2.5 is not a length in 1 .. 9223372036854775807, or a sequence", lambda: g.empty(2.5)),
        (ValueError, "empty: shape = 0 is not", lambda: g.empty(0)),
        (ValueError, "zeros: the number of bytes of shape (4611686018427387904, 4) = ", lambda: g.zeros((1 << 62, 4), "int8")),
        (TypeError, "SymmetricArray.reshape: shape[0] = 1.0 is not", lambda: i8.reshape(1.0)),
        (TypeError, "global_exit: status = '0' is not", lambda: g.global_exit("0"))):
    raises(kind, text, call)
for each in words.values():
    equal(each.tolist(), [0])

x, y, part = g.zeros(3 * n), g.zeros(3 * n), g.zeros(3)
raises(TypeError, "dest has float32, source int32", lambda: g.put(x, a, 0))
raises(TypeError, "'and' of float32", lambda: g.reduce(y, x, "and"))
g.put(x, array.array("f", [me + 1.0] * 3 * n), me)
g.reduce(y, x)
all_equal(y, [n * (n + 1) / 2] * 3 * n)
g.reduce(y, x, "max", stream=0)
all_equal(y, [float(n)] * 3 * n)
g.reducescatter(part, x)
all_equal(part, [n * (n + 1) / 2] * 3)
each = [float(pe + 1) for pe in range(n) for _ in range(3)]
g.fcollect(y, x[:3])
all_equal(y, each)
g.alltoall(y, x)
all_equal(y, each)
g.broadcast(y, x, n - 1)
all_equal(y, [float(n)] * 3 * n)

first = g.WORLD.split_strided(0, 1, 1)
equal(first is None, me != 0)
if first:
    equal((first.my_pe, first.n_pes, first.translate_pe(0, g.WORLD)), (0, 1, 0))
    first.barrier()
    first.destroy()
for team in (g.WORLD, g.SHARED, g.NODE):
    raises(ValueError, f"Team.destroy: {team!r} is predefined, and cannot be destroyed", team.destroy)
again, gone = g.WORLD.split_2d(n)
name = repr(gone)
gone.destroy()
for call, made in {
        "Team.my_pe": lambda: gone.my_pe, "Team.n_pes": lambda: gone.n_pes, "Team.barrier": gone.barrier, "Team.sync": gone.sync,
        "Team.translate_pe": lambda: g.WORLD.translate_pe(0, gone), "Team.split_strided": lambda: gone.split_strided(0, 1, 1),
        "Team.split_2d": lambda: gone.split_2d(1), "Team.destroy": gone.destroy, "reduce": lambda: g.reduce(y, x, team=gone),
        "reducescatter": lambda: g.reducescatter(y, x, team=gone), "broadcast": lambda: g.broadcast(y, x, 0, team=gone),
        "fcollect": lambda: g.fcollect(y, x, team=gone), "alltoall": lambda: g.alltoall(y, x, team=gone)}.items():
    raises(ValueError, f"{call}: {name} was destroyed", made)
raises(TypeError, "reduce: team = 0 is not a gshmem.Team", lambda: g.reduce(y, x, team=0))
raises(TypeError, "Team.translate_pe: to = None is not", lambda: again.translate_pe(0, None))
again.barrier()  # it is the whole job, and nothing was a fault
again.destroy()
row, column = g.WORLD.split_2d(n)
equal((row.n_pes, column.n_pes), (n, 1))
raises(g.Error, f"invalid value: start = 0, stride = {n}, size = 2 are not 2 of the members 0 .. {n - 1}",
       lambda: g.WORLD.split_strided(0, n, 2))
raises(g.Error, "invalid value: the log says why", lambda: g.WORLD.split_2d(0))

try:
    import numpy
except ImportError:
    numpy = None
if numpy is None or a.gpu >= 0:
    print("skipped: no numpy, or the memory is a GPU's, of which it makes no views")
else:
    view = numpy.asarray(a)
    view[0, 0] = 77
    equal(a[0][0].tolist(), 77)
    equal(a.tolist(), view.tolist())
    equal(numpy.from_dlpack(a).tolist(), view.tolist())
    raises(ValueError, "gaps", lambda: g.put(b, view.T, me))
    raises(TypeError, "source float64", lambda: g.put(b, numpy.zeros(4), me))

g.barrier_all()
a.free()
raises(ValueError, "given back", a.tolist)
equal(raises(g.Error, "the log says why", lambda: g.empty(1 << 40)).status, "OUT_OF_MEMORY")
g.register(many)
kept, many = weakref.ref(many), None
for wrong in (1.5, "1"):
    raises(TypeError, f"stream = {wrong!r} is not a CUDA stream", lambda: g.barrier_all(stream=wrong))
ended = g.WORLD.split_strided(0, 1, n)
g.finalize()
equal(kept(), None)
raises(ValueError, "given back", b.tolist)
g.init()
raises(ValueError, "is of a job that finalize() has ended", ended.barrier)
g.WORLD.barrier()
g.finalize()

# The launcher has the status of the PE that failed first, and ends the others: PE 0 is in no call, or fails because PE 1 is gone.
if me == 0:
    for way, of_0, want in (("sys.exit(3)", "time.sleep(60)", 3), ("os.kill(os.getpid(), 9)", "gshmem.barrier_all()", 137)):
        program = f"import gshmem, os, sys, time; gshmem.init(); {way} if gshmem.my_pe() else {of_0}; print('it goes on')"
        done = subprocess.run([sys.executable, "-m", "gshmem", "-n", "2", "-c", program], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (want, ""), done
sys.stdout.write(f"PE {me} of {n}: passed\n")
