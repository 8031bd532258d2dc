// Misuse of symmetric memory: calls that differ between PEs, and addresses that are not an
// allocation.
#include "tests/spmd/bad_input/children.h"

#include <catch2/catch.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>
#include <thread>

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

void expect(int code, const std::vector<std::string>& parts,
            const std::function<void(const Runtime&)>& misuse, const Environment& more = {}) {
  for (const gshmemx_fault_t& fault : faults_after(2, quick(more), misuse)) {
    CHECK(fault.code == code);
    INFO(fault.message);
    for (const std::string& part : parts) CHECK(contains(fault.message, part));
  }
}

void need_null(const void* p) {
  if (p) throw std::runtime_error("expected null");
}

constexpr int kSymmetry = GSHMEMX_ERROR_SYMMETRY;

}  // namespace

TEST_CASE("malloc_of_different_sizes_is_a_fault_on_all_that_names_both") {
  expect(kSymmetry, {"gshmem_malloc: argument size differs: PE 0 passed 100, PE 1 200"},
         [](const Runtime& r) { need_null(gshmem_malloc(r.my_pe() == 0 ? 100 : 200)); });
  expect(kSymmetry, {"gshmem_malloc: argument size differs: PE 0 passed 0, PE 1 200"},
         [](const Runtime& r) { need_null(gshmem_malloc(r.my_pe() == 0 ? 0 : 200)); });
  expect(kSymmetry, {"gshmem_align: argument alignment differs: PE 0 passed 64, PE 1 128"},
         [](const Runtime& r) { need_null(gshmem_align(r.my_pe() == 0 ? 64 : 128, 100)); });
  expect(kSymmetry, {"gshmem_calloc: count * size differs: PE 0 passed 100, PE 1 200"},
         [](const Runtime& r) { need_null(gshmem_calloc(r.my_pe() == 0 ? 10 : 20, 10)); });
  for (const std::size_t other : {std::size_t{0}, std::size_t{200}}) {
    expect(
        kSymmetry,
        {"gshmem_realloc: argument size differs: PE 0 passed 100, PE 1 " + std::to_string(other)},
        [=](const Runtime& r) {
          need_null(gshmem_realloc(gshmem_malloc(64), r.my_pe() == 0 ? 100 : other));
        });
  }
}

TEST_CASE("collective_calls_that_differ_are_a_fault_that_names_both") {
  expect(kSymmetry, {"PE 0 called gshmem_malloc", "PE 1 called gshmem_free"}, [](const Runtime& r) {
    void* p = gshmem_malloc(64);
    if (r.my_pe() == 0)
      need_null(gshmem_malloc(64));
    else
      gshmem_free(p);
  });
  expect(kSymmetry, {"PE 0 called gshmem_malloc", "PE 1 called gshmem_calloc"},
         [](const Runtime& r) {
           need_null(r.my_pe() == 0 ? gshmem_malloc(64) : gshmem_calloc(1, 64));
         });
}

