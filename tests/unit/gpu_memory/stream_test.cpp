// Tests what calls on a stream put into it: the one intended launch or copy, in that stream only,
// without waiting. Tests their errors, too.
#include <gshmem/abi/order_shadow.h>
#include <gshmem/gshmem.hpp>

#include "host/base/cuda_driver.h"
#include "host/runtime/gpu/list_kernel.h"
#include "tests/unit/gpu_memory/four_gpus.h"

#include <catch2/catch.hpp>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

extern "C" int gshmemi_note_calls(void);

using namespace gshmem;
using device::CallKind;
using test::cuda_double, test::heaps;

namespace {

constexpr int kGpu = 2;

gshmemx_stream_t stream(int device, bool captured = false) {
  return static_cast<gshmemx_stream_t>(test::cuda_double_stream(device, captured));
}

/// A job of one PE on one of four GPUs.
class Job {
 public:
  explicit Job(bool reaches_all = false, bool no_pools = false)
      : runtime_(start(reaches_all, no_pools)), memory_(3 << 20) {}
  [[nodiscard]] char* at(std::size_t bytes) { return memory_.data() + bytes; }
  template <class T>
  [[nodiscard]] T* as(std::size_t bytes) {
    return reinterpret_cast<T*>(at(bytes));
  }
  /// Returns what `call` has put into streams.
  template <class Call>
  std::vector<test::InStream> left_by(const Call& call) {
    heaps().in_streams.clear();
    const std::uint64_t waits = cuda_double().waits;
    call(stream(kGpu));
    CHECK(cuda_double().waits == waits);
    for (const test::InStream& one : heaps().in_streams) CHECK(one.stream == stream(kGpu));
    return heaps().in_streams;
  }

 private:
  static Runtime start(bool reaches_all, bool no_pools) {
    heaps().reset();
    heaps().no_pools = no_pools;
    heaps().reaches_all = reaches_all;
    heaps().gpus = 4;
    cuda_double().reset();
    for (const auto& [name, value] :
         std::map<std::string, std::string>{{"GSHMEM_DEVICE", "cuda"},
                                            {"GSHMEM_NIC", "none"},
                                            {"GSHMEM_FAULT", "report"},
                                            {"GSHMEM_BOOTSTRAP", "single"},
                                            {"GSHMEM_SYMMETRIC_SIZE", "8M"}})
      setenv(name.c_str(), value.c_str(), 1);
    gshmemx_init_attr_t attr = GSHMEMX_INIT_ATTR_INITIALIZER;
    attr.args.cuda_device_id = kGpu;
    return Runtime(GSHMEMX_INIT_DEFAULT, attr);
  }
  Runtime runtime_;
  SymmetricArray<char> memory_;
};

/// Returns the record of the only launch.
device::Call only_launch(const std::vector<test::InStream>& left, const std::string& name) {
  REQUIRE(left.size() == 1);
  REQUIRE(left[0].is_launch);
  CHECK(left[0].request.name == name);
  CHECK(left[0].request.answer == nullptr);
  CHECK(left[0].threads % 32 == 0);
  return left[0].request.call;
}

}  // namespace

TEST_CASE("synchronizing_calls_leave_one_launch_in_their_stream") {
  Job job;
  const auto quiet = only_launch(job.left_by(gshmemx_quiet_on_stream), "gshmemx_quiet_on_stream");
  CHECK(quiet.kind == CallKind::kQuiet);
  CHECK(quiet.context == nullptr);  // NULL is the context of host memory
  const auto barrier =
      only_launch(job.left_by(gshmemx_barrier_all_on_stream), "gshmemx_barrier_all_on_stream");
  CHECK((barrier.kind == CallKind::kBarrier && barrier.team == GSHMEM_TEAM_WORLD));
  const auto sync = only_launch(job.left_by([](gshmemx_stream_t s) {
    CHECK(gshmemx_team_sync_on_stream(GSHMEM_TEAM_SHARED, s) == 0);
  }),
                                "gshmemx_team_sync_on_stream");
  CHECK((sync.kind == CallKind::kSync && sync.team == GSHMEM_TEAM_SHARED));
}

