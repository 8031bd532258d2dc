#include "transport/softnic/tests/verbs_firmware_rig.h"

#include <catch2/catch.hpp>

using namespace verbs_test;

TEST_CASE("every reason for which a queue pair is refused") {
  Rig rig;
  Bytes in = create_qp(rig.qp_plan(rig.make_cq()));
  SECTION("nothing wrong") { CHECK(rig.run(in).status == Status::kOk); }
  SECTION("no umem for the queue") {
    bits(in, 0x10c, 31, 31, 0);
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kUmemInvalid));
  }
  SECTION("no umem for the record") {
    bits(in, kQpc + 0xd0, 28, 28, 0);
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kUmemInvalid));
  }
  SECTION("unknown umem") {
    word(in, 0x108, 99);
    CHECK(rig.run(in).refused(Status::kBadResource, Check::kUmem));
  }
  SECTION("unknown protection domain") {
    bits(in, kQpc + 0x04, 23, 0, rig.uar);
    CHECK(rig.run(in).refused(Status::kBadResource, Check::kPd));
  }
  SECTION("unknown UAR") {
    bits(in, kQpc + 0x0c, 23, 0, rig.pd);
    CHECK(rig.run(in).refused(Status::kBadResource, Check::kUar));
  }
  SECTION("unknown CQ for the send side") {
    bits(in, kQpc + 0x7c, 23, 0, rig.pd);
    CHECK(rig.run(in).refused(Status::kBadResource, Check::kCompletionQueue));
  }
  SECTION("unknown CQ for the receive side") {
    bits(in, kQpc + 0x9c, 23, 0, rig.pd);
    CHECK(rig.run(in).refused(Status::kBadResource, Check::kCompletionQueue));
  }
  SECTION("a service that there is not") {
    bits(in, kQpc, 23, 16, 3);
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kService));
  }
  SECTION("an access key of a connection") {
    word64(in, kQpc + 0xc8, 1);
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kAccessKey));
    bits(in, kQpc, 23, 16, 5);  // of a DC initiator
    CHECK(rig.run(in).status == Status::kOk);
  }
  SECTION("a receive queue of its own, and a CQ for it") {
    bits(in, kQpc + 0xac, 26, 24, 0);
    CHECK(rig.run(in).refused(Status::kBadResource, Check::kCompletionQueue));
    bits(in, kQpc + 0x9c, 23, 0, bits_at(in, kQpc + 0x7c, 23, 0));
    CHECK(rig.run(in).status == Status::kOk);
    bits(in, kQpc + 0x08, 22, 19, 8);  // 256 entries
    bits(in, kQpc + 0x08, 18, 16, 4);  // of 256 bytes: with the send queue, beyond the umem
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kUmemRange));
  }
  SECTION("of a type that there is not") {
    bits(in, kQpc + 0xac, 26, 24, 2);
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kReceiveQueue));
  }
  SECTION("an unknown shared receive queue") {
    bits(in, kQpc + 0xac, 26, 24, 1);
    bits(in, kQpc + 0xac, 23, 0, 5);
    CHECK(rig.run(in).refused(Status::kBadResource, Check::kReceiveQueue));
  }
  SECTION("a queue beyond the end of its umem") {
    bits(in, kQpc + 0x08, 14, 11, 10);  // 64 KiB from 0x1000 on
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kUmemRange));
  }
  SECTION("a queue not on a page") {
    word64(in, 0x100, 0x1040);
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kUmemRange));
  }
  SECTION("a queue between the steps of large pages of its umem") {
    word(in, 0x108, rig.firmware.register_umem(rig.memory(), Rig::kUmemBytes, 0x80000));
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kUmemRange));
  }
  SECTION("a queue not on a page of its size") {
    bits(in, kQpc + 0x14, 28, 24, 4);  // 64 KiB
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kUmemRange));
  }
  SECTION("a record that is not aligned") {
    word64(in, kQpc + 0xa0, 0xf004);
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kUmemRange));
  }
  SECTION("an optional mask") {
    word(in, 0x10, 2);
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kOptionalMask));
  }
  SECTION("pm_state rearm") {
    bits(in, kQpc, 12, 11, 1);
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kMigration));
  }
  SECTION("no doorbell record, on a card that has no such queue pairs") {
    bits(in, kQpc + 0x10, 31, 30, 1);  // send_dbr_mode
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kCapability));
  }
  SECTION("time stamps in real time, on a port that has none") {
    bits(in, kQpc + 0x08, 7, 6, 2);
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kCapability));
    bits(in, kQpc + 0x08, 7, 6, 1);  // the default
    CHECK(rig.run(in).status == Status::kOk);
  }
  SECTION("features that are not there") {
    const auto [byte, bit] = GENERATE(table<std::size_t, int>({{0x04, 31},    // wq_signature
                                                               {0x08, 15},    // no_sq
                                                               {0x90, 1}}));  // cd_slave_send
    bits(in, kQpc + byte, bit, bit, 1);
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kZeroField));
  }
}

TEST_CASE("each state is left by its own commands only") {
  Rig rig;
  const std::uint32_t qp = rig.make_qp();
  const int before = GENERATE(0, 1, 2, 3);
  rig.move(qp, before);
  REQUIRE(rig.state_of(qp) == static_cast<std::uint32_t>(before));
  struct Step {
    Bytes in;
    int from, to;
  };
  Step steps[] = {{rst2init(qp), 0, 1},
                  {command_on(0x50e, qp, 0x110), 1, 1},
                  {init2rtr(qp, qp, Rig::kLid), 1, 2},
                  {rtr2rts(qp), 2, 3},
                  {command_on(0x505, qp, 0x110), 3, 3}};
  const std::size_t which = GENERATE(range(std::size_t{0}, std::size_t{5}));
  const Step& step = steps[which];
  const Answer answer = rig.run(step.in);
  if (step.from == before) {
    CHECK(answer.status == Status::kOk);
    CHECK(rig.state_of(qp) == static_cast<std::uint32_t>(step.to));
  } else {
    CHECK(answer.refused(Status::kBadQpState, Check::kState));
    CHECK(rig.state_of(qp) == static_cast<std::uint32_t>(before));
  }
}

