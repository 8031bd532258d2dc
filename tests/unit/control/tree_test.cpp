#include "host/control/tree.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <span>
#include <set>
#include <string>
#include <vector>

using namespace gshmem::control;
using gshmem::net::Frame;
using gshmem::net::FrameKind;
namespace net = gshmem::net;

namespace {

using Pes = std::vector<int>;

bool has(const Pes& pes, int pe) { return std::find(pes.begin(), pes.end(), pe) != pes.end(); }

bool is_linked(const HostGroup& group, int pe) {
  const Neighbours mine = neighbours_of(group);
  return mine.parent == pe || has(mine.children, pe) || has(mine.across, pe);
}

/// Returns the host of each PE: `n` hosts take turns, with the given number of PEs.
std::vector<std::string> hosts_of(int n, int pes) {
  std::vector<std::string> hosts;
  for (int pe = 0; pe < n * pes; ++pe) hosts.push_back(std::to_string(pe % n));
  return hosts;
}

/// The trees of a whole job. A connection is a queue, and the test delivers frames in any order
/// that queues allow.
class Job {
 public:
  explicit Job(const std::vector<std::string>& hosts)
      : heard(hosts.size()), missing(-1), moved(hosts.size()) {
    for (int pe = 0; pe < static_cast<int>(hosts.size()); ++pe) {
      groups_.push_back(group_hosts(hosts, pe));
      const HostGroup& group = groups_.back();
      const auto missing_here = [this, pes = group.pes](std::uint64_t) {
        return std::find(pes.begin(), pes.end(), missing) != pes.end() ? missing : -1;
      };
      trees_.emplace_back(group, missing_here);
    }
    order = tree_order(groups_.front());
  }
  Tree& pe(int pe) { return trees_[static_cast<std::size_t>(pe)]; }
  [[nodiscard]] int size() const { return static_cast<int>(trees_.size()); }
  [[nodiscard]] const HostGroup& group(int pe) const {
    return groups_[static_cast<std::size_t>(pe)];
  }
  [[nodiscard]] bool is_leader(int pe) const { return group(pe).index == 0; }

  void kill(int victim) {
    dead_.insert(victim);
    for (int other = 0; other < size(); ++other) {
      if (other != victim && other != stopped && is_linked(group(other), victim))
        pe(other).gone(victim, PeerEvent::kDied);
    }
  }

  /// Host `of` contributes `value(pe)` for each of its PEs.
  template <class Value>
  void contribute(int leader, std::uint64_t number, const Value& value) {
    Pes values;
    for (const int pe : group(leader).pes) values.push_back(value(pe));
    const bool alike = std::count(values.begin(), values.end(), values[0]) ==
                       static_cast<std::ptrdiff_t>(values.size());
    if (alike) values.resize(1);
    pe(leader).contribute(rows_frame(FrameKind::kContribution, number,
                                     {.width = sizeof(int), .alike = alike},
                                     std::as_bytes(std::span(values))));
  }
  void come(int leader, std::uint64_t number) {
    pe(leader).contribute(
        rows_frame(FrameKind::kContribution, number, {.width = 0, .alike = true}, {}));
  }
  void all_come(std::uint64_t number) {
    for (int pe = 0; pe < size(); ++pe)
      if (is_leader(pe)) come(pe, number);
  }

  /// Delivers frames until none is pending.
  void settle(unsigned seed = 1) {
    for (;;) {
      for (int from = 0; from < size(); ++from) collect(from);
      std::vector<std::pair<int, int>> ways;
      for (const auto& [way, frames] : on_the_way_) {
        if (!frames.empty() && way.second != stopped) ways.push_back(way);
      }
      if (ways.empty()) return;
      seed = seed * 1103515245u + 12345u;
      const auto [from, to] = ways[(seed >> 16) % ways.size()];
      std::deque<Frame>& frames = on_the_way_[{from, to}];
      const Frame frame = frames.front();
      frames.pop_front();
      ++frames_moved;
      most_bytes = std::max(most_bytes, net::payload_of(frame).size());
      for (const int pe : {from, to}) moved[static_cast<std::size_t>(pe)] += frame->size();
      if (dead_.count(to) == 0) pe(to).take(from, frame);
    }
  }

  std::vector<std::vector<Frame>> heard;  ///< by PE
  int missing;                            ///< the missing PE that leaders report for their host
  int stopped = -1;                       ///< frames for this PE are not delivered
  Pes order;
  int frames_moved = 0;
  std::size_t most_bytes = 0;      ///< of a payload
  std::vector<std::size_t> moved;  ///< by PE: bytes that it has sent or received

 private:
  void collect(int from) {
    for (auto& [to, frame] : pe(from).take_outgoing()) {
      REQUIRE(is_linked(group(to), from));
      if (dead_.count(from) == 0) on_the_way_[{from, to}].push_back(frame);
    }
    for (const Frame& frame : pe(from).take_deliveries())
      heard[static_cast<std::size_t>(from)].push_back(frame);
  }

