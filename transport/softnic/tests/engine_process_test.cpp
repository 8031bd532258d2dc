// Tests what engines leave in their process and take from it: threads, mappings, descriptors,
// limits and variables. Processes are forked before any engine that remains.
#include "tests/lifeline.h"
#include "transport/softnic/tests/softnic.h"
#include "tests/threads_of_process.h"
#include "tests/sanitizers/sanitizers.h"
#include "tests/capture.h"
#include "transport/softnic/fabric.h"

#include <catch2/catch.hpp>

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace gshmem::test {
namespace {

/// Returns the number of mapped files whose name has `name`.
std::size_t mappings(const std::string& name) {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);)
    count += line.find(name) != std::string::npos ? 1 : 0;
  return count;
}

/// Runs `body` in a child with these variables, before any engine exists; returns its exit code.
template <class F>
int in_child(std::initializer_list<std::pair<const char*, const char*>> variables, F body) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (const auto& [name, value] : variables) ::setenv(name, value, 1);
    int code = 99;
    try {
      code = body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "child: %s\n", error.what());
    }
    ::_exit(code);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_CASE("a_destroyed_engine_leaves_no_thread_and_no_mapping") {
  std::thread([] {}).join();
  const auto before = threads();
  {
    soft::Engine engine(soft::EngineOptions{}), other(soft::EngineOptions{});
    const int fd = soft::Engine::make_fabric();
    engine.join_fabric(fd);
    other.join_fabric(fd);
    ::close(fd);
    const std::uint32_t pd = engine.create_pd(), far_pd = other.create_pd();
    Memory memory(engine, pd, 64), far(other, far_pd, 64);
    Queue a(engine, pd), b(other, far_pd);
    a.connect(b.qpn());
    b.connect(a.qpn());
    CHECK_FALSE(
        a.ring_and_wait(a.write({far.address(), far.key()}, {memory.address(), 8, memory.key()}))
            .error());
    CHECK(mappings("gshnic_uar") == 2);
  }
  // The system lists a thread for a moment after its end.
  CHECK(eventually([&] { return threads() == before; }, std::int64_t{500'000'000} * kPatience));
  CHECK(mappings("gshnic_uar") == 0);
  CHECK(mappings("gshnic_fabric") == 0);
}

TEST_CASE("programs_that_its_process_starts_inherit_no_descriptor_of_an_engine") {
  const int fd = soft::Engine::make_fabric();
  soft::Engine engine(soft::EngineOptions{});
  engine.join_fabric(fd);
  const Queue queue(engine, engine.create_pd());
  int found = 0;
  for (const auto& one : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code closed;  // the descriptor of the listing itself
    const std::string file = std::filesystem::read_symlink(one.path(), closed);
    if (file.find("gshnic") == std::string::npos) continue;
    ++found;
    INFO(file);
    CHECK((::fcntl(std::stoi(one.path().filename()), F_GETFD) & FD_CLOEXEC) != 0);
  }
  CHECK(found == 2);
  ::close(fd);
}

TEST_CASE("a_node_that_ends_is_dead_though_a_child_of_its_process_has_its_file") {
  const Lifeline lifeline;
  const int fd = soft::Engine::make_fabric();
  const soft::Fabric mine(fd);
  {
    const soft::Fabric other(fd);
    CHECK(mine.alive(1));
    // A raw system call avoids the handlers that libraries run on fork.
    if (::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr) == 0) {
      lifeline.hold();
      ::_exit(0);
    }
  }
  CHECK_FALSE(mine.alive(1));
  CHECK(mine.alive(0));
  ::close(fd);
}

