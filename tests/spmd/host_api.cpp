// Host threads may do this between init and finalize, in both modes: queries, waits, and calls from
// several threads of one PE.
#include "tests/spmd/stream.h"
#include "tests/spmd/teams.h"

#include <cmath>
#include <cstring>
#include <thread>

using namespace gshmem;
using namespace gshmem::spmd;

SPMD_TEST(queries_return_the_pe_and_the_job) {
  SPMD_CHECK(pe, pe.me() >= 0 && pe.me() < pe.n());
  int major = 0, minor = 0, patch = -1, provided = -1;
  char name[GSHMEM_MAX_NAME_LEN] = "";
  gshmem_info_get_version(&major, &minor);
  gshmem_info_get_name(name);
  SPMD_EQ(pe, major, GSHMEM_MAJOR_VERSION);
  SPMD_EQ(pe, minor, GSHMEM_MINOR_VERSION);
  SPMD_EQ(pe, std::string(name), std::string(GSHMEM_VENDOR_STRING));
  major = minor = -1;
  gshmemx_vendor_get_version_info(&major, &minor, &patch);
  SPMD_EQ(pe, major, GSHMEM_VENDOR_MAJOR_VERSION);
  SPMD_EQ(pe, minor, GSHMEM_VENDOR_MINOR_VERSION);
  SPMD_EQ(pe, patch, GSHMEM_VENDOR_PATCH_VERSION);
  gshmem_query_thread(&provided);
  SPMD_EQ(pe, provided, static_cast<int>(GSHMEM_THREAD_MULTIPLE));
  int initialized = -1;
  gshmem_query_initialized(&initialized);
  SPMD_EQ(pe, initialized, 1);
  gshmem_pcontrol(0);
  gshmem_pcontrol(2, "more");
  const int state = gshmemx_init_status();
  SPMD_CHECK(pe, state == GSHMEMX_INIT_STATUS_IS_INITIALIZED ||
                     state == GSHMEMX_INIT_STATUS_LIMITED_MPG ||
                     state == GSHMEMX_INIT_STATUS_FULL_MPG);
  gshmemx_fault_t fault{};
  SPMD_EQ(pe, gshmemx_last_fault(&fault), static_cast<int>(GSHMEMX_SUCCESS));
  SPMD_EQ(pe, fault.pe, -1);  // names no PE
  for (int status = 0; status <= GSHMEMX_ERROR_NIC; ++status) {
    SPMD_CHECK(pe, gshmemx_status_string(status) && *gshmemx_status_string(status));
  }
  SPMD_CHECK(pe, gshmemx_status_string(-5) != nullptr && gshmemx_status_string(9999) != nullptr);
}

SPMD_TEST(init_again_is_counted_and_ends_with_as_many_finalizes) {
  gshmem_init();
  int provided = -1;
  SPMD_EQ(pe, gshmem_init_thread(GSHMEM_THREAD_SINGLE, &provided), 0);
  SPMD_EQ(pe, provided, static_cast<int>(GSHMEM_THREAD_MULTIPLE));
  for (int ended = 0; ended < 2; ++ended) {
    SPMD_EQ(pe, gshmem_my_pe(), pe.me());
    SPMD_EQ(pe, gshmem_n_pes(), pe.n());
    gshmem_finalize();
  }
  SPMD_EQ(pe, gshmem_my_pe(), pe.me());
}

SPMD_TEST(wait_until_by_host_thread_sees_every_pe) {
  const auto n = static_cast<std::size_t>(pe.n());
  SymmetricArray<int> flags(n);
  for (int to = 0; to < pe.n(); ++to) gshmem_int_p(flags.data() + pe.me(), pe.me() + 1, to);
  gshmem_int_wait_until_all(flags.data(), n, nullptr, GSHMEM_CMP_NE, 0);
  for (std::size_t from = 0; from < n; ++from) {
    SPMD_EQ(pe, gshmem_int_g(flags.data() + from, pe.me()), static_cast<int>(from) + 1);
  }
  SPMD_EQ(pe, gshmem_int_test(flags.data(), GSHMEM_CMP_EQ, 1), 1);
  std::vector<std::size_t> which(n);
  SPMD_EQ(pe, gshmem_int_test_some(flags.data(), n, which.data(), nullptr, GSHMEM_CMP_GT, 0), n);
}

