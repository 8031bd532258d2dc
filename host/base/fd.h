// A file descriptor that closes itself, and that the child of a fork does not have: there it is
// closed and the object empty. Invariant: no call in a child reaches a descriptor of its parent,
// also where the child has opened another one by that number. (A fork in the moment between the
// system call that opens it and this object's constructor does pass it on.)
#pragma once

#include <cstdint>
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

}  // namespace gshmem
