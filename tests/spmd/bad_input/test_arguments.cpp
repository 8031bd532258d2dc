// Bad arguments of calls that transfer data or wait: each is a fault that names the call, the
// argument and its value, the call has no effect, and the process continues with
// GSHMEM_FAULT=report.
#include "tests/patience.h"
#include "tests/spmd/bad_input/children.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <cstdio>

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

/// Each of two PEs makes `misuse(word)` with a symmetric array of 16 words; its fault has `code`
/// and all of `parts`. The words stay zero.
void expect(int code, const std::vector<std::string>& parts,
            const std::function<void(std::uint64_t*)>& misuse, const Environment& more = {}) {
  const auto faults = faults_after(2, quick(more), [&](const Runtime& runtime) {
    auto* words = static_cast<std::uint64_t*>(gshmem_calloc(16, 8));
    if (!words) throw std::runtime_error("no memory");
    misuse(words);
    for (int i = 0; i < 16; ++i) {
      const auto* mine = static_cast<const std::uint64_t*>(gshmem_ptr(words, runtime.my_pe()));
      if (mine[i] != 0) throw std::runtime_error("the call had an effect");
    }
  });
  for (const gshmemx_fault_t& fault : faults) {
    CHECK(fault.code == code);
    INFO(fault.message);
    for (const std::string& part : parts) CHECK(contains(fault.message, part));
  }
}

std::atomic<void*> nowhere{nullptr};  // the compiler warns about a constant

}  // namespace

TEST_CASE("bad_list_is_a_fault_that_names_the_piece_and_a_way_out") {
  expect(GSHMEMX_ERROR_INVALID_VALUE, {"gshmemx_putv: argument pieces[1].dest = ", "gshmem_malloc"},
         [](std::uint64_t* words) {
           const gshmemx_piece_t list[] = {{words, words + 1, 8}, {&words, words, 8}};
           gshmemx_putv(list, 2, 1);
         });
  expect(GSHMEMX_ERROR_INVALID_VALUE, {"argument npieces = ", "negative number -1"},
         [](std::uint64_t*) { gshmemx_getv(nullptr, SIZE_MAX, 1); });
}
TEST_CASE("a_pe_outside_of_the_team_of_a_context_is_a_fault") {
  const auto by_team = [](const std::function<void(gshmem_team_t, gshmem_ctx_t)>& misuse) {
    gshmem_team_t team = GSHMEM_TEAM_INVALID;
    gshmem_ctx_t ctx = GSHMEM_CTX_INVALID;
    gshmem_team_t column = GSHMEM_TEAM_INVALID;
    (void)gshmem_team_split_2d(GSHMEM_TEAM_WORLD, 1, nullptr, 0, &team, nullptr, 0, &column);
    if (gshmem_team_create_ctx(team, 0, &ctx) != 0) throw std::runtime_error("no context");
    misuse(team, ctx);
  };
  expect(kInvalid, {"gshmem_ctx_uint64_p:", "pe = 1", "[0, 1)"}, [&](std::uint64_t* words) {
    by_team([&](gshmem_team_t, gshmem_ctx_t ctx) { gshmem_ctx_uint64_p(ctx, words, 1, 1); });
  });
  expect(kInvalid, {"gshmem_ctx_uint64_g:", "pe = -1", "[0, 1)"}, [&](std::uint64_t* words) {
    by_team([&](gshmem_team_t, gshmem_ctx_t ctx) { (void)gshmem_ctx_uint64_g(ctx, words, -1); });
  });
  expect(kInvalid, {"gshmem_ctx_pe_quiet:", "pe = 1", "[0, 1)"}, [&](std::uint64_t*) {
    by_team([&](gshmem_team_t, gshmem_ctx_t ctx) {
      const int pes[] = {0, 1};
      gshmem_ctx_pe_quiet(ctx, pes, 2);
    });
  });
  expect(kInvalid, {"gshmem_ctx_uint64_p:", "argument team of ctx = "}, [&](std::uint64_t* words) {
    by_team([&](gshmem_team_t team, gshmem_ctx_t ctx) {
      gshmem_team_destroy(team);
      gshmem_ctx_uint64_p(ctx, words, 1, 0);
    });
  });
}