  std::deque<HostGroup> groups_;
  std::deque<Tree> trees_;
  std::set<int> dead_;
  std::map<std::pair<int, int>, std::deque<Frame>> on_the_way_;
};

/// Hosts of 3, 1, 2, 1, 3, 1 and 2 PEs, in irregular order.
const std::vector<std::string> kIrregular{"c", "a", "b", "a", "d", "e", "e",
                                          "a", "f", "e", "g", "g", "b"};

std::vector<Frame> of_kind(const std::vector<Frame>& frames, FrameKind kind) {
  std::vector<Frame> found;
  std::copy_if(frames.begin(), frames.end(), std::back_inserter(found),
               [&](const Frame& frame) { return net::header_of(frame).kind == kind; });
  return found;
}

Pes values_in(const Frame& frame) {
  const net::ByteView payload = net::payload_of(frame);
  Pes values(payload.size() / sizeof(int));
  std::copy(payload.begin(), payload.end(), std::as_writable_bytes(std::span(values)).begin());
  return values;
}

}  // namespace

TEST_CASE("tree_has_every_pe_once_and_pe_0_as_root") {
  for (const auto& hosts : {kIrregular, hosts_of(1, 3), hosts_of(16, 1), hosts_of(23, 2)}) {
    const int n = static_cast<int>(hosts.size());
    std::vector<int> parents(hosts.size(), -2);
    for (int pe = 0; pe < n; ++pe) {
      const Neighbours mine = neighbours_of(group_hosts(hosts, pe));
      CHECK_FALSE(has(mine.across, mine.parent));  // each PE receives news once
      for (const int child : mine.children) {
        CHECK_FALSE(has(mine.across, child));
        CHECK(parents[static_cast<std::size_t>(child)] == -2);
        parents[static_cast<std::size_t>(child)] = pe;
        CHECK(neighbours_of(group_hosts(hosts, child)).parent == pe);
      }
    }
    CHECK(neighbours_of(group_hosts(hosts, 0)).parent == -1);
    CHECK(std::count(parents.begin(), parents.end(), -2) == 1);
  }
}

// No PE of 4,096 forwards the parts of all PEs, which are 64 bytes for each of 4,096 * 4,096 pairs.
TEST_CASE("parts_reach_every_pe_and_cost_each_host_the_same") {
  const int n_hosts = GENERATE(1, 2, 3, 8, 21, 32);
  constexpr int kPes = 2;
  constexpr std::size_t kBytes = 64;
  Job job(hosts_of(n_hosts, kPes));
  const auto n = static_cast<std::size_t>(job.size());
  for (int from = 0; from < job.size(); ++from) {
    for (int to = 0; to < job.size(); ++to)
      job.pe(from).contribute(
          net::make_frame({.kind = to % 2 ? FrameKind::kPart : FrameKind::kMessage,
                           .number = 1,
                           .rank = from,
                           .detail = static_cast<std::uint32_t>(to)},
                          net::Bytes(kBytes, std::byte(from ^ to))));
  }
  job.settle();
  double steps = 0;  // the longest path between hosts
  while (1 << static_cast<int>(steps) < n_hosts) ++steps;
  const auto frame = static_cast<double>(net::FrameHeader::kBytes + kBytes);
  for (int pe = 0; pe < job.size(); ++pe) {
    const std::vector<Frame>& parts = job.heard[static_cast<std::size_t>(pe)];
    std::set<int> senders;
    for (const Frame& part : parts) {
      senders.insert(net::header_of(part).rank);
      CHECK(net::payload_of(part)[0] == std::byte(net::header_of(part).rank ^ pe));
    }
    CHECK(parts.size() == n);
    CHECK(senders.size() == n);
    const auto moved = static_cast<double>(job.moved[static_cast<std::size_t>(pe)]);
    if (!job.is_leader(pe)) CHECK(moved == frame * 2 * static_cast<double>(n - 1));
    // Half of the steps on average, in and out, each with as many parts as the host has PEs.
    CHECK(moved <= frame * kPes * static_cast<double>(n) * (steps + 2) * 1.25);
  }
}

TEST_CASE("every_host_gets_everyones_data_in_the_order_of_the_tree") {
  for (unsigned seed = 1; seed < 20; ++seed) {
    Job job(kIrregular);
    for (int round = 1; round <= 3; ++round) {
      for (int pe = job.size() - 1; pe >= 0; --pe) {
        if (job.is_leader(pe))
          job.contribute(pe, static_cast<std::uint64_t>(round),
                         [&](int each) { return 100 * round + each; });
      }
      job.settle(seed);
    }
    for (int pe = 0; pe < job.size(); ++pe) {
      const std::vector<Frame>& frames = job.heard[static_cast<std::size_t>(pe)];
      REQUIRE(frames.size() == (job.is_leader(pe) ? 3 : 0));
      for (std::size_t round = 1; round <= frames.size(); ++round) {
        const net::FrameHeader header = net::header_of(frames[round - 1]);
        CHECK(header.kind == FrameKind::kResult);
        CHECK(header.number == round);
        CHECK(rows_of(header).width == sizeof(int));
        CHECK_FALSE(rows_of(header).alike);
        Pes expected;
        for (const int each : job.order) expected.push_back(100 * static_cast<int>(round) + each);
        CHECK(values_in(frames[round - 1]) == expected);
      }
    }
  }
}

