// Runs the programs of cases.def and cpu_cases.def under the order checker, with two PEs as
// threads, and compares the reports with the specification.
#include <gshmem/deepep.h>
#include <gshmem/gshmem.hpp>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <sstream>
#include <string>

namespace {

struct Case {
  const char* program;
  bool races;
};
constexpr Case kCases[] = {
#define FREE(PROGRAM) {PROGRAM, false},
#define RACE(PROGRAM) {PROGRAM, true},
#define CALLS(PROGRAM) {PROGRAM, true},
#include "cases.def"
#define FREE(PROGRAM) {PROGRAM, false},
#define RACE(PROGRAM) {PROGRAM, true},
#include "cpu_cases.def"
};

std::atomic<int> reports{0};

constexpr std::size_t kCount = 32;
struct alignas(16) Arrays {
  int x[kCount], y[kCount], other[kCount], flag;
  std::uint64_t signal;
  long lock;
};

struct Pe {
  Arrays* at;
  gshmem_ctx_t ctx;
  int me;
  int seen = 0;

  /// Executes a word of cases.def.
  void step(std::string word) {
    gshmem_ctx_t on = GSHMEM_CTX_DEFAULT;
    int pe = 1 - me;
    if (word[1] == ':') {
      if (word[0] == 'c') on = ctx;
      if (word[0] == 'o') pe = me;
      word = word.substr(2);
    }
    const auto is = [&](const char* what) { return word == what; };
    int* const x = at->x;
    int* const y = at->y;
    if (is("put")) return gshmem_ctx_int_put(on, x, y, kCount, pe);
    if (is("put_nbi")) return gshmem_ctx_int_put_nbi(on, x, y, kCount, pe);
    if (is("iput")) return gshmem_ctx_int_iput(on, x, y, 2, 2, kCount / 2, pe);
    if (is("p")) return gshmem_ctx_int_p(on, x, *y, pe);
    if (is("get")) return gshmem_ctx_int_get(on, y, x, kCount, pe);
    if (is("get_nbi")) return gshmem_ctx_int_get_nbi(on, y, x, kCount, pe);
    if (is("iget")) return gshmem_ctx_int_iget(on, y, x, 2, 2, kCount / 2, pe);
    if (is("g")) return void(seen += gshmem_int_g(x, pe));
    if (is("put_signal"))
      return gshmem_int_put_signal(x, y, kCount, &at->signal, 1, GSHMEM_SIGNAL_SET, pe);
    if (is("put_signal_nbi"))
      return gshmem_int_put_signal_nbi(x, y, kCount, &at->signal, 1, GSHMEM_SIGNAL_SET, pe);
    if (is("other_signal"))
      return gshmem_int_put_signal(at->other, y, kCount, &at->signal, 1, GSHMEM_SIGNAL_SET, pe);
    if (is("add")) return gshmem_int_atomic_add(x, 1, pe);
    if (is("set")) return gshmem_int_atomic_set(x, 1, pe);
    if (is("fetch")) return void(seen += gshmem_int_atomic_fetch(x, pe));
    if (is("fetch_add")) return void(seen += gshmem_int_atomic_fetch_add(x, 1, pe));
    if (is("fetch_nbi")) return gshmem_int_atomic_fetch_nbi(y, x, pe);
    if (is("load")) return void(seen += x[0]);
    if (is("store")) return void(x[0] = 1);
    if (is("read")) return void(seen += y[0]);
    if (is("write")) return void(y[0] = 2);
    if (is("fence")) return gshmem_ctx_fence(on);
    if (is("quiet")) return gshmem_ctx_quiet(on);
    if (is("barrier")) return gshmem_barrier_all();
    if (is("sync")) return gshmem_sync_all();
    if (is("allreduce"))
      return void(gshmem_int_sum_reduce(GSHMEM_TEAM_WORLD, at->other, at->other, kCount));
    if (is("reduce")) return void(gshmem_int_sum_reduce(GSHMEM_TEAM_WORLD, x, y, kCount));
    if (is("other_reduce"))
      return void(gshmem_int_sum_reduce(GSHMEM_TEAM_WORLD, at->other, y, kCount));
    if (is("inscan")) return void(gshmem_int_sum_inscan(GSHMEM_TEAM_WORLD, x, y, kCount));
    if (is("reducescatter"))
      return void(gshmem_int_sum_reducescatter(GSHMEM_TEAM_WORLD, x, y, kCount / 2));
    if (is("long_double")) {
      auto* const dest = reinterpret_cast<long double*>(x);
      auto* const source = reinterpret_cast<long double*>(y);
      return void(gshmem_longdouble_sum_reduce(GSHMEM_TEAM_WORLD, dest, source, kCount / 4));
    }
    if (is("broadcast")) return void(gshmem_int_broadcast(GSHMEM_TEAM_WORLD, x, y, kCount, 0));
    if (is("alltoall")) return void(gshmem_int_alltoall(GSHMEM_TEAM_WORLD, x, y, kCount / 2));
    if (is("fcollect")) return void(gshmem_int_fcollect(GSHMEM_TEAM_WORLD, x, y, kCount / 2));
    if (is("collect")) return void(gshmem_int_collect(GSHMEM_TEAM_WORLD, x, y, kCount / 2));
    if (is("ibput")) return gshmem_int_ibput(x, y, 4, 4, 2, kCount / 4, pe);
    if (is("ibget")) return gshmem_int_ibget(y, x, 4, 4, 2, kCount / 4, pe);
    if (is("queue_p")) return nvshmemi_ibgda_rma_p(x, *y, pe, 0);
    if (is("queue_add")) return nvshmemi_ibgda_amo_nonfetch_add(&at->flag, 1, pe, 0);
    if (is("queue_quiet")) return nvshmemi_ibgda_quiet(pe, 0);
    if (is("load_all")) return void(std::for_each_n(x, kCount, [&](int each) { seen += each; }));
    if (is("load_other")) return void(seen += at->other[0]);
    if (is("store_other")) return void(at->other[0] = 1);
    if (is("signal")) return gshmemx_signal_op(&at->signal, 1, GSHMEM_SIGNAL_SET, pe);
    if (is("await")) return void(gshmem_signal_wait_until(&at->signal, GSHMEM_CMP_EQ, 1));
    if (is("flag")) return gshmem_int_p(&at->flag, 1, pe);
    if (is("set_flag")) return gshmem_int_atomic_set(&at->flag, 1, pe);
    if (is("add_flag")) return void(gshmem_int_atomic_fetch_add(&at->flag, 1, pe));
    if (is("wait")) return gshmem_int_wait_until(&at->flag, GSHMEM_CMP_EQ, 1);
    if (is("test")) {
      while (gshmem_int_test(&at->flag, GSHMEM_CMP_EQ, 1) == 0) {
      }
      return;
    }
    if (is("poll")) {
      while (gshmem_int_atomic_fetch(&at->flag, me) == 0) {
      }
      return;
    }
    if (is("lock")) return gshmem_set_lock(&at->lock);
    if (is("unlock")) return gshmem_clear_lock(&at->lock);
    throw std::runtime_error("cases.def: no such word: " + word);
  }

