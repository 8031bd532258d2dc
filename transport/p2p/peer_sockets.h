// What the PEs of a host, which are named by their index on it, have of each other. Stream sockets,
// for the monitor: the end of one says that a PE has died. PEs that are threads of one process
// cannot die alone, and have one only to the first of them. A mailbox for each PE, through which
// descriptors of segments pass. Abstract Unix sockets: nothing is left in a file system, and only
// processes of the same user are heard.
#pragma once

#include "bootstrap/bootstrap.h"
#include "bootstrap/deadline.h"
#include "host/base/fd.h"
#include "transport/p2p/host_group.h"

#include <array>
#include <deque>
#include <span>
#include <vector>

namespace gshmem::p2p {

class PeerSockets {
 public:
  /// Collective over the job. `group` outlives this object. 0 seconds = no end.
  /// Errors: GSHMEMX_ERROR_TIMEOUT and GSHMEMX_ERROR_PEER_FAILED naming the PE;
  /// GSHMEMX_ERROR_SYSTEM, naming the limit where there are no descriptors left.
  PeerSockets(bootstrap::Bootstrap& boot, const HostGroup& group, double timeout_seconds);

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

  /// A PE has ended its connection. Only one look in 64 is one.
  [[nodiscard]] bool lost_one();

  /// Socket to PE i of the host; -1 where there is none.
  [[nodiscard]] int socket(int i) const { return sockets_[static_cast<std::size_t>(i)].get(); }
  [[nodiscard]] const HostGroup& group() const noexcept { return group_; }
  [[nodiscard]] int size() const noexcept { return static_cast<int>(sockets_.size()); }

 private:
  using Name = std::array<char, 40>;
  struct Letter {
    Fd fd;
    std::vector<char> bytes;
  };
  enum class Kind : std::uint32_t { kLetter, kGone };
  /// What a PE tells the others of itself.
  struct Contact {
    Name name{};                ///< of its sockets
    std::uint64_t process = 0;  ///< whose thread it is
  };
  [[nodiscard]] bool is_linked(int a, int b) const;
  [[nodiscard]] bool is_first_of_process(int i) const;
  void connect_all();
  void accept_all(const Fd& listener);
  [[nodiscard]] std::vector<Letter> exchange(Letter mine);
  [[nodiscard]] bool post(int i, Kind kind, int fd, std::span<const char> bytes);
  [[nodiscard]] bool take_letter();
  void take_letters(const std::vector<int>& from);
  void check_gone(const std::vector<int>& from) const;
  void wait_for_letters(const std::vector<int>& from, int wait_ms);
  [[nodiscard]] Letter read_letter(int i);
  void check_time(const bootstrap::Deadline& deadline, int i, bool refused) const;

  const HostGroup& group_;
  double timeout_seconds_;
  std::vector<Fd> sockets_;
  Fd mailbox_;
  std::vector<Contact> contacts_;
  std::vector<std::deque<Letter>> letters_;  ///< that came and have not been read, by sender
  unsigned looks_ = 0;
  std::vector<bool> gone_;  ///< has hung up
};

}  // namespace gshmem::p2p
