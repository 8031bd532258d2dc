// Which provider is asked for what, and what is said when none fits.
#include "tests/ofi/getinfo_double.h"
#include "tests/ofi/job.h"
#include "transport/ofi/provider.h"

#include <catch2/catch.hpp>

#include <cstring>
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
