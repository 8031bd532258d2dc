// Tests keys of memory beside the heap: one per NIC that reaches it, found by the index of the
// local NIC and the rail of the remote PE, and the state after a NIC has refused. PEs are threads.
#include "bootstrap/bootstrap.h"
#include "host/base/error.h"
#include "tests/bootstrap/conformance.h"
#include "tests/bootstrap/run_ranks.h"
#include "transport/nic/memory_keys.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace gshmem::nic {
namespace {

using test::expect;

/// Registers memory by its offset. No key is used twice.
class Registering final : public Nic {
 public:
  explicit Registering(std::uint32_t first, std::string port = "")
      : next_(first), port_(std::move(port)) {}
  std::string port() const override { return port_; }
  std::unique_ptr<Nic> open_port(const std::string& port) override {
    return std::make_unique<Registering>(next_ + 50, port);
  }
  const char* name() const noexcept override { return "registering"; }
  std::string describe() const override { return name(); }
  Limits limits() const override { return {}; }
  void use_queue_memory(const Region&) override {}
  Keys register_memory(const Region& region) override {
    require(region.offset != refused, GSHMEMX_ERROR_NIC, "the NIC does not reach it");
    const Keys keys{.local = ++next_, .remote = ++next_, .atomic = ++next_};
    registered[region.offset] = keys;
    bytes[region.offset] = region.bytes;
    return keys;
  }
  void unregister_memory(const Region& region) noexcept override {
    registered.erase(region.offset);
  }
  void set_memory_infos(const Region&, const std::vector<std::uint8_t>&) override { told = true; }
  CreatedQueue create_queue(const QueuePlace&) override { return {}; }
  ConnectInfo connect_info(int) override { return {}; }
  void connect(int, int, const ConnectInfo&, std::uint32_t) override {}
  void start() override {}
  void stop() noexcept override {}

  std::uint64_t refused = 1;  ///< this offset
  bool told = false;          ///< other PEs have sent their keys
  std::map<std::uint64_t, std::uint64_t> bytes;
  std::map<std::uint64_t, Keys> registered;

 private:
  std::uint32_t next_;
  std::string port_;
};

/// A PE with NICs, whose heap is registered.
struct OnePe {
  static constexpr std::uint64_t kBeside = 1 << 20;
  static constexpr std::uint64_t kHeap = 2 * abi::kInternalBytes;
  /// The network reaches the heap for all operations, or for atomics only, or there are no peers.
  enum class Needs { kAll, kAtomics, kNobody };
  explicit OnePe(bootstrap::Bootstrap& of, Needs needs = Needs::kAll, int count = 2)
      : boot(of), rails(nics_of(of.rank(), count)), keys(rails) {
    std::vector<int> peers;
    for (int pe = 0; pe < boot.size() && needs != Needs::kNobody; ++pe) peers.push_back(pe);
    keys.register_heap({nullptr, kHeap}, peers, [&](int) { return needs == Needs::kAtomics; });
    keys.exchange(boot);
  }
  [[nodiscard]] static NicList nics_of(int pe, int count) {
    NicList list;
    for (int rail = 0; rail < count; ++rail)
      list.push_back(
          std::make_unique<Registering>(static_cast<std::uint32_t>(1000 * pe + 100 * rail)));
    return list;
  }
  [[nodiscard]] Registering& nic(int rail) { return static_cast<Registering&>(rails[rail]); }
  [[nodiscard]] static Region region(std::uint64_t offset = kBeside) {
    return {.base = nullptr, .bytes = 4096, .offset = offset};
  }
  /// Registers on all PEs and returns what device code finds.
  [[nodiscard]] MemoryKeys::OfRange add(std::uint64_t offset = kBeside) {
    keys.add(region(offset));
    return keys.exchange(boot, offset);
  }
  void expect_keys(const MemoryKeys::OfRange& row, std::uint64_t offset = kBeside) {
    const auto count = static_cast<std::size_t>(rails.count());
    expect(keys.rails() == count, "rails of the job");
    expect(row.local.size() == keys.nics(), "a key for each NIC of this PE");
    expect(row.remote.size() == count * static_cast<std::size_t>(boot.size()), "and of all PEs");
    std::vector<Keys> mine, all;
    for (int rail = 0; rail < rails.count(); ++rail) {
      mine.push_back(nic(rail).registered.at(offset));
      expect(row.local[keys.number(nic(rail))].get() == mine.back().local, "the NIC's own key");
      expect(!nic(rail).told, "a NIC without facts receives none");
    }
    all.resize(count * static_cast<std::size_t>(boot.size()));
    boot.allgather(mine.data(), all.data(), count * sizeof(Keys));
    for (std::size_t i = 0; i < all.size(); ++i) {
      expect(row.remote[i].payload.get() == all[i].remote, "the key for payload");
      expect(row.remote[i].atomic.get() == all[i].atomic, "the key for atomics");
    }
  }

