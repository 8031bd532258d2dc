// What people read of an entry that fails: a line of the log that names it, what is wrong with it,
// and what it was waiting for.
#include "tests/ofi/job.h"
#include "tests/unit/base/capture.h"

#include <catch2/catch.hpp>

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

using namespace gshmem;
using namespace gshmem::test;

namespace {

constexpr std::int64_t kNever = 3600ll * 1'000'000'000;

Leg leg_by_hand(const std::string& gdr) {
  Leg leg{.provider = "efa/efa", .gdr = gdr};
  leg.by_hand = true;
  return leg;
}

/// What is wrong, after two entries that are good.
struct Wrong {
  const char* text;
  void (*post)(Client&);
};
const Wrong kWrongs[] = {
    {"syndrome 0x02: entry 2 of queue 0x101 says it is entry 30583 of queue 0x101",
     [](Client& c) {
       c.raw({0, 0x77, 0x77, 0, 0, 1, 1, 1, 0, 0, 0, 8, 0, 0, 0, 0}, false);
     }},
    {"syndrome 0x02: entry 2 of queue 0x101 says it is entry 2 of queue 0x102",
     [](Client& c) {
       c.raw({0, 0, 2, 0, 0, 1, 2, 1, 0, 0, 0, 8, 0, 0, 0, 0}, false);
     }},
    {"syndrome 0x02: ds is 0 ",
     [](Client& c) {
       c.raw({0, 0, 2, 0, 0, 1, 1, 0, 0, 0, 0, 8, 0, 0, 0, 0}, false);
     }},
    {"syndrome 0x02: ds 5 is not the 64 bytes of this entry",
     [](Client& c) {
       c.gather(abi::Opcode::kRdmaWrite, 64, {{0, 8}, {8, 8}, {16, 8}});
       c.ring(abi::doorbell_value(3, c.number()));
     }},
    {"syndrome 0x13: remote key 0x52000000 is not that of PE 1's heap, 0x52000001",
     [](Client& c) {
       c.remote_key ^= 1;
       c.write(64, 0, 8);
     }},
    {"syndrome 0x04: local key 0x4c000001 is not that of the heap, 0x4c000000",
     [](Client& c) {
       c.local_key ^= 1;
       c.write(64, 0, 8);
     }},
    {"syndrome 0x04: local offset 0x3ffffc + 8 bytes lies outside of the heap of 4194304 bytes",
     [](Client& c) { c.write(64, kHeapBytes - 4, 8); }},
    {"syndrome 0x13: remote offset 0x3ffffc + 8 bytes lies outside of PE 1's heap of 4194304 bytes",
     [](Client& c) { c.write(kHeapBytes - 4, 0, 8); }},
    {"syndrome 0x12: atomic of 8 bytes at remote offset 0x44, which is not aligned",
     [](Client& c) { c.fetch_add(68, 0, 1); }},
    {"syndrome 0x01: 1073741825 bytes in one WQE, at most 1073741824",
     [](Client& c) { c.write(64, 0, (1 << 30) + 1); }},
    {" names queue 0x102", [](Client& c) { c.ring(abi::doorbell_value(2, c.number() + 1)); }},
    {"syndrome 0x02: doorbell announces entry 302; 2 of 256 entries are in use",
     [](Client& c) { c.ring(abi::doorbell_value(302, c.number())); }},
};

/// The lines of the log that name the entry.
std::vector<std::string> lines_of(StderrCapture& log, const std::string& begin) {
  std::vector<std::string> found;
  for (const std::string& line : log.writes())
    if (line.find(begin) != std::string::npos) found.push_back(line);
  return found;
}

}  // namespace

