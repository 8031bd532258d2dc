"""A rank over torch's symmetric memory whose peers are not mapped: `GSHMEM_P2P=0 GSHMEM_NIC=soft python -m gshmem -n N
torch_network.py STORE`. STORE is a file that does not exist yet.
"""
import os
import sys
import time

import gshmem.torch
import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem

rank, n = int(os.environ["GSHMEM_UID_RANK"]), int(os.environ["GSHMEM_UID_SIZE"])
right, left = (rank + 1) % n, (rank - 1) % n
dist.init_process_group("gloo", store=dist.FileStore(sys.argv[1], n), rank=rank, world_size=n)
world = dist.group.WORLD.group_name
symm_mem.set_backend("GSHMEM")
t = symm_mem.empty(1000, device=gshmem.torch.device_type).fill_(rank)
word = symm_mem.empty(1, dtype=torch.int64, device=t.device).zero_()
handle = symm_mem.rendezvous(t, world)
symm_mem.rendezvous(word, world)
assert [pointer != 0 for pointer in handle.buffer_ptrs] == [each == rank for each in range(n)], handle.buffer_ptrs
handle.barrier()

# Each round depends on the one before: a signal or a barrier that is lost or is taken twice shows a wrong number.
for step in range(1, 21):
    t.fill_(100 * rank + step)
    handle.barrier(channel=step % 2)
    if rank == step % n:
        torch.ops.gshmem.get(t, right, world)
        assert t.tolist() == [100 * right + step] * 1000, f"rank {rank}, step {step}: {t[0]}"
        handle.put_signal(right)
    elif left == step % n:
        handle.wait_signal(left)
    handle.barrier()
torch.ops.gshmem.all_reduce_(t.fill_(rank + 1), "sum", world)
assert t.tolist() == [n * (n + 1) / 2] * 1000, t[0]
handle.barrier()
if rank == 0:
    torch.ops.gshmem.put_with_signal(t.fill_(42), word, 7, n - 1, world)
elif rank == n - 1:
    torch.ops.gshmem.wait_for_signal(word, 7, world)
    assert t.tolist() == [42] * 1000, t[0]
handle.barrier()

# Another group with the tensor has signals of its own: its first barrier waits for the rank that is late.
other = symm_mem.rendezvous(t, dist.new_group())
if rank == 0:
    time.sleep(0.2)
    t.fill_(77)
other.barrier()
if rank > 0:
    torch.ops.gshmem.get(t, 0, world)
    assert t.tolist() == [77] * 1000, t[0]
handle.barrier()
sys.stdout.write(f"rank {rank} of {n}: passed\n")
