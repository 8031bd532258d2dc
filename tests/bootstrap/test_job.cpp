#include "bootstrap/uid/job.h"

#include <catch2/catch.hpp>

#include <set>

using namespace gshmem;
using namespace gshmem::bootstrap;
using Catch::Contains;

namespace {

const Cookie kCookie{std::byte{1}, std::byte{2}};

Hello hello(unsigned rank, unsigned size) { return {kCookie, rank, size, rank == 0}; }

Job joined(unsigned size) {
  Job job(kCookie);
  for (unsigned r = 0; r < size; ++r) REQUIRE_FALSE(job.join(hello(r, size)));
  (void)job.take_outgoing();
  return job;
}

Gather gather(std::uint64_t number, ByteView data) { return {number, Operation::kAllgather, data}; }

/// Everyone in `ranks`, and nobody else, is told of a failure that contains `part`.
void tells(Job& job, const std::set<int>& ranks, const std::string& part) {
  std::set<int> told;
  for (const auto& [rank, frame] : job.take_outgoing()) {
    const auto fail = decode_fail(ByteView(*frame).subspan(FrameHeader::kBytes));
    REQUIRE(fail);
    CHECK_THAT(fail->text, Contains(part));
    told.insert(rank);
  }
  CHECK(told == ranks);
}

}  // namespace

TEST_CASE("job_welcomes_all_when_the_last_has_joined", "[job]") {
  Job job(kCookie);
  CHECK_FALSE(job.join(hello(1, 2)));
  CHECK(job.take_outgoing().empty());
  CHECK_FALSE(job.complete());
  CHECK_FALSE(job.join(hello(0, 2)));
  CHECK(job.complete());
  CHECK(job.take_outgoing().size() == 2);
  CHECK(job.root_rank() == 0);
}

TEST_CASE("job_refuses_who_does_not_belong", "[job]") {
  Job job(kCookie);
  Hello other = hello(0, 3);
  other.cookie[5] = std::byte{9};
  CHECK_THAT(job.join(other).text, Contains("another job"));
  CHECK_THAT(job.join(hello(3, 3)).text, Contains("rank 3 in a job of 3"));
  CHECK_THAT(job.join(hello(0, 0)).text, Contains("rank 0 in a job of 0"));
  CHECK_THAT(job.join(hello(0, 0xFFFFFFFF)).text, Contains("4294967295"));
  CHECK_FALSE(job.join(hello(0, 3)));
  CHECK_THAT(job.join(hello(0, 3)).text, Contains("rank 0 is in the job already"));
  CHECK_THAT(job.join(hello(1, 4)).text, Contains("4 ranks"));
  CHECK_FALSE(job.failure());
  CHECK(job.take_outgoing().empty());
}

TEST_CASE("job_gathers_in_rank_order_whoever_comes_first", "[job]") {
  Job job = joined(2);
  const Bytes a{std::byte{'a'}, std::byte{'A'}}, b{std::byte{'b'}, std::byte{'B'}};
  job.gather(1, gather(1, b));
  CHECK(job.take_outgoing().empty());
  job.gather(0, gather(1, a));
  const auto out = job.take_outgoing();
  REQUIRE(out.size() == 2);
  const auto result = decode_result(ByteView(*out[0].second).subspan(FrameHeader::kBytes));
  REQUIRE(result);
  CHECK(result->number == 1);
  CHECK(Bytes(result->data.begin(), result->data.end()) == Bytes{a[0], a[1], b[0], b[1]});
}

