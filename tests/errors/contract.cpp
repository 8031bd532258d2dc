#include "tests/errors/contract.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdio>

namespace gshmem::errors {

bool is_in(int value, const std::vector<int>& values) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

void check_actor(const Shared& seen, const Expected& expected) {
  const gshmemx_fault_t& fault = seen.fault;
  INFO("actor: status " << seen.status << ", fault " << fault.code << ": " << fault.message);
  CHECK(seen.claimed == seen.good_rounds);
  CHECK(is_in(seen.status, expected.codes));
  CHECK(seen.status_again == seen.status);
  CHECK(fault.code == seen.status);
  if (expected.syndrome != kNone) CHECK(fault.syndrome == expected.syndrome);
  if (expected.names_queue) {
    CHECK(fault.pe == kTarget);
    CHECK(fault.queue == seen.queue_number);
  }
  for (const std::string& part : expected.parts) CHECK(spmd::contains(fault.message, part));
  if (!spmd::contains(fault.message, " to PE 2 failed: ")) return;  // the host has detected it
  char entry[128];
  std::snprintf(entry, sizeof(entry), "(queue 0x%x, entry %u, opcode 0x%02x, syndrome 0x%02x,",
                fault.queue, fault.wqe_index, fault.opcode, fault.syndrome);
  CHECK(spmd::contains(fault.message, entry));
}

void check_memory(const Shared& seen) {
  INFO(seen.claimed << " puts were said to be complete");
  CHECK(seen.missing == 0);
  CHECK(seen.leaked == 0);
}

void check_told(const Shared& seen) {
  const gshmemx_fault_t& fault = seen.accounts[kBystander].fault;
  INFO("bystander: " << fault.code << ": " << fault.message);
  CHECK(fault.code == GSHMEMX_ERROR_PEER_FAILED);
  CHECK(fault.pe == kActor);
  CHECK(spmd::contains(fault.message, "PE 0 was stopped by a fault: "));
  CHECK(spmd::contains(fault.message, std::string(seen.fault.message).substr(0, 40)));
}

void check_all_returned(const Shared& seen) {
  for (int pe = 0; pe < kPes; ++pe) {
    INFO("PE " << pe << ": " << seen.accounts[pe].fault.message);
    CHECK(seen.accounts[pe].fault.code != GSHMEMX_SUCCESS);
    CHECK(seen.accounts[pe].finalized);
  }
}

void run(const std::vector<Leg>& where, Play play, const Expected& expected) {
  static int turn = 0;
  for (const Leg& leg : where) {
    const std::uint64_t seed = base_seed() * 1000 + static_cast<std::uint64_t>(turn);
    play.wait = static_cast<Wait>(turn++ % 4);
    INFO(leg.name() << ", wait " << static_cast<int>(play.wait)
                    << ", GSHMEM_TEST_SEED=" << base_seed());
    const Shared& seen = perform(leg, play, seed);
    check_actor(seen, expected);
    check_memory(seen);
    check_told(seen);
    check_all_returned(seen);
  }
}

}  // namespace gshmem::errors
