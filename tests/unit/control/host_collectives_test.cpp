// Collectives of a host's first PE; the test is the tree and the other hosts.
#include "host/control/host_collectives.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

using namespace gshmem;
using namespace gshmem::control;
using net::Frame;
using net::FrameKind;

namespace {

struct Rig {
  explicit Rig(const std::vector<std::string>& hosts, int me = 0)
      : group(group_hosts(hosts, me)),
        memory(HostCollectives::board_bytes(group) / Board::kAlignment + 1),
        collectives(group, memory.data(),
                    {.contribute = [this](const Frame& frame) { hear(frame); },
                     .expired =
                         [this](std::uint64_t number) {
                           expired.push_back(number);
                           if (on_expired) on_expired(number);
                         },
                     .stopped =
                         [this] {
                           if (on_look) on_look();
                           return stopped;
                         }}) {}

  void hear(const Frame& frame) {
    said.push_back(frame);
    const net::FrameHeader header = net::header_of(frame);
    if (header.kind == FrameKind::kContribution && answers) return result(header.number, {0, true});
    if (header.kind == FrameKind::kPart && on_part) on_part(header);
  }
  void result(std::uint64_t number, const Rows& rows, const std::string& bytes = "") {
    collectives.deliver(
        rows_frame(FrameKind::kResult, number, rows, std::as_bytes(std::span(bytes))));
  }
  void part(std::uint64_t number, int from, const std::string& bytes) {
    collectives.deliver(net::make_frame({.kind = FrameKind::kPart, .number = number, .rank = from},
                                        std::as_bytes(std::span(bytes))));
  }
  template <class Call>
  std::string error_of(gshmemx_status code, const Call& call) {
    try {
      call();
    } catch (const Error& error) {
      CHECK(error.code() == code);
      return error.what();
    }
    return "";
  }

