// Tests the order of a queue's messages at their target, in whatever order they arrive; the search
// among doorbells; and how an executor without work waits.
#include "transport/ofi/reorder.h"

#include "transport/ofi/work_queues.h"
#include "transport/ofi/idle_wait.h"

#include <catch2/catch.hpp>

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

using namespace gshmem;
using ofi::MessageBuffer;
using ofi::MessageHeader;
using ofi::MessageKind;
using ofi::Reorder;

namespace {

/// Messages of one queue, in the order of their numbers.
class Messages {
 public:
  MessageBuffer& add(MessageKind kind, std::uint32_t group = 0, std::uint32_t pieces = 0) {
    MessageHeader& header = headers_.emplace_back();
    header.kind = kind;
    header.number = static_cast<std::uint32_t>(buffers_.size());
    header.group = group;
    header.pieces = pieces;
    MessageBuffer& buffer = buffers_.emplace_back();
    buffer.memory = reinterpret_cast<std::uint8_t*>(&header);
    return buffer;
  }
  [[nodiscard]] std::deque<MessageBuffer>& all() { return buffers_; }

 private:
  std::deque<MessageHeader> headers_;
  std::deque<MessageBuffer> buffers_;
};

std::size_t below(std::mt19937& random, std::size_t limit) { return random() % limit; }

/// Checks what an observer at the target may rely on when a message begins.
void check_begin(const MessageHeader& header, const std::vector<const MessageBuffer*>& pending,
                 const std::vector<std::uint32_t>& arrived) {
  const auto any = [&](MessageKind kind) {
    return std::any_of(pending.begin(), pending.end(),
                       [&](const MessageBuffer* b) { return b->header().kind == kind; });
  };
  // No later message may change what an earlier one finds, or miss its result.
  if (header.kind != MessageKind::kAtomic) CHECK_FALSE(any(MessageKind::kAtomic));
  if (header.kind != MessageKind::kWrite) CHECK_FALSE(any(MessageKind::kWrite));
  if (header.kind == MessageKind::kAtomic) CHECK_FALSE(any(MessageKind::kRead));
  if (header.pieces > 0) CHECK(arrived[header.group] >= header.pieces);
}

}  // namespace

TEST_CASE("messages are executed in the order of their numbers, atomics after their writes",
          "[ofi]") {
  const unsigned seed = std::random_device()();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  Messages messages;
  constexpr std::size_t kCount = 2000, kGroups = 256;
  std::vector<std::uint32_t> immediates, arrived(kGroups);
  for (std::size_t i = 0; i < kCount; ++i) {
    const auto kind = static_cast<MessageKind>(below(random, 3));
    const bool grouped = kind == MessageKind::kAtomic && below(random, 2) == 0;
    const auto group = static_cast<std::uint32_t>(i % kGroups);
    const auto pieces = static_cast<std::uint32_t>(grouped ? 1 + below(random, 3) : 0);
    immediates.insert(immediates.end(), pieces, group);
    messages.add(kind, group, pieces);
  }
  // At most 64 are pending, with the immediates of as many.
  Reorder queue;
  std::size_t sent = 0, begun = 0, next_immediate = 0;
  std::vector<MessageBuffer*> flying;
  std::vector<std::uint32_t> writes;
  std::vector<const MessageBuffer*> pending;
  while (begun < kCount || !pending.empty()) {
    while (sent < kCount && sent < begun + 64) {
      MessageBuffer& message = messages.all()[sent++];
      for (std::uint32_t n = message.header().pieces; n > 0; --n)
        writes.push_back(immediates[next_immediate++]);
      flying.push_back(&message);
    }
    const std::size_t what = below(random, 3);
    if (what == 0 && !flying.empty()) {
      std::swap(flying[below(random, flying.size())], flying.back());
      REQUIRE(queue.take(*flying.back()));
      flying.pop_back();
    } else if (what == 1 && !writes.empty()) {
      std::swap(writes[below(random, writes.size())], writes.back());
      queue.arrived(writes.back());
      ++arrived[writes.back()];
      writes.pop_back();
    } else if (!pending.empty()) {
      std::swap(pending[below(random, pending.size())], pending.back());
      queue.ended(pending.back()->header());
      pending.pop_back();
    }
    while (MessageBuffer* const message = queue.next()) {
      if (below(random, 8) == 0) {  // there was no buffer for its answer
        queue.put_back(*message);
        break;
      }
      const MessageHeader& header = message->header();
      REQUIRE(header.number == begun++);
      check_begin(header, pending, arrived);
      arrived[header.group] -= header.pieces;
      pending.push_back(message);
    }
  }
  CHECK(queue.next() == nullptr);
}

TEST_CASE("an abandoned queue holds up no message", "[ofi]") {
  Messages messages;
  messages.add(MessageKind::kWrite);  // it never arrives
  MessageBuffer& waits = messages.add(MessageKind::kAtomic, 3, 2);
  MessageBuffer& later = messages.add(MessageKind::kWrite);
  Reorder queue;
  CHECK(queue.take(waits));
  CHECK(queue.next() == nullptr);
  queue.abandon();
  CHECK(queue.next() == &waits);
  CHECK(queue.take(later));
  CHECK(queue.next() == &later);
  CHECK(queue.next() == nullptr);
}

TEST_CASE("doorbells are found wherever they rang", "[ofi]") {
  constexpr std::uint64_t kQuiet = ~std::uint64_t{0};
  // Tests loads of four words, and the search without them.
  const bool wide = GENERATE(false, true) && ofi::has_wide_loads();
  // The word after the doorbells was rung; it must not be read.
  const bool rung_after = GENERATE(false, true);
  constexpr std::size_t kPage = 64 << 10;
  const auto unmap = [](std::byte* memory) { ::munmap(memory, 2 * kPage); };
  const std::unique_ptr<std::byte, decltype(unmap)> memory(
      static_cast<std::byte*>(
          ::mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
      unmap);
  REQUIRE(memory.get() != MAP_FAILED);
  auto* const after = reinterpret_cast<std::uint64_t*>(memory.get() + kPage);
  if (!rung_after) REQUIRE(::mprotect(after, kPage, PROT_NONE) == 0);
  for (const std::size_t count : {0u, 1u, 31u, 32u, 33u, 64u, 100u, 257u}) {
    std::uint64_t* const words = after - count;
    // The words before them are quiet.
    std::fill(reinterpret_cast<std::uint64_t*>(memory.get()), after, kQuiet);
    CHECK(ofi::first_rung(words, 0, count, wide) == count);
    for (std::size_t rung = 0; rung < count; ++rung) {
      // This doorbell differs from quiet in one bit.
      words[rung] = kQuiet ^ std::uint64_t{1} << rung % 64;
      for (const std::size_t begin : {std::size_t{0}, rung / 2, rung})
        REQUIRE(ofi::first_rung(words, begin, count, wide) == rung);
      REQUIRE(ofi::first_rung(words, rung + 1, count, wide) == count);
      words[rung] = kQuiet;
    }
  }
}
