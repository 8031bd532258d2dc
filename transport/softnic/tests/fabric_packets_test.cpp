// The soft NIC's packets, one by one: what a peer of the test's own writes into its rings, and what
// it finds there.
#include "transport/softnic/tests/long_delay.h"
#include "transport/softnic/tests/softnic.h"
#include "transport/softnic/tests/through_host_memory.h"
#include "transport/softnic/fabric.h"
#include "transport/softnic/memory.h"

#include <catch2/catch.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace gshmem::test {
namespace {

/// The responder believes no other process: what a peer of this test's own writes into the ring.
TEST_CASE("packets_that_no_queue_pair_sends_are_refused_and_change_nothing") {
  using soft::Packet, soft::PacketKind;
  struct Row {
    const char* what;
    PacketKind kind;
    std::uint64_t length, offset;
    std::uint32_t payload;
    bool first = true;
  };
  const Row row = GENERATE(Row{"more data than the message", PacketKind::kWrite, 16, 0, 64},
                           Row{"data after the message", PacketKind::kWrite, 16, 16, 16},
                           Row{"data far after it", PacketKind::kWrite, 16, 1 << 20, 16},
                           Row{"a send of more data", PacketKind::kSend, 16, 0, 64},
                           Row{"the midst of no message", PacketKind::kWrite, 16, 0, 16, false},
                           Row{"a send's midst", PacketKind::kSend, 16, 0, 16, false},
                           Row{"above the MTU", PacketKind::kWrite, 4096, 0, 257},
                           Row{"below the MTU", PacketKind::kWrite, 4096, 0, 255},
                           Row{"an atomic of 3 bytes", PacketKind::kAtomic, 3, 0, 0},
                           Row{"an atomic of none", PacketKind::kAtomic, 0, 0, 0},
                           Row{"an atomic of 16", PacketKind::kAtomic, 16, 0, 0});
  INFO(row.what);
  const int fd = soft::Engine::make_fabric();
  soft::Engine engine(soft::EngineOptions{});
  engine.join_fabric(fd);
  const std::uint32_t pd = engine.create_pd();
  Memory memory(engine, pd, 4096), receives(engine, pd, 4096);
  // A buffer of 4096 bytes is posted.
  Bytes posted;
  Queue::data(posted, memory.address(), 4096, memory.key());
  std::copy(posted.begin(), posted.end(), receives.data());
  *receives.as<std::uint32_t>(1024) = __builtin_bswap32(1);
  soft::ReceiveAttributes of_queue;
  of_queue.entries = receives.data();
  of_queue.log_entry_bytes = 4;
  of_queue.record = receives.data() + 1024;
  Queue queue(engine, pd, {.receives = of_queue});
  {
    soft::Fabric peer(fd);
    const std::uint32_t node = queue.qpn() >> soft::kLocalBits;
    queue.connect(peer.node() << soft::kLocalBits | 1, {.mtu = 256});
    soft::Ring* const ring = peer.request_to(node);
    REQUIRE(ring != nullptr);
    Packet* const packet = ring->reserve(row.payload);
    packet->kind = row.kind;
    packet->wqe_kind = nic::WqeKind::kFetchAdd;
    packet->first = row.first;
    packet->last = true;
    packet->key = memory.key();
    packet->source = peer.node() << soft::kLocalBits | 1;
    packet->target = queue.qpn();
    packet->address = memory.address();
    packet->length = row.length;
    packet->offset = row.offset;
    packet->operands.swap_or_add = 1;
    std::memset(soft::Ring::payload(packet), 0xee, row.payload);
    ring->commit();
    const Packet* answer = nullptr;
    REQUIRE(eventually([&] { return (answer = peer.reply_from(node).front()) != nullptr; }));
    CHECK(answer->kind == PacketKind::kAck);
    CHECK(answer->syndrome == 0x12);  // remote invalid request
  }
  CHECK(std::all_of(memory.data(), memory.data() + 4096, [](std::uint8_t b) { return b == 0; }));
  ::close(fd);
}

/// A queue pair whose other end is the test: it sees each packet, and writes the answers.
struct Observed {
  using Packet = soft::Packet;
  using Kind = soft::PacketKind;
  static constexpr std::uint32_t kMtu = 256, kFirst = 0xffffff;

  explicit Observed(const soft::EngineOptions& options = {}) : engine(options) {
    engine.join_fabric(fd);
    peer.emplace(fd);
    pd = engine.create_pd();
    queue.emplace(engine, pd);
    memory.emplace(engine, pd, 4096);
    node = queue->qpn() >> soft::kLocalBits;
    number = peer->node() << soft::kLocalBits | 5;
    queue->connect(number, {.mtu = kMtu}, {.send_psn = kFirst});
    for (std::size_t i = 0; i < 4096; ++i) memory->data()[i] = static_cast<std::uint8_t>(i * 7);
  }
  ~Observed() { ::close(fd); }
  Observed(const Observed&) = delete;

