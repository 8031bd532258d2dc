// Lists of pieces: putv and getv of every form, scope and kind of caller move exactly the bytes of
// their pieces, and the signal of a list follows all of them.
#include "tests/spmd/handles.h"
#include "tests/spmd/stream.h"
#include "tests/spmd/user_memory.h"

#include <algorithm>
#include <vector>

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

enum class ListOp { kPutv, kPutvNbi, kPutvSignal, kPutvSignalNbi, kGetv, kGetvNbi, kGetvSignal };
constexpr ListOp kListOps[] = {ListOp::kPutv,          ListOp::kPutvNbi, ListOp::kPutvSignal,
                               ListOp::kPutvSignalNbi, ListOp::kGetv,    ListOp::kGetvNbi,
                               ListOp::kGetvSignal};
GSHMEM_FN bool gets(ListOp op) { return op >= ListOp::kGetv; }
GSHMEM_FN bool signals(ListOp op) {
  return op == ListOp::kPutvSignal || op == ListOp::kPutvSignalNbi || op == ListOp::kGetvSignal;
}
/// May the sources be reused on return?
GSHMEM_FN bool frees(ListOp op) { return op == ListOp::kPutv || op == ListOp::kPutvSignal; }

/// A piece by the offsets of its ends.
struct Part {
  std::size_t to, from, bytes;
};
/// A list, the same on all PEs; and the bytes of each side.
struct Parts {
  std::vector<Part> parts;
  std::size_t side = 0;
};

/// Makes `count` pieces of up to 3000 bytes, in any order, with and without gaps between their
/// targets. Some are neighbours on both sides, and some are empty.
Parts random_parts(std::uint64_t seed, std::size_t count) {
  constexpr std::size_t kSizes[] = {0,  1,  2,  3,  4,   7,   8,   12,   16,
                                    28, 31, 64, 96, 100, 220, 500, 1024, 3000};
  Parts all;
  std::uint64_t drawn = 0;
  const auto draw = [&](std::size_t below) { return mix(seed, ++drawn) % below; };
  std::size_t to = 64, longest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t bytes = kSizes[draw(std::size(kSizes))];
    const bool joins = i != 0 && draw(4) == 0;
    const std::size_t gap = joins ? 0 : draw(3) == 0 ? 16 - to % 16 : draw(40);
    const Part* const last = joins ? &all.parts.back() : nullptr;
    const std::size_t from = last ? last->from + last->bytes : draw(5) * 16 + draw(3);
    all.parts.push_back({to + gap, from, bytes});
    to += gap + bytes;
    longest = std::max(longest, from + bytes);
  }
  for (std::size_t i = count; i > 1; --i)
    if (draw(2) == 0) std::swap(all.parts[i - 1], all.parts[draw(i)]);
  all.side = std::max(to, longest) + 64;
  return all;
}
Parts parts_of_one_size(std::size_t count, std::size_t bytes) {
  Parts all;
  for (std::size_t i = 0; i < count; ++i)
    all.parts.push_back({(count - 1 - i) * (bytes + 16), i * bytes, bytes});
  all.side = count * (bytes + 16);
  return all;
}

constexpr std::uint8_t kOld = 0xee;

