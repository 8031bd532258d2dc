// The wire between the processes of a host: a file of shared memory with a table of nodes
// (processes) and two packet rings for each ordered pair of them. One is for requests and one for
// replies, so that a reply never waits for a request. All-zero memory is an empty fabric and
// untouched rings take no memory. Numbers carry the node: that is the whole routing table.
// Invariant: a node's number is not used again while any process of the fabric lives.
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
  /// Takes part in the fabric of `fd`, as a new node. Errors: EngineError when `fd` is no fabric,
  /// or one that is full.
  explicit Fabric(int fd);
  ~Fabric();
  Fabric(const Fabric&) = delete;

  [[nodiscard]] static Fd make();
  /// A fabric by name (shm_open), made by the first process that comes.
  [[nodiscard]] static Fd open_named(const char* name);

  [[nodiscard]] std::uint32_t node() const { return node_; }
  /// Fabrics begin anywhere, so that a client of another one is not taken for one's own.
  [[nodiscard]] std::uint16_t lid_of(std::uint32_t node) const;
  [[nodiscard]] bool same_file(int fd) const;
  /// Whether the node's process runs. Asks the system: a few microseconds.
  [[nodiscard]] bool alive(std::uint32_t node) const;

  /// Null when there never was such a node.
  [[nodiscard]] Ring* request_to(std::uint32_t node) { return outgoing(node, kRequest); }
  [[nodiscard]] Ring* reply_to(std::uint32_t node) { return outgoing(node, kReply); }
  /// Bit n: node n may have sent something.
  [[nodiscard]] std::uint64_t senders() const;
  [[nodiscard]] Ring& request_from(std::uint32_t node) { return incoming(node, kRequest); }
  [[nodiscard]] Ring& reply_from(std::uint32_t node) { return incoming(node, kReply); }

 private:
  enum Kind : std::uint32_t { kRequest, kReply };
  struct Header;
  struct Node;
  /// A mapped ring, mapped at first use.
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
