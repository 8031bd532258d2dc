#include "host/base/shared_mapping.h"

#include "host/base/at_fork.h"
#include "host/base/error.h"
#include "host/base/memory_limit.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

namespace gshmem {
namespace {

/// Identifies the file of a descriptor. It is equal in all processes, unlike the descriptor.
using FileId = std::pair<dev_t, ino_t>;

struct Registry {
  Registry() { hold_over_forks(mutex); }
  std::mutex mutex;
  std::map<FileId, std::weak_ptr<SharedMapping>> by_segment;
};

Registry& registry() {
  static Registry instance;
  return instance;
}
/// Runs when the library is loaded. If the first use did it, a fork could happen meanwhile, and its
/// child would wait for a thread that it does not have.
[[maybe_unused]] const Registry& made_at_load = registry();

/// Returns why a reservation failed with `error`, and what to do if a limit is the cause.
std::string no_addresses_text(std::uint64_t bytes, int error) {
  std::string text = strprintf("cannot reserve %s of addresses: %s", size_text(bytes).c_str(),
                               std::strerror(error));
  const std::optional<std::uint64_t> limit = address_limit();
  if (error == ENOMEM && limit) {
    text += strprintf(
        "; RLIMIT_AS (ulimit -v) allows this process %s in all; raise it, or use less symmetric "
        "memory (GSHMEM_SYMMETRIC_SIZE)",
        size_text(*limit).c_str());
  }
  return text;
}

}  // namespace

SharedMapping::SharedMapping(const Fd& segment, const Pieces& pieces, std::uint64_t alignment)
    : reserved_(pieces.stride * pieces.count + alignment) {
  range_ =
      ::mmap(nullptr, reserved_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(range_ != MAP_FAILED, GSHMEMX_ERROR_OUT_OF_MEMORY,
          [&] { return no_addresses_text(reserved_, errno); });
  const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(range_) + alignment - 1;
  base_ = reinterpret_cast<char*>(first / alignment * alignment);
  for (std::uint64_t i = 0; i < pieces.count; ++i) {
    void* const at = ::mmap(base_ + i * pieces.stride, pieces.bytes, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_FIXED | MAP_NORESERVE, segment.get(),
                            static_cast<off_t>(i * pieces.bytes));
    if (at != MAP_FAILED) continue;
    const int error = errno;
    ::munmap(range_, reserved_);
    throw Error(GSHMEMX_ERROR_SYSTEM, strprintf("mmap of a segment of %lu bytes: %s", pieces.bytes,
                                                std::strerror(error)));
  }
}

SharedMapping::~SharedMapping() { ::munmap(range_, reserved_); }

void SharedMapping::place(std::uint64_t at, std::uint64_t bytes, const Fd& file,
                          std::uint64_t offset) {
  const std::lock_guard lock(registry().mutex);
  Placed& placed = placed_[at];
  if (placed.users == 0) {
    void* const mapped =
        ::mmap(base_ + at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
               file.get(), static_cast<off_t>(offset));
    const int error = errno;
    if (mapped == MAP_FAILED) placed_.erase(at);
    require(mapped != MAP_FAILED, GSHMEMX_ERROR_SYSTEM,
            strprintf("mmap of %lu bytes of a file: %s", bytes, std::strerror(error)));
    placed.bytes = bytes;
  }
  ++placed.users;
}

void SharedMapping::clear(std::uint64_t at) noexcept {
  const std::lock_guard lock(registry().mutex);
  const auto found = placed_.find(at);
  if (found == placed_.end() || --found->second.users > 0) return;
  (void)::mmap(base_ + at, found->second.bytes, PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  placed_.erase(found);
}

std::shared_ptr<SharedMapping> map_shared(const Fd& segment, const Pieces& pieces,
                                          std::uint64_t alignment) {
  struct stat file {};
  check_errno(::fstat(segment.get(), &file), "fstat");
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::weak_ptr<SharedMapping>& known = all.by_segment[{file.st_dev, file.st_ino}];
  std::shared_ptr<SharedMapping> mapping = known.lock();
  if (!mapping) {
    mapping = std::make_shared<SharedMapping>(segment, pieces, alignment);
    known = mapping;
  }
  std::erase_if(all.by_segment, [](const auto& entry) { return entry.second.expired(); });
  return mapping;
}

namespace {
/// Beyond the limit ftruncate(2) raises SIGXFSZ, which ends the process silently.
void require_file_size(std::uint64_t bytes) {
  rlimit limit{};
  check_errno(::getrlimit(RLIMIT_FSIZE, &limit), "getrlimit");
  require(bytes <= limit.rlim_cur, GSHMEMX_ERROR_SYSTEM, [&] {
    return strprintf(
        "shared memory needs a segment of %s, and RLIMIT_FSIZE (ulimit -f) allows %s; raise "
        "it, or use less symmetric memory (GSHMEM_SYMMETRIC_SIZE)",
        size_text(bytes).c_str(), size_text(limit.rlim_cur).c_str());
  });
}
}  // namespace

Fd make_segment(const char* name, std::uint64_t bytes) {
  require_file_size(bytes);
  Fd fd(static_cast<int>(check_errno(::memfd_create(name, MFD_CLOEXEC), "memfd_create")));
  check_errno(::ftruncate(fd.get(), static_cast<off_t>(bytes)), "ftruncate");
  return fd;
}

}  // namespace gshmem
