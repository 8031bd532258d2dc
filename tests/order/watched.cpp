// Runs the programs of cases.def and calls.def as kernels that are compiled with
// -DGSHMEM_CHECK_ORDER, with two PEs as threads: in CPU mode, or on one GPU or two. Compares what
// is reported with the specification.
#include <gshmem/gshmem.hpp>

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <unordered_map>

namespace {

using gshmem::device::State;

// Which of the races two calls show. The others are between a call and a load or store of the
// program, or of two PEs: ThreadSanitizer finds those in CPU mode.
enum class Expected { kFree, kSeen, kUnseen };
struct Case {
  const char* program;
  Expected expected;
};
constexpr Case kCases[] = {
#define FREE(PROGRAM) {PROGRAM, Expected::kFree},
#define RACE(PROGRAM) {PROGRAM, Expected::kUnseen},
#define CALLS(PROGRAM) {PROGRAM, Expected::kSeen},
#include "cases.def"
#define FREE(PROGRAM) {PROGRAM, Expected::kFree},
#define RACE(PROGRAM) {PROGRAM, Expected::kUnseen},
#define CALLS(PROGRAM) {PROGRAM, Expected::kSeen},
#include "calls.def"
};

constexpr std::size_t kCount = 32;
struct Arrays {
  int x[kCount], y[kCount], other[kCount], flag;
  std::uint64_t signal;
  long lock;
};

// (clang-format 14 moves these lines each time.)
// clang-format off
#define GSHMEM_WORDS(WORD) \
  WORD(put) WORD(put_nbi) WORD(iput) WORD(p) WORD(get) WORD(get_nbi) WORD(iget) WORD(g) \
  WORD(put_signal) WORD(put_signal_nbi) WORD(other_signal) WORD(add) WORD(set) WORD(fetch) \
  WORD(fetch_add) WORD(fetch_nbi) WORD(load) WORD(store) WORD(read) WORD(write) WORD(fence) \
  WORD(quiet) WORD(barrier) WORD(sync) WORD(allreduce) WORD(signal) WORD(await) WORD(flag) \
  WORD(set_flag) WORD(add_flag) WORD(wait) WORD(test) WORD(poll) WORD(lock) WORD(unlock) \
  WORD(add_signal) WORD(peek) WORD(clear) WORD(until_found) WORD(reduce_y) WORD(get_other) \
  WORD(put_other) WORD(add_two) WORD(add_again)
// clang-format on
enum class Word {
#define GSHMEM_WORD(NAME) NAME,
  GSHMEM_WORDS(GSHMEM_WORD)
#undef GSHMEM_WORD
};
struct Step {
  Word word;
  bool on_ctx, to_self;
};
constexpr int kMostSteps = 8;
struct Program {
  Step steps[kMostSteps];
  int count = 0;
};

struct Run {
  GSHMEM_FN static std::uint32_t* findings(const State& state, int pe) {
    return &gshmem::device::peer_address(state, state.control->order, pe)->findings;
  }

