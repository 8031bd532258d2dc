// Fault records on the host: reading a record that a device thread wrote, writing one for an error
// that the host found (a dead peer, a failed call), and turning one into a sentence.
#pragma once

#include <gshmem/abi/fault.h>
#include <gshmem/gshmem.h>

#include "host/base/error.h"

#include <string>

namespace gshmem {

/// Returns one line that names call, argument and value, or what was waited for.
[[nodiscard]] std::string fault_message(const abi::FaultRecord& record);

/// Records a fault found by the host and stops every wait of this PE. Returns false when an earlier
/// fault is recorded. Pairs with device/core/fault.h.
bool fault_record(abi::Control* control, const abi::FaultRecord& fault) noexcept;

/// Copies the record to `*record` and returns true if there is one. Waits for a record that stops
/// this PE and is being written.
[[nodiscard]] bool fault_read(const abi::Control* control, abi::FaultRecord* record) noexcept;

}  // namespace gshmem
