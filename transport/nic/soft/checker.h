// What clients do wrong without any error of the specification: collected as text, logged, and read
// by tests through Engine::violations(). Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace gshmem::soft {

class Checker {
 public:
  /// `what` in one line; `wqe`, if any, is added as a dump.
  void violation(const std::string& what, const std::uint8_t* wqe = nullptr, std::size_t bytes = 0);
  [[nodiscard]] std::size_t count() const;
  /// One paragraph each; the first kKept of them.
  [[nodiscard]] std::string text() const;

 private:
  static constexpr std::size_t kKept = 64;
  mutable std::mutex mutex_;
  std::vector<std::string> kept_;
  std::size_t count_ = 0;
};

}  // namespace gshmem::soft
