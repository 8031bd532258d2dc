// Everything that the firmware answers and hands to the engine, compared as a whole: each word of
// an answer, each attribute of a call. And the ends of every range: the last value that is taken,
// and the first one that is not.
#include "tests/nic/verbs_fake_engine.h"
#include "tests/nic/verbs_firmware_rig.h"

#include "host/base/error.h"

#include <catch2/catch.hpp>

#include <map>
#include <set>

using namespace verbs_test;
using gshmem::strprintf;
using gshmem::soft::GidAttributes;

namespace {

using Words = std::map<std::size_t, std::uint32_t>;
using Lines = std::vector<std::string>;

/// The words of an answer after `begin` that are not 0, by their place after it.
Words words(const Bytes& out, std::size_t begin) {
  Words found;
  for (std::size_t at = begin; at + 4 <= out.size(); at += 4)
    if (word_at(out, at) != 0) found[at - begin] = word_at(out, at);
  return found;
}

Words capabilities(Rig& rig, std::uint32_t type) {
  Bytes in = command(0x100);
  bits(in, 4, 15, 0, type << 1);
  return words(rig.run(in, 0x1010).out, 0x10);
}

/// Another device while it lives.
class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  ~Device() { fake_device() = before_; }
  gshmem::soft::DeviceAttributes* operator->() { return &fake_device(); }

 private:
  const gshmem::soft::DeviceAttributes before_ = fake_device();
};

/// Listens to the engine while it lives.
struct Listener {
  Listener() { told = &lines; }
  Listener(const Listener&) = delete;
  ~Listener() { told = nullptr; }
  /// What was said since the last time.
  Lines take() { return std::exchange(lines, {}); }
  Lines lines;
};

/// A word of `rig`'s user memory.
void* at(const Rig& rig, std::size_t offset) { return static_cast<char*>(rig.memory()) + offset; }

void make_ethernet(Device& device) {
  device->mac = 0x024e49430001;
  device->lid = 0;
  device->gids.push_back(
      {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1}, GidAttributes::Kind::kRoceV2});
}

}  // namespace

TEST_CASE("all capabilities of an InfiniBand port and of an Ethernet port") {
  Device device;
  Rig rig;
  Words general{{0x04, 0x80000000}, {0x10, 0x0f0f0012}, {0x14, 0x00100000}, {0x18, 0x00160012},
                {0x1c, 0x00980000}, {0x28, 0x00040004}, {0x34, 0x00000001}, {0x38, 0x1e000000},
                {0x3c, 0x00000001}, {0x40, 0x00000002}, {0x44, 0x80000001}, {0x48, 0x8000000c},
                {0x4c, 0x80090000}, {0x50, 1008},       {0x64, 0x00140000}, {0x70, 0x10000000}};
  CHECK(capabilities(rig, 0) == general);
  const Words atomics{{0x08, 0x42000000}, {0x10, 0xf}, {0x14, 0xc}, {0x18, 0xc}};
  CHECK(capabilities(rig, 3) == atomics);
  CHECK(capabilities(rig, 4).empty());
  CHECK(capabilities(rig, 0x20).empty());
  make_ethernet(device);
  device->profile.no_record = true;
  general[0x34] = 0x101;  // port_type
  general[0x40] = 6;      // roce, atomic
  CHECK(capabilities(rig, 0) == general);
  CHECK(capabilities(rig, 0x20) == Words{{0x5c, 0x40000000}});
  CHECK(capabilities(rig, 3) == atomics);
}

