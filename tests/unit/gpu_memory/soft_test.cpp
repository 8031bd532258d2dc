// The soft NIC's engine on GPU memory: every byte arrives by the copy engine, and with few calls of
// the driver.
#include "host/base/copy_context.h"
#include "host/base/cuda_scope.h"
#include "tests/nic/softnic.h"
#include "tests/unit/base/capture.h"
#include "tests/unit/gpu_memory/rig.h"

namespace gshmem::test {
namespace {

/// Two connected queue pairs of one engine, with GPU memory at both ends.
struct GpuPair {
  explicit GpuPair(const soft::EngineOptions& options = {}, const QueueOptions& queue = {})
      : engine(options),
        pd(engine.create_pd()),
        source(gpu_allocate(kBytes)),
        target(gpu_allocate(kBytes)),
        source_key(region(source)),
        target_key(region(target)),
        a(engine, pd, queue),
        b(engine, pd, queue) {
    a.connect(b.qpn());
    b.connect(a.qpn());
    cuda_double().reset();
  }
  ~GpuPair() {
    a.destroy_qp();
    b.destroy_qp();
    engine.destroy_region(source_key);
    engine.destroy_region(target_key);
  }
  std::uint32_t region(void* memory) {
    return engine.create_region(
        {.pd = pd, .address = memory, .bytes = kBytes, .iova = 0, .access = 15});
  }
  [[nodiscard]] Queue::Far far(std::uint64_t offset) const { return {offset, target_key}; }
  [[nodiscard]] Queue::Near near(std::uint64_t offset, std::uint32_t bytes) const {
    return {offset, bytes, source_key};
  }
  std::uint8_t* at_source() { return gpu_view(source); }
  std::uint8_t* at_target() { return gpu_view(target); }

