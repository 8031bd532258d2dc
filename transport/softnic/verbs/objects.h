// The objects to which the pointers of verbs clients point. Each begins with the public structure
// of <infiniband/verbs.h>, whose `handle` is the engine's number. Both libraries use them and are
// built together; a client sees the public part only.
#pragma once

#include "transport/softnic/engine.h"
#include "transport/softnic/verbs/firmware.h"
#include "transport/softnic/verbs/receive_buffers.h"
#include "transport/softnic/verbs/resources.h"
#include "transport/softnic/verbs/send_queue.h"
#include "transport/softnic/verbs/uar_pool.h"

#include "host/base/fd.h"

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

/// The result of mlx5dv_devx_obj_create.
struct mlx5dv_devx_obj {
  ibv_context* context;
  std::uint16_t created_by;  ///< opcode
  std::uint32_t number;
};

namespace gshmem::soft {

/// Opcodes of CREATE_CQ, CREATE_QP, CREATE_DCT and CREATE_RMP.
inline constexpr std::uint16_t kCreateCq = 0x400, kCreateQp = 0x500, kCreateDct = 0x710,
                               kCreateRmp = 0x90c;
/// Offset of the register in a UAR page (MLX5_BF_OFFSET in rdma-core).
inline constexpr std::size_t kRegisterOffset = 0x800;
/// The maximum number of pieces of a work request.
inline constexpr std::size_t kMaxPieces = 30;
inline constexpr std::uint32_t kCqeBytes = 64, kLongCqeBytes = 128;

struct SoftQp;
struct SoftCq;

struct ContextState {
  explicit ContextState(Engine& engine);
  ~ContextState();  // destroys what the client left in the engine
  ContextState(const ContextState&) = delete;

  Engine& engine;
  Resources resources;
  UarPool uars;
  Firmware firmware;
  Fd events_read, events_write;  ///< a pipe of ibv_async_event
  int listener = 0;

  /// Objects of verbs by number: completions and events find them here.
  std::mutex mutex;
  std::map<std::uint32_t, SoftQp*> qps;
  std::map<std::uint32_t, SoftCq*> cqs;

 private:
  void take(const DeviceEvent& event);
};

/// A context. The result of ibv_open_device points at verbs.context.
struct SoftContext {
  verbs_context verbs;  ///< first, so that the address of the context gives that of the whole
  ContextState* state;
  /// Functions that libmlx5 needs of libibverbs beyond its exports. `entry_bytes` is 64 or 128.
  ibv_cq_ex* (*create_cq)(ibv_context* context, const ibv_cq_init_attr_ex& wanted,
                          std::uint32_t entry_bytes);
  ibv_qp* (*create_dc)(ibv_qp_init_attr_ex& wanted, const mlx5dv_qp_init_attr& special);
};
inline SoftContext& context_of(ibv_context* context) {
  char* whole = reinterpret_cast<char*>(context) - offsetof(verbs_context, context);
  return *reinterpret_cast<SoftContext*>(whole);
}
inline ContextState& state_of(ibv_context* context) { return *context_of(context).state; }
inline Engine& engine_of(ibv_context* context) { return state_of(context).engine; }

/// Page-aligned memory of a queue that verbs has created: entries, then the doorbell record.
class QueueMemory {
 public:
  explicit QueueMemory(std::size_t entry_bytes);
  [[nodiscard]] void* entries() const { return memory_.get(); }
  [[nodiscard]] std::uint32_t* record() const {
    return reinterpret_cast<std::uint32_t*>(static_cast<char*>(memory_.get()) + record_offset_);
  }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::size_t record_offset_;
  std::unique_ptr<void, Free> memory_;
};

struct SoftPd {
  ibv_pd verbs;
  ibv_pd* parent;       ///< of a parent domain: the protection domain it stands for, else nullptr
  Resources::Use uses;  ///< of that
};
struct SoftMr {
  ibv_mr verbs;
  Resources::Use pd;
};
/// A completion channel: an eventfd that counts the completion queues in `waiting`.
struct SoftCompChannel {
  ibv_comp_channel verbs;
  Fd events;
  std::mutex mutex;
  std::deque<SoftCq*> waiting;
};
struct SoftCq {
  explicit SoftCq(std::size_t bytes) : memory(bytes) {}

