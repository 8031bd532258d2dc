// Tests calls of libmlx5.so.1, linked by name as programs do.
#include "transport/softnic/tests/verbs_api_rig.h"
#include "transport/softnic/tests/verbs_devx.h"

#include <dlfcn.h>
#include <endian.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

using namespace verbs_test;

TEST_CASE("a page of doorbells has several registers, one of them without a window") {
  const Nic nic;
  const auto offset = [](const mlx5dv_devx_uar* uar) {
    return static_cast<char*>(uar->reg_addr) - static_cast<char*>(uar->base_addr);
  };
  struct Kind {
    std::uint32_t flags;
    std::vector<long> offsets;  // of one page, before the next one begins
  };
  for (const Kind& kind : {Kind{1u << 31, {0x800, 0x900, 0xa00, 0xb00}},
                           Kind{MLX5DV_UAR_ALLOC_TYPE_BF, {0x800, 0xa00}}}) {
    std::vector<mlx5dv_devx_uar*> uars;
    for (std::size_t i = 0; i < 2 * kind.offsets.size(); ++i) {
      uars.push_back(mlx5dv_devx_alloc_uar(nic.context, kind.flags));
      REQUIRE(uars.back() != nullptr);
      CHECK(offset(uars.back()) == kind.offsets[i % kind.offsets.size()]);
      CHECK(uars.back()->mmap_off == off_t{4096} * uars.back()->page_id);
      const bool same_page = i < kind.offsets.size();
      CHECK((uars.back()->page_id == uars.front()->page_id) == same_page);
      CHECK((uars.back()->base_addr == uars.front()->base_addr) == same_page);
    }
    // The register that has been free for the longest time is allocated next.
    const auto first = std::pair{uars.front()->page_id, uars.front()->reg_addr};
    for (mlx5dv_devx_uar* uar : uars) mlx5dv_devx_free_uar(uar);
    mlx5dv_devx_uar* again = mlx5dv_devx_alloc_uar(nic.context, kind.flags);
    REQUIRE(again != nullptr);
    CHECK(std::pair{again->page_id, again->reg_addr} == first);
    mlx5dv_devx_free_uar(again);
  }
  mlx5dv_devx_uar* one = mlx5dv_devx_alloc_uar(nic.context, MLX5DV_UAR_ALLOC_TYPE_NC);
  mlx5dv_devx_uar* other = mlx5dv_devx_alloc_uar(nic.context, MLX5DV_UAR_ALLOC_TYPE_NC);
  REQUIRE(one != nullptr);
  REQUIRE(other != nullptr);
  CHECK(one->reg_addr == other->reg_addr);
  CHECK(offset(one) == 0x800);
  mlx5dv_devx_free_uar(one);
  mlx5dv_devx_free_uar(other);
  errno = 0;
  CHECK(mlx5dv_devx_alloc_uar(nic.context, 2) == nullptr);
  CHECK(errno == EOPNOTSUPP);
}

TEST_CASE("user memory and event queues of DevX") {
  const Nic nic;
  const Pages memory = pages(8192);
  mlx5dv_devx_umem_in in{};
  in.addr = memory.get();
  in.size = 8192;
  in.access = kLocalWrite;
  in.pgsz_bitmap = 4096;
  mlx5dv_devx_umem* umem = mlx5dv_devx_umem_reg_ex(nic.context, &in);
  REQUIRE(umem != nullptr);
  CHECK(umem->umem_id != 0);
  CHECK(mlx5dv_devx_umem_dereg(umem) == 0);
  in.comp_mask = MLX5DV_UMEM_MASK_DMABUF;
  errno = 0;
  CHECK(mlx5dv_devx_umem_reg_ex(nic.context, &in) == nullptr);
  CHECK(errno == EOPNOTSUPP);
  CHECK(mlx5dv_devx_umem_reg(nic.context, memory.get(), 0, 0) == nullptr);
  for (const int access :
       {int{IBV_ACCESS_REMOTE_ATOMIC}, int{IBV_ACCESS_REMOTE_WRITE}, int{IBV_ACCESS_MW_BIND}}) {
    errno = 0;
    CHECK(mlx5dv_devx_umem_reg(nic.context, memory.get(), 64, static_cast<unsigned>(access)) ==
          nullptr);
    CHECK(errno == EINVAL);
  }
  for (const int access : {0, kLocalWrite, kLocalWrite | int{IBV_ACCESS_REMOTE_WRITE},
                           int{IBV_ACCESS_REMOTE_READ}, int{IBV_ACCESS_RELAXED_ORDERING}}) {
    INFO(access);
    umem = mlx5dv_devx_umem_reg(nic.context, memory.get(), 1, static_cast<unsigned>(access));
    REQUIRE(umem != nullptr);
    CHECK(mlx5dv_devx_umem_dereg(umem) == 0);
  }
  std::uint32_t eqn = 0;
  CHECK(mlx5dv_devx_query_eqn(nic.context, 0, &eqn) == 0);
  CHECK(eqn != 0);
  CHECK(mlx5dv_devx_query_eqn(nic.context,
                              static_cast<std::uint32_t>(nic.context->num_comp_vectors),
                              &eqn) == EINVAL);
}

