#include "tests/model/store_buffer/model.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace gshmem::model {
namespace {

/// No run is as long: a thread waits for something that does not happen.
constexpr std::uint64_t kMaxSteps = 2'000'000;
Model* current = nullptr;

Chances draw(Random& random, std::size_t threads) {
  constexpr std::uint32_t kOften[] = {4, 16, 64, 160};
  return {kOften[random.below(4)], kOften[random.below(4)], kOften[random.below(4)],
          random.below(2 * threads)};
}

}  // namespace

Model::Model(std::uint64_t seed, std::size_t n, std::size_t warp, std::string what)
    : random(seed),
      memory(n, random),
      threads(random),
      chances(draw(random, n)),
      producers(n),
      lanes(warp),
      name(std::move(what)),
      newest_groups(n) {
  current = this;
}
Model::~Model() { current = nullptr; }
Model& model() { return *current; }

void fail(const char* format, ...) {
  std::printf("FAILED: ");
  va_list values;
  va_start(values, format);
  std::vprintf(format, values);
  va_end(values);
  if (current) {
    std::printf("\n  in step %llu of %s\n", static_cast<unsigned long long>(current->steps),
                current->name.c_str());
  }
  std::fflush(stdout);
  std::_Exit(1);
}

void step() {
  Model& run = model();
  if (++run.steps > kMaxSteps) fail("a thread waits for what does not come");
  if (run.random.chance(run.chances.leave)) {
    const std::size_t buffer = run.random.below(run.memory.buffers());
    if (buffer != run.chances.lazy || run.random.chance(16)) run.memory.leave_one(buffer);
  }
  if (run.random.chance(run.chances.arrive)) run.memory.arrive_one();
  if (run.random.chance(run.chances.change)) run.threads.switch_thread();
}

/// No store stays in its buffer as long as its thread waits.
void pause() {
  step();
  Model& run = model();
  if (run.buffer() < run.producers && run.random.chance(8)) run.memory.leave_one(run.buffer());
  run.threads.switch_thread();
}

std::uint64_t steps() { return model().steps; }

void load(const void* p, void* to, std::size_t bytes) {
  Model& run = model();
  if (run.threads.on_stack(p)) {
    std::memcpy(to, p, bytes);
    return;
  }
  step();
  run.memory.load(run.buffer(), p, to, bytes);
}

void store(void* p, const void* from, std::size_t bytes, Order order, Update update) {
  Model& run = model();
  if (run.threads.on_stack(p)) {
    if (update != Update::kReplace) std::abort();
    std::memcpy(p, from, bytes);
    return;
  }
  step();
  run.memory.store(run.buffer(), p, from, bytes, order, update);
}

void fence(View view) {
  Model& run = model();
  while (run.memory.leave_one(run.buffer())) step();
  const std::uint64_t all = run.memory.left();
  while (view == View::kSystem && !run.memory.passed(all)) {
    run.memory.arrive_one();
    step();
  }
}

void begin_atomic(void* p, void* old, std::size_t bytes) {
  step();
  Model& run = model();
  run.memory.settle(run.buffer(), p, bytes);
  run.memory.load(run.buffer(), p, old, bytes);
}
void end_atomic(void* p, const void* made, std::size_t bytes) {
  model().memory.store_for_gpu(p, made, bytes);
}

int Group::rank() const {
  const auto at = std::find(lanes_.begin(), lanes_.end(), model().threads.current());
  return static_cast<int>(at - lanes_.begin());
}

/// Returns when all threads of the group have arrived.
void Group::synchronize() {
  const std::uint64_t sync = syncs_;
  if (++arrived_ == size()) {
    arrived_ = 0;
    ++syncs_;
  }
  while (syncs_ == sync) pause();
}

void Group::sync() {
  while (model().memory.leave_one(model().buffer())) step();
  synchronize();
}

std::uint64_t Group::value_of(int rank, std::uint64_t value) {
  values_[static_cast<std::size_t>(this->rank())] = value;
  synchronize();
  const std::uint64_t got = values_[static_cast<std::size_t>(rank)];
  synchronize();  // before the next call overwrites it
  return got;
}

/// The first thread waits a while for others.
std::shared_ptr<Group> converge(std::uint64_t key) {
  Model& run = model();
  const std::size_t self = run.threads.current();
  std::weak_ptr<Group>& newest = run.newest_groups[self / run.lanes];
  std::shared_ptr<Group> group = newest.lock();
  const bool joins = run.lanes > 1 && group && group->open_ && group->key_ == key;
  if (!joins) newest = group = std::make_shared<Group>(key);
  group->lanes_.insert(std::upper_bound(group->lanes_.begin(), group->lanes_.end(), self), self);
  if (joins) {
    while (group->open_) pause();
  } else {
    for (std::uint32_t patience = run.lanes > 1 ? run.random.below(64) : 0; patience > 0;) {
      --patience;
      pause();
    }
    group->values_.resize(group->lanes_.size());
    group->open_ = false;
  }
  return group;
}

}  // namespace gshmem::model
