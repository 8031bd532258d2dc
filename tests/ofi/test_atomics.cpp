// Tests every atomic against the model of transport/nic/decode.h: the plans alone, then over both
// paths and providers.
#include "tests/ofi/job.h"

#include "transport/ofi/atomics.h"
#include "transport/ofi/fabric.h"
#include "transport/ofi/provider.h"

#include <gshmem/abi/state.h>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstring>
#include <random>

using namespace gshmem;
using namespace gshmem::test;
using ofi::AtomicPlan;
using ofi::AtomicSupport;

namespace {

/// fi_atomic(3), "op": the result of an operation on a word.
std::uint64_t model(fi_op op, std::uint64_t old, std::uint64_t operand, std::uint64_t compare) {
  switch (op) {
    case FI_SUM:
      return old + operand;
    case FI_BXOR:
      return old ^ operand;
    case FI_BOR:
      return old | operand;
    case FI_BAND:
      return old & operand;
    case FI_ATOMIC_WRITE:
      return operand;
    case FI_CSWAP:
      return old == compare ? operand : old;
    case FI_MSWAP:
      return (old & ~compare) | (operand & compare);
    default:
      FAIL("no model of operation " << op);
      return 0;
  }
}

std::uint64_t full(std::uint64_t bytes) { return bytes == 4 ? 0xffffffffu : ~std::uint64_t{0}; }

/// Draws operands that matter: no bits, all bits, single bits, and random ones.
class Values {
 public:
  explicit Values(unsigned seed) : random_(seed) {}
  std::uint64_t operator()(std::uint64_t bytes) {
    const std::uint64_t any = random_() & full(bytes);
    switch (random_() % 6) {
      case 0:
        return 0;
      case 1:
        return full(bytes);
      case 2:
        return full(bytes) >> 1;
      case 3:
        return (std::uint64_t{1} << random_() % 64) & full(bytes);
      default:
        return any;
    }
  }
  std::uint64_t random() { return random_(); }

 private:
  std::mt19937_64 random_;
};

nic::Wqe random_atomic(Values& values) {
  nic::Wqe wqe;
  const nic::WqeKind kinds[] = {nic::WqeKind::kCompareSwap, nic::WqeKind::kFetchAdd,
                                nic::WqeKind::kMaskedCompareSwap, nic::WqeKind::kMaskedFetchAdd};
  wqe.kind = kinds[values.random() % 4];
  const bool masked =
      wqe.kind == nic::WqeKind::kMaskedCompareSwap || wqe.kind == nic::WqeKind::kMaskedFetchAdd;
  wqe.length = masked && values.random() % 2 == 0 ? 4 : 8;
  wqe.swap_or_add = values(wqe.length);
  if (wqe.kind != nic::WqeKind::kFetchAdd) wqe.compare = values(wqe.length);
  wqe.swap_mask = values(wqe.length);
  wqe.compare_mask = values(wqe.length);
  wqe.boundary = values(wqe.length);
  return wqe;
}

std::uint64_t post(Client& client, const nic::Wqe& wqe, std::uint64_t remote, std::uint64_t local) {
  const auto bytes = static_cast<std::uint32_t>(wqe.length);
  switch (wqe.kind) {
    case nic::WqeKind::kCompareSwap:
      return client.compare_swap(remote, local, wqe.compare, wqe.swap_or_add);
    case nic::WqeKind::kFetchAdd:
      return client.fetch_add(remote, local, wqe.swap_or_add);
    case nic::WqeKind::kMaskedCompareSwap:
      return client.masked_swap(bytes, remote, local,
                                {wqe.swap_or_add, wqe.compare, wqe.swap_mask, wqe.compare_mask});
    default:
      return client.masked_add(bytes, remote, local, wqe.swap_or_add, wqe.boundary);
  }
}

}  // namespace

