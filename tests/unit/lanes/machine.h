// The machine of device/core/machine.h for lanes that take turns (lanes.h). It is the CPU's, except
// for the clock, and for waits, which let other lanes run between two polls.
#pragma once

#include "tests/unit/lanes/lanes.h"

#include <gshmem/abi/doorbell_cpu.h>

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

// These names of machine_cpu.h are replaced below; the original functions are not called.
#define now_ns now_ns_of_cpu
#define pause pause_of_cpu
#define pause_far pause_far_of_cpu
#define pause_behind pause_behind_of_cpu
#define look_is_due look_is_due_of_cpu
#include <gshmem/device/core/machine_cpu.h>
#undef now_ns
#undef pause
#undef pause_far
#undef pause_behind
#undef look_is_due

namespace gshmem::device {

inline std::uint64_t now_ns() { return test::lanes().now_ns(); }
inline void pause(unsigned polls) { test::lanes().pause(polls); }
inline void pause_far(unsigned polls) { pause(polls); }
inline void pause_behind(unsigned polls, std::uint32_t) { pause(polls); }
inline bool look_is_due(unsigned) { return true; }

}  // namespace gshmem::device