TEST_CASE("error and reset are reached from every state, and a queue pair starts again") {
  Rig rig;
  const std::uint32_t qp = rig.make_qp();
  rig.move(qp, GENERATE(0, 1, 2, 3));
  CHECK(rig.run(command_on(0x507, qp)).status == Status::kOk);
  CHECK(rig.state_of(qp) == 6);
  CHECK(rig.run(rst2init(qp)).refused(Status::kBadQpState, Check::kState));
  CHECK(rig.run(command_on(0x50a, qp)).status == Status::kOk);
  rig.move(qp, 3);
  CHECK(rig.state_of(qp) == 3);
}

TEST_CASE("every reason for which RST2INIT is refused") {
  Rig rig;
  const std::uint32_t qp = rig.make_qp();
  Bytes in = rst2init(qp);
  SECTION("second port") {
    bits(in, kPath + 0x24, 23, 16, 2);
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kPath));
  }
  SECTION("second partition key") {
    bits(in, kPath, 15, 0, 1);
    CHECK(rig.run(in).refused(Status::kBadIndex, Check::kPath));
  }
  SECTION("atomics without a mode") {
    bits(in, kQpc + 0x90, 19, 16, 0);
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kAtomicMode));
  }
  SECTION("atomics of 16 bytes") {
    bits(in, kQpc + 0x90, 19, 16, 4);
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kAtomicMode));
  }
  SECTION("an optional mask") {
    word(in, 0x10, 2);
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kOptionalMask));
  }
  SECTION("an extended context") {
    bits(in, 8, 31, 31, 1);
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kOptionalMask));
  }
  SECTION("a feature that is not there") {
    bits(in, kQpc, 7, 4, 1);  // offload_type
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kZeroField));
  }
  CHECK(rig.state_of(qp) == 0);
}

TEST_CASE("every reason for which INIT2RTR is refused") {
  Rig rig;
  const std::uint32_t qp = rig.make_qp();
  rig.move(qp, 1);
  Bytes in = init2rtr(qp, qp, Rig::kLid);
  SECTION("no LID") {
    bits(in, kPath + 0x04, 15, 0, 0);
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kPath));
  }
  SECTION("multicast LID") {
    bits(in, kPath + 0x04, 15, 0, 0xc000);
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kPath));
  }
  SECTION("second GID") {
    bits(in, kPath + 0x04, 23, 23, 1);
    bits(in, kPath + 0x08, 23, 16, 1);
    CHECK(rig.run(in).refused(Status::kBadIndex, Check::kPath));
  }
  SECTION("no MTU") {
    bits(in, kQpc + 0x08, 31, 29, 0);
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kMtu));
  }
  SECTION("MTU above the port's") {
    bits(in, kQpc + 0x08, 31, 29, 6);
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kMtu));
  }
  SECTION("messages above the device's") {
    bits(in, kQpc + 0x08, 28, 24, 31);
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kMessage));
  }
  SECTION("too many reads") {
    bits(in, kQpc + 0x90, 23, 21, 5);
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kOutstanding));
  }
  SECTION("a mask of another transition") {
    word(in, 0x10, 1 << 12);  // retry_count
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kOptionalMask));
  }
  CHECK(rig.state_of(qp) == 1);
}

TEST_CASE("too many reads refuse RTR2RTS") {
  Rig rig;
  const std::uint32_t qp = rig.make_qp();
  rig.move(qp, 2);
  Bytes in = rtr2rts(qp);
  bits(in, kQpc + 0x70, 23, 21, 5);
  CHECK(rig.run(in).refused(Status::kBadParameter, Check::kOutstanding));
  CHECK(rig.state_of(qp) == 2);
}

TEST_CASE("QUERY_QP repeats what was programmed, and only what its command takes") {
  Rig rig;
  Bytes armed = create_qp(rig.qp_plan(rig.make_cq()));
  bits(armed, kQpc, 12, 11, 0);
  const std::uint32_t qp = rig.run(armed).number();
  const Bytes fresh = rig.run(command_on(0x50b, qp), 0x110).out;
  CHECK(bits_at(fresh, kQpc, 12, 11) == 0);
  CHECK(bits_at(fresh, kQpc + 0x08, 31, 29) == 1);  // an MTU, though none was set
  rig.move(qp, 1);
  Bytes in = init2rtr(qp, 0xabcdef, 0x22);
  bits(in, kQpc + 0x90, 19, 13, 0);  // access without its mask: ignored
  REQUIRE(rig.run(in).status == Status::kOk);
  const Bytes out = rig.run(command_on(0x50b, qp), 0x110).out;
  CHECK(bits_at(out, kQpc, 12, 11) == 3);  // pm_state, as set by RST2INIT
  CHECK(bits_at(out, kQpc + 0x04, 23, 0) == rig.pd);
  CHECK(bits_at(out, kQpc + 0x08, 31, 29) == 5);
  CHECK(bits_at(out, kQpc + 0x08, 14, 11) == Rig::kLogEntries);
  CHECK(bits_at(out, kQpc + 0x14, 23, 0) == 0xabcdef);
  CHECK(bits_at(out, kPath + 0x04, 15, 0) == 0x22);
  CHECK(bits_at(out, kQpc + 0x90, 15, 13) == 7);
  CHECK(bits_at(out, kQpc + 0x90, 19, 16) == 3);
}
