// What the soft NIC answers, packet by packet, to a peer of the test's own.
#include "tests/nic/long_delay.h"
#include "tests/nic/softnic.h"
#include "transport/softnic/fabric.h"

#include <catch2/catch.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

namespace gshmem::test {
namespace {

/// A queue pair that is asked by the test, for which it has a buffer of 1024 bytes or no receive
/// queue.
struct Asked {
  using Packet = soft::Packet;
  using Kind = soft::PacketKind;
  static constexpr std::uint32_t kMtu = 256, kUserIndex = 0x123456;

  explicit Asked(bool has_buffer, bool good_key = true, bool shared = false,
                 const soft::EngineOptions& engine_options = {})
      : engine(engine_options) {
    engine.join_fabric(fd);
    pd = engine.create_pd();
    memory.emplace(engine, pd, 4096);
    receives.emplace(engine, pd, 4096);
    Bytes posted;
    Queue::data(posted, memory->address(), 1024, good_key ? memory->key() : ~memory->key());
    std::copy(posted.begin(), posted.end(), receives->data());
    *receives->as<std::uint32_t>(1024) = __builtin_bswap32(1);
    QueueOptions options{.user_index = kUserIndex};
    if (has_buffer) {
      options.receives.pd = pd;
      options.receives.entries = receives->data();
      options.receives.log_entry_bytes = 4;
      options.receives.record = receives->data() + 1024;
    }
    if (shared)
      options.shared_receives = engine.create_receives(std::exchange(options.receives, {}));
    queue.emplace(engine, pd, options);
    peer.emplace(fd);
    node = queue->qpn() >> soft::kLocalBits;
    source = peer->node() << soft::kLocalBits | 1;
    queue->connect(source, {.mtu = kMtu});
  }
  ~Asked() { ::close(fd); }
  Asked(const Asked&) = delete;

  [[nodiscard]] Packet read_of(const Memory& source, std::uint32_t bytes) const {
    Packet read = request(Kind::kRead);
    read.key = source.key();
    read.address = source.address();
    read.length = bytes;
    return read;
  }
  /// Of one packet to the memory, the n-th of the connection.
  [[nodiscard]] Packet request(Kind kind, std::uint32_t psn = 0) const {
    Packet packet;
    packet.kind = kind;
    packet.first = packet.last = true;
    packet.key = memory->key();
    packet.source = source;
    packet.target = queue->qpn();
    packet.address = memory->address();
    packet.length = 8;
    packet.psn = psn;
    packet.epoch = 7;
    return packet;
  }
  void ask(Packet packet, std::uint32_t bytes) {
    soft::Ring* const ring = peer->request_to(node);
    Packet* to = nullptr;
    REQUIRE(eventually([&] { return (to = ring->reserve(bytes)) != nullptr; }));
    packet.payload_bytes = to->payload_bytes;
    *to = packet;
    std::memset(soft::Ring::payload(to), 0xee, bytes);
    ring->commit();
  }
  Packet answer() {
    soft::Ring& ring = peer->reply_from(node);
    const Packet* got = nullptr;
    REQUIRE(eventually([&] { return (got = ring.front()) != nullptr; }));
    const Packet copy = *got;
    ring.pop(*got);
    return copy;
  }
  /// Nothing is answered before what comes now, a request of somebody else.
  void expect_no_more() {
    Packet last = request(Kind::kRead);
    ++last.source;
    last.epoch = 99;
    ask(last, 0);
    CHECK(answer().epoch == 99);
  }

