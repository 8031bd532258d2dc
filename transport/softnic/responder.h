// The receiving half of queue pairs: checks requests in the order of the InfiniBand specification
// (9.7.4, "responder: receiving inbound request packets") and performs them on this process's
// memory. Invariant: a request that gets an error or "not ready" has changed nothing, except for
// the pieces of a message that came before.
#pragma once

#include "transport/softnic/context.h"
#include "transport/softnic/receiver.h"

#include <vector>

namespace gshmem::soft {

class Responder {
 public:
  explicit Responder(Context& context) : context_(context), receiver_(context) {}

  /// Processes a request. Returns false if there is no room for the reply; then it must be called
  /// again.
  [[nodiscard]] bool on_request(const Packet& request, const std::uint8_t* payload,
                                std::int64_t now);
  /// Continues the answers of a queue pair. Returns true when there may be more to do at once.
  bool progress(QueuePair& qp, std::int64_t now);
  /// Ends a batch of requests: writes to GPU memory are made visible and acknowledged.
  bool settle();
  /// Called when the queue pair is destroyed or reset. Unanswered requests have to be sent again.
  void abandon(QueuePair& qp);
  /// Ends a connection of a target.
  void drop(QueuePair& connection);

 private:
  /// Returns the number of a packet in the connection. The adversary decides by it, because it is
  /// the same in each run, while sequence numbers begin at any value.
  [[nodiscard]] static std::uint64_t place_of(const QueuePair& qp, const Packet& request) {
    return (request.psn - qp.rtr.receive_psn) & kPsnMask;
  }
  struct Fault {
    std::uint8_t syndrome = 0;
    const char* why = "";
  };
  struct Settling {
    Packet reply;
    MemoryAccess* memory;
    std::uint64_t losses;  ///< lost_writes() before the message
  };

  /// Returns why a part of a write does not continue its message, or null. All parts but the last
  /// one are as long as the path MTU, which is the same on both ends (InfiniBand 9.7.4.1.5 and
  /// 9.7.4.1.6).
  [[nodiscard]] static const char* malformed(const QueuePair& qp, const Packet& request);
  /// Returns the queue pair that sends a reply.
  [[nodiscard]] QueuePair* end_of(const Packet& request) const {
    return context_.end_of(request.target, request.source);
  }
  [[nodiscard]] Ring* replies_to(const Packet& request) const;
  void address(Packet& reply) const;
  [[nodiscard]] bool drops(const QueuePair& qp, const Packet& request) const;
  Packet* begin_reply(const Packet& request, PacketKind kind);
  bool reply(const Packet& request, PacketKind kind, std::uint8_t syndrome = 0,
             std::uint8_t vendor = 0);
  bool not_ready(const Packet& request, Condition condition);
  bool again(QueuePair& qp, const Packet& request, std::uint32_t back);
  void fail(QueuePair& qp, const Packet& request, const Fault& fault);
  const Region* target(const QueuePair& qp, const Packet& request, std::uint64_t address,
                       std::uint64_t bytes, Fault* fault) const;
  bool hold(QueuePair& qp, const Packet& request, const std::uint8_t* payload, std::int64_t now);
  void land_held(QueuePair& qp);
  [[nodiscard]] bool overtakes(const QueuePair& qp, const Packet& request) const;
  bool on_write(QueuePair& qp, const Packet& request, const std::uint8_t* payload,
                std::int64_t now);
  void write(QueuePair& qp, const Packet& request, const std::uint8_t* payload);
  bool no_receives(QueuePair& qp, const Packet& request);
  bool on_send(QueuePair& qp, const Packet& request, const std::uint8_t* payload);

  // trailing.cpp
  void push_older(std::uint64_t address, std::uint64_t bytes) const;
  bool trail(QueuePair& qp, const Packet& request, const std::uint8_t* payload);
  bool store(const QueuePair& qp, const Region& region, const Packet& request,
             const std::uint8_t* payload);
  void acknowledge(QueuePair& qp, const Packet& request, MemoryAccess* memory);
  void read(QueuePair& qp, const Packet& request, std::int64_t now);
  void atomic(QueuePair& qp, const Packet& request, std::int64_t now);
  bool send_data(QueuePair& qp, std::int64_t now);
  bool fetch(QueuePair& qp, PendingReply& pending, const Region& region, std::uint8_t* to,
             std::uint32_t bytes, std::int64_t now);
  bool read_ahead(QueuePair& qp, MemoryAccess& memory, std::int64_t now);

  // dynamic.cpp
  QueuePair* accept(const Packet& request);
  void on_leave(const Packet& request);

  // unreliable.cpp
  void on_unreliable(QueuePair& qp, const Packet& request, const std::uint8_t* payload);
  void on_datagram(const Packet& request, const std::uint8_t* payload);

  Context& context_;
  Receiver receiver_;
  std::vector<Settling> settling_;
  std::vector<Packet> orphans_;  ///< requests of queue pairs that are gone
};

}  // namespace gshmem::soft
