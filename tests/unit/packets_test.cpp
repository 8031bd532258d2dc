// Tests collectives by packets. Between two members that are threads of the test, the old content
// of their buffers has no effect. For one member, the test plays the others and checks what it
// sends, what it waits for, and its result.
#include <gshmem/device/collective/collective.h>

#include "tests/patience.h"
#include "tests/unit/no_launch.h"

#include <catch2/catch.hpp>

#include <sched.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace gshmem::device {
namespace {

constexpr std::size_t kBytes = 1024;

/// The heap of each PE: memory of programs, then the packets of team 0.
struct Heap {
  std::array<std::uint8_t, kBytes> source;
  std::array<std::uint8_t, 2 * kBytes> dest[2];
  alignas(16) std::array<std::array<Word16, abi::kPackets>, 2> packets;
  abi::SyncSlot slot;
};

class Job {
 public:
  explicit Job(std::uint64_t timeout_ns) : heaps_(2) {
    for (int pe = 0; pe < 2; ++pe) {
      State& state = at(states_, pe);
      state.my_pe = pe;
      state.n_pes = state.mapped_count = 2;
      state.heap = reinterpret_cast<char*>(&heap(pe));
      state.heap_bytes = offsetof(Heap, packets);
      state.stride = sizeof(Heap);
      state.control = &at(controls_, pe);
      state.fault_policy = abi::FaultPolicy::kReport;
      state.timeout_ns = timeout_ns;
      state.team_slots = &heap(pe).slot;
      at(teams_, pe) = {nullptr, 0, 1, 2, pe, 0, 1, 1, {kBytes, kBytes, kBytes, kBytes, 0, kBytes}};
    }
  }
  [[nodiscard]] Heap& heap(int pe) { return heaps_[static_cast<std::size_t>(pe)]; }
  [[nodiscard]] const abi::Control& control(int pe) { return at(controls_, pe); }
  static std::uint8_t byte(int pe, int call, std::size_t i) {
    return static_cast<std::uint8_t>(i * 7 + static_cast<std::size_t>(call * 2 + pe) * 31);
  }
  /// Returns whether call `call` of PE `pe` succeeds and has the values of both PEs.
  bool fcollects(int pe, int call, std::size_t bytes) {
    Heap& mine = heap(pe);
    for (std::size_t i = 0; i < bytes; ++i) mine.source[i] = byte(pe, call, i);
    std::uint8_t* const dest = mine.dest[call % 2].data();
    if (fcollect(Thread{}, TeamCall{&at(states_, pe), "test", &at(teams_, pe), dest,
                                    mine.source.data(), bytes}) != 0)
      return false;
    for (std::size_t i = 0; i < 2 * bytes; ++i) {
      if (dest[i] != byte(i < bytes ? 0 : 1, call, i % bytes)) return false;
    }
    return true;
  }

