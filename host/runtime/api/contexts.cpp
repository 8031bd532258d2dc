#include <gshmem/gshmem.h>

#include "host/runtime/api/edge.h"

#include <algorithm>
#include <cstdlib>
#include <new>

using namespace gshmem;

namespace {

void require_open(const Pe& pe, const char* call, gshmem_ctx_t ctx) {
  require(ctx == GSHMEM_CTX_DEFAULT || pe.has_context(ctx), GSHMEMX_ERROR_INVALID_VALUE,
          [&] { return strprintf("%s: argument ctx = %d is not open", call, ctx); });
}

int create(const char* call, gshmem_team_t team, long options, gshmem_ctx_t* ctx) {
  if (ctx) *ctx = GSHMEM_CTX_INVALID;
  return guard_status([&] {
    constexpr long kOne = GSHMEM_CTX_PRIVATE | GSHMEM_CTX_SERIALIZED;
    Pe& pe = require_pe(call);
    require_not_null(call, "ctx", ctx);
    (void)pe.teams().require(call, "team", team);
    require((options & ~(kOne | GSHMEM_CTX_NOSTORE)) == 0, GSHMEMX_ERROR_INVALID_VALUE,
            strprintf("%s: argument options = %ld has bits that are not GSHMEM_CTX options", call,
                      options));
    const ContextUse use = (options & kOne) != 0 ? ContextUse::kExclusive : ContextUse::kShared;
    *ctx = pe.create_context(call, use, team);
  });
}

}  // namespace

extern "C" {

int gshmem_ctx_create(long options, gshmem_ctx_t* ctx) {
  return create("gshmem_ctx_create", GSHMEM_TEAM_WORLD, options, ctx);
}

int gshmem_team_create_ctx(gshmem_team_t team, long options, gshmem_ctx_t* ctx) {
  return create("gshmem_team_create_ctx", team, options, ctx);
}

void gshmem_ctx_destroy(gshmem_ctx_t ctx) {
  if (ctx == GSHMEM_CTX_INVALID) return;
  guard_release("gshmem_ctx_destroy",
                [&](Pe& pe) { pe.destroy_context("gshmem_ctx_destroy", "ctx", ctx); });
}

void gshmem_ctx_session_start(gshmem_ctx_t ctx, long options,
                              const gshmem_ctx_session_config_t* config, long config_mask) {
  if (ctx == GSHMEM_CTX_INVALID) return;
  constexpr const char* kCall = "gshmem_ctx_session_start";
  guard_call(kCall, [&](const Pe& pe) {
    require_open(pe, kCall, ctx);
    require((options & ~long{GSHMEM_CTX_SESSION_BATCH}) == 0, GSHMEMX_ERROR_INVALID_VALUE,
            strprintf("%s: argument options = %ld has bits that are not GSHMEM_CTX_SESSION options",
                      kCall, options));
    require((config_mask & ~long{GSHMEM_CTX_SESSION_TOTAL_OPS}) == 0, GSHMEMX_ERROR_INVALID_VALUE,
            strprintf("%s: argument config_mask = %ld has bits that are not GSHMEM_CTX_SESSION "
                      "fields",
                      kCall, config_mask));
    if (config_mask != 0) require_not_null(kCall, "config", config);
  });
}

void gshmem_ctx_session_stop(gshmem_ctx_t ctx) {
  if (ctx == GSHMEM_CTX_INVALID) return;
  constexpr const char* kCall = "gshmem_ctx_session_stop";
  guard_call(kCall, [&](const Pe& pe) { require_open(pe, kCall, ctx); });
}

int gshmem_ctx_get_team(gshmem_ctx_t ctx, gshmem_team_t* team) {
  if (!team) return -1;
  const Pe* pe = current_pe();
  *team = !pe                         ? GSHMEM_TEAM_INVALID
          : ctx == GSHMEM_CTX_DEFAULT ? GSHMEM_TEAM_WORLD
                                      : pe->context_team(ctx);
  return *team == GSHMEM_TEAM_INVALID ? -1 : 0;
}

int gshmemx_region_start(gshmemx_region_handle_t* handle, const gshmemx_region_attrs_t* attrs) {
  return guard_status([&] {
    constexpr const char* kCall = "gshmemx_region_start";
    Pe& pe = require_pe(kCall);
    require_not_null(kCall, "handle", handle);
    const std::uint32_t hints = attrs ? attrs->hints : std::uint32_t{GSHMEMX_REGION_HINT_NONE};
    require(device::are_region_hints(hints), GSHMEMX_ERROR_INVALID_VALUE,
            strprintf("%s: attrs->hints = %u has bits that are not GSHMEMX_REGION hints", kCall,
                      hints));
    const std::uint64_t opened = device::open_region(pe.region(), hints);
    require(opened != 0, GSHMEMX_ERROR_INVALID_VALUE,
            strprintf("%s: region %lu is open; stop it first", kCall,
                      device::open_handle(pe.region())));
    *handle = opened;
  });
}

int gshmemx_region_stop(gshmemx_region_handle_t region) {
  return guard_status([&] {
    constexpr const char* kCall = "gshmemx_region_stop";
    Pe& pe = require_pe(kCall);
    require(device::close_region(pe.region(), region), GSHMEMX_ERROR_INVALID_VALUE,
            strprintf("%s: argument region = %lu is not the open region", kCall, region));
  });
}

int gshmemx_qp_create(int num_qps, gshmemx_qp_handle_t** out_qp_array) {
  return guard_status([&] {
    constexpr const char* kCall = "gshmemx_qp_create";
    Pe& pe = require_pe(kCall);
    require_not_null(kCall, "out_qp_array", out_qp_array);
    const std::vector<std::int32_t> handles = pe.create_queues(kCall, num_qps);
    void* array = std::malloc(std::max<std::size_t>(handles.size(), 1) * sizeof(handles[0]));
    if (!array) throw std::bad_alloc();
    *out_qp_array = static_cast<gshmemx_qp_handle_t*>(array);
    std::ranges::copy(handles, *out_qp_array);
  });
}

int gshmemx_qp_destroy(int num_qps, const gshmemx_qp_handle_t* qps) {
  return guard_status([&] {
    constexpr const char* kCall = "gshmemx_qp_destroy";
    Pe& pe = require_pe(kCall);
    require(num_qps >= 0, GSHMEMX_ERROR_INVALID_VALUE,
            strprintf("%s: argument num_qps = %d is negative", kCall, num_qps));
    if (num_qps > 0) require_not_null(kCall, "qps", qps);
    for (int i = 0; i < num_qps; ++i) {
      require(pe.has_context(qps[i]), GSHMEMX_ERROR_INVALID_VALUE,
              strprintf("%s: argument qps[%d] = %d is no open queue handle", kCall, i, qps[i]));
      const auto first = std::find(qps, qps + i, qps[i]) - qps;
      require(first == i, GSHMEMX_ERROR_INVALID_VALUE,
              strprintf("%s: argument qps[%d] = %d is qps[%td], too", kCall, i, qps[i], first));
    }
    for (int i = 0; i < num_qps; ++i) pe.destroy_context(kCall, "qps", qps[i]);
  });
}

}  // extern "C"
