// The backend "GSHMEM" of torch's symmetric memory, and the operations torch.ops.gshmem.
// gshmem/torch/__init__.py compiles it for the installed torch, without CUDA's headers. The device
// of a tensor decides whether a call is queued in torch's current stream, or made at once in CPU
// mode.
#include "symmetric_allocator.h"

#include <torch/library.h>

#include <functional>
#include <string_view>

// Torch's function that makes allocators for its pools of CUDA memory, without CUDA's headers. A
// torch without CUDA does not have it.
struct CUstream_st;
namespace c10::cuda::CUDACachingAllocator {
class CUDAAllocator;
}
namespace torch::cuda::CUDAPluggableAllocator {
__attribute__((weak)) std::shared_ptr<c10::cuda::CUDACachingAllocator::CUDAAllocator>
createCustomAllocator(std::function<void*(std::size_t, int, CUstream_st*)> take,
                      std::function<void(void*, std::size_t, int, CUstream_st*)> give);
}

namespace gshmem_torch {
namespace {

Allocator& allocator_of(c10::DeviceType type) {
  static Allocator& cpu = *c10::make_intrusive<Allocator>(c10::DeviceType::CPU).release();
  static Allocator& cuda = *c10::make_intrusive<Allocator>(c10::DeviceType::CUDA).release();
  return type == c10::DeviceType::CPU ? cpu : cuda;
}

/// A tensor of an operation, with the data that its group has about it. The first operand of a
/// group makes a rendezvous.
struct Operand {
  Operand(const at::Tensor& tensor, const std::string& group_name, const char* name,
          bool is_signal = false)
      : address(static_cast<char*>(tensor.data_ptr())), bytes(tensor.nbytes()) {
    TORCH_CHECK(tensor.is_contiguous(), name, " has gaps: it has to be contiguous");
    Allocator& allocator = allocator_of(tensor.device().type());
    void* storage = tensor.storage().data_ptr().get();
    handle = is_signal ? allocator.rendezvous_word(storage, group_name)
                       : allocator.rendezvous(storage, group_name);
    TORCH_CHECK(handle, name,
                " is not in GSHMEM's symmetric memory: make it with symm_mem.empty() after ",
                "symm_mem.set_backend(\"GSHMEM\")");
    memory = static_cast<Memory*>(handle.get());
    TORCH_CHECK(memory->group().alike, name,
                " has another offset on another rank: a collective needs tensors that all ",
                "ranks have allocated in the same order; after gshmem.torch.reserve() that is ",
                "so for the next ones");
    stream = current_stream(tensor.device());
  }

  std::size_t members() const { return static_cast<std::size_t>(memory->get_world_size()); }

