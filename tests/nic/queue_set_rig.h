// Shared by tests of QueueSet: NICs that only record their calls, memory, a job, and the queues of
// one of its PEs. PEs are threads.
#pragma once

#include "bootstrap/bootstrap.h"
#include "tests/bootstrap/conformance.h"
#include "tests/bootstrap/counting.h"
#include "tests/bootstrap/run_ranks.h"
#include "transport/nic/queue_set.h"

#include <gshmem/abi/state.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gshmem::nic {

/// The information that a queue sends to its peer. The queues of a PE are numbered by port.
struct End {
  int pe, queue;
  char port[8];
  bool operator==(const End& other) const {
    return pe == other.pe && queue == other.queue && std::string(port) == other.port;
  }
};

using test::expect;

/// Records for each queue its peer, and the memory that it was given.
class Noting final : public Nic {
 public:
  /// Belongs to the PE that owns `all`, which outlives it.
  Noting(int pe, std::string port, std::vector<const Noting*>& all)
      : pe_(pe), port_(std::move(port)), all_(all) {
    all_.push_back(this);
  }
  ~Noting() override { all_.erase(std::find(all_.begin(), all_.end(), this)); }
  struct Queue {
    int pe = -1;
    std::uint32_t depth = 0;
    std::uint32_t remote_key = 0;
    End end{};
    const char* record = nullptr;
  };
  const char* name() const noexcept override { return "noting"; }
  std::string describe() const override { return name(); }
  Limits limits() const override {
    return {abi::kNicReadsRecord, 1 << 20, true, true, true, port_ != "d16"};
  }
  std::string port() const override { return port_; }
  std::unique_ptr<Nic> open_port(const std::string& port) override {
    require(port != "d13", GSHMEMX_ERROR_NIC, "no permission on d13");
    return std::make_unique<Noting>(pe_, port, all_);
  }
  void use_queue_memory(const Region& region) override {
    require(region.kind == MemoryKind::kHost || port_ != "d14", GSHMEMX_ERROR_NIC,
            "no peer memory");
    expect(region.gpu == (region.kind == MemoryKind::kHost ? -1 : 0), "the GPU that has it");
    memories.push_back(region);
  }
  Keys register_memory(const Region& region) override {
    heap_bytes = region.bytes;
    return {0, key_of(pe_, port_), ~key_of(pe_, port_)};
  }
  void unregister_memory(const Region&) noexcept override {}
  CreatedQueue create_queue(const QueuePlace& place) override {
    require(port_ != "d15" || made < 4, GSHMEMX_ERROR_NIC, "no more queue pairs");
    const char* const memory = static_cast<const char*>(memories.back().base);
    queues.push_back({-1, place.depth, 0, {}, memory + place.record});
    expect(place.cq_record + 8 <= memories.back().bytes, "the queue is in its memory");
    expect(place.record < place.cq_record, "the records are one after the other");
    take_part(place.entries, place.depth * 64u);
    take_part(place.completion, 64);
    take_part(place.record, 8);
    take_part(place.cq_record, 8);
    const abi::CompletionEntry none = no_completion();
    expect(std::memcmp(memory + place.completion, &none, sizeof(none)) == 0, "none is complete");
    expect(std::all_of(memory + place.record, memory + place.cq_record + 8,
                       [](char byte) { return byte == 0; }),
           "the records are 0");
    const std::uint32_t number = ++made;
    return {number, place.doorbell ? place.doorbell : next_doorbell()};
  }
  // Register addresses as of a ConnectX, in pages of 4 KiB.
  std::uint64_t* next_doorbell() override {
    char* const page = registers + doorbells_++ % 32 * 4096;
    return reinterpret_cast<std::uint64_t*>(page + 0x800);
  }
  alignas(65536) static inline char registers[32 * 4096] = {};
  ConnectInfo connect_info(int queue) override {
    ConnectInfo info{};
    const End end = end_of(queue);
    std::memcpy(info.data(), &end, sizeof end);
    return info;
  }
  void connect(int queue, int pe, const ConnectInfo& info, std::uint32_t remote_key) override {
    Queue& mine = queues.at(static_cast<std::size_t>(queue));
    mine.pe = pe;
    mine.remote_key = remote_key;
    std::memcpy(&mine.end, info.data(), sizeof mine.end);
  }
  ConnectInfo make_target(std::uint64_t key) override {
    expect(queues.empty(), "the target is there before the queues");
    key_ = key;
    return {static_cast<std::uint8_t>(pe_)};
  }
  abi::AddressVector vector_to(int pe, const ConnectInfo& target) override {
    expect(target[0] == pe, "it is the target of that PE");
    return {{key_, static_cast<std::uint64_t>(pe)}};
  }
  void start() override {}
  void stop() noexcept override {}

