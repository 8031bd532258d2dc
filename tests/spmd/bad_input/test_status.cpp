// Wrong arguments of calls that return a status: it is GSHMEMX_ERROR_INVALID_VALUE, a line of the
// log names the call, the argument and its value, and the PE has no fault.
#include "host/runtime/api/launch.h"
#include "tests/spmd/bad_input/children.h"

#include <catch2/catch.hpp>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

using namespace gshmem;
using namespace gshmem::spmd;

// The declaration of collective_launch.h, which needs CUDA.
extern "C" int gshmemi_agree_status(const char* call, int mine, const char* why);

TEST_CASE("an_invalid_team_and_too_many_contexts_are_warnings") {
  const Outcome outcome = in_child(quick({{"GSHMEM_TEAMS", "0"}}), [] {
    const Runtime runtime;
    const auto is_told = [](int status, int expected) {
      if (status != expected) throw std::runtime_error("status " + std::to_string(status));
    };
    gshmem_ctx_t ctx = GSHMEM_CTX_DEFAULT;
    gshmem_team_t team = GSHMEM_TEAM_WORLD;
    gshmem_team_config_t config = GSHMEM_TEAM_CONFIG_INITIALIZER;
    int* const word = static_cast<int*>(gshmem_malloc(sizeof(int)));
    is_told(gshmem_int_sum_reduce(GSHMEM_TEAM_INVALID, word, word, 1), kInvalid);
    is_told(gshmem_team_sync(GSHMEM_TEAM_INVALID), kInvalid);
    is_told(gshmem_team_create_ctx(GSHMEM_TEAM_INVALID, 0, &ctx), kInvalid);
    is_told(gshmem_team_split_strided(GSHMEM_TEAM_INVALID, 0, 1, 1, nullptr, 0, &team), kInvalid);
    is_told(gshmem_team_get_config(GSHMEM_TEAM_INVALID, 0, &config), kInvalid);
    is_told(gshmem_team_split_strided(GSHMEM_TEAM_WORLD, 0, 1, 1, nullptr, 0, &team),
            GSHMEMX_ERROR_OUT_OF_MEMORY);
    while (gshmem_ctx_create(0, &ctx) == 0) continue;
    is_told(gshmem_team_my_pe(GSHMEM_TEAM_INVALID), -1);  // a query
  });
  INFO(outcome.output);
  CHECK(outcome.code == 0);
  for (const char* call : {"gshmem_int_sum_reduce", "gshmem_team_sync", "gshmem_team_create_ctx",
                           "gshmem_team_get_config"}) {
    CHECK(contains(outcome.output,
                   std::string("WARN: ") + call + ": argument team is GSHMEM_TEAM_INVALID"));
  }
  CHECK(
      contains(outcome.output, "WARN: gshmem_team_split_strided: argument parent_team is GSHMEM"));
  CHECK(contains(outcome.output, "WARN: gshmem_team_split_strided: a member has no team left"));
  CHECK(contains(outcome.output, "WARN: gshmem_ctx_create: all 1024 contexts"));
  CHECK(!contains(outcome.output, "gshmem_team_my_pe"));
  CHECK(!contains(outcome.output, "ERROR"));
}

