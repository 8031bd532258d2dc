// Errors of clients that no completion reports: collected as text, logged, and
// read by tests through Engine::violations() and Engine::remarks(). Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace gshmem::soft {

class Checker {
 public:
  enum class Kind : std::uint8_t {
    kViolation,  ///< a NIC would refuse it, or fail
    kRemark,     ///< a field that is set and that a NIC ignores
  };
  explicit Checker(bool remarks) : remarks_(remarks) {}

  /// Reports `what` in one line; `wqe`, if any, is added as a dump.
  void violation(const std::string& what, const std::uint8_t* wqe = nullptr,
                 std::size_t bytes = 0) {
    add(Kind::kViolation, what, wqe, bytes);
  }
  void remark(const std::string& what, const std::uint8_t* wqe = nullptr, std::size_t bytes = 0) {
    if (remarks_) add(Kind::kRemark, what, wqe, bytes);
  }
  [[nodiscard]] std::size_t count(Kind kind) const;
  /// Returns the first kKept reports, one paragraph each.
  [[nodiscard]] std::string text(Kind kind) const;

 private:
  static constexpr std::size_t kKept = 64;
  struct Findings {
    std::vector<std::string> kept;
    std::size_t count = 0;
  };
  void add(Kind kind, const std::string& what, const std::uint8_t* wqe, std::size_t bytes);

  bool remarks_;  ///< whether they are counted
  mutable std::mutex mutex_;
  Findings found_[2];
};

}  // namespace gshmem::soft