TEST_CASE("all of a port's context, and of its addresses") {
  Device device;
  Rig rig;
  CHECK(words(rig.run(command(0x762), 0x210).out, 0x10) == Words{{0x20, 0x5044},
                                                                 {0x28, 0x0002c903},
                                                                 {0x2c, 7},
                                                                 {0x30, 0x0002c903},
                                                                 {0x34, 7},
                                                                 {0x38, 0x0002c903},
                                                                 {0x3c, 7},
                                                                 {0x60, 0x00070012},
                                                                 {0x64, 0x00070000}});
  CHECK(words(rig.run(command(0x842), 0x10).out, 0).empty());
  Bytes address = command(0x760);
  bits(address, 8, 3, 0, 1);
  CHECK(words(rig.run(address, 0x30).out, 0x10) ==
        Words{{0x00, 0xfe800000}, {0x0c, 7}, {0x18, 0x100}});
  make_ethernet(device);
  bits(address, 8, 31, 16, 1);
  CHECK(words(rig.run(address, 0x30).out, 0x10) ==
        Words{{0x08, 0xffff}, {0x0c, 0x0a000001}, {0x10, 0x024e}, {0x14, 0x49430001}, {0x18, 2}});
  device->gids[1].bytes = {0x20};  // 2000::, of IPv6
  CHECK(words(rig.run(address, 0x30).out, 0x10) ==
        Words{{0x00, 0x20000000}, {0x10, 0x024e}, {0x14, 0x49430001}, {0x18, 0x102}});
}

TEST_CASE("all that the engine is told of a completion queue") {
  Rig rig;
  Listener engine;
  Bytes in = create_cq({.umem = rig.umem,
                        .uar = rig.uar,
                        .eqn = gshmem::soft::kFirstEventQueue,
                        .log_entries = 3,
                        .buffer = 0x2000,
                        .record = 0xf008});
  const auto expected = [&](std::size_t buffer, int bytes, int collapsed, int overrun) {
    return Lines{strprintf("create_cq buffer %p log 3 of %d collapsed %d oi %d record %p uar %u",
                           at(rig, buffer), bytes, collapsed, overrun, at(rig, 0xf008), rig.uar)};
  };
  CHECK(rig.run(in).status == Status::kOk);
  CHECK(engine.take() == expected(0x2000, 64, 1, 1));
  bits(in, 0x10, 23, 21, 1);  // of 128 bytes
  bits(in, 0x10, 20, 20, 0);  // not collapsed
  bits(in, 0x10, 17, 17, 0);  // overrun is an error
  bits(in, 0x18, 11, 6, 3);   // page_offset
  const std::uint32_t cq = rig.run(in).number();
  CHECK(engine.take() == expected(0x20c0, 128, 0, 0));
  CHECK(rig.run(command_on(0x401, cq)).status == Status::kOk);
  CHECK(engine.take() == Lines{strprintf("destroy_cq %u", cq)});
}

TEST_CASE("all that the engine is told of a shared receive queue, and of numbers") {
  Rig rig;
  Listener engine;
  Bytes in = create_rmp(rig);
  const auto expected = [&](int order) {
    return Lines{strprintf("create_receives pd %u entries %p log 8 of log 6 record %p order %d",
                           rig.pd, at(rig, 0x2000), at(rig, 0xf000), order)};
  };
  using gshmem::soft::ReceiveOrder;
  const std::uint32_t number = rig.run(in).number();
  CHECK(engine.take() == expected(static_cast<int>(ReceiveOrder::kList)));
  CHECK(rig.run(command_on(0x90e, number)).status == Status::kOk);
  CHECK(engine.take() == Lines{strprintf("destroy_receives %u", number)});
  bits(in, kWq, 31, 28, 1);  // cyclic
  CHECK(rig.run(command_on(0x90e, rig.run(in).number())).status == Status::kOk);
  CHECK(engine.take().front() == expected(static_cast<int>(ReceiveOrder::kLinkedRing)).front());
  bits(in, 0x24, 31, 31, 1);  // basic
  CHECK(rig.run(command_on(0x90e, rig.run(in).number())).status == Status::kOk);
  CHECK(engine.take().front() == expected(static_cast<int>(ReceiveOrder::kRing)).front());

  CHECK(rig.run(command_on(0x803, rig.uar)).status == Status::kOk);
  CHECK(rig.run(command_on(0x801, rig.pd)).status == Status::kOk);
  CHECK(engine.take() ==
        Lines{strprintf("destroy_uar %u", rig.uar), strprintf("destroy_pd %u", rig.pd)});
  CHECK(rig.firmware.release_umem(rig.umem));
}

