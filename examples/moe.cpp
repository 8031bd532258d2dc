// A layer of a mixture of experts: dispatch, experts, combine, in one kernel. Every PE has tokens
// and experts. Each token goes to two experts on any PE and returns from both. Each expert has a
// signal for every PE that sends to it: it begins with the rows of one PE while those of others are
// in flight.
//   mpirun -np 4 bin/moe     or as threads: bin/moe 4
#include <gshmem/gshmem.hpp>

#include <cstdio>
#include <cstdlib>

constexpr int kTokens = 256, kHidden = 512, kExperts = 4,
              kTop = 2;            // tokens and experts of each PE
constexpr int kRow = kHidden + 2;  // two numbers identify the row's token; the data follows

// Any distribution works, with two different experts for a token.
GSHMEM_FN int expert_of(int pe, int token, int choice, int experts) {
  return ((pe * 7 + token * 5) * 3 + choice * (1 + token % (experts - 1))) % experts;
}
GSHMEM_FN float gate_of(int token, int choice) {
  return choice == 0 ? 0.75f : 0.25f + static_cast<float>(token % 2);
}
GSHMEM_FN float value_of(int pe, int token, int i) {
  return static_cast<float>(pe * 100 + token + i % 8);
}
GSHMEM_FN float weight_of(int expert, int i) { return static_cast<float>(expert + i % 3); }

// Memory that the PEs share. An expert's part of `inbox` has space for all tokens of every PE.
// `taken` counts its rows at their source, and `arrived` at their destination.
struct Shared {
  float* inbox;  // [expert of this PE][source][row][kRow]
  // [expert of this PE][source]: number of rows that will arrive, plus one.
  std::uint64_t* announced;
  std::uint64_t* arrived;   // [expert of this PE][source]: number of rows that have arrived
  int* taken;               // [expert of all]: number of rows that this PE has sent
  float* outbox;            // [token][choice][kHidden]: the results
  std::uint64_t* returned;  // [token]: number of results that have arrived
};

struct Layer {
  GSHMEM_FN void operator()(gshmem::LaunchContext ctx, const float* tokens, float* rows,
                            Shared shared, float* result) const {
    dispatch(ctx, tokens, rows, shared);
    run_experts(ctx, shared);
    combine(ctx, shared, result);
  }

  // `rows` is where this PE assembles its rows; each is in use until quiet.
  GSHMEM_FN static void dispatch(gshmem::LaunchContext ctx, const float* tokens, float* rows,
                                 Shared shared) {
    const gshmem::Block block = ctx.block();
    const bool leader = block.thread_rank() == 0;
    const int me = ctx.my_pe(), experts = ctx.n_pes() * kExperts;
    for (int e = ctx.block_rank(); leader && e < experts; e += ctx.grid_size()) {
      std::uint64_t count = 0;
      for (int t = 0; t < kTokens; ++t) {
        for (int c = 0; c < kTop; ++c) count += expert_of(me, t, c, experts) == e;
      }
      ctx.signal({shared.announced + (e % kExperts) * ctx.n_pes() + me, count + 1}, e / kExperts);
    }
    for (int i = ctx.block_rank(); i < kTokens * kTop; i += ctx.grid_size()) {
      const int token = i / kTop, choice = i % kTop, e = expert_of(me, token, choice, experts);
      float* const row = rows + i * kRow;
      for (int j = block.thread_rank(); j < kHidden; j += block.size())
        row[2 + j] = tokens[token * kHidden + j];
      if (leader) {
        row[0] = static_cast<float>(i);
        row[1] = static_cast<float>(ctx.atomic_fetch_add(shared.taken + e, 1, me));
      }
      block.sync();
      const int line = (e % kExperts) * ctx.n_pes() + me;
      float* const there =
          shared.inbox +
          (static_cast<std::size_t>(line) * kTokens + static_cast<std::size_t>(row[1])) * kRow;
      ctx.put_signal_nbi(block, there, row, kRow, {shared.arrived + line, 1, gshmem::Signal::kAdd},
                         e / kExperts);
    }
  }

