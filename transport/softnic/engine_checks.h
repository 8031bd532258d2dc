// Checks that control calls of the engine (engine.cpp, engine_targets.cpp) make of their arguments.
#pragma once

#include "host/base/error.h"
#include "transport/softnic/engine.h"

#include <cstdint>
#include <string>

namespace gshmem::soft {

// PRM, command status.
inline constexpr std::uint8_t kBadParameter = 0x3, kBadResource = 0x5, kBadResourceState = 0x9,
                              kNoResource = 0xf, kBadQpState = 0x10;

inline void check(bool ok, std::uint8_t status, const std::string& reason) {
  if (!ok) throw EngineError{status, reason};
}

template <class Map>
auto& find(Map& map, std::uint32_t number, const char* what) {
  const auto found = map.find(number);
  check(found != map.end(), kBadResource, strprintf("there is no %s 0x%x", what, number));
  return *found->second;
}

/// Requires a path MTU that the port of `profile` supports.
inline void check_mtu(std::uint32_t mtu, const Profile& profile) {
  check(mtu >= 256 && mtu <= profile.mtu && (mtu & (mtu - 1)) == 0, kBadParameter,
        strprintf("path MTU of %u bytes", mtu));
}

}  // namespace gshmem::soft