namespace {

/// The work of one further host thread of a PE.
void work(Pe& pe, std::uint64_t* counter, std::uint8_t* data, int thread, int rounds) {
  SPMD_EQ(pe, gshmem_my_pe(), pe.me());
  for (int i = 0; i < rounds; ++i) {
    (void)gshmem_uint64_atomic_fetch_add(counter, 1, i % pe.n());
    const std::vector<std::uint8_t> mine(100, static_cast<std::uint8_t>(pe.me() + thread + i));
    gshmem_putmem(data + 128 * thread, mine.data(), mine.size(), pe.next());
    gshmem_quiet();
    std::vector<std::uint8_t> back(100);
    gshmem_getmem(back.data(), data + 128 * thread, back.size(), pe.next());
    if (back != mine) return pe.fail(__LINE__, "a host thread read back something else");
  }
}

}  // namespace

SPMD_TEST(several_host_threads_of_one_pe_work_at_the_same_time) {
  constexpr int kThreads = 3;
  const int rounds = pe.rounds(300) / pe.n() * pe.n();
  SymmetricArray<std::uint64_t> counter(1);
  SymmetricArray<std::uint8_t> data(128 * kThreads);
  void* handle = gshmemx_pe_handle();
  SPMD_CHECK(pe, handle != nullptr);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      SPMD_EQ(pe, gshmemx_bind_thread(handle), 0);
      work(pe, counter.data(), data.data(), thread, rounds);
      SPMD_EQ(pe, gshmemx_bind_thread(nullptr), 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
  pe.barrier();
  SPMD_EQ(pe, gshmem_uint64_atomic_fetch(counter.data(), pe.me()),
          static_cast<std::uint64_t>(kThreads * rounds));
}

// Threads of a PE call their teams in another order than those of its neighbour.
SPMD_TEST(host_threads_of_a_pe_reduce_over_distinct_teams_at_the_same_time) {
  if (streams_hold_each_other_up(pe)) return;
  constexpr int kTeams = 4, kMost = 50;
  const int rounds = pe.rounds(300);
  std::vector<OwnTeam> teams;
  for (int i = 0; i < kTeams; ++i) teams.push_back(split(pe, GSHMEM_TEAM_WORLD, 0, 1, pe.n()));
  SymmetricArray<int> sums(2 * kTeams * kMost), mine(kTeams * kMost), data(1), counter(1);
  mine.write(std::vector<int>(mine.size(), pe.me() + 1), pe.me());
  pe.barrier();
  void* const handle = gshmemx_pe_handle();
  std::vector<std::thread> threads;
  for (int i = 0; i < kTeams; ++i) {
    const int which = (i + pe.me()) % kTeams;
    threads.emplace_back([&, which] {
      SPMD_EQ(pe, gshmemx_bind_thread(handle), 0);
      const gshmem_team_t team = teams[static_cast<std::size_t>(which)].get();
      for (int round = 0; round < rounds; ++round) {
        const int last = round % kMost;
        // Others may still read the sums of the round before.
        int* const sum = sums.data() + (2 * which + round % 2) * kMost;
        const int status = gshmem_int_sum_reduce(team, sum, mine.data() + which * kMost,
                                                 static_cast<std::size_t>(last) + 1);
        SPMD_EQ(pe, status, 0);
        SPMD_EQ(pe, gshmem_int_g(sum + last, pe.me()), pe.n() * (pe.n() + 1) / 2);
      }
      SPMD_EQ(pe, gshmemx_bind_thread(nullptr), 0);
    });
  }
  for (int round = 0; round < rounds; ++round) {
    gshmem_int_p(data.data(), round + 1, pe.next());
    gshmem_int_atomic_inc(counter.data(), pe.next());
    gshmem_quiet();
  }
  for (std::thread& thread : threads) thread.join();
  pe.barrier();
  SPMD_EQ(pe, gshmem_int_g(data.data(), pe.me()), rounds);
  SPMD_EQ(pe, gshmem_int_g(counter.data(), pe.me()), rounds);
}

SPMD_TEST(memory_outside_of_the_heap_of_any_size_moves_by_host_thread) {
  // The last is more than a queue holds at a time.
  constexpr std::size_t kSizes[] = {1, 219, 220, 221, 4099, (256u << 10) + 13};
  SymmetricArray<std::uint8_t> data(kSizes[5]);
  for (const std::size_t size : kSizes) {
    const auto bytes_of = [&](int from) {
      std::vector<std::uint8_t> bytes(size);
      for (std::size_t i = 0; i < size; ++i)
        bytes[i] = pattern(mix(pe.seed(), size + static_cast<std::size_t>(from)), i);
      return bytes;
    };
    const std::vector<std::uint8_t> mine = bytes_of(pe.me());
    gshmem_putmem(data.data(), mine.data(), size, pe.next());
    pe.barrier();
    pe.equal_bytes(__LINE__, pe.read(data.data(), size), bytes_of(pe.previous()));
    std::vector<std::uint8_t> back(size);
    gshmem_getmem(back.data(), data.data(), size, pe.next());
    pe.equal_bytes(__LINE__, back, mine);
    pe.barrier();
  }
}

SPMD_TEST(registered_buffers_move_like_other_memory) {
  std::vector<int> bytes(100, pe.me() + 1), back(100);
  SymmetricArray<int> there(100);
  SPMD_EQ(pe, gshmemx_buffer_register(bytes.data(), 400), 0);
  SPMD_EQ(pe, gshmemx_buffer_register(back.data(), 400), 0);
  gshmem_int_put(there.data(), bytes.data(), 100, pe.next());
  gshmem_quiet();
  gshmem_int_get(back.data(), there.data(), 100, pe.next());
  SPMD_CHECK(pe, back == bytes);
  SPMD_EQ(pe, gshmemx_buffer_unregister(bytes.data()), 0);
  SPMD_EQ(pe, gshmemx_buffer_register(bytes.data(), 200), 0);
  gshmemx_buffer_unregister_all();
  SPMD_EQ(pe, gshmemx_buffer_register(bytes.data() + 10, 300), 0);
  gshmemx_buffer_unregister_all();
  // One byte is a valid buffer, and so is one that ends at the last address.
  SPMD_EQ(pe, gshmemx_buffer_register(bytes.data(), 1), 0);
  SPMD_EQ(pe, gshmemx_buffer_register(reinterpret_cast<void*>(UINTPTR_MAX - 64), 64), 0);
  SPMD_CHECK(pe, gshmemx_buffer_register(reinterpret_cast<void*>(UINTPTR_MAX - 9), 10) != 0);
  gshmemx_buffer_unregister_all();
  pe.barrier();
}

SPMD_TEST(long_double_is_combined_in_all_its_bits_in_place_too) {
  constexpr std::size_t kCount = 2500;
  const auto value = [](int of, std::size_t i) {
    return 1 + of + std::ldexp(static_cast<long double>(i), -56);  // a double has 53 bits
  };
  const auto sum = [&](int end, std::size_t i) {
    long double all = 0;
    for (int of = 0; of < end; ++of) all += value(of, i);
    return all;
  };
  std::vector<long double> mine(kCount);
  for (std::size_t i = 0; i < kCount; ++i) mine[i] = value(pe.me(), i);
  SymmetricArray<long double> source(kCount), other(kCount);
  const auto check = [&](auto* function, auto& dest, const auto& wanted) {
    pe.barrier();
    source.write(mine, pe.me());
    SPMD_EQ(pe, function(GSHMEM_TEAM_WORLD, dest.data(), source.data(), kCount), 0);
    const std::vector<long double> got = dest.to_vector(pe.me());
    for (std::size_t i = 0; i < kCount; ++i) SPMD_CHECK(pe, got[i] == wanted(i));
  };
  for (auto* dest : {&source, &other}) {
    check(&gshmem_longdouble_sum_reduce, *dest, [&](std::size_t i) { return sum(pe.n(), i); });
    check(&gshmem_longdouble_sum_inscan, *dest, [&](std::size_t i) { return sum(pe.me() + 1, i); });
    check(&gshmem_longdouble_sum_exscan, *dest, [&](std::size_t i) { return sum(pe.me(), i); });
    check(&gshmem_longdouble_min_reduce, *dest, [&](std::size_t i) { return value(0, i); });
    check(&gshmem_longdouble_max_reduce, *dest,
          [&](std::size_t i) { return value(pe.n() - 1, i); });
  }
  pe.barrier();
}

SPMD_TEST(bind_thread_refuses_an_invalid_handle) {
  int local = 0;
  SPMD_EQ(pe, gshmemx_bind_thread(&local), static_cast<int>(GSHMEMX_ERROR_INVALID_VALUE));
  SPMD_EQ(pe, gshmem_my_pe(), pe.me());
}
