// Tests connections on first use: FirstUse over queues whose NICs only record the calls.
#include "tests/nic/queue_set_rig.h"
#include "tests/threads_of_process.h"
#include "transport/nic/first_use.h"

#include <gshmem/device/network/queue.h>

#include <catch2/catch.hpp>

#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace gshmem::nic {
namespace {

/// PEs that connect on first use, and the messages between them.
struct OnFirstUse {
  std::vector<abi::Control> controls;
  std::mutex mutex;  ///< of `threads`: TSan does not know the fences of device code
  std::vector<std::unique_ptr<FirstUse>> threads;
  std::atomic<int> messages{0}, errors{0}, about{-1}, code{0};  ///< PE and code of the last error
  explicit OnFirstUse(std::size_t pes) : controls(pes), threads(pes) {}

  void start(Connected& pe, int me) {
    const auto at = static_cast<std::size_t>(me);
    auto thread = std::make_unique<FirstUse>(
        pe.queues(), FirstUse::Outside{.my_pe = me,
                                       .asked = &controls[at].asked,
                                       .is_woken = me % 2 != 0,  // as on a CPU; or GPU
                                       .send =
                                           [this, me](int to, std::span<const std::byte> message) {
                                             ++messages;
                                             deliver(to, me, message);
                                           },
                                       .on_error =
                                           [this](const Error& error, int of) {
                                             about = of, code = error.code();
                                             ++errors;
                                           }});
    {
      const std::lock_guard lock(mutex);
      threads[at] = std::move(thread);
    }
    pe.barrier();
  }
  void deliver(int to, int from, std::span<const std::byte> message) {
    const std::lock_guard lock(mutex);
    const auto& there = threads[static_cast<std::size_t>(to)];
    if (there) there->take(from, message);  // otherwise it has stopped
  }
  void stop(int me) {
    std::unique_ptr<FirstUse> last;
    const std::lock_guard lock(mutex);
    last.swap(threads[static_cast<std::size_t>(me)]);
  }
  /// Device code of PE `me` asks for the queues to a PE, and does not wait.
  void ask(const abi::NicView& view, int me, int pe) {
    const auto raise = [](std::uint32_t& word) { __atomic_store_n(&word, 1u, __ATOMIC_RELEASE); };
    raise(view.first_use[static_cast<std::uint32_t>(pe) * view.per_pe].asked);
    raise(controls[static_cast<std::size_t>(me)].asked);
  }
  /// Device code of PE `me` posts to a queue for the first time.
  void use(const abi::NicView& view, int me, int pe, std::uint32_t nth = 0) {
    abi::DeviceState state;
    state.nic = view;
    state.control = &controls[static_cast<std::size_t>(me)];
    state.timeout_ns = 60'000'000'000u;
    const std::uint32_t at = static_cast<std::uint32_t>(pe) * view.per_pe + nth;
    device::Wait wait;
    device::begin_wait(wait, &state, view.queues + at, "test");
    if (wait.queue.number() == 0) device::queue_connect(wait);
    expect(wait.good() && view.queues[at].number != 0, "the queue has a number");
  }
};

TEST_CASE("on_first_use_pes_that_communicate_are_connected_once_and_others_never") {
  constexpr int kPes = 5, kQueues = 2, kOwn = 2 * kQueues;
  auto boots = bootstrap::create_threads(kPes, 60);
  OnFirstUse job(kPes);
  CHECK(test::run_threads(kPes, [&](int me) {
          Connected pe(Job::one_host_each(kPes), std::move(boots[static_cast<std::size_t>(me)]),
                       ConnectChoice::kUse);
          job.start(pe, me);
          const abi::NicView view = pe.queues().view();
          expect(pe.count() == kOwn, "after init, those that lead back");
          expect(me == 0 || view.queues[0].completion->raw == 0, "memory of others is untouched");
          pe.barrier();  // from here on PEs make queues to each other
          job.use(view, me, me);
          pe.barrier();
          // All PEs connect to their right neighbour at once, then again; the first two also
          // connect to each other.
          const auto use_both = [&](int to) {
            std::thread other([&] { job.use(view, me, to, 1); });
            job.use(view, me, to);
            other.join();
          };
          if (me < kPes - 1) use_both(me + 1);
          if (me == 1) use_both(0);
          pe.barrier();
          const int neighbours = me == 0 || me == kPes - 1 ? 1 : 2;
          expect(pe.count() == kOwn + kQueues * neighbours, "of the default context");
          pe.barrier();
          // A context has connections of its own.
          if (me == 0) job.use(pe.context, me, kPes - 1);
          job.use(pe.context, me, me);
          pe.barrier();
          const int more = 2 + (me == 0 || me == kPes - 1 ? 1 : 0);
          expect(pe.count() == kOwn + kQueues * neighbours + more, "and of the other one");
          pe.expect_two_ends();
          pe.barrier();
          job.stop(me);
          for (const abi::NicView& each : {view, pe.context})
            expect(pe.memory().bytes_at(each.first_use) == each.count * sizeof(abi::FirstUse),
                   "each queue has a place for its question");
        }) == "");
  CHECK(job.errors == 0);
  CHECK(job.messages <= 4 * kPes);
}

TEST_CASE("on_first_use_writers_go_on_when_the_peer_is_known_to_answer") {
  enum class Kind : std::uint32_t { kOffer, kAnswer, kConfirm };
  const bool asks = GENERATE(true, false);
  auto boots = bootstrap::create_threads(2, 60);
  CHECK(test::run_threads(2, [&](int me) {
          Connected pe(Job::one_host_each(2), std::move(boots[static_cast<std::size_t>(me)]),
                       ConnectChoice::kUse);
          if (me != 0) return pe.barrier();
          const abi::NicView view = pe.queues().view();
          std::uint32_t asked = 0;
          std::mutex mutex;
          std::vector<Kind> sent;
          std::atomic<int> errors{0};
          std::string why;
          FirstUse thread(
              pe.queues(),
              {.my_pe = 0,
               .asked = &asked,
               .is_woken = false,
               .send =
                   [&](int, std::span<const std::byte> message) {
                     const std::lock_guard lock(mutex);
                     std::memcpy(&sent.emplace_back(), message.data(), sizeof(Kind));
                   },
               .on_error = [&](const Error& error, int) { why = error.what(), ++errors; }});
          const auto take = [&](Kind kind) {
            std::vector<std::byte> message(
                8 + (kind == Kind::kConfirm ? 0 : 2 * sizeof(QueueSet::QueueInfo)));
            std::memcpy(message.data(), &kind, sizeof(kind));
            thread.take(1, message);
          };
          const auto wait = [&](const auto& done) {
            for (int i = 0; i < 20000 && !done(); ++i) ::usleep(1000);
            return done();
          };
          const auto said = [&](std::vector<Kind> all) {
            return wait([&] {
              const std::lock_guard lock(mutex);
              return sent == all;
            });
          };
          const auto goes_on = [&] {
            return __atomic_load_n(&view.first_use[view.per_pe].number, __ATOMIC_ACQUIRE) != 0;
          };
          if (asks) {
            __atomic_store_n(&view.first_use[view.per_pe].asked, 1u, __ATOMIC_RELEASE);
            __atomic_store_n(&asked, 1u, __ATOMIC_RELEASE);
            expect(said({Kind::kOffer}), "it offers");
            take(Kind::kOffer);  // both PEs have offered
            expect(said({Kind::kOffer, Kind::kConfirm}), "it confirms");
          } else {
            take(Kind::kOffer);
            expect(said({Kind::kAnswer}), "it answers");
          }
          ::usleep(2000);
          expect(!goes_on(), "the other end does not answer yet");
          take(Kind::kConfirm);
          expect(wait(goes_on) && errors == 0, "now it does");
          take(Kind::kConfirm);
          expect(wait([&] { return errors == 1; }), "and says so once");
          expect(why == "no connection to PE 1: a message of kind 2 at stage 3", why);
          take(Kind::kOffer);
          expect(wait([&] { return errors == 2; }), "nor does it offer again");
          expect(why == "no connection to PE 1: a message of kind 0 at stage 3", why);
          pe.barrier();
        }) == "");
}

TEST_CASE("on_first_use_writers_wait_for_their_own_pe_only") {
  constexpr int kPes = 3;
  auto boots = bootstrap::create_threads(kPes, 60);
  CHECK(test::run_threads(kPes, [&](int me) {
          Connected pe(Job::one_host_each(kPes), std::move(boots[static_cast<std::size_t>(me)]),
                       ConnectChoice::kUse);
          if (me != 0) return pe.barrier();
          const abi::NicView view = pe.queues().view();
          for (const int to : {1, 2}) (void)pe.queues().create({0, to});
          pe.queues().release({0, 1});
          for (std::uint32_t i = 0; i < view.count; ++i)
            expect((view.first_use[i].number != 0) == (view.queues[i].pe < 2),
                   "PE 2 does not answer yet");
          pe.barrier();
        }) == "");
}

TEST_CASE("on_first_use_a_queue_that_a_nic_refuses_is_an_error_about_the_peer") {
  auto boots = bootstrap::create_threads(2, 60);
  OnFirstUse job(2);
  const std::string refusing = GENERATE("d0", "d15");  // the PE that answers, or both
  CHECK(test::run_threads(2, [&](int me) {
          Connected pe(Job{{{refusing}, {"d15"}}, {0, 1}},
                       std::move(boots[static_cast<std::size_t>(me)]), ConnectChoice::kUse);
          job.start(pe, me);
          if (me == 0) job.ask(pe.queues().view(), 0, 1);
          for (int i = 0; i < 20000 && job.errors == 0; ++i) ::usleep(1000);
          pe.barrier();
          job.stop(me);
        }) == "");
  CHECK(job.errors == 1);
  CHECK(job.about == (refusing == "d0" ? 0 : 1));
  CHECK(job.code == GSHMEMX_ERROR_NIC);
}

}  // namespace
}  // namespace gshmem::nic