TEST_CASE("an_access_beyond_its_allocation_is_a_fault_that_names_it_and_the_next_one") {
  const auto leave = [](std::uint64_t* words) {
    const std::uint64_t zeros[20]{};
    if (!gshmem_malloc(40)) throw std::runtime_error("no memory");
    gshmem_uint64_put(words, zeros, 20, gshmem_my_pe());
  };
  expect(kInvalid,
         {"gshmem_uint64_put: argument dest = 0x", "(160 bytes): 32 bytes leave the allocation of ",
          "128 bytes at offset 0; it overlaps the allocation of 40 bytes at offset 128"},
         leave);
  expect(0, {}, leave, {{"GSHMEM_CHECK", "0"}});
  expect(kInvalid, {"gshmem_uint64_g:", "it begins at offset 128, where nothing is allocated"},
         [](std::uint64_t* words) { (void)gshmem_uint64_g(words + 16, 1); });
  expect(kInvalid, {"gshmem_uint64_atomic_fetch:", "begins after the allocation of 40 bytes"},
         [](std::uint64_t*) {
           auto* const five = static_cast<std::uint64_t*>(gshmem_malloc(40));
           (void)gshmem_uint64_atomic_fetch(five + 5, 1);
         });
}

TEST_CASE("pe_out_of_range_is_a_fault") {
  std::uint64_t one = 1;
  expect(kInvalid, {"gshmem_uint64_put:", "pe = -1", "[0, 2)"},
         [&](std::uint64_t* words) { gshmem_uint64_put(words, &one, 1, -1); });
  expect(kInvalid, {"gshmem_uint64_p:", "pe = 2", "[0, 2)"},
         [&](std::uint64_t* words) { gshmem_uint64_p(words, 1, 2); });
  expect(kInvalid, {"gshmem_uint64_g:", "pe = 1000000"},
         [&](std::uint64_t* words) { (void)gshmem_uint64_g(words, 1000000); });
  expect(kInvalid, {"gshmem_uint64_get_nbi:", "pe = 2"},
         [&](std::uint64_t* words) { gshmem_uint64_get_nbi(&one, words, 1, 2); });
  expect(kInvalid, {"gshmem_uint64_atomic_fetch_add:", "pe = -7"},
         [&](std::uint64_t* words) { (void)gshmem_uint64_atomic_fetch_add(words, 1, -7); });
  expect(kInvalid, {"gshmem_uint64_atomic_fetch_add_nbi:", "pe = 2"}, [&](std::uint64_t* words) {
    std::uint64_t old = 7;
    gshmem_uint64_atomic_fetch_add_nbi(&old, words, 1, 2);
    if (old != 7) throw std::runtime_error("the call had an effect");
  });
  expect(kInvalid, {"gshmemx_pe_quiet_block:", "pe = 2"},
         [&](std::uint64_t*) { gshmemx_pe_quiet_block(2); });
  expect(kInvalid, {"gshmemx_signal_op:", "pe = 2"},
         [&](std::uint64_t* words) { gshmemx_signal_op(words, 1, GSHMEM_SIGNAL_SET, 2); });
  expect(kInvalid, {"gshmem_uint64_put_signal:", "pe = 3"}, [&](std::uint64_t* words) {
    gshmem_uint64_put_signal(words, &one, 1, words + 1, 1, GSHMEM_SIGNAL_SET, 3);
  });
  expect(kInvalid, {"gshmemx_putmem_block:", "pe = 2"},
         [&](std::uint64_t* words) { gshmemx_putmem_block(words, &one, 8, 2); });
  expect(kInvalid, {"gshmem_iput64:", "pe = 2"},
         [&](std::uint64_t* words) { gshmem_iput64(words, &one, 1, 1, 1, 2); });
  // The range is checked before the empty transfer.
  expect(kInvalid, {"gshmem_putmem:", "pe = 2"},
         [&](std::uint64_t* words) { gshmem_putmem(words, &one, 0, 2); });
  expect(kInvalid, {"gshmem_iput64:", "pe = 2"},
         [&](std::uint64_t* words) { gshmem_iput64(words, &one, 1, 1, 0, 2); });
}

TEST_CASE("burst_with_bad_arguments_is_a_fault") {
  std::uint64_t one = 1;
  expect(kInvalid, {"Burst:", "pe = 2", "[0, 2)"}, [&](std::uint64_t* words) {
    Burst burst(context(), Thread{}, 2);
    burst.put_nbi(words, &one, 1);
    burst.p(words, 1);
    burst.signal({words, 1});
  });
  expect(kInvalid, {"Burst::put_nbi:", "argument dest"},
         [&](std::uint64_t*) { Burst(context(), Thread{}, 1).put_nbi(&one, &one, 1); });
  expect(kInvalid, {"Burst::put_nbi:", "nelems = 4611686018427387904", "overflow"},
         [&](std::uint64_t* words) {
           Burst(context(), Thread{}, 1).put_nbi(words, &one, std::size_t{1} << 62);
         });
  expect(kInvalid, {"Burst::put_nbi:", "argument source = 0x0 is null"}, [&](std::uint64_t* words) {
    Burst(context(), Thread{}, 1)
        .put_nbi(words, static_cast<const std::uint64_t*>(nowhere.load()), 1);
  });
  expect(kInvalid, {"Burst::signal:", "argument sig_addr", "not aligned to 8 bytes"},
         [&](std::uint64_t* words) {
           auto* at = reinterpret_cast<std::uint64_t*>(reinterpret_cast<char*>(words) + 4);
           Burst(context(), Thread{}, 1).signal({at, 1});
         });
  expect(kInvalid, {"Burst::p:", "argument dest"},
         [&](std::uint64_t*) { Burst(context(), Thread{}, 1).p(&one, 1); });
  expect(kInvalid, {"Burst::signal:", "argument sig_addr"}, [&](std::uint64_t*) {
    Burst(context(), Thread{}, 1).signal({&one, 1});
  });
  expect(kInvalid, {"Burst::signal:", "sig_op = 7"}, [&](std::uint64_t* words) {
    Burst(context(), Thread{}, 1).signal({words, 1, static_cast<Signal::Op>(7)});
  });
}

