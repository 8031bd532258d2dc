// Calls on streams: made after what was in the stream before, and before what follows in it. The
// same bodies run in CPU mode, where they are made at once.
#include "tests/spmd/stream.h"

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

constexpr std::size_t kBytesOfStreams = 300'000;  // more than a kernel moves to a mapped PE

/// Writes the pattern of `seed`, late.
struct Fill {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log, std::uint8_t* to, std::size_t bytes,
                            std::uint64_t seed) const {
    const std::uint64_t start = device::now_ns();
    for (unsigned polls = 1; device::now_ns() - start < 20'000; ++polls) device::pause(polls);
    for (std::size_t i = static_cast<std::size_t>(ctx.thread_rank()); i < bytes;
         i += static_cast<std::size_t>(ctx.block_size())) {
      to[i] = pattern(seed, i);
    }
  }
};
struct Compare {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, const std::uint8_t* data,
                            std::size_t bytes, std::uint64_t seed) const {
    for (std::size_t i = static_cast<std::size_t>(ctx.thread_rank()); i < bytes;
         i += static_cast<std::size_t>(ctx.block_size())) {
      if (data[i] != pattern(seed, i)) return SPMD_EQ(log, data[i], pattern(seed, i), i);
    }
  }
};

/// The value that PE `pe` puts in a round.
std::uint64_t seed_of(const Pe& pe, int from, int round) {
  return mix(pe.seed(), static_cast<std::uint64_t>(from * 1000 + round));
}

enum class Form { kBlocking, kNbi };

/// A put to the next PE and a get from it, of what kernels before them in the stream have made, and
/// kernels after them look at.
void transfer(Pe& pe, const Stream& stream, std::uint8_t* memory, std::size_t bytes, int round,
              Form form) {
  std::uint8_t *source = memory, *dest = memory + kBytesOfStreams, *got = dest + kBytesOfStreams;
  const gshmemx_stream_t s = stream.get();
  stream.run(pe, Fill{}, source, bytes, seed_of(pe, pe.me(), round));
  const auto put = form == Form::kNbi ? gshmemx_putmem_nbi_on_stream : gshmemx_putmem_on_stream;
  const auto get = form == Form::kNbi ? gshmemx_getmem_nbi_on_stream : gshmemx_getmem_on_stream;
  put(dest, source, bytes, pe.next(), s);
  gshmemx_quiet_on_stream(s);
  gshmemx_barrier_all_on_stream(s);
  stream.run(pe, Compare{}, dest, bytes, seed_of(pe, pe.previous(), round));
  get(got, source, bytes, pe.next(), s);
  if (form == Form::kNbi) gshmemx_quiet_on_stream(s);
  stream.run(pe, Compare{}, got, bytes, seed_of(pe, pe.next(), round));
  gshmemx_barrier_all_on_stream(s);  // all have got before any writes again
}

/// Words that all PEs have put a round's number to, one each.
struct AllThere {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, const std::uint64_t* seen, int n,
                            std::uint64_t now) const {
    for (int i = ctx.thread_rank(); i < n; i += ctx.block_size()) {
      if (seen[i] < now || seen[i] > now + 1) SPMD_EQ(log, seen[i], now, now);
    }
  }
};

/// Every type: an element, arrays, strided arrays, a payload with a signal.
template <class T>
T value_of(std::uint64_t seed) {
  T value{};
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    // No two floating-point values that compare as something else: bytes are compared.
    reinterpret_cast<std::uint8_t*>(&value)[i] = pattern(seed, i);
  }
  return value;
}

/// The calls of one type, which the table of types makes; of a size arrays are void.
template <class T, class Array = T>
struct Calls {
  void (*p)(T*, T, int, gshmemx_stream_t);  ///< null: sizes have none, nor g
  T (*g)(const T*, int, gshmemx_stream_t);
  void (*put)(Array*, const Array*, std::size_t, int, gshmemx_stream_t);
  void (*get)(Array*, const Array*, std::size_t, int, gshmemx_stream_t);
  void (*put_nbi)(Array*, const Array*, std::size_t, int, gshmemx_stream_t);
  void (*get_nbi)(Array*, const Array*, std::size_t, int, gshmemx_stream_t);
  void (*iput)(Array*, const Array*, std::ptrdiff_t, std::ptrdiff_t, std::size_t, int,
               gshmemx_stream_t);
  void (*iget)(Array*, const Array*, std::ptrdiff_t, std::ptrdiff_t, std::size_t, int,
               gshmemx_stream_t);
  void (*put_signal)(Array*, const Array*, std::size_t, std::uint64_t*, std::uint64_t, int, int,
                     gshmemx_stream_t);
  void (*put_signal_nbi)(Array*, const Array*, std::size_t, std::uint64_t*, std::uint64_t, int, int,
                         gshmemx_stream_t);
};

