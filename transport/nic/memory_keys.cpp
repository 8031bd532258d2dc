#include "transport/nic/memory_keys.h"

#include "host/base/collectives.h"

namespace gshmem::nic {

void MemoryKeys::note_remote(const Nic& nic, const Keys& keys, ByRail& remote) const {
  for (int rail = 0; rail < rails_.count(); ++rail)
    if (&nic == &rails_[rail])
      remote[static_cast<std::size_t>(rail)] = {.payload = keys.remote, .atomic = keys.atomic};
}

void MemoryKeys::register_heap(const Region& heap, const std::vector<int>& peers,
                               const std::function<bool(int pe)>& only_atomics) {
  std::vector<Nic*> nics;
  const auto use = [&](Nic& nic, bool whole) {
    const auto [found, is_new] = users_.emplace(&nic, User{.whole = whole});
    found->second.whole |= whole;
    if (!is_new) return;
    require(nics.size() <= UINT8_MAX, GSHMEMX_ERROR_NIC, "a PE uses 256 ports at most");
    found->second.number = static_cast<std::uint8_t>(nics.size());
    nics.push_back(&nic);
  };
  for (int rail = 0; rail < rails_.count(); ++rail) use(rails_[rail], true);
  for (const int pe : peers)
    for (int rail = 0; rail < rails_.count(); ++rail) use(rails_.to(pe, rail), !only_atomics(pe));
  for (Nic* nic : nics) {
    User& user = users_.at(nic);
    Region region = heap;
    if (!user.whole) region.bytes = abi::kInternalBytes;
    const Keys keys = nic->register_memory(region);
    user.key = keys.local;
    note_remote(*nic, keys, own_);
  }
}

void MemoryKeys::exchange(Collectives& boot) { remote_ = allgather(boot, own_); }

void MemoryKeys::register_with_all(Memory& memory) {
  for (Nic* nic : rails_.all()) {
    const auto user = users_.find(nic);
    if (user == users_.end() || !user->second.whole) continue;
    const Keys keys = nic->register_memory(memory.region);
    memory.local[nic] = keys.local;
    note_remote(*nic, keys, memory.remote);
  }
}

void MemoryKeys::add(const Region& region) {
  const std::lock_guard lock(mutex_);
  Memory& memory = memories_[region.offset];
  memory.region = region;
  try {
    register_with_all(memory);
  } catch (...) {
    remove_locked(region.offset);
    throw;
  }
}

void MemoryKeys::add_local(const Region& region, abi::Be32* keys) {
  const std::lock_guard lock(mutex_);
  Memory& memory = memories_[region.offset];
  memory.region = region;
  try {
    register_with_all(memory);
  } catch (...) {
    remove_locked(region.offset);
    throw;
  }
  for (const auto& [nic, key] : memory.local) keys[number(*nic)] = abi::Be32(key);
}

MemoryKeys::OfRange MemoryKeys::exchange(Collectives& boot, std::uint64_t offset) {
  const Memory& memory = memory_at(offset);
  const std::vector<ByRail> all = allgather(boot, memory.remote);
  for (int rail = 0; rail < rails_.count(); ++rail) {
    const std::vector<std::uint8_t> mine = rails_[rail].memory_info(memory.region);
    if (mine.empty()) continue;
    std::vector<std::uint8_t> infos(all.size() * mine.size());
    boot.allgather(mine.data(), infos.data(), mine.size());
    rails_[rail].set_memory_infos(memory.region, infos);
  }
  OfRange found{.remote = {}, .local = std::vector<abi::Be32>(users_.size())};
  for (const ByRail& of_pe : all) {
    for (std::size_t rail = 0; rail < rails(); ++rail)
      found.remote.push_back({abi::Be32(of_pe[rail].payload), abi::Be32(of_pe[rail].atomic)});
  }
  for (const auto& [nic, key] : memory.local) found.local[number(*nic)] = abi::Be32(key);
  return found;
}

const MemoryKeys::Memory& MemoryKeys::memory_at(std::uint64_t offset) {
  const std::lock_guard lock(mutex_);
  return memories_.at(offset);
}

void MemoryKeys::remove(std::uint64_t offset) noexcept {
  const std::lock_guard lock(mutex_);
  remove_locked(offset);
}

void MemoryKeys::remove_locked(std::uint64_t offset) noexcept {
  const auto found = memories_.find(offset);
  if (found == memories_.end()) return;
  const Memory& memory = found->second;
  for (const auto& [nic, key] : memory.local) nic->unregister_memory(memory.region);
  memories_.erase(found);
}

}  // namespace gshmem::nic
