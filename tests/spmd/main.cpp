// Runs the conformance suite: spmd [--mode threads|launched|uid|uid-address] [--pes N]
// [--device cpu|cuda] [--gpus N] [--share N] [--sample N] [--list] [TEST...]. --gpus: skip where
// there are fewer; --share: N PEs on the first GPU; --sample: of combinations that differ little,
// one in N. Exit 0 = all passed, 1 = not, 77 = not possible here (reason on stdout), 2 = misuse, as
// names of no test are.
#include "tests/nic/soft_findings.h"
#include "tests/patience.h"
#include "tests/spmd/session.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

constexpr char kIdVariable[] = "GSHMEM_TEST_UID";  // hex of the unique id, for children of kUid
constexpr char kRankVariable[] = "GSHMEM_TEST_RANK";

[[noreturn]] void usage(const std::string& problem) {
  std::fprintf(stderr, "spmd: %s\n", problem.c_str());
  std::exit(2);
}

[[noreturn]] void skip(const std::string& why) {
  std::printf("skipped: %s\n", why.c_str());
  std::fflush(stdout);
  std::exit(77);
}

void require_gpus([[maybe_unused]] int wanted) {
#if defined(__CUDACC__)
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    skip(std::string("needs a GPU, but cudaGetDeviceCount: ") + cudaGetErrorString(error));
  }
  if (count < wanted) {
    skip("needs " + std::to_string(wanted) + " GPUs, this machine has " + std::to_string(count));
  }
#else
  skip("needs a GPU, but this program was built without CUDA");
#endif
}

int run_one(const Options& options, gshmemx_thread_world_t* world, int rank,
            const gshmemx_uniqueid_t* id) {
  try {
    return Session(options, world, rank, id).run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    return 1;
  }
}

int run_as_threads(const Options& options) {
  gshmemx_thread_world_t* world = gshmemx_thread_world_create(options.pes);
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < options.pes; ++rank) {
    threads.emplace_back([&, rank] { failed += run_one(options, world, rank, nullptr); });
  }
  for (std::thread& thread : threads) thread.join();
  gshmemx_thread_world_destroy(world);
  return failed;
}

std::string hex(const gshmemx_uniqueid_t& id) {
  std::string text;
  const auto* bytes = reinterpret_cast<const unsigned char*>(&id);
  for (std::size_t i = 0; i < sizeof(id); ++i) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", bytes[i]);
    text += digits;
  }
  return text;
}

gshmemx_uniqueid_t unhex(const std::string& text) {
  gshmemx_uniqueid_t id{};
  auto* bytes = reinterpret_cast<unsigned char*>(&id);
  for (std::size_t i = 0; i < sizeof(id) && 2 * i + 1 < text.size(); ++i) {
    bytes[i] = static_cast<unsigned char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  }
  return id;
}

/// A TCP port of the loopback interface that was free a moment ago.
int free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    usage("no free port");
  }
  ::close(fd);
  return ntohs(address.sin_port);
}

/// Runs this program again, once per rank, and returns how many children failed.
int run_as_children(const Options& options, char** argv) {
  gshmemx_uniqueid_t id = GSHMEMX_UNIQUEID_INITIALIZER;
  if (options.mode == Mode::kUid) {
    if (gshmemx_get_uniqueid(&id) != GSHMEMX_SUCCESS) return 1;
    setenv(kIdVariable, hex(id).c_str(), 1);
  } else {
    setenv("GSHMEM_UID_ADDRESS", ("127.0.0.1:" + std::to_string(free_port())).c_str(), 1);
    setenv("GSHMEM_UID_SIZE", std::to_string(options.pes).c_str(), 1);
  }
  std::vector<pid_t> children;
  for (int rank = 0; rank < options.pes; ++rank) {
    setenv(kRankVariable, std::to_string(rank).c_str(), 1);
    if (options.mode == Mode::kUidAddress) {
      setenv("GSHMEM_UID_RANK", std::to_string(rank).c_str(), 1);
    }
    const pid_t child = fork();
    if (child == 0) {
      execv("/proc/self/exe", argv);
      _exit(127);
    }
    children.push_back(child);
  }
  int failed = 0;
  for (const pid_t child : children) {
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) ++failed;
  }
  return failed;
}