template <class T, class Array = T>
void check_type(Pe& pe, const Stream& stream, const char* name, const Calls<T, Array>& calls) {
  constexpr std::size_t kCount = 9;
  SymmetricArray<T> memory(8 * kCount);
  SymmetricArray<std::uint64_t> signals(2);
  T* const source = memory.data();
  const auto place = [&](std::size_t i) { return memory.data() + i * kCount; };
  const auto bytes_of = [&](int from, std::size_t i) {
    std::vector<std::uint8_t> bytes(kCount * sizeof(T));
    for (std::size_t k = 0; k < bytes.size(); ++k)
      bytes[k] = pattern(mix(pe.seed(), static_cast<std::uint64_t>(from) * 100 + i), k);
    return bytes;
  };
  pe.write(source, bytes_of(pe.me(), 0));
  pe.barrier();
  const gshmemx_stream_t s = stream.get();
  const T single = value_of<T>(seed_of(pe, pe.me(), 7));
  if (calls.p) calls.p(place(1), single, pe.next(), s);
  calls.put(place(2), source, kCount, pe.next(), s);
  calls.put_nbi(place(3), source, kCount, pe.next(), s);
  calls.iput(place(4), source, 2, 4, 3, pe.next(), s);
  calls.put_signal(place(5), source, kCount, signals.data(), 3, GSHMEM_SIGNAL_SET, pe.next(), s);
  calls.put_signal_nbi(place(6), source, kCount, signals.data() + 1, 4, GSHMEM_SIGNAL_ADD,
                       pe.next(), s);
  gshmemx_signal_wait_until_on_stream(signals.data(), GSHMEM_CMP_EQ, 3, s);
  gshmemx_uint64_wait_until_on_stream(signals.data() + 1, GSHMEM_CMP_EQ, 4, s);
  gshmemx_barrier_all_on_stream(s);
  const T got = calls.g ? calls.g(source, pe.next(), s) : T{};
  calls.get(place(7), source, 3, pe.next(), s);
  calls.get_nbi(place(7) + 3, source + 3, 3, pe.next(), s);
  calls.iget(place(7) + 6, source, 1, 2, 3, pe.next(), s);
  gshmemx_quiet_on_stream(s);
  stream.finish();
  const auto same = [&](const void* a, const std::uint8_t* b, std::size_t n) {
    if (std::memcmp(a, b, n) != 0) pe.fail(__LINE__, std::string("of type ") + name);
  };
  const std::vector<std::uint8_t> theirs = bytes_of(pe.previous(), 0),
                                  next = bytes_of(pe.next(), 0);
  const auto here = [&](std::size_t i, std::size_t n) { return pe.read(place(i), n * sizeof(T)); };
  const T from_previous = value_of<T>(seed_of(pe, pe.previous(), 7));
  if (calls.p)
    same(here(1, 1).data(), reinterpret_cast<const std::uint8_t*>(&from_previous), sizeof(T));
  for (const std::size_t i : {2u, 3u, 5u, 6u})
    same(here(i, kCount).data(), theirs.data(), theirs.size());
  for (std::size_t i = 0; i < 3; ++i) {
    same(here(4, kCount).data() + 2 * i * sizeof(T), theirs.data() + 4 * i * sizeof(T), sizeof(T));
    same(here(7, kCount).data() + (6 + i) * sizeof(T), next.data() + 2 * i * sizeof(T), sizeof(T));
  }
  if (calls.g) same(&got, next.data(), sizeof(T));
  same(here(7, 6).data(), next.data(), 6 * sizeof(T));
  pe.barrier();
}

}  // namespace

