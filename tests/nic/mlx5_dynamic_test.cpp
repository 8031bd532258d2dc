// Tests dynamic connections of the mlx5 transport over the soft NIC: the bytes of address vectors,
// and entries of an initiator to several PEs. PEs are threads.
#include "bootstrap/bootstrap.h"
#include "tests/nic/mlx5_pe.h"
#include "transport/nic/mlx5/connection.h"
#include "transport/nic/nic.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace gshmem::nic {
namespace {

constexpr std::uint64_t kKey = 0xc0c1c2c3c4c5c6c7;

Config dynamic_on(const char* devices) {
  return Config::from(
      [](const char* name, void* value) -> const char* {
        const std::string text = name;
        if (text == "GSHMEM_NIC_DEVICES") return static_cast<const char*>(value);
        if (text == "GSHMEM_CONNECT") return "dc";
        return text == "GSHMEM_IB_RETRY_COUNT" ? "1" : text == "GSHMEM_IB_TIMEOUT" ? "10" : nullptr;
      },
      const_cast<char*>(devices));
}

using Vector = std::array<std::uint8_t, 48>;

/// A PE with one initiator.
class DynamicPe {
 public:
  DynamicPe(const Config& config, Collectives& boot)
      : nic_(std::move(open_soft({.config = config, .boot = boot}).front())) {
    nic_->use_queue_memory({memory_.data(), memory_.size(), MemoryKind::kHost, -1});
    keys_ =
        allgather(boot, nic_->register_memory({heap_.data(), heap_.size(), MemoryKind::kHost, -1}));
    const std::vector<ConnectInfo> targets = allgather(boot, nic_->make_target(kKey));
    for (int pe = 0; pe < boot.size(); ++pe) {
      const abi::AddressVector vector = nic_->vector_to(pe, targets[static_cast<std::size_t>(pe)]);
      std::memcpy(vectors.emplace_back().data(), &vector, sizeof(vector));
    }
    const abi::CompletionEntry none = no_completion();
    std::memcpy(memory_.data() + kPlace.completion, &none, sizeof(none));
    created_ = nic_->create_queue(kPlace);
    local_ = keys_[static_cast<std::size_t>(boot.rank())].local;
    boot.barrier();
    nic_->start();
  }
  ~DynamicPe() { nic_->stop(); }

  std::vector<Vector> vectors;
  [[nodiscard]] char* heap() const { return heap_.data(); }
  [[nodiscard]] const Nic& nic() const { return *nic_; }
  [[nodiscard]] std::uint32_t number() const { return created_.number; }

  /// Writes 8 bytes to PE `pe`; returns the syndrome, 0 if all is good.
  int write(int pe, std::uint64_t from, std::uint64_t to) {
    struct {
      abi::ControlSegment control;
      Vector vector;
      abi::RemoteSegment remote;
      abi::DataSegment data;
      char gap[32] = {};
    } wqe;
    wqe.control.opmod_index_opcode = abi::Be32(next_ << 8 | 0x08);
    wqe.control.number_ds = abi::Be32(created_.number << 8 | 6);
    wqe.control.flags = abi::kCqUpdate;
    wqe.vector = vectors[static_cast<std::size_t>(pe)];
    wqe.remote.address = abi::Be64(to);
    wqe.remote.key = abi::Be32(keys_[static_cast<std::size_t>(pe)].remote);
    wqe.data.bytes = abi::Be32(8);
    wqe.data.key = abi::Be32(local_);
    wqe.data.address = abi::Be64(from);
    static_assert(sizeof(wqe) == 128);
    std::memcpy(memory_.data() + kPlace.entries + next_ % 64 * 64, &wqe, sizeof(wqe));
    const std::uint32_t first = std::exchange(next_, next_ + 2);
    const auto word = [&](std::uint64_t at) {
      return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(memory_.data() + at));
    };
    word(kPlace.record + 4).store(abi::Be32(next_).raw, std::memory_order_release);
    std::atomic_ref(*created_.doorbell)
        .store(abi::doorbell_value(next_, created_.number), std::memory_order_release);
    for (;; std::this_thread::yield()) {
      const std::uint32_t seen = abi::swap_bytes(
          word(kPlace.completion + abi::kCompletionWordOffset).load(std::memory_order_acquire));
      if ((seen >> 4 & 0xf) == 13)
        return static_cast<int>(
            abi::swap_bytes(word(kPlace.completion + 52).load(std::memory_order_relaxed)) & 0xff);
      if ((seen >> 4 & 0xf) == 0 && seen >> 16 == first) return 0;
    }
  }

 private:
  static constexpr QueuePlace kPlace{
      .entries = 0, .completion = 4096, .record = 8192, .cq_record = 8200, .depth = 64};
  Pages heap_{8192}, memory_{12288};
  std::unique_ptr<Nic> nic_;
  std::vector<Keys> keys_;
  CreatedQueue created_;
  std::uint32_t local_ = 0, next_ = 0;
};

/// The macros of Catch2 work in one thread only.
void demand(bool ok, const char* what) { require(ok, GSHMEMX_ERROR_INTERNAL, what); }

