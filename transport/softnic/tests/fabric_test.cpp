// Tests the soft NIC between processes: traffic in both directions, a peer that dies, joins late,
// or is replaced. Processes are forked before any engine runs.
#include "tests/lifeline.h"
#include "transport/softnic/tests/softnic.h"
#include "tests/threads_of_process.h"
#include "tests/sanitizers/sanitizers.h"
#include "transport/softnic/fabric.h"

#include <catch2/catch.hpp>

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>

namespace gshmem::test {
namespace {

/// Data that the two processes exchange, in shared memory.
struct Board {
  std::atomic<std::uint32_t> stage;
  std::uint32_t qpn[2], key[2];
};

void reach(Board& board, std::uint32_t stage) {
  if (!eventually([&] { return board.stage.load() >= stage; })) {
    throw std::runtime_error("the other process is stuck");
  }
}

constexpr std::uint64_t kBytes = 1 << 20;

/// One side: its engine, a queue pair to the other side, and memory at address 0.
struct Side {
  Side(int fd, Board& board, int me)
      : board(board),
        me(me),
        engine(soft::EngineOptions{}),
        joined((engine.join_fabric(fd), true)),
        pd(engine.create_pd()),
        memory(engine, pd, kBytes, 15, 0),
        queue(engine, pd) {
    board.qpn[me] = queue.qpn();
    board.key[me] = memory.key();
  }
  void connect() { queue.connect(board.qpn[1 - me]); }
  [[nodiscard]] Queue::Far far(std::uint64_t offset) const { return {offset, board.key[1 - me]}; }
  [[nodiscard]] Queue::Near near(std::uint64_t offset, std::uint32_t bytes) const {
    return {offset, bytes, memory.key()};
  }

  Board& board;
  int me;
  soft::Engine engine;
  bool joined;
  std::uint32_t pd;
  Memory memory;
  Queue queue;
};

class Processes {
 public:
  Processes() : fd_(soft::Engine::make_fabric()) {
    void* memory =
        ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    board_ = new (memory) Board{};
  }
  ~Processes() {
    if (child_ > 0) static_cast<void>(finish());
    ::close(fd_);
    ::munmap(board_, sizeof(Board));
  }
  Processes(const Processes&) = delete;

