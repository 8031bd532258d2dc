#include "host/runtime/same_build.h"

#include "host/base/board.h"
#include "host/base/layout.h"
#include "host/base/net/frame.h"
#include "host/base/run_phase.h"
#include "host/control/local_peers.h"
#include "transport/nic/nic.h"

#include <gshmem/abi/fault.h>
#include <gshmem/abi/queue.h>
#include <gshmem/abi/state.h>
#include <gshmem/abi/team.h>
#include <gshmem/constants.h>

#include <cstddef>
#include <cstdio>
#include <cstring>

namespace gshmem {
namespace {

std::string text_of(const Build& build) {
  return strprintf("gshmem %.*s (ABI %u, layouts %016lx)", int{sizeof(build.version)},
                   build.version, build.abi, build.layouts);
}

}  // namespace

Build this_build() {
  Build build{.abi = abi::kStateAbi};
  std::snprintf(build.version, sizeof(build.version), "%d.%d.%d", GSHMEM_VENDOR_MAJOR_VERSION,
                GSHMEM_VENDOR_MINOR_VERSION, GSHMEM_VENDOR_PATCH_VERSION);
  build.layouts = layout_of(
      {Board::layout(), control::LocalPeers::layout(), net::FrameHeader::kVersion,
       nic::kOfiHeaderBytes, abi::kInternalBytes, sizeof(abi::InternalArea),
       sizeof(abi::ScratchSlot), sizeof(abi::DeviceState), sizeof(abi::SyncSlot), sizeof(abi::Team),
       sizeof(abi::CallNote), sizeof(abi::QueueView), sizeof(abi::QueueCursor),
       sizeof(abi::RemoteKeys), sizeof(abi::Control), sizeof(abi::FaultRecord)});
  return build;
}

void require_same_build(Collectives& ranks) {
  const std::vector<Build> all = allgather(ranks, this_build());
  for (std::size_t pe = 1; pe < all.size(); ++pe) {
    if (std::memcmp(&all[pe], &all[0], sizeof(Build)) == 0) continue;
    throw PhaseError(GSHMEMX_ERROR_SYMMETRY,
                     strprintf("PE 0 has %s and PE %zu %s: all PEs of a job need one build",
                               text_of(all[0]).c_str(), pe, text_of(all[pe]).c_str()));
  }
}

}  // namespace gshmem
