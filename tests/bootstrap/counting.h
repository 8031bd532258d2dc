// A bootstrap that counts the bytes that its rank sends and receives.
#pragma once

#include "bootstrap/bootstrap.h"

namespace gshmem::test {

class Counting final : public bootstrap::Bootstrap {
 public:
  /// Adds to `moved`, which must live longer.
  Counting(std::unique_ptr<Bootstrap> of, std::size_t& moved) : of_(std::move(of)), moved_(moved) {}
  int rank() const noexcept override { return of_->rank(); }
  int size() const noexcept override { return of_->size(); }
  const char* name() const noexcept override { return "counting"; }
  void allgather(const void* send, void* recv, std::size_t bytes) override {
    moved_ += bytes * (1 + static_cast<std::size_t>(size()));
    of_->allgather(send, recv, bytes);
  }
  void alltoall(const void* send, void* recv, std::size_t bytes) override {
    moved_ += bytes * 2 * static_cast<std::size_t>(size());
    of_->alltoall(send, recv, bytes);
  }
  void finish() noexcept override { of_->finish(); }
  void abort(int code, std::string_view reason) noexcept override { of_->abort(code, reason); }

 private:
  std::unique_ptr<Bootstrap> of_;
  std::size_t& moved_;
};

}  // namespace gshmem::test
