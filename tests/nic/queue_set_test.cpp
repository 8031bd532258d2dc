// Connecting queues over a bootstrap: each end learns of the queue that its peer made for it, and
// what that costs. The NICs only note what they are told; PEs are threads.
#include "bootstrap/bootstrap.h"
#include "tests/bootstrap/conformance.h"
#include "tests/bootstrap/counting.h"
#include "tests/bootstrap/run_ranks.h"
#include "transport/nic/first_use.h"

#include <gshmem/abi/state.h>
#include <gshmem/device/queue.h>

#include <catch2/catch.hpp>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace gshmem::nic {
namespace {

/// What the end of a queue says of itself. Queues of a PE count by port.
struct End {
  int pe, queue;
  char port[8];
  bool operator==(const End& other) const {
    return pe == other.pe && queue == other.queue && std::string(port) == other.port;
  }
};

using test::expect;

/// Notes by queue what it is connected to, and what it was told of the memory.
class Noting final : public Nic {
 public:
  /// Of the PE that `all` belongs to, which outlives it.
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
  };
  const char* name() const noexcept override { return "noting"; }
  std::string describe() const override { return name(); }
  Limits limits() const override { return {abi::kNicReadsRecord, 1 << 20, true, true, true}; }
  std::string port() const override { return port_; }
  std::unique_ptr<Nic> open_port(const std::string& port) override {
    require(port != "d13", GSHMEMX_ERROR_NIC, "no permission on d13");
    return std::make_unique<Noting>(pe_, port, all_);
  }
  void use_queue_memory(const Region& region) override {
    require(region.kind == MemoryKind::kHost || port_ != "d14", GSHMEMX_ERROR_NIC,
            "no peer memory");
    memories.push_back(region);
  }
  Keys register_memory(const Region& region) override {
    heap_bytes = region.bytes;
    return {0, key_of(pe_, port_), ~key_of(pe_, port_)};
  }
  void unregister_memory(const Region&) noexcept override {}
  CreatedQueue create_queue(const QueuePlace& place) override {
    require(port_ != "d15" || made < 4, GSHMEMX_ERROR_NIC, "no more queue pairs");
    queues.push_back({-1, place.depth, 0, {}});
    expect(place.cq_record + 8 <= memories.back().bytes, "the queue is in its memory");
    const char* const memory = static_cast<const char*>(memories.back().base);
    const abi::CompletionEntry none = no_completion();
    expect(std::memcmp(memory + place.completion, &none, sizeof(none)) == 0, "none is complete");
    expect(std::all_of(memory + place.record, memory + place.cq_record + 8,
                       [](char byte) { return byte == 0; }),
           "the records are 0");
    const std::uint32_t number = ++made;
    return {number, place.doorbell ? place.doorbell : next_doorbell()};
  }
  // Registers as of a ConnectX: in pages of 4 KiB.
  std::uint64_t* next_doorbell() override {
    char* const page = registers + doorbells_++ % 32 * 4096;
    return reinterpret_cast<std::uint64_t*>(page + abi::kUarDoorbellOffset);
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
  int pe_;
  std::string port_;
  std::vector<const Noting*>& all_;
  std::size_t doorbells_ = 0;
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
  /// For queues, from now on.
  void let_kernels_wait() { kernels_wait_ = true; }
  std::size_t completions = 0;  ///< uploads that make one ready

 private:
  struct Piece {
    std::unique_ptr<char, decltype(&std::free)> data;
    std::size_t bytes;
  };
  [[nodiscard]] static void* take(std::vector<Piece>& pieces, std::size_t bytes) {
    constexpr std::size_t kPage = 4096;
    bytes = (bytes + kPage - 1) / kPage * kPage;
    pieces.push_back({{static_cast<char*>(std::aligned_alloc(kPage, bytes)), &std::free}, bytes});
    return std::memset(pieces.back().data.get(), 0, bytes);
  }
  std::vector<Piece> shared_, device_;
  bool kernels_wait_ = false;
};

/// A job: which ports each PE has, and on which host it is.
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

  /// To all other PEs; those of the own host get atomics alone.
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
  void barrier() { boot_.barrier(); }

