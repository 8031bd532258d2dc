// Counts what a put on the network path costs its caller, in the device's own code: atomics, fences
// and stores, for a shared queue, an exclusive one, a converged warp, and a burst, whose doorbell
// has a row of its own. There are also rows for the fences of ordering calls when all PEs are
// mapped. Prints a table and fails if a number has grown, or has shrunk, so that the table is
// corrected. Clocks: perftest/issue_cost.
#define GSHMEM_MACHINE <tests/model/cost/machine.h>
#include <gshmem/abi/queue_shape.h>
#include <gshmem/device/api/burst.h>
#include <gshmem/device/api/api_context.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

// The two entry points of libgshmem.
gshmem::device::Ambient* gshmemi_ambient(void) {
  static gshmem::device::Ambient ambient;
  return &ambient;
}
void gshmemi_host_fault(const gshmem::abi::DeviceState*) { std::abort(); }

namespace {

using gshmem::device::costs;
using gshmem::device::Costs;
namespace abi = gshmem::abi;
namespace device = gshmem::device;

constexpr std::uint32_t kDepth = 256;
constexpr int kWarp = 32;
constexpr std::uint64_t kGrown = 2 * abi::kGranuleBytes;  ///< where a later part of the heap begins

struct Setup {
  abi::QueueKind kind = abi::QueueKind::kShared;
  abi::QueueMemory memory = abi::QueueMemory::kGpu;
  abi::Bell bell = abi::Bell::kWord;
};

class Queue {
 public:
  explicit Queue(const Setup& setup) : heap_(kGrown + 4096), entries_(kDepth * 64) {
    view_.entries = entries_.data();
    view_.doorbell = &doorbell_;
    view_.send_record = &record_.send;
    view_.completion = reinterpret_cast<const abi::Be32*>(
        reinterpret_cast<const char*>(&completion_) + abi::kCompletionWordOffset);
    view_.cursor = &cursor_;
    view_.number = 0x100;
    completion_.op_own = 0xf1;
    state_.magic = abi::kStateMagic;
    state_.n_pes = 1;
    state_.my_pe = 0;
    state_.heap = heap_.data();
    state_.heap_bytes = abi::kInternalBytes + 4096;
    state_.stride = 2 * kGrown;
    for (const abi::RegisteredRange*& range : ranges_) range = &part_.range;
    state_.host_registered = ranges_.data();
    state_.key_rails = 1;
    state_.control = &control_;
    state_.nic.queues = &view_;
    state_.nic.cursors = &cursor_;
    state_.nic.used = &used_;
    state_.nic.per_pe = state_.nic.count = 1;
    state_.nic.max_message = 1 << 30;
    state_.nic.traits = abi::traits_of({.depth = kDepth,
                                        .batch = abi::batch_of(kDepth),
                                        .memory = setup.memory,
                                        .kind = setup.kind,
                                        .bell = setup.bell,
                                        .heap_end = kGrown});
    abi::choose_way(state_.nic);
    view_.pe = 0;
  }
  /// Every lane puts once, to the part of the heap at `offset` and from there.
  void put(int lanes, std::uint64_t offset = abi::kInternalBytes, std::size_t bytes = 8) {
    char* at = heap_.data() + offset;
    for (int rank = 0; rank < lanes; ++rank) {
      device::lane.rank = rank;
      device::lane.size = lanes;
      device::nic::put(device::Thread{}, state_, at, at + 2048, bytes, 0,
                       device::nic::Reuse::kAtQuiet);
    }
  }
  /// Every lane puts 8 bytes once, and updates a signal after them.
  void put_signal(int lanes, device::AmoOp op) {
    char* at = heap_.data() + abi::kInternalBytes;
    for (int rank = 0; rank < lanes; ++rank) {
      device::lane.rank = rank;
      device::lane.size = lanes;
      device::nic::put_signal(device::Thread{}, state_, at, at + 2048, 8, {at + 1024, 1, op}, 0,
                              device::nic::Reuse::kAtQuiet);
    }
  }
  /// Returns the costs of a put of a burst, and of the doorbell after `puts` of them.
  std::pair<Costs, Costs> burst(int puts) {
    char* at = heap_.data() + abi::kInternalBytes;
    device::Burst<device::Thread> burst({}, state_, 0, true);
    for (int i = 1; i < puts; ++i) burst.put(at, at + 2048, {8, 1});
    costs = {};
    burst.put(at, at + 2048, {8, 1});
    const Costs put = std::exchange(costs, {});
    burst.ring();
    return {put, std::exchange(costs, {})};
  }
  /// Completes the puts, and returns the costs of two quiets: of the one that sees the completion,
  /// and of another one.
  std::pair<Costs, Costs> quiets(int puts) {
    for (int i = 0; i < puts; ++i) put(1);
    completion_.wqe_counter = abi::Be16(static_cast<std::uint16_t>(puts - 1));
    completion_.op_own = 0;
    costs = {};
    device::nic::quiet(device::Thread{}, state_, "quiet");
    const Costs first = std::exchange(costs, {});
    device::nic::quiet(device::Thread{}, state_, "quiet");
    return {first, std::exchange(costs, {})};
  }
  /// Returns the costs of an ordering call when no PE is reached by the network.
  Costs mapped(const std::function<void(const device::State&)>& order) {
    state_.mapped_count = 1;
    state_.nic = {};
    costs = {};
    order(state_);
    return std::exchange(costs, {});
  }
  [[nodiscard]] std::uint64_t published() const { return abi::PublishedWord::end(cursor_.ready); }

