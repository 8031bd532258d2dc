// The arguments of calls to libfabric, as the double writes them down; sizes and times that follow
// from a job's size and settings.
#include "tests/ofi/job.h"
#include "tests/sanitizers/sanitizers.h"

#include "transport/ofi/fabric.h"
#include "transport/ofi/lanes.h"
#include "transport/ofi/memory_access.h"
#include "transport/ofi/message.h"
#include "transport/ofi/ofi_nic.h"
#include "transport/ofi/provider.h"
#include "transport/ofi/verdict.h"

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

/// Calls are written down as long as it lives.
struct Journal {
  explicit Journal(std::vector<std::string> providers) {
    rules.offer(std::move(providers));
    rules.journals = true;
  }
  ~Journal() { rules.reset(); }
  /// Those that begin with one of the words.
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

TEST_CASE("providers are asked for what is used, and for no more", "[ofi][double]") {
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

TEST_CASE("an endpoint has queues for all that may come, and memory is as it is used",
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
      strprintf("register 4096 bytes, access 0x%llx, key 24576, gpu -1, pieces 1",
                ull(FI_SEND | FI_RECV)),
      strprintf("register 64 bytes, access 0x%llx, key 24577, gpu -1, pieces 1", ull(FI_READ))};
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
              strprintf("register 64 bytes, access 0x%llx, key 24576, gpu 3, pieces 1",
                        ull(FI_READ))});
}