  [[nodiscard]] int count() const {
    std::uint32_t all = 0;
    for (const Noting* nic : nics) all += nic->made;
    return static_cast<int>(all);
  }
  /// Whether what each queue is connected to is connected to it.
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
      expect(back != all.end() && back->second == here, "both ends mean each other");
    }
  }

 private:
  test::Counting boot_;
  Config config_;
  Memory memory_;
  Rails rails_;
  std::optional<QueueSet> queues_;
};

void run_job(const Job& job, const std::function<void(Connected&, int)>& body) {
  const int n = static_cast<int>(job.node_of.size());
  auto boots = bootstrap::create_threads(n, 60);
  CHECK(test::run_threads(n, [&](int rank) {
          Connected pe(job, std::move(boots[static_cast<std::size_t>(rank)]));
          body(pe, rank);
        }) == "");
}

TEST_CASE("connecting_queues_costs_bytes_in_proportion_to_the_job") {
  const int n = GENERATE(2, 5, 48);
  // Keys and ports of all, and for each other PE three connections both ways.
  const std::size_t most = static_cast<std::size_t>(n) * (256 + 3 * 2 * sizeof(ConnectInfo));
  run_job(Job::one_host_each(n), [&](Connected& pe, int) {
    expect(pe.moved <= most, std::to_string(pe.moved));
    expect(pe.count() == (n - 1) * 3, "two queues to each peer, and one of a context");
    pe.expect_two_ends();
  });
}

TEST_CASE("pes_of_a_host_reach_each_other_by_the_port_of_the_target") {
  // PEs that share a port, that have the same ports in another order, and that share none.
  const Job job = GENERATE(
      Job{{{"d0"}, {"d1"}, {"d0"}, {"d1"}, {"d0"}}, {0, 0, 0, 0, 1}},
      Job{{{"d0", "d1"}, {"d1", "d0"}, {"d2", "d0"}, {"d3", "d4"}, {"d1", "d0"}}, {0, 0, 0, 0, 1}});
  const auto ports = [&](int pe) { return job.ports[static_cast<std::size_t>(pe)]; };
  const auto node = [&](int pe) { return job.node_of[static_cast<std::size_t>(pe)]; };
  run_job(job, [&](Connected& pe, int me) {
    pe.expect_two_ends();
    std::map<int, std::set<std::string>> asked;  // by PE: ports of this one's queues to it
    for (const Noting* nic : pe.nics) {
      const bool own = nic->port() == ports(me).front() || nic->port() == ports(me).back();
      for (const Noting::Queue& queue : nic->queues) {
        if (node(queue.pe) != node(me)) {
          expect(own && queue.depth == 256, "PEs of other hosts are reached by the own ports");
          continue;
        }
        expect(queue.end.port == nic->port(), "no connection goes from one port to another");
        if (queue.depth != 256) {
          expect(own, "what only answers is on the own ports");
          continue;
        }
        asked[queue.pe].insert(nic->port());
        expect(queue.remote_key == Noting::key_of(queue.pe, nic->port()), "key of the target");
      }
      expect(nic->heap_bytes == (own ? Connected::kHeap : abi::kInternalBytes),
             "by ports of others go atomics alone");
    }
    for (const auto& [to, by] : asked) {
      const std::vector<std::string> theirs = ports(to);
      expect(by == std::set<std::string>(theirs.begin(), theirs.end()), "the ports of the target");
    }
  });
}

/// PEs that connect on first use, and the letters between them.
struct OnFirstUse {
  std::vector<abi::Control> controls;
  std::mutex mutex;  ///< of `threads`: TSan knows nothing of fences, by which device code asks
  std::vector<std::unique_ptr<FirstUse>> threads;
  std::atomic<int> letters{0}, errors{0}, about{-1};  ///< the PE of the last error
  explicit OnFirstUse(std::size_t pes) : controls(pes), threads(pes) {}

