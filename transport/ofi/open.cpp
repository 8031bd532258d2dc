// open_ofi: chooses the provider and the path, on which all PEs agree.
#include "host/base/random.h"
#include "host/base/run_phase.h"
#include "transport/nic/rails.h"
#include "transport/ofi/close_on_exec.h"
#include "transport/ofi/environment.h"
#include "transport/ofi/info_choice.h"
#include "transport/ofi/ofi_nic.h"
#include "transport/ofi/provider.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace gshmem::nic {
namespace {

using ofi::Fabric;
using ofi::Library;
using ofi::OfiRails;
using ofi::Path;
using ofi::RailMemory;

/// Number of queues in addition to those between PEs: those of user-created contexts.
constexpr std::size_t kMoreQueues = 1024;
/// Is PCIe the only link by which CPU and NICs access a GPU? If the CPU has another link, its
/// accesses may overtake the writes of NICs.
#if defined(__x86_64__)
constexpr bool kOneBus = true;
#else
constexpr bool kOneBus = false;
#endif

/// The message of a PE to the others after it has opened its side.
struct Offer {
  std::uint32_t rails = 0;
  std::uint32_t rma = 0;    ///< the provider can access this PE's heap
  std::uint64_t cores = 0;  ///< hash of the cores of its host that it may use
  int host = 0;
  std::uint64_t word = 0;  ///< random; all messages contain the word of PE 0
  char provider[64] = "";
};

/// Returns the provider, with its fabric if that matters: all PEs must have the same.
std::string kind_of(const fi_info& info) {
  const std::string provider = info.fabric_attr->prov_name;
  return provider == "efa" ? provider + "/" + info.fabric_attr->name : provider;
}

struct Opened {
  std::unique_ptr<OfiRails> rails;
  RailMemory heap;
  bool rma = false;
  std::string why_not_rma;
};

std::unique_ptr<OfiRails> open_rails(const OpenOptions& options, bool gpu_memory, bool staged) {
  const Library& library = Library::get();
  std::vector<ofi::InfoPtr> infos =
      ofi::choose_provider(library, {.provider = options.config.ofi_provider,
                                     .interface = options.config.ofi_interface,
                                     .addresses = options.addresses,
                                     .gpu_pci = options.gpu_pci,
                                     .local_rank = options.local_rank,
                                     .nics = options.config.nics_per_pe,
                                     .gpu_memory = gpu_memory,
                                     .large_messages = staged});
  const int size = options.boot.size();
  const std::size_t arrivals = static_cast<std::size_t>(size) * ofi::immediates_for(size);
  std::vector<std::unique_ptr<Fabric>> fabrics;
  for (ofi::InfoPtr& info : infos)
    fabrics.push_back(std::make_unique<Fabric>(library, std::move(info), arrivals));
  return std::make_unique<OfiRails>(std::move(fabrics));
}

/// Throws the error with GSHMEM_GDR=on, or if the machine has a network for GPUs. Otherwise the
/// heap is staged.
void stage_or_fail(const OpenOptions& options, const Error& error) {
  if (options.config.gdr == Switch::kOn) throw error;
  const std::string network =
      options.config.ofi_provider.empty() ? ofi::network_for_gpus(Library::get()) : "";
  require(network.empty(), error.code(), [&] {
    return "this machine has " + network + ", but its NICs do not reach the heap: " + error.what() +
           ". GSHMEM_GDR=off copies through host memory, at a fifth of the speed or less";
  });
}

Opened open_local(const OpenOptions& options) {
  const ofi::ClosedOnExec made_here;
  ofi::prepare_environment(options.boot.size(), options.heap_kind == MemoryKind::kGpu);
  Opened opened;
  if (options.config.gdr == Switch::kOff) {
    opened.why_not_rma = "GSHMEM_GDR=off";
    opened.rails = open_rails(options, false, true);
    return opened;
  }
  const bool on_gpu = options.heap_kind == MemoryKind::kGpu;
  try {
    opened.rails = open_rails(options, on_gpu, false);
    opened.heap = opened.rails->register_memory(options.heap, ofi::kHeapAccess);
    opened.rma = true;
    return opened;
  } catch (const Error& error) {
    if (!on_gpu) throw;
    stage_or_fail(options, error);
    opened.why_not_rma = error.what();
  }
  opened.rails = nullptr;
  opened.rails = open_rails(options, false, true);
  return opened;
}

/// Throws on all PEs when one of them has another provider.
void agree(const std::vector<Offer>& offers) {
  for (std::size_t pe = 1; pe < offers.size(); ++pe)
    require(std::strcmp(offers[pe].provider, offers[0].provider) == 0, GSHMEMX_ERROR_NIC, [&] {
      return strprintf(
          "PE 0 chose the libfabric provider \"%s\" and PE %zu \"%s\": set "
          "GSHMEM_OFI_PROVIDER to one that all have",
          offers[0].provider, pe, offers[pe].provider);
    });
}

void exchange_addresses(Collectives& boot, Fabric& fabric) {
  std::vector<std::uint8_t> mine = fabric.address();
  const std::vector<std::size_t> lengths = allgather(boot, mine.size());
  const std::size_t longest = *std::ranges::max_element(lengths);
  std::vector<std::uint8_t> all(longest * lengths.size());
  mine.resize(longest);
  boot.allgather(mine.data(), all.data(), longest);
  std::vector<std::vector<std::uint8_t>> addresses;
  for (std::size_t pe = 0; pe < lengths.size(); ++pe) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(pe * longest);
    addresses.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(lengths[pe]));
  }
  fabric.insert(addresses);
}

