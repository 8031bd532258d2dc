// Which provider is asked for what, and what is said when none fits.
#include "host/base/fd.h"
#include "host/base/log.h"
#include "tests/ofi/getinfo_double.h"
#include "tests/ofi/job.h"
#include "transport/ofi/provider.h"

#include <catch2/catch.hpp>

#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

using namespace gshmem;
using namespace gshmem::test;

namespace {

bool asks_for(const fi_info* hints, const char* provider) {
  const char* const name = hints->fabric_attr->prov_name;
  return name == nullptr || std::strcmp(name, provider) == 0;
}

ofi::InfoPtr choose(const char* provider, bool gpu_memory) {
  return ofi::choose_provider(ofi::Library::get(),
                              {.provider = provider, .interface = {}, .gpu_memory = gpu_memory});
}

}  // namespace

TEST_CASE("atomics on GPU memory are asked for only where the NIC has them", "[ofi]") {
  if (!have_libfabric()) return;
  constexpr std::uint64_t kBoth = FI_ATOMIC | FI_HMEM;
  std::uint64_t asked = 0;
  const GetinfoDouble fake([&](std::uint32_t version, const fi_info* hints, fi_info** found) {
    asked = hints->caps & kBoth;
    // efa_user_info_alter_rdm
    if (asks_for(hints, "efa") && version < FI_VERSION(1, 18) && asked == kBoth) return -FI_ENODATA;
    return sockets_as(hints->fabric_attr->prov_name, hints, found);
  });
  for (const char* provider : {"efa", "verbs;ofi_rxm"}) {
    INFO(provider);
    (void)choose(provider, true);
    CHECK(asked == FI_HMEM);
    (void)choose(provider, false);
    CHECK(asked == FI_ATOMIC);
  }
  (void)choose("cxi", true);
  CHECK(asked == kBoth);
}

TEST_CASE("who asks for GPUDirect RMA learns that the provider has no FI_HMEM", "[ofi]") {
  if (!have_libfabric()) return;
  const GetinfoDouble fake([](std::uint32_t, const fi_info* hints, fi_info** found) {
    if (!asks_for(hints, "efa") || (hints->caps & FI_HMEM) != 0) return -FI_ENODATA;
    return sockets_as("efa", hints, found);
  });
  std::string what;
  try {
    (void)choose("efa", true);
  } catch (const Error& error) {
    what = error.what();
  }
  INFO(what);
  CHECK(what.find("FI_MSG, FI_RMA and FI_HMEM. Here it offers: efa has no FI_HMEM") !=
        std::string::npos);
  CHECK(what.find("FI_EFA_USE_DEVICE_RDMA=1") != std::string::npos);
  CHECK(what.find("FI_ATOMIC") == std::string::npos);
}

TEST_CASE("libfabric and what it loads leave the program's signal handlers alone", "[ofi]") {
  std::array<void (*)(int), 32> before{};
  const auto handler_of = [](int signal) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    return action.sa_handler;
  };
  signal(SIGTERM, [](int) {});
  for (int number = 1; number < 32; ++number)
    before[static_cast<std::size_t>(number)] = handler_of(number);
  if (!have_libfabric()) return;
  { const Job job(2, {"tcp;ofi_rxm", "auto"}); }
  for (int number = 1; number < 32; ++number) {
    INFO("signal " << number);
    CHECK(handler_of(number) == before[static_cast<std::size_t>(number)]);
  }
}

TEST_CASE("who takes the provider that may stall is warned, by one PE", "[ofi]") {
  if (!have_libfabric()) return;
  char file[] = "/tmp/gshmem-log.XXXXXX";
  const Fd made(mkstemp(file));
  REQUIRE(made.get() >= 0);
  log_configure(LogLevel::kWarn, file);
  { const Job job(3, {"sockets", "off"}); }
  { const Job job(2, {"tcp;ofi_rxm", "off"}); }
  log_configure(LogLevel::kWarn, "");
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  unlink(file);
  INFO(text.str());
  const std::string first = text.str().substr(0, text.str().find('\n'));
  CHECK_THAT(first, Catch::Contains("WARN: libfabric's provider sockets is deprecated") &&
                        Catch::Contains("GSHMEM_OFI_PROVIDER=\"tcp;ofi_rxm\""));
  CHECK(text.str().size() == first.size() + 1);
}
