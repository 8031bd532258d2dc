#include "tests/nic/mlx5_pe.h"
#include "tests/nic/atomic_segments.h"
#include "tests/nic/soft_findings.h"

#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

namespace gshmem::nic {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kQueueBytes = TestPe::kDepth * 64 + 2 * kPage;

[[maybe_unused]] const bool is_strict = (test::make_soft_nic_strict(), true);

QueuePlace place_of(int queue) {
  const std::uint64_t base = static_cast<std::uint64_t>(queue) * kQueueBytes;
  const std::uint64_t completion = base + TestPe::kDepth * 64;
  return {.entries = base,
          .completion = completion,
          .record = completion + kPage,
          .cq_record = completion + kPage + 8,
          .depth = TestPe::kDepth};
}

}  // namespace

Pages::Pages(std::size_t bytes)
    : bytes_(bytes),
      data_(static_cast<char*>(
          mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
  check_errno(data_ == MAP_FAILED ? -1 : 0, "mmap");
}
Pages::~Pages() { munmap(data_, bytes_); }

TestPe::TestPe(const Config& config, Collectives& boot, bool node_root,
               std::function<int(int)> share_fd)
    : memory_(kQueueBytes * static_cast<std::size_t>(boot.size() * kPerPe)) {
  const OpenOptions options{.config = config,
                            .boot = boot,
                            .node_root = node_root,
                            .share_fd = std::move(share_fd),
                            .on_error = [this](const Error& error, int pe) {
                              const std::lock_guard<std::mutex> lock(mutex_);
                              errors_.push_back(strprintf("PE %d: %s", pe, error.what()));
                            }};
  nic_ = std::move(open_soft(options).front());
  nic_->use_queue_memory({memory_.data(), memory_.size(), MemoryKind::kHost, -1});
  keys_ = nic_->register_memory({heap_.data(), heap_.size(), MemoryKind::kHost, -1});
  const int count = boot.size() * kPerPe;
  std::vector<ConnectInfo> mine(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    const abi::CompletionEntry none = no_completion();
    std::memcpy(memory_.data() + place_of(i).completion, &none, sizeof(none));
    queues_.push_back({nic_->create_queue(place_of(i)), place_of(i), 0, 0});
    mine[static_cast<std::size_t>(i)] = nic_->connect_info(i);
  }
  const std::size_t row = mine.size() * sizeof(ConnectInfo);
  std::vector<ConnectInfo> all(mine.size() * static_cast<std::size_t>(boot.size()));
  boot.allgather(mine.data(), all.data(), row);
  const std::vector<Keys> keys = allgather(boot, keys_);
  for (int pe = 0; pe < boot.size(); ++pe) {
    for (int which = 0; which < kPerPe; ++which) {
      const int index = pe * kPerPe + which;
      queue(pe, which).remote_key = keys[static_cast<std::size_t>(pe)].remote;
      // The index of the peer's queue to this PE. A PE's queues to itself are connected to each
      // other.
      const int theirs = boot.rank() * kPerPe + (pe == boot.rank() ? 1 - which : which);
      nic_->connect(index, pe, all[static_cast<std::size_t>(pe * count + theirs)],
                    queue(pe, which).remote_key);
    }
  }
  boot.barrier();
  nic_->start();
}

std::vector<std::string> TestPe::errors() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return errors_;
}

