#include "transport/softnic/tests/verbs_fake_engine.h"
#include "transport/softnic/tests/verbs_firmware_rig.h"
#include "tests/capture.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <tuple>

using namespace verbs_test;

TEST_CASE("unknown opcode is bad operation with its own syndrome") {
  Rig rig;
  for (const std::uint32_t opcode : {0x0u, 0x200u, 0x712u, 0xa00u, 0xffffu}) {
    const Answer answer = rig.run(command(opcode, 0x40));
    CHECK(answer.refused(Status::kBadOperation, Check::kOpcode));
    CHECK(word_at(answer.out, 4) == 0x5f7c0001);
  }
}

TEST_CASE("input one byte short is bad input length, output one byte short bad output length") {
  Rig rig;
  const auto [opcode, in, out] =
      GENERATE(table<std::uint32_t, std::size_t, std::size_t>({{0x100, 0x10, 0x10},
                                                               {0x400, 0x110, 0x10},
                                                               {0x401, 0x10, 0x10},
                                                               {0x500, 0x110, 0x10},
                                                               {0x501, 0x10, 0x10},
                                                               {0x502, 0x110, 0x10},
                                                               {0x503, 0x110, 0x10},
                                                               {0x504, 0x110, 0x10},
                                                               {0x505, 0x110, 0x10},
                                                               {0x507, 0x10, 0x10},
                                                               {0x50a, 0x10, 0x10},
                                                               {0x50b, 0x10, 0x110},
                                                               {0x50e, 0x110, 0x10},
                                                               {0x760, 0x10, 0x30},
                                                               {0x800, 0x10, 0x10},
                                                               {0x801, 0x10, 0x10},
                                                               {0x802, 0x10, 0x10},
                                                               {0x803, 0x10, 0x10}}));
  CHECK(
      rig.run(command(opcode, in - 1), out).refused(Status::kBadInputLength, Check::kInputLength));
  CHECK(rig.run(command(opcode, in), out - 1)
            .refused(Status::kBadOutputLength, Check::kOutputLength));
}

TEST_CASE("commands shorter than a header do not crash") {
  Rig rig;
  Bytes none;
  CHECK(rig.firmware.execute(none, none) == Status::kBadInputLength);
  Bytes four(4), out(4);
  CHECK(rig.firmware.execute(four, out) == Status::kBadInputLength);
  // An output with a header has the status; a shorter one is unchanged.
  for (const std::size_t bytes : {7u, 8u}) {
    Bytes room(bytes, 0xee);
    CHECK(rig.firmware.execute(command(0xfff), room) == Status::kBadOperation);
    CHECK(bits_at(room, 0, 31, 24) ==
          (bytes == 8 ? static_cast<std::uint32_t>(Status::kBadOperation) : 0u));
  }
}

namespace {

Answer query_cap(Rig& rig, std::uint32_t type, bool current) {
  Bytes in = command(0x100);
  bits(in, 4, 15, 0, type << 1 | (current ? 1 : 0));
  return rig.run(in, 0x1010);
}

}  // namespace

TEST_CASE("general capabilities are at their offsets, with equal current and maximum values") {
  Rig rig;
  const bool current = GENERATE(true, false);
  const Answer answer = query_cap(rig, 0, current);
  REQUIRE(answer.status == Status::kOk);
  constexpr std::size_t cap = 0x10;
  CHECK(bits_at(answer.out, cap + 0x04, 31, 31) == 1);   // hca_cap_2
  CHECK(bits_at(answer.out, cap + 0x10, 23, 16) == 15);  // log_max_qp_sz
  CHECK(bits_at(answer.out, cap + 0x18, 23, 16) == 22);  // log_max_cq_sz
  CHECK(bits_at(answer.out, cap + 0x34, 9, 8) == 0);     // port_type InfiniBand
  CHECK(bits_at(answer.out, cap + 0x34, 7, 0) == 1);     // num_ports
  CHECK(bits_at(answer.out, cap + 0x3c, 3, 0) == 1);     // cqe_version
  CHECK(bits_at(answer.out, cap + 0x40, 1, 1) == 1);     // atomic
  CHECK(bits_at(answer.out, cap + 0x40, 5, 5) == 1);     // dct
  CHECK(bits_at(answer.out, cap + 0x40, 31, 31) == 1);   // compact_address_vector
  CHECK(bits_at(answer.out, cap + 0x24, 21, 16) == 4);   // log_max_ra_req_dc
  CHECK(bits_at(answer.out, cap + 0x44, 19, 19) == 1);   // cd
  CHECK(bits_at(answer.out, cap + 0x44, 0, 0) == 1);     // rc
  CHECK(bits_at(answer.out, cap + 0x4c, 31, 31) == 1);   // bf
  CHECK(bits_at(answer.out, cap + 0x4c, 20, 16) == 9);   // log_bf_reg_size
  CHECK(bits_at(answer.out, cap + 0x50, 15, 0) == 1008);
  CHECK(bits_at(answer.out, cap + 0x10, 31, 24) == 15);  // log_max_srq_sz
  CHECK(bits_at(answer.out, cap + 0x70, 28, 24) > 0);    // log_max_rmp
}

