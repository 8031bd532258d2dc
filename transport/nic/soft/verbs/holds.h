// The objects that a queue uses while it is created: taken one by one, given back together unless
// the queue comes to be. Included by firmware_*.cpp only.
#pragma once

#include "transport/nic/soft/verbs/firmware_state.h"

#include <utility>
#include <vector>

namespace gshmem::soft {

class Holds {
 public:
  explicit Holds(FirmwareState& state) : state_(state) {}
  Holds(const Holds&) = delete;
  ~Holds() {
    for (const auto& [kind, number] : numbers_) state_.resources.release(kind, number);
    for (const std::uint32_t id : umems_) --state_.umems.at(id).users;
  }
  /// Errors: kBadResource with `check` when there is none.
  void number(Resource kind, std::uint32_t number, Check check, const char* reason) {
    numbers_.reserve(numbers_.size() + 1);
    demand(state_.resources.use(kind, number), Status::kBadResource, check, reason);
    numbers_.emplace_back(kind, number);
  }
  /// Address of the part. Errors: as umem_part.
  [[nodiscard]] void* umem(const UmemPlace& place, const char* what) {
    void* address = umem_part(state_, place, what);
    umems_.push_back(place.id);
    ++state_.umems.at(place.id).users;
    return address;
  }
  /// The queue exists: its record says from now on what it uses.
  void keep() noexcept {
    numbers_.clear();
    umems_.clear();
  }

 private:
  FirmwareState& state_;
  std::vector<std::pair<Resource, std::uint32_t>> numbers_;
  std::vector<std::uint32_t> umems_;
};

}  // namespace gshmem::soft
