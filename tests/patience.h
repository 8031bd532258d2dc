// How long tests wait for what must come.
#pragma once

namespace gshmem::test {

/// How many times slower than a quiet machine one may be. A limit that only ends what hangs is that
/// much longer than what it bounds takes; a limit that is itself tested is not. tests/legs.cmake
/// reads it here.
constexpr int kPatience = 10;

}  // namespace gshmem::test
