// Tests what GSHMEM_FAULT does after an error on the network path, and that finalize returns.
#include "tests/errors/scene.h"

#include <catch2/catch.hpp>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

using namespace gshmem;
using namespace gshmem::errors;

namespace {

using spmd::contains;
using spmd::Outcome;

/// Runs `body(area)` on every PE of a job of processes under `policy`, then prints "finalized".
std::vector<Outcome> in_job(const Leg& leg, const std::string& policy,
                            const std::function<void(Area&)>& body) {
  return spmd::in_children(
      kPes, environment_of(leg, {{"GSHMEM_FAULT", policy}, {"GSHMEM_CONTEXTS", "1"}}), [&](int) {
        {
          const Runtime runtime;
          auto* area = static_cast<Area*>(gshmem_calloc(1, sizeof(Area)));
          gshmem_barrier_all();
          body(*area);
        }
        std::puts("finalized");
      });
}

/// Posts a put whose error only this PE's own NIC reports.
void post_bad_put(Area& area, gshmem_ctx_t ctx = GSHMEM_CTX_DEFAULT) {
  spoil_key(Key::kLocal, ctx);
  gshmem_ctx_putmem_nbi(ctx, area.dest[0], area.source[0], kBytes, kTarget);
}

std::string text_of(const std::vector<Outcome>& outcomes) {
  std::string text;
  for (const Outcome& outcome : outcomes)
    text += "ended with " + std::to_string(outcome.code) + ": " + outcome.output + "\n";
  return text;
}

}  // namespace

TEST_CASE("quiet_ends_the_job_under_abort") {
  for (const Leg& leg : process_legs({"soft", "ofi"})) {
    const auto outcomes = in_job(leg, "abort", [](Area& area) {
      if (gshmem_my_pe() == kActor) {
        post_bad_put(area);
        gshmem_quiet();
        std::puts("still here");
      }
      gshmem_barrier_all();
    });
    INFO(leg.name() << "\n" << text_of(outcomes));
    for (const Outcome& outcome : outcomes) {
      CHECK(outcome.code == 1);
      CHECK_FALSE(contains(outcome.output, "finalized"));
    }
    CHECK_FALSE(contains(outcomes[kActor].output, "still here"));
    CHECK(contains(outcomes[kActor].output, "PE 2 failed: local protection error"));
    CHECK(contains(outcomes[kActor].output, "ending the job"));
  }
}

