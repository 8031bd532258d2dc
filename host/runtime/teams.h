// The teams of a PE: which teams exist, the data that device code finds by a handle
// (device/pe/team.h), and how host threads of a team's members agree. A team is an entry of the
// table, and the slot with the same number in the heaps of its members. The slots are after the
// library's data at the front of each heap, or at its end. Invariant: an entry is used by at most
// one team, and all members of a team use the same one.
#pragma once

#include <gshmem/abi/state.h>
#include <gshmem/device/core/call_record.h>
#include <gshmem/gshmem.h>

#include "host/runtime/context_table.h"

#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace gshmem {

/// abi::Team::inner and inner_stride of a team, computed from the domains of its members in their
/// order: the members of one domain map each other. A team has two levels if two domains or more
/// have two members or more, all the same number, and the members of a domain are consecutive or
/// alternate regularly. Pure: members that know the same domains get the same result.
struct TeamLevels {
  std::int32_t inner = 0, stride = 0;
};
[[nodiscard]] TeamLevels levels_of(const std::vector<std::int32_t>& domains);

class Teams {
 public:
  static constexpr int kPredefined = GSHMEMX_TEAM_SAME_MYPE_NODE + 1;

  /// Returns the bytes that `teams` teams in addition to the predefined ones need at the end of
  /// each heap: the packets of the first entries, then the slots, unless they are at the front.
  [[nodiscard]] static std::uint64_t bytes_at_end(int teams);
  /// Returns how many of these bytes other PEs access by the network: all if the slots are among
  /// them, and 0 if only packets are. In the second case a NIC refuses accesses beyond the
  /// program's heap.
  [[nodiscard]] static std::uint64_t network_bytes_at_end(int teams);

  /// Members of the predefined teams, by PE number; the team of all PEs needs no list.
  struct Predefined {
    std::vector<int> shared, node, same_index;
  };
  /// Access to memory of kernels; all empty in CPU mode.
  struct Memory {
    ContextTable::DeviceMemory tables;
    std::function<void(void* memory, std::size_t bytes)> zero;
    device::HostOps* ops = nullptr;
  };
  /// The sizes, by abi::Limit, up to which an algorithm is used. The limit kTwoLevels is the size
  /// from which it is used. They are the same on all PEs.
  using Limits = std::array<std::uint64_t, abi::kLimits>;
  /// Enters the tables into the PE's state, whose heap, paths and numbers are set. `teams` teams in
  /// addition to the predefined ones may exist at a time. `domains` has by PE the number of its
  /// domain, the same on all PEs; empty if no team has two levels. The slots must be zero.
  Teams(int teams, const Limits& limits, const Predefined& predefined,
        std::vector<std::int32_t> domains, Memory memory, abi::DeviceState& state);
  Teams(const Teams&) = delete;

  /// Errors: GSHMEMX_ERROR_INVALID_VALUE for a handle that is not a team of this PE.
  [[nodiscard]] const abi::Team& require(const char* call, const char* argument,
                                         gshmem_team_t team) const;
  [[nodiscard]] gshmem_team_config_t config(const abi::Team& team) const;
  [[nodiscard]] const Limits& limits() const { return limits_; }
  /// Returns the entry of all PEs for these limits.
  [[nodiscard]] abi::Team all_pes(const Limits& limits) const;
  /// Returns the maximum number of members of a flat team, if they map each other as those of
  /// `team` do.
  [[nodiscard]] static int most_flat(const abi::Team& team) {
    return team.mapped != 0 ? abi::kFlatPes : abi::kFlatPesByNetwork;
  }

