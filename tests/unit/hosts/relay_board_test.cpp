// The board alone: what it sends and what it makes of answers; boards with monitors and sockets are
// in tests/hosts.
#include "transport/hosts/relay_board.h"

#include "host/base/error.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <thread>

using namespace gshmem;
using namespace gshmem::hosts;

namespace {

/// A board of two PEs whose other end is this test.
struct Bench {
  std::function<void(std::uint64_t, std::span<const char>)> on_contribution;
  std::function<void(std::uint64_t)> on_expired = [](std::uint64_t) {};
  std::atomic<bool> stop{false};
  RelayBoard board{2,
                   {[this](std::uint64_t n, std::span<const char> data) {
                      if (on_contribution) on_contribution(n, data);
                    },
                    [this](std::uint64_t n) { on_expired(n); }},
                   [this] { return stop.load(); }};

  void answer(std::uint64_t sequence, const std::vector<char>& data) {
    board.deliver(make_frame({.kind = FrameKind::kResult,
                              .sequence = sequence,
                              .detail = static_cast<std::uint32_t>(data.size() / 2)},
                             data));
  }
};

gshmemx_status code_of(const std::function<void()>& call, std::string* text) {
  try {
    call();
  } catch (const Error& error) {
    *text = error.what();
    return error.code();
  }
  return GSHMEMX_SUCCESS;
}

}  // namespace

TEST_CASE("result_of_the_right_collective_is_copied") {
  Bench bench;
  bench.on_contribution = [&](std::uint64_t n, std::span<const char> data) {
    CHECK(data.size() == 2);
    bench.answer(n + 5, {'x', 'x', 'x', 'x'});  // of no call that was made
    bench.answer(n, {'a', 'b', 'c', 'd'});
  };
  for (int i = 0; i < 3; ++i) {
    char all[4] = "";
    bench.board.allgather("ab", all, 2, 10);
    CHECK(std::string(all, 4) == "abcd");
  }
}

TEST_CASE("narrower_result_leaves_zeros") {
  Bench bench;
  bench.on_contribution = [&](std::uint64_t n, std::span<const char>) {
    bench.answer(n, {'a', 'c'});
  };
  char all[4] = {'?', '?', '?', '?'};
  bench.board.allgather("ab", all, 2, 10);
  CHECK(std::string(all, 4) == std::string("a\0c\0", 4));
}

TEST_CASE("timeout_names_the_missing_pe") {
  Bench bench;
  std::string text;
  std::thread monitor;
  bench.on_expired = [&](std::uint64_t) {
    // As the monitor does it, which takes the board's lock for itself.
    monitor = std::thread([&bench] {
      bench.board.deliver(make_frame({.kind = FrameKind::kMissing, .sequence = 1, .pe = 1}));
    });
  };
  CHECK(code_of([&] { bench.board.barrier(0.05); }, &text) == GSHMEMX_ERROR_TIMEOUT);
  monitor.join();
  CHECK(text.find("PE 1 did not reach a host barrier within 0.05 s") != std::string::npos);
}

TEST_CASE("timeout_without_an_answer_is_still_one") {
  Bench bench;
  std::string text;
  CHECK(code_of([&] { bench.board.barrier(0.05); }, &text) == GSHMEMX_ERROR_TIMEOUT);
  CHECK(text.find("PE 0") != std::string::npos);
}

TEST_CASE("stop_ends_the_wait_but_not_a_finished_one") {
  Bench bench;
  bench.stop = true;
  std::string text;
  CHECK(code_of([&] { bench.board.barrier(0); }, &text) == GSHMEMX_ERROR_PEER_FAILED);
  bench.on_contribution = [&](std::uint64_t n, std::span<const char>) { bench.answer(n, {}); };
  CHECK(code_of([&] { bench.board.barrier(0); }, &text) == GSHMEMX_SUCCESS);
}