  [[nodiscard]] static std::uint32_t key_of(int pe, const std::string& port) {
    return static_cast<std::uint32_t>(pe * 100 + (port.empty() ? 0 : std::stoi(port.substr(1))));
  }
  [[nodiscard]] End end_of(int queue) const {
    End end{pe_, queue, ""};
    std::strncpy(end.port, port_.c_str(), sizeof end.port - 1);
    return end;
  }
  std::vector<Queue> queues;
  std::atomic<std::uint32_t> made{0};  ///< as many as `queues`, also while a thread makes some
  std::vector<Region> memories;
  std::uint64_t heap_bytes = 0;

 private:
  /// Uses a part of the current memory in which no other queue has one. A queue that is made again
  /// has the same part.
  void take_part(std::uint64_t begin, std::uint64_t bytes) {
    const char* const first = static_cast<const char*>(memories.back().base) + begin;
    const std::pair mine(first, first + bytes);
    for (const Noting* nic : all_)
      for (const auto& part : nic->parts_)
        expect(part == mine || mine.first >= part.second || mine.second <= part.first,
               "parts of queues are apart");
    parts_.push_back(mine);
  }

  int pe_;
  std::string port_;
  std::vector<const Noting*>& all_;
  std::vector<std::pair<const char*, const char*>> parts_;
  std::size_t doorbells_ = 0;
  std::uint64_t key_ = 0;
};

/// Memory of this process, and of one PE.
class Memory {
 public:
  [[nodiscard]] MemorySource source(bool needs_order = false) {
    MemorySource source;
    source.shared = [this](std::size_t bytes) { return take(shared_, bytes); };
    source.device = [this](std::size_t bytes) { return take(device_, bytes); };
    source.upload = [this](void* to, const void* from, std::size_t n) {
      expect(!kernels_wait_, "no kernel holds up the copy");
      completions += n == sizeof(abi::CompletionEntry) ? 1 : 0;
      const auto* const begin = static_cast<const char*>(to);
      expect(std::any_of(device_.begin(), device_.end(),
                         [&](const Piece& piece) {
                           return begin >= piece.data.get() &&
                                  begin + n <= piece.data.get() + piece.bytes;
                         }),
             "uploads are to memory of the device");
      if (n > 0) std::memcpy(to, from, n);
    };
    source.map_registers = [needs_order](void* page, std::size_t) {
      return MappedRegisters{page, needs_order};
    };
    return source;
  }
  /// Kernels wait for queues from now on.
  void let_kernels_wait() { kernels_wait_ = true; }
  /// Returns the bytes of the allocation that begins there; 0: none does.
  [[nodiscard]] std::size_t bytes_at(const void* begin) const {
    for (const auto* const pieces : {&shared_, &device_})
      for (const Piece& piece : *pieces)
        if (piece.data.get() == begin) return piece.bytes;
    return 0;
  }
  /// Returns the bytes of all allocations.
  [[nodiscard]] std::size_t total() const {
    std::size_t sum = 0;
    for (const auto* const pieces : {&shared_, &device_})
      for (const Piece& piece : *pieces) sum += piece.bytes;
    return sum;
  }
  std::size_t completions = 0;  ///< uploads that mark a queue as ready

 private:
  struct Piece {
    std::unique_ptr<char, void (*)(char*)> data;
    std::size_t bytes;
  };
  static constexpr std::align_val_t kPage{4096};
  /// Allocates exactly the requested bytes, which AddressSanitizer watches.
  [[nodiscard]] static void* take(std::vector<Piece>& pieces, std::size_t bytes) {
    auto* const begin = static_cast<char*>(::operator new(bytes, kPage));
    pieces.push_back({{begin, [](char* data) { ::operator delete(data, kPage); }}, bytes});
    return std::memset(begin, 0, bytes);
  }
  std::vector<Piece> shared_, device_;
  bool kernels_wait_ = false;
};

