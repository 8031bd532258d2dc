#include "transport/softnic/fabric.h"

#include "host/base/error.h"
#include "host/base/random.h"
#include "host/base/system_call.h"
#include "transport/softnic/engine.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>

namespace gshmem::soft {
namespace {

constexpr std::uint64_t kMagic = 0x35636962'6166736eull;  // changes with the layout
constexpr std::uint64_t kRingsOffset = 64 * 1024;
constexpr std::uint64_t kFabricBytes = kRingsOffset + 2ull * kMaxNodes * kMaxNodes * Ring::kBytes;

enum NodeState : std::uint32_t { kFree, kLive, kGone };

/// Returns the lock of a byte that a node holds as long as its process lives. Processes of other
/// PID namespaces see it, too, and a process that dies need not release it. The byte is beyond the
/// end of the file.
struct flock lock_of(std::uint32_t node) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(kFabricBytes + node);
  lock.l_len = 1;
  return lock;
}

void* map_file(const Fd& file, std::uint64_t offset, std::uint64_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(),
                        static_cast<off_t>(offset));
  if (memory == MAP_FAILED) {
    throw EngineError{0xf, strprintf("mmap of the fabric: %s", std::strerror(errno))};
  }
  // A mapping in a child would keep the file open, and with it the lock of the node (fork(2)).
  (void)::madvise(memory, bytes, MADV_DONTFORK);
  return memory;
}

/// Returns a ring's memory, at the same address for all nodes of this process. So ThreadSanitizer,
/// which identifies memory by addresses, sees how accesses of their threads are ordered.
std::shared_ptr<void> ring_memory(const Fd& file, std::uint64_t offset) {
  using Place = std::tuple<dev_t, ino_t, std::uint64_t>;
  static std::mutex mutex;
  static auto& mapped = *new std::map<Place, std::weak_ptr<void>>;  // outlives static objects
  struct stat info = {};
  if (::fstat(file.get(), &info) != 0) {
    throw EngineError{0xf, strprintf("fstat of the fabric: %s", std::strerror(errno))};
  }
  const std::lock_guard lock(mutex);
  std::weak_ptr<void>& known = mapped[{info.st_dev, info.st_ino, offset}];
  std::shared_ptr<void> memory = known.lock();
  if (memory == nullptr) {
    memory = {map_file(file, offset, Ring::kBytes), [](void* m) { ::munmap(m, Ring::kBytes); }};
    known = memory;
  }
  return memory;
}

/// flock for the time of a scope.
class FileLock {
 public:
  explicit FileLock(const Fd& file) : file_(file.get()) {
    (void)uninterrupted([this] { return ::flock(file_, LOCK_EX); });
  }
  ~FileLock() { ::flock(file_, LOCK_UN); }
  FileLock(const FileLock&) = delete;

 private:
  int file_;
};

}  // namespace

struct Fabric::Node {
  std::atomic<std::uint32_t> state;
  alignas(64) std::atomic<std::uint64_t> senders;
};

// Unicast LIDs are those up to 0xbfff: InfiniBand, section 4.1.3.
constexpr std::uint32_t kFirstLids = 0xbfff - kMaxNodes;

struct Fabric::Header {
  std::uint64_t magic;
  std::uint16_t first_lid;
  alignas(4096) Node nodes[kMaxNodes];
};

Fd Fabric::make() {
  Fd file(::memfd_create("gshnic_fabric", MFD_CLOEXEC));
  if (!file) {
    throw EngineError{0xf, strprintf("memory of a fabric: %s", std::strerror(errno))};
  }
  return file;
}

Fd Fabric::open_named(const char* name) {
  Fd file(::shm_open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file) {
    throw EngineError{0x3,
                      strprintf("GSHNIC_FABRIC=\"%s\": shm_open: %s", name, std::strerror(errno))};
  }
  return file;
}