TEST_CASE("signals_waits_and_elements_leave_one_launch_in_their_stream") {
  Job job;
  auto* const word = job.as<std::uint64_t>(64);
  const auto signal = only_launch(job.left_by([&](gshmemx_stream_t s) {
    gshmemx_signal_op_on_stream(word, 7, GSHMEM_SIGNAL_ADD, 0, s);
  }),
                                  "gshmemx_signal_op_on_stream");
  CHECK((signal.kind == CallKind::kSignal && signal.signal == word && signal.operand == 7 &&
         signal.op == device::AmoOp::kAdd));
  const auto wait = only_launch(job.left_by([&](gshmemx_stream_t s) {
    gshmemx_short_wait_until_on_stream(job.as<short>(8), GSHMEM_CMP_LT, -5, s);
  }),
                                "gshmemx_short_wait_until_on_stream");
  CHECK((wait.kind == CallKind::kWait && wait.source == job.at(8) && wait.width == 2 &&
         wait.is_signed == 1 && wait.cmp == GSHMEM_CMP_LT && wait.bytes == 2 &&
         static_cast<std::int16_t>(wait.operand) == -5));
  const auto p = only_launch(job.left_by([&](gshmemx_stream_t s) {
    gshmemx_float_p_on_stream(job.as<float>(4), 1.5f, 0, s);
  }),
                             "gshmemx_float_p_on_stream");
  CHECK((p.kind == CallKind::kP && p.dest == job.at(4) && p.width == 4 && p.operand == 0x3fc00000));
}

TEST_CASE("long_transfers_are_copies_in_their_stream_and_signals_follow_them") {
  Job job;
  constexpr std::size_t kLong = 1 << 20;
  const auto put = job.left_by([&](gshmemx_stream_t s) {
    gshmemx_putmem_signal_on_stream(job.at(kLong), job.at(0), kLong,
                                    job.as<std::uint64_t>(2 * kLong), 3, GSHMEM_SIGNAL_SET, 0, s);
  });
  REQUIRE(put.size() == 2);
  CHECK_FALSE(put[0].is_launch);
  CHECK((put[0].bytes == kLong && put[0].to == reinterpret_cast<std::uint64_t>(job.at(kLong))));
  CHECK(put[1].is_launch);
  CHECK((put[1].request.call.kind == CallKind::kSignal && put[1].request.call.operand == 3));
  const auto get = job.left_by([&](gshmemx_stream_t s) {
    gshmemx_getmem_nbi_on_stream(job.at(kLong), job.at(0), kLong, 0, s);
  });
  REQUIRE(get.size() == 1);
  CHECK((!get[0].is_launch && get[0].bytes == kLong));
}

TEST_CASE("short_transfers_leave_one_launch_in_their_stream") {
  Job job;
  const auto put = only_launch(job.left_by([&](gshmemx_stream_t s) {
    gshmemx_float_put_nbi_on_stream(job.as<float>(0), job.as<float>(400), 100, 0, s);
  }),
                               "gshmemx_float_put_nbi_on_stream");
  CHECK((put.kind == CallKind::kPut && put.bytes == 400 && put.waits == 0 && put.pe == 0 &&
         put.dest == job.at(0) && put.source == job.at(400)));
  const auto get = only_launch(job.left_by([&](gshmemx_stream_t s) {
    gshmemx_get128_on_stream(job.at(0), job.at(1024), 2, 0, s);
  }),
                               "gshmemx_get128_on_stream");
  CHECK((get.kind == CallKind::kGet && get.bytes == 32 && get.waits == 1));
  const auto iput = only_launch(job.left_by([&](gshmemx_stream_t s) {
    gshmemx_short_iput_on_stream(job.as<short>(0), job.as<short>(512), 3, 2, 5, 0, s);
  }),
                                "gshmemx_short_iput_on_stream");
  CHECK((iput.kind == CallKind::kIput && iput.bytes == 10 && iput.width == 2 &&
         iput.dst_stride == 3 && iput.src_stride == 2));
}

