// Reads registers of a PCI function from its configuration space, given as bytes of the file
// `config`. Included by checks. Layouts: PCI Express Base Specification, chapter 7, with the
// numbers of <linux/pci_regs.h>; the effect of ACS on packets: section 6.12 "Access Control
// Services".
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace gshmem::info {

/// Without CAP_SYS_ADMIN sysfs provides only the standard header.
inline constexpr std::size_t kHeaderBytes = 64;
/// Extended capabilities start after the part of conventional PCI.
inline constexpr std::size_t kExtendedStart = 256;

/// Bits of the ACS Control Register: PCI_ACS_RR, _CR, _EC, _DT.
enum AcsBits : std::uint16_t {
  kAcsRequestRedirect = 0x04,
  kAcsCompletionRedirect = 0x08,
  kAcsEgressControl = 0x20,
  kAcsDirectTranslated = 0x40,
};

/// Returns the ACS Control Register; nothing when the function has no such capability.
[[nodiscard]] std::optional<std::uint16_t> acs_control(std::string_view config);

/// Returns the Device Control Register of the PCI Express capability: PCI_EXP_DEVCTL.
[[nodiscard]] std::optional<std::uint16_t> device_control(std::string_view config);
inline constexpr std::uint16_t kEnableRelaxedOrdering = 0x10;
[[nodiscard]] constexpr int max_read_request_bytes(std::uint16_t device_control) {
  return 128 << (device_control >> 12 & 7);
}

}  // namespace gshmem::info
