// Numbers that a context's client has been given by the engine: which exist, and how many objects
// use each. Both libraries work on the one of the context, so that a DevX command can name an
// object made by verbs. It is not destroyed while that lasts. Threads: any.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace gshmem::soft {

/// In the order in which a closing context destroys them.
enum class Resource : std::uint8_t { kQp, kCq, kSrq, kRegion, kUar, kPd };

class Resources {
 public:
  enum class Removal { kRemoved, kUnknown, kBusy };

  void add(Resource kind, std::uint32_t number);
  [[nodiscard]] bool has(Resource kind, std::uint32_t number) const;
  /// One more object uses it; false when it does not exist.
  [[nodiscard]] bool use(Resource kind, std::uint32_t number);
  void release(Resource kind, std::uint32_t number);
  /// Forgets it unless an object uses it.
  [[nodiscard]] Removal remove(Resource kind, std::uint32_t number);
  /// All of a kind, forgotten whether used or not.
  [[nodiscard]] std::vector<std::uint32_t> take(Resource kind);

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<Resource, std::uint32_t>, int> users_;
};

}  // namespace gshmem::soft
