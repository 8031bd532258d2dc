#include "transport/softnic/checker.h"

#include "host/base/error.h"
#include "host/base/log.h"
#include "transport/nic/decode.h"

namespace gshmem::soft {

void Checker::add(Kind kind, const std::string& what, const std::uint8_t* wqe, std::size_t bytes) {
  std::string text = what;
  if (wqe != nullptr) text += "\n  " + nic::dump_wqe(wqe, bytes);
  if (kind == Kind::kViolation) {
    GSHMEM_LOG_LIMITED(LogLevel::kError, "soft NIC: %s", text.c_str());
  } else {
    GSHMEM_LOG_LIMITED(LogLevel::kWarn, "soft NIC: a NIC would ignore: %s", text.c_str());
  }
  const std::lock_guard lock(mutex_);
  Findings& found = found_[static_cast<std::size_t>(kind)];
  ++found.count;
  if (found.kept.size() < kKept) found.kept.push_back(text);
}

std::size_t Checker::count(Kind kind) const {
  const std::lock_guard lock(mutex_);
  return found_[static_cast<std::size_t>(kind)].count;
}

std::string Checker::text(Kind kind) const {
  const std::lock_guard lock(mutex_);
  const Findings& found = found_[static_cast<std::size_t>(kind)];
  std::string all;
  for (const std::string& one : found.kept) all += one + "\n";
  if (found.count > found.kept.size()) {
    all += strprintf("and %zu more\n", found.count - found.kept.size());
  }
  return all;
}

}  // namespace gshmem::soft
