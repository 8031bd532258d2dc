// Connections between the PEs of a host, which are named by their index on the host. The monitors
// use stream sockets. When a stream ends, the PE at its other end has died, and its neighbours
// notify the rest. A PE has streams to the first PE of the host, to its predecessor and to its
// successor, whatever the size of the host. In addition each PE has a mailbox, through which
// descriptors of segments are passed. All are abstract Unix sockets: they leave nothing in a file
// system, and messages of other users are dropped.
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
  /// The data that each PE publishes about itself. It is sent as it is in memory. All zeros: the PE
  /// has no sockets.
  struct Contact {
    Name name{};  ///< name of its sockets; every process of the host can read it (/proc/net/unix)
    Name word{};  ///< random secret that only PEs of the job know; messages without it are dropped
    std::uint64_t process = 0;  ///< number of the process that the PE is a thread of
  };

  /// Returns a hash of the layout of contacts and messages (layout.h).
  [[nodiscard]] static std::uint64_t layout();

  /// Opens this PE's sockets. Errors: GSHMEMX_ERROR_SYSTEM.
  [[nodiscard]] Contact open();
  /// Collective over the host. `contacts` holds the contacts of all PEs of the job. `group`
  /// outlives this object. 0 seconds means no timeout, here and in later calls. Returns the
  /// connections. Errors: GSHMEMX_ERROR_TIMEOUT and GSHMEMX_ERROR_PEER_FAILED, which name the PE;
  /// GSHMEMX_ERROR_SYSTEM, which names the limit when no descriptors are left.
  [[nodiscard]] std::vector<Link> connect(const HostGroup& group,
                                          const std::vector<Contact>& contacts,
                                          double timeout_seconds);
  /// Sets a function that waits call repeatedly. It returns the reason to give up, or an empty
  /// text.
  void set_stopped(std::function<std::string()> stopped) { stopped_ = std::move(stopped); }
  /// Sets the timeout of later calls; 0 means none.
  void set_timeout(double seconds) { timeout_seconds_ = seconds; }

  // The following calls are collective over the host. A PE that has no descriptor left for what
  // another passes, or for the duplicate, gets GSHMEMX_ERROR_SYSTEM when it has exchanged all
  // messages of the call: others are not affected, and later calls work.
  /// Passes `fd` to every other PE. Element i of the result is the descriptor that PE i passed;
  /// this PE's own element is a duplicate.
  [[nodiscard]] std::vector<Fd> exchange(int fd);
  /// Returns on all PEs the descriptor that the host's first PE passes.
  [[nodiscard]] Fd from_root(int fd_on_root);
  /// Returns the bytes that each PE contributes; all contribute the same number of bytes.
  [[nodiscard]] std::vector<std::vector<char>> gather(const std::vector<char>& mine);

  /// Makes the calls above fail at once on PEs that wait for this one. Called by a PE that will not
  /// take part.
  void hang_up() noexcept;

  /// Are all PEs of the host threads of this process?
  [[nodiscard]] bool is_one_process() const noexcept;
  [[nodiscard]] const HostGroup& group() const noexcept { return *group_; }
  [[nodiscard]] int size() const noexcept { return static_cast<int>(contacts_.size()); }

 private:
  struct Message {
    Fd fd;
    std::vector<char> bytes;
    bool lost = false;  ///< it came without its descriptor: this process had none left
  };
  enum class Kind : std::uint32_t { kMessage, kGone };
  [[nodiscard]] bool is_linked(int a, int b) const;
  void connect_to_lower(std::vector<Link>& links);
  void accept_higher(std::vector<Link>& links);
  /// `fd` is -1 if only bytes are exchanged. This PE's own element has no descriptor.
  [[nodiscard]] std::vector<Message> exchange(int fd, const std::vector<char>& bytes);
  [[nodiscard]] Fd descriptor_from(int i, Message& message) const;
  [[nodiscard]] bool post(int i, Kind kind, int fd, std::span<const char> bytes);
  [[nodiscard]] bool take_message();
  void take_messages(const std::vector<int>& from);
  void check_gone(const std::vector<int>& from) const;
  void wait_for_messages(const std::vector<int>& from, const Deadline& deadline);
  [[nodiscard]] Message read_message(int i);
  void check_time(const Deadline& deadline, int i, bool refused) const;

  Contact contact_;
  Fd listener_, mailbox_;
  const HostGroup* group_ = nullptr;
  double timeout_seconds_ = 0;
  std::function<std::string()> stopped_ = [] { return std::string(); };
  std::vector<Contact> contacts_;
  /// Messages that have arrived and have not been read, by sender.
  std::vector<std::queue<Message>> messages_;
  std::vector<bool> gone_;  ///< by PE: it has hung up
};

/// Runs a phase in which the PEs of a host wait for each other's messages. If the phase fails on
/// this PE, it hangs up, since the others would otherwise wait until the timeout.
template <class Phase>
void hang_up_on_error(LocalPeers& local, const Phase& phase) {
  try {
    phase();
  } catch (...) {
    local.hang_up();
    throw;
  }
}

}  // namespace gshmem::control
