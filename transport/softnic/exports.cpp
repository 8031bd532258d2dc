// The C names of libgshnic, for programs that load it themselves.
#include "transport/softnic/engine.h"

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

/// Runs `body`. Returns -1 when it throws; then gshnic_error() has the reason.
template <class F>
int guard(F body) {
  try {
    return body();
  } catch (const std::exception& error) {
    last_error() = error.what();
  }
  return -1;
}

using gshmem::soft::Engine;

template <class F>
void for_each_device(F body) {
  for (int i = 0; i < Engine::devices(); ++i) body(Engine::get(i));
}

struct Findings {
  std::string text;
  std::uint64_t count;
};

/// Copies the findings of all devices as text into `buffer`. Returns their number.
template <class F>
int copy_findings(char* buffer, unsigned long bytes, F of) {
  return guard([=] {
    Findings all{};
    for_each_device([&](const Engine& engine) {
      const Findings some = of(engine);
      all.text += some.text;
      all.count += some.count;
    });
    if (buffer != nullptr && bytes > 0) {
      const std::size_t length = std::min<std::size_t>(all.text.size(), bytes - 1);
      std::memcpy(buffer, all.text.data(), length);
      buffer[length] = '\0';
    }
    return static_cast<int>(all.count);
  });
}

}  // namespace

int gshnic_make_fabric(void) {
  return guard([] { return Engine::make_fabric(); });
}

int gshnic_join_fabric(int fd) {
  return guard([fd] {
    for_each_device([=](Engine& engine) { engine.join_fabric(fd); });
    return 0;
  });
}

const char* gshnic_error(void) { return last_error().c_str(); }

int gshnic_stage(int staged) {
  return guard([=] {
    for_each_device([=](Engine& engine) { engine.model_costs(staged != 0); });
    return 0;
  });
}

int gshnic_model_time(double* seconds, double* cpu_seconds) {
  *seconds = *cpu_seconds = 0;
  int models = 0;
  for_each_device([&](Engine& engine) {
    if (const auto time = engine.model_time()) {
      *seconds += time->seconds;
      *cpu_seconds += time->cpu_seconds;
      models = 1;
    }
  });
  return models;
}

int gshnic_inject(const char* rules) {
  return guard([=] {
    for_each_device([=](Engine& engine) { engine.add_rules(rules); });
    return 0;
  });
}

int gshnic_violations(char* buffer, unsigned long bytes) {
  return copy_findings(buffer, bytes, [](const Engine& engine) {
    return Findings{engine.violations(), engine.counters().violations};
  });
}

int gshnic_remarks(char* buffer, unsigned long bytes) {
  return copy_findings(buffer, bytes, [](const Engine& engine) {
    return Findings{engine.remarks(), engine.counters().remarks};
  });
}

long gshnic_queue_pairs(void) {
  long pairs = 0;
  for_each_device(
      [&](const Engine& engine) { pairs += static_cast<long>(engine.counters().queue_pairs); });
  return pairs;
}
