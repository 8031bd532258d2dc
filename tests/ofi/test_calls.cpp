// Tests the arguments of calls to libfabric in the journal of the double, and the sizes and times
// that follow from a job's size and settings.
#include "tests/ofi/job.h"
#include "tests/sanitizers/sanitizers.h"

#include "transport/ofi/fabric.h"
#include "transport/ofi/ofi_rails.h"
#include "transport/ofi/memory_access.h"
#include "transport/ofi/message.h"
#include "transport/ofi/ofi_nic.h"
#include "transport/ofi/provider.h"
#include "transport/ofi/provider_error.h"

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <new>
#include <string>
#include <thread>
#include <vector>

using namespace gshmem;
using namespace gshmem::test;

namespace {

using Lines = std::vector<std::string>;

/// Calls are recorded during its life.
struct Journal {
  explicit Journal(std::vector<std::string> providers) {
    rules.offer(std::move(providers));
    rules.journals = true;
  }
  ~Journal() { rules.reset(); }
  /// Returns the calls that begin with one of the words.
  Lines calls(const std::vector<std::string>& words) {
    Lines chosen;
    for (const std::string& call : rules.calls())
      for (const std::string& word : words)
        if (call.rfind(word, 0) == 0) chosen.push_back(call);
    return chosen;
  }
  FabricDouble& rules = *fabric_double();
};

Leg by_hand(const std::string& provider, const std::string& gdr) {
  Leg leg{.provider = provider, .gdr = gdr};
  leg.by_hand = true;
  return leg;
}

unsigned long long ull(std::uint64_t value) { return value; }

Lines question(const char* names, std::uint64_t caps, std::uint64_t op_flags, int more_modes = 0) {
  return {strprintf("getinfo 1.14 %s, any:any flags 0x0, caps 0x%llx, mode 0x%llx, type %d", names,
                    ull(FI_MSG | FI_RMA | caps), ull(FI_CONTEXT | FI_CONTEXT2), FI_EP_RDM),
          strprintf("  op 0x%llx, mr 0x%x, threading %d, management %d, av %d", ull(op_flags),
                    static_cast<unsigned>(FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY |
                                          FI_MR_VIRT_ADDR | FI_MR_ENDPOINT | more_modes),
                    FI_THREAD_DOMAIN, FI_RM_ENABLED, FI_AV_TABLE)};
}

}  // namespace

TEST_CASE("providers are asked only for features that are used", "[ofi][double]") {
  if (!have_double()) return;
  Journal journal({"efa-direct", "efa", "cxi"});
  const auto asked = [&](const ofi::Wanted& wanted) {
    (void)ofi::choose_provider(ofi::Library::get(), wanted);
    return journal.rules.calls();
  };
  CHECK(asked({}) == question("efa efa-direct", 0, FI_TRANSMIT_COMPLETE));
  CHECK(asked({.provider = "efa/efa"}) == question("efa efa", 0, FI_DELIVERY_COMPLETE));
  CHECK(asked({.provider = "cxi", .gpu_memory = true}) ==
        question("cxi any", FI_ATOMIC | FI_HMEM, FI_DELIVERY_COMPLETE, FI_MR_HMEM));
}

TEST_CASE("an endpoint has queues for all arrivals, and memory has the access that is used",
          "[ofi][double]") {
  if (!have_double()) return;
  Journal journal({"efa", "cxi"});
  const ofi::Library& library = ofi::Library::get();
  std::vector<std::uint8_t> memory(4096);
  {
    ofi::Fabric fabric(library, std::move(ofi::choose_provider(library, {}).front()), 7);
    (void)fabric.register_memory({.base = memory.data(), .bytes = 4096}, FI_SEND | FI_RECV);
    (void)fabric.register_memory({.base = memory.data(), .bytes = 64}, FI_READ);
  }
  const Lines wanted{
      strprintf("av of type %d", FI_AV_TABLE),
      strprintf("cq of format %d, wait %d, 4103 entries", FI_CQ_FORMAT_DATA, FI_WAIT_NONE),
      "bind av with 0x0",
      strprintf("bind cq with 0x%llx", ull(FI_TRANSMIT | FI_RECV)),
      strprintf("register 4096 bytes, access 0x%llx, gpu -1, pieces 1", ull(FI_SEND | FI_RECV)),
      strprintf("register 64 bytes, access 0x%llx, gpu -1, pieces 1", ull(FI_READ))};
  CHECK(journal.calls({"av", "cq", "bind", "register", "set"}) == wanted);
  {
    ofi::Fabric fabric(
        library,
        std::move(ofi::choose_provider(library, {.provider = "cxi", .gpu_memory = true}).front()),
        0);
    (void)fabric.register_memory(
        {.base = memory.data(), .bytes = 64, .kind = nic::MemoryKind::kGpu, .gpu = 3}, FI_READ);
  }
  CHECK(journal.calls({"cq", "register", "set"}) ==
        Lines{strprintf("cq of format %d, wait %d, 2048 entries", FI_CQ_FORMAT_DATA, FI_WAIT_NONE),
              strprintf("set option 10 of level %d to 0", FI_OPT_ENDPOINT),
              strprintf("set option %d of level %d to %d", FI_OPT_FI_HMEM_P2P, FI_OPT_ENDPOINT,
                        FI_HMEM_P2P_REQUIRED),
              strprintf("register 64 bytes, access 0x%llx, gpu 3, pieces 1", ull(FI_READ))});
}