  /// Runs `body` in a child, which exits with 0 if it returns true.
  template <class F>
  void start(F body) {
    child_ = ::fork();
    if (child_ != 0) return;
    int code = 1;
    try {
      code = body() ? 0 : 1;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "child: %s\n", error.what());
    }
    ::_exit(code);
  }
  [[nodiscard]] bool finish() {
    int status = -1;
    ::waitpid(std::exchange(child_, -1), &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  void kill() { ::kill(child_, SIGKILL); }

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] Board& board() { return *board_; }

 private:
  int fd_;
  Board* board_;
  pid_t child_ = -1;
};

/// Runs in both processes at once: writes of many sizes, reads, atomics on one counter of the
/// other.
bool talk(Side& side) {
  side.connect();
  ++side.board.stage;
  reach(side.board, 4);
  Queue& queue = side.queue;
  for (std::uint32_t round = 0; round < 60; ++round) {
    const std::uint32_t bytes = 1 + round * round * 97 % 300'000;
    for (std::uint32_t i = 0; i < bytes; ++i) {
      side.memory.data()[64 + i] = static_cast<std::uint8_t>(i * 13 + round);
    }
    queue.write(side.far(320'064), side.near(64, bytes), 0);
    queue.fetch_add(side.far(0), side.near(8, 8), 3, 0);
    queue.read(side.far(320'064), side.near(640'064, bytes));
    queue.ring();
    if (queue.wait(static_cast<std::uint16_t>(queue.next() - 1)).error()) return false;
    if (*side.memory.as<std::uint64_t>(8) != 3 * round) return false;
    if (std::memcmp(side.memory.data() + 64, side.memory.data() + 640'064, bytes) != 0) {
      return false;
    }
  }
  ++side.board.stage;
  reach(side.board, 6);
  return __atomic_load_n(side.memory.as<std::uint64_t>(0), __ATOMIC_ACQUIRE) == 180 &&
         side.engine.violations().empty();
}

TEST_CASE("one_engine_at_a_time_enters_a_fabric_despite_signals") {
  struct sigaction action {};
  action.sa_handler = [](int) {};  // without SA_RESTART
  REQUIRE(::sigaction(SIGUSR1, &action, nullptr) == 0);
  const int fd = soft::Engine::make_fabric();
  const int other = ::open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(::flock(other, LOCK_EX) == 0);
  std::atomic<bool> entered = false;
  std::thread thread([&] {
    soft::Engine engine{soft::EngineOptions{}};
    engine.join_fabric(fd);
    entered = true;
  });
  for (int signals = 0; signals < 50; ++signals) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ::pthread_kill(thread.native_handle(), SIGUSR1);
  }
  CHECK(!entered);
  REQUIRE(::flock(other, LOCK_UN) == 0);
  thread.join();
  CHECK(entered);
  ::close(other);
  ::close(fd);
}

TEST_CASE("two_processes_communicate_at_the_same_time") {
  Processes processes;
  processes.start([&] {
    Side side(processes.fd(), processes.board(), 1);
    ++processes.board().stage;
    reach(processes.board(), 2);
    return talk(side);
  });
  Side side(processes.fd(), processes.board(), 0);
  ++processes.board().stage;
  reach(processes.board(), 2);
  CHECK(side.engine.device().lid != 0);
  CHECK(talk(side));
  CHECK(processes.finish());
}

TEST_CASE("a_killed_peer_is_a_retry_error_soon") {
  Processes processes;
  processes.start([&] {
    Side side(processes.fd(), processes.board(), 1);
    ++processes.board().stage;
    reach(processes.board(), 2);
    side.connect();
    ++processes.board().stage;
    for (;;) ::pause();
    return true;
  });
  Side side(processes.fd(), processes.board(), 0);
  ++processes.board().stage;
  reach(processes.board(), 2);
  side.connect();
  reach(processes.board(), 3);
  const std::uint16_t first = side.queue.write(side.far(0), side.near(0, 8));
  REQUIRE_FALSE(side.queue.ring_and_wait(first).error());
  const bool busy = GENERATE(false, true);
  if (busy) {
    for (int i = 0; i < 60; ++i) side.queue.write(side.far(0), side.near(0, 1 << 20), 8);
    side.queue.ring();
  }
  processes.kill();
  CHECK_FALSE(processes.finish());
  if (!busy) {
    side.queue.write(side.far(0), side.near(0, 8));
    side.queue.ring();
  }
  const std::int64_t begin = clock_ns();
  CHECK(eventually([&] { return side.engine.state(side.queue.qpn()) == soft::QpState::kError; }));
  CHECK(clock_ns() - begin < 10'000'000'000);
  CHECK(side.engine.violations().empty());
}

TEST_CASE("the_syndrome_of_a_dead_peer_is_retry_exceeded") {
  // Engines of one process are separate nodes; one that is destroyed counts as a process that ends.
  const int fd = soft::Engine::make_fabric();
  auto other = std::make_unique<soft::Engine>(soft::EngineOptions{});
  soft::Engine engine(soft::EngineOptions{});
  engine.join_fabric(fd);
  other->join_fabric(fd);
  const std::uint32_t pd = engine.create_pd();
  Memory memory(engine, pd, 4096);
  Queue queue(engine, pd, {.log_cq = 4, .collapsed = false});
  {
    Queue far(*other, other->create_pd());
    queue.connect(far.qpn());
  }
  other.reset();
  queue.write({0, 1}, {memory.address(), 8, memory.key()}, 0);
  queue.nop(0);
  queue.ring();
  Cqe cqe = queue.wait_next();
  CHECK(cqe.syndrome == 0x15);
  CHECK(cqe.vendor == 0x81);
  CHECK(cqe.counter == 0);
  CHECK(queue.wait_next().syndrome == 0x05);
  ::close(fd);
}

// This test comes last: its engine remains.
TEST_CASE("a_forked_child_has_no_engine_and_does_not_harm_its_parents") {
  soft::Engine& engine = soft::Engine::get();
  const std::uint32_t pd = engine.create_pd();
  Queue queue(engine, pd);
  queue.connect(queue.qpn());
  Memory memory(engine, pd, 4096);
  const pid_t child = ::fork();
  if (child == 0) {
    no_leak_check = true;
    try {
      static_cast<void>(soft::Engine::get());
    } catch (const soft::EngineError& error) {
      std::exit(std::string(error.what()).find("fork") ==
                std::string::npos);  // with its destructors
    }
    std::exit(2);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  // A node that was marked as gone would be a dead peer here.
  const Queue::Near near = {memory.address(), 8, memory.key()};
  for (int i = 0; i < 3; ++i) {
    REQUIRE_FALSE(queue.ring_and_wait(queue.read({memory.address(8), memory.key()}, near)).error());
    ::usleep(30'000);
  }
}

}  // namespace
}  // namespace gshmem::test
