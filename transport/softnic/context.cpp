#include "transport/softnic/context.h"

#include "host/base/error.h"

namespace gshmem::soft {

void Context::complete(QueuePair& qp, CompletionQueue& cq, nic::Completion completion) {
  for (const VendorSyndromes& one : kVendorSyndromes) {
    if (!completion.error || completion.vendor_syndrome != 0) break;
    if (one.syndrome != completion.syndrome) continue;
    completion.vendor_syndrome = one.vendor;
    completion.hardware_syndrome = one.hardware;
  }
  if (cq.broken()) {
    qp.state = QpState::kError;
    return;
  }
  if (cq.write(completion)) {
    ++counters.cqes;
    return;
  }
  checker.violation(
      strprintf("completion queue 0x%x is full: completions of queue pair 0x%x are lost",
                cq.number(), qp.number));
  tell({DeviceEvent::Kind::kCqError, cq.number()});
  qp.state = QpState::kError;
}

}  // namespace gshmem::soft
