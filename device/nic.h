// The network path: puts, gets and atomics as work queue entries of a reliable connection to the
// target. What is one WQE and has its data in the heap takes the short way (issue.h), everything
// else the long one (request.h). All is out of line: a kernel that only might use the network keeps
// its registers. What the short way needs of the state is fetched by the caller, where it comes
// from constant memory.
#pragma once

#include "copy.h"
#include "issue.h"
#include "p2p.h"
#include "request.h"

namespace gshmem::device::nic {

/// One WQE between heaps does.
GSHMEM_FN bool is_short(const State& state, const void* local, std::size_t bytes) {
  return (bytes - 1 < state.nic.max_message) & in_heap(state, local, bytes);
}
GSHMEM_FN TransferEntry transfer_of(const State& state, Opcode opcode, const void* remote,
                                    const void* local, std::size_t bytes) {
  return {heap_offset(state, remote), heap_offset(state, local), static_cast<std::uint32_t>(bytes),
          opcode};
}

// The API of the network path. What a group puts or gets, its first thread does; out of line,
// because the request would be made of registers of the caller (STREAM_putmem_block 48 for 40).

template <class Coop>
GSHMEM_OUTLINE void put(Coop coop, const State& state, void* dest, const void* source,
                        std::size_t bytes, int pe, Reuse reuse) {
  if (coop.thread_rank() != 0) return;
  const bool blocking = reuse == Reuse::kOnReturn;
  if (is_short(state, source, bytes) && (!blocking || bytes > kInlinePutBytes)) {
    IssueOf<TransferEntry> issue;
    issue_to(issue, state, queue_index(state, pe, Rail::kAny));
    issue.entries = transfer_of(state, Opcode::kRdmaWrite, dest, source, bytes);
    issue_call(issue, state, blocking, "put");
    return;
  }
  Request request{&state, Operation::kPut, pe};
  request.blocking = blocking;
  request.local = static_cast<const char*>(source);
  request.remote = static_cast<const char*>(dest);
  request.bytes = bytes;
  execute_long(request);
}
template <class Coop>
GSHMEM_OUTLINE void get(Coop coop, const State& state, void* dest, const void* source,
                        std::size_t bytes, int pe, Arrival arrival) {
  if (coop.thread_rank() != 0) return;
  const bool blocking = arrival == Arrival::kOnReturn;
  if (is_short(state, dest, bytes) && !(state.nic.flags & abi::kNicReadNeedsDump)) {
    IssueOf<TransferEntry> issue;
    issue_to(issue, state, queue_index(state, pe, Rail::kAny));
    issue.entries = transfer_of(state, Opcode::kRdmaRead, source, dest, bytes);
    issue_call(issue, state, blocking, "get");
    return;
  }
  Request request{&state, Operation::kGet, pe};
  request.blocking = blocking;
  request.local = static_cast<const char*>(dest);
  request.remote = static_cast<const char*>(source);
  request.bytes = bytes;
  execute_long(request);
}

/// The low `bytes` bytes, at most 8, of `raw` travel inside the entry.
GSHMEM_OUTLINE void put_word(const State& state, void* dest, std::uint64_t raw, std::uint32_t bytes,
                             int pe) {
  IssueOf<InlineEntry> issue;
  issue_to(issue, state, queue_index(state, pe, Rail::kFirst));
  issue.entries = {heap_offset(state, dest),
                   {{static_cast<std::uint32_t>(raw), static_cast<std::uint32_t>(raw >> 32), 0}},
                   bytes};
  issue_call(issue, state, false, "p");
}
/// A value of at most 16 bytes, which need not be in the heap, to or from `symmetric`.
GSHMEM_OUTLINE void move_value(const State& state, Operation operation, const void* symmetric,
                               const void* value, std::uint32_t bytes, int pe) {
  Request request{&state, operation, pe};
  request.blocking = operation == Operation::kGet;
  request.local = static_cast<const char*>(value);
  request.remote = static_cast<const char*>(symmetric);
  request.bytes = bytes;
  execute_long(request);
}
/// One element of 1 to 16 bytes. What lies out of line is the same for all types.
template <class T>
GSHMEM_FN void p(const State& state, T* dest, T value, int pe) {
  if constexpr (sizeof(T) > sizeof(std::uint64_t)) {
    move_value(state, Operation::kPut, dest, &value, sizeof(T), pe);
  } else {
    std::uint64_t raw = 0;
    std::memcpy(&raw, &value, sizeof(T));
    put_word(state, dest, raw, sizeof(T), pe);
  }
}

/// A slot for what `issue` reads; false, and on record why, if there is none. It stays taken when
/// the call then fails: a late READ may still write there.
GSHMEM_FN bool issue_claim(Issue& issue, const char* call) {
  Wait wait;
  wait.state = issue.state;
  wait.queue = Queue(issue.queue);
  wait.call = call;
  issue.slot = claim_scratch(wait);
  keep_in_memory(issue);
  return post_report(wait);
}

/// The `bytes` bytes at `source`, at most 8, in the low bytes of the result. Zero when the read
/// failed.
GSHMEM_OUTLINE std::uint64_t get_word(const State& state, const void* source, std::uint32_t bytes,
                                      int pe) {
  std::uint64_t value = 0;
  if (state.nic.flags & abi::kNicReadNeedsDump) {
    move_value(state, Operation::kGet, source, &value, bytes, pe);
    return value;
  }
  IssueOf<TransferEntry> issue;
  issue_to(issue, state, queue_index(state, pe, Rail::kAny));
  issue.entries = transfer_of(state, Opcode::kRdmaRead, source, state.heap, bytes);
  if (!issue_claim(issue, "get")) return value;
  issue.entries.local = heap_offset(state, issue.slot->data);
  if (!issue_call(issue, state, true, "get")) return value;
  keep_in_memory(issue);
  value = load_relaxed(issue.slot->data);
  free_scratch(issue.slot);
  return value;
}
template <class T>
GSHMEM_FN T g(const State& state, const T* source, int pe) {
  if constexpr (sizeof(T) > sizeof(std::uint64_t)) {
    T value{};
    move_value(state, Operation::kGet, source, &value, sizeof(T), pe);
    return value;
  } else {
    return bits<T>(static_cast<Word<T>>(get_word(state, source, sizeof(T), pe)));
  }
}

/// Atomics that neither the link between the GPUs nor a network can do (abi/state.h, amo_by_nic).
GSHMEM_OUTLINE void refuse_amo(const State& state, int pe) {
  FaultInfo info{GSHMEMX_ERROR_NOT_SUPPORTED, "atomic", "pe"};
  info.pe = pe;
  fault(state, info);
}

/// Nobody waits for the old value.
GSHMEM_OUTLINE void amo(const State& state, void* target, Amo operation, int pe) {
  if (!state.nic.queues) return refuse_amo(state, pe);
  IssueOf<AtomicEntries> issue;
  issue_to(issue, state, queue_index(state, pe, Rail::kFirst));
  make_atomic(issue.entries, Queue(issue.queue), heap_offset(state, target), operation,
              AtomicEntries::kSink);
  issue_call(issue, state, false, "atomic");
}
/// Returns the old value; 0 when it could not be had.
GSHMEM_OUTLINE std::uint64_t amo_fetching(const State& state, void* target, Amo operation, int pe) {
  if (!state.nic.queues) return refuse_amo(state, pe), 0;
  IssueOf<AtomicEntries> issue;
  issue_to(issue, state, queue_index(state, pe, Rail::kFirst));
  std::uint64_t remote = heap_offset(state, target);
  keep_in_memory(remote);
  keep_in_memory(operation);
  if (!issue_claim(issue, "atomic")) return 0;
  make_atomic(issue.entries, Queue(issue.queue), remote, operation,
              heap_offset(state, issue.slot->data));
  if (state.nic.flags & abi::kNicReadNeedsDump) {
    append_dump(issue.entries, Queue(issue.queue), heap_offset(state, issue.slot->data));
  }
  if (!issue_call(issue, state, true, "atomic")) return 0;
  keep_in_memory(issue);
  const std::uint64_t* data = issue.slot->data;
  const std::uint64_t stored = operation.width == 8
                                   ? load_relaxed(data)
                                   : load_relaxed(reinterpret_cast<const std::uint32_t*>(data));
  free_scratch(issue.slot);
  return fetched_value(stored, operation.width, state.nic.flags);
}

/// What is done to a signal word of 8 bytes. (An Amo would be three registers more.)
struct SignalAmo {
  void* word;
  std::uint64_t value;
  AmoOp op;
};
GSHMEM_FN void put_signal_alone(const State& state, void* dest, const void* source,
                                std::size_t bytes, SignalAmo signal, int pe, Reuse reuse) {
  const bool blocking = reuse == Reuse::kOnReturn;
  const Amo amo{signal.op, sizeof(signal.value), signal.value, 0};
  if (is_short(state, source, bytes) && (!blocking || bytes > kInlinePutBytes)) {
    IssueOf<AtomicEntries> issue;
    issue_to(issue, state, queue_index(state, pe, Rail::kFirst));
    const Queue queue(issue.queue);
    make_transfer(issue.entries, queue,
                  transfer_of(state, Opcode::kRdmaWrite, dest, source, bytes));
    make_atomic(issue.entries, queue, heap_offset(state, signal.word), amo, AtomicEntries::kSink);
    issue_call(issue, state, blocking, "put_signal");
    return;
  }
  Request request{&state, Operation::kPutSignal, pe};
  request.blocking = blocking;
  request.local = static_cast<const char*>(source);
  request.remote = static_cast<const char*>(dest);
  request.bytes = bytes;
  request.target = signal.word;
  request.amo = amo;
  execute_long(request);
}
/// A payload and the signal behind it, by one thread; the group meets at the end.
template <class Coop>
GSHMEM_OUTLINE void put_signal(Coop coop, const State& state, void* dest, const void* source,
                               std::size_t bytes, SignalAmo signal, int pe, Reuse reuse) {
  coop.sync();
  if (coop.thread_rank() == 0) {
    put_signal_alone(state, dest, source, bytes, signal, pe, reuse);
  }
  coop.sync();
}

/// Threads of a group share queues by their place alone: what is in use may change between the
/// looks of two threads. Whatever distance there is between those in use, they are many threads'.
template <class Coop>
GSHMEM_FN bool is_share(Coop coop, std::uint32_t at) {
  const std::uint32_t size = static_cast<std::uint32_t>(coop.size());
  return (at + at / size) % size == static_cast<std::uint32_t>(coop.thread_rank());
}

/// The READs that flush_rails posts, to the queues [at, end) as far as they need one.
struct Flush : Post {
  std::uint32_t at, end;
};
/// Makes the next one; false: there is none. A queue to which nothing was posted behind the last
/// one needs none.
template <class Coop>
GSHMEM_OUTLINE bool next_flush(Coop coop, Flush& flush) {
  const abi::NicView& nic = flush.state->nic;
  GSHMEM_NO_UNROLL
  while (flush.good() && flush.at < flush.end) {
    const std::uint32_t at = flush.at++;
    const std::uint32_t used = load_relaxed(&nic.used[at / 32]) >> at % 32;
    if (used == 0) flush.at = (at | 31) + 1;  // none until the next word
    if ((used & 1) == 0) continue;
    if (!is_share(coop, at)) continue;
    const std::uint64_t published = load_acquire_gpu(&nic.cursors[at].ready);
    if (published == load_relaxed(&nic.cursors[at].flushed)) continue;
    flush.queue = Queue(nic.queues + at);
    image_transfer(flush.image, Opcode::kRdmaRead, {AtomicEntries::kSink, flush.queue.remote_key()},
                   sink(flush), sizeof(std::uint64_t));
    return true;
  }
  return false;
}
GSHMEM_OUTLINE void note_flushed(const Flush& flush) {
  if (!flush.good()) return;
  // No further than its own READ: behind it in the reservation may be a put of another thread.
  const auto rank = static_cast<std::uint32_t>(flush.group.rank());
  store_relaxed(&flush.queue.cursor()->flushed, PublishedWord::make(flush.first + rank + 1, 1));
}
/// A completion says that a NIC of the target has the data on its way to memory. What arrives there
/// later by the same NIC is behind it, but where PEs have several, what comes next may come by
/// another one: a signal, the flag of a barrier, a READ. So a quiet puts a READ behind what it
/// waits for: its answer comes when all that is in front of it is in memory (PCI Express, 2.4.1: no
/// read passes posted writes). The group must meet before it waits: who waits for a queue waits for
/// its READ.
template <class Coop>
GSHMEM_FN void post_flushes(Coop coop, Wait& wait, std::uint32_t at, std::uint32_t end) {
  Flush flush;
  flush.state = wait.state;
  flush.call = wait.call;
  flush.at = at;
  flush.end = end;
  GSHMEM_NO_UNROLL
  while (next_flush(coop, flush)) {
    queue_try_post(flush);
    note_flushed(flush);
  }
  if (!flush.good()) wait = flush;
}
/// The same, and the group meets.
template <class Coop>
GSHMEM_OUTLINE void flush_rails(Coop coop, Wait& wait, std::uint32_t at, std::uint32_t end) {
  post_flushes(coop, wait, at, end);
  coop.sync();
}

/// Waits until everything that the PE has posted is complete, or `wait.end` says why not. Threads
/// of the group share the queues; only those that were ever used are looked at. The group need not
/// meet.
template <class Coop>
GSHMEM_FN void try_quiet(Coop coop, Wait& wait, const State& state, const char* call) {
  wait.state = &state;
  wait.call = call;
  if (state.nic.flags & abi::kNicFlush) {
    flush_rails(coop, wait, 0, state.nic.count);
    if (!wait.good()) return;
  }
  GSHMEM_NO_UNROLL
  for (std::uint32_t at = 0; at < state.nic.count; ++at) {
    const std::uint32_t used = load_relaxed(&state.nic.used[at / 32]) >> at % 32;
    if (used == 0) {
      at |= 31;  // none until the next word
      continue;
    }
    at += bit_number(used & (0u - used));
    if (!is_share(coop, at)) continue;
    wait.queue = Queue(state.nic.queues + at);
    if (!queue_try_quiet(wait)) break;
  }
}
/// False: it had to end without.
template <class Coop>
GSHMEM_OUTLINE bool quiet(Coop coop, const State& state, const char* call) {
  Wait wait;
  try_quiet(coop, wait, state, call);
  return post_report(wait);
}
/// The same for a caller that returns a status.
template <class Coop>
GSHMEM_OUTLINE bool quiet_noted(Coop coop, const State& state, const char* call) {
  Wait wait;
  try_quiet(coop, wait, state, call);
  return post_note(wait);
}

}  // namespace gshmem::device::nic