SPMD_TEST(transfers_on_a_stream_see_the_results_of_earlier_work) {
  if (streams_hold_each_other_up(pe)) return;
  SymmetricArray<std::uint8_t> memory(3 * kBytesOfStreams);
  const Stream stream(pe);
  int round = 0;
  for (const std::size_t bytes :
       std::vector<std::size_t>{0, 1, 7, 28, 500, 4096, 65'000, kBytesOfStreams}) {
    for (const Form form : {Form::kBlocking, Form::kNbi}) {
      transfer(pe, stream, memory.data(), bytes, ++round, form);
    }
  }
  stream.finish();
}

SPMD_TEST(a_source_on_a_stream_may_change_after_it_was_put) {
  if (streams_hold_each_other_up(pe)) return;
  SymmetricArray<std::uint8_t> memory(2 * 5000);
  const Stream stream(pe);
  std::uint8_t *source = memory.data(), *dest = source + 5000;
  for (int round = 1; round <= pe.rounds(100); ++round) {
    stream.run(pe, Fill{}, source, std::size_t{5000}, seed_of(pe, pe.me(), round));
    gshmemx_putmem_on_stream(dest, source, 5000, pe.next(), stream.get());
    stream.run(pe, Fill{}, source, std::size_t{5000}, std::uint64_t{0});
    gshmemx_barrier_all_on_stream(stream.get());
    stream.run(pe, Compare{}, dest, std::size_t{5000}, seed_of(pe, pe.previous(), round));
    gshmemx_sync_all_on_stream(stream.get());
  }
  stream.finish();
}

SPMD_TEST(a_signal_on_a_stream_comes_after_its_payload) {
  if (streams_hold_each_other_up(pe)) return;
  SymmetricArray<std::uint8_t> memory(2 * kBytesOfStreams);
  SymmetricArray<std::uint64_t> words(2);  // arrived, answered
  const Stream stream(pe);
  const gshmemx_stream_t s = stream.get();
  std::uint8_t *source = memory.data(), *dest = source + kBytesOfStreams;
  std::uint64_t* const answered = words.data() + 1;
  for (int round = 1; round <= pe.rounds(100); ++round) {
    const std::size_t bytes =
        round % 10 == 0 ? kBytesOfStreams : 40u * static_cast<unsigned>(round);
    const auto now = static_cast<std::uint64_t>(round);
    stream.run(pe, Fill{}, source, bytes, seed_of(pe, pe.me(), round));
    const auto put =
        round % 2 ? gshmemx_putmem_signal_on_stream : gshmemx_putmem_signal_nbi_on_stream;
    const bool adds = round % 3 == 0;
    put(dest, source, bytes, words.data(), adds ? 1 : now,
        adds ? GSHMEM_SIGNAL_ADD : GSHMEM_SIGNAL_SET, pe.next(), s);
    gshmemx_signal_wait_until_on_stream(words.data(), GSHMEM_CMP_EQ, now, s);
    stream.run(pe, Compare{}, dest, bytes, seed_of(pe, pe.previous(), round));
    gshmemx_signal_op_on_stream(answered, 1, GSHMEM_SIGNAL_ADD, pe.previous(), s);
    gshmemx_uint64_wait_until_on_stream(answered, GSHMEM_CMP_GE, now, s);
    gshmemx_flush_on_stream(s);  // the source of the nbi form
  }
  stream.finish();
}

SPMD_TEST(barriers_and_syncs_on_a_stream_hold_all_members) {
  if (streams_hold_each_other_up(pe)) return;
  SymmetricArray<std::uint64_t> entered(2);  // by turns: a PE may be a round ahead
  SymmetricArray<std::uint64_t> seen(static_cast<std::size_t>(pe.n()));
  const Stream stream(pe);
  const gshmemx_stream_t s = stream.get();
  gshmem_team_t all = GSHMEM_TEAM_INVALID, some = GSHMEM_TEAM_INVALID;
  SPMD_EQ(pe,
          gshmem_team_split_strided(GSHMEM_TEAM_WORLD, pe.n() - 1, -1, pe.n(), nullptr, 0, &all),
          0);
  SPMD_EQ(pe, gshmem_team_split_strided(all, 0, 2, (pe.n() + 1) / 2, nullptr, 0, &some), 0);
  for (int round = 1; round <= pe.rounds(200); ++round) {
    const auto now = static_cast<std::uint64_t>(round);
    std::uint64_t* const word = entered.data() + round % 2;
    gshmemx_uint64_p_on_stream(word, now, pe.me(), s);
    switch (round % 5) {
      case 0:
        gshmemx_quiet_on_stream(s);
        gshmemx_sync_all_on_stream(s);
        break;
      case 1:
        gshmemx_barrier_all_on_stream(s);
        break;
      case 2:
        gshmemx_quiet_on_stream(s);
        SPMD_EQ(pe, gshmemx_team_sync_on_stream(all, s), 0);
        break;
      case 3:
        SPMD_EQ(pe, gshmemx_barrier_on_stream(all, s), 0);
        break;
      default:
        if (some != GSHMEM_TEAM_INVALID) SPMD_EQ(pe, gshmemx_team_sync_on_stream(some, s), 0);
        gshmemx_barrier_all_on_stream(s);
    }
    for (int i = 0; i < pe.n(); ++i) gshmemx_uint64_get_on_stream(seen.data() + i, word, 1, i, s);
    stream.run(pe, AllThere{}, seen.data(), pe.n(), now);
  }
  stream.finish();
  gshmem_team_destroy(some);
  gshmem_team_destroy(all);
}

SPMD_TEST(several_streams_and_teams_work_at_the_same_time) {
  if (streams_hold_each_other_up(pe)) return;
  constexpr std::size_t kBytes = 3000;
  const std::size_t n_streams = most_streams(pe, 4);
  SymmetricArray<std::uint8_t> memory(n_streams * 2 * kBytes);
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<gshmem_team_t> teams(n_streams, GSHMEM_TEAM_INVALID);
  for (gshmem_team_t& team : teams) {
    streams.push_back(std::make_unique<Stream>(pe));
    SPMD_EQ(pe, gshmem_team_split_strided(GSHMEM_TEAM_WORLD, 0, 1, pe.n(), nullptr, 0, &team), 0);
  }
  for (int round = 1; round <= pe.rounds(100); ++round) {
    for (std::size_t i = 0; i < n_streams; ++i) {
      const Stream& stream = *streams[i];
      std::uint8_t *source = memory.data() + i * 2 * kBytes, *dest = source + kBytes;
      const int tag = round * 10 + static_cast<int>(i);
      stream.run(pe, Fill{}, source, kBytes, seed_of(pe, pe.me(), tag));
      gshmemx_putmem_nbi_on_stream(dest, source, kBytes, pe.next(), stream.get());
      SPMD_EQ(pe, gshmemx_barrier_on_stream(teams[i], stream.get()), 0);
      stream.run(pe, Compare{}, dest, kBytes, seed_of(pe, pe.previous(), tag));
      SPMD_EQ(pe, gshmemx_team_sync_on_stream(teams[i], stream.get()), 0);
    }
  }
  for (const auto& stream : streams) stream->finish();
  for (const gshmem_team_t team : teams) gshmem_team_destroy(team);
}

SPMD_TEST(calls_of_every_type_on_a_stream_move_their_elements) {
  if (streams_hold_each_other_up(pe)) return;
  const Stream stream(pe);
#define GSHMEM_TYPE(NAME, T, AMO, WAIT, REDUCE)                                                    \
  check_type<T>(                                                                                   \
      pe, stream, #NAME,                                                                           \
      {gshmemx_##NAME##_p_on_stream, gshmemx_##NAME##_g_on_stream, gshmemx_##NAME##_put_on_stream, \
       gshmemx_##NAME##_get_on_stream, gshmemx_##NAME##_put_nbi_on_stream,                         \
       gshmemx_##NAME##_get_nbi_on_stream, gshmemx_##NAME##_iput_on_stream,                        \
       gshmemx_##NAME##_iget_on_stream, gshmemx_##NAME##_put_signal_on_stream,                     \
       gshmemx_##NAME##_put_signal_nbi_on_stream});
#include <gshmem/types.def>
}

SPMD_TEST(calls_of_every_size_on_a_stream_move_their_elements) {
  if (streams_hold_each_other_up(pe)) return;
  const Stream stream(pe);
#define SIZED(BITS)                                                                    \
  check_type<device::WordOf<BITS / 8>::type, void>(                                    \
      pe, stream, #BITS,                                                               \
      {nullptr, nullptr, gshmemx_put##BITS##_on_stream, gshmemx_get##BITS##_on_stream, \
       gshmemx_put##BITS##_nbi_on_stream, gshmemx_get##BITS##_nbi_on_stream,           \
       gshmemx_iput##BITS##_on_stream, gshmemx_iget##BITS##_on_stream,                 \
       gshmemx_put##BITS##_signal_on_stream, gshmemx_put##BITS##_signal_nbi_on_stream});
  SIZED(8)
  SIZED(16)
  SIZED(32)
  SIZED(64)
  SIZED(128)
}

SPMD_TEST(work_after_a_wait_on_a_stream_follows_the_awaited_signal) {
  if (streams_hold_each_other_up(pe)) return;
  const Stream stream(pe);
  const gshmemx_stream_t s = stream.get();
  const std::vector<std::uint64_t> sent{7, 8, 9};
  SymmetricArray<std::uint64_t> first(3), passed_on(3);
  first.write(sent, pe.me());
  pe.barrier();
  // From one to the next; each has what it passes on only after it has waited.
  if (pe.me() == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    gshmemx_uint64_put_on_stream(passed_on.data(), first.data(), 3, pe.next(), s);
  }
  gshmemx_uint64_wait_until_all_on_stream(passed_on.data(), 3, nullptr, GSHMEM_CMP_NE, 0, s);
  if (pe.me() != 0)
    gshmemx_uint64_put_on_stream(passed_on.data(), passed_on.data(), 3, pe.next(), s);
  gshmemx_barrier_all_on_stream(s);
  stream.finish();
  SPMD_CHECK(pe, passed_on.to_vector(pe.me()) == sent);
}

SPMD_TEST(waits_of_every_type_on_a_stream_end_when_all_words_compare_true) {
  if (streams_hold_each_other_up(pe)) return;
  const Stream stream(pe);
  const gshmemx_stream_t s = stream.get();
  SymmetricArray<int> status(3);
  pe.write(status.data() + 1, {1, 0, 0, 0});  // the second word takes no part
#define GSHMEM_TEST_WAIT_0(NAME, T)
#define GSHMEM_TEST_WAIT_1(NAME, T)                                                                \
  {                                                                                                \
    SymmetricArray<T> words(6);                                                                    \
    T* const values = words.data() + 3;                                                            \
    for (int i = 0; i < 3; ++i)                                                                    \
      gshmemx_##NAME##_p_on_stream(values + i, static_cast<T>(i == 1 ? 99 : -2 - i), pe.me(), s);  \
    gshmemx_quiet_on_stream(s); /* `values` are read as they are */                                \
    gshmemx_##NAME##_p_on_stream(words.data(), static_cast<T>(-2), pe.next(), s);                  \
    gshmemx_##NAME##_wait_until_on_stream(words.data(), GSHMEM_CMP_EQ, static_cast<T>(-2), s);     \
    gshmemx_##NAME##_p_on_stream(words.data() + 2, static_cast<T>(-4), pe.next(), s);              \
    gshmemx_##NAME##_wait_until_all_on_stream(words.data(), 3, status.data(), GSHMEM_CMP_NE, 0,    \
                                              s);                                                  \
    gshmemx_##NAME##_wait_until_all_vector_on_stream(words.data(), 3, status.data(),               \
                                                     GSHMEM_CMP_EQ, values, s);                    \
    const bool is_signed = static_cast<T>(-1) < static_cast<T>(0);                                 \
    gshmemx_##NAME##_wait_until_on_stream(words.data(), is_signed ? GSHMEM_CMP_LT : GSHMEM_CMP_GT, \
                                          is_signed ? 0 : 1, s);                                   \
    stream.finish();                                                                               \
    pe.barrier();                                                                                  \
  }
#define GSHMEM_TYPE(NAME, T, AMO, WAIT, REDUCE) GSHMEM_TEST_WAIT_##WAIT(NAME, T)
#include <gshmem/types.def>
}