 private:
  template <class T>
  static T& at(std::array<T, 2>& of, int pe) {
    return of[static_cast<std::size_t>(pe)];
  }
  std::vector<Heap> heaps_;
  std::array<State, 2> states_;
  std::array<abi::Control, 2> controls_{};
  std::array<abi::Team, 2> teams_{};
};

TEST_CASE("old_packets_are_ignored_when_flags_wrap_around") {
  for (const std::uint32_t first : {0x7ffffffau, 0xfffffffau}) {
    Job job(30'000'000'000ull * test::kPatience);
    for (int pe = 0; pe < 2; ++pe) {
      job.heap(pe).slot.packets = first;
      // These values could be taken for flags of the first two calls after the flags wrap around.
      for (std::uint64_t buffer = 0; buffer < 2; ++buffer)
        job.heap(pe).packets[buffer].fill(
            packet_of(static_cast<std::uint32_t>(kPacketFlag | buffer), 0xeeeeeeeeu));
    }
    const auto make_calls = [&](int pe) {
      int good = 0;
      for (int call = 0; call < 12; ++call) {
        for (int i = 0; i < (call + pe) % 2 * 100; ++i) sched_yield();  // lets the other PE wait
        good += job.fcollects(pe, call, call < 5 ? 8 : kBytes)
                    ? 1
                    : 0;  // far from where they wrap around
      }
      return good;
    };
    int theirs = 0;
    std::thread other([&] { theirs = make_calls(1); });
    CHECK(make_calls(0) == 12);
    other.join();
    CHECK(theirs == 12);
    CHECK(job.heap(0).slot.packets == first + 12);
  }
}

TEST_CASE("a_member_that_sends_no_packets_is_named_and_ends_the_call") {
  Job job(1'000'000);
  CHECK_FALSE(job.fcollects(0, 0, kBytes));
  CHECK(job.control(0).fault.code == GSHMEMX_ERROR_TIMEOUT);
  CHECK(job.control(0).fault.pe == 1);
}

/// One member of a team of every other PE, backwards; the test plays the other members.
constexpr int kPes = 10, kMembers = 5;
constexpr std::uint32_t kTeam = 1;
int pe_of(int member) { return 9 - 2 * member; }

struct Room {
  alignas(16) std::array<std::uint8_t, 128> source;
  alignas(16) std::array<std::uint8_t, 128> dest;
  alignas(16) std::array<std::array<std::array<Word16, abi::kPackets>, 2>, 2> packets;
  std::array<abi::SyncSlot, 2> slots;
};

class Member {
 public:
  explicit Member(int me, std::uint32_t calls = 4) : rooms_(kPes), me_(me), number_(calls + 1) {
    state_.my_pe = pe_of(me);
    state_.n_pes = state_.mapped_count = kPes;
    state_.heap = reinterpret_cast<char*>(&mine());
    state_.heap_bytes = offsetof(Room, packets);
    state_.stride = sizeof(Room);
    state_.control = &control;
    state_.fault_policy = abi::FaultPolicy::kReport;
    state_.timeout_ns = 1'000'000;
    state_.team_slots = mine().slots.data();
    mine().slots[kTeam].packets = calls;
    team_ = {nullptr, 9, -2, kMembers, me, kTeam, 1, 1, {}};
    for (std::size_t i = 0; i < mine().source.size(); ++i)
      mine().source[i] = static_cast<std::uint8_t>(i + 1);
    mine().dest.fill(kUntouched);
  }
  [[nodiscard]] Room& room(int member) { return rooms_[static_cast<std::size_t>(pe_of(member))]; }
  [[nodiscard]] Room& mine() { return room(me_); }
  /// Returns the slot at member `to` of packet `i` of `each` from member `from`.
  [[nodiscard]] Word16& packet(int to, int from, std::uint32_t i, std::uint32_t each) {
    return room(to).packets[kTeam][number_ % 2][static_cast<std::uint32_t>(from) * each + i];
  }
  /// Makes a packet of 8 bytes of data and the flag in both halves.
  [[nodiscard]] Word16 flagged(std::uint64_t data) const {
    const std::uint32_t flag = number_ | kPacketFlag;
    return {static_cast<std::uint32_t>(data), flag, static_cast<std::uint32_t>(data >> 32), flag};
  }
  static constexpr std::size_t kData = 8;
  static std::uint32_t packets_for(std::size_t bytes) {
    return static_cast<std::uint32_t>((bytes + kData - 1) / kData);
  }
  /// Stores the packets of all other members, of `bytes` bytes (byte_from).
  void others_send(std::size_t bytes) {
    const std::uint32_t each = packets_for(bytes);
    for (int from = 0; from < kMembers; ++from) {
      for (std::uint32_t at = 0; at < each && from != me_; ++at) {
        std::uint64_t data = 0;
        for (std::size_t i = 0; i < kData && kData * at + i < bytes; ++i)
          data |= std::uint64_t{byte_from(from, kData * at + i)} << 8 * i;
        packet(me_, from, at, each) = flagged(data);
      }
    }
  }
  static std::uint8_t byte_from(int member, std::size_t at) {
    return static_cast<std::uint8_t>(100 + 30 * static_cast<std::size_t>(member) + at);
  }
  [[nodiscard]] TeamCall call(std::size_t bytes) {
    return {&state_, "test", &team_, mine().dest.data(), mine().source.data(), bytes};
  }
  [[nodiscard]] std::uint32_t calls() { return mine().slots[kTeam].packets; }
  /// Returns the first packet of any PE that differs; empty: none.
  [[nodiscard]] std::string difference(const Member& expected) const {
    for (std::size_t pe = 0; pe < rooms_.size(); ++pe) {
      for (std::size_t at = 0; at < 4 * std::size_t{abi::kPackets}; ++at) {
        const auto packet = [&](const Member& of) {
          return of.rooms_[pe]
              .packets[at / abi::kPackets / 2][at / abi::kPackets % 2][at % abi::kPackets];
        };
        const Word16 is = packet(*this), to_be = packet(expected);
        if (low_of(is) == low_of(to_be) && high_of(is) == high_of(to_be)) continue;
        std::ostringstream text;
        text << "PE " << pe << ", buffer " << at / abi::kPackets << ", packet "
             << at % abi::kPackets << ": " << std::hex << low_of(is) << ' ' << high_of(is)
             << ", not " << low_of(to_be) << ' ' << high_of(to_be);
        return text.str();
      }
    }
    return "";
  }
  State& state() { return state_; }
  [[nodiscard]] abi::Team& team() { return team_; }
  abi::Control control{};
  static constexpr std::uint8_t kUntouched = 0xee;

 private:
  std::vector<Room> rooms_;
  int me_;
  std::uint32_t number_;
  State state_{};
  abi::Team team_{};
};

using U16Sum = TypedReducer<ReduceOp::kSum, std::uint16_t>;
/// An operation whose result shows the order of its operands.
struct Ordered {
  template <class W>
  W operator()(W a, W b) const {
    return a * 31 + b;
  }
};

enum class Kind { kMove, kBroadcast, kCombine, kInscan, kExscan };
constexpr int kRoot = 1;

template <Result kResult>
int combined(const TeamCall& call) {
  return by_packets<Give::kWhole>(Thread{}, call,
                                  CombinePackets<std::uint64_t, U16Sum, kResult>{{}});
}
int made(Member& member, Kind kind, std::size_t bytes, bool parts = false) {
  const TeamCall call = member.call(bytes);
  if (kind == Kind::kMove) {
    if (parts) return by_packets<Give::kParts>(Thread{}, at_own_part(call), MovePackets{});
    return by_packets<Give::kWhole>(Thread{}, call, MovePackets{});
  }
  if (kind == Kind::kCombine) return combined<Result::kForOne>(call);
  if (kind == Kind::kInscan) return combined<Result::kInclusive>(call);
  if (kind == Kind::kExscan) return combined<Result::kExclusive>(call);
  return by_packets<Give::kWhole>(Thread{}, call, BroadcastPackets{kRoot},
                                  call.team->my_pe == kRoot);
}

TEST_CASE("a_member_sends_each_member_its_part_with_the_flag_of_the_call_and_writes_nothing_else") {
  for (const std::size_t bytes : {1u, 6u, 8u, 12u, 16u, 23u}) {
    for (const bool parts : {false, true}) {
      for (const std::uint32_t calls : {4u, 5u}) {
        constexpr int kMe = 2;
        Member member(kMe, calls);
        member.others_send(bytes);
        CHECK(made(member, Kind::kMove, bytes, parts) == 0);
        Member expected(kMe, calls);
        expected.others_send(bytes);
        const std::uint32_t each = Member::packets_for(bytes);
        for (int to = 0; to < kMembers; ++to) {
          for (std::uint32_t packet = 0; packet < each; ++packet) {
            std::uint64_t data = 0;
            const std::size_t first = Member::kData * packet;
            for (std::size_t i = 0; i < Member::kData && first + i < bytes; ++i) {
              const std::size_t at = (parts ? static_cast<std::size_t>(to) * bytes : 0) + first + i;
              data |= std::uint64_t{member.mine().source[at]} << 8 * i;
            }
            expected.packet(to, kMe, packet, each) = expected.flagged(data);
          }
        }
        INFO(bytes << " bytes after " << calls << " calls");
        CHECK(member.difference(expected) == "");
        CHECK(member.calls() == calls + 1);
      }
    }
  }
}

TEST_CASE("a_member_without_data_sends_empty_packets_to_all") {
  constexpr std::size_t kBytes = 14;
  for (const int me : {0, kRoot}) {
    Member member(me), expected(me);
    for (Member* each : {&member, &expected}) each->others_send(kBytes);
    CHECK(made(member, Kind::kBroadcast, kBytes) == 0);
    for (int to = 0; to < kMembers; ++to) {
      expected.packet(to, me, 0, 2) = expected.flagged(me == kRoot ? 0x0807060504030201 : 0);
      if (me == kRoot) expected.packet(to, me, 1, 2) = expected.flagged(0x0e0d0c0b0a09);
    }
    CHECK(member.difference(expected) == "");
  }
}

TEST_CASE("received_data_is_stored_at_its_offset_and_nothing_after_it") {
  constexpr int kMe = 3;
  for (const std::size_t bytes : {1u, 4u, 7u, 8u, 12u, 20u, 24u}) {
    INFO(bytes << " bytes");
    Member member(kMe);
    member.others_send(bytes);
    auto expected = member.mine().dest;
    for (int from = 0; from < kMembers; ++from) {
      for (std::size_t i = 0; i < bytes; ++i)
        expected[static_cast<std::size_t>(from) * bytes + i] =
            from == kMe ? member.mine().source[i] : Member::byte_from(from, i);
    }
    CHECK(made(member, Kind::kMove, bytes) == 0);
    CHECK(member.mine().dest == expected);

    Member other(kMe);
    other.others_send(bytes);
    expected.fill(Member::kUntouched);
    for (std::size_t i = 0; i < bytes; ++i) expected[i] = Member::byte_from(kRoot, i);
    CHECK(made(other, Kind::kBroadcast, bytes) == 0);
    CHECK(other.mine().dest == expected);
  }
}

template <Result kResult, class U, class Reducer, class Element>
void check_combined_by(int me, std::size_t count, const Reducer& reducer) {
  const std::size_t bytes = count * sizeof(Element);
  const int end = kResult == Result::kForOne      ? kMembers
                  : kResult == Result::kInclusive ? me + 1
                                                  : me;
  INFO("member " << me << " has those of " << end << ", " << bytes << " bytes");
  Member member(me);
  member.others_send(bytes);
  auto expected = member.mine().dest;
  for (std::size_t i = 0; i < count; ++i) {
    Element sum{};
    for (int from = 0; from < end; ++from) {
      Element value{};
      for (std::size_t k = 0; k < sizeof(Element); ++k) {
        const std::size_t at = i * sizeof(Element) + k;
        const std::uint8_t byte =
            from == me ? member.mine().source[at] : Member::byte_from(from, at);
        value = static_cast<Element>(value | static_cast<Element>(Element{byte} << 8 * k));
      }
      sum = from == 0 ? value : reducer(sum, value);
    }
    std::memcpy(expected.data() + i * sizeof(Element), &sum, sizeof(sum));
  }
  const TeamCall call = member.call(bytes);
  CHECK(by_packets<Give::kWhole>(Thread{}, call, CombinePackets<U, Reducer, kResult>{reducer}) ==
        0);
  CHECK(member.mine().dest == expected);
}
template <class U, class Reducer, class Element = U>
void check_combined(std::size_t count, const Reducer& reducer) {
  for (int me = 0; me < kMembers; ++me) {
    check_combined_by<Result::kForOne, U, Reducer, Element>(me, count, reducer);
    check_combined_by<Result::kInclusive, U, Reducer, Element>(me, count, reducer);
    check_combined_by<Result::kExclusive, U, Reducer, Element>(me, count, reducer);
  }
}

TEST_CASE("received_data_is_combined_in_the_order_of_the_members") {
  check_combined<std::uint64_t>(3, Ordered{});
  check_combined<std::uint64_t, U16Sum, std::uint16_t>(5, U16Sum{});
  check_combined<std::uint64_t, U16Sum, std::uint16_t>(6, U16Sum{});
}

TEST_CASE("every_packet_of_the_call_is_waited_for_and_a_missing_one_names_its_member") {
  constexpr int kMe = 0;
  constexpr std::size_t kBytes = 16;
  for (const Kind kind :
       {Kind::kMove, Kind::kBroadcast, Kind::kCombine, Kind::kInscan, Kind::kExscan}) {
    for (int late = 1; late < kMembers; ++late) {
      for (std::uint32_t half = 0; half < 4; ++half) {
        const bool needed = kind != Kind::kBroadcast || late == kRoot || half < 2;
        Member member(kMe);
        member.others_send(kBytes);
        Word16& packet = member.packet(kMe, late, half / 2, 2);
        (half % 2 == 0 ? packet.y : packet.w) -= 2;  // the flag of the call two before
        INFO("kind " << int(kind) << ", member " << late << ", half packet " << half);
        CHECK(made(member, kind, kBytes) == (needed ? GSHMEMX_ERROR_TIMEOUT : 0));
        CHECK(member.control.fault.pe == (needed ? pe_of(late) : 0));
      }
    }
  }
}

TEST_CASE("a_stopped_member_sends_nothing_if_puts_may_be_missing") {
  for (const Kind kind : {Kind::kMove, Kind::kBroadcast}) {
    Member member(2), expected(2);
    const abi::QueueView queue{};
    member.state().nic.queues = &queue;
    member.control.stop = 1;
    member.control.fault.code = GSHMEMX_ERROR_NIC;
    member.control.fault.claimed = member.control.fault.published = 1;
    for (Member* each : {&member, &expected}) each->others_send(4);
    CHECK(made(member, kind, 4) == GSHMEMX_ERROR_NIC);
    CHECK(member.difference(expected) == "");
  }
}

TEST_CASE("calls_use_packets_within_the_limits_of_the_team") {
  Member member(2);
  constexpr auto kOf = abi::Limit::kFcollectPackets;
  const auto go = [&](std::size_t bytes, auto coop) {
    return member.call(bytes).goes_by_packets(coop, kOf);
  };
  struct Three : Thread {
    int size() const { return 3; }
  };
  member.team().limits[static_cast<int>(kOf)] = 17;
  member.team().limits[static_cast<int>(abi::Limit::kThreadPackets)] = 10;
  CHECK_FALSE(go(0, Thread{}));
  CHECK(go(16, Thread{}));
  CHECK_FALSE(go(17, Thread{}));  // 3 packets for each of 5 members
  CHECK(go(17, Three{}));
  CHECK_FALSE(go(18, Three{}));
}

}  // namespace
}  // namespace gshmem::device