std::optional<Failure> TestPe::post(Queue& queue, abi::Opcode opcode, const void* segments,
                                    std::size_t bytes, int count) {
  char* const base = memory_.data();
  abi::ControlSegment control;
  control.number_ds =
      abi::Be32(queue.created.number << 8 | static_cast<std::uint32_t>(1 + bytes / 16));
  control.flags = abi::kCqUpdate;
  for (int i = 0; i < count; ++i, ++queue.next) {
    char* const entry = base + queue.place.entries + (queue.next % kDepth) * 64;
    control.opmod_index_opcode =
        abi::Be32(static_cast<std::uint32_t>(queue.next) << 8 | static_cast<std::uint32_t>(opcode));
    std::memcpy(entry, &control, sizeof(control));
    std::memcpy(entry + sizeof(control), segments, bytes);
  }
  const auto index = static_cast<std::uint16_t>(queue.next - 1);
  // Entry, record, doorbell in this order (mlx5.h); the engine reads them with acquire.
  auto* record = reinterpret_cast<std::uint32_t*>(base + queue.place.record + 4);
  std::atomic_ref<std::uint32_t>(*record).store(
      abi::Be32(static_cast<std::uint32_t>(queue.next)).raw, std::memory_order_release);
  std::atomic_ref<std::uint64_t>(*queue.created.doorbell)
      .store(abi::doorbell_value(queue.next, queue.created.number), std::memory_order_release);

  auto* word =
      reinterpret_cast<std::uint32_t*>(base + queue.place.completion + abi::kCompletionWordOffset);
  for (const auto end = std::chrono::steady_clock::now() + patience;
       std::chrono::steady_clock::now() < end; std::this_thread::yield()) {
    const std::uint32_t seen =
        abi::swap_bytes(std::atomic_ref<std::uint32_t>(*word).load(std::memory_order_acquire));
    const auto counter = static_cast<std::uint16_t>(seen >> 16);
    const auto kind = static_cast<abi::CompletionOpcode>((seen & 0xff) >> 4);
    if (kind == abi::CompletionOpcode::kRequesterError) {
      // One for a flushed entry may be on its way to the same place: no plain read.
      auto* syndrome = reinterpret_cast<std::uint32_t*>(base + queue.place.completion + 52);
      return Failure{
          static_cast<std::uint8_t>(abi::swap_bytes(
              std::atomic_ref<std::uint32_t>(*syndrome).load(std::memory_order_relaxed))),
          counter};
    }
    if (kind == abi::CompletionOpcode::kRequester && counter == index) return {};
  }
  throw Error(GSHMEMX_ERROR_TIMEOUT, "no completion in time");
}

std::optional<Failure> TestPe::transfer(Queue& queue, abi::Opcode opcode, std::uint64_t local,
                                        std::uint64_t remote, std::uint32_t bytes,
                                        std::uint32_t key, int count) {
  struct {
    abi::RemoteSegment remote;
    abi::DataSegment data;
  } segments;
  segments.remote.address = abi::Be64(remote);
  segments.remote.key = abi::Be32(key);
  segments.data.bytes = abi::Be32(bytes);
  segments.data.key = abi::Be32(keys_.local);
  segments.data.address = abi::Be64(local);
  return post(queue, opcode, &segments, sizeof(segments), count);
}

std::optional<Failure> TestPe::reads(int pe, int which, int count) {
  Queue& q = queue(pe, which);
  return transfer(q, abi::Opcode::kRdmaRead, 0, 1024, 8, q.remote_key, count);
}

std::optional<Failure> TestPe::atomic(Queue& queue, abi::Opcode opcode, std::uint64_t at,
                                      std::uint64_t swap_or_add, std::uint64_t compare,
                                      std::uint64_t result) {
  struct {
    abi::RemoteSegment remote;
    abi::AtomicSegment atomic;
    abi::DataSegment data;
  } segments;
  segments.remote.address = abi::Be64(at);
  segments.remote.key = abi::Be32(queue.remote_key);
  segments.atomic.swap_or_add = abi::Be64(swap_or_add);
  segments.atomic.compare = abi::Be64(compare);
  segments.data.bytes = abi::Be32(8);
  segments.data.key = abi::Be32(keys_.local);
  segments.data.address = abi::Be64(result);
  return post(queue, opcode, &segments, sizeof(segments));
}

std::optional<Failure> TestPe::write(int pe, int which, std::uint64_t from, std::uint64_t to,
                                     std::uint32_t bytes) {
  Queue& q = queue(pe, which);
  return transfer(q, abi::Opcode::kRdmaWrite, from, to, bytes, q.remote_key);
}
std::optional<Failure> TestPe::read(int pe, int which, std::uint64_t to, std::uint64_t from,
                                    std::uint32_t bytes) {
  Queue& q = queue(pe, which);
  return transfer(q, abi::Opcode::kRdmaRead, to, from, bytes, q.remote_key);
}
std::optional<Failure> TestPe::fetch_add(int pe, int which, std::uint64_t at, std::uint64_t add,
                                         std::uint64_t result) {
  return atomic(queue(pe, which), abi::Opcode::kAtomicFetchAdd, at, add, 0, result);
}
std::optional<Failure> TestPe::compare_swap(int pe, int which, std::uint64_t at,
                                            std::uint64_t compare, std::uint64_t swap,
                                            std::uint64_t result) {
  return atomic(queue(pe, which), abi::Opcode::kAtomicCompareSwap, at, swap, compare, result);
}
std::optional<Failure> TestPe::write_with_bad_key(int pe) {
  return transfer(queue(pe, 0), abi::Opcode::kRdmaWrite, 0, 0, 8, 0x00dead00);
}

}  // namespace gshmem::nic
