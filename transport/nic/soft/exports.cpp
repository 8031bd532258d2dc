// The C names of libgshnic, for programs that load it themselves.
#include "transport/nic/soft/engine.h"

#include "host/base/error.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>

namespace {

std::string& last_error() {
  thread_local std::string text;
  return text;
}

/// Runs `body`; -1 and gshnic_error() when it throws.
template <class F>
int guard(F body) {
  try {
    return body();
  } catch (const gshmem::soft::EngineError& error) {
    last_error() = error.reason;
  } catch (const std::exception& error) {
    last_error() = error.what();
  }
  return -1;
}

}  // namespace

using gshmem::soft::Engine;

int gshnic_make_fabric(void) {
  return guard([] { return Engine::make_fabric(); });
}

int gshnic_join_fabric(int fd) {
  return guard([fd] {
    Engine::get().join_fabric(fd);
    return 0;
  });
}

const char* gshnic_error(void) { return last_error().c_str(); }

int gshnic_inject(const char* rules) {
  return guard([=] {
    Engine::get().add_rules(rules);
    return 0;
  });
}

int gshnic_violations(char* buffer, unsigned long bytes) {
  return guard([=] {
    const std::string text = Engine::get().violations();
    if (buffer != nullptr && bytes > 0) {
      const std::size_t length = std::min<std::size_t>(text.size(), bytes - 1);
      std::memcpy(buffer, text.data(), length);
      buffer[length] = '\0';
    }
    return static_cast<int>(Engine::get().counters().violations);
  });
}
