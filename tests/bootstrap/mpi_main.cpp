// One rank of an MPI program: bootstrap_mpi_ranks MODE, under mpirun or (mode no-init) alone.
#include "tests/bootstrap/conformance.h"
#include "tests/bootstrap/connected.h"
#include "tests/patience.h"

#include <mpi.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <map>
#include <string>
#include <thread>
#include <vector>

using namespace gshmem;
using namespace gshmem::test;

namespace {

Config config_with_timeout(double seconds) {
  Config config;
  config.bootstrap = BootstrapKind::kAuto;
  config.bootstrap_timeout = seconds;
  config.uid_family = AddressFamily::kAny;
  config.uid_interface = "=lo";
  return config;
}

std::unique_ptr<bootstrap::Bootstrap> create(MPI_Comm comm, double seconds = 60) {
  return bootstrap::create_mpi(&comm, config_with_timeout(seconds));
}

/// The call of the bootstrap in which MPI fails.
enum class Failing { kNothing, kBarrier, kTest } failing = Failing::kNothing;
const void* landing = nullptr;  ///< the buffer of its last allgather

}  // namespace

// These replace the functions of the MPI library, which have second names.
int MPI_Test(MPI_Request* request, int* done, MPI_Status* status) {
  return failing == Failing::kTest ? MPI_ERR_OTHER : PMPI_Test(request, done, status);
}
int MPI_Ibarrier(MPI_Comm comm, MPI_Request* request) {
  if (failing != Failing::kBarrier) return PMPI_Ibarrier(comm, request);
  PMPI_Comm_call_errhandler(comm, MPI_ERR_OTHER);  // MPI does this with all its errors
  return MPI_ERR_OTHER;
}
int MPI_Iallgather(const void* from, int count, MPI_Datatype type, void* to, int to_count,
                   MPI_Datatype to_type, MPI_Comm comm, MPI_Request* request) {
  landing = to;
  return PMPI_Iallgather(from, count, type, to, to_count, to_type, comm, request);
}

namespace {

/// It still has its communicator when MPI is finalized.
std::unique_ptr<bootstrap::Bootstrap> kept;

int refuse_copy(MPI_Comm, int, void*, void*, void*, int*) { return MPI_ERR_OTHER; }

/// MPI itself reports why a communicator cannot be duplicated.
void error_of_mpi_is_told() {
  MPI_Comm bad = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_SELF, &bad);
  MPI_Comm_set_errhandler(bad, MPI_ERRORS_RETURN);
  int key = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(refuse_copy, MPI_COMM_NULL_DELETE_FN, &key, nullptr);
  MPI_Comm_set_attr(bad, key, nullptr);
  const Error error = expect_error([&] { (void)create(bad); });
  const std::string what = error.what(), call = "MPI_Comm_idup: ";
  expect(error.code() == GSHMEMX_ERROR_BOOTSTRAP, what);
  expect(what.starts_with(call) && what.size() > call.size(), what);
  MPI_Comm_free(&bad);
}

void failing_mpi_is_an_error() {
  auto one = create(MPI_COMM_WORLD), other = create(MPI_COMM_WORLD);
  failing = Failing::kBarrier;
  expect_error(GSHMEMX_ERROR_BOOTSTRAP, "MPI_Ibarrier: ", [&] { one->barrier(); });
  failing = Failing::kTest;
  constexpr std::size_t kBytes = 5000;
  std::vector<std::byte> mine(kBytes), all(kBytes * static_cast<std::size_t>(other->size()));
  expect_error(GSHMEMX_ERROR_BOOTSTRAP,
               "allgather: ", [&] { other->allgather(mine.data(), all.data(), kBytes); });
  failing = Failing::kNothing;
  other.reset();
  const std::vector<std::vector<std::byte>> others(20, all);
  expect(std::ranges::none_of(others, [](const auto& each) { return each.data() == landing; }),
         "memory that MPI may still write to is not passed on");
}

void conforms() {
  conformance([] { return create(MPI_COMM_WORLD); });
  const auto boot = create(MPI_COMM_WORLD);
  std::vector<std::byte> much(bootstrap::kMaxBytes + 1);
  expect_error(GSHMEMX_ERROR_INVALID_VALUE, "allgather of 65537 bytes per rank; at most 65536",
               [&] { boot->allgather(much.data(), nullptr, much.size()); });
  boot->barrier();
  boot->finish();
  boot->finish();
  expect_error(GSHMEMX_ERROR_BOOTSTRAP, "the ranks have met", [&] { boot->barrier(); });
  expect_error(GSHMEMX_ERROR_INVALID_VALUE, "the communicator is null",
               [] { (void)create(MPI_COMM_NULL); });
  error_of_mpi_is_told();
  failing_mpi_is_an_error();
  kept = create(MPI_COMM_WORLD);
}

/// Counts how many communicators with this attribute, duplicates included, are gone.
int count_end(MPI_Comm, int, void* ends, void*) {
  ++*static_cast<int*>(ends);
  return MPI_SUCCESS;
}