TEST_CASE("faults_of_typed_calls_name_the_call_and_the_argument") {
  // Features that the C functions lack: other types, and no name of their own.
  struct Pair {
    std::int32_t a, b;
  };
  std::uint64_t one = 1;
  const auto by_context = [](const std::vector<std::string>& parts,
                             const std::function<void(const Context&, std::uint64_t*)>& misuse) {
    expect(kInvalid, parts, [&](std::uint64_t* words) { misuse(context(), words); });
  };
  by_context({"put: argument source = 0x0 is null, where 16 bytes"}, [](auto pe, auto* words) {
    pe.put(Thread{}, reinterpret_cast<Pair*>(words), static_cast<const Pair*>(nowhere.load()), 2,
           1);
  });
  by_context({"get: argument dest = 0x0 is null"}, [](auto pe, auto* words) {
    pe.get(Block{}, static_cast<std::uint64_t*>(nowhere.load()), words, 2, 1);
  });
  by_context({"iput: argument sst = 0 "}, [&](auto pe, auto* words) {
    pe.iput(Warp{}, words, &one, {1, 0, 2}, 1);
  });
  by_context({"iget: argument dest = 0x0 is null"}, [](auto pe, auto* words) {
    pe.iget(Thread{}, static_cast<std::uint64_t*>(nowhere.load()), words, {1, 1, 2}, 1);
  });
  by_context({"p: argument dest = 0x", "4 is not aligned to 8 bytes"}, [](auto pe, auto* words) {
    pe.p(reinterpret_cast<std::uint64_t*>(reinterpret_cast<char*>(words) + 4), 1, 1);
  });
  by_context({"atomic_fetch_add: argument dest = 0x", "4 is not aligned to 8 bytes"},
             [](auto pe, auto* words) {
               (void)pe.atomic_fetch_add(
                   reinterpret_cast<std::uint64_t*>(reinterpret_cast<char*>(words) + 4), 1, 1);
             });
  by_context({"put_signal: argument sig_addr = 0x", "is in the payload"},
             [&](auto pe, auto* words) {
               pe.put_signal(Thread{}, words, &one, 1, {words, 1}, 1);
             });
  by_context({"signal: argument sig_op = 0 "}, [](auto pe, auto* words) {
    pe.signal({words, 1, static_cast<Signal::Op>(0)}, 1);
  });
  by_context({"signal_wait_until: argument sig_addr = 0x1 is not aligned"}, [](auto pe, auto*) {
    (void)pe.signal_wait_until(reinterpret_cast<const std::uint64_t*>(1), Cmp::kEq, 0);
  });
  by_context({"wait_until: argument cmp = 17 "},
             [](auto pe, auto* words) { pe.wait_until(words, static_cast<Cmp>(17), 0); });
  by_context({"test: argument ivar = 0x"},
             [&](auto pe, auto*) { (void)pe.test(&one, Cmp::kEq, 1); });
  by_context({"on: argument ctx = 77 is not open"}, [](auto pe, auto*) { (void)pe.on(77); });
}

TEST_CASE("elements_that_an_array_does_not_have_are_not_copied") {
  const Outcome outcome = in_child(quick(), [] {
    const Runtime runtime;
    SymmetricArray<int> array(4);
    std::vector<int> five(5, 1);
    const auto refused = [](const auto& call) {
      try {
        call();
      } catch (const Failure& failure) {
        std::printf("%d %s\n", failure.code(), failure.what());
      }
    };
    refused([&] { array.write(five, 0); });
    refused([&] { array.read(five, 0); });
    refused([&] { array.read(std::span(five).first(1), 0, 4); });
    refused([&] { array.read(std::span(five).first(1), 0, SIZE_MAX); });
    array.read(std::span(five).first(0), 0, 4);
    array.write(std::span<const int>(five).first(4), 0);
    std::printf("left %d\n", array.to_vector(0)[3]);
  });
  INFO(outcome.output);
  CHECK(outcome.code == 0);
  const std::string invalid = std::to_string(kInvalid) + " SymmetricArray::";
  CHECK(contains(outcome.output, invalid + "write: 5 elements, argument first = 0, of 4\n"));
  CHECK(contains(outcome.output, invalid + "read: 5 elements, argument first = 0, of 4\n"));
  CHECK(contains(outcome.output, invalid + "read: 1 elements, argument first = 4, of 4\n"));
  CHECK(contains(outcome.output, "argument first = 18446744073709551615, of 4\nleft 1\n"));
}