  // Collective over the host threads of a team's members. Errors: that of the fault that ends a
  // wait; GSHMEMX_ERROR_SYMMETRY, which names what differs between members. Threads: one per PE and
  // team.
  void sync(const char* call, gshmem_team_t team);
  /// An argument of a call that must be the same on all members.
  struct Same {
    const char* argument;
    int value;
  };
  static constexpr std::size_t kMostSame = 3;
  /// Checks that the members make the same call with the same arguments, and that none of them has
  /// an error of its own (`mine`). A member with an error throws it; the others throw an error that
  /// says so.
  void agree_on_call(const char* call, const abi::Team& team, const std::vector<Same>& same,
                     const std::string& mine);
  /// Members of a parent team, by their numbers there: start + i * stride.
  struct Part {
    int start, stride, size;
    gshmem_team_config_t config;
  };
  /// Returns the new teams of which this PE is a member, and GSHMEM_TEAM_INVALID for the others.
  /// All members of `parent` pass the same number of parts; parts with the same index have no PE in
  /// common. Errors: GSHMEMX_ERROR_OUT_OF_MEMORY on all members when one of them has no free entry;
  /// then no team is created.
  [[nodiscard]] std::vector<gshmem_team_t> split(const char* call, const abi::Team& parent,
                                                 const std::vector<Part>& parts);
  /// Waits for all members of a team that is being created. All receive the words of all, combined
  /// by `and`, and their PEs by number.
  struct Exchanged {
    std::vector<std::int32_t> pes;
    std::vector<std::uint32_t> words;
  };
  using Exchange = std::function<Exchanged(const std::vector<std::uint32_t>& words)>;
  /// Creates a team of PEs that synchronize by an id, with this one as member `my_pe`. Errors:
  /// those of split and of `exchange`.
  [[nodiscard]] gshmem_team_t join(const char* call, int my_pe, const gshmem_team_config_t& config,
                                   const Exchange& exchange);
  /// Errors: GSHMEMX_ERROR_INVALID_VALUE for a predefined team.
  void destroy(const char* call, const abi::Team& team);

 private:
  using Words = std::array<std::uint32_t, abi::kAgreeWords>;
  [[nodiscard]] std::size_t index_of(const abi::Team& team) const {
    return static_cast<std::size_t>(&team - entries_.data());
  }
  /// Returns the first `count` words of all members, combined by `and`.
  [[nodiscard]] Words agree(const char* call, const abi::Team& team, Words words, int count);
  void send(const std::uint64_t* to, std::uint32_t number, const Words& words, int count, int pe);
  /// Errors: a fault has stopped this PE.
  void require_running(const char* call) const;
  [[nodiscard]] std::uint32_t receive(const char* call, const std::uint64_t* from,
                                      std::uint32_t number, int pe) const;
  /// Does what agree does, among the PEs that search for an entry.
  using Combine = std::function<Words(const Words& words, int count)>;
  [[nodiscard]] std::size_t take(const char* call, const Combine& combine, std::size_t spread,
                                 bool member);
  [[nodiscard]] std::size_t propose(const char* call, const Combine& combine, std::size_t spread,
                                    bool member);
  [[nodiscard]] bool claim(std::size_t index);
  void clear(void* memory, std::uint64_t bytes);
  void release(std::size_t index);
  /// The PEs of an entry's members, for host threads and for kernels; empty: by number. The
  /// kernels' memory, for n_pes members, stays with the entry.
  struct List {
    std::vector<std::int32_t> host;
    std::int32_t* device = nullptr;
  };
  [[nodiscard]] gshmem_team_t open(std::size_t index, abi::Team entry,
                                   std::vector<std::int32_t> pes,
                                   const gshmem_team_config_t& config);
  void add_predefined(gshmem_team_t team, const std::vector<int>& pes);
  void write(std::size_t index, const abi::Team& entry, std::vector<std::int32_t> pes);
  [[nodiscard]] bool is_mapped(const abi::Team& team) const;
  static void set_limits(const Limits& limits, std::size_t index, abi::Team& team);
  void set_levels(const Limits& limits, abi::Team& team) const;

  Limits limits_;
  std::vector<std::int32_t> domains_;
  Memory memory_;
  abi::DeviceState& state_;
  std::vector<abi::Team> entries_;  ///< for host threads
  abi::Team* device_entries_;
  std::mutex mutex_;
  std::vector<List> lists_;  ///< by entry
  /// Number of calls of agree, by entry, since its team was created.
  std::vector<std::uint32_t> calls_;
  std::vector<std::uint32_t> generations_;
  std::vector<gshmem_team_config_t> configs_;
  std::vector<bool> taken_;
};

}  // namespace gshmem
