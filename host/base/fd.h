// A file descriptor that closes itself, and that the child of a fork does not have: there it is
// closed and the object empty. Invariant: no call in a child reaches a descriptor of its parent,
// also where the child has opened another one by that number. (A fork in the moment between the
// system call that opens it and this object's constructor does pass it on.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace gshmem {

// Not inline: shared libraries that have it keep a table of forks each (at_fork.h).
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) noexcept;
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)), forks_(other.forks_) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(forks_, other.forks_);
    return *this;
  }
  ~Fd();
  [[nodiscard]] int get() const noexcept;
  /// Gives up ownership; the children of a fork then have it, too.
  [[nodiscard]] int release() noexcept;
  [[nodiscard]] explicit operator bool() const noexcept { return get() >= 0; }

 private:
  int fd_ = -1;
  std::uint32_t forks_ = 0;  ///< fork_count() of the process that has it
};

// How many this process may have open, and what to say when they are used up.
/// The soft limit.
[[nodiscard]] std::size_t descriptor_limit() noexcept;
/// "this process may have 1024 descriptors open (ulimit -n)".
[[nodiscard]] std::string descriptor_limit_text();
/// "; no descriptor is left: this process ..." where all are open; otherwise empty. For waits for
/// what a library could not open a descriptor for.
[[nodiscard]] std::string descriptors_used_up_text();
/// Raises the soft limit to the hard one where it is below `count`; true when it changed. Programs
/// that use select(2) may rely on a low one, so only who needs many asks.
bool raise_descriptor_limit(std::size_t count) noexcept;

/// What an accept4 that failed says: no descriptors or memory for now.
[[nodiscard]] bool is_shortage(int error) noexcept;

/// Of connections that have not shown that they belong to the job: the others are this process's.
[[nodiscard]] std::size_t stranger_limit() noexcept;
/// For a caller to show it. One of ours does so at once.
inline constexpr double kHandshakeSeconds = 5;

}  // namespace gshmem