TEST_CASE("all that the engine is told of a queue pair when it is made") {
  Device device;
  device->profile.no_record = true;
  Rig rig;
  const std::uint32_t send_cq = rig.make_cq(), receive_cq = rig.make_cq();
  Listener engine;
  Bytes in = create_qp(rig.qp_plan(send_cq));
  bits(in, kQpc + 0x10, 23, 0, 0x5678);  // user_index
  const auto expected = [&](std::size_t queue, std::uint32_t cq, std::uint32_t srq, int no_record) {
    return strprintf(
        "create_qp pd %u queue %p log 6 record %p cqs %u %u uar %u index %u srq %u no_record %d",
        rig.pd, at(rig, queue), at(rig, 0xf000), send_cq, cq, rig.uar, 0x5678u, srq, no_record);
  };
  const std::uint32_t plain = rig.run(in).number();
  CHECK(engine.take() == Lines{expected(0x1000, send_cq, 0, 0)});
  bits(in, kQpc + 0x10, 31, 30, 1);  // send_dbr_mode
  bits(in, kQpc + 0x90, 11, 6, 2);   // page_offset
  bits(in, kQpc + 0x9c, 23, 0, receive_cq);
  bits(in, kQpc + 0xac, 26, 24, 0);  // a receive queue
  bits(in, kQpc + 0x08, 22, 19, 4);  // of 16 entries
  bits(in, kQpc + 0x08, 18, 16, 2);  // of 64 bytes
  REQUIRE(rig.run(in).status == Status::kOk);
  CHECK(engine.take() ==
        Lines{expected(0x1080 + 1024, receive_cq, 0, 1),
              strprintf("receives pd 0 entries %p log 4 of log 6 record %p order 0",
                        at(rig, 0x1080), at(rig, 0xf000))});
  bits(in, kQpc + 0x08, 22, 19, 0);  // one entry
  bits(in, kQpc + 0x08, 18, 16, 0);  // of 16 bytes, in an entry's place
  REQUIRE(rig.run(in).status == Status::kOk);
  CHECK(engine.take().front() == expected(0x1080 + 64, receive_cq, 0, 1));
  const std::uint32_t srq = rig.run(create_rmp(rig)).number();
  engine.take();
  bits(in, kQpc + 0xac, 26, 24, 1);
  bits(in, kQpc + 0xac, 23, 0, srq);
  REQUIRE(rig.run(in).status == Status::kOk);
  CHECK(engine.take() == Lines{expected(0x1080, receive_cq, srq, 1)});
  CHECK(rig.run(command_on(0x501, plain)).status == Status::kOk);
  CHECK(engine.take() == Lines{strprintf("destroy_qp %u", plain)});
}