TEST_CASE("missing_pe_is_reported_to_all_hosts_once") {
  for (const int late : {0, 3, 6, 10, 12}) {
    Job job(kIrregular);
    const int late_leader = job.group(late).pes.front();
    job.missing = late;
    for (int pe = 0; pe < job.size(); ++pe)
      if (job.is_leader(pe) && pe != late_leader) job.come(pe, 1);
    job.settle();
    for (int pe = 0; pe < job.size(); ++pe)
      if (pe != late) job.pe(pe).expired(1);
    job.settle();
    for (int pe = 0; pe < job.size(); ++pe) {
      const std::vector<Frame>& frames = job.heard[static_cast<std::size_t>(pe)];
      REQUIRE(frames.size() == (job.is_leader(pe) ? 1 : 0));
      if (frames.empty()) continue;
      CHECK(net::header_of(frames[0]).kind == FrameKind::kMissing);
      CHECK(net::header_of(frames[0]).rank == late);
    }
    // It comes last: the collective completes as if the leader had not been late.
    job.come(late_leader, 1);
    job.settle();
    for (int pe = 0; pe < job.size(); ++pe) {
      if (!job.is_leader(pe)) continue;
      CHECK(of_kind(job.heard[static_cast<std::size_t>(pe)], FrameKind::kResult).size() == 1);
    }
  }
}

TEST_CASE("death_of_any_pe_is_known_to_all_others") {
  for (int victim = 0; victim < static_cast<int>(kIrregular.size()); ++victim) {
    Job job(kIrregular);
    job.kill(victim);
    job.settle();
    for (int pe = 0; pe < job.size(); ++pe) {
      if (pe == victim) continue;
      const std::vector<Frame>& frames = job.heard[static_cast<std::size_t>(pe)];
      REQUIRE(frames.size() == 1);
      CHECK(net::header_of(frames[0]).rank == victim);
      CHECK(net::header_of(frames[0]).detail == static_cast<std::uint32_t>(PeerEvent::kDied));
    }
  }
}

TEST_CASE("death_is_known_to_all_others_on_a_host_though_one_of_them_is_stopped") {
  for (int stopped = 0; stopped < 6; ++stopped) {
    for (int victim = 0; victim < 6; ++victim) {
      if (victim == stopped) continue;
      Job job(std::vector<std::string>(6, "a"));
      job.stopped = stopped;
      job.kill(victim);
      job.settle();
      for (int pe = 0; pe < job.size(); ++pe) {
        if (pe != victim && pe != stopped)
          CHECK(job.heard[static_cast<std::size_t>(pe)].size() == 1);
      }
    }
  }
}

TEST_CASE("a_stopped_pe_reports_the_reason_to_all_others_and_still_relays") {
  const std::string why = "its queue broke";
  for (int pe = 0; pe < static_cast<int>(kIrregular.size()); ++pe) {
    Job job(kIrregular);
    job.pe(pe).announce({.pe = pe, .event = PeerEvent::kStopped, .why = why});
    job.settle();
    CHECK(job.heard[static_cast<std::size_t>(pe)].empty());
    for (int other = 0; other < job.size(); ++other) {
      if (other == pe) continue;
      const std::vector<Frame>& frames = job.heard[static_cast<std::size_t>(other)];
      REQUIRE(frames.size() == 1);
      CHECK(net::header_of(frames[0]).rank == pe);
      CHECK(net::header_of(frames[0]).detail == static_cast<std::uint32_t>(PeerEvent::kStopped));
      CHECK(net::text_of(frames[0]) == why);
    }
    job.all_come(1);
    job.settle();
    for (int each = 0; each < job.size(); ++each) {
      if (!job.is_leader(each)) continue;
      const std::vector<Frame>& frames = job.heard[static_cast<std::size_t>(each)];
      CHECK(net::header_of(frames.back()).kind == FrameKind::kResult);
    }
  }
}

TEST_CASE("a_job_that_ends_as_a_whole_does_not_drown_in_news") {
  Job job(std::vector<std::string>(200, "a"));
  for (int pe = 1; pe < 200; ++pe) job.pe(0).gone(pe, PeerEvent::kDied);
  job.settle();
  CHECK(job.frames_moved < 3 * 200);  // to children and across
  CHECK(job.heard[0].size() == 199);
}

TEST_CASE("each_departure_is_reported_to_all_for_calls_that_need_that_pe") {
  for (const PeerEvent event : {PeerEvent::kLeft, PeerEvent::kFinalizes}) {
    Job job(kIrregular);
    for (int pe = 1; pe < 3; ++pe) job.pe(pe).announce({pe, event});
    job.settle();
    for (int pe = 3; pe < job.size(); ++pe)
      CHECK(job.heard[static_cast<std::size_t>(pe)].size() == 2);
  }
}
