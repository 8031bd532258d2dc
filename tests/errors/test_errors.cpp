// Tests each error on the network path: quiet_status and last_fault report which, where and why; no
// PE hangs; what quiet_status reported as complete is at the target, and nothing after the error
// is.
#include "tests/errors/contract.h"

#include <catch2/catch.hpp>

#include <sched.h>

#include <algorithm>
#include <csignal>
#include <stdexcept>

using namespace gshmem;
using namespace gshmem::errors;

TEST_CASE("remote_access_error") {
  run(legs({"soft", "ofi"}), {.provoke = put_behind_heap},
      {kNicError, 0x13, {"put (WRITE) to PE 2 failed: remote access error", "entry", "queue 0x"}});
}

TEST_CASE("message_has_both_ends_and_the_vendors_syndrome") {
  const auto provoke = [](const Actor& actor) {
    inject("syndrome=0x13:vendor=0x88");
    actor.put(actor.first);
  };
  run(legs({"soft"}), {.provoke = provoke},
      {kNicError,
       0x13,
       {"vendor 0x88", "; mlx5_0 port 1 (LID ", " to mlx5_0 port 1 (LID ", ") of PE 2"}});
}

TEST_CASE("bad_remote_key") {
  const auto provoke = [](const Actor& actor) {
    spoil_key(Key::kRemote);
    actor.put(actor.first);
  };
  run(legs({"soft", "ofi"}), {.provoke = provoke},
      {kNicError, 0x13, {"put (WRITE) to PE 2 failed: remote access error"}});
}

TEST_CASE("remote_key_that_is_bad_on_the_wire") {
  const auto provoke = [](const Actor& actor) {
    inject("times=1:key=remote");
    actor.put(actor.first);
  };
  run(legs({"soft"}), {.provoke = provoke}, {kNicError, 0x13, {"remote access error"}});
}

/// The soft NIC leaves entries as they are, as a card does.
const spmd::Environment kDynamic{{"GSHMEM_CONNECT", "dc"}, {"GSHNIC_STRICT", "0"}};

TEST_CASE("error_of_an_initiator_names_the_pe_of_the_entry") {
  run(legs({"soft"}), {.provoke = put_behind_heap, .environment = kDynamic},
      {kNicError,
       0x13,
       {"put (WRITE) to PE 2 failed: remote access error", " to mlx5_0 port 1 (LID ",
        ") of PE 2"}});
}

TEST_CASE("wrong_key_of_dynamic_connections_exceeds_retries") {
  const auto provoke = [](const Actor& actor) {
    spoil_vector();
    actor.put(actor.first);
  };
  run(legs({"soft"}), {.provoke = provoke, .environment = kDynamic},
      {kNicError, 0x15, {"put (WRITE) to PE 2 failed: retries exceeded"}});
}

TEST_CASE("local_protection_error") {
  const auto provoke = [](const Actor& actor) {
    spoil_key(Key::kLocal);
    actor.put(actor.first);
  };
  run(legs({"soft", "ofi"}), {.provoke = provoke},
      {kNicError, 0x04, {"put (WRITE) to PE 2 failed: local protection error"}});
}

TEST_CASE("retries_exceeded_when_the_network_loses_everything") {
  const auto provoke = [](const Actor& actor) {
    inject("drop");
    actor.put(actor.first);
  };
  run(legs({"soft"}), {.provoke = provoke},
      {kNicError, 0x15, {"put (WRITE) to PE 2 failed: retries exceeded"}});
}

TEST_CASE("retries_exceeded_when_the_target_does_not_answer") {
  const auto provoke = [](const Actor& actor) {
    const StoppedProcess target(actor.shared.pids[kTarget].load());
    actor.put(actor.first);
    await_error_completion();  // the executor reports it to the PE a moment later, too
  };
  for (const Leg& leg : process_legs({"ofi"})) {
    const Play play{provoke, {{"GSHMEM_TIMEOUT", "2"}}, Wait::kBarrier, true};
    const Shared& seen = perform(leg, play, base_seed());
    check_actor(seen, {kNicError, 0x15, {"put (WRITE) to PE 2 failed: retries exceeded"}});
    CHECK(seen.missing == 0);  // pending data may arrive later
    check_all_returned(seen);
  }
}

