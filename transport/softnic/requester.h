// The sending half of queue pairs: doorbells, fetch, execution in order, completion, and flush in
// the error state. requester.cpp has the stages of an operation, sender.cpp its packets and
// replies, dynamic.cpp the targets of an initiator, and gather.cpp the local memory.
// Invariant: completions of a queue pair come in the order of its entries; nothing after a failed
// operation is executed.
#pragma once

#include "transport/softnic/context.h"
#include "transport/softnic/local_memory.h"

#include <span>
#include <string>
#include <vector>

namespace gshmem::soft {

class Requester {
 public:
  explicit Requester(Context& context) : context_(context) {}

  /// Processes a doorbell: entries before `producer` (modulo 2^16) are written.
  void ring(QueuePair& qp, std::uint16_t producer);
  /// Uses the doorbell record as a doorbell, when the doorbell of another queue pair may have
  /// replaced it.
  void rescue(QueuePair& qp, std::int64_t now);
  /// Remarks on a rescue that no doorbell has confirmed.
  void end_rescue(QueuePair& qp);
  /// Compares the doorbell record with the doorbell.
  void check_record(QueuePair& qp, std::int64_t now);
  /// Continues the work of a queue pair. Returns true when something advanced.
  bool progress(QueuePair& qp, std::int64_t now);
  void on_reply(QueuePair& qp, const Packet& reply, const std::uint8_t* payload, std::int64_t now);
  /// Handles a reply that the network has lost.
  void on_lost(QueuePair& qp, const Packet& reply, std::int64_t now);
  /// Ends a batch of replies: data for GPU memory is made visible, and its WQEs are done.
  void settle(std::int64_t now);
  /// Drops everything that is queued or pending.
  void reset(QueuePair& qp);

 private:
  // requester.cpp
  bool fetch(QueuePair& qp, std::int64_t now);
  void take_missing(QueuePair& qp);
  void ring_by_record(QueuePair& qp);
  void take(QueuePair& qp, std::int64_t now);
  void inspect(QueuePair& qp, Operation& op);
  bool start(QueuePair& qp, std::int64_t now);
  bool may_start(const QueuePair& qp, const Operation& op, std::int64_t now) const;
  bool retire(QueuePair& qp, std::int64_t now);
  void check_slots(const QueuePair& qp, const Operation& op);
  void complete(QueuePair& qp, const Operation& op);
  bool flush(QueuePair& qp, std::int64_t now);
  void done(QueuePair& qp, Operation& op, std::int64_t now);
  /// Marks the operation as failed: it will complete with an error, in its turn.
  void set_failed(QueuePair& qp, Operation& op, std::uint8_t syndrome, std::uint8_t vendor = 0);
  /// Marks the operation as failed by a mistake of the client, which is a violation.
  void reject(QueuePair& qp, Operation& op, std::uint8_t syndrome, const std::string& why);

  // sender.cpp
  /// Returns false if the operation has to wait. Otherwise it is sent, done, or has failed.
  bool execute(QueuePair& qp, Operation& op, std::int64_t now);
  bool apply_rules(QueuePair& qp, Operation& op, std::int64_t now);
  bool check_local(QueuePair& qp, Operation& op);
  bool send(QueuePair& qp, Operation& op, std::int64_t now);
  bool send_piece(QueuePair& qp, Operation& op, Ring& ring, std::uint64_t pieces, std::int64_t now);
  bool number(QueuePair& qp, Operation& op);
  static Operation* find(QueuePair& qp, std::uint32_t psn, std::uint32_t epoch);
  void on_data(QueuePair& qp, Operation& op, const Packet& reply, const std::uint8_t* payload,
               std::int64_t now);
  void on_old(QueuePair& qp, Operation& op, std::uint64_t old, std::int64_t now);
  void try_again(QueuePair& qp, Operation& op, Condition condition, std::int64_t now,
                 std::uint32_t rnr_timer = 0);
  bool check_peer(QueuePair& qp, std::int64_t now);

  // dynamic.cpp
 public:
  /// Ends the connection of an initiator with its present target.
  void leave(QueuePair& qp);

 private:
  bool check_vector(QueuePair& qp, Operation& op);
  bool turn_to_target(QueuePair& qp, Operation& op);

  // unreliable.cpp
  bool send_datagram(QueuePair& qp, Operation& op, std::int64_t now);

  // gather.cpp
  bool gather(QueuePair& qp, Operation& op, std::uint64_t offset, std::uint8_t* to,
              std::uint64_t bytes, std::int64_t now);
  bool read_ahead(QueuePair& qp, Operation& op, std::uint64_t offset, std::int64_t now);
  [[nodiscard]] LocalMemory local(const QueuePair& qp,
                                  std::span<const nic::LocalPiece> pieces) const {
    return {context_.regions, qp.attributes.pd, pieces};
  }
  void arrived(QueuePair& qp, Operation& op, std::int64_t now);
  void land_trailing(QueuePair& qp, std::int64_t now);

  /// Identifies a WQE by the numbers that its reply repeats: meanwhile it may be gone, or sent
  /// again.
  struct Arrival {
    std::uint32_t qpn, epoch, psn;
  };

  Context& context_;
  std::vector<Arrival> arrivals_;  ///< for GPU memory, in this batch of replies
};

}  // namespace gshmem::soft