  char* address;
  std::size_t bytes;
  c10::intrusive_ptr<symm::SymmetricMemory> handle;
  Memory* memory;
  gshmemx_stream_t stream;
};

gshmem_team_t team_of(const Operand& operand) {
  return Groups::get().team_of(*operand.memory->group().members, operand.memory->get_device());
}

/// Checks that `part` does not overlap `whole`, or is this rank's own part of it, which begins at
/// `own`. If `own` is null, no overlap is allowed.
void check_overlap(const Operand& whole, const Operand& part, const char* own, const char* call) {
  const bool apart =
      whole.address + whole.bytes <= part.address || part.address + part.bytes <= whole.address;
  TORCH_CHECK(apart || (own && part.address == own), call, ": input and out overlap",
              own ? ", and not in this rank's own part" : "");
}

void check_status(int status, const char* call) {
  check_fault();
  TORCH_CHECK(status == 0, call, ": ", gshmemx_status_string(status));
}

/// Synchronizes the streams of the members. Otherwise a collective could write to the `out` of a
/// member that has not entered yet, whose stream may still use it.
gshmem_team_t enter(const Operand& operand, const char* call) {
  const gshmem_team_t team = team_of(operand);
  check_status(gshmemx_team_sync_on_stream(team, operand.stream), call);
  return team;
}

// --- Reductions
// --------------------------------------------------------------------------------------------------------

using Reduction = int (*)(gshmem_team_t, void*, const void*, std::size_t, gshmemx_stream_t);

#define GSHMEM_TORCH_REDUCTION(NAME, T, OP, KIND)                                                  \
  if (op == #OP) {                                                                                 \
    return [](gshmem_team_t team, void* dest, const void* source, std::size_t n,                   \
              gshmemx_stream_t stream) {                                                           \
      return gshmemx_##NAME##_##OP##_##KIND##_on_stream(team, static_cast<T*>(dest),               \
                                                        static_cast<const T*>(source), n, stream); \
    };                                                                                             \
  }
#define GSHMEM_TORCH_TYPE(SCALAR, NAME, T, KIND) \
  case c10::ScalarType::SCALAR:                  \
    GSHMEM_TORCH_REDUCTION(NAME, T, sum, KIND)   \
    GSHMEM_TORCH_REDUCTION(NAME, T, prod, KIND)  \
    GSHMEM_TORCH_REDUCTION(NAME, T, min, KIND)   \
    GSHMEM_TORCH_REDUCTION(NAME, T, max, KIND)   \
    break;
#define GSHMEM_TORCH_TYPES(KIND)                                 \
  GSHMEM_TORCH_TYPE(Float, float, float, KIND)                   \
  GSHMEM_TORCH_TYPE(Double, double, double, KIND)                \
  GSHMEM_TORCH_TYPE(Half, half, gshmem_half_t, KIND)             \
  GSHMEM_TORCH_TYPE(BFloat16, bfloat16, gshmem_bfloat16_t, KIND) \
  GSHMEM_TORCH_TYPE(Byte, uint8, std::uint8_t, KIND)             \
  GSHMEM_TORCH_TYPE(Char, int8, std::int8_t, KIND)               \
  GSHMEM_TORCH_TYPE(Short, int16, std::int16_t, KIND)            \
  GSHMEM_TORCH_TYPE(Int, int32, std::int32_t, KIND)              \
  GSHMEM_TORCH_TYPE(Long, int64, std::int64_t, KIND)

Reduction reduction(c10::ScalarType type, std::string_view op, bool scatter) {
  if (op == "avg") op = "sum";
  if (scatter) {
    switch (type) {
      GSHMEM_TORCH_TYPES(reducescatter)
      default:
        break;
    }
  } else {
    switch (type) {
      GSHMEM_TORCH_TYPES(reduce)
      default:
        break;
    }
  }
  TORCH_CHECK(false, "reduce_op '", op, "' of ", type,
              ": there are sum, avg, prod, min and max of real numbers");
}

at::Tensor reduce_to(const at::Tensor& input, const std::string& op, const std::string& group,
                     at::Tensor out, bool scatter) {
  const char* call = scatter ? "reduce_scatter" : "all_reduce";
  const Reduction reduce = reduction(input.scalar_type(), op, scatter);
  TORCH_CHECK(op != "avg" || c10::isFloatingType(input.scalar_type()), call,
              ": reduce_op 'avg' is for floating-point numbers, and input has ",
              input.scalar_type());
  const Operand source(input, group, "input"), dest(out, group, "out");
  TORCH_CHECK(out.scalar_type() == input.scalar_type(), call, ": out has ", out.scalar_type(),
              ", input ", input.scalar_type());
  const std::size_t count = static_cast<std::size_t>(out.numel());
  TORCH_CHECK(source.bytes == dest.bytes * (scatter ? source.members() : 1), call, ": input has ",
              source.bytes, " bytes, out ", dest.bytes);
  const auto rank = static_cast<std::size_t>(source.memory->get_rank());
  check_overlap(source, dest, source.address + (scatter ? rank * dest.bytes : 0), call);
  // In place, no member can write before all have entered, because it reads the elements of all.
  // Whether a call is in place is the same on all members, unless each has another part.
  const bool in_place = !scatter && dest.address == source.address;
  const gshmem_team_t team = in_place ? team_of(source) : enter(source, call);
  check_status(reduce(team, dest.address, source.address, count, source.stream), call);
  if (op == "avg") out.div_(static_cast<std::int64_t>(source.members()));
  return out;
}

at::Tensor all_reduce_out(const at::Tensor& input, std::string op, std::string group,
                          at::Tensor out) {
  return reduce_to(input, op, group, std::move(out), false);
}

at::Tensor all_reduce(at::Tensor tensor, std::string op, std::string group) {
  return reduce_to(tensor, op, group, tensor, false);
}

at::Tensor reduce_scatter_out(const at::Tensor& input, std::string op, std::string group,
                              at::Tensor out) {
  return reduce_to(input, op, group, std::move(out), true);
}

// --- Other collectives
// -------------------------------------------------------------------------------------------------

at::Tensor all_gather_out(const at::Tensor& input, std::string group, at::Tensor out) {
  const Operand source(input, group, "input"), dest(out, group, "out");
  TORCH_CHECK(dest.bytes == source.bytes * source.members(), "all_gather: input has ", source.bytes,
              " bytes, out ", dest.bytes);
  const auto rank = static_cast<std::size_t>(source.memory->get_rank());
  check_overlap(dest, source, dest.address + rank * source.bytes, "all_gather");
  const gshmem_team_t team = enter(source, "all_gather");
  check_status(gshmemx_fcollectmem_on_stream(team, dest.address, source.address, source.bytes,
                                             source.stream),
               "all_gather");
  return out;
}

at::Tensor all_to_all(const at::Tensor& input, at::Tensor out, std::string group) {
  const Operand source(input, group, "input"), dest(out, group, "out");
  TORCH_CHECK(source.bytes == dest.bytes && source.bytes % source.members() == 0,
              "all_to_all: input has ", source.bytes, " bytes and out ", dest.bytes, ", for ",
              source.members(), " ranks");
  check_overlap(source, dest, nullptr, "all_to_all");
  const gshmem_team_t team = enter(source, "all_to_all");
  check_status(gshmemx_alltoallmem_on_stream(team, dest.address, source.address,
                                             source.bytes / source.members(), source.stream),
               "all_to_all");
  return out;
}

at::Tensor broadcast(at::Tensor tensor, std::int64_t root, std::string group) {
  const Operand all(tensor, group, "tensor");
  TORCH_CHECK(root >= 0 && root < all.memory->get_world_size(), "broadcast: root ", root,
              " is out of range [0, ", all.members(), ")");
  const gshmem_team_t team = enter(all, "broadcast");
  check_status(gshmemx_broadcastmem_on_stream(team, all.address, all.address, all.bytes,
                                              static_cast<int>(root), all.stream),
               "broadcast");
  return tensor;
}

/// Sends rows of `input` to the ranks: `in_splits[r]` of them to rank r. `out_splits_offsets` gets
/// the number of rows from each rank, and the row of `out` at which they begin. The host needs the
/// splits to decide which rows to get, so it waits for them.
void all_to_all_vdev(const at::Tensor& input, at::Tensor out, const at::Tensor& in_splits,
                     at::Tensor out_splits_offsets, std::string group) {
  const Operand source(input, group, "input"), dest(out, group, "out"),
      splits(in_splits, group, "in_splits");
  const std::size_t n = source.members();
  const auto me = static_cast<std::size_t>(source.memory->get_rank());
  TORCH_CHECK(in_splits.scalar_type() == at::kLong &&
                  out_splits_offsets.scalar_type() == at::kLong &&
                  in_splits.numel() == static_cast<std::int64_t>(n) &&
                  out_splits_offsets.numel() == static_cast<std::int64_t>(2 * n),
              "all_to_all_vdev: in_splits has an int64 for each rank, out_splits_offsets two");
  TORCH_CHECK(input.scalar_type() == out.scalar_type() && input.dim() > 0 && out.dim() > 0 &&
                  input.stride(0) == out.stride(0),
              "all_to_all_vdev: rows of input and of out differ");
  const auto row = static_cast<std::size_t>(input.stride(0)) * input.element_size();
  const gshmem_team_t team = team_of(source);
  check_status(gshmemx_barrier_on_stream(team, source.stream), "all_to_all_vdev");
  in_splits.cpu();  // waits for the stream: now the splits of all ranks are there
  at::Tensor result = at::empty({2, static_cast<std::int64_t>(n)}, at::kLong);
  auto* counts = result.data_ptr<std::int64_t>();
  std::int64_t offset = 0;
  for (std::size_t rank = 0; rank < n; ++rank) {
    const int pe = source.memory->group().pes[rank];
    std::vector<std::int64_t> theirs(n);
    gshmem_getmem(theirs.data(), splits.address, n * sizeof(std::int64_t), pe);
    std::int64_t first = 0;
    for (std::size_t before = 0; before < me; ++before) first += theirs[before];
    TORCH_CHECK(first >= 0 && theirs[me] >= 0 && offset + theirs[me] <= out.size(0) &&
                    first + theirs[me] <= input.size(0),
                "all_to_all_vdev: rank ", rank, " has ", theirs[me],
                " rows for this one from its row ", first, " on; there is room in out from row ",
                offset, " on");
    gshmemx_getmem_on_stream(dest.address + static_cast<std::size_t>(offset) * row,
                             source.address + static_cast<std::size_t>(first) * row,
                             static_cast<std::size_t>(theirs[me]) * row, pe, source.stream);
    counts[rank] = theirs[me];
    counts[n + rank] = offset;
    offset += theirs[me];
  }
  check_status(gshmemx_barrier_on_stream(team, source.stream), "all_to_all_vdev");
  out_splits_offsets.copy_(result.view_as(out_splits_offsets));
}

// --- One-sided
// ---------------------------------------------------------------------------------------------------------
// `peer` is a rank of the group. The tensor is the same on both sides, as in torch's operations for
// NVSHMEM.

struct OneSided {
  OneSided(const at::Tensor& tensor, std::int64_t peer, const std::string& group,
           bool is_signal = false)
      : mine(tensor, group, is_signal ? "signal" : "tensor", is_signal),
        theirs(mine.memory->symmetric(static_cast<int>(peer), mine.address)),
        pe(mine.memory->group().pes[static_cast<std::size_t>(peer)]) {}
  Operand mine;
  char* theirs;
  int pe;
};

/// Puts this rank's content to the peer. It is complete at the peer after a barrier.
void put(const at::Tensor& tensor, std::int64_t peer, std::string group) {
  const OneSided call(tensor, peer, group);
  gshmemx_putmem_on_stream(call.theirs, call.mine.address, call.mine.bytes, call.pe,
                           call.mine.stream);
  check_fault();
}

void get(at::Tensor tensor, std::int64_t peer, std::string group) {
  const OneSided call(tensor, peer, group);
  gshmemx_getmem_on_stream(call.mine.address, call.theirs, call.mine.bytes, call.pe,
                           call.mine.stream);
  check_fault();
}

/// Returns the word of a signal at `address`, which is on a PE. It has the same offset in the block
/// on all PEs.
std::uint64_t* signal_word(const Operand& signal, char* address) {
  TORCH_CHECK(
      signal.bytes >= sizeof(std::uint64_t) &&
          reinterpret_cast<std::uintptr_t>(address) % alignof(std::uint64_t) == 0,
      "signal has ", signal.bytes, " bytes at ", static_cast<void*>(address),
      ": it takes the first 8 bytes of a tensor or a signal pad, at an address that 8 divides");
  return reinterpret_cast<std::uint64_t*>(address);
}

/// Puts the content, and then sets the peer's `signal` to `value`.
void put_with_signal(const at::Tensor& tensor, const at::Tensor& signal, std::int64_t value,
                     std::int64_t peer, std::string group) {
  const OneSided call(tensor, peer, group), word(signal, peer, group, true);
  gshmemx_putmem_signal_on_stream(
      call.theirs, call.mine.address, call.mine.bytes, signal_word(word.mine, word.theirs),
      static_cast<std::uint64_t>(value), GSHMEM_SIGNAL_SET, call.pe, call.mine.stream);
  check_fault();
}

/// Waits until this rank's `signal` is `value`.
void wait_for_signal(const at::Tensor& signal, std::int64_t value, std::string group) {
  const Operand mine(signal, group, "signal", true);
  gshmemx_signal_wait_until_on_stream(signal_word(mine, mine.address), GSHMEM_CMP_EQ,
                                      static_cast<std::uint64_t>(value), mine.stream);
  check_fault();
}

void reserve(std::int64_t bytes, c10::Device device) {
  TORCH_CHECK(bytes > 0, "reserve: ", bytes, " bytes");
  Pool::get().reserve(static_cast<std::size_t>(bytes), device);
}

/// Lets symm_mem.get_mempool_allocator() use the memory of the chosen backend. In torch 2.9 it
/// refuses all backends but NVSHMEM. An allocator begins with its base class, c10::Allocator.
void register_mempool_allocator() {
  if (!torch::cuda::CUDAPluggableAllocator::createCustomAllocator) return;
  const auto allocator = torch::cuda::CUDAPluggableAllocator::createCustomAllocator(
      [](std::size_t bytes, int device, CUstream_st*) {
        return symm::get_allocator(c10::DeviceType::CUDA)->alloc(bytes, device, std::nullopt);
      },
      [](void* ptr, std::size_t, int, CUstream_st*) {
        symm::get_allocator(c10::DeviceType::CUDA)->free(ptr);
      });
  auto* base = reinterpret_cast<c10::Allocator*>(allocator.get());
  symm::register_mempool_allocator(c10::DeviceType::CUDA,
                                   std::shared_ptr<c10::Allocator>(allocator, base));
}

}  // namespace