TEST_CASE("atomic capabilities: four operations, 4 and 8 bytes, results in the host's order") {
  Rig rig;
  const Answer answer = query_cap(rig, 3, true);
  REQUIRE(answer.status == Status::kOk);
  CHECK(bits_at(answer.out, 0x10 + 0x08, 31, 30) == 1);
  CHECK(bits_at(answer.out, 0x10 + 0x08, 25, 25) == 1);
  CHECK(bits_at(answer.out, 0x10 + 0x10, 15, 0) == 0xf);
  CHECK(bits_at(answer.out, 0x10 + 0x14, 15, 0) == 0xc);
  CHECK(bits_at(answer.out, 0x10 + 0x18, 15, 0) == 0xc);  // of DC, which NVSHMEM reads
}

TEST_CASE("capabilities are cut to the size of the client's buffer") {
  Rig rig;
  Bytes in = command(0x100);
  const Bytes whole = rig.run(in, 0x1010).out;
  // rdma-core tests/test_mlx5_devx.py asks for 2064 bytes.
  for (const std::size_t room : {std::size_t{0x10}, std::size_t{0x810}, std::size_t{0x2000}}) {
    const Answer answer = rig.run(in, room);
    CHECK(answer.status == Status::kOk);
    CHECK(std::equal(whole.data(), whole.data() + std::min(room, whole.size()), answer.out.data()));
  }
}

TEST_CASE("a reply overwrites the whole output") {
  Rig rig;
  const Answer made = rig.run(command(0x800), 0x40);
  CHECK(Bytes(made.out.begin() + 12, made.out.end()) == Bytes(0x40 - 12));
}

