// Messages that no PE sends, and answers that nobody has asked for: what a PE that stages makes of
// them.
#include "tests/ofi/job.h"
#include "tests/capture.h"

#include "transport/ofi/fabric.h"
#include "transport/ofi/message.h"
#include "transport/ofi/provider.h"

#include <rdma/fi_errno.h>

#include <catch2/catch.hpp>

#include <cstring>
#include <string>
#include <vector>

using namespace gshmem;
using namespace gshmem::test;

namespace {

/// A PE that stages, and a stranger who sends it messages.
struct Stranger {
  static Leg leg() {
    Leg staged{.provider = "efa/efa", .gdr = "off"};
    staged.by_hand = true;
    return staged;
  }
  Stranger() : job(1, leg()) {
    job[0].round();
    struct Address {
      std::uint64_t magic, number;
    } name;
    const std::vector<std::uint8_t> own = fabric.address();
    REQUIRE(own.size() == sizeof(name));
    std::memcpy(&name, own.data(), sizeof(name));
    --name.number;  // the endpoint that was made before
    std::vector<std::uint8_t> target(sizeof(name));
    std::memcpy(target.data(), &name, sizeof(name));
    fabric.insert({target});
    registered = fabric.register_memory({.base = memory.data(), .bytes = memory.size()}, FI_SEND);
    fabric_double()->journals = true;
  }
  ~Stranger() {
    fabric_double()->journals = false;
    fabric.close();
  }
  /// Sends it, and returns the answers.
  std::vector<ofi::MessageHeader> answers(const ofi::MessageHeader& header, std::size_t bytes) {
    std::memcpy(memory.data(), &header, sizeof(header));
    iovec where{memory.data(), bytes};
    void* descriptor = registered.descriptor;
    fi_msg message{};
    message.msg_iov = &where;
    message.desc = &descriptor;
    message.iov_count = 1;
    message.addr = fabric.peer(0);
    CHECK(fi_sendmsg(fabric.endpoint(), &message, 0) == 0);
    (void)fabric_double()->sent();
    for (int round = 0; round < 5; ++round) job[0].round();
    std::vector<ofi::MessageHeader> all;
    for (const std::vector<std::uint8_t>& sent : fabric_double()->sent()) {
      ofi::MessageHeader& answer = all.emplace_back();
      REQUIRE(sent.size() >= sizeof(answer));
      std::memcpy(&answer, sent.data(), sizeof(answer));
      payload.assign(sent.begin() + sizeof(answer), sent.end());
    }
    return all;
  }

  Job job;
  ofi::Fabric fabric{
      ofi::Library::get(),
      std::move(ofi::choose_provider(ofi::Library::get(), {.provider = "efa/efa"}).front()), 0};
  std::vector<std::uint8_t> memory = std::vector<std::uint8_t>(512 * 1024);
  std::vector<std::uint8_t> payload;  ///< of the last answer
  ofi::Registered registered;
};

/// What the target would do: reads 8 bytes of PE 0's heap.
ofi::MessageHeader good_request() {
  ofi::MessageHeader header;
  header.kind = ofi::MessageKind::kRead;
  header.key = 0x52000000;
  header.request = 0x770000;
  header.offset = 64;
  header.bytes = 8;
  return header;
}

}  // namespace

TEST_CASE("a request gets its answer, or the syndrome of what is wrong with it", "[ofi][double]") {
  if (!have_double()) return;
  using Header = ofi::MessageHeader;
  using ofi::MessageKind;
  constexpr std::size_t kPayload = 262144;
  struct Row {
    const char* what;
    void (*change)(Header&);
    std::uint8_t syndrome;
  };
  const Row row = GENERATE(
      Row{"good", [](Header&) {}, 0}, Row{"key", [](Header& h) { ++h.key; }, 0x13},
      Row{"last bytes", [](Header& h) { h.offset = kHeapBytes - 8; }, 0},
      Row{"end", [](Header& h) { h.offset = kHeapBytes - 7; }, 0x13},
      Row{"wraps", [](Header& h) { h.offset = ~std::uint64_t{0} - 3; }, 0x13},
      Row{"largest", [](Header& h) { h.bytes = kPayload; }, 0},
      Row{"too large", [](Header& h) { h.bytes = kPayload + 1; }, 0x12},
      Row{"atomic", [](Header& h) { h.kind = MessageKind::kAtomic; }, 0},
      Row{"atomic of 4", [](Header& h) { h.kind = MessageKind::kAtomic, h.bytes = 4; }, 0},
      Row{"atomic of 2", [](Header& h) { h.kind = MessageKind::kAtomic, h.bytes = 2; }, 0x12},
      Row{"atomic of 16", [](Header& h) { h.kind = MessageKind::kAtomic, h.bytes = 16; }, 0x12},
      Row{"unaligned", [](Header& h) { h.kind = MessageKind::kAtomic, h.offset = 68; }, 0x12},
      Row{"largest write", [](Header& h) { h.kind = MessageKind::kWrite, h.bytes = kPayload; }, 0});
  INFO(row.what);
  Stranger stranger;
  for (std::uint64_t i = 0; i < 8; ++i)
    stranger.job[0].heap()[64 + i] = static_cast<std::uint8_t>(7 * i + 3);
  Header header = good_request();
  row.change(header);
  const bool writes = header.kind == MessageKind::kWrite;
  const auto answers = stranger.answers(header, sizeof(header) + (writes ? header.bytes : 0));
  REQUIRE(answers.size() == 1);
  const Header& answer = answers.front();
  CHECK(answer.magic == Header::kMagic);
  CHECK(answer.kind == MessageKind::kReply);
  CHECK(answer.source == 0);
  CHECK(answer.request == header.request);
  CHECK(answer.number == header.number);
  CHECK(int{answer.syndrome} == int{row.syndrome});
  const bool reads = header.kind == MessageKind::kRead && row.syndrome == 0;
  CHECK(answer.bytes == (reads ? header.bytes : 0));
  CHECK(stranger.payload.size() == answer.bytes);
  if (std::string(row.what) == "good")
    CHECK(stranger.payload == std::vector<std::uint8_t>{3, 10, 17, 24, 31, 38, 45, 52});
  if (row.syndrome == 0) return;
  // Nothing after an error of a queue is carried out.
  Header next = good_request();
  next.number = 1;
  const auto later = stranger.answers(next, sizeof(next));
  REQUIRE(later.size() == 1);
  CHECK(int{later.front().syndrome} == 0x05);
}

