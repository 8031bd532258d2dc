// Writes that are acknowledged but not yet in memory, as on GPUs that do not order the writes of
// NICs. A read by the device pushes them (Context::push_writes). Invariant: a queue pair's writes
// take effect in their order, and none after newer data for the same address.
#include "transport/softnic/responder.h"

namespace gshmem::soft {

void Context::land(QueuePair& qp, std::int64_t now) const {
  while (!qp.landing.empty() && now >= qp.landing.front().until_ns) {
    const TrailingWrite& write = qp.landing.front();
    const char* why = "";
    // A region that was deregistered in the meantime is not read by anyone.
    const Region* region =
        regions.check(write.key, write.pd, kRemoteWrite, write.address, write.payload.size(), &why);
    if (region != nullptr) {
      static_cast<void>(region->memory->write(region->at(write.address), write.payload.data(),
                                              write.payload.size()));
      static_cast<void>(region->memory->flush());
    }
    qp.landing.pop_front();
  }
}

/// Stores a part late. Words are never late, so that they can overtake earlier writes. But a word
/// does not overtake older data for its own address.
bool Responder::trail(QueuePair& qp, const Packet& request, const std::uint8_t* payload) {
  constexpr std::uint64_t kWordBytes = 8;
  constexpr std::int64_t kTrailNs = 2'000'000;
  const std::uint64_t address = request.address + request.offset;
  if (request.length <= kWordBytes ||
      !context_.adversary.decides(Behaviour::kTrailingWrite, qp.ordinal, place_of(qp, request))) {
    push_older(address, request.payload_bytes);
    return false;
  }
  qp.landing.push_back({request.key,
                        qp.attributes.pd,
                        address,
                        {payload, payload + request.payload_bytes},
                        now_ns() + kTrailNs});
  context_.wake(qp);
  return true;
}

/// Stores all late data if some of it is for [address, address + bytes).
void Responder::push_older(std::uint64_t address, std::uint64_t bytes) const {
  if (!context_.adversary.may(Behaviour::kTrailingWrite)) return;
  for (const QueuePair* qp : context_.busy) {
    for (const TrailingWrite& write : qp->landing) {
      if (write.address < address + bytes && address < write.address + write.payload.size())
        return context_.push_writes();
    }
  }
}

}  // namespace gshmem::soft
