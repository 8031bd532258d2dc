// Tests the engine over memory that it reaches by few large transfers, like a GPU's. Here it is
// plain memory that counts them. Data in it may become visible only after a flush.
#include "transport/softnic/tests/softnic.h"
#include "transport/softnic/tests/through_host_memory.h"
#include "transport/softnic/memory.h"

#include <catch2/catch.hpp>

#include <atomic>

namespace gshmem::test {
namespace {

constexpr std::uint64_t kBytes = 4 << 20;
constexpr std::uint32_t kPiece = 4096;

/// Accessed by the engine's thread only, except for the atomics.
class Batched final : public soft::MemoryAccess {
 public:
  explicit Batched(unsigned first) : storage_(kBytes) {
    for (std::uint64_t i = 0; i < kBytes; ++i)
      storage_[i] = static_cast<std::uint8_t>(first + i * 7 + i / kPiece + (i >> 20) * 3);
  }
  bool write(void* to, const void* from, std::size_t bytes) override {
    if (failing_writes > 0) return --failing_writes, false;
    const auto* source = static_cast<const std::uint8_t*>(from);
    staged_.push_back({static_cast<std::uint8_t*>(to), {source, source + bytes}});
    return holds(to, bytes);
  }
  bool read(const Part* parts, std::size_t count) override {
    if (failing_reads > 0) return --failing_reads, false;
    bool good = flush();
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < count; ++i) {
      good = good && holds(parts[i].from, parts[i].bytes);
      std::memcpy(parts[i].to, parts[i].from, parts[i].bytes);
      bytes += parts[i].bytes;
    }
    ++reads;
    this->parts += count;
    most_bytes = std::max<std::uint64_t>(most_bytes, bytes);
    return good;
  }
  bool atomic(void* word, const nic::Wqe& wqe, std::uint64_t* old) override {
    return flush() && soft::host_memory().atomic(word, wqe, old);
  }
  bool flush() override {
    if (failing_flushes > 0) {
      --failing_flushes;
      if (!staged_.empty() && counts_losses) soft::count_lost_writes();
      staged_.clear();
      return false;
    }
    if (!staged_.empty()) ++flushes;
    for (const Staged& one : staged_) std::copy(one.bytes.begin(), one.bytes.end(), one.to);
    staged_.clear();
    return true;
  }
  [[nodiscard]] bool batched() const override { return is_batched; }

  [[nodiscard]] std::uint8_t* at(std::uint64_t offset) { return storage_.data() + offset; }

  std::atomic<std::uint64_t> reads{0}, parts{0}, most_bytes{0}, flushes{0};
  std::atomic<int> failing_reads{0}, failing_writes{0}, failing_flushes{0};
  std::atomic<bool> counts_losses{true}, is_batched{true};

