// Tests several NICs per PE: their number, which queues use which, and the features that all of
// them have. Runs on the soft NIC's libraries; PEs are threads.
#include "bootstrap/bootstrap.h"
#include "host/base/log.h"
#include "tests/sanitizers/sanitizers.h"
#include "tests/capture.h"
#include "transport/nic/rails.h"

#include <catch2/catch.hpp>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <exception>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>

namespace gshmem::nic {
namespace {

// The engine reads it once, when it starts.
[[maybe_unused]] const int three_devices = setenv("GSHNIC_DEVICES", "3", 1);

using Settings = std::map<std::string, std::string>;

Config config_of(const Settings& settings) {
  return Config::from(
      [](const char* name, void* given) -> const char* {
        const auto& all = *static_cast<const Settings*>(given);
        const auto found = all.find(name);
        return found == all.end() ? nullptr : found->second.c_str();
      },
      const_cast<Settings*>(&settings));
}

/// NICs that only describe their features.
class Described final : public Nic {
 public:
  Described(std::string name, const Limits& limits) : name_(std::move(name)), limits_(limits) {}
  const char* name() const noexcept override { return "described"; }
  std::string describe() const override { return name_; }
  Limits limits() const override { return limits_; }
  void use_queue_memory(const Region&) override {}
  Keys register_memory(const Region&) override { return {}; }
  void unregister_memory(const Region&) noexcept override {}
  CreatedQueue create_queue(const QueuePlace&) override { return {}; }
  ConnectInfo connect_info(int) override { return {}; }
  void connect(int, int, const ConnectInfo&, std::uint32_t) override {}
  std::unique_ptr<Nic> open_port(const std::string& port) override {
    // NICs of other PEs differ.
    return std::make_unique<Described>(
        port, Limits{.flags = port == "big" ? abi::kNicFetchedBig : abi::kNicReadsRecord,
                     .max_message = port == "small" ? 10u : 5000u});
  }
  void start() override { ++started; }
  void stop() noexcept override { ++stopped; }
  std::string port() const override { return name_; }
  std::string describe_ends(std::uint32_t number, int pe) const override {
    return number == 7 ? name_ + " to PE " + std::to_string(pe) : "";
  }
  std::string queue_status(std::uint32_t number, int) const override {
    return number == 7 ? "state of " + name_ : "";
  }
  std::string history() const override { return name_ == "b" ? "b is down" : ""; }
  int started = 0, stopped = 0;

