"""A rank of a job over torch's symmetric memory with the backend GSHMEM: `python -m gshmem -n N torch_job.py STORE [cuda]`.

STORE is a file that does not exist yet, for torch's own rendezvous.
"""
import contextlib
import gc
import os
import sys
import threading
import time

# Kernels of two streams of a rank wait for those of the others. With the usual 8 hardware queues one may be behind the other.
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")

import gshmem
import gshmem.torch
import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem

device = sys.argv[2] if len(sys.argv) > 2 else "cpu"
os.environ["GSHMEM_TEAMS"] = "8"
rank, n = int(os.environ["GSHMEM_UID_RANK"]), int(os.environ["GSHMEM_UID_SIZE"])
torch.set_num_threads(1)
if device == "cuda":
    torch.cuda.set_device(rank % torch.cuda.device_count())
dist.init_process_group("gloo", store=dist.FileStore(sys.argv[1], n), rank=rank, world_size=n)
world = dist.group.WORLD.group_name
right, left = (rank + 1) % n, (rank - 1) % n


def raises(kind, text, call):
    try:
        call()
    except kind as error:
        assert text in str(error), f"{error!r} does not say {text!r}"
        return
    raise SystemExit(f"nothing raised {kind.__name__} with {text!r}")


def equal(got, want):
    got = got.tolist() if isinstance(got, torch.Tensor) else got
    want = want.tolist() if isinstance(want, torch.Tensor) else want
    assert got == want, f"rank {rank}: {got} instead of {want}"


def empty(*shape, dtype=torch.float32):
    return symm_mem.empty(*shape, dtype=dtype, device=device)


symm_mem.set_backend("GSHMEM")
equal(symm_mem.get_backend(device), "GSHMEM")
t = empty(2, 8)
handle = symm_mem.rendezvous(t, world)
equal((handle.rank, handle.world_size, handle.buffer_size), (rank, n, 64))
equal(handle.buffer_ptrs[rank], t.data_ptr())
assert not symm_mem.rendezvous(torch.empty(4, device=device), world), "torch.empty() makes no symmetric memory"

# Buffers and barriers: loads and stores of torch's kernels on the memory of others.
t.fill_(rank)
handle.barrier()
equal(handle.get_buffer(right, (2, 8), torch.float32), torch.full((2, 8), float(right)))
handle.barrier()
handle.get_buffer(right, (8,), torch.float32, 8).fill_(100 + rank)
handle.barrier(channel=1)
equal(t, torch.tensor([[float(rank)] * 8, [100.0 + left] * 8]))
handle.barrier()
for step in range(100):
    handle.get_buffer(right, (1,), torch.float32).fill_(step)
    handle.barrier(channel=step % 3)
    equal(t[0, 0].item(), step)
    handle.barrier()

# Signals. A second one does not wait for the first to be taken.
for step in range(3):
    t[0].fill_(step)
    handle.put_signal(right, channel=2)
for step in range(3):
    handle.wait_signal(left, channel=2)
handle.barrier()
if device == "cpu":
    raises(RuntimeError, f"for rank {left}", lambda: handle.wait_signal(left, channel=2, timeout_ms=20))
raises(RuntimeError, "out of range", lambda: handle.put_signal(n))
raises(RuntimeError, "channel", lambda: handle.barrier(channel=1 << 20))
pad = handle.get_signal_pad(rank)
equal((pad.dtype, int(pad.to(torch.int64).sum())), (torch.uint32, 0))