TEST_CASE("all that the engine is told of a queue pair's states, and what QUERY_QP then says") {
  Device device;
  make_ethernet(device);
  Rig rig;
  const std::uint32_t qp = rig.make_qp();
  const auto context = [&] { return words(rig.run(command_on(0x50b, qp), 0x110).out, kQpc); };
  const Words made = context();
  Listener engine;
  REQUIRE(rig.run(rst2init(qp)).status == Status::kOk);
  CHECK(engine.take() == Lines{"init write 1 read 1 atomic 1 mode 3"});
  Words now = made;
  now[0x00] |= 0x10000000;  // state
  now[0x18 + 0x24] = 0x00010000;
  now[0x90] = 0x0003e000;
  CHECK(context() == now);

  Bytes change = command_on(0x50e, qp, 0x110);
  word(change, 0x10, 1 << 1 | 1 << 2);  // rre off; rae on, with another mode
  bits(change, kQpc + 0x90, 13, 13, 1);
  bits(change, kQpc + 0x90, 19, 16, 2);
  REQUIRE(rig.run(change).status == Status::kOk);
  CHECK(engine.take() == Lines{strprintf("reset %u", qp), "init write 1 read 0 atomic 1 mode 2"});
  now[0x90] = 0x00026000;
  CHECK(context() == now);

  Bytes rtr = init2rtr(qp, 0xabcdef, 0);
  word(rtr, 0x10, 1 << 3);             // rwe off
  bits(rtr, kQpc + 0x08, 31, 29, 3);   // mtu 1024
  bits(rtr, kQpc + 0x08, 28, 24, 29);  // log_msg_max
  bits(rtr, kPath + 0x04, 23, 23, 1);  // grh
  bits(rtr, kPath + 0x04, 15, 0, 0x1234);
  bits(rtr, kPath + 0x08, 23, 16, 1);  // src_addr_index
  bits(rtr, kPath + 0x08, 7, 0, 64);   // hop_limit
  bits(rtr, kPath + 0x0c, 27, 20, 5);  // tclass
  bits(rtr, kPath + 0x24, 27, 24, 6);  // sl
  bits(rtr, kPath + 0x24, 15, 0, 0x024e);
  word(rtr, kPath + 0x28, 0x49430002);
  bits(rtr, kQpc + 0x90, 23, 21, 3);          // log_rra_max
  bits(rtr, kQpc + 0x94, 28, 24, 13);         // min_rnr_nak
  bits(rtr, kQpc + 0x94, 23, 0, 0x00654321);  // next_rcv_psn
  REQUIRE(rig.run(rtr).status == Status::kOk);
  CHECK(engine.take() ==
        Lines{strprintf("rtr to %u lid %u mac 24e49430002 mtu 1024 message 29 reads 3 psn %u timer "
                        "13 write 0 read 0 atomic 1 mode 2",
                        0xabcdefu, 0x1234u, 0x654321u)});
  now[0x00] += 0x10000000;
  now[0x08] |= 0x7d000000;
  now[0x14] = 0x00abcdef;
  now[0x18 + 0x04] = 0x00801234;
  now[0x18 + 0x08] = 0x00010040;
  now[0x18 + 0x0c] = 0x00500000;
  now[0x18 + 0x24] = 0x0601024e;
  now[0x18 + 0x28] = 0x49430002;
  now[0x90] = 0x00622000;
  now[0x94] = 0x0d654321;
  CHECK(context() == now);

  Bytes rts = rtr2rts(qp);
  word(rts, 0x10, 1 << 6);
  bits(rts, kPath + 0x08, 31, 27, 19);        // ack_timeout
  bits(rts, kQpc + 0x70, 23, 21, 2);          // log_sra_max
  bits(rts, kQpc + 0x70, 18, 16, 5);          // retry_count
  bits(rts, kQpc + 0x70, 15, 13, 6);          // rnr_retry
  bits(rts, kQpc + 0x78, 23, 0, 0x00123456);  // next_send_psn
  bits(rts, kQpc + 0x94, 28, 24, 14);         // min_rnr_nak
  REQUIRE(rig.run(rts).status == Status::kOk);
  CHECK(engine.take() ==
        Lines{strprintf("rts retries 5 rnr 6 timeout 19 reads 2 psn %u timer 14", 0x123456u)});
  now[0x00] += 0x10000000;
  now[0x18 + 0x08] |= 19u << 27;
  now[0x70] = 0x0045c000;
  now[0x78] = 0x00123456;
  now[0x94] = 0x0e654321;
  CHECK(context() == now);
}

namespace {

/// A field of a command, the last value that it takes, and the first one that it does not.
struct End {
  std::size_t byte;
  int high, low;
  std::uint32_t last, beyond;
  Status status;
  Check check;
};

/// `again` makes room for one more run of the command.
template <class Again>
void check_ends(Rig& rig, const Bytes& good, const std::vector<End>& ends, Again again) {
  for (const End& end : ends) {
    INFO("byte " << end.byte << ", bits " << end.high << " to " << end.low);
    Bytes in = again(good);
    bits(in, end.byte, end.high, end.low, end.beyond);
    CHECK(rig.run(in).refused(end.status, end.check));
    bits(in, end.byte, end.high, end.low, end.last);
    CHECK(rig.run(in).status == Status::kOk);
  }
}

}  // namespace

