// Tests what a queue orders: a signal is never visible before its payload, and reads see earlier
// writes.
#include "tests/ofi/job.h"
#include "tests/patience.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <thread>

using namespace gshmem;
using namespace gshmem::test;

namespace {

std::uint64_t acquire(std::uint64_t& word) {
  return std::atomic_ref<std::uint64_t>(word).load(std::memory_order_acquire);
}

constexpr std::uint64_t kSignal = 64, kAck = 128, kPayload = 4096;

/// Sends rounds of payloads in random chunks, followed by a signal of a random kind.
class Sender {
 public:
  Sender(Pe& me, int peer, unsigned seed) : me_(me), client_(me.to(peer)), random_(seed) {}

  void round(std::uint64_t number, std::uint64_t words) {
    for (std::uint64_t i = 0; i < words; ++i)
      me_.at<std::uint64_t>(kPayload + i * 8) = number * 1000003 + i;
    for (std::uint64_t i = 0; i < words;) {
      const std::uint64_t n = std::min<std::uint64_t>(words - i, 1 + random_() % 3000);
      client_.write(kPayload + i * 8, kPayload + i * 8, static_cast<std::uint32_t>(n * 8), kPlain);
      if (random_() % 4 == 0) client_.ring();
      i += n;
    }
    std::uint64_t last = 0;
    switch (random_() % 3) {
      case 0:
        last = client_.fetch_add(kSignal, 8, 1);
        break;
      case 1:
        last = client_.masked_swap(8, kSignal, 8, {number, 0, ~std::uint64_t{0}, 0});
        break;
      default: {  // a fenced write is one, too, after a read
        client_.read(kPayload, 16, 8, kPlain);
        std::vector<std::uint8_t> value(8);
        std::memcpy(value.data(), &number, 8);
        last = client_.write_inline(kSignal, value, kSignalled | kFenced);
      }
    }
    client_.ring();
    last_ = last;
  }
  Outcome finish() { return client_.wait(last_); }

 private:
  Pe& me_;
  Client& client_;
  std::mt19937 random_;
  std::uint64_t last_ = 0;
};

/// Waits for a signal; returns a description of the first error, or an empty text.
std::string check_round(Pe& me, std::uint64_t number, std::uint64_t words) {
  const auto limit =
      std::chrono::steady_clock::now() + std::chrono::seconds(30 * gshmem::test::kPatience);
  while (acquire(me.at<std::uint64_t>(kSignal)) != number) {
    if (std::chrono::steady_clock::now() > limit) return "no signal in 30 s";
    std::this_thread::sleep_for(std::chrono::microseconds(5));
  }
  for (std::uint64_t i = 0; i < words; ++i) {
    const std::uint64_t got = me.at<std::uint64_t>(kPayload + i * 8);
    if (got != number * 1000003 + i)
      return strprintf("round %llu, word %llu of %llu: %llu",
                       static_cast<unsigned long long>(number), static_cast<unsigned long long>(i),
                       static_cast<unsigned long long>(words),
                       static_cast<unsigned long long>(got));
  }
  return {};
}

}  // namespace

