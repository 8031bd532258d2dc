// Every put with signal of the C API: all types, fixed sizes and mem, all scopes, from kernels and
// from host threads, to every PE.
#include "tests/spmd/rma_rows.h"

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

#define NAME SignalByThread
#define CALL(STEM) gshmem_##STEM
#include "tests/spmd/put_signal.def"
#define NAME SignalByWarp
#define CALL(STEM) gshmemx_##STEM##_warp
#include "tests/spmd/put_signal.def"
#define NAME SignalByBlock
#define CALL(STEM) gshmemx_##STEM##_block
#include "tests/spmd/put_signal.def"

template <class Puts>
struct PutSignalsInKernel {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log, RmaArea area, std::uint64_t* set,
                            std::uint64_t* added, Scope scope) const {
    Puts{}(area, set, added, share_of(ctx, scope));
  }
};

/// The signal words of all rows and origins, and their expected values after every PE has put.
class Signals {
 public:
  explicit Signals(int n) : n_(n), set_(words()), added_(words()) {}
  [[nodiscard]] std::uint64_t* set() { return set_.data(); }
  [[nodiscard]] std::uint64_t* added() { return added_.data(); }
  void verify(Pe& pe) const {
    const std::vector<std::uint64_t> set = set_.to_vector(pe.me()),
                                     added = added_.to_vector(pe.me());
    for (std::size_t i = 0; i < set.size(); ++i) {
      const std::uint64_t expected = i / static_cast<std::size_t>(n_) + 1;
      SPMD_EQ(pe, set[i], expected, i);
      SPMD_EQ(pe, added[i], expected, i);
    }
  }

 private:
  [[nodiscard]] std::size_t words() const { return static_cast<std::size_t>(kRows * n_); }
  int n_;
  SymmetricArray<std::uint64_t> set_, added_;
};

template <class Puts>
void test_signals(Pe& pe, Scope scope) {
  if (!pe.c_api_in_kernels()) return pe.skip(kTwoPesOnAGpu);
  RmaMemory memory(pe);
  Signals signals(pe.n());
  pe.run(shape_of(pe, scope), PutSignalsInKernel<Puts>{}, memory.area(), signals.set(),
         signals.added(), scope);
  pe.barrier();
  memory.verify(pe, __LINE__, kStrided);
  signals.verify(pe);
  pe.barrier();
}

}  // namespace

SPMD_TEST(put_signal_of_every_type_by_thread_arrives_everywhere) {
  test_signals<SignalByThread>(pe, Scope::kThread);
}
SPMD_TEST(put_signal_of_every_type_by_warp_arrives_everywhere) {
  test_signals<SignalByWarp>(pe, Scope::kWarp);
}
SPMD_TEST(put_signal_of_every_type_by_block_arrives_everywhere) {
  test_signals<SignalByBlock>(pe, Scope::kBlock);
}

SPMD_TEST(put_signal_of_every_type_by_host_thread_arrives_everywhere) {
  RmaMemory memory(pe);
  Signals signals(pe.n());
  SignalByThread{}(memory.area(), signals.set(), signals.added(), {0, 1, true});
  pe.barrier();
  memory.verify(pe, __LINE__, kStrided);
  signals.verify(pe);
  pe.barrier();
}
