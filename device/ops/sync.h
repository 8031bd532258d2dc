// Syncs and barriers of all PEs and of teams (OpenSHMEM 1.5, section 9.9). In a flat team every
// member stores the number of the sync that it has entered to a flag at every other member, one
// lane per peer, and waits for the flags of all others. That takes one message latency for any
// number of PEs, and every flag has one writer. (One arrival counter per PE, with remote adds, took
// 2.3 us, these flags 1.8: 4 H200s, block.) Larger teams take log2(n) rounds. In each a member
// signals the member 2^round after it, and waits for the one 2^round before it (dissemination:
// Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization", 1988).
//
// Ordering: one system fence before the flags makes them a release of everything the group has
// done. So sync and barrier cost the same if all PEs are mapped. One acquire follows the polls.
// Between rounds a fence does both: a member that sees a round sees everything before it. PEs that
// are not mapped get their flag as a small put.
#pragma once

#include "../core/coop.h"
#include "../network/inbound.h"
#include "order.h"
#include "../pe/team.h"
#include "../core/wait.h"

namespace gshmem::device {

/// All PEs. The state describes them, so that only the number of a PE takes registers of the
/// caller.
struct World {
  const State& state;
  GSHMEM_FN int n_pes() const { return state.n_pes; }
  GSHMEM_FN int my_pe() const { return state.my_pe; }
  GSHMEM_FN int pe(int i) const { return i; }
  GSHMEM_FN bool is_flat() const { return (state.all_pes & abi::kAllPesFlat) != 0; }
  GSHMEM_FN bool has_network() const { return state.nic.queues != nullptr; }
  GSHMEM_FN std::uint32_t index() const { return GSHMEM_TEAM_WORLD; }
  GSHMEM_FN abi::SyncSlot* slot() const { return state.team_slots; }
};
/// A predefined team of all PEs in order, for a function that has the address of the state. Its
/// members are loaded at once, not one after another (see PostState).
class AllPes {
 public:
  const State& state;
  GSHMEM_FN AllPes(const State& of, std::uint32_t team)
      : state(of),
        team_(team),
        teams_(load_bulk(&of.all_pes)),
        n_pes_(load_bulk(reinterpret_cast<const std::uint32_t*>(&of.n_pes))),
        queues_(load_bulk(reinterpret_cast<const std::uint64_t*>(&of.nic.queues))) {}
  /// Is the team one of all PEs?
  GSHMEM_FN bool good() const { return has_all_pes(teams_, team_); }
  GSHMEM_FN int n_pes() const { return static_cast<int>(n_pes_); }
  GSHMEM_FN int my_pe() const { return state.my_pe; }
  GSHMEM_FN int pe(int i) const { return i; }
  GSHMEM_FN bool is_flat() const { return (teams_ & abi::kAllPesFlat) != 0; }
  GSHMEM_FN bool has_network() const { return queues_ != 0; }
  GSHMEM_FN std::uint32_t index() const { return team_; }
  GSHMEM_FN abi::SyncSlot* slot() const { return state.team_slots + team_; }