TEST_CASE("wrong_argument_of_a_call_with_a_status_is_an_error_that_names_it") {
  static gshmemx_init_attr_t attr = GSHMEMX_INIT_ATTR_INITIALIZER;
  static gshmemx_init_attr_t old = GSHMEMX_INIT_ATTR_INITIALIZER;
  old.version = 7;
  static const gshmemx_uniqueid_t id = GSHMEMX_UNIQUEID_INITIALIZER;
  static gshmemx_thread_world_t* world = nullptr;
  static gshmemx_qp_handle_t* handles = nullptr;
  static const gshmemx_qp_handle_t closed = 77;
  static gshmem_ctx_t ctx = GSHMEM_CTX_INVALID;
  static gshmemx_region_handle_t region = 0;
  static int number = -1;
  static gshmem_team_t team = GSHMEM_TEAM_INVALID;
  static gshmem_team_config_t team_config = GSHMEM_TEAM_CONFIG_INITIALIZER;
  // Splits the world, whose one member makes the calls.
  static const auto split = [](int start, int stride, int size, long mask = 0,
                               const gshmem_team_config_t* config = nullptr) {
    return gshmem_team_split_strided(GSHMEM_TEAM_WORLD, start, stride, size, config, mask, &team);
  };
  static const auto split_2d = [](int xrange, long yaxis_mask, gshmem_team_t* x) {
    gshmem_team_t y = GSHMEM_TEAM_INVALID;
    return gshmem_team_split_2d(GSHMEM_TEAM_WORLD, xrange, nullptr, 0, x, nullptr, yaxis_mask, &y);
  };
  alignas(1 << 16) static char pages[1 << 16];  // private memory
  static const auto lend = [](void* at, std::size_t bytes, int flags = 0) {
    return gshmemx_buffer_register_symmetric(at, bytes, flags) ? 0 : GSHMEMX_ERROR_INVALID_VALUE;
  };
  struct Call {
    bool on_a_pe;
    std::string says;
    std::function<int()> make;
  };
  const std::vector<Call> calls{
      {false, "init_attr: argument flags = 77 ", [] { return gshmemx_init_attr(77, &attr); }},
      {false, "init_attr: argument attr is null",
       [] { return gshmemx_init_attr(GSHMEMX_INIT_WITH_UNIQUEID, nullptr); }},
      {false, "init_attr: argument attr is null",
       [] { return gshmemx_init_attr(GSHMEMX_INIT_THREAD_PES, nullptr); }},
      {false, "init_attr: no unique id in attr",
       [] { return gshmemx_init_attr(GSHMEMX_INIT_WITH_UNIQUEID, &attr); }},
      {false, "init_attr: attr->mpi_comm is null",
       [] { return gshmemx_init_attr(GSHMEMX_INIT_WITH_MPI_COMM, &attr); }},
      {false, "init_attr: no thread world in attr",
       [] { return gshmemx_init_attr(GSHMEMX_INIT_THREAD_PES, &attr); }},
      {false, "init_attr: attr->args.thread_rank = -1 is not in [0, 2)",
       [] {
         gshmemx_init_attr_t by_hand = attr;
         by_hand.args.thread_world = world;
         return gshmemx_init_attr(GSHMEMX_INIT_THREAD_PES, &by_hand);
       }},
      {false, "init_attr: attr->args.thread_rank = 2 is not in [0, 2)",
       [] {
         gshmemx_init_attr_t by_hand = attr;
         by_hand.args.thread_world = world;
         by_hand.args.thread_rank = 2;
         return gshmemx_init_attr(GSHMEMX_INIT_THREAD_PES, &by_hand);
       }},
      {false, "init_attr: attr->version = 7, ",
       [] { return gshmemx_init_attr(GSHMEMX_INIT_THREAD_PES, &old); }},
      {false, "uniqueid_args: argument myrank = 2 ",
       [] { return gshmemx_set_attr_uniqueid_args(2, 2, &id, &attr); }},
      {false, "uniqueid_args: argument myrank = -1 ",
       [] { return gshmemx_set_attr_uniqueid_args(-1, 2, &id, &attr); }},
      {false, "uniqueid_args: argument nranks = 0 ",
       [] { return gshmemx_set_attr_uniqueid_args(0, 0, &id, &attr); }},
      {false, "uniqueid_args: argument nranks = 65537 ",
       [] { return gshmemx_set_attr_uniqueid_args(0, 65537, &id, &attr); }},
      {false, "uniqueid_args: argument uniqueid is null",
       [] { return gshmemx_set_attr_uniqueid_args(0, 1, nullptr, &attr); }},
      {false, "uniqueid_args: argument attr is null",
       [] { return gshmemx_set_attr_uniqueid_args(0, 1, &id, nullptr); }},
      {false, "mpi_comm_args: argument mpi_comm is null",
       [] { return gshmemx_set_attr_mpi_comm_args(nullptr, &attr); }},
      {false, "mpi_comm_args: argument attr is null",
       [] { return gshmemx_set_attr_mpi_comm_args(&number, nullptr); }},
      {false, "thread_args: argument world is null",
       [] { return gshmemx_set_attr_thread_args(nullptr, 0, &attr); }},
      {false, "thread_args: argument attr is null",
       [] { return gshmemx_set_attr_thread_args(world, 0, nullptr); }},
      {false, "thread_args: argument rank = 2 ",
       [] { return gshmemx_set_attr_thread_args(world, 2, &attr); }},
      {false, "thread_args: argument rank = -1 ",
       [] { return gshmemx_set_attr_thread_args(world, -1, &attr); }},
      {false, "get_uniqueid: argument uniqueid is null",
       [] { return gshmemx_get_uniqueid(nullptr); }},
      {false, "init_thread: argument requested = 9 ",
       [] { return gshmem_init_thread(9, &number); }},
      {false, "init_thread: argument requested = -1 ",
       [] { return gshmem_init_thread(-1, nullptr); }},
      {false, "world_create: argument n_pes = 0 ",
       [] { return gshmemx_thread_world_create(0) ? 0 : kInvalid; }},
      {false, "world_create: argument n_pes = 65537 ",
       [] { return gshmemx_thread_world_create(65537) ? 0 : kInvalid; }},
      {false, "bind_thread: argument pe_handle = 0x1 ",
       [] { return gshmemx_bind_thread(reinterpret_cast<void*>(1)); }},
      {true, "bind_thread: argument pe_handle = 0x1 ",
       [] { return gshmemx_bind_thread(reinterpret_cast<void*>(1)); }},
      {true, "ctx_create: argument ctx is null", [] { return gshmem_ctx_create(0, nullptr); }},
      {true, "ctx_create: argument options = 8 ", [] { return gshmem_ctx_create(8, &ctx); }},
      {true, "ctx_create: argument options = -1 ", [] { return gshmem_ctx_create(-1, &ctx); }},
      {true, "team_create_ctx: argument ctx is null",
       [] { return gshmem_team_create_ctx(GSHMEM_TEAM_WORLD, 0, nullptr); }},
      {true, "collective_launch: argument func is null",
       [] {
         return gshmemx_collective_launch(nullptr, {1, 1, 1}, {1, 1, 1}, nullptr, 0, nullptr);
       }},
      {true, "collective_launch: argument blockDims = (32, 33, 1) is 1056 threads; ",
       [] {
         return gshmemx_collective_launch(&id, {1, 1, 1}, {32, 33, 1}, nullptr, 0, nullptr);
       }},
      {true, "collective_launch_attr: argument attr is null",
       [] { return gshmemx_collective_launch_attr(nullptr, &id, nullptr); }},
      {true, "collective_launch_attr: attr->cuda_config.attrs = ",
       [] {
         LaunchConfig config{{1, 1, 1}, {1, 1, 1}, 0, nullptr, nullptr, 33};
         return gshmemx_collective_launch_attr(&config, &id, nullptr);
       }},
      {true, "query_gridsize: argument gridsize is null",
       [] {
         return gshmemx_collective_launch_query_gridsize(&id, {1, 1, 1}, nullptr, 0, nullptr);
       }},
      {true, "query_gridsize: argument blockDims = (0, 1, 1) is 0 threads; ",
       [] {
         return gshmemx_collective_launch_query_gridsize(&id, {0, 1, 1}, nullptr, 0, &number);
       }},
      {true, "team_create_ctx: argument team = 77 ",
       [] { return gshmem_team_create_ctx(77, 0, &ctx); }},
      {true, "team_create_ctx: argument options = 8 ",
       [] { return gshmem_team_create_ctx(GSHMEMX_TEAM_NODE, 8, &ctx); }},
      {true, "qp_create: argument out_qp_array is null",
       [] { return gshmemx_qp_create(1, nullptr); }},
      {true, "qp_create: argument num_qps = -1 is negative",
       [] { return gshmemx_qp_create(-1, &handles); }},
      {true, "qp_destroy: argument num_qps = -2 is negative",
       [] { return gshmemx_qp_destroy(-2, &closed); }},
      {true, "qp_destroy: argument qps is null", [] { return gshmemx_qp_destroy(1, nullptr); }},
      {true, "qp_destroy: argument qps[0] = 77 ", [] { return gshmemx_qp_destroy(1, &closed); }},
      {true, " is qps[0], too",
       [] {
         gshmemx_qp_handle_t* made = nullptr;
         (void)gshmemx_qp_create(1, &made);
         const gshmemx_qp_handle_t twice[] = {made[0], made[0]};
         std::free(made);
         const int status = gshmemx_qp_destroy(2, twice);
         return gshmemx_qp_destroy(1, twice) == 0 ? status : 0;
       }},
      {true, "region_start: argument handle is null",
       [] { return gshmemx_region_start(nullptr, nullptr); }},
      {true, "region_start: attrs->hints = 2147483649 has bits",
       [] {
         gshmemx_region_attrs_t attrs = GSHMEMX_REGION_ATTRS_INITIALIZER;
         attrs.hints = 0x80000001;
         return gshmemx_region_start(&region, &attrs);
       }},
      {true, "region_stop: argument region = 2 is not the open region",
       [] { return gshmemx_region_stop(2); }},
      {true, "region_start: region 2 is open",
       [] {
         const int first = gshmemx_region_start(&region, nullptr);
         return first != 0 ? first : gshmemx_region_start(&region, nullptr);
       }},
      {true, "buffer_register: argument addr is null",
       [] { return gshmemx_buffer_register(nullptr, 8); }},
      {true, "buffer_register: argument length = 0",
       [] { return gshmemx_buffer_register(&number, 0); }},
      {true, "buffer_register: argument length = 18446744073709551615 is more than there is",
       [] { return gshmemx_buffer_register(&number, SIZE_MAX); }},
      {true, "is registered in part",
       [] {
         static char bytes[64];
         const int first = gshmemx_buffer_register(bytes + 16, 16);
         return first != 0 ? first : gshmemx_buffer_register(bytes, 17);
       }},
      {true, "is in the symmetric heap",
       [] {
         char* const object = static_cast<char*>(gshmem_malloc(8));
         return gshmemx_buffer_register(object - 8, 16);
       }},
      {true,
       "buffer_unregister: argument addr = ", [] { return gshmemx_buffer_unregister(&number); }},
      {true, "register_symmetric: argument buf_ptr is null", [] { return lend(nullptr, 4096); }},
      {true, "register_symmetric: argument size = 0", [] { return lend(pages, 0); }},
      {true, "register_symmetric: argument size = 18446744073709551615 is more than there is",
       [] { return lend(pages, SIZE_MAX); }},
      {true, "register_symmetric: argument flags = 2 is not 0",
       [] { return lend(pages, 4096, 2); }},
      {true, "(size = 100) is not in whole pages", [] { return lend(pages, 100); }},
      {true, "(size = 1) is not in whole pages", [] { return lend(pages, 1); }},
      {true, "register_symmetric: argument buf_ptr = 0x10000 ",
       [] { return lend(reinterpret_cast<void*>(1 << 16), 1 << 17); }},
      {true, " is symmetric memory already",
       [] { return lend(gshmem_align(1 << 16, 1 << 16), 1 << 16); }},
      {true, "unregister_symmetric: argument mmap_ptr = (nil) is not registered",
       [] { return gshmemx_buffer_unregister_symmetric(nullptr, 8); }},
      {true, "team_get_config: argument team = 77 is not a team",
       [] { return gshmem_team_get_config(77, 1, &team_config); }},
      {true, "team_get_config: argument config is null",
       [] { return gshmem_team_get_config(GSHMEM_TEAM_WORLD, 1, nullptr); }},
      {true, "team_get_config: argument config is null",
       [] { return gshmem_team_get_config(GSHMEM_TEAM_WORLD, 0, nullptr); }},
      {true, "team_get_config: the mask of config = 5 has bits",
       [] { return gshmem_team_get_config(GSHMEM_TEAM_WORLD, 5, &team_config); }},
      {true, "team_split_strided: argument parent_team = 77 is not a team",
       [] { return gshmem_team_split_strided(77, 0, 1, 1, nullptr, 0, &team); }},
      {true, "team_split_strided: argument new_team is null",
       [] { return gshmem_team_split_strided(GSHMEM_TEAM_WORLD, 0, 1, 1, nullptr, 0, nullptr); }},
      {true, "team_split_strided: argument start = -1 is out of range [0, 0]",
       [] { return split(-1, 1, 1); }},
      {true, "team_split_strided: argument size = 0 is out of range [1, 1]",
       [] { return split(0, 1, 0); }},
      {true, "team_split_strided: argument size = 2 is out of range [1, 1]",
       [] { return split(0, 1, 2); }},
      {true, "team_split_strided: the mask of config = 4 has bits",
       [] { return split(0, 1, 1, 4); }},
      {true, "team_split_strided: argument config is null, and its mask 1 is not 0",
       [] { return split(0, 1, 1, GSHMEM_TEAM_NUM_CONTEXTS); }},
      {true, "team_split_strided: config->num_contexts = -3 is negative",
       [] {
         gshmem_team_config_t config = team_config;
         config.num_contexts = -3;
         return split(0, 1, 1, GSHMEM_TEAM_NUM_CONTEXTS, &config);
       }},
      {true, "team_split_2d: argument xrange = 0 is not positive",
       [] { return split_2d(0, 0, &team); }},
      {true, "team_split_2d: argument xaxis_team or yaxis_team is null",
       [] { return split_2d(1, 0, nullptr); }},
      {true, "team_split_2d: argument xaxis_team or yaxis_team is null",
       [] {
         return gshmem_team_split_2d(GSHMEM_TEAM_WORLD, 1, nullptr, 0, &team, nullptr, 0, nullptr);
       }},
      {true, "team_split_2d: the mask of yaxis_config = 8 has bits",
       [] { return split_2d(1, 8, &team); }},
      {true, "team_get_uniqueid: argument uniqueid is null",
       [] { return gshmemx_team_get_uniqueid(nullptr); }},
      {true, "team_init: the mask of config = 0 is without GSHMEMX_TEAM_UNIQUEID",
       [] { return gshmemx_team_init(&team, nullptr, 0, 1, 0); }},
      {true, "team_init: argument config is null",
       [] { return gshmemx_team_init(&team, nullptr, GSHMEMX_TEAM_UNIQUEID, 1, 0); }},
      {true, "team_init: argument team is null",
       [] {
         gshmem_team_config_t config = team_config;
         (void)gshmemx_team_get_uniqueid(&config.uniqueid);
         return gshmemx_team_init(nullptr, &config, GSHMEMX_TEAM_UNIQUEID, 1, 0);
       }},
      {true, "team_init: unique id 0xffffffffffffffff was made by no PE",
       [] { return gshmemx_team_init(&team, &team_config, GSHMEMX_TEAM_UNIQUEID, 1, 0); }},
      {true, "team_init: argument npes = 2 of PE 0 is out of range [1, 1]",
       [] {
         gshmem_team_config_t config = team_config;
         (void)gshmemx_team_get_uniqueid(&config.uniqueid);
         return gshmemx_team_init(&team, &config, GSHMEMX_TEAM_UNIQUEID, 2, 0);
       }},
      {true, "team_init: argument pe_idx_in_team = 1 of PE 0 is out of range [0, 0]",
       [] {
         gshmem_team_config_t config = team_config;
         (void)gshmemx_team_get_uniqueid(&config.uniqueid);
         return gshmemx_team_init(&team, &config, GSHMEMX_TEAM_UNIQUEID, 1, 1);
       }},
      {true, "cumodule_init: argument module is null",
       [] { return gshmemx_cumodule_init(nullptr); }},
      {true, "cumodule_finalize: argument module is null",
       [] { return gshmemx_cumodule_finalize(nullptr); }},
      {true, "culibrary_init: argument library is null",
       [] { return gshmemx_culibrary_init(nullptr); }},
      {true, "culibrary_finalize: argument library is null",
       [] { return gshmemx_culibrary_finalize(nullptr); }},
  };
  const Outcome outcome = in_child(quick(), [&] {
    world = gshmemx_thread_world_create(2);
    const auto make = [&](bool on_a_pe) {
      for (std::size_t i = 0; i < calls.size(); ++i) {
        if (calls[i].on_a_pe != on_a_pe) continue;
        const int status = calls[i].make();
        std::fflush(stderr);
        std::printf("[%zu] %d\n", i, status);
        std::fflush(stdout);
      }
    };
    make(false);
    {
      const Runtime runtime;
      make(true);
      std::printf("fault %d\n", gshmemx_last_fault(nullptr));
    }
    gshmemx_thread_world_destroy(world);
    std::printf("left alone %d %d\n", number, handles == nullptr);
  });
  INFO(outcome.output);
  CHECK(outcome.code == 0);
  CHECK(contains(outcome.output, "fault 0\nleft alone -1 1\n"));
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const auto end =
        outcome.output.find("\n[" + std::to_string(i) + "] " + std::to_string(kInvalid) + "\n");
    INFO(calls[i].says);
    REQUIRE(end != std::string::npos);
    const auto begin = outcome.output.rfind('\n', end - 1) + 1;
    CHECK(contains(outcome.output.substr(begin, end - begin), calls[i].says));
  }
}

