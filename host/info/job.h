// The job as its PEs see it: joins it as any program does, gathers what each PE is and how it
// reaches the others, leaves. Included by gshmem-info.
#pragma once

#include "host/gpu/gpu.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gshmem::info {

/// How one PE reaches another's memory: by load/store, except for kNetwork.
enum class Path : std::uint8_t {
  kSelf,
  kSharedMemory,
  kSameGpu,
  kNvlink,
  kPcie,
  kPeerGpu,
  kFabric,
  kNetwork
};
[[nodiscard]] std::string_view path_name(Path path);

/// One PE; plain, because PEs exchange it through symmetric memory.
struct PeFacts {
  int rank = 0;
  int gpu = -1;  ///< number in the PE's own process; -1 in CPU mode
  char bootstrap[16] = "";
  char nic[16] = "";  ///< what consumes its work queues
  char host[192] = "";
  char gpu_name[96] = "";
  char gpu_uuid[48] = "";
};

/// Between PEs that are mapped inside a host. `gpus` are those that PE `from` sees. The driver does
/// not name the link between two GPUs; between them it offers native atomics over NVLink and not
/// over PCIe, so that decides.
[[nodiscard]] Path path_between(const PeFacts& from, const PeFacts& to,
                                const std::vector<GpuInfo>& gpus);

struct Job {
  int rank = 0;
  std::vector<PeFacts> pes;
  std::vector<Path> paths;       ///< from PE p to PE q at p * pes.size() + q
  std::vector<std::string> why;  ///< for the same pair: why not load/store; empty where it is
};

/// True when a launcher that the library understands started this process.
[[nodiscard]] bool launched();

/// Collective over the job. All but `rank` is complete on PE 0 only. Errors: what init throws,
/// with its message.
[[nodiscard]] Job join_job();

}  // namespace gshmem::info
