#include "transport/ofi/liveness.h"

#include "host/base/fd.h"
#include "transport/ofi/provider_error.h"

#include <rdma/fi_rma.h>

#include <algorithm>
#include <utility>

namespace gshmem::ofi {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kProbeAfter = milliseconds(500), kProbeEvery = milliseconds(500);
/// After this time a peer that has answered before counts as lost, if the provider has no space for
/// its probe and nothing is answered. ofi_rxm tries to connect again and again, and returns
/// FI_EAGAIN for ever (libfabric 1.17).
constexpr auto kRefused = seconds(5);

}  // namespace

Liveness::Liveness(OfiRails& rails, std::vector<Peer>& peers, const RailMemory& memory,
                   std::uint64_t word)
    : rails_(rails),
      memory_(memory),
      landing_(memory.base + word + sizeof(std::uint64_t)),
      known_(peers.size()),
      unanswered_(peers.size()) {
  for (Peer& peer : peers) probes_.push_back({{{}, this}, &peer, peer.home});
}

void Liveness::expect(Peer& peer) {
  const auto pe = static_cast<std::size_t>(peer.pe);
  if (known_[pe]) return;
  known_[pe] = true;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (std::size_t rail = 0; rail < rails_.count(); ++rail) {
    new_.push_back(&greetings_.emplace_back(Probe{{{}, this}, &peer, rail, true}));
    ++unanswered_[pe];
    ++left_;
  }
  any_new_.store(true, std::memory_order_relaxed);  // the lock orders the rest
}

void Liveness::wait(Clock::duration patience) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto ended = [this] { return left_ == 0 || !failure_.empty(); };
  if (patience.count() > 0)
    changed_.wait_until(lock, Clock::now() + patience, ended);
  else
    changed_.wait(lock, ended);
  require(failure_.empty(), GSHMEMX_ERROR_PEER_FAILED, failure_);
  const auto silent =
      std::ranges::find_if(unanswered_, [](std::size_t greetings) { return greetings > 0; });
  require(silent == unanswered_.end(), GSHMEMX_ERROR_TIMEOUT, [&] {
    return strprintf(
        "PE %td has not answered over %s for %g s (GSHMEM_BOOTSTRAP_TIMEOUT, GSHMEM_TIMEOUT)%s",
        silent - unanswered_.begin(), rails_.first().info().fabric_attr->prov_name,
        std::chrono::duration<double>(patience).count(), descriptors_used_up_text().c_str());
  });
}

bool Liveness::progress() {
  if (any_new_.load(std::memory_order_relaxed)) {
    const std::lock_guard<std::mutex> lock(mutex_);
    to_send_.insert(to_send_.end(), new_.begin(), new_.end());
    new_.clear();
    any_new_.store(false, std::memory_order_relaxed);
  }
  if (to_send_.empty()) return false;  // in most rounds
  // Probes that fail within a call are added to the list again.
  std::vector<Probe*> turn = std::exchange(to_send_, {});
  const std::size_t taken =
      std::erase_if(turn, [this](Probe* greeting) { return send(*greeting); });
  to_send_.insert(to_send_.end(), turn.begin(), turn.end());
  return taken > 0;
}

void Liveness::waiting(int pe, Clock::time_point since, Clock::time_point now) {
  Probe& probe = probes_.at(static_cast<std::size_t>(pe));
  Peer& peer = *probe.peer;
  if (probe.flying || !peer.lost.empty()) return;
  if (now - since < kProbeAfter || now < probe.next) return;
  probe.flying = true;  // set until it has completed, which may happen within the call
  if (send(probe)) {
    probe.refused = {};
    return;
  }
  probe.flying = false;
  // A peer that has never answered may not have started yet: GSHMEM_TIMEOUT decides.
  if (peer.answers == 0) return;
  if (probe.refused == Clock::time_point{} || probe.answers != peer.answers) {
    probe.refused = now;
    probe.answers = peer.answers;
  } else if (now - probe.refused > kRefused) {
    lose(peer, strprintf("PE %d: no connection can be made since %g s", peer.pe,
                         std::chrono::duration<double>(kRefused).count()));
  }
}

bool Liveness::send(Probe& probe) {
  const Route& route = probe.peer->routes[probe.rail];
  const ssize_t result =
      fi_read(rails_[probe.rail].endpoint(), landing_, sizeof(std::uint64_t),
              memory_.descriptors[probe.rail], route.address, probe.peer->probe_base,
              route.probe_key, static_cast<Context*>(&probe));
  if (result == 0) return true;
  if (result == -FI_EAGAIN) return false;
  const std::string text = Library::get().text(result);
  completed(probe, {.error = static_cast<int>(-result), .text = text});
  return true;
}

void Liveness::completed(Context& context, const Completion& completion) {
  auto& probe = static_cast<Probe&>(context);
  Peer& peer = *probe.peer;
  if (!probe.greets) {
    probe.flying = false;
    probe.next = Clock::now() + kProbeEvery;
    if (completion.error != 0)
      lose(peer, strprintf("probe of PE %d: ", peer.pe) + std::string(completion.text));
  } else if (completion.error == 0) {
    ++peer.answers;
    end_greeting(probe, "");
  } else {
    const ProviderError provider_error =
        judge(rails_.first().info(), completion, strprintf("PE %d cannot be reached", peer.pe));
    if (provider_error.transient)
      to_send_.push_back(&probe);
    else
      end_greeting(probe, provider_error.failure.text);
  }
}

void Liveness::end_greeting(const Probe& greeting, const std::string& why) {
  const std::lock_guard<std::mutex> lock(mutex_);
  --unanswered_[static_cast<std::size_t>(greeting.peer->pe)];
  --left_;
  if (failure_.empty()) failure_ = why;
  if (left_ == 0 || !failure_.empty()) changed_.notify_all();
}

void Liveness::give_up(const std::string& why) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (left_ > 0 && failure_.empty()) failure_ = why;
  changed_.notify_all();
}

}  // namespace gshmem::ofi
