// The numbers that the engine has given to a context's client: which objects exist, and which of
// them others use. Both libraries work on the one of the context, so that a DevX command can name
// an object that verbs has created. An object cannot be destroyed while another one uses it.
// Threads: any.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace gshmem::soft {

/// The kinds are in the order in which a closing context destroys them. User memory belongs to the
/// firmware.
enum class Resource : std::uint8_t { kQp, kDct, kCq, kSrq, kRegion, kUar, kPd, kUmem };

class Resources {
 public:
  enum class Removal { kRemoved, kUnknown, kBusy };
  /// An object keeps it for as long as it uses another object.
  using Use = std::shared_ptr<const void>;

  void add(Resource kind, std::uint32_t number);
  /// Returns null when the object does not exist.
  [[nodiscard]] Use use(Resource kind, std::uint32_t number) const;
  /// Removes the object unless another one uses it.
  [[nodiscard]] Removal remove(Resource kind, std::uint32_t number);
  /// Removes all objects of a kind, whether used or not, and returns their numbers.
  [[nodiscard]] std::vector<std::uint32_t> take(Resource kind);

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<Resource, std::uint32_t>, Use> all_;
};

}  // namespace gshmem::soft
