// Random operations against a sequential model: in rounds between barriers every PE puts, gets,
// signals and updates atomically, from kernels and host threads, with results that do not depend on
// the order. After each round the heap of every PE must match the model.
#include "tests/spmd/spmd.h"

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

constexpr std::size_t kOps = 48;    ///< per PE and round
constexpr std::size_t kPiece = 96;  ///< bytes that one operation may write
constexpr std::size_t kCells = 24;  ///< words that all PEs update

enum OpKind : std::uint32_t {
  kPut,
  kPutNbi,
  kGet,
  kGetNbi,
  kPutSignal,
  kPutScalar,
  kAmo32,
  kAmo64,
  kKinds
};

struct Op {
  OpKind kind;
  std::int32_t pe;
  std::uint32_t from, to;  ///< offsets in bytes, or cell
  std::uint32_t size;
  std::uint32_t reserved;
  std::uint64_t value;
};

/// One PE's symmetric memory. Rounds alternate between two boards: puts write to one, gets read the
/// data of the previous round in the other.
struct Heap {
  std::uint8_t* source;   ///< kOps chunks, with the pattern of the PE
  std::uint8_t* boards;   ///< 2 x n x kOps chunks: the data of PE p is in row p
  std::uint8_t* fetched;  ///< kOps chunks
  std::uint64_t* cells64;
  std::uint32_t* cells32;
  std::uint64_t* signals;  ///< one per origin, then one that all add to
};

/// Operations on a cell commute: each cell has one operation.
enum class CellOp { kAdd, kXor, kOr };
GSHMEM_FN CellOp cell_op(std::uint32_t cell) { return static_cast<CellOp>(cell % 3); }

template <class T, class Group>
GSHMEM_FN void update(const Context& ctx, Group group, T* cells, const Op& op) {
  if (group.thread_rank() != 0) return;
  const T value = static_cast<T>(op.value);
  T* cell = cells + op.to;
  switch (cell_op(op.to)) {
    case CellOp::kAdd:
      if (op.value % 2)
        ctx.atomic_add(cell, value, op.pe);
      else
        (void)ctx.atomic_fetch_add(cell, value, op.pe);
      break;
    case CellOp::kXor:
      ctx.atomic_xor(cell, value, op.pe);
      break;
    case CellOp::kOr:
      (void)ctx.atomic_fetch_or(cell, value, op.pe);
      break;
  }
}

template <class Group>
GSHMEM_FN void perform(const Context& ctx, Group group, const Heap& heap, const Op& op) {
  const std::uint8_t* source = heap.source + op.from;
  switch (op.kind) {
    case kPut:
      return ctx.put(group, heap.boards + op.to, source, op.size, op.pe);
    case kPutNbi:
      return ctx.put_nbi(group, heap.boards + op.to, source, op.size, op.pe);
    case kGet:
      return ctx.get(group, heap.fetched + op.to, heap.boards + op.from, op.size, op.pe);
    case kGetNbi:
      return ctx.get_nbi(group, heap.fetched + op.to, heap.boards + op.from, op.size, op.pe);
    case kPutSignal: {
      const Signal set{heap.signals + ctx.my_pe(), op.value};
      const Signal add{heap.signals + ctx.n_pes(), op.value, Signal::kAdd};
      return ctx.put_signal(group, heap.boards + op.to, source, op.size, op.value % 2 ? add : set,
                            op.pe);
    }
    case kPutScalar:
      if (group.thread_rank() == 0) {
        ctx.p(reinterpret_cast<std::uint64_t*>(heap.boards + op.to), op.value, op.pe);
      }
      return;
    case kAmo32:
      return update(ctx, group, heap.cells32, op);
    case kAmo64:
      return update(ctx, group, heap.cells64, op);
    default:
      return;
  }
}