  GSHMEM_FN static void step(const gshmem::Context& own, const Step& s, Arrays* at,
                             gshmem_ctx_t handle, int* seen) {
    using gshmem::device::load_relaxed;
    const gshmem::Context on = s.on_ctx ? own.on(handle) : own;
    const gshmem::Thread self;
    const int me = own.my_pe(), pe = s.to_self ? me : 1 - me;
    const gshmem::api::Caller call{own.state(), "step"};
    int* const x = at->x;
    int* const y = at->y;
    switch (s.word) {
      case Word::put:
        return on.put(self, x, y, kCount, pe);
      case Word::put_nbi:
        return on.put_nbi(self, x, y, kCount, pe);
      case Word::iput:
        return on.iput(self, x, y, {2, 2, kCount / 2}, pe);
      case Word::p:
        return on.p(x, *y, pe);
      case Word::get:
        return on.get(self, y, x, kCount, pe);
      case Word::get_nbi:
        return on.get_nbi(self, y, x, kCount, pe);
      case Word::iget:
        return on.iget(self, y, x, {2, 2, kCount / 2}, pe);
      case Word::g:
        return void(*seen += on.g(x, pe));
      case Word::put_signal:
        return on.put_signal(self, x, y, kCount, {&at->signal, 1}, pe);
      case Word::put_signal_nbi:
        return on.put_signal_nbi(self, x, y, kCount, {&at->signal, 1}, pe);
      case Word::other_signal:
        return on.put_signal(self, at->other, y, kCount, {&at->signal, 1}, pe);
      case Word::add:
        return on.atomic_add(x, 1, pe);
      case Word::set:
        return on.atomic_set(x, 1, pe);
      case Word::fetch:
        return void(*seen += on.atomic_fetch(x, pe));
      case Word::fetch_add:
        return void(*seen += on.atomic_fetch_add(x, 1, pe));
      case Word::fetch_nbi:
        return gshmem::api::fetch_into(call, y, "source", x, pe,
                                       [&] { return gshmem::api::amo_fetch(call, x, pe); });
      case Word::load:
        return void(*seen += x[0]);
      case Word::store:
        return void(x[0] = 1);
      case Word::read:
        return void(*seen += y[0]);
      case Word::write:
        return void(y[0] = 2);
      case Word::fence:
        return on.fence();
      case Word::quiet:
        return on.quiet();
      case Word::barrier:
        return own.barrier_all(self);
      case Word::sync:
        return own.sync_all(self);
      case Word::allreduce:
        return void(own.reduce<gshmem::ReduceOp::kSum>(self, GSHMEM_TEAM_WORLD, at->other,
                                                       at->other, kCount));
      case Word::reduce_y:
        return void(
            own.reduce<gshmem::ReduceOp::kSum>(self, GSHMEM_TEAM_WORLD, at->other, y, kCount));
      case Word::get_other:
        return on.get(self, y, at->other, kCount, pe);
      case Word::put_other:
        return on.put(self, at->other, y, kCount, pe);
      case Word::signal:
        return on.signal({&at->signal, 1}, pe);
      case Word::add_signal:
        return on.signal({&at->signal, 1, gshmem::Signal::kAdd}, pe);
      case Word::await:
        return void(own.signal_wait_until(&at->signal, gshmem::Cmp::kEq, 1));
      case Word::flag:
        return on.p(&at->flag, 1, pe);
      case Word::set_flag:
        return on.atomic_set(&at->flag, 1, pe);
      case Word::add_flag:
        return void(on.atomic_fetch_add(&at->flag, 1, pe));
      case Word::wait:
        return own.wait_until(&at->flag, gshmem::Cmp::kEq, 1);
      case Word::test:
        while (!own.test(&at->flag, gshmem::Cmp::kEq, 1)) {
        }
        return;
      case Word::poll:
        while (own.atomic_fetch(&at->flag, me) == 0) {
        }
        return;
      case Word::lock:
        return gshmem::api::set_lock(call, &at->lock);
      case Word::unlock:
        return gshmem::api::clear_lock(call, &at->lock);
      case Word::peek:  // not a wait: it orders nothing
        for (unsigned polls = 1; load_relaxed(&at->signal) == 0; ++polls)
          gshmem::device::pause(polls);
        return;
      case Word::clear:
        for (int& each : at->x) each = 0;
        return;
      case Word::add_two:
        return on.signal({&at->signal, 2, gshmem::Signal::kAdd}, pe);
      case Word::add_again:  // at once: a call of the checker would take time
        gshmem::device::atomic_add(gshmem::device::peer_address(own.state(), &at->signal, pe),
                                   std::uint64_t{1});
        return;
      case Word::until_found: {
        constexpr std::uint64_t kMostNs = 2'000'000'000;
        const std::uint64_t started = gshmem::device::now_ns();
        for (unsigned polls = 1; load_relaxed(findings(own.state(), pe)) == 0 &&
                                 gshmem::device::now_ns() - started < kMostNs;
             ++polls)
          gshmem::device::pause(polls);
        return;
      }
    }
  }

