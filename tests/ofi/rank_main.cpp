// A PE in a process of its own, to be stopped and killed: ofi_rank ID RANK SIZE PROVIDER GDR, where
// ID is a unique id in hex. Serves until its standard input ends.
#include "tests/ofi/job.h"

#include <gshmem/uniqueid.h>

#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

int main(int argc, char** argv) {
  using namespace gshmem;
  if (argc != 6) return 2;
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // stopped, it would not see its input end
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