TEST_CASE("ends of what makes queues") {
  Device device;
  device->max_log_cq_entries = 4;
  device->max_log_qp_entries = 7;
  Rig rig;
  const auto same = [](const Bytes& in) { return in; };
  constexpr std::uint32_t kFirst = gshmem::soft::kFirstEventQueue,
                          kLast = kFirst + gshmem::soft::kEventQueues - 1;
  check_ends(rig, create_cq(rig.cq_plan()),
             {{0x1c, 28, 24, 4, 5, Status::kExceedsLimit, Check::kQueueSize},
              {0x10, 23, 21, 1, 2, Status::kBadParameter, Check::kQueueSize},
              {0x24, 7, 0, kLast, kLast + 1, Status::kBadResource, Check::kEventQueue},
              {0x24, 7, 0, kFirst, kFirst - 1, Status::kBadResource, Check::kEventQueue},
              {0x4c, 31, 0, 0xfff8, 0xfffc, Status::kBadParameter, Check::kUmemRange},
              {0x4c, 31, 0, 0xfff8, 0x10000, Status::kBadParameter, Check::kUmemRange},
              {0x54, 31, 0, 0xf000, 0x10000, Status::kBadParameter, Check::kUmemRange}},
             same);
  Bytes full = create_cq(rig.cq_plan());
  word64(full, 0x50, 0xf000);
  bits(full, 0x1c, 28, 24, 4);  // 1 KiB
  check_ends(rig, full, {{0x18, 11, 6, 48, 49, Status::kBadParameter, Check::kUmemRange}}, same);
  bits(full, 0x10, 23, 21, 1);  // 2 KiB
  check_ends(rig, full, {{0x18, 11, 6, 32, 33, Status::kBadParameter, Check::kUmemRange}}, same);

  const std::uint32_t cq = rig.make_cq();
  Bytes qp = create_qp(rig.qp_plan(cq));
  bits(qp, kQpc + 0x9c, 23, 0, cq);
  check_ends(rig, qp,
             {{kQpc + 0x08, 14, 11, 7, 8, Status::kExceedsLimit, Check::kQueueSize},
              {kQpc, 12, 11, 0, 1, Status::kBadParameter, Check::kMigration},
              {kQpc, 12, 11, 3, 2, Status::kBadParameter, Check::kMigration},
              {kQpc, 23, 16, 0, 1, Status::kBadParameter, Check::kService},
              {kQpc + 0xac, 26, 24, 3, 4, Status::kBadParameter, Check::kReceiveQueue},
              {kQpc + 0xac, 26, 24, 0, 2, Status::kBadParameter, Check::kReceiveQueue},
              {kQpc + 0xa4, 31, 0, 0xfff8, 0xfffc, Status::kBadParameter, Check::kUmemRange},
              {kQpc + 0xa4, 31, 0, 0xfff8, 0x10000, Status::kBadParameter, Check::kUmemRange},
              {kQpc + 0x14, 28, 24, 0, 1, Status::kBadParameter, Check::kUmemRange}},
             same);
  word64(qp, 0x100, 0xf000);  // 4 KiB of sends
  check_ends(rig, qp, {{kQpc + 0x90, 11, 6, 0, 1, Status::kBadParameter, Check::kUmemRange}}, same);
  bits(qp, kQpc + 0x08, 14, 11, 4);  // 1 KiB
  bits(qp, kQpc + 0xac, 26, 24, 0);  // with receives before them
  bits(qp, kQpc + 0x08, 18, 16, 2);
  check_ends(rig, qp,
             {{kQpc + 0x08, 22, 19, 5, 6, Status::kBadParameter, Check::kUmemRange},
              {kQpc + 0x90, 11, 6, 47, 48, Status::kBadParameter, Check::kUmemRange}},
             same);

  Bytes rmp = create_rmp(rig);
  word64(rmp, kWq + 0x30, 0xe000);
  check_ends(rig, rmp,
             {{0x20, 23, 20, 1, 0, Status::kBadParameter, Check::kReceiveQueue},
              {kWq, 31, 28, 1, 2, Status::kBadParameter, Check::kReceiveQueue},
              {kWq + 0x20, 4, 0, 7, 8, Status::kExceedsLimit, Check::kQueueSize},
              {kWq + 0x24, 31, 30, 3, 1, Status::kBadParameter, Check::kUmemInvalid},
              {kWq + 0x24, 31, 30, 3, 2, Status::kBadParameter, Check::kUmemInvalid},
              {kWq + 0x14, 31, 0, 0xfff8, 0xfffc, Status::kBadParameter, Check::kUmemRange},
              {kWq + 0x34, 31, 0, 0xe000, 0xf000, Status::kBadParameter, Check::kUmemRange},
              {kWq + 0x20, 12, 8, 1, 2, Status::kBadParameter, Check::kUmemRange}},
             [](Bytes in) {
               bits(in, kWq + 0x20, 4, 0, 7);  // 8 KiB
               return in;
             });
}

