#include "transport/p2p/fabric_peers.h"

#include "bootstrap/bootstrap.h"
#include "host/base/error.h"

#include <catch2/catch.hpp>

#include <thread>

using namespace gshmem;
using namespace gshmem::p2p;

namespace {

using Numbers = std::vector<int>;

FabricOffer offer(std::uint8_t cluster, std::uint32_t clique, std::uint64_t heap_bytes = 1 << 21) {
  FabricOffer made;
  made.state = FabricOffer::State::kHandle;
  made.heap_bytes = heap_bytes;
  made.cluster[15] = cluster;
  made.clique = clique;
  return made;
}

}  // namespace

TEST_CASE("domains_are_gpus_of_one_cluster_and_clique") {
  const std::vector<FabricOffer> offers{offer(1, 0), offer(1, 0),   offer(1, 1),
                                        offer(2, 0), FabricOffer(), offer(1, 0)};
  CHECK(fabric_domains(offers, FabricUse::kAuto) == Numbers{0, 0, 1, 2, -1, 0});
  CHECK(fabric_domains(offers, FabricUse::kOn) == Numbers{0, 0, 0, 0, -1, 0});
  CHECK(fabric_domains(offers, FabricUse::kOff) == Numbers(6, -1));
}

TEST_CASE("a_pe_without_a_heap_fails_all_pes_with_its_reason") {
  const std::size_t failing = GENERATE(0u, 1u, 2u, 3u);  // 3: none of them
  auto boots = bootstrap::create_threads(3, 20);
  std::vector<std::string> said(3);
  std::vector<std::thread> threads;
  for (std::size_t pe = 0; pe < 3; ++pe) {
    threads.emplace_back([&, pe] {
      FabricOffer mine = offer(1, 0);
      if (pe == failing) {
        mine.state = FabricOffer::State::kFailed;
        mine.code = GSHMEMX_ERROR_OUT_OF_MEMORY;
        mine.set_why("the GPU is full" + std::string(300, '.'));  // longer than the record
      }
      try {
        if (exchange_offers(*boots[pe], mine).size() != 3) said[pe] = "of other PEs";
      } catch (const Error& error) {
        said[pe] = error.what();
        if (error.code() != GSHMEMX_ERROR_OUT_OF_MEMORY) said[pe] = "another code";
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string all = "the GPU is full" + std::string(300, '.');
  const std::string expected = failing == 3 ? ""
                                            : strprintf("init failed on PE %zu: ", failing) +
                                                  all.substr(0, sizeof(FabricOffer::why) - 1);
  for (const std::string& text : said) CHECK(text == expected);
}