# A group of some ranks, in another order of PEs than the job's where there are three.
pair = dist.new_group([n - 2, n - 1])
pair_name = "1"
if rank >= n - 2:
    of_pair = symm_mem.rendezvous(t, pair)
    equal((of_pair.rank, of_pair.world_size), (rank - (n - 2), 2))
    of_pair.barrier()
    equal(of_pair.buffer_ptrs[of_pair.rank], t.data_ptr())
    # Channels of it are not those of the job's group, whatever the sizes of both.
    if rank == n - 2:
        handle.put_signal(n - 1, channel=2)
    dist.barrier(pair)
    if rank == n - 1:
        if device == "cpu":
            word = 2 * n + n - 2  # of the job's group
            raises(RuntimeError, "has waited 20 ms",
                   lambda: of_pair.wait_signal(word % 2, channel=word // 2, timeout_ms=20))
        handle.wait_signal(n - 2, channel=2)
dist.barrier()
for _ in range(6):
    symm_mem.rendezvous(t, dist.new_group())
one_more = dist.new_group()
if rank >= n - 2:
    raises(RuntimeError, "may be shared in 8 groups", lambda: symm_mem.rendezvous(t, one_more))
else:
    raises(RuntimeError, f"rank {n - 2} has done that", lambda: symm_mem.rendezvous(t, one_more))

# Groups of split_group() have a name and a store in common, as these have, which are no more than that. Rank 2 comes
# while ranks 0 and 1 are underway.
if n > 2:
    store = dist.distributed_c10d._get_default_store()
    ranks = [0, 1] if rank < 2 else list(range(2, n))
    mine = dist.ProcessGroup(dist.PrefixStore("split", store), ranks.index(rank), len(ranks))
    mine._set_group_name("split")
    dist.distributed_c10d._register_process_group("split", mine)
    dist.distributed_c10d._world.pg_group_ranks[mine] = {each: at for at, each in enumerate(ranks)}
    s = empty(4)
    if rank == 1:
        store.get("rank 2 has come")
    elif rank == 2:
        time.sleep(0.3)
    of_split = symm_mem._SymmetricMemory.rendezvous(s, "split")
    if rank == 2:
        store.set("rank 2 has come", "")
    equal(of_split.buffer_ptrs[of_split.rank], s.data_ptr())
    s.fill_(rank)
    of_split.barrier()
    equal([float(of_split.get_buffer(each, (1,), s.dtype)) for each in range(of_split.world_size)],
          [float(each) for each in ranks])
    of_split.barrier()
    dist.distributed_c10d._unregister_process_group("split")
    del dist.distributed_c10d._world.pg_group_ranks[mine]

# Collectives of gshmem.
a, b = empty(6, dtype=torch.int32), empty(6 * n, dtype=torch.int32)
a.copy_(torch.arange(6, dtype=torch.int32) + rank)
b.copy_(torch.arange(6 * n, dtype=torch.int32) + 1000 * rank)
ops = torch.ops.gshmem
equal(ops.all_gather_out(a, world, b), [i + pe for pe in range(n) for i in range(6)])
equal(ops.reduce_scatter_out(b, "sum", world, a), [n * (i + rank) for i in range(6)])
b.copy_(torch.arange(6 * n, dtype=torch.int32))
equal(ops.reduce_scatter_out(b, "sum", world, b[6 * rank:6 * rank + 6]), [n * (6 * rank + i) for i in range(6)])
raises(RuntimeError, "overlap", lambda: ops.reduce_scatter_out(b, "sum", world, b[3:9]))
raises(RuntimeError, "overlap", lambda: ops.all_reduce_out(b[:6], "sum", world, b[3:9]))
raises(RuntimeError, "overlap", lambda: ops.all_gather_out(b[3:9], world, b))
b[6 * rank:6 * rank + 6] = rank
equal(ops.all_gather_out(b[6 * rank:6 * rank + 6], world, b), [pe for pe in range(n) for _ in range(6)])
a.fill_(rank)
raises(RuntimeError, "'avg' is for floating-point", lambda: ops.all_reduce_(a, "avg", world))
equal(a, [rank] * 6)
c = empty(6 * n, dtype=torch.int32)
b.copy_(torch.arange(6 * n, dtype=torch.int32) + 1000 * rank)
dist.barrier()
equal(ops.all_to_all_out(b, c, world), [1000 * pe + 6 * rank + i for pe in range(n) for i in range(6)])
for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64):
    x = empty(100, dtype=dtype)
    x.fill_(rank + 1)
    ops.all_reduce_(x, "sum", world)
    equal(x, torch.full((100,), n * (n + 1) // 2, dtype=dtype))
    ops.all_reduce_(x, "max", world)
raises(RuntimeError, "reduce_op 'xor'", lambda: ops.all_reduce_(a, "xor", world))
raises(RuntimeError, "symm_mem.empty()", lambda: ops.all_reduce_(torch.ones(4, device=device), "sum", world))
equal(ops.broadcast_(a.fill_(rank), n - 1, world), [n - 1] * 6)
if rank >= n - 2:
    a.fill_(of_pair.rank + 1)
    equal(ops.all_reduce_(a, "sum", pair.group_name), [3] * 6)

# torch's own operations, some of which have names of NVSHMEM.
x = empty(4)
x.fill_(rank + 1)
symm_mem.rendezvous(x, world)
equal(torch.ops.symm_mem.one_shot_all_reduce(x, "sum", world), [n * (n + 1) / 2] * 4)
if device == "cpu":
    raises(ValueError, "contiguous", lambda: torch.ops.symm_mem.one_shot_all_reduce(t.T, "sum", world))
    raises(ValueError, "symm_mem.empty()", lambda: torch.ops.symm_mem.one_shot_all_reduce(torch.ones(4), "sum", world))
equal(torch.ops.symm_mem.two_shot_all_reduce_(x, "sum", world), [n * (n + 1) / 2] * 4)
x.fill_(rank)
handle.barrier()
if rank == 0:
    torch.ops.symm_mem.nvshmem_put(x, 1)
handle.barrier()
equal(x, [float(0 if rank == 1 else rank)] * 4)
word = empty(1, dtype=torch.int64).zero_()
handle.barrier()
symm_mem.rendezvous(word, world)
if rank == 0:
    ops.put_with_signal(x.fill_(42), word, 7, 1, world)
elif rank == 1:
    ops.wait_for_signal(word, 7, world)
    equal(x, [42.0] * 4)
dist.barrier()

# A signal pad has signals, too.
pads = symm_mem.rendezvous(x, world)
pad = pads.get_signal_pad(rank, (4,), torch.uint32, 2)
dist.barrier()
if rank == 0:
    ops.put_with_signal(x.fill_(43), pad, 7, 1, world)
elif rank == 1:
    ops.wait_for_signal(pad, 7, world)
    equal(x, [43.0] * 4)
    equal(pad.to(torch.int64), [7, 0, 0, 0])
raises(RuntimeError, "signal has 4 bytes", lambda: ops.wait_for_signal(pad[:1], 7, world))
raises(RuntimeError, "that 8 divides", lambda: ops.wait_for_signal(pad[1:], 7, world))
dist.barrier()

rows, room = empty(2 * n * n, 3), empty(2 * n * n * n, 3).fill_(-1)
splits, got = empty(n, dtype=torch.int64), empty(2, n, dtype=torch.int64)
splits.copy_(torch.arange(n) + rank)
rows.copy_((torch.arange(2 * n * n) + 100 * rank)[:, None].expand(-1, 3))
torch.ops.symm_mem.all_to_all_vdev(rows, room, splits, got, world)
equal(got[0], [pe + rank for pe in range(n)])
starts = [sum(pe + before for before in range(rank)) for pe in range(n)]
want = [100 * pe + starts[pe] + row for pe in range(n) for row in range(pe + rank)]
equal(room[:len(want), 0], [float(row) for row in want])
equal(room[len(want):], torch.full((2 * n * n * n - len(want), 3), -1.0))

# Threads with groups of their own, all of which have all ranks. Each has a stream of its own: in one stream the reductions
# of two groups would come in another order on each rank.
failed = []


def reduce_often(group, own):
    try:
        with torch.cuda.stream(torch.cuda.Stream()) if device == "cuda" else contextlib.nullcontext():
            for step in range(50):
                equal(ops.all_reduce_(own.fill_(rank + step), "sum", group.group_name), [sum(range(n)) + n * step] * 50)
    except BaseException as error:
        failed.append(error)


# CUDA loads a kernel when it is launched first, and that waits for the kernels that run: none may wait for another rank then.
equal(ops.all_reduce_(empty(50, dtype=torch.int64).fill_(1), "sum", world), [n] * 50)
dist.barrier()
groups = [dist.new_group() for _ in range(2)]
threads = [threading.Thread(target=reduce_often, args=(group, empty(50, dtype=torch.int64))) for group in groups]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
equal(failed, [])

# Teams of groups that have ended, and their places in a tensor, are used again.
for _ in range(10):
    brief = dist.new_group()
    equal(ops.all_reduce_(x.fill_(1), "sum", brief.group_name), [float(n)] * 4)
    dist.destroy_process_group(brief)
    del brief

# Blocks that ranks free at different times get equal offsets again, also after one that a rank alone has: 3 GB pass
# through a pool of some parts.
alone = empty(1000) if rank == 0 else None
places = set()
kept = []
for step in range(100):
    block = empty(8 << 20, dtype=torch.float32)
    places.add(block.data_ptr())
    if rank == 0:
        kept = [*kept[-1:], block]
    elif step % 3 == 0:
        kept = [block]
    if step % 10 == 9:
        block[:4].fill_(1)
        equal(ops.all_reduce_(block[:4], "sum", world), [float(n)] * 4)
    del block
assert len(places) < 10, f"rank {rank} has had blocks at {len(places)} places"

# A tensor that a rank has alone needs no other one, when there is room, and Python is not asked again.
kept = None
gshmem.torch.reserve(1 << 20)
t, x = empty(8).fill_(rank), empty(8).fill_(rank + 1)
init, gshmem.torch.init = gshmem.torch.init, None
if rank == 0:
    alone = empty(1000).fill_(3)
    equal(float(alone.sum()), 3000.0)
gshmem.torch.init = init
dist.barrier()

# Other groups with the names of earlier ones: "1" was of the last two ranks.
dist.destroy_process_group()
dist.init_process_group("gloo", store=dist.FileStore(f"{sys.argv[1]}.again", n), rank=rank, world_size=n)
equal(dist.group.WORLD.group_name, world)
lower = dist.new_group([0, 1])
handle = symm_mem.rendezvous(t, world)
equal(ops.all_reduce_(x, "sum", world), [n * (n + 1) / 2] * 8)
if rank < 2:
    equal(lower.group_name, pair_name)
    equal(symm_mem.rendezvous(t, lower).buffer_ptrs[rank], t.data_ptr())
    equal(ops.all_reduce_(x.fill_(rank), "sum", lower.group_name), [1.0] * 8)
dist.barrier()

# After the end of a job its tensors have no memory, and the next one makes another job.
gshmem.finalize()
for call in (handle.barrier, lambda: handle.put_signal(right), lambda: handle.buffer_ptrs,
             lambda: symm_mem.rendezvous(t, world), lambda: ops.all_reduce_(x, "sum", world)):
    raises(RuntimeError, "gshmem.finalize()", call)
fresh = [empty(8) for _ in range(20)]
raises(RuntimeError, "gshmem.finalize()", handle.barrier)
del t, x, a, b, c, rows, room, splits, got, handle, alone
gc.collect()
for u in fresh:  # the old ones had some of their addresses
    assert symm_mem.rendezvous(u, world)
handle = symm_mem.rendezvous(u.fill_(rank), world)
handle.barrier()
equal(handle.get_buffer(right, (8,), u.dtype), [float(right)] * 8)
handle.barrier()
equal(ops.all_reduce_(u, "sum", world), [n * (n - 1) / 2] * 8)
if rank < 2:
    equal(ops.all_reduce_(u.fill_(rank), "sum", lower.group_name), [1.0] * 8)
dist.barrier()
sys.stdout.write(f"rank {rank} of {n}: passed\n")
