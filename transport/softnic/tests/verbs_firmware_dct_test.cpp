// CREATE_DCT and its siblings over an engine that does nothing.
#include "transport/softnic/tests/verbs_fake_engine.h"
#include "transport/softnic/tests/verbs_firmware_rig.h"

#include <catch2/catch.hpp>

using namespace verbs_test;

namespace {

struct TargetRig : Rig {
  std::uint32_t cq = make_cq();
  std::uint32_t srq = run(create_rmp(pd, umem, 0x2000, 0xf010)).number();
  Bytes in = create_dct({.pd = pd, .cq = cq, .srq = srq, .key = 0x0123456789abcdef});
};

}  // namespace

TEST_CASE("every reason for which a DC target is refused") {
  TargetRig rig;
  Bytes& in = rig.in;
  SECTION("nothing wrong") { CHECK(rig.run(in).status == Status::kOk); }
  SECTION("unknown protection domain") {
    bits(in, kDctc + 0x18, 23, 0, 999);
    CHECK(rig.run(in).refused(Status::kBadResource, Check::kPd));
  }
  SECTION("unknown CQ") {
    bits(in, kDctc + 0x08, 23, 0, rig.pd);
    CHECK(rig.run(in).refused(Status::kBadResource, Check::kCompletionQueue));
  }
  SECTION("unknown shared receive queue") {
    bits(in, kDctc + 0x14, 23, 0, 0);
    CHECK(rig.run(in).refused(Status::kBadResource, Check::kReceiveQueue));
  }
  SECTION("atomics without a mode") {
    bits(in, kDctc + 0x0c, 23, 20, 0);
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kAtomicMode));
  }
  SECTION("second port") {
    bits(in, kDctc + 0x28, 23, 16, 2);
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kPath));
  }
  SECTION("second partition key") {
    bits(in, kDctc + 0x28, 15, 0, 1);
    CHECK(rig.run(in).refused(Status::kBadIndex, Check::kPath));
  }
  SECTION("second GID") {
    bits(in, kDctc + 0x2c, 23, 16, 1);
    CHECK(rig.run(in).refused(Status::kBadIndex, Check::kPath));
  }
  SECTION("MTU above the port's, or none") {
    bits(in, kDctc + 0x28, 26, 24, GENERATE(0u, 6u));
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kMtu));
  }
  SECTION("a feature that is not there") {
    bits(in, kDctc, 7, 4, 1);  // offload_type
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kZeroField));
  }
}

TEST_CASE("a DC target is as programmed, and keeps what it uses") {
  TargetRig rig;
  std::vector<std::string> told;
  verbs_test::told = &told;
  const std::uint32_t dct = rig.run(rig.in).number();
  verbs_test::told = nullptr;
  REQUIRE(told.size() == 1);
  CHECK(
      told[0].ends_with("index 18193 key 123456789abcdef mtu 4096 timer 12 gid 0 hops 255 "
                        "write 1 read 1 atomic 1 mode 3"));
  const Answer answer = rig.run(command_on(0x713, dct), 0x50);
  REQUIRE(answer.status == Status::kOk);
  CHECK(bits_at(answer.out, kDctc, 27, 24) == 0);  // active
  CHECK(bits_at(answer.out, kDctc + 0x14, 23, 0) == rig.srq);
  CHECK(word_at(answer.out, kDctc + 0x24) == 0x89abcdef);
  CHECK(word_at(answer.out, kDctc + 0x30) == 9);  // violations that the engine has counted
  CHECK(rig.run(command_on(0x90e, rig.srq)).refused(Status::kBadResourceState, Check::kInUse));
  CHECK(rig.run(command_on(0x401, rig.cq)).refused(Status::kBadResourceState, Check::kInUse));
  CHECK(rig.run(command_on(0x711, dct)).status == Status::kOk);
  CHECK(rig.run(command_on(0x711, dct)).refused(Status::kBadResource, Check::kNumber));
  CHECK(rig.run(command_on(0x90e, rig.srq)).status == Status::kOk);
}

TEST_CASE("an initiator has no path, and may name a receive queue that it does not use") {
  TargetRig rig;
  auto plan = rig.qp_plan(rig.cq);
  plan.service = 5;
  Bytes in = create_qp(plan);
  bits(in, kQpc + 0xac, 26, 24, 1);  // rq_type shared
  bits(in, kQpc + 0xac, 23, 0, rig.srq);
  bits(in, kQpc + 0x9c, 23, 0, rig.cq);
  const std::uint32_t qp = rig.run(in).number();
  REQUIRE(qp != 0);
  Bytes init = rst2init(qp);
  word64(init, kQpc + 0xc8, 0x5623ceaf);  // dc_access_key
  CHECK(rig.run(init).status == Status::kOk);
  CHECK(rig.run(init2rtr(qp, 0, 0)).status == Status::kOk);
  CHECK(rig.run(rtr2rts(qp)).status == Status::kOk);
  CHECK(rig.state_of(qp) == 3);
}