TEST_CASE("every reason for which a CQ is refused") {
  Rig rig;
  Bytes in = create_cq(rig.cq_plan());
  SECTION("nothing wrong") { CHECK(rig.run(in).status == Status::kOk); }
  SECTION("no umem for the buffer") {
    bits(in, 0x5c, 31, 31, 0);
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kUmemInvalid));
  }
  SECTION("no umem for the record") {
    bits(in, 0x10, 25, 25, 0);
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kUmemInvalid));
  }
  SECTION("unknown umem") {
    word(in, 0x58, 99);
    CHECK(rig.run(in).refused(Status::kBadResource, Check::kUmem));
  }
  SECTION("CQEs of 64 bytes in places of 128") {
    bits(in, 0x10, 23, 21, 2);
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kQueueSize));
  }
  SECTION("CQEs of 128 bytes need twice the room") {
    bits(in, 0x10, 23, 21, 1);
    bits(in, 0x1c, 28, 24, 9);
    CHECK(rig.run(in).status == Status::kOk);
    bits(in, 0x1c, 28, 24, 10);  // 128 KiB in 64 KiB
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kUmemRange));
  }
  SECTION("compressed CQEs") {
    bits(in, 0x10, 14, 14, 1);
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kZeroField));
  }
  SECTION("too many entries for the device") {
    bits(in, 0x1c, 28, 24, 23);
    CHECK(rig.run(in).refused(Status::kExceedsLimit, Check::kQueueSize));
  }
  SECTION("too many entries for the umem") {
    bits(in, 0x1c, 28, 24, 11);  // 128 KiB in 64 KiB
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kUmemRange));
  }
  SECTION("buffer not on a page") {
    word64(in, 0x50, 64);
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kUmemRange));
  }
  SECTION("buffer on a step of large pages of the umem") {
    word(in, 0x58, rig.firmware.register_umem(rig.memory(), Rig::kUmemBytes, 0x40000));
    word64(in, 0x50, 0x1000);
    CHECK(rig.run(in).status == Status::kOk);
  }
  SECTION("buffer between the steps of larger pages of the umem") {
    word(in, 0x58, rig.firmware.register_umem(rig.memory(), Rig::kUmemBytes, 0x80000));
    word64(in, 0x50, 0x1000);
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kUmemRange));
  }
  SECTION("buffer inside a page, by page_offset") {
    bits(in, 0x18, 11, 6, 1);
    CHECK(rig.run(in).status == Status::kOk);
  }
  SECTION("record not aligned") {
    word64(in, 0x48, 0xf004);
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kUmemRange));
  }
  SECTION("record beyond the end") {
    word64(in, 0x48, Rig::kUmemBytes);
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kUmemRange));
  }
  SECTION("an offset that overflows") {
    word64(in, 0x50, ~0xfffull);
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kUmemRange));
  }
  SECTION("unknown UAR") {
    bits(in, 0x1c, 23, 0, rig.pd);
    CHECK(rig.run(in).refused(Status::kBadResource, Check::kUar));
  }
  SECTION("no event queue") {
    bits(in, 0x24, 7, 0, 0);
    CHECK(rig.run(in).refused(Status::kBadResource, Check::kEventQueue));
  }
  SECTION("reserved bits are no reason") {
    word(in, 0x10 + 0x20, 0xffffffff);  // last_notified_index and the words after it
    CHECK(rig.run(in).status == Status::kOk);
  }
}

TEST_CASE("an Ethernet port has the capabilities of RoCE, one of InfiniBand has none") {
  Rig rig;
  gshmem::soft::DeviceAttributes& device = fake_device();
  const gshmem::soft::DeviceAttributes before = device;
  CHECK(query_cap(rig, 4, true).out == Bytes(0x1010));
  device.mac = 0x024e49430000;
  const Bytes out = query_cap(rig, 4, true).out;
  Bytes in = create_qp(rig.qp_plan(rig.make_cq()));
  bits(in, kQpc + 0x08, 7, 6, 2);  // time stamps in real time
  CHECK(rig.run(in).status == Status::kOk);
  bits(in, kQpc + 0x08, 7, 6, 3);
  CHECK(rig.run(in).refused(Status::kBadParameter, Check::kCapability));
  device = before;
  CHECK(bits_at(out, 0x10, 1, 0) == 2);         // qp_ts_format: both
  CHECK(bits_at(out, 0x10 + 0x10, 7, 0) == 5);  // RoCE v1 and v2
  CHECK(bits_at(out, 0x10 + 0x14, 15, 0) == 4791);
  CHECK(word_at(out, 0x10 + 0x18) == 0xffffc000);  // range of UDP source ports
  CHECK(bits_at(out, 0x10 + 0x1c, 15, 0) >= 4);    // GIDs
}

TEST_CASE("the port is up, and has the LID and the GUID of the device") {
  Rig rig;
  Bytes in = command(0x762);
  const Answer answer = rig.run(in, 0x210);
  REQUIRE(answer.status == Status::kOk);
  CHECK(bits_at(answer.out, 0x10 + 0x20, 15, 12) == 5);  // LinkUp
  CHECK(bits_at(answer.out, 0x10 + 0x20, 3, 0) == 4);    // active
  CHECK(bits_at(answer.out, 0x10 + 0x60, 31, 16) == Rig::kLid);
  CHECK(word_at(answer.out, 0x10 + 0x38) == 0x0002c903);  // node_guid
  bits(in, 8, 19, 16, 1);
  CHECK(rig.run(in, 0x210).out == answer.out);
  bits(in, 8, 19, 16, 2);
  CHECK(rig.run(in, 0x210).refused(Status::kBadParameter, Check::kPath));
  bits(in, 8, 31, 31, 1);
  CHECK(rig.run(in, 0x210).refused(Status::kBadParameter, Check::kCapability));
}