TEST_CASE("ends of what moves a queue pair") {
  Device device;
  Rig rig;
  const auto fresh = [&](int state) {
    return [&rig, state](Bytes in) {
      const std::uint32_t qp = rig.make_qp();
      rig.move(qp, state);
      bits(in, 8, 23, 0, qp);
      return in;
    };
  };
  check_ends(rig, rst2init(0),
             {{kPath + 0x24, 23, 16, 1, 2, Status::kBadParameter, Check::kPath},
              {kPath + 0x24, 23, 16, 0, 2, Status::kBadParameter, Check::kPath},
              {kPath, 15, 0, 0, 1, Status::kBadIndex, Check::kPath},
              {kQpc, 12, 11, 0, 1, Status::kBadParameter, Check::kMigration},
              {kQpc, 12, 11, 3, 2, Status::kBadParameter, Check::kMigration},
              {kQpc + 0x90, 19, 16, 3, 4, Status::kBadParameter, Check::kAtomicMode},
              {kQpc + 0x90, 19, 16, 1, 0, Status::kBadParameter, Check::kAtomicMode}},
             fresh(0));
  Bytes alone = rst2init(0);
  bits(alone, kQpc + 0x90, 13, 13, 0);  // without atomics no mode is asked for
  check_ends(rig, alone, {{kQpc + 0x90, 19, 16, 0, 4, Status::kBadParameter, Check::kAtomicMode}},
             fresh(0));
  check_ends(rig, command(0x50e, 0x110),
             {{kPath + 0x24, 23, 16, 1, 2, Status::kBadParameter, Check::kPath},
              {kPath, 15, 0, 0, 1, Status::kBadIndex, Check::kPath}},
             fresh(1));
  const std::vector<End> ends{
      {kPath + 0x24, 23, 16, 1, 2, Status::kBadParameter, Check::kPath},
      {kQpc + 0x08, 28, 24, 30, 31, Status::kBadParameter, Check::kMessage},
      {kQpc + 0x90, 23, 21, 4, 5, Status::kBadParameter, Check::kOutstanding}};
  check_ends(rig, init2rtr(0, 0, Rig::kLid), ends, fresh(1));
  check_ends(rig, init2rtr(0, 0, Rig::kLid),
             {{kPath + 0x04, 15, 0, 1, 0, Status::kBadParameter, Check::kPath},
              {kPath + 0x04, 15, 0, 0xbfff, 0xc000, Status::kBadParameter, Check::kPath},
              {kQpc + 0x08, 31, 29, 1, 0, Status::kBadParameter, Check::kMtu},
              {kQpc + 0x08, 31, 29, 5, 6, Status::kBadParameter, Check::kMtu},
              {kQpc + 0x08, 31, 29, 5, 7, Status::kBadParameter, Check::kMtu}},
             fresh(1));
  Bytes routed = init2rtr(0, 0, Rig::kLid);
  bits(routed, kPath + 0x04, 23, 23, 1);  // grh
  check_ends(rig, routed, {{kPath + 0x08, 23, 16, 0, 1, Status::kBadIndex, Check::kPath}},
             fresh(1));
  check_ends(rig, rtr2rts(0),
             {{kQpc + 0x70, 23, 21, 4, 5, Status::kBadParameter, Check::kOutstanding}}, fresh(2));

  device->profile.mtu = 1024;
  make_ethernet(device);
  Bytes ethernet = init2rtr(0, 0, 0);
  bits(ethernet, kQpc + 0x08, 31, 29, 3);
  word(ethernet, kPath + 0x28, 5);  // rmac
  check_ends(rig, ethernet, ends, fresh(1));
  check_ends(rig, ethernet,
             {{kQpc + 0x08, 31, 29, 3, 4, Status::kBadParameter, Check::kMtu},
              {kPath + 0x08, 23, 16, 1, 2, Status::kBadIndex, Check::kPath},
              {kPath + 0x28, 31, 0, 1, 0, Status::kBadParameter, Check::kPath}},
             fresh(1));
  word(ethernet, kPath + 0x28, 0);
  check_ends(rig, ethernet, {{kPath + 0x24, 15, 0, 1, 0, Status::kBadParameter, Check::kPath}},
             fresh(1));
}

