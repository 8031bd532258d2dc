// What fi_getinfo answers, for a time: providers of hardware that is not here, played by sockets.
// Used by tests of which provider is asked for what.
#pragma once

#include "transport/ofi/library.h"

#include <cstdint>
#include <functional>
#include <string>

namespace gshmem::test {

/// The one object, which get() gives out as const; it was not made so.
[[nodiscard]] ofi::Library& mutable_library();

/// In its scope fi_getinfo is `answer`; one at a time.
class GetinfoDouble {
 public:
  /// Puts what was found into the list, of which nothing is freed but by its owner; returns 0 or a
  /// negative libfabric error number.
  using Answer = std::function<int(std::uint32_t version, const fi_info* hints, fi_info** found)>;
  explicit GetinfoDouble(Answer answer);
  ~GetinfoDouble();
  GetinfoDouble(const GetinfoDouble&) = delete;
};

/// What `sockets` answers to these hints without FI_HMEM, by the name of `provider`. It takes
/// regions of GPU memory without looking at them. Only by its own name it can be opened.
int sockets_as(const std::string& provider, const fi_info* hints, fi_info** found);

}  // namespace gshmem::test