TEST_CASE("context_that_is_not_open_is_a_fault") {
  const auto destroyed = [] {
    gshmem_ctx_t ctx = GSHMEM_CTX_INVALID;
    if (gshmem_ctx_create(0, &ctx) != 0) throw std::runtime_error("no context");
    gshmem_ctx_destroy(ctx);
    return ctx;
  };
  std::uint64_t one = 1;
  expect(kInvalid, {"gshmem_ctx_uint64_put:", "argument ctx = ", "not open"},
         [&](std::uint64_t* words) { gshmem_ctx_uint64_put(destroyed(), words, &one, 1, 0); });
  expect(kInvalid, {"gshmem_ctx_uint64_atomic_fetch_add: argument ctx = -1 is GSHMEM_CTX_INVALID"},
         [&](std::uint64_t* words) {
           (void)gshmem_ctx_uint64_atomic_fetch_add(GSHMEM_CTX_INVALID, words, 1, 0);
         });
  expect(kInvalid, {"gshmemx_ctx_putmem_block:", "argument ctx = 77", "not open"},
         [&](std::uint64_t* words) { gshmemx_ctx_putmem_block(77, words, &one, 8, 0); });
  expect(kInvalid, {"gshmem_ctx_quiet:", "argument ctx = ", "not open"},
         [&](std::uint64_t*) { gshmem_ctx_quiet(destroyed()); });
  expect(kInvalid, {"gshmemx_qp_uint64_p:", "argument qp = ", "not open"},
         [&](std::uint64_t* words) { gshmemx_qp_uint64_p(words, 1, 0, destroyed()); });
  expect(kInvalid, {"gshmemx_qp_quiet:", "argument qp = ", "not open"}, [&](std::uint64_t*) {
    gshmemx_qp_handle_t qps[] = {GSHMEMX_QP_DEFAULT, destroyed()};
    gshmemx_qp_quiet(GSHMEMX_PE_ALL, qps, 2);
  });
  expect(kInvalid, {"gshmemx_qp_fence:", "pe = 2", "[0, 2)"}, [&](std::uint64_t*) {
    gshmemx_qp_handle_t qp = GSHMEMX_QP_DEFAULT;
    gshmemx_qp_fence(2, &qp, 1);
  });
  expect(kInvalid, {"gshmemx_qp_quiet:", "argument num_qps = -3"},
         [&](std::uint64_t*) { gshmemx_qp_quiet(GSHMEMX_PE_ALL, nullptr, -3); });
  expect(kInvalid, {"gshmem_ctx_session_start:", "argument ctx = ", "not open"},
         [&](std::uint64_t*) { gshmem_ctx_session_start(destroyed(), 0, nullptr, 0); });
  expect(kInvalid, {"gshmem_ctx_session_stop:", "argument ctx = ", "not open"},
         [&](std::uint64_t*) { gshmem_ctx_session_stop(destroyed()); });
  expect(kInvalid, {"gshmem_ctx_session_start:", "argument options = 6 "},
         [](std::uint64_t*) { gshmem_ctx_session_start(GSHMEM_CTX_DEFAULT, 6, nullptr, 0); });
  expect(kInvalid, {"gshmem_ctx_session_start:", "argument config is null"}, [](std::uint64_t*) {
    gshmem_ctx_session_start(GSHMEM_CTX_DEFAULT, 0, nullptr, GSHMEM_CTX_SESSION_TOTAL_OPS);
  });
  expect(kInvalid, {"gshmem_ctx_session_start:", "argument config_mask = 2 "},
         [](std::uint64_t*) { gshmem_ctx_session_start(GSHMEM_CTX_DEFAULT, 0, nullptr, 2); });
  expect(kInvalid, {"gshmem_ctx_destroy:", "argument ctx = ", "no open context"},
         [&](std::uint64_t*) { gshmem_ctx_destroy(destroyed()); });
  expect(kInvalid,
         {"gshmem_ctx_destroy: argument ctx = 1 is the default context (GSHMEM_CTX_DEFAULT)"},
         [&](std::uint64_t*) { gshmem_ctx_destroy(GSHMEM_CTX_DEFAULT); });
  expect(kInvalid, {"gshmem_ctx_int_p:", "pe = 2", "[0, 2)"}, [&](std::uint64_t* words) {
    gshmem_ctx_t ctx = GSHMEM_CTX_INVALID;
    if (gshmem_ctx_create(0, &ctx) != 0) throw std::runtime_error("no context");
    gshmem_ctx_int_p(ctx, reinterpret_cast<int*>(words), 1, 2);
  });
}

