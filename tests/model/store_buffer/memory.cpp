#include "tests/model/store_buffer/memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace gshmem::model {

Memory::Store Memory::make(void* p, const void* from, std::size_t bytes, Order order) {
  Store store{reinterpret_cast<std::uintptr_t>(p), bytes, order, 0, {}};
  if (bytes > sizeof(store.data)) std::abort();
  std::memcpy(store.data, from, bytes);
  return store;
}

bool Memory::overlap(const Store& store, std::uintptr_t at, std::size_t bytes) {
  return store.at < at + bytes && at < store.at + store.bytes;
}

void Memory::overlay(const Stores& stores, const void* p, void* to, std::size_t bytes) {
  const auto at = reinterpret_cast<std::uintptr_t>(p);
  for (const Store& store : stores) {
    if (!overlap(store, at, bytes)) continue;
    const std::uintptr_t begin = std::max(at, store.at);
    const std::uintptr_t end = std::min(at + bytes, store.at + store.bytes);
    std::memcpy(static_cast<char*>(to) + (begin - at), store.data + (begin - store.at),
                end - begin);
  }
}

/// The wanted store, or the first of those that must go before it.
std::size_t Memory::first_to_go(const Stores& stores, std::size_t wanted) {
  if (stores[wanted].order != Order::kRelaxed) wanted = 0;
  for (std::size_t i = 0; i < wanted; ++i) {
    if (overlap(stores[i], stores[wanted].at, stores[wanted].bytes)) return first_to_go(stores, i);
  }
  return wanted;
}

void Memory::load(std::size_t buffer, const void* p, void* to, std::size_t bytes) const {
  std::memcpy(to, p, bytes);
  overlay(gpu_, p, to, bytes);
  overlay(buffers_[buffer], p, to, bytes);
}

void Memory::store(std::size_t buffer, void* p, const void* from, std::size_t bytes, Order order) {
  buffers_[buffer].push_back(make(p, from, bytes, order));
}

void Memory::settle(std::size_t buffer, const void* p, std::size_t bytes) {
  Stores& stores = buffers_[buffer];
  const auto at = reinterpret_cast<std::uintptr_t>(p);
  for (std::size_t i = 0; i < stores.size();) {
    if (overlap(stores[i], at, bytes)) {
      leave(stores, first_to_go(stores, i));
      i = 0;
    } else {
      ++i;
    }
  }
}

void Memory::store_for_gpu(void* p, const void* from, std::size_t bytes) {
  gpu_.push_back(make(p, from, bytes, Order::kRelaxed));
  gpu_.back().number = ++left_;
}

void Memory::leave(Stores& stores, std::size_t at) {
  if (stores[at].order == Order::kReleaseSystem) {
    while (arrive_one()) {
    }
  }
  gpu_.push_back(stores[at]);
  gpu_.back().order = Order::kRelaxed;  // said which stores of its thread go first: they have gone
  gpu_.back().number = ++left_;
  stores.erase(stores.begin() + static_cast<std::ptrdiff_t>(at));
}

void Memory::arrive(std::size_t at) {
  std::memcpy(reinterpret_cast<void*>(gpu_[at].at), gpu_[at].data, gpu_[at].bytes);
  gpu_.erase(gpu_.begin() + static_cast<std::ptrdiff_t>(at));
}

bool Memory::leave_one(std::size_t buffer) {
  Stores& stores = buffers_[buffer];
  if (stores.empty()) return false;
  leave(stores, first_to_go(stores, random_.below(stores.size())));
  return true;
}

bool Memory::arrive_one() {
  if (gpu_.empty()) return false;
  arrive(first_to_go(gpu_, random_.below(gpu_.size())));
  return true;
}

bool Memory::passed(std::uint64_t left) const { return gpu_.empty() || gpu_.front().number > left; }

bool Memory::settled() const {
  return gpu_.empty() &&
         std::all_of(buffers_.begin(), buffers_.end(), [](auto& stores) { return stores.empty(); });
}

void Memory::nic_load(View view, const void* p, void* to, std::size_t bytes) const {
  std::memcpy(to, p, bytes);
  if (view == View::kGpu) overlay(gpu_, p, to, bytes);
}

void Memory::nic_store(void* p, const void* from, std::size_t bytes) {
  const auto at = reinterpret_cast<std::uintptr_t>(p);
  // What the GPU saw before is not to overwrite this later.
  for (std::size_t i = 0; i < gpu_.size();) {
    if (overlap(gpu_[i], at, bytes)) {
      arrive(first_to_go(gpu_, i));
      i = 0;
    } else {
      ++i;
    }
  }
  std::memcpy(p, from, bytes);
}

}  // namespace gshmem::model
