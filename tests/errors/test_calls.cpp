// Tests errors of calls other than puts: a get, g, a fetching atomic and a put with signal report
// the same as a put that fails, and have no effect: neither at the destination of a get nor in the
// word of an atomic or a signal.
#include "tests/errors/contract.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>

using namespace gshmem;
using namespace gshmem::errors;

namespace {

constexpr std::uint8_t kUntouched = 0xa5;

void get(const Actor& actor) {
  std::memset(actor.area.landing, kUntouched, kBytes);
  gshmem_getmem(actor.area.landing, actor.area.dest[0], kBytes, kTarget);
  actor.shared.leaked += !std::all_of(actor.area.landing, actor.area.landing + kBytes,
                                      [](std::uint8_t byte) { return byte == kUntouched; });
}
void get_nbi(const Actor& actor) {
  std::memset(actor.area.landing, kUntouched, kBytes);
  gshmem_getmem_nbi(actor.area.landing, actor.area.dest[0], kBytes, kTarget);
}
void g(const Actor& actor) { (void)gshmem_uint64_g(&actor.area.count, kTarget); }
void fetch_add(const Actor& actor) {
  (void)gshmem_uint64_atomic_fetch_add(&actor.area.count, 1, kTarget);
}
void compare_swap(const Actor& actor) {
  (void)gshmem_uint64_atomic_compare_swap(&actor.area.count, 0, 1, kTarget);
}
void put_signal(const Actor& actor) {
  gshmem_putmem_signal(actor.area.dest[actor.first], actor.area.source[actor.first], kBytes,
                       &actor.area.count, 1, GSHMEM_SIGNAL_SET, kTarget);
}
void put_signal_nbi(const Actor& actor) {
  gshmem_putmem_signal_nbi(actor.area.dest[actor.first], actor.area.source[actor.first], kBytes,
                           &actor.area.count, 1, GSHMEM_SIGNAL_ADD, kTarget);
}

struct Call {
  const char* name;
  void (*make)(const Actor&);
  const char* op;     ///< the kind of its first entry, in the soft NIC's rules
  const char* cause;  ///< its name in the fault
  bool alone = true;  ///< one entry
};
const Call kCalls[] = {
    {"get", get, "read", "get (READ) to PE 2"},
    {"get_nbi", get_nbi, "read", "get (READ) to PE 2"},
    {"g", g, "read", "get (READ) to PE 2"},
    {"fetch_add", fetch_add, "atomic", "atomic to PE 2"},
    {"compare_swap", compare_swap, "atomic", "atomic to PE 2"},
    {"put_signal", put_signal, "write", " to PE 2", false},
    {"put_signal_nbi", put_signal_nbi, "write", " to PE 2", false},
};

/// A NIC's one completion entry shows the newest: the error, or a flush after it. A second entry
/// may be flushed.
Expected expected_of(const Call& call, unsigned syndrome, const std::string& reason) {
  if (call.alone) return {kNicError, syndrome, {std::string(call.cause) + reason}};
  return {kNicError, kNone, {std::string(call.cause) + " failed: "}};
}

/// Runs the call after `action` of the soft NIC's rules.
void run_injected(const std::string& action, unsigned syndrome, const std::string& reason) {
  for (const Call& call : kCalls) {
    INFO(call.name);
    const auto provoke = [&](const Actor& actor) {
      inject(action, 0, call.op);
      call.make(actor);
    };
    run(legs({"soft"}), {.provoke = provoke}, expected_of(call, syndrome, reason));
  }
}

}  // namespace

TEST_CASE("bad_remote_key_of_every_call") {
  for (const Call& call : kCalls) {
    INFO(call.name);
    const auto provoke = [&](const Actor& actor) {
      spoil_key(Key::kRemote);
      call.make(actor);
    };
    run(legs({"soft", "ofi"}), {.provoke = provoke},
        expected_of(call, 0x13, " failed: remote access error"));
  }
}

TEST_CASE("a_dump_that_was_flushed_after_an_error_names_the_call") {
  for (const Call& call : kCalls) {
    if (std::string(call.op) == "write") continue;
    INFO(call.name);
    const auto provoke = [&](const Actor& actor) {
      demand_dumps();
      spoil_key(Key::kRemote);
      call.make(actor);
    };
    const Play play{.provoke = provoke};
    // The error, if the caller was early enough to see it, or the flush.
    for (const Leg& leg : legs({"soft"})) {
      const Shared& seen = perform(leg, play, base_seed());
      INFO(seen.fault.message);
      const bool flushed = seen.fault.syndrome == 0x05;
      CHECK((flushed || seen.fault.syndrome == 0x13));
      CHECK(
          spmd::contains(seen.fault.message,
                         flushed ? "get or atomic (DUMP) to PE 2 failed: flushed: " : call.cause));
      check_all_returned(seen);
    }
  }
}

TEST_CASE("every_call_whose_entry_the_target_refuses") {
  run_injected("times=1:syndrome=0x12", 0x12, " failed: ");
}

TEST_CASE("every_call_that_the_network_loses") {
  run_injected("drop", 0x15, " failed: retries exceeded");
}

TEST_CASE("every_call_by_a_queue_in_the_error_state") {
  run_injected("times=1:queue=error", 0x05, " failed: flushed");
}