/// Symmetric memory of both sides, the list, the expected bytes, and the word of signals.
class ListMemory {
 public:
  ListMemory(Pe& pe, const Parts& parts)
      : parts_(parts),
        source_(parts.side),
        dest_(parts.side),
        expected_(parts.side),
        list_(parts.parts.size() + 1),
        signal_(1) {
    pe.write(expected_.data(), expected(pe));
    std::vector<gshmemx_piece_t> list = pieces(dest_.data(), source_.data());
    list.resize(list_.size());
    list_.write(list, pe.me());
  }
  [[nodiscard]] std::size_t count() const { return parts_.parts.size(); }
  [[nodiscard]] std::size_t side() const { return parts_.side; }
  [[nodiscard]] std::uint8_t* source() const { return source_.data(); }
  [[nodiscard]] std::uint8_t* dest() const { return dest_.data(); }
  [[nodiscard]] const std::uint8_t* expected_bytes() const { return expected_.data(); }
  [[nodiscard]] const gshmemx_piece_t* list() const { return list_.data(); }
  [[nodiscard]] std::uint64_t* signal() const { return signal_.data(); }
  [[nodiscard]] std::vector<gshmemx_piece_t> pieces(void* dest, const void* source) const {
    std::vector<gshmemx_piece_t> list;
    for (const Part& part : parts_.parts)
      list.push_back({static_cast<char*>(dest) + part.to,
                      static_cast<const char*>(source) + part.from, part.bytes});
    return list;
  }
  static std::vector<std::uint8_t> bytes_of(const Pe& pe, int of, std::size_t count) {
    std::vector<std::uint8_t> bytes(count);
    for (std::size_t i = 0; i < count; ++i)
      bytes[i] = pattern(mix(pe.seed(), static_cast<std::uint64_t>(of)), i);
    return bytes;
  }
  /// Returns the bytes of `dest` after a call: they are from the previous PE.
  [[nodiscard]] std::vector<std::uint8_t> expected(const Pe& pe) const {
    const std::vector<std::uint8_t> data = bytes_of(pe, pe.previous(), parts_.side);
    std::vector<std::uint8_t> bytes(parts_.side, kOld);
    for (const Part& part : parts_.parts)
      std::copy_n(data.begin() + static_cast<std::ptrdiff_t>(part.from), part.bytes,
                  bytes.begin() + static_cast<std::ptrdiff_t>(part.to));
    return bytes;
  }
  /// All PEs make it before a call.
  void begin(const Pe& pe) {
    pe.write(source_.data(), bytes_of(pe, pe.me(), parts_.side));
    pe.write(dest_.data(), std::vector<std::uint8_t>(parts_.side, kOld));
    pe.barrier();
    ++calls_;
  }
  /// The number of calls, which is what a PE's word counts.
  [[nodiscard]] std::uint64_t calls() const { return calls_; }

 private:
  const Parts parts_;
  SymmetricArray<std::uint8_t> source_, dest_, expected_;
  SymmetricArray<gshmemx_piece_t> list_;
  SymmetricArray<std::uint64_t> signal_;
  std::uint64_t calls_ = 0;
};

/// The functions of a kernel's calls: of the C++ API, of the C API, and of the latter those with a
/// context.
enum class Api { kCpp, kC, kContext };

/// The arguments of a call in a kernel.
struct ListArguments {
  ListOp op;
  Scope scope;
  const gshmemx_piece_t* list;
  std::size_t count;
  std::uint64_t* signal;
  std::uint64_t calls;
  std::uint8_t *source, *dest;
  const std::uint8_t* expected;
  std::size_t side;
  int pe;
  gshmem_ctx_t ctx;
  Api api;
};