  void start(Connected& pe, int me) {
    const auto at = static_cast<std::size_t>(me);
    auto thread = std::make_unique<FirstUse>(
        pe.queues(),
        FirstUse::Outside{.my_pe = me,
                          .asked = &controls[at].asked,
                          .is_woken = me % 2 == 0,  // as CPUs do, or GPUs
                          .send =
                              [this, me](int to, std::span<const std::byte> letter) {
                                ++letters;
                                deliver(to, me, letter);
                              },
                          .on_error = [this](const Error&, int of) { about = of, ++errors; }});
    {
      const std::lock_guard lock(mutex);
      threads[at] = std::move(thread);
    }
    pe.barrier();
  }
  void deliver(int to, int from, std::span<const std::byte> letter) {
    const std::lock_guard lock(mutex);
    threads[static_cast<std::size_t>(to)]->take(from, letter);
  }
  void stop(int me) {
    std::unique_ptr<FirstUse> last;
    const std::lock_guard lock(mutex);
    last.swap(threads[static_cast<std::size_t>(me)]);
  }
  /// Device code of PE `me` asks for the queues to a PE, and does not wait.
  void ask(const abi::NicView& view, int me, int pe) {
    const auto raise = [](std::uint32_t& word) { __atomic_store_n(&word, 1u, __ATOMIC_RELEASE); };
    raise(view.first_use[static_cast<std::uint32_t>(pe) * view.per_pe].asked);
    raise(controls[static_cast<std::size_t>(me)].asked);
  }
  /// By device code of PE `me`, which posts to a queue for the first time.
  void use(const abi::NicView& view, int me, int pe, std::uint32_t nth = 0) {
    abi::DeviceState state;
    state.nic = view;
    state.control = &controls[static_cast<std::size_t>(me)];
    state.timeout_ns = 60'000'000'000u;
    const std::uint32_t at = static_cast<std::uint32_t>(pe) * view.per_pe + nth;
    device::Wait wait;
    device::begin_wait(wait, &state, view.queues + at, "test");
    if (wait.queue.number() == 0) device::queue_connect(wait);
    expect(wait.good() && view.queues[at].number != 0, "the queue has a number");
  }
};

TEST_CASE("on_first_use_pes_that_talk_are_connected_once_and_others_never") {
  constexpr int kPes = 5, kQueues = 2, kOwn = 2 * kQueues;
  auto boots = bootstrap::create_threads(kPes, 60);
  OnFirstUse job(kPes);
  CHECK(test::run_threads(kPes, [&](int me) {
          Connected pe(Job::one_host_each(kPes), std::move(boots[static_cast<std::size_t>(me)]),
                       ConnectChoice::kUse);
          job.start(pe, me);
          const abi::NicView view = pe.queues().view();
          expect(pe.count() == kOwn, "after init, those that lead back");
          expect(me == 0 || view.queues[0].completion->raw == 0, "memory of others is untouched");
          pe.barrier();  // from here on PEs make queues of each other's
          job.use(view, me, me);
          pe.barrier();
          // All at once, and then again: to the right; the two first PEs to each other.
          const auto use_both = [&](int to) {
            std::thread other([&] { job.use(view, me, to, 1); });
            job.use(view, me, to);
            other.join();
          };
          if (me < kPes - 1) use_both(me + 1);
          if (me == 1) use_both(0);
          pe.barrier();
          const int neighbours = me == 0 || me == kPes - 1 ? 1 : 2;
          expect(pe.count() == kOwn + kQueues * neighbours, "of the default context");
          pe.barrier();
          // A context has connections of its own.
          if (me == 0) job.use(pe.context, me, kPes - 1);
          pe.barrier();
          const int more = me == 0 || me == kPes - 1 ? 1 : 0;
          expect(pe.count() == kOwn + kQueues * neighbours + more, "and of the other one");
          pe.expect_two_ends();
          pe.barrier();
          job.stop(me);
        }) == "");
  CHECK(job.errors == 0);
  CHECK(job.letters <= 4 * kPes);
}

TEST_CASE("on_first_use_both_ways_between_two_ports_of_a_host_are_made") {
  auto boots = bootstrap::create_threads(2, 60);
  OnFirstUse job(2);
  CHECK(test::run_threads(2, [&](int me) {
          Connected pe(Job{{{"d0"}, {"d1"}}, {0, 0}},
                       std::move(boots[static_cast<std::size_t>(me)]), ConnectChoice::kUse);
          job.start(pe, me);
          pe.barrier();
          for (const std::uint32_t nth : {1u, 0u}) job.use(pe.queues().view(), me, 1 - me, nth);
          pe.barrier();
          expect(pe.count() == 2 * 4, "to itself and to the other one, and what answers");
          pe.expect_two_ends();
          pe.barrier();
          job.stop(me);
        }) == "");
  CHECK(job.errors == 0);
}

