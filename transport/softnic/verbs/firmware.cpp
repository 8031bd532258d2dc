#include "transport/softnic/verbs/firmware.h"

#include "transport/softnic/verbs/firmware_state.h"

#include "host/base/error.h"
#include "host/base/log.h"

#include <algorithm>
#include <exception>

namespace gshmem::soft {
namespace {

struct Command {
  std::uint16_t opcode;
  const char* name;
  std::size_t in_bytes, out_bytes;  ///< minimum sizes
  CommandClass kind;
  std::uint16_t destroyed_by;
  Handler handler;
};

// Opcodes: Linux include/linux/mlx5/mlx5_ifc.h (MLX5_CMD_OP_*). Lengths: the sizes of struct
// mlx5_ifc_<name>_in_bits and _out_bits there and in rdma-core providers/mlx5/mlx5_ifc.h, without
// the lists of pages at the end of the creating commands, and without the capabilities: of those a
// client gets as many bytes as it has room for (rdma-core tests/test_mlx5_devx.py asks for 2048).
constexpr Command kCommands[] = {
    {0x100, "QUERY_HCA_CAP", 0x10, 0x10, CommandClass::kGeneral, 0, query_hca_cap},
    {0x400, "CREATE_CQ", 0x110, 0x10, CommandClass::kCreate, 0x401, create_cq},
    {0x401, "DESTROY_CQ", 0x10, 0x10, CommandClass::kDestroy, 0, destroy_cq},
    {0x500, "CREATE_QP", 0x110, 0x10, CommandClass::kCreate, 0x501, create_qp},
    {0x501, "DESTROY_QP", 0x10, 0x10, CommandClass::kDestroy, 0, destroy_qp},
    {0x502, "RST2INIT_QP", 0x110, 0x10, CommandClass::kModify, 0, rst2init_qp},
    {0x503, "INIT2RTR_QP", 0x110, 0x10, CommandClass::kModify, 0, init2rtr_qp},
    {0x504, "RTR2RTS_QP", 0x110, 0x10, CommandClass::kModify, 0, rtr2rts_qp},
    {0x505, "RTS2RTS_QP", 0x110, 0x10, CommandClass::kModify, 0, rts2rts_qp},
    {0x507, "2ERR_QP", 0x10, 0x10, CommandClass::kModify, 0, to_error_qp},
    {0x50a, "2RST_QP", 0x10, 0x10, CommandClass::kModify, 0, to_reset_qp},
    {0x50b, "QUERY_QP", 0x10, 0x110, CommandClass::kQuery, 0, query_qp},
    {0x50e, "INIT2INIT_QP", 0x110, 0x10, CommandClass::kModify, 0, init2init_qp},
    {0x710, "CREATE_DCT", 0x80, 0x10, CommandClass::kCreate, 0x711, create_dct},
    {0x711, "DESTROY_DCT", 0x10, 0x10, CommandClass::kDestroy, 0, destroy_dct},
    {0x713, "QUERY_DCT", 0x10, 0x50, CommandClass::kQuery, 0, query_dct},
    {0x760, "QUERY_ROCE_ADDRESS", 0x10, 0x30, CommandClass::kGeneral, 0, query_roce_address},
    {0x762, "QUERY_HCA_VPORT_CONTEXT", 0x10, 0x210, CommandClass::kGeneral, 0,
     query_hca_vport_context},
    {0x800, "ALLOC_PD", 0x10, 0x10, CommandClass::kCreate, 0x801, alloc_pd},
    {0x801, "DEALLOC_PD", 0x10, 0x10, CommandClass::kDestroy, 0, dealloc_pd},
    {0x802, "ALLOC_UAR", 0x10, 0x10, CommandClass::kCreate, 0x803, alloc_uar},
    {0x803, "DEALLOC_UAR", 0x10, 0x10, CommandClass::kDestroy, 0, dealloc_uar},
    {0x842, "QUERY_LAG", 0x10, 0x10, CommandClass::kGeneral, 0, query_lag},
    {0x90c, "CREATE_RMP", 0x110, 0x10, CommandClass::kCreate, 0x90e, create_rmp},
    {0x90e, "DESTROY_RMP", 0x10, 0x10, CommandClass::kDestroy, 0, destroy_rmp},
};

const Command* find_command(std::uint16_t opcode) {
  const auto* found = std::ranges::find(kCommands, opcode, &Command::opcode);
  return found == std::end(kCommands) ? nullptr : found;
}

constexpr std::size_t kHeaderBytes = 8;  ///< opcode to op_mod, status to syndrome

void dispatch(FirmwareState& state, Call& call) {
  demand(call.in.size() >= kHeaderBytes, Status::kBadInputLength, Check::kInputLength,
         "not even a header");
  const auto opcode = static_cast<std::uint16_t>(get(call.in.data(), in::opcode));
  const Command* command = find_command(opcode);
  demand(command != nullptr, Status::kBadOperation, Check::kOpcode, "unknown opcode");
  call.name = command->name;
  demand(call.in.size() >= command->in_bytes, Status::kBadInputLength, Check::kInputLength,
         "input too short");
  demand(call.out.size() >= command->out_bytes, Status::kBadOutputLength, Check::kOutputLength,
         "output too short");
  command->handler(state, call);
}

void require_inside(const Umem& memory, std::uint64_t offset, std::uint64_t bytes,
                    std::uint64_t alignment, const char* what) {
  if (offset % alignment != 0 || offset > memory.bytes || bytes > memory.bytes - offset)
    throw Refusal{Status::kBadParameter, Check::kUmemRange,
                  std::string(what) + ": not aligned, or beyond the end of its user memory"};
}

Status refused(const Call& call, const Refusal& refusal) {
  const std::uint32_t syndrome = kSyndromeBase | static_cast<std::uint16_t>(refusal.check);
  if (call.out.size() >= kHeaderBytes) {
    set(call.out.data(), out::status, static_cast<std::uint32_t>(refusal.status));
    set(call.out.data(), out::syndrome, syndrome);
  }
  const unsigned opcode =
      call.in.size() >= kHeaderBytes ? get(call.in.data(), in::opcode) : 0xffffu;
  GSHMEM_LOG_LIMITED(
      LogLevel::kWarn, "soft NIC: command 0x%x %s refused: status 0x%x, syndrome 0x%x: %s", opcode,
      call.name, static_cast<unsigned>(refusal.status), syndrome, refusal.reason.c_str());
  return refusal.status;
}

}  // namespace

CommandClass command_class(std::uint16_t opcode) {
  const Command* command = find_command(opcode);
  return command == nullptr ? CommandClass::kUnknown : command->kind;
}

std::uint16_t destroying_opcode(std::uint16_t create_opcode) {
  const Command* command = find_command(create_opcode);
  return command == nullptr ? std::uint16_t{0} : command->destroyed_by;
}

std::uint32_t take_number(FirmwareState& state, const Call& call, Resource kind,
                          const std::map<std::uint32_t, Uses>* made) {
  const std::uint32_t number = named_object(call);
  const bool ours = made == nullptr || made->count(number) != 0;
  const Resources::Removal removal =
      ours ? state.resources.remove(kind, number) : Resources::Removal::kUnknown;
  demand(removal != Resources::Removal::kUnknown, Status::kBadResource, Check::kNumber,
         "no such object");
  demand(removal != Resources::Removal::kBusy, Status::kBadResourceState, Check::kInUse,
         "a queue uses it");
  return number;
}

void check_fields(FirmwareState& state, const Call& call, Structure structure, std::size_t offset) {
  const std::uint8_t* bytes = call.in.data() + offset;
  if (const char* field = nonzero_field(structure, bytes))
    throw Refusal{Status::kBadParameter, Check::kZeroField,
                  std::string(field) + " is set, and this NIC does not have that"};
  if (const int byte = reserved_bits(structure, bytes); byte >= 0)
    state.engine.remark(strprintf("%s: reserved bits in word 0x%zx of the input", call.name,
                                  offset + static_cast<std::size_t>(byte)));
}

void Uses::number(const FirmwareState& state, Resource kind, std::uint32_t number, Check check,
                  const char* reason) {
  all_.push_back(state.resources.use(kind, number));
  demand(all_.back() != nullptr, Status::kBadResource, check, reason);
}

const Umem& Uses::umem(const FirmwareState& state, std::uint32_t id, const char* what) {
  number(state, Resource::kUmem, id, Check::kUmem,
         (std::string(what) + ": no such user memory").c_str());
  return state.umems.at(id);
}

std::uint8_t* Uses::queue(const FirmwareState& state, const UmemPlace& place, const char* what) {
  const Umem& memory = umem(state, place.id, what);
  require_inside(memory, place.offset, place.inside + place.bytes,
                 std::uint64_t{4096} << place.log_page, what);
  // The offset is counted in steps of the page; that of a record (dbr_addr) is counted in bytes.
  if (place.offset % std::max<std::uint64_t>(memory.page_bytes / kOffsetSteps, 1) != 0)
    throw Refusal{Status::kBadParameter, Check::kUmemRange,
                  std::string(what) + ": its offset has no step in user memory of pages of " +
                      std::to_string(memory.page_bytes) +
                      " bytes; register it with a pgsz_bitmap of smaller ones"};
  return memory.address + place.offset + place.inside;
}

std::uint8_t* Uses::record(const FirmwareState& state, std::uint32_t id, std::uint64_t offset,
                           const char* what) {
  constexpr std::uint64_t kRecordBytes = 8;
  const Umem& memory = umem(state, id, what);
  require_inside(memory, offset, kRecordBytes, kRecordBytes, what);
  return memory.address + offset;
}

Firmware::Firmware(Engine& engine, Resources& resources)
    : state_(new FirmwareState{engine, resources}) {}

Firmware::~Firmware() = default;

Status Firmware::execute(std::span<const std::uint8_t> in, std::span<std::uint8_t> out) noexcept {
  const std::lock_guard lock(mutex_);
  Call call{in, out};
  try {
    std::ranges::fill(out, std::uint8_t{0});
    dispatch(*state_, call);
    return Status::kOk;
  } catch (const Refusal& refusal) {
    return refused(call, refusal);
  } catch (const EngineError& error) {
    return refused(call, {static_cast<Status>(error.status), Check::kEngine, error.what()});
  } catch (const std::exception& error) {
    return refused(call, {Status::kInternal, Check::kEngine, error.what()});
  }
}

std::uint32_t Firmware::register_umem(void* address, std::uint64_t bytes,
                                      std::uint64_t page_bytes) {
  const std::lock_guard lock(mutex_);
  const std::uint32_t id = ++state_->last_umem;
  state_->umems[id] = {static_cast<std::uint8_t*>(address), bytes, page_bytes};
  state_->resources.add(Resource::kUmem, id);
  return id;
}

void Firmware::adopt_qp(std::uint32_t number) {
  const std::lock_guard lock(mutex_);
  state_->qps[number].adopted = true;
}

void Firmware::forget_qp(std::uint32_t number) {
  const std::lock_guard lock(mutex_);
  state_->qps.erase(number);
}

bool Firmware::release_umem(std::uint32_t id) {
  const std::lock_guard lock(mutex_);
  if (state_->resources.remove(Resource::kUmem, id) != Resources::Removal::kRemoved) return false;
  state_->umems.erase(id);
  return true;
}

}  // namespace gshmem::soft
