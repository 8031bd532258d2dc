// Lets PEs agree that they make the same call, with the same arguments, before it changes anything.
// Included by the calls that all PEs make.
#pragma once

#include "host/base/collectives.h"

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace gshmem {

/// A value that must be the same on all PEs.
struct SharedArgument {
  static constexpr std::uint64_t kNull = ~std::uint64_t{0};  ///< the offset of a null pointer
  enum class Form { kUnsigned, kSigned, kHeapOffset };

  const char* name;  ///< as an error calls it, for example "argument size"
  std::uint64_t value;
  Form form = Form::kUnsigned;
};
inline constexpr std::size_t kMostSharedArguments = 2;

/// Collective, and a barrier. Calls of one name have their arguments in one order. All PEs begin
/// with `call`. Errors: GSHMEMX_ERROR_SYMMETRY, which names the difference; those of `ranks`.
void require_same_call(Collectives& ranks, const char* call,
                       std::initializer_list<SharedArgument> arguments = {});

}  // namespace gshmem
