#include "transport/nic/mlx5/prm.h"

namespace gshmem::nic::mlx5::prm {
namespace {

constexpr std::uint32_t mask_of(int high, int low) {
  return static_cast<std::uint32_t>((std::uint64_t{1} << (high - low + 1)) - 1);
}
std::uint32_t load(const std::uint8_t* at) {
  return static_cast<std::uint32_t>(at[0]) << 24 | static_cast<std::uint32_t>(at[1]) << 16 |
         static_cast<std::uint32_t>(at[2]) << 8 | at[3];
}
void store(std::uint8_t* at, std::uint32_t value) {
  for (int i = 0; i < 4; ++i) at[i] = static_cast<std::uint8_t>(value >> (24 - 8 * i));
}

}  // namespace

std::uint32_t get_bits(const std::uint8_t* word, int high, int low) noexcept {
  return load(word) >> low & mask_of(high, low);
}

void set_bits(std::uint8_t* word, int high, int low, std::uint64_t value, int byte, Where where) {
  const std::uint32_t mask = mask_of(high, low);
  require(value <= mask, GSHMEMX_ERROR_INTERNAL,
          strprintf("value %lu does not fit bits %d:%d at byte 0x%x of a device command", value,
                    high, low, byte),
          where);
  store(word, (load(word) & ~(mask << low)) | static_cast<std::uint32_t>(value) << low);
}

std::string status_words(std::uint32_t status) {
  struct Row {
    std::uint32_t status;
    const char* words;
  };
  static constexpr Row kRows[] = {
      {0x01, "internal error of the device; see dmesg"},
      {0x02,
       "the device does not know this command: its firmware is too old, or DevX is off for "
       "this function"},
      {0x03, "bad parameter"},
      {0x04, "bad state of the device; see dmesg"},
      {0x05, "it names a resource that does not exist or belongs to another process"},
      {0x06, "the resource is busy"},
      {0x08, "a limit of the device is exceeded: lower GSHMEM_QP_DEPTH or GSHMEM_QPS_PER_PE"},
      {0x09, "the resource is in a wrong state"},
      {0x0a, "an index is out of range"},
      {0x0f, "the device has no resources left: lower GSHMEM_QPS_PER_PE, or end other programs"},
      {0x10, "the queue pair is in a wrong state"},
      {0x30, "bad packet"},
      {0x40, "bad size"},
      {0x50, "the command is too short or too long for this firmware"},
      {0x51, "the answer is too short or too long for this firmware"},
  };
  for (const Row& row : kRows) {
    if (row.status == status) return strprintf("status 0x%02x: %s", status, row.words);
  }
  return strprintf("status 0x%02x", status);
}

}  // namespace gshmem::nic::mlx5::prm