TEST_CASE("lists_are_copies_or_launches_in_their_stream") {
  Job job;
  constexpr std::size_t kPiece = 4096;
  // The first two are neighbours on both sides, the third is empty.
  const std::vector<gshmemx_piece_t> list{{job.at(1 << 20), job.at(0), kPiece},
                                          {job.at((1 << 20) + kPiece), job.at(kPiece), kPiece},
                                          {nullptr, nullptr, 0},
                                          {job.at(2 << 20), job.at(3 * kPiece), kPiece}};
  auto* const word = job.as<std::uint64_t>((3 << 20) - 64);
  const auto copies = job.left_by([&](gshmemx_stream_t s) {
    gshmemx_putv_signal_on_stream(list.data(), list.size(), word, 3, GSHMEM_SIGNAL_ADD, 0, 0, s);
  });
  REQUIRE(copies.size() == 3);
  CHECK((!copies[0].is_launch && copies[0].bytes == 2 * kPiece));
  CHECK((!copies[1].is_launch && copies[1].bytes == kPiece));
  CHECK((copies[2].is_launch && copies[2].request.call.kind == CallKind::kPutSignal &&
         copies[2].request.call.bytes == 0 && copies[2].request.call.operand == 3));
  const auto launches = job.left_by(
      [&](gshmemx_stream_t s) { gshmemx_getv_nbi_on_stream(list.data(), list.size(), 0, 2, s); });
  const device::Call get = only_launch(launches, "gshmemx_getv_nbi_on_stream");
  CHECK((get.kind == CallKind::kGetv && get.pe == 0));
  // In the legacy default stream, where the driver takes no batches.
  heaps().in_streams.clear();
  gshmemx_putv_on_stream(list.data(), list.size(), 0, 0, nullptr);
  CHECK(heaps().in_streams.size() == 2);
  CHECK(heaps().violations.empty());
}

/// A list of `count` pieces of 24 bytes, no two of which are neighbours, and the memory of a job.
struct LongList {
  static constexpr std::size_t kPiece = 24, kStep = 32, kTo = 3 << 19;
  std::vector<gshmemx_piece_t> pieces;
  LongList(Job& job, std::size_t count) {
    heaps().moves_lists = true;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = (count - 1 - i) * kStep;
      pieces.push_back({job.at(kTo + at), job.at(at), kPiece});
      test::fill(job.as<std::uint8_t>(at), kPiece, static_cast<unsigned>(i));
      std::memset(job.at(kTo + at), 0, kStep);
    }
  }
  /// Returns the launches of a put of the list by `num_blocks` blocks, which moved all bytes of it
  /// and no other.
  std::vector<test::InStream> put_in(gshmemx_stream_t stream, int num_blocks) {
    heaps().in_streams.clear();
    gshmemx_putv_on_stream(pieces.data(), pieces.size(), 0, num_blocks, stream);
    std::size_t wrong = 0;
    for (const gshmemx_piece_t& piece : pieces) {
      const char gap[kStep - kPiece] = {};
      wrong += std::memcmp(piece.dest, piece.source, kPiece) != 0;
      wrong += std::memcmp(static_cast<char*>(piece.dest) + kPiece, gap, sizeof(gap)) != 0;
      std::memset(piece.dest, 0, kPiece);
    }
    CHECK(wrong == 0);
    for (const test::InStream& one : heaps().in_streams) {
      CHECK((one.is_launch && one.stream == stream));
      CHECK(one.threads == kListThreads);
    }
    CHECK(heaps().from_pools == 0);  // all of it is free again
    CHECK(heaps().violations.empty());
    test::require_no_violations();
    return heaps().in_streams;
  }
};