/// The bootstrap uses a part of the world, in another order, while the application uses its own
/// communicator.
void conforms_over_part_of_the_world() {
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm part = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? 0 : 1, size - rank, &part);
  int key = MPI_KEYVAL_INVALID, ends = 0;
  MPI_Comm_create_keyval(MPI_COMM_DUP_FN, count_end, &key, nullptr);
  MPI_Comm_set_attr(part, key, &ends);
  auto boot = create(part, 0);  // without a limit
  expect(boot->size() == (rank == 0 ? 1 : size - 1), "the size is the communicator's");
  expect(boot->rank() == (rank == 0 ? 0 : size - 1 - rank), "the rank is the communicator's");
  MPI_Comm_free(&part);  // the bootstrap has a duplicate
  rank_and_size_are_sane(*boot);
  allgather_moves_every_byte(*boot, 4096);
  boot->barrier();
  expect(ends == 1, "the bootstrap's communicator is a duplicate");
  boot.reset();
  expect(ends == 2, "the bootstrap's communicator ends with it");
}

/// The last rank is late by a message: it waits in MPI until the others have given up.
void missing_rank() {
  int key = MPI_KEYVAL_INVALID;
  static int ends = 0;  // it outlives a communicator that is kept
  MPI_Comm world = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &world);
  MPI_Comm_create_keyval(MPI_COMM_DUP_FN, count_end, &key, nullptr);
  MPI_Comm_set_attr(world, key, &ends);
  auto boot = create(world, 1);
  int rank = boot->rank();
  if (rank == boot->size() - 1) {
    for (int r = 0; r < boot->size() - 1; ++r)
      MPI_Recv(&rank, 1, MPI_INT, r, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return;
  }
  expect_error(GSHMEMX_ERROR_TIMEOUT, "barrier timed out after 1 s", [&] { boot->barrier(); });
  expect_error(GSHMEMX_ERROR_TIMEOUT, "barrier timed out after 1 s", [&] { boot->barrier(); });
  MPI_Send(&rank, 1, MPI_INT, boot->size() - 1, 0, MPI_COMM_WORLD);
  boot.reset();
  expect(ends == 0, "MPI keeps the communicator of a pending collective");
}

/// All later collectives, and the end of the job, work without MPI: on any thread, and after
/// MPI_Finalize.
void connect_ranks() {
  std::unique_ptr<Connected> ranks;
  {
    const Config config = config_with_timeout(60 * kPatience);
    ranks = std::make_unique<Connected>(create(MPI_COMM_WORLD), config);
  }
  MPI_Finalize();
  std::thread([&] { small_allgathers_do_not_mix(*ranks, 20); }).join();
  if (ranks->rank() == 0) return std::thread([&] { ranks->end("from a thread"); }).join();
  expect_error(GSHMEMX_ERROR_PEER_FAILED, "PE 0 was stopped by a fault: from a thread",
               [&] { ranks->barrier(); });
}

/// PMIx in an application that uses it, too.
void pmix_conforms() {
  for (int life = 0; life < 2; ++life) {
    const auto boot = bootstrap::create(config_with_timeout(60 * gshmem::test::kPatience));
    expect(std::string(boot->name()) == "pmix", "auto takes PMIx");
    rank_and_size_are_sane(*boot);
    small_allgathers_do_not_mix(*boot, 10);
    barrier_waits_for_each_rank_in_turn(*boot);
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

void no_init() {
  const Error error = expect_error([] { (void)create(MPI_COMM_WORLD); });
  const std::string what = error.what();
  expect(error.code() == GSHMEMX_ERROR_BOOTSTRAP, what);
  expect(what.find("MPI is not initialized in the library that the plugin was built for (") == 0,
         what);
  expect(std::ranges::none_of(what, [](unsigned char c) { return std::iscntrl(c) != 0; }),
         "the library's version is one line");
  expect(what.find("()") == std::string::npos, "the library has a version");
}

int run(void (*mode)()) {
  try {
    mode();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, void (*)()> modes{{"conforms", conforms},
                                                {"part", conforms_over_part_of_the_world},
                                                {"missing", missing_rank},
                                                {"connect", connect_ranks},
                                                {"pmix", pmix_conforms}};
  const std::string name = argc == 2 ? argv[1] : "";
  if (name == "no-init") return run(no_init);
  const auto mode = modes.find(name);
  if (mode == modes.end()) return 2;
  MPI_Init(&argc, &argv);
  const int status = run(mode->second);
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0 && status != 0) MPI_Abort(MPI_COMM_WORLD, status);
  if (finalized == 0) MPI_Finalize();
  expect_error(GSHMEMX_ERROR_BOOTSTRAP, "MPI has been finalized",
               [] { (void)create(MPI_COMM_WORLD); });
  if (!kept) return status;
  char byte = 0;
  expect_error(GSHMEMX_ERROR_BOOTSTRAP, "MPI has been finalized",
               [&] { kept->rank() % 2 == 0 ? kept->barrier() : kept->allgather(&byte, &byte, 1); });
  kept.reset();
  return status;
}
