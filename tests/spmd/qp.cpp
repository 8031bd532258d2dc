// Queue handles: data, order and atomics on each of them, alone and shared by threads; fence and
// quiet of several; creation and destruction.
#include "tests/spmd/handles.h"

#include <atomic>
#include <thread>

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

constexpr int kHandles = 4;

Handles same(std::int32_t handle, int count) {
  Handles handles;
  while (handles.count < count) handles.handle[handles.count++] = handle;
  return handles;
}

/// Calls of gshmemx_qp_ functions by a group, with every way to name queues and PEs.
struct QuietOfHandles {
  static constexpr int kWords = 16;
  enum Way { kOnePe, kAllPes, kAllQueues, kFence, kWays };
  /// Which calls: on handles, or on the default context to one PE.
  enum class Of { kHandles, kPe };

  GSHMEM_FN static void pe_quiet(Scope scope, int pe) {
    const int pes[] = {pe, 0};
    if (scope == Scope::kThread && pe % 2 == 0) gshmem_pe_quiet(pes, 2);
    if (scope == Scope::kThread && pe % 2 != 0) gshmemx_pe_quiet(pe);
    if (scope == Scope::kWarp) gshmemx_pe_quiet_warp(pe);
    if (scope == Scope::kBlock) gshmemx_pe_quiet_block(pe);
  }

  GSHMEM_FN static void quiet(Scope scope, int pe, int* qps, int count) {
    if (scope == Scope::kThread) gshmemx_qp_quiet(pe, qps, count);
    if (scope == Scope::kWarp) gshmemx_qp_quiet_warp(pe, qps, count);
    if (scope == Scope::kBlock) gshmemx_qp_quiet_block(pe, qps, count);
  }
  GSHMEM_FN static void fence(Scope scope, int pe, int* qps, int count) {
    if (scope == Scope::kThread) gshmemx_qp_fence(pe, qps, count);
    if (scope == Scope::kWarp) gshmemx_qp_fence_warp(pe, qps, count);
    if (scope == Scope::kBlock) gshmemx_qp_fence_block(pe, qps, count);
  }
  GSHMEM_FN static void put(Scope scope, std::uint64_t* to, const std::uint64_t* from, int pe,
                            int qp) {
    if (scope == Scope::kThread) gshmemx_qp_uint64_put_nbi(to, from, kWords, pe, qp);
    if (scope == Scope::kWarp) gshmemx_qp_uint64_put_nbi_warp(to, from, kWords, pe, qp);
    if (scope == Scope::kBlock) gshmemx_qp_uint64_put_nbi_block(to, from, kWords, pe, qp);
  }

  /// One group makes nbi puts on all handles to one PE, then sets the flag.
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, Handles handles, std::uint64_t* data,
                            std::uint64_t* flags, int rounds, Scope scope, Of of) const {
    const int me = gshmem_my_pe(), n = gshmem_n_pes();
    std::uint64_t *source = data + n * kHandles * kWords, *acks = flags + n;
    with_group(ctx, scope, [&](auto group) {
      for (int round = 1; round <= rounds; ++round) {
        const std::uint64_t now = static_cast<std::uint64_t>(round);
        const int to = (me + round) % n, from = (me + n - round % n) % n;
        for (int i = group.thread_rank(); i < kHandles * kWords; i += group.size()) {
          source[i] = mix(now, static_cast<std::uint64_t>(me + i));
        }
        group.sync();
        for (int k = 0; k < kHandles; ++k) {
          const int at = k * kWords;
          put(scope, data + me * kHandles * kWords + at, source + at, to, handles.handle[k]);
        }
        int all[] = {GSHMEMX_QP_ALL};
        const int way = round % kWays;
        if (of == Of::kPe) {
          pe_quiet(scope, to);
        } else if (way == kFence) {
          fence(scope, to, handles.handle, kHandles);
        } else if (way == kAllQueues) {
          quiet(scope, to, all, 1);
        } else {
          quiet(scope, way == kOnePe ? to : GSHMEMX_PE_ALL, handles.handle, kHandles);
        }
        if (group.thread_rank() == 0) {
          gshmemx_qp_uint64_p(flags + me, now, to, handles.handle[0]);
          gshmem_uint64_wait_until(flags + from, GSHMEM_CMP_EQ, now);
          for (int i = 0; i < kHandles * kWords; ++i) {
            SPMD_EQ(log, data[from * kHandles * kWords + i],
                    mix(now, static_cast<std::uint64_t>(from + i)), now);
          }
          gshmem_uint64_p(acks + me, now, from);
          gshmem_uint64_wait_until(acks + to, GSHMEM_CMP_EQ, now);
        }
        group.sync();
      }
      quiet(scope, GSHMEMX_PE_ALL, handles.handle, kHandles);
    });
  }
};

