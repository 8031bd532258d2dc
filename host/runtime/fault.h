// Fault records as the host sees them: reading what a device thread wrote, writing what the host
// found (a dead peer, a failed call), and saying it in a sentence.
#pragma once

#include <gshmem/abi/fault.h>
#include <gshmem/gshmem.h>

#include "host/base/error.h"

#include <string>

namespace gshmem {

/// One line that names call, argument and value, or what was waited for.
[[nodiscard]] std::string fault_message(const abi::FaultRecord& record);

/// Records a fault found by the host and stops every wait of this PE. False when an earlier fault
/// is there already. Pairs with device/core/fault.h.
bool fault_record(abi::Control* control, const abi::FaultRecord& fault) noexcept;

/// True when a complete record is there; copies it to `*record`.
[[nodiscard]] bool fault_read(const abi::Control* control, abi::FaultRecord* record) noexcept;

}  // namespace gshmem