TEST_CASE("address_that_is_not_symmetric_is_a_fault") {
  std::uint64_t local = 0, other = 0;
  expect(kInvalid, {"gshmem_uint64_put:", "argument dest", "symmetric heap"},
         [&](std::uint64_t*) { gshmem_uint64_put(&local, &other, 1, 0); });
  expect(kInvalid, {"gshmem_uint64_get:", "argument source", "symmetric heap"},
         [&](std::uint64_t*) { gshmem_uint64_get(&local, &other, 1, 0); });
  expect(kInvalid, {"gshmem_uint64_p:", "argument dest = 0x0"},
         [&](std::uint64_t*) { gshmem_uint64_p(nullptr, 1, 0); });
  expect(kInvalid, {"gshmem_uint64_atomic_add:", "argument dest"},
         [&](std::uint64_t*) { gshmem_uint64_atomic_add(&local, 1, 0); });
  expect(kInvalid, {"gshmem_putmem_signal:", "argument sig_addr"}, [&](std::uint64_t* words) {
    gshmem_putmem_signal(words, &other, 8, &local, 1, GSHMEM_SIGNAL_SET, 0);
  });
  expect(kInvalid, {"gshmem_signal_wait_until:", "argument sig_addr"},
         [&](std::uint64_t*) { (void)gshmem_signal_wait_until(&local, GSHMEM_CMP_EQ, 0); });
  expect(kInvalid, {"gshmem_signal_fetch:", "argument sig_addr"},
         [&](std::uint64_t*) { (void)gshmem_signal_fetch(&local); });
  expect(kInvalid, {"gshmem_uint64_wait_until:", "argument ivar"},
         [&](std::uint64_t*) { gshmem_uint64_wait_until(&local, GSHMEM_CMP_EQ, 1); });
  expect(kInvalid, {"gshmem_uint64_test_any:", "argument ivars"}, [&](std::uint64_t*) {
    (void)gshmem_uint64_test_any(&local, 1, nullptr, GSHMEM_CMP_EQ, 1);
  });
  // Another PE's heap is mapped here, but its addresses are valid on that PE only.
  expect(kInvalid, {"gshmem_uint64_p:", "argument dest"}, [&](std::uint64_t* words) {
    gshmem_uint64_p(static_cast<std::uint64_t*>(gshmem_ptr(words, 1 - gshmem_my_pe())), 1, 0);
  });
  // The library's own part of the heap.
  expect(kInvalid, {"gshmem_uint64_p:", "argument dest"}, [&](std::uint64_t*) {
    gshmem_uint64_p(reinterpret_cast<std::uint64_t*>(gshmemi_ambient()->state->heap), 1, 0);
  });
}

TEST_CASE("transfer_beyond_the_heap_is_a_fault") {
  std::vector<std::uint8_t> data(3 << 20);
  expect(kInvalid, {"gshmem_putmem:", "argument dest", "3145728 bytes"},
         [&](std::uint64_t* words) { gshmem_putmem(words, data.data(), data.size(), 0); });
  expect(kInvalid, {"gshmem_getmem:", "argument source"},
         [&](std::uint64_t* words) { gshmem_getmem(data.data(), words, data.size(), 0); });
  expect(kInvalid, {"gshmem_uint64_iput:", "argument dest"},
         [&](std::uint64_t* words) { gshmem_uint64_iput(words, words, 1 << 20, 1, 3, 0); });
}

TEST_CASE("collect_beyond_the_heap_is_a_fault_of_the_member_whose_part_it_is") {
  const auto faults = faults_after(2, quick({{"GSHMEM_TIMEOUT", "2"}}), [](const Runtime&) {
    const abi::DeviceState& state = *gshmemi_ambient()->state;
    auto* const words = static_cast<char*>(gshmem_calloc(16, 8));
    const auto room = static_cast<std::size_t>(state.heap + state.heap_bytes - words);
    (void)gshmem_collectmem(GSHMEM_TEAM_WORLD, words, words, room / 3 * 2);
  });
  CHECK(faults[0].code != 0);  // of the PE that waited
  CHECK(faults[1].code == kInvalid);
  INFO(faults[1].message);
  CHECK(contains(faults[1].message, "gshmem_collectmem: argument dest"));
}