struct Perform {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log, Heap heap, const Op* ops,
                            Scope scope) const {
    const Share share = share_of(ctx, scope);
    with_group(ctx, scope, [&](auto group) {
      for (std::size_t i = static_cast<std::size_t>(share.index); i < kOps;
           i += static_cast<std::size_t>(share.count)) {
        perform(ctx, group, heap, ops[i]);
      }
      ctx.quiet();
    });
  }
};

/// The expected contents of all PEs' memory.
struct Model {
  struct PeMemory {
    std::vector<std::uint8_t> source, boards, fetched;
    std::vector<std::uint64_t> cells64, signals;
    std::vector<std::uint32_t> cells32;
  };
  std::vector<PeMemory> pes;

  Model(int n, std::uint64_t seed) : pes(static_cast<std::size_t>(n)) {
    const auto count = static_cast<std::size_t>(n);
    for (std::size_t p = 0; p < count; ++p) {
      PeMemory& m = pes[p];
      m.source.resize(kOps * kPiece);
      for (std::size_t i = 0; i < m.source.size(); ++i) m.source[i] = pattern(mix(seed, p), i);
      m.boards.resize(2 * count * kOps * kPiece);
      m.fetched.resize(kOps * kPiece);
      m.cells64.resize(kCells);
      m.cells32.resize(kCells);
      m.signals.resize(count + 1);
    }
  }

  static std::uint64_t apply(CellOp op, std::uint64_t cell, std::uint64_t value) {
    return op == CellOp::kAdd ? cell + value : op == CellOp::kXor ? cell ^ value : cell | value;
  }

  void perform(std::size_t origin, const Op& op) {
    PeMemory& mine = pes[origin];
    PeMemory& theirs = pes[static_cast<std::size_t>(op.pe)];
    const auto copy = [&](std::vector<std::uint8_t>& to, const std::vector<std::uint8_t>& from) {
      for (std::uint32_t i = 0; i < op.size; ++i) to[op.to + i] = from[op.from + i];
    };
    switch (op.kind) {
      case kPutSignal:
        if (op.value % 2)
          theirs.signals.back() += op.value;
        else
          theirs.signals[origin] = op.value;
        [[fallthrough]];
      case kPut:
      case kPutNbi:
        return copy(theirs.boards, mine.source);
      case kGet:
      case kGetNbi:
        return copy(mine.fetched, theirs.boards);
      case kPutScalar:
        for (std::uint32_t i = 0; i < 8; ++i)
          theirs.boards[op.to + i] = static_cast<std::uint8_t>(op.value >> (8 * i));
        return;
      case kAmo32: {
        const auto value = static_cast<std::uint32_t>(op.value);
        theirs.cells32[op.to] =
            static_cast<std::uint32_t>(apply(cell_op(op.to), theirs.cells32[op.to], value));
        return;
      }
      case kAmo64:
        theirs.cells64[op.to] = apply(cell_op(op.to), theirs.cells64[op.to], op.value);
        return;
      default:
        return;
    }
  }
};

/// Returns the operations of PE `origin` in `round`, the same on every PE.
std::vector<Op> make_ops(std::uint64_t seed, int n, std::size_t origin, int round) {
  Random random{mix(seed, static_cast<std::uint64_t>(round) * 1000 + origin)};
  const std::size_t row = kOps * kPiece, board = static_cast<std::size_t>(n) * row;
  const std::size_t now = static_cast<std::size_t>(round % 2) * board;
  const std::size_t before = board - now;
  std::vector<Op> ops(kOps);
  // There is at most one set of a signal per target and round, since otherwise the last one is
  // undefined.
  std::vector<bool> signalled(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < kOps; ++i) {
    Op& op = ops[i];
    op.kind = static_cast<OpKind>(random.below(kKinds));
    op.pe = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(n)));
    op.value = random.next();
    const std::uint64_t offset = random.below(kPiece / 2);
    op.size = static_cast<std::uint32_t>(random.below(kPiece - offset + 1));
    op.from = static_cast<std::uint32_t>(random.below(row - kPiece));
    op.to = static_cast<std::uint32_t>(now + origin * row + i * kPiece + offset);
    if (op.kind == kGet || op.kind == kGetNbi) {
      op.from = static_cast<std::uint32_t>(before + random.below(board - kPiece));
      op.to = static_cast<std::uint32_t>(i * kPiece + offset);
    } else if (op.kind == kPutScalar) {
      op.to = op.to / 8 * 8;
    } else if (op.kind == kAmo32 || op.kind == kAmo64) {
      op.to = static_cast<std::uint32_t>(random.below(kCells));
    } else if (op.kind == kPutSignal && op.value % 2 == 0) {
      if (signalled[static_cast<std::size_t>(op.pe)]) op.value |= 1;
      signalled[static_cast<std::size_t>(op.pe)] = true;
    }
  }
  return ops;
}

