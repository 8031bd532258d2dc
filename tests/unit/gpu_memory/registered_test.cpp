// Tests memory of the program on GPUs of the double that is registered as symmetric: all PEs map
// whole allocations at the same address, or refuse them with the reason.
#include <gshmem/gshmem.hpp>

#include "tests/cuda_pieces.h"
#include "tests/unit/gpu_memory/four_gpus.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <stdexcept>
#include <string>

using namespace gshmem;
using namespace gshmem::test;

namespace {

/// Memory of a program on a GPU of the double.
struct Allocations {
  Allocations(int device, std::size_t pieces,
              unsigned handle_types = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
      : bytes(pieces * kPiece), at(map_pieces(device, pieces, handle_types)) {}
  ~Allocations() { unmap_pieces(at, bytes / kPiece); }
  Allocations(const Allocations&) = delete;
  [[nodiscard]] char* data() const { return reinterpret_cast<char*>(at); }

  const std::size_t bytes;
  const CUdeviceptr at;
};

}  // namespace

TEST_CASE("allocations_of_the_program_are_mapped_at_the_same_address_by_all_pes") {
  four_gpus({{"GSHMEM_P2P_GROUP", "0"}});
  std::atomic<int> wrong{0};
  run_threads(4, [&](const Runtime& runtime) {
    const auto count = [&](bool right) { wrong += right ? 0 : 1; };
    const int me = runtime.my_pe(), next = (me + 1) % 4;
    const Allocations own(me, 2), more(me, 1);
    void* const first = gshmemx_buffer_register_symmetric(own.data(), own.bytes, 0);
    void* const second = gshmemx_buffer_register_symmetric(more.data(), more.bytes, 0);
    count(first && second);
    if (!first || !second) return;
    // The last word of the second allocation.
    auto* const word = static_cast<int*>(first) + own.bytes / sizeof(int) - 1;
    gshmem_int_p(word, 10 + me, next);
    gshmem_int_p(static_cast<int*>(second), 20 + me, next);
    gshmem_barrier_all();
    count(reinterpret_cast<int*>(own.data())[own.bytes / sizeof(int) - 1] == 10 + (me + 3) % 4);
    count(*reinterpret_cast<int*>(more.data()) == 20 + (me + 3) % 4);
    gshmem_barrier_all();
    count(gshmemx_buffer_unregister_symmetric(first, own.bytes) == 0);
    count(gshmem_ptr(word, next) == nullptr && gshmem_ptr(second, next) != nullptr);
    // Finalize unregisters the other allocation.
  });
  CHECK(wrong == 0);
  CHECK(heaps().clean());
  for (const std::string& violation : heaps().violations) FAIL_CHECK(violation);
}

TEST_CASE("memory_that_others_cannot_map_is_refused_with_the_reason") {
  four_gpus({{"GSHMEM_P2P_GROUP", "0"}});
  StderrCapture capture;
  run_threads(4, [&](const Runtime& runtime) {
    const int me = runtime.my_pe();
    const Allocations own(me, 2), bare(me, 1, 0), other((me + 1) % 4, 1);
    const std::size_t piece = kPiece;
    const CudaDriver* const cuda = CudaDriver::get();
    CUdeviceptr plain = 0;
    GSHMEM_CU(cuda, cuMemAlloc, &plain, piece);
    const auto refused = [](void* at, std::size_t bytes) {
      if (gshmemx_buffer_register_symmetric(at, bytes, 0)) throw std::runtime_error("registered");
    };
    refused(own.data(), piece / 2);
    refused(own.data() + piece / 2, piece);
    refused(own.data(), piece + piece / 2);
    refused(bare.data(), bare.bytes);
    refused(other.data(), other.bytes);
    refused(reinterpret_cast<void*>(plain), piece);
    refused(&heaps(), piece);
    (void)cuda->cuMemFree(plain);
    // Each of several allocations is mapped as a whole.
    void* const at = gshmemx_buffer_register_symmetric(own.data() + piece, piece, 0);
    if (!at || gshmemx_buffer_unregister_symmetric(at, piece) != 0)
      throw std::runtime_error("not registered");
  });
  const std::string said = text_of(capture);
  for (const char* text :
       {"is not the whole of its allocation of 2097152 bytes", "was made without a handle",
        "is memory of GPU 1, and this PE's is that of GPU 0",
        "has no memory that can be mapped again",
        "; it takes memory of cuMemCreate with CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR"})
    CHECK_THAT(said, Catch::Contains(text));
  CHECK(heaps().clean());
  for (const std::string& violation : heaps().violations) FAIL_CHECK(violation);
}
