// What the PEs of a host, which are named by their index on it, have of each other. Stream sockets,
// for the monitors: the end of one says that a PE has died, and who sees it tells the others. A PE
// has them to the first, the one before it and the one after it, whatever the size of the host. A
// mailbox for each PE, through which descriptors of segments pass. Abstract Unix sockets: nothing
// is left in a file system, and only processes of the same user are heard.
#pragma once

#include "host/base/deadline.h"
#include "host/base/net/stream.h"
#include "host/control/host_group.h"
#include "host/control/link.h"

#include <array>
#include <functional>
#include <queue>
#include <span>
#include <string>
#include <vector>

namespace gshmem::control {

class LocalPeers {
 public:
  using Name = std::array<std::uint64_t, 2>;
  /// What a PE tells the others of itself; travels as it is in memory. Zero: it has no sockets.
  struct Contact {
    Name name{};  ///< of its sockets, which all of the host can read (/proc/net/unix)
    Name word{};  ///< random: only PEs of the job know it; what comes without is dropped
    std::uint64_t process = 0;  ///< whose thread it is
  };

  /// The layout of contacts and letters (layout.h).
  [[nodiscard]] static std::uint64_t layout();

  /// Opens this PE's sockets. Errors: GSHMEMX_ERROR_SYSTEM.
  [[nodiscard]] Contact open();
  /// Collective over the host, when all contacts are known (by PE of the job). `group` outlives
  /// this object; 0 seconds = no end, here and later. Returns the connections.
  /// Errors: GSHMEMX_ERROR_TIMEOUT and GSHMEMX_ERROR_PEER_FAILED naming the PE;
  /// GSHMEMX_ERROR_SYSTEM, naming the limit where there are no descriptors left.
  [[nodiscard]] std::vector<Link> connect(const HostGroup& group,
                                          const std::vector<Contact>& contacts,
                                          double timeout_seconds);
  /// Asked while waiting: why to give up, empty = there is no reason.
  void set_stopped(std::function<std::string()> stopped) { stopped_ = std::move(stopped); }

  // Collective over the host.
  /// Gives `fd` to every other PE; element i of the result is what PE i of the host gave (own: a
  /// duplicate).
  [[nodiscard]] std::vector<Fd> exchange(int fd);
  /// The descriptor that the host's first PE passes, on all of them.
  [[nodiscard]] Fd from_root(int fd_on_root);
  /// A few bytes of every PE, as many from each.
  [[nodiscard]] std::vector<std::vector<char>> gather(const std::vector<char>& mine);

  /// A PE that waits for this one in one of these fails at once. For a PE that will not come.
  void hang_up() noexcept;

  /// All PEs of the host are threads of this process.
  [[nodiscard]] bool is_one_process() const noexcept;
  [[nodiscard]] const HostGroup& group() const noexcept { return *group_; }
  [[nodiscard]] int size() const noexcept { return static_cast<int>(contacts_.size()); }

 private:
  struct Letter {
    Fd fd;
    std::vector<char> bytes;
  };
  enum class Kind : std::uint32_t { kLetter, kGone };
  [[nodiscard]] bool is_linked(int a, int b) const;
  void connect_to_lower(std::vector<Link>& links);
  void accept_higher(std::vector<Link>& links);
  [[nodiscard]] std::vector<Letter> exchange(Letter mine);
  [[nodiscard]] bool post(int i, Kind kind, int fd, std::span<const char> bytes);
  [[nodiscard]] bool take_letter();
  void take_letters(const std::vector<int>& from);
  void check_gone(const std::vector<int>& from) const;
  void wait_for_letters(const std::vector<int>& from, const Deadline& deadline);
  [[nodiscard]] Letter read_letter(int i);
  void check_time(const Deadline& deadline, int i, bool refused) const;

  Contact contact_;
  Fd listener_, mailbox_;
  const HostGroup* group_ = nullptr;
  double timeout_seconds_ = 0;
  std::function<std::string()> stopped_ = [] { return std::string(); };
  std::vector<Contact> contacts_;
  std::vector<std::queue<Letter>> letters_;  ///< that came and have not been read, by sender
  std::vector<bool> gone_;                   ///< has hung up
};

/// For a phase in which PEs of a host wait for what others pass them by their sockets: a PE that
/// fails before hangs up, or they would wait until the timeout.
template <class Phase>
void or_hang_up(LocalPeers& local, const Phase& phase) {
  try {
    phase();
  } catch (...) {
    local.hang_up();
    throw;
  }
}

}  // namespace gshmem::control
