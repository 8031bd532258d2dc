// Compares bytes of the device commands with the specification (mlx5_ifc.h), counted by hand. Byte
// offsets are those of the whole command; the context of a queue pair begins at 0x18, its path at
// 0x30.
#include "transport/nic/mlx5/commands.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <initializer_list>
#include <vector>

using namespace gshmem::nic::mlx5;

namespace {

struct Bytes {
  std::size_t at;
  std::vector<std::uint8_t> bytes;
};

/// Checks that all bytes that are not named are zero.
template <class Layout>
void check_bytes(const prm::Message<Layout>& message, std::initializer_list<Bytes> expected) {
  std::vector<std::uint8_t> whole(message.size(), 0);
  for (const Bytes& part : expected) {
    std::copy(part.bytes.begin(), part.bytes.end(), whole.begin() + static_cast<long>(part.at));
  }
  for (std::size_t i = 0; i < whole.size(); ++i) {
    CAPTURE(i);
    REQUIRE(static_cast<int>(message.data()[i]) == static_cast<int>(whole[i]));
  }
}

}  // namespace

TEST_CASE("create_cq_has_its_bytes") {
  check_bytes(encode_create_cq({.umem = 0x11223344,
                                .uar_page = 0xabcdef,
                                .event_queue = 5,
                                .entry = 0x1000,
                                .record = 0x2008}),
              {{0x00, {0x04, 0x00}},
               {0x10, {0x02, 0x12, 0x00, 0x00}},  // record in a umem, collapsed, overrun ignored
               {0x14, {0x11, 0x22, 0x33, 0x44}},
               {0x1c, {0x00, 0xab, 0xcd, 0xef}},  // one entry
               {0x27, {0x05}},
               {0x4e, {0x20, 0x08}},
               {0x56, {0x10, 0x00}},
               {0x58, {0x11, 0x22, 0x33, 0x44}},
               {0x5c, {0x80}}});
}

TEST_CASE("create_qp_has_its_bytes") {
  check_bytes(encode_create_qp({.umem = 0x11223344,
                                .uar_page = 0xabcdef,
                                .pd = 0x010203,
                                .cq = 0x0a0b0c,
                                .user_index = 7,
                                .timestamp_format = 1,
                                .log_entries = 10,
                                .entries = 0x10000,
                                .record = 0x3010}),
              {{0x00, {0x05, 0x00}},
               {0x1a, {0x18}},  // migrated
               {0x1c, {0x00, 0x01, 0x02, 0x03}},
               {0x20, {0x00, 0x00, 0x50, 0x40}},
               {0x24, {0x00, 0xab, 0xcd, 0xef}},
               {0x2b, {0x07}},
               {0x94, {0x00, 0x0a, 0x0b, 0x0c}},
               {0xb4, {0x00, 0x0a, 0x0b, 0x0c}},
               {0xbe, {0x30, 0x10}},
               {0xc4, {0x03}},  // no receive queue
               {0xe8, {0x10}},
               {0xfc, {0x11, 0x22, 0x33, 0x44}},
               {0x105, {0x01}},
               {0x108, {0x11, 0x22, 0x33, 0x44}},
               {0x10c, {0x80}}});
}

TEST_CASE("rst2init_has_its_bytes") {
  check_bytes(encode_init(0xabcdef, {.port = 2, .pkey_index = 0x1234, .counter_set = 0x77}),
              {{0x00, {0x05, 0x02}},
               {0x09, {0xab, 0xcd, 0xef}},
               {0x1a, {0x18}},
               {0x24, {0x77}},
               {0x32, {0x12, 0x34}},
               {0x55, {0x02}},
               {0xa8, {0x00, 0x03, 0xe0, 0x00}}});
}

TEST_CASE("init2rtr_on_infiniband_has_its_bytes") {
  RtrSpec spec;
  spec.remote_number = 0x010203;
  spec.receive_psn = 0x0a0b0c;
  spec.mtu = 5;
  spec.log_reads_in = 4;
  spec.service_level = 3;
  spec.remote_lid = 0x1234;
  check_bytes(encode_rtr(0xabcdef, spec), {{0x00, {0x05, 0x03}},
                                           {0x09, {0xab, 0xcd, 0xef}},
                                           {0x1a, {0x18}},
                                           {0x20, {0xbe}},  // MTU 4096, messages to 2^30
                                           {0x2d, {0x01, 0x02, 0x03}},
                                           {0x36, {0x12, 0x34}},
                                           {0x54, {0x03, 0x01}},
                                           {0xa8, {0x00, 0x83, 0xe0, 0x00}},
                                           {0xac, {0x0c, 0x0a, 0x0b, 0x0c}}});
}

