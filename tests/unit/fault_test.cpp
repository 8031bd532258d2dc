// Tests the whole text of each kind of fault, as programs and logs show it.
#include "host/runtime/fault.h"

#include "device/core/call_record.h"

#include <gshmem/gshmem.h>

#include <catch2/catch.hpp>

#include <chrono>
#include <cstring>
#include <string>
#include <thread>

using namespace gshmem;

namespace {

abi::FaultRecord fault_of(int code, const char* call, const char* argument = "") {
  abi::FaultRecord fault{};
  fault.code = code;
  fault.pe = -1;
  std::strcpy(fault.call, call);
  std::strcpy(fault.argument, argument);
  return fault;
}

std::string text_of(abi::Rule rule, std::int64_t value, std::uint64_t limit, int pe = -1) {
  abi::FaultRecord fault = fault_of(GSHMEMX_ERROR_INVALID_VALUE, "gshmem_call", "it");
  fault.rule = rule;
  fault.value = static_cast<std::uint64_t>(value);
  fault.limit = limit;
  fault.pe = pe;
  const std::string text = fault_message(fault), start = "gshmem_call: argument it";
  CHECK(text.substr(0, start.size()) == start);
  return text.substr(start.size());
}

}  // namespace

TEST_CASE("a_bad_argument_is_reported_by_the_rule_that_it_breaks") {
  using abi::Rule;
  CHECK(text_of(Rule::kPe, -1, 4) == " = -1 is out of range [0, 4)");
  CHECK(text_of(Rule::kOverflow, -1, 0) ==
        " = 18446744073709551615 is too large, the size in bytes overflows (is it the negative "
        "number -1?)");
  CHECK(text_of(Rule::kOverflow, INT64_MAX, 0) ==
        " = 9223372036854775807 is too large, the size in bytes overflows");
  CHECK(text_of(Rule::kSymmetric, 255, 8) ==
        " = 0xff (8 bytes) is not in the symmetric heap; gshmem_malloc allocates there");
  CHECK(text_of(Rule::kSymmetric, 0, 8) ==
        " = 0x0 is null, where 8 bytes of the symmetric heap are needed");
  CHECK(text_of(Rule::kNotNull, 0, 8) == " = 0x0 is null, where 8 bytes are needed");
  CHECK(text_of(Rule::kAligned, 255, 8) == " = 0xff is not aligned to 8 bytes");
  CHECK(text_of(Rule::kStride, -3, 1) == " = -3 is a stride and must be at least 1");
  CHECK(text_of(Rule::kSignalOp, -7, 0) == " = -7 is not one of the GSHMEM_SIGNAL constants");
  CHECK(text_of(Rule::kCmp, -7, 0) == " = -7 is not one of the GSHMEM_CMP constants");
  CHECK(text_of(Rule::kApart, 255, 240) ==
        " = 0xff is in the payload, which begins at dest = 0xf0");
  CHECK(text_of(Rule::kHandle, -7, 0) ==
        " = -7 is not open: it was destroyed, or never created on this PE");
  CHECK(text_of(Rule::kNotNegative, -7, 0) == " = -7 is negative");
  CHECK(text_of(Rule::kTeam, -7, 0) == " = -7 is not a team");
  CHECK(text_of(Rule::kAloneBy, 5, 3) ==
        ": something else was posted by it while the burst was open (5 entries, not 3)");
  CHECK(text_of(Rule::kAtLeast, 5, 8) == " = 5 is less than 8");
  CHECK(text_of(Rule::kAmount, -7, 0) == " = -7 is not one of the GSHMEMX_SMEM constants");
  CHECK(text_of(Rule::kShared, 255, 0) == " = 0xff is not shared memory of the calling block");
  CHECK(text_of(Rule::kGiven, 255, 0) ==
        " = 0xff: the block has given other memory, release that first");
  CHECK(text_of(Rule::kZero, 5, 0) == " = 5 must be 0");
  CHECK(text_of(Rule::kElements, 5, 8) == " has 5 elements, where 8 are needed");
  using device::CallKind;
  constexpr auto kBroadcast = static_cast<std::uint64_t>(CallKind::kBroadcast) << 32 | 2,
                 kSumOfInts = static_cast<std::uint64_t>(CallKind::kReduce) << 32 | std::uint64_t{2}
                                                                                        << 48,
                 kMaxOfInts = kSumOfInts | std::uint64_t{3} << 40;
  CHECK(text_of(Rule::kSameCall, kSumOfInts, kBroadcast, 3) ==
        ": PE 3 of the team is in broadcast, and this one in sum_reduce of int32");
  CHECK(text_of(Rule::kSameCall, kMaxOfInts, kSumOfInts, 3) ==
        ": PE 3 of the team is in sum_reduce of int32, and this one in max_reduce of int32");
  CHECK(text_of(Rule::kSame, -5, 8, 3) == " = -5 differs from that of PE 3, 8");
  CHECK(text_of(Rule::kSameBytes, 5, 8, 3) ==
        " is of 5 bytes, and of 8 on PE 3: all members bring as many");
  CHECK(text_of(Rule::kSameArray, 255, 8, 3) ==
        " is at heap offset 0xff, and on PE 3 at 0x8: all members pass the same symmetric array");
  CHECK(text_of(Rule::kHeld, 255, 0) ==
        " = 0xff: no thread holds this lock, so it cannot be cleared");
  CHECK(text_of(Rule::kOfHost, 255, 0) ==
        " = 0xff is GPU memory, which host threads cannot read; pass the list in host memory, or "
        "call the function in a kernel");
  CHECK(text_of(Rule::kNone, 255, 0) == " = 0xff");
}

