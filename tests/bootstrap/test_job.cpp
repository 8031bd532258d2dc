#include "bootstrap/uid/job.h"

#include <catch2/catch.hpp>

#include <set>

using namespace gshmem;
using namespace gshmem::bootstrap;
using Catch::Contains;
using net::Bytes;
using net::ByteView;
using net::Frame;
using net::FrameKind;

namespace {

Frame hello(int rank, std::uint64_t size) {
  return net::make_frame({.kind = FrameKind::kHello,
                          .number = size,
                          .rank = rank,
                          .detail = rank == 0 ? net::kHostsRoot : 0u});
}

Job joined(unsigned size) {
  Job job;
  for (unsigned r = 0; r < size; ++r) REQUIRE_FALSE(job.join(hello(static_cast<int>(r), size)));
  (void)job.take_outgoing();
  return job;
}

Frame contribution(std::uint64_t number, ByteView data) {
  return net::make_frame({.kind = FrameKind::kContribution, .number = number}, data);
}

/// Checks that `ranks`, and no others, receive a failure that contains `part`.
void tells(Job& job, const std::set<int>& ranks, const std::string& part) {
  std::set<int> told;
  for (const auto& [rank, frame] : job.take_outgoing()) {
    CHECK(net::header_of(frame).kind == FrameKind::kFail);
    CHECK_THAT(net::text_of(frame), Contains(part));
    told.insert(rank);
  }
  CHECK(told == ranks);
}

}  // namespace

TEST_CASE("job_welcomes_all_when_the_last_has_joined", "[job]") {
  Job job;
  CHECK_FALSE(job.join(hello(1, 2)));
  CHECK(job.take_outgoing().empty());
  CHECK_FALSE(job.complete());
  CHECK_FALSE(job.join(hello(0, 2)));
  CHECK(job.complete());
  CHECK(job.take_outgoing().size() == 2);
  CHECK(job.root_rank() == 0);
}

TEST_CASE("job_refuses_ranks_that_do_not_belong_to_it", "[job]") {
  Job job;
  CHECK_THAT(job.join(hello(-1, 3)).text, Contains("rank -1 in a job of 3"));
  CHECK_THAT(job.join(hello(3, 3)).text, Contains("rank 3 in a job of 3"));
  CHECK_THAT(job.join(hello(0, 0)).text, Contains("rank 0 in a job of 0"));
  CHECK_THAT(job.join(hello(0, 0xFFFFFFFF)).text, Contains("4294967295"));
  CHECK_THAT(job.join(hello(0, (1u << 20) + 1)).text, Contains("rank 0 in a job of 1048577"));
  CHECK_FALSE(job.join(hello(0, 3)));
  CHECK_THAT(job.join(hello(0, 3)).text, Contains("rank 0 is in the job already"));
  CHECK_THAT(job.join(hello(1, 4)).text, Contains("4 ranks"));
  CHECK_FALSE(job.failure());
  CHECK(job.take_outgoing().empty());
}

TEST_CASE("job_gathers_in_rank_order_in_any_order_of_arrival", "[job]") {
  Job job = joined(2);
  const Bytes a{std::byte{'a'}, std::byte{'A'}}, b{std::byte{'b'}, std::byte{'B'}};
  job.contribute(1, contribution(1, b));
  CHECK(job.take_outgoing().empty());
  job.contribute(0, contribution(1, a));
  const auto out = job.take_outgoing();
  REQUIRE(out.size() == 2);
  const Frame& result = out[0].second;
  CHECK(net::header_of(result).kind == FrameKind::kResult);
  CHECK(net::header_of(result).number == 1);
  const ByteView data = net::payload_of(result);
  CHECK(Bytes(data.begin(), data.end()) == Bytes{a[0], a[1], b[0], b[1]});
}

TEST_CASE("job_names_missing_ranks_after_the_timeout", "[job]") {
  Job joining;
  CHECK_FALSE(joining.join(hello(1, 3)));
  joining.expired(0, 1.5);
  tells(joining, {1}, "init timed out after 1.5 s (GSHMEM_BOOTSTRAP_TIMEOUT): ranks 0, 2");
  CHECK(joining.join(hello(0, 3)).code == GSHMEMX_ERROR_TIMEOUT);

  Job running = joined(3);
  running.contribute(2, contribution(1, {}));
  running.expired(1, 2);
  tells(running, {0, 1, 2}, "barrier timed out after 2 s (GSHMEM_BOOTSTRAP_TIMEOUT): ranks 0, 1");
}

TEST_CASE("job_names_the_call_that_the_others_wait_in", "[job]") {
  Job job = joined(2);
  job.contribute(0, contribution(1, Bytes(4)));
  job.expired(1, 2);
  tells(job, {0, 1}, "allgather timed out after 2 s (GSHMEM_BOOTSTRAP_TIMEOUT): rank 1 did not");
}