void test_quiet(Pe& pe, const Handles& handles, QuietOfHandles::Of of) {
  const auto n = static_cast<std::size_t>(pe.n());
  for (const Scope scope : kScopes) {
    SymmetricArray<std::uint64_t> data((n + 1) * kHandles * QuietOfHandles::kWords), flags(2 * n);
    LaunchShape shape = shape_of(pe, scope);
    shape.blocks = 1;
    if (scope == Scope::kThread) shape.threads = 1;
    if (scope == Scope::kWarp) shape.threads = pe.warp();
    pe.run(shape, QuietOfHandles{}, handles, data.data(), flags.data(), rounds_of(pe, 40), scope,
           of);
    pe.barrier();
  }
}

/// Two blocks post on all rails and wait for all queues, repeatedly.
struct QuietOfAll {
  static constexpr int kBlocks = 2, kPuts = 4;
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log, std::uint64_t* words, int rounds) const {
    const int to = (ctx.my_pe() + 1) % ctx.n_pes();
    std::uint64_t* mine = words + (kPuts + 1) * ctx.block_rank();
    int all[] = {GSHMEMX_QP_ALL};
    for (int round = 0; round < rounds; ++round) {
      for (int k = 0; k < kPuts && ctx.thread_rank() == 0; ++k) {
        ctx.put_nbi(ctx.thread(), mine + k, mine + kPuts, 1, to);
      }
      gshmemx_qp_quiet_block(ctx.block_rank() == 0 ? to : GSHMEMX_PE_ALL, all, 1);
    }
  }
};

}  // namespace

SPMD_TEST(groups_wait_for_all_queues_while_contexts_come_and_go) {
  if (!pe.c_api_in_kernels()) return pe.skip(kTwoPesOnAGpu);
  SymmetricArray<std::uint64_t> words(QuietOfAll::kBlocks * (QuietOfAll::kPuts + 1));
  OwnedQueues(pe, 8);  // provides queues for the contexts
  std::atomic<bool> over{false};
  std::thread others([&, handle = gshmemx_pe_handle()] {
    SPMD_EQ(pe, gshmemx_bind_thread(handle), 0);
    while (!over) {
      gshmem_ctx_t contexts[4];
      for (gshmem_ctx_t& ctx : contexts) SPMD_EQ(pe, gshmem_ctx_create(0, &ctx), 0);
      for (const gshmem_ctx_t ctx : contexts) gshmem_ctx_destroy(ctx);
    }
  });
  pe.run({.blocks = QuietOfAll::kBlocks, .threads = pe.on_gpu() ? 64u : 4u}, QuietOfAll{},
         words.data(), pe.on_network() ? 20 : 50);
  over = true;
  others.join();
  pe.barrier();
}

SPMD_TEST(queue_handles_move_data) {
  OwnedQueues queues(pe, Handles::kMost);
  test_moves(pe, queues.list(), 1, 12);
}

SPMD_TEST(threads_with_a_queue_handle_each_move_data_at_the_same_time) {
  OwnedQueues queues(pe, kHandles);
  test_moves(pe, queues.list(), kHandles, 40);
}

SPMD_TEST(threads_that_share_a_queue_handle_move_data_at_the_same_time) {
  OwnedQueues queues(pe, 1);
  test_moves(pe, same(queues.list().handle[0], kHandles), kHandles, 40);
  test_counts(pe, same(queues.list().handle[0], kHandles), kHandles);
}

SPMD_TEST(groups_put_with_signal_by_queue_handles) {
  OwnedQueues queues(pe, kHandles);
  for (const Scope scope : kScopes) test_signals(pe, queues.list(), scope);
}

SPMD_TEST(queue_handles_post_to_no_other_queue) {
  OwnedQueues queues(pe, kHandles);
  test_own_queues(pe, queues.list());
}

