// A file descriptor that closes itself. Its number is never that of a standard stream. In the child
// of a fork it is closed and the object is empty. Invariant: no call in a child uses a descriptor
// of its parent, even if the child has opened another file with the same number. (A fork between
// the system call that opens the descriptor and this object's constructor does pass it on.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace gshmem {

// It is not inline: otherwise each shared library that uses it would have a table of its own
// (at_fork.h).
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) noexcept;  ///< get() may have another number
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)), forks_(other.forks_) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(forks_, other.forks_);
    return *this;
  }
  ~Fd();
  [[nodiscard]] int get() const noexcept;
  /// Gives up ownership; children of a fork then keep the descriptor.
  [[nodiscard]] int release() noexcept;
  [[nodiscard]] explicit operator bool() const noexcept { return get() >= 0; }

 private:
  int fd_ = -1;
  std::uint32_t forks_ = 0;  ///< fork_count() of the process that owns it
};

// The limit on open descriptors of this process, and texts for when they are used up.
/// Returns the soft limit.
[[nodiscard]] std::size_t descriptor_limit() noexcept;
/// "this process may have 1024 descriptors open (ulimit -n)".
[[nodiscard]] std::string descriptor_limit_text();
/// Returns "; no descriptor is left: this process ..." if all are open; otherwise an empty text. It
/// is appended to errors of libraries that could not open a descriptor.
[[nodiscard]] std::string descriptors_used_up_text();
/// Raises the soft limit to the hard limit if it is below `count`; true when it changed. Programs
/// that use select(2) may rely on a low limit, so only calls that need many descriptors raise it.
bool raise_descriptor_limit(std::size_t count) noexcept;

/// Does the error of an accept4 mean that descriptors or memory are exhausted for now?
[[nodiscard]] bool is_shortage(int error) noexcept;

/// Returns how many connections may be open that have not proved that they belong to the job. The
/// other descriptors are left to the process.
[[nodiscard]] std::size_t stranger_limit() noexcept;
/// Time limit for a caller to prove that it belongs to the job. PEs of the job do so at once.
inline constexpr double kHandshakeSeconds = 5;

}  // namespace gshmem