TEST_CASE("atomics are used if the provider has them for words of their size", "[ofi][double]") {
  if (!have_double()) return;
  FabricDouble& rules = *fabric_double();
  rules.reset();
  rules.offer(std::vector<std::string>{"cxi"});
  const ofi::Fabric fabric(ofi::Library::get(),
                           std::move(ofi::choose_provider(ofi::Library::get(), {}).at(0)), 64);
  for (const int missing : {0, 4, 8}) {
    rules.no_atomics_of = missing;
    const AtomicSupport support = ofi::atomic_support(fabric.info(), fabric.endpoint());
    for (const std::uint64_t bytes : {4u, 8u}) {
      for (const fi_op op : {FI_SUM, FI_BXOR, FI_BOR, FI_BAND, FI_ATOMIC_WRITE, FI_CSWAP})
        CHECK(support.has(bytes, op) == (bytes != static_cast<std::uint64_t>(missing)));
    }
  }
  rules.reset();
}

TEST_CASE("plans of atomics match their WQE", "[ofi]") {
  AtomicSupport all, least;
  for (const std::uint64_t bytes : {4u, 8u}) {
    for (const fi_op op : {FI_SUM, FI_BXOR, FI_BOR, FI_BAND, FI_ATOMIC_WRITE, FI_CSWAP, FI_MSWAP})
      all.add(bytes, op);
    least.add(bytes, FI_CSWAP);
  }
  REQUIRE(least.complete());
  CHECK(!AtomicSupport().complete());
  Values values(11);
  for (int i = 0; i < 20000; ++i) {
    const nic::Wqe wqe = random_atomic(values);
    const std::uint64_t old = i % 3 == 0 ? wqe.compare : values(wqe.length);
    const std::uint64_t expected = nic::atomic_result(wqe, old), mask = full(wqe.length);
    const AtomicPlan plan = plan_atomic(wqe, all);
    if (plan.call != AtomicPlan::Call::kLoop) {
      INFO("kind " << int(wqe.kind) << " bytes " << wqe.length << " op " << plan.op);
      REQUIRE((model(plan.op, old, plan.operand, plan.compare) & mask) == expected);
    }
    const AtomicPlan poor = plan_atomic(wqe, least);
    REQUIRE(poor.op == FI_CSWAP);
  }
  // It uses one operation if there is one, preferably one that most providers have.
  const auto planned = [&](nic::WqeKind kind, std::uint64_t bytes, nic::AtomicOperands operands) {
    nic::Wqe wqe;
    static_cast<nic::AtomicOperands&>(wqe) = operands;
    wqe.kind = kind;
    wqe.length = bytes;
    const AtomicPlan plan = plan_atomic(wqe, all);
    return plan.call == AtomicPlan::Call::kLoop ? -1 : int{plan.op};
  };
  for (const std::uint64_t bytes : {4u, 8u}) {
    const std::uint64_t every = full(bytes);
    const auto swap = [&](std::uint64_t value, std::uint64_t mask, std::uint64_t compared) {
      return planned(nic::WqeKind::kMaskedCompareSwap, bytes,
                     {.swap_or_add = value, .swap_mask = mask, .compare_mask = compared});
    };
    const auto add = [&](std::uint64_t boundary) {
      return planned(nic::WqeKind::kMaskedFetchAdd, bytes, {.boundary = boundary});
    };
    CHECK(swap(5, every, every) == FI_CSWAP);
    CHECK(swap(5, every, 0) == FI_ATOMIC_WRITE);
    CHECK(swap(0, 0, 0) == FI_BOR);
    CHECK(swap(6, 6, 0) == FI_BOR);
    CHECK(swap(9, 6, 0) == FI_BAND);
    CHECK(swap(2, 6, 0) == FI_MSWAP);
    CHECK(swap(5, every, 1) == -1);
    CHECK(swap(5, 7, every) == -1);
    CHECK(add(0) == FI_SUM);
    CHECK(add(every) == FI_BXOR);
    CHECK(add(every >> 1) == FI_BXOR);
    CHECK(add(every ^ every >> 1) == FI_SUM);
    CHECK(add(1) == -1);
  }
}

