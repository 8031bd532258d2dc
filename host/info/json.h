// JSON of gshmem-info: members in the order in which they were put in. Included by what prints
// reports. Invariant: whatever strings it is given, the text is valid UTF-8; what is not becomes
// U+FFFD.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace gshmem::info {

using Json = nlohmann::ordered_json;

[[nodiscard]] inline std::string text_of(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace gshmem::info
