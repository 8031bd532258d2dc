// Wrong arguments of every function, on a host thread in CPU mode.
#include "tests/spmd/bad_input/children.h"
#include "tests/spmd/bad_input/every_call.h"

#include <gshmem/device/core/host_block.h>

#include <catch2/catch.hpp>
#include <unistd.h>

#include <csignal>
#include <cstdio>

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

/// Calls `function` of libgshmem, whose type is Type.
template <class Type>
std::uint64_t call_as(void (*function)(), const std::uint64_t* raw) {
  return call_raw(reinterpret_cast<Type*>(function), raw);
}
struct Callee {
  void (*function)();
  std::uint64_t (*call)(void (*function)(), const std::uint64_t* raw);
};
const Callee callees[] = {
#define GSHMEM_FUNCTION(KIND, RET, STEM, PARAMS, NAMES, CALL)                           \
  {reinterpret_cast<void (*)()>(static_cast<RET(*) PARAMS>(&GSHMEM_NAME_##KIND(STEM))), \
   &call_as<RET PARAMS>},
#include <gshmem/functions.def>
#define GSHMEM_STREAM_FUNCTION(KIND, RET, STEM, PARAMS, NAMES, CALL) \
  {reinterpret_cast<void (*)()>(&gshmemx_##STEM##_on_stream), &call_as<RET PARAMS>},
#include <gshmem/stream_functions.def>
};

char in_call[256] = "no call";
extern "C" void say_where(int number) {
  dprintf(STDOUT_FILENO, "signal %d in %s\n", number, in_call);
  _Exit(4);
}

/// Makes the calls with a control area of its own, so that no fault is recorded as the PE's.
class Caller {
 public:
  Caller() : state_(*gshmemi_ambient()->state) {
    state_.control = &control_;
    pe_state_ = gshmemi_ambient()->state;
    gshmemi_ambient()->state = &state_;
    symmetric_ = static_cast<char*>(gshmem_align(Ground::kBytes, Ground::kBytes));
    ground_ = {symmetric_, local_, state_.heap, state_.heap + state_.heap_bytes};
    Ground::fill(symmetric_, local_, symmetric_, local_);
    Ground::fill(old_symmetric_, old_local_, symmetric_, local_);
  }
  ~Caller() { gshmemi_ambient()->state = pe_state_; }

  [[nodiscard]] const Ground& ground() const { return ground_; }

  void make(const Case& one) {
    std::snprintf(in_call, sizeof(in_call), "%s", one.text().c_str());
    const Callee& callee = callees[one.function];
    control_ = {};
    const std::uint64_t result = callee.call(callee.function, one.raw.data());
    std::string complaint = one.complaint(control_.fault, result);
    const bool same = std::memcmp(symmetric_, old_symmetric_, Ground::kBytes) == 0 &&
                      std::memcmp(local_, old_local_, Ground::kBytes) == 0;
    if (complaint.empty() && !one.argument.empty() && !same)
      complaint = one.text() + ": the call had an effect";
    ++made_;
    if (!complaint.empty() && ++wrong_ <= 40) std::puts(complaint.c_str());
    Ground::fill(symmetric_, local_, symmetric_, local_);
  }

  [[nodiscard]] int made() const { return made_; }
  [[nodiscard]] int wrong() const { return wrong_; }

 private:
  const abi::DeviceState* pe_state_;
  abi::DeviceState state_;
  abi::Control control_{};
  char* symmetric_;
  alignas(128) char local_[Ground::kBytes];
  char old_symmetric_[Ground::kBytes], old_local_[Ground::kBytes];
  Ground ground_{};
  int made_ = 0, wrong_ = 0;
};

}  // namespace

TEST_CASE("wrong_argument_of_any_function_is_a_fault_that_names_it") {
  const Outcome outcome = in_child(quick(), [] {
    for (const int number : {SIGSEGV, SIGBUS, SIGFPE}) std::signal(number, say_where);
    const Runtime runtime;
    Caller caller;
    for (std::size_t i = 0; i < functions().size(); ++i) {
      for (const Case& one : cases_of(i, caller.ground())) caller.make(one);
    }
    std::printf("%zu functions, %d calls, %d wrong\n", functions().size(), caller.made(),
                caller.wrong());
  });
  INFO(outcome.output);
  CHECK(outcome.code == 0);
  CHECK(contains(outcome.output, " calls, 0 wrong\n"));
}
