// Tests how a PE treats messages that no PE sends, answers to no request, and a client that knows
// only a PE's port.
#include "tests/ofi/job.h"
#include "tests/capture.h"

#include "transport/ofi/fabric.h"
#include "transport/ofi/message.h"
#include "transport/ofi/provider.h"

#include <rdma/fi_errno.h>

#include <catch2/catch.hpp>

#include <fcntl.h>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

extern char** environ;

using namespace gshmem;
using namespace gshmem::test;

namespace {

/// A PE that stages, and a stranger that sends it messages.
struct Stranger {
  static Leg leg() {
    Leg staged{.provider = "efa/efa", .gdr = "off"};
    staged.by_hand = true;
    return staged;
  }
  Stranger() : job(1, leg()) {
    job[0].round();
    // The stranger lacks the word of the job, so the test takes it from a message of the PE to
    // itself.
    fabric_double()->journals = true;
    Client& itself = job[0].add_queue();
    const std::uint64_t read = itself.read(kHeapBytes - 8, kHeapBytes - 16, 8);
    itself.ring();
    while (!itself.has_ended(read)) job[0].round();
    ofi::MessageHeader request;
    std::memcpy(&request, fabric_double()->sent().front().data(), sizeof(request));
    word = request.job;
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

  /// A request that the target would execute: it reads 8 bytes of PE 0's heap.
  [[nodiscard]] ofi::MessageHeader good_request() const {
    ofi::MessageHeader header;
    header.job = word;
    header.kind = ofi::MessageKind::kRead;
    header.key = 0x52000000;
    header.request = 0x770000;
    header.offset = 64;
    header.bytes = 8;
    return header;
  }

  Job job;
  std::uint64_t word = 0;
  ofi::Fabric fabric{
      ofi::Library::get(),
      std::move(ofi::choose_provider(ofi::Library::get(), {.provider = "efa/efa"}).front()), 0};
  std::vector<std::uint8_t> memory = std::vector<std::uint8_t>(512 * 1024);
  std::vector<std::uint8_t> payload;  ///< of the last answer
  ofi::Registered registered;
};

}  // namespace

TEST_CASE("a message that no PE sends is ignored", "[ofi][double]") {
  if (!have_double()) return;
  using Header = ofi::MessageHeader;
  using ofi::MessageKind;
  Stranger stranger;
  const auto count = [&](auto change, std::size_t bytes = sizeof(Header)) {
    Header header = stranger.good_request();
    change(header);
    return stranger.answers(header, bytes).size();
  };
  StderrCapture log;
  const auto said = [&] {
    const std::vector<std::string> lines = log.writes();
    return lines.empty() ? "nothing" : lines.front();
  };
  CHECK(count([](Header& h) { ++h.job; }) == 0);
  CHECK_THAT(said(), Catch::Contains("WARN: message of 112 bytes that no PE sends: ignored"));
  // The receive is smaller.
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
  CHECK_THAT(said(), Catch::Contains("message 2147483648 of PE 0's queue arrived twice: ignored"));
  CHECK(count([](Header&) {}) == 1);
  CHECK(count([](Header&) {}) == 0);                   // again
  CHECK(count([](Header& h) { h.number = 2; }) == 0);  // before its turn
  CHECK(count([](Header& h) { h.number = 1; }) == 2);
  // Each receive is posted again: there are 32.
  for (int i = 0; i < 40; ++i) CHECK(count([](Header& h) { ++h.job; }) == 0);
  for (int i = 0; i < 40; ++i) CHECK(count([](Header&) {}) == 0);
  CHECK(count([](Header& h) { h.number = 3; }) == 1);
  CHECK(fabric_double()->violations().empty());
}

namespace {

std::set<int> descriptors() {
  std::set<int> all;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    all.insert(std::stoi(entry.path().filename()));
  return all;
}

/// Returns the ports of 127.0.0.1 on which `sockets` listen.
std::vector<std::string> ports_of(const std::set<int>& sockets) {
  std::vector<std::string> ports;
  for (const int fd : sockets) {
    int listens = 0;
    socklen_t length = sizeof(listens);
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0 || listens == 0) continue;
    sockaddr_in at{};
    length = sizeof(at);
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&at), &length) == 0 && at.sin_family == AF_INET)
      ports.push_back(std::to_string(ntohs(at.sin_port)));
  }
  return ports;
}

/// Returns the exit status of ofi_rank with these arguments.
int status_of(std::vector<std::string> words) {
  words.insert(words.begin(), OFI_RANK);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t pid = 0;
  REQUIRE(posix_spawn(&pid, OFI_RANK, nullptr, nullptr, arguments.data(), environ) == 0);
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  return status;
}

}  // namespace

TEST_CASE("a client that knows only the ports reads and writes nothing", "[ofi]") {
  if (!have_real_libfabric()) return;
  const Leg leg = GENERATE(from_range(legs()));
  INFO(leg.name());
  const std::set<int> before = descriptors();
  Job job(2, leg);
  for (int pe = 0; pe < 2; ++pe) std::memset(job[pe].heap(), 0x11, kHeapBytes);
  REQUIRE(job[0].to(1).ring_and_wait(job[0].to(1).write(4096, 4096, 8)).ok());
  std::set<int> made;
  for (const int fd : descriptors())
    if (before.count(fd) == 0) made.insert(fd);
  for (const int fd : made) {
    const int flags = fcntl(fd, F_GETFD);
    if (flags == -1) continue;  // the descriptor of the listing itself
    std::error_code closed;     // it was closed in the meantime
    INFO("descriptor " << fd << " of "
                       << std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd),
                                                        closed));
    CHECK((flags & FD_CLOEXEC) != 0);
  }
  std::vector<std::string> words = ports_of(made);
  REQUIRE(words.size() == 2);
  words.insert(words.begin(), "intrude");
  CHECK(status_of(words) == 0);
  for (int pe = 0; pe < 2; ++pe) {
    const std::uint8_t* const heap = job[pe].heap();
    CHECK(std::all_of(heap, heap + 4096, [](std::uint8_t byte) { return byte == 0x11; }));
  }
  for (int pe = 0; pe < 2; ++pe)
    CHECK(job[pe].to(1 - pe).ring_and_wait(job[pe].to(1 - pe).fetch_add(64, 512, 1)).ok());
}