TEST_CASE("the page size of user memory bounds where a queue may begin in it") {
  const Nic nic;
  constexpr std::size_t kBytes = 1 << 20;
  const Pages memory = pages(2 * kBytes);
  mlx5dv_devx_uar* uar = mlx5dv_devx_alloc_uar(nic.context, MLX5DV_UAR_ALLOC_TYPE_NC);
  REQUIRE(uar != nullptr);
  std::uint32_t eqn = 0;
  REQUIRE(mlx5dv_devx_query_eqn(nic.context, 0, &eqn) == 0);
  /// Does a CQ at offset 4096 work in memory registered with these pages? 0 is the call without a
  /// choice.
  const auto fits = [&](std::uint64_t pages_allowed, std::size_t bytes, std::size_t odd = 0) {
    mlx5dv_devx_umem_in in{};
    in.addr = static_cast<char*>(memory.get()) + odd;
    in.size = bytes;
    in.access = kLocalWrite;
    in.pgsz_bitmap = pages_allowed;
    mlx5dv_devx_umem* umem =
        pages_allowed == 0 ? mlx5dv_devx_umem_reg(nic.context, memory.get(), bytes, kLocalWrite)
                           : mlx5dv_devx_umem_reg_ex(nic.context, &in);
    REQUIRE(umem != nullptr);
    const Bytes command = create_cq(
        {.umem = umem->umem_id, .uar = uar->page_id, .eqn = eqn, .buffer = 4096, .record = 8});
    std::uint8_t out[0x10] = {};
    mlx5dv_devx_obj* cq =
        mlx5dv_devx_obj_create(nic.context, command.data(), command.size(), out, sizeof(out));
    if (cq != nullptr) CHECK(mlx5dv_devx_obj_destroy(cq) == 0);
    CHECK(mlx5dv_devx_umem_dereg(umem) == 0);
    return cq != nullptr;
  };
  CHECK_FALSE(fits(0, kBytes));
  CHECK_FALSE(fits(~0xfffull, kBytes));
  CHECK(fits(0x1000, kBytes));
  CHECK(fits(0x7f000, kBytes));          // up to 256 KiB, in steps of 4 KiB
  CHECK(fits(0, kBytes - 4096));         // it has only pages of 4 KiB
  CHECK_FALSE(fits(0, kBytes / 2));      // one page of 512 KiB
  CHECK_FALSE(fits(0x81000, kBytes));    // two of them, of which the largest is not allowed
  CHECK(fits(0x81000, kBytes - 65536));  // halved until the length is a multiple
  // It is halved until the size is allowed, too: the length is a multiple of 512 KiB already.
  CHECK(fits(0x201000, kBytes + kBytes / 2));
  CHECK_FALSE(fits(~0xfffull, kBytes / 2));
  CHECK(fits(~0xfffull, kBytes / 2, 64));  // does not begin with a page
  mlx5dv_devx_umem_in in{};
  in.addr = memory.get();
  in.size = kBytes;
  // No page as small as the host's, or none that a device supports.
  for (const std::uint64_t pages_allowed : {0x10000u, 0x800u, 0x1u, 0xfffu}) {
    in.pgsz_bitmap = pages_allowed;
    errno = 0;
    CHECK(mlx5dv_devx_umem_reg_ex(nic.context, &in) == nullptr);
    CHECK(errno == EINVAL);
  }
  mlx5dv_devx_free_uar(uar);
}

TEST_CASE("DevX calls refuse what the kernel refuses, and report what the firmware refuses") {
  const Nic nic;
  std::uint8_t in[0x110] = {}, out[0x10] = {};
  const auto opcode = [&](std::uint16_t code) {
    in[0] = static_cast<std::uint8_t>(code >> 8);
    in[1] = static_cast<std::uint8_t>(code);
  };
  opcode(0x500);
  CHECK(mlx5dv_devx_general_cmd(nic.context, in, sizeof(in), out, sizeof(out)) == EINVAL);
  opcode(0x777);  // the firmware gets it when all else is right
  CHECK(mlx5dv_devx_general_cmd(nic.context, in, 15, out, sizeof(out)) == EINVAL);
  CHECK(mlx5dv_devx_general_cmd(nic.context, in, 16, out, 15) == EINVAL);
  CHECK(mlx5dv_devx_general_cmd(nic.context, nullptr, 16, out, sizeof(out)) == EINVAL);
  CHECK(mlx5dv_devx_general_cmd(nic.context, in, 16, out, 16) == EREMOTEIO);
  opcode(0x777);
  CHECK(mlx5dv_devx_general_cmd(nic.context, in, sizeof(in), out, sizeof(out)) == EREMOTEIO);
  CHECK(out[0] == 0x2);
  opcode(0x800);
  mlx5dv_devx_obj* pd = mlx5dv_devx_obj_create(nic.context, in, 0x10, out, sizeof(out));
  REQUIRE(pd != nullptr);
  opcode(0x507);
  CHECK(mlx5dv_devx_obj_modify(pd, in, 0x10, out, sizeof(out)) == EINVAL);  // another object
  CHECK(mlx5dv_devx_obj_destroy(pd) == 0);
  opcode(0x100);
  errno = 0;
  CHECK(mlx5dv_devx_obj_create(nic.context, in, 0x10, out, sizeof(out)) == nullptr);
  CHECK(errno == EINVAL);
  const Pages memory = pages(4096);
  for (const int access : {int{IBV_ACCESS_REMOTE_WRITE}, int{IBV_ACCESS_ZERO_BASED}}) {
    errno = 0;
    CHECK(mlx5dv_devx_umem_reg(nic.context, memory.get(), 4096, static_cast<unsigned>(access)) ==
          nullptr);
    CHECK(errno == EINVAL);
  }
}
