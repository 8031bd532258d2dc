#include "transport/softnic/verbs/uar_pool.h"

namespace gshmem::soft {
namespace {

constexpr std::size_t kUarBytes = 4096;
/// MLX5_BF_OFFSET in rdma-core; what follows has room for two windows of 512 bytes.
constexpr std::size_t kFirstRegister = 0x800;

}  // namespace

// rdma-core providers/mlx5/verbs.c, mlx5_insert_dyn_uuars.
void UarPool::add_page(Kind kind) {
  const std::size_t page_bytes = engine_.device().profile.page_bytes;
  const auto uars = static_cast<std::uint32_t>(page_bytes / kUarBytes);
  void* page = nullptr;
  const std::uint32_t first = engine_.create_uar(&page, uars);
  // The register of queue pairs without a doorbell record is one of a UAR. As a word of memory it
  // keeps only the last store, and other stores are lost. So it has one user only.
  const std::size_t count = engine_.device().profile.no_record ? 1
                            : kind == Kind::kDedicated         ? 4
                                                               : 2;
  const std::size_t step = kind == Kind::kDedicated ? 0x100 : 0x200;
  std::vector<DoorbellRegister>& free = free_[static_cast<std::size_t>(kind)];
  for (std::uint32_t n = 0; n < uars; ++n) {
    resources_.add(Resource::kUar, first + n);
    for (std::size_t i = 0; i < count; ++i) {
      free.push_back({page, first + n, n * kUarBytes + kFirstRegister + i * step});
    }
  }
}

DoorbellRegister UarPool::take(Kind kind) {
  const std::lock_guard lock(mutex_);
  std::vector<DoorbellRegister>& free = free_[static_cast<std::size_t>(kind)];
  if (free.empty()) add_page(kind);
  const DoorbellRegister one = free.front();
  if (kind != Kind::kShared) free.erase(free.begin());
  return one;
}

void UarPool::give_back(Kind kind, const DoorbellRegister& one) {
  const std::lock_guard lock(mutex_);
  if (kind != Kind::kShared) free_[static_cast<std::size_t>(kind)].push_back(one);
}

}  // namespace gshmem::soft
