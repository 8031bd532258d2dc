#include "transport/p2p/peer_monitor.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cerrno>
#include <vector>

namespace gshmem::p2p {

PeerMonitor::PeerMonitor(const PeerSockets& sockets, std::function<void(int, Event)> on_event,
                         std::function<void()> on_tick)
    : sockets_(sockets),
      on_event_(std::move(on_event)),
      on_tick_(std::move(on_tick)),
      stop_(static_cast<int>(check_errno(eventfd(0, EFD_CLOEXEC), "eventfd"))),
      thread_([this] { run(); }) {}

PeerMonitor::~PeerMonitor() {
  const std::uint64_t one = 1;
  (void)!::write(stop_.get(), &one, sizeof(one));
  thread_.join();
}

void PeerMonitor::run() {
  std::vector<pollfd> entries{{stop_.get(), POLLIN, 0}};
  std::vector<int> pes{-1};
  for (int pe = 0; pe < sockets_.size(); ++pe) {
    if (sockets_.socket(pe) < 0) continue;
    entries.push_back({sockets_.socket(pe), POLLIN, 0});
    pes.push_back(pe);
  }
  const int wait_ms = on_tick_ ? 100 : -1;
  for (;;) {
    const int ready = ::poll(entries.data(), entries.size(), wait_ms);
    if (ready < 0 && errno != EINTR) return;
    if (on_tick_) on_tick_();
    if (ready <= 0) continue;
    if (entries[0].revents != 0) return;
    for (std::size_t i = 1; i < entries.size(); ++i) {
      if (entries[i].revents == 0) continue;
      char byte = 0;
      const ssize_t n = ::recv(entries[i].fd, &byte, 1, MSG_DONTWAIT);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      entries[i].fd = -1;  // poll ignores it from now on
      on_event_(pes[i], n == 1 && byte == PeerSockets::kGoodbye ? Event::kLeft : Event::kDied);
    }
  }
}

}  // namespace gshmem::p2p
