// Tests events of Mlx5Nic over a table of functions of the test: which of them are errors, which
// are only recorded, and that the thread that reads them ends.
#include "host/base/log.h"
#include "tests/nic/mlx5_nic_rig.h"
#include "tests/patience.h"
#include "tests/capture.h"
#include "transport/nic/mlx5/port_history.h"

#include <catch2/catch.hpp>

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace gshmem::nic::mlx5 {

namespace {

/// Collects the errors that a NIC reports.
class Told {
 public:
  explicit Told(Setup& setup) {
    setup.on_error = [this](const Error& error, int pe) {
      const std::lock_guard<std::mutex> lock(mutex_);
      texts_.push_back(strprintf("%d %s", pe, error.what()));
      changed_.notify_one();
    };
  }
  /// Returns all texts, as soon as there are `count` of them.
  [[nodiscard]] std::vector<std::string> first(std::size_t count = 1) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(30 * gshmem::test::kPatience),
                      [&] { return texts_.size() >= count; });
    return texts_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> texts_;
};

}  // namespace

TEST_CASE("events_reach_on_error_and_stop_ends_them") {
  fake_verbs_reset();
  Setup setup;
  Told told(setup);
  const std::unique_ptr<Mlx5Nic> nic = setup.open();
  nic->start();
  fake_verbs().raise(IBV_EVENT_DEVICE_FATAL);
  const auto texts = told.first();
  REQUIRE(texts.size() == 1);
  CHECK_THAT(texts[0], Catch::StartsWith("-1 mlx5_7 port 1: the device failed") &&
                           Catch::Contains("see dmesg"));
  nic->stop();
  nic->stop();
  fake_verbs().raise(IBV_EVENT_DEVICE_FATAL);
  CHECK(told.first().size() == 1);
}

TEST_CASE("an_event_that_retries_can_overcome_is_recorded_and_is_no_error") {
  fake_verbs_reset();
  Setup setup;
  Told told(setup);
  const std::unique_ptr<Mlx5Nic> nic = setup.open();
  nic->start();
  CHECK(nic->history().empty());
  const auto raise = [&](std::initializer_list<ibv_event_type> types) {
    for (const ibv_event_type type : types) fake_verbs().raise(type);
  };
  SECTION("a port of which no news has come yet") {
    fake_verbs().active = false;
    CHECK(nic->history() == "mlx5_7 port 1 is down");
  }
  SECTION("a port that cannot be asked") {
    fake_verbs().fail_named = "ibv_query_port";
    CHECK(nic->history().empty());
  }
  SECTION("a port that stays down") {
    raise({IBV_EVENT_PORT_ACTIVE, IBV_EVENT_PORT_ERR, IBV_EVENT_DEVICE_FATAL});
    CHECK(told.first().size() == 1);  // the last one
    CHECK_THAT(nic->history(), Catch::Matches("mlx5_7 port 1 is down since [0-9:]{8}"));
  }
  SECTION("a port that flaps, and gets another LID") {
    gshmem::test::StderrCapture log;
    raise({IBV_EVENT_PORT_ERR, IBV_EVENT_PORT_ACTIVE, IBV_EVENT_PORT_ERR, IBV_EVENT_PORT_ERR,
           IBV_EVENT_LID_CHANGE, IBV_EVENT_PORT_ACTIVE, IBV_EVENT_CLIENT_REREGISTER,
           IBV_EVENT_DEVICE_FATAL});
    CHECK(told.first().size() == 1);
    CHECK_THAT(
        nic->history(),
        Catch::Matches("mlx5_7 port 1 was down for [^ ]+ s at [0-9:]{8} \\(2 times in all\\), "
                       "got LID 4660, and had 4660 when it was opened at [0-9:]{8}"));
    const std::vector<std::string> lines = log.writes();
    const auto count = [&](const char* text) {
      return std::count_if(lines.begin(), lines.end(), [&](const std::string& line) {
        return line.find(text) != std::string::npos;
      });
    };
    CHECK(count("WARN: network: mlx5_7 port 1 went down: connections hold for 34 s at least") == 3);
    CHECK(count("WARN: network: mlx5_7 port 1 is up again, after ") == 2);
    CHECK(count("WARN: network: mlx5_7 port 1 got LID 4660") == 1);
  }
  nic->stop();
}

