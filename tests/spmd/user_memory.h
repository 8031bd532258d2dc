// Memory of the program that gshmemx_buffer_register_symmetric accepts: on a GPU several
// allocations of cuMemCreate, mapped one after the other; in CPU mode pages of a memfd. Included by
// tests of registered memory.
#pragma once

#include "tests/spmd/spmd.h"

#if defined(__CUDACC__)
#include "tests/cuda_pieces.h"
#endif

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>
#include <vector>

namespace gshmem::spmd {

/// Returns bytes that differ between the values of `of`.
[[nodiscard]] inline std::vector<std::uint8_t> bytes_of(const Pe& pe, int of, std::size_t count) {
  std::vector<std::uint8_t> data(count);
  const std::uint64_t seed = mix(pe.seed(), static_cast<std::uint64_t>(of));
  for (std::size_t i = 0; i < count; ++i) data[i] = pattern(seed, i);
  return data;
}

class UserMemory {
 public:
  /// The memory is zeroed; its size is `pieces` times 2 MiB.
  UserMemory(const Pe& pe, std::size_t pieces) : bytes_(pieces * kPiece), on_gpu_(pe.on_gpu()) {
    if (on_gpu_) {
      make_on_gpu(pieces);
      return;
    }
    file_ = ::memfd_create("user memory", MFD_CLOEXEC);
    void* at = MAP_FAILED;
    if (file_ >= 0 && ::ftruncate(file_, static_cast<off_t>(bytes_)) == 0)
      at = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    if (at == MAP_FAILED) throw std::runtime_error("no shared memory for a test");
    data_ = static_cast<char*>(at);
  }
  ~UserMemory() {
    if (on_gpu_) {
      free_on_gpu();
    } else {
      ::munmap(data_, bytes_);
      ::close(file_);
    }
  }
  UserMemory(const UserMemory&) = delete;

  [[nodiscard]] char* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

  // Writes at its own address.
  void write(std::size_t at, const std::vector<std::uint8_t>& bytes) {
    copy(data_ + at, bytes.data(), bytes.size());
  }
  [[nodiscard]] std::vector<std::uint8_t> read(std::size_t at, std::size_t bytes) const {
    std::vector<std::uint8_t> data(bytes);
    copy(data.data(), data_ + at, bytes);
    return data;
  }
  [[nodiscard]] std::uint64_t word(std::size_t i) const {
    std::uint64_t value = 0;
    copy(&value, data_ + 8 * i, sizeof(value));
    return value;
  }

 private:
  static constexpr std::size_t kPiece = 2 << 20;

#if defined(__CUDACC__)
  void make_on_gpu(std::size_t pieces) {
    const detail::GpuScope scope;
    int device = 0;
    detail::check_cuda(cudaGetDevice(&device), "cudaGetDevice");
    static_assert(kPiece == test::kPiece);
    data_ = reinterpret_cast<char*>(test::map_pieces(device, pieces));
    detail::check_cuda(cudaMemset(data_, 0, bytes_), "cudaMemset");
    detail::check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  void free_on_gpu() {
    const detail::GpuScope scope;
    test::unmap_pieces(reinterpret_cast<CUdeviceptr>(data_), bytes_ / kPiece);
  }
  void copy(void* to, const void* from, std::size_t bytes) const {
    if (!on_gpu_) return static_cast<void>(std::memcpy(to, from, bytes));
    const detail::GpuScope scope;
    detail::check_cuda(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "cudaMemcpy");
  }
#else
  void make_on_gpu(std::size_t) {}
  void free_on_gpu() {}
  void copy(void* to, const void* from, std::size_t bytes) const { std::memcpy(to, from, bytes); }
#endif

  std::size_t bytes_;
  bool on_gpu_;
  int file_ = -1;
  char* data_ = nullptr;
};

}  // namespace gshmem::spmd
