// Tests the board alone, by threads of one process over private memory. tests/bootstrap (threads)
// and tests/unit/control test what is built on it.
#include "host/base/board.h"

#include "tests/patience.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

using namespace gshmem;

namespace {

class Memory {
 public:
  Memory(int size, std::size_t result) {
    const std::size_t bytes = Board::bytes_of(size, result);
    at_ = std::memset(::operator new(bytes, kAlignment), 0, bytes);
  }
  ~Memory() { ::operator delete(at_, kAlignment); }
  Memory(const Memory&) = delete;
  [[nodiscard]] void* at() const { return at_; }

 private:
  static constexpr std::align_val_t kAlignment{Board::kAlignment};
  void* at_;
};

bool never() { return false; }

std::string text(const Board::Piece& piece) { return {piece.data, piece.bytes}; }

}  // namespace

TEST_CASE("ranks_read_the_contributions_of_all_in_every_round") {
  constexpr int kRanks = 5, kRounds = 2000;
  const Memory memory(kRanks, 0);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int me = 0; me < kRanks; ++me) {
    threads.emplace_back([&, me] {
      Board board(memory.at(), me, kRanks);
      for (int round = 0; round < kRounds; ++round) {
        const std::string mine = std::to_string(round * 10 + me);
        board.bring(mine.data(), mine.size());
        if (board.await_all(Deadline(0), never) != Board::Waited::kDone) ++wrong;
        for (int rank = 0; rank < kRanks; ++rank)
          if (text(board.of(rank)) != std::to_string(round * 10 + rank)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("a_wait_ends_by_the_timeout_or_by_a_reason_and_names_the_missing") {
  const Memory memory(3, 0);
  Board first(memory.at(), 0, 3), third(memory.at(), 2, 3);
  first.bring(nullptr, 0);
  CHECK(first.await_all(Deadline(0.03), never) == Board::Waited::kTimeout);
  CHECK(first.missing(first.number()) == std::vector<int>{1, 2});
  CHECK(first.await_all(Deadline(0), [] { return true; }) == Board::Waited::kInterrupted);
  third.bring(nullptr, 0);
  CHECK(first.missing(first.number()) == std::vector<int>{1});
  CHECK(first.missing(0).empty());
  CHECK_FALSE(first.departed(1));
  Board(memory.at(), 1, 3).depart();
  CHECK(first.departed(1));
  Board second(memory.at(), 1, 3);
  second.bring(nullptr, 0);
  // The call that ends the wait comes after the others.
  CHECK(first.await_all(Deadline(0), [] { return true; }) == Board::Waited::kDone);
}

TEST_CASE("a_result_from_outside_is_visible_after_its_release") {
  const Memory memory(2, 16);
  Board leader(memory.at(), 0, 2);
  std::string got;
  std::thread other([&] {
    Board board(memory.at(), 1, 2);
    board.bring(nullptr, 0);
    if (board.await_release(Deadline(0), never) == Board::Waited::kDone)
      got.assign(board.result(), 5);
  });
  leader.bring(nullptr, 0);
  CHECK(leader.await_all(Deadline(0), never) == Board::Waited::kDone);
  CHECK(leader.reported_missing() == -1);
  leader.report_missing(leader.number(), 7);
  CHECK(leader.reported_missing() == 7);
  std::memcpy(leader.result(), "hello", 5);
  leader.release(leader.number());
  other.join();
  CHECK(got == "hello");
  leader.bring(nullptr, 0);
  CHECK(leader.reported_missing() == -1);
}

namespace {

constexpr std::chrono::milliseconds kSoon(6);
using Time = std::chrono::steady_clock::time_point;
using Looks = std::function<void()>;

}  // namespace
