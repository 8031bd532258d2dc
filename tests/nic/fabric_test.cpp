// The soft NIC between processes: traffic both ways, a peer that dies, joins in late, or is
// replaced. Processes are forked before any engine runs.
#include "tests/lifeline.h"
#include "tests/nic/softnic.h"
#include "tests/nic/threads_of_process.h"
#include "tests/sanitizers/sanitizers.h"
#include "transport/nic/soft/fabric.h"

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
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

namespace gshmem::test {
namespace {

/// What the two processes tell each other, in shared memory.
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

  /// Runs `body` in a child, which ends with 0 when it returns true.
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

/// Both processes at once: writes of many sizes, reads back, atomics on one counter of the other.
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

TEST_CASE("one_at_a_time_enters_a_fabric_whatever_signals_come") {
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

TEST_CASE("two_processes_talk_at_the_same_time") {
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

TEST_CASE("a_peer_that_is_killed_is_a_retry_error_soon") {
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
  // Engines of one process are nodes of their own; one that goes is a process that ends.
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

TEST_CASE("numbers_of_nodes_differ_and_a_fabric_is_recognised") {
  const int fd = soft::Engine::make_fabric();
  soft::Engine a(soft::EngineOptions{}), b(soft::EngineOptions{});
  a.join_fabric(fd);
  b.join_fabric(fd);
  CHECK(a.device().lid != b.device().lid);
  CHECK(a.device().guid != b.device().guid);
  Queue qa(a, a.create_pd()), qb(b, b.create_pd());
  CHECK(qa.qpn() != qb.qpn());
  Memory ma(a, 1, 64), mb(b, 1, 64);
  CHECK(ma.key() != mb.key());
  a.join_fabric(fd);  // again: nothing

  soft::Engine c(soft::EngineOptions{});
  int pipes[2] = {-1, -1};
  REQUIRE(::pipe(pipes) == 0);
  const auto no_fabric = [](int file) {
    return "3: descriptor " + std::to_string(file) + " is not the memory of a fabric";
  };
  CHECK(refusal([&] { c.join_fabric(pipes[0]); }) == no_fabric(pipes[0]));
  CHECK(refusal([&] { c.join_fabric(-1); }) == "3: descriptor -1: No such file or directory");
  const int smaller = soft::Engine::make_fabric(), other = soft::Engine::make_fabric();
  REQUIRE(::ftruncate(smaller, 4096) == 0);
  CHECK(refusal([&] { c.join_fabric(smaller); }) == no_fabric(smaller));
  CHECK(refusal([&] { a.join_fabric(other); }) == "9: another fabric is joined");
  CHECK(refusal([&] { a.join_fabric(-1); }) == "9: another fabric is joined");
  CHECK(refusal([&] { const soft::Engine d({.fabric = "gshnic/test"}); }) ==
        "3: GSHNIC_FABRIC=\"gshnic/test\": shm_open: Invalid argument");
  for (const int one : {fd, smaller, other, pipes[0], pipes[1]}) ::close(one);
}

TEST_CASE("a_fabric_has_nodes_of_one_version_until_all_numbers_are_used") {
  const int fd = soft::Engine::make_fabric();
  const auto enter = [&] { const soft::Fabric one(fd); };
  {
    const soft::Fabric first(fd, 0x0200aabbccdd);
    CHECK(first.mac_of(0) == 0x0200aabbccdd);
    for (const std::uint32_t node : {1u, soft::kMaxNodes, ~0u}) {
      CHECK(first.mac_of(node) == 0);
      CHECK_FALSE(first.alive(node));
    }
    CHECK(first.same_file(fd));
    CHECK_FALSE(first.same_file(-1));
    for (std::uint32_t n = 1; n < soft::kMaxNodes; ++n) {
      const soft::Fabric one(fd);
      REQUIRE(one.node() == n);
      REQUIRE(one.lid_of(n) == first.lid_of(0) + n);
    }
    CHECK(refusal(enter) ==
          "15: all " + std::to_string(soft::kMaxNodes) + " nodes of the fabric have been used");
    CHECK(first.alive(0));
    CHECK_FALSE(first.alive(soft::kMaxNodes - 1));
  }
  CHECK(refusal(enter) == "none");  // nobody is left: it begins anew
  const std::uint64_t version = 1;
  REQUIRE(::pwrite(fd, &version, sizeof(version), 0) == sizeof(version));
  CHECK(refusal(enter) == "3: a fabric of another version of the soft NIC");
  ::close(fd);
}

TEST_CASE("a_client_of_another_fabric_is_not_taken_for_one_of_this") {
  // Processes without GSHNIC_FABRIC: their queue pairs have the same numbers. Fabrics begin at
  // random LIDs; two that begin at the same one are worth another try.
  for (int round = 0; round < 10; ++round) {
    soft::Engine mine(soft::EngineOptions{}), other(soft::EngineOptions{});
    if (mine.device().lid == other.device().lid) continue;
    CHECK(mine.device().guid != other.device().guid);
    Queue a(mine, mine.create_pd()), b(other, other.create_pd());
    Memory here(mine, 1, 64), there(other, 1, 64);
    REQUIRE(a.qpn() == b.qpn());
    REQUIRE(here.key() == there.key());
    a.connect(b.qpn(), {.remote_lid = other.device().lid});
    const Cqe cqe =
        a.ring_and_wait(a.write({here.address(), there.key()}, {here.address(32), 8, here.key()}));
    CHECK(unsigned{cqe.syndrome} == 0x15);
    return;
  }
  FAIL("all fabrics have one LID");
}

TEST_CASE("a_named_fabric_is_emptied_when_nobody_is_left") {
  const std::string name = "gshnic_test_" + std::to_string(::getpid());
  for (int round = 0; round < 3; ++round) {
    soft::Engine a({.fabric = name}), b({.fabric = name});
    const int memory = ::shm_open(("/" + name).c_str(), O_RDONLY | O_CLOEXEC, 0);
    struct stat about {};
    REQUIRE(::fstat(memory, &about) == 0);
    CHECK((about.st_mode & 0777) == 0600);  // of this user alone
    ::close(memory);
    CHECK(b.device().lid == a.device().lid + 1);  // the first and the second node
  }
  ::shm_unlink(("/" + name).c_str());
}

/// Runs `body` as the first process of a PID namespace of its own, with a /proc to match: its code,
/// or kNotPermitted.
constexpr int kNotPermitted = 100;
template <class F>
int in_own_namespace(F body) {
  const pid_t outer = ::fork();
  if (outer == 0) {
    if (::unshare(CLONE_NEWPID | CLONE_NEWNS) != 0) ::_exit(kNotPermitted);
    const pid_t inner = ::fork();
    if (inner == 0) {
      const bool mounted = ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                           ::mount("proc", "/proc", "proc", 0, nullptr) == 0;
      ::_exit(mounted ? body() : kNotPermitted);
    }
    int status = -1;
    ::waitpid(inner, &status, 0);
    ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
  }
  int status = -1;
  ::waitpid(outer, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

TEST_CASE("processes_of_different_pid_namespaces_see_each_other") {
  const int fd = soft::Engine::make_fabric();
  soft::Fabric mine(fd);
  int there[2], seen[2];  // pipes
  REQUIRE((::pipe(there) == 0 && ::pipe(seen) == 0));
  std::thread witness([&] {
    char byte = 'n';
    (void)!::read(there[0], &byte, 1);
    (void)!::write(seen[1], byte == 'y' && mine.alive(1) ? "y" : "n", 1);
  });
  const int result = in_own_namespace([&] {
    const soft::Fabric theirs(fd);
    const bool second = theirs.node() == 1 && theirs.alive(0);
    (void)!::write(there[1], second ? "y" : "n", 1);
    char byte = 'n';
    return ::read(seen[0], &byte, 1) == 1 && byte == 'y' ? 0 : 1;
  });
  (void)!::write(there[1], "n", 1);  // where there was no namespace
  witness.join();
  for (const int end : {fd, there[0], there[1], seen[0], seen[1]}) ::close(end);
  if (result == kNotPermitted) {
    std::printf("skipped: no right to make a PID namespace\n");
    return;
  }
  CHECK(result == 0);
  CHECK(mine.alive(0));
  CHECK_FALSE(mine.alive(1));
}

TEST_CASE("a_node_is_dead_with_its_process_though_a_child_of_that_lives") {
  const test::Lifeline lifeline;
  const int fd = soft::Engine::make_fabric();
  const soft::Fabric mine(fd);
  const pid_t process = ::fork();
  if (process == 0) {
    const soft::Fabric theirs(fd);
    lifeline.fork_holder();
    ::_exit(theirs.node() == 1 ? 0 : 1);  // no destructor says that it goes
  }
  int status = -1;
  CHECK((::waitpid(process, &status, 0) == process && status == 0));
  CHECK_FALSE(mine.alive(1));
  CHECK(mine.alive(0));
  ::close(fd);
}

/// The responder believes no other process: what a peer of this test's own writes into the ring.
TEST_CASE("packets_that_no_queue_pair_sends_are_refused_and_change_nothing") {
  using soft::Packet, soft::PacketKind;
  struct Row {
    const char* what;
    PacketKind kind;
    std::uint64_t length, offset;
    std::uint32_t payload;
    bool first = true;
  };
  const Row row = GENERATE(Row{"more data than the message", PacketKind::kWrite, 16, 0, 64},
                           Row{"data after the message", PacketKind::kWrite, 16, 16, 16},
                           Row{"data far after it", PacketKind::kWrite, 16, 1 << 20, 16},
                           Row{"a send of more data", PacketKind::kSend, 16, 0, 64},
                           Row{"the midst of no message", PacketKind::kWrite, 16, 0, 16, false},
                           Row{"a send's midst", PacketKind::kSend, 16, 0, 16, false},
                           Row{"above the MTU", PacketKind::kWrite, 4096, 0, 257},
                           Row{"below the MTU", PacketKind::kWrite, 4096, 0, 255},
                           Row{"an atomic of 3 bytes", PacketKind::kAtomic, 3, 0, 0},
                           Row{"an atomic of none", PacketKind::kAtomic, 0, 0, 0},
                           Row{"an atomic of 16", PacketKind::kAtomic, 16, 0, 0});
  INFO(row.what);
  const int fd = soft::Engine::make_fabric();
  soft::Engine engine(soft::EngineOptions{});
  engine.join_fabric(fd);
  const std::uint32_t pd = engine.create_pd();
  Memory memory(engine, pd, 4096), receives(engine, pd, 4096);
  // A buffer of 4096 bytes is posted.
  Bytes posted;
  Queue::data(posted, memory.address(), 4096, memory.key());
  std::copy(posted.begin(), posted.end(), receives.data());
  *receives.as<std::uint32_t>(1024) = __builtin_bswap32(1);
  soft::ReceiveAttributes of_queue;
  of_queue.entries = receives.data();
  of_queue.log_entry_bytes = 4;
  of_queue.record = receives.data() + 1024;
  Queue queue(engine, pd, {.receives = of_queue});
  {
    soft::Fabric peer(fd);
    const std::uint32_t node = queue.qpn() >> soft::kLocalBits;
    queue.connect(peer.node() << soft::kLocalBits | 1, {.mtu = 256});
    soft::Ring* const ring = peer.request_to(node);
    REQUIRE(ring != nullptr);
    Packet* const packet = ring->reserve(row.payload);
    packet->kind = row.kind;
    packet->wqe_kind = nic::WqeKind::kFetchAdd;
    packet->first = row.first;
    packet->last = true;
    packet->key = memory.key();
    packet->source = peer.node() << soft::kLocalBits | 1;
    packet->target = queue.qpn();
    packet->address = memory.address();
    packet->length = row.length;
    packet->offset = row.offset;
    packet->operands.swap_or_add = 1;
    std::memset(soft::Ring::payload(packet), 0xee, row.payload);
    ring->commit();
    const Packet* answer = nullptr;
    REQUIRE(eventually([&] { return (answer = peer.reply_from(node).front()) != nullptr; }));
    CHECK(answer->kind == PacketKind::kAck);
    CHECK(answer->syndrome == 0x12);  // remote invalid request
  }
  CHECK(std::all_of(memory.data(), memory.data() + 4096, [](std::uint8_t b) { return b == 0; }));
  ::close(fd);
}

namespace {

/// A queue pair whose other end is the test: it sees each packet, and writes the answers.
struct Observed {
  using Packet = soft::Packet;
  using Kind = soft::PacketKind;
  static constexpr std::uint32_t kMtu = 256, kFirst = 0xffffff;

  Observed() {
    engine.join_fabric(fd);
    peer.emplace(fd);
    pd = engine.create_pd();
    queue.emplace(engine, pd);
    memory.emplace(engine, pd, 4096);
    node = queue->qpn() >> soft::kLocalBits;
    number = peer->node() << soft::kLocalBits | 5;
    queue->connect(number, {.mtu = kMtu}, {.send_psn = kFirst});
    for (std::size_t i = 0; i < 4096; ++i) memory->data()[i] = static_cast<std::uint8_t>(i * 7);
  }
  ~Observed() { ::close(fd); }
  Observed(const Observed&) = delete;

  [[nodiscard]] Queue::Near near(std::uint64_t offset, std::uint32_t bytes) {
    return {memory->address(offset), bytes, memory->key()};
  }
  /// The next packet, which has the `place`-th number of the connection.
  Packet packet(std::uint32_t place, Kind kind, std::uint64_t offset, std::uint32_t bytes) {
    soft::Ring& ring = peer->request_from(node);
    const Packet* got = nullptr;
    REQUIRE(eventually([&] { return (got = ring.front()) != nullptr; }));
    const Packet copy = *got;
    const std::uint8_t* const payload = soft::Ring::payload(got);
    CHECK(std::equal(payload, payload + bytes, memory->data() + offset));
    ring.pop(*got);
    CHECK(copy.kind == kind);
    CHECK(copy.payload_bytes == bytes);
    CHECK(copy.offset == offset);
    CHECK(copy.source == queue->qpn());
    CHECK(copy.target == number);
    CHECK(copy.psn == ((kFirst + place) & soft::kPsnMask));
    CHECK(copy.key == kFar.key);
    CHECK(copy.address == kFar.address);
    return copy;
  }
  void answer(Packet to, Kind kind, std::uint64_t offset = 0, const Bytes& payload = {}) {
    soft::Ring* const ring = peer->reply_to(node);
    Packet* const packet = ring->reserve(static_cast<std::uint32_t>(payload.size()));
    packet->kind = kind;
    packet->source = to.target;
    packet->target = to.source;
    packet->epoch = to.epoch;
    packet->psn = to.psn;
    packet->old = to.old;
    packet->offset = offset;
    packet->syndrome = to.syndrome;
    packet->vendor = to.vendor;
    std::copy(payload.begin(), payload.end(), soft::Ring::payload(packet));
    ring->commit();
  }

  static constexpr Queue::Far kFar{0x123456789a, 0xbeef01};
  int fd = soft::Engine::make_fabric();
  soft::Engine engine{soft::EngineOptions{}};
  std::optional<soft::Fabric> peer;
  std::uint32_t pd = 0, node = 0, number = 0;
  std::optional<Queue> queue;
  std::optional<Memory> memory;
};

}  // namespace

TEST_CASE("requests_have_all_of_their_packets_and_take_the_answers_that_are_theirs") {
  Observed end;
  Queue& queue = *end.queue;
  using Kind = soft::PacketKind;
  // The first of three packets has the last number.
  const std::uint16_t write = queue.write(Observed::kFar, end.near(0, 600));
  queue.ring();
  soft::Packet last;
  for (std::uint32_t i = 0; i < 3; ++i) {
    last = end.packet(i, Kind::kWrite, i * 256, i == 2 ? 88 : 256);
    CHECK(last.first == (i == 0));
    CHECK(last.last == (i == 2));
    CHECK(last.length == 600);
    CHECK_FALSE(last.has_immediate);
    CHECK_FALSE(last.solicited);
    CHECK(int{last.inject} == 0);
  }
  soft::Packet other = last;
  other.syndrome = 0x13;
  ++other.epoch;
  end.answer(other, Kind::kAck);  // to an attempt that there was not
  other.epoch = last.epoch;
  other.psn = (last.psn + 1) & soft::kPsnMask;
  end.answer(other, Kind::kAck);  // to the packet after it
  other.psn = (last.psn - 3) & soft::kPsnMask;
  end.answer(other, Kind::kAck);  // to the one before
  end.answer(last, Kind::kAck);
  CHECK_FALSE(queue.wait(write).error());

  const std::uint16_t read = queue.read(Observed::kFar, end.near(1024, 300));
  queue.ring();
  const soft::Packet asked = end.packet(3, Kind::kRead, 0, 0);
  CHECK((asked.first && asked.last));
  CHECK(asked.length == 300);
  end.answer(asked, Kind::kData, 0, Bytes(256, 0xaa));
  soft::Packet second = asked;
  second.psn = (asked.psn + 1) & soft::kPsnMask;
  end.answer(second, Kind::kData, 256, Bytes(44, 0xbb));
  const Cqe got = queue.wait(read);
  CHECK_FALSE(got.error());
  CHECK(got.bytes == 300);
  CHECK(std::count(end.memory->data() + 1024, end.memory->data() + 1280, 0xaa) == 256);
  CHECK(std::count(end.memory->data() + 1280, end.memory->data() + 1324, 0xbb) == 44);

  // The answer to the read took two numbers.
  const std::uint16_t swap = queue.compare_swap(Observed::kFar, end.near(2048, 8), 0x1111, 0x2222);
  queue.ring();
  soft::Packet atomic = end.packet(5, Kind::kAtomic, 0, 0);
  CHECK(atomic.wqe_kind == nic::WqeKind::kCompareSwap);
  CHECK(atomic.length == 8);
  CHECK(atomic.operands.compare == 0x1111);
  CHECK(atomic.operands.swap_or_add == 0x2222);
  // It is not there yet: asked again, as another attempt, to which alone the answer may be.
  end.answer(atomic, Kind::kNotReady);
  const std::uint32_t attempt = atomic.epoch;
  atomic = end.packet(5, Kind::kAtomic, 0, 0);
  CHECK(atomic.epoch == attempt + 1);
  atomic.old = 0x123456789abcdef0;
  end.answer(atomic, Kind::kOld);
  CHECK_FALSE(queue.wait(swap).error());
  CHECK(*end.memory->as<std::uint64_t>(2048) == 0x123456789abcdef0);
  CHECK(end.engine.violations().empty());
}

TEST_CASE("answers_that_do_not_fit_and_refusals_are_errors_with_their_syndrome") {
  struct Row {
    soft::PacketKind kind;
    std::uint32_t bytes, offset;
    std::uint8_t syndrome, vendor, told;
  };
  using Kind = soft::PacketKind;
  for (const Row& row :
       {Row{Kind::kData, 255, 0, 0, 0, kBadResponse}, Row{Kind::kData, 257, 0, 0, 0, kBadResponse},
        Row{Kind::kData, 43, 256, 0, 0, kBadResponse},
        Row{Kind::kAck, 0, 0, kAccess, 0x77, kAccess},
        Row{Kind::kAck, 0, 0, kRemoteOperation, 0, kRemoteOperation}}) {
    INFO("kind " << int(row.kind) << ", " << row.bytes << " bytes at " << row.offset);
    Observed end;
    end.queue->read(Observed::kFar, end.near(1024, 300));
    end.queue->ring();
    soft::Packet asked = end.packet(0, Kind::kRead, 0, 0);
    asked.syndrome = row.syndrome;
    asked.vendor = row.vendor;
    end.answer(asked, row.kind, row.offset, Bytes(row.bytes, 0xaa));
    const Cqe cqe = end.queue->wait(0);
    CHECK(cqe.error());
    CHECK(int{cqe.syndrome} == row.told);
    CHECK(int{cqe.vendor} == row.vendor);
    CHECK(end.engine.state(end.queue->qpn()) == soft::QpState::kError);
    CHECK(std::count(end.memory->data() + 1024, end.memory->data() + 1324, 0xaa) < 10);
  }
}

TEST_CASE("packets_out_of_their_turn_or_of_strangers_are_not_executed") {
  using soft::Condition, soft::Packet, soft::PacketKind;
  struct Row {
    const char* what;
    PacketKind kind;
    std::uint32_t psn, stranger;
    Condition condition;
  };
  const int fd = soft::Engine::make_fabric();
  soft::Engine engine(soft::EngineOptions{});
  engine.join_fabric(fd);
  const std::uint32_t pd = engine.create_pd();
  Queue queue(engine, pd);
  Memory memory(engine, pd, 4096);
  soft::Fabric peer(fd);
  const std::uint32_t node = queue.qpn() >> soft::kLocalBits,
                      source = peer.node() << soft::kLocalBits | 1;
  constexpr std::uint32_t kFirst = 0xfffffe;
  queue.connect(source, {.receive_psn = kFirst});
  soft::Ring *const ring = peer.request_to(node), &answers = peer.reply_from(node);
  const auto write = [&](PacketKind kind, std::uint32_t psn, std::uint32_t from) {
    Packet* const packet = ring->reserve(8);
    packet->kind = kind;
    packet->wqe_kind = nic::WqeKind::kFetchAdd;
    packet->first = packet->last = true;
    packet->key = memory.key();
    packet->source = from;
    packet->target = queue.qpn();
    packet->address = memory.address();
    packet->length = 8;
    packet->psn = psn & soft::kPsnMask;
    packet->epoch = 77;
    std::memset(soft::Ring::payload(packet), 0xee, 8);
    ring->commit();
    const Packet* answer = nullptr;
    REQUIRE(eventually([&] { return (answer = answers.front()) != nullptr; }));
    const Packet copy = *answer;
    answers.pop(*answer);
    CHECK(copy.epoch == 77);
    CHECK(copy.psn == (psn & soft::kPsnMask));
    CHECK(copy.source == queue.qpn());
    CHECK(copy.target == from);
    return copy;
  };
  const auto check = [&](const Row& row) {
    INFO(row.what);
    const Packet answer = write(row.kind, row.psn, source + row.stranger);
    CHECK(answer.kind == PacketKind::kNotReady);
    CHECK(answer.condition == row.condition);
  };
  using Kind = PacketKind;
  for (const Row& row :
       {Row{"of another queue pair", Kind::kWrite, kFirst, 1, Condition::kSilence},
        Row{"the next but one", Kind::kWrite, kFirst + 1, 0, Condition::kSequence},
        Row{"far ahead", Kind::kWrite, kFirst + soft::kPsnHalf - 1, 0, Condition::kSequence},
        Row{"before all", Kind::kWrite, kFirst - 1, 0, Condition::kSilence},
        Row{"half around", Kind::kWrite, kFirst + soft::kPsnHalf, 0, Condition::kSilence},
        Row{"an atomic of before", Kind::kAtomic, kFirst - 1, 0, Condition::kSilence}})
    check(row);
  CHECK(*memory.data() == 0);
  // In its turn, and once more, because its answer may be lost.
  for (int time = 0; time < 2; ++time)
    CHECK(write(Kind::kWrite, kFirst, source).kind == Kind::kAck);
  CHECK(*memory.data() == 0xee);
  check({"two before", Kind::kWrite, kFirst - 1, 0, Condition::kSilence});
  check({"an atomic that was a write", Kind::kAtomic, kFirst, 0, Condition::kSilence});
  check({"a stranger again", Kind::kWrite, kFirst, 2, Condition::kSilence});
  ::close(fd);
}

TEST_CASE("nothing_is_sent_to_a_number_that_no_node_has_had") {
  const int fd = soft::Engine::make_fabric();
  soft::Fabric first(fd);
  for (const std::uint32_t node : {1u, soft::kMaxNodes - 1, soft::kMaxNodes, ~0u}) {
    CHECK(first.request_to(node) == nullptr);
    CHECK(first.reply_to(node) == nullptr);
  }
  CHECK(first.request_to(0) != nullptr);  // itself
  {
    const soft::Fabric second(fd);
    CHECK(second.node() == 1);
    CHECK(second.senders() == 0);  // nobody has tried before it was there
    CHECK(first.request_to(1) != nullptr);
    CHECK(second.senders() == 1);
  }
  CHECK(first.request_to(1) != nullptr);  // it is gone, and may have answers on their way
  ::close(fd);
}

TEST_CASE("an_engine_with_nothing_to_do_uses_no_processor") {
  const int fd = soft::Engine::make_fabric();
  soft::Engine a(soft::EngineOptions{}), b(soft::EngineOptions{});
  a.join_fabric(fd);
  b.join_fabric(fd);
  Queue qa(a, a.create_pd()), qb(b, b.create_pd());
  qa.connect(qb.qpn());
  qb.connect(qa.qpn());
  CHECK_FALSE(qa.ring_and_wait(qa.nop()).error());
  const std::int64_t wall = clock_ns(), before = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
  ::usleep(500'000);
  const std::int64_t used = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - before;
  const double share = static_cast<double>(used) / 2 / static_cast<double>(clock_ns() - wall);
  INFO("share of a core, of each: " << share);
  CHECK(share < (kSanitized ? 0.7 : 0.3));
  ::close(fd);
}

TEST_CASE("an_engine_that_is_rung_again_and_again_does_not_sleep_in_between") {
  const NewThread made;
  soft::Engine engine(soft::EngineOptions{});
  const std::string thread = made.of_it();
  Queue queue(engine, engine.create_pd());
  queue.connect(queue.qpn());
  // On a busy machine some rounds take longer than an engine stays awake.
  const auto stays_awake = [&] {
    const std::uint64_t before = sleeps(thread);
    for (int round = 0; round < 20; ++round) {
      if (queue.ring_and_wait(queue.nop()).error()) throw std::runtime_error("a nop has failed");
      const std::int64_t pause = clock_ns() + 5'000;  // passes that find nothing
      while (clock_ns() < pause) {
      }
    }
    return sleeps(thread) - before < 5;
  };
  CHECK(eventually(stays_awake, std::int64_t{1'000'000'000} * kPatience));
}

// Last: this engine stays.
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
  // A node that had been marked as gone would be a dead peer here.
  const Queue::Near near = {memory.address(), 8, memory.key()};
  for (int i = 0; i < 3; ++i) {
    REQUIRE_FALSE(queue.ring_and_wait(queue.read({memory.address(8), memory.key()}, near)).error());
    ::usleep(30'000);
  }
}

}  // namespace
}  // namespace gshmem::test
