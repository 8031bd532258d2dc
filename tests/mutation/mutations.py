"""Bugs that a test must catch: exact texts of device/ and what stands there instead.

Mutation(name, file, edits, test, finds): `edits` are pairs of texts, of which the first must occur
exactly once in the file. `test` is "store_buffer" (tests/model/store_buffer) or "wqe_test:CASE"
(tests/unit/wqe_test.cpp), and `finds` what it must say (a regular expression).
"""
from collections import namedtuple

Mutation = namedtuple("Mutation", "name file edits test finds")

MODEL = "store_buffer"
# What a NIC sees that is told of entries too early, or of which others have been written over.
NOT_THERE = (r"was not written|has index \d+ of|is malformed|doorbell says|went backwards|"
             r"beyond the depth")
WRONG_DATA = r"are not what (it has put|was there)"
QUIET = r"quiet .* (are not what it has put|announced is not at PE)"
STUCK = r"waits for what does not come"


def mutation(name, file, old, new, test, finds):
    return Mutation(name, file, [(old, new)], test, finds)


MUTATIONS = [
    # Order of what others see.
    mutation("no_fence_behind_entries", "ring.h", "  queue_fence(post.queue);\n", "", MODEL,
             NOT_THERE),
    mutation("fence_reaches_the_gpu_only", "ring.h", "  if (queue.in_gpu_memory()) {",
             "  if (queue.depth() > 0) {", MODEL, NOT_THERE + "|are not what it has put"),
    mutation("doorbell_passes_its_record", "ring.h",
             "  if (state.nic.flags & abi::kNicRecordFirst) queue_fence(queue);\n", "", MODEL,
             "seen before its record"),
    mutation("record_not_updated", "ring.h",
             "  store_flag(&queue.send_record()->raw, Be32(index).raw);\n", "", MODEL,
             "seen before its record|but its record says"),
    mutation("doorbell_before_the_turn", "ring.h",
             "  return !post.queue.exclusive() &&\n"
             "         PublishedWord::end(load_acquire_gpu(&post.queue.cursor()->ready)) != post.first;",
             "  return false;", MODEL, NOT_THERE),
    mutation("turn_passed_on_without_release", "ring.h",
             "    atomic_add_release_gpu(&cursor->ready, next - word);\n",
             "    atomic_add_chain_gpu(&cursor->ready, next - word);\n", MODEL,
             NOT_THERE + "|seen before its record"),
    mutation("published_word_forgets_the_last_wqe", "ring.h",
             "PublishedWord::make(end, post.count() - post.tail)", "PublishedWord::make(end, 1)",
             MODEL, STUCK + "|" + QUIET),
    mutation("lanes_not_told_of_what_is_published", "ring.h",
             "  post.group.sync();  // the others see `ready` too: a quiet of theirs waits for these\n",
             "", MODEL, QUIET),
    mutation("counter_read_before_base", "ring.h",
             "  const std::uint64_t base = load_acquire_gpu(&queue.cursor()->done);\n"
             "  // Acquire pairs with whoever writes completions (a NIC; transport/nic/soft, "
             "transport/ofi).\n"
             "  const std::uint32_t word = Be32::from_raw(load_acquire(&queue.completion()->raw))"
             ".get();\n",
             "  const std::uint32_t word = Be32::from_raw(load_acquire(&queue.completion()->raw))"
             ".get();\n"
             "  const std::uint64_t base = load_acquire_gpu(&queue.cursor()->done);\n", MODEL,
             NOT_THERE + "|are not what it has put|announced is not at PE"),

    # The short way.
    mutation("short_no_fence_behind_entries", "issue.h", "  issue_fence(issue);\n  if (issue.is(",
             "  if (issue.is(", MODEL, NOT_THERE),
    mutation("short_doorbell_before_the_turn", "issue.h",
             "if (PublishedWord::end(issue.word) == issue.first) return false;", "return false;",
             MODEL, NOT_THERE),
    mutation("short_doorbell_passes_its_record", "issue.h",
             "  if (issue.is(abi::QueueTraits::kRecordFirst)) issue_fence(issue);\n", "", MODEL,
             "seen before its record"),
    mutation("short_turn_word_of_the_reservation", "issue.h",
             "waited ? load_relaxed(&issue.cursor->ready) : issue.word;", "issue.word;", MODEL,
             NOT_THERE + "|" + STUCK + "|without a doorbell"),
    mutation("short_room_off_by_one", "issue.h",
             "first + count <= done + abi::QueueTraits::depth(issue.traits);",
             "first + count <= done + abi::QueueTraits::depth(issue.traits) + 1;", MODEL, NOT_THERE),
    mutation("short_no_doorbell_at_a_batch", "issue.h",
             "exclusive || issue.behind <= end || (issue.first & boundary) != (end & boundary);",
             "exclusive || issue.behind <= end;", MODEL, STUCK),
    mutation("short_waits_one_entry_short", "issue.h",
             "issue.target = issue.first + issue.count() - tail + 1;",
             "issue.target = issue.first + issue.count() - tail;", MODEL, WRONG_DATA),
    mutation("short_lanes_write_the_same_entries", "issue.h",
             "static_cast<std::uint32_t>(issue.group.rank()) * issue.own;",
             "static_cast<std::uint32_t>(issue.group.rank()) * 0;", MODEL, NOT_THERE),
    mutation("short_first_lane_asks_for_the_completion", "issue.h",
             "issue.group.last() && at ==", "issue.group.first() && at ==", MODEL, STUCK),
    mutation("short_signal_in_the_place_of_its_payload", "issue.h", "signal.each(write, 1);",
             "signal.each(write, 0);", MODEL, NOT_THERE),
    mutation("short_queue_in_use_not_noted", "issue.h",
             "if (issue.first == 0 && issue.group.first())",
             "if (issue.first == 1 && issue.group.first())", MODEL, QUIET),

    # Room and indices.
    mutation("room_off_by_one", "ring.h", "load_acquire_gpu(&queue.cursor()->done) < end - depth;",
             "load_acquire_gpu(&queue.cursor()->done) + 1 < end - depth;", MODEL, NOT_THERE),
    mutation("room_awaited_off_by_one", "ring.h", "  post.target = end - depth;\n",
             "  post.target = end - depth - 1;\n", MODEL, NOT_THERE),
    mutation("ring_wraps_at_half", "ring.h", "post.queue.depth() * 4 - 1",
             "post.queue.depth() * 2 - 1", MODEL, NOT_THERE),
    mutation("second_wqe_has_the_index_of_the_first", "ring.h", "placed(unit, index + u / 4,",
             "placed(unit, index + u / 16,", MODEL, r"has index \d+ of"),
    mutation("lanes_write_the_same_entries", "ring.h",
             "static_cast<std::uint32_t>(post.group.rank()) * post.entries()",
             "static_cast<std::uint32_t>(post.group.rank())", MODEL, NOT_THERE),
    mutation("reservation_of_one_wqe_for_two", "ring.h",
             "GSHMEM_FN std::uint32_t entries() const { return image.entries(); }",
             "GSHMEM_FN std::uint32_t entries() const { return image.second ? 1 : image.entries(); }",
             MODEL, NOT_THERE + "|" + QUIET + "|" + STUCK),
    mutation("exclusive_reserves_too_little", "ring.h",
             "store_relaxed(&queue.cursor()->reserved, first + count);",
             "store_relaxed(&queue.cursor()->reserved, first + 1);", MODEL,
             NOT_THERE + "|" + STUCK + "|without a doorbell|before its payload"),
    mutation("no_doorbell_at_a_batch", "ring.h", "        (first & boundary) != (end & boundary)) {",
             "        false) {", MODEL, STUCK),
    mutation("doorbell_says_the_last_entry", "ring.h",
             "static_cast<std::uint32_t>(end) & 0xffff;",
             "static_cast<std::uint32_t>(end - 1) & 0xffff;", MODEL,
             NOT_THERE + "|" + STUCK + "|without a doorbell"),

    # Completions, waits and errors.
    mutation("first_wqe_asks_for_the_completion", "ring.h", "u == last ? flags : 0",
             "u == 0 ? flags : 0", MODEL, STUCK),
    mutation("first_lane_asks_for_the_completion", "ring.h", "post.group.last() ? abi::kCqUpdate",
             "post.group.first() ? abi::kCqUpdate", MODEL, STUCK),
    mutation("counter_compared_without_wrap", "ring.h",
             "(word >> 16) + 1 - static_cast<std::uint32_t>(base)) & 0xffff;",
             "(word >> 16) + 1 - static_cast<std::uint32_t>(base));",
             "wqe_test:completion_counter_has_16_bits_and_the_result_64", "queue.poll"),
    mutation("error_taken_as_no_completion", "ring.h", "return none ? base : kQueueFailed;",
             "return none ? base : base;", MODEL, STUCK + "|is good after an error"),
    mutation("error_taken_as_success", "ring.h",
             "    return none ? base : kQueueFailed;\n", "    if (none) return base;\n",
             "wqe_test:error_completion_is_a_fault_that_tells_what_failed", "queue_quiet"),
    mutation("syndrome_of_the_vendor", "ring.h", "load_relaxed(&last[-2].raw)).get() & 0xff;",
             "load_relaxed(&last[-2].raw)).get() >> 8 & 0xff;",
             "wqe_test:error_completion_is_a_fault_that_tells_what_failed", "fault.syndrome"),
    mutation("quiet_skips_the_last_queue", "nic.h", "at < state.nic.count; ++at)",
             "at + 1 < state.nic.count; ++at)", MODEL, QUIET),
    mutation("quiet_ends_after_one_queue", "nic.h", "    if (!queue_try_quiet(post)) break;\n",
             "    queue_try_quiet(post);\n    break;\n", MODEL,
             QUIET),
    mutation("queue_in_use_not_noted", "ring.h", "  if (first == 0) {", "  if (first == 1) {", MODEL,
             QUIET),
    mutation("quiet_one_entry_short", "ring.h",
             "  wait.target = PublishedWord::target(published);",
             "  wait.target = PublishedWord::target(published) - 1;", MODEL, QUIET),
    mutation("put_waits_one_entry_short", "ring.h", "good ? post.first + post.tail + 1 :",
             "good ? post.first + post.tail :", MODEL, WRONG_DATA),
    mutation("put_does_not_wait", "nic.h", "} else if (request.blocking && request.way != "
             "Way::kInline) {", "} else if (request.blocking && request.way == Way::kInline) {",
             MODEL, r"\bput of thread \d+ has ended"),

    # Requests.
    mutation("signal_behind_the_first_piece", "nic.h",
             "request.way == Way::kWrite && request.piece == request.bytes;",
             "request.way == Way::kWrite;", MODEL, "comes before its payload"),
    mutation("pieces_go_to_the_same_place", "nic.h", "    remote += piece;\n", "", MODEL,
             WRONG_DATA + "|comes before its payload"),
    mutation("local_key_for_remote", "nic.h",
             "{heap_offset(*post.state, symmetric), post.queue.remote_key()}",
             "{heap_offset(*post.state, symmetric), post.queue.local_key()}", MODEL,
             "remote key 0x"),
    mutation("offset_from_the_allocatable_heap", "nic.h",
             "return {heap_offset(*post.state, symmetric), ",
             "return {heap_offset(*post.state, symmetric) - abi::kInternalBytes, ", MODEL,
             "is outside of the heap"),
    mutation("last_word_of_a_payload_lost", "nic.h", "if (at % 4 == 3 || at + 1 == bytes) {",
             "if (at % 4 == 3) {", MODEL, WRONG_DATA),
    mutation("scratch_freed_before_the_result", "nic.h", "    queue_try_post(post);\n",
             "    if (request.slot) free_scratch(request.slot);\n    queue_try_post(post);\n", MODEL,
             "are not what was there"),
    mutation("scratch_claimed_by_two", "nic.h",
             "atomic_compare_swap(&mine->busy, 0u, 1u) == 0u", "(store_relaxed(&mine->busy, 1u), true)",
             MODEL, "are not what was there"),
    mutation("fetch_larger_than_its_slot", "nic.h",
             "    if (way == Way::kFetch && most > sizeof(slot->data)) most = sizeof(slot->data);\n",
             "", MODEL, "outside of a scratch slot"),
    mutation("fetch_does_not_wait", "nic.h", "request.slot && post.good() && queue_await(post)",
             "request.slot && post.good()", MODEL, "are not what was there"),
    mutation("read_without_its_dump", "nic.h", "if (request.way != Way::kWrite) make_dump",
             "if (request.way == Way::kWrite) make_dump", MODEL, WRONG_DATA + "|a DUMP"),

    # Images of entries.
    mutation("dump_does_not_wait", "wqe.h", "control_unit({Opcode::kDump, 0, 2, abi::kFence})",
             "control_unit({Opcode::kDump, 0, 2, 0})",
             "wqe_test:read_with_and_without_a_dump_behind_it", "in_queue"),
    mutation("inline_bit_missing", "wqe.h", "Be32(abi::kInlineMarker | bytes).raw",
             "Be32(bytes).raw", "wqe_test:write_that_carries_its_payload", "in_queue"),
    mutation("inline_header_not_counted", "wqe.h",
             "image.units = 2 + (static_cast<std::uint32_t>(sizeof(abi::InlineHeader)) + bytes + 15)",
             "image.units = 2 + (bytes + 15)", "wqe_test:write_that_carries_its_payload",
             "shape.entries|in_queue"),
    mutation("length_in_host_order", "wqe.h", "return {Be32(bytes).raw, key.raw,",
             "return {bytes, key.raw,", "wqe_test:write_from_memory", "in_queue"),
    mutation("ds_of_a_swap", "wqe.h",
             "control_unit({Opcode::kMaskedCompareSwap, abi::kOpmodMasked8, 5, 0})",
             "control_unit({Opcode::kMaskedCompareSwap, abi::kOpmodMasked8, 4, 0})",
             "wqe_test:atomics_know_their_length", "wqe.7"),
    mutation("masks_swapped", "wqe.h", "unit_of(Be64(masks.swap), Be64(masks.compare))",
             "unit_of(Be64(masks.compare), Be64(masks.swap))", "wqe_test:atomics_of_8_bytes",
             "AmoOp::kOr"),
    mutation("and_sets_what_it_should_clear", "wqe.h", "{~amo.operand, 0}", "{amo.operand, 0}",
             MODEL, WRONG_DATA),
    mutation("old_values_of_4_bytes_not_swapped", "wqe.h",
             "if (width == 4) return abi::swap_bytes(static_cast<std::uint32_t>(stored));",
             "if (width == 4) return static_cast<std::uint32_t>(stored);", MODEL,
             "atomic of 4 bytes .* are not what was there"),
    mutation("index_in_host_order", "wqe.h",
             "control.x |= Be32((static_cast<std::uint32_t>(index) & 0xffff) << 8).raw;",
             "control.x |= (static_cast<std::uint32_t>(index) & 0xffff) << 8;",
             "wqe_test:write_from_memory", "in_queue"),
]
