// A job of one rank: every collective is a copy.
#include "bootstrap/bootstrap.h"

#include <cstring>

namespace gshmem::bootstrap {
namespace {

class Single final : public Bootstrap {
 public:
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 1; }
  const char* name() const noexcept override { return "single"; }
  void allgather(const void* send, void* recv, std::size_t bytes) override {
    if (bytes > 0) std::memmove(recv, send, bytes);
  }
  void barrier() override {}
  void abort(int, std::string_view) noexcept override {}
};

}  // namespace

std::unique_ptr<Bootstrap> create_single() { return std::make_unique<Single>(); }

}  // namespace gshmem::bootstrap