 private:
  std::uint32_t team_;
  std::uint32_t teams_;  ///< is State::all_pes
  std::uint32_t n_pes_;
  std::uint64_t queues_;
};
/// The members of a team entry.
struct Members {
  const State& state;
  const abi::Team& team;
  GSHMEM_FN int n_pes() const { return team.n_pes; }
  GSHMEM_FN int my_pe() const { return team.my_pe; }
  GSHMEM_FN int pe(int i) const { return team_pe(team, i); }
  GSHMEM_FN bool is_flat() const { return team.flat != 0; }
  GSHMEM_FN bool has_network() const { return state.nic.queues != nullptr; }
  GSHMEM_FN std::uint32_t index() const { return team_index(team.handle); }
  GSHMEM_FN abi::SyncSlot* slot() const { return state.team_slots + index(); }
};

/// Returns the number of the sync that this PE enters next.
GSHMEM_FN std::uint64_t next_sync(const abi::SyncSlot* slot) {
  return load_relaxed(&slot->epoch) + 1;
}
GSHMEM_FN std::uint32_t* flags_of(abi::SyncSlot* slot, std::uint64_t epoch) {
  return slot->arrived[epoch % 2];
}

/// Stores `number` to `flag` of PE `pe`, which is not mapped, by an initiator.
GSHMEM_OUTLINE void put_flag_addressed(const State& state, const std::uint32_t* flag,
                                       std::uint32_t number, int pe) {
  PostingOf<WqeImage> posting;
  post_by(posting, state, nic::queue_index(state, pe, nic::Rail::kFirst));
  begin_wait(posting, "sync");
  image_short_inline(posting.entries, {posting.offset(flag), posting.queue.remote_key()},
                     {{number, 0, 0}}, sizeof(number));
  keep_in_memory(posting);
  prepare(posting);
  post_by_steps<Sharing::kWarp>(posting);
  post_report(posting);
}
/// Stores `number` to `flag` of PE `pe`, which is not mapped, by any queue.
GSHMEM_FN void put_flag(const State& state, const std::uint32_t* flag, std::uint32_t number,
                        int pe) {
  if (!nic::takes_keys(state)) return put_flag_addressed(state, flag, number, pe);
  PostingOf<OneEntry> posting;
  post_by(posting, state, nic::queue_index(state, pe, nic::Rail::kFirst));
  begin_wait(posting, "sync");
  posting.entries = inline_entry(posting.offset(flag), {{number, 0, 0}}, sizeof(number));
  keep_in_memory(posting);
  post_by_steps<Sharing::kWarp>(posting);
  post_report(posting);
}
/// Sends the number of the sync that this PE has entered to member `i`, which is not mapped and has
/// a flag for it. Flag and value are computed here, to save registers of the caller.
template <class Team>
GSHMEM_OUTLINE void signal_by_network(Team team, int i) {
  abi::SyncSlot* const slot = team.slot();
  const std::uint64_t epoch = next_sync(slot);
  put_flag(team.state, flags_of(slot, epoch) + team.my_pe(), static_cast<std::uint32_t>(epoch),
           team.pe(i));
}

/// Returns false if this PE is stopped: then it must not signal that it has entered, because its
/// puts may be missing.
GSHMEM_OUTLINE bool may_sync(const State& state) {
  if (load_acquire(&state.control->stop) == 0) return true;
  stop_here(state);
  return false;
}

/// Has the member that writes `flag` entered sync `number`, or a later one?
GSHMEM_FN bool has_signaled(const std::uint32_t* flag, std::uint32_t number) {
  return static_cast<std::int32_t>(load_poll(flag) - number) >= 0;
}

/// A sync in rounds, in memory to save registers of the functions that it calls.
struct Rounds {
  const State* state;
  const abi::Team* team;
  const char* call;
  abi::SyncSlot* slot;
  const std::uint32_t* flag;  ///< flag of the current round
  std::uint64_t epoch, started;
  int distance, pe;
};
GSHMEM_OUTLINE void signal_in_round(Rounds& rounds) {
  const abi::Team& team = *rounds.team;
  const int to = team.my_pe + rounds.distance;
  rounds.pe = team_pe(team, to < team.n_pes ? to : to - team.n_pes);
  keep_in_memory(rounds);
  if (is_mapped(*rounds.state, rounds.pe)) {
    keep_in_memory(rounds);
    store_flag(const_cast<std::uint32_t*>(peer_address(*rounds.state, rounds.flag, rounds.pe)),
               static_cast<std::uint32_t>(rounds.epoch));
  } else {
    keep_in_memory(rounds);
    put_flag(*rounds.state, rounds.flag, static_cast<std::uint32_t>(rounds.epoch), rounds.pe);
  }
}
/// Does what spin_until does, with only `rounds` in registers.
GSHMEM_OUTLINE bool look_at_round(Rounds& rounds) {
  const abi::Team& team = *rounds.team;
  const int from = team.my_pe - rounds.distance;
  const int pe = team_pe(team, from >= 0 ? from : from + team.n_pes);
  rounds.started = wait_check(*rounds.state, rounds.call, rounds.started, pe);
  return rounds.started != kWaitOver;
}
GSHMEM_FN bool await_in_round(Rounds& rounds) {
  rounds.started = 0;
  for (unsigned polls = 1; !has_signaled(rounds.flag, static_cast<std::uint32_t>(rounds.epoch));
       ++polls) {
    if (look_is_due(polls) && !look_at_round(rounds)) return false;
    pause(polls);
    keep_in_memory(rounds);
  }
  return true;
}
GSHMEM_FN bool next_round(Rounds& rounds) {
  if (rounds.distance >= rounds.team->n_pes) return false;
  signal_in_round(rounds);
  return true;
}
/// Executes all rounds of a sync of the team with entry `index`, on one thread.
GSHMEM_FN bool sync_in_rounds(const State& state, const char* call, std::uint32_t index) {
  Rounds rounds{
      &state, team_entries(state) + index, call, state.team_slots + index, nullptr, 0, 0, 1, 0};
  rounds.epoch = next_sync(rounds.slot);
  rounds.flag = flags_of(rounds.slot, rounds.epoch);
  fence_release_system();
  keep_in_memory(rounds);
  if (rounds.state->nic.queues && !may_sync(*rounds.state)) return false;
  keep_in_memory(rounds);
  GSHMEM_NO_UNROLL
  while (next_round(rounds)) {
    if (!await_in_round(rounds)) return false;
    push_inbound(*rounds.state);
    keep_in_memory(rounds);
    fence_system();  // covers what that member has received, too
    rounds.distance *= 2;
    ++rounds.flag;
    keep_in_memory(rounds);
  }
  store_relaxed(&rounds.slot->epoch, rounds.epoch);
  return true;
}
template <class Coop>
GSHMEM_OUTLINE bool group_sync_in_rounds(Coop coop, const State& state, const char* call,
                                         std::uint32_t index) {
  coop.sync();
  return coop.thread_rank() != 0 || sync_in_rounds(state, call, index);
}

/// The default of sync_team: a sync checks nothing about a member that is late.
struct AnyMember {
  GSHMEM_FN bool operator()(int) const { return true; }
};

/// Synchronizes the team. Stores of the calling group before the sync, to this PE's memory and to
/// memory of mapped PEs, are visible to every member after it. Returns false if the thread's wait
/// had to end early. The group must synchronize after it. Threads: one group per PE and team at a
/// time. While a wait for member i is long, `good(i)` decides whether to continue; it is called in
/// flat teams only.
template <class Coop, class Team, class Good = AnyMember>
GSHMEM_FN bool sync_team(Coop coop, const Team& team, const char* call, const Good& good = {}) {
  const State& state = team.state;
  if (!team.is_flat()) return group_sync_in_rounds(coop, state, call, team.index());
  abi::SyncSlot* const slot = team.slot();
  const int rank = coop.thread_rank(), width = coop.size();
  std::uint64_t epoch = 0;
  bool arrived = true;
  coop.sync();
  if (rank < team.n_pes()) {  // only threads that have a peer to signal
    epoch = next_sync(slot);  // loaded while the fence is pending
    fence_release_system();
    if (team.has_network()) {
      arrived = may_sync(state);
      GSHMEM_NO_UNROLL
      for (int i = rank; arrived && i < team.n_pes(); i += width) {
        if (i != team.my_pe() && !is_mapped(state, team.pe(i))) signal_by_network(team, i);
      }
      epoch = next_sync(slot);  // loaded again, so that no register holds it over the calls
    }
    const std::uint32_t number = static_cast<std::uint32_t>(epoch);
    std::uint32_t* flags = flags_of(slot, epoch);
    GSHMEM_NO_UNROLL
    for (int i = rank; arrived && i < team.n_pes(); i += width) {
      const int pe = team.pe(i);
      if (i != team.my_pe() && is_mapped(state, pe)) {
        store_flag(peer_address(state, flags + team.my_pe(), pe), number);
      }
    }
    GSHMEM_NO_UNROLL
    for (int i = rank; arrived && i < team.n_pes(); i += width) {
      if (i == team.my_pe()) continue;
      arrived = spin_until(
          state, call, [&] { return has_signaled(flags + i, number); }, team.pe(i),
          [&] { return good(i); });
    }
    fence_acquire_system();
  }
  coop.sync();
  // All threads have read the old value. A wait that had to end early does not store it: the PE is
  // stopped anyway.
  if (arrived && rank == 0) store_relaxed(&slot->epoch, epoch);
  // This is for all flags: no thread reads data before them until the group has synchronized.
  if (rank == 0) push_inbound(state);
  return arrived;
}

template <class Coop>
GSHMEM_FN void sync_all(Coop coop, const State& state, const char* call) {
  (void)sync_team(coop, World{state}, call);
  coop.sync();  // a thread that returns may let another group in, which reads the new value
}

/// A barrier is a quiet followed by a sync. For mapped PEs the fence of sync_all is the quiet.
template <class Coop>
GSHMEM_FN void barrier_all(Coop coop, const State& state, const char* call) {
  if (state.nic.queues) {
    coop.sync();
    nic::quiet(coop, state, call);
  }
  sync_all(coop, state, call);
}

/// For the team with entry `index`. Returns 0, or the code of the PE's first fault, on all threads
/// of the group.
template <class Coop, class Good = AnyMember>
GSHMEM_OUTLINE int sync_members(Coop coop, const State& state, const char* call,
                                std::uint32_t index, const Good& good = {}) {
  const AllPes all(state, index);
  const bool arrived =
      all.good()  // no entry is loaded after the fence
          ? sync_team(coop, all, call, good)
          : sync_team(coop, Members{state, team_entries(state)[index]}, call, good);
  return coop.any(!arrived) ? fault_code(state) : GSHMEMX_SUCCESS;
}
/// For team `handle`, which may be invalid.
template <class Coop>
GSHMEM_FN int team_sync(Coop coop, const State& state, const char* call, int handle) {
  const std::uint32_t number = static_cast<std::uint32_t>(handle);
  if (!has_all_pes(state.all_pes, number) && !find_team(state, call, "team", handle))
    return GSHMEMX_ERROR_INVALID_VALUE;
  return sync_members(coop, state, call, team_index(number));
}
template <class Coop>
GSHMEM_FN int team_barrier(Coop coop, const State& state, const char* call, int handle) {
  if (state.nic.queues) {
    coop.sync();
    nic::quiet(coop, state, call);
  }
  return team_sync(coop, state, call, handle);
}

}  // namespace gshmem::device
