#include "host/runtime/same_build.h"

#include "host/base/error.h"

#include <catch2/catch.hpp>

#include <cstring>
#include <string>

using namespace gshmem;

namespace {

/// Two ranks, of which this one is the first.
class OtherBuild final : public Collectives {
 public:
  explicit OtherBuild(const Build& other) : other_(other) {}
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 2; }
  void allgather(const void* send, void* recv, std::size_t bytes) override {
    REQUIRE(bytes == sizeof(other_));
    std::memcpy(recv, send, bytes);
    std::memcpy(static_cast<char*>(recv) + bytes, &other_, bytes);
  }

 private:
  Build other_;
};

}  // namespace

TEST_CASE("pes_of_two_builds_get_an_error_that_names_both") {
  const Build mine = this_build();
  OtherBuild same(mine);
  require_same_build(same);
  Build other = mine;
  std::strcpy(other.version, "9.8.7");
  other.abi += 1;
  OtherBuild older(other);
  CHECK_THROWS_WITH(require_same_build(older),
                    Catch::Contains("PE 0 has gshmem " + std::string(mine.version) + " (ABI " +
                                    std::to_string(mine.abi)) &&
                        Catch::Contains("PE 1 gshmem 9.8.7 (ABI " + std::to_string(mine.abi + 1)) &&
                        Catch::Contains("all PEs of a job need one build"));
  other = mine;
  other.layouts ^= 1;  // the same version with other struct layouts
  OtherBuild patched(other);
  CHECK_THROWS_AS(require_same_build(patched), Error);
}