 private:
  struct Staged {
    std::uint8_t* to;
    Bytes bytes;
  };
  [[nodiscard]] bool holds(const void* from, std::size_t bytes) const {
    const auto* first = static_cast<const std::uint8_t*>(from);
    return first >= storage_.data() && first + bytes <= storage_.data() + storage_.size();
  }
  Bytes storage_;
  std::vector<Staged> staged_;
};

/// Two connected queue pairs of one engine. Those of b are in two memories.
struct BatchedPair {
  explicit BatchedPair(const soft::EngineOptions& options = {}, const QueueOptions& queue = {})
      : engine(options),
        pd(engine.create_pd()),
        near_key(region(near_memory)),
        far_key(region(far_memory)),
        other_key(region(other_memory)),
        a(engine, pd, queue),
        b(engine, pd, queue) {
    a.connect(b.qpn());
    b.connect(a.qpn());
  }
  ~BatchedPair() {
    a.destroy_qp();
    b.destroy_qp();
    for (const std::uint32_t key : {near_key, far_key, other_key}) engine.destroy_region(key);
  }
  std::uint32_t region(Batched& memory) {
    return engine.create_region({.pd = pd,
                                 .address = memory.at(0),
                                 .bytes = kBytes,
                                 .iova = 0,
                                 .access = 15,
                                 .memory = &memory});
  }
  [[nodiscard]] Queue::Far far(std::uint64_t offset) const { return {offset, far_key}; }
  [[nodiscard]] Queue::Far other(std::uint64_t offset) const { return {offset, other_key}; }
  [[nodiscard]] Queue::Near near(std::uint64_t offset, std::uint32_t bytes) const {
    return {offset, bytes, near_key};
  }
  Batched near_memory{1}, far_memory{2}, other_memory{3};
  soft::Engine engine;
  std::uint32_t pd;
  std::uint32_t near_key, far_key, other_key;
  Queue a, b;
};

bool equal(Batched& to, std::uint64_t at, Batched& from, std::uint64_t offset,
           std::uint64_t bytes) {
  return std::memcmp(to.at(at), from.at(offset), bytes) == 0;
}

TEST_CASE("reads_of_batched_memory_share_a_transfer") {
  BatchedPair pair;
  std::uint16_t last = 0;
  for (std::uint32_t i = 0; i < 8; ++i)
    last = pair.a.read(pair.far(2 * i * kPiece), pair.near(i * kPiece, kPiece));
  REQUIRE_FALSE(pair.a.ring_and_wait(last).error());
  for (std::uint32_t i = 0; i < 8; ++i)
    CHECK(equal(pair.near_memory, i * kPiece, pair.far_memory, 2 * i * kPiece, kPiece));
  CHECK(pair.far_memory.reads == 1);
  CHECK(pair.far_memory.parts == 8);
}

TEST_CASE("a_message_of_several_chunks_is_read_from_each_up_to_its_end") {
  // The second chunk ends with its memory, and packets continue from chunk to chunk.
  constexpr std::uint32_t kFirst = 100, kSecond = 1'200'000, kLast = 300, kMore = 400 << 10;
  BatchedPair pair;
  const std::uint32_t read_only = pair.engine.create_region({.pd = pair.pd,
                                                             .address = pair.near_memory.at(0),
                                                             .bytes = kBytes,
                                                             .iova = 0,
                                                             .access = 0,
                                                             .memory = &pair.near_memory});
  Bytes wqe = pair.a.control(0x08, 5, 0);
  Queue::remote(wqe, 0, pair.far_key);
  Queue::data(wqe, 8, kFirst, pair.near_key);
  Queue::data(wqe, kBytes - kSecond, kSecond, read_only);
  Queue::data(wqe, 4096, kLast, pair.near_key);
  pair.a.post(wqe);
  pair.a.write(pair.far(2 << 20), pair.near(1 << 20, kMore), 0);
  const auto last = pair.a.write(pair.far(3 << 20), pair.near(2 << 20, kMore));
  REQUIRE_FALSE(pair.a.ring_and_wait(last).error());
  CHECK(equal(pair.far_memory, 0, pair.near_memory, 8, kFirst));
  CHECK(equal(pair.far_memory, kFirst, pair.near_memory, kBytes - kSecond, kSecond));
  CHECK(equal(pair.far_memory, kFirst + kSecond, pair.near_memory, 4096, kLast));
  CHECK(equal(pair.far_memory, 2 << 20, pair.near_memory, 1 << 20, kMore));
  CHECK(equal(pair.far_memory, 3 << 20, pair.near_memory, 2 << 20, kMore));
  CHECK(pair.near_memory.most_bytes <= 512 << 10);
  pair.engine.destroy_region(read_only);
}

TEST_CASE("reads_between_writes_and_two_memories_do_not_share_a_transfer") {
  BatchedPair pair;
  pair.a.write(pair.far(0), pair.near(0, kPiece));
  pair.a.read(pair.far(16 * kPiece), pair.near(16 * kPiece, kPiece));
  pair.a.write(pair.far(kPiece), pair.near(kPiece, kPiece));
  pair.a.write(pair.far(2 * kPiece), {0, kPiece, pair.other_key});
  const auto last = pair.a.write(pair.far(3 * kPiece), pair.near(2 * kPiece, kPiece));
  REQUIRE_FALSE(pair.a.ring_and_wait(last).error());
  CHECK(equal(pair.far_memory, 0, pair.near_memory, 0, 2 * kPiece));
  CHECK(equal(pair.far_memory, 2 * kPiece, pair.other_memory, 0, kPiece));
  CHECK(equal(pair.far_memory, 3 * kPiece, pair.near_memory, 2 * kPiece, kPiece));
  CHECK(pair.near_memory.reads == 2);
  CHECK(pair.near_memory.parts == 3);
  CHECK(pair.other_memory.reads == 1);
}

TEST_CASE("unreachable_memory_is_an_error_in_every_position") {
  BatchedPair pair(
      {.adversary = GENERATE(as<std::string>{}, "off", "reorder_bytes=1,reorder_writes=0")});
  const auto syndrome = [&](std::uint16_t index) {
    return unsigned{pair.a.ring_and_wait(index).syndrome};
  };
  SECTION("where a write goes") {
    pair.far_memory.failing_writes = 1;
    CHECK(syndrome(pair.a.write_inline(pair.far(0), Bytes(100, 1))) == unsigned{kRemoteOperation});
    CHECK(pair.engine.state(pair.b.qpn()) == soft::QpState::kError);
  }
  SECTION("where a write comes from") {
    pair.near_memory.is_batched = GENERATE(true, false);
    pair.near_memory.failing_reads = 1;
    CHECK(syndrome(pair.a.write(pair.far(0), pair.near(0, 8))) == unsigned{kProtection});
  }
  SECTION("where a result goes") {
    pair.near_memory.failing_writes = 1;
    CHECK(syndrome(pair.a.read(pair.far(0), pair.near(0, 8))) == unsigned{kProtection});
  }
}

TEST_CASE("a_dump_settles_what_trails_in_batched_memory") {
  BatchedPair pair({.adversary = "trailing_read=1"});
  pair.a.read(pair.far(0), pair.near(0, kPiece), 0);
  Bytes dump = pair.a.control(0x23, 2, 0x48);
  Queue::data(dump, kPiece, 8, pair.near_key);
  REQUIRE_FALSE(pair.a.ring_and_wait(pair.a.post(dump)).error());
  CHECK(equal(pair.near_memory, 0, pair.far_memory, 0, kPiece));
}

TEST_CASE("a_write_is_acknowledged_after_its_bytes_are_visible") {
  BatchedPair pair;
  pair.far_memory.failing_flushes = 1;
  CHECK(pair.a.ring_and_wait(pair.a.write(pair.far(0), pair.near(0, kPiece))).syndrome ==
        kRemoteOperation);
}

/// Memory that records each store.
class Noted final : public ThroughHostMemory {
 public:
  Noted() : ThroughHostMemory(false) {}
  bool write(void* to, const void* from, std::size_t bytes) override {
    pieces.push_back({static_cast<std::uint8_t*>(to), bytes});
    return ThroughHostMemory::write(to, from, bytes);
  }

