#include "transport/softnic/verbs/resources.h"

namespace gshmem::soft {

void Resources::add(Resource kind, std::uint32_t number) {
  const std::lock_guard lock(mutex_);
  all_[{kind, number}] = std::make_shared<char>();
}

Resources::Use Resources::use(Resource kind, std::uint32_t number) const {
  const std::lock_guard lock(mutex_);
  const auto found = all_.find({kind, number});
  return found == all_.end() ? nullptr : found->second;
}

Resources::Removal Resources::remove(Resource kind, std::uint32_t number) {
  const std::lock_guard lock(mutex_);
  const auto found = all_.find({kind, number});
  if (found == all_.end()) return Removal::kUnknown;
  if (found->second.use_count() > 1) return Removal::kBusy;
  all_.erase(found);
  return Removal::kRemoved;
}

std::vector<std::uint32_t> Resources::take(Resource kind) {
  const std::lock_guard lock(mutex_);
  std::vector<std::uint32_t> numbers;
  for (auto it = all_.lower_bound({kind, 0}); it != all_.end() && it->first.first == kind;) {
    numbers.push_back(it->first.second);
    it = all_.erase(it);
  }
  return numbers;
}

}  // namespace gshmem::soft