/// Returns the number of cores per PE, among the PEs of this host that may use the same cores.
double cores_each(const std::vector<Offer>& offers, const Offer& mine, int count) {
  const auto shares = std::ranges::count_if(
      offers, [&](const Offer& o) { return o.host == mine.host && o.cores == mine.cores; });
  return static_cast<double>(count) / static_cast<double>(std::max<std::ptrdiff_t>(shares, 1));
}

/// Returns the shorter one of two limits, where 0 means no limit.
double connect_seconds(const Config& config) {
  const double start = config.bootstrap_timeout, any = config.timeout;
  return start > 0 && any > 0 ? std::min(start, any) : std::max(start, any);
}

void log_staging(const OpenOptions& options, const Opened& opened) {
  const std::string why = opened.why_not_rma.empty() ? "another PE cannot" : opened.why_not_rma;
  GSHMEM_LOG(options.config.gdr == Switch::kOff ? LogLevel::kInfo : LogLevel::kWarn,
             "GPUDirect RDMA not available: staging through host memory (%s)", why.c_str());
}

}  // namespace

std::unique_ptr<Nic> open_ofi(const OpenOptions& options) {
  Opened opened;
  Offer offer;
  const ofi::Cores cores = ofi::own_cores();
  offer.host = options.host;
  offer.cores = cores.hash;
  run_phase(options.boot, [&] { opened = open_local(options); });
  offer.rails = static_cast<std::uint32_t>(opened.rails->count());
  offer.rma = opened.rma;
  offer.word = random_bits<std::uint64_t>();
  const std::string kind = kind_of(opened.rails->first().info());
  std::snprintf(offer.provider, sizeof(offer.provider), "%s", kind.c_str());
  const std::vector<Offer> offers = allgather(options.boot, offer);
  agree(offers);
  std::uint32_t rails = offer.rails;
  for (const Offer& other : offers) rails = std::min(rails, other.rails);
  opened.rails->keep(rails);
  for (std::size_t rail = 0; rail < rails; ++rail)
    exchange_addresses(options.boot, (*opened.rails)[rail]);

  const bool rma = std::ranges::all_of(offers, [](const Offer& o) { return o.rma; });
  if (!rma) log_staging(options, opened);
  const int size = options.boot.size();
  const std::string nic_pci = ofi::pci_of(opened.rails->first().info());
  auto nic = std::make_unique<ofi::OfiNic>(ofi::OfiNic::Setup{
      .rails = std::move(opened.rails),
      .path = rma ? Path::kRma : Path::kStaged,
      .heap = options.heap,
      .heap_memory = opened.heap,
      .gpu_orders_writes = options.gpu_orders_writes && kOneBus,
      .pe = options.boot.rank(),
      .size = size,
      .job = offers[0].word,
      .max_queues = static_cast<std::size_t>(size * queues_wanted(options.config)) + kMoreQueues,
      .timeout_seconds = options.config.timeout,
      .connect_seconds = connect_seconds(options.config),
      .polling =
          ofi::choose_polling(options.config.ofi_poll, cores_each(offers, offer, cores.count)),
      .near_pci = nic_pci.empty() ? options.gpu_pci : nic_pci,
      .on_error = options.on_error});
  nic->connect_peers(allgather(options.boot, nic->reach()));
  return nic;
}

}  // namespace gshmem::nic