TEST_CASE("job_ignores_an_expiry_that_crossed_the_result", "[job]") {
  Job job = joined(1);
  job.contribute(0, contribution(1, {}));
  (void)job.take_outgoing();
  job.expired(1, 1);
  CHECK_FALSE(job.failure());
}

TEST_CASE("job_names_missing_ranks_also_to_a_single_waiter_and_with_its_note", "[job]") {
  Job job = joined(2);
  job.note("no descriptors");
  job.expired(1, 2);  // a rank that has contributed already, or one that falsely claims it
  tells(job, {0, 1},
        "barrier timed out after 2 s (GSHMEM_BOOTSTRAP_TIMEOUT): ranks 0, 1 did not "
        "take part; no descriptors");
}

TEST_CASE("job_sends_nothing_after_its_failure", "[job]") {
  Job job = joined(2);
  job.fail({GSHMEMX_ERROR_SYSTEM, "the first"});
  tells(job, {0, 1}, "the first");
  for (const int rank : {0, 1}) job.contribute(rank, contribution(1, {}));
  job.expired(1, 2);
  job.fail({GSHMEMX_ERROR_SYSTEM, "the second"});
  CHECK(job.take_outgoing().empty());
  CHECK(job.failure().text == "the first");
}

TEST_CASE("job_needs_all_before_anything_else", "[job]") {
  Job early;
  CHECK_FALSE(early.join(hello(0, 2)));
  early.contribute(0, contribution(1, {}));
  tells(early, {0}, "rank 0 sent collective 1 out of turn");

  Job left;
  for (const int rank : {0, 1}) CHECK_FALSE(left.join(hello(rank, 3)));
  left.leave(0);
  tells(left, {1}, "rank 0 left before all had joined");
  CHECK(left.failure().code == GSHMEMX_ERROR_PEER_FAILED);
  CHECK_FALSE(left.deserted());
  left.lost(1, "closed");
  CHECK(left.deserted());

  Job largest;
  CHECK_FALSE(largest.join(hello(1, 1u << 20)));
  CHECK(largest.root_rank() == -1);
  CHECK_FALSE(largest.complete());
}

TEST_CASE("job_distinguishes_a_death_from_a_departure", "[job]") {
  Job job = joined(3);
  job.leave(0);
  CHECK_FALSE(job.failure());
  job.contribute(1, contribution(1, {}));
  tells(job, {1, 2}, "rank 0 left the job while others wait in bootstrap barrier");

  Job other = joined(3);
  other.lost(1, "connection closed");
  tells(other, {0, 2}, "rank 1 died: connection closed");
  other.lost(2, "later");
  CHECK(other.take_outgoing().empty());  // the first failure counts
}

TEST_CASE("job_all_may_leave_after_the_last_collective", "[job]") {
  Job job = joined(2);
  job.contribute(0, contribution(1, {}));
  job.contribute(1, contribution(1, {}));
  job.leave(1);
  CHECK_FALSE(job.deserted());
  job.leave(0);
  CHECK(job.deserted());
  CHECK_FALSE(job.failure());
}

TEST_CASE("job_a_departure_that_is_already_waited_for_fails", "[job]") {
  Job job = joined(2);
  job.contribute(0, contribution(1, {}));
  (void)job.take_outgoing();
  job.leave(1);
  tells(job, {0}, "rank 1 left");
}

TEST_CASE("job_rank_that_has_contributed_may_leave", "[job]") {
  Job job = joined(3);
  job.contribute(0, contribution(1, {}));
  job.leave(0);
  job.contribute(1, contribution(1, {}));
  CHECK_FALSE(job.failure());
  job.contribute(2, contribution(1, {}));
  const auto out = job.take_outgoing();
  REQUIRE(out.size() == 2);
  for (const auto& [rank, frame] : out) CHECK(net::header_of(frame).kind == FrameKind::kResult);
}

TEST_CASE("job_ranks_that_disagree_fail", "[job]") {
  const Bytes four(4), eight(8);
  Job job = joined(3);
  job.contribute(1, contribution(1, four));
  job.contribute(2, contribution(1, eight));
  tells(job, {0, 1, 2},
        "rank 1 is in bootstrap allgather of 4 bytes, rank 2 in bootstrap "
        "allgather of 8 bytes");

  Job mixed = joined(2);
  mixed.contribute(0, contribution(1, {}));
  mixed.contribute(1, contribution(1, four));
  tells(mixed, {0, 1}, "rank 0 is in bootstrap barrier of 0 bytes");

  Job large = joined(2);
  large.contribute(1, contribution(1, Bytes(70000)));
  tells(large, {0, 1}, "rank 1 brings 70000 bytes");

  Job early = joined(2);
  early.contribute(0, contribution(2, {}));
  tells(early, {0, 1}, "out of turn");
  Job twice = joined(2);
  twice.contribute(0, contribution(1, {}));
  twice.contribute(0, contribution(1, {}));
  tells(twice, {0, 1}, "out of turn");
}
