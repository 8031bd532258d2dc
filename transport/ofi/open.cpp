// open_ofi: the choice of provider and path that all PEs agree on.
#include "host/base/collectives.h"
#include "transport/ofi/ofi_nic.h"
#include "transport/ofi/provider.h"

#include <algorithm>
#include <cstring>

namespace gshmem::nic {
namespace {

using ofi::Fabric;
using ofi::Library;
using ofi::Path;

/// Queues beside those to PEs: user-created ones.
constexpr std::size_t kMoreQueues = 1024;

/// The message of a PE to the others after it has opened its side, or has failed to.
struct Offer {
  int status = GSHMEMX_SUCCESS;
  std::uint32_t address_bytes = 0;
  std::uint32_t rma = 0;  ///< the provider reaches this PE's heap
  char provider[44] = "";
  char error[968] = "";
};

void copy_text(char* to, std::size_t size, const std::string& from) {
  std::strncpy(to, from.c_str(), size - 1);
}

struct Opened {
  std::unique_ptr<Fabric> fabric;
  bool rma = false;
  std::string why_not_rma;
};

std::unique_ptr<Fabric> open_fabric(const Library& library, const OpenOptions& options,
                                    bool gpu_memory) {
  return std::make_unique<Fabric>(
      library, ofi::choose_provider(library, {.provider = options.config.ofi_provider,
                                              .interface = options.config.ofi_interface,
                                              .addresses = options.addresses,
                                              .gpu_pci = options.gpu_pci,
                                              .local_rank = options.local_rank,
                                              .gpu_memory = gpu_memory}));
}

Opened open_local(const OpenOptions& options) {
  const Library& library = Library::get();
  Opened opened;
  const Switch gdr = options.config.gdr;
  if (gdr == Switch::kOff) {
    opened.why_not_rma = "GSHMEM_GDR=off";
  } else if (options.heap_kind == MemoryKind::kGpu) {
    try {
      opened.fabric = open_fabric(library, options, true);
      ofi::check_gpu_registration(*opened.fabric, options.gpu);
      opened.rma = true;
    } catch (const Error& error) {
      if (gdr == Switch::kOn) throw;
      opened.fabric = nullptr;
      opened.why_not_rma = error.what();
    }
  } else {
    opened.rma = true;
  }
  if (opened.fabric == nullptr) opened.fabric = open_fabric(library, options, false);
  return opened;
}

/// Throws on all PEs when one of them failed or has another provider.
void agree(const std::vector<Offer>& offers) {
  for (std::size_t pe = 0; pe < offers.size(); ++pe)
    require(offers[pe].status == GSHMEMX_SUCCESS, static_cast<gshmemx_status>(offers[pe].status),
            [&] { return strprintf("PE %zu: %s", pe, offers[pe].error); });
  for (std::size_t pe = 1; pe < offers.size(); ++pe)
    require(std::strcmp(offers[pe].provider, offers[0].provider) == 0, GSHMEMX_ERROR_NIC, [&] {
      return strprintf(
          "PE 0 chose the libfabric provider \"%s\" and PE %zu \"%s\": set "
          "GSHMEM_OFI_PROVIDER to one that all have",
          offers[0].provider, pe, offers[pe].provider);
    });
}

/// `sockets` waits for whole message headers before it takes a byte of them (libfabric 1.17,
/// sock_pe_peek_hdr). Where the TCP window closes within one, as on loopback interfaces with the
/// usual receive buffers of 128 KiB, nothing moves any more.
void warn_of(const std::string& provider) {
  if (provider != "sockets") return;
  GSHMEM_WARN(
      "libfabric's provider sockets is deprecated and can stall under load, until GSHMEM_TIMEOUT: "
      "use GSHMEM_OFI_PROVIDER=\"tcp;ofi_rxm\", or larger TCP receive buffers "
      "(sysctl -w net.ipv4.tcp_rmem=\"4096 4194304 33554432\")");
}

void exchange_addresses(Collectives& boot, Fabric& fabric, const std::vector<Offer>& offers) {
  std::size_t longest = 0;
  for (const Offer& offer : offers) longest = std::max<std::size_t>(longest, offer.address_bytes);
  std::vector<std::uint8_t> mine = fabric.address(), all(longest * offers.size());
  mine.resize(longest);
  boot.allgather(mine.data(), all.data(), longest);
  std::vector<std::vector<std::uint8_t>> addresses;
  for (std::size_t pe = 0; pe < offers.size(); ++pe) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(pe * longest);
    addresses.emplace_back(begin, begin + offers[pe].address_bytes);
  }
  fabric.insert(addresses);
}

}  // namespace

std::unique_ptr<Nic> open_ofi(const OpenOptions& options) {
  Opened opened;
  Offer offer;
  try {
    opened = open_local(options);
    offer.address_bytes = static_cast<std::uint32_t>(opened.fabric->address().size());
    offer.rma = opened.rma;
    copy_text(offer.provider, sizeof(offer.provider), opened.fabric->info().fabric_attr->prov_name);
  } catch (const Error& error) {
    offer.status = error.code();
    copy_text(offer.error, sizeof(offer.error), error.what());
  }
  const std::vector<Offer> offers = allgather(options.boot, offer);
  agree(offers);
  if (options.boot.rank() == 0) warn_of(offers[0].provider);
  exchange_addresses(options.boot, *opened.fabric, offers);

  const bool rma = std::all_of(offers.begin(), offers.end(), [](const Offer& o) { return o.rma; });
  if (!rma) {
    const std::string why = opened.why_not_rma.empty() ? "another PE cannot" : opened.why_not_rma;
    GSHMEM_LOG(options.config.gdr == Switch::kOff ? LogLevel::kInfo : LogLevel::kWarn,
               "GPUDirect RDMA not available: staging through host memory (%s)", why.c_str());
  }
  const int size = options.boot.size();
  return std::make_unique<ofi::OfiNic>(ofi::OfiNic::Setup{
      .fabric = std::move(opened.fabric),
      .path = rma ? Path::kRma : Path::kStaged,
      .pe = options.boot.rank(),
      .size = size,
      .max_queues = static_cast<std::size_t>(size * options.config.qps_per_pe) + kMoreQueues,
      .timeout_seconds = options.config.timeout,
      .on_error = options.on_error});
}

}  // namespace gshmem::nic
