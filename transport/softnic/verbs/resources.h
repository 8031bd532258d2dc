// Numbers that a context's client has been given by the engine: which exist, and which of them
// objects use. Both libraries work on the one of the context, so that a DevX command can name an
// object made by verbs. It is not destroyed while that lasts. Threads: any.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace gshmem::soft {

/// In the order in which a closing context destroys them; user memory is the firmware's.
enum class Resource : std::uint8_t { kQp, kDct, kCq, kSrq, kRegion, kUar, kPd, kUmem };

class Resources {
 public:
  enum class Removal { kRemoved, kUnknown, kBusy };
  /// Kept by an object for as long as it uses another one.
  using Use = std::shared_ptr<const void>;

  void add(Resource kind, std::uint32_t number);
  /// Null when it does not exist.
  [[nodiscard]] Use use(Resource kind, std::uint32_t number) const;
  /// Forgets it unless an object uses it.
  [[nodiscard]] Removal remove(Resource kind, std::uint32_t number);
  /// All of a kind, forgotten whether used or not.
  [[nodiscard]] std::vector<std::uint32_t> take(Resource kind);

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<Resource, std::uint32_t>, Use> all_;
};

}  // namespace gshmem::soft
