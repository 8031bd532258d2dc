#include "host/base/gpu_mapping.h"

#include "host/base/fd.h"
#include "host/base/log.h"
#include "host/base/words.h"

#include <fcntl.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

namespace gshmem {
namespace {

/// Sessions are made and ended one at a time: GDRCopy before 2.4 kept lists without a lock.
std::mutex& library_mutex() {
  static std::mutex mutex;
  return mutex;
}

/// Flushes everything that this thread has stored from its write-combining buffers.
void store_fence() noexcept {
#if defined(__x86_64__)
  _mm_sfence();
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

std::string errno_text(int code) {
  return strprintf("error %d (%s)", code, std::strerror(std::abs(code)));
}

void check(int result, const char* call, std::uint64_t bytes, std::uintptr_t address) {
  if (result == 0) return;
  throw Error(GSHMEMX_ERROR_SYSTEM, strprintf("%s of %lu bytes at 0x%lx: %s", call, bytes, address,
                                              errno_text(result).c_str()));
}

/// Explains in words why gdr_open cannot work.
std::string why_no_session() {
  const Fd device(open(gdr::kDevice, O_RDWR | O_CLOEXEC));
  if (device)
    return "gdr_open failed, although /dev/gdrdrv can be opened: libgdrapi and "
           "gdrdrv may be of different versions";
  return strprintf(
      "gdr_open failed: /dev/gdrdrv: %s; load the kernel module (sudo modprobe gdrdrv) "
      "and give a container the device (docker run --device=/dev/gdrdrv)",
      std::strerror(errno));
}

}  // namespace

GpuMapping::GpuMapping(gdr::Library library, void* base, std::uint64_t bytes)
    : library_(std::move(library)), base_(reinterpret_cast<std::uintptr_t>(base)), bytes_(bytes) {
  require(bytes > 0 && bytes % gdr::kPageBytes == 0 && base_ % gdr::kPageBytes == 0,
          GSHMEMX_ERROR_INTERNAL,
          strprintf("GPU mapping: %lu bytes at %p are not whole pages of 64 KiB", bytes, base));
  const std::lock_guard lock(library_mutex());
  session_ = library_.gdr_open();
  if (session_ == nullptr) throw Error(GSHMEMX_ERROR_NOT_SUPPORTED, why_no_session());
  try {
    map();
  } catch (...) {
    release();
    throw;
  }
}

GpuMapping::~GpuMapping() {
  const std::lock_guard lock(library_mutex());
  release();
}

void GpuMapping::map() {
  // Token and address space belong to an old way of granting access to peers, unused since CUDA
  // 6.0.
  check(library_.gdr_pin_buffer(session_, base_, bytes_, 0, 0, &pin_), "gdr_pin_buffer", bytes_,
        base_);
  pinned_ = true;
  gdr::Info info;
  check(library_.gdr_get_info_v2(session_, pin_, &info), "gdr_get_info_v2", bytes_, base_);
  // The kernel module may have rounded the address down to a larger page; the mapping of gdr_map
  // begins there.
  const std::uint64_t before = base_ - info.address;
  require(info.address <= base_ && info.mapped_bytes >= bytes_ + before, GSHMEMX_ERROR_SYSTEM,
          strprintf("gdr_pin_buffer of %lu bytes at 0x%lx pinned %lu at 0x%lx", bytes_, base_,
                    info.mapped_bytes, info.address));
  mapped_bytes_ = bytes_ + before;
  void* mapped = nullptr;
  check(library_.gdr_map(session_, pin_, &mapped, mapped_bytes_), "gdr_map", mapped_bytes_,
        info.address);
  mapped_ = mapped;
  cpu_ = static_cast<std::uint8_t*>(mapped_) + before;
}

void GpuMapping::release() noexcept {
  const auto report = [](int result, const char* call) {
    if (result != 0) GSHMEM_WARN("%s: %s", call, errno_text(result).c_str());
  };
  if (mapped_ != nullptr)
    report(library_.gdr_unmap(session_, pin_, mapped_, mapped_bytes_), "gdr_unmap");
  if (pinned_) report(library_.gdr_unpin_buffer(session_, pin_), "gdr_unpin_buffer");
  report(library_.gdr_close(session_), "gdr_close");
}

void GpuMapping::write(std::uint64_t offset, const void* from, std::size_t bytes) const {
  std::uint8_t* const to = cpu_ + offset;
  if (bytes == 0) return;
  if (!store_as_word(to, from, bytes))
    check(library_.gdr_copy_to_mapping(pin_, to, from, bytes), "gdr_copy_to_mapping", bytes,
          base_ + offset);
  store_fence();
}

void GpuMapping::read(std::uint64_t offset, void* to, std::size_t bytes) const {
  std::uint8_t* const from = cpu_ + offset;
  if (bytes == 0) return;
  if (!load_as_word(to, from, bytes))
    check(library_.gdr_copy_from_mapping(pin_, to, from, bytes), "gdr_copy_from_mapping", bytes,
          base_ + offset);
}

std::uint64_t GpuMapping::load(std::uint64_t offset, std::size_t width) const noexcept {
  std::uint64_t value = 0;
  (void)load_as_word(&value, cpu_ + offset, width);  // little-endian, as all hosts of NVIDIA GPUs
  return value;
}

void GpuMapping::settle(std::uint64_t offset) const noexcept {
  store_fence();
  (void)load(offset, 1);
}

bool GpuMapping::holds(const void* address, std::size_t bytes, std::uint64_t* offset) const {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  if (at < base_ || bytes > bytes_ || at - base_ > bytes_ - bytes) return false;
  *offset = at - base_;
  return true;
}

std::unique_ptr<GpuMapping> map_gpu_memory(Switch policy, void* base, std::uint64_t bytes,
                                           const std::string& soname) {
  if (policy == Switch::kOff) return nullptr;
  const auto fail = [&](const Error& error, const char* what_to_do) {
    throw Error(error.code(), strprintf("GSHMEM_GDRCOPY=on: %s%s", error.what(), what_to_do));
  };
  try {
    gdr::Library library = gdr::Library::load(soname);
    return std::make_unique<GpuMapping>(std::move(library), base, bytes);
  } catch (const Error& error) {
    const bool absent = error.code() == GSHMEMX_ERROR_NOT_SUPPORTED;
    if (policy == Switch::kOn)
      fail(error, absent ? "; install GDRCopy 2 (libgdrapi and gdrdrv-dkms) or set "
                           "GSHMEM_GDRCOPY=auto"
                         : "; the GPU's window on PCI (BAR1) may be too small for the heap: lower "
                           "GSHMEM_SYMMETRIC_SIZE or set GSHMEM_GDRCOPY=auto");
    if (absent) {
      GSHMEM_INFO("no GDRCopy, the copy engine serves the host: %s", error.what());
      return nullptr;
    }
    static std::atomic<bool> said{false};
    if (!said.exchange(true))
      GSHMEM_WARN(
          "GDRCopy does not map the heap, the copy engine serves the host instead "
          "(GSHMEM_GDRCOPY=off does without trying): %s",
          error.what());
  }
  return nullptr;
}

}  // namespace gshmem