 private:
  std::string name_;
  Limits limits_;
};

/// Returns what each PE of a job opens: descriptions of its ports, or the text of the error.
std::vector<std::vector<std::string>> open_on_all(const std::vector<Settings>& settings) {
  const auto boots = bootstrap::create_threads(static_cast<int>(settings.size()), 60);
  std::vector<std::vector<std::string>> opened(settings.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < settings.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        const Config config = config_of(settings[i]);
        const NicList nics =
            open({.config = config, .boot = *boots[i], .local_rank = static_cast<int>(i)});
        for (const auto& nic : nics) opened[i].push_back(nic->describe().substr(0, 12));
      } catch (const std::exception& error) {
        opened[i] = {error.what()};
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return opened;
}

using Ports = std::vector<std::string>;

}  // namespace

/// Stands for the libfabric transport.
std::unique_ptr<Nic> open_ofi(const OpenOptions&) {
  return std::make_unique<Described>("ofi", Nic::Limits{});
}

/// Returns what a PE opens that has this process's end of a fabric, or the text of the error.
std::string open_in_fabric(const std::function<int(int fd)>& share) {
  const auto boots = bootstrap::create_threads(1, 60);
  const Config config = config_of({{"GSHMEM_NIC", "soft"}});
  try {
    return open({.config = config, .boot = *boots[0], .node_root = true, .share_fd = share})
        .at(0)
        ->describe()
        .substr(0, 12);
  } catch (const Error& error) {
    return error.what();
  }
}

/// This is the first test: no earlier one has joined a fabric.
TEST_CASE("a_process_is_in_one_fabric_of_the_soft_nic") {
  const auto share = [](int fd) { return dup(fd); };
  CHECK(open_on_all({{{"GSHMEM_NIC", "soft"}}})[0] == Ports{"mlx5: mlx5_0"});
  if (!kSanitized) {  // sanitizers need descriptors themselves
    rlimit files{};
    REQUIRE(getrlimit(RLIMIT_NOFILE, &files) == 0);
    const rlimit none{0, files.rlim_max};
    REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
    const std::string why = open_in_fabric(share);
    setrlimit(RLIMIT_NOFILE, &files);
    CHECK_THAT(why, Catch::Contains("gshnic_make_fabric: "));
  }
  CHECK(open_in_fabric(share) == "mlx5: mlx5_0");
  CHECK_THAT(open_in_fabric([](int) { return ::open("/dev/null", O_RDWR | O_CLOEXEC); }),
             Catch::Contains("this process is in the soft NIC's fabric of another job already"));
}

TEST_CASE("a_pe_has_one_port_by_default") {
  std::vector<Ports> opened;
  for (const std::string& line : test::said_at_info([&] {
         opened = open_on_all({{{"GSHMEM_NIC", "soft"}}, {{"GSHMEM_NIC", "soft"}}});
       })) {
    // It opens as many as requested, out of all that exist.
    CHECK_THAT(line, !Catch::Contains("GSHMEM_NICS_PER_PE") && !Catch::Contains("ports on"));
  }
  CHECK(opened[0] == Ports{"mlx5: mlx5_0"});
  CHECK(opened[1] == Ports{"mlx5: mlx5_1"});
}

TEST_CASE("every_pe_has_as_many_ports_as_wanted") {
  const Settings two = {{"GSHMEM_NIC", "soft"}, {"GSHMEM_NICS_PER_PE", "2"}};
  const auto opened = open_on_all({two, two, two});
  CHECK(opened[0] == Ports{"mlx5: mlx5_0", "mlx5: mlx5_1"});
  CHECK(opened[1] == Ports{"mlx5: mlx5_2", "mlx5: mlx5_0"});
  CHECK(opened[2] == Ports{"mlx5: mlx5_1", "mlx5: mlx5_2"});
}

TEST_CASE("all_pes_use_as_many_ports_as_the_one_that_has_fewest") {
  const Settings all = {{"GSHMEM_NIC", "soft"}, {"GSHMEM_NICS_PER_PE", "8"}};
  Settings fewer = all, one = all;
  fewer["GSHMEM_NIC_DEVICES"] = "=mlx5_0,mlx5_2";
  one["GSHMEM_NICS_PER_PE"] = "1";
  for (const Ports& ports : open_on_all({all, all})) CHECK(ports.size() == 3);
  // One PE reports it.
  for (const bool alone : {false, true}) {
    std::string said;
    for (const std::string& line : test::said_at_info([&] {
           (void)(alone ? open_on_all({fewer}) : open_on_all({all, fewer}));
         }))
      said += line;
    const std::string why = std::string("GSHMEM_NICS_PER_PE=8, but all PEs use 2: PE ") +
                            (alone ? "0" : "1") + " found no more";
    CHECK_THAT(said, Catch::Contains(why));
    CHECK(said.find(why) == said.rfind(why));
  }
  const auto opened = open_on_all({all, fewer});
  CHECK(opened[0].size() == 2);
  CHECK(std::set<std::string>(opened[1].begin(), opened[1].end()) ==
        std::set<std::string>{"mlx5: mlx5_0", "mlx5: mlx5_2"});
  for (const Ports& ports : open_on_all({all, fewer, one})) CHECK(ports.size() == 1);
}

TEST_CASE("a_pe_without_a_port_is_named_on_all_pes") {
  const Settings all = {{"GSHMEM_NIC", "soft"}, {"GSHMEM_NICS_PER_PE", "2"}};
  Settings none = all;
  none["GSHMEM_NIC_DEVICES"] = "=mlx5_9";
  const auto opened = open_on_all({all, none});
  CHECK_THAT(opened.at(0).at(0),
             Catch::StartsWith("init failed on PE 1: no RDMA device that gshmem can use"));
  CHECK_THAT(opened.at(1).at(0), Catch::Contains("mlx5_2 port 1 is not in GSHMEM_NIC_DEVICES"));
}

TEST_CASE("queues_take_rails_in_turn") {
  const auto wanting = [](int queues) {
    Config config;
    config.qps_per_pe = queues;
    return config;
  };
  CHECK(default_queues(1, wanting(3)) == QueueRails{0, 0, 0});
  CHECK(default_queues(2, wanting(4)) == QueueRails{0, 1, 0, 1});
  CHECK(default_queues(2, wanting(3)) == QueueRails{0, 1, 0, 1});
  CHECK(default_queues(3, wanting(1)) == QueueRails{0, 1, 2});
  for (int nth = 0; nth < 3; ++nth) CHECK(context_queues(1, nth) == QueueRails{0});
  CHECK(context_queues(3, 0) == QueueRails{0});
  CHECK(context_queues(3, 1) == QueueRails{0, 1});
  CHECK(context_queues(3, 2) == QueueRails{0, 2});
  CHECK(context_queues(3, 3) == QueueRails{0});
}

TEST_CASE("rails_have_the_features_that_all_of_them_have") {
  NicList nics;
  nics.push_back(std::make_unique<Described>(
      "a",
      Nic::Limits{.flags = abi::kNicFetchedBig, .max_message = 2000, .coherent_atomics = true}));
  nics.push_back(std::make_unique<Described>(
      "b",
      Nic::Limits{.flags = abi::kNicReadNeedsDump, .max_message = 1000, .coherent_atomics = true}));
  nics.push_back(std::make_unique<Described>(
      "c",
      Nic::Limits{.flags = abi::kNicReadsRecord, .max_message = 3000, .coherent_atomics = false}));
  const Rails rails(std::move(nics));
  const Nic::Limits all = rails.limits();
  CHECK(all.flags == (abi::kNicFetchedBig | abi::kNicReadNeedsDump | abi::kNicReadsRecord));
  CHECK(all.max_message == 1000);
  CHECK_FALSE(all.coherent_atomics);
  CHECK(rails.describe() == "a; b; c");
  CHECK(rails.count() == 3);
}

TEST_CASE("rails_have_registers_and_first_use_if_all_of_them_do") {
  for (const bool registers : {false, true}) {
    for (const bool first_use : {false, true}) {
      NicList nics;
      nics.push_back(
          std::make_unique<Described>("a", Nic::Limits{.registers = true, .first_use = true}));
      nics.push_back(std::make_unique<Described>(
          "b", Nic::Limits{.registers = registers, .first_use = first_use}));
      const Nic::Limits all = Rails(std::move(nics)).limits();
      CHECK(all.registers == registers);
      CHECK(all.first_use == first_use);
    }
  }
}

TEST_CASE("an_error_of_a_queue_is_explained_by_all_its_nics") {
  NicList nics;
  std::vector<const Described*> each;
  for (const char* name : {"a", "b"}) {
    auto nic = std::make_unique<Described>(name, Nic::Limits{});
    each.push_back(nic.get());
    nics.push_back(std::move(nic));
  }
  Rails rails(std::move(nics));
  CHECK(rails.explain(7, 3, GSHMEMX_ERROR_NIC) == "a to PE 3; b to PE 3; b is down");
  CHECK(rails.explain(7, 3, GSHMEMX_ERROR_TIMEOUT) ==
        "a to PE 3; state of a; b to PE 3; state of b; b is down");
  CHECK(rails.explain(8, 3, GSHMEMX_ERROR_TIMEOUT) == "b is down");
  rails.start();
  for (const Described* nic : each) CHECK((nic->started == 1 && nic->stopped == 0));
  rails.stop();
  for (const Described* nic : each) CHECK((nic->started == 1 && nic->stopped == 1));
}

TEST_CASE("only_the_first_rail_fetches") {
  NicList nics;
  nics.push_back(std::make_unique<Described>("a", Nic::Limits{.max_message = 1}));
  nics.push_back(std::make_unique<Described>("b", Nic::Limits{.flags = abi::kNicFetchedBig}));
  CHECK(Rails(std::move(nics)).limits().flags == 0);
}

}  // namespace gshmem::nic
