#include "host/runtime/fault.h"

#include <gshmem/abi/mlx5.h>

#include "device/core/call_record.h"
#include "host/base/deadline.h"

#include <cstring>
#include <iterator>
#include <span>
#include <thread>
#include <utility>

namespace gshmem {
namespace {

/// How long to wait for a record that is being written: the thread that writes it may have been
/// killed.
constexpr double kWritingSeconds = 1;

/// Returns the name of the collective that a note encodes (call_of in
/// device/collective/collective_check.h).
std::string collective_of(std::uint64_t note) {
  using device::CallKind;
  constexpr auto kFirst = static_cast<std::uint64_t>(CallKind::kAlltoall);
  // The names are in the order of the enumerators.
  static constexpr const char* kNames[] = {"alltoall",      "broadcast", "fcollect",
                                           "collect",       "alltoalls", "reduce",
                                           "reducescatter", "inscan",    "exscan"};
  static constexpr const char* kOps[device::kReduceOps] = {"sum", "prod", "min", "max",
                                                           "and", "or",   "xor", "maxloc"};
  static constexpr const char* kTypes[device::kElementTypes] = {
      "int8",  "int16",  "int32", "int64",    "uint8",    "uint16",   "uint32", "uint64",
      "float", "double", "half",  "bfloat16", "complexf", "complexd", "double2"};
  const std::uint64_t kind = note >> 32 & 0xff, op = note >> 40 & 0xff, type = note >> 48;
  if (kind - kFirst >= std::size(kNames) || op >= std::size(kOps) || type >= std::size(kTypes))
    return "another collective";
  const char* const name = kNames[kind - kFirst];
  if (kind < static_cast<std::uint64_t>(CallKind::kReduce)) return name;  // it has neither
  return strprintf("%s_%s of %s", kOps[op], name, kTypes[type]);
}

std::string bad_argument(const abi::FaultRecord& f) {
  const auto value = static_cast<unsigned long>(f.value),
             limit = static_cast<unsigned long>(f.limit);
  const auto number = static_cast<long>(f.value);
  std::string start = strprintf("%s: argument %s", f.call, f.argument);
  const std::string_view name = f.argument;
  if (name.substr(0, 2) == "[]")  // a member of a piece
    start = strprintf("%s: argument pieces[%u]%s", f.call, f.wqe_index, f.argument + 2);
  const char* is = start.c_str();
  switch (f.rule) {
    case abi::Rule::kPe:
      return strprintf("%s = %ld is out of range [0, %lu)", is, number, limit);
    case abi::Rule::kOverflow:
      return strprintf(
          "%s = %lu is too large, the size in bytes overflows%s", is, value,
          number < 0 ? strprintf(" (is it the negative number %ld?)", number).c_str() : "");
    case abi::Rule::kSymmetric:
      if (value == 0)
        return strprintf("%s = 0x0 is null, where %lu bytes of the symmetric heap are needed", is,
                         limit);
      return strprintf(
          "%s = 0x%lx (%lu bytes) is not in the symmetric heap; gshmem_malloc allocates there", is,
          value, limit);
    case abi::Rule::kNotNull:
      return strprintf("%s = 0x%lx is null, where %lu bytes are needed", is, value, limit);
    case abi::Rule::kAligned:
      return strprintf("%s = 0x%lx is not aligned to %lu bytes", is, value, limit);
    case abi::Rule::kStride:
      return strprintf("%s = %ld is a stride and must be at least %lu", is, number, limit);
    case abi::Rule::kSignalOp:
      return strprintf("%s = %ld is not one of the GSHMEM_SIGNAL constants", is, number);
    case abi::Rule::kCmp:
      return strprintf("%s = %ld is not one of the GSHMEM_CMP constants", is, number);
    case abi::Rule::kApart:
      return strprintf("%s = 0x%lx is in the payload, which begins at dest = 0x%lx", is, value,
                       limit);
    case abi::Rule::kHandle:
      if (number == GSHMEM_CTX_INVALID && name == "ctx")
        return strprintf(
            "%s = %ld is GSHMEM_CTX_INVALID and not open (did gshmem_ctx_create fail?)", is,
            number);
      return strprintf("%s = %ld is not open: it was destroyed, or never created on this PE", is,
                       number);
    case abi::Rule::kNotNegative:
      return strprintf("%s = %ld is negative", is, number);
    case abi::Rule::kTeam:
      return strprintf("%s = %ld is not a team", is, number);
    case abi::Rule::kAloneBy:
      return strprintf(
          "%s: something else was posted by it while the burst was open (%lu entries, "
          "not %lu)",
          is, value, limit);
    case abi::Rule::kAtLeast:
      return strprintf("%s = %lu is less than %lu", is, value, limit);
    case abi::Rule::kAmount:
      return strprintf("%s = %ld is not one of the GSHMEMX_SMEM constants", is, number);
    case abi::Rule::kShared:
      return strprintf("%s = 0x%lx is not shared memory of the calling block", is, value);
    case abi::Rule::kGiven:
      return strprintf("%s = 0x%lx: the block has given other memory, release that first", is,
                       value);
    case abi::Rule::kZero:
      return strprintf("%s = %lu must be 0", is, value);
    case abi::Rule::kElements:
      return strprintf("%s has %lu elements, where %lu are needed", is, value, limit);
    case abi::Rule::kSameCall:
      return strprintf("%s: PE %d of the team is in %s, and this one in %s", is, f.pe,
                       collective_of(f.limit).c_str(), collective_of(f.value).c_str());
    case abi::Rule::kSame:
      return strprintf("%s = %ld differs from that of PE %d, %lu", is, number, f.pe, limit);
    case abi::Rule::kSameBytes:
      return strprintf("%s is of %lu bytes, and of %lu on PE %d: all members bring as many", is,
                       value, limit, f.pe);
    case abi::Rule::kSameArray:
      return strprintf(
          "%s is at heap offset 0x%lx, and on PE %d at 0x%lx: all members pass the same symmetric "
          "array",
          is, value, f.pe, limit);
    case abi::Rule::kHeld:
      return strprintf("%s = 0x%lx: no thread holds this lock, so it cannot be cleared", is, value);
    case abi::Rule::kOfHost:
      return strprintf(
          "%s = 0x%lx is GPU memory, which host threads cannot read; pass the list in host memory, "
          "or call the function in a kernel",
          is, value);
    case abi::Rule::kOnePe:
      return strprintf(
          "%s: two PEs of this process share this GPU, so a plain kernel cannot know its PE; use "
          "gshmem::launch or one PE per GPU",
          f.call);
    case abi::Rule::kNone:
      break;
  }
  return strprintf("%s = 0x%lx", is, value);
}

/// The meaning of each syndrome, and what to check (MLX5_CQE_SYNDROME_*, <infiniband/mlx5dv.h>).
using abi::Syndrome;
constexpr std::pair<Syndrome, const char*> kSyndromes[] = {
    {Syndrome::kLocalLength, "local length error: a message longer than the queue allows"},
    {Syndrome::kLocalOperation, "local operation error: the NIC does not accept the entry"},
    {Syndrome::kLocalProtection, "local protection error: local memory that is not registered"},
    {Syndrome::kFlush,
     "flushed: an earlier entry or the other end failed, and the entries after it have "
     "overwritten its completion; what the target reports may tell the cause"},
    {Syndrome::kMemoryWindow, "memory window error"},
    {Syndrome::kBadResponse, "bad response from the target"},
    {Syndrome::kLocalAccess, "local access error"},
    {Syndrome::kRemoteRequest, "remote invalid request"},
    {Syndrome::kRemoteAccess, "remote access error: memory or key that the target does not know"},
    {Syndrome::kRemoteOperation, "remote operation error: the target could not do it"},
    {Syndrome::kRetryExceeded,
     "retries exceeded: the target does not answer (died, or the network is down)"},
    {Syndrome::kRnrRetryExceeded, "retries exceeded: the target is not ready"},
    {Syndrome::kAborted, "aborted by the target"},
};

using abi::Opcode;
constexpr std::pair<Opcode, const char*> kOpcodes[] = {
    {Opcode::kNop, "NOP"},
    {Opcode::kRdmaWrite, "put (WRITE)"},
    {Opcode::kRdmaRead, "get (READ)"},
    {Opcode::kAtomicCompareSwap, "atomic"},
    {Opcode::kAtomicFetchAdd, "atomic"},
    {Opcode::kMaskedCompareSwap, "atomic"},
    {Opcode::kMaskedFetchAdd, "atomic"},
    {Opcode::kDump, "get or atomic (DUMP)"},  // it follows a get or an atomic
};

template <class Code>
const char* text_of(std::span<const std::pair<Code, const char*>> texts, std::uint32_t code,
                    const char* otherwise) {
  for (const auto& [one, text] : texts)
    if (static_cast<std::uint32_t>(one) == code) return text;
  return otherwise;
}

}  // namespace

std::string fault_message(const abi::FaultRecord& f) {
  switch (f.code) {
    case GSHMEMX_ERROR_INVALID_VALUE:
      return bad_argument(f);
    case GSHMEMX_ERROR_SYMMETRY:
      if (f.rule == abi::Rule::kNone) break;
      return bad_argument(f);
    case GSHMEMX_ERROR_TIMEOUT: {
      std::string whom = f.pe < 0 ? "" : strprintf(" for PE %d", f.pe);
      if (f.queue != 0) whom += strprintf(" (queue 0x%x, entry %u)", f.queue, f.wqe_index);
      return strprintf("%s: waited %.3g s%s, longer than GSHMEM_TIMEOUT=%.3g allows", f.call,
                       static_cast<double>(f.value) * 1e-9, whom.c_str(),
                       static_cast<double>(f.limit) * 1e-9);
    }
    case GSHMEMX_ERROR_NIC:
      if (f.call[0] == '\0') break;
      return strprintf(
          "%s%s failed: %s (queue 0x%x, entry %u, opcode 0x%02x, syndrome 0x%02x, vendor "
          "0x%02x, hardware 0x%04x)",
          text_of<Opcode>(kOpcodes, f.opcode, "operation"),
          f.pe < 0 ? "" : strprintf(" to PE %d", f.pe).c_str(),
          text_of<Syndrome>(kSyndromes, f.syndrome, "unknown syndrome"), f.queue, f.wqe_index,
          f.opcode, f.syndrome, static_cast<unsigned>(f.value & 0xff),
          static_cast<unsigned>(f.value >> 8 & 0xffff));
    case GSHMEMX_ERROR_NOT_SUPPORTED:
      if (std::string_view(f.argument) == "lock")
        return strprintf(
            "%s: in a job with a network a lock's words are updated by GPUs and NICs, which are "
            "atomic to each other with GSHMEM_AMO=nic only",
            f.call);
      if (std::string_view(f.call) != "atomic") break;
      return strprintf(
          "atomic or signal to PE %d: GPUs of this job map each other by a link without "
          "native atomics (PCIe, or one that CUDA and NVML do not show), and there is no network "
          "to do it; unset GSHMEM_NIC, install libfabric, or choose GPUs with NVLink (gshmem-info "
          "--doctor)",
          f.pe);
    case GSHMEMX_ERROR_PEER_FAILED:
      return strprintf("PE %d died: its process ended without gshmem_finalize", f.pe);
    default:
      break;
  }
  return strprintf("%s: %s", f.call, status_text(f.code));
}

bool fault_record(abi::Control* control, const abi::FaultRecord& fault) noexcept {
  abi::FaultRecord& mine = control->host_fault;
  const bool first = __atomic_load_n(&control->fault.claimed, __ATOMIC_ACQUIRE) == 0 &&
                     __atomic_exchange_n(&mine.claimed, 1u, __ATOMIC_ACQ_REL) == 0;
  if (first) {
    // Everything after the two words that others access atomically.
    constexpr std::size_t kBody = offsetof(abi::FaultRecord, code);
    std::memcpy(reinterpret_cast<char*>(&mine) + kBody,
                reinterpret_cast<const char*>(&fault) + kBody, sizeof(fault) - kBody);
    __atomic_store_n(&mine.published, 1u, __ATOMIC_RELEASE);  // pairs with fault_read
  }
  __atomic_store_n(&control->stop, 1u, __ATOMIC_RELEASE);  // pairs with wait_check
  return first;
}

bool fault_read(const abi::Control* control, abi::FaultRecord* record) noexcept {
  const Deadline writing(kWritingSeconds);
  for (;;) {
    bool claimed = false;
    for (const abi::FaultRecord* one : {&control->fault, &control->host_fault}) {
      if (__atomic_load_n(&one->published, __ATOMIC_ACQUIRE) != 0) {
        std::memcpy(record, one, sizeof(*record));
        return true;
      }
      claimed = claimed || __atomic_load_n(&one->claimed, __ATOMIC_ACQUIRE) != 0;
    }
    const bool stopped = __atomic_load_n(&control->stop, __ATOMIC_ACQUIRE) != 0;
    if (!stopped || !claimed || writing.passed()) return false;
    std::this_thread::yield();
  }
}

}  // namespace gshmem
