// Tests atomics on memory that only copies reach: none is lost or executed twice, however they are
// batched and however long copies take.
#include "transport/ofi/copied_atomics.h"

#include "host/base/error.h"

#include <catch2/catch.hpp>

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

using namespace gshmem;
using ofi::CopiedAtomics;
using ofi::Ticket;

namespace {

constexpr std::size_t kBytes = 256;

/// Copies that are executed at the request of the test, in any order.
class Copies final : public ofi::MemoryAccess {
 public:
  ofi::Staging allocate(std::size_t bytes) override {
    return {new std::uint8_t[bytes](), std::default_delete<std::uint8_t[]>()};
  }
  Ticket start_write(std::uint64_t offset, const void* from, std::size_t bytes) override {
    ++writes;
    return start([=, this] { std::memcpy(memory + offset, from, bytes); });
  }
  Ticket start_read(std::uint64_t offset, void* to, std::size_t bytes) override {
    ++reads;
    return start([=, this] { std::memcpy(to, memory + offset, bytes); });
  }
  bool done(Ticket ticket) override { return !waiting_.contains(ticket); }
  Ticket start_atomic(std::uint64_t, const nic::Wqe&, std::uint64_t*) override {
    return ofi::kNoTicket;
  }
  bool coherent() const override { return false; }

  void finish(std::mt19937& random) {
    if (waiting_.empty()) return;
    const auto at = std::next(waiting_.begin(), static_cast<int>(random() % waiting_.size()));
    at->second();
    waiting_.erase(at);
  }
  void finish_all() {
    for (auto& [ticket, copy] : waiting_) copy();
    waiting_.clear();
  }

  std::uint8_t memory[kBytes] = {};
  int writes = 0, reads = 0;
  bool fails = false;

 private:
  Ticket start(std::function<void()> copy) {
    require(!fails, GSHMEMX_ERROR_CUDA, "the copy is refused");
    waiting_.emplace(next_, std::move(copy));
    return next_++;
  }
  std::map<Ticket, std::function<void()>> waiting_;
  Ticket next_ = 0;
};

nic::Wqe random_atomic(std::mt19937& random, std::uint64_t bytes) {
  using enum nic::WqeKind;
  constexpr nic::WqeKind kKinds[] = {kCompareSwap, kFetchAdd, kMaskedCompareSwap, kMaskedFetchAdd};
  nic::Wqe wqe;
  wqe.kind = kKinds[random() % 4];
  wqe.length = bytes;
  wqe.swap_or_add = random() % 4;
  wqe.compare = random() % 4;
  wqe.swap_mask = wqe.compare_mask = ~std::uint64_t{0};
  if (random() % 2 == 0) wqe.compare_mask = 0;
  wqe.boundary = random() % 2;
  return wqe;
}

nic::Wqe add_one(std::uint64_t bytes = 8) {
  nic::Wqe wqe;
  wqe.kind = nic::WqeKind::kFetchAdd;
  wqe.length = bytes;
  wqe.swap_or_add = 1;
  return wqe;
}

}  // namespace

TEST_CASE("atomics by copies are sequentially consistent", "[ofi]") {
  const unsigned seed = std::random_device()();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  Copies copies;
  CopiedAtomics atomics(copies);
  std::uint8_t expected[kBytes] = {};
  struct Open {
    Ticket ticket;
    std::uint64_t found, old;
    bool asks;
  };
  std::vector<std::unique_ptr<Open>> open;
  for (int i = 0; i < 5000; ++i) {
    const std::uint64_t bytes = random() % 3 == 0 ? 4 : 8;
    const std::uint64_t at = random() % (32 / bytes) * bytes;  // words that share bytes
    const nic::Wqe wqe = random_atomic(random, bytes);
    auto one = std::make_unique<Open>();
    one->asks = random() % 2 == 0;
    one->old = one->found = 0;
    std::memcpy(&one->old, expected + at, bytes);
    const std::uint64_t result = nic::atomic_result(wqe, one->old);
    std::memcpy(expected + at, &result, bytes);
    one->ticket = atomics.start(at, wqe, one->asks ? &one->found : nullptr);
    REQUIRE(CopiedAtomics::is_own(one->ticket));
    open.push_back(std::move(one));
    for (std::size_t n = random() % 8; n > 0; --n) {
      copies.finish(random);
      atomics.poll();
    }
    std::erase_if(open, [&](const std::unique_ptr<Open>& o) {
      if (!atomics.done(o->ticket)) return false;
      if (o->asks) REQUIRE(o->found == o->old);
      return true;
    });
  }
  while (!open.empty()) {
    copies.finish_all();
    atomics.poll();
    std::erase_if(open, [&](const std::unique_ptr<Open>& o) {
      if (!atomics.done(o->ticket)) return false;
      if (o->asks) REQUIRE(o->found == o->old);
      return true;
    });
  }
  CHECK(std::memcmp(copies.memory, expected, kBytes) == 0);
}

TEST_CASE("a word is set by a swap of all its bits, and by no other", "[ofi]") {
  struct Row {
    std::uint64_t bytes, mask;
    int reads;
  };
  for (const Row& row :
       {Row{4, 0xffffffff, 0}, Row{4, 0x7fffffff, 1}, Row{8, 0xffffffff, 1},
        Row{8, ~std::uint64_t{0}, 0}, Row{8, ~std::uint64_t{8}, 1}, Row{8, ~std::uint64_t{1}, 1}}) {
    INFO(row.bytes << " bytes, " << row.mask);
    Copies copies;
    CopiedAtomics atomics(copies);
    std::memset(copies.memory, 0x99, sizeof(copies.memory));
    nic::Wqe set;
    set.kind = nic::WqeKind::kMaskedCompareSwap;
    set.length = row.bytes;
    set.swap_or_add = 7;
    set.swap_mask = row.mask;
    const Ticket ticket = atomics.start(16, set, nullptr);
    for (int i = 0; i < 2; ++i) {
      copies.finish_all();
      atomics.poll();
    }
    CHECK(atomics.done(ticket));
    CHECK(copies.reads == row.reads);
    std::uint64_t left = 0;
    std::memcpy(&left, copies.memory + 16, sizeof(left));
    const std::uint64_t mask = row.bytes == 4 ? row.mask & 0xffffffff : row.mask;
    CHECK(left == ((0x9999999999999999 & ~mask) | (7 & mask)));
  }
}

TEST_CASE("a refused write fails the atomics that it was for, and no others", "[ofi]") {
  Copies copies;
  CopiedAtomics atomics(copies);
  const Ticket failed = atomics.start(0, add_one(), nullptr);
  copies.finish_all();
  copies.fails = true;
  atomics.poll();
  copies.fails = false;
  CHECK_THROWS_WITH(atomics.done(failed), Catch::Contains("the copy is refused"));
  const Ticket good = atomics.start(0, add_one(), nullptr);
  for (int i = 0; i < 2; ++i) {
    CHECK_FALSE(atomics.done(good));
    copies.finish_all();
    atomics.poll();
  }
  CHECK(atomics.done(good));
  CHECK(copies.memory[0] == 1);
}