TEST_CASE("a_job_may_have_1_pe_and_65536") {
  const Outcome outcome = in_child(quick(), [] {
    gshmemx_thread_world_t* const world = gshmemx_thread_world_create(65536);
    const gshmemx_uniqueid_t id = GSHMEMX_UNIQUEID_INITIALIZER;
    gshmemx_init_attr_t attr = GSHMEMX_INIT_ATTR_INITIALIZER;
    std::printf("%d %d %d\n", world != nullptr, gshmemx_set_attr_thread_args(world, 65535, &attr),
                gshmemx_set_attr_uniqueid_args(65535, 65536, &id, &attr));
    gshmemx_thread_world_destroy(world);
    int comm = 0;
    std::printf("alone %d, MPI %d\n", gshmemx_set_attr_uniqueid_args(0, 1, &id, &attr),
                gshmemx_set_attr_mpi_comm_args(&comm, &attr));
    if (attr.mpi_comm != &comm) std::puts("another communicator");
  });
  INFO(outcome.output);
  CHECK(outcome.code == 0);
  CHECK(outcome.output == "1 0 0\nalone 0, MPI 0\n");
}

TEST_CASE("kernels_of_a_module_have_no_pe_without_a_gpu") {
  const Outcome outcome = in_child(quick(), [] {
    auto* const module = reinterpret_cast<CUmod_st*>(64);
    auto* const library = reinterpret_cast<CUlib_st*>(64);
    const auto all = [&] {
      std::printf("%d %d %d %d\n", gshmemx_cumodule_init(module), gshmemx_cumodule_finalize(module),
                  gshmemx_culibrary_init(library), gshmemx_culibrary_finalize(library));
    };
    all();
    const Runtime runtime;
    all();
  });
  INFO(outcome.output);
  CHECK(outcome.code == 0);
  const auto status = [](int code) {
    const std::string one = std::to_string(code);
    return one + " " + one + " " + one + " " + one + "\n";
  };
  CHECK(contains(outcome.output, status(GSHMEMX_ERROR_NOT_INITIALIZED)));
  CHECK(contains(outcome.output, status(GSHMEMX_ERROR_NOT_SUPPORTED)));
  for (const char* call :
       {"cumodule_init", "cumodule_finalize", "culibrary_init", "culibrary_finalize"})
    for (const char* why :
         {"the library is not initialized on this thread", "the PE runs in CPU mode"})
      CHECK(contains(outcome.output, std::string("gshmemx_") + call + ": " + why));
}

