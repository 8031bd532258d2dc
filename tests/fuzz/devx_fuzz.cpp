// Sequences of commands to the soft NIC's firmware. An input is a list of steps: a byte that picks
// a command and how much of its output is wanted, a byte that says how many of its words are edited
// and how much is cut off, and the edits; or raw bytes. Commands begin as valid ones, so that the
// fuzzer reaches what lies behind the first check. Whatever they are: no byte outside of input and
// output is touched, and a refusal says why.
#include "host/base/log.h"
#include "tests/nic/verbs_commands.h"
#include "transport/softnic/verbs/firmware.h"

#include <cstdint>
#include <cstdlib>
#include <span>

namespace {

using namespace gshmem::soft;
using verbs_test::Bytes;

alignas(4096) std::uint8_t slab[1 << 16];
constexpr std::uint32_t kOpcodes[] = {0x100, 0x400, 0x401, 0x500, 0x501, 0x502,
                                      0x503, 0x504, 0x505, 0x507, 0x50a, 0x50b,
                                      0x50e, 0x760, 0x800, 0x801, 0x802, 0x803};
constexpr std::uint8_t kCommands = sizeof(kOpcodes) / sizeof(kOpcodes[0]);
constexpr std::uint8_t kRaw = 31;

void demand(bool ok) {
  if (!ok) std::abort();
}

/// Bytes of the input, zeros behind its end.
class Source {
 public:
  explicit Source(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  [[nodiscard]] bool empty() const { return at_ >= bytes_.size(); }
  std::uint8_t next() { return empty() ? std::uint8_t{0} : bytes_[at_++]; }

 private:
  std::span<const std::uint8_t> bytes_;
  std::size_t at_ = 0;
};

class Firm {
 public:
  Firm() : engine_(EngineOptions{}), firmware_(engine_, resources_) {
    umem_ = firmware_.register_umem(slab, sizeof(slab), 4096);
    run(valid(0x800), 0x10);
    run(valid(0x802), 0x10);
  }
  void step(Source& source) {
    const std::uint8_t what = source.next(), how = source.next();
    Bytes in;
    if ((what & 0x1f) == kRaw) {
      for (int i = 0; i < how; ++i) in.push_back(source.next());
    } else {
      in = valid(kOpcodes[(what & 0x1f) % kCommands]);
      edit(in, how & 0xf, source);
      if (how >> 4 != 0) in.resize(in.size() - (how >> 4));
    }
    constexpr std::size_t sizes[] = {0x10, 0x110, 0x1010, 0x30, 0x10, 8, 7, 0};
    run(in, sizes[what >> 5]);
  }

 private:
  static void edit(Bytes& in, int edits, Source& source) {
    for (int i = 0; i < edits; ++i) {
      const std::size_t byte = source.next() % (in.size() / 4) * 4;
      for (std::size_t k = 0; k < 4; ++k) in[byte + k] ^= source.next();
    }
  }

  Bytes valid(std::uint32_t opcode) const {
    switch (opcode) {
      case 0x400:
        return verbs_test::create_cq(
            {.umem = umem_, .uar = uar_, .eqn = kFirstEventQueue, .record = 0xf008});
      case 0x500:
        return verbs_test::create_qp({.pd = pd_,
                                      .umem = umem_,
                                      .uar = uar_,
                                      .cq = cq_,
                                      .log_entries = 6,
                                      .queue = 0x1000,
                                      .record = 0xf000});
      case 0x502:
        return verbs_test::rst2init(qp_);
      case 0x503:
        return verbs_test::init2rtr(qp_, qp_, 7);
      case 0x504:
        return verbs_test::rtr2rts(qp_);
      case 0x505:
      case 0x50e:
        return verbs_test::command_on(opcode, qp_, 0x110);
      case 0x401:
        return verbs_test::command_on(opcode, cq_);
      case 0x501:
      case 0x507:
      case 0x50a:
      case 0x50b:
        return verbs_test::command_on(opcode, qp_);
      case 0x801:
        return verbs_test::command_on(opcode, pd_);
      case 0x803:
        return verbs_test::command_on(opcode, uar_);
      default:
        return verbs_test::command(opcode);
    }
  }

  void run(const Bytes& in, std::size_t out_bytes) {
    Bytes out(out_bytes, 0xee);
    const Status status = firmware_.execute(in, out);
    if (out_bytes < 8) return demand(status != Status::kOk);
    demand(out[0] == static_cast<std::uint8_t>(status));
    const bool reason = verbs_test::word_at(out, 4) >> 16 == kSyndromeBase >> 16;
    demand((status == Status::kOk) != reason);
    if (status == Status::kOk) remember(verbs_test::bits_at(in, 0, 31, 16), out);
  }
  void remember(std::uint32_t opcode, const Bytes& out) {
    const std::uint32_t number = verbs_test::bits_at(out, 8, 23, 0);
    if (opcode == 0x400) cq_ = number;
    if (opcode == 0x500) qp_ = number;
    if (opcode == 0x800) pd_ = number;
    if (opcode == 0x802) uar_ = number;
  }

  Engine engine_;
  Resources resources_;
  Firmware firmware_;
  std::uint32_t umem_ = 0, pd_ = 0, uar_ = 0, cq_ = 0, qp_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  gshmem::log_configure(gshmem::LogLevel::kNone, "");
  Source source({data, size});
  Firm firm;
  while (!source.empty()) firm.step(source);
  return 0;
}
