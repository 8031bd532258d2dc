// Tests which queues the threads of a group wait for when they call quiet together, while another
// thread uses a queue for the first time.
#include <gshmem/abi/queue_shape.h>
#include <gshmem/device/network/network_path.h>

#include <catch2/catch.hpp>

#include <array>
#include <cstdint>

using namespace gshmem;
using namespace gshmem::device;

namespace {

/// One thread of a group of two, which run one after the other.
struct OneOfTwo {
  int rank;
  [[nodiscard]] int thread_rank() const { return rank; }
  [[nodiscard]] static int size() { return 2; }
  void sync() const {}
};

/// A PE with eight queues; entries posted to them are never completed.
class QueuesThatHang {
 public:
  QueuesThatHang() {
    for (std::size_t i = 0; i < kQueues; ++i) {
      completions_[i] = abi::Be32(static_cast<std::uint32_t>(abi::CompletionOpcode::kInvalid) << 4);
      views_[i].completion = &completions_[i];
      views_[i].cursor = &cursors_[i];
      views_[i].index = static_cast<std::uint32_t>(i);
    }
    state_.control = &control_;
    state_.timeout_ns = 1'000'000;
    state_.nic.queues = views_.data();
    state_.nic.cursors = cursors_.data();
    state_.nic.used = &used_;
    state_.nic.count = state_.nic.per_pe = kQueues;
    state_.nic.rails = 1;
    state_.nic.traits = abi::traits_of({.depth = 64, .batch = 16});
  }
  void use(std::size_t queue) { used_ |= 1u << queue; }
  void post_to(std::size_t queue) {
    use(queue);
    cursors_[queue].reserved = 1;
    cursors_[queue].ready = abi::PublishedWord::make(1, 1);
  }
  /// Returns false if the thread has waited for a queue until the time limit.
  bool quiet(OneOfTwo thread) { return nic::quiet(thread, state_, "test", nic::QuietEnd::kNote); }

 private:
  static constexpr std::size_t kQueues = 8;
  std::array<abi::QueueView, kQueues> views_{};
  std::array<abi::QueueCursor, kQueues> cursors_{};
  std::array<abi::Be32, kQueues> completions_{};
  abi::Control control_{};
  std::uint32_t used_ = 0;
  abi::DeviceState state_{};
};

}  // namespace

TEST_CASE("every_used_queue_is_waited_for_by_one_thread_of_the_group") {
  for (std::size_t queue = 0; queue < 8; ++queue) {
    QueuesThatHang queues;
    queues.post_to(queue);
    CHECK(queues.quiet({0}) != queues.quiet({1}));
  }
}

TEST_CASE("a_queue_used_for_the_first_time_between_two_threads_of_a_group_hides_no_other_one") {
  for (const int early : {0, 1}) {
    for (std::size_t queue = 1; queue < 8; ++queue) {
      QueuesThatHang queues;
      queues.post_to(queue);
      bool all_waited_for = !queues.quiet({early});
      queues.use(queue - 1);  // by another block
      all_waited_for |= !queues.quiet({1 - early});
      CHECK(all_waited_for);
    }
  }
}