TEST_CASE("size_that_overflows_is_a_fault") {
  std::uint64_t local = 0;
  expect(kInvalid, {"gshmem_uint64_put:", "nelems = 9223372036854775807", "overflow"},
         [&](std::uint64_t* words) { gshmem_uint64_put(words, &local, SIZE_MAX / 2, 0); });
  expect(kInvalid, {"gshmem_get128:", "nelems"},
         [&](std::uint64_t* words) { gshmem_get128(&local, words, SIZE_MAX / 8, 0); });
  expect(kInvalid, {"gshmem_uint64_test_all:", "nelems"}, [&](std::uint64_t* words) {
    (void)gshmem_uint64_test_all(words, SIZE_MAX / 4, nullptr, GSHMEM_CMP_EQ, 1);
  });
  expect(kInvalid, {"gshmem_uint64_iput:", "nelems"}, [&](std::uint64_t* words) {
    gshmem_uint64_iput(words, &local, 1 << 20, 1, std::size_t{1} << 50, 0);
  });
  // One-byte elements overflow by the stride alone.
  expect(kInvalid, {"gshmem_uint8_iput:", "nelems"}, [&](std::uint64_t* words) {
    auto* bytes = reinterpret_cast<std::uint8_t*>(words);
    gshmem_uint8_iput(bytes, bytes, 4, 1, SIZE_MAX / 2, 0);
  });
}

TEST_CASE("stride_below_one_is_a_fault") {
  std::uint64_t local[4] = {};
  expect(kInvalid, {"gshmem_uint64_iput:", "dst = 0", "at least 1"},
         [&](std::uint64_t* words) { gshmem_uint64_iput(words, local, 0, 1, 2, 0); });
  expect(kInvalid, {"gshmem_uint64_iget:", "sst = -1"},
         [&](std::uint64_t* words) { gshmem_uint64_iget(local, words + 4, 1, -1, 2, 0); });
  // The side that may be any memory is checked, too: the call would access memory outside.
  expect(kInvalid, {"gshmem_uint64_iput:", "sst = -1"},
         [&](std::uint64_t* words) { gshmem_uint64_iput(words, local + 3, 1, -1, 4, 0); });
  expect(kInvalid, {"gshmem_uint64_iget:", "dst = 0"},
         [&](std::uint64_t* words) { gshmem_uint64_iget(local, words, 0, 1, 2, 0); });
}

TEST_CASE("unknown_sig_op_is_a_fault") {
  std::uint64_t local = 5;
  expect(kInvalid, {"gshmemx_signal_op:", "sig_op = 7"},
         [&](std::uint64_t* words) { gshmemx_signal_op(words, 1, 7, 0); });
  expect(kInvalid, {"gshmem_putmem_signal:", "sig_op = 0"},
         [&](std::uint64_t* words) { gshmem_putmem_signal(words, &local, 8, words + 1, 1, 0, 0); });
}

TEST_CASE("unknown_comparison_is_a_fault") {
  expect(kInvalid, {"gshmem_uint64_wait_until:", "cmp = 6"},
         [&](std::uint64_t* words) { gshmem_uint64_wait_until(words, 6, 1); });
  expect(kInvalid, {"gshmem_uint64_test:", "cmp = 100"},
         [&](std::uint64_t* words) { (void)gshmem_uint64_test(words, 100, 1); });
  expect(kInvalid, {"gshmem_signal_wait_until:", "cmp = -1"},
         [&](std::uint64_t* words) { (void)gshmem_signal_wait_until(words, -1, 1); });
  expect(kInvalid, {"gshmem_uint64_wait_until_all_vector:", "cmp"}, [&](std::uint64_t* words) {
    gshmem_uint64_wait_until_all_vector(words, 1, nullptr, 99, words);
  });
}

TEST_CASE("wait_that_never_comes_true_is_a_timeout") {
  const Environment soon{{"GSHMEM_TIMEOUT", "0.2"}};
  const int timeout = GSHMEMX_ERROR_TIMEOUT;
  const auto faults = faults_after(1, quick(soon), [](const Runtime&) {
    SymmetricArray<std::uint64_t> word(1);
    gshmem_uint64_wait_until(word.data(), GSHMEM_CMP_EQ, 1);
  });
  INFO(faults[0].message);
  CHECK(faults[0].code == timeout);
  double waited = 0, limit = 0;
  CHECK(std::sscanf(faults[0].message,
                    "gshmem_uint64_wait_until: waited %lf s, longer than GSHMEM_TIMEOUT=%lf allows",
                    &waited, &limit) == 2);
  CHECK(waited >= limit);
  CHECK(waited < 60 * gshmem::test::kPatience);
  CHECK(limit == 0.2);
  expect(
      timeout, {"gshmem_signal_wait_until:"},
      [&](std::uint64_t* words) { (void)gshmem_signal_wait_until(words, GSHMEM_CMP_EQ, 1); }, soon);
  expect(
      timeout, {"gshmem_uint64_wait_until_all:"},
      [&](std::uint64_t* words) {
        gshmem_uint64_wait_until_all(words, 2, nullptr, GSHMEM_CMP_EQ, 1);
      },
      soon);
  expect(
      timeout, {"gshmem_uint64_wait_until_some_vector:"},
      [&](std::uint64_t* words) {
        const std::uint64_t values[2] = {1, 1};
        std::size_t found[2];
        (void)gshmem_uint64_wait_until_some_vector(words, 2, found, nullptr, GSHMEM_CMP_EQ, values);
      },
      soon);
}