  struct alignas(Board::kAlignment) Line {
    char bytes[Board::kAlignment] = {};
  };
  HostGroup group;
  std::vector<Line> memory;
  std::vector<Frame> said;
  std::vector<std::uint64_t> expired;
  std::string stopped;
  bool answers = true;  ///< contributions: all have come
  std::function<void(const net::FrameHeader&)> on_part;
  std::function<void(std::uint64_t)> on_expired;
  std::function<void()> on_look;  ///< at what may end a wait
  HostCollectives collectives;
};

std::string text_in(const Frame& frame) {
  const net::ByteView bytes = net::payload_of(frame);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

TEST_CASE("parts_of_an_alltoall_count_once_of_its_number_and_of_pes_that_there_are") {
  Rig rig({"a", "b", "c"});
  rig.on_part = [&](const net::FrameHeader& mine) {
    if (mine.detail != 2) return;
    rig.part(mine.number - 1, 1, "old");
    rig.part(mine.number, -1, "bad");
    rig.part(mine.number, 3, "bad");
    rig.part(mine.number, 0, "own");
    rig.part(mine.number, 0, "two");
    rig.part(mine.number, 1, "x");  // less than others bring
    rig.part(mine.number, 2, "more");
    rig.part(mine.number, 2, "two");
  };
  std::string got = "?????????";
  rig.collectives.alltoall("abcdefghi", got.data(), 3);
  CHECK(got == std::string("ownx\0\0mor", 9));
  REQUIRE(rig.said.size() == 5);  // between two meetings
  for (const std::size_t pe : {0u, 1u, 2u}) {
    const net::FrameHeader header = net::header_of(rig.said[pe + 1]);
    CHECK(header.rank == 0);
    CHECK(header.detail == pe);
    CHECK(header.number == 1);
    CHECK(text_in(rig.said[pe + 1]) == std::string("abcdefghi").substr(3 * pe, 3));
  }
  rig.part(1, 1, "it is over");
  CHECK(got == std::string("ownx\0\0mor", 9));
}

TEST_CASE("who_brings_no_part_is_named_and_what_comes_later_is_dropped") {
  Rig rig({"a", "b", "c", "d"});
  rig.collectives.set_timeout(0.03);
  rig.on_part = [&](const net::FrameHeader& mine) {
    if (mine.detail == 0) rig.part(mine.number, 0, "0");
    if (mine.detail == 2) rig.part(mine.number, 2, "2");
  };
  std::string got = "????";
  const auto call = [&] { rig.collectives.alltoall("abcd", got.data(), 1); };
  const std::string why = "no data of PE 1, and of 2 PEs in all, within 0.03 s";
  CHECK(rig.error_of(GSHMEMX_ERROR_TIMEOUT, call) == why);
  rig.part(1, 1, "1");
  CHECK(got == "0?2?");
  CHECK(rig.error_of(GSHMEMX_ERROR_TIMEOUT, call) == why);
  CHECK(rig.error_of(GSHMEMX_ERROR_TIMEOUT, [&] { rig.collectives.barrier(); }) == why);
}

TEST_CASE("a_reason_to_give_up_ends_the_wait_for_parts_and_for_a_result") {
  Rig parts({"a", "b"}), result({"a", "b"});
  parts.on_part = [&](const net::FrameHeader&) { parts.stopped = "PE 1 died"; };
  std::string got = "??";
  CHECK(parts.error_of(GSHMEMX_ERROR_PEER_FAILED,
                       [&] { parts.collectives.alltoall("ab", got.data(), 1); }) == "PE 1 died");
  result.answers = false;
  result.stopped = "PE 1 left";
  CHECK(result.error_of(GSHMEMX_ERROR_PEER_FAILED, [&] { result.collectives.barrier(); }) ==
        "PE 1 left");
  CHECK(result.expired.empty());
}

TEST_CASE("who_is_missing_on_other_hosts_is_told_by_the_root_which_is_asked") {
  Rig told({"a", "b"}), zero({"a", "b"}, 1), late({"a", "b"}), stopped({"a", "b"});
  for (Rig* rig : {&told, &zero, &late, &stopped}) {
    rig->answers = false;
    rig->collectives.set_timeout(0.02);
  }
  const auto barrier_of = [](Rig& rig, gshmemx_status code) {
    return rig.error_of(code, [&] { rig.collectives.barrier(); });
  };
  told.on_expired = [&](std::uint64_t number) {
    told.collectives.deliver(
        net::make_frame({.kind = FrameKind::kMissing, .number = number, .rank = 1}));
  };
  CHECK(barrier_of(told, GSHMEMX_ERROR_TIMEOUT) ==
        "PE 1 did not reach a host barrier within 0.02 s");
  CHECK(told.expired == std::vector<std::uint64_t>{1});
  zero.on_expired = [&](std::uint64_t number) {
    zero.collectives.deliver(
        net::make_frame({.kind = FrameKind::kMissing, .number = number, .rank = 0}));
  };
  const Deadline soon(1.5);  // the root may take two seconds
  CHECK(barrier_of(zero, GSHMEMX_ERROR_TIMEOUT) ==
        "PE 0 did not reach a host barrier within 0.02 s");
  CHECK_FALSE(soon.passed());
  // It has come meanwhile.
  late.on_expired = [&](std::uint64_t number) { late.result(number, {0, true}); };
  CHECK(barrier_of(late, GSHMEMX_SUCCESS).empty());
  CHECK(late.expired == std::vector<std::uint64_t>{1});
  stopped.on_expired = [&](std::uint64_t) { stopped.stopped = "PE 0 was stopped"; };
  CHECK(barrier_of(stopped, GSHMEMX_ERROR_PEER_FAILED) == "PE 0 was stopped");
}

TEST_CASE("results_are_taken_when_they_are_as_long_as_they_say_and_fit_a_piece") {
  Rig rig({"a", "b", "a"});
  rig.answers = false;
  Board other(rig.memory.data(), 1, 2);  // of PE 2
  other.bring("c", 1);
  const std::string before(Board::kPieceBytes + 1, '-');
  std::string got = "???";
  rig.on_expired = [&](std::uint64_t number) {
    rig.result(number, {Board::kPieceBytes + 1, true}, before);
    rig.result(number, {1, false}, "ab");
    rig.result(number, {1, true}, "abc");
    CHECK(other.await_release(Deadline(0.001), [] { return false; }) == Board::Waited::kTimeout);
    rig.result(number, {1, false}, "acb");  // by host
  };
  rig.collectives.set_timeout(0.02);
  rig.collectives.allgather("a", got.data(), 1);
  CHECK(got == "abc");
  // What this host brings.
  REQUIRE(rig.said.size() == 1);
  CHECK(text_in(rig.said[0]) == "ac");
  CHECK_FALSE(rows_of(net::header_of(rig.said[0])).alike);
  // A whole piece that is alike everywhere.
  const std::string whole(Board::kPieceBytes, 'w');
  std::string all(3 * whole.size(), '?');
  other.bring(whole.data(), whole.size());
  rig.on_expired = [&](std::uint64_t number) {
    rig.result(number, {Board::kPieceBytes, true}, whole);
  };
  rig.collectives.allgather(whole.data(), all.data(), whole.size());
  CHECK(all == whole + whole + whole);
  CHECK(rows_of(net::header_of(rig.said[1])).alike);
  CHECK(text_in(rig.said[1]) == whole);
  // PEs in different calls: less is filled with zeros, on this host and in what comes.
  other.bring("cc", 2);
  rig.on_expired = [&](std::uint64_t number) { rig.result(number, {2, false}, "xxyyzz"); };
  std::string twice = "??????";
  rig.collectives.allgather("b", twice.data(), 1);
  CHECK(text_in(rig.said[2]) == std::string("b\0cc", 4));
  CHECK(twice == "xzy???");
  other.bring("", 0);
  rig.on_expired = [&](std::uint64_t number) { rig.result(number, {1, true}, "x"); };
  rig.collectives.allgather("bb", twice.data(), 2);
  CHECK(twice == std::string("x\0x\0x\0", 6));
}

TEST_CASE("what_is_more_than_a_piece_goes_in_pieces_and_a_barrier_brings_nothing") {
  Rig rig({"a", "b"});
  const std::string mine(Board::kPieceBytes + 5, 'm');
  std::string all(2 * mine.size(), '?');
  rig.collectives.allgather(mine.data(), all.data(), mine.size());
  rig.collectives.barrier();
  std::vector<std::size_t> widths;
  for (const Frame& frame : rig.said) widths.push_back(rows_of(net::header_of(frame)).width);
  CHECK(widths == std::vector<std::size_t>{Board::kPieceBytes, 5, 0});
  for (const Frame& frame : rig.said) CHECK(rows_of(net::header_of(frame)).alike);  // one PE
  CHECK(all == std::string(all.size(), '\0'));  // the other one brings nothing
}

TEST_CASE("rows_of_a_host_are_alike_when_each_of_them_is") {
  Rig rig({"a", "a", "a", "b"});
  Board second(rig.memory.data(), 1, 3), third(rig.memory.data(), 2, 3);
  const auto brought = [&](const std::string& two, const std::string& three) {
    second.bring(two.data(), two.size());
    third.bring(three.data(), three.size());
    std::string all = "????";
    rig.collectives.allgather("a", all.data(), 1);
    const Frame& frame = rig.said.back();
    return (rows_of(net::header_of(frame)).alike ? "alike " : "") + text_in(frame);
  };
  CHECK(brought("a", "a") == "alike a");
  CHECK(brought("c", "a") == "aca");
  CHECK(brought("a", "c") == "aac");
}

TEST_CASE("an_alltoall_on_one_host_sends_nothing_and_one_of_no_bytes_needs_no_memory") {
  Rig here({"a", "a"}), rig({"a", "b"});
  here.collectives.set_timeout(0.1);
  Board other(here.memory.data(), 1, 2);
  other.bring("34", 2);
  std::string got = "??";
  here.collectives.alltoall("12", got.data(), 1);
  CHECK(got == "13");
  CHECK(here.said.empty());
  rig.on_part = [&](const net::FrameHeader& mine) {
    rig.part(mine.number, static_cast<int>(mine.detail), "");
  };
  rig.collectives.alltoall(nullptr, nullptr, 0);
  CHECK(rig.said.size() == 4);
}

namespace {

/// PE 0, asleep in an alltoall, is awake soon after the last part has come. It looks by itself
/// every 10 ms.
bool is_woken_by_the_last_part() {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kSoon(6);
  Rig rig({"a", "b", "c"});
  rig.on_part = [&](const net::FrameHeader& mine) {
    if (mine.detail != 2) rig.part(mine.number, static_cast<int>(mine.detail), "-");
  };
  Clock::time_point looked, came;
  std::atomic<bool> has_looked{false};
  rig.on_look = [&] {
    if (has_looked) return;
    looked = Clock::now();
    has_looked = true;
  };
  std::thread last([&] {
    while (!has_looked) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    came = Clock::now();
    rig.part(1, 2, "-");
  });
  std::string got = "???";
  rig.collectives.alltoall("abc", got.data(), 1);
  const Clock::time_point over = Clock::now();
  last.join();
  return came - looked < kSoon / 2 && over - came < kSoon;
}

}  // namespace

TEST_CASE("who_waits_for_parts_is_woken_by_the_last_one") {
  int rounds = 0;  // a busy machine may take its time in most of them
  while (!is_woken_by_the_last_part()) REQUIRE(++rounds < 200);
}

TEST_CASE("who_of_this_host_has_not_come_is_known") {
  Rig rig({"a", "a", "b"});
  Board other(rig.memory.data(), 1, 2);
  CHECK(rig.collectives.missing_here(1) == 0);
  rig.collectives.set_timeout(0.02);
  CHECK(rig.error_of(GSHMEMX_ERROR_TIMEOUT, [&] { rig.collectives.barrier(); }) ==
        "PE 1 did not reach a host barrier within 0.02 s");
  CHECK(rig.expired.empty());  // the root need not be asked
  CHECK(rig.collectives.missing_here(1) == 1);
  other.bring(nullptr, 0);
  CHECK(rig.collectives.missing_here(1) == -1);
  Rig second({"a", "a", "b"}, 1);
  second.collectives.set_timeout(0.02);
  CHECK(second.error_of(GSHMEMX_ERROR_TIMEOUT, [&] { second.collectives.barrier(); }) ==
        "PE 0 did not reach a host barrier within 0.02 s");
}
