#include "host/control/plane.h"

#include "host/base/log.h"
#include "host/control/host_addresses.h"
#include "host/control/host_links.h"
#include "host/base/run_phase.h"

#include <optional>

namespace gshmem::control {

Plane::Plane(bootstrap::Bootstrap& boot, const Config& config, Callbacks callbacks)
    : config_(config), callbacks_(std::move(callbacks)) {
  try {
    run_phase(boot, [&] { connect_local_peers(boot); });
    run_phase(boot, [&] { connect_other_hosts(boot); });
    start_monitor();
    run_phase(boot, [&] { hang_up_on_error(local_, [&] { share_memory(); }); });
  } catch (const PhaseError&) {
    // This process may run the bootstrap's server, and a launcher may end the job with the first
    // process that ends. So no PE leaves before all have received the error.
    try {
      boot.barrier();
    } catch (const Error& error) {
      GSHMEM_DEBUG("after a failed init: %s", error.what());
    }
    throw;
  }
  collectives_->set_timeout(config.bootstrap_timeout);
  boot.finish();
}

Plane::~Plane() { monitor_->leave(); }

/// The time limit is half of the timeout, so that a PE that gives up can still take part in the
/// report that follows.
double Plane::connect_seconds() const { return config_.bootstrap_timeout / 2; }

void Plane::connect_local_peers(bootstrap::Bootstrap& boot) {
  struct Greeting {
    net::Cookie host;
    LocalPeers::Contact contact;
  };
  const std::string identity = host_identity();
  Greeting mine{net::cookie_of(identity), {}};
  // It is thrown after the collective, so that the other PEs do not wait.
  std::optional<Error> failure;
  try {
    mine.contact = local_.open();
  } catch (const Error& error) {
    failure = error;
  }
  std::vector<std::string> hosts;
  std::vector<LocalPeers::Contact> contacts;
  for (const Greeting& each : allgather(boot, mine)) {
    hosts.emplace_back(reinterpret_cast<const char*>(each.host.data()), each.host.size());
    contacts.push_back(each.contact);
  }
  group_ = group_hosts(hosts, boot.rank());
  group_.hosts[static_cast<std::size_t>(group_.node)] = identity;
  if (failure) throw *failure;
  links_ = local_.connect(group_, contacts, connect_seconds());
}

void Plane::connect_other_hosts(bootstrap::Bootstrap& boot) {
  addresses_ = agree_on_addresses(boot, group_, config_);
  if (group_.n_nodes() == 1) return;
  std::vector<Link> links = connect_hosts(boot, group_, addresses_, config_, connect_seconds());
  addresses_ = confirm_addresses(boot, group_, std::move(addresses_), links);
  for (Link& link : links) links_.push_back(std::move(link));
}

void Plane::start_monitor() {
  local_.set_stopped([this] { return why_stopped(); });
  const auto to = [this] { return delivers_to_.load(std::memory_order_acquire); };
  monitor_ = std::make_unique<Monitor>(
      group_, std::move(links_),
      Monitor::Callbacks{.on_event = [this](const PeerNews& news) { on_peer_news(news); },
                         .on_frame =
                             [this, to](const net::Frame& frame) {
                               const net::FrameHeader header = net::header_of(frame);
                               if (header.kind == net::FrameKind::kMessage)
                                 return callbacks_.on_message(header.rank,
                                                              static_cast<Topic>(header.number),
                                                              net::payload_of(frame));
                               if (HostCollectives* collectives = to()) collectives->deliver(frame);
                             },
                         .on_tick = callbacks_.on_tick,
                         .on_failure =
                             [this](const std::string& why) {
                               stop("the other PEs are not watched any more: " + why,
                                    [&] { callbacks_.on_failure(why); });
                             },
                         .missing_here =
                             [to](std::uint64_t number) {
                               const HostCollectives* collectives = to();
                               return collectives ? collectives->missing_here(number) : -1;
                             }});
}

/// Makes the board for the PEs of this host. The first PE allocates the memory.
void Plane::share_memory() {
  const std::size_t bytes = HostCollectives::board_bytes(group_);
  const Fd mine = group_.index == 0 ? make_segment("gshmem-board", bytes) : Fd();
  board_ = map_shared(local_.from_root(mine.get()), bytes, Board::kAlignment);
  collectives_ = std::make_unique<HostCollectives>(
      group_, board_->base(),
      HostCollectives::Outside{
          .contribute = [this](const net::Frame& frame) { monitor_->contribute(frame); },
          .expired = [this](std::uint64_t number) { monitor_->expired(number); },
          .stopped = [this] { return why_stopped(); },
          .waits_long = callbacks_.on_long_wait});
  delivers_to_.store(collectives_.get(), std::memory_order_release);
}

/// Sets the cause for which waits end, after `notify` has notified the owner. A call that failed
/// before would report a fault of its own, which names no PE.
void Plane::stop(const std::string& cause, const std::function<void()>& notify) {
  {
    const std::lock_guard lock(mutex_);
    if (cause_.empty()) cause_ = cause;
  }
  notify();
  notified_.store(true, std::memory_order_release);
}

std::string Plane::why_stopped() {
  const bool stopped = notified_.load(std::memory_order_acquire) || callbacks_.stopped();
  const std::lock_guard lock(mutex_);
  if (stopped) return cause_.empty() ? "stopped while waiting in a host barrier" : cause_;
  return absent().text;
}

const Plane::Absent& Plane::absent() const {
  return in_finalize_.load(std::memory_order_acquire) || left_.pe >= 0 ? left_ : finalizes_;
}

int Plane::absent_pe() {
  const std::lock_guard lock(mutex_);
  return absent().pe;
}

void Plane::send(int pe, Topic topic, net::ByteView message) {
  monitor_->contribute(net::make_frame({.kind = net::FrameKind::kMessage,
                                        .number = static_cast<std::uint64_t>(topic),
                                        .rank = group_.me(),
                                        .detail = static_cast<std::uint32_t>(pe)},
                                       message));
}

std::string Plane::text_of(const PeerNews& news) const {
  const int pe = news.pe;
  switch (news.event) {
    case PeerEvent::kStopped:
      return strprintf("PE %d was stopped by a fault: %s", pe, news.why.c_str());
    case PeerEvent::kLeft:
      return strprintf("PE %d left the job: its process has ended, or gave up gshmem_finalize", pe);
    case PeerEvent::kFinalizes:
      return strprintf("PE %d is in gshmem_finalize, and makes no other call", pe);
    case PeerEvent::kExited:
      return strprintf("PE %d ends the job", pe);
    case PeerEvent::kUnreachable:
      return strprintf(
          "PE %d cannot be reached: its host %s has not answered for %d s (GSHMEM_HEARTBEAT)", pe,
          group_.host_of(pe).c_str(), news.status);
    case PeerEvent::kDied:
      break;
  }
  return strprintf("PE %d died: its process ended without gshmem_finalize", pe);
}

/// Runs on the monitor's thread.
void Plane::on_peer_news(const PeerNews& news) {
  const std::string text = text_of(news);
  const auto notify = [&] {
    {
      const std::lock_guard lock(mutex_);
      if (!watching_ && news.event != PeerEvent::kExited) return early_.push_back(news);
    }
    callbacks_.on_event(news);
  };
  if (!is_end_of_one(news.event)) return stop(text, notify);
  notify();
  const std::lock_guard lock(mutex_);
  Absent& first = news.event == PeerEvent::kLeft ? left_ : finalizes_;
  if (first.pe < 0) first = {news.pe, text};
}

void Plane::watch() {
  std::vector<PeerNews> early;
  {
    const std::lock_guard lock(mutex_);
    watching_ = true;
    early.swap(early_);
  }
  for (const PeerNews& news : early) callbacks_.on_event(news);
}

}  // namespace gshmem::control
