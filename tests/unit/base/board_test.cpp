// The board alone: threads of one process over memory of theirs. What is made of it is tested in
// tests/bootstrap (threads) and tests/unit/control.
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

TEST_CASE("ranks_read_what_all_have_brought_round_after_round") {
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

TEST_CASE("a_piece_says_how_much_follows_it") {
  const Memory memory(1, 0);
  Board board(memory.at(), 0, 1);
  const std::string data(Board::kPieceBytes + 100, 'x');
  board.bring(data.data(), data.size());
  CHECK(board.of(0).bytes == Board::kPieceBytes);
  CHECK(board.of(0).left == data.size());
  board.bring(data.data() + Board::kPieceBytes, 100);
  CHECK(board.of(0).bytes == 100);
  CHECK(board.of(0).left == 100);
}

TEST_CASE("a_wait_ends_by_the_time_or_by_a_reason_and_names_who_is_missing") {
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
  // What ends the wait comes after the others.
  CHECK(first.await_all(Deadline(0), [] { return true; }) == Board::Waited::kDone);
}

TEST_CASE("a_wait_looks_every_10_ms_at_what_may_interrupt_it") {
  const Memory memory(2, 0);
  Board board(memory.at(), 0, 2);
  board.bring(nullptr, 0);
  int looks = 0;
  const auto begin = std::chrono::steady_clock::now();
  CHECK(board.await_all(Deadline(0), [&looks] { return ++looks > 10; }) ==
        Board::Waited::kInterrupted);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  CHECK(took.count() > 0.09);  // it sleeps
  CHECK(took.count() < 0.5 * test::kPatience);
}

TEST_CASE("a_result_from_outside_leaves_what_ranks_bring") {
  constexpr std::size_t kResult = 3 * Board::kPieceBytes;
  const Memory memory(2, kResult);
  Board first(memory.at(), 0, 2), second(memory.at(), 1, 2);
  CHECK(first.result() + kResult == static_cast<char*>(memory.at()) + Board::bytes_of(2, kResult));
  for (int round = 0; round < 2; ++round) {
    const std::string a(Board::kPieceBytes, 'a'), b(Board::kPieceBytes, 'b');
    first.bring(a.data(), a.size());
    second.bring(b.data(), b.size());
    std::memset(first.result(), 'r', kResult);
    CHECK(text(second.of(0)) == a);
    CHECK(text(first.of(1)) == b);
    CHECK(first.missing(first.number()).empty());
    CHECK(first.await_all(Deadline(0), never) == Board::Waited::kDone);
  }
  CHECK_FALSE(first.departed(0));
  CHECK_FALSE(first.departed(1));
}

TEST_CASE("a_result_from_outside_is_there_when_it_is_released") {
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
  CHECK(leader.told_missing() == -1);
  leader.tell_missing(leader.number(), 7);
  CHECK(leader.told_missing() == 7);
  std::memcpy(leader.result(), "hello", 5);
  leader.release(leader.number());
  other.join();
  CHECK(got == "hello");
  leader.bring(nullptr, 0);
  CHECK(leader.told_missing() == -1);
}

namespace {

constexpr std::chrono::milliseconds kSoon(6);
using Time = std::chrono::steady_clock::time_point;
using Looks = std::function<void()>;

/// The first of two ranks, asleep in `wait` for the second time, is awake soon after `wake` by the
/// second one. A rank that nobody wakes looks by itself every 10 ms: then it calls `wait`'s second
/// argument. A busy machine may take its time in most rounds.
template <class Wait, class Wake>
bool is_woken(const Wait& wait, const Wake& wake) {
  for (int round = 0; round < 200; ++round) {
    const Memory memory(2, 0);
    Board first(memory.at(), 0, 2), second(memory.at(), 1, 2);
    first.bring(nullptr, 0);
    Time looked, over;
    int looks = 0;
    std::atomic<bool> has_looked{false};
    std::thread waiting([&] {
      wait(first, [&] {
        if (++looks != 2) return;
        looked = std::chrono::steady_clock::now();
        has_looked = true;
      });
      over = std::chrono::steady_clock::now();
    });
    while (!has_looked) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const auto begin = std::chrono::steady_clock::now();
    wake(second);
    waiting.join();
    if (begin - looked < kSoon / 2 && over - begin < kSoon) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("who_sleeps_is_woken_by_what_it_waits_for_and_by_what_may_end_that") {
  const Deadline forever(0);
  const auto unless = [](const Looks& looks, auto end) {
    return [&looks, end] {
      looks();
      return end();
    };
  };
  const auto all = [&](Board& rank, const Looks& looks) {
    (void)rank.await_all(forever, unless(looks, never));
  };
  const auto result = [&](Board& rank, const Looks& looks) {
    (void)rank.await_release(forever, unless(looks, never));
  };
  CHECK(is_woken(all, [](Board& rank) { rank.bring(nullptr, 0); }));
  CHECK(is_woken(result, [](Board& rank) { rank.release(1); }));
  const auto all_or_gone = [&](Board& rank, const Looks& looks) {
    (void)rank.await_all(forever, unless(looks, [&] { return rank.departed(1); }));
  };
  const auto result_or_missing = [&](Board& rank, const Looks& looks) {
    (void)rank.await_release(forever, unless(looks, [&] { return rank.told_missing() == 5; }));
  };
  CHECK(is_woken(all_or_gone, [](Board& rank) { rank.depart(); }));
  CHECK(is_woken(result_or_missing, [](Board& rank) { rank.tell_missing(1, 5); }));
}
