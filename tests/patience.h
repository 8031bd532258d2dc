// Time limits of tests.
#pragma once

namespace gshmem::test {

/// How many times slower than a quiet machine a busy one may be. A limit that only ends a hang is
/// multiplied by it; a limit that is itself tested is not. tests/legs.cmake reads it here.
constexpr int kPatience = 10;

}  // namespace gshmem::test