TEST_CASE("bits of opt_param_mask that each transition takes") {
  Rig rig;
  struct Row {
    Bytes in;
    int state;
    std::uint32_t bits;
  };
  // Access 1 to 3, partition key 4, RNR timer 6, migration 10, affinity 15, port 16.
  const Row rows[] = {{rst2init(0), 0, 0},
                      {command(0x50e, 0x110), 1, 0x1801e},
                      {init2rtr(0, 0, Rig::kLid), 1, 0x801f},
                      {rtr2rts(0), 2, 0x441},
                      {command(0x505, 0x110), 3, 0x8441}};
  for (const Row& row : rows) {
    std::uint32_t taken = 0;
    for (int bit = 0; bit < 32; ++bit) {
      const std::uint32_t qp = rig.make_qp();
      rig.move(qp, row.state);
      Bytes in = row.in;
      bits(in, 8, 23, 0, qp);
      bits(in, 0x10, bit, bit, 1);
      if (bit == 2) bits(in, kQpc + 0x90, 19, 16, 3);
      const Answer answer = rig.run(in);
      if (answer.status == Status::kOk)
        taken |= 1u << bit;
      else
        CHECK(answer.refused(Status::kBadParameter, Check::kOptionalMask));
    }
    CHECK(taken == row.bits);
  }
}

TEST_CASE("classes of all commands, and what destroys what they create") {
  using gshmem::soft::CommandClass;
  using Opcodes = std::set<std::uint32_t>;
  std::map<CommandClass, Opcodes> found;
  std::map<std::uint32_t, std::uint32_t> destroyed;
  for (std::uint32_t opcode = 0; opcode < 0x1000; ++opcode) {
    const CommandClass kind = gshmem::soft::command_class(static_cast<std::uint16_t>(opcode));
    if (kind != CommandClass::kUnknown) found[kind].insert(opcode);
    const auto by = gshmem::soft::destroying_opcode(static_cast<std::uint16_t>(opcode));
    if (by != 0) destroyed[opcode] = by;
  }
  CHECK(found[CommandClass::kGeneral] == Opcodes{0x100, 0x760, 0x762, 0x842});
  CHECK(found[CommandClass::kCreate] == Opcodes{0x400, 0x500, 0x800, 0x802, 0x90c});
  CHECK(found[CommandClass::kDestroy] == Opcodes{0x401, 0x501, 0x801, 0x803, 0x90e});
  CHECK(found[CommandClass::kModify] == Opcodes{0x502, 0x503, 0x504, 0x505, 0x507, 0x50a, 0x50e});
  CHECK(found[CommandClass::kQuery] == Opcodes{0x50b});
  CHECK(destroyed ==
        std::map<std::uint32_t, std::uint32_t>{
            {0x400, 0x401}, {0x500, 0x501}, {0x800, 0x801}, {0x802, 0x803}, {0x90c, 0x90e}});
}