TEST_CASE("agreed_status_is_that_of_the_first_pe_with_one_and_only_it_logs_the_reason") {
  const Outcome outcome = in_child(quick(), [] {
    run_threads(6, [](const Runtime& pe) {
      const int first = gshmemi_agree_status("launch", 0, "no reason");
      const int second =
          gshmemi_agree_status("launch", pe.my_pe() == 0 ? 0 : 30 + pe.my_pe(), "no room");
      std::printf("status %d, %d\n", first, second);
    });
  });
  INFO(outcome.output);
  CHECK(outcome.code == 0);
  CHECK_FALSE(contains(outcome.output, "no reason"));
  CHECK_FALSE(contains(outcome.output, "gshmem[0] ERROR: launch: no room"));
  for (const char* line : {"gshmem[1] ERROR: ", "gshmem[5] ERROR: "}) {
    const auto begin = outcome.output.find(line);
    REQUIRE(begin != std::string::npos);
    CHECK(contains(outcome.output.substr(begin, outcome.output.find('\n', begin) - begin),
                   "launch: no room"));
  }
  CHECK(times(outcome.output, "failed on PE") == 1);
  CHECK(contains(outcome.output, "gshmem[0] ERROR: launch: failed on PE 1: "));
  const std::string status = "status 0, 31\n";
  std::size_t said = 0;
  for (std::size_t at = 0; (at = outcome.output.find(status, at)) != std::string::npos; ++at)
    ++said;
  CHECK(said == 6);
}

