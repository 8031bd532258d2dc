// Time of a call, one after the other, by every kind of caller: threads, warps and blocks of a
// kernel, the host, and a stream. It is measured from the first call to the completion of the last.
// On a stream the host's own part of a call is shorter. Collectives are measured by
// collective_latency.
#include "perftest/common/calls.h"

#include <array>

namespace perftest {
namespace {

/// The memory of all calls, and its expected contents.
class Scene {
 public:
  explicit Scene(Bench& bench)
      : bench_(bench),
        exchange_(bench, kApart * (bench.options().max_size + kTileRows.bytes)),
        words_(kWords),
        wrong_(1),
        lock_(1),
        stream_(gpu_stream(bench.on_gpu())) {
    of_host_.fill(kHeld);
  }

  /// Returns the objects of calls by `By`.
  template <class By>
  At at(std::size_t bytes) {
    std::uint64_t* const own = std::is_same_v<By, ByHost> ? of_host_.data() : words_.data() + kOwn;
    return {.dest = exchange_.dest(),
            .source = exchange_.source(),
            .bytes = bytes,
            .pe = bench_.role().target,
            .word = words_.data(),
            .set = words_.data() + kSetAt,
            .values = own,
            .result = own + kSet,
            .counter = words_.data() + kCounter,
            .lock = lock_.data(),
            .stream = stream_.get()};
  }
  [[nodiscard]] std::uint64_t* wrong() const { return wrong_.data(); }

  /// Collective: sets the memory to its state before the first call.
  void prepare(const Check& check, std::size_t extent) {
    std::vector<std::uint64_t> words(kWords, kHeld);
    words[0] = check.initial;
    words[kMailbox] = words[kCounter] = 0;
    words_.write(words, bench_.my_pe());
    exchange_.prepare(extent);
  }
  /// Collective: checks the state after `calls` calls of each PE that makes them.
  void look(const Check& check, const std::string& name, std::size_t extent, std::uint64_t calls) {
    const Role role = bench_.role();
    bench_.barrier();
    const std::vector<std::uint64_t> words = words_.to_vector(bench_.my_pe());
    std::uint64_t found = words[0], wanted = words[0];
    if (check.expected && (check.kind == Check::kOwnWord ? role.is_active() : role.source >= 0)) {
      wanted = check.expected(calls);
    }
    if (check.kind == Check::kLock && bench_.my_pe() == 0) {
      found = words[kCounter];
      wanted = calls * static_cast<std::uint64_t>(bench_.n_pes());
    }
    if (bench_.options().inject_corruption) ++found;
    std::string problem;
    if (found != wanted) {
      problem = "FAIL: wrong data: " + name + " left " + std::to_string(found) + " instead of " +
                std::to_string(wanted);
    }
    if (wrong_.to_vector(bench_.my_pe())[0] != 0) {
      problem = "FAIL: wrong data: " + name + " returned what it must not";
    }
    bench_.agree(problem);
    if (check.moves()) {
      exchange_.check(extent, check.kind == Check::kPuts ? role.source : role.target,
                      check.elements);
    }
  }

  /// Collective, for calls that synchronize all PEs. The PEs arrive late in turn. After each call
  /// every PE checks that the others have entered it, and that a put before it has arrived.
  template <class By, class C>
  void verify_synchronization(const gshmem::LaunchShape& shape) {
    constexpr std::uint64_t kVerified = 20, kLateNs = 20000;
    const int n_pes = bench_.n_pes(), my_pe = bench_.my_pe();
    At here = at<By>(0);
    here.pe = (my_pe + 1) % n_pes;
    if (C::kCheck.completes) here.mailbox = words_.data() + kMailbox;
    call_once<By, C>(shape, here, 0, wrong());
    bench_.barrier();
    std::uint64_t early = 0;
    for (std::uint64_t number = 1; number <= kVerified; ++number) {
      const bool late = number % static_cast<std::uint64_t>(n_pes) == static_cast<unsigned>(my_pe);
      const std::uint64_t start = gshmem::device::now_ns();
      while (late && gshmem::device::now_ns() - start < kLateNs) {
      }
      words_.write(std::span(&number, 1), my_pe);
      call_once<By, C>(shape, here, number, wrong());
      // Others may be in the next call already.
      std::uint64_t found = 0;
      for (int pe = 0; pe < n_pes; ++pe) {
        words_.read(std::span(&found, 1), pe);
        early += found < number ? 1 : 0;
      }
      words_.read(std::span(&found, 1), my_pe, kMailbox);
      early += C::kCheck.completes && found < number ? 1 : 0;
    }
    bench_.agree(early == 0 ? ""
                            : "FAIL: left " + std::to_string(early) + " times of " +
                                  std::to_string(kVerified) + " a " + C::kName +
                                  " before all others had come to it");
  }

 private:
  /// Words after the first, which calls use.
  enum : std::size_t { kMailbox = 1, kCounter, kSetAt, kOwn = kSetAt + kSet };
  static constexpr std::size_t kWords = kOwn + 2 * kSet;

  Bench& bench_;
  Exchange exchange_;
  gshmem::SymmetricArray<std::uint64_t> words_, wrong_;
  gshmem::SymmetricArray<long> lock_;
  std::array<std::uint64_t, 2 * kSet> of_host_;
  Stream stream_;
};

template <class By, class C>
void run_call(Bench& bench, Scene& scene, const std::string& scope) {
  constexpr Check kCheck = C::kCheck;
  // See functions.def, "Locks": they may need GSHMEM_AMO=nic.
  if (kCheck.kind == Check::kLock && bench.on_gpu() && bench.path() == Path::kNetwork) return;
  const gshmem::LaunchShape shape = shape_of_caller(bench, scope);
  std::vector<std::size_t> sizes{sizeof(std::uint64_t)};
  if (kCheck.moves()) sizes = sizes_of(bench.options(), kCheck.elements.bytes);
  for (const std::size_t bytes : sizes) {
    const std::size_t extent = kCheck.moves() ? bytes * kCheck.elements.stride : 0;
    scene.prepare(kCheck, extent);
    if constexpr (kCheck.kind == Check::kSynchronize)
      scene.template verify_synchronization<By, C>(shape);
    const std::uint64_t before = bench.iterations_taken();
    const Measurement measured =
        measure_calls<By, C>(bench, shape, timed_if(kCheck.by_all() || bench.role().is_active()),
                             scene.template at<By>(bytes), scene.wrong());
    scene.look(kCheck, C::kName, extent, bench.iterations_taken() - before);
    const bool crosses = kCheck.moves() || kCheck.kind == Check::kWord;
    bench.add_row({.name = C::kName, .size = bytes, .scope = scope, .threads = shape.threads},
                  measured, kCheck.trip, crosses ? bytes : 0);
    if (bytes != sizes.back() && is_slow(bench, C::kName, scope, bytes, measured)) break;
  }
}

void run(Bench& bench) {
  Scene scene(bench);
  for_each_call<false>(bench, [&]<class By, class C>(By, C, const std::string& scope) {
    run_call<By, C>(bench, scene, scope);
  });
}

}  // namespace
}  // namespace perftest

int main(int argc, char** argv) {
  using namespace perftest;
  const Program program{
      .name = "call_latency",
      .summary = "time of calls by all who can make them, one after the other",
      .groups = kSizes | kCaller | kPattern,
      .shows = Shows::kLatency,
      .gpu = {.min_size = 8, .max_size = 8 << 10, .step = 32, .threads_per_cta = 1024},
      .cpu = calls_on_cpu(),
      .run = run};
  return run_program(program, argc, argv);
}