TEST_CASE("barrier_without_the_others_is_a_timeout") {
  for (const bool sync : {false, true}) {
    const auto faults = faults_after(2, quick({{"GSHMEM_TIMEOUT", "0.2"}}), [&](const Runtime& r) {
      if (r.my_pe() == 1) return;
      if (sync)
        gshmem_sync_all();
      else
        gshmem_barrier_all();
    });
    CHECK(faults[0].code == GSHMEMX_ERROR_TIMEOUT);
    CHECK(contains(faults[0].message, sync ? "gshmem_sync_all:" : "gshmem_barrier_all:"));
    CHECK(faults[1].code == GSHMEMX_SUCCESS);
  }
}

TEST_CASE("split_without_a_member_is_a_timeout_that_names_it") {
  const auto faults = faults_after(3, quick({{"GSHMEM_TIMEOUT", "0.2"}}), [&](const Runtime& r) {
    if (r.my_pe() == 2) return;
    gshmem_team_t team = GSHMEM_TEAM_INVALID;
    (void)gshmem_team_split_strided(GSHMEM_TEAM_WORLD, 0, 1, 3, nullptr, 0, &team);
  });
  for (const std::size_t pe : {0u, 1u}) {
    INFO(faults[pe].message);
    CHECK(faults[pe].code == GSHMEMX_ERROR_TIMEOUT);
    CHECK(faults[pe].pe == 2);
  }
}

TEST_CASE("fault_in_a_launch_is_the_pe_s_fault") {
  const auto faults = faults_after(2, quick({{"GSHMEM_TIMEOUT", "2"}}), [](const Runtime&) {
    launch(
        {.blocks = 1, .threads = 4},
        [](const LaunchContext& ctx, int pe) {
          int local = 0;
          ctx.put(ctx.warp(), &local, &local, 1, pe);
        },
        5);
  });
  for (const gshmemx_fault_t& fault : faults) {
    CHECK(fault.code == kInvalid);
    CHECK(contains(fault.message, "put: argument pe = 5"));
  }
}

TEST_CASE("shared_memory_other_than_the_given_one_is_a_fault") {
  alignas(16) static char memory[1024];
  expect(kInvalid, {"gshmemx_give_smem: argument smem = 0x", "release that first"},
         [&](std::uint64_t*) {
           gshmemx_give_smem(memory, 256);
           gshmemx_give_smem(memory + 512, 256);
         });
  expect(kInvalid, {"gshmemx_give_smem: argument size = 127 is less than 128"},
         [&](std::uint64_t*) { gshmemx_give_smem(memory, 127); });
  expect(kInvalid, {"gshmemx_ask_smem: argument flag = 3 is not one of the GSHMEMX_SMEM"},
         [&](std::uint64_t*) { (void)gshmemx_ask_smem(3); });
}

TEST_CASE("destroying_a_predefined_or_destroyed_team_is_a_fault") {
  for (const gshmem_team_t team : {static_cast<gshmem_team_t>(GSHMEM_TEAM_WORLD),
                                   static_cast<gshmem_team_t>(GSHMEM_TEAM_SHARED)}) {
    expect(kInvalid,
           {"gshmem_team_destroy: argument team = " + std::to_string(team),
            " is a predefined team, which cannot be destroyed"},
           [&](std::uint64_t*) { gshmem_team_destroy(team); });
  }
  expect(kInvalid, {"gshmem_team_destroy: argument team = 77 is not a team"},
         [](std::uint64_t*) { gshmem_team_destroy(77); });
  expect(kInvalid, {"gshmem_team_destroy: argument team = ", " is not a team"}, [](std::uint64_t*) {
    gshmem_team_t team = GSHMEM_TEAM_INVALID;
    (void)gshmem_team_split_strided(GSHMEM_TEAM_WORLD, 0, 1, 2, nullptr, 0, &team);
    gshmem_team_destroy(team);
    if (gshmemx_last_fault(nullptr) != 0) throw std::runtime_error("it was there");
    gshmem_team_destroy(team);
  });
}