TEST_CASE("a PE registers its heap, scratch memory, and buffers of messages", "[ofi][double]") {
  if (!have_double()) return;
  Journal journal({"efa", "efa-direct"});
  const auto lines = [](const std::vector<std::pair<std::uint64_t, std::uint64_t>>& regions) {
    Lines all;
    for (const auto& [bytes, access] : regions)
      all.push_back(strprintf("register %llu bytes, access 0x%llx, key %zu, gpu -1, pieces 1",
                              ull(bytes), ull(access), 24576 + all.size()));
    return all;
  };
  constexpr std::uint64_t kMessages = FI_SEND | FI_RECV;
  constexpr std::uint64_t kPool = 512 * 1024 + 32;
  constexpr std::uint64_t kPoolAccess = FI_READ | FI_WRITE | FI_REMOTE_READ;
  SECTION("staged: 32 requests, as many replies, 16 receives for requests, as many for replies") {
    constexpr std::uint64_t kEach = 256 + 262144;
    const Job job(1, by_hand("efa/efa", "off"));
    const Lines all = journal.calls({"cq", "register"});
    // Completions of all that is under way, and of 64 writes with immediates.
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

TEST_CASE("large writes go by all NICs in pieces, others by one", "[ofi][double]") {
  if (!have_double()) return;
  Leg leg = by_hand("efa/efa-direct", "auto");
  leg.nics = 3;
  Job job(1, leg);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  std::uint64_t flushes = 0;
  const auto calls_of = [&](std::uint64_t entry) {
    fabric_double()->taken[FabricDouble::kRead] = 0;
    job[0].to(0).ring();
    while (!job[0].to(0).has_ended(entry)) {
      REQUIRE(std::chrono::steady_clock::now() < limit);
      job[0].round();
    }
    Lines calls;
    for (const std::string& call : fabric_double()->calls())
      if (call.rfind("write", 0) == 0 || call.rfind("read", 0) == 0) calls.push_back(call);
    flushes = fabric_double()->taken[FabricDouble::kRead];
    return calls;
  };
  (void)calls_of(job[0].to(0).write(8, 0, 8));
  fabric_double()->journals = true;
  const std::uint64_t base = reinterpret_cast<std::uintptr_t>(job[0].heap());
  const auto line = [&](const char* call, int nic, std::uint64_t bytes, std::uint64_t at,
                        std::uint64_t flags) {
    return strprintf("%s by %d: %llu bytes to %llu flags 0x%llx", call, nic, ull(bytes),
                     ull(base + at), ull(flags));
  };
  constexpr std::uint64_t kWrite = FI_COMPLETION | FI_TRANSMIT_COMPLETE;
  CHECK(calls_of(job[0].to(0).write(1 << 20, 0, 262143)) ==
        Lines{line("write", 0, 262143, 1 << 20, kWrite)});
  CHECK(flushes == 0);
  CHECK(calls_of(job[0].to(0).write(1 << 20, 0, 262144)) ==
        Lines{line("write", 0, 131072, 1 << 20, kWrite),
              line("write", 1, 131072, (1 << 20) + 131072, kWrite)});
  CHECK(flushes == 1);  // by each NIC but the first, so that what comes by that one finds all
  CHECK(calls_of(job[0].to(0).write(1 << 20, 0, 600000)) ==
        Lines{line("write", 0, 200704, 1 << 20, kWrite),
              line("write", 1, 200704, (1 << 20) + 200704, kWrite),
              line("write", 2, 198592, (1 << 20) + 401408, kWrite)});
  CHECK(flushes == 2);
  CHECK(calls_of(job[0].to(0).read(1 << 20, 0, 262144)) ==
        Lines{line("read", 0, 131072, 1 << 20, FI_COMPLETION),
              line("read", 1, 131072, (1 << 20) + 131072, FI_COMPLETION)});
  fabric_double()->journals = false;
}

TEST_CASE("what went by other NICs is pushed by reads of its target's heap", "[ofi][double]") {
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
  // The first one is the home of transfers to a neighbour.
  CHECK(journal.calls({"write", "fetch"}) ==
        Lines{strprintf("write by 1: 135168 bytes to %llu flags 0x%llx", ull(base), ull(kWrite)),
              strprintf("write by 0: 126976 bytes to %llu flags 0x%llx", ull(base + 135168),
                        ull(kWrite)),
              strprintf("fetch by 0: 8 bytes from %llu", ull(base))});
}

TEST_CASE("small writes go by another NIC to each neighbour", "[ofi][double]") {
  if (!have_double()) return;
  Leg leg = by_hand("efa/efa-direct", "auto");
  leg.nics = 2;
  Job job(2, leg);
  for (int me = 0; me < 2; ++me) {
    for (int pe = 0; pe < 2; ++pe) {
      fabric_double()->journals = true;
      job[me].to(pe).write(64, 0, 8);
      job[me].to(pe).ring();
      for (int round = 0; round < 3; ++round) job[me].round();
      const Lines calls = fabric_double()->calls();
      const std::string by = strprintf("write by %d: ", me == pe ? 0 : 1);
      CHECK(std::ranges::count_if(
                calls, [&](const std::string& call) { return call.rfind(by, 0) == 0; }) == 1);
      fabric_double()->journals = false;
    }
  }
}

TEST_CASE("a peer that owes an answer is probed after half a second, once at a time",
          "[ofi][double]") {
  if (!have_double()) return;
  Job job(2, by_hand("efa/efa", "auto"));
  const auto& reads = fabric_double()->taken[FabricDouble::kRead];
  const auto begun = std::chrono::steady_clock::now();
  const auto reads_at = [&](int ms) {
    const std::uint64_t before = reads;
    job[0].round(begun + std::chrono::milliseconds(ms));
    return reads - before;
  };
  for (int round = 0; round < 3; ++round) (void)reads_at(0);  // greetings
  fabric_double()->rtt = 3600ll * 1'000'000'000;
  job[0].to(1).write(64, 0, 8);
  job[0].to(1).ring();
  CHECK(reads_at(0) == 0);
  CHECK(reads_at(495) == 0);
  CHECK(reads_at(514) == 0);  // it looks every 20 ms
  CHECK(reads_at(515) == 1);
  CHECK(reads_at(5000) == 0);
  fabric_double()->rtt = 0;
}

TEST_CASE("a peer that answers probes is probed twice a second", "[ofi][double]") {
  if (!have_double()) return;
  Job job(2, by_hand("efa/efa", "auto"));
  const auto& reads = fabric_double()->taken[FabricDouble::kRead];
  using std::chrono::milliseconds;
  const auto now = std::chrono::steady_clock::now();
  for (int round = 0; round < 3; ++round) job[0].round(now - milliseconds(700));  // greetings
  fabric_double()->rtt = 3600ll * 1'000'000'000;
  job[0].to(1).write(64, 0, 8);
  job[0].to(1).ring();
  job[0].round(now - milliseconds(600));
  fabric_double()->rtt = 0;
  const std::uint64_t before = reads;
  job[0].round(now);
  job[0].round(now);  // hears the answer
  const auto answered = std::chrono::steady_clock::now();
  CHECK(reads == before + 1);
  for (const int ms : {100, 470}) {
    job[0].round(now + milliseconds(ms));
    CHECK(reads == before + 1);
  }
  job[0].round(answered + milliseconds(500));
  CHECK(reads == before + 2);
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

TEST_CASE("a greeting that the provider refuses is not sent again", "[ofi][double]") {
  if (!have_double()) return;
  Job job(1, by_hand("efa/efa", "auto"));
  FabricDouble& rules = *fabric_double();
  rules.refusal = FI_EINVAL;
  for (int round = 0; round < 3; ++round) job[0].round();
  CHECK(rules.refusal == 0);
  CHECK(rules.taken[FabricDouble::kRead] == 0u);
}

TEST_CASE("a peer that has never answered is not given up because nothing is taken",
          "[ofi][double]") {
  if (!have_double()) return;
  const bool answers = GENERATE(false, true);  // once, before that
  Job job(2, by_hand("efa/efa", "auto"), 60);
  FabricDouble& rules = *fabric_double();
  const auto begun = std::chrono::steady_clock::now();
  const auto round_at = [&](int ms) { job[0].round(begun + std::chrono::milliseconds(ms)); };
  if (answers)
    for (int round = 0; round < 3; ++round) round_at(0);  // greetings
  rules.busy = 100;
  job[0].to(1).write(64, 0, 8);
  job[0].to(1).ring();
  for (int ms = 0; ms < 12'000; ms += 100) round_at(ms);
  const auto errors = job[0].errors();
  REQUIRE(errors.size() == (answers ? 1 : 0));
  if (answers)
    CHECK_THAT(errors[0].second, Catch::Contains("PE 1: no connection can be made since 5 s"));
  rules.busy = 0;
}

TEST_CASE("what is to be tried again fails when its peer is lost meanwhile", "[ofi][double]") {
  if (!have_double()) return;
  Job job(1, by_hand("efa/efa", "auto"));
  FabricDouble& rules = *fabric_double();
  for (int round = 0; round < 3; ++round) job[0].round();  // greetings
  Client &first = job[0].to(0), &second = job[0].add_queue();
  const auto post = [&](Client& client, int error) {
    rules.error = error;
    rules.errors = 1;
    rules.rtt = 1'000'000;  // both end in one round
    const std::uint64_t entry = client.write(64, 0, 8);
    client.ring();
    job[0].round();
    return entry;
  };
  const std::uint64_t again = post(first, FI_ENORX), lost = post(second, FI_EHOSTUNREACH);
  rules.rtt = 0;
  const auto writes = rules.taken[FabricDouble::kWrite].load();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  for (int round = 0; round < 3; ++round) job[0].round();
  CHECK(int{first.wait(again, 0).syndrome} == 0x15);
  CHECK(int{second.wait(lost, 0).syndrome} == 0x15);
  CHECK(rules.taken[FabricDouble::kWrite] == writes);
}

TEST_CASE("a NIC says what it can do, and has a doorbell for each queue", "[ofi][double]") {
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

TEST_CASE("addresses that the provider does not know are an error with the PE", "[ofi][double]") {
  if (!have_double()) return;
  fabric_double()->offer({"efa"});
  ofi::Fabric fabric(ofi::Library::get(),
                     std::move(ofi::choose_provider(ofi::Library::get(), {}).front()), 0);
  const std::vector<std::uint8_t> own = fabric.address(), wrong(own.size());
  CHECK_THROWS_WITH(fabric.insert({own, wrong}),
                    Catch::Contains("fi_av_insert(address of PE 1, 16 bytes): returned 0. Do all"));
  fabric_double()->reset();
}

TEST_CASE("what a PE's network is goes into one line", "[ofi][double]") {
  if (!have_double()) return;
  const auto text = [](const std::string& provider, const std::string& gdr, int nics,
                       const std::string& poll) {
    Leg leg = by_hand(provider, gdr);
    leg.nics = nics;
    Job job(1, leg, 20, kDepth, {{"GSHMEM_OFI_POLL", poll}});
    return job[0].nic().describe();
  };
  CHECK(text("efa/efa", "auto", 1, "sleep") ==
        "libfabric 2.6 efa (domain efa0), RMA, atomics by messages, sleeping when idle");
  CHECK(text("cxi", "auto", 2, "spin") ==
        "libfabric 2.6 cxi (domain cxi0) and cxi (domain cxi1), RMA, atomics by the NIC, spinning");
  CHECK(text("tcp;ofi_rxm", "off", 1, "spin") ==
        "libfabric 2.6 tcp;ofi_rxm on 127.0.0.1 (domain tcp;ofi_rxm0), staged through host memory, "
        "atomics by messages, spinning");
}

TEST_CASE("messages are as many and as large as jobs of a size have memory for", "[ofi]") {
  struct Row {
    std::size_t peers, window, payload, requests, receives;
  };
  constexpr std::size_t kAny = std::size_t{1} << 30;
  for (const Row& row : {Row{1, 16, 262144, 32, 32},
                         {4, 16, 262144, 32, 96},
                         {5, 16, 131072, 32, 112},
                         {8, 16, 131072, 32, 160},
                         {9, 16, 65536, 32, 176},
                         {16, 16, 65536, 32, 288},
                         {17, 15, 65536, 32, 287},
                         {128, 2, 65536, 32, 288},
                         {129, 1, 65536, 32, 161},
                         {256, 1, 65536, 32, 288},
                         {1000, 1, 65536, 32, 1032}}) {
    INFO(row.peers << " PEs, with data");
    const ofi::MessageSizes sizes = ofi::message_sizes(row.peers, true, 1, kAny);
    CHECK(sizes.window == row.window);
    CHECK(sizes.payload == row.payload);
    CHECK(sizes.requests == row.requests);
    CHECK(sizes.receives(row.peers) == row.receives);
  }
  // Whole lines of 256 bytes, with a header of 104.
  CHECK(ofi::message_sizes(1, true, 1, 104 + 256 * 30).payload == 256 * 30);
  CHECK(ofi::message_sizes(1, true, 1, 104 + 256 * 30 - 1).payload == 256 * 29);
  struct Small {
    std::size_t peers, places, window, requests, receives;
  };
  for (const Small& row : {Small{1, 1024, 64, 128, 128},
                           {1, 100, 50, 100, 100},
                           {3, 1024, 64, 384, 384},
                           {4, 1024, 64, 512, 512},
                           {8, 1024, 64, 512, 1024},
                           {9, 1024, 56, 512, 1008},
                           {128, 40'000, 64, 512, 8704},
                           {129, 40'000, 63, 512, 8639},
                           {513, 1024, 1, 512, 1025}}) {
    INFO(row.peers << " PEs, atomics alone, " << row.places << " places");
    const ofi::MessageSizes sizes = ofi::message_sizes(row.peers, false, row.places, kAny);
    CHECK(sizes.window == row.window);
    CHECK(sizes.payload == 0);
    CHECK(sizes.requests == row.requests);
    CHECK(sizes.receives(row.peers) == row.receives);
  }
  CHECK(ofi::message_sizes(4, true, 1, kAny).receives(0) == 0);
  CHECK(ofi::message_sizes(4, true, 1, kAny).receives(1) == 32);
  const std::map<int, std::size_t> immediates{{1, 64},   {128, 64}, {129, 63},
                                              {4096, 2}, {8192, 1}, {10000, 1}};
  for (const auto& [pes, wanted] : immediates) CHECK(ofi::immediates_for(pes) == wanted);
  const std::map<int, std::size_t> operations{{1, 512},     {64, 512},    {65, 520},
                                              {1023, 8184}, {1024, 8192}, {10000, 8192}};
  for (const auto& [pes, wanted] : operations) CHECK(ofi::operations_for(pes) == wanted);
}

TEST_CASE("payloads of messages begin at lines that copy engines like", "[ofi][double]") {
  if (!have_double()) return;
  struct Sink final : ofi::CompletionSink {
    void completed(ofi::Context&, const ofi::Completion&) override {}
  } sink;
  fabric_double()->offer({"efa"});
  std::vector<std::unique_ptr<ofi::Fabric>> fabrics;
  fabrics.push_back(std::make_unique<ofi::Fabric>(
      ofi::Library::get(), std::move(ofi::choose_provider(ofi::Library::get(), {}).front()), 0));
  ofi::Lanes lanes(std::move(fabrics));
  const auto access = ofi::make_memory_access({});
  CHECK(access->done(ofi::kNoTicket));  // of host memory no copy takes time
  // Sanitizers end the process.
  if (!kSanitized) CHECK_THROWS_AS(access->allocate(~std::size_t{0} / 4), std::bad_alloc);
  for (const std::size_t payload : {std::size_t{0}, std::size_t{512}}) {
    using Role = ofi::MessageBuffer::Role;
    ofi::MessageBuffers buffers(lanes, *access, Role::kRequest, {3, payload, 1}, sink);
    const std::size_t line = payload == 0 ? 64 : 256;
    std::uint8_t* before = nullptr;
    for (std::size_t i = 0; i < 3; ++i) {
      const ofi::MessageBuffer& buffer = buffers[i];
      CHECK(buffer.index == i);
      CHECK(reinterpret_cast<std::uintptr_t>(buffer.payload()) % line == 0);
      const std::size_t each = payload == 0 ? 128 : 256 + payload;
      if (before != nullptr) CHECK(buffer.payload() == before + each);
      before = buffer.payload();
    }
  }
  lanes.close();
  fabric_double()->reset();
}

TEST_CASE("errors of providers are told apart", "[ofi]") {
  if (!have_libfabric()) return;
  using Errors = std::vector<int>;
  const auto verdict = [](const char* provider, int error) {
    const ofi::InfoPtr info(ofi::Library::get().dupinfo(nullptr));
    info->fabric_attr->prov_name = strdup(provider);
    const ofi::Verdict said =
        ofi::judge(*info, {.error = error, .bytes = 0, .text = "why"}, "WRITE");
    CHECK(said.failure.text == "WRITE: why");
    CHECK(int{said.failure.vendor} == (said.failure.syndrome == 0x15 ? 0x81 : 0));
    return strprintf("0x%02x%s%s", said.failure.syndrome, said.transient ? " again" : "",
                     said.peer_lost ? " lost" : "");
  };
  for (const char* provider : {"efa", "cxi", "verbs;ofi_rxm", "tcp;ofi_rxm", "tcp", "sockets"}) {
    INFO(provider);
    for (const int error : Errors{FI_ENORX, FI_EAGAIN})
      CHECK(verdict(provider, error) == "0x16 again");
    for (const int error : Errors{FI_EACCES, FI_EPERM, FI_EKEYREJECTED, FI_ENOKEY})
      CHECK(verdict(provider, error) == "0x13");
    CHECK(verdict(provider, FI_EFAULT) == "0x04");
    for (const int error : Errors{FI_EMSGSIZE, FI_ETOOSMALL, FI_ETRUNC})
      CHECK(verdict(provider, error) == "0x01");
    for (const int error :
         Errors{FI_ECONNREFUSED, FI_ECONNRESET, FI_ECONNABORTED, FI_ENOTCONN, FI_ESHUTDOWN,
                FI_ETIMEDOUT, FI_EHOSTDOWN, FI_EHOSTUNREACH, FI_ENETDOWN, FI_ENETUNREACH, EPIPE})
      CHECK(verdict(provider, error) == "0x15 lost");
    const bool connected = std::string(provider) != "efa" && std::string(provider) != "cxi";
    for (const int error : Errors{FI_ENOENT, FI_ECANCELED, FI_EIO})
      CHECK(verdict(provider, error) == (connected ? "0x15 lost" : "0x15"));
    const bool efa = std::string(provider) == "efa";
    CHECK(verdict(provider, FI_EINVAL) == (efa ? "0x13" : "0x14"));
    CHECK(verdict(provider, FI_EOTHER) == "0x14");
  }
}