TEST_CASE("target_is_killed") {
  const auto provoke = [](const Actor& actor) {
    kill(actor.shared.pids[kTarget].load(), SIGKILL);
    actor.put(actor.first);
  };
  const std::vector<int> codes{GSHMEMX_ERROR_NIC, GSHMEMX_ERROR_PEER_FAILED};
  for (const Leg& leg : process_legs({"soft", "ofi"})) {
    INFO(leg.name());
    const Play play{.provoke = provoke, .wait_behind = true, .target_survives = false};
    const Shared& seen = perform(leg, play, base_seed());
    CHECK(is_in(seen.status, codes));
    CHECK(seen.status_again == seen.status);
    CHECK(seen.claimed == seen.good_rounds);
    CHECK(seen.fault.pe == kTarget);
    const gshmemx_fault_t& other = seen.accounts[kBystander].fault;
    INFO("actor: " << seen.fault.message << "; bystander: " << other.message);
    // The error of its own end of the connection, or the actor's report.
    CHECK(is_in(other.code, codes));
    CHECK((other.pe == kTarget || other.pe == kActor));
    for (const int pe : {kActor, kBystander}) CHECK(seen.accounts[pe].finalized);
  }
}

/// Puts by a context whose queue to the target is unused.
void put_by_new_queue(const Actor& actor) {
  gshmem_ctx_t context = GSHMEM_CTX_INVALID;
  if (gshmem_ctx_create(0, &context) != 0) return;
  gshmem_ctx_putmem_nbi(context, actor.area.dest[actor.first], actor.area.source[actor.first],
                        kBytes, kTarget);
}
const spmd::Environment kOnFirstUse{{"GSHMEM_CONNECT", "use"}, {"GSHMEM_CONTEXTS", "1"}};

TEST_CASE("target_is_killed_before_the_first_use_of_a_queue") {
  const auto provoke = [](const Actor& actor) {
    kill(actor.shared.pids[kTarget].load(), SIGKILL);
    put_by_new_queue(actor);
  };
  for (const Leg& leg : process_legs({"soft"})) {
    INFO(leg.name());
    const Play play{.provoke = provoke,
                    .environment = kOnFirstUse,
                    .wait_behind = true,
                    .target_survives = false};
    const Shared& seen = perform(leg, play, base_seed());
    INFO(seen.fault.message);
    CHECK(seen.status == GSHMEMX_ERROR_PEER_FAILED);
    CHECK(seen.fault.pe == kTarget);
    for (const int pe : {kActor, kBystander}) CHECK(seen.accounts[pe].finalized);
  }
}

TEST_CASE("target_does_not_answer_on_the_first_use_of_a_queue") {
  const auto provoke = [](const Actor& actor) {
    const StoppedProcess target(actor.shared.pids[kTarget].load());
    put_by_new_queue(actor);
  };
  for (const Leg& leg : process_legs({"soft"})) {
    INFO(leg.name());
    spmd::Environment environment = kOnFirstUse;
    environment["GSHMEM_TIMEOUT"] = "2";
    const Play play{provoke, environment, Wait::kBarrier, true};
    const Shared& seen = perform(leg, play, base_seed());
    INFO(seen.fault.message);
    CHECK(seen.status == GSHMEMX_ERROR_TIMEOUT);
    CHECK(seen.fault.pe == kTarget);
    CHECK(std::string(seen.fault.message).find("network (connection)") != std::string::npos);
    check_all_returned(seen);  // the other end is half connected, or goes on alone
  }
}

TEST_CASE("entries_after_an_error_are_flushed") {
  const auto provoke = [](const Actor& actor) {
    put_behind_heap(actor);
    for (int i = 0; i < 20; ++i) actor.put(actor.first + i);
  };
  // The NIC's one completion entry shows the newest: the first error, or a flush after it.
  for (const Leg& leg : legs({"soft", "ofi"})) {
    const unsigned syndrome = leg.nic == "soft" ? kNone : 0x13;
    const char* part = leg.nic == "soft" ? "put (WRITE) to PE 2 failed: " : "remote access error";
    run({leg}, {.provoke = provoke}, {kNicError, syndrome, {part}});
  }
}

TEST_CASE("burst_that_waits_for_room_after_an_error") {
  const auto provoke = [](const Actor& actor) {
    spoil_key(Key::kRemote);
    put_burst(actor, 300);
  };
  run(legs({"soft", "ofi"}), {.provoke = provoke},
      {kNicError, kNone, {"put (WRITE) to PE 2 failed: "}});
}

TEST_CASE("post_by_the_context_of_an_open_burst") {
  Leg leg = legs({"soft", "ofi"}).front();
  leg.mapping = Mapping::kNone;
  const auto misuse = [](const Runtime&) {
    auto* words = static_cast<std::uint64_t*>(gshmem_calloc(2, 8));
    gshmem_ctx_t ctx = GSHMEM_CTX_INVALID;
    if (!words || gshmem_ctx_create(GSHMEM_CTX_PRIVATE, &ctx) != 0)
      throw std::runtime_error("none");
    Burst burst(context().on(ctx), Thread{}, 1);
    burst.p(words, 1);
    gshmem_ctx_uint64_p(ctx, words + 1, 1, 1);
  };
  for (const gshmemx_fault_t& fault :
       spmd::faults_after(2, environment_of(leg, {{"GSHMEM_CONTEXTS", "1"}}), misuse)) {
    INFO(fault.message);
    CHECK(fault.code == GSHMEMX_ERROR_INVALID_VALUE);
    for (const char* part : {"Burst:", "argument context", "1 entries, not 0"})
      CHECK(spmd::contains(fault.message, part));
  }
}

