// Every function of functions.def and stream_functions.def, and for each the calls in which one
// argument is wrong, by the kind of that argument. The names of arguments determine their kinds: a
// function with an unknown name has no kind, which is an error. The tests make the calls: on a host
// thread (test_every_call.cpp) and in kernels (tests/device/faults/arguments.cu).
#pragma once

#include <gshmem/abi/fault.h>
#include <gshmem/device/core/machine.h>
#include <gshmem/gshmem.h>

#include <array>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace gshmem::spmd {

/// The arguments of a call, as 64 bits each.
using Raw = std::array<std::uint64_t, 8>;

/// A row of functions.def.
struct Function {
  const char* name;
  const char* names;  ///< "(dest, source, nelems, pe)"
  const char* call;   ///< "put(call, ...)"
  std::size_t unit;   ///< bytes of the type that the first pointer points to; 0 = void
};

/// A call, and the expected fault. Without one (`argument` is empty) it returns `result` if that is
/// checked.
struct Case {
  std::size_t function;
  Raw raw;
  std::string argument, value;
  bool has_result = false;
  std::uint64_t result = 0;

  /// Returns the text of the fault, or the call's name if there is none.
  [[nodiscard]] std::string text() const;
  /// Returns the difference from the expected state after the call; empty if there is none.
  [[nodiscard]] std::string complaint(const abi::FaultRecord& fault, std::uint64_t got) const;
};

/// Memory for the arguments of calls. Each part has 4096 bytes, filled by fill_ground().
struct Ground {
  static constexpr std::size_t kBytes = 4096;
  static constexpr std::size_t kSignal = 2048;                   // in the symmetric part
  static constexpr std::size_t kFetch = 1024, kIndices = 2048;   // in the local part
  static constexpr std::size_t kHandles = 3072, kValues = 3584;  // in the local part
  static constexpr std::size_t kLists = 1280;                    // in the local part
  /// Lists of two pieces in the local part. The second piece of those after the first two is wrong.
  enum List { kPut, kGet, kPutWrongDest, kGetWrongSource, kPutNoSource, kGetNoDest, kTooLarge };
  char *symmetric, *local;
  char *heap, *heap_end;  ///< the PE's heap, with the library's part

  /// Fills parts that are at these addresses, or will be. The symmetric part is zeros. The local
  /// part has only the values to compare with.
  static void fill(char* symmetric_part, char* local_part, char* symmetric_at, char* local_at) {
    std::memset(symmetric_part, 0, kBytes);
    std::memset(local_part, 0x55, kBytes);
    std::memset(local_part + kValues, 0, kBytes - kValues);
    const gshmemx_qp_handle_t handles[] = {GSHMEMX_QP_DEFAULT, 77};  // the second is not open
    std::memcpy(local_part + kHandles, handles, sizeof(handles));
    const gshmemx_piece_t none{nullptr, nullptr, 0};
    const gshmemx_piece_t lists[][2] = {{none, {symmetric_at, local_at, 4}},
                                        {none, {local_at, symmetric_at, 4}},
                                        {none, {local_at, local_at, 4}},
                                        {none, {local_at, local_at, 4}},
                                        {none, {symmetric_at, nullptr, 4}},
                                        {none, {nullptr, symmetric_at, 4}},
                                        {none, {symmetric_at, symmetric_at, SIZE_MAX}}};
    std::memcpy(local_part + kLists, lists, sizeof(lists));
  }
  [[nodiscard]] const void* list(List which) const {
    return local + kLists + static_cast<std::size_t>(which) * 2 * sizeof(gshmemx_piece_t);
  }
};

/// Returns all rows in their order, followed by those of stream_functions.def.
[[nodiscard]] const std::vector<Function>& functions();

/// Returns valid calls, calls of no elements, and calls with one wrong argument. Throws for an
/// argument without a kind.
[[nodiscard]] std::vector<Case> cases_of(std::size_t function, const Ground& ground);

template <class T>
GSHMEM_FN T from_raw(std::uint64_t raw) {
  if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<T>(raw);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(raw);
  } else {
    T value{};
    memcpy(&value, &raw, sizeof(T) < sizeof(raw) ? sizeof(T) : sizeof(raw));
    return value;
  }
}
template <class T>
GSHMEM_FN std::uint64_t to_raw(const T& value) {
  if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<std::uint64_t>(value);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<std::uint64_t>(value);
  } else {
    return 0;
  }
}

/// Calls `function` with the arguments in `raw`.
template <class Result, class... Arguments, std::size_t... kAt>
GSHMEM_FN std::uint64_t call_raw(Result (*function)(Arguments...),
                                 [[maybe_unused]] const std::uint64_t* raw,
                                 std::index_sequence<kAt...>) {
  if constexpr (std::is_void_v<Result>) {
    function(from_raw<Arguments>(raw[kAt])...);
    return 0;
  } else {
    return to_raw(function(from_raw<Arguments>(raw[kAt])...));
  }
}
template <class Result, class... Arguments>
GSHMEM_FN std::uint64_t call_raw(Result (*function)(Arguments...), const std::uint64_t* raw) {
  return call_raw(function, raw, std::make_index_sequence<sizeof...(Arguments)>());
}

}  // namespace gshmem::spmd
