#include "host/tools/info/report.h"

#include "bootstrap/bootstrap.h"
#include "host/base/config.h"
#include "host/base/error.h"
#include "host/runtime/process.h"
#include "host/control/host_group.h"

#include <gshmem/gshmem.hpp>

#include <algorithm>
#include <cstring>

namespace gshmem::info {
namespace {

template <std::size_t kSize>
void copy_text(char (&to)[kSize], const std::string& from) {
  std::memcpy(to, from.data(), std::min(from.size(), kSize - 1));
}

PeFacts my_facts(const std::vector<GpuInfo>& gpus) {
  const Pe& pe = require_pe("gshmem-info");
  PeFacts facts;
  facts.rank = pe.state().my_pe;
  copy_text(facts.bootstrap, pe.bootstrap_name());
  copy_text(facts.nic, pe.network().name());
  copy_text(facts.host, control::host_identity());
  if (const Gpu* gpu = pe.gpu()) {
    facts.gpu = gpu->device();
    copy_text(facts.gpu_name, gpu->name());
    copy_text(facts.gpu_uuid, gpus[static_cast<std::size_t>(gpu->device())].uuid);
  }
  return facts;
}

/// It is trivially copyable, like PeFacts.
struct PathTo {
  Path path = Path::kSelf;
  char why[255] = "";
};

PathTo path_to(const PeFacts& from, const PeFacts& to, const std::vector<GpuInfo>& gpus) {
  const Pe& pe = require_pe("gshmem-info");
  PathTo way;
  if (from.rank == to.rank) return way;
  if (!pe.paths().is_mapped(to.rank)) {
    way.path = Path::kNetwork;
    copy_text(way.why, pe.paths().why_not(to.rank));
    return way;
  }
  way.path = pe.paths().by_fabric(to.rank) ? Path::kFabric : path_between(from, to, gpus);
  return way;
}

}  // namespace

std::string_view path_name(Path path) {
  constexpr std::string_view kNames[] = {"self", "shared memory", "same GPU",      "NVLink",
                                         "PCIe", "peer GPU",      "NVLink fabric", "network"};
  return kNames[static_cast<std::size_t>(path)];
}

Path path_between(const PeFacts& from, const PeFacts& to, const std::vector<GpuInfo>& gpus) {
  if (from.gpu < 0) return Path::kSharedMemory;
  const std::string_view uuid = to.gpu_uuid;
  if (uuid == from.gpu_uuid) return Path::kSameGpu;
  const auto peer = std::ranges::find(gpus, uuid, &GpuInfo::uuid);
  if (peer == gpus.end()) return Path::kPeerGpu;  // hidden here by CUDA_VISIBLE_DEVICES
  const GpuInfo& mine = gpus[static_cast<std::size_t>(from.gpu)];
  return mine.peer_atomics[static_cast<std::size_t>(peer->device)] ? Path::kNvlink : Path::kPcie;
}

bool launched() {
  const auto lookup = [](const char* name, void*) { return env_lookup(name); };
  return env_lookup("PMIX_RANK") != nullptr || env_lookup("GSHMEM_UID_ADDRESS") != nullptr ||
         bootstrap::launcher_of_several(lookup, nullptr) != nullptr;
}

Job join_job() {
  const Runtime runtime;
  const std::size_t n = static_cast<std::size_t>(runtime.n_pes());
  SymmetricArray<PeFacts> pes(n);
  SymmetricArray<PathTo> row(n);

  const std::vector<GpuInfo> gpus = runtime.on_gpu() ? gpu_list() : std::vector<GpuInfo>();
  const PeFacts mine = my_facts(gpus);
  const std::size_t me = static_cast<std::size_t>(mine.rank);
  for (int pe = 0; pe < runtime.n_pes(); ++pe) pes.write({&mine, 1}, pe, me);
  gshmem_barrier_all();

  Job job{.rank = mine.rank,
          .pes = pes.to_vector(mine.rank),
          .paths = {},
          .why = {},
          .algorithms = algorithms(require_pe("gshmem-info").teams(), runtime.on_gpu())};
  std::vector<PathTo> ways;
  for (const PeFacts& peer : job.pes) ways.push_back(path_to(mine, peer, gpus));
  row.write(ways, mine.rank);
  gshmem_barrier_all();
  for (int pe = 0; mine.rank == 0 && pe < runtime.n_pes(); ++pe) {
    for (const PathTo& way : row.to_vector(pe)) {
      job.paths.push_back(way.path);
      job.why.emplace_back(way.why);
    }
  }
  gshmem_barrier_all();  // rows are kept until PE 0 has read them
  return job;
}

}  // namespace gshmem::info
