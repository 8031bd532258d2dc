// Tests which operations are pending at the same time, over the double of libfabric. The test's
// thread runs both executors, and the network takes longer than a test, so the calls of one round
// are those that need no answer first.
#include "tests/ofi/job.h"

#include "transport/ofi/message.h"

#include <rdma/fi_errno.h>

#include <catch2/catch.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

using namespace gshmem;
using namespace gshmem::test;

namespace {

constexpr std::int64_t kLong = 3600ll * 1'000'000'000;

/// Two PEs that have exchanged greetings. Counts begin at 0.
struct TwoPes {
  explicit TwoPes(const std::string& provider, const std::string& gdr = "auto")
      : job(2, leg_of(provider, gdr)) {
    for (int pe = 0; pe < 2; ++pe) {
      const std::uint64_t first = job[pe].to(1 - pe).write(8, 8, 8);
      job[pe].to(1 - pe).ring();
      until([&] { return job[pe].to(1 - pe).has_ended(first); });
    }
    rounds(std::chrono::milliseconds(50));  // greetings, too
    for (auto& count : rules.taken) count = 0;
    rules.more = rules.injected = rules.immediate = rules.doorbells = 0;
  }
  static Leg leg_of(const std::string& provider, const std::string& gdr) {
    Leg leg{.provider = provider, .gdr = gdr};
    leg.by_hand = true;
    return leg;
  }
  void rounds(std::chrono::steady_clock::duration time) {
    const auto end = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < end) {
      job[0].round();
      job[1].round();
    }
  }
  template <class Condition>
  void until(Condition met) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!met()) {
      REQUIRE(std::chrono::steady_clock::now() < limit);
      job[0].round();
      job[1].round();
    }
  }
  /// Returns the syndrome of an entry, which must complete.
  std::uint8_t syndrome_of(std::uint64_t entry) {
    Outcome outcome{.timed_out = true};
    until([&] {
      outcome = job[0].to(1).wait(entry, 0);
      return !outcome.timed_out;
    });
    return outcome.syndrome;
  }
  std::uint64_t set_signal(std::uint64_t value) {
    return job[0].to(1).masked_swap(8, 64, 0, {value, 0, ~std::uint64_t{0}, 0});
  }

  FabricDouble& rules = *fabric_double();
  Job job;
};

}  // namespace

TEST_CASE("payload and signal are pending at the same time", "[ofi][double]") {
  if (!have_double()) return;
  const std::string provider = GENERATE("efa/efa-direct", "efa/efa", "verbs;ofi_rxm");
  INFO(provider);
  TwoPes rig(provider);
  rig.rules.rtt = kLong;
  rig.job[0].to(1).write(4096, 4096, 1 << 20, kPlain);
  rig.job[0].to(1).write(1 << 21, 8, 8, kPlain);
  rig.set_signal(1);
  rig.job[0].to(1).ring();
  rig.job[0].round();
  using enum FabricDouble::Call;
  CHECK(rig.rules.taken[kWrite] == rig.rules.immediate);
  CHECK(rig.rules.taken[kWrite] >= 2u);
  CHECK(rig.rules.taken[kSend] == 1u);
  rig.rules.rtt = 0;
}

TEST_CASE("atomics of a queue overlap if the target keeps their order", "[ofi][double]") {
  if (!have_double()) return;
  struct Case {
    const char *provider, *gdr;
    std::size_t together;
  };
  // When staged, each PE has receives for 16 messages with payload from each other PE.
  const Case each = GENERATE(Case{"efa/efa-direct", "auto", 20}, Case{"verbs;ofi_rxm", "auto", 20},
                             Case{"efa/efa", "off", 16});
  INFO(each.provider);
  TwoPes rig(each.provider, each.gdr);
  rig.rules.rtt = kLong;
  for (int i = 0; i < 20; ++i) rig.job[0].to(1).fetch_add(64, 512, 1);
  rig.job[0].to(1).ring();
  rig.job[0].round();
  CHECK(rig.rules.taken[FabricDouble::kSend] == each.together);
  rig.rules.rtt = 0;
}

