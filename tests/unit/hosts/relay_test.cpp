#include "transport/hosts/relay.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <deque>
#include <set>
#include <string>

using namespace gshmem::hosts;
using gshmem::p2p::group_hosts;

namespace {

using Pes = std::vector<int>;

/// The relays of a whole job; a connection is a queue, and frames arrive in any order that queues
/// allow.
class Job {
 public:
  Job(const std::vector<std::string>& hosts, int fan_out) : heard(hosts.size()) {
    for (int pe = 0; pe < static_cast<int>(hosts.size()); ++pe) {
      relays_.emplace_back(pe, static_cast<int>(hosts.size()),
                           tree_neighbours(group_hosts(hosts, pe), fan_out));
    }
  }
  Relay& pe(int pe) { return relays_[static_cast<std::size_t>(pe)]; }
  [[nodiscard]] int size() const { return static_cast<int>(relays_.size()); }

  void kill(int victim) {
    dead_.insert(victim);
    for (int other = 0; other < size(); ++other) {
      if (other != victim && pe(other).is_neighbour(victim))
        pe(other).gone(victim, PeerEvent::kDied);
    }
  }

  /// Until nothing is on its way.
  void settle(unsigned seed = 1) {
    for (;;) {
      for (int from = 0; from < size(); ++from) collect(from);
      std::vector<std::pair<int, int>> ways;
      for (const auto& [way, frames] : on_the_way_) {
        if (!frames.empty()) ways.push_back(way);
      }
      if (ways.empty()) return;
      seed = seed * 1103515245u + 12345u;
      const auto [from, to] = ways[(seed >> 16) % ways.size()];
      std::deque<Frame>& frames = on_the_way_[{from, to}];
      const Frame frame = frames.front();
      frames.pop_front();
      ++frames_moved;
      if (dead_.count(to) == 0) pe(to).take(from, frame);
    }
  }

  std::vector<std::vector<Frame>> heard;  ///< by PE
  int frames_moved = 0;

 private:
  void collect(int from) {
    for (auto& [to, frame] : pe(from).take_outgoing()) {
      REQUIRE(pe(to).is_neighbour(from));
      if (dead_.count(from) == 0) on_the_way_[{from, to}].push_back(frame);
    }
    for (const Frame& frame : pe(from).take_deliveries())
      heard[static_cast<std::size_t>(from)].push_back(frame);
  }

