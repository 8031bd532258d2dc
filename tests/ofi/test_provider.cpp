// Tests which provider is requested, its settings before that, and the errors when none fits.
#include "host/base/dynamic_library.h"
#include "host/base/fd.h"
#include "host/base/log.h"
#include "tests/ofi/job.h"
#include "tests/capture.h"
#include "transport/ofi/environment.h"
#include "transport/ofi/fabric.h"
#include "transport/ofi/provider.h"

#include <rdma/fi_rma.h>

#include <catch2/catch.hpp>

#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

using namespace gshmem;
using namespace gshmem::test;

namespace {

const std::vector<std::string> kAll{"efa-direct", "efa", "cxi", "verbs;ofi_rxm", "tcp;ofi_rxm"};

/// The double, with all its providers, and clean afterwards.
struct Offers {
  explicit Offers(std::vector<std::string> providers) { rules.offer(std::move(providers)); }
  ~Offers() { rules.reset(); }
  FabricDouble& rules = *fabric_double();
};

ofi::InfoPtr choose(const ofi::Wanted& wanted) {
  return std::move(ofi::choose_provider(ofi::Library::get(), wanted).front());
}
std::string chosen(const ofi::Wanted& wanted) {
  const ofi::InfoPtr info = choose(wanted);
  const std::string provider = info->fabric_attr->prov_name;
  return provider == "efa" ? info->fabric_attr->name : provider;
}
std::string refusal(const ofi::Wanted& wanted) {
  try {
    (void)choose(wanted);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// Restores variables afterwards.
class Variables {
 public:
  explicit Variables(std::vector<std::string> names) : names_(std::move(names)) {
    for (const std::string& name : names_) {
      const char* const value = std::getenv(name.c_str());
      values_.push_back(value != nullptr ? std::optional<std::string>(value) : std::nullopt);
      unsetenv(name.c_str());
    }
  }
  ~Variables() {
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (values_[i])
        setenv(names_[i].c_str(), values_[i]->c_str(), 1);
      else
        unsetenv(names_[i].c_str());
    }
  }

 private:
  std::vector<std::string> names_;
  std::vector<std::optional<std::string>> values_;
};
Variables all_variables() {
  return Variables({"FI_UNIVERSE_SIZE", "FI_HMEM", "FI_HMEM_CUDA_USE_GDRCOPY",
                    "MLX5_SCATTER_TO_CQE", "FI_CXI_DISABLE_NON_INJECT_MSG_IDC",
                    "FI_CXI_DISABLE_NON_INJECT_RMA_IDC", "FI_CXI_DISABLE_HOST_REGISTER",
                    "FI_CXI_DISABLE_HMEM_DEV_REGISTER", "FI_EFA_FORK_SAFE", "FI_OFI_RXM_USE_SRX"});
}

/// Reads and writes `bytes` bytes of memory that the provider takes for GPU memory; returns how
/// often it has called CUDA.
std::uint64_t cuda_calls(const char* provider, std::size_t bytes) {
  ofi::Fabric fabric(ofi::Library::get(), choose({.provider = provider, .gpu_memory = true}), 0);
  std::vector<std::uint8_t> memory(8192);
  const ofi::Registered heap = fabric.register_memory(
      {.base = memory.data(), .bytes = memory.size(), .kind = nic::MemoryKind::kGpu, .gpu = 0},
      FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE);
  fabric.insert({fabric.address()});
  const std::uint64_t before = fabric_double()->cuda_calls;
  const iovec here{heap.base, bytes};
  const fi_rma_iov there{heap.remote_base + 4096, bytes, heap.key};
  void* descriptor = heap.descriptor;
  fi_msg_rma message{};
  message.msg_iov = &here;
  message.desc = &descriptor;
  message.iov_count = message.rma_iov_count = 1;
  message.addr = fabric.peer(0);
  message.rma_iov = &there;
  CHECK(fi_writemsg(fabric.endpoint(), &message, FI_COMPLETION) == 0);
  CHECK(fi_readmsg(fabric.endpoint(), &message, FI_COMPLETION) == 0);
  fabric.poll();
  fabric.close();
  return fabric_double()->cuda_calls - before;
}

/// Valid until the next call.
void* taken_for_gpu_memory(std::size_t bytes) {
  static std::vector<std::uint8_t> memory;
  memory.assign(bytes, 0);
  return memory.data();
}

}  // namespace

TEST_CASE("the best provider is used, with the fabric that works", "[ofi][double]") {
  if (!have_double()) return;
  const Offers offers(kAll);
  CHECK(chosen({}) == "efa-direct");
  CHECK(chosen({.gpu_memory = true}) == "efa-direct");
  // Messages of efa-direct are no larger than a packet.
  CHECK(chosen({.large_messages = true}) == "efa");
  CHECK(chosen({.provider = "efa"}) == "efa-direct");
  CHECK(chosen({.provider = "efa/efa"}) == "efa");
  CHECK(chosen({.provider = "efa/efa-direct"}) == "efa-direct");
  CHECK(chosen({.provider = "tcp"}) == "tcp;ofi_rxm");
  offers.rules.offer({"efa", "cxi"});
  CHECK(chosen({}) == "efa");
  offers.rules.offer({"tcp;ofi_rxm", "verbs;ofi_rxm"});
  CHECK(chosen({}) == "verbs;ofi_rxm");
  // A provider that gshmem does not know is used on request.
  offers.rules.offer({"opx"});
  CHECK(chosen({.provider = "opx"}) == "opx");
  CHECK_THAT(refusal({}), Catch::Contains("opx is usable, but was not asked for"));
  CHECK(ofi::network_for_gpus(ofi::Library::get()).empty());
  offers.rules.offer(kAll);
  CHECK(ofi::network_for_gpus(ofi::Library::get()) == "efa");
}

TEST_CASE("an interface is requested by its address, or by the provider's own name",
          "[ofi][double]") {
  if (!have_double()) return;
  const Offers offers(kAll);
  offers.rules.nics = 2;
  // Domains of the double have other names than interfaces, as those of verbs have.
  CHECK(chosen({.provider = "tcp", .interface = "lo"}) == "tcp;ofi_rxm");
  CHECK(std::string(choose({.provider = "cxi", .interface = "cxi1"})->domain_attr->name) == "cxi1");
  CHECK_THAT(refusal({.provider = "cxi", .interface = "lo"}),
             Catch::Contains("cxi is not on interface lo"));
  const auto domain = [](const ofi::Wanted& wanted) {
    return std::string(choose(wanted)->domain_attr->name);
  };
  // That is no address, but getinfo would take it for one.
  CHECK(domain({.provider = "verbs", .interface = "verbs;ofi_rxm1"}) == "verbs;ofi_rxm1");
  // This is the address by which other hosts reach this one.
  CHECK(domain({.provider = "tcp"}) == "tcp;ofi_rxm0");
  CHECK(domain({.provider = "tcp", .addresses = {"10.0.0.1", "127.0.0.2"}}) == "tcp;ofi_rxm1");
}

TEST_CASE("the provider that stalls is never used", "[ofi][double]") {
  if (!have_double()) return;
  const Offers offers({"sockets"});
  for (const char* asked : {"", "sockets"})
    CHECK_THAT(refusal({.provider = asked}),
               Catch::Contains("Here it offers: sockets is deprecated, stalls, and is never used"));
}

TEST_CASE("no other provider is suggested when descriptors or memory run out", "[ofi][double]") {
  if (!have_double()) return;
  const auto advice_for = [](int error) -> std::string {
    try {
      ofi::Library::get().check(-error, "fi_enable on tcp", "Try another GSHMEM_OFI_PROVIDER");
    } catch (const Error& told) {
      return told.what();
    }
    return "none";
  };
  CHECK_THAT(advice_for(EMFILE), Catch::Contains("(ulimit -n)") && !Catch::Contains("another"));
  CHECK_THAT(advice_for(ENOMEM), Catch::Contains("(ulimit -l)") && !Catch::Contains("another"));
  CHECK_THAT(advice_for(EINVAL), Catch::Contains("Try another GSHMEM_OFI_PROVIDER"));
}

TEST_CASE("atomics are requested only if the NIC has them", "[ofi][double]") {
  if (!have_double()) return;
  const Offers offers(kAll);
  constexpr std::uint64_t kBoth = FI_ATOMIC | FI_HMEM;
  for (const char* provider : {"efa/efa-direct", "efa/efa", "verbs;ofi_rxm", "cxi"}) {
    INFO(provider);
    const std::uint64_t atomics = std::strcmp(provider, "cxi") == 0 ? FI_ATOMIC : 0;
    CHECK((choose({.provider = provider, .gpu_memory = true})->caps & kBoth) ==
          (FI_HMEM | atomics));
    CHECK((choose({.provider = provider})->caps & kBoth) == atomics);
  }
}

TEST_CASE("if no provider fits, each one is listed with what it lacks", "[ofi][double]") {
  if (!have_double()) return;
  const Offers offers({"cxi", "tcp;ofi_rxm"});
  offers.rules.nics = 2;  // each is configured once
  const std::string start = "libfabric " + ofi::Library::get().version_text() + " has no provider";
  const std::string plain = " with FI_EP_RDM, FI_MSG and FI_RMA",
                    unasked = " is usable, but was not asked for";
  CHECK(refusal({.provider = "psm3"}) == start + " GSHMEM_OFI_PROVIDER=\"psm3\"" + plain +
                                             ". Here it offers: cxi" + unasked + "; tcp;ofi_rxm" +
                                             unasked);
  CHECK(
      refusal({.interface = "none7"}) ==
      start + " on GSHMEM_OFI_INTERFACE=\"none7\"" + plain +
          ". Here it offers: cxi is not on interface none7; tcp;ofi_rxm is not on interface none7");
  offers.rules.offer({"tcp;ofi_rxm"});
  CHECK_THAT(
      refusal({.gpu_memory = true}),
      Catch::StartsWith(start + plain.substr(0, plain.find(" and")) +
                        ", FI_RMA and FI_HMEM. Here it offers: tcp;ofi_rxm has no FI_HMEM ("));
  offers.rules.offer({});
  CHECK(refusal({}) == start + plain + ". Here it offers: nothing");
  offers.rules.offer({"udp", "psm2", "tcp"});
  CHECK_THAT(refusal({.gpu_memory = true}),
             Catch::EndsWith(". Here it offers: udp has no FI_RMA; psm2 has FI_MSG + FI_RMA + "
                             "FI_HMEM with delivery-complete only apart from each other; tcp has "
                             "no FI_EP_RDM endpoints"));
}

#if !defined(GSHMEM_HAVE_CUDA)
TEST_CASE("memory that no NIC reaches is staged if no network is for GPUs, or on request",
          "[ofi][double]") {
  if (!have_double()) return;
  const auto [provider, gdr] = GENERATE(
      table<std::string, std::string>({{"efa/efa", "auto"}, {"", "auto"}, {"efa/efa", "on"}}));
  const Offers offers({provider.empty() ? "tcp;ofi_rxm" : "efa"});
  offers.rules.register_at_most = kHeapBytes - 1;
  auto boots = bootstrap::create_threads(1, 30);
  const Leg leg{.provider = provider, .gdr = gdr, .gpu_memory = taken_for_gpu_memory};
  const auto open = [&] {
    const Pe pe(*boots[0], config_of(leg, 20, {{"GSHMEM_OFI_INTERFACE", ""}}), kDepth, leg);
  };
  offers.rules.journals = true;
  StderrCapture log;
  if (gdr == "on") {
    CHECK_THROWS_WITH(open(), Catch::Contains("fi_mr_regattr(GPU memory"));
    return;
  }
  // The memory is examined only then.
  CHECK_THROWS_WITH(open(), Catch::Contains("the heap is GPU memory, and this build has no CUDA: "
                                            "build with GSHMEM_CUDA=ON"));
  std::string said;
  for (const std::string& line : log.writes()) said += line;
  CHECK_THAT(said,
             Catch::Contains("GPUDirect RDMA not available: staging through host memory (") &&
                 Catch::Contains(provider.empty() ? "has no FI_HMEM" : "fi_mr_regattr(GPU memory"));
}

#endif

TEST_CASE("all PEs use as many NICs as the one with the fewest", "[ofi][double]") {
  if (!have_double()) return;
  const Offers offers(kAll);
  offers.rules.nics = 3;
  auto boots = bootstrap::create_threads(2, 30);
  std::array<std::string, 2> what;
  std::vector<std::thread> threads;
  for (std::size_t pe = 0; pe < what.size(); ++pe)
    threads.emplace_back([&, pe] {
      const Leg leg{.provider = "cxi", .gdr = "auto"};
      const char* const nics = pe == 0 ? "3" : "2";
      const Config config = config_of(leg, 20, {{"GSHMEM_NICS_PER_PE", nics}});
      try {
        Pe opened(*boots[pe], config, kDepth, leg);
        what[pe] = opened.nic().describe();
        boots[pe]->barrier();
      } catch (const Error& error) {
        what[pe] = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& each : what) {
    CHECK_THAT(each, Catch::Contains(" cxi (domain cxi0) and cxi (domain cxi1), RMA"));
  }
}

TEST_CASE("a heap in host memory that cannot be registered is an error, not staged",
          "[ofi][double]") {
  if (!have_double()) return;
  const Offers offers({"efa"});
  offers.rules.register_at_most_of_host = kHeapBytes - 1;
  auto boots = bootstrap::create_threads(1, 30);
  const Leg leg{.provider = "", .gdr = "auto"};
  CHECK_THROWS_WITH(Pe(*boots[0], config_of(leg, 20, {{"GSHMEM_OFI_INTERFACE", ""}}), kDepth, leg),
                    Catch::StartsWith("fi_mr_regattr(host memory") &&
                        Catch::Contains("Memory, or locked memory (ulimit -l), is short"));
}

TEST_CASE("the CUDA runtime is missing unless it has the name that libfabric uses", "[ofi]") {
  /// Returns what opens by these names, out of the libraries that are already loaded.
  const auto with = [](const std::vector<const char*>& doubles) {
    std::deque<DynamicLibrary> loaded;
    for (const char* path : doubles) loaded.emplace_back(path);
    std::string first;
    for (const char* name :
         {"libcudart.so", "libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"}) {
      try {
        const DynamicLibrary found(name);
        if (first.empty()) first = name;
      } catch (const Error&) {
        continue;
      }
    }
    return std::pair(first, ofi::missing_cuda_runtime());
  };
  for (const auto& doubles :
       {std::vector<const char*>{}, {CUDART_DOUBLE_12}, {CUDART_DOUBLE, CUDART_DOUBLE_12}}) {
    const auto [first, missing] = with(doubles);
    INFO(doubles.size() << " doubles: " << first);
    if (first == "libcudart.so")
      CHECK(missing.empty());
    else if (first.empty())
      CHECK_THAT(missing, Catch::Contains("libcudart.so, which this process does not find"));
    else
      CHECK_THAT(missing, Catch::Contains("this process only finds " + first + ": make a link"));
    CHECK((doubles.empty() || !first.empty()));
  }
}

TEST_CASE("a heap that the NICs of EFA do not reach is an error, not staged without a request",
          "[ofi][double]") {
  if (!have_double()) return;
  const Offers offers(kAll);
  // A sample would fit, the heap does not.
  offers.rules.register_at_most = kHeapBytes - 1;
  auto boots = bootstrap::create_threads(1, 30);
  const Leg leg{.provider = "", .gdr = "auto", .gpu_memory = taken_for_gpu_memory};
  try {
    const Pe pe(*boots[0], config_of(leg, 20, {{"GSHMEM_OFI_INTERFACE", ""}}), kDepth, leg);
    FAIL("opened");
  } catch (const Error& error) {
    INFO(error.what());
    CHECK_THAT(error.what(), Catch::Contains("this machine has efa") &&
                                 Catch::Contains("fi_mr_regattr(GPU memory") &&
                                 Catch::Contains("GSHMEM_GDR=off"));
  }
}

TEST_CASE("no provider calls CUDA while kernels spin", "[ofi][double]") {
  if (!have_double()) return;
  const Variables before = all_variables();
  const Offers offers(kAll);
  // cxi copies small writes by the CPU without a setting.
  CHECK(cuda_calls("cxi", 100) > 0);
  ofi::prepare_environment(2, true);
  for (const char* provider : {"efa/efa-direct", "efa/efa", "cxi", "verbs;ofi_rxm"}) {
    for (const std::size_t bytes : {8u, 100u, 4096u}) {
      INFO(provider << ", " << bytes << " bytes");
      CHECK(cuda_calls(provider, bytes) == 0);
    }
  }
  CHECK(offers.rules.violations().empty());
  offers.rules.permits_cuda = false;
  CHECK_THROWS_WITH(cuda_calls("cxi", 8), Catch::Contains("GDRCopy"));
}

TEST_CASE("libfabric and its libraries leave the program's signal handlers alone", "[ofi]") {
  std::array<void (*)(int), 32> before{};
  const auto handler_of = [](int signal) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    return action.sa_handler;
  };
  signal(SIGTERM, [](int) {});
  for (int number = 1; number < 32; ++number)
    before[static_cast<std::size_t>(number)] = handler_of(number);
  if (!have_libfabric()) return;  // the double handles signals, too
  { const Job job(2, legs().front()); }
  for (int number = 1; number < 32; ++number) {
    INFO("signal " << number);
    CHECK(handler_of(number) == before[static_cast<std::size_t>(number)]);
  }
}