TEST_CASE("a later entry of a queue waits for earlier ones only if order requires it",
          "[ofi][double]") {
  if (!have_double()) return;
  struct Row {
    const char *provider, *first, *second;
    bool together;
  };
  const Row row = GENERATE(
      Row{"efa/efa-direct", "write", "write", true},
      Row{"efa/efa-direct", "write", "fenced write", false},
      Row{"efa/efa-direct", "write", "read", false}, Row{"efa/efa-direct", "read", "read", true},
      Row{"efa/efa-direct", "read", "write", true},
      Row{"efa/efa-direct", "read", "fenced write", false},
      Row{"efa/efa-direct", "read", "atomic", false},
      Row{"efa/efa-direct", "atomic", "write", true},
      Row{"efa/efa-direct", "atomic", "read", false}, Row{"cxi", "read", "read", true},
      Row{"cxi", "read", "write", true}, Row{"cxi", "read", "atomic", false},
      Row{"cxi", "write", "atomic", false}, Row{"cxi", "atomic", "write", false},
      Row{"cxi", "atomic", "read", false}, Row{"cxi", "atomic", "atomic", false});
  INFO(row.provider << ": " << row.first << ", " << row.second);
  TwoPes rig(row.provider);
  rig.rules.rtt = kLong;
  Client& client = rig.job[0].to(1);
  for (const std::string kind : {row.first, row.second}) {
    if (kind == "read") client.read(4096, 8192, 8);
    if (kind == "atomic") client.fetch_add(64, 512, 1);
    if (kind == "write") client.write(4096, 4096, 8);
    if (kind == "fenced write") client.write(4096, 4096, 8, kSignalled | kFenced);
  }
  client.ring();
  for (int round = 0; round < 3; ++round) rig.job[0].round();
  std::uint64_t calls = 0;
  for (const auto& count : rig.rules.taken) calls += count;
  CHECK(calls == (row.together ? 2 : 1));
  rig.rules.rtt = 0;
}

TEST_CASE("staged operations of all kinds overlap", "[ofi][double]") {
  if (!have_double()) return;
  TwoPes rig("efa/efa", "off");
  rig.rules.rtt = kLong;
  Client& client = rig.job[0].to(1);
  client.write(4096, 4096, 8);
  client.fetch_add(64, 512, 1);
  client.read(4096, 8192, 8);
  client.fetch_add(64, 520, 1);
  client.write(4096, 4096, 8);
  client.ring();
  rig.job[0].round();
  CHECK(rig.rules.taken[FabricDouble::kSend] == 5u);
  rig.rules.rtt = 0;
}

TEST_CASE("a target has room for 64 immediates of a PE, which are released again",
          "[ofi][double]") {
  if (!have_double()) return;
  Job job(1, TwoPes::leg_of("efa/efa-direct", "auto"));
  FabricDouble& rules = *fabric_double();
  Client* queues[] = {&job[0].to(0), &job[0].add_queue()};
  for (int round = 0; round < 3; ++round) job[0].round();  // greetings
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  /// Returns the number of immediates of so many writes and an atomic.
  const auto immediates = [&](Client& queue, unsigned writes) {
    const std::uint64_t before = rules.immediate;
    for (unsigned i = 0; i < writes; ++i) queue.write(4096, 8, 8, kPlain);
    queue.fetch_add(64, 512, 1);
    queue.ring();
    job[0].round();
    return rules.immediate - before;
  };
  const auto end = [&](Client& queue) {
    rules.held = nullptr;
    while (!queue.has_ended(queue.next() - 1)) {
      REQUIRE(std::chrono::steady_clock::now() < limit);
      job[0].round();
    }
  };
  for (int lap = 0; lap < 3; ++lap) {
    rules.held = job[0].heap();
    CHECK(immediates(*queues[0], 63) == 63);  // one asks for two
    CHECK(immediates(*queues[1], 10) == 0);
    for (Client* const queue : queues) end(*queue);
  }
  // A queue that fails before its atomic releases the immediates of its writes.
  rules.error = FI_EACCES;
  rules.errors = 1;
  const std::uint64_t read = queues[0]->read(4096, 8, 8);
  CHECK(immediates(*queues[0], 62) == 62);
  for (int round = 0; round < 3; ++round) job[0].round();
  CHECK(int{queues[0]->wait(read, 0).syndrome} == 0x13);
  CHECK(immediates(*queues[1], 63) == 63);
  end(*queues[1]);
}

