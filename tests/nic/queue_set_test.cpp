// Connecting queues over a bootstrap: each end learns of the queue that its peer made for it, and
// what that costs. The NICs only note what they are told; PEs are threads.
#include "bootstrap/bootstrap.h"
#include "tests/bootstrap/counting.h"
#include "tests/bootstrap/run_ranks.h"
#include "transport/nic/queue_set.h"

#include <catch2/catch.hpp>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

namespace gshmem::nic {
namespace {

/// What the end of a queue says of itself.
struct End {
  int pe, queue;
};

/// Notes by queue what it is connected to.
class Noting final : public Nic {
 public:
  explicit Noting(int pe) : pe_(pe) {}
  struct Peer {
    int pe;
    End end;
  };
  const char* name() const noexcept override { return "noting"; }
  std::string describe() const override { return name(); }
  Limits limits() const override { return {abi::kNicReadsRecord, 1 << 20, true}; }
  void use_queue_memory(const Region&) override {}
  Keys register_memory(const Region&) override { return {}; }
  CreatedQueue create_queue(const QueuePlace&) override {
    peers_.push_back({-1, {}});
    return {0, &doorbell_, DoorbellKind::kRegister};
  }
  ConnectInfo connect_info(int queue) override {
    ConnectInfo info{};
    const End end{pe_, queue};
    std::memcpy(info.data(), &end, sizeof end);
    return info;
  }
  void connect(int queue, int pe, const ConnectInfo& info, std::uint32_t) override {
    Peer& peer = peers_.at(static_cast<std::size_t>(queue));
    peer.pe = pe;
    std::memcpy(&peer.end, info.data(), sizeof peer.end);
  }
  void start() override {}
  void stop() noexcept override {}
  [[nodiscard]] const std::vector<Peer>& peers() const { return peers_; }

 private:
  int pe_;
  std::uint64_t doorbell_ = 0;
  std::vector<Peer> peers_;  ///< by queue
};

/// Memory of this process, and of one PE.
class Memory {
 public:
  [[nodiscard]] MemorySource source(bool needs_order = false) {
    MemorySource source;
    source.shared = [this](std::size_t bytes) { return take(bytes); };
    source.device = source.shared;
    source.upload = [](void* to, const void* from, std::size_t n) {
      if (n > 0) std::memcpy(to, from, n);
    };
    source.map_registers = [needs_order](void* page, std::size_t) {
      return MappedRegisters{page, needs_order};
    };
    return source;
  }

 private:
  void* take(std::size_t bytes) {
    pieces_.emplace_back(std::calloc(1, bytes), &std::free);
    return pieces_.back().get();
  }
  std::vector<std::unique_ptr<void, decltype(&std::free)>> pieces_;
};

void expect(bool ok, const char* what) {
  if (!ok) throw std::runtime_error(what);
}

/// What one PE of a job has moved when all of its queues are connected, those of a context too.
std::size_t connect_queues(std::unique_ptr<bootstrap::Bootstrap> of) {
  std::size_t bytes = 0;
  test::Counting boot(std::move(of), bytes);
  const int n = boot.size(), me = boot.rank();
  Config config;
  config.qps_per_pe = 2;
  config.qp_depth = 64;
  auto noting = std::make_unique<Noting>(me);
  const Noting& nic = *noting;
  NicList nics;
  nics.push_back(std::move(noting));
  Rails rails(std::move(nics));
  std::vector<int> peers;
  for (int pe = 0; pe < n; ++pe)
    if (pe != me) peers.push_back(pe);
  Memory memory;
  QueueSet queues(rails, {config, boot, memory.source(), {}, peers});
  queues.create_more(1);
  queues.exchange(boot);
  (void)queues.connect();
  const auto made = nic.peers();
  expect(made.size() == peers.size() * 3, "two queues to each peer, and one of a context");
  const auto connected = bootstrap::allgather(boot, static_cast<int>(made.size()));
  std::vector<End> mine(made.size()), all(mine.size() * connected.size());
  for (std::size_t q = 0; q < made.size(); ++q) {
    expect(made[q].pe == made[q].end.pe, "the other end is of that PE");
    mine[q] = made[q].end;
  }
  const std::size_t moved = bytes;
  boot.allgather(mine.data(), all.data(), mine.size() * sizeof(End));
  for (std::size_t q = 0; q < made.size(); ++q) {
    const End& back = all[static_cast<std::size_t>(mine[q].pe) * mine.size() +
                          static_cast<std::size_t>(mine[q].queue)];
    expect(back.pe == me && back.queue == static_cast<int>(q), "both ends mean each other");
  }
  return moved;
}

TEST_CASE("connecting_queues_costs_bytes_in_proportion_to_the_job") {
  const int n = GENERATE(2, 5, 48);
  // Keys of all, and for each other PE three connections both ways.
  const std::size_t most = static_cast<std::size_t>(n) * (128 + 3 * 2 * sizeof(ConnectInfo));
  auto boots = bootstrap::create_threads(n, 60);
  CHECK(test::run_threads(n, [&](int rank) {
          const std::size_t moved =
              connect_queues(std::move(boots[static_cast<std::size_t>(rank)]));
          expect(moved <= most, std::to_string(moved).c_str());
        }) == "");
}

TEST_CASE("doorbells_that_keep_the_last_store_only_are_rung_in_order") {
  const bool needs_order = GENERATE(false, true);
  const auto boots = bootstrap::create_threads(1, 60);
  Config config;
  config.qps_per_pe = 1;
  config.qp_depth = 64;
  NicList nics;
  nics.push_back(std::make_unique<Noting>(0));
  Rails rails(std::move(nics));
  Memory memory;
  const QueueSet queues(rails, {config, *boots[0], memory.source(needs_order), {}, {0}});
  constexpr std::uint32_t kRegister = abi::QueueTraits::kRegister;
  constexpr std::uint32_t kWord = abi::QueueTraits::kRecordFirst;
  CHECK((queues.view().traits & (kRegister | kWord)) == (needs_order ? kWord : kRegister));
}

}  // namespace
}  // namespace gshmem::nic