TEST_CASE("on_first_use_a_queue_that_a_nic_refuses_is_an_error_about_the_peer") {
  auto boots = bootstrap::create_threads(2, 60);
  OnFirstUse job(2);
  const std::string refusing = GENERATE("d0", "d15");  // the PE that answers, or both
  CHECK(test::run_threads(2, [&](int me) {
          Connected pe(Job{{{refusing}, {"d15"}}, {0, 1}},
                       std::move(boots[static_cast<std::size_t>(me)]), ConnectChoice::kUse);
          job.start(pe, me);
          if (me == 0) job.ask(pe.queues().view(), 0, 1);
          for (int i = 0; i < 20000 && job.errors == 0; ++i) ::usleep(1000);
          pe.barrier();
          job.stop(me);
        }) == "");
  CHECK(job.errors == 1);
  CHECK(job.about == (refusing == "d0" ? 0 : 1));
}

TEST_CASE("on_first_use_a_letter_that_cannot_be_is_an_error_about_its_sender") {
  auto boots = bootstrap::create_threads(1, 60);
  Connected pe(Job::one_host_each(1), std::move(boots[0]), ConnectChoice::kUse);
  std::uint32_t asked = 0;
  std::atomic<int> about{-1}, sent{0};
  std::string why;
  const auto tell = [&](const Error& error, int from) { why = error.what(), about = from; };
  FirstUse thread(pe.queues(), {.my_pe = 0,
                                .asked = &asked,
                                .is_woken = true,
                                .send = [&](int, std::span<const std::byte>) { ++sent; },
                                .on_error = tell});
  // Of half a header; of none, part of one, one queue; from a PE that is none, one with two queues.
  const std::vector<std::byte> letter(GENERATE(3u, 8u, 9u, 8u + 2 * sizeof(ConnectInfo)));
  const int from = GENERATE(7, 0);
  thread.take(from, letter);
  for (int i = 0; i < 20000 && about < 0; ++i) ::usleep(1000);
  CHECK(about == from);
  CHECK((why.find("a letter of ") != std::string::npos) == (letter.size() % 2 != 0));
  CHECK(sent == 0);
}

TEST_CASE("a_queue_to_the_own_pe_is_answered_by_another_one") {
  const auto boots = bootstrap::create_threads(1, 60);
  std::vector<const Noting*> all;
  NicList nics;
  nics.push_back(std::make_unique<Noting>(0, "d0", all));
  Rails rails(std::move(nics));
  Memory memory;
  Config config;
  config.qps_per_pe = 1;
  config.qp_depth = 256;
  const QueueSet queues(rails, {config, *boots[0], memory.source(), {}, {0}});
  const auto& made = all.front()->queues;
  REQUIRE(made.size() == 2);
  CHECK(made[0].depth == 256);
  CHECK(made[1].depth == abi::kMinQueueDepth);
  CHECK(made[0].end.queue == 1);
  CHECK(made[1].end.queue == 0);
  const abi::QueueView& view = queues.view().queues[0];
  CHECK(view.remote_key.get() == Noting::key_of(0, "d0"));
  CHECK(view.atomic_key.get() == ~Noting::key_of(0, "d0"));
}

TEST_CASE("quiet_waits_for_memory_where_that_is_asked_for") {
  for (const auto& [quiet, relaxed] : {std::pair{QuietChoice::kAuto, false},
                                       {QuietChoice::kVisible, false},
                                       {QuietChoice::kAuto, true}}) {
    const auto boots = bootstrap::create_threads(1, 60);
    std::vector<const Noting*> all;
    NicList nics;
    nics.push_back(std::make_unique<Noting>(0, "d0", all));
    Rails rails(std::move(nics));
    Memory memory;
    Config config;
    config.quiet = quiet;
    config.ib_relaxed_ordering = relaxed;
    const QueueSet queues(rails, {config, *boots[0], memory.source(), {}, {0}});
    const bool flushes = quiet == QuietChoice::kVisible || relaxed;
    CHECK(((queues.view().flags & abi::kNicFlush) != 0) == flushes);
  }
}

TEST_CASE("a_host_with_a_port_that_one_cannot_open_does_without") {
  run_job(Job{{{"d12"}, {"d13"}, {"d1"}, {"d2"}}, {0, 0, 1, 1}}, [](Connected& pe, int me) {
    pe.expect_two_ends();
    expect(pe.nics.size() == (me < 2 ? 1u : 2u), "guests where they can be");
    expect(pe.count() == (me < 2 ? 9 : 12), "an answering queue for each to the neighbour");
  });
}