void run_dynamic(int pes, const char* devices,
                 const std::function<void(DynamicPe&, Collectives&)>& body) {
  auto boots = bootstrap::create_threads(pes, 60);
  std::vector<std::string> errors(boots.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < boots.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        DynamicPe pe(dynamic_on(devices), *boots[i]);
        body(pe, *boots[i]);
        boots[i]->barrier();
      } catch (const std::exception& error) {
        boots[i].reset();
        errors[i] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& error : errors) CHECK(error == "");
}

}  // namespace

TEST_CASE("one_initiator_writes_to_all_pes") {
  for (const char* devices : {"=mlx5_0", "=mlx5_2"}) {  // InfiniBand, RoCE
    run_dynamic(3, devices, [](DynamicPe& pe, Collectives& boot) {
      const int me = boot.rank(), n = boot.size();
      for (std::uint64_t round = 1; round <= 50; ++round) {  // more than once around
        std::memcpy(pe.heap(), &round, sizeof(round));
        for (int to = 0; to < n; ++to)
          demand(pe.write(to, 0, static_cast<std::uint64_t>(64 + 8 * me)) == 0, "a write");
      }
      boot.barrier();
      for (int from = 0; from < n; ++from) {
        std::uint64_t last = 0;
        std::memcpy(&last, pe.heap() + 64 + 8 * from, sizeof(last));
        demand(last == 50, "the last word of each PE is there");
      }
    });
  }
}

TEST_CASE("a_vector_has_the_key_the_target_and_its_port") {
  run_dynamic(2, "=mlx5_0", [](DynamicPe& pe, Collectives& boot) {
    const Vector& vector = pe.vectors[static_cast<std::size_t>(1 - boot.rank())];
    const Vector& other = pe.vectors[static_cast<std::size_t>(boot.rank())];
    const std::uint8_t key[8] = {0xc0, 0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7};
    demand(std::equal(key, key + 8, vector.begin()), "the key, big-endian");
    demand(vector[8] == 0x80, "the long form");
    demand(!std::equal(&vector[9], &vector[12], &other[9]), "the number of a target");
    demand(vector[12] == 0 && vector[13] == 0, "service level and path bits");
    const std::string ends = pe.nic().describe_ends(pe.number(), 1 - boot.rank());
    const std::string lid =
        strprintf("(LID %d) of PE %d", vector[14] << 8 | vector[15], 1 - boot.rank());
    demand(ends.find(lid) != ends.npos, "the LID, big-endian");
    demand(std::all_of(&vector[16], &vector[48], [](int byte) { return byte == 0; }),
           "no other address");
  });
  run_dynamic(1, "=mlx5_2", [](DynamicPe& pe, Collectives&) {
    const Vector& vector = pe.vectors[0];
    demand(std::any_of(&vector[20], &vector[26], [](int byte) { return byte != 0; }), "a MAC");
    demand(vector[27] == 255, "the hop limit");
    demand((vector[28] & 0x40) != 0, "there is a GID");
    demand(std::any_of(&vector[32], &vector[48], [](int byte) { return byte != 0; }), "a GID");
  });
}

TEST_CASE("a_target_that_differs_is_an_error_that_names_its_pe") {
  const auto text_with = [](const std::function<void(mlx5::ConnectWire&)>& change) {
    std::string text;
    const auto boots = bootstrap::create_threads(1, 60);
    const NicList nics = open_soft({.config = dynamic_on("=mlx5_0"), .boot = *boots[0]});
    ConnectInfo target = nics[0]->make_target(kKey);
    mlx5::ConnectWire wire;
    std::memcpy(&wire, target.data(), sizeof(wire));
    change(wire);
    std::memcpy(target.data(), &wire, sizeof(wire));
    try {
      (void)nics[0]->vector_to(7, target);
    } catch (const Error& error) {
      text = error.what();
    }
    return text;
  };
  CHECK(text_with([](mlx5::ConnectWire&) {}).empty());
  const std::string mtu = text_with([](mlx5::ConnectWire& wire) { wire.mtu = IBV_MTU_512; });
  CHECK_THAT(mtu, Catch::Contains("GSHMEM_CONNECT=dc: PE 7 has an MTU of 512, and this PE's"));
  CHECK_THAT(mtu, Catch::Contains("use GSHMEM_CONNECT=init"));
  CHECK_THAT(text_with([](mlx5::ConnectWire& wire) { wire.log_reads_in = 1; }),
             Catch::Contains("PE 7 has a number of READs that it answers at a time "
                             "(log_max_ra_res_qp) of 2"));
}

TEST_CASE("a_target_does_not_answer_a_wrong_key") {
  run_dynamic(2, "=mlx5_0", [](DynamicPe& pe, Collectives& boot) {
    const int other = 1 - boot.rank();
    demand(pe.write(other, 0, 64) == 0, "a write with the key");
    ++pe.vectors[static_cast<std::size_t>(other)][7];
    demand(pe.write(other, 0, 64) == 0x15, "retries exceeded");
  });
}

}  // namespace gshmem::nic