  [[nodiscard]] Queue::Near near(std::uint64_t offset, std::uint32_t bytes) {
    return {memory->address(offset), bytes, memory->key()};
  }
  /// The next packet, which has the `place`-th number of the connection.
  Packet packet(std::uint32_t place, Kind kind, std::uint64_t offset, std::uint32_t bytes) {
    soft::Ring& ring = peer->request_from(node);
    const Packet* got = nullptr;
    REQUIRE(eventually([&] { return (got = ring.front()) != nullptr; }));
    const Packet copy = *got;
    const std::uint8_t* const payload = soft::Ring::payload(got);
    CHECK(std::equal(payload, payload + bytes, memory->data() + offset));
    ring.pop(*got);
    CHECK(copy.kind == kind);
    CHECK(copy.payload_bytes == bytes);
    CHECK(copy.offset == offset);
    CHECK(copy.source == queue->qpn());
    CHECK(copy.target == number);
    CHECK(copy.psn == ((kFirst + place) & soft::kPsnMask));
    CHECK(copy.key == kFar.key);
    CHECK(copy.address == kFar.address);
    return copy;
  }
  void answer(Packet to, Kind kind, std::uint64_t offset = 0, const Bytes& payload = {}) {
    soft::Ring* const ring = peer->reply_to(node);
    Packet* const packet = ring->reserve(static_cast<std::uint32_t>(payload.size()));
    packet->kind = kind;
    packet->source = to.target;
    packet->target = to.source;
    packet->epoch = to.epoch;
    packet->psn = to.psn;
    packet->old = to.old;
    packet->offset = offset;
    packet->syndrome = to.syndrome;
    packet->vendor = to.vendor;
    std::copy(payload.begin(), payload.end(), soft::Ring::payload(packet));
    ring->commit();
  }

  /// The engine has looked at all that it has once more.
  void pass() {
    Queue other(engine, pd);
    other.connect(other.qpn());
    for (int i = 0; i < 2; ++i) CHECK_FALSE(other.ring_and_wait(other.nop()).error());
  }
  [[nodiscard]] bool sends_nothing() {
    pass();
    return peer->request_from(node).front() == nullptr;
  }