 private:
  std::vector<char> heap_, entries_;
  struct {
    abi::RegisteredRange range{2 * kGrown};
    abi::RemoteKeys remote;
    abi::Be32 local;
  } part_;
  std::array<const abi::RegisteredRange*, (2 * kGrown >> abi::kGranuleShift)> ranges_{};
  abi::QueueCursor cursor_{};
  std::uint64_t doorbell_ = 0;
  abi::DoorbellRecord record_{};
  abi::CompletionEntry completion_{};
  abi::QueueView view_;
  abi::Control control_{};
  std::uint32_t used_ = 0;
  device::State state_;
};

struct Case {
  const char* name;
  Setup setup;
  int lanes;
  Costs expected;  ///< for all lanes
  std::uint64_t offset = abi::kInternalBytes;
  std::size_t bytes = 8;
};

/// Measures the third put: the first one also marks the queue as used, and the second one reads how
/// much room there is.
Costs measured(const Case& one) {
  Queue queue(one.setup);
  queue.put(one.lanes);
  queue.put(one.lanes);
  costs = {};
  queue.put(one.lanes, one.offset, one.bytes);
  if (queue.published() != 3u * static_cast<unsigned>(one.lanes)) {
    std::printf("%s: %llu entries published\n", one.name,
                static_cast<unsigned long long>(queue.published()));
    std::abort();
  }
  return costs;
}

struct Row {
  const char* name;
  Costs expected;
};
struct SignalCase {
  Row row;
  Setup setup;
  int lanes;
  device::AmoOp op;
};
/// Measures a put with a signal, as the third call.
Costs measured(const SignalCase& one) {
  Queue queue(one.setup);
  queue.put(one.lanes);
  queue.put(one.lanes);
  costs = {};
  queue.put_signal(one.lanes, one.op);
  const unsigned each = one.op == device::AmoOp::kSet ? 3 : 2;
  if (queue.published() != (2 + each) * static_cast<unsigned>(one.lanes)) {
    std::printf("%s: %llu entries published\n", one.row.name,
                static_cast<unsigned long long>(queue.published()));
    std::abort();
  }
  return costs;
}
bool print(const Row& one, const Costs& cost) {
  std::printf("%-22s %9u %7u %5u %7u %6u %7u %6u %6u %6u %5u %6u %8u\n", one.name,
              cost.returning_atomics, cost.other_atomics, cost.gpu_fences, cost.system_fences,
              cost.cursor_loads, cost.cursor_stores, cost.cached_loads, cost.entry_stores,
              cost.record_stores, cost.doorbells, cost.completion_loads, cost.complete_fences);
  const bool same = std::memcmp(&cost, &one.expected, sizeof(cost)) == 0;
  if (!same) std::printf("%-22s is not what is expected\n", one.name);
  return same;
}

}  // namespace

