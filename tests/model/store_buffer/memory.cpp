#include "tests/model/store_buffer/memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace gshmem::model {

Memory::Store Memory::make(void* p, const void* from, std::size_t bytes, Order order,
                           Update update) {
  Store store{reinterpret_cast<std::uintptr_t>(p), bytes, order, update, 0, {}};
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

/// Returns the wanted store, or the first of those that must go before it.
std::size_t Memory::first_to_go(const Stores& stores, std::size_t wanted) {
  if (stores[wanted].order != Order::kRelaxed) wanted = 0;
  for (std::size_t i = 0; i < wanted; ++i) {
    if (overlap(stores[i], stores[wanted].at, stores[wanted].bytes)) return first_to_go(stores, i);
  }
  return wanted;
}

/// Applies the thread's pending updates of these bytes before it loads them.
void Memory::settle_updates(std::size_t buffer, const void* p, std::size_t bytes) {
  const auto at = reinterpret_cast<std::uintptr_t>(p);
  for (const Store& store : buffers_[buffer]) {
    if (store.update != Update::kReplace && overlap(store, at, bytes)) {
      return settle(buffer, p, bytes);
    }
  }
}

void Memory::load(std::size_t buffer, const void* p, void* to, std::size_t bytes) {
  settle_updates(buffer, p, bytes);
  std::memcpy(to, p, bytes);
  overlay(gpu_, p, to, bytes);
  overlay(buffers_[buffer], p, to, bytes);
}

void Memory::store(std::size_t buffer, void* p, const void* from, std::size_t bytes, Order order,
                   Update update) {
  buffers_[buffer].push_back(make(p, from, bytes, order, update));
}

/// Applies the store to what the GPU sees now.
void Memory::apply(Store& store) const {
  std::uint64_t old = 0, value = 0;
  const void* p = reinterpret_cast<const void*>(store.at);
  std::memcpy(&old, p, store.bytes);
  overlay(gpu_, p, &old, store.bytes);
  std::memcpy(&value, store.data, store.bytes);
  switch (store.update) {
    case Update::kReplace:
      return;
    case Update::kAdd:
      value += old;
      break;
    case Update::kMax:
      value = std::max(value, old);
      break;
    case Update::kAnd:
      value &= old;
      break;
    case Update::kOr:
      value |= old;
      break;
    case Update::kXor:
      value ^= old;
      break;
  }
  std::memcpy(store.data, &value, store.bytes);
  store.update = Update::kReplace;
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
  gpu_.push_back(make(p, from, bytes, Order::kRelaxed, Update::kReplace));
  gpu_.back().number = ++left_;
}

void Memory::leave(Stores& stores, std::size_t at) {
  if (stores[at].order == Order::kReleaseSystem) {
    while (arrive_one()) {
    }
  }
  if (stores[at].update != Update::kReplace) apply(stores[at]);
  gpu_.push_back(stores[at]);
  gpu_.back().order = Order::kRelaxed;  // the stores that go first have gone
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
  // A value that the GPU saw before must not overwrite this one later.
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
