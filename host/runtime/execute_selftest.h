// Calls that only the self-test and the proof of GPUDirect RDMA make (host/tools): ordering in many
// rounds, one NOP by a chosen way to ring, and the time of many calls.
#pragma once

#include <gshmem/device/core/call_record.h>
#include <gshmem/device/ops/amo.h>
#include <gshmem/device/ops/order.h>
#include <gshmem/device/ops/rma.h>
#include <gshmem/device/ops/signal.h>
#include <gshmem/device/ops/sync.h>

namespace gshmem::device {

/// Encodes that word `word` of round `round` had its old value when a signal, or the end of a get,
/// announced its arrival.
GSHMEM_FN constexpr std::uint64_t late_word(bool by_get, std::uint64_t round, std::uint64_t word) {
  return std::uint64_t{1} << 63 | std::uint64_t{by_get} << 62 | word << 32 | round;
}

/// Tests ordering in `operand` rounds, with PE `pe`, which is this PE. A round puts a payload of
/// `bytes` from `source` to `dest`, sets `signal` after it, and then gets the payload back to the
/// bytes after `dest`. When the signal or the end of the get announces data, it checks that the
/// data has arrived. In each round all words have one value, which is counted from `cond`. Returns
/// 0 if all data had arrived, or if a fault has ended the test.
GSHMEM_OUTLINE std::uint64_t execute_order(const State& state, const char* name, const Call& call) {
  const std::uint64_t words = call.bytes / sizeof(std::uint64_t);
  auto* const source = static_cast<std::uint64_t*>(const_cast<void*>(call.source));
  auto* const dest = static_cast<std::uint64_t*>(call.dest);
  for (std::uint64_t round = 1; round <= call.operand; ++round) {
    const std::uint64_t value = call.cond + round;
    for (std::uint64_t i = 0; i < words; ++i) store_relaxed(source + i, value);
    put_signal_nbi(Thread{}, state, dest, source, call.bytes,
                   {call.signal, value, GSHMEM_SIGNAL_SET}, call.pe);
    signal_wait_until(state, name, call.signal, GSHMEM_CMP_EQ, value);
    for (unsigned step = 0; step < 2; ++step) {
      const bool by_get = step == 1;
      if (by_get) get(Thread{}, state, dest + words, dest, call.bytes, call.pe);
      if (load_acquire(&state.control->stop) != 0) return 0;
      const std::uint64_t* const came = dest + (by_get ? words : 0);
      for (std::uint64_t i = 0; i < words; ++i)
        if (load_relaxed(came + i) != value) return late_word(by_get, round, i);
    }
  }
  return 0;
}

/// Posts a NOP without the usual protocol on the first queue, which must not be in use, and rings
/// by one store to its register. The doorbell record is stored later, when the NIC has seen the
/// NOP, or before the doorbell (`operand` 1).
GSHMEM_OUTLINE std::uint64_t execute_nop(const State& state, const char* name, const Call& call) {
  const bool record_first = call.operand != 0;
  const std::uint32_t traits = state.nic.traits;
  Wait wait;
  begin_wait(wait, &state, state.nic.queues, name);
  const Queue queue = wait.queue;
  const std::uint64_t index = load_relaxed(&queue.cursor()->reserved), end = index + 1;
  const std::uint32_t at =
      static_cast<std::uint32_t>(index) & (abi::QueueTraits::depth(traits) - 1);
  store_bulk(reinterpret_cast<Word16*>(queue.entries()) + at * 4,
             placed(control_unit({Opcode::kNop, 0, 1, 0}), index, queue.number(), abi::kCqUpdate));
  store_relaxed(&queue.cursor()->reserved, end);
  queue_fence(traits);
  const QueueBells bells = queue.bells();
  const auto store_end = [&] {
    store_record(&bells.send_record->raw, Be32(static_cast<std::uint32_t>(end) & 0xffff).raw);
  };
  if (record_first) {
    store_end();
    queue_fence(traits);
  }
  store_register(bells.doorbell,
                 abi::doorbell_value(static_cast<std::uint32_t>(end), bells.number));
  // This is the state after a post by the library.
  store_relaxed(&queue.cursor()->ready, PublishedWord::make(end, 1));
  queue_note_used(wait);
  wait_for(wait, Await::kDone, end);
  queue_await(wait);
  if (!record_first) store_end();
  return post_report(wait) ? 1 : 0;
}

/// Measures how long one thread takes for `operand` calls of the kind `cond` (kPut, kGet, kAmo or
/// kSignal, which add 1). It waits for each if the record says so, otherwise for all at the end.
GSHMEM_OUTLINE std::uint64_t execute_timed(const State& state, const Call& call) {
  const auto kind = static_cast<CallKind>(call.cond);
  const std::uint64_t begin = now_ns();
  GSHMEM_NO_UNROLL
  for (std::uint64_t i = 0; i < call.operand; ++i) {
    if (kind == CallKind::kPut) {
      put_nbi(Thread{}, state, call.dest, call.source, call.bytes, call.pe);
    } else if (kind == CallKind::kGet) {
      get_nbi(Thread{}, state, call.dest, call.source, call.bytes, call.pe);
    } else if (kind == CallKind::kAmo) {
      amo_fetch_add(state, static_cast<std::uint64_t*>(call.dest), std::uint64_t{1}, call.pe);
    } else {
      signal_op(state, {call.signal, 1, GSHMEM_SIGNAL_ADD}, call.pe);
    }
    if (call.waits != 0) quiet(Thread{}, state);
  }
  quiet(Thread{}, state);
  return now_ns() - begin;
}

struct BlockPart {
  std::uint64_t at, bytes;
};
/// Returns the part of `bytes` that block `number` of `blocks` moves: whole units of 16. The last
/// parts may be shorter, or empty.
GSHMEM_FN constexpr BlockPart part_of_block(std::uint64_t bytes, std::uint32_t number,
                                            std::uint32_t blocks) {
  const std::uint64_t each = ((bytes + blocks - 1) / blocks + 15) / 16 * 16;
  const std::uint64_t at = each * number < bytes ? each * number : bytes;
  return {at, bytes - at < each ? bytes - at : each};
}

/// Measures how long the `blocks` blocks of a grid take for `operand` puts, of which each moves its
/// part, and waits for all at the end. Returns the time of the calling block.
template <class Coop>
GSHMEM_OUTLINE std::uint64_t execute_timed_in_parts(Coop coop, const State& state,
                                                    const Call& call) {
  const BlockPart part =
      part_of_block(call.bytes, block_number(), static_cast<std::uint32_t>(call.blocks));
  char* const dest = static_cast<char*>(call.dest) + part.at;
  const char* const source = static_cast<const char*>(call.source) + part.at;
  const std::uint64_t begin = now_ns();
  GSHMEM_NO_UNROLL
  for (std::uint64_t i = 0; i < call.operand && part.bytes != 0; ++i)
    put_nbi(coop, state, dest, source, part.bytes, call.pe);
  quiet(coop, state);
  return now_ns() - begin;
}

}  // namespace gshmem::device