TEST_CASE("a PE registers its heap, scratch memory, and buffers of messages", "[ofi][double]") {
  if (!have_double()) return;
  Journal journal({"efa", "efa-direct"});
  const auto lines = [](const std::vector<std::pair<std::uint64_t, std::uint64_t>>& regions) {
    Lines all;
    for (const auto& [bytes, access] : regions)
      all.push_back(strprintf("register %llu bytes, access 0x%llx, gpu -1, pieces 1", ull(bytes),
                              ull(access)));
    return all;
  };
  constexpr std::uint64_t kMessages = FI_SEND | FI_RECV;
  constexpr std::uint64_t kPool = 512 * 1024 + 32;
  constexpr std::uint64_t kPoolAccess = FI_READ | FI_WRITE | FI_REMOTE_READ;
  SECTION("staged: 32 requests, as many replies, 16 receives for requests, as many for replies") {
    constexpr std::uint64_t kEach = 256 + 262144;
    const Job job(1, by_hand("efa/efa", "off"));
    const Lines all = journal.calls({"cq", "register"});
    // Room for the completions of all pending operations, and of 64 writes with immediates.
    CHECK_THAT(all.front(), Catch::EndsWith(" 4160 entries"));
    CHECK(Lines(all.begin() + 1, all.end()) == lines({{kPool, kPoolAccess},
                                                      {32 * kEach + 256, kMessages},
                                                      {32 * kEach + 256, kMessages},
                                                      {32 * kEach + 256, kMessages}}));
  }
  SECTION("by RMA: messages are headers; 128 requests and replies, 64 receives of each") {
    const Job job(1, by_hand("efa/efa-direct", "auto"));
    CHECK(journal.calls({"register"}) ==
          lines({{kHeapBytes, FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE},
                 {kPool, kPoolAccess},
                 {128 * 128 + 64, kMessages},
                 {128 * 128 + 64, kMessages},
                 {128 * 128 + 64, kMessages}}));
  }
}

TEST_CASE("data of other NICs is flushed by reads of its target's heap", "[ofi][double]") {
  if (!have_double()) return;
  Leg leg = by_hand("efa/efa-direct", "auto");
  leg.nics = 2;
  Job job(2, leg);
  const auto rounds = [&] {
    for (int round = 0; round < 5; ++round) {
      job[0].round();
      job[1].round();
    }
  };
  rounds();
  Journal journal({"efa-direct"});
  const std::uint64_t write = job[0].to(1).write(0, 0, 262144);
  job[0].to(1).ring();
  rounds();
  CHECK(job[0].to(1).has_ended(write));
  const auto base = reinterpret_cast<std::uintptr_t>(job[1].heap());
  constexpr std::uint64_t kWrite = FI_COMPLETION | FI_TRANSMIT_COMPLETE;
  // The first NIC is the home of transfers to a neighbour.
  CHECK(journal.calls({"write", "fetch"}) ==
        Lines{strprintf("write by 1: 135168 bytes to %llu flags 0x%llx", ull(base), ull(kWrite)),
              strprintf("write by 0: 126976 bytes to %llu flags 0x%llx", ull(base + 135168),
                        ull(kWrite)),
              strprintf("fetch by 0: 8 bytes from %llu", ull(base))});
}