TEST_CASE("quiet_status_ends_nothing_under_abort_and_the_next_wait_does") {
  for (const Leg& leg : process_legs({"soft", "ofi"})) {
    const auto outcomes = in_job(leg, "abort", [](Area& area) {
      if (gshmem_my_pe() == kActor) {
        int status = GSHMEMX_SUCCESS;
        spmd::await_line("gshmem[0] ERROR: put (WRITE) to PE 2 failed", [&] {
          post_bad_put(area);
          status = gshmemx_quiet_status();
        });
        std::printf("status %d\n", status);
        std::printf("again %d\n", gshmemx_quiet_status());
        ::usleep(250'000);  // others would end the job if they received a report
        std::puts("patient");
        std::fflush(stdout);
      }
      gshmem_barrier_all();
      std::puts("still here");
    });
    INFO(leg.name() << "\n" << text_of(outcomes));
    for (const Outcome& outcome : outcomes) {
      CHECK(outcome.code == 1);
      CHECK_FALSE(contains(outcome.output, "still here"));
    }
    CHECK(contains(outcomes[kActor].output, "status 15\nagain 15\n"));
    CHECK(contains(outcomes[kActor].output, "patient\n"));
    CHECK(contains(outcomes[kActor].output, "PE 2 failed: local protection error"));
  }
}

TEST_CASE("finalize_returns_while_an_error_is_pending") {
  for (const std::string policy : {"abort", "report"}) {
    for (const Leg& leg : process_legs({"soft", "ofi"})) {
      for (const bool by_context : {false, true}) {
        const auto outcomes = in_job(leg, policy, [&](Area& area) {
          gshmem_ctx_t ctx = GSHMEM_CTX_DEFAULT;
          if (by_context && gshmem_ctx_create(0, &ctx) != 0) throw std::runtime_error("no context");
          if (gshmem_my_pe() == kActor) post_bad_put(area, ctx);
        });
        INFO(leg.name() << ", " << policy << (by_context ? ", of a context" : "") << "\n"
                        << text_of(outcomes));
        CHECK(outcomes[kActor].code == 0);
        CHECK(contains(outcomes[kActor].output, "finalized"));
        CHECK(contains(outcomes[kActor].output, "PE 2 failed: local protection error"));
        // Under abort the report ends PEs that are not yet in finalize.
        if (policy == "report") CHECK(contains(outcomes[kBystander].output, "finalized"));
      }
    }
  }
}

TEST_CASE("an_error_in_finalize_is_logged_and_reported_to_pes_that_still_run") {
  for (const Leg& leg : process_legs({"soft", "ofi"})) {
    const auto outcomes = in_job(leg, "report", [](Area& area) {
      if (gshmem_my_pe() == kActor) return post_bad_put(area);
      gshmem_uint64_wait_until(&area.word, GSHMEM_CMP_NE, 0);
      spmd::print_fault();
    });
    INFO(leg.name() << "\n" << text_of(outcomes));
    const std::string what = "put (WRITE) to PE 2 failed: local protection error";
    CHECK(spmd::times(outcomes[kActor].output, "gshmem[0] ERROR: " + what) == 1);
    CHECK(contains(outcomes[kBystander].output, "fault 12 0 PE 0 was stopped by a fault: " + what));
    for (const Outcome& outcome : outcomes) CHECK(contains(outcome.output, "finalized"));
  }
}

TEST_CASE("kernels_of_all_scopes_get_the_status_of_the_error") {
  for (const Leg& leg : legs({"soft", "ofi"})) {
    const auto body = [](const Runtime& runtime) {
      auto* area = static_cast<Area*>(gshmem_calloc(1, sizeof(Area)));
      SymmetricArray<int> statuses(3 * 8);
      gshmem_barrier_all();
      if (runtime.my_pe() != kActor) return;
      const LaunchShape shape{.blocks = 1, .threads = 8};
      const auto ask = [](const LaunchContext& ctx, int* into) {
        const int at = ctx.thread_rank();
        into[at] = ctx.quiet_status(ctx.thread());
        into[8 + at] = ctx.quiet_status(ctx.warp());
        into[16 + at] = ctx.quiet_status(ctx.block());
      };
      const auto ask_all = [&](const char* when) {
        launch(shape, ask, statuses.data());
        synchronize();
        for (std::size_t i = 0; i < statuses.size(); ++i) std::printf("%d ", statuses.data()[i]);
        std::puts(when);
      };
      ask_all("before");
      post_bad_put(*area);
      ask_all("behind");
    };
    const spmd::Environment environment = environment_of(leg, {});
    std::string output;
    if (leg.how == How::kThreads) {
      output = spmd::in_child(environment, [&] { run_threads(kPes, body); }).output;
    } else {
      output = text_of(spmd::in_children(kPes, environment, [&](int) { body(Runtime()); }));
    }
    INFO(leg.name() << "\n" << output);
    std::string good, bad;
    for (int i = 0; i < 24; ++i) good += "0 ", bad += "15 ";
    CHECK(contains(output, good + "before\n"));
    CHECK(contains(output, bad + "behind\n"));
  }
}

TEST_CASE("a_pe_that_refused_a_request_reports_it_if_the_sender_does_not") {
  for (const Leg& leg : process_legs({"soft"})) {
    const Rendezvous all_told;  // the others also learn that a PE leaves
    const auto outcomes = in_job(leg, "report", [&](Area& area) {
      if (gshmem_my_pe() == kActor) {
        spoil_key(Key::kRemote);
        gshmem_putmem_nbi(area.dest[0], area.source[0], kBytes, kTarget);
      }
      gshmem_uint64_wait_until(&area.word, GSHMEM_CMP_NE, 0);
      spmd::print_fault();
      all_told.arrive_and_wait(kPes);
    });
    INFO(leg.name() << "\n" << text_of(outcomes));
    for (const Outcome& outcome : outcomes) CHECK(contains(outcome.output, "finalized"));
    CHECK(contains(outcomes[kTarget].output, "fault 15 0 mlx5_0, queue"));
    for (const int pe : {kActor, kBystander}) {
      const std::string& output = outcomes[static_cast<std::size_t>(pe)].output;
      CHECK(contains(output, "fault 12 2 PE 2 was stopped by a fault: mlx5_0, queue"));
      CHECK(contains(output, "to PE 0: the other end asked for memory"));
    }
  }
}

TEST_CASE("a_wrong_call_is_not_blamed_on_a_port_that_was_down") {
  for (const Leg& leg : process_legs({"soft"})) {
    const auto outcomes = in_job(leg, "report", [&](Area& area) {
      if (gshmem_my_pe() != kActor) return;
      inject("times=1:port=flap:20ms");
      gshmem_putmem_nbi(area.dest[0], area.source[0], kBytes, kTarget);
      gshmem_quiet();
      gshmem_putmem_nbi(area.dest[0], area.source[0], kBytes, kPes);
      spmd::print_fault();
    });
    INFO(leg.name() << "\n" << text_of(outcomes));
    const std::string& output = outcomes[kActor].output;
    CHECK(contains(output, "finalized"));
    CHECK(contains(output,
                   "\nfault 1 3 gshmem_putmem_nbi: argument pe = 3 is out of range [0, 3)\n"));
  }
}

TEST_CASE("signal_that_the_program_waits_for_is_not_an_error") {
  for (const Leg& leg : process_legs({"soft", "ofi"})) {
    for (const std::string doorbell : {"auto", "agent"}) {
      const auto environment = environment_of(leg, {{"GSHMEM_DOORBELL", doorbell}});
      const auto outcomes = spmd::in_children(kPes, environment, [&](int) {
        const Runtime runtime;
        spmd::await_signal();
        gshmem_barrier_all();
      });
      INFO(leg.name() << ", " << doorbell << "\n" << text_of(outcomes));
      for (const Outcome& outcome : outcomes) {
        CHECK(outcome.code == 0);
        CHECK(contains(outcome.output, "signal taken\n"));
      }
    }
  }
}

TEST_CASE("registered_memory_has_an_end_and_is_gone_when_it_is_unregistered") {
  constexpr std::size_t kMemory = 1 << 21;
  for (const Leg& leg : process_legs({"soft", "ofi"})) {
    for (const bool gone : {false, true}) {
      const auto outcomes = in_job(leg, "report", [&](Area& area) {
        const int file = memfd_create("registered", 0);
        if (ftruncate(file, kMemory) != 0) std::abort();
        void* const own = mmap(nullptr, kMemory, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        auto* const data = static_cast<char*>(gshmemx_buffer_register_symmetric(own, kMemory, 0));
        if (data == nullptr) std::abort();
        gshmem_putmem(data + kMemory - kBytes, area.source[0], kBytes, kTarget);  // the last bytes
        gshmem_barrier_all();
        if (gone && gshmemx_buffer_unregister_symmetric(data, kMemory) != 0) std::abort();
        if (gshmem_my_pe() == kActor)
          gshmem_putmem(data + (gone ? 0 : kMemory - 1), area.source[0], kBytes, kTarget);
      });
      INFO(leg.name() << (gone ? " gone" : " end") << "\n" << text_of(outcomes));
      for (const Outcome& outcome : outcomes) CHECK(contains(outcome.output, "finalized"));
      CHECK(contains(outcomes[kActor].output, "gshmem_putmem: argument dest = 0x"));
      CHECK(contains(outcomes[kActor].output, "(64 bytes) is not in the symmetric heap"));
    }
  }
}

TEST_CASE("a_debug_log_names_the_line_that_detected_an_error") {
  const auto outcomes = spmd::in_children(
      1, {{"GSHMEM_DEVICE", "cpu"}, {"GSHMEM_FAULT", "report"}, {"GSHMEM_LOG", "debug"}}, [](int) {
        const Runtime runtime;
        (void)gshmemx_buffer_register(nullptr, 8);
      });
  INFO(text_of(outcomes));
  CHECK(outcomes[0].code == 0);
  const std::string& log = outcomes[0].output;
  const std::string::size_type begin = log.find("detected at ");
  REQUIRE(begin != std::string::npos);
  CHECK_THAT(log.substr(begin, log.find('\n', begin) - begin),
             Catch::Matches("detected at .*\\.(cpp|h):[0-9]+: gshmemx_buffer_register: .*"));
}