TEST_CASE("all that a queue uses can be given back after it, and no more than once") {
  Rig rig;
  const std::uint32_t send_cq = rig.make_cq(), receive_cq = rig.make_cq();
  const std::uint32_t records = rig.firmware.register_umem(rig.memory(), Rig::kUmemBytes, 4096);
  const std::uint32_t srq = rig.run(create_rmp(rig)).number();
  Bytes in = create_qp(rig.qp_plan(send_cq));
  word(in, kQpc + 0xe4, records);
  bits(in, kQpc + 0xac, 26, 24, 1);
  bits(in, kQpc + 0xac, 23, 0, srq);
  bits(in, kQpc + 0x9c, 23, 0, receive_cq);
  const std::uint32_t qp = rig.run(in).number();
  const Bytes all[] = {command_on(0x90e, srq), command_on(0x401, send_cq),
                       command_on(0x401, receive_cq), command_on(0x803, rig.uar),
                       command_on(0x801, rig.pd)};
  for (const Bytes& destroy : all)
    CHECK(rig.run(destroy).refused(Status::kBadResourceState, Check::kInUse));
  CHECK_FALSE(rig.firmware.release_umem(records));
  CHECK(rig.run(command_on(0x501, qp)).status == Status::kOk);
  CHECK(rig.firmware.release_umem(records));
  CHECK_FALSE(rig.firmware.release_umem(rig.umem));
  for (const Bytes& destroy : all) CHECK(rig.run(destroy).status == Status::kOk);
  for (const Bytes& destroy : all)
    CHECK(rig.run(destroy).refused(Status::kBadResource, Check::kNumber));
  CHECK(rig.firmware.release_umem(rig.umem));
}

TEST_CASE("reserved bits are remarked by their word, features that are not there refused by name") {
  Rig rig;
  Listener engine;
  Bytes cq = create_cq(rig.cq_plan());
  bits(cq, 0x10 + 0x0c, 31, 31, 1);
  REQUIRE(rig.run(cq).status == Status::kOk);
  CHECK(engine.take().front() == "remark CREATE_CQ: reserved bits in word 0x1c of the input");
  Bytes qp = create_qp(rig.qp_plan(rig.make_cq()));
  engine.take();
  bits(qp, kQpc + 0xd4, 0, 0, 1);
  REQUIRE(rig.run(qp).status == Status::kOk);
  CHECK(engine.take().front() == "remark CREATE_QP: reserved bits in word 0xec of the input");
  bits(qp, kQpc, 0, 0, 1);
  REQUIRE(rig.run(qp).status == Status::kOk);
  CHECK(engine.take().front() == "remark CREATE_QP: reserved bits in word 0x18 of the input");
  const std::uint32_t number = rig.make_qp();
  engine.take();
  Bytes init = rst2init(number);
  bits(init, kPath + 0x28 - 4, 31, 31, 1);
  REQUIRE(rig.run(init).status == Status::kOk);
  CHECK(engine.take().front() == "remark RST2INIT_QP: reserved bits in word 0x54 of the input");
  // Every word of a field of 64 bits.
  for (const std::size_t byte : {0xc8u, 0xccu}) {
    Bytes in = create_qp(rig.qp_plan(rig.make_cq()));
    bits(in, kQpc + byte, 31, 31, 1);
    CHECK(rig.run(in).refused(Status::kBadParameter, Check::kZeroField));
  }
}