#define PLAIN(STEM, ...) gshmemx_##STEM(__VA_ARGS__)
#define ON_CONTEXT(STEM, ...) gshmemx_ctx_##STEM(a.ctx, __VA_ARGS__)
#define MAKE_CALL(FORM, SUFFIX)                                                                    \
  switch (a.op) {                                                                                  \
    case ListOp::kPutv:                                                                            \
      return FORM(putv##SUFFIX, a.list, a.count, a.pe);                                            \
    case ListOp::kPutvNbi:                                                                         \
      return FORM(putv_nbi##SUFFIX, a.list, a.count, a.pe);                                        \
    case ListOp::kPutvSignal:                                                                      \
      return FORM(putv_signal##SUFFIX, a.list, a.count, a.signal, 1, GSHMEM_SIGNAL_ADD, a.pe);     \
    case ListOp::kPutvSignalNbi:                                                                   \
      return FORM(putv_signal_nbi##SUFFIX, a.list, a.count, a.signal, 1, GSHMEM_SIGNAL_ADD, a.pe); \
    case ListOp::kGetv:                                                                            \
      return FORM(getv##SUFFIX, a.list, a.count, a.pe);                                            \
    case ListOp::kGetvNbi:                                                                         \
      return FORM(getv_nbi##SUFFIX, a.list, a.count, a.pe);                                        \
    case ListOp::kGetvSignal:                                                                      \
      return FORM(getv_signal##SUFFIX, a.list, a.count, a.signal, 1, GSHMEM_SIGNAL_ADD, a.pe);     \
  }
#define MAKE_CALLS(GROUP, SUFFIX)                                  \
  GSHMEM_OUTLINE void make_c_call(GROUP, const ListArguments& a) { \
    if (a.api == Api::kC) MAKE_CALL(PLAIN, SUFFIX)                 \
    MAKE_CALL(ON_CONTEXT, SUFFIX)                                  \
  }
MAKE_CALLS(Thread, )
MAKE_CALLS(Warp, _warp)
MAKE_CALLS(Block, _block)

template <class Group>
GSHMEM_OUTLINE void make_call(const Context& by, Group group, const ListArguments& a) {
  if (a.api != Api::kCpp) return make_c_call(group, a);
  const Signal one{a.signal, 1, Signal::kAdd};
  switch (a.op) {
    case ListOp::kPutv:
      return by.putv(group, a.list, a.count, a.pe);
    case ListOp::kPutvNbi:
      return by.putv_nbi(group, a.list, a.count, a.pe);
    case ListOp::kPutvSignal:
      return by.putv_signal(group, a.list, a.count, one, a.pe);
    case ListOp::kPutvSignalNbi:
      return by.putv_signal_nbi(group, a.list, a.count, one, a.pe);
    case ListOp::kGetv:
      return by.getv(group, a.list, a.count, a.pe);
    case ListOp::kGetvNbi:
      return by.getv_nbi(group, a.list, a.count, a.pe);
    case ListOp::kGetvSignal:
      return by.getv_signal(group, a.list, a.count, one, a.pe);
  }
}

/// Makes the call and checks what it promises: to this PE for gets, otherwise to the next one,
/// which looks when it is told.
template <class Group>
GSHMEM_FN void test_call(const Context& by, Log log, Group group, const ListArguments& a) {
  make_call(by, group, a);
  if (group.thread_rank() == group.size() - 1) {
    if (frees(a.op))
      for (std::size_t i = 0; i < a.side; ++i) a.source[i] = kOld;
    if (!signals(a.op)) {
      by.quiet();
      by.signal({a.signal, 1, Signal::kAdd}, a.pe);
    }
  }
  // A get's data is there, whatever others do.
  if (!gets(a.op) && group.thread_rank() == 0)
    (void)by.signal_wait_until(a.signal, Cmp::kGe, a.calls);
  group.sync();
  for (std::size_t i = static_cast<std::size_t>(group.thread_rank()); i < a.side;
       i += static_cast<std::size_t>(group.size()))
    if (a.dest[i] != a.expected[i]) {
      SPMD_EQ(log, a.dest[i], a.expected[i], i);
      break;
    }
  group.sync();
  if (group.thread_rank() == 0) {
    (void)by.signal_wait_until(a.signal, Cmp::kGe, a.calls);
    by.quiet();
  }
}

struct CallInKernel {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, ListArguments a) const {
    const Context by = ctx.on(a.ctx);
    if (a.scope == Scope::kThread) test_call(by, log, Thread{}, a);
    if (a.scope == Scope::kWarp) test_call(by, log, Warp{}, a);
    if (a.scope == Scope::kBlock) test_call(by, log, Block{}, a);
  }
};

/// Makes all calls by groups of a kernel.
void test_in_kernels(Pe& pe, const Parts& parts, Scope scope, gshmem_ctx_t ctx = GSHMEM_CTX_DEFAULT,
                     Api api = Api::kCpp) {
  ListMemory memory(pe, parts);
  for (const ListOp op : kListOps) {
    memory.begin(pe);
    pe.run(one_group(pe, scope), CallInKernel{},
           ListArguments{op, scope, memory.list(), memory.count(), memory.signal(), memory.calls(),
                         memory.source(), memory.dest(), memory.expected_bytes(), memory.side(),
                         gets(op) ? pe.previous() : pe.next(), ctx, api});
    pe.barrier();
  }
}

/// Makes all calls by groups of a kernel. The local sides are outside of the heap: some pieces are
/// in one range that is registered, some in another one, and some in both or outside.
void test_local_in_kernels(Pe& pe, const Parts& parts, Scope scope) {
  ListMemory memory(pe, parts);
  UserMemory user(pe, 1);
  auto* const local = reinterpret_cast<std::uint8_t*>(user.data());
  const std::size_t part = memory.side() / 3;
  for (const std::size_t at : {std::size_t{0}, part})
    SPMD_EQ(pe, gshmemx_buffer_register(local + at, part), 0);
  SymmetricArray<gshmemx_piece_t> list(memory.count());
  for (const ListOp op : kListOps) {
    std::uint8_t* const source = gets(op) ? memory.source() : local;
    std::uint8_t* const dest = gets(op) ? local : memory.dest();
    user.write(0, gets(op) ? std::vector<std::uint8_t>(memory.side(), kOld)
                           : ListMemory::bytes_of(pe, pe.me(), memory.side()));
    list.write(memory.pieces(dest, source), pe.me());
    // The barrier comes last: copies wait for kernels of other PEs of this process on this GPU, and
    // those wait for this PE.
    memory.begin(pe);
    pe.run(one_group(pe, scope), CallInKernel{},
           ListArguments{op, scope, list.data(), memory.count(), memory.signal(), memory.calls(),
                         source, dest, memory.expected_bytes(), memory.side(),
                         gets(op) ? pe.previous() : pe.next(), GSHMEM_CTX_DEFAULT, Api::kCpp});
    pe.barrier();
  }
  gshmemx_buffer_unregister_all();
}

/// A call of the C API by a host thread, or in a stream by so many blocks.
void make_call(ListOp op, const std::vector<gshmemx_piece_t>& list, std::uint64_t* signal, int pe) {
  const gshmemx_piece_t* const p = list.data();
  const std::size_t n = list.size();
  constexpr int kAdd = GSHMEM_SIGNAL_ADD;
  switch (op) {
    case ListOp::kPutv:
      return gshmemx_putv(p, n, pe);
    case ListOp::kPutvNbi:
      return gshmemx_putv_nbi(p, n, pe);
    case ListOp::kPutvSignal:
      return gshmemx_putv_signal(p, n, signal, 1, kAdd, pe);
    case ListOp::kPutvSignalNbi:
      return gshmemx_putv_signal_nbi(p, n, signal, 1, kAdd, pe);
    case ListOp::kGetv:
      return gshmemx_getv(p, n, pe);
    case ListOp::kGetvNbi:
      return gshmemx_getv_nbi(p, n, pe);
    case ListOp::kGetvSignal:
      return gshmemx_getv_signal(p, n, signal, 1, kAdd, pe);
  }
}
void make_call(ListOp op, const std::vector<gshmemx_piece_t>& list, std::uint64_t* signal, int pe,
               int num_blocks, gshmemx_stream_t s) {
  const gshmemx_piece_t* const p = list.data();
  const std::size_t n = list.size();
  constexpr int kAdd = GSHMEM_SIGNAL_ADD;
  switch (op) {
    case ListOp::kPutv:
      return gshmemx_putv_on_stream(p, n, pe, num_blocks, s);
    case ListOp::kPutvNbi:
      return gshmemx_putv_nbi_on_stream(p, n, pe, num_blocks, s);
    case ListOp::kPutvSignal:
      return gshmemx_putv_signal_on_stream(p, n, signal, 1, kAdd, pe, num_blocks, s);
    case ListOp::kPutvSignalNbi:
      return gshmemx_putv_signal_nbi_on_stream(p, n, signal, 1, kAdd, pe, num_blocks, s);
    case ListOp::kGetv:
      return gshmemx_getv_on_stream(p, n, pe, num_blocks, s);
    case ListOp::kGetvNbi:
      return gshmemx_getv_nbi_on_stream(p, n, pe, num_blocks, s);
    case ListOp::kGetvSignal:
      return gshmemx_getv_signal_on_stream(p, n, signal, 1, kAdd, pe, num_blocks, s);
  }
}

/// Waits for the signal of the call, if it has one, and compares.
void check_call(Pe& pe, ListMemory& memory, ListOp op, std::uint64_t& signalled) {
  if (signals(op)) {
    ++signalled;
    SPMD_EQ(pe, gshmem_signal_wait_until(memory.signal(), GSHMEM_CMP_GE, signalled), signalled);
  } else if (!gets(op)) {
    pe.barrier();
  }
  pe.equal_bytes(__LINE__, pe.read(memory.dest(), memory.side()), memory.expected(pe));
  pe.barrier();
}

}  // namespace

SPMD_TEST(lists_of_pieces_by_thread_move_their_bytes) {
  test_in_kernels(pe, random_parts(pe.seed(), 60), Scope::kThread);
}
SPMD_TEST(lists_of_pieces_by_warp_move_their_bytes) {
  test_in_kernels(pe, random_parts(pe.seed(), 60), Scope::kWarp);
}
SPMD_TEST(lists_of_pieces_by_block_move_their_bytes) {
  test_in_kernels(pe, random_parts(pe.seed(), 60), Scope::kBlock);
}
SPMD_TEST(lists_of_few_and_of_large_pieces_move_their_bytes) {
  for (const Scope scope : kScopes) {
    test_in_kernels(pe, random_parts(pe.seed(), 0), scope);
    test_in_kernels(pe, parts_of_one_size(2, 20'000), scope);
  }
  test_in_kernels(pe, parts_of_one_size(2, 262'160), Scope::kBlock);
}
SPMD_TEST(lists_of_more_pieces_than_a_queue_has_entries_move_their_bytes) {
  test_in_kernels(pe, parts_of_one_size(1500, 24), Scope::kThread);
  test_in_kernels(pe, parts_of_one_size(1500, 24), Scope::kBlock);
}
SPMD_TEST(lists_of_pieces_on_contexts_move_their_bytes) {
  for (const long options : {0L, static_cast<long>(GSHMEM_CTX_PRIVATE)}) {
    OwnedContexts contexts(pe, 1, options, OwnedContexts::Queues::kOwn);
    for (const Scope scope : kScopes)
      test_in_kernels(pe, random_parts(pe.seed(), 40), scope, contexts.list().handle[0]);
  }
}

SPMD_TEST(lists_of_pieces_by_every_function_of_c_move_their_bytes) {
  if (!pe.c_api_in_kernels()) return pe.skip(kTwoPesOnAGpu);
  for (const Api api : {Api::kC, Api::kContext})
    for (const Scope scope : kScopes)
      test_in_kernels(pe, random_parts(pe.seed(), 20), scope, GSHMEM_CTX_DEFAULT, api);
}

SPMD_TEST(lists_of_pieces_by_host_thread_move_their_bytes) {
  ListMemory memory(pe, random_parts(pe.seed(), 60));
  std::uint64_t signalled = 0;
  for (const ListOp op : kListOps) {
    const int to = gets(op) ? pe.previous() : pe.next();
    memory.begin(pe);
    std::vector<gshmemx_piece_t> list = memory.pieces(memory.dest(), memory.source());
    make_call(op, list, memory.signal(), to);
    std::fill(list.begin(), list.end(), gshmemx_piece_t{});  // it is read by the call alone
    gshmem_quiet();
    check_call(pe, memory, op, signalled);
  }
}

SPMD_TEST(lists_of_pieces_in_registered_local_memory_move_their_bytes) {
  for (const Scope scope : kScopes) test_local_in_kernels(pe, random_parts(pe.seed(), 60), scope);
}

SPMD_TEST(lists_of_pieces_outside_of_the_heap_move_their_bytes) {
  ListMemory memory(pe, random_parts(pe.seed(), 60));
  std::uint64_t signalled = 0;
  for (const ListOp op : kListOps) {
    const int to = gets(op) ? pe.previous() : pe.next();
    memory.begin(pe);
    std::vector<std::uint8_t> local = gets(op) ? std::vector<std::uint8_t>(memory.side(), kOld)
                                               : ListMemory::bytes_of(pe, pe.me(), memory.side());
    make_call(op,
              gets(op) ? memory.pieces(local.data(), memory.source())
                       : memory.pieces(memory.dest(), local.data()),
              memory.signal(), to);
    gshmem_quiet();
    if (gets(op)) pe.write(memory.dest(), local);
    check_call(pe, memory, op, signalled);
  }
}

SPMD_TEST(lists_of_pieces_on_streams_move_their_bytes) {
  const Stream stream(pe);
  for (const int num_blocks : {0, 1, 3}) {
    ListMemory memory(pe, random_parts(pe.seed() + static_cast<unsigned>(num_blocks), 60));
    std::uint64_t signalled = 0;
    for (const ListOp op : kListOps) {
      const int to = gets(op) ? pe.previous() : pe.next();
      memory.begin(pe);
      std::vector<gshmemx_piece_t> list = memory.pieces(memory.dest(), memory.source());
      make_call(op, list, memory.signal(), to, num_blocks, stream.get());
      std::fill(list.begin(), list.end(), gshmemx_piece_t{});  // it is read by the call alone
      gshmemx_quiet_on_stream(stream.get());
      stream.finish();
      check_call(pe, memory, op, signalled);
    }
  }
}

/// More pieces than one launch of the library's kernel takes.
SPMD_TEST(long_lists_on_streams_move_their_bytes) {
  const Stream stream(pe);
  for (const int num_blocks : {0, 2}) {
    ListMemory memory(pe, parts_of_one_size(3000, 40));
    std::uint64_t signalled = 0;
    memory.begin(pe);
    make_call(ListOp::kPutvSignal, memory.pieces(memory.dest(), memory.source()), memory.signal(),
              pe.next(), num_blocks, stream.get());
    stream.finish();
    check_call(pe, memory, ListOp::kPutvSignal, signalled);
  }
}

/// The copy of the list to the GPU may not wait for what is in the stream, which waits for this
/// thread. There are more pieces than one copy takes.
SPMD_TEST(long_list_on_a_stream_that_waits_for_the_caller_returns) {
  if (!pe.on_gpu()) return pe.skip(kNoStreams);
  if (streams_hold_each_other_up(pe)) return;
  const Stream stream(pe);
  SymmetricArray<std::uint64_t> word(1);
  word.write(std::vector<std::uint64_t>{0}, pe.me());
  ListMemory memory(pe, parts_of_one_size(50'000, 16));
  std::uint64_t signalled = 0;
  memory.begin(pe);
  gshmemx_signal_wait_until_on_stream(word.data(), GSHMEM_CMP_EQ, 1, stream.get());
  make_call(ListOp::kPutvSignal, memory.pieces(memory.dest(), memory.source()), memory.signal(),
            pe.next(), 2, stream.get());
  gshmem_uint64_p(word.data(), 1, pe.me());
  stream.finish();
  check_call(pe, memory, ListOp::kPutvSignal, signalled);
}

SPMD_TEST(lists_on_the_context_of_a_team_name_pes_by_its_numbers) {
  if (pe.n() < 2) return pe.skip("a team without PE 0 needs two PEs");
  gshmem_team_t team = GSHMEM_TEAM_INVALID;
  SPMD_EQ(pe, gshmem_team_split_strided(GSHMEM_TEAM_WORLD, 1, 1, pe.n() - 1, nullptr, 0, &team), 0);
  SymmetricArray<std::uint64_t> words(4);
  if (team != GSHMEM_TEAM_INVALID) {
    gshmem_ctx_t ctx = GSHMEM_CTX_INVALID;
    SPMD_EQ(pe, gshmem_team_create_ctx(team, 0, &ctx), 0);
    const int me = gshmem_team_my_pe(team), next = (me + 1) % gshmem_team_n_pes(team);
    const std::uint64_t value = 100 + static_cast<std::uint64_t>(pe.me());
    const gshmemx_piece_t piece{words.data() + 1, &value, sizeof(value)};
    gshmemx_ctx_putv_signal(ctx, &piece, 1, words.data(), 1, GSHMEM_SIGNAL_SET, next);
    gshmem_ctx_quiet(ctx);
    (void)gshmem_signal_wait_until(words.data(), GSHMEM_CMP_EQ, 1);
    const int from = pe.me() == 1 ? pe.n() - 1 : pe.me() - 1;
    SPMD_EQ(pe, gshmem_uint64_g(words.data() + 1, pe.me()), 100 + static_cast<std::uint64_t>(from));
    gshmem_ctx_destroy(ctx);
  }
  pe.barrier();
  if (team != GSHMEM_TEAM_INVALID) gshmem_team_destroy(team);
}
