#include "transport/p2p/lent_memory.h"

#include "host/base/error.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

namespace gshmem::p2p {
namespace {

[[noreturn]] void refuse(const std::string& why) {
  throw Error(GSHMEMX_ERROR_NOT_SUPPORTED,
              why +
                  "; in CPU mode it takes memory of mmap with MAP_SHARED of a file that is open "
                  "for reading and writing (memfd_create, shm_open)");
}

/// A line of /proc/self/maps (proc(5)).
struct Mapping {
  std::uintptr_t begin = 0, end = 0;
  char access[5] = "";
  std::uint64_t offset = 0;
  unsigned major = 0, minor = 0;
  std::uint64_t inode = 0;
};

/// Returns the mapping that contains `at`; it has no bytes if there is none.
Mapping mapping_at(std::uintptr_t at) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    Mapping found;
    const int fields = std::sscanf(
        line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s %" SCNx64 " %x:%x %" SCNu64, &found.begin,
        &found.end, found.access, &found.offset, &found.major, &found.minor, &found.inode);
    if (fields == 7 && at >= found.begin && at < found.end) return found;
  }
  return {};
}

/// Returns a descriptor for reading and writing of a file that this process has open. Other threads
/// open and close descriptors in the meantime, so the duplicate is checked again. Descriptors of
/// other files are not duplicated, since closing a duplicate would end the locks (fcntl) that this
/// process has on its file.
Fd descriptor_of(const Mapping& mapping) {
  const auto is_it = [&](int status, const struct stat& file) {
    return status == 0 && file.st_ino == mapping.inode && major(file.st_dev) == mapping.major &&
           minor(file.st_dev) == mapping.minor;
  };
  const auto can_both = [](int fd) { return (::fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR; };
  const std::unique_ptr<DIR, int (*)(DIR*)> open_files(::opendir("/proc/self/fd"), &::closedir);
  while (const dirent* entry = open_files ? ::readdir(open_files.get()) : nullptr) {
    const int fd = std::atoi(entry->d_name);
    struct stat file {};
    if (!is_it(::fstatat(::dirfd(open_files.get()), entry->d_name, &file, 0), file) ||
        !can_both(fd))
      continue;
    Fd own(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (is_it(::fstat(own.get(), &file), file) && can_both(own.get())) return own;
  }
  refuse("is of a file that this process has no descriptor of for reading and writing");
}

/// The description of a chunk that PEs exchange.
struct Extent {
  std::uint64_t offset, bytes;
};

/// Gathers one value from every PE of the host.
template <class T>
std::vector<T> gather(control::LocalPeers& local, const T& mine) {
  const auto* const first = reinterpret_cast<const char*>(&mine);
  std::vector<T> all;
  for (const std::vector<char>& bytes : local.gather({first, first + sizeof(mine)})) {
    require(bytes.size() == sizeof(T), GSHMEMX_ERROR_INTERNAL, "a message of another size");
    std::memcpy(&all.emplace_back(), bytes.data(), sizeof(T));
  }
  return all;
}

}  // namespace

LentMemory lend_host_memory(const void* p, std::size_t bytes) {
  LentMemory lent;
  const auto first = reinterpret_cast<std::uintptr_t>(p), end = first + bytes;
  for (std::uintptr_t at = first; at < end;) {
    const Mapping mapping = mapping_at(at);
    if (mapping.end == 0) refuse(strprintf("is not mapped from byte %zu on", at - first));
    if (mapping.access[3] != 's') refuse(strprintf("is private from byte %zu on", at - first));
    if (std::strncmp(mapping.access, "rw", 2) != 0)
      refuse(strprintf("cannot be read and written from byte %zu on", at - first));
    const std::uintptr_t until = std::min(mapping.end, end);
    lent.pieces.push_back(
        {descriptor_of(mapping), mapping.offset + (at - mapping.begin), until - at});
    at = until;
  }
  return lent;
}

std::vector<LentMemory> exchange_lent(control::LocalPeers& local, const LentMemory& mine) {
  const std::vector<std::uint64_t> counts =
      gather(local, static_cast<std::uint64_t>(mine.pieces.size()));
  const std::uint64_t most = *std::max_element(counts.begin(), counts.end());
  std::vector<LentMemory> all(counts.size());
  std::optional<Error> failure;  // is thrown at the end, since the other PEs exchange the rest
  for (std::uint64_t i = 0; i < most; ++i) {
    // A PE with fewer chunks passes its last one again, which the others ignore.
    const LentMemory::Piece& piece = mine.pieces[std::min<std::size_t>(i, mine.pieces.size() - 1)];
    const std::vector<Extent> extents = gather(local, Extent{piece.offset, piece.bytes});
    std::vector<Fd> fds(all.size());
    try {
      fds = local.exchange(piece.fd.get());
    } catch (const Error& error) {
      if (error.code() != GSHMEMX_ERROR_SYSTEM) throw;
      failure = error;
    }
    for (std::size_t pe = 0; pe < all.size(); ++pe) {
      if (i < counts[pe])
        all[pe].pieces.push_back({std::move(fds[pe]), extents[pe].offset, extents[pe].bytes});
    }
  }
  if (failure) throw *failure;
  return all;
}

}  // namespace gshmem::p2p
