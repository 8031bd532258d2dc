// Tests the mlx5 transport on the soft NIC with PEs that are processes: they share a fabric whose
// descriptor the first one passes to the others. Usage: mlx5_processes N. Every process writes to
// every other and adds to one word of the first. It does so twice, because init after finalize must
// find the fabric, which a process can join only once.
#include "host/control/plane.h"
#include "tests/nic/mlx5_pe.h"
#include "tests/nic/soft_findings.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace gshmem::nic {

std::unique_ptr<Nic> open_ofi(const OpenOptions&) {
  throw Error(GSHMEMX_ERROR_NOT_SUPPORTED, "no libfabric in this test");
}

namespace {

int free_port() {
  const Fd fd(static_cast<int>(check_errno(socket(AF_INET, SOCK_STREAM, 0), "socket")));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  check_errno(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size), "bind");
  check_errno(getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size), "getsockname");
  return ntohs(address.sin_port);
}

struct Values {
  std::string address, rank, size;
  static const char* look_up(const char* name, void* context) {
    const auto* values = static_cast<const Values*>(context);
    if (std::strcmp(name, "GSHMEM_UID_ADDRESS") == 0) return values->address.c_str();
    if (std::strcmp(name, "GSHMEM_UID_RANK") == 0) return values->rank.c_str();
    if (std::strcmp(name, "GSHMEM_UID_SIZE") == 0) return values->size.c_str();
    return nullptr;
  }
};

void check(bool ok, const char* what) { require(ok, GSHMEMX_ERROR_INTERNAL, what); }

void one_round(const Config& config) {
  const auto boot = bootstrap::create_uid_from_address(config);
  control::Plane plane(*boot, config, {});
  Collectives& ranks = plane.collectives();
  const int me = ranks.rank(), n = ranks.size();
  TestPe pe(config, ranks, me == 0, [&](int fd_on_root) {
    const Fd received = plane.local().from_root(fd_on_root);
    return static_cast<int>(check_errno(dup(received.get()), "dup"));
  });
  std::memset(pe.heap(), 'a' + me, 64);
  for (int to = 0; to < n; ++to) {
    check(!pe.write(to, 0, 0, static_cast<std::uint64_t>(4096 + me * 64), 64), "write failed");
    check(!pe.fetch_add(0, 1, 512, 1, 1024), "fetch_add failed");
  }
  ranks.barrier();
  // The barrier orders the others' writes before what follows. ThreadSanitizer does not see through
  // sockets, but it sees a completion of the engine's thread, which did those writes here.
  check(!pe.write(me, 0, 0, 2048, 8), "write failed");
  for (int from = 0; from < n; ++from) {
    check(pe.heap()[4096 + from * 64 + 63] == 'a' + from, "written bytes differ");
  }
  std::uint64_t sum = 0;
  std::memcpy(&sum, pe.heap() + 512, sizeof(sum));
  check(me != 0 || sum == static_cast<std::uint64_t>(n * n), "the sum is wrong");
  ranks.barrier();
  pe.nic().stop();
}

int run(const Values values[2]) {
  try {
    for (int round = 0; round < 2; ++round) {
      Values mine = values[round];
      one_round(Config::from(Values::look_up, &mine));
    }
    return test::soft_nic_findings() == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "process %s: %s\n", values[0].rank.c_str(), error.what());
    return 1;
  }
}

}  // namespace
}  // namespace gshmem::nic

int main(int argc, char** argv) {
  using namespace gshmem::nic;
  const int count = argc > 1 ? std::atoi(argv[1]) : 2;
  const std::string ports[2] = {"127.0.0.1:" + std::to_string(free_port()),
                                "127.0.0.1:" + std::to_string(free_port())};
  // There is no thread yet: ThreadSanitizer follows no other fork.
  for (int rank = 0; rank < count; ++rank) {
    const pid_t child = fork();
    if (child < 0) return 1;
    if (child > 0) continue;
    Values values[2];
    for (int round = 0; round < 2; ++round) {
      values[round] = {ports[round], std::to_string(rank), std::to_string(count)};
    }
    std::exit(run(values));
  }
  int failed = 0;
  for (int i = 0; i < count; ++i) {
    int status = 0;
    if (wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0) ++failed;
  }
  std::printf("%d of %d processes failed\n", failed, count);
  return failed == 0 ? 0 : 1;
}