TEST_CASE("queue_in_the_error_state_flushes_what_it_has") {
  const auto provoke = [](const Actor& actor) {
    inject("times=1:queue=error");
    for (int i = 0; i < 4; ++i) actor.put(actor.first + i);
  };
  run(legs({"soft"}), {.provoke = provoke},
      {kNicError, 0x05, {"put (WRITE) to PE 2 failed: flushed"}});
}

TEST_CASE("queue_in_reset_times_out") {
  const auto provoke = [](const Actor& actor) {
    inject("times=1:queue=reset");
    actor.put(actor.first);
  };
  for (const Leg& leg : legs({"soft"})) {
    INFO(leg.name());
    const Play play{provoke, {{"GSHMEM_TIMEOUT", "2"}}, Wait::kBarrier, true};
    const Shared& seen = perform(leg, play, base_seed());
    check_actor(seen, {{GSHMEMX_ERROR_TIMEOUT},
                       kNone,
                       {"gshmemx_quiet_status: waited", "for PE 2", "GSHMEM_TIMEOUT=2 "}});
    check_memory(seen);
    check_all_returned(seen);
  }
}

TEST_CASE("other_end_in_the_error_state_exceeds_retries") {
  const auto provoke = [](const Actor& actor) {
    inject("times=1:peer=error");
    actor.put(actor.first);
  };
  run(legs({"soft"}), {.provoke = provoke},
      {kNicError, 0x15, {"put (WRITE) to PE 2 failed: retries exceeded"}});
}

TEST_CASE("completion_queue_overruns") {
  const auto provoke = [](const Actor& actor) {
    inject("times=1:cq=overrun");
    actor.put(actor.first);
  };
  for (const Leg& leg : legs({"soft"})) {
    INFO(leg.name());
    const Play play{.provoke = provoke};
    const Shared& seen = perform(leg, play, base_seed());
    check_actor(seen, {kNicError, kNone, {"to PE 2", "completion queue broke"}, false});
    CHECK(seen.fault.pe == kTarget);
    check_memory(seen);
    check_told(seen);
    check_all_returned(seen);
  }
}

TEST_CASE("port_of_the_second_rail_goes_down") {
  const auto provoke = [](const Actor& actor) {
    inject("times=1:port=down", 1);
    actor.put_by_block(actor.first, 1);
  };
  for (const Leg& leg : process_legs({"soft"})) {
    const Play play{.provoke = provoke,
                    .environment = {{"GSHNIC_DEVICES", "2"}, {"GSHMEM_NICS_PER_PE", "2"}},
                    .wait_behind = true};
    const Shared& seen = perform(leg, play, base_seed());
    // The error of the put, or of the READ that quiet posts after it and whose flush overwrites the
    // first.
    check_actor(seen, {kNicError, kNone, {"mlx5_1 port 1 is down"}, false});
    CHECK(seen.missing == 0);
    CHECK(seen.leaked <= 1);  // the put after the error used the first rail
    check_told(seen);
    check_all_returned(seen);
  }
}

TEST_CASE("device_is_removed") {
  const auto provoke = [](const Actor& actor) {
    inject("times=1:device=gone");
    actor.put(actor.first);
  };
  for (const Leg& leg : process_legs({"soft"})) {
    const Play play{.provoke = provoke, .wait_behind = true};
    const Shared& seen = perform(leg, play, base_seed());
    check_actor(seen, {kNicError, kNone, {"mlx5_0", "see dmesg"}, false});
    check_memory(seen);
    check_told(seen);
    check_all_returned(seen);
  }
}

TEST_CASE("port_goes_down") {
  const auto provoke = [](const Actor& actor) {
    inject("times=1:port=down");
    actor.put(actor.first);
  };
  for (const Leg& leg : process_legs({"soft"})) {
    const Play play{.provoke = provoke, .wait_behind = true};
    const Shared& seen = perform(leg, play, base_seed());
    check_actor(seen, {kNicError, 0x15, {"retries exceeded", "mlx5_0 port 1 is down"}});
    check_memory(seen);
    check_told(seen);
    check_all_returned(seen);
  }
}