TEST_CASE("events_of_queues_name_the_queue_and_its_peer") {
  fake_verbs_reset();
  Setup setup;
  setup.api = fake_verbs_api_with_device_events();
  Told told(setup);
  const std::unique_ptr<Mlx5Nic> nic = setup.open();
  nic->use_queue_memory(setup.memory.queue_region());
  for (int queue : {0, 1}) (void)nic->create_queue(Memory::place(queue));
  nic->connect(0, 3, nic->connect_info(1), 0);
  // The NIC watches the errors of each queue, and of its completion queue.
  const auto& watched = fake_verbs().watched;
  REQUIRE(watched.size() == 8);
  const auto cookie_of = [&](int queue, std::uint16_t event) {
    const auto* const first = watched.data() + 4 * queue;
    const auto* const found = std::find_if(first, first + 4, [&](const auto& each) {
      return each.first == std::vector<std::uint16_t>{event};
    });
    REQUIRE(found != first + 4);
    return found->second;
  };
  gshmem::test::StderrCapture log;
  nic->start();
  // A queue that is not connected has no PE.
  const std::pair<std::uint16_t, const char*> words[] = {
      {0x04, "its completion queue broke"},
      {0x05, "the device broke it off"},
      {0x10, "the other end sent a request that is not valid here"},
      {0x11, "the other end asked for memory that it may not touch"}};
  std::size_t count = 0;
  for (const auto& [event, text] : words) {
    for (int queue : {0, 1}) {
      FakeVerbs::raise_device(cookie_of(queue, event));
      const std::vector<std::string> texts = told.first(++count);
      REQUIRE(texts.size() == count);
      const int pe = queue == 0 ? 3 : -1;
      const char* const whom = queue == 0 ? " to PE 3" : "";  // as of an initiator
      CHECK_THAT(texts.back(),
                 Catch::StartsWith(strprintf("%d mlx5_7, queue %d%s: %s", pe, queue, whom, text)));
    }
  }
  nic->stop();
  CHECK(log.writes().size() == count);
}

TEST_CASE("each_event_of_a_device_has_its_meaning") {
  using Kind = Event::Kind;
  const std::string device = "mlx5_7 port 1: ";
  const std::string failed = "a queue pair failed; the completions of its queue say why";
  const std::string refused = "another PE asked for memory that it may not touch (a stale key?)";
  struct Meaning {
    ibv_event_type type;
    Kind kind;
    std::string text;
  };
  const Meaning meanings[] = {
      {IBV_EVENT_PORT_ERR, Kind::kPortDown, ""},
      {IBV_EVENT_PORT_ACTIVE, Kind::kPortUp, ""},
      {IBV_EVENT_LID_CHANGE, Kind::kPortChange, "got another LID"},
      {IBV_EVENT_GID_CHANGE, Kind::kPortChange, "got other GIDs"},
      {IBV_EVENT_PKEY_CHANGE, Kind::kPortChange, "got other partition keys"},
      {IBV_EVENT_SM_CHANGE, Kind::kPortChange, "got another subnet manager"},
      {IBV_EVENT_DEVICE_FATAL, Kind::kFault,
       device + "the device failed and is being reset; see dmesg"},
      {IBV_EVENT_CQ_ERR, Kind::kFault,
       device + "a completion queue broke (overrun, or its memory is gone)"},
      {IBV_EVENT_QP_FATAL, Kind::kFault, device + failed},
      {IBV_EVENT_QP_REQ_ERR, Kind::kRefusal, device + refused},
      {IBV_EVENT_QP_ACCESS_ERR, Kind::kRefusal, device + refused}};
  for (const auto& [type, kind, text] : meanings) {
    INFO("event " << type);
    const std::optional<Event> event = event_of(type, "mlx5_7 port 1");
    REQUIRE(event);
    CHECK(event->kind == kind);
    CHECK(event->text == text);
    CHECK(event->queue == -1);
    CHECK(event->of_port() == (kind != Kind::kFault && kind != Kind::kRefusal));
  }
  for (const ibv_event_type type : {IBV_EVENT_COMM_EST, IBV_EVENT_SQ_DRAINED,
                                    IBV_EVENT_CLIENT_REREGISTER, IBV_EVENT_QP_LAST_WQE_REACHED})
    CHECK_FALSE(event_of(type, "mlx5_7 port 1"));
}

TEST_CASE("events_of_another_port_are_ignored_and_all_events_are_acknowledged") {
  fake_verbs_reset();
  fake_verbs().ports = 2;
  Setup setup(config_with({{"GSHMEM_NIC_DEVICES", "=mlx5_7:2"}}));
  Told told(setup);
  const std::unique_ptr<Mlx5Nic> nic = setup.open();
  nic->start();
  for (const ibv_event_type type : {IBV_EVENT_PORT_ERR, IBV_EVENT_SM_CHANGE, IBV_EVENT_COMM_EST,
                                    IBV_EVENT_DEVICE_FATAL})  // the fake says port 1
    fake_verbs().raise(type);
  const auto texts = told.first();
  REQUIRE(texts.size() == 1);
  CHECK_THAT(texts[0], Catch::StartsWith("-1 mlx5_7 port 2: the device failed"));
  CHECK(nic->history().empty());
  CHECK(fake_verbs().acknowledged == 4);
  nic->stop();
}

TEST_CASE("removed_device_is_an_error_at_once") {
  fake_verbs_reset();
  Setup setup;
  Told told(setup);
  const std::unique_ptr<Mlx5Nic> nic = setup.open();
  nic->start();
  const auto begin = std::chrono::steady_clock::now();
  FakeVerbs::remove();
  const auto texts = told.first();
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(gshmem::test::kPatience));
  REQUIRE(texts.size() == 1);
  CHECK_THAT(texts[0], Catch::StartsWith("-1 mlx5_7: the device is gone"));
  nic->stop();
}

}  // namespace gshmem::nic::mlx5
