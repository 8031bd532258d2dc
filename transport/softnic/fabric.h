// The wire between the processes of a host. It is a file of shared memory with a table of nodes
// (the devices of processes) and two packet rings for each ordered pair of nodes. One is for
// requests and one for replies, so that a reply never waits for a request. All-zero memory is an
// empty fabric, and rings that were never used take no memory. Numbers of queue pairs contain the
// node, so no other routing table is needed. Invariant: a node's number is not reused while any
// process of the fabric lives.
#pragma once

#include "host/base/fd.h"
#include "transport/softnic/ring.h"

#include <array>
#include <cstdint>
#include <memory>

namespace gshmem::soft {

inline constexpr std::uint32_t kMaxNodes = 64;
/// Queue pair numbers: node << 18 | local. Keys: (node << 18 | local) << 8 | tag.
inline constexpr std::uint32_t kLocalBits = 18;

class Fabric {
 public:
  /// Joins the fabric of `fd`, as a new node. Errors: EngineError when `fd` is not a fabric, or the
  /// fabric is full.
  explicit Fabric(int fd);
  ~Fabric();
  Fabric(const Fabric&) = delete;

  [[nodiscard]] static Fd make();
  /// Opens a fabric by name (shm_open). The first process that opens it creates it.
  [[nodiscard]] static Fd open_named(const char* name);

  [[nodiscard]] std::uint32_t node() const { return node_; }
  /// Returns the LID of a node. Fabrics start at different LIDs, so that a client can detect a LID
  /// of another fabric.
  [[nodiscard]] std::uint16_t lid_of(std::uint32_t node) const;
  [[nodiscard]] bool same_file(int fd) const;
  /// Does the node's process run? The call asks the system, which takes a few microseconds.
  [[nodiscard]] bool alive(std::uint32_t node) const;

  /// Returns null when there never was such a node.
  [[nodiscard]] Ring* request_to(std::uint32_t node) { return outgoing(node, kRequest); }
  [[nodiscard]] Ring* reply_to(std::uint32_t node) { return outgoing(node, kReply); }
  /// Returns a bitmap. Bit n: node n may have sent something.
  [[nodiscard]] std::uint64_t senders() const;
  [[nodiscard]] Ring& request_from(std::uint32_t node) { return incoming(node, kRequest); }
  [[nodiscard]] Ring& reply_from(std::uint32_t node) { return incoming(node, kReply); }

 private:
  enum Kind : std::uint32_t { kRequest, kReply };
  struct Header;
  struct Node;
  /// A ring, which is mapped at its first use.
  struct Slot {
    std::shared_ptr<void> memory;
    std::unique_ptr<Ring> ring;
  };

  void claim_node();
  Ring* outgoing(std::uint32_t node, Kind kind);
  Ring& incoming(std::uint32_t node, Kind kind);
  Ring& map(Slot& slot, std::uint32_t from, std::uint32_t to, Kind kind);

  Fd file_;
  Header* header_ = nullptr;
  std::uint32_t node_ = kMaxNodes;  ///< none yet
  std::array<std::array<Slot, 2>, kMaxNodes> outgoing_, incoming_;
};

}  // namespace gshmem::soft