  static constexpr Queue::Far kFar{0x123456789a, 0xbeef01};
  int fd = soft::Engine::make_fabric();
  soft::Engine engine;
  std::optional<soft::Fabric> peer;
  std::uint32_t pd = 0, node = 0, number = 0;
  std::optional<Queue> queue;
  std::optional<Memory> memory;
};

TEST_CASE("requests_have_all_of_their_packets_and_take_the_answers_that_are_theirs") {
  Observed end;
  Queue& queue = *end.queue;
  using Kind = soft::PacketKind;
  // The first of three packets has the last number.
  const std::uint16_t write = queue.write(Observed::kFar, end.near(0, 600));
  queue.ring();
  soft::Packet last;
  for (std::uint32_t i = 0; i < 3; ++i) {
    last = end.packet(i, Kind::kWrite, i * 256, i == 2 ? 88 : 256);
    CHECK(last.first == (i == 0));
    CHECK(last.last == (i == 2));
    CHECK(last.length == 600);
    CHECK_FALSE(last.has_immediate);
    CHECK_FALSE(last.solicited);
    CHECK(int{last.inject} == 0);
  }
  soft::Packet other = last;
  other.syndrome = 0x13;
  ++other.epoch;
  end.answer(other, Kind::kAck);  // to an attempt that there was not
  other.epoch = last.epoch;
  other.psn = (last.psn + 1) & soft::kPsnMask;
  end.answer(other, Kind::kAck);  // to the packet after it
  other.psn = (last.psn - 3) & soft::kPsnMask;
  end.answer(other, Kind::kAck);  // to the one before
  end.answer(last, Kind::kAck);
  CHECK_FALSE(queue.wait(write).error());

  const std::uint16_t read = queue.read(Observed::kFar, end.near(1024, 300));
  queue.ring();
  const soft::Packet asked = end.packet(3, Kind::kRead, 0, 0);
  CHECK((asked.first && asked.last));
  CHECK(asked.length == 300);
  end.answer(asked, Kind::kData, 0, Bytes(256, 0xaa));
  soft::Packet second = asked;
  second.psn = (asked.psn + 1) & soft::kPsnMask;
  end.answer(second, Kind::kData, 256, Bytes(44, 0xbb));
  const Cqe got = queue.wait(read);
  CHECK_FALSE(got.error());
  CHECK(got.bytes == 300);
  CHECK(std::count(end.memory->data() + 1024, end.memory->data() + 1280, 0xaa) == 256);
  CHECK(std::count(end.memory->data() + 1280, end.memory->data() + 1324, 0xbb) == 44);

  // The answer to the read took two numbers.
  const std::uint16_t swap = queue.compare_swap(Observed::kFar, end.near(2048, 8), 0x1111, 0x2222);
  queue.ring();
  soft::Packet atomic = end.packet(5, Kind::kAtomic, 0, 0);
  CHECK(atomic.wqe_kind == nic::WqeKind::kCompareSwap);
  CHECK(atomic.length == 8);
  CHECK(atomic.operands.compare == 0x1111);
  CHECK(atomic.operands.swap_or_add == 0x2222);
  // It is not there yet: asked again, as another attempt, to which alone the answer may be.
  end.answer(atomic, Kind::kNotReady);
  const std::uint32_t attempt = atomic.epoch;
  atomic = end.packet(5, Kind::kAtomic, 0, 0);
  CHECK(atomic.epoch == attempt + 1);
  atomic.old = 0x123456789abcdef0;
  end.answer(atomic, Kind::kOld);
  CHECK_FALSE(queue.wait(swap).error());
  CHECK(*end.memory->as<std::uint64_t>(2048) == 0x123456789abcdef0);
  CHECK(end.engine.violations().empty());
}

TEST_CASE("packets_out_of_their_turn_or_of_strangers_are_not_executed") {
  using soft::Condition, soft::Packet, soft::PacketKind;
  struct Row {
    const char* what;
    PacketKind kind;
    std::uint32_t psn, stranger;
    Condition condition;
  };
  const int fd = soft::Engine::make_fabric();
  soft::Engine engine(soft::EngineOptions{});
  engine.join_fabric(fd);
  const std::uint32_t pd = engine.create_pd();
  Queue queue(engine, pd);
  Memory memory(engine, pd, 4096);
  soft::Fabric peer(fd);
  const std::uint32_t node = queue.qpn() >> soft::kLocalBits,
                      source = peer.node() << soft::kLocalBits | 1;
  constexpr std::uint32_t kFirst = 0xfffffe;
  queue.connect(source, {.receive_psn = kFirst});
  soft::Ring *const ring = peer.request_to(node), &answers = peer.reply_from(node);
  const auto write = [&](PacketKind kind, std::uint32_t psn, std::uint32_t from) {
    Packet* const packet = ring->reserve(8);
    packet->kind = kind;
    packet->wqe_kind = nic::WqeKind::kFetchAdd;
    packet->first = packet->last = true;
    packet->key = memory.key();
    packet->source = from;
    packet->target = queue.qpn();
    packet->address = memory.address();
    packet->length = 8;
    packet->psn = psn & soft::kPsnMask;
    packet->epoch = 77;
    std::memset(soft::Ring::payload(packet), 0xee, 8);
    ring->commit();
    const Packet* answer = nullptr;
    REQUIRE(eventually([&] { return (answer = answers.front()) != nullptr; }));
    const Packet copy = *answer;
    answers.pop(*answer);
    CHECK(copy.epoch == 77);
    CHECK(copy.psn == (psn & soft::kPsnMask));
    CHECK(copy.source == queue.qpn());
    CHECK(copy.target == from);
    return copy;
  };
  const auto check = [&](const Row& row) {
    INFO(row.what);
    const Packet answer = write(row.kind, row.psn, source + row.stranger);
    CHECK(answer.kind == PacketKind::kNotReady);
    CHECK(answer.condition == row.condition);
  };
  using Kind = PacketKind;
  for (const Row& row :
       {Row{"of another queue pair", Kind::kWrite, kFirst, 1, Condition::kSilence},
        Row{"the next but one", Kind::kWrite, kFirst + 1, 0, Condition::kSequence},
        Row{"far ahead", Kind::kWrite, kFirst + soft::kPsnHalf - 1, 0, Condition::kSequence},
        Row{"before all", Kind::kWrite, kFirst - 1, 0, Condition::kSilence},
        Row{"half around", Kind::kWrite, kFirst + soft::kPsnHalf, 0, Condition::kSilence},
        Row{"an atomic of before", Kind::kAtomic, kFirst - 1, 0, Condition::kSilence}})
    check(row);
  CHECK(*memory.data() == 0);
  // In its turn, and once more, because its answer may be lost.
  for (int time = 0; time < 2; ++time)
    CHECK(write(Kind::kWrite, kFirst, source).kind == Kind::kAck);
  CHECK(*memory.data() == 0xee);
  check({"two before", Kind::kWrite, kFirst - 1, 0, Condition::kSilence});
  check({"an atomic that was a write", Kind::kAtomic, kFirst, 0, Condition::kSilence});
  check({"a stranger again", Kind::kWrite, kFirst, 2, Condition::kSilence});
  ::close(fd);
}

TEST_CASE("a_message_that_is_lost_is_lost_in_its_midst_and_goes_again_from_its_first_packet") {
  using Kind = soft::PacketKind;
  const std::uint32_t packets = GENERATE(2u, 6u, 9u);
  Observed end({.adversary = "drop=1"});
  end.queue->write(Observed::kFar, end.near(0, packets * Observed::kMtu));
  end.queue->ring();
  std::uint32_t attempt = 0;
  for (std::uint32_t i = 0; i < packets / 2 + packets; ++i) {
    const std::uint32_t place = i < packets / 2 ? i : i - packets / 2;
    const soft::Packet packet =
        end.packet(place, Kind::kWrite, place * Observed::kMtu, Observed::kMtu);
    if (i == 0) attempt = packet.epoch;
    CHECK(packet.epoch == attempt + (i < packets / 2 ? 0 : 1));
    if (packet.last) end.answer(packet, Kind::kAck);
  }
  CHECK_FALSE(end.queue->wait(0).error());
}

}  // namespace
}  // namespace gshmem::test