TEST_CASE("init2rtr_on_ethernet_has_its_bytes") {
  RtrSpec spec;
  spec.remote_number = 0x010203;
  spec.mtu = 3;
  spec.service_level = 5;
  spec.traffic_class = 0x68;
  spec.ethernet = spec.roce_v2 = true;
  spec.gid_index = 3;
  spec.hop_limit = 64;
  spec.udp_source_port = 0xc123;
  spec.remote_gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 2, 3};
  spec.remote_mac = {0x02, 0x11, 0x22, 0x33, 0x44, 0x55};
  check_bytes(encode_rtr(0xabcdef, spec), {{0x00, {0x05, 0x03}},
                                           {0x09, {0xab, 0xcd, 0xef}},
                                           {0x1a, {0x18}},
                                           {0x20, {0x7e}},
                                           {0x2d, {0x01, 0x02, 0x03}},
                                           {0x39, {0x03, 0x00, 0x40}},
                                           {0x3c, {0x06, 0x80}},
                                           {0x4a, {0xff, 0xff, 10, 1, 2, 3}},
                                           {0x51, {0x1a, 0xc1, 0x23}},
                                           {0x54, {0x50, 0x01, 0x02, 0x11}},
                                           {0x58, {0x22, 0x33, 0x44, 0x55}},
                                           {0xa8, {0x00, 0x03, 0xe0, 0x00}},
                                           {0xac, {0x0c}}});
}

TEST_CASE("init2rtr_with_a_grh_on_infiniband_has_its_bytes") {
  RtrSpec spec;
  spec.remote_number = 1;
  spec.remote_lid = 0x1234;
  spec.global = true;
  spec.gid_index = 2;
  spec.hop_limit = 64;
  spec.traffic_class = 0x68;
  spec.remote_gid = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8};
  check_bytes(encode_rtr(0xabcdef, spec), {{0x00, {0x05, 0x03}},
                                           {0x09, {0xab, 0xcd, 0xef}},
                                           {0x1a, {0x18}},
                                           {0x20, {0x1e}},
                                           {0x2f, {0x01}},
                                           {0x35, {0x80, 0x12, 0x34}},
                                           {0x39, {0x02, 0x00, 0x40}},
                                           {0x3c, {0x06, 0x80}},
                                           {0x40, {0xfe, 0x80}},
                                           {0x48, {1, 2, 3, 4, 5, 6, 7, 8}},
                                           {0x55, {0x01}},
                                           {0xa8, {0x00, 0x03, 0xe0, 0x00}},
                                           {0xac, {0x0c}}});
}

TEST_CASE("init2rtr_of_roce_v1_has_neither_dscp_nor_udp_port") {
  RtrSpec spec;
  spec.traffic_class = 0x68;
  spec.ethernet = true;
  spec.udp_source_port = 0xc123;
  const auto command = encode_rtr(1, spec);
  CHECK(static_cast<int>(command.data()[0x35]) == 0);
  for (const std::size_t at : {0x51u, 0x52u, 0x53u})
    CHECK(static_cast<int>(command.data()[at]) == 0);
  CHECK(static_cast<int>(command.data()[0x3c]) == 0x06);  // the traffic class is unchanged
}

TEST_CASE("rtr2rts_has_its_bytes") {
  check_bytes(encode_rts(0xabcdef, {.send_psn = 0x0a0b0c,
                                    .log_reads_out = 4,
                                    .retry_count = 7,
                                    .rnr_retry = 7,
                                    .ack_timeout = 20}),
              {{0x00, {0x05, 0x04}},
               {0x09, {0xab, 0xcd, 0xef}},
               {0x1a, {0x18}},
               {0x38, {0xa0}},
               {0x88, {0x80, 0x87, 0xe0, 0x00}},
               {0x91, {0x0a, 0x0b, 0x0c}}});
}

TEST_CASE("short_commands_have_their_bytes") {
  check_bytes(encode_number(prm::Opcode::kToError, 0xabcdef),
              {{0x00, {0x05, 0x07}}, {0x09, {0xab, 0xcd, 0xef}}});
  check_bytes(encode_number(prm::Opcode::kToReset, 1), {{0x00, {0x05, 0x0a}}, {0x0b, {1}}});
}

TEST_CASE("value_that_does_not_fit_its_bits_is_an_error") {
  CHECK_THROWS_WITH(encode_init(0x1000000, {}),
                    "value 16777216 does not fit bits 23:0 at byte 0x8 of a device command");
  CHECK_THROWS_AS(encode_rts(1, {.retry_count = 8}), gshmem::Error);
}

TEST_CASE("fields_keep_their_neighbours") {
  prm::Message<prm::ModifyQpIn> message;
  auto qp = message.in(prm::ModifyQpIn::kContext);
  qp.set(prm::QpContext::kMtu, 7);
  qp.set(prm::QpContext::kLogMessageMax, 0x1f);
  qp.set(prm::QpContext::kMtu, 0);
  CHECK(qp.get(prm::QpContext::kMtu) == 0);
  CHECK(qp.get(prm::QpContext::kLogMessageMax) == 0x1f);
}

TEST_CASE("status_has_a_text") {
  CHECK_THAT(prm::status_words(0x08), Catch::Contains("lower GSHMEM_QP_DEPTH"));
  CHECK(prm::status_words(0x7f) == "status 0x7f");
}
