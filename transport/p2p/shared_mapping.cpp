#include "transport/p2p/shared_mapping.h"

#include "host/base/at_fork.h"
#include "host/base/error.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

namespace gshmem::p2p {
namespace {

/// Which file a descriptor means; equal in all processes, unlike the descriptor.
using FileId = std::pair<dev_t, ino_t>;

struct Registry {
  Registry() { hold_over_forks(mutex); }
  std::mutex mutex;
  std::map<FileId, std::weak_ptr<SharedMapping>> by_first_segment;
};

/// A segment belongs to one job and one purpose, so the first one names the whole mapping.
Registry& registry() {
  static Registry instance;
  return instance;
}

}  // namespace

SharedMapping::SharedMapping(const std::vector<Fd>& segments, std::uint64_t bytes,
                             Spacing spacing) {
  reserved_ = spacing.stride * segments.size() + spacing.alignment;
  range_ =
      ::mmap(nullptr, reserved_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(range_ != MAP_FAILED, GSHMEMX_ERROR_OUT_OF_MEMORY,
          strprintf("cannot reserve %lu bytes of addresses for %zu segments", reserved_,
                    segments.size()));
  const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(range_) + spacing.alignment - 1;
  base_ = reinterpret_cast<char*>(first / spacing.alignment * spacing.alignment);
  for (std::size_t i = 0; i < segments.size(); ++i) {
    void* at = ::mmap(base_ + spacing.stride * i, bytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_FIXED | MAP_NORESERVE, segments[i].get(), 0);
    if (at != MAP_FAILED) continue;
    const int error = errno;
    ::munmap(range_, reserved_);
    throw Error(GSHMEMX_ERROR_SYSTEM,
                strprintf("mmap of the segment of PE %zu: %s", i, std::strerror(error)));
  }
}

SharedMapping::~SharedMapping() { ::munmap(range_, reserved_); }

std::shared_ptr<SharedMapping> map_shared(const std::vector<Fd>& segments, std::uint64_t bytes,
                                          Spacing spacing) {
  struct stat file {};
  check_errno(::fstat(segments.at(0).get(), &file), "fstat");
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::weak_ptr<SharedMapping>& known = all.by_first_segment[{file.st_dev, file.st_ino}];
  std::shared_ptr<SharedMapping> mapping = known.lock();
  if (!mapping) {
    mapping = std::make_shared<SharedMapping>(segments, bytes, spacing);
    known = mapping;
  }
  std::erase_if(all.by_first_segment, [](const auto& entry) { return entry.second.expired(); });
  return mapping;
}

Fd make_segment(const char* name, std::uint64_t bytes) {
  Fd fd(static_cast<int>(check_errno(::memfd_create(name, MFD_CLOEXEC), "memfd_create")));
  check_errno(::ftruncate(fd.get(), static_cast<off_t>(bytes)), "ftruncate");
  return fd;
}

}  // namespace gshmem::p2p