  ibv_cq_ex verbs{};  ///< begins like ibv_cq
  QueueMemory memory;
  std::uint32_t log_entries = 0, entry_bytes = 0;
  std::uint32_t uar = 0;
  void* page = nullptr;
  std::uint32_t events_taken = 0;  ///< from the channel; guarded by verbs.mutex
  std::mutex mutex;                ///< of what follows
  std::uint32_t consumer = 0;      ///< entries polled
  std::uint32_t sequence = 0;      ///< of arming
  ibv_wc current{};                ///< of start_poll and next_poll
};
struct SoftSrq {
  explicit SoftSrq(std::size_t bytes) : memory(bytes) {}

  ibv_srq verbs{};
  Resources::Use pd;
  QueueMemory memory;
  std::uint32_t log_entries = 0, log_entry_bytes = 0;
  ibv_srq_attr attributes{};
  ReceiveBuffers receives;
};
/// The calls of libmlx5 for a DC initiator.
struct InitiatorCalls {
  mlx5dv_qp_ex verbs;
  SoftQp* qp;
};
struct SoftQp {
  explicit SoftQp(std::size_t bytes) : memory(bytes) {}

  ibv_qp_ex verbs{};  ///< begins with an ibv_qp
  InitiatorCalls mlx5{};
  Service service = Service::kReliable;
  bool is_target = false;            ///< a DC target: nothing of the rest but what it was made from
  std::uint64_t access_key = 0;      ///< of that
  std::vector<Resources::Use> uses;  ///< what `init` names, and its protection domain
  QueueMemory memory;                ///< receives, then sends
  std::uint32_t log_entries = 0;     ///< of the send queue
  std::uint32_t log_receives = 0, log_receive_bytes = 0;
  std::size_t receive_bytes = 0;  ///< 0: no receive queue of its own
  std::uint32_t uar = 0;
  void* page = nullptr;
  ibv_qp_attr attributes{};
  ibv_qp_init_attr init{};
  SendQueue send;
  ReceiveBuffers receives;  ///< of its own

  [[nodiscard]] std::uint8_t* send_entries() const {
    return static_cast<std::uint8_t*>(memory.entries()) + receive_bytes;
  }
};
struct SoftAh {
  ibv_ah verbs;
  mlx5_wqe_av vector;
  Resources::Use pd;
};

/// Returns the object whose public part is `verbs`.
template <class Soft, class Verbs>
Soft* whole(Verbs* verbs) {
  return reinterpret_cast<Soft*>(verbs);
}

/// Returns the errno for a command status: Linux drivers/net/ethernet/mellanox/mlx5/core/cmd.c.
[[nodiscard]] int errno_of(std::uint8_t status);

/// Thrown where a call has to fail with this errno.
struct CallError {
  int code;
};
inline void require_call(bool ok, int code) {
  if (!ok) throw CallError{code};
}

/// Errors: EINVAL when there is none.
[[nodiscard]] inline Resources::Use use(ibv_context* context, Resource kind, std::uint32_t number) {
  Resources::Use used = state_of(context).resources.use(kind, number);
  require_call(used != nullptr, EINVAL);
  return used;
}

/// Runs the body of a call that returns an errno value.
template <class Body>
int errno_call(Body&& body) noexcept {
  try {
    std::forward<Body>(body)();
    return 0;
  } catch (const CallError& error) {
    return error.code;
  } catch (const EngineError& error) {
    return errno_of(error.status);
  } catch (...) {
    return ENOMEM;
  }
}
/// Runs the body of a call that returns a pointer, or nullptr with errno.
template <class Body>
auto pointer_call(Body&& body) noexcept -> decltype(body()) {
  decltype(body()) result = nullptr;
  const int code = errno_call([&] { result = std::forward<Body>(body)(); });
  if (code != 0) errno = code;
  return code == 0 ? result : nullptr;
}

}  // namespace gshmem::soft