  bootstrap::Bootstrap& boot;
  Rails rails;
  MemoryKeys keys;
};

void on_three_pes(const std::function<void(OnePe&)>& body, OnePe::Needs needs = OnePe::Needs::kAll,
                  int rails = 2) {
  auto boots = bootstrap::create_threads(3, 60);
  CHECK(test::run_threads(3, [&](int rank) {
          OnePe pe(*boots[static_cast<std::size_t>(rank)], needs, rails);
          body(pe);
        }) == "");
}

TEST_CASE("each_nic_and_rail_has_keys_of_memory_beside_the_heap") {
  on_three_pes([](OnePe& pe) {
    const MemoryKeys::OfRange first = pe.add(), second = pe.add(2 * OnePe::kBeside);
    pe.expect_keys(first);
    pe.expect_keys(second, 2 * OnePe::kBeside);
    pe.keys.remove(OnePe::kBeside);
    for (int rail = 0; rail < 2; ++rail)
      expect(pe.nic(rail).registered.count(OnePe::kBeside) == 0, "no NIC reaches it any more");
    pe.expect_keys(second, 2 * OnePe::kBeside);
    pe.expect_keys(pe.add());  // at the same address, where its keys are new
    for (int times = 0; times < 2; ++times) pe.keys.remove(OnePe::kBeside);  // the second is none
    pe.expect_keys(pe.add(3 * OnePe::kBeside), 3 * OnePe::kBeside);
    pe.expect_keys(second, 2 * OnePe::kBeside);
  });
}

TEST_CASE("each_nic_has_a_key_of_local_memory_and_no_other_pe_is_asked") {
  on_three_pes([](OnePe& pe) {
    if (pe.boot.rank() != 1) return;  // the call is local
    const Region local{
        .base = nullptr, .bytes = 4096, .offset = std::uint64_t{0} - 4096, .local = true};
    abi::Be32 keys[3] = {};
    expect(pe.keys.nics() == 2, "its rails");
    pe.keys.add_local(local, keys);
    for (int rail = 0; rail < 2; ++rail)
      expect(keys[rail].get() == pe.nic(rail).registered.at(local.offset).local, "the NIC's key");
    expect(keys[2].get() == 0, "and no more");
    pe.keys.remove(local.offset);
    for (int rail = 0; rail < 2; ++rail)
      expect(pe.nic(rail).registered.size() == 1, "the heap alone is left");
    pe.nic(1).refused = local.offset;
    std::string text;
    try {
      pe.keys.add_local(local, keys);
    } catch (const Error& error) {
      text = error.what();
    }
    expect(text == "the NIC does not reach it", "it is an error");
    expect(pe.nic(0).registered.size() == 1, "no other NIC keeps it");
  });
}

TEST_CASE("a_port_that_carries_payload_to_one_pe_has_the_whole_heap") {
  // PEs 1 and 2 share a port, which reaches one of them for atomics only.
  const int only_atomics = GENERATE(1, 2);
  auto boots = bootstrap::create_threads(3, 60);
  CHECK(test::run_threads(3, [&](int me) {
          bootstrap::Bootstrap& boot = *boots[static_cast<std::size_t>(me)];
          NicList list;
          list.push_back(std::make_unique<Registering>(1000, me == 0 ? "d0" : "d1"));
          Rails rails(std::move(list));
          rails.open_host_ports(boot, {0, 0, 0});
          MemoryKeys keys(rails);
          keys.register_heap({nullptr, OnePe::kHeap}, {1, 2},
                             [&](int pe) { return pe == only_atomics; });
          auto& to_both = static_cast<Registering&>(rails.to(1, 0));
          expect(to_both.bytes.at(0) == OnePe::kHeap, "all of it");
        }) == "");
}

TEST_CASE("local_ports_have_all_memory_for_any_peer") {
  const auto needs = GENERATE(OnePe::Needs::kAll, OnePe::Needs::kAtomics, OnePe::Needs::kNobody);
  on_three_pes(
      [](OnePe& pe) {
        for (int rail = 0; rail < 2; ++rail) {
          expect(pe.nic(rail).bytes[0] == OnePe::kHeap, "the whole heap");
          expect(pe.keys.number(pe.nic(rail)) == rail, "they count from 0");
          expect(pe.keys.local(pe.nic(rail)) == pe.nic(rail).registered.at(0).local, "their keys");
        }
        pe.expect_keys(pe.add());
      },
      needs);
}

TEST_CASE("remote_ports_have_memory_beside_the_heap_if_they_carry_more_than_atomics") {
  using Needs = OnePe::Needs;
  for (const Needs needs : {Needs::kAll, Needs::kAtomics, Needs::kNobody}) {
    auto boots = bootstrap::create_threads(2, 60);
    CHECK(test::run_threads(2, [&](int me) {
            bootstrap::Bootstrap& boot = *boots[static_cast<std::size_t>(me)];
            NicList list;
            list.push_back(std::make_unique<Registering>(1000, me == 0 ? "d0" : "d1"));
            Rails rails(std::move(list));
            rails.open_host_ports(boot, {0, 0});
            MemoryKeys keys(rails);
            std::vector<int> peers{0, 1};
            if (needs == Needs::kNobody) peers.clear();
            keys.register_heap({nullptr, OnePe::kHeap}, peers,
                               [&](int) { return needs == Needs::kAtomics; });
            keys.exchange(boot);
            keys.add(OnePe::region());
            const auto& own = static_cast<const Registering&>(rails[0]);
            const auto& guest = static_cast<const Registering&>(*rails.all().back());
            expect(rails.all().size() == 2 && &own != &guest, "the other one's port is open");
            expect(own.registered.count(OnePe::kBeside) == 1, "the own port has it");
            expect(guest.registered.count(OnePe::kBeside) == (needs == Needs::kAll ? 1 : 0),
                   "the other port where payload goes by it");
            expect(guest.bytes.count(0) == (needs == Needs::kNobody ? 0 : 1), "and the heap");
            if (needs != Needs::kNobody)
              expect(guest.bytes.at(0) ==
                         (needs == Needs::kAll ? OnePe::kHeap : std::uint64_t{abi::kInternalBytes}),
                     "or its beginning");
          }) == "");
  }
}

TEST_CASE("if_a_nic_refuses_memory_no_other_nic_keeps_it") {
  on_three_pes([](OnePe& pe) {
    pe.nic(1).refused = OnePe::kBeside;
    std::string text;
    try {
      pe.keys.add(OnePe::region());
    } catch (const Error& error) {
      text = error.what();
    }
    expect(text == "the NIC does not reach it", "it is an error");
    expect(pe.nic(0).registered.size() == 1, "the heap alone is registered");
    pe.nic(1).refused = 1;
    pe.expect_keys(pe.add());
  });
}

}  // namespace
}  // namespace gshmem::nic