TEST_CASE("queue_handles_without_room_on_one_pe_are_made_on_none") {
  const Outcome outcome = in_child(quick(), [] {
    run_threads(2, [](const Runtime& pe) {
      gshmem_ctx_t context = GSHMEM_CTX_INVALID;
      gshmemx_qp_handle_t* handles = nullptr;
      if (pe.my_pe() == 1) (void)gshmem_ctx_create(0, &context);
      std::printf("differ %d\n", gshmemx_qp_create(pe.my_pe() == 0 ? 1 : -1, &handles));
      std::printf("all %d\n", gshmemx_qp_create(1024, &handles));
      std::printf("rest %d\n", gshmemx_qp_create(1023, &handles));
      std::printf("gone %d\n", gshmemx_qp_destroy(1023, handles));
      std::free(handles);
    });
  });
  INFO(outcome.output);
  CHECK(outcome.code == 0);
  for (const char* line : {"differ 4\n", "all 2\n", "rest 0\n", "gone 0\n"})
    CHECK(times(outcome.output, line) == 2);
  CHECK(contains(outcome.output,
                 "gshmemx_qp_create: argument num_qps differs: PE 0 passed 1, PE 1 -1"));
  CHECK(contains(outcome.output,
                 "argument num_qps = 1024, but of 1024 contexts and queue handles 1 are in use"));
  CHECK(contains(outcome.output, "gshmemx_qp_create: failed on another PE"));
}

