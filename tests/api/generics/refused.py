#!/usr/bin/env python3
"""What the names without a type do not take does not compile, as C and as C++.

Usage: refused.py CC CXX FLAG...
"""
import subprocess
import sys

UNIT = """#include <gshmem/generic.h>
struct other { int i; };
void f(struct other* others, void* bytes, float* floats, const double* doubles, long long* longlongs,
       int* ints, const int* fixed, gshmem_half_t* halves, gshmem_ctx_t ctx);
void f(struct other* others, void* bytes, float* floats, const double* doubles, long long* longlongs,
       int* ints, const int* fixed, gshmem_half_t* halves, gshmem_ctx_t ctx) {
  (void)others, (void)bytes, (void)floats, (void)doubles, (void)longlongs, (void)ints, (void)fixed;
  (void)halves, (void)ctx;
  %s;
}
"""
TAKEN = [
    "gshmem_put(floats, floats, 1, 0)",
    "gshmem_put(ctx, ints, fixed, 1, 0)",
    "floats[0] = gshmem_g(ctx, floats, 0)",
    "ints[0] = gshmem_g(fixed, 0)",
    "gshmem_atomic_and(ints, 1, 0)",
    "gshmem_atomic_set(halves, halves[0], 0)",
    "gshmem_max_reduce(GSHMEM_TEAM_WORLD, floats, floats, 1)",
]
REFUSED = [
    "gshmem_put(others, others, 1, 0)",                           # a type that has nothing
    "gshmem_put(ctx, others, others, 1, 0)",
    "gshmem_put(bytes, bytes, 1, 0)",
    "gshmem_put(floats, doubles, 1, 0)",                          # two types
    "gshmem_get(ctx, floats, doubles, 1, 0)",
    "gshmem_put(fixed, fixed, 1, 0)",                             # a target that is not written to
    "gshmem_put(ints, fixed, 1)",                                 # an argument too few, and too many
    "gshmem_put(ctx, ints, fixed, 1, 0, 0)",
    "gshmem_p(ints, ints, 0)",
    "gshmem_atomic_add(floats, 1, 0)",                            # types that lack this operation
    "gshmem_atomic_fetch_xor(longlongs, 1, 0)",
    "gshmem_atomic_fetch((char*)bytes, 0)",
    "gshmem_wait_until(floats, GSHMEM_CMP_EQ, 1)",
    "gshmem_wait_until(ctx, ints, GSHMEM_CMP_EQ, 1)",             # no context
    "gshmem_or_reduce(GSHMEM_TEAM_WORLD, floats, floats, 1)",
    "gshmem_min_reduce(GSHMEM_TEAM_WORLD, (gshmem_complexf_t*)bytes, (gshmem_complexf_t*)bytes, 1)",
    "gshmem_sum_reduce(floats, floats, 1)",                       # no team
]


def compiles(command, call):
    return subprocess.run([*command, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-"], input=UNIT % call,
                          capture_output=True, text=True).returncode == 0


def main():
    cc, cxx, *flags = sys.argv[1:]
    wrong = 0
    for command in ([cc, "-x", "c", "-std=c11", *flags], [cxx, "-x", "c++", "-std=c++17", *flags]):
        for calls, taken in ((TAKEN, True), (REFUSED, False)):
            for call in calls:
                if compiles(command, call) != taken:
                    print(f"{command[0]}: {'refuses' if taken else 'takes'} {call}")
                    wrong += 1
    print(f"{len(TAKEN)} calls to take, {len(REFUSED)} to refuse, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