namespace {

/// Calls collectives that differ between two PEs.
void differing_collectives_are_named(const Environment& more) {
  using Collective = int (*)(int* dest, const int* source, std::size_t nelems, int pe);
  const auto differ = [&more](const std::vector<std::string>& texts, Collective call,
                              std::size_t first, std::size_t second) {
    const auto misuse = [=](const Runtime& r) {
      constexpr std::size_t kMost = 60000;
      auto* dest = static_cast<int*>(gshmem_calloc(kMost, sizeof(int)));
      auto* source = static_cast<int*>(gshmem_calloc(kMost, sizeof(int)));
      if (call(dest, source, r.my_pe() == 0 ? first : second, r.my_pe()) == 0)
        throw std::runtime_error("expected a status");
    };
    bool one = false;
    for (const gshmemx_fault_t& fault : faults_after(2, quick(more), misuse)) {
      INFO(fault.message);
      // Over a network a member may hear of the other's fault before it compares.
      CHECK(
          (fault.code == kSymmetry || (!more.empty() && fault.code == GSHMEMX_ERROR_PEER_FAILED)));
      one = one || fault.code == kSymmetry;
      for (const std::string& text : texts) CHECK(contains(fault.message, text));
    }
    CHECK(one);
  };
  const Collective alltoall = [](int* dest, const int* source, std::size_t nelems, int) {
    return gshmem_int_alltoall(GSHMEM_TEAM_WORLD, dest, source, nelems);
  };
  const Collective reduce = [](int* dest, const int* source, std::size_t nelems, int) {
    return gshmem_int_sum_reduce(GSHMEM_TEAM_WORLD, dest, source, nelems);
  };
  const Collective inscan = [](int* dest, const int* source, std::size_t nelems, int) {
    return gshmem_int_sum_inscan(GSHMEM_TEAM_WORLD, dest, source, nelems);
  };
  const Collective broadcast_of_each = [](int* dest, const int* source, std::size_t nelems,
                                          int pe) {
    return gshmem_int_broadcast(GSHMEM_TEAM_WORLD, dest, source, nelems, pe);
  };
  const Collective two_operations = [](int* dest, const int* source, std::size_t nelems, int pe) {
    return pe == 0 ? gshmem_int_fcollect(GSHMEM_TEAM_WORLD, dest, source, nelems)
                   : gshmem_int_max_reduce(GSHMEM_TEAM_WORLD, dest, source, nelems);
  };
  const Collective two_operators = [](int* dest, const int* source, std::size_t nelems, int pe) {
    return pe == 0 ? gshmem_int_min_reduce(GSHMEM_TEAM_WORLD, dest, source, nelems)
                   : gshmem_int_max_reduce(GSHMEM_TEAM_WORLD, dest, source, nelems);
  };
  const Collective two_arrays = [](int* dest, const int* source, std::size_t nelems, int pe) {
    return gshmem_int_sum_reduce(GSHMEM_TEAM_WORLD, dest + 16 * pe, source, nelems);
  };
  const std::string bytes = "argument nelems is of ";
  differ({"gshmem_int_alltoall: " + bytes, "16", "4"}, alltoall, 1, 4);
  differ({"gshmem_int_alltoall: " + bytes, "16", "0"}, alltoall, 0, 4);
  differ({"gshmem_int_alltoall: " + bytes, "100000", "4"}, alltoall, 1, 25000);
  differ({"gshmem_int_sum_reduce: " + bytes, "12000", "120000"}, reduce, 3000, 30000);
  differ({"gshmem_int_sum_inscan: " + bytes, "4", "8"}, inscan, 1, 2);
  differ({"gshmem_int_broadcast: argument root = ", "differs from that of PE "}, broadcast_of_each,
         4, 4);
  differ({"gshmem_int_sum_reduce: argument dest is at heap offset 0x", "and on PE "}, two_arrays, 3,
         3);
  differ({"is in ", "fcollect", "max_reduce of int32"}, two_operations, 4, 4);
  differ({"is in ", "min_reduce of int32", "max_reduce of int32"}, two_operators, 4, 4);
}

}  // namespace

TEST_CASE("collectives_that_differ_between_members_are_a_fault_that_names_the_difference") {
  differing_collectives_are_named({});
}

TEST_CASE("collectives_that_differ_are_named_over_a_network_too") {
  differing_collectives_are_named({{"GSHMEM_P2P", "0"}, {"GSHMEM_NIC", "soft"}});
}

TEST_CASE("clearing_a_lock_that_nobody_holds_is_a_fault") {
  expect(GSHMEMX_ERROR_INVALID_VALUE, {"gshmem_clear_lock: argument lock = ", "no thread holds"},
         [](const Runtime&) {
           gshmem_clear_lock(static_cast<long*>(gshmem_calloc(1, sizeof(long))));
         });
}

TEST_CASE("free_of_different_blocks_is_a_fault") {
  expect(kSymmetry,
         {"gshmem_free: argument ptr differs: PE 0 passed heap offset 0, PE 1 heap offset 128"},
         [](const Runtime& r) {
           void* blocks[2] = {gshmem_malloc(64), gshmem_malloc(64)};
           gshmem_free(blocks[r.my_pe()]);
         });
}

// The offset 128 was taken for the alignment of an allocation, so that both PEs went on.
TEST_CASE("realloc_of_a_block_and_of_null_differ_on_all") {
  expect(kSymmetry,
         {"gshmem_realloc: argument ptr differs: PE 0 passed null, PE 1 heap offset 128"},
         [](const Runtime& r) {
           void* blocks[2] = {gshmem_malloc(64), gshmem_malloc(64)};
           need_null(gshmem_realloc(r.my_pe() == 0 ? nullptr : blocks[1], 100));
         });
}

