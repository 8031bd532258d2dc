"""A rank of a job over torch's symmetric memory with the backend GSHMEM: `python -m gshmem -n N torch_job.py STORE [cuda]`.

STORE is a file that does not exist yet, for torch's own rendezvous.
"""
import os
import sys

import gshmem.torch
import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem

device = sys.argv[2] if len(sys.argv) > 2 else "cpu"
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
if rank >= n - 2:
    of_pair = symm_mem.rendezvous(t, pair)
    equal((of_pair.rank, of_pair.world_size), (rank - (n - 2), 2))
    of_pair.barrier()
    equal(of_pair.buffer_ptrs[of_pair.rank], t.data_ptr())
dist.barrier()

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

rows, room = empty(4 * n, 3), empty(4 * n * n, 3).fill_(-1)
splits, got = empty(n, dtype=torch.int64), empty(2, n, dtype=torch.int64)
splits.copy_(torch.arange(n) + rank)
rows.copy_((torch.arange(4 * n) + 100 * rank)[:, None].expand(-1, 3))
torch.ops.symm_mem.all_to_all_vdev(rows, room, splits, got, world)
equal(got[0], [pe + rank for pe in range(n)])
starts = [sum(pe + before for before in range(rank)) for pe in range(n)]
want = [100 * pe + starts[pe] + row for pe in range(n) for row in range(pe + rank)]
equal(room[:len(want), 0], [float(row) for row in want])
equal(room[len(want):], torch.full((4 * n * n - len(want), 3), -1.0))

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

# A tensor that a rank has alone needs no other one, when there is room.
kept = None
gshmem.torch.reserve(1 << 20)
if rank == 0:
    alone = empty(1000).fill_(3)
    equal(float(alone.sum()), 3000.0)
dist.barrier()
sys.stdout.write(f"rank {rank} of {n}: passed\n")