// The device of a tensor does not change the dispatch key: all tensors use the same functions.
TORCH_LIBRARY(gshmem, m) {
  const auto key = c10::DispatchKey::CompositeExplicitAutograd;
  m.def("all_reduce_(Tensor(a!) tensor, str reduce_op, str group_name) -> Tensor(a!)",
        torch::dispatch(key, all_reduce));
  m.def("all_reduce_out(Tensor input, str reduce_op, str group_name, Tensor(a!) out) -> Tensor(a!)",
        torch::dispatch(key, all_reduce_out));
  m.def(
      "reduce_scatter_out(Tensor input, str reduce_op, str group_name, Tensor(a!) out) -> "
      "Tensor(a!)",
      torch::dispatch(key, reduce_scatter_out));
  m.def("all_gather_out(Tensor input, str group_name, Tensor(a!) out) -> Tensor(a!)",
        torch::dispatch(key, all_gather_out));
  m.def("all_to_all_out(Tensor input, Tensor(a!) out, str group_name) -> Tensor(a!)",
        torch::dispatch(key, all_to_all));
  m.def("broadcast_(Tensor(a!) tensor, int root, str group_name) -> Tensor(a!)",
        torch::dispatch(key, broadcast));
  m.def(
      "all_to_all_vdev(Tensor input, Tensor(a!) out, Tensor in_splits, Tensor(a!) "
      "out_splits_offsets, str group_name)"
      " -> ()",
      torch::dispatch(key, all_to_all_vdev));
  m.def("put(Tensor tensor, int peer, str group_name) -> ()", torch::dispatch(key, put));
  m.def("get(Tensor(a!) tensor, int peer, str group_name) -> ()", torch::dispatch(key, get));
  m.def("put_with_signal(Tensor tensor, Tensor signal, int value, int peer, str group_name) -> ()",
        torch::dispatch(key, put_with_signal));
  m.def("wait_for_signal(Tensor signal, int value, str group_name) -> ()",
        torch::dispatch(key, wait_for_signal));
  m.def("reserve(int bytes, Device device) -> ()", torch::dispatch(key, reserve));
}

}  // namespace gshmem_torch

/// Registers the backend. `cuda` is 1 if "GSHMEM" is for tensors of GPUs, and 0 in CPU mode.
extern "C" __attribute__((visibility("default"))) void gshmem_torch_register(
    int cuda, gshmem_torch::Ask ask) {
  auto& allocator = gshmem_torch::allocator_of(cuda ? c10::DeviceType::CUDA : c10::DeviceType::CPU);
  gshmem_torch::python() = ask;
  c10d::symmetric_memory::register_availability(
      "GSHMEM", c10::intrusive_ptr<c10d::symmetric_memory::SymmetricMemoryAllocator>::reclaim_copy(
                    &allocator));
  if (cuda) gshmem_torch::register_mempool_allocator();
}

/// Called when the job has ended. Objects that remain of it throw when they are used.
extern "C" __attribute__((visibility("default"))) void gshmem_torch_job_ended() {
  gshmem_torch::Pool::get().reset();
  gshmem_torch::Groups::get().reset();
  for (const auto type : {c10::DeviceType::CPU, c10::DeviceType::CUDA})
    gshmem_torch::allocator_of(type).reset();
}