  std::vector<std::pair<std::uint8_t*, std::size_t>> pieces;
};

TEST_CASE("a_packet_is_stored_at_once_or_line_by_line_from_the_last_one") {
  constexpr std::uint64_t kLine = 64;
  const bool reorders = GENERATE(false, true);
  const std::uint32_t bytes = GENERATE(8u, 64u, 65u, 1000u);
  const std::uint64_t offset = GENERATE(0u, 56u, 64u, 103u);
  CAPTURE(reorders, bytes, offset);
  Noted noted;
  Pair pair({.adversary = reorders ? "reorder_bytes=1" : "off"});
  const std::uint32_t key = pair.engine.create_region({.pd = pair.pd,
                                                       .address = pair.target.data(),
                                                       .bytes = 4096,
                                                       .iova = 0,
                                                       .access = 15,
                                                       .memory = &noted});
  for (std::uint32_t i = 0; i < bytes; ++i)
    pair.source.data()[i] = static_cast<std::uint8_t>(i + i / 256);
  REQUIRE_FALSE(pair.a.ring_and_wait(pair.a.write({offset, key}, pair.near(0, bytes))).error());
  CHECK(std::memcmp(pair.target.data() + offset, pair.source.data(), bytes) == 0);
  pair.engine.destroy_region(key);
  const std::uint64_t first = offset / kLine, last = (offset + bytes - 1) / kLine;
  REQUIRE(noted.pieces.size() == (reorders ? last - first + 1 : 1));
  const std::uint8_t* end = pair.target.data() + offset + bytes;
  for (std::size_t i = 0; reorders && i < noted.pieces.size(); ++i) {
    const auto& [to, size] = noted.pieces[i];
    CHECK(to + size == end);
    end = pair.target.data() + std::max(offset, (last - i) * kLine);
    CHECK(to == end);
  }
}

}  // namespace
}  // namespace gshmem::test