  GSHMEM_FN static void run_experts(gshmem::LaunchContext ctx, Shared shared) {
    const gshmem::Block block = ctx.block();
    const int n = ctx.n_pes();
    for (int line = ctx.block_rank(); line < kExperts * n; line += ctx.grid_size()) {
      const int expert = ctx.my_pe() * kExperts + line / n, source = line % n;
      if (block.thread_rank() == 0) {
        const std::uint64_t count =
            ctx.signal_wait_until(shared.announced + line, gshmem::Cmp::kNe, 0) - 1;
        ctx.signal_wait_until(shared.arrived + line, gshmem::Cmp::kGe, count);
      }
      block.sync();
      const std::uint64_t count = ctx.signal_fetch(shared.announced + line) - 1;
      for (std::uint64_t r = 0; r < count; ++r) {
        float* const row = shared.inbox + (static_cast<std::size_t>(line) * kTokens + r) * kRow;
        for (int j = block.thread_rank(); j < kHidden; j += block.size())
          row[2 + j] *= weight_of(expert, j);
        block.sync();
        const int i = static_cast<int>(row[0]);
        ctx.put_signal_nbi(block, shared.outbox + i * kHidden, row + 2, kHidden,
                           {shared.returned + i / kTop, 1, gshmem::Signal::kAdd}, source);
      }
    }
  }

  GSHMEM_FN static void combine(gshmem::LaunchContext ctx, Shared shared, float* result) {
    const gshmem::Block block = ctx.block();
    for (int t = ctx.block_rank(); t < kTokens; t += ctx.grid_size()) {
      if (block.thread_rank() == 0)
        ctx.signal_wait_until(shared.returned + t, gshmem::Cmp::kGe, kTop);
      block.sync();
      const float* const came = shared.outbox + t * kTop * kHidden;
      for (int j = block.thread_rank(); j < kHidden; j += block.size()) {
        float sum = 0;
        for (int c = 0; c < kTop; ++c) sum += gate_of(t, c) * came[c * kHidden + j];
        result[t * kHidden + j] = sum;
      }
    }
    ctx.quiet();  // completes the rows, and the results sent back
  }
};

void run(const gshmem::Runtime& runtime) {
  const int me = runtime.my_pe(), n = runtime.n_pes(), experts = n * kExperts;
  const auto lines = static_cast<std::size_t>(kExperts * n);
  gshmem::SymmetricArray<float> tokens(kTokens * kHidden), rows(kTokens * kTop * kRow),
      inbox(lines * kTokens * kRow), outbox(kTokens * kTop * kHidden), result(kTokens * kHidden);
  gshmem::SymmetricArray<std::uint64_t> announced(lines), arrived(lines), returned(kTokens);
  gshmem::SymmetricArray<int> taken(static_cast<std::size_t>(experts));
  std::vector<float> mine(tokens.size());
  for (int i = 0; i < kTokens * kHidden; ++i)
    mine[static_cast<std::size_t>(i)] = value_of(me, i / kHidden, i % kHidden);
  tokens.write(mine, me);

  const bool gpu = runtime.on_gpu();
  const Shared shared{inbox.data(), announced.data(), arrived.data(),
                      taken.data(), outbox.data(),    returned.data()};
  gshmem::launch({.blocks = gpu ? 32u : 2u, .threads = gpu ? 256u : 2u}, Layer{}, tokens.data(),
                 rows.data(), shared, result.data());
  gshmem::synchronize();

  const std::vector<float> got = result.to_vector(me);
  for (int i = 0; i < kTokens * kHidden; ++i) {
    const int token = i / kHidden, j = i % kHidden;
    float want = 0;
    for (int c = 0; c < kTop; ++c) {
      want += gate_of(token, c) *
              (value_of(me, token, j) * weight_of(expert_of(me, token, c, experts), j));
    }
    if (got[static_cast<std::size_t>(i)] != want)
      throw std::runtime_error("token " + std::to_string(token) + " is wrong");
  }
  if (me == 0)
    std::printf("moe: %d tokens of %d PEs through %d experts, results correct\n", kTokens, n,
                experts);
}

int main(int argc, char** argv) {
  try {
    argc > 1 ? gshmem::run_threads(std::atoi(argv[1]), run) : run(gshmem::Runtime());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "moe: %s\n", error.what());
    return 1;
  }
  return 0;
}