TEST_CASE("a failing entry is named with what is wrong with it", "[ofi][double]") {
  if (!have_double()) return;
  for (const Wrong& wrong : kWrongs) {
    INFO(wrong.text);
    Job job(2, leg_by_hand("auto"));
    Client& client = job[0].to(1);
    for (int round = 0; round < 3; ++round) job[0].round();  // greetings
    fabric_double()->held = job[1].heap();
    for (int i = 0; i < 2; ++i) client.write(64, 0, 8);
    client.ring();
    job[0].round();
    const std::uint64_t doorbell = client.next();
    wrong.post(client);
    if (client.next() != doorbell && std::string(wrong.text).find("ds 5") == std::string::npos)
      client.ring();
    StderrCapture log;
    job[0].round();
    fabric_double()->held = nullptr;
    for (int round = 0; round < 4; ++round) job[0].round();
    const auto lines = lines_of(log, "WARN: queue 0x101 to PE 1 failed at entry 2, syndrome 0x");
    REQUIRE(lines.size() == 1);
    CHECK_THAT(lines[0], Catch::Contains(wrong.text));
    if (std::string(wrong.text).find("queue 0x102") == std::string::npos)
      CHECK((lines[0].find(" opmod 0x00 flags 0x08 ") != std::string::npos) ==
            (std::string(wrong.text).find("doorbell") == std::string::npos));
  }
}

TEST_CASE("an overdue operation says what it waits for", "[ofi][double]") {
  if (!have_double()) return;
  struct Row {
    const char *gdr, *text;
    std::int64_t rtt;
    unsigned busy;
  };
  const Row row =
      GENERATE(Row{"off", "; 2 message(s) sent and not answered", 0, 0},  // the target has no turn
               Row{"off", "; 2 message(s) not sent by the provider", kNever, 0},
               Row{"off", "; 2 message(s) refused by the provider", 0, 100},
               Row{"auto", "; 1 call(s) that the provider did not complete", kNever, 0});
  INFO(row.text);
  Job job(2, leg_by_hand(row.gdr), 10);
  for (int round = 0; round < 3; ++round) job[0].round();  // greetings
  fabric_double()->rtt = row.rtt;
  fabric_double()->busy = row.busy;
  job[0].to(1).write(64, 0, 300'000);
  job[0].to(1).ring();
  const auto begun = std::chrono::steady_clock::now();
  for (const int ms : {0, 0, 9000, 9200}) job[0].round(begun + std::chrono::milliseconds(ms));
  const auto errors = job[0].errors();
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].first == 1);
  CHECK_THAT(errors[0].second,
             Catch::Contains("PE 1 cannot be reached any more: WRITE of 300000 bytes to PE 1 did "
                             "not end within 8.75 s (GSHMEM_TIMEOUT = 10 s)" +
                             std::string(row.text)));
  fabric_double()->rtt = 0;
  fabric_double()->busy = 0;
}

TEST_CASE("messages that wait for several things are counted by each", "[ofi][double]") {
  if (!have_double()) return;
  Job job(2, leg_by_hand("off"), 10);
  for (int round = 0; round < 3; ++round) job[0].round();  // greetings
  fabric_double()->rtt = kNever;
  fabric_double()->busy = 50;
  job[0].to(1).write(64, 0, 3 << 20);  // 12 messages
  job[0].to(1).ring();
  const auto begun = std::chrono::steady_clock::now();
  job[0].round(begun);
  fabric_double()->busy = 100;
  for (const int ms : {9000, 9200}) job[0].round(begun + std::chrono::milliseconds(ms));
  const auto errors = job[0].errors();
  REQUIRE(errors.size() == 1);
  const std::string& text = errors[0].second;
  INFO(text);
  int refused = 0, unsent = 0;
  const std::size_t at = text.rfind("; ");
  REQUIRE(at != std::string::npos);
  CHECK(std::sscanf(text.c_str() + at,
                    "; %d message(s) refused by the provider, %d message(s) not sent by the "
                    "provider",
                    &refused, &unsent) == 2);
  CHECK(refused > 0);
  CHECK(unsent > 0);
  CHECK(refused + unsent == 12);
  fabric_double()->rtt = 0;
  fabric_double()->busy = 0;
}
