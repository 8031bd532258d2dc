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