namespace {

/// The error of one call of the provider, and its result.
struct CallError {
  const char* provider;
  int error;
  std::uint8_t syndrome;
  bool lost;
};
std::uint64_t post_one(Client& client, bool atomic) {
  const std::uint64_t entry = atomic ? client.fetch_add(64, 512, 1) : client.write(4096, 4096, 8);
  client.ring();
  return entry;
}

}  // namespace

TEST_CASE("an error of an operation does not lose its peer, unless the connection is broken",
          "[ofi][double]") {
  if (!have_double()) return;
  const CallError each = GENERATE(
      CallError{"efa/efa-direct", FI_EIO, 0x15, false},
      CallError{"tcp;ofi_rxm", FI_EIO, 0x15, true}, CallError{"efa/efa", FI_EINVAL, 0x13, false},
      CallError{"cxi", FI_EHOSTUNREACH, 0x15, true},
      CallError{"efa/efa-direct", FabricDouble::kNoNumber, 0x14, false},
      // Errors that another attempt may cure are retried.
      CallError{"efa/efa-direct", FI_ENORX, 0, false}, CallError{"cxi", FI_EAGAIN, 0, false});
  const bool atomic = GENERATE(false, true);  // a message, if the provider has no atomics
  INFO(each.provider << ", error " << each.error << (atomic ? ", an atomic" : ", a write"));
  TwoPes rig(each.provider);
  rig.rules.error = each.error;
  rig.rules.errors = 1;
  const std::uint8_t syndrome = rig.syndrome_of(post_one(rig.job[0].to(1), atomic));
  // An atomic of the provider itself is not retried: it might be executed twice.
  const bool once = each.syndrome == 0 && rig.rules.taken[FabricDouble::kFetchAtomic] > 0;
  CHECK(syndrome == (once ? 0x16 : each.syndrome));
  if (each.lost) return rig.until([&] { return !rig.job[0].errors().empty(); });
  rig.rounds(std::chrono::milliseconds(50));
  CHECK(rig.job[0].errors().empty());
}

TEST_CASE("no signal arrives whose payload has failed", "[ofi][double]") {
  if (!have_double()) return;
  const std::string provider = GENERATE("efa/efa-direct", "efa/efa", "verbs;ofi_rxm", "cxi");
  INFO(provider);
  TwoPes rig(provider);
  rig.job[1].at<std::uint64_t>(64) = 0;
  rig.rules.error = FI_EACCES;
  rig.rules.errors = 1;
  const std::uint64_t write = rig.job[0].to(1).write(4096, 4096, 8, kPlain);
  rig.set_signal(1);
  rig.job[0].to(1).fetch_add(64, 512, 1);
  rig.job[0].to(1).ring();
  CHECK(rig.syndrome_of(write) == 0x13);
  rig.rounds(std::chrono::milliseconds(20));
  CHECK(rig.job[1].at<std::uint64_t>(64) == 0);
  // The return path is another queue, and works.
  const std::uint64_t back = rig.job[1].to(0).fetch_add(64, 512, 1);
  rig.job[1].to(0).ring();
  rig.until([&] { return rig.job[1].to(0).has_ended(back); });
}