TEST_CASE("long_list_is_one_launch_that_reads_gpu_memory") {
  Job job;
  LongList list(job, 45'000);  // more than two launches hold, of parameters or of memory
  const auto handle = [](std::uintptr_t number) {
    return reinterpret_cast<gshmemx_stream_t>(number);
  };
  for (gshmemx_stream_t in : {stream(kGpu), handle(0), handle(1), handle(2)}) {
    const int before = heaps().ever_from_pools;
    const auto launches = list.put_in(in, 8);
    REQUIRE(launches.size() == 2);
    CHECK((launches[0].reads_memory && launches[0].pieces == kMostUploaded));
    CHECK((launches[1].reads_memory && launches[1].pieces == 45'000 - kMostUploaded));
    CHECK(heaps().ever_from_pools == before + 2);
  }
  list.pieces.resize(kMostPieces + 1);
  const auto one = list.put_in(stream(kGpu), 8);
  REQUIRE(one.size() == 1);
  CHECK((one[0].reads_memory && one[0].pieces == kMostPieces + 1));
}

TEST_CASE("pieces_are_parameters_of_short_lists_in_captures_and_without_memory") {
  Job job;
  LongList list(job, 3 * kMostPieces - 5);
  const auto check_parameters = [&](const std::vector<test::InStream>& launches) {
    REQUIRE(launches.size() == 3);
    for (const test::InStream& launch : launches) CHECK_FALSE(launch.reads_memory);
    CHECK((launches[0].pieces == kMostPieces && launches[2].pieces == kMostPieces - 5));
    CHECK(heaps().ever_from_pools == 0);
  };
  check_parameters(list.put_in(stream(kGpu, true), 8));
  cuda_double().capturing = true;  // by another thread: the legacy stream may be used no more
  check_parameters(list.put_in(CU_STREAM_LEGACY, 8));
  cuda_double().capturing = false;
  heaps().full_pools = true;
  check_parameters(list.put_in(stream(kGpu), 8));
  heaps().full_pools = false;
  list.pieces.resize(kMostPieces);
  const auto one = list.put_in(stream(kGpu), 8);
  REQUIRE(one.size() == 1);
  CHECK_FALSE(one[0].reads_memory);
}

TEST_CASE("pieces_are_parameters_where_gpus_have_no_pools") {
  Job job(false, true);
  CHECK(heaps().pools == 0);
  LongList list(job, 2 * kMostPieces);
  const auto launches = list.put_in(stream(kGpu), 8);
  REQUIRE(launches.size() == 2);
  CHECK_FALSE((launches[0].reads_memory || launches[1].reads_memory));
}

TEST_CASE("copy_of_a_long_list_that_fails_frees_its_memory") {
  Job job;
  LongList list(job, 2 * kMostPieces);
  cuda_double().failing_to_device = 1;
  heaps().in_streams.clear();
  gshmemx_putv_on_stream(list.pieces.data(), list.pieces.size(), 0, 8, stream(kGpu));
  CHECK(heaps().in_streams.empty());
  CHECK((heaps().ever_from_pools == 1 && heaps().from_pools == 0));
  gshmemx_fault_t fault{};
  CHECK(gshmemx_last_fault(&fault) == GSHMEMX_ERROR_CUDA);
  CHECK_THAT(fault.message, Catch::Contains("cuMemcpyHtoDAsync"));
}

// A block has 32 warps, for each of which 4 KiB are enough.
TEST_CASE("list_in_a_stream_has_as_many_blocks_as_the_caller_says_unless_it_is_small") {
  Job job;
  constexpr std::size_t kOfBlock = 32 * 4096;
  const auto blocks = [&](std::size_t bytes, int num_blocks) {
    const gshmemx_piece_t piece{job.at(3 << 19), job.at(0), bytes};
    const auto left = job.left_by(
        [&](gshmemx_stream_t s) { gshmemx_putv_on_stream(&piece, 1, 0, num_blocks, s); });
    REQUIRE(left.size() == 1);
    return left[0].blocks;
  };
  CHECK(blocks(8 * kOfBlock, 8) == 8);
  CHECK(blocks(8 * kOfBlock, 2) == 2);
  CHECK(blocks(7 * kOfBlock + 1, 8) == 8);
  CHECK(blocks(7 * kOfBlock, 8) == 7);
  CHECK(blocks(16, 8) == 1);
  LongList list(job, 45'000);
  CHECK(list.put_in(stream(kGpu), 8)[0].blocks == 8);
  CHECK(list.put_in(stream(kGpu), 5)[0].blocks == 5);
}

TEST_CASE("neighbours_in_a_list_that_may_be_two_allocations_are_two_copies") {
  Job job;
  constexpr std::size_t kPiece = 4096;
  CUdeviceptr memory = 0;
  GSHMEM_CU(CudaDriver::get(), cuMemAlloc, &memory, 2 * kPiece);
  auto* const plain = reinterpret_cast<char*>(memory);
  const std::vector<gshmemx_piece_t> list{{job.at(0), plain, kPiece},
                                          {job.at(kPiece), plain + kPiece, kPiece}};
  const auto copies = job.left_by(
      [&](gshmemx_stream_t s) { gshmemx_putv_on_stream(list.data(), list.size(), 0, 0, s); });
  REQUIRE(copies.size() == 2);
  CHECK((copies[0].bytes == kPiece && copies[1].bytes == kPiece));
  GSHMEM_CU(CudaDriver::get(), cuMemFree, memory);
}

TEST_CASE("list_in_gpu_memory_is_a_fault") {
  Job job;
  heaps().in_streams.clear();
  gshmemx_putv_on_stream(job.as<gshmemx_piece_t>(0), 1, 0, 0, stream(kGpu));
  CHECK(heaps().in_streams.empty());
  gshmemx_fault_t fault;
  CHECK(gshmemx_last_fault(&fault) == GSHMEMX_ERROR_INVALID_VALUE);
  CHECK_THAT(fault.message, Catch::StartsWith("gshmemx_putv_on_stream: argument pieces = 0x") &&
                                Catch::Contains("pass the list in host memory"));
}

// An earlier version reported that the stream was not of this GPU, or that the GPU did not reach
// the memory.
TEST_CASE("a_failed_kernel_is_reported_by_the_next_call") {
  using Call = void(Job&);
  const std::function<Call> calls[] = {
      [](Job&) { gshmemx_barrier_all_on_stream(stream(kGpu)); },
      [](Job& job) { gshmemx_putmem_on_stream(job.at(0), job.at(64), 64, 0, nullptr); },
      [](Job& job) { gshmem_putmem(job.at(0), job.at(64), 64, 0); }, [](Job&) { gshmem_quiet(); }};
  for (const auto& call : calls) {
    gshmemx_fault_t fault{};
    Job job;
    cuda_double().failed = true;
    call(job);
    cuda_double().failed = false;
    CHECK(gshmemx_last_fault(&fault) == GSHMEMX_ERROR_CUDA);
    CHECK_THAT(fault.message, Catch::Contains("an earlier kernel of this program has failed") &&
                                  Catch::Contains("(compute-sanitizer"));
  }
}

TEST_CASE("value_from_a_stream_that_is_being_captured_is_a_fault") {
  Job job;
  heaps().in_streams.clear();
  CHECK(gshmemx_int_g_on_stream(job.as<int>(0), 0, stream(kGpu, true)) == 0);
  CHECK(heaps().in_streams.empty());
  gshmemx_fault_t fault;
  CHECK(gshmemx_last_fault(&fault) == GSHMEMX_ERROR_NOT_SUPPORTED);
  CHECK_THAT(fault.message, Catch::StartsWith("gshmemx_int_g_on_stream: argument stream is being"));
}

TEST_CASE("memory_that_kernels_do_not_reach_is_a_fault") {
  struct Row {
    const char* says;
    std::function<void(Job&, int* mine, gshmemx_stream_t)> call;
  };
  const Row rows[] = {
      {"gshmemx_int_iput_on_stream: argument source = ",
       [](Job& job, int* mine, gshmemx_stream_t s) {
         gshmemx_int_iput_on_stream(job.as<int>(0), mine, 1, 2, 2, 0, s);
       }},
      {"gshmemx_int_iget_on_stream: argument dest = ",
       [](Job& job, int* mine, gshmemx_stream_t s) {
         gshmemx_int_iget_on_stream(mine, job.as<int>(0), 1, 2, 2, 0, s);
       }},
      {"gshmemx_int_put_on_stream: argument source = ",
       [](Job& job, int* mine, gshmemx_stream_t s) {
         gshmemx_int_put_on_stream(job.as<int>(0), mine, 4, 0, s);
       }},
      {"gshmemx_int_get_nbi_on_stream: argument dest = ",
       [](Job& job, int* mine, gshmemx_stream_t s) {
         gshmemx_int_get_nbi_on_stream(mine, job.as<int>(0), 4, 0, s);
       }},
      {"gshmemx_putv_on_stream: argument pieces[1].source = ",
       [](Job& job, int* mine, gshmemx_stream_t s) {
         const gshmemx_piece_t list[] = {{job.at(0), job.at(64), 16}, {job.at(16), mine, 16}};
         gshmemx_putv_on_stream(list, 2, 0, 0, s);
       }},
      {"gshmemx_int_wait_until_all_on_stream: argument status = ",
       [](Job& job, int* mine, gshmemx_stream_t s) {
         gshmemx_int_wait_until_all_on_stream(job.as<int>(0), 4, mine, GSHMEM_CMP_EQ, 0, s);
       }},
      {"gshmemx_int_wait_until_all_vector_on_stream: argument cmp_values = ",
       [](Job& job, int* mine, gshmemx_stream_t s) {
         gshmemx_int_wait_until_all_vector_on_stream(job.as<int>(0), 4, nullptr, GSHMEM_CMP_EQ,
                                                     mine, s);
       }},
  };
  for (const Row& row : rows) {  // each raises a fault; the first one remains
    Job job;
    int mine[4] = {};
    CHECK(job.left_by([&](gshmemx_stream_t s) { row.call(job, mine, s); }).empty());
    gshmemx_fault_t fault;
    CHECK(gshmemx_last_fault(&fault) == GSHMEMX_ERROR_INVALID_VALUE);
    CHECK_THAT(fault.message, Catch::StartsWith(row.says) && Catch::Contains("cudaHostRegister"));
  }
}

TEST_CASE("calls_that_kernels_note_are_forgotten_when_a_stream_or_the_host_completes_them") {
  (void)gshmemi_note_calls();  // as a unit with -DGSHMEM_CHECK_ORDER does
  Job job;
  const device::State& state = *gshmemi_ambient()->state;
  const abi::OrderShadow* const shadow = state.control->order;
  REQUIRE(shadow != nullptr);
  CHECK(reinterpret_cast<const char*>(shadow) >= state.heap + state.heap_bytes);
  CHECK(shadow->head == 0);
  std::uint32_t before = shadow->epoch;
  const auto is_new = [&] { return std::exchange(before, shadow->epoch) != shadow->epoch; };
  (void)only_launch(job.left_by(gshmemx_quiet_on_stream), "gshmemx_quiet_on_stream");
  CHECK(is_new());
  (void)only_launch(job.left_by(gshmemx_barrier_all_on_stream), "gshmemx_barrier_all_on_stream");
  CHECK(is_new());
  (void)job.left_by([&](gshmemx_stream_t s) {
    gshmemx_int_put_on_stream(job.as<int>(0), job.as<int>(64), 8, 0, s);
  });
  CHECK(!is_new());
  gshmem_quiet();
  CHECK(is_new());
  gshmem_barrier_all();
  CHECK(is_new());
  gshmem_free(gshmem_malloc(64));
  CHECK(is_new());
}
