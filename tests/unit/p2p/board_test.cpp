// The board of one host in the place of a bootstrap: that it does what every bootstrap does, what
// it says of a PE that dies meanwhile, and that init goes over it.
#include "host/runtime/over_board.h"

#include "host/runtime/pe.h"
#include "tests/bootstrap/counting.h"
#include "tests/bootstrap/run_ranks.h"
#include "tests/bootstrap/uid_fixture.h"

#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

using namespace gshmem;
using namespace gshmem::test;

namespace {

using Ranks = std::vector<std::unique_ptr<bootstrap::Bootstrap>>;

/// A board, all that it needs, and the bootstrap before it.
class Board final : public bootstrap::Bootstrap {
 public:
  explicit Board(std::unique_ptr<Bootstrap> below)
      : below_(std::move(below)),
        group_(p2p::group_hosts(
            std::vector<std::string>(static_cast<std::size_t>(below_->size()), "host"),
            below_->rank())),
        sockets_(*below_, group_, 60 * kPatience),
        board_(p2p::make_shared_board(sockets_, [this] { return sockets_.lost_one(); })),
        over_(*board_, below_->rank(), below_->size(), 60 * kPatience, below_.get()) {}
  int rank() const noexcept override { return over_.rank(); }
  int size() const noexcept override { return over_.size(); }
  const char* name() const noexcept override { return over_.name(); }
  void allgather(const void* send, void* recv, std::size_t bytes) override {
    over_.allgather(send, recv, bytes);
  }
  void alltoall(const void* send, void* recv, std::size_t bytes) override {
    over_.alltoall(send, recv, bytes);
  }
  void barrier() override { over_.barrier(); }
  void abort(int code, std::string_view reason) noexcept override { over_.abort(code, reason); }

 private:
  std::unique_ptr<Bootstrap> below_;
  p2p::HostGroup group_;
  p2p::PeerSockets sockets_;
  std::unique_ptr<p2p::Board> board_;
  OverBoard over_;
};

/// Bytes that PE 0 has moved over the bootstrap when a job of `n` PEs is there.
std::size_t moved_by_init(int n, const std::function<void(Config&)>& change) {
  std::vector<std::size_t> moved(static_cast<std::size_t>(n));
  Ranks ranks = bootstrap::create_threads(n, 60 * kPatience);
  CHECK(run_threads(n, [&](int rank) {
          const auto at = static_cast<std::size_t>(rank);
          PeOptions options{.config = Config::from_env()};
          options.config.device = DeviceChoice::kCpu;
          options.config.symmetric_size = 1 << 20;
          change(options.config);
          Pe pe(std::make_unique<Counting>(std::move(ranks[at]), moved[at]), std::move(options));
        }) == "");
  return moved.front();
}

}  // namespace

TEST_CASE("board_conforms") {
  const int size = GENERATE(1, 2, 5);
  Ranks lives[2] = {bootstrap::create_threads(size, 60), bootstrap::create_threads(size, 60)};
  CHECK(run_threads(size, [&](int rank) {
          int life = 0;
          conformance([&] {
            return std::make_unique<Board>(
                std::move(lives[life++][static_cast<std::size_t>(rank)]));
          });
        }) == "");
}

TEST_CASE("what_a_pe_does_not_bring_is_zero") {
  Ranks ranks = bootstrap::create_threads(2, 60 * kPatience);
  CHECK(run_threads(2, [&](int rank) {
          Board board(std::move(ranks[static_cast<std::size_t>(rank)]));
          // What it brought two calls ago has to be gone.
          for (int i = 0; i < 2; ++i) (void)bootstrap::allgather(board, std::uint64_t{77});
          if (rank == 1) return board.barrier();
          const auto all = bootstrap::allgather(board, std::uint64_t{5});
          expect(all[0] == 5 && all[1] == 0, "PE 1 is in a barrier");
        }) == "");
}

TEST_CASE("pe_that_dies_is_named_by_the_bootstrap_below") {
  IdChannel channel;
  CHECK(run_processes(3, [&](int rank) {
          Board board(channel.join(rank, 3, uid_config()));
          board.barrier();
          if (rank == 2) _exit(0);
          expect_error(GSHMEMX_ERROR_PEER_FAILED, "rank 2 died", [&] { board.barrier(); });
        }) == "");
}

TEST_CASE("init_on_one_host_connects_queues_over_the_board") {
  const std::size_t mapped = moved_by_init(3, [](Config&) {});
  CHECK(mapped == moved_by_init(3, [](Config& config) {
          config.p2p = false;
          config.nic = NicKind::kSoft;
        }));
}