Fabric::Fabric(int fd) {
  // A new open file description is used: locks belong to descriptions, and a descriptor that was
  // inherited or passed shares its description.
  file_ = Fd(::open(strprintf("/proc/self/fd/%d", fd).c_str(), O_RDWR | O_CLOEXEC));
  struct stat info = {};
  if (!file_ || ::fstat(file_.get(), &info) != 0) {
    throw EngineError{0x3, strprintf("descriptor %d: %s", fd, std::strerror(errno))};
  }
  static_assert(sizeof(Header) <= kRingsOffset);
  const FileLock lock(file_);
  if (info.st_size == 0 && ::ftruncate(file_.get(), static_cast<off_t>(kFabricBytes)) == 0) {
    info.st_size = static_cast<off_t>(kFabricBytes);
  }
  if (static_cast<std::uint64_t>(info.st_size) != kFabricBytes) {
    throw EngineError{0x3, strprintf("descriptor %d is not the memory of a fabric", fd)};
  }
  header_ = static_cast<Header*>(map_file(file_, 0, kRingsOffset));
  try {
    claim_node();
  } catch (...) {
    ::munmap(header_, kRingsOffset);
    throw;
  }
}

Fabric::~Fabric() {
  // For peers this looks like the death of the process.
  header_->nodes[node_].state.store(kGone, std::memory_order_release);
  ::munmap(header_, kRingsOffset);
}

// Requires the lock.
void Fabric::claim_node() {
  if (header_->magic != 0 && header_->magic != kMagic) {
    throw EngineError{0x3, "a fabric of another version of the soft NIC"};
  }
  bool anyone = false;
  for (std::uint32_t n = 0; n < kMaxNodes; ++n) anyone |= alive(n);
  if (!anyone) {
    // No process is left that could hold a number or a packet: the fabric is cleared.
    if (::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                    static_cast<off_t>(kFabricBytes)) != 0) {
      throw EngineError{0xf, strprintf("clearing the fabric: %s", std::strerror(errno))};
    }
    header_->magic = kMagic;
    header_->first_lid = static_cast<std::uint16_t>(1 + random_bits<std::uint32_t>() % kFirstLids);
  }
  for (std::uint32_t n = 0; n < kMaxNodes; ++n) {
    Node& node = header_->nodes[n];
    if (node.state.load(std::memory_order_relaxed) != kFree) continue;
    node_ = n;
    struct flock lock = lock_of(n);
    if (::fcntl(file_.get(), F_OFD_SETLK, &lock) != 0) {
      throw EngineError{0xf, strprintf("fcntl(F_OFD_SETLK) of node %u of the fabric: %s", n,
                                       std::strerror(errno))};
    }
    node.state.store(kLive, std::memory_order_release);
    return;
  }
  throw EngineError{0xf, strprintf("all %u nodes of the fabric have been used", kMaxNodes)};
}

std::uint16_t Fabric::lid_of(std::uint32_t node) const {
  return static_cast<std::uint16_t>(header_->first_lid + node);
}

bool Fabric::same_file(int fd) const {
  struct stat mine = {}, other = {};
  return ::fstat(file_.get(), &mine) == 0 && ::fstat(fd, &other) == 0 &&
         mine.st_dev == other.st_dev && mine.st_ino == other.st_ino;
}

bool Fabric::alive(std::uint32_t node) const {
  if (node >= kMaxNodes) return false;
  if (header_->nodes[node].state.load(std::memory_order_acquire) != kLive) return false;
  if (node == node_) return true;  // no lock is in the way of its owner
  struct flock lock = lock_of(node);
  return ::fcntl(file_.get(), F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

std::uint64_t Fabric::senders() const {
  return header_->nodes[node_].senders.load(std::memory_order_acquire);
}

Ring& Fabric::map(Slot& slot, std::uint32_t from, std::uint32_t to, Kind kind) {
  if (slot.ring == nullptr) {
    const std::uint64_t index = (std::uint64_t{from} * kMaxNodes + to) * 2 + kind;
    slot.memory = ring_memory(file_, kRingsOffset + index * Ring::kBytes);
    slot.ring = std::make_unique<Ring>(slot.memory.get());
  }
  return *slot.ring;
}

Ring* Fabric::outgoing(std::uint32_t node, Kind kind) {
  if (node >= kMaxNodes) return nullptr;
  Node& entry = header_->nodes[node];
  if (entry.state.load(std::memory_order_acquire) == kFree) return nullptr;
  Slot& slot = outgoing_[node][kind];
  if (slot.ring == nullptr) {
    map(slot, node_, node, kind);
    entry.senders.fetch_or(std::uint64_t{1} << node_, std::memory_order_acq_rel);
  }
  return slot.ring.get();
}

Ring& Fabric::incoming(std::uint32_t node, Kind kind) {
  return map(incoming_[node][kind], node, node_, kind);
}

}  // namespace gshmem::soft
