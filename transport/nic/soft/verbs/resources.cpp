#include "transport/nic/soft/verbs/resources.h"

namespace gshmem::soft {

void Resources::add(Resource kind, std::uint32_t number) {
  const std::lock_guard lock(mutex_);
  users_[{kind, number}] = 0;
}

bool Resources::has(Resource kind, std::uint32_t number) const {
  const std::lock_guard lock(mutex_);
  return users_.count({kind, number}) != 0;
}

bool Resources::use(Resource kind, std::uint32_t number) {
  const std::lock_guard lock(mutex_);
  const auto found = users_.find({kind, number});
  if (found == users_.end()) return false;
  ++found->second;
  return true;
}

void Resources::release(Resource kind, std::uint32_t number) {
  const std::lock_guard lock(mutex_);
  const auto found = users_.find({kind, number});
  if (found != users_.end() && found->second > 0) --found->second;
}

Resources::Removal Resources::remove(Resource kind, std::uint32_t number) {
  const std::lock_guard lock(mutex_);
  const auto found = users_.find({kind, number});
  if (found == users_.end()) return Removal::kUnknown;
  if (found->second > 0) return Removal::kBusy;
  users_.erase(found);
  return Removal::kRemoved;
}

std::vector<std::uint32_t> Resources::take(Resource kind) {
  const std::lock_guard lock(mutex_);
  std::vector<std::uint32_t> numbers;
  for (auto it = users_.lower_bound({kind, 0}); it != users_.end() && it->first.first == kind;) {
    numbers.push_back(it->first.second);
    it = users_.erase(it);
  }
  return numbers;
}

}  // namespace gshmem::soft
