// Tests the decoder with bytes written by hand from <infiniband/mlx5dv.h> and the ConnectX manual:
// every opcode, and everything it must refuse.
#include "transport/nic/decode.h"

#include <catch2/catch.hpp>

#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <string>
#include <vector>

namespace gshmem::nic {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Catch::Contains;

Bytes join(std::initializer_list<Bytes> parts) {
  Bytes all;
  for (const Bytes& part : parts) {
    for (const std::uint8_t byte : part) all.push_back(byte);
  }
  return all;
}

// Segments as they are stored in memory, with index 0x1234 and queue pair 0xabcdef.
Bytes control(std::uint8_t opmod, std::uint8_t opcode, std::uint8_t ds, std::uint8_t flags = 8) {
  return {opmod, 0x12, 0x34, opcode, 0xab, 0xcd, 0xef, ds, 0, 0, 0, flags, 0, 0, 0, 0};
}
const Bytes kRemote = {0, 0, 0, 0x12, 0x34, 0x56, 0x78, 0x90, 0xde, 0xad, 0xbe, 0xef, 0, 0, 0, 0};
const Bytes kData100 = {0, 0, 0, 100, 0x11, 0x22, 0x33, 0x44, 0, 0, 0x7f, 0xff, 0, 0, 0x10, 0};
const Bytes kData8 = {0, 0, 0, 8, 0x11, 0x22, 0x33, 0x44, 0, 0, 0x7f, 0xff, 0, 0, 0x10, 0};
const Bytes kData4 = {0, 0, 0, 4, 0x11, 0x22, 0x33, 0x44, 0, 0, 0x7f, 0xff, 0, 0, 0x10, 0};

Bytes bytes_of(const Wqe& wqe) { return {wqe.inline_payload.begin(), wqe.inline_payload.end()}; }
/// Decodes into an entry that held another one before, as consumers do; nothing of the old one may
/// remain.
DecodeResult decode(const Bytes& wqe) {
  DecodeResult result;
  Wqe& used = result.wqe;
  used.kind = WqeKind::kMaskedCompareSwap;
  used.signalled = used.solicited = used.has_immediate = true;
  used.fence = 4;
  used.remote_address = used.length = ~std::uint64_t{0};
  for (int i = 0; i < 3; ++i) used.local.push_back({~std::uint64_t{0}, 1, 2});
  const Bytes many(40, 0xee);
  used.inline_payload.assign(many.data(), many.data() + many.size());
  static_cast<Findings&>(result) = decode_wqe(wqe.data(), wqe.size(), Receives::kNo, used);
  return result;
}

Wqe good(const Bytes& wqe) {
  const DecodeResult result = decode(wqe);
  INFO(dump_wqe(wqe.data(), wqe.size()));
  INFO(result.reason);
  CHECK(result.error == WqeError::kNone);
  CHECK(result.reason.empty());
  CHECK(result.remark.empty());
  CHECK(wqe_bytes(wqe.data()) == wqe.size());
  CHECK(result.wqe.index == 0x1234);
  CHECK(result.wqe.number == 0xabcdef);
  CHECK(result.wqe.units == wqe.size() / 16);
  return result.wqe;
}

/// Checks that the entry is good, with a remark on what a NIC ignores.
void remarked(const Bytes& wqe, const char* remark) {
  const DecodeResult result = decode(wqe);
  CHECK(result.error == WqeError::kNone);
  CHECK(result.wqe.number == 0xabcdef);
  CHECK_THAT(result.remark, Contains(remark));
}

void bad(const Bytes& wqe, const char* reason, WqeError error = WqeError::kLocalOperation) {
  const DecodeResult result = decode(wqe);
  INFO(dump_wqe(wqe.data(), wqe.size()));
  CHECK(result.error == error);
  CHECK_THAT(result.reason, Contains(reason));
  if (wqe.size() >= 16) CHECK(result.wqe.index == 0x1234);
}

TEST_CASE("nop_is_a_control_segment") {
  const Wqe wqe = good(control(0, 0x00, 1));
  CHECK(wqe.kind == WqeKind::kNop);
  CHECK(wqe.signalled);
  CHECK(wqe.entries() == 1);
  CHECK_FALSE(wqe.is_atomic());
}

TEST_CASE("write_with_a_pointer") {
  const Wqe wqe = good(join({control(0, 0x08, 3), kRemote, kData100}));
  CHECK(wqe.kind == WqeKind::kWrite);
  CHECK(wqe.opcode == 0x08);
  CHECK(wqe.remote_address == 0x1234567890);
  CHECK(wqe.remote_key == 0xdeadbeef);
  CHECK(wqe.length == 100);
  REQUIRE(wqe.local.size() == 1);
  CHECK(wqe.local[0].bytes == 100);
  CHECK(wqe.local[0].key == 0x11223344);
  CHECK(wqe.local[0].address == 0x7fff00001000);
}

TEST_CASE("with_receives_writes_and_sends_may_have_an_immediate") {
  for (const std::uint8_t opcode : {std::uint8_t{0x09}, std::uint8_t{0x0b}}) {
    Bytes wqe = join({control(0, opcode, opcode == 0x09 ? 3 : 2), kRemote, kData100});
    if (opcode == 0x0b) wqe.erase(wqe.begin() + 16, wqe.begin() + 32);
    wqe[15] = 7;
    const DecodeResult result = decode_wqe(wqe.data(), wqe.size(), Receives::kYes);
    CHECK(result.error == WqeError::kNone);
    CHECK(result.remark.empty());
    CHECK(result.wqe.has_immediate);
    CHECK(result.wqe.immediate == 7);
  }
}

TEST_CASE("a_wait_names_a_completion_queue_and_a_count_of_24_bits") {
  const Bytes wqe =
      join({control(0, 0x0f, 2), {0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0, 0, 7, 0, 0xab, 0xcd, 0xef}});
  const DecodeResult result = decode_wqe(wqe.data(), wqe.size(), Receives::kYes);
  CHECK(result.error == WqeError::kNone);
  CHECK(result.remark.empty());
  CHECK(result.wqe.kind == WqeKind::kWait);
  CHECK(result.wqe.awaited_queue == 0xabcdef);
  CHECK(result.wqe.awaited_count == 7);
  CHECK(decode_wqe(wqe.data(), wqe.size()).error == WqeError::kLocalOperation);
}

TEST_CASE("write_gathers_several_pointers_and_may_be_longer_than_an_entry") {
  const Wqe wqe = good(join({control(0, 0x08, 5), kRemote, kData100, kData8, kData4}));
  CHECK(wqe.length == 112);
  CHECK(wqe.local.size() == 3);
  CHECK(wqe.entries() == 2);
}

TEST_CASE("write_without_data_has_length_0") {
  const Wqe wqe = good(join({control(0, 0x08, 2), kRemote}));
  CHECK(wqe.length == 0);
  CHECK(wqe.local.empty());
}

TEST_CASE("write_inline_of_12_and_28_bytes") {
  const Bytes twelve = {0x80, 0, 0, 12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  Wqe wqe = good(join({control(0, 0x08, 3), kRemote, twelve}));
  CHECK(bytes_of(wqe) == Bytes{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  CHECK(wqe.length == 12);
  CHECK(wqe.local.empty());

  Bytes more = twelve;
  more[3] = 28;
  for (std::uint8_t i = 13; i <= 28; ++i) more.push_back(i);
  wqe = good(join({control(0, 0x08, 4), kRemote, more}));
  REQUIRE(wqe.inline_payload.size() == 28);
  CHECK(wqe.inline_payload.back() == 28);
}

TEST_CASE("read_and_dump") {
  const Wqe read = good(join({control(0, 0x10, 3), kRemote, kData100}));
  CHECK(read.kind == WqeKind::kRead);
  CHECK(read.length == 100);
  const Wqe dump = good(join({control(0, 0x23, 2, 0x48), kData8}));
  CHECK(dump.kind == WqeKind::kDump);
  CHECK(dump.fence == 2);
  CHECK(dump.local.front().address == 0x7fff00001000);
}

TEST_CASE("flags_of_the_control_segment") {
  CHECK_FALSE(good(control(0, 0, 1, 0x00)).signalled);
  CHECK_FALSE(good(control(0, 0, 1, 0x04)).signalled);  // completes only with the first error
  CHECK(good(control(0, 0, 1, 0x08)).signalled);
  CHECK(good(control(0, 0, 1, 0x0c)).signalled);
  CHECK(good(control(0, 0, 1, 0x0a)).signalled);
  CHECK(good(control(0, 0, 1, 0x0a)).solicited);
  CHECK_FALSE(good(control(0, 0, 1, 0x08)).solicited);
  CHECK_FALSE(decode(control(0, 0, 1, 0x09)).wqe.solicited);  // a reserved bit
  CHECK(good(control(0, 0, 1, 0x88)).fence == 4);
  CHECK(good(control(0, 0, 1, 0x28)).fence == 1);
  CHECK(good(control(0, 0, 1, 0x68)).fence == 3);
  bad(control(0, 0, 1, 0xa8), "fence mode 5");
  remarked(control(0, 0, 1, 0x18), "fm_ce_se 0x18");
  remarked(control(0, 0, 1, 0x09), "fm_ce_se 0x09");
}

TEST_CASE("fields_that_a_nic_ignores_are_remarked") {
  Bytes wqe = control(0, 0, 1);
  wqe[7] = 0x41;
  remarked(wqe, "reserved bits beside ds");
  wqe = control(0, 0, 1);
  wqe[8] = 0xff;
  remarked(wqe, "signature 0xff");
  wqe = control(0, 0, 1);
  wqe[9] = 1;
  remarked(wqe, "DCI stream");
  wqe = control(0, 0, 1);
  wqe[10] = 1;
  remarked(wqe, "DCI stream");
  wqe[8] = 2;
  remarked(wqe, "signature 0x02; a DCI stream");
  wqe = join({control(0, 8, 3), kRemote, kData100});
  wqe[15] = 7;
  remarked(wqe, "immediate 0x00000007 in WRITE");
  wqe = join({control(0, 8, 3), kRemote, kData100});
  wqe[31] = 1;
  remarked(wqe, "remote address segment");
}

TEST_CASE("ds_must_fit_the_opcode") {
  bad(control(0, 0, 0), "ds is 0");
  bad({}, "shorter");
  bad(Bytes(15), "shorter");
  bad(join({control(0, 0, 2), kData8}), "NOP ends 16 bytes earlier");
  bad(control(0, 8, 1), "no room for the remote address");
  bad(control(0, 8, 3), "ds 3 is not the 16 bytes");
  bad(control(0, 0x10, 1), "no room for the remote address");
  bad(control(0, 0x23, 1), "ds 1 in DUMP");
  bad(join({control(0, 0x23, 3), kData8, kData8}), "ds 3 in DUMP");
}

TEST_CASE("inline_headers_must_fit") {
  Bytes data = {0x80, 0, 0, 13, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  bad(join({control(0, 8, 3), kRemote, data}), "13 bytes inline do not fit into ds 3");
  data[3] = 12;
  bad(join({control(0, 8, 4), kRemote, data, data}), "inline data after another data segment");
  data[0] = 0xff;
  bad(join({control(0, 8, 3), kRemote, data}), "inline do not fit");
  data[0] = 0x80;
  bad(join({control(0, 8, 4), kRemote, kData8, data}), "inline data after another data segment");
  bad(join({control(0, 0x10, 3), kRemote, data}), "inline data in READ");
  bad(join({control(0, 0x23, 2), data}), "inline data in DUMP");
}

TEST_CASE("both_encodings_of_a_doorbell_give_the_next_index") {
  const auto value = [](Bytes bytes) {
    std::uint64_t word = 0;
    for (unsigned i = 0; i < 8; ++i) word |= std::uint64_t{bytes[i]} << 8 * i;
    return word;
  };
  // Clients on GPUs: next index, opcode 0, ds 0.
  Doorbell doorbell = decode_doorbell(value({0, 0x12, 0x35, 0, 0xab, 0xcd, 0xef, 0}));
  CHECK(doorbell.number == 0xabcdef);
  CHECK(doorbell.producer == 0x1235);
  // rdma-core: the first 8 bytes of the last WQE.
  doorbell = decode_doorbell(value({0, 0x12, 0x34, 8, 0xab, 0xcd, 0xef, 3}));
  CHECK(doorbell.number == 0xabcdef);
  CHECK(doorbell.producer == 0x1235);
  CHECK(decode_doorbell(value({9, 0xff, 0xff, 0x14, 0, 0, 1, 6})).producer == 1);
}

TEST_CASE("a_datagram_has_an_address_vector_before_its_data") {
  const Bytes address = {
      0x11, 0x22, 0x33, 0x44, 0,    0,    0,    0,     // Q_Key
      0x80, 0x0a, 0x0b, 0x0c, 0x03, 0x00, 0xc1, 0x23,  // long form, number; sl, port
      0,    0,    0,    0,    0x02, 0x01, 0x02, 0x03,  // MAC address
      0x04, 0x05, 0x68, 0x40, 0x40, 0x3f, 0xff, 0xff,  // tclass, hops, GRH, GID 3
      0xfe, 0x80, 0,    0,    0,    0,    0,    0,    1, 2, 3, 4, 5, 6, 7, 8};
  const auto read = [](const Bytes& wqe) {
    return decode_wqe(wqe.data(), wqe.size(), Receives::kDatagrams);
  };
  const DecodeResult result = read(join({control(0, 0x0a, 5), address, kData100}));
  REQUIRE(result.error == WqeError::kNone);
  CHECK(result.remark.empty());
  const AddressVector& to = result.wqe.to;
  CHECK(result.wqe.kind == WqeKind::kSend);
  CHECK(result.wqe.length == 100);
  CHECK(to.key == 0x11223344);
  CHECK(to.number == 0x0a0b0c);
  CHECK(to.lid == 0xc123);
  CHECK(to.mac == 0x020102030405);
  CHECK(int{to.traffic_class} == 0x68);
  CHECK(int{to.hop_limit} == 64);
  CHECK(to.global);
  CHECK(int{to.gid_index} == 3);
  CHECK(to.flow_label == 0xfffff);
  CHECK(Bytes(to.gid.begin(), to.gid.end()) == Bytes(address.end() - 16, address.end()));
  CHECK_THAT(read(control(0, 0x0a, 1)).reason, Contains("address vector"));
  CHECK_THAT(
      read(join({control(0, 0x0a, 3), Bytes(address.begin(), address.begin() + 16), kData100}))
          .reason,
      Contains("address vector"));
  Bytes brief(address.begin(), address.begin() + 16);
  brief[8] = 0;
  const DecodeResult compact = read(join({control(0, 0x0a, 3), brief, kData100}));
  REQUIRE(compact.error == WqeError::kNone);
  CHECK(compact.wqe.to.brief);
  CHECK(compact.wqe.to.lid == 0xc123);
  CHECK_FALSE(compact.wqe.to.global);
  CHECK(compact.wqe.length == 100);
  CHECK(read(join({control(0, 0x08, 3), kRemote, kData100})).error == WqeError::kLocalOperation);
}

TEST_CASE("what_a_dc_initiator_sends_has_an_address_vector_and_what_stays_has_none") {
  Bytes address(48);
  for (std::size_t i = 0; i < 8; ++i) address[i] = static_cast<std::uint8_t>(0x11 * (i + 1));
  address[8] = 0x80, address[11] = 0x42;
  const auto read = [](const Bytes& wqe) {
    return decode_wqe(wqe.data(), wqe.size(), Receives::kTargets);
  };
  for (const std::uint8_t opcode : Bytes{0x08, 0x0a, 0x10}) {
    INFO(int{opcode});
    const DecodeResult result =
        read(opcode == 0x0a ? join({control(0, 0x0a, 5), address, kData100})
                            : join({control(0, opcode, 6), address, kRemote, kData100}));
    REQUIRE(result.error == WqeError::kNone);
    CHECK(result.wqe.to.key == 0x1122334455667788);
    CHECK(result.wqe.to.number == 0x42);
    CHECK(result.wqe.length == 100);
  }
  CHECK(read(control(0, 0x00, 1)).error == WqeError::kNone);
  CHECK(read(join({control(0, 0x23, 2), kData100})).wqe.kind == WqeKind::kDump);
  CHECK(read(join({control(0, 0x08, 3), kRemote, kData100})).error != WqeError::kNone);
}

TEST_CASE("a_completion_has_its_bytes") {
  auto cqe = encode_completion(
      {.wqe_opcode = 0x10, .number = 0xabcdef, .wqe_index = 0x1234, .bytes = 0x01020304});
  Bytes expected(64);
  expected[44] = 1, expected[45] = 2, expected[46] = 3, expected[47] = 4;
  expected[56] = 0x10, expected[57] = 0xab, expected[58] = 0xcd, expected[59] = 0xef;
  expected[60] = 0x12, expected[61] = 0x34;
  CHECK(Bytes(cqe.begin(), cqe.end()) == expected);

  cqe = encode_completion({.error = true,
                           .syndrome = 0x13,
                           .vendor_syndrome = 0x88,
                           .wqe_opcode = 0x08,
                           .number = 7,
                           .wqe_index = 0xffff,
                           .bytes = 9,
                           .owner = true,
                           .user_index = 0x00aabbcc});
  expected.assign(64, 0);
  expected[33] = 0xaa, expected[34] = 0xbb, expected[35] = 0xcc;
  expected[54] = 0x88, expected[55] = 0x13;
  expected[56] = 0x08, expected[59] = 7;
  expected[60] = 0xff, expected[61] = 0xff;
  expected[63] = 0xd3;
  CHECK(Bytes(cqe.begin(), cqe.end()) == expected);
  // The completion of a datagram has the source LID, and in flags_rqpn its sender, the kind of its
  // headers, and the GRH bit.
  cqe = encode_completion({.of = CompletionOf::kSend,
                           .source = 0xabcdef,
                           .source_lid = 0x1234,
                           .global = true,
                           .packet_type = 9});
  CHECK(Bytes(cqe.begin() + 22, cqe.begin() + 28) == Bytes{0x12, 0x34, 0x19, 0xab, 0xcd, 0xef});
  // mlx5dv.h, op_own: opcode 7:4, solicited event 1, owner 0.
  CHECK(int{encode_completion({.solicited = true, .owner = true})[63]} == 0x03);
}

// Completions that cards have written, from public reports. Byte 62, the signature, is not
// compared.
TEST_CASE("an_error_completion_is_that_of_a_card") {
  struct Dump {
    Completion completion;
    std::uint32_t user_index, words[4];
  };
  const Dump dumps[] = {{{.syndrome = 0x13,  // ofiwg/libfabric#4283
                          .vendor_syndrome = 0x88,
                          .wqe_opcode = 0x10,
                          .number = 0x012abe,
                          .wqe_index = 0x0dd0,
                          .owner = true},
                         2,
                         {0, 0x00008813, 0x10012abe, 0x0dd000d3}},
                        {{.syndrome = 0x04,  // Juniper/warp17#81
                          .vendor_syndrome = 0x53,
                          .hardware_syndrome = 0x9d,
                          .wqe_opcode = 0x0a,
                          .number = 0x1542,
                          .wqe_index = 0x0019},
                         0x13,
                         {0, 0x9d005304, 0x0a001542, 0x001900d2}},
                        {{.syndrome = 0x13,  // openucx/ucx#1569
                          .vendor_syndrome = 0x88,
                          .wqe_opcode = 0x08,
                          .number = 0x6214},
                         0,
                         {0, 0x00008813, 0x08006214, 0x000000d2}}};
  for (Dump dump : dumps) {
    dump.completion.error = true;
    dump.completion.user_index = dump.user_index;
    const auto cqe = encode_completion(dump.completion);
    Bytes expected(64);
    expected[35] = static_cast<std::uint8_t>(dump.user_index);
    for (std::size_t i = 0; i < 16; ++i)
      expected[48 + i] = static_cast<std::uint8_t>(dump.words[i / 4] >> (24 - 8 * (i % 4)));
    CHECK(Bytes(cqe.begin(), cqe.end()) == expected);
  }
}

}  // namespace
}  // namespace gshmem::nic
