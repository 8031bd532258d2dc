#include "tests/spmd/spmd.h"

#include "tests/sanitizers/sanitizers.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace gshmem::spmd {

std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

Pe::Pe(Mode mode, std::uint64_t seed, unsigned sample)
    : mode_(mode),
      me_(gshmem_my_pe()),
      n_(gshmem_n_pes()),
      on_gpu_(gshmemi_ambient()->ops != nullptr),
      c_api_in_kernels_(mode != Mode::kThreads ||
                        gshmemx_init_status() == GSHMEMX_INIT_STATUS_IS_INITIALIZED),
      seed_(seed),
      sample_(sample),
      log_(1) {}

bool Pe::maps(int target) const {
  if (target == me_) return true;
  const char* p2p = std::getenv("GSHMEM_P2P");
  if (p2p && std::strcmp(p2p, "0") == 0) return false;
  const char* per_host = std::getenv("SPMD_PES_PER_HOST");
  const int pes = per_host ? std::atoi(per_host) : n_;
  return target / pes == me_ / pes;
}

bool Pe::on_network() const { return gshmemi_ambient()->state->nic.queues != nullptr; }

int Pe::rounds(int count) const {
  if (on_network()) return count < 50 ? 1 : count / 50;
  const bool shared = gshmemx_init_status() == GSHMEMX_INIT_STATUS_LIMITED_MPG;
  const bool processes = gshmemx_init_status() == GSHMEMX_INIT_STATUS_FULL_MPG;
  // If there are many more threads than cores, they take turns at every step.
  static const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const int turns = on_gpu_ || n_ <= 2 * cores ? 1 : n_ / cores;
  const int sampled = sample_ > 1 && !on_gpu_ ? 4 : 1;
  const int divisor = turns * (kSanitized ? 10 : shared ? 20 : processes ? 8 : sampled);
  return count < divisor ? 1 : count / divisor;
}

void Pe::begin(const char* name, const char* file, std::uint64_t base_seed) {
  const char* slash = std::strrchr(file, '/');
  file_ = slash ? slash + 1 : file;
  seed_ = base_seed;
  drawn_ = 0;
  for (const char* c = name; *c != '\0'; ++c) seed_ = mix(seed_, static_cast<std::uint8_t>(*c));
  skipped_ = nullptr;
  failures_.clear();
  failure_count_ = 0;
}

void Pe::fail(int line, const std::string& what) {
  constexpr std::size_t kShown = 20;
  const std::lock_guard lock(mutex_);
  if (failure_count_++ >= kShown) return;
  failures_.push_back(std::string(file_) + ":" + std::to_string(line) + ": PE " +
                      std::to_string(me_) + " of " + std::to_string(n_) + ": " + what);
}

void Pe::take_over(const LogArea& area, const char* who) {
  for (std::uint32_t i = 0; i < area.count && i < LogArea::kEntries; ++i) {
    const LogEntry& entry = area.entries[i];
    char what[160];
    std::snprintf(what, sizeof(what), "%s thread %u got 0x%lx, expected 0x%lx, tag %lu", who,
                  entry.thread, static_cast<unsigned long>(entry.actual),
                  static_cast<unsigned long>(entry.expected),
                  static_cast<unsigned long>(entry.tag));
    fail(static_cast<int>(entry.line), what);
  }
  if (area.count > LogArea::kEntries) failure_count_ += area.count - LogArea::kEntries;
}

void Pe::collect() {
  take_over(host_area_, "host");
  host_area_ = {};
  LogArea area;
  gshmem_getmem(&area, log_.data(), sizeof(area), me_);
  if (area.count == 0) return;
  take_over(area, "kernel");
  const LogArea empty{};
  gshmem_putmem(log_.data(), &empty, sizeof(empty), me_);
  gshmem_quiet();
}

// In CPU mode a PE's heap is ordinary memory. The library is not used there: over the network, data
// outside of the heap is inside of queue entries, which would take nearly all of the suite's time.
std::vector<std::uint8_t> Pe::read(const void* symmetric, std::size_t bytes) const {
  const auto* const at = static_cast<const std::uint8_t*>(symmetric);
  if (!on_gpu_) return {at, at + bytes};
  std::vector<std::uint8_t> data(bytes);
  gshmem_getmem(data.data(), symmetric, bytes, me_);
  return data;
}

void Pe::write(void* symmetric, const std::vector<std::uint8_t>& bytes) const {
  if (!on_gpu_) {
    std::copy(bytes.begin(), bytes.end(), static_cast<std::uint8_t*>(symmetric));
    return;
  }
  gshmem_putmem(symmetric, bytes.data(), bytes.size(), me_);
  gshmem_quiet();
}

void Pe::equal_bytes(int line, const std::vector<std::uint8_t>& actual,
                     const std::vector<std::uint8_t>& expected) {
  if (actual == expected) return;
  std::size_t at = 0, wrong = 0;
  for (std::size_t i = expected.size(); i-- > 0;) {
    if (actual[i] == expected[i]) continue;
    at = i;
    ++wrong;
  }
  char what[160];
  std::snprintf(what, sizeof(what),
                "%zu of %zu bytes differ, first at %zu: got 0x%02x, expected 0x%02x", wrong,
                expected.size(), at, actual[at], expected[at]);
  fail(line, what);
}

}  // namespace gshmem::spmd
