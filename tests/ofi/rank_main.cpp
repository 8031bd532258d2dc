// A PE in a process of its own, to be stopped and killed: ofi_rank ID RANK SIZE PROVIDER GDR, where
// ID is a unique id in hex. It serves until its standard input ends. Or a stranger: ofi_rank
// intrude PORT..., a client of another user (if it may change its own) that knows only ports of
// 127.0.0.1. It exits with the number of its reads and writes that succeeded.
#include "tests/ofi/job.h"
#include "transport/ofi/fabric.h"
#include "transport/ofi/message.h"
#include "transport/ofi/provider.h"

#include <gshmem/uniqueid.h>

#include <rdma/fi_rma.h>

#include <netinet/in.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

using namespace gshmem;

/// Counts the operations that have completed, with or without an error.
struct Outcomes final : ofi::CompletionSink {
  int ended = 0, well = 0;
  void completed(ofi::Context&, const ofi::Completion& completion) override {
    ++ended;
    well += completion.error == 0;
  }
};

class Intruder {
 public:
  explicit Intruder(std::uint16_t port) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    std::vector<std::uint8_t> address(sizeof(to));
    std::memcpy(address.data(), &to, sizeof(to));
    fabric_.insert({address});
    memory_ = fabric_.register_memory({.base = bytes_.data(), .bytes = bytes_.size()},
                                      FI_READ | FI_WRITE | FI_SEND);
    std::memcpy(bytes_.data(), "INTRUDER", 8);
  }
  /// Uses keys that can be predicted if they are counted: from 0, from 0x6000 as in an earlier
  /// version, or as in this process, whose memory has such a key, too.
  int read_and_write() {
    int well = 0;
    for (const std::uint64_t base : {std::uint64_t{0}, std::uint64_t{0x6000}, memory_.key - 4}) {
      for (std::uint64_t key = base; key < base + 8; ++key) well += try_key(key);
    }
    return well;
  }
  int try_key(std::uint64_t key) {
    int well = end([&](ofi::Context& context) {
      return fi_read(fabric_.endpoint(), bytes_.data() + 512, 8, memory_.descriptor,
                     fabric_.peer(0), 0, key, &context);
    });
    well += end([&](ofi::Context& context) {
      return fi_write(fabric_.endpoint(), bytes_.data(), 8, memory_.descriptor, fabric_.peer(0), 0,
                      key, &context);
    });
    return well;
  }
  /// Sends a message in the name of PE 1: add 1 to a word of PE 0 or 1. This process gets no
  /// answer.
  void send_atomic(std::uint32_t pe) {
    ofi::MessageHeader header;
    header.kind = ofi::MessageKind::kAtomic;
    header.atomic = nic::WqeKind::kFetchAdd;
    header.unwanted = true;
    header.source = 1;
    header.key = 0x52000000 | pe;
    header.queue = 1;
    header.offset = 64;
    header.bytes = 8;
    header.operands.swap_or_add = 1;
    std::memcpy(bytes_.data() + 1024, &header, sizeof(header));
    (void)end([&](ofi::Context& context) {
      return fi_send(fabric_.endpoint(), bytes_.data() + 1024, sizeof(header), memory_.descriptor,
                     fabric_.peer(0), &context);
    });
  }

 private:
  /// Returns 1 if it succeeded within a second.
  template <class Call>
  int end(const Call& call) {
    ofi::Context& context = contexts_.emplace_back();
    context.sink = &outcomes_;
    const int ended = outcomes_.ended, well = outcomes_.well;
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    ssize_t taken = -FI_EAGAIN;
    while (std::chrono::steady_clock::now() < limit && (taken == -FI_EAGAIN || taken == 0)) {
      if (taken == -FI_EAGAIN) taken = call(context);
      (void)fabric_.poll();
      if (outcomes_.ended > ended) break;
    }
    return outcomes_.well - well;
  }
  ofi::Fabric fabric_{
      ofi::Library::get(),
      std::move(ofi::choose_provider(ofi::Library::get(),
                                     {.provider = "tcp;ofi_rxm", .interface = "127.0.0.1"})
                    .front()),
      0};
  std::vector<std::uint8_t> bytes_ = std::vector<std::uint8_t>(4096);
  ofi::Registered memory_;
  Outcomes outcomes_;
  std::deque<ofi::Context> contexts_;
};

int intrude(int count, char** ports) {
  if (geteuid() == 0) check_errno(setuid(65534), "setuid");
  int well = 0;
  for (int i = 0; i < count; ++i) {
    const auto port = static_cast<std::uint16_t>(std::atoi(ports[i]));
    for (std::uint32_t pe = 0; pe < 2; ++pe) Intruder(port).send_atomic(pe);
    well += Intruder(port).read_and_write();
  }
  return well;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 2 && std::strcmp(argv[1], "intrude") == 0) return intrude(argc - 2, argv + 2);
  if (argc != 6) return 2;
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // a stopped process would not see the end of its input
  try {
    gshmemx_uniqueid id{};
    std::uint8_t bytes[sizeof(id)];
    for (std::size_t i = 0; i < sizeof(id); ++i) {
      const char digits[3] = {argv[1][2 * i], argv[1][2 * i + 1], 0};
      bytes[i] = static_cast<std::uint8_t>(std::strtoul(digits, nullptr, 16));
    }
    std::memcpy(&id, bytes, sizeof(id));
    const Config config = test::config_of({argv[4], argv[5]}, 20);
    const auto boot = bootstrap::create_uid(id, std::atoi(argv[2]), std::atoi(argv[3]), config);
    test::Pe pe(*boot, config);
    char byte = 0;
    while (read(STDIN_FILENO, &byte, 1) > 0) continue;
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ofi_rank: %s\n", error.what());
    return 1;
  }
}
