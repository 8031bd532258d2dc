#include "host/tools/doctor/config_space.h"

namespace gshmem::info {
namespace {

/// Reads little-endian bytes, as in configuration space; 0 past the end.
std::uint32_t read_at(std::string_view config, std::size_t at, std::size_t bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = bytes; i-- > 0;) {
    const unsigned char byte =
        at + i < config.size() ? static_cast<unsigned char>(config[at + i]) : 0;
    value = value << 8 | byte;
  }
  return value;
}

constexpr std::size_t kSpaceBytes = 4096;
constexpr std::uint16_t kExtendedCapAcs = 0x0d;
constexpr std::uint8_t kCapExpress = 0x10;

}  // namespace

std::optional<std::uint16_t> acs_control(std::string_view config) {
  // A list that points back to itself ends after as many steps as there are entries.
  std::size_t at = kExtendedStart;
  for (std::size_t step = 0; step < (kSpaceBytes - kExtendedStart) / 4; ++step) {
    const std::uint32_t header = read_at(config, at, 4);
    if ((header & 0xffff) == kExtendedCapAcs) {
      return static_cast<std::uint16_t>(read_at(config, at + 6, 2));
    }
    at = header >> 20 & 0xffc;
    if (at < kExtendedStart) return {};
  }
  return {};
}

std::optional<std::uint16_t> device_control(std::string_view config) {
  std::size_t at = read_at(config, 0x34, 1) & 0xfc;
  for (std::size_t step = 0; step < 48 && at >= kHeaderBytes; ++step) {
    if (read_at(config, at, 1) == kCapExpress && at + 10 <= config.size()) {
      return static_cast<std::uint16_t>(read_at(config, at + 8, 2));
    }
    at = read_at(config, at + 1, 1) & 0xfc;
  }
  return {};
}

}  // namespace gshmem::info
