// Functions of libibverbs.so.1 that contexts point to, and the objects they work on.
#pragma once

#include "transport/nic/soft/verbs/objects.h"

#include <bit>

// verbs.h wraps these in inline functions; here they are defined.
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace gshmem::soft {

inline std::uint32_t log2_ceil(std::uint32_t n) {
  return n <= 1 ? 0 : static_cast<std::uint32_t>(std::bit_width(n - 1));
}

int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* out, std::size_t bytes);
int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* out, std::size_t bytes);
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attributes);
int get_srq_number(ibv_srq* srq, std::uint32_t* number);

/// The ports, GIDs and partition keys of a device that has one of each.
inline constexpr std::uint8_t kPort = 1;

}  // namespace gshmem::soft