TEST_CASE("doorbells_that_keep_the_last_store_only_are_rung_in_order") {
  const bool needs_order = GENERATE(false, true);
  const auto boots = bootstrap::create_threads(1, 60);
  Config config;
  config.qps_per_pe = 1;
  config.qp_depth = 64;
  NicList nics;
  std::vector<const Noting*> all;
  nics.push_back(std::make_unique<Noting>(0, "", all));
  Rails rails(std::move(nics));
  Memory memory;
  const QueueSet queues(rails, {config, *boots[0], memory.source(needs_order), {}, {0}});
  constexpr std::uint32_t kRegister = abi::QueueTraits::kRegister;
  constexpr std::uint32_t kWord = abi::QueueTraits::kRecordFirst;
  CHECK((queues.view().traits & (kRegister | kWord)) == (needs_order ? kWord : kRegister));
}

/// Of one PE, with itself, in memory of a GPU.
struct OnGpu {
  bootstrap::Bootstrap& boot;
  std::vector<std::string> ports;
  QueueMemoryChoice queue_memory = QueueMemoryChoice::kAuto;
  std::size_t page_bytes = 4096;
  std::vector<Region> memories = {};     ///< that the last NIC was told of
  std::vector<const void*> mapped = {};  ///< pages of registers
  bool in_gpu_memory = false;
  std::size_t completions = 0;
  void run() {
    Config config;
    config.qps_per_pe = 20;
    config.qp_depth = 64;
    config.queue_memory = queue_memory;
    NicList nics;
    std::vector<const Noting*> all;
    for (const std::string& port : ports) nics.push_back(std::make_unique<Noting>(0, port, all));
    Rails rails(std::move(nics));
    Memory memory;
    MemorySource source = memory.source();
    source.page_bytes = page_bytes;
    source.map_registers = [&](void* page, std::size_t bytes) {
      expect(reinterpret_cast<std::uintptr_t>(page) % page_bytes == 0 && bytes == page_bytes,
             "whole pages of the host");
      expect(std::count(mapped.begin(), mapped.end(), page) == 0, "each of them once");
      mapped.push_back(page);
      return MappedRegisters{page, false};
    };
    const QueueSet queues(
        rails, {config, boot, source, {nullptr, Connected::kHeap, MemoryKind::kGpu, 0}, {0}});
    memories = all.back()->memories;
    completions = memory.completions;
    in_gpu_memory = (queues.view().traits & abi::QueueTraits::kGpuMemory) != 0;
  }
};

TEST_CASE("queues_are_in_gpu_memory_where_every_nic_takes_it") {
  const auto boots = bootstrap::create_threads(1, 60);
  OnGpu both{*boots[0], {"d0", "d1"}}, one{*boots[0], {"d0", "d14"}},
      asked{*boots[0], {"d0", "d1"}, QueueMemoryChoice::kHost},
      must{*boots[0], {"d0", "d14"}, QueueMemoryChoice::kGpu};
  both.run();
  CHECK((both.in_gpu_memory && both.memories.back().kind == MemoryKind::kGpu));
  CHECK(both.completions == 40);  // 20 queues by each port
  one.run(), asked.run();
  CHECK((!one.in_gpu_memory && one.memories.back().kind == MemoryKind::kHost));
  CHECK((!asked.in_gpu_memory && asked.completions == 0));
  CHECK_THROWS_WITH(must.run(), "no peer memory");
}

TEST_CASE("memory_and_registers_are_taken_in_whole_pages_of_the_host") {
  const auto boots = bootstrap::create_threads(1, 60);
  const std::size_t page = GENERATE(4096u, 65536u);
  const QueueMemoryChoice where = GENERATE(QueueMemoryChoice::kHost, QueueMemoryChoice::kGpu);
  OnGpu pe{*boots[0], {"d0"}, where, page};
  pe.run();
  const Region& memory = pe.memories.back();
  const std::size_t whole = where == QueueMemoryChoice::kGpu ? 65536 : page;
  const auto base = reinterpret_cast<std::uintptr_t>(memory.base);
  CHECK(memory.bytes % whole == 0);
  CHECK((where == QueueMemoryChoice::kHost || base % whole == 0));
  CHECK(pe.mapped.size() == (page == 4096 ? 20u : 2u));  // of 20 registers
}

}  // namespace
}  // namespace gshmem::nic
