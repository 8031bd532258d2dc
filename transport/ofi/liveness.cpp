#include "transport/ofi/liveness.h"

#include <rdma/fi_rma.h>

#include <algorithm>

namespace gshmem::ofi {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kProbeAfter = milliseconds(500), kProbeEvery = milliseconds(500);
/// A peer that has answered before and for which the provider has no place for so long is gone:
/// ofi_rxm tries to connect again and again, and says FI_EAGAIN for ever (libfabric 1.17).
constexpr auto kRefused = seconds(5);

}  // namespace

Liveness::Liveness(Lanes& lanes, std::vector<Peer>& peers, const LaneMemory& memory,
                   std::uint64_t word, Clock::duration timeout)
    : lanes_(lanes),
      memory_(memory),
      landing_(memory.base + word + sizeof(std::uint64_t)),
      patience_(kRefused) {
  if (timeout.count() > 0) patience_ = std::min<Clock::duration>(patience_, timeout);
  for (Peer& peer : peers) {
    Probe& probe = probes_.emplace_back();
    probe.sink = this;
    probe.peer = &peer;
  }
}

void Liveness::waiting(int pe, Clock::time_point since, Clock::time_point now) {
  Probe& probe = probes_.at(static_cast<std::size_t>(pe));
  if (probe.flying || !probe.peer->lost.empty()) return;
  if (now - since < kProbeAfter || now < probe.next) return;
  send(probe, now);
}

void Liveness::send(Probe& probe, Clock::time_point now) {
  const Peer& peer = *probe.peer;
  const Way& way = peer.ways[peer.home];
  const ssize_t result = fi_read(lanes_[peer.home].endpoint(), landing_, sizeof(std::uint64_t),
                                 memory_.descriptors[peer.home], way.address, peer.probe_base,
                                 way.probe_key, static_cast<Context*>(&probe));
  if (result == 0) {
    probe.flying = true;
    probe.refused = {};
  } else if (result != -FI_EAGAIN) {
    const std::string text = Library::get().text(result);
    completed(probe, {.error = static_cast<int>(-result), .bytes = 0, .text = text});
  } else if (!peer.answered) {
    // It may not have started yet: GSHMEM_TIMEOUT decides.
  } else if (probe.refused == Clock::time_point{}) {
    probe.refused = now;
  } else if (now - probe.refused > patience_) {
    probe.peer->lost = strprintf("PE %d: no connection can be made since %g s", peer.pe,
                                 std::chrono::duration<double>(patience_).count());
  }
}

void Liveness::completed(Context& context, const Completion& completion) {
  auto& probe = static_cast<Probe&>(context);
  probe.flying = false;
  probe.next = Clock::now() + kProbeEvery;
  if (completion.error != 0 && probe.peer->lost.empty())
    probe.peer->lost = strprintf("probe of PE %d: ", probe.peer->pe) + std::string(completion.text);
}

}  // namespace gshmem::ofi
