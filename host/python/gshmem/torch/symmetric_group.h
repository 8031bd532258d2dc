// Process groups of torch: how their members exchange data, and their teams. Included by
// symmetric_memory.h. Invariant: an object of a process group has one Members, whatever other
// groups have its name. A group's members make its calls in the same order.
#pragma once

#include "symmetric_pool.h"

#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

namespace gshmem_torch {

/// A question to Python. Without a group it makes this process a PE, if it is none. Otherwise
/// `answer` gets a text that distinguishes the group from others of its name: "world", or a digest
/// of its ranks. If it returns false, `answer` has the reason.
using Ask = bool (*)(const char* group_name, char* answer, std::size_t bytes);

inline Ask& python() {
  static Ask ask = nullptr;
  return ask;
}

inline std::string ask_python(const char* group_name) {
  std::array<char, 512> answer{};
  TORCH_CHECK(python()(group_name, answer.data(), answer.size()), "GSHMEM: ", answer.data());
  return answer.data();
}

struct Members {
  c10::weak_intrusive_ptr<c10d::ProcessGroup> group;  // keeps others from getting its address
  std::string name, which, prefix;
  int rank, size;
  std::uint64_t shares = 0;  // calls of share()
  gshmem_team_t team = GSHMEM_TEAM_INVALID;
  gshmemx_team_uniqueid_t team_id = 0;
};

/// Sends `mine` to all members by the store of the process group, and returns theirs by rank.
template <class T>
std::vector<T> share(Members& members, const T& mine) {
  const auto group = members.group.lock();
  TORCH_CHECK(group, "group ", members.name, " was destroyed");
  const auto store = group->getStore();
  const std::string prefix = members.prefix + std::to_string(members.shares++) + "/";
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(&mine);
  store->set(prefix + std::to_string(members.rank),
             std::vector<std::uint8_t>(bytes, bytes + sizeof(T)));
  std::vector<T> all(static_cast<std::size_t>(members.size));
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const auto got = store->get(prefix + std::to_string(rank));
    TORCH_CHECK(got.size() == sizeof(T), "group ", members.name, ": rank ", rank,
                " is in another call");
    std::memcpy(&all[rank], got.data(), sizeof(T));
  }
  return all;
}

/// All process groups. No lock is held while a call waits for other ranks, or for Python.
class Groups {
 public:
  static Groups& get() {
    static Groups& groups = *new Groups;
    return groups;
  }

  std::shared_ptr<Members> of(const std::string& name) {
    const auto group = c10d::resolve_process_group(name);
    {
      const std::lock_guard lock(mutex_);
      const auto known = members_.find(group.get());
      if (known != members_.end()) return known->second;
    }
    std::string which = ask_python(name.c_str());
    const std::lock_guard lock(mutex_);
    drop_ended();
    std::string prefix = "gshmem/" + name + "/" + which + "/";
    prefix += std::to_string(made_[prefix]++) + "/";  // the store may have words of an earlier one
    return members_[group.get()] =
               std::make_shared<Members>(Members{.group = c10::weak_intrusive_ptr(group),
                                                 .name = name,
                                                 .which = std::move(which),
                                                 .prefix = std::move(prefix),
                                                 .rank = group->getRank(),
                                                 .size = group->getSize()});
  }

  /// Returns the team of the group. The first call is collective over the group.
  gshmem_team_t team_of(Members& members, c10::Device device) {
    if (members.which == "world") return GSHMEM_TEAM_WORLD;
    if (members.team == GSHMEM_TEAM_INVALID) make_team(members, device);
    return members.team;
  }

  /// Called when the job has ended.
  void reset() {
    const std::lock_guard lock(mutex_);
    members_.clear();
    spare_.clear();
  }

 private:
  using Teams = std::map<gshmemx_team_uniqueid_t, gshmem_team_t>;

  /// Drops process groups that have ended. Torch destroys a group at different times on the ranks,
  /// so the team stays for the next group of these ranks.
  void drop_ended() {
    for (auto each = members_.begin(); each != members_.end();) {
      const Members& members = *each->second;
      if (!members.group.expired()) {
        ++each;
        continue;
      }
      if (members.team != GSHMEM_TEAM_INVALID)
        spare_[members.which].emplace(members.team_id, members.team);
      each = members_.erase(each);
    }
  }

  /// Takes a team that is unused on all members, or makes one.
  void make_team(Members& members, c10::Device device) {
    struct Offer {
      gshmemx_team_uniqueid_t fresh;
      std::array<gshmemx_team_uniqueid_t, 8> spare;
    };
    Teams spare;
    {
      const std::lock_guard lock(mutex_);
      drop_ended();
      std::swap(spare, spare_[members.which]);  // another thread may look for one
    }
    if (!spare.empty()) synchronize(device);  // streams may be in their collectives still
    Offer mine{};
    if (members.rank == 0) gshmemx_team_get_uniqueid(&mine.fresh);
    std::size_t n = 0;
    for (const auto& team : spare)
      if (n < mine.spare.size()) mine.spare[n++] = team.first;
    const auto offers = share(members, mine);
    for (const auto id : offers[0].spare) {
      const bool all = id != 0 && std::all_of(offers.begin(), offers.end(), [&](const Offer& each) {
                         return std::count(each.spare.begin(), each.spare.end(), id) > 0;
                       });
      if (!all) continue;
      members.team_id = id;
      members.team = spare.extract(id).mapped();
      break;
    }
    {
      const std::lock_guard lock(mutex_);
      spare_[members.which].merge(spare);
    }
    if (members.team != GSHMEM_TEAM_INVALID) return;
    members.team_id = offers[0].fresh;
    gshmem_team_config_t config = GSHMEM_TEAM_CONFIG_INITIALIZER;
    config.uniqueid = members.team_id;
    gshmemx_team_init(&members.team, &config, GSHMEMX_TEAM_UNIQUEID, members.size, members.rank);
    check_fault();
    TORCH_CHECK(members.team != GSHMEM_TEAM_INVALID, "no team for group ", members.name,
                ": GSHMEM_TEAMS is the most there are");
  }

  std::mutex mutex_;
  std::map<c10d::ProcessGroup*, std::shared_ptr<Members>> members_;
  std::map<std::string, std::uint64_t> made_;  // how many of a name and ranks
  std::map<std::string, Teams> spare_;         // by Members::which
};

}  // namespace gshmem_torch
