// Threads of this process in /proc, for tests of what a thread does while it waits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

namespace gshmem::test {

/// Returns the folders of this process's threads in /proc.
inline std::set<std::string> threads() {
  std::set<std::string> all;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/task"))
    all.insert(each.path());
  return all;
}

/// Returns how often a thread has gone to sleep.
inline std::uint64_t sleeps(const std::string& thread) {
  std::ifstream status(thread + "/status");
  const std::string name = "voluntary_ctxt_switches:";
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(name)) return std::stoull(line.substr(name.size()));
  throw std::runtime_error("no count of sleeps in " + thread);
}

/// Finds the thread that was created between the constructor and of_it().
class NewThread {
 public:
  NewThread() {
    std::thread([] {}).join();  // TSan has a thread of its own from the first one on
    others_ = threads();
  }
  [[nodiscard]] std::string of_it() const {
    std::set<std::string> own = threads();
    for (const std::string& other : others_) own.erase(other);
    if (own.size() != 1) throw std::runtime_error("not one new thread");
    return *own.begin();
  }

 private:
  std::set<std::string> others_;
};

}  // namespace gshmem::test