  void run(const std::string& program) {
    std::memset(at, 0, sizeof(*at));
    gshmem_ctx_quiet(ctx);
    gshmem_barrier_all();
    const std::size_t bar = program.find('|');
    std::istringstream words(me == 0                    ? program.substr(0, bar)
                             : bar == std::string::npos ? ""
                                                        : program.substr(bar + 1));
    for (std::string word; words >> word;) step(word);
    gshmem_ctx_quiet(ctx);
    gshmem_barrier_all();
  }
};

int wrong = 0;

void run(const gshmem::Runtime& runtime) {
  // Some versions of ThreadSanitizer report an address once.
  constexpr std::size_t kRounds = 5, kArrays = std::size(kCases) * kRounds;
  Pe pe{static_cast<Arrays*>(gshmem_malloc(kArrays * sizeof(Arrays))), GSHMEM_CTX_INVALID,
        runtime.my_pe()};
  Arrays* const all = pe.at;
  Arrays* next = all;
  if (gshmem_ctx_create(0, &pe.ctx) != 0) throw std::runtime_error("no context");
  for (const Case& each : kCases) {
    // ThreadSanitizer may miss simultaneous accesses; it never reports a race that is none.
    for (std::size_t round = 0; round < (each.races ? kRounds : 1); ++round) {
      pe.at = next++;
      const int before = reports.load();
      gshmem_barrier_all();
      pe.run(each.program);
      const bool found = reports.load() != before;
      gshmem_barrier_all();
      if (found == each.races) break;
      if (pe.me != 0 || (each.races && round < kRounds - 1)) continue;
      ++wrong;
      std::printf("%s: %s\n", each.program,
                  each.races ? "the race is not found" : "reported, and right");
    }
  }
  gshmem_ctx_destroy(pe.ctx);
  gshmem_free(all);
}

}  // namespace

// ThreadSanitizer calls these functions of the program.
extern "C" {
__attribute__((visibility("default"))) void __tsan_on_report(void*) { reports.fetch_add(1); }
__attribute__((visibility("default"))) const char* __tsan_default_options() {
  return "exitcode=0:symbolize=0:suppress_equal_stacks=0:suppress_equal_addresses=0:log_path=/dev/"
         "null";
}
}

int main() {
  gshmem::run_threads(2, run);
  std::printf("%zu cases, %d wrong\n", std::size(kCases), wrong);
  return wrong == 0 ? 0 : 1;
}