TEST_CASE("teams_of_nvshmem_without_an_equivalent_and_handles_next_to_them_are_refused") {
  for (const gshmem_team_t team : {4, 6}) {
    const std::string argument = "argument team = " + std::to_string(team) + " is not a team";
    expect(kInvalid, {"gshmem_team_sync: " + argument},
           [&](std::uint64_t*) { (void)gshmem_team_sync(team); });
    expect(kInvalid, {"gshmem_uint64_sum_reduce: " + argument},
           [&](std::uint64_t* object) { (void)gshmem_uint64_sum_reduce(team, object, object, 1); });
  }
  for (const gshmem_team_t team : {-2, 7}) {
    expect(kInvalid,
           {"gshmem_team_n_pes: argument team = " + std::to_string(team) + " is not a team"},
           [&](std::uint64_t*) { (void)gshmem_team_n_pes(team); });
  }
}

TEST_CASE("splits_on_which_members_disagree_or_that_leave_the_parent_are_errors") {
  const auto split = [](int start, int stride, int size) {
    gshmem_team_t team = GSHMEM_TEAM_INVALID;
    return gshmem_team_split_strided(GSHMEM_TEAM_WORLD, start, stride, size, nullptr, 0, &team);
  };
  const Outcome outcome = in_child(quick(), [&] {
    run_threads(2, [&](const Runtime& runtime) {
      std::printf("status %d\n", split(1, 1, 2));
      std::printf("status %d\n", split(0, 0, 2));
      std::printf("differs %d\n", split(runtime.my_pe(), 1, 1));
      // Other calls: one that splits it, and one that destroys it.
      gshmem_team_t team = GSHMEM_TEAM_INVALID, x = team, y = team;
      (void)gshmem_team_split_strided(GSHMEM_TEAM_WORLD, 0, 1, 2, nullptr, 0, &team);
      const bool first = runtime.my_pe() == 0;
      std::printf("differs %d\n",
                  first ? gshmem_team_split_2d(team, 1, nullptr, 0, &x, nullptr, 0, &y)
                        : gshmem_team_split_strided(team, 1, 0, 0, nullptr, 0, &x));
      if (first) {
        gshmem_team_destroy(team);
        print_fault();
      } else {
        std::printf("differs %d\n", gshmem_team_split_2d(team, 1, nullptr, 0, &x, nullptr, 0, &y));
      }
    });
  });
  const std::string another = ": another member of the team is in another call on it";
  for (const char* call : {"gshmem_team_split_strided", "gshmem_team_split_2d"})
    CHECK(contains(outcome.output, call + another));
  CHECK(contains(outcome.output, "fault " + std::to_string(GSHMEMX_ERROR_SYMMETRY) +
                                     " -1 gshmem_team_destroy" + another));
  INFO(outcome.output);
  CHECK(outcome.code == 0);
  CHECK(
      contains(outcome.output,
               "gshmem_team_split_strided: argument stride = 1 makes PE 2 the last of start = 1"));
  CHECK(
      contains(outcome.output,
               "gshmem_team_split_strided: argument stride = 0 makes PE 0 the last of start = 0"));
  CHECK(contains(outcome.output, "gshmem_team_split_strided: argument start = 1 differs between"));
  CHECK_FALSE(contains(outcome.output, "status 0"));
  CHECK_FALSE(contains(outcome.output, "differs 0"));
}

TEST_CASE("fault_ends_the_process_by_default") {
  const Outcome put = in_child(quick({{"GSHMEM_FAULT", "abort"}}), [] {
    run_threads(2, [](const Runtime&) {
      auto* word = static_cast<int*>(gshmem_malloc(4));
      gshmem_barrier_all();
      gshmem_int_p(word, 1, 9);
      std::puts("still here");
    });
  });
  CHECK(put.code == 1);
  INFO(put.output);
  CHECK(contains(put.output, "gshmem_int_p: argument pe = 9 is out of range [0, 2)"));
  CHECK(contains(put.output, "GSHMEM_FAULT=abort"));
  CHECK_FALSE(contains(put.output, "still here"));

  const Outcome wait = in_child(quick({{"GSHMEM_FAULT", "abort"}, {"GSHMEM_TIMEOUT", "0.2"}}), [] {
    const Runtime runtime;
    auto* word = static_cast<int*>(gshmem_calloc(1, 4));
    gshmem_int_wait_until(word, GSHMEM_CMP_EQ, 1);
    std::puts("still here");
  });
  CHECK(wait.code == 1);
  INFO(wait.output);
  CHECK(contains(wait.output, "gshmem_int_wait_until: waited"));
  CHECK_FALSE(contains(wait.output, "still here"));
}
