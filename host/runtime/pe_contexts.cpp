// Contexts and queue handles of a PE: the calls that create and destroy them.
#include "host/base/log.h"
#include "host/runtime/pe.h"

#include <gshmem/device/ops/order.h>

#include <algorithm>

namespace gshmem {
ContextTable::DeviceMemory Pe::table_memory() {
  if (!gpu_) return {};
  return {[this](std::size_t bytes) { return gpu_->device_memory(bytes); },
          [this](void* to, const void* from, std::size_t bytes) { gpu_->copy(to, from, bytes); }};
}

void Pe::make_contexts() {
  contexts_ = std::make_unique<ContextTable>(table_memory());
  contexts_->enter(state_);
}

void Pe::quiet_context(const abi::DeviceState& context) {
  if (faults_.stopped()) return;
  GSHMEM_ORDER(checker->quiet(context, -1);)
  forget_calls();
  if (gpu_) {
    (void)gpu_->ops()->run(device::Call::quiet("gshmem_quiet", &context));
  } else {
    device::quiet(device::Thread{}, context);
  }
}

/// Completes the calls of a context. It reports no fault, so that finalize continues. Errors: that
/// of an operation which is not complete.
void Pe::complete(const abi::DeviceState& of) {
  device::Call call(device::CallKind::kQuietStatus, "gshmem_finalize");
  call.context = &of;
  faults_.require_complete(gpu_ ? static_cast<int>(gpu_->ops()->run(call))
                                : device::quiet_status(device::Thread{}, of, call.name));
}

void Pe::complete_contexts() {
  for (const std::int32_t handle : contexts_->open_handles()) {
    const abi::DeviceState* context = contexts_->find(handle);
    if (context && !faults_.stopped()) complete(*context);
  }
}

std::int32_t Pe::create_context(const char* call, ContextUse use, gshmem_team_t team) {
  ContextTable::Queues queues = contexts_->take(1);
  try {
    return contexts_->open(call, use, queues, team);
  } catch (...) {
    contexts_->release(queues);
    throw;
  }
}

void Pe::step_of(const char* call, const std::function<void()>& step) {
  int mine = GSHMEMX_SUCCESS;
  std::string why;
  try {
    step();
  } catch (const Error& error) {
    mine = error.code();
    why = error.what();
  } catch (const std::exception& error) {
    mine = GSHMEMX_ERROR_INTERNAL;
    why = std::string(call) + ": " + error.what();
  }
  const int agreed = agree_status(call, mine);
  if (mine != GSHMEMX_SUCCESS) throw Error(static_cast<gshmemx_status>(mine), why);
  require(agreed == GSHMEMX_SUCCESS, static_cast<gshmemx_status>(agreed),
          strprintf("%s: failed on another PE", call));
}

/// Makes more queues for contexts, as many as the PE with the fewest needs.
void Pe::add_queues(const char* call, std::size_t missing) {
  const std::vector<std::size_t> all = allgather(ranks(), missing);
  const auto count = static_cast<std::uint32_t>(*std::max_element(all.begin(), all.end()));
  if (count == 0) return;
  nic::QueueSet& queues = *network_.queues();
  std::vector<nic::ContextQueues> made;
  step_of(call, [&] { queues.create_more(count); });
  queues.exchange(ranks());
  step_of(call, [&] { made = queues.connect(); });
  contexts_->add(made);
}

std::vector<std::int32_t> Pe::create_queues(const char* call, int count) {
  const auto alone =
      heap_->enter(call, {"argument num_qps", static_cast<std::uint64_t>(std::int64_t{count}),
                          SharedArgument::Form::kSigned});
  std::vector<std::int32_t> handles;
  ContextTable::Queues queues;
  try {
    step_of(call, [&] {
      require(count >= 0, GSHMEMX_ERROR_INVALID_VALUE,
              strprintf("%s: argument num_qps = %d is negative", call, count));
      const std::size_t open = contexts_->open_handles().size();
      require(
          static_cast<std::size_t>(count) <= abi::kMaxContexts - open, GSHMEMX_ERROR_OUT_OF_MEMORY,
          strprintf("%s: argument num_qps = %d, but of %u contexts and queue handles %zu are in "
                    "use",
                    call, count, abi::kMaxContexts, open));
    });
    if (network_.queues()) {
      const auto wanted = static_cast<std::size_t>(count);
      queues = contexts_->take(wanted);
      add_queues(call, wanted - queues.size());
      const ContextTable::Queues more = contexts_->take(wanted - queues.size());
      queues.insert(queues.end(), more.begin(), more.end());
    }
    step_of(call, [&] {
      for (int i = 0; i < count; ++i) {
        handles.push_back(contexts_->open(call, ContextUse::kShared, queues));
      }
    });
  } catch (...) {
    for (const std::int32_t handle : handles) contexts_->close(handle);
    contexts_->release(queues);
    throw;
  }
  return handles;
}

void Pe::destroy_context(const char* call, const char* argument, std::int32_t handle) {
  require(handle != GSHMEM_CTX_DEFAULT, GSHMEMX_ERROR_INVALID_VALUE, [&] {
    return strprintf(
        "%s: argument %s = %d is the default context (GSHMEM_CTX_DEFAULT), which cannot be "
        "destroyed: it exists until finalize",
        call, argument, handle);
  });
  const abi::DeviceState* context = contexts_->find(handle);
  require(
      context != nullptr, GSHMEMX_ERROR_INVALID_VALUE,
      strprintf("%s: argument %s = %d is no open context or queue handle", call, argument, handle));
  quiet_context(*context);
  contexts_->close(handle);
}

}  // namespace gshmem
