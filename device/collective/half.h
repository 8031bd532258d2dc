// Arithmetic of the 16-bit floating types without CUDA, with the same results as with CUDA: values
// are widened to float, and rounded to nearest even.
#pragma once

#include <gshmem/types.h>

#include "../core/machine.h"

namespace gshmem::device {

GSHMEM_FN float widen(gshmem_bfloat16_t value) {
  return bits<float>(static_cast<std::uint32_t>(bits<std::uint16_t>(value)) << 16);
}
/// IEEE 754 binary16 has 5 bits of exponent and 10 of fraction.
GSHMEM_FN float widen(gshmem_half_t value) {
  const std::uint32_t raw = bits<std::uint16_t>(value);
  const std::uint32_t sign = (raw & 0x8000) << 16, magnitude = raw & 0x7fff;
  if (magnitude >= 0x7c00) return bits<float>(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
  // Subnormal values are normal as float: 2^-112 adjusts the exponent.
  constexpr float kRebias = 5.192296858534828e33f;
  const float scaled = bits<float>(magnitude << 13) * kRebias;
  return bits<float>(bits<std::uint32_t>(scaled) | sign);
}

GSHMEM_FN void narrow(float value, gshmem_bfloat16_t& to) {
  const std::uint32_t raw = bits<std::uint32_t>(value);
  const bool is_nan = (raw & 0x7fffffff) > 0x7f800000;
  const std::uint32_t rounded = is_nan ? raw | 0x400000 : raw + 0x7fff + (raw >> 16 & 1);
  to = bits<gshmem_bfloat16_t>(static_cast<std::uint16_t>(rounded >> 16));
}
GSHMEM_FN void narrow(float value, gshmem_half_t& to) {
  const std::uint32_t raw = bits<std::uint32_t>(value), magnitude = raw & 0x7fffffff;
  std::uint32_t half = 0;
  if (magnitude >= 0x47800000) {  // 2^16 and above, infinity, NaN
    half = magnitude > 0x7f800000 ? 0x7e00 : 0x7c00;
  } else if (magnitude < 0x38800000) {  // below 2^-14: the addition aligns and rounds
    half = bits<std::uint32_t>(bits<float>(magnitude) + 0.5f) - 0x3f000000;
  } else {
    half = (magnitude + 0xfff + (magnitude >> 13 & 1) - 0x38000000) >> 13;
  }
  to = bits<gshmem_half_t>(static_cast<std::uint16_t>((raw >> 16 & 0x8000) | half));
}

}  // namespace gshmem::device
