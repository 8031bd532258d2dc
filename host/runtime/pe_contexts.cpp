// Contexts and queue handles of a PE: the calls that make and destroy them.
#include "host/base/log.h"
#include "host/runtime/pe.h"

#include <gshmem/device/order.h>

#include <algorithm>

namespace gshmem {
namespace {

/// The board as a Bootstrap, after init: its collectives, in as many pieces as it takes.
class OverBoard final : public bootstrap::Bootstrap {
 public:
  OverBoard(p2p::Board& board, const abi::DeviceState& state, double timeout)
      : board_(board), rank_(state.my_pe), size_(state.n_pes), timeout_(timeout) {}
  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }
  const char* name() const noexcept override { return "board"; }
  void allgather(const void* send, void* recv, std::size_t bytes) override {
    constexpr std::size_t kPiece = p2p::Board::kPayloadBytes;
    std::vector<char> all(kPiece * static_cast<std::size_t>(size_));
    for (std::size_t at = 0; at < bytes; at += kPiece) {
      const std::size_t piece = std::min(kPiece, bytes - at);
      board_.allgather(static_cast<const char*>(send) + at, all.data(), piece, timeout_);
      for (std::size_t pe = 0; pe < static_cast<std::size_t>(size_); ++pe) {
        std::copy_n(all.data() + pe * piece, piece, static_cast<char*>(recv) + pe * bytes + at);
      }
    }
  }
  void barrier() override { board_.barrier(timeout_); }
  void abort(int, std::string_view) noexcept override {}

 private:
  p2p::Board& board_;
  int rank_, size_;
  double timeout_;
};

}  // namespace

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
  if (stopped()) return;
  if (gpu_) {
    gpu_->ops()->complete(context);
  } else {
    device::quiet(device::Thread{}, context);
  }
}

void Pe::require_complete(int status) const {
  if (status == GSHMEMX_SUCCESS) return;
  gshmemx_fault_t fault{};
  const bool known = last_fault(&fault);
  throw Error(static_cast<gshmemx_status>(status), known ? fault.message : status_text(status));
}

void Pe::quiet_contexts() {
  for (const std::int32_t handle : contexts_->open_handles()) {
    const abi::DeviceState* context = contexts_->find(handle);
    if (!context || stopped()) continue;
    if (gpu_) {
      gpu_->ops()->complete(*context);
    } else {
      require_complete(device::quiet_status(device::Thread{}, *context, "gshmem_finalize"));
    }
  }
}

std::int32_t Pe::create_context(const char* call, ContextUse use) {
  ContextTable::Queues queues = contexts_->take(1);
  try {
    return contexts_->open(call, use, queues);
  } catch (...) {
    contexts_->give_back(queues);
    throw;
  }
}

/// One step of a collective call on every PE; throws on all of them when it failed on any.
template <class Step>
void Pe::step_of(const char* call, const Step& step) {
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

/// More queues for contexts, as many as the PE needs that has the fewest.
void Pe::add_queues(const char* call, std::size_t missing) {
  OverBoard boot(*board_, state_, options_.config.timeout);
  const std::vector<std::size_t> all = bootstrap::allgather(boot, missing);
  const auto count = static_cast<std::uint32_t>(*std::max_element(all.begin(), all.end()));
  if (count == 0) return;
  std::vector<nic::ContextQueues> made;
  step_of(call, [&] { queues_->create_more(count); });
  queues_->exchange(boot);
  step_of(call, [&] { made = queues_->connect(); });
  contexts_->add(made);
}

std::vector<std::int32_t> Pe::create_queues(const char* call, int count) {
  const std::lock_guard lock(memory_mutex_);
  agree(call, static_cast<std::uint64_t>(static_cast<std::int64_t>(count)), 0);
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
    if (queues_) {
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
    contexts_->give_back(queues);
    throw;
  }
  return handles;
}

void Pe::destroy_context(const char* call, const char* argument, std::int32_t handle) {
  const abi::DeviceState* context = contexts_->find(handle);
  require(
      context != nullptr, GSHMEMX_ERROR_INVALID_VALUE,
      strprintf("%s: argument %s = %d is no open context or queue handle", call, argument, handle));
  quiet_context(*context);
  contexts_->close(handle);
}

}  // namespace gshmem