int main() {
  const Setup shared{}, reg{.bell = abi::Bell::kRegister}, record{.bell = abi::Bell::kRecordWord};
  const Setup alone{.bell = abi::Bell::kRegisterAlone};
  const Setup host{.memory = abi::QueueMemory::kHost, .bell = abi::Bell::kRecordWord};
  const Setup exclusive{.kind = abi::QueueKind::kExclusive};
  const Setup exclusive_reg{.kind = abi::QueueKind::kExclusive, .bell = abi::Bell::kRegister};
  const Setup exclusive_record{.kind = abi::QueueKind::kExclusive, .bell = abi::Bell::kRecordWord};
  const Case cases[] = {
      {"shared", shared, 1, {1, 1, 2, 0, 3, 0, 0, 3, 1, 1}},
      {"shared register", reg, 1, {1, 1, 1, 0, 3, 0, 0, 3, 1, 2}},
      {"shared register alone", alone, 1, {1, 1, 1, 0, 3, 0, 0, 3, 0, 1}},
      {"shared record", record, 1, {1, 1, 3, 0, 3, 0, 0, 3, 1, 1}},
      {"shared host record", host, 1, {1, 1, 1, 2, 3, 0, 0, 3, 1, 1}},
      {"exclusive", exclusive, 1, {0, 0, 1, 0, 0, 2, 2, 3, 1, 1}},
      {"exclusive register", exclusive_reg, 1, {0, 0, 1, 0, 0, 2, 2, 3, 1, 2}},
      {"exclusive record", exclusive_record, 1, {0, 0, 2, 0, 0, 2, 2, 3, 1, 1}},
      {"warp of 32", shared, kWarp, {1, 1, 2, 0, 3, 0, 0, 3 * kWarp, 1, 1}},
      {"warp of 32 register", reg, kWarp, {1, 1, 1, 0, 3, 0, 0, 3 * kWarp, 1, 2}},
      {"warp of 32 record", record, kWarp, {1, 1, 3, 0, 3, 0, 0, 3 * kWarp, 1, 1}},
      // In a part by which the heap has grown, each side loads where its keys are, and its key.
      // These loads are counted with those of cursors.
      {"grown", shared, 1, {1, 1, 2, 0, 3 + 2, 0, 0, 3, 1, 1}, kGrown},
      {"grown register", reg, 1, {1, 1, 1, 0, 3 + 2, 0, 0, 3, 1, 2}, kGrown},
      {"grown exclusive", exclusive, 1, {0, 0, 1, 0, 0 + 2, 2, 2, 3, 1, 1}, kGrown},
      {"grown, 64 bytes", shared, 1, {1, 1, 2, 0, 3 + 4, 0, 0, 3, 1, 1}, kGrown, 64},
      {"grown, warp of 32",
       shared,
       kWarp,
       {1, 1, 2, 0, 3 + 2 * kWarp, 0, 0, 3 * kWarp, 1, 1},
       kGrown},
  };
  std::printf("%-22s %9s %7s %5s %7s %6s %7s %6s %6s %6s %5s %6s %8s\n", "a put of 8 bytes",
              "atomics>", "atomics", "fence", "fence", "cursor", "cursor", "cached", "16-B",
              "record", "door-", "compl.", "fence");
  std::printf("%-22s %9s %7s %5s %7s %6s %7s %6s %6s %6s %5s %6s %8s\n", "", "returning", "", "gpu",
              "system", "loads", "stores", "loads", "stores", "stores", "bells", "loads",
              "complete");
  bool good = true;
  for (const Case& one : cases) good = print({one.name, one.expected}, measured(one)) && good;
  // A signal after a put adds stores, and nothing else: four, or five to set it. An image in memory
  // has one more.
  using device::AmoOp;
  const SignalCase signals[] = {
      {{"signal added", {1, 1, 2, 0, 3, 0, 0, 3 + 5, 1, 1}}, shared, 1, AmoOp::kAdd},
      {{"signal set", {1, 1, 2, 0, 3, 0, 0, 3 + 6, 1, 1}}, shared, 1, AmoOp::kSet},
      {{"signal added register", {1, 1, 1, 0, 3, 0, 0, 3 + 4, 1, 2}}, reg, 1, AmoOp::kAdd},
      {{"signal added exclusive", {0, 0, 1, 0, 0, 2, 2, 3 + 4, 1, 2}},
       exclusive_reg,
       1,
       AmoOp::kAdd},
      {{"signal added warp", {1, 1, 1, 0, 3, 0, 0, 7 * kWarp, 1, 2}}, reg, kWarp, AmoOp::kAdd},
      {{"signal set warp", {1, 1, 1, 0, 3, 0, 0, 8 * kWarp, 1, 2}}, reg, kWarp, AmoOp::kSet},
  };
  for (const SignalCase& one : signals) good = print(one.row, measured(one)) && good;
  const auto burst = [&](const Setup& setup, const Row& put, const Row& doorbell) {
    Queue queue(setup);
    const auto [of_put, of_doorbell] = queue.burst(3);
    if (queue.published() != 3) std::abort();
    good = print(put, of_put) && good;
    good = print(doorbell, of_doorbell) && good;
  };
  // The load of a doorbell is that of a check, which GPUs leave out.
  burst(exclusive, {"burst", {0, 0, 0, 0, 0, 0, 0, 3, 0, 0}},
        {"  its doorbell", {0, 0, 1, 0, 0, 2, 1, 1, 1, 1}});
  burst(exclusive_reg, {"burst register", {0, 0, 0, 0, 0, 0, 0, 3, 0, 0}},
        {"  its doorbell", {0, 0, 1, 0, 0, 2, 1, 1, 1, 2}});
  burst(exclusive_record, {"burst record", {0, 0, 0, 0, 0, 0, 0, 3, 0, 0}},
        {"  its doorbell", {0, 0, 2, 0, 0, 2, 1, 1, 1, 1}});
  const auto [first, second] = Queue(shared).quiets(3);
  // The progress of four queues is asked for at once: here it is one queue's, four times.
  good = print({"quiet", {.other_atomics = 1, .cursor_loads = 20, .completion_loads = 1}}, first) &&
         good;
  good = print({"quiet again", {.cursor_loads = 9}}, second) && good;
  // A quiet completes, a fence orders. GPUs have an instruction for each.
  const device::Thread self;
  const int own_queues = GSHMEMX_QP_DEFAULT;
  const auto caller = [](const device::State& state) { return gshmem::api::Caller{state, "test"}; };
  using device::State;
  const std::pair<Row, std::function<void(const State&)>> orders[] = {
      {{"mapped quiet", {.complete_fences = 1}}, [&](const State& s) { device::quiet(self, s); }},
      {{"mapped pe_quiet", {.complete_fences = 1}},
       [&](const State& s) { gshmem::api::pe_quiet(caller(s), self, 0); }},
      {{"mapped qp_quiet", {.complete_fences = 1}},
       [&](const State& s) {
         gshmem::api::qp_quiet(caller(s), self, 0, {&own_queues, 1});
       }},
      {{"mapped quiet_status", {.completion_loads = 1, .complete_fences = 1}},
       [&](const State& s) { (void)device::quiet_status(self, s, "test"); }},
      {{"mapped fence", {.system_fences = 1}}, [&](const State& s) { device::fence(self, s); }},
      {{"mapped flush", {}}, [&](const State& s) { device::flush(self, s); }},
  };
  for (const auto& [row, order] : orders) good = print(row, Queue(shared).mapped(order)) && good;
  return good ? 0 : 1;
}