TEST_CASE("pe_is_initialized_from_init_to_finalize") {
  const Outcome outcome = in_child(quick({{"GSHMEM_BOOTSTRAP", "single"}}), [] {
    const auto tell = [](const char* when) {
      int initialized = -1;
      gshmem_query_initialized(&initialized);
      std::printf("%s: %d\n", when, initialized);
    };
    tell("before init");
    gshmem_init();
    tell("after init");
    std::thread([&] { tell("in another thread"); }).join();
    gshmem_finalize();
    tell("after finalize");
    gshmem_init();
    tell("after another init");
    gshmem_finalize();
    tell("at the end");
  });
  INFO(outcome.output);
  CHECK(outcome.code == 0);
  CHECK(contains(outcome.output,
                 "before init: 0\nafter init: 1\nin another thread: 1\nafter finalize: 0\n"
                 "after another init: 1\nat the end: 0\n"));
}

TEST_CASE("outputs_that_are_null_are_not_written") {
  const Outcome outcome = in_child(quick(), [] {
    gshmem_info_get_version(nullptr, nullptr);
    gshmem_info_get_name(nullptr);
    gshmemx_vendor_get_version_info(nullptr, nullptr, nullptr);
    gshmem_query_thread(nullptr);
    gshmem_query_initialized(nullptr);
    (void)gshmemx_last_fault(nullptr);
    gshmemx_thread_world_destroy(nullptr);
    (void)gshmem_init_thread(GSHMEM_THREAD_MULTIPLE, nullptr);
    int minor = -1;
    gshmem_info_get_version(nullptr, &minor);
    std::printf("minor %d, team %d\n", minor, gshmem_ctx_get_team(GSHMEM_CTX_DEFAULT, nullptr));
    gshmem_finalize();
  });
  INFO(outcome.output);
  CHECK(outcome.code == 0);
  CHECK(contains(outcome.output, "minor 5, team -1\n"));
}
