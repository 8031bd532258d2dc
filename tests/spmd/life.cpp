// Init and finalize themselves: these tests join and leave the job on their own.
#include "tests/spmd/session.h"

namespace gshmem::spmd {

const std::vector<LifeTest>& life_tests() {
  static const std::vector<LifeTest> all{};
  return all;
}

}  // namespace gshmem::spmd