SPMD_TEST(quiet_and_fence_of_queue_handles_complete_their_operations) {
  if (!pe.c_api_in_kernels()) return pe.skip(kTwoPesOnAGpu);
  OwnedQueues queues(pe, kHandles);
  test_quiet(pe, queues.list(), QuietOfHandles::Of::kHandles);
}

SPMD_TEST(pe_quiet_completes_operations_to_that_pe) {
  if (!pe.c_api_in_kernels()) return pe.skip(kTwoPesOnAGpu);
  test_quiet(pe, same(GSHMEMX_QP_DEFAULT, kHandles), QuietOfHandles::Of::kPe);
}

SPMD_TEST(a_queue_handle_that_is_made_alone_posts_to_no_other_queue) {
  OwnedQueues queues(pe, 1);
  test_own_queues(pe, queues.list());
}

SPMD_TEST(queues_of_destroyed_handles_serve_the_next_ones) {
  std::vector<std::uint32_t> numbers;
  for (int i = 0; i < 3; ++i) {
    OwnedQueues queues(pe, kHandles);
    test_moves(pe, queues.list(), 1, 4);
    const std::vector<std::uint32_t> now = queue_numbers(pe, queues.list());
    if (i > 0) SPMD_CHECK(pe, now == numbers);
    numbers = now;
  }
}

SPMD_TEST(queues_added_while_others_are_in_use_move_data) {
  OwnedQueues first(pe, 2);
  test_moves(pe, first.list(), 2, 8);
  {
    // More than any test has left.
    OwnedQueues second(pe, Handles::kMost), third(pe, 2);
    test_moves(pe, third.list(), 2, 8);
    test_moves(pe, first.list(), 2, 8);
    test_moves(pe, second.list(), 1, 4);
  }
  test_moves(pe, first.list(), 2, 8);
}

SPMD_TEST(queue_handles_that_cannot_be_made_or_destroyed_are_errors_without_effect) {
  gshmemx_qp_handle_t* array = nullptr;
  SPMD_EQ(pe, gshmemx_qp_create(0, &array), 0);
  SPMD_CHECK(pe, array != nullptr);
  SPMD_EQ(pe, gshmemx_qp_destroy(0, array), 0);
  SPMD_EQ(pe, gshmemx_qp_destroy(0, nullptr), 0);
  std::free(array);
  array = nullptr;
  SPMD_EQ(pe, gshmemx_qp_create(-1, &array), static_cast<int>(GSHMEMX_ERROR_INVALID_VALUE));
  SPMD_EQ(pe, gshmemx_qp_create(1025, &array), static_cast<int>(GSHMEMX_ERROR_OUT_OF_MEMORY));
  SPMD_EQ(pe, gshmemx_qp_create(1, nullptr), static_cast<int>(GSHMEMX_ERROR_INVALID_VALUE));
  if (pe.n() > 1) {
    const int differs = pe.me() == 0 ? 1 : 2;
    SPMD_EQ(pe, gshmemx_qp_create(differs, &array), static_cast<int>(GSHMEMX_ERROR_SYMMETRY));
  }
  SPMD_CHECK(pe, array == nullptr);

  std::int32_t gone = 0;
  {
    OwnedQueues queues(pe, 1);
    gone = queues.list().handle[0];
  }
  OwnedQueues queues(pe, 1);
  const gshmemx_qp_handle_t both[] = {queues.list().handle[0], gone};
  for (const gshmemx_qp_handle_t bad : {gone, 0, 1, -1, static_cast<int>(GSHMEMX_QP_ALL)}) {
    SPMD_EQ(pe, gshmemx_qp_destroy(1, &bad), static_cast<int>(GSHMEMX_ERROR_INVALID_VALUE));
  }
  SPMD_EQ(pe, gshmemx_qp_destroy(2, both), static_cast<int>(GSHMEMX_ERROR_INVALID_VALUE));
  SPMD_EQ(pe, gshmemx_qp_destroy(-1, both), static_cast<int>(GSHMEMX_ERROR_INVALID_VALUE));
  SPMD_EQ(pe, gshmemx_qp_destroy(1, nullptr), static_cast<int>(GSHMEMX_ERROR_INVALID_VALUE));
  test_moves(pe, queues.list(), 1, 4);
}
