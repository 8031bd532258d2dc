// gshmem for C++20: RAII for init and symmetric memory, typed operations (context.hpp), many
// messages with one doorbell (burst.hpp), launches that run on GPUs and CPUs (launch.hpp). The C
// API may be mixed in freely.
#pragma once

#include "burst.hpp"
#include "launch.hpp"
#if defined(__CUDACC__)
#include <gshmem/device/api/register_bound_kernels.h>
#endif

#include <cstring>
#include <exception>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace gshmem {

/// A call failed; code() is a gshmemx_status.
class Failure : public std::runtime_error {
 public:
  Failure(int code, const std::string& what) : std::runtime_error(what), code_(code) {}
  [[nodiscard]] int code() const noexcept { return code_; }

 private:
  int code_;
};

/// Returns the recorded fault of the calling thread's PE (or why its init failed), as one line.
inline std::string last_fault_message() {
  gshmemx_fault_t fault;
  return gshmemx_last_fault(&fault) == GSHMEMX_SUCCESS ? "no fault recorded" : fault.message;
}

namespace detail {
/// Is an exception on its way through the scope of an object of this kind? Then its destructor
/// makes no collective call: other PEs make another one, and the job would end for that before the
/// exception is caught.
class Unwinding {
 public:
  explicit operator bool() const noexcept { return std::uncaught_exceptions() > before_; }

 private:
  int before_ = std::uncaught_exceptions();
};
}  // namespace detail

/// Init and finalize of one PE. Collective; it belongs to the thread that made it. When an
/// exception leaves its scope, a PE that is a process is not finalized: it leaves when the process
/// ends, and what catches the exception can say why.
class Runtime {
 public:
  /// Does what gshmem_init does, but throws Failure.
  Runtime() { init(GSHMEMX_INIT_DEFAULT, nullptr); }
  /// Does the same with attributes (gshmemx.h).
  Runtime(unsigned flags, gshmemx_init_attr_t& attr)
      : is_thread_((flags & GSHMEMX_INIT_THREAD_PES) != 0) {
    init(flags, &attr);
  }
  ~Runtime() {
    if (is_thread_ || !unwinding_) gshmem_finalize();
  }
  Runtime(const Runtime&) = delete;

  [[nodiscard]] int my_pe() const { return gshmem_my_pe(); }
  [[nodiscard]] int n_pes() const { return gshmem_n_pes(); }
  /// Returns true when heaps are on GPUs and launches are kernels.
  [[nodiscard]] bool on_gpu() const { return gshmemi_ambient()->ops != nullptr; }

 private:
  static void init(unsigned flags, gshmemx_init_attr_t* attr) {
    detail::check_headers(abi::kStateAbi);
    const int status = gshmemx_init_attr(flags, attr);
    if (status != GSHMEMX_SUCCESS) throw Failure(status, last_fault_message());
  }

  bool is_thread_ = false;
  detail::Unwinding unwinding_;
};

/// `count` elements of symmetric memory on every PE. Construction and destruction are collective.
/// When an exception leaves its scope the memory stays allocated.
template <Element T>
class SymmetricArray {
  static_assert(alignof(T) <= 128, "gshmem_malloc aligns to 128 bytes; use gshmem_align");

 public:
  enum class Fill { kNone, kZero };

  explicit SymmetricArray(std::size_t count, Fill fill = Fill::kZero) : count_(count) {
    // No heap has SIZE_MAX bytes. All PEs make the call, even with a count that overflows.
    const std::size_t bytes = count > SIZE_MAX / sizeof(T) ? SIZE_MAX : count * sizeof(T);
    void* memory = fill == Fill::kZero ? gshmem_calloc(count, sizeof(T)) : gshmem_malloc(bytes);
    if (!memory && count > 0) {
      throw Failure(GSHMEMX_ERROR_OUT_OF_MEMORY, "SymmetricArray of " + std::to_string(count) +
                                                     " elements of " + std::to_string(sizeof(T)) +
                                                     " bytes: no symmetric memory");
    }
    data_ = static_cast<T*>(memory);
  }
  SymmetricArray(SymmetricArray&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), count_(std::exchange(other.count_, 0)) {}
  SymmetricArray& operator=(SymmetricArray&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~SymmetricArray() {
    if (!unwinding_) gshmem_free(data_);
  }

  /// Returns the symmetric address, which put, get and kernels accept.
  [[nodiscard]] T* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }

  /// Copies PE `pe`'s elements to the host, or host elements to PE `pe`, beginning at `first`.
  /// Complete on return. Works in both modes. Throws Failure for elements outside of the array.
  void read(std::span<T> to, int pe, std::size_t first = 0) const {
    require_own("read", first, to.size());
    gshmem_getmem(to.data(), data_ + first, to.size_bytes(), pe);
  }
  void write(std::span<const T> from, int pe, std::size_t first = 0) {
    require_own("write", first, from.size());
    gshmem_putmem(data_ + first, from.data(), from.size_bytes(), pe);
    gshmem_quiet();
  }
  [[nodiscard]] std::vector<T> to_vector(int pe) const {
    std::vector<T> values(count_);
    read(values, pe);
    return values;
  }

 private:
  void require_own(const char* call, std::size_t first, std::size_t count) const {
    if (first <= count_ && count <= count_ - first) return;
    throw Failure(GSHMEMX_ERROR_INVALID_VALUE,
                  std::string("SymmetricArray::") + call + ": " + std::to_string(count) +
                      " elements, argument first = " + std::to_string(first) + ", of " +
                      std::to_string(count_));
  }

  T* data_ = nullptr;
  std::size_t count_ = 0;
  detail::Unwinding unwinding_;
};

/// Runs `body(runtime)` on `n_pes` threads of this process, each a PE of its own. Rethrows the
/// first exception after all threads have ended. If a body throws, its PE leaves, which the others
/// detect as in any job.
template <class Body>
void run_threads(int n_pes, const Body& body) {
  gshmemx_thread_world_t* world = gshmemx_thread_world_create(n_pes);
  if (!world)
    throw Failure(GSHMEMX_ERROR_INVALID_VALUE,
                  "gshmem::run_threads: argument n_pes = " + std::to_string(n_pes) +
                      " is less than 1, or too many");
  struct Call {
    const Body& body;
    gshmemx_thread_world_t* world;
    std::exception_ptr first;  // of the thread that has set `failed`
    bool failed;
  } call{body, world, nullptr, false};
  const auto run_pe = [](void* c, unsigned rank) {
    auto& [body_of_all, the_world, first, failed] = *static_cast<Call*>(c);
    try {
      gshmemx_init_attr_t attr = GSHMEMX_INIT_ATTR_INITIALIZER;
      (void)gshmemx_set_attr_thread_args(the_world, static_cast<int>(rank), &attr);
      Runtime runtime(GSHMEMX_INIT_THREAD_PES, attr);
      body_of_all(runtime);
    } catch (...) {
      if (!__atomic_test_and_set(&failed, __ATOMIC_RELAXED)) first = std::current_exception();
    }
  };
  const int error = gshmemi_run_threads(static_cast<unsigned>(n_pes), run_pe, &call);
  gshmemx_thread_world_destroy(world);
  if (error != 0) {
    throw std::runtime_error("gshmem::run_threads: " + std::to_string(n_pes) +
                             " threads could not be started: " + std::strerror(error));
  }
  if (call.first) std::rethrow_exception(call.first);
}

}  // namespace gshmem