TEST_CASE("atomics change memory and return the old value", "[ofi]") {
  if (!have_libfabric()) return;
  const Leg leg = GENERATE(from_range(data_legs()));
  const unsigned seed = GENERATE(1u, 2u);
  INFO(leg.name() << " seed " << seed);
  Job job(2, leg);
  Client& client = job[0].to(1);
  Values values(seed);
  for (int i = 0; i < 150; ++i) {
    const nic::Wqe wqe = random_atomic(values);
    const std::uint64_t old = i % 3 == 0 ? wqe.compare : values(wqe.length);
    INFO("step " << i << " kind " << int(wqe.kind) << " bytes " << wqe.length << " old " << old
                 << " operand " << wqe.swap_or_add);
    const std::uint64_t remote = 64 + (wqe.length == 4 ? 4 : 0);
    const std::uint64_t guard = 0x1122334455667788;
    job[1].at<std::uint64_t>(64) = job[1].at<std::uint64_t>(72) = guard;
    std::memcpy(job[1].heap() + remote, &old, wqe.length);
    job[0].at<std::uint64_t>(8) = guard;
    REQUIRE(client.ring_and_wait(post(client, wqe, remote, 8)).ok());

    const std::uint64_t expected = nic::atomic_result(wqe, old);
    std::uint64_t now = 0;
    std::memcpy(&now, job[1].heap() + remote, wqe.length);
    REQUIRE(now == expected);
    if (wqe.length == 4) {
      REQUIRE(abi::swap_bytes(job[0].at<std::uint32_t>(8)) == old);
      REQUIRE(job[0].at<std::uint32_t>(12) == std::uint32_t(guard >> 32));
      REQUIRE(job[1].at<std::uint32_t>(64) == std::uint32_t(guard));
    } else {
      REQUIRE(job[0].at<std::uint64_t>(8) == old);
    }
    REQUIRE(job[1].at<std::uint64_t>(72) == guard);
  }
}

TEST_CASE("an atomic without a result changes memory and stores nothing here", "[ofi]") {
  if (!have_libfabric()) return;
  const Leg leg = GENERATE(from_range(data_legs()));
  INFO(leg.name());
  Job job(2, leg);
  Client& client = job[0].to(1);
  constexpr std::uint64_t kSink = offsetof(abi::InternalArea, sink), kGuard = 0x1122334455667788;
  job[0].at<std::uint64_t>(kSink) = kGuard;
  job[1].at<std::uint64_t>(64) = 5;
  REQUIRE(client.ring_and_wait(client.fetch_add(64, kSink, 2)).ok());
  REQUIRE(client.ring_and_wait(client.masked_add(8, 64, kSink, 3, std::uint64_t{1} << 40)).ok());
  CHECK(job[1].at<std::uint64_t>(64) == 10);
  CHECK(job[0].at<std::uint64_t>(kSink) == kGuard);
}

TEST_CASE("atomics of several PEs to one word are all counted", "[ofi]") {
  if (!have_libfabric()) return;
  const Leg leg = GENERATE(from_range(data_legs()));
  INFO(leg.name());
  constexpr int kPes = 3;
  constexpr std::uint64_t kEach = 100;
  Job job(kPes, leg);
  std::uint64_t last[kPes] = {};
  for (std::uint64_t i = 0; i < kEach; ++i)
    for (int pe = 0; pe < kPes; ++pe) {
      Client& client = job[pe].to(0);
      // No provider has an add with a carry boundary: it must be atomic nevertheless.
      last[pe] = i % 2 == 0 ? client.fetch_add(4096, 512, 1)
                            : client.masked_add(8, 4096, 520, 1, std::uint64_t{1} << 40);
      client.ring();
    }
  for (int pe = 0; pe < kPes; ++pe) REQUIRE(job[pe].to(0).wait(last[pe]).ok());
  CHECK(job[0].at<std::uint64_t>(4096) == kPes * kEach);
}