  static constexpr std::uint64_t kBytes = 4 << 20;
  soft::Engine engine;
  std::uint32_t pd;
  void *source, *target;
  std::uint32_t source_key, target_key;
  Queue a, b;
};

/// Keeps every completion: a flush does not hide the error before it.
QueueOptions with_all_completions() { return {.log_cq = 4, .collapsed = false}; }

/// What a launch of blocks does: `pieces` messages, one doorbell, wait for the last.
void move_all(GpuPair& pair, bool writes, unsigned pieces, std::uint64_t bytes) {
  const auto piece = static_cast<std::uint32_t>(bytes / pieces);
  std::uint16_t last = 0;
  for (std::uint64_t at = 0; at < bytes; at += piece) {
    last = writes ? pair.a.write(pair.far(at), pair.near(at, piece))
                  : pair.a.read(pair.far(at), pair.near(at, piece));
  }
  REQUIRE_FALSE(pair.a.ring_and_wait(last).error());
}

TEST_CASE("gpu_memory_is_moved_whole_by_writes_and_reads") {
  const std::string adversary = GENERATE("", "all");
  const std::uint64_t at = GENERATE(5u, 4u, 8u);
  GpuPair pair({.adversary = adversary});
  cuda_double().latency_ns = 20'000;
  cuda_double().held = true;  // the application waits in cudaMemcpy for its kernel
  for (const std::uint32_t bytes :
       {1u, 2u, 3u, 8u, 13u, 65u, 4096u, 4097u, 100'001u, 1u << 20, 3'000'001u}) {
    INFO(bytes);
    fill(pair.at_source(), bytes, bytes);
    std::memset(pair.at_target(), 0, GpuPair::kBytes);
    REQUIRE_FALSE(pair.a.ring_and_wait(pair.a.write(pair.far(at), pair.near(0, bytes))).error());
    REQUIRE(std::memcmp(pair.at_target() + at, pair.at_source(), bytes) == 0);
    REQUIRE(pair.at_target()[at - 1] == 0);
    REQUIRE(pair.at_target()[at + bytes] == 0);
    fill(pair.at_target(), bytes, bytes + 1);
    REQUIRE_FALSE(pair.a.ring_and_wait(pair.a.read(pair.far(0), pair.near(7, bytes))).error());
    REQUIRE(std::memcmp(pair.at_source() + 7, pair.at_target(), bytes) == 0);
  }
  cuda_double().held = false;
  CHECK(cuda_double().by_time_slice == 0);
  CHECK(pair.engine.violations().empty());
  require_no_violations();
}

TEST_CASE("copies_go_by_the_context_of_the_gpu_where_there_is_room_for_no_other") {
  cuda_double().crowded = true;
  std::vector<std::string> lines;
  {
    StderrCapture capture;
    const auto context = CopyContext::on(*CudaDriver::get(), 5);
    lines = capture.writes();
    const CudaScope scope(*CudaDriver::get(), context->get());
    CHECK(cuda_library().function<CudaDoubleCurrent>("cuda_double_current")() == 5);
  }
  cuda_double().crowded = false;
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].find("GPU 5 has no room for a context of this library (cuCtxCreate: by the "
                      "double)") != std::string::npos);
  CHECK(CopyContext::on(*CudaDriver::get(), 5) == CopyContext::on(*CudaDriver::get(), 5));
}

TEST_CASE("many_messages_share_copies_and_waits") {
  constexpr std::uint64_t kBytes = 1 << 20;
  const unsigned pieces = GENERATE(1u, 32u);
  const bool writes = GENERATE(true, false);
  GpuPair pair;
  fill(pair.at_source(), kBytes, 3);
  fill(pair.at_target(), kBytes, 4);
  cuda_double().latency_ns = 5'000;
  move_all(pair, writes, pieces, kBytes);
  REQUIRE(std::memcmp(pair.at_target(), pair.at_source(), kBytes) == 0);
  const std::string what = std::string("soft NIC, ") + (writes ? "writes" : "reads") + " of " +
                           std::to_string(kBytes / pieces);
  const Calls calls = calls_per_mib(what.c_str(), kBytes);
  CHECK(calls.copies() <= 2 * 32 + 8);
  CHECK(calls.waits <= 16);
  require_no_violations();
}

TEST_CASE("a_fenced_write_sends_what_the_read_before_it_brought") {
  constexpr std::uint32_t kPiece = 64 * 1024;
  GpuPair pair;
  for (int round = 0; round < 20; ++round) {
    fill(pair.at_source(), 4 * kPiece, 10 + round);
    fill(pair.at_target(), 4 * kPiece, 50 + round);
    pair.a.write(pair.far(2 * kPiece), pair.near(3 * kPiece, kPiece), 0);
    pair.a.read(pair.far(0), pair.near(0, kPiece), 0);
    // Bits 7 to 5 of the byte with the completion flags: 2 is "fence".
    const auto last = pair.a.write(pair.far(kPiece), pair.near(0, kPiece), 8 | 2 << 5);
    REQUIRE_FALSE(pair.a.ring_and_wait(last).error());
    REQUIRE(std::memcmp(pair.at_target() + kPiece, pair.at_target(), kPiece) == 0);
  }
  CHECK(pair.engine.violations().empty());
}

TEST_CASE("nothing_that_was_lost_is_acknowledged") {
  constexpr std::uint32_t kPiece = 4096;
  const bool writes = GENERATE(true, false);
  int shared = 0;
  for (int round = 0; round < 40; ++round) {
    // Messages of two queues, whose copies to the GPU mostly share a wait; the first is refused.
    GpuPair pair;
    Queue c(pair.engine, pair.pd), d(pair.engine, pair.pd);
    c.connect(d.qpn());
    d.connect(c.qpn());
    fill(pair.at_source(), 4 * kPiece, 1);
    fill(pair.at_target(), 4 * kPiece, 2);
    cuda_double().failing_to_device = 1;
    std::uint8_t* const arrives = (writes ? pair.at_target() : pair.at_source()) + kPiece;
    const std::uint8_t* const sent = (writes ? pair.at_source() : pair.at_target()) + 3 * kPiece;
    const auto post = [&](Queue& queue, std::uint64_t from, std::uint64_t to) {
      return writes ? queue.write(pair.far(to), pair.near(from, kPiece))
                    : queue.read(pair.far(from), pair.near(to, kPiece));
    };
    const auto first = post(pair.a, 2 * kPiece, 0), second = post(c, 3 * kPiece, kPiece);
    pair.a.ring();
    c.ring();
    const Cqe one = pair.a.wait(first), other = c.wait(second);
    CHECK((one.error() || other.error()));
    if (!other.error()) CHECK(std::memcmp(arrives, sent, kPiece) == 0);
    if (one.error() && other.error()) ++shared;
    for (const Cqe& cqe : {one, other}) {
      if (cqe.error()) CHECK(cqe.syndrome == (writes ? 0x14 : 0x04));
    }
    c.destroy_qp();
    d.destroy_qp();
  }
  // What was lost before is no loss of theirs.
  GpuPair later;
  CHECK_FALSE(later.a.ring_and_wait(later.a.write(later.far(0), later.near(0, kPiece))).error());
  CHECK_FALSE(later.a.ring_and_wait(later.a.read(later.far(0), later.near(0, kPiece))).error());
  std::printf("%d of 40 shared the copy that was lost\n", shared);
  require_no_violations();
}

TEST_CASE("a_source_that_cannot_be_read_fails_its_message") {
  GpuPair pair({}, with_all_completions());
  fill(pair.at_source(), 8192, 1);
  pair.a.write(pair.far(0), pair.near(0, 4096));
  pair.a.write(pair.far(8192), pair.near(4096, 4096));
  cuda_double().failing_to_host = 1;
  pair.a.ring();
  const Cqe cqe = pair.a.wait_next();
  CHECK(cqe.error());
  CHECK(cqe.counter == 0);
  CHECK(cqe.syndrome == 0x04);
  CHECK(pair.at_target()[8192] == 0);  // nothing behind it is executed
}

TEST_CASE("queues_in_gpu_memory_are_refused") {
  GpuPair pair;
  void* const gpu = pair.source;
  alignas(64) std::uint8_t memory[256] = {};
  const std::string why = "3: the soft NIC has no queues in GPU memory";
  CHECK(refusal([&] {
          (void)pair.engine.create_cq({.buffer = gpu, .record = memory, .uar = pair.a.uar()});
        }) == why);
  CHECK(refusal([&] {
          (void)pair.engine.create_receives({.pd = pair.pd, .entries = gpu, .record = memory});
        }) == why);
  CHECK(refusal([&] {
          (void)pair.engine.create_qp({.pd = pair.pd,
                                       .send_queue = gpu,
                                       .record = memory,
                                       .send_cq = pair.a.cqn(),
                                       .receive_cq = pair.a.cqn(),
                                       .uar = pair.a.uar()});
        }) == why);
}

TEST_CASE("figures_of_the_soft_nic_on_a_simulated_gpu", "[.figures]") {
  constexpr std::uint64_t kBytes = 1 << 20;
  for (const std::int64_t latency_us : {5, 100}) {
    for (const unsigned pieces : {1u, 32u}) {
      for (const bool writes : {true, false}) {
        GpuPair pair;
        cuda_double().latency_ns = latency_us * 1000;
        cuda_double().bytes_per_ns = 25;
        std::int64_t best = 1'000'000'000;
        for (int i = 0; i < 20; ++i) {
          const std::int64_t begin = clock_ns();
          move_all(pair, writes, pieces, kBytes);
          best = std::min(best, clock_ns() - begin);
        }
        std::printf("copies that take %lld us, %u %s of %llu bytes: %.2f GB/s\n",
                    static_cast<long long>(latency_us), pieces, writes ? "writes" : "reads",
                    static_cast<unsigned long long>(kBytes / pieces),
                    static_cast<double>(kBytes) / static_cast<double>(best));
        calls_per_mib("  calls", 20 * kBytes);
      }
    }
  }
}

}  // namespace
}  // namespace gshmem::test
