#include "host/runtime/local_ranges.h"

#include "host/base/error.h"
#include "host/base/log.h"

#include <algorithm>
#include <utility>

namespace gshmem {

const abi::LocalTable* LocalRanges::open(Nics nics, void* memory,
                                         ContextTable::DeviceMemory kernels) {
  nics_ = std::move(nics);
  kernels_ = std::move(kernels);
  rows_ = static_cast<abi::LocalRange*>(memory);
  auto* keys = reinterpret_cast<abi::Be32*>(rows_ + abi::kMaxLocal);
  for (std::size_t i = 0; i < abi::kMaxLocal; ++i) rows_[i].keys = keys + i * nics_.count;
  table_.rows = rows_;
  if (!kernels_.allocate) return &table_;
  device_table_ = static_cast<abi::LocalTable*>(kernels_.allocate(sizeof(table_)));
  kernels_.upload(device_table_, &table_, sizeof(table_));
  return device_table_;
}

void LocalRanges::add(const char* call, const void* addr, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(addr), end = begin + bytes;
  const std::lock_guard lock(mutex_);
  const auto next = ranges_.upper_bound(begin);  // the first one that ends after `begin`
  if (next != ranges_.end() && next->second.begin < end) {
    require(next->first == end && next->second.begin == begin, GSHMEMX_ERROR_INVALID_VALUE, [&] {
      return strprintf(
          "%s: argument addr = %p (%zu bytes) is registered in part, or as a part: %p (%zu bytes)",
          call, addr, bytes, reinterpret_cast<void*>(next->second.begin),
          static_cast<std::size_t>(next->first - next->second.begin));
    });
    withdraw(next->second);
    ranges_.erase(next);
  }
  Range& range = ranges_[end];
  range.begin = begin;
  try {
    if (rows_) publish(call, range, bytes);
  } catch (...) {
    ranges_.erase(end);
    throw;
  }
  write_bounds();
}

/// Stores a range. The end is stored last: a thread that finds the new end finds the rest of the
/// range, too. A thread that sees the new begin also sees that the old end is gone. Pairs with
/// device::local_range.
void LocalRanges::publish(const char* call, Range& range, std::size_t bytes) {
  abi::LocalRange* const row =
      std::find_if(rows_, rows_ + abi::kMaxLocal, [](const auto& each) { return each.end == 0; });
  const void* const addr = reinterpret_cast<const void*>(range.begin);
  try {
    require(row != rows_ + abi::kMaxLocal, GSHMEMX_ERROR_OUT_OF_MEMORY,
            strprintf("%u other ranges are registered, and no more have keys", abi::kMaxLocal));
    nics_.add(addr, bytes, const_cast<abi::Be32*>(row->keys));
  } catch (const Error& error) {
    GSHMEM_LOG_LIMITED(LogLevel::kWarn,
                       "%s: no NIC accesses %p (%zu bytes), so transfers from and to it are as "
                       "slow as without this call: %s",
                       call, addr, bytes, error.what());
    return;
  }
  range.row = row;
  __atomic_store_n(&row->begin, range.begin, __ATOMIC_RELEASE);
  __atomic_store_n(&row->end, range.begin + bytes, __ATOMIC_RELEASE);
}

void LocalRanges::withdraw(const Range& range) {
  if (!range.row) return;
  __atomic_store_n(&range.row->end, 0, __ATOMIC_RELEASE);
  nics_.remove(reinterpret_cast<const void*>(range.begin));
}

/// Encloses all ranges that have a row. A range that stays is inside of the old bounds and of the
/// new ones, so a thread may read one of each.
void LocalRanges::write_bounds() {
  if (!rows_) return;
  const auto has_row = [](const auto& each) { return each.second.row != nullptr; };
  const auto first = std::find_if(ranges_.begin(), ranges_.end(), has_row);
  const auto last = std::find_if(ranges_.rbegin(), ranges_.rend(), has_row);
  const bool any = first != ranges_.end();
  const std::uint64_t begin = any ? first->second.begin : 0, end = any ? last->first : 0;
  if (begin == table_.begin && end == table_.end) return;
  __atomic_store_n(&table_.begin, begin, __ATOMIC_RELEASE);
  __atomic_store_n(&table_.end, end, __ATOMIC_RELEASE);
  if (device_table_) kernels_.upload(device_table_, &table_, sizeof(table_));
}

bool LocalRanges::remove(const void* addr) {
  const auto begin = reinterpret_cast<std::uintptr_t>(addr);
  const std::lock_guard lock(mutex_);
  const auto at = ranges_.upper_bound(begin);
  if (at == ranges_.end() || at->second.begin != begin) return false;
  withdraw(at->second);
  ranges_.erase(at);
  write_bounds();
  return true;
}

void LocalRanges::clear() {
  const std::lock_guard lock(mutex_);
  for (const auto& [end, range] : ranges_) withdraw(range);
  ranges_.clear();
  write_bounds();
}

}  // namespace gshmem
