#include "tests/spmd/session.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace gshmem::spmd {
namespace {

void print_failures(const char* name, const std::vector<std::string>& failures, std::size_t count) {
  std::string text = std::string("FAILED ") + name + " (" + std::to_string(count) + " checks)\n";
  for (const std::string& failure : failures) text += "  " + failure + "\n";
  std::fputs(text.c_str(), stderr);
}

double now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since).count();
}

}  // namespace

std::unique_ptr<Runtime> Session::join(std::uint64_t symmetric_size) const {
  gshmemx_init_attr_t attr = GSHMEMX_INIT_ATTR_INITIALIZER;
  attr.args.symmetric_size = symmetric_size;
  unsigned flags = GSHMEMX_INIT_DEFAULT;
  if (options_.mode == Mode::kThreads) {
    flags = GSHMEMX_INIT_THREAD_PES;
    (void)gshmemx_set_attr_thread_args(world_, rank_, &attr);
  } else if (options_.mode == Mode::kUid) {
    flags = GSHMEMX_INIT_WITH_UNIQUEID;
    (void)gshmemx_set_attr_uniqueid_args(rank_, options_.pes, id_, &attr);
  }
  return std::make_unique<Runtime>(flags, attr);
}

bool Session::wanted(const char* name) const {
  return options_.names.empty() ||
         std::find(options_.names.begin(), options_.names.end(), name) != options_.names.end();
}

int Session::run_test(Pe& pe, const Test& test) const {
  pe.begin(test.name, test.file, options_.seed);
  pe.barrier();
  const double start = now();
  test.body(pe);
  pe.collect();
  pe.barrier();
  gshmemx_fault_t fault;
  if (gshmemx_last_fault(&fault) != GSHMEMX_SUCCESS) {
    pe.fail(0, std::string("a fault was recorded: ") + fault.message);
    print_failures(test.name, pe.failures_, pe.failure_count_);
    throw std::runtime_error("the job cannot go on after a fault");
  }
  if (pe.failure_count_ != 0)
    print_failures(test.name, pe.failures_, pe.failure_count_);
  else if (pe.me() == 0 && pe.skipped_ != nullptr)
    std::printf("skipped %s: %s\n", test.name, pe.skipped_);
  else if (pe.me() == 0)
    std::printf("ok %s (%.2f s)\n", test.name, now() - start);
  return pe.failure_count_ != 0;
}

int Session::run_alone(const Test& test) const {
  if (!can_rejoin()) {
    if (rank_ <= 0) std::printf("skipped %s: %s\n", test.name, kJoinsOnce);
    return 0;
  }
  const std::unique_ptr<Runtime> runtime = join(test.own_heap);
  Pe pe(options_.mode, options_.seed, options_.sample);
  return run_test(pe, test);
}

int Session::run() {
  int failed = 0;
  for (const LifeTest& test : life_tests()) {
    if (!wanted(test.name)) continue;
    if (!can_rejoin()) {
      if (rank_ <= 0) std::printf("skipped %s: %s\n", test.name, kJoinsOnce);
      continue;
    }
    std::vector<std::string> failures;
    const double start = now();
    test.body(*this, failures);
    if (!failures.empty())
      print_failures(test.name, failures, failures.size());
    else if (rank_ <= 0)
      std::printf("ok %s (%.2f s)\n", test.name, now() - start);
    failed += !failures.empty();
  }
  std::vector<Test> chosen;
  for (const Test& test : tests()) {
    if (wanted(test.name)) chosen.push_back(test);
  }
  if (chosen.empty()) return failed;
  std::sort(chosen.begin(), chosen.end(),
            [](const Test& a, const Test& b) { return std::string(a.name) < b.name; });
  const auto has_own_job = [](const Test& test) { return test.own_heap != 0; };
  for (const Test& test : chosen) {
    if (has_own_job(test)) failed += run_alone(test);
  }
  if (std::all_of(chosen.begin(), chosen.end(), has_own_job)) return failed;
  const std::unique_ptr<Runtime> runtime = join();
  if (std::getenv("SPMD_READS_NEED_DUMP") != nullptr) {
    // This is the flag of GPUs that need it. Contexts that are made later have flags of their own.
    const_cast<abi::DeviceState*>(gshmemi_ambient()->state)->nic.flags |= abi::kNicReadNeedsDump;
  }
  Pe pe(options_.mode, options_.seed, options_.sample);
  if (pe.me() == 0) {
    std::printf("%d PEs %s, GSHMEM_TEST_SEED=%lu\n", pe.n(),
                pe.on_gpu() ? "on GPUs" : "in CPU mode", static_cast<unsigned long>(options_.seed));
  }
  for (const Test& test : chosen) {
    if (!has_own_job(test)) failed += run_test(pe, test);
  }
  return failed;
}

}  // namespace gshmem::spmd
