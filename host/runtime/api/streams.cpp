// The exported functions of stream_functions.def. Each is the function of the API without a stream,
// but its call record is queued in the stream instead of being executed at once. In CPU mode there
// are no streams, and the calling thread executes the call.
#include <gshmem/gshmem.h>

#include <gshmem/device/api/api.h>
#include <gshmem/device/api/api_pieces.h>

#include "host/runtime/execute.h"
#include "host/runtime/gpu/gpu.h"
#include "host/runtime/process.h"

namespace gshmem {
namespace {

/// Replaces the calling thread's host operations during one call.
class InStream final : public device::HostOps {
 public:
  explicit InStream(gshmemx_stream_t stream)
      : stream_(stream), ambient_(*gshmemi_ambient()), usual_(ambient_.ops) {
    GSHMEM_ORDER(if (!usual_) return;)  // the checker follows calls, not call records
    ambient_.ops = this;
  }
  ~InStream() { ambient_.ops = usual_; }
  InStream(const InStream&) = delete;

  std::uint64_t run(const device::Call& call) override {
    ambient_.ops = usual_;  // calls that are made from here use them
    Pe* const pe = current_pe();
    Gpu* const gpu = pe ? pe->gpu() : nullptr;
    const std::uint64_t answer =
        gpu ? gpu->run_in(stream_, call)
            : device::execute(device::Thread{}, *ambient_.state, call.name, call);
    if (pe && !gpu && orders(call.kind)) pe->forget_calls();
    ambient_.ops = this;
    return answer;
  }
  bool reads(const void* memory) override { return !usual_ || usual_->reads(memory); }

 private:
  static bool completes(device::CallKind kind) {
    using device::CallKind;
    return kind == CallKind::kQuiet || kind == CallKind::kQuietStatus || kind == CallKind::kBarrier;
  }

  static bool orders(device::CallKind kind) {
    using device::CallKind;
    return completes(kind) || kind == CallKind::kSync || kind == CallKind::kWait ||
           device::is_collective(kind);
  }

  gshmemx_stream_t stream_;
  device::Ambient& ambient_;
  device::HostOps* usual_;
};

}  // namespace

namespace api {
namespace {

template <class T>
void leave_wait(const Caller& caller, const WaitSet<T>& set) {
  device::HostOps* const ops = gshmemi_ambient()->ops;
  if (!ops) return device::wait_until_all(caller.state, caller.name, set);
  Call call(CallKind::kWait, caller.name);
  call.source = set.ivars;
  call.bytes = set.nelems * sizeof(T);
  call.status = set.status;
  call.values = set.values.each;
  call.operand = static_cast<std::uint64_t>(set.values.one);
  call.width = sizeof(T);
  call.is_signed = std::is_signed_v<T> ? 1 : 0;
  call.cmp = set.cmp;
  (void)ops->run(call);
}

template <class T>
void wait_in_stream(const Caller& call, const char* name, const T* ivar, int cmp, T cmp_value) {
  if (!check_arguments(call.state, call.name, Comparison{cmp}, word(name, ivar))) return;
  leave_wait(call, WaitSet<T>{ivar, 1, nullptr, cmp, {cmp_value, nullptr}});
}

template <class T, class Values>
void wait_all_in_stream(const Caller& call, const T* ivars, std::size_t nelems, const int* status,
                        int cmp, Values values) {
  const WaitSet<T> set{ivars, nelems, status, cmp, values};
  if (check_set(call, set, values)) leave_wait(call, set);
}

}  // namespace
}  // namespace api
}  // namespace gshmem

#define GSHMEM_STREAM_FUNCTION(KIND, RET, STEM, PARAMS, NAMES, CALL)          \
  extern "C" RET gshmemx_##STEM##_on_stream PARAMS {                          \
    const gshmem::api::Caller call =                                          \
        gshmem::api::ambient_caller(GSHMEM_TEXT(gshmemx_##STEM##_on_stream)); \
    const gshmem::InStream in_stream(stream);                                 \
    return gshmem::api::CALL;                                                 \
  }
#include <gshmem/stream_functions.def>
