// Tests how queues are connected over a bootstrap: each end learns of the queue that its peer made
// for it, and the cost of that. Tests addresses of queues and how they are rung, too.
#include "host/base/log.h"
#include "tests/nic/queue_set_rig.h"
#include "tests/capture.h"
#include "tests/unit/no_launch.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace gshmem::nic {
namespace {

TEST_CASE("pes_of_a_host_reach_each_other_by_the_port_of_the_target") {
  // PEs share a port, have the same ports in another order, or share none.
  const Job job = GENERATE(
      Job{{{"d0"}, {"d1"}, {"d0"}, {"d1"}, {"d0"}}, {0, 0, 0, 0, 1}},
      Job{{{"d0", "d1"}, {"d1", "d0"}, {"d2", "d0"}, {"d3", "d4"}, {"d1", "d0"}}, {0, 0, 0, 0, 1}});
  const auto ports = [&](int pe) { return job.ports[static_cast<std::size_t>(pe)]; };
  const auto node = [&](int pe) { return job.node_of[static_cast<std::size_t>(pe)]; };
  run_job(job, [&](Connected& pe, int me) {
    pe.expect_two_ends();
    std::map<int, std::set<std::string>> asked;  // by PE: ports of this PE's queues to it
    for (const Noting* nic : pe.nics) {
      const bool own = nic->port() == ports(me).front() || nic->port() == ports(me).back();
      for (const Noting::Queue& queue : nic->queues) {
        if (node(queue.pe) != node(me)) {
          expect(own && queue.depth == 256, "PEs of other hosts are reached by local ports");
          continue;
        }
        expect(queue.end.port == nic->port(), "no connection goes from one port to another");
        if (queue.depth != 256) {
          expect(own, "answering queues are on local ports");
          expect(queue.remote_key == 0, "and reaches nothing");
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

/// The only PE of its job, with one NIC and one queue.
struct Lonely {
  Lonely() {
    config.qps_per_pe = 1;
    config.qp_depth = 256;
  }
  [[nodiscard]] NicList one_nic() {
    NicList list;
    list.push_back(std::make_unique<Noting>(0, "d0", nics));
    return list;
  }
  std::vector<std::unique_ptr<bootstrap::Bootstrap>> boots = bootstrap::create_threads(1, 60);
  std::vector<const Noting*> nics;
  Rails rails{one_nic()};
  Memory memory;
  Config config;
};

TEST_CASE("a_queue_to_the_own_pe_is_answered_by_another_one") {
  Lonely pe;
  std::optional<QueueSet> queues;
  const auto said = test::said_at_info([&] {
    queues.emplace(pe.rails, QueueSetOptions{pe.config, *pe.boots[0], pe.memory.source(), {}, {0}});
  });
  CHECK(said.empty());  // without a GPU, nothing is reported about its memory
  const auto& made = pe.nics.front()->queues;
  REQUIRE(made.size() == 2);
  CHECK(made[0].depth == 256);
  CHECK(made[1].depth == abi::kMinQueueDepth);
  CHECK(made[0].end.queue == 1);
  CHECK(made[1].end.queue == 0);
  const abi::QueueView& view = queues->view().queues[0];
  // PRM, "doorbell record": the receive counter, then the one of sends.
  CHECK(reinterpret_cast<const char*>(view.send_record) == made[0].record + 4);
  CHECK(view.remote_key.get() == Noting::key_of(0, "d0"));
  CHECK(view.atomic_key.get() == ~Noting::key_of(0, "d0"));
}

/// Checks the queues of one PE: they are numbered from 0, and each has a cursor.
void expect_whole(const abi::NicView& view) {
  CHECK(view.count == view.per_pe);
  CHECK(view.max_message == 1 << 20);
  CHECK(view.used != nullptr);
  for (std::uint32_t i = 0; i < view.count; ++i) {
    CHECK(view.queues[i].index == i);
    CHECK(view.queues[i].cursor == view.cursors + i);
    CHECK(int{view.queues[i].pe} == 0);
  }
}

TEST_CASE("initiators_have_a_view_to_each_pe_and_one_cursor") {
  constexpr int kPes = 3;
  const Job job = Job::one_host_each(kPes);
  auto boots = bootstrap::create_threads(kPes, 60);
  std::vector<std::uint64_t> keys(kPes);
  CHECK(test::run_threads(kPes, [&](int rank) {
          const auto me = static_cast<std::size_t>(rank);
          Connected pe(job, std::move(boots[me]), ConnectChoice::kDc);
          const abi::NicView& view = pe.queues().view();
          expect(pe.count() == 3, "two of the default context, and one of the other one");
          expect(view.count == 2 && view.per_pe == 2 && view.first_use == nullptr,
                 "two initiators");
          expect((view.traits & abi::QueueTraits::kDynamic) != 0, "device code knows them");
          expect(view.block_mask == abi::NicView::kNoShortWay, "the short way does not");
          for (std::uint32_t i = 0; i < kPes * view.per_pe; ++i) {
            const abi::QueueView& queue = view.queues[i];
            const std::uint32_t to = i / view.per_pe, nth = i % view.per_pe;
            expect(queue.index == nth && queue.cursor == view.cursors + nth, "it is the nth one");
            expect(queue.entries == view.queues[nth].entries, "and has its memory");
            expect(queue.number == nth + 1 && queue.pe == to, "its number, and its PE");
            if (queue.pe != rank)
              expect(queue.remote_key.get() == Noting::key_of(queue.pe, "d0"), "keys of the PE");
          }
          for (std::uint64_t to = 0; to < kPes; ++to)
            expect(to == me || view.vectors[to].words[1] == to, "the vector of the PE");
          keys[me] = view.vectors[rank == 0 ? 1 : 0].words[0];
          expect(pe.context.count == 1 && pe.context.vectors == view.vectors, "of a context, too");
          expect(pe.context.queues[0].number == 3, "with an initiator of its own");
        }) == "");
  CHECK(keys == std::vector<std::uint64_t>(kPes, keys[0]));
}

/// All PEs of a large job do what this one does.
class Alike final : public Collectives {
 public:
  explicit Alike(int size) : size_(size) {}
  [[nodiscard]] int rank() const noexcept override { return 0; }
  [[nodiscard]] int size() const noexcept override { return size_; }
  void allgather(const void* send, void* recv, std::size_t bytes) override {
    if (bytes == 0) return;  // memcpy takes no null pointers
    for (int pe = 0; pe < size_; ++pe)
      std::memcpy(static_cast<char*>(recv) + static_cast<std::size_t>(pe) * bytes, send, bytes);
  }

 private:
  int size_;
};

TEST_CASE("each_more_pe_takes_a_view_of_each_initiator_and_a_vector") {
  const auto bytes_of = [](int pes) {
    Lonely pe;
    pe.config.qps_per_pe = 0;
    pe.config.qp_depth = 1024;
    pe.config.connect = ConnectChoice::kDc;
    Alike boot(pes);
    const QueueSet queues(pe.rails, {pe.config, boot, pe.memory.source(), {}, {0}});
    CHECK(pe.nics.front()->queues.size() == 16);
    return pe.memory.total();
  };
  const std::size_t few = bytes_of(64), many = bytes_of(1024);
  CHECK(many - few == (1024 - 64) * (16 * sizeof(abi::QueueView) + sizeof(abi::AddressVector)));
}

TEST_CASE("dynamic_connections_that_cannot_be_are_errors_at_init") {
  const auto text = [](std::vector<std::string> ports, const std::function<void(Config&)>& change) {
    std::vector<const Noting*> nics;
    NicList list;
    for (std::string& port : ports) list.push_back(std::make_unique<Noting>(0, port, nics));
    const Rails rails(std::move(list));
    Config config;
    config.connect = ConnectChoice::kDc;
    change(config);
    try {
      require_dynamic(config, rails);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(text({"d0"}, [](Config&) {}).empty());
  CHECK(text({"d16"}, [](Config&) {}) ==
        "GSHMEM_CONNECT=dc: noting has no dynamic connections; use GSHMEM_NIC=mlx5, or "
        "GSHMEM_CONNECT=init");
  CHECK_THAT(text({"d0", "d1"}, [](Config&) {}), Catch::Contains("use GSHMEM_NICS_PER_PE=1"));
  CHECK_THAT(text({"d0"}, [](Config& c) { c.ib_relaxed_ordering = true; }),
             Catch::Contains("unset GSHMEM_IB_RELAXED_ORDERING"));
  CHECK_THAT(text({"d0"}, [](Config& c) { c.quiet = QuietChoice::kVisible; }),
             Catch::Contains("and GSHMEM_QUIET"));
}

TEST_CASE("contexts_use_the_rails_in_turn_and_continue_after_the_one_before") {
  const auto boots = bootstrap::create_threads(1, 60);
  std::vector<const Noting*> all;
  NicList nics;
  for (const char* port : {"d0", "d1", "d2"})
    nics.push_back(std::make_unique<Noting>(0, port, all));
  Rails rails(std::move(nics));
  Memory memory;
  Config config;
  config.qps_per_pe = 2;  // one per rail
  config.qp_map = abi::QueueMap::kWarp;
  config.connect = GENERATE(ConnectChoice::kInit, ConnectChoice::kUse);
  QueueSet queues(rails, {config, *boots[0], memory.source(), {}, {0}});
  int nth = 0;
  for (const std::uint32_t more : {1u, 4u, 2u}) {
    queues.create_more(more);
    queues.exchange(*boots[0]);
    const std::vector<ContextQueues> made = queues.connect();
    REQUIRE(made.size() == more);
    for (const ContextQueues& context : made) {
      const int rail = nth++ % 3;
      // Atomics use the first rail. If transfers use it, too, one queue serves both.
      REQUIRE(context.shared.per_pe == (rail == 0 ? 1u : 2u));
      CHECK(int{context.shared.queues[0].rail} == 0);
      CHECK(int{context.shared.queues[context.shared.per_pe - 1].rail} == rail);
      expect_whole(context.shared);
      expect_whole(context.exclusive);
      CHECK(context.shared.rails == context.shared.per_pe);
      CHECK(context.shared.map == static_cast<abi::QueueMap>(rail == 0 ? 0 : 1));
      CHECK((context.shared.traits & abi::QueueTraits::kExclusive) == 0);
      CHECK((context.shared.flags & abi::kNicFlush) != 0);  // of three rails
      CHECK(context.exclusive.queues == context.shared.queues);
      CHECK(context.exclusive.rails == 1);
      CHECK(context.exclusive.map == abi::QueueMap::kPe);
      CHECK(context.exclusive.traits == (context.shared.traits | abi::QueueTraits::kExclusive));
      CHECK((context.exclusive.flags ^ context.shared.flags) == abi::kNicFlush);
      CHECK((context.shared.first_use != nullptr) == (config.connect == ConnectChoice::kUse));
    }
  }
  expect_whole(queues.view());
  CHECK(queues.one_by_each_nic() == std::vector<std::uint32_t>{0, 1, 2});
  CHECK(queues.view().rails == 3);
  CHECK(queues.view().map == abi::QueueMap::kWarp);
  // Queues that were marked as used remain so when their doorbells change.
  const std::uint32_t* const used = queues.view().used;
  queues.ring_by_agent();
  CHECK(queues.view().used == used);
  CHECK((queues.view().traits & abi::QueueTraits::kRegister) == 0);
  CHECK(memory.bytes_at(queues.view().queues[0].doorbell) ==
        queues.view().count * sizeof(AgentWord));
}

/// Records at each collective how many queues are connected.
class Watching final : public bootstrap::Bootstrap {
 public:
  Watching(bootstrap::Bootstrap& of, const std::vector<const Noting*>& nics)
      : of_(of), nics_(nics) {}
  int rank() const noexcept override { return of_.rank(); }
  int size() const noexcept override { return of_.size(); }
  const char* name() const noexcept override { return "watching"; }
  void allgather(const void* send, void* recv, std::size_t bytes) override {
    connected = 0;
    for (const Noting* nic : nics_)
      connected += std::ranges::count_if(nic->queues, [](const auto& q) { return q.pe >= 0; });
    of_.allgather(send, recv, bytes);
  }
  void finish() noexcept override {}
  void abort(int, std::string_view) noexcept override {}
  std::ptrdiff_t connected = 0;  ///< at the last collective

 private:
  bootstrap::Bootstrap& of_;
  const std::vector<const Noting*>& nics_;
};

TEST_CASE("pes_synchronize_after_all_of_their_queues_are_connected") {
  Lonely pe;
  Watching boot(*pe.boots[0], pe.nics);
  pe.config.connect = GENERATE(ConnectChoice::kInit, ConnectChoice::kUse);
  const QueueSet queues(pe.rails, {pe.config, boot, pe.memory.source(), {}, {0}});
  CHECK(boot.connected == 2);  // one queue, and its peer
}

TEST_CASE("quiet_waits_for_memory_on_request") {
  for (const auto& [quiet, relaxed, ports] : {std::tuple{QuietChoice::kAuto, false, 1},
                                              {QuietChoice::kVisible, false, 1},
                                              {QuietChoice::kAuto, true, 1},
                                              {QuietChoice::kAuto, false, 2}}) {
    const auto boots = bootstrap::create_threads(1, 60);
    std::vector<const Noting*> all;
    NicList nics;
    for (int port = 0; port < ports; ++port)
      nics.push_back(std::make_unique<Noting>(0, strprintf("d%d", port), all));
    Rails rails(std::move(nics));
    Memory memory;
    Config config;
    config.quiet = quiet;
    config.ib_relaxed_ordering = relaxed;
    const QueueSet queues(rails, {config, *boots[0], memory.source(), {}, {0}});
    // Operations over two ports are not ordered.
    const bool flushes = quiet == QuietChoice::kVisible || relaxed || ports > 1;
    CHECK(((queues.view().flags & abi::kNicFlush) != 0) == flushes);
  }
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

/// One PE that is connected to itself, in memory of a GPU.
struct OnGpu {
  bootstrap::Bootstrap& boot;
  std::vector<std::string> ports;
  QueueMemoryChoice queue_memory = QueueMemoryChoice::kAuto;
  std::size_t page_bytes = 4096;
  DoorbellChoice doorbell = DoorbellChoice::kAuto;
  bool maps = true;                      ///< registers are mapped for the GPU
  std::vector<Region> memories = {};     ///< memory that the last NIC was given
  std::vector<const void*> mapped = {};  ///< pages of registers
  bool in_gpu_memory = false, by_registers = false;
  std::size_t completions = 0;
  void run() {
    Config config;
    config.qps_per_pe = 32;
    config.qp_depth = 64;
    config.queue_memory = queue_memory;
    config.doorbell = doorbell;
    NicList nics;
    std::vector<const Noting*> all;
    for (const std::string& port : ports) nics.push_back(std::make_unique<Noting>(0, port, all));
    Rails rails(std::move(nics));
    Memory memory;
    MemorySource source = memory.source();
    source.page_bytes = page_bytes;
    source.map_registers = [&](void* page, std::size_t bytes) {
      require(maps, GSHMEMX_ERROR_CUDA, "no registers for GPUs");
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
    by_registers = (queues.view().traits & abi::QueueTraits::kRegister) != 0;
  }
};

TEST_CASE("queues_are_in_gpu_memory_if_every_nic_accepts_it") {
  const auto boots = bootstrap::create_threads(1, 60);
  OnGpu both{*boots[0], {"d0", "d1"}}, one{*boots[0], {"d0", "d14"}},
      asked{*boots[0], {"d0", "d1"}, QueueMemoryChoice::kHost},
      must{*boots[0], {"d0", "d14"}, QueueMemoryChoice::kGpu};
  both.run();
  CHECK((both.in_gpu_memory && both.memories.back().kind == MemoryKind::kGpu));
  CHECK(both.completions == 64);  // 32 queues, and their peers
  const auto lines = test::said_at_info([&] { one.run(); });
  REQUIRE_FALSE(lines.empty());
  CHECK_THAT(lines[0], Catch::Contains("INFO: work queues are in host memory: no peer memory"));
  asked.run();
  CHECK((!one.in_gpu_memory && one.memories.back().kind == MemoryKind::kHost));
  CHECK((!asked.in_gpu_memory && asked.completions == 0));
  CHECK_THROWS_WITH(must.run(), "no peer memory");
}

TEST_CASE("a_host_thread_rings_if_no_gpu_can_unless_the_gpu_has_to") {
  const auto boots = bootstrap::create_threads(1, 60);
  OnGpu can{*boots[0], {"d0"}}, cannot = can, has_to = can;
  cannot.maps = has_to.maps = false;
  has_to.doorbell = DoorbellChoice::kGpu;
  can.run();
  CHECK(can.by_registers);
  const auto lines = test::said_at_info([&] { cannot.run(); });
  CHECK_FALSE(cannot.by_registers);
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0],
             Catch::Contains("INFO: a host thread rings the doorbells: no registers for GPUs"));
  CHECK_THROWS_WITH(has_to.run(), "no registers for GPUs");
}

}  // namespace
}  // namespace gshmem::nic