TEST_CASE("what no PE sends is no message", "[ofi][double]") {
  if (!have_double()) return;
  using Header = ofi::MessageHeader;
  using ofi::MessageKind;
  Stranger stranger;
  const auto count = [&](auto change, std::size_t bytes = sizeof(Header)) {
    Header header = good_request();
    change(header);
    return stranger.answers(header, bytes).size();
  };
  StderrCapture log;
  const auto said = [&] {
    const std::vector<std::string> lines = log.writes();
    return lines.empty() ? "nothing" : lines.front();
  };
  CHECK(count([](Header& h) { ++h.magic; }) == 0);
  CHECK_THAT(said(), Catch::Contains("WARN: message of 104 bytes that no PE sends: ignored"));
  // The receive has room for less.
  CHECK(count(
            [](Header& h) {
              h.kind = MessageKind::kWrite;
              h.bytes = 262144 + 8;
            },
            sizeof(Header) + 262144 + 8) == 0);
  CHECK_THAT(said(),
             Catch::Contains("bytes that no PE sends: ") && Catch::Contains("the double's error"));
  CHECK(count([](Header& h) { h.source = 1; }) == 0);
  CHECK(count([](Header&) {}, sizeof(Header) - 1) == 0);
  CHECK(count([](Header&) {}, sizeof(Header) + 8) == 0);
  CHECK(count([](Header& h) { h.kind = MessageKind::kWrite; }) == 0);
  CHECK(count([](Header& h) { h.kind = MessageKind::kReply; }, sizeof(Header) + 8) == 0);
  // 2 queues to a PE, and 1,024 more.
  CHECK(count([](Header& h) { h.queue = 1026; }) == 0);
  CHECK(count([](Header& h) { h.queue = 1025; }) == 1);
  (void)said();
  CHECK(count([](Header& h) { h.number = 1u << 31; }) == 0);
  CHECK_THAT(said(), Catch::Contains("message 2147483648 of PE 0's queue comes twice: ignored"));
  CHECK(count([](Header&) {}) == 1);
  CHECK(count([](Header&) {}) == 0);                   // again
  CHECK(count([](Header& h) { h.number = 2; }) == 0);  // before its turn
  CHECK(count([](Header& h) { h.number = 1; }) == 2);
  // Each has its receive posted again: there are 32.
  for (int i = 0; i < 40; ++i) CHECK(count([](Header& h) { ++h.magic; }) == 0);
  for (int i = 0; i < 40; ++i) CHECK(count([](Header&) {}) == 0);
  CHECK(count([](Header& h) { h.number = 3; }) == 1);
  CHECK(fabric_double()->violations().empty());
}

TEST_CASE("an answer counts once, and only of what was asked", "[ofi][double]") {
  if (!have_double()) return;
  using Header = ofi::MessageHeader;
  constexpr std::uint64_t kIndexes = 1 << 16;  // Header::request: which one, and its buffer
  Stranger stranger;
  Pe& pe = stranger.job[0];
  Client& client = pe.to(0);
  const auto ask = [&] {
    fabric_double()->rtt = 3600ll * 1'000'000'000;  // no other answer comes
    (void)fabric_double()->sent();
    (void)client.read(64, 128, 8);
    client.ring();
    pe.round();
    fabric_double()->rtt = 0;
    const auto sent = fabric_double()->sent();
    REQUIRE(sent.size() == 1);
    Header request;
    std::memcpy(&request, sent.front().data(), sizeof(request));
    return request;
  };
  const auto answer = [&](Header header, std::uint64_t request, std::uint64_t bytes,
                          std::uint8_t fill) {
    header.kind = ofi::MessageKind::kReply;
    header.request = request;
    header.bytes = bytes;
    std::memset(stranger.memory.data() + sizeof(header), fill, bytes);
    CHECK(stranger.answers(header, sizeof(header) + bytes).empty());
  };
  for (std::uint8_t lap = 1; lap < 4; ++lap) {
    const std::uint64_t entry = client.next();
    const Header request = ask();
    const auto good = static_cast<std::uint8_t>(2 * lap);
    answer(request, request.request + kIndexes, 8, 0xee);
    answer(request, request.request - kIndexes, 8, 0xee);
    REQUIRE(request.request % kIndexes != 0);
    answer(request, request.request / kIndexes * kIndexes, 8, 0xee);
    answer(request, request.request / kIndexes * kIndexes + 32, 8, 0xee);  // has 32
    CHECK_FALSE(client.has_ended(entry));
    answer(request, request.request, 8, good);
    CHECK(client.has_ended(entry));
    answer(request, request.request, 8, 0xee);
    CHECK(pe.at<std::uint64_t>(128) == 0x0101010101010101 * good);
  }
  const std::uint64_t entry = client.next();
  const Header request = ask();
  answer(request, request.request, 4, 0xee);
  CHECK(int{client.wait(entry, 0).syndrome} == 0x10);
  CHECK(fabric_double()->violations().empty());
}
