// Long collectives of PEs on several hosts with the same number on each: the data that a PE's
// queues carry, by their entries. Bytes cross the network once per host, in equal parts by the NICs
// of its PEs.
#include "tests/spmd/teams.h"
#include "transport/nic/decode.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

/// The PEs of the job: `inner` on each of `hosts`, consecutively.
struct Hosts {
  int inner, hosts;
  explicit Hosts(const Pe& pe) : inner(0), hosts(0) {
    for (int i = 0; i < pe.n(); ++i) inner += pe.maps(i) ? 1 : 0;
    hosts = pe.n() / inner;
  }
  [[nodiscard]] bool are_regular(const Pe& pe) const {
    return inner > 1 && hosts > 1 && pe.n() == inner * hosts;
  }
};

/// Returns how many entries were published to queue `i`.
std::uint64_t published(const abi::NicView& nic, std::uint32_t i) {
  return device::PublishedWord::end(device::load_acquire(&nic.cursors[i].ready));
}

/// Counts the bytes that the PE's entries put and get from now on. No queue may wrap around in that
/// time.
class Traffic {
 public:
  explicit Traffic(const abi::NicView& nic) : nic_(nic) {
    for (std::uint32_t i = 0; i < nic.count; ++i) before_.push_back(published(nic, i));
  }
  /// Returns -1 if a queue has wrapped around, or contains an invalid entry.
  [[nodiscard]] long bytes() const {
    long sum = 0;
    for (std::uint32_t i = 0; i < nic_.count; ++i) {
      const std::uint32_t depth = abi::QueueTraits::depth(nic_.traits);
      const std::uint64_t end = published(nic_, i);
      if (end - before_[i] > depth) return -1;
      for (std::uint64_t at = before_[i]; at < end;) {
        // An entry's WQE may continue at the front.
        std::vector<std::uint8_t> wqe;
        for (std::uint64_t k = 0; k < nic::kMaxWqeBytes / nic::kEntryBytes + 1; ++k) {
          const auto* entry = reinterpret_cast<const std::uint8_t*>(nic_.queues[i].entries) +
                              (at + k) % depth * nic::kEntryBytes;
          wqe.insert(wqe.end(), entry, entry + nic::kEntryBytes);
        }
        const nic::DecodeResult read = nic::decode_wqe(wqe.data(), nic::wqe_bytes(wqe.data()));
        if (read.error != nic::WqeError::kNone || read.wqe.entries() == 0) return -1;
        if (read.wqe.kind == nic::WqeKind::kWrite || read.wqe.kind == nic::WqeKind::kRead)
          sum += static_cast<long>(read.wqe.length);
        at += read.wqe.entries();
      }
    }
    return sum;
  }

 private:
  abi::NicView nic_;
  std::vector<std::uint64_t> before_;
};

constexpr std::size_t kWords = 3 << 16;  ///< a multiple of 4 words for each of up to 12 members
constexpr long kBytes = kWords * sizeof(std::uint32_t);
constexpr long kFlags = 2048;  ///< bytes of syncs, at most

std::uint32_t word_of(int pe, std::size_t i) {
  return static_cast<std::uint32_t>(mix(static_cast<std::uint64_t>(pe), i));
}

}  // namespace

SPMD_TEST(long_collectives_cross_the_network_once_for_each_host) {
  const Hosts all(pe);
  if (pe.on_gpu() || !pe.on_network() || !all.are_regular(pe))
    return pe.skip("needs CPU mode, a network, and as many PEs on each of several hosts");
  const char* strict = std::getenv("GSHNIC_STRICT");
  if (strict && *strict != '0') return pe.skip("a strict soft NIC wipes entries (GSHNIC_STRICT)");
  const abi::NicView& nic = gshmemi_ambient()->state->nic;
  const std::size_t n = static_cast<std::size_t>(pe.n());
  SymmetricArray<std::uint32_t> source(kWords), dest(kWords * n);
  Pes by_turns;  // one of each host, and again
  for (int l = 0; l < all.inner; ++l) {
    for (int h = 0; h < all.hosts; ++h) by_turns.push_back(h * all.inner + l);
  }
  const long across = all.hosts - 1, inner = all.inner;
  const int root = pe.n() - 1;
  const bool is_near_root = pe.maps(root);
  const OwnTeam turns = team_of(pe, by_turns, 0);
  for (const gshmem_team_t team : {gshmem_team_t{GSHMEM_TEAM_WORLD}, turns.get()}) {
    const Pes pes = members(team);
    const auto root_number = std::find(pes.begin(), pes.end(), root) - pes.begin();
    const auto fill = [&](std::uint32_t* to) {
      for (std::size_t i = 0; i < kWords; ++i) to[i] = word_of(pe.me(), i);
    };
    const auto measure = [&](const char* name, long promised, const std::function<int()>& call) {
      pe.barrier();
      const Traffic traffic(nic);
      SPMD_EQ(pe, call(), 0);
      const long bytes = traffic.bytes();
      if (bytes >= promised && bytes <= promised + kFlags) return;
      pe.fail(__LINE__, std::string(name) + ": its queues carry " + std::to_string(bytes) +
                            " bytes, not " + std::to_string(promised));
    };
    for (std::uint32_t* const from : {source.data(), dest.data()}) {  // in place, too
      fill(from);
      measure("reduce", 2 * across * (kBytes / static_cast<long>(n)),
              [&] { return gshmem_uint32_sum_reduce(team, dest.data(), from, kWords); });
      std::vector<std::uint32_t> sum(kWords);
      for (std::size_t i = 0; i < kWords; ++i) {
        for (int k = 0; k < pe.n(); ++k) sum[i] += word_of(k, i);
      }
      SPMD_CHECK(pe, std::equal(sum.begin(), sum.end(), dest.data()));
    }
    fill(source.data());
    measure("fcollect", across * kBytes,
            [&] { return gshmem_uint32_fcollect(team, dest.data(), source.data(), kWords); });
    for (std::size_t k = 0; k < n; ++k) {
      std::size_t same = 0;
      while (same < kWords && dest.data()[k * kWords + same] == word_of(pes[k], same)) ++same;
      SPMD_EQ(pe, same, kWords);
    }
    measure("broadcast", is_near_root ? across * kBytes / inner : 0, [&] {
      return gshmem_uint32_broadcast(team, dest.data(), source.data(), kWords,
                                     static_cast<int>(root_number));
    });
    for (std::size_t i = 0; i < kWords; ++i) {
      if (dest.data()[i] == word_of(root, i)) continue;
      SPMD_EQ(pe, i, kWords);
      break;
    }
    pe.barrier();
  }
}
