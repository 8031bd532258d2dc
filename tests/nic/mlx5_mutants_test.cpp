// Puts mistakes into commands, one at a time: a field that the mlx5 transport sends to the device
// is changed, for both ends of a connection. The soft NIC has to detect every mistake that a card
// would detect, and to ignore the others. A mistake that it misses would appear on hardware for the
// first time.
#include "bootstrap/bootstrap.h"
#include "tests/nic/mlx5_pe.h"
#include "transport/nic/mlx5/mlx5.h"
#include "transport/nic/mlx5/verbs_api.h"

#include <catch2/catch.hpp>

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace gshmem::nic {

std::unique_ptr<Nic> open_ofi(const OpenOptions&) {
  throw Error(GSHMEMX_ERROR_NOT_SUPPORTED, "no libfabric in this test");
}

namespace {

[[maybe_unused]] const bool is_set =
    (setenv("GSHNIC_DEVICES", "2", 1), setenv("GSHNIC_PROFILE", "ib;roce", 1), true);

enum class Port { kInfiniBand, kRoce };
enum class How { kSet, kAdd, kFlip };

/// The consequence: none, or that of a card. kAny: it depends on other things.
enum class End { kNothing, kRefused, kFailed, kSilent, kViolation, kAny };

struct Mutant {
  const char* what;
  std::uint32_t opcode, byte, high, low;  ///< bits of the big-endian word at that byte
  How how;
  std::uint32_t value;
  End end;
  int syndrome = 0;  ///< with kFailed
};

constexpr int kRetries = 0x15, kAccess = 0x13, kOperation = 0x02, kLength = 0x01, kAnySyndrome = -1;
using enum How;
using enum End;

// Byte and bits: linux include/linux/mlx5/mlx5_ifc.h, create_cq_in, create_qp_in, rst2init_qp_in.
constexpr Mutant kInfiniBandMutants[] = {
    {"RST2INIT port", 0x502, 0x54, 23, 16, kSet, 2, kRefused},
    {"RST2INIT rae", 0x502, 0xa8, 13, 13, kSet, 0, kFailed, kAccess},
    {"RST2INIT rwe", 0x502, 0xa8, 14, 14, kSet, 0, kFailed, kAccess},
    {"RST2INIT atomic_mode of plain ones", 0x502, 0xa8, 19, 16, kSet, 1, kNothing},
    {"RST2INIT pm_state", 0x502, 0x18, 12, 11, kSet, 0, kNothing},
    {"INIT2RTR log_msg_max", 0x503, 0x20, 28, 24, kSet, 10, kFailed, kLength},
    {"INIT2RTR mtu of both ends", 0x503, 0x20, 31, 29, kSet, 1, kNothing},
    {"INIT2RTR remote_qpn", 0x503, 0x2c, 23, 0, kAdd, 1, kFailed, kRetries},
    {"INIT2RTR next_rcv_psn", 0x503, 0xac, 23, 0, kAdd, 1, kFailed, kRetries},
    // The collapsed completion queue may show the flushed entries after it.
    {"INIT2RTR log_rra_max", 0x503, 0xa8, 23, 21, kSet, 0, kFailed, kAnySyndrome},
    {"INIT2RTR rlid", 0x503, 0x34, 15, 0, kAdd, 1, kFailed, kRetries},
    {"INIT2RTR grh with no GID", 0x503, 0x34, 23, 23, kSet, 1, kFailed, kRetries},
    {"INIT2RTR port", 0x503, 0x54, 23, 16, kSet, 2, kRefused},
    // Without its bit of opt_param_mask, a field of the transition before has no meaning.
    {"INIT2RTR atomic_mode, no mask", 0x503, 0xa8, 19, 16, kSet, 1, kNothing},
    {"INIT2RTR rae, no mask", 0x503, 0xa8, 13, 13, kSet, 0, kNothing},
    {"INIT2RTR rwe, no mask", 0x503, 0xa8, 14, 14, kSet, 0, kNothing},
    {"INIT2RTR pkey_index, no mask", 0x503, 0x30, 15, 0, kSet, 9, kNothing},
    {"INIT2RTR sl, which a switch may know", 0x503, 0x54, 27, 24, kSet, 5, kNothing},
    {"INIT2RTR min_rnr, without receives", 0x503, 0xac, 28, 24, kSet, 0, kNothing},
    {"RTR2RTS next_send_psn", 0x504, 0x90, 23, 0, kAdd, 1, kFailed, kRetries},
    {"RTR2RTS log_sra_max", 0x504, 0x88, 23, 21, kSet, 7, kRefused},
    {"RTR2RTS retry, nothing is lost", 0x504, 0x88, 18, 16, kSet, 0, kNothing},
    {"RTR2RTS log_ack_req_freq", 0x504, 0x88, 31, 28, kSet, 15, kNothing},
    {"RTR2RTS ack_timeout, nothing is lost", 0x504, 0x38, 31, 27, kSet, 0, kNothing},
    {"CREATE_QP ts_format", 0x500, 0x20, 7, 6, kSet, 2, kRefused},
    {"CREATE_QP log_sq_size", 0x500, 0x20, 14, 11, kFlip, 1, kFailed, kOperation},
    {"CREATE_QP uar_page", 0x500, 0x24, 23, 0, kAdd, 1, kAny},
    {"CREATE_QP cqn_rcv", 0x500, 0xb4, 23, 0, kAdd, 1, kRefused},
    {"CREATE_QP cqn_rcv, no receives", 0x500, 0xb4, 23, 0, kSet, 0, kNothing},
    {"CREATE_QP rq_type", 0x500, 0xc4, 26, 24, kSet, 0, kFailed, kOperation},
    {"CREATE_QP no record", 0x500, 0x28, 31, 30, kSet, 1, kRefused},
    {"CREATE_QP dbr_addr", 0x500, 0xbc, 31, 0, kAdd, 8, kViolation},
    {"CREATE_QP wq_umem_offset", 0x500, 0x104, 31, 0, kAdd, 4096, kFailed, kOperation},
    {"CREATE_QP pd", 0x500, 0x1c, 23, 0, kAdd, 1, kRefused},
    {"CREATE_QP log_page_size", 0x500, 0x2c, 28, 24, kSet, 4, kRefused},
    {"CREATE_QP st", 0x500, 0x18, 23, 16, kSet, 3, kRefused},
    {"CREATE_CQ cc, of one entry", 0x400, 0x10, 20, 20, kSet, 0, kNothing},
    {"CREATE_CQ oi", 0x400, 0x10, 17, 17, kSet, 0, kSilent},
    {"CREATE_CQ uar_page", 0x400, 0x1c, 23, 0, kAdd, 1, kAny},
    {"CREATE_CQ c_eqn, another vector", 0x400, 0x24, 7, 0, kAdd, 1, kNothing},
    {"CREATE_CQ cqe_sz", 0x400, 0x10, 23, 21, kSet, 1, kSilent},
    {"CREATE_CQ cq_umem_offset", 0x400, 0x54, 31, 0, kAdd, 64, kRefused},
};
constexpr Mutant kRoceMutants[] = {
    {"src_addr_index of RoCE v1", 0x503, 0x38, 23, 16, kSet, 0, kFailed, kRetries},
    {"src_addr_index of no entry", 0x503, 0x38, 23, 16, kSet, 9, kRefused},
    {"hop_limit", 0x503, 0x38, 7, 0, kSet, 0, kFailed, kRetries},
    {"udp_sport", 0x503, 0x50, 15, 0, kSet, 0, kFailed, kRetries},
    {"rmac_47_32", 0x503, 0x54, 15, 0, kAdd, 1, kFailed, kRetries},
    {"rmac_31_0", 0x503, 0x58, 31, 0, kAdd, 1, kFailed, kRetries},
    {"rgid, its beginning", 0x503, 0x40, 31, 0, kSet, 7, kFailed, kRetries},
    {"rgid, its end", 0x503, 0x4c, 31, 0, kAdd, 1, kFailed, kRetries},
    {"tclass", 0x503, 0x3c, 27, 20, kSet, 106, kNothing},
    {"dscp", 0x503, 0x50, 21, 16, kSet, 26, kNothing},
    {"eth_prio", 0x503, 0x54, 30, 28, kSet, 3, kNothing},
    {"sl, of InfiniBand", 0x503, 0x54, 27, 24, kSet, 3, kNothing},
    {"grh, of InfiniBand", 0x503, 0x34, 23, 23, kSet, 1, kNothing},
    {"rlid, of InfiniBand", 0x503, 0x34, 15, 0, kSet, 5, kNothing},
};

const Mutant* now = nullptr;  ///< the change that is applied
int changed = 0;

std::vector<std::uint8_t> mutated(const void* in, std::size_t bytes) {
  const auto* first = static_cast<const std::uint8_t*>(in);
  std::vector<std::uint8_t> out(first, first + bytes);
  if (now == nullptr || (out[0] << 8 | out[1]) != static_cast<int>(now->opcode)) return out;
  abi::Be32 word{};
  std::memcpy(&word, &out[now->byte], sizeof(word));
  const std::uint32_t ones =
      now->high - now->low == 31 ? ~0u : (1u << (now->high - now->low + 1)) - 1;
  const std::uint32_t before = word.get() >> now->low & ones;
  std::uint32_t after = now->value;
  if (now->how == kAdd) after = before + now->value;
  if (now->how == kFlip) after = before ^ now->value;
  changed += (after & ones) != before;
  word = abi::Be32((word.get() & ~(ones << now->low)) | (after & ones) << now->low);
  std::memcpy(&out[now->byte], &word, sizeof(word));
  return out;
}

mlx5::VerbsApi real;

mlx5dv_devx_obj* create(ibv_context* context, const void* in, std::size_t bytes, void* out,
                        std::size_t room) {
  return real.obj_create(context, mutated(in, bytes).data(), bytes, out, room);
}
int modify(mlx5dv_devx_obj* object, const void* in, std::size_t bytes, void* out,
           std::size_t room) {
  return real.obj_modify(object, mutated(in, bytes).data(), bytes, out, room);
}

/// Hooks into the calls from the transport to the library of the soft NIC, which the transport has
/// loaded.
void get_between() {
  // The object itself is not const; the process has one.
  auto& api = const_cast<mlx5::VerbsApi&>(mlx5::VerbsApi::get(GSHNIC_FOLDER));
  real.obj_create = api.obj_create, real.obj_modify = api.obj_modify;
  api.obj_create = create, api.obj_modify = modify;
}

int violations() {
  void* library = dlopen("libgshnic.so", RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(library != nullptr);
  const auto count =
      reinterpret_cast<int (*)(char*, unsigned long)>(dlsym(library, "gshnic_violations"));
  char text[1];
  return count(text, sizeof(text));
}

Config config_of(Port port) {
  return Config::from(
      [](const char* name, void* which) -> const char* {
        if (std::strcmp(name, "GSHMEM_NIC_DEVICES") == 0) return static_cast<const char*>(which);
        return std::strcmp(name, "GSHMEM_IB_TIMEOUT") == 0 ? "14" : nullptr;
      },
      const_cast<char*>(port == Port::kRoce ? "=mlx5_1" : "=mlx5_0"));
}

struct Outcome {
  End end = kNothing;
  int syndrome = 0;
};

/// Uses queues as a client does: more than a packet, more than once around the ring.
Outcome use(TestPe& pe) {
  const auto first_of = [](std::initializer_list<std::optional<Failure>> all) {
    for (const std::optional<Failure>& one : all)
      if (one) return Outcome{kFailed, one->syndrome};
    return Outcome{};
  };
  std::memset(pe.heap(), 'a', 16384);
  for (int which = 0; which < 2; ++which) {
    Outcome outcome = first_of({pe.write(0, which, 0, 16384, 9000)});
    if (outcome.end == kNothing) outcome = first_of({pe.fetch_add(0, which, 512, 1, 1024)});
    if (outcome.end == kNothing) outcome = first_of({pe.read(0, which, 32768, 16384, 9000)});
    if (outcome.end == kNothing) outcome = first_of({pe.reads(0, which, 16)});
    for (int i = 0; i < 80 && outcome.end == kNothing; ++i)
      outcome = first_of({pe.write(0, which, 0, 2048, 8)});
    if (outcome.end != kNothing) return outcome;
    require(std::memcmp(pe.heap() + 32768, pe.heap() + 16384, 9000) == 0, GSHMEMX_ERROR_INTERNAL,
            "read bytes differ");
  }
  return {};
}

Outcome outcome_of(Port port, const Mutant& mutant) {
  const auto boots = bootstrap::create_threads(1, 60);
  const Config config = config_of(port);
  const int before = violations();
  now = &mutant, changed = 0;
  Outcome outcome;
  std::unique_ptr<TestPe> pe;
  try {
    pe = std::make_unique<TestPe>(config, *boots[0]);
  } catch (const Error& error) {
    CHECK_THAT(error.what(), Catch::Contains("device command"));
    outcome.end = kRefused;
  }
  CHECK(changed > 0);
  if (pe == nullptr) return outcome;
  pe->patience = std::chrono::seconds(mutant.end == kSilent || mutant.end == kAny ? 1 : 60);
  try {
    outcome = use(*pe);
  } catch (const Error& error) {
    CHECK(error.code() == GSHMEMX_ERROR_TIMEOUT);
    outcome.end = kSilent;
  }
  // The NIC compares the doorbell record from time to time.
  for (int i = 0; i < 500 && mutant.end == kViolation && violations() == before; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  if (outcome.end == kNothing && violations() != before) outcome.end = kViolation;
  pe->nic().stop();
  return outcome;
}

void try_all(Port port, const auto& mutants) {
  for (const Mutant& mutant : mutants) {
    INFO(mutant.what);
    const Outcome outcome = outcome_of(port, mutant);
    now = nullptr;
    INFO("ended as " << static_cast<int>(outcome.end));
    if (mutant.end == kAny) {
      CHECK(outcome.end != kNothing);
    } else {
      CHECK(outcome.end == mutant.end);
      CHECK((outcome.syndrome == mutant.syndrome || mutant.syndrome == kAnySyndrome));
    }
  }
}

}  // namespace

TEST_CASE("a_mistake_in_a_command_ends_as_on_a_card") {
  {
    const auto boots = bootstrap::create_threads(1, 60);
    TestPe pe(config_of(Port::kInfiniBand), *boots[0]);  // it loads the library
    CHECK(use(pe).end == kNothing);
    pe.nic().stop();
  }
  get_between();
  try_all(Port::kInfiniBand, kInfiniBandMutants);
  try_all(Port::kRoce, kRoceMutants);
}

}  // namespace gshmem::nic