TEST_CASE("job_gives_each_rank_its_parts_alone", "[job]") {
  Job job = joined(2);
  const Bytes a{std::byte{'a'}, std::byte{'A'}}, b{std::byte{'b'}, std::byte{'B'}};
  job.gather(1, {1, Operation::kAlltoall, b});
  job.gather(0, {1, Operation::kAlltoall, a});
  const auto out = job.take_outgoing();
  REQUIRE(out.size() == 2);
  for (const auto& [rank, frame] : out) {
    const auto result = decode_result(ByteView(*frame).subspan(FrameHeader::kBytes));
    REQUIRE(result);
    const auto part = static_cast<std::size_t>(rank);
    CHECK(Bytes(result->data.begin(), result->data.end()) == Bytes{a[part], b[part]});
  }
  job.gather(0, {2, Operation::kAlltoall, a});
  job.gather(1, {2, Operation::kAllgather, a});
  tells(job, {0, 1}, "bootstrap alltoall of 2 bytes, rank 1 in bootstrap allgather");
}

TEST_CASE("job_names_the_missing_when_time_is_up", "[job]") {
  Job joining(kCookie);
  CHECK_FALSE(joining.join(hello(1, 3)));
  joining.expired({0, 1500});
  tells(joining, {1}, "init timed out after 1.5 s (GSHMEM_BOOTSTRAP_TIMEOUT): ranks 0, 2");
  CHECK(joining.join(hello(0, 3)).code == GSHMEMX_ERROR_TIMEOUT);

  Job running = joined(3);
  running.gather(2, gather(1, {}));
  running.expired({1, 2000});
  tells(running, {0, 1, 2}, "allgather timed out after 2 s");
}

TEST_CASE("job_ignores_an_expiry_that_crossed_the_result", "[job]") {
  Job job = joined(1);
  job.gather(0, gather(1, {}));
  (void)job.take_outgoing();
  job.expired({1, 1000});
  CHECK_FALSE(job.failure());
}

TEST_CASE("job_tells_death_from_leaving", "[job]") {
  Job job = joined(3);
  job.leave(0);
  CHECK_FALSE(job.failure());
  job.gather(1, gather(1, {}));
  tells(job, {1, 2}, "rank 0 left the job while others wait in bootstrap allgather");

  Job other = joined(3);
  other.lost(1, "connection closed");
  tells(other, {0, 2}, "rank 1 died: connection closed");
  other.abort(2, {3, "later"});
  CHECK(other.take_outgoing().empty());  // the first failure is the one
}

TEST_CASE("job_all_may_leave_after_the_last_collective", "[job]") {
  Job job = joined(2);
  job.gather(0, gather(1, {}));
  job.gather(1, gather(1, {}));
  job.leave(1);
  CHECK_FALSE(job.deserted());
  job.leave(0);
  CHECK(job.deserted());
  CHECK_FALSE(job.failure());
}

TEST_CASE("job_a_departure_that_is_already_waited_for_fails", "[job]") {
  Job job = joined(2);
  job.gather(0, gather(1, {}));
  (void)job.take_outgoing();
  job.leave(1);
  tells(job, {0}, "rank 1 left");
}

TEST_CASE("job_spreads_an_abort_with_reason", "[job]") {
  Job job = joined(3);
  job.abort(2, {7, "no memory"});
  tells(job, {0, 1, 2}, "rank 2 aborted the job (code 7): no memory");
}

TEST_CASE("job_ranks_that_disagree_fail", "[job]") {
  const Bytes four(4), eight(8);
  Job job = joined(3);
  job.gather(1, gather(1, four));
  job.gather(2, gather(1, eight));
  tells(job, {0, 1, 2},
        "rank 1 is in bootstrap allgather of 4 bytes, rank 2 in bootstrap "
        "allgather of 8 bytes");

  Job mixed = joined(2);
  mixed.gather(0, gather(1, {}));
  mixed.gather(1, {1, Operation::kBarrier, {}});
  tells(mixed, {0, 1}, "barrier");

  Job early = joined(2);
  early.gather(0, gather(2, {}));
  tells(early, {0, 1}, "out of turn");
  Job twice = joined(2);
  twice.gather(0, gather(1, {}));
  twice.gather(0, gather(1, {}));
  tells(twice, {0, 1}, "out of turn");
}
