#include "transport/nic/soft/checker.h"

#include "host/base/error.h"
#include "host/base/log.h"
#include "transport/nic/decode.h"

namespace gshmem::soft {

void Checker::violation(const std::string& what, const std::uint8_t* wqe, std::size_t bytes) {
  std::string text = what;
  if (wqe != nullptr) text += "\n  " + nic::dump_wqe(wqe, bytes);
  GSHMEM_LOG_LIMITED(LogLevel::kError, 16, "soft NIC: %s", text.c_str());
  const std::lock_guard lock(mutex_);
  ++count_;
  if (kept_.size() < kKept) kept_.push_back(text);
}

std::size_t Checker::count() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

std::string Checker::text() const {
  const std::lock_guard lock(mutex_);
  std::string all;
  for (const std::string& one : kept_) all += one + "\n";
  if (count_ > kept_.size()) all += strprintf("and %zu more\n", count_ - kept_.size());
  return all;
}

}  // namespace gshmem::soft