/// A job: the ports of each PE, and its host.
struct Job {
  std::vector<std::vector<std::string>> ports;
  std::vector<int> node_of;
  [[nodiscard]] static Job one_host_each(int n) {
    Job job;
    for (int pe = 0; pe < n; ++pe) {
      job.ports.push_back({"d0"});
      job.node_of.push_back(pe);
    }
    return job;
  }
};

/// The queues of one PE, connected, and those of a context with them.
struct Connected {
  static constexpr std::uint64_t kHeap = abi::kInternalBytes * 4;

  std::vector<const Noting*> nics;
  std::size_t moved = 0;  ///< bytes over the bootstrap

  /// Connects to all other PEs; those of the own host are connected for atomics only.
  Connected(const Job& job, std::unique_ptr<bootstrap::Bootstrap> of,
            ConnectChoice when = ConnectChoice::kInit)
      : boot_(std::move(of), moved) {
    const int me = boot_.rank();
    config_.qps_per_pe = 2;
    config_.qp_depth = 256;
    config_.connect = when;
    NicList list;
    for (const std::string& port : job.ports[static_cast<std::size_t>(me)])
      list.push_back(std::make_unique<Noting>(me, port, nics));
    rails_ = Rails(std::move(list));
    rails_.open_host_ports(boot_, job.node_of);
    std::vector<int> peers;
    for (int pe = 0; pe < boot_.size(); ++pe)
      if (pe != me || when == ConnectChoice::kUse) peers.push_back(pe);
    const auto mapped = [&](int pe) {
      return job.node_of[static_cast<std::size_t>(pe)] == job.node_of[static_cast<std::size_t>(me)];
    };
    queues_.emplace(
        rails_, QueueSetOptions{config_, boot_, memory_.source(), {nullptr, kHeap}, peers, mapped});
    queues_->create_more(1);
    queues_->exchange(boot_);
    context = queues_->connect().front().shared;
    if (when == ConnectChoice::kUse) memory_.let_kernels_wait();
  }
  abi::NicView context;
  [[nodiscard]] QueueSet& queues() { return *queues_; }
  [[nodiscard]] const Memory& memory() const { return memory_; }
  void barrier() { boot_.barrier(); }

  [[nodiscard]] int count() const {
    std::uint32_t all = 0;
    for (const Noting* nic : nics) all += nic->made;
    return static_cast<int>(all);
  }
  /// Checks that the peer of each queue is connected to it.
  void expect_two_ends() {
    std::vector<std::pair<End, End>> mine, all;
    for (const Noting* nic : nics) {
      for (std::size_t q = 0; q < nic->queues.size(); ++q) {
        expect(nic->queues[q].pe == nic->queues[q].end.pe, "the other end is of that PE");
        mine.emplace_back(nic->end_of(static_cast<int>(q)), nic->queues[q].end);
      }
    }
    const auto counts = bootstrap::allgather(boot_, count());
    const int most = *std::max_element(counts.begin(), counts.end());
    mine.resize(static_cast<std::size_t>(most));
    all.resize(mine.size() * counts.size());
    boot_.allgather(mine.data(), all.data(), mine.size() * sizeof(mine[0]));
    mine.resize(static_cast<std::size_t>(count()));
    for (const auto& [here, there] : mine) {
      const auto back = std::find_if(
          all.begin(), all.end(), [&, of = there](const auto& pair) { return pair.first == of; });
      expect(back != all.end() && back->second == here, "each end is connected to the other");
    }
  }

 private:
  test::Counting boot_;
  Config config_;
  Memory memory_;
  Rails rails_;
  std::optional<QueueSet> queues_;
};

inline void run_job(const Job& job, const std::function<void(Connected&, int)>& body) {
  const int n = static_cast<int>(job.node_of.size());
  auto boots = bootstrap::create_threads(n, 60);
  CHECK(test::run_threads(n, [&](int rank) {
          Connected pe(job, std::move(boots[static_cast<std::size_t>(rank)]));
          body(pe, rank);
        }) == "");
}

}  // namespace gshmem::nic