  int fd = soft::Engine::make_fabric();
  soft::Engine engine;
  std::uint32_t pd = 0, node = 0, source = 0;
  std::optional<Memory> memory, receives;
  std::optional<Queue> queue;
  std::optional<soft::Fabric> peer;
};

TEST_CASE("a_request_has_one_answer_whatever_becomes_of_it") {
  using Kind = soft::PacketKind;
  struct Row {
    const char* what;
    Kind kind;
    bool has_buffer, good_key, immediate;
    std::uint8_t inject, syndrome;
    std::uint32_t bytes = 8;
  };
  for (const Row& row :
       {Row{"more than a write says", Kind::kWrite, false, true, false, 0, kBadRequest, 16},
        Row{"more than a send says", Kind::kSend, true, true, false, 0, kBadRequest, 16},
        Row{"a write", Kind::kWrite, false, true, false, 0, 0},
        Row{"a send", Kind::kSend, true, true, false, 0, 0},
        Row{"a write that a rule fails", Kind::kWrite, false, true, false, kAccess, kAccess},
        Row{"a send without a receive queue", Kind::kSend, false, true, false, 0, kBadRequest},
        Row{"immediate data without one", Kind::kWrite, false, true, true, 0, kBadRequest},
        Row{"a buffer out of reach", Kind::kSend, true, false, false, 0, kRemoteOperation}}) {
    INFO(row.what);
    Asked end(row.has_buffer, row.good_key);
    soft::Packet request = end.request(row.kind);
    request.has_immediate = row.immediate;
    request.inject = row.inject;
    end.ask(request, row.bytes);
    const soft::Packet answer = end.answer();
    CHECK(answer.kind == Kind::kAck);
    CHECK(answer.epoch == 7);
    CHECK(int{answer.syndrome} == row.syndrome);
    end.expect_no_more();
    if (row.kind == Kind::kSend && row.syndrome == 0) {
      const auto cqe = end.queue->peek();
      REQUIRE(cqe.has_value());
      CHECK(cqe->user_index == Asked::kUserIndex);
    }
    const bool failed = row.syndrome != 0;
    CHECK((end.engine.state(end.queue->qpn()) == soft::QpState::kError) == failed);
  }
}

TEST_CASE("what_is_no_request_or_comes_from_nowhere_has_no_answer_and_stops_nothing") {
  using Kind = soft::PacketKind;
  Asked end(false);
  soft::Packet nowhere = end.request(Kind::kWrite);
  nowhere.source = 63u << soft::kLocalBits | 1;  // no node has this number
  end.ask(nowhere, 8);
  end.ask(end.request(Kind::kOld), 0);  // in its turn
  end.expect_no_more();
  CHECK(*end.memory->data() == 0);
  end.ask(end.request(Kind::kWrite), 8);
  CHECK(end.answer().kind == Kind::kAck);
  end.ask(end.request(Kind::kOld), 0);  // and of before
  end.expect_no_more();
  CHECK(*end.memory->data() == 0xee);
}

TEST_CASE("requests_wait_while_there_is_no_room_for_their_answers") {
  Asked end(false);
  constexpr std::uint32_t kMany = 2500;  // answers, of which so many do not fit
  for (std::uint32_t i = 0; i < kMany; ++i) {
    soft::Packet write = end.request(soft::PacketKind::kWrite, i);
    write.address += i;
    end.ask(write, 8);
  }
  // There is room for 2048, and none is given away.
  CHECK(eventually(
      [&] { return __atomic_load_n(end.memory->data() + 2040, __ATOMIC_ACQUIRE) == 0xee; }));
  ::usleep(2000);
  CHECK(__atomic_load_n(end.memory->data() + kMany, __ATOMIC_ACQUIRE) == 0);
  for (std::uint32_t i = 0; i < kMany; ++i) {
    const soft::Packet answer = end.answer();
    REQUIRE(answer.kind == soft::PacketKind::kAck);
    REQUIRE(answer.psn == i);
  }
  end.expect_no_more();
}

TEST_CASE("no_data_goes_out_of_a_port_that_is_down") {
  using Kind = soft::PacketKind;
  Asked end(false, true, false, {.rules = "op=nop:port=down"});
  constexpr std::uint32_t kBytes = 1 << 20;  // more than there is room for
  const Memory source(end.engine, end.pd, kBytes);
  Queue other(end.engine, end.pd);
  other.connect(other.qpn());
  end.ask(end.read_of(source, kBytes), 0);
  CHECK(end.answer().kind == Kind::kData);
  CHECK_FALSE(other.ring_and_wait(other.nop()).error());
  std::uint32_t packets = 1;
  soft::Packet last = end.request(Kind::kRead);
  last.epoch = 99;
  end.ask(last, 0);
  for (soft::Packet got = end.answer(); got.epoch != 99; got = end.answer()) ++packets;
  CHECK(packets < kBytes / Asked::kMtu);
  ::usleep(2000);
  CHECK(end.peer->reply_from(end.node).front() == nullptr);
}

TEST_CASE("an_answer_that_comes_to_a_port_that_is_down_is_lost") {
  Asked end(false, true, false, {.rules = "op=nop:port=down"});
  Queue other(end.engine, end.pd);
  other.connect(other.qpn());
  Queue& queue = *end.queue;
  queue.write({0, 1}, {end.memory->address(), 8, end.memory->key()});
  queue.ring();
  soft::Ring& requests = end.peer->request_from(end.node);
  const soft::Packet* request = nullptr;
  REQUIRE(eventually([&] { return (request = requests.front()) != nullptr; }));
  CHECK_FALSE(other.ring_and_wait(other.nop()).error());
  soft::Ring* const answers = end.peer->reply_to(end.node);
  soft::Packet* answer = answers->reserve(0);
  answer->kind = soft::PacketKind::kAck;
  answer->source = end.source;
  answer->target = queue.qpn();
  answer->epoch = request->epoch;
  answer->psn = request->psn;
  answers->commit();
  CHECK(eventually([&] { return end.engine.counters().retries > 0 || queue.peek(); }));
  const auto cqe = queue.peek();
  CHECK((!cqe || cqe->error()));  // after all its retries
}

TEST_CASE("a_buffer_that_is_filled_in_part_is_flushed") {
  using Kind = soft::PacketKind;
  Asked end(true, true, GENERATE(false, true));
  soft::Packet first = end.request(Kind::kSend);
  first.last = false;
  first.length = 600;
  end.ask(first, Asked::kMtu);
  end.expect_no_more();
  CHECK(end.memory->data()[Asked::kMtu - 1] == 0xee);
  CHECK_FALSE(end.queue->peek());
  end.engine.modify_to_error(end.queue->qpn());
  CHECK(eventually([&] { return end.queue->peek().has_value(); }));
  const auto cqe = end.queue->peek();
  REQUIRE(cqe.has_value());
  CHECK(int{cqe->opcode} == 14);  // of a receiver
  CHECK(int{cqe->syndrome} == kFlush);
  CHECK(int{cqe->vendor} == 0xf9);
  CHECK(cqe->user_index == Asked::kUserIndex);
}

TEST_CASE("a_piece_that_comes_again_is_answered_when_all_of_its_message_is_there") {
  Asked end(false);
  soft::Packet piece = end.request(soft::PacketKind::kWrite);
  piece.length = 2 * Asked::kMtu;
  piece.last = false;
  for (int time = 0; time < 2; ++time) end.ask(piece, Asked::kMtu);
  end.expect_no_more();
  piece.first = false;
  piece.last = true;
  piece.psn = 1;
  piece.offset = Asked::kMtu;
  end.ask(piece, Asked::kMtu);
  const soft::Packet answer = end.answer();
  CHECK(answer.kind == soft::PacketKind::kAck);
  CHECK(answer.psn == 1);
  end.expect_no_more();
}

TEST_CASE("of_the_last_atomics_as_many_are_answered_again_as_may_be_under_way") {
  using Kind = soft::PacketKind;
  const std::uint32_t log = GENERATE(0u, 2u);
  const std::uint32_t kept = 1u << log, all = kept + 1;
  Asked end(false);
  end.queue->reset();
  end.queue->connect(end.source, {.mtu = Asked::kMtu, .log_responder_reads = log});
  const auto add = [&](std::uint32_t place) {
    soft::Packet atomic = end.request(Kind::kAtomic, place);
    atomic.wqe_kind = nic::WqeKind::kFetchAdd;
    atomic.operands.swap_or_add = 1;
    end.ask(atomic, 0);
    const soft::Packet answer = end.answer();
    CHECK(answer.psn == place);
    CHECK(answer.source == end.queue->qpn());
    CHECK(answer.target == end.source);
    return answer;
  };
  for (std::uint32_t i = 0; i < all; ++i) CHECK(add(i).old == i);
  for (std::uint32_t i = 1; i < all; ++i) {
    const soft::Packet again = add(i);
    CHECK(again.kind == Kind::kOld);
    CHECK(again.old == i);
  }
  CHECK(add(0).kind == Kind::kNotReady);
  CHECK(*end.memory->as<std::uint64_t>() == all);
}

TEST_CASE("a_read_whose_queue_pair_goes_has_one_answer_that_says_so") {
  using Kind = soft::PacketKind;
  Asked end(false);
  constexpr std::uint32_t kBytes = 1 << 20;  // more than there is room for
  const Memory source(end.engine, end.pd, kBytes);
  const soft::Packet read = end.read_of(source, kBytes);
  end.ask(read, 0);
  CHECK(end.answer().kind == Kind::kData);
  end.queue->destroy_qp();
  soft::Packet got = end.answer();
  while (got.kind == Kind::kData) got = end.answer();
  CHECK(got.kind == Kind::kNotReady);
  CHECK(got.epoch == read.epoch);
  end.expect_no_more();
}

TEST_CASE("a_write_that_is_held_and_comes_again_has_landed_when_it_is_answered") {
  const LongDelay seed("reorder_writes=1", soft::Behaviour::kReorderWrites, 0, 0, 1);
  for (int round = 0; round < 3; ++round) {
    Asked end(false, true, false, {.seed = seed.seed, .adversary = "reorder_writes=1"});
    const std::uint32_t relaxed =
        end.engine.create_region({.pd = end.pd,
                                  .address = end.memory->data(),
                                  .bytes = 4096,
                                  .iova = end.memory->address(),
                                  .access = 15 | std::uint32_t{soft::kRelaxedOrdering}});
    soft::Packet write = end.request(soft::PacketKind::kWrite);
    write.key = relaxed;
    for (int time = 0; time < 2; ++time) end.ask(write, 8);
    CHECK(end.answer().kind == soft::PacketKind::kAck);
    CHECK(__atomic_load_n(end.memory->data(), __ATOMIC_ACQUIRE) == 0xee);
    end.engine.destroy_region(relaxed);
  }
}

TEST_CASE("a_queue_pair_that_starts_anew_takes_its_buffers_from_the_first_one_on") {
  Asked end(true);
  for (int connection = 0; connection < 3; ++connection) {
    end.ask(end.request(soft::PacketKind::kSend), 8);
    CHECK(end.answer().kind == soft::PacketKind::kAck);
    end.queue->reset();
    end.queue->connect(end.source, {.mtu = Asked::kMtu});
  }
}

}  // namespace
}  // namespace gshmem::test