  GSHMEM_FN void operator()(gshmem::LaunchContext ctx, Program program, Arrays* at,
                            gshmem_ctx_t handle) const {
    const int me = ctx.my_pe();
    for (std::size_t i = 0; i < kCount; ++i) {
      at->x[i] = at->other[i] = 0;
      at->y[i] = 7;
    }
    at->flag = 0;
    at->signal = 0;
    at->lock = 0;
    forget_findings(*ctx.state().control->order);
    ctx.on(handle).quiet();
    ctx.barrier_all(gshmem::Thread{});
    int seen = 0;
    for (int i = 0; i < program.count; ++i) step(ctx, program.steps[i], at, handle, &seen);
    if (seen == 12345) printf("PE %d: %d\n", me, seen);
    ctx.on(handle).quiet();
    ctx.barrier_all(gshmem::Thread{});
  }

 private:
  /// A place is reported once; here the same places are in many programs.
  GSHMEM_FN static void forget_findings(gshmem::abi::OrderShadow& shadow) {
    for (std::uint64_t& each : shadow.pairs) each = 0;
    shadow.findings = 0;
  }
};

/// Tells PE 0 how many findings this PE has.
struct Tell {
  GSHMEM_FN void operator()(gshmem::LaunchContext ctx, int* count) const {
    const int me = ctx.my_pe();
    ctx.p(count + me, static_cast<int>(*Run::findings(ctx.state(), me)), 0);
    ctx.barrier_all(gshmem::Thread{});
  }
};

Program compile(const std::string& text) {
  static const std::unordered_map<std::string, Word> words{
#define GSHMEM_WORD(NAME) {#NAME, Word::NAME},
      GSHMEM_WORDS(GSHMEM_WORD)
#undef GSHMEM_WORD
  };
  Program program;
  std::istringstream all(text);
  for (std::string word; all >> word;) {
    const char prefix = word[1] == ':' ? word[0] : ' ';
    const auto found = words.find(prefix == ' ' ? word : word.substr(2));
    if (found == words.end() || program.count == kMostSteps)
      throw std::runtime_error("no such word: " + word);
    program.steps[program.count++] = {found->second, prefix == 'c', prefix == 'o'};
  }
  return program;
}

int wrong = 0;
bool says_each = false;

void run(const gshmem::Runtime& runtime) {
  const int me = runtime.my_pe();
  auto* const at = static_cast<Arrays*>(gshmem_malloc(sizeof(Arrays)));
  auto* const count = static_cast<int*>(gshmem_malloc(2 * sizeof(int)));
  gshmem_ctx_t ctx = GSHMEM_CTX_INVALID;
  if (gshmem_ctx_create(0, &ctx) != 0) throw std::runtime_error("no context");
  const State& state = *gshmemi_ambient()->state;
  if (!state.control->order) throw std::runtime_error("no calls are noted");
  for (const Case& each : kCases) {
    const std::string text = each.program;
    const std::size_t bar = text.find('|');
    const std::string mine = me == 0                    ? text.substr(0, bar)
                             : bar == std::string::npos ? ""
                                                        : text.substr(bar + 1);
    if (says_each && me == 0) {
      std::printf("program: %s\n", each.program);
      std::fflush(stdout);
    }
    // A wait may end before the addition that it should not have missed.
    const int rounds = text.find("add_again") == std::string::npos ? 1 : 10;
    for (int round = 1; round <= rounds; ++round) {
      gshmem::launch({}, Run{}, compile(mine), at, ctx);
      gshmem::synchronize();
      gshmem::launch({}, Tell{}, count);
      gshmem::synchronize();
      int found[2];
      gshmem_getmem(found, count, sizeof(found), 0);
      gshmem_barrier_all();
      const bool is_found = found[0] + found[1] != 0;
      if (is_found == (each.expected == Expected::kSeen)) break;
      if (me != 0 || round < rounds) continue;
      ++wrong;
      std::printf("%s: %s\n", each.program,
                  is_found ? "reported, and it is not expected" : "the race is not found");
    }
  }
  gshmem_ctx_destroy(ctx);
  gshmem_free(count);
  gshmem_free(at);
}

}  // namespace

/// With an argument, names each program before it runs.
int main(int arguments, char**) {
  says_each = arguments > 1;
  setenv("GSHMEM_MAX_PES_PER_GPU", "2", 1);
  gshmem::run_threads(2, run);
  std::printf("%zu cases, %d wrong\n", std::size(kCases), wrong);
  return wrong == 0 ? 0 : 1;
}
