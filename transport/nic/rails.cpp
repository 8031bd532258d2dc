#include "transport/nic/rails.h"

#include <algorithm>

namespace gshmem::nic {

std::string Rails::describe() const {
  std::string text;
  for (const auto& nic : nics_) text += (text.empty() ? "" : "; ") + nic->describe();
  return text;
}

Nic::Limits Rails::limits() const {
  Nic::Limits all = nics_.front()->limits();
  for (const auto& nic : nics_) {
    const Nic::Limits one = nic->limits();
    // How fetched values come back is a matter of atomics.
    all.flags |= one.flags & ~abi::kNicFetchedBig;
    all.max_message = std::min(all.max_message, one.max_message);
    all.coherent_atomics = all.coherent_atomics && one.coherent_atomics;
  }
  return all;
}

void Rails::start() {
  for (const auto& nic : nics_) nic->start();
}

void Rails::stop() noexcept {
  for (const auto& nic : nics_) nic->stop();
}

QueueRails default_queues(int rails, int wanted) {
  QueueRails queues;
  for (int i = 0; i < (wanted + rails - 1) / rails * rails; ++i) queues.push_back(i % rails);
  return queues;
}

QueueRails context_queues(int rails, int nth) {
  const int own = nth % rails;
  return own == 0 ? QueueRails{0} : QueueRails{0, own};
}

}  // namespace gshmem::nic