  std::vector<Relay> relays_;
  std::set<int> dead_;
  std::map<std::pair<int, int>, std::deque<Frame>> on_the_way_;
};

/// Hosts of 3, 1, 2, 1, 3, 1, 2 PEs, dealt out in no order.
const std::vector<std::string> kIrregular{"c", "a", "b", "a", "d", "e", "e",
                                          "a", "f", "e", "g", "g", "b"};

std::span<const char> bytes_of(const int& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

std::vector<Frame> of_kind(const std::vector<Frame>& frames, FrameKind kind) {
  std::vector<Frame> found;
  std::copy_if(frames.begin(), frames.end(), std::back_inserter(found),
               [&](const Frame& frame) { return header_of(frame).kind == kind; });
  return found;
}

}  // namespace

TEST_CASE("tree_has_every_pe_once_and_pe_0_on_top") {
  for (const int fan_out : {1, 2, 3, 16}) {
    const int n = static_cast<int>(kIrregular.size());
    std::vector<int> parents(kIrregular.size(), -2);
    for (int pe = 0; pe < n; ++pe) {
      const Neighbours mine = tree_neighbours(group_hosts(kIrregular, pe), fan_out);
      for (const int child : mine.children) {
        CHECK(parents[static_cast<std::size_t>(child)] == -2);
        parents[static_cast<std::size_t>(child)] = pe;
        CHECK(tree_neighbours(group_hosts(kIrregular, child), fan_out).parent == pe);
      }
    }
    CHECK(tree_neighbours(group_hosts(kIrregular, 0), fan_out).parent == -1);
    CHECK(std::count(parents.begin(), parents.end(), -2) == 1);
  }
}

TEST_CASE("everyone_gets_everyones_data_in_pe_order") {
  for (unsigned seed = 1; seed < 20; ++seed) {
    Job job(kIrregular, 2);
    for (int round = 1; round <= 3; ++round) {
      for (int pe = job.size() - 1; pe >= 0; --pe) {
        const int value = 100 * round + pe;
        job.pe(pe).contribute(static_cast<std::uint64_t>(round), bytes_of(value));
      }
      job.settle(seed);
    }
    for (const std::vector<Frame>& frames : job.heard) {
      REQUIRE(frames.size() == 3);
      for (int round = 1; round <= 3; ++round) {
        const Frame& frame = frames[static_cast<std::size_t>(round - 1)];
        CHECK(header_of(frame).kind == FrameKind::kResult);
        CHECK(header_of(frame).sequence == static_cast<std::uint64_t>(round));
        CHECK(header_of(frame).detail == sizeof(int));
        Pes values(kIrregular.size());
        REQUIRE(payload_of(frame).size() == values.size() * sizeof(int));
        std::memcpy(values.data(), payload_of(frame).data(), payload_of(frame).size());
        for (int pe = 0; pe < job.size(); ++pe)
          CHECK(values[static_cast<std::size_t>(pe)] == 100 * round + pe);
      }
    }
  }
}

TEST_CASE("less_than_others_bring_is_filled_with_zeros") {
  Job job({"a", "b"}, 16);
  const int value = 0x01020304;
  job.pe(0).contribute(1, {});
  job.pe(1).contribute(1, bytes_of(value));
  job.settle();
  for (const std::vector<Frame>& frames : job.heard) {
    REQUIRE(frames.size() == 1);
    Pes values(2);
    REQUIRE(payload_of(frames[0]).size() == 8);
    std::memcpy(values.data(), payload_of(frames[0]).data(), 8);
    CHECK(values == Pes{0, value});
  }
}

TEST_CASE("first_missing_pe_is_told_to_all_once") {
  Job job(kIrregular, 2);
  for (int pe = 0; pe < job.size(); ++pe) {
    if (pe != 6 && pe != 11) job.pe(pe).contribute(1, {});
  }
  job.settle();
  for (int pe = 0; pe < job.size(); ++pe) {
    if (pe != 6 && pe != 11) job.pe(pe).expired(1);
  }
  job.settle();
  for (const std::vector<Frame>& frames : job.heard) {
    REQUIRE(frames.size() == 1);
    CHECK(header_of(frames[0]).kind == FrameKind::kMissing);
    CHECK(header_of(frames[0]).pe == 6);
  }
  // They come after all: the collective ends as if nothing had been.
  job.pe(6).contribute(1, {});
  job.pe(11).contribute(1, {});
  job.settle();
  for (const std::vector<Frame>& frames : job.heard)
    CHECK(of_kind(frames, FrameKind::kResult).size() == 1);
}

TEST_CASE("death_of_any_pe_is_known_to_all_others") {
  for (int victim = 0; victim < static_cast<int>(kIrregular.size()); ++victim) {
    Job job(kIrregular, 2);
    job.kill(victim);
    job.settle();
    for (int pe = 0; pe < job.size(); ++pe) {
      if (pe == victim) continue;
      const std::vector<Frame>& frames = job.heard[static_cast<std::size_t>(pe)];
      REQUIRE(frames.size() == 1);
      CHECK(header_of(frames[0]).pe == victim);
      CHECK(header_of(frames[0]).detail == static_cast<std::uint32_t>(PeerEvent::kDied));
    }
  }
}

TEST_CASE("a_stopped_pe_tells_all_others_why_and_goes_on_relaying") {
  const std::string why = "its queue broke";
  for (int pe = 0; pe < static_cast<int>(kIrregular.size()); ++pe) {
    Job job(kIrregular, 2);
    job.pe(pe).tell({.pe = pe, .event = PeerEvent::kStopped, .why = why});
    job.settle();
    CHECK(job.heard[static_cast<std::size_t>(pe)].empty());
    for (int other = 0; other < job.size(); ++other) {
      if (other == pe) continue;
      const std::vector<Frame>& frames = job.heard[static_cast<std::size_t>(other)];
      REQUIRE(frames.size() == 1);
      CHECK(header_of(frames[0]).pe == pe);
      CHECK(header_of(frames[0]).detail == static_cast<std::uint32_t>(PeerEvent::kStopped));
      const std::span<const char> text = payload_of(frames[0]);
      CHECK(std::string(text.begin(), text.end()) == why);
    }
    for (int each = 0; each < job.size(); ++each) job.pe(each).contribute(1, {});
    job.settle();
    for (const std::vector<Frame>& frames : job.heard)
      CHECK(header_of(frames.back()).kind == FrameKind::kResult);
  }
}

TEST_CASE("result_is_there_before_the_news_that_who_had_it_left") {
  for (unsigned seed = 1; seed < 30; ++seed) {
    Job job(kIrregular, 2);
    for (int pe = 0; pe < job.size(); ++pe) job.pe(pe).contribute(1, {});
    job.settle(seed);
    // Everyone leaves as soon as it has the result; parents hear it from their children.
    for (int pe = 0; pe < job.size(); ++pe) {
      for (int other = 0; other < job.size(); ++other) {
        if (job.pe(other).is_neighbour(pe)) job.pe(other).gone(pe, PeerEvent::kLeft);
      }
    }
    job.settle(seed + 1);
    for (const std::vector<Frame>& frames : job.heard) {
      REQUIRE(!frames.empty());
      CHECK(header_of(frames[0]).kind == FrameKind::kResult);
    }
  }
}

TEST_CASE("a_job_that_ends_as_a_whole_does_not_drown_in_news") {
  Job job(std::vector<std::string>(200, "a"), 16);
  for (int pe = 1; pe < 200; ++pe) job.pe(0).gone(pe, PeerEvent::kLeft);
  job.settle();
  CHECK(job.frames_moved < 200);
  CHECK(job.heard[0].size() == 199);
}

TEST_CASE("frames_that_make_no_sense_are_passed_over") {
  Job job({"a", "a", "b"}, 16);
  Relay& root = job.pe(0);
  root.take(1, make_frame({.kind = FrameKind::kContribution, .sequence = 1, .pe = 77}));
  root.take(1, make_frame({.kind = FrameKind::kNews, .pe = -3}));
  root.take(1, make_frame({.kind = FrameKind::kExpired, .sequence = 9}));
  root.take(1, make_frame({.kind = FrameKind::kResult, .sequence = 1}));
  root.take(1, make_frame({.kind = static_cast<FrameKind>(99)}));
  CHECK(root.take_outgoing().empty());
  CHECK(root.take_deliveries().empty());
}
