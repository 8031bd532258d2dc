// A firmware over the fake engine, with all that a queue pair needs.
#pragma once

#include "transport/softnic/tests/verbs_commands.h"
#include "transport/softnic/verbs/firmware.h"

#include <cstdlib>
#include <memory>

namespace verbs_test {

using gshmem::soft::Check;
using gshmem::soft::Engine;
using gshmem::soft::Firmware;
using gshmem::soft::Resource;
using gshmem::soft::Resources;
using gshmem::soft::Status;

struct Answer {
  Status status;
  Bytes out;
  [[nodiscard]] std::uint32_t number() const { return bits_at(out, 8, 23, 0); }
  /// Returns the check that refused, or 0.
  [[nodiscard]] std::uint32_t check() const {
    const std::uint32_t syndrome = word_at(out, 4);
    return syndrome == 0 ? 0 : syndrome - gshmem::soft::kSyndromeBase;
  }
  [[nodiscard]] bool refused(Status wanted, Check by) const {
    return status == wanted && bits_at(out, 0, 31, 24) == static_cast<std::uint32_t>(wanted) &&
           check() == static_cast<std::uint32_t>(by);
  }
};

class Rig {
 public:
  static constexpr std::uint64_t kUmemBytes = 1 << 16;
  static constexpr std::uint32_t kLid = 7, kLogEntries = 6;

  Rig() : firmware(Engine::get(), resources) {
    pd = run(command(0x800)).number();
    uar = run(command(0x802)).number();
    umem = firmware.register_umem(memory_.get(), kUmemBytes, 4096);
  }

  Answer run(const Bytes& in, std::size_t out_bytes = 0x10) {
    Answer answer{Status::kOk, Bytes(out_bytes, 0xee)};
    answer.status = firmware.execute(in, answer.out);
    return answer;
  }

  /// Plans that the firmware accepts.
  [[nodiscard]] CqPlan cq_plan() const {
    return {.umem = umem, .uar = uar, .eqn = gshmem::soft::kFirstEventQueue, .record = 0xf008};
  }
  [[nodiscard]] QpPlan qp_plan(std::uint32_t cq) const {
    return {.pd = pd,
            .umem = umem,
            .uar = uar,
            .cq = cq,
            .log_entries = kLogEntries,
            .queue = 0x1000,
            .record = 0xf000};
  }
  std::uint32_t make_cq() { return run(create_cq(cq_plan())).number(); }
  std::uint32_t make_qp() { return run(create_qp(qp_plan(make_cq()))).number(); }
  /// Runs the commands up to the state: 0 reset, 1 init, 2 rtr, 3 rts.
  void move(std::uint32_t qpn, int state) {
    if (state >= 1) (void)run(rst2init(qpn));
    if (state >= 2) (void)run(init2rtr(qpn, qpn, kLid));
    if (state >= 3) (void)run(rtr2rts(qpn));
  }
  [[nodiscard]] std::uint32_t state_of(std::uint32_t qpn) {
    return bits_at(run(command_on(0x50b, qpn), 0x110).out, kQpc, 31, 28);
  }

  [[nodiscard]] void* memory() const { return memory_.get(); }

  Resources resources;
  Firmware firmware;
  std::uint32_t pd = 0, uar = 0, umem = 0;

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<void, Free> memory_{std::aligned_alloc(4096, kUmemBytes)};
};

}  // namespace verbs_test