TEST_CASE("a_bad_piece_of_a_list_is_reported_by_its_number") {
  abi::FaultRecord fault =
      fault_of(GSHMEMX_ERROR_INVALID_VALUE, "gshmemx_putv_signal_nbi", "[].source");
  fault.rule = abi::Rule::kNotNull;
  fault.wqe_index = 4'000'000'000;
  fault.limit = 8;
  CHECK(fault_message(fault) ==
        "gshmemx_putv_signal_nbi: argument pieces[4000000000].source = 0x0 is null, where 8 bytes "
        "are needed");
}

TEST_CASE("a_wait_that_timed_out_names_the_awaited_pe_and_the_time") {
  abi::FaultRecord fault = fault_of(GSHMEMX_ERROR_TIMEOUT, "gshmem_wait");
  fault.value = 2'500'000'000;
  fault.limit = 2'000'000'000;
  const std::string end = ", longer than GSHMEM_TIMEOUT=2 allows";
  CHECK(fault_message(fault) == "gshmem_wait: waited 2.5 s" + end);
  fault.pe = 0;
  CHECK(fault_message(fault) == "gshmem_wait: waited 2.5 s for PE 0" + end);
  fault.queue = 0x2a;
  fault.wqe_index = 7;
  CHECK(fault_message(fault) == "gshmem_wait: waited 2.5 s for PE 0 (queue 0x2a, entry 7)" + end);
}

TEST_CASE("an_error_of_the_network_is_reported_with_all_fields_of_the_completion") {
  abi::FaultRecord fault = fault_of(GSHMEMX_ERROR_NIC, "network");
  fault.pe = 3;
  fault.queue = 0x2a;
  fault.wqe_index = 7;
  fault.opcode = 0x08;
  fault.syndrome = 0x13;
  fault.value = 0x12345681;
  CHECK(fault_message(fault) ==
        "put (WRITE) to PE 3 failed: remote access error: memory or key that the target does not "
        "know (queue 0x2a, entry 7, opcode 0x08, syndrome 0x13, vendor 0x81, hardware 0x3456)");
  fault.opcode = 0x77;
  fault.syndrome = 0x99;
  CHECK(fault_message(fault) ==
        "operation to PE 3 failed: unknown syndrome (queue 0x2a, entry 7, opcode 0x77, syndrome "
        "0x99, vendor 0x81, hardware 0x3456)");
  CHECK(fault_message(fault_of(GSHMEMX_ERROR_NIC, "")) == ": network card reported an error");
}

TEST_CASE("unsupported_calls_and_other_faults_have_texts_of_their_own") {
  CHECK(fault_message(fault_of(GSHMEMX_ERROR_NOT_SUPPORTED, "gshmem_set_lock", "lock")) ==
        "gshmem_set_lock: in a job with a network a lock's words are updated by GPUs and NICs, "
        "which are atomic to each other with GSHMEM_AMO=nic only");
  abi::FaultRecord fault = fault_of(GSHMEMX_ERROR_NOT_SUPPORTED, "atomic");
  fault.pe = 3;
  CHECK(fault_message(fault) ==
        "atomic or signal to PE 3: GPUs of this job map each other by a link without native "
        "atomics (PCIe, or one that CUDA and NVML do not show), and there is no network to do it; "
        "unset GSHMEM_NIC, install libfabric, or choose GPUs with NVLink (gshmem-info --doctor)");
  CHECK(fault_message(fault_of(GSHMEMX_ERROR_NOT_SUPPORTED, "gshmem_call")) ==
        "gshmem_call: not supported");
  fault.code = GSHMEMX_ERROR_PEER_FAILED;
  CHECK(fault_message(fault) == "PE 3 died: its process ended without gshmem_finalize");
  CHECK(fault_message(fault_of(GSHMEMX_ERROR_SYMMETRY, "gshmem_call")) ==
        "gshmem_call: arguments differ between PEs");
}

// A thread that the fault of another thread had stopped read the record too early, found none, and
// used data that had not arrived.
TEST_CASE("a_fault_that_has_stopped_the_pe_is_read_though_its_record_is_incomplete") {
  abi::Control control{};
  abi::FaultRecord record;
  control.fault.claimed = 1;
  CHECK_FALSE(fault_read(&control, &record));  // the PE is not stopped yet
  control.stop = 1;
  std::thread writes([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    control.fault.code = GSHMEMX_ERROR_NIC;
    __atomic_store_n(&control.fault.published, 1u, __ATOMIC_RELEASE);
  });
  CHECK(fault_read(&control, &record));
  CHECK(record.code == GSHMEMX_ERROR_NIC);
  writes.join();
}