TEST_CASE("a signal is never visible before its payload", "[ofi]") {
  if (!have_libfabric()) return;
  const Leg leg = GENERATE(from_range(order_legs()));
  const unsigned seed = std::random_device()();
  INFO(leg.name() << " seed " << seed);
  std::printf("%s: seed %u\n", leg.name().c_str(), seed);
  constexpr std::uint64_t kRounds = 60;
  Job job(2, leg);
  std::mt19937 random(seed);
  std::vector<std::uint64_t> words(kRounds + 1);
  for (std::uint64_t& n : words)
    n = random() % 8 == 0 ? 20000 + random() % 20000 : random() % 50 + 1;

  std::string wrong;
  std::thread receiver([&] {  // acknowledges each round before the next one overwrites it
    Client& back = job[1].to(0);
    for (std::uint64_t round = 1; round <= kRounds && wrong.empty(); ++round) {
      wrong = check_round(job[1], round, words[round]);
      job[1].at<std::uint64_t>(8) = round;
      if (!back.ring_and_wait(back.write(kAck, 8, 8)).ok()) wrong = "acknowledgement failed";
    }
  });
  std::string stopped;
  Sender sender(job[0], 1, seed);
  for (std::uint64_t round = 1; round <= kRounds && stopped.empty(); ++round) {
    sender.round(round, words[round]);
    if (!sender.finish().ok()) stopped = "sending failed";
    const auto limit =
        std::chrono::steady_clock::now() + std::chrono::seconds(40 * gshmem::test::kPatience);
    while (stopped.empty() && acquire(job[0].at<std::uint64_t>(kAck)) != round) {
      if (std::chrono::steady_clock::now() > limit) stopped = "no acknowledgement in 40 s";
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
  receiver.join();
  CHECK(wrong == "");
  CHECK(stopped == "");
}

TEST_CASE("a word that was written, polled and cleared does not come back", "[ofi]") {
  if (!have_libfabric()) return;
  std::vector<Leg> all = legs();
  if (fabric_double() != nullptr)
    all.insert(all.end(), {{"tcp;ofi_rxm", "auto"}, {"efa/efa", "auto"}});
  const Leg leg = GENERATE_COPY(from_range(all));
  const std::size_t bytes = GENERATE(as<std::size_t>{}, 2, 4, 8);
  INFO(leg.name() << ", " << bytes << " bytes");
  Job job(2, leg);
  Client& client = job[0].to(1);
  constexpr std::uint64_t kWord = 64, kRounds = 50;
  constexpr std::uint64_t kBeside = 0x5a5a5a5a5a5a5a5a;
  const std::uint64_t at = kWord + 8 - bytes;  // of the word that has neighbours
  const auto bits = [&](std::uint64_t value) { return value << (64 - 8 * bytes); };
  std::uint64_t& word = job[1].at<std::uint64_t>(kWord);
  const std::uint64_t others = bytes == 8 ? 0 : kBeside >> (8 * bytes);
  word = others;
  const auto limit =
      std::chrono::steady_clock::now() + std::chrono::seconds(30 * gshmem::test::kPatience);
  for (std::uint64_t round = 1; round <= kRounds; ++round) {
    std::vector<std::uint8_t> value(bytes);
    std::memcpy(value.data(), &round, bytes);
    const std::uint64_t last = client.write_inline(at, value);
    client.ring();
    while (acquire(word) == others && std::chrono::steady_clock::now() < limit) continue;
    CHECK(std::atomic_ref(word).exchange(others) == (others | bits(round)));
    REQUIRE(client.wait(last).ok());
    REQUIRE(acquire(word) == others);
  }
  // The other half of the word.
  word = kBeside;
  std::uint64_t expected = kBeside;
  std::memset(&expected, 7, bytes);
  const std::vector<std::uint8_t> sevens(bytes, 7);
  REQUIRE(client.ring_and_wait(client.write_inline(kWord, sevens)).ok());
  CHECK(acquire(word) == expected);
}

TEST_CASE("reads and atomics see earlier writes", "[ofi]") {
  if (!have_libfabric()) return;
  const Leg leg = GENERATE(from_range(order_legs()));
  INFO(leg.name());
  Job job(2, leg);
  Client& client = job[0].to(1);
  constexpr std::uint64_t kRemote = 8192, kBack = 1 << 20;
  for (std::uint64_t i = 1; i <= 100; ++i) {
    job[0].at<std::uint64_t>(0) = i;
    // Large enough to be pending while the others are issued.
    client.write(kRemote + 8, 8, 150000, kPlain);
    client.write(kRemote, 0, 8, kPlain);
    client.fetch_add(kRemote, 16, 1000, kPlain);
    const std::uint64_t last = client.read(kRemote, kBack, 8);
    REQUIRE(client.ring_and_wait(last).ok());
    REQUIRE(job[0].at<std::uint64_t>(16) == i);
    REQUIRE(job[0].at<std::uint64_t>(kBack) == i + 1000);
  }
}
