// Tests waits on the network path that time out: what the fault reports, and which thread may
// record it.
#include "tests/unit/queue_rig.h"
#include "tests/unit/no_launch.h"

#include "host/runtime/fault.h"

#include <catch2/catch.hpp>

#include <string>

namespace gshmem::device {
namespace {

/// A queue that is ready for entry 80 and has nothing pending.
class BusyQueue : public QueueRig {
 public:
  BusyQueue() : QueueRig(Reach::kNetwork) {
    cursor().reserved = cursor().done = 80;
    cursor().ready = abi::PublishedWord::make(80, 1);
  }
  void put_word() { nic::put_word(state(), heap(), 1, sizeof(std::uint64_t), 0); }
  void put_from_outside() {
    const char elsewhere[100] = {};
    nic::put(Thread{}, state(), heap(), elsewhere, sizeof(elsewhere), 0, nic::Reuse::kAtQuiet);
  }
  void check_fault(const char* call, std::uint32_t entry) const {
    const abi::FaultRecord& fault = control().fault;
    REQUIRE(fault.published == 1);
    CHECK(fault.code == GSHMEMX_ERROR_TIMEOUT);
    CHECK(std::string(fault.call) == call);
    CHECK(fault.queue == kNumber);
    CHECK(fault.wqe_index == entry);
  }
};

}  // namespace

TEST_CASE("timeout_of_a_wait_for_room_names_the_entry_that_must_complete") {
  for (const bool is_short : {true, false}) {
    BusyQueue queue;
    for (std::uint32_t i = 0; i < QueueRig::kDepth; ++i) queue.put_word();
    REQUIRE(queue.control().stop == 0);
    is_short ? queue.put_word() : queue.put_from_outside();
    queue.check_fault("network (room in a queue)", is_short ? 80 : 82);  // an entry of three slots
  }
}
TEST_CASE("timeout_of_a_wait_for_a_turn_names_the_entry_that_is_not_published") {
  for (const bool is_short : {true, false}) {
    BusyQueue queue;
    queue.cursor().reserved = 83;  // by a writer that does not go on
    is_short ? queue.put_word() : queue.put_from_outside();
    queue.check_fault("network (turn in a queue)", 82);
  }
}

TEST_CASE("iget_on_the_queue_of_an_sm_waits_for_every_element") {
  for (const abi::QueueMap map : {abi::QueueMap::kSm, abi::QueueMap::kBlock}) {
    BusyQueue queue;
    queue.set_map(map);
    queue.complete(80);
    auto* words = reinterpret_cast<std::uint64_t*>(queue.heap());
    iget(Thread{}, queue.state(), words, words + 512, Strides{1, 1, 4}, 0);
    queue.check_fault("get", map == abi::QueueMap::kSm ? 81 : 83);
  }
}

TEST_CASE("the_device_keeps_a_fault_of_the_host_and_returns_its_code") {
  abi::Control control{};
  State state;
  state.control = &control;
  state.fault_policy = abi::FaultPolicy::kReport;
  control.host_fault.claimed = control.host_fault.published = 1;
  control.host_fault.code = GSHMEMX_ERROR_PEER_FAILED;
  fault(state, {GSHMEMX_ERROR_TIMEOUT, "test", "wait"});
  CHECK(control.fault.claimed == 0);
  CHECK(control.stop == 1);
  CHECK(fault_code(state) == GSHMEMX_ERROR_PEER_FAILED);
}

TEST_CASE("the_host_keeps_a_fault_of_the_device_and_reports_it") {
  abi::Control control{};
  control.fault.claimed = 1;  // another thread is writing it
  abi::FaultRecord of_host{}, told{};
  of_host.code = GSHMEMX_ERROR_PEER_FAILED;
  CHECK(!fault_record(&control, of_host));
  CHECK(control.host_fault.claimed == 0);
  CHECK(control.stop == 1);
  CHECK(!fault_read(&control, &told));
  control.fault.code = GSHMEMX_ERROR_NIC;
  control.fault.published = 1;
  REQUIRE(fault_read(&control, &told));
  CHECK(told.code == GSHMEMX_ERROR_NIC);
}
}  // namespace gshmem::device