int run_all(const Options& options, char** argv) {
  switch (options.mode) {
    case Mode::kThreads:
      return run_as_threads(options);
    case Mode::kLaunched:
      return run_one(options, nullptr, -1, nullptr);
    default:
      break;
  }
  const char* rank = std::getenv(kRankVariable);
  if (!rank) return run_as_children(options, argv);
  const char* text = std::getenv(kIdVariable);
  const gshmemx_uniqueid_t id = unhex(text ? text : "");
  return run_one(options, nullptr, std::atoi(rank), &id);
}

Mode mode_from(const std::string& word) {
  if (word == "threads") return Mode::kThreads;
  if (word == "launched") return Mode::kLaunched;
  if (word == "uid") return Mode::kUid;
  if (word == "uid-address") return Mode::kUidAddress;
  usage("unknown mode " + word);
}

/// Returns the names in order.
std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const LifeTest& test : life_tests()) names.emplace_back(test.name);
  for (const Test& test : tests()) names.emplace_back(test.name);
  std::sort(names.begin(), names.end());
  return names;
}

void list() {
  for (const std::string& name : all_names()) std::printf("%s\n", name.c_str());
}

/// A run must not pass if it skips a requested test.
void check_names(const Options& options) {
  const std::vector<std::string> all = all_names();
  for (const std::string& name : options.names) {
    if (!std::binary_search(all.begin(), all.end(), name)) usage("no test is named " + name);
  }
  const auto is_life_test = [](const std::string& name) {
    return std::any_of(life_tests().begin(), life_tests().end(),
                       [&](const LifeTest& test) { return name == test.name; });
  };
  if (!options.names.empty() && options.mode == Mode::kUid &&
      std::all_of(options.names.begin(), options.names.end(), is_life_test)) {
    skip(kJoinsOnce);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // a job that is ended shows how far it was
  Options options;
  int gpus = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&]() -> std::string {
      if (i + 1 >= argc) usage(word + " needs a value");
      return argv[++i];
    };
    if (word == "--list") return list(), 0;
    if (word == "--mode")
      options.mode = mode_from(value());
    else if (word == "--pes")
      options.pes = std::stoi(value());
    else if (word == "--gpus")
      gpus = std::stoi(value());
    else if (word == "--sample")
      options.sample = static_cast<unsigned>(std::max(1, std::stoi(value())));
    else if (word == "--share") {
      // All ranks use one GPU: they are spread over the GPUs that they can see.
      setenv("CUDA_VISIBLE_DEVICES", "0", 0);
      setenv("GSHMEM_MAX_PES_PER_GPU", value().c_str(), 1);
    } else if (word == "--device")
      setenv("GSHMEM_DEVICE", value().c_str(), 1);
    else if (word[0] == '-')
      usage("unknown option " + word);
    else
      options.names.push_back(word);
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  // Loading a kernel late may wait for a kernel that waits for this PE.
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  setenv("GSHMEM_SYMMETRIC_SIZE", "64M", 0);
  setenv("GSHMEM_SYMMETRIC_LIMIT", "224M", 0);
  setenv("GSHMEM_SYMMETRIC_PART", "16M", 0);
  const std::string minute = std::to_string(60 * (gpus > 0 ? 1 : gshmem::test::kPatience));
  setenv("GSHMEM_TIMEOUT", minute.c_str(), 0);
  setenv("GSHMEM_BOOTSTRAP_TIMEOUT", minute.c_str(), 0);
  setenv("GSHMEM_LOG", "error", 0);  // tests use up the heap on purpose, which causes warnings
  test::make_soft_nic_strict();
  const char* seed = std::getenv("GSHMEM_TEST_SEED");
  // All processes of a run must agree: without a variable the seed is fixed.
  if (seed) options.seed = std::strtoull(seed, nullptr, 0);
  if (gpus > 0) require_gpus(gpus);  // without them not all bodies are compiled (CMakeLists.txt)
  check_names(options);
  const int failed = run_all(options, argv) + test::soft_nic_findings();
  if (failed != 0) std::fprintf(stderr, "spmd: FAILED, GSHMEM_TEST_SEED=%lu\n", options.seed);
  return failed != 0;
}