/// The symmetric memory of one PE, and its comparison with the model.
class Memory {
 public:
  Memory(Pe& pe, const Model::PeMemory& initial)
      : ops(kOps),
        source_(initial.source.size()),
        boards_(initial.boards.size()),
        fetched_(initial.fetched.size()),
        cells64_(kCells),
        signals_(initial.signals.size()),
        cells32_(kCells) {
    pe.write(source_.data(), initial.source);
  }
  [[nodiscard]] Heap heap() {
    return {source_.data(),  boards_.data(),  fetched_.data(),
            cells64_.data(), cells32_.data(), signals_.data()};
  }
  void compare(Pe& pe, const Model::PeMemory& expected) const {
    pe.equal_bytes(__LINE__, pe.read(source_.data(), source_.size()), expected.source);
    pe.equal_bytes(__LINE__, pe.read(boards_.data(), boards_.size()), expected.boards);
    pe.equal_bytes(__LINE__, pe.read(fetched_.data(), fetched_.size()), expected.fetched);
    compare_words(pe, __LINE__, cells64_, expected.cells64);
    compare_words(pe, __LINE__, cells32_, expected.cells32);
    compare_words(pe, __LINE__, signals_, expected.signals);
  }

  SymmetricArray<Op> ops;

 private:
  template <class T>
  static void compare_words(Pe& pe, int line, const SymmetricArray<T>& actual,
                            const std::vector<T>& expected) {
    const std::vector<T> words = actual.to_vector(pe.me());
    for (std::size_t i = 0; i < words.size(); ++i) pe.equal(line, words[i], expected[i], i);
  }

  SymmetricArray<std::uint8_t> source_, boards_, fetched_;
  SymmetricArray<std::uint64_t> cells64_, signals_;
  SymmetricArray<std::uint32_t> cells32_;
};

}  // namespace

SPMD_TEST(random_operations_leave_the_memory_that_a_sequential_model_predicts) {
  Model model(pe.n(), pe.seed());
  const auto me = static_cast<std::size_t>(pe.me());
  Memory memory(pe, model.pes[me]);
  pe.barrier();
  const int rounds = pe.rounds(100);
  for (int round = 0; round < rounds; ++round) {
    const std::vector<Op> mine = make_ops(pe.seed(), pe.n(), me, round);
    const std::uint64_t how = mix(pe.seed(), static_cast<std::uint64_t>(round) * 77 + me) % 4;
    if (how == 3) {
      for (const Op& op : mine) perform(context(), Thread{}, memory.heap(), op);
      gshmem_quiet();
    } else {
      memory.ops.write(mine, pe.me());
      pe.run(shape_of(pe, kScopes[how]), Perform{}, memory.heap(), memory.ops.data(), kScopes[how]);
    }
    for (std::size_t origin = 0; origin < model.pes.size(); ++origin) {
      for (const Op& op : make_ops(pe.seed(), pe.n(), origin, round)) model.perform(origin, op);
    }
    pe.barrier();
    memory.compare(pe, model.pes[me]);
    pe.barrier();
  }
}