TEST_CASE("unregistering_different_memory_is_an_error_that_names_both") {
  constexpr std::size_t kPages = 1 << 16;
  const auto outcomes = in_children(2, quick(), [](int rank) {
    const Runtime runtime;
    const int file = ::memfd_create("memory of a test", MFD_CLOEXEC);
    if (file < 0 || ::ftruncate(file, 2 * kPages) != 0) throw std::runtime_error("no memory");
    auto* const pages = static_cast<char*>(
        ::mmap(nullptr, 2 * kPages, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    void* const made[] = {gshmemx_buffer_register_symmetric(pages, kPages, 0),
                          gshmemx_buffer_register_symmetric(pages + kPages, kPages, 0)};
    const char* const heap = gshmemi_ambient()->state->heap;
    std::printf("status %d ", gshmemx_buffer_unregister_symmetric(made[rank], kPages));
    std::printf("where PE 0 passed offset %td, PE 1 offset %td\n",
                static_cast<char*>(made[0]) - heap, static_cast<char*>(made[1]) - heap);
  });
  for (const Outcome& outcome : outcomes) {
    INFO(outcome.output);
    const auto at = outcome.output.find("PE 0 passed", outcome.output.find("where "));
    REQUIRE(at != std::string::npos);
    const std::string what = outcome.output.substr(at, outcome.output.find('\n', at) - at);
    CHECK(contains(outcome.output, "status " + std::to_string(kSymmetry)));
    CHECK(contains(outcome.output, "arguments differ: " + what));
  }
}

TEST_CASE("double_free_is_a_fault") {
  expect(kInvalid, {"gshmem_free:", "argument ptr", "already freed"}, [](const Runtime&) {
    void* p = gshmem_malloc(64);
    gshmem_free(p);
    gshmem_free(p);
  });
}

TEST_CASE("free_of_an_address_that_was_not_allocated_is_a_fault") {
  expect(kInvalid, {"gshmem_free:", "argument ptr", "inside"},
         [](const Runtime&) { gshmem_free(static_cast<char*>(gshmem_malloc(640)) + 128); });
  expect(kInvalid, {"gshmem_free:", "argument ptr"},
         [](const Runtime&) { gshmem_free(static_cast<char*>(gshmem_malloc(640)) + 1); });
  expect(kInvalid, {"gshmem_free:", "argument ptr", "not in the symmetric heap"},
         [](const Runtime&) {
           int local = 0;
           gshmem_free(&local);
         });
  expect(kInvalid, {"gshmem_free:", "argument ptr", "not in the symmetric heap"},
         [](const Runtime&) {
           const auto& state = *gshmemi_ambient()->state;
           gshmem_free(state.heap + state.heap_bytes);
         });
  expect(kInvalid, {"gshmem_free:", "not in the symmetric heap"},
         [](const Runtime& r) { gshmem_free(gshmem_ptr(gshmem_malloc(64), 1 - r.my_pe())); });
  expect(kInvalid, {"gshmem_realloc:", "argument ptr", "not in the symmetric heap"},
         [](const Runtime&) {
           int local = 0;
           need_null(gshmem_realloc(&local, 100));
         });
  expect(kInvalid, {"gshmem_realloc:", "argument ptr"}, [](const Runtime&) {
    need_null(gshmem_realloc(static_cast<char*>(gshmem_malloc(640)) + 128, 100));
  });
}

TEST_CASE("bad_alignment_is_a_fault") {
  for (const std::size_t alignment :
       {std::size_t{0}, std::size_t{3}, std::size_t{24}, SIZE_MAX, (std::size_t{4} << 20) + 1}) {
    expect(kInvalid, {"gshmem_align:", "alignment = " + std::to_string(alignment)},
           [&](const Runtime&) { need_null(gshmem_align(alignment, 100)); });
  }
}

TEST_CASE("a_heap_with_room_for_the_largest_alignment_allocates_it") {
  const Outcome outcome = in_child(quick({{"GSHMEM_SYMMETRIC_SIZE", "1030M"}}), [] {
    const Runtime runtime;
    constexpr std::size_t kLargest = std::size_t{1} << 30;
    void* const aligned = gshmem_align(kLargest, 100);
    if (!aligned || reinterpret_cast<std::uintptr_t>(aligned) % kLargest != 0)
      throw std::runtime_error("no memory");
    need_null(gshmem_align(2 * kLargest, 100));
  });
  INFO(outcome.output);
  CHECK(outcome.code == 0);
}

TEST_CASE("allocation_without_enough_memory_is_null_and_logged") {
  const Outcome outcome =
      in_child(quick({{"GSHMEM_SYMMETRIC_SIZE", "2M"}, {"GSHMEM_SYMMETRIC_GROWTH", "0"}}), [] {
        const Runtime runtime;
        constexpr std::size_t kMore = std::size_t{64} << 20;
        need_null(gshmem_malloc(kMore));
        need_null(gshmem_calloc(SIZE_MAX / 2, 3));
        need_null(gshmem_align(std::size_t{1} << 40, 8));
        void* const some = gshmem_malloc(100);
        if (!some) throw std::runtime_error("no memory");
        need_null(gshmem_realloc(some, kMore));
        // The whole heap is not more than it has, and nothing is not, either.
        const std::size_t all = gshmemi_ambient()->state->heap_bytes - abi::kInternalBytes;
        if (gshmem_realloc(some, all) != some) throw std::runtime_error("it does not grow");
        gshmem_free(some);  // as before the failed call
        need_null(gshmem_malloc(0));
      });
  INFO(outcome.output);
  CHECK(outcome.code == 0);
  for (const char* text :
       {"WARN: gshmem_malloc: 67108864 bytes (64 MiB) requested of a heap of ",
        "WARN: gshmem_realloc: 67108864 bytes (64 MiB) requested of a heap of ",
        "WARN: gshmem_align: argument alignment = 1099511627776 is larger than that of the heap, ",
        "WARN: gshmem_calloc: the product of argument count = 9223372036854775807 and argument "
        "size = 3 overflows\n"})
    CHECK(contains(outcome.output, text));
  CHECK(times(outcome.output, "; raise GSHMEM_SYMMETRIC_SIZE") == 3);
}

TEST_CASE("malloc_against_the_finalize_of_another_pe_is_an_error") {
  const auto outcomes = in_children(2, quick(), [](int rank) {
    const Runtime runtime;
    if (rank == 0) std::printf("%p\n", gshmem_malloc(64));
  });
  INFO(outcomes[0].output);
  CHECK(outcomes[0].code == 0);
  CHECK(contains(outcomes[0].output,
                 "gshmem_malloc: collective calls differ: PE 0 called gshmem_malloc, PE 1 called "
                 "gshmem_finalize"));
}

TEST_CASE("malloc_that_the_others_never_make_is_a_timeout") {
  const auto faults = faults_after(2, quick({{"GSHMEM_TIMEOUT", "0.2"}}), [](const Runtime& r) {
    if (r.my_pe() == 0) need_null(gshmem_malloc(64));
  });
  CHECK(faults[0].code == GSHMEMX_ERROR_TIMEOUT);
  INFO(faults[0].message);
  CHECK(contains(faults[0].message, "gshmem_malloc"));
  CHECK(contains(faults[0].message, "PE 1"));
}

TEST_CASE("heaps_of_different_size_are_an_error_on_all") {
  const Outcome outcome = in_child(quick(), [] {
    gshmemx_thread_world_t* world = gshmemx_thread_world_create(2);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank) {
      threads.emplace_back([=] {
        gshmemx_init_attr_t attr = GSHMEMX_INIT_ATTR_INITIALIZER;
        (void)gshmemx_set_attr_thread_args(world, rank, &attr);
        attr.args.symmetric_size = static_cast<std::uint64_t>(rank + 1) << 20;
        std::printf("status %d\n", gshmemx_init_attr(GSHMEMX_INIT_THREAD_PES, &attr));
        print_fault();
      });
    }
    for (std::thread& thread : threads) thread.join();
    gshmemx_thread_world_destroy(world);
  });
  INFO(outcome.output);
  CHECK(outcome.code == 0);
  CHECK(contains(outcome.output, "status 4"));
  CHECK_FALSE(contains(outcome.output, "status 0"));
  CHECK(contains(outcome.output,
                 "is 1048576 bytes (1 MiB) on PE 0 and 2097152 bytes (2 MiB) on PE 1"));
}