TEST_CASE("a_fabric_or_uar_without_a_descriptor_or_memory_is_an_error") {
  if (kSanitized) {
    std::puts("skipped: sanitizers need descriptors and memory themselves");
    return;
  }
  const int code = in_child({}, [] {
    soft::Engine engine(soft::EngineOptions{});
    const int lowest = ::dup(0);
    ::close(lowest);
    const rlimit one_more = {rlim_t(lowest) + 1, rlim_t(lowest) + 1};
    if (::setrlimit(RLIMIT_NOFILE, &one_more) != 0) return 2;
    if (refusal([] { (void)soft::Engine::make_fabric(); }) !=
        "15: descriptor of a fabric: Too many open files")
      return 3;
    const rlimit nothing = {0, 0};
    if (::setrlimit(RLIMIT_AS, &nothing) != 0) return 4;
    void* page = nullptr;
    return refusal([&] { (void)engine.create_uar(&page); }) == "15: memory of a UAR" ? 0 : 5;
  });
  CHECK(code == 0);
}

TEST_CASE("the_nics_of_a_process_differ_and_reach_each_other") {
  const auto reaches = [](soft::Engine& from, soft::Engine& to) {
    const std::uint32_t pd = from.create_pd(), far_pd = to.create_pd();
    Memory memory(from, pd, 4096), far(to, far_pd, 4096);
    Queue a(from, pd), b(to, far_pd);
    const auto device = from.device(), far_device = to.device();
    a.connect(b.qpn(), {.route = route_to(far_device), .mtu = 512});
    b.connect(a.qpn(), {.route = route_to(device), .mtu = 512});
    *memory.as<std::uint64_t>() = 42;
    return !a.ring_and_wait(
                 a.write({far.address(), far.key()}, {memory.address(), 8, memory.key()}))
                .error() &&
           *far.as<std::uint64_t>() == 42;
  };
  const int code = in_child({{"GSHNIC_DEVICES", "2"}, {"GSHNIC_PROFILE", "roce,mtu=512"}}, [&] {
    soft::Engine &first = soft::Engine::get(0), &second = soft::Engine::get(1);
    if (first.device().mac == second.device().mac) return 1;
    if (second.device().profile.mtu != 512) return 2;  // the last one holds for all that follow
    if (refusal([] { (void)soft::Engine::get(2); }) != "3: there is no device 2") return 3;
    return reaches(first, second) ? 0 : 4;
  });
  CHECK(code == 0);

  const std::string name = "gshnic_process_" + std::to_string(::getpid());
  const int named = in_child({{"GSHNIC_DEVICES", "2"}, {"GSHNIC_FABRIC", name.c_str()}}, [&] {
    soft::Engine& second = soft::Engine::get(1);
    soft::Engine other({.fabric = name});  // as if of another process
    return reaches(second, other) ? 0 : 1;
  });
  CHECK(named == 0);
  ::shm_unlink(("/" + name).c_str());
}

TEST_CASE("the_log_of_the_nic_obeys_the_settings_of_gshmem") {
  const auto said = [](const char* level) {
    StderrCapture capture;
    const int code = in_child({{"GSHMEM_LOG", level}, {"GSHNIC_ADVERSARY", "skip=0.5"}}, [] {
      soft::Engine& engine = soft::Engine::get();
      Queue queue(engine, engine.create_pd());
      queue.store_doorbell(1, 0x3fff0);  // a violation is an error
      return eventually([&] { return engine.counters().violations == 1; }) ? 0 : 1;
    });
    std::string all = std::to_string(code) + ";";
    for (const std::string& one : capture.writes()) {
      if (one.find("adversary \"skip") != std::string::npos) all += " warning";
      if (one.find("which does not exist") != std::string::npos) all += " error";
      if (one.find("expected none, error, warn, info or debug") != std::string::npos) all += " why";
    }
    return all;
  };
  CHECK(said("") == "0; warning error");
  CHECK(said("Warn") == "0; warning error");
  CHECK(said("error") == "0; error");
  CHECK(said("NONE") == "0;");
  CHECK(said("loud").find(" why") != std::string::npos);
}

}  // namespace
}  // namespace gshmem::test
