// The ranks of a bootstrap with the connections that all their later collectives use.
#pragma once

#include "host/control/plane.h"

namespace gshmem::test {

class Connected final : public Collectives {
 public:
  Connected(std::unique_ptr<bootstrap::Bootstrap> boot, const Config& config)
      : boot_(std::move(boot)),
        config_(config),
        plane_(std::make_unique<control::Plane>(*boot_, config_, control::Plane::Callbacks{})) {}
  int rank() const noexcept override { return plane_->collectives().rank(); }
  int size() const noexcept override { return plane_->collectives().size(); }
  void allgather(const void* send, void* recv, std::size_t bytes) override {
    plane_->collectives().allgather(send, recv, bytes);
  }
  void alltoall(const void* send, void* recv, std::size_t bytes) override {
    plane_->collectives().alltoall(send, recv, bytes);
  }
  [[nodiscard]] bootstrap::Bootstrap& boot() { return *boot_; }
  [[nodiscard]] control::Plane& plane() { return *plane_; }
  /// This rank ends the job, and all others learn it.
  void end(const std::string& why) {
    plane_->monitor().ending({rank(), control::PeerEvent::kStopped, why});
  }

 private:
  std::unique_ptr<bootstrap::Bootstrap> boot_;
  Config config_;
  std::unique_ptr<control::Plane> plane_;
};

}  // namespace gshmem::test
