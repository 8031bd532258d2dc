// Programs with mistakes that gshmem-check names; a comment at a line says which word of its report
// must point there. Without a mistake: "fence", "sizes", "contexts", "quiet on a stream". Ignored
// because of a comment in the program: "ignored". Ends by a signal: "crash".
#include <gshmem/gshmem.hpp>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>

namespace {

constexpr std::size_t kBytes = 16384;

struct Copy {
  GSHMEM_FN void operator()(gshmem::LaunchContext ctx, char* dest, const char* source,
                            std::uint64_t* signal) const {
    const gshmem::Block block = ctx.block();
    if (ctx.my_pe() == 0) {
      ctx.put_nbi(block, dest, source, kBytes, 1);  // kernel: put_nbi
      if (block.thread_rank() == 0) ctx.signal({signal, 1}, 1);
    } else {
      if (block.thread_rank() == 0) ctx.signal_wait_until(signal, gshmem::Cmp::kEq, 1);
      block.sync();
      dest[block.thread_rank()] += 1;  // kernel: PE 1
    }
  }
};

/// Threads put more and more, each to a place of its own. Then each completes what the block has
/// put, and changes its part of the source.
struct Sizes {
  GSHMEM_FN void operator()(gshmem::LaunchContext ctx, char* dest, char* source) const {
    const std::size_t part = kBytes / 4, at = static_cast<std::size_t>(ctx.thread_rank()) * part;
    for (std::size_t bytes = 1; bytes <= part; bytes *= 2) {
      ctx.put(ctx.thread(), dest + at, source + at, bytes, 1 - ctx.my_pe());
      ctx.quiet();
    }
    ctx.put_nbi(ctx.block(), dest, source, kBytes, 1 - ctx.my_pe());
    ctx.quiet();
    source[at] = 1;
  }
};

/// Completes all queues, those of contexts that the host makes at the same time as well.
struct QuietOfAll {
  GSHMEM_FN void operator()(gshmem::LaunchContext) const {
    int all[] = {GSHMEMX_QP_ALL};
    for (int round = 0; round < 200; ++round) gshmemx_qp_quiet(GSHMEMX_PE_ALL, all, 1);
  }
};
void make_contexts_beside_a_kernel() {
  std::atomic<bool> over{false};
  std::thread others([&over, handle = gshmemx_pe_handle()] {
    if (gshmemx_bind_thread(handle) != 0) std::printf("wrong\n");
    while (!over) {
      gshmem_ctx_t contexts[4];
      for (gshmem_ctx_t& each : contexts) {
        if (gshmem_ctx_create(0, &each) != 0) std::printf("wrong\n");
      }
      for (const gshmem_ctx_t each : contexts) gshmem_ctx_destroy(each);
    }
    (void)gshmemx_bind_thread(nullptr);
  });
  gshmem::launch({}, QuietOfAll{});
  over = true;
  others.join();
}

void run(const gshmem::Runtime& runtime, const std::string& mistake) {
  const bool sends = runtime.my_pe() == 0;
  gshmem::SymmetricArray<char> source(kBytes), dest(kBytes);
  gshmem::SymmetricArray<std::uint64_t> signal(1);
  char* const to = dest.data();
  gshmem_barrier_all();
  if (mistake == "kernel") {
    gshmem::launch({.blocks = 1, .threads = 2}, Copy{}, to, source.data(), signal.data());
  } else if (mistake == "crash") {
    std::raise(SIGSEGV);
  } else if (mistake == "contexts") {
    make_contexts_beside_a_kernel();
  } else if (mistake == "sizes") {
    gshmem::launch({.blocks = 1, .threads = 4}, Sizes{}, to, source.data());
  } else if (mistake == "signal" || mistake == "fence") {
    if (sends) {
      if (mistake == "fence") gshmem_fence();           // orders nothing: gshmem_fence
      gshmem_putmem_nbi(to, source.data(), kBytes, 1);  // signal: gshmem_putmem_nbi
      if (mistake == "fence") gshmem_fence();
      gshmemx_signal_op(signal.data(), 1, GSHMEM_SIGNAL_SET, 1);
    } else {
      gshmem_signal_wait_until(signal.data(), GSHMEM_CMP_EQ, 1);
      if (to[100] != 0) std::printf("wrong\n");  // signal: PE 1
    }
  } else if (mistake == "memset") {
    if (!sends) std::memset(to, 0, 8);                           // memset: PE 1
    if (sends) gshmem_putmem_nbi(to, source.data(), kBytes, 1);  // memset: gshmem_putmem_nbi
  } else if (mistake == "collective") {
    gshmem_broadcastmem(GSHMEM_TEAM_WORLD, to, source.data(), 64, 0);
    if (!sends && to[60] != 0) std::printf("wrong\n");                 // collective: PE 1
    gshmem_broadcastmem(GSHMEM_TEAM_WORLD, to, source.data(), 64, 0);  // collective: broadcastmem
  } else if (sends && mistake == "source") {
    gshmem_putmem_nbi(to, source.data(), kBytes, 1);  // source: gshmem_putmem_nbi
    source.data()[5] = 1;                             // source: PE 0
  } else if (sends && mistake == "get") {
    source.data()[5] = 1;
    gshmem_getmem_nbi(to, source.data(), kBytes, 0);  // get: gshmem_getmem_nbi
    std::printf("early: %d\n", to[5]);                // get: PE 0
  } else if (sends && mistake == "stream") {
    gshmemx_getmem_nbi_on_stream(to, source.data(), kBytes, 0, nullptr);  // stream: on_stream
    if (to[7] != 0) std::printf("wrong\n");                               // stream: PE 0
  } else if (sends && mistake == "quiet on a stream") {
    gshmemx_getmem_nbi_on_stream(to, source.data(), kBytes, 0, nullptr);
    gshmemx_quiet_on_stream(nullptr);
    gshmemx_signal_wait_until_on_stream(signal.data(), GSHMEM_CMP_EQ, 0, nullptr);
    if (to[9] != 0) std::printf("wrong\n");
  } else if (sends && mistake == "ignored") {
    gshmem_getmem_nbi(to, source.data(), kBytes, 1);
    // gshmem-check: ignore, what is read here does not matter
    if (to[5] != 0) std::printf("wrong\n");
  }
  gshmem_quiet();
  gshmem_barrier_all();
}

}  // namespace

int main(int, char** argv) {
  gshmem::run_threads(2, [&](const gshmem::Runtime& runtime) { run(runtime, argv[1]); });
}