TEST_CASE("a peer is lost when a probe of it fails, and not when it is answered", "[ofi][double]") {
  if (!have_double()) return;
  const bool refused = GENERATE(false, true);  // by the call
  Job job(2, by_hand("efa/efa", "auto"));
  FabricDouble& rules = *fabric_double();
  const auto begun = std::chrono::steady_clock::now();
  const auto round_at = [&](int ms) { job[0].round(begun + std::chrono::milliseconds(ms)); };
  for (int round = 0; round < 3; ++round) round_at(0);  // greetings
  rules.rtt = 3600ll * 1'000'000'000;
  job[0].to(1).write(64, 0, 8);
  job[0].to(1).ring();
  round_at(0);
  rules.rtt = 0;
  for (const int ms : {520, 540, 560}) round_at(ms);
  CHECK(rules.taken[FabricDouble::kRead] > 2u);
  CHECK(job[0].errors().empty());
  rules.error = FI_EHOSTUNREACH;
  (refused ? rules.refusal : rules.errors) = refused ? FI_EHOSTUNREACH : 1;
  for (const int ms : {5000, 5020, 5040}) round_at(ms);
  const auto errors = job[0].errors();
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].first == 1);
  CHECK_THAT(errors[0].second, Catch::Contains("probe of PE 1: No route to host"));
}

TEST_CASE("a NIC describes its features, and has a doorbell for each queue", "[ofi][double]") {
  if (!have_double()) return;
  const auto [provider, coherent] =
      GENERATE(table<std::string, bool>({{"efa/efa", true}, {"cxi", false}}));
  Job job(1, by_hand(provider, "auto"));
  const nic::Nic::Limits limits = job[0].nic().limits();
  CHECK(limits.flags == 0);
  CHECK(limits.max_message == 1u << 30);
  CHECK(limits.coherent_atomics == coherent);  // those of a NIC are its own
  // 2 queues to a PE, and 1,024 more; whole pages.
  CHECK(job[0].nic().doorbell_block().bytes == 12288);
  for (int more = 1; more < 2 + 1024; ++more) (void)job[0].nic().create_queue({.depth = 64});
  CHECK_THROWS_WITH(job[0].nic().create_queue({.depth = 64}),
                    "GSHMEM_NIC=ofi has 1026 queues in this job, and no more");
}

TEST_CASE("errors of providers are distinguished", "[ofi]") {
  if (!have_libfabric()) return;
  using Errors = std::vector<int>;
  const auto text_of = [](const char* provider, int error) {
    const ofi::InfoPtr info(ofi::Library::get().dupinfo(nullptr));
    info->fabric_attr->prov_name = strdup(provider);
    const ofi::ProviderError said =
        ofi::judge(*info, {.error = error, .bytes = 0, .text = "why"}, "WRITE");
    CHECK(said.failure.text == "WRITE: why");
    CHECK(int{said.failure.vendor} == (said.failure.syndrome == 0x15 ? 0x81 : 0));
    return strprintf("0x%02x%s%s", said.failure.syndrome, said.transient ? " again" : "",
                     said.peer_lost ? " lost" : "");
  };
  for (const char* provider : {"efa", "cxi", "verbs;ofi_rxm", "tcp;ofi_rxm", "tcp"}) {
    INFO(provider);
    for (const int error : Errors{FI_ENORX, FI_EAGAIN})
      CHECK(text_of(provider, error) == "0x16 again");
    for (const int error : Errors{FI_EACCES, FI_EPERM, FI_EKEYREJECTED, FI_ENOKEY})
      CHECK(text_of(provider, error) == "0x13");
    CHECK(text_of(provider, FI_EFAULT) == "0x04");
    for (const int error : Errors{FI_EMSGSIZE, FI_ETOOSMALL, FI_ETRUNC})
      CHECK(text_of(provider, error) == "0x01");
    for (const int error :
         Errors{FI_ECONNREFUSED, FI_ECONNRESET, FI_ECONNABORTED, FI_ENOTCONN, FI_ESHUTDOWN,
                FI_ETIMEDOUT, FI_EHOSTDOWN, FI_EHOSTUNREACH, FI_ENETDOWN, FI_ENETUNREACH, EPIPE})
      CHECK(text_of(provider, error) == "0x15 lost");
    const bool connected = std::string(provider) != "efa" && std::string(provider) != "cxi";
    for (const int error : Errors{FI_ENOENT, FI_ECANCELED, FI_EIO})
      CHECK(text_of(provider, error) == (connected ? "0x15 lost" : "0x15"));
    const bool efa = std::string(provider) == "efa";
    CHECK(text_of(provider, FI_EINVAL) == (efa ? "0x13" : "0x14"));
    CHECK(text_of(provider, FI_EOTHER) == "0x14");
  }
}
