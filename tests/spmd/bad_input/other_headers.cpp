// A unit whose headers have another number of the layouts than the library's (test_init.cpp).
#define kStateAbi kStateAbiOfTheLibrary
#include <gshmem/abi/state.h>
#undef kStateAbi

namespace gshmem::abi {
inline constexpr std::uint32_t kStateAbi = kStateAbiOfTheLibrary + 1;
}

#include <gshmem/gshmem.hpp>

namespace gshmem::spmd {

void launch_with_other_headers() {
  gshmem::launch({}, [](const LaunchContext&) {});
}

}  // namespace gshmem::spmd
