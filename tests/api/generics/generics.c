/* Calls every name without a type, for every type, with and without a context, and checks what
 * arrives, and where. It is C, and generics.cpp includes it as C++. Exit 0, or 1 with the error. */
#include <gshmem/generic.h>

#include <float.h>
#include <stdio.h>
#include <string.h>
#if defined(__cplusplus)
#include <complex>
#else
#include <complex.h>
#endif

enum { kBytes = 1024, kUntouched = 0xee };

static int me, n, next, previous, failures;
static gshmem_ctx_t ctx;
static void *to_memory, *from_memory;
static uint64_t *signal_word, signals;

static void expect(int good, const char* op, const char* type) {
  if (good) return;
  printf("PE %d: %s of %s\n", me, op, type);
  ++failures;
}

/* The bytes of an element that hold its value: x86's long double has 10. */
static size_t valued(const char* type, size_t size) {
  return strcmp(type, "long double") == 0 && LDBL_MANT_DIG == 64 ? 10 : size;
}

/* Byte i of from_memory on a PE. */
static unsigned char pattern(int pe, size_t i) {
  return (unsigned char)(pe * 37 + (int)(i * 11) + 5);
}

static void begin_step(void) {
  gshmem_barrier_all();
  memset(to_memory, kUntouched, kBytes);
  gshmem_barrier_all();
}
static void end_step(void) {
  gshmem_quiet();
  gshmem_ctx_quiet(ctx);
  gshmem_barrier_all();
}

/* Checks that `block` elements at element `at` of to_memory are those of `pe` from its element
 * `first`, then clears them. */
static void expect_from(const char* op, const char* type, size_t size, int pe, size_t at,
                        size_t first, size_t block) {
  unsigned char* const there = (unsigned char*)to_memory + at * size;
  int good = 1;
  for (size_t i = 0; i < block * size; ++i)
    good = good && (i % size >= valued(type, size) || there[i] == pattern(pe, first * size + i));
  expect(good, op, type);
  memset(there, kUntouched, block * size);
}
static void expect_nothing_else(const char* op, const char* type) {
  int good = 1;
  for (size_t i = 0; i < kBytes; ++i) good = good && ((unsigned char*)to_memory)[i] == kUntouched;
  expect(good, op, type);
}

// --- RMA
/* Makes a call. Then `count` blocks of `block` elements of `pe`, sst apart, must be here, dst
 * apart. */
#define MOVE(OP, T, PE, DST, SST, BLOCK, COUNT, ...)                                            \
  begin_step();                                                                                 \
  __VA_ARGS__;                                                                                  \
  end_step();                                                                                   \
  for (size_t i = 0; i < COUNT; ++i) expect_from(OP, #T, sizeof(T), PE, i* DST, i* SST, BLOCK); \
  expect_nothing_else(OP, #T);
#define MOVES(OP, T, PE, DST, SST, BLOCK, COUNT, ...)                \
  MOVE(#OP, T, PE, DST, SST, BLOCK, COUNT, gshmem_##OP(__VA_ARGS__)) \
  MOVE("ctx_" #OP, T, PE, DST, SST, BLOCK, COUNT, gshmem_##OP(ctx, __VA_ARGS__))
#define RMA(NAME, T)                                                                               \
  static void rma_##NAME(void) {                                                                   \
    T* const to = (T*)to_memory;                                                                   \
    const T* const from = (const T*)from_memory;                                                   \
    MOVES(p, T, previous, 1, 1, 1, 1, to, *from, next)                                             \
    MOVE("g", T, next, 1, 1, 1, 1, *to = gshmem_g(from, next))                                     \
    MOVE("ctx_g", T, next, 1, 1, 1, 1, *to = gshmem_g(ctx, from, next))                            \
    MOVES(put, T, previous, 1, 1, 4, 1, to, from, 4, next)                                         \
    MOVES(get, T, next, 1, 1, 4, 1, to, from, 4, next)                                             \
    MOVES(put_nbi, T, previous, 1, 1, 4, 1, to, from, 4, next)                                     \
    MOVES(get_nbi, T, next, 1, 1, 4, 1, to, from, 4, next)                                         \
    MOVES(iput, T, previous, 3, 2, 1, 3, to, from, 3, 2, 3, next)                                  \
    MOVES(iget, T, next, 2, 3, 1, 3, to, from, 2, 3, 3, next)                                      \
    MOVES(ibput, T, previous, 3, 4, 2, 2, to, from, 3, 4, 2, 2, next)                              \
    MOVES(ibget, T, next, 4, 3, 2, 2, to, from, 4, 3, 2, 2, next)                                  \
    MOVES(put_signal, T, previous, 1, 1, 4, 1, to, from, 4, signal_word, 7, GSHMEM_SIGNAL_ADD,     \
          next)                                                                                    \
    MOVES(put_signal_nbi, T, previous, 1, 1, 4, 1, to, from, 4, signal_word, 7, GSHMEM_SIGNAL_ADD, \
          next)                                                                                    \
    signals += 4 * 7;                                                                              \
    expect(gshmem_signal_fetch(signal_word) == signals, "put_signal", #T);                         \
  }
#define GSHMEM_TYPE(NAME, T, AMO, WAIT, REDUCE) RMA(NAME, T)
#include <gshmem/types.def>
RMA(longdouble, long double)

// --- Atomics, on a word of the next PE that no other PE updates
#define PLAIN(OP, ...) gshmem_##OP(__VA_ARGS__)
#define ON_CTX(OP, ...) gshmem_##OP(ctx, __VA_ARGS__)
#define SAME(OP, T, GOT, WANTED)                           \
  end_step();                                              \
  {                                                        \
    const T got = GOT, wanted = WANTED;                    \
    expect(memcmp(&got, &wanted, sizeof(T)) == 0, OP, #T); \
  }
#define AMO_NONE(T, CALL)
#define AMO_EXT(T, CALL)                                                \
  CALL(atomic_set, to, from[1], next);                                  \
  SAME("atomic_set", T, CALL(atomic_fetch, to, next), from[1])          \
  SAME("atomic_swap", T, CALL(atomic_swap, to, from[2], next), from[1]) \
  CALL(atomic_fetch_nbi, &fetched, to, next);                           \
  SAME("atomic_fetch_nbi", T, fetched, from[2])                         \
  CALL(atomic_swap_nbi, &fetched, to, from[3], next);                   \
  SAME("atomic_swap_nbi", T, fetched, from[2])                          \
  SAME("atomic_fetch", T, CALL(atomic_fetch, to, next), from[3])
#define AMO_STD(T, CALL)                                                                 \
  AMO_EXT(T, CALL)                                                                       \
  CALL(atomic_set, to, (T)5, next);                                                      \
  SAME("atomic_compare_swap", T, CALL(atomic_compare_swap, to, (T)5, (T)-3, next), (T)5) \
  CALL(atomic_inc, to, next);                                                            \
  SAME("atomic_inc", T, CALL(atomic_fetch_inc, to, next), (T)-2)                         \
  SAME("atomic_fetch_add", T, CALL(atomic_fetch_add, to, (T)4, next), (T)-1)             \
  CALL(atomic_add, to, (T)1, next);                                                      \
  CALL(atomic_compare_swap_nbi, &fetched, to, (T)4, (T)9, next);                         \
  SAME("atomic_compare_swap_nbi", T, fetched, (T)4)                                      \
  CALL(atomic_fetch_inc_nbi, &fetched, to, next);                                        \
  SAME("atomic_fetch_inc_nbi", T, fetched, (T)9)                                         \
  CALL(atomic_fetch_add_nbi, &fetched, to, (T)2, next);                                  \
  SAME("atomic_fetch_add_nbi", T, fetched, (T)10)                                        \
  SAME("atomic_fetch", T, CALL(atomic_fetch, to, next), (T)12)
#define AMO_BIT(T, CALL)                                                     \
  AMO_STD(T, CALL)                                                           \
  CALL(atomic_and, to, (T)10, next);                                         \
  CALL(atomic_or, to, (T)5, next);                                           \
  CALL(atomic_xor, to, (T)7, next);                                          \
  SAME("atomic_fetch_and", T, CALL(atomic_fetch_and, to, (T)6, next), (T)10) \
  SAME("atomic_fetch_or", T, CALL(atomic_fetch_or, to, (T)9, next), (T)2)    \
  SAME("atomic_fetch_xor", T, CALL(atomic_fetch_xor, to, (T)2, next), (T)11) \
  CALL(atomic_fetch_and_nbi, &fetched, to, (T)5, next);                      \
  SAME("atomic_fetch_and_nbi", T, fetched, (T)9)                             \
  CALL(atomic_fetch_or_nbi, &fetched, to, (T)8, next);                       \
  SAME("atomic_fetch_or_nbi", T, fetched, (T)1)                              \
  CALL(atomic_fetch_xor_nbi, &fetched, to, (T)15, next);                     \
  SAME("atomic_fetch_xor_nbi", T, fetched, (T)9)                             \
  SAME("atomic_fetch", T, CALL(atomic_fetch, to, next), (T)6)
#define GSHMEM_TYPE(NAME, T, AMO, WAIT, REDUCE)  \
  static void amo_##NAME(void) {                 \
    T* const to = (T*)to_memory;                 \
    const T* const from = (const T*)from_memory; \
    T fetched;                                   \
    (void)to, (void)from, (void)fetched;         \
    begin_step();                                \
    AMO_##AMO(T, PLAIN) AMO_##AMO(T, ON_CTX)     \
  }
#include <gshmem/types.def>

// --- Waits, for values that the PE has stored itself
#define WAIT_0(NAME, T)
#define WAIT_1(NAME, T)                                                                            \
  static void wait_##NAME(void) {                                                                  \
    T* const to = (T*)to_memory;                                                                   \
    const T all[3] = {(T)-1, (T)1, (T)2}, last[3] = {(T)9, (T)9, (T)2};                            \
    size_t at[3] = {9, 9, 9};                                                                      \
    begin_step();                                                                                  \
    for (int i = 0; i < 3; ++i) gshmem_p(to + i, all[i], me);                                      \
    end_step();                                                                                    \
    gshmem_wait_until(to, GSHMEM_CMP_EQ, all[0]);                                                  \
    expect(gshmem_test(to, GSHMEM_CMP_GT, (T)0) == (all[0] > (T)0), "test", #T);                   \
    gshmem_wait_until_all(to, 3, NULL, GSHMEM_CMP_NE, (T)0);                                       \
    expect(gshmem_test_all(to, 3, NULL, GSHMEM_CMP_NE, (T)0) == 1, "test_all", #T);                \
    expect(gshmem_wait_until_any(to, 3, NULL, GSHMEM_CMP_EQ, (T)1) == 1, "any", #T);               \
    expect(gshmem_test_any(to, 3, NULL, GSHMEM_CMP_EQ, (T)2) == 2, "test_any", #T);                \
    expect(gshmem_wait_until_some(to, 3, at, NULL, GSHMEM_CMP_EQ, (T)1) == 1, "some", #T);         \
    expect(at[0] == 1, "wait_until_some", #T);                                                     \
    expect(gshmem_test_some(to, 3, at, NULL, GSHMEM_CMP_EQ, (T)2) == 1, "test_some", #T);          \
    expect(at[0] == 2, "test_some", #T);                                                           \
    gshmem_wait_until_all_vector(to, 3, NULL, GSHMEM_CMP_EQ, all);                                 \
    expect(gshmem_test_all_vector(to, 3, NULL, GSHMEM_CMP_EQ, last) == 0, "all of", #T);           \
    expect(gshmem_wait_until_any_vector(to, 3, NULL, GSHMEM_CMP_EQ, last) == 2, "any of", #T);     \
    expect(gshmem_test_any_vector(to, 3, NULL, GSHMEM_CMP_EQ, last) == 2, "any of", #T);           \
    at[0] = 9;                                                                                     \
    expect(gshmem_wait_until_some_vector(to, 3, at, NULL, GSHMEM_CMP_EQ, last) == 1 && at[0] == 2, \
           "some of", #T);                                                                         \
    expect(gshmem_test_some_vector(to, 3, at, NULL, GSHMEM_CMP_EQ, all) == 3, "some of", #T);      \
  }
#define GSHMEM_TYPE(NAME, T, AMO, WAIT, REDUCE) WAIT_##WAIT(NAME, T)
#include <gshmem/types.def>

// --- Collectives
/* Makes a call. Then `count` elements of each PE, from its element FIRST, must be here from element
 * AT. */
#define GATHER(OP, T, COUNT, AT, FIRST, ...)                                   \
  begin_step();                                                                \
  expect(gshmem_##OP(GSHMEM_TEAM_WORLD, to, from, __VA_ARGS__) == 0, #OP, #T); \
  for (int pe = 0; pe < n; ++pe)                                               \
    expect_from(#OP, #T, sizeof(T), pe, (size_t)(AT), (size_t)(FIRST), COUNT); \
  expect_nothing_else(#OP, #T);
#define COLLECT(NAME, T)                                                                   \
  static void gather_##NAME(void) {                                                        \
    T* const to = (T*)to_memory;                                                           \
    const T* const from = (const T*)from_memory;                                           \
    GATHER(alltoall, T, 2, 2 * pe, 2 * me, 2)                                              \
    GATHER(alltoalls, T, 1, 3 * pe, 2 * me, 3, 2, 1)                                       \
    GATHER(collect, T, 2, 2 * pe, 0, 2)                                                    \
    GATHER(fcollect, T, 2, 2 * pe, 0, 2)                                                   \
    begin_step();                                                                          \
    expect(gshmem_broadcast(GSHMEM_TEAM_WORLD, to, from, 3, n - 1) == 0, "broadcast", #T); \
    expect_from("broadcast", #T, sizeof(T), n - 1, 0, 0, 3);                               \
    expect_nothing_else("broadcast", #T);                                                  \
  }
#define GSHMEM_TYPE(NAME, T, AMO, WAIT, REDUCE) COLLECT(NAME, T)
#include <gshmem/types.def>
COLLECT(longdouble, long double)

/* VALUE is the contribution of `pe`; ADD combines `sum` and `value`, FIRST to LAST. */
#define COMBINE(OP, T, VALUE, FIRST, LAST, ADD)                                        \
  begin_step();                                                                        \
  for (int pe = 0; pe < n; ++pe)                                                       \
    if (pe == me) from[0] = VALUE, from[1] = VALUE;                                    \
  expect(gshmem_##OP(GSHMEM_TEAM_WORLD, to, from, 2) == 0, #OP, #T);                   \
  {                                                                                    \
    T sum, value;                                                                      \
    memset((void*)&sum, 0, sizeof(sum));                                               \
    for (int pe = FIRST; pe < LAST; ++pe) {                                            \
      value = VALUE;                                                                   \
      if (pe == FIRST) {                                                               \
        sum = value;                                                                   \
      } else {                                                                         \
        ADD;                                                                           \
      }                                                                                \
    }                                                                                  \
    const size_t bytes = valued(#T, sizeof(T));                                        \
    expect(memcmp(to, &sum, bytes) == 0 && memcmp(to + 1, &sum, bytes) == 0, #OP, #T); \
  }
#define SUMS(T, VALUE, ADD, MULTIPLY)            \
  COMBINE(sum_reduce, T, VALUE, 0, n, ADD)       \
  COMBINE(prod_reduce, T, VALUE, 0, n, MULTIPLY) \
  COMBINE(sum_inscan, T, VALUE, 0, me + 1, ADD)  \
  COMBINE(sum_exscan, T, VALUE, 0, me, ADD)
/* -1 on one PE shows whether the type has a sign. */
#define NUMBER(T) (pe == 0 ? (T)-1 : (T)(pe + 1))
#define REDUCE_NUM(T)                                                   \
  SUMS(T, NUMBER(T), sum = (T)(sum + value), sum = (T)(sum * value))    \
  COMBINE(min_reduce, T, NUMBER(T), 0, n, if (value < sum) sum = value) \
  COMBINE(max_reduce, T, NUMBER(T), 0, n, if (value > sum) sum = value)
#define REDUCE_OWN(T) REDUCE_NUM(T)
#define REDUCE_BITS(T)                                               \
  REDUCE_NUM(T)                                                      \
  COMBINE(and_reduce, T, (T)(12 + pe), 0, n, sum = (T)(sum & value)) \
  COMBINE(or_reduce, T, (T)(12 + pe), 0, n, sum = (T)(sum | value))  \
  COMBINE(xor_reduce, T, (T)(12 + pe), 0, n, sum = (T)(sum ^ value))
#define REDUCE(NAME, T, OF)                            \
  static void reduce_##NAME(void) {                    \
    T* const to = (T*)(to_memory);                     \
    T* const from = (T*)((char*)from_memory + kBytes); \
    OF                                                 \
  }
/* C has no arithmetic for these types, so PE 0 contributes 2 and no other PE anything. Both write 2
 * as 0x4000. */
#define ONE_NUMBER(T)                         \
  COMBINE(sum_reduce, T, two(T), 0, 1, )      \
  COMBINE(max_reduce, T, two(T), 0, 1, )      \
  COMBINE(min_reduce, T, two(T), n - 1, n, )  \
  COMBINE(prod_reduce, T, two(T), n - 1, n, ) \
  COMBINE(sum_inscan, T, two(T), 0, 1, )      \
  COMBINE(sum_exscan, T, two(T), 0, (me > 0), )
#define two(T) (pe == 0 ? two_of_##T : none_of_##T)
static const gshmem_half_t two_of_gshmem_half_t = {0x4000}, none_of_gshmem_half_t = {0};
static const gshmem_bfloat16_t two_of_gshmem_bfloat16_t = {0x4000}, none_of_gshmem_bfloat16_t = {0};
#define WITHOUT_half , ONE_NUMBER
#define WITHOUT_bfloat16 , ONE_NUMBER
#define SECOND(FIRST, OF, ...) OF
#define CHOOSE(...) SECOND(__VA_ARGS__, )
#define GSHMEM_TYPE(NAME, T, AMO, WAIT, OF) REDUCE(NAME, T, CHOOSE(WITHOUT_##NAME, REDUCE_##OF)(T))
#include <gshmem/types.def>

REDUCE(longdouble, long double, REDUCE_NUM(long double))

/* These are C's complex numbers; in C++ they are the standard library's, and C's where the compiler
 * has them. */
#if defined(__cplusplus)
#define COMPLEX(T) (pe == 0 ? T{2, -1} : T{1, 3})
typedef std::complex<float> ComplexFloat;
typedef std::complex<double> ComplexDouble;
__extension__ typedef double _Complex ComplexOfC;
#else
#define COMPLEX(T) (pe == 0 ? (T)(2 - I) : (T)(1 + 3 * I))
typedef float _Complex ComplexFloat;
typedef double _Complex ComplexDouble, ComplexOfC;
#endif
#define REDUCE_COMPLEX(NAME, T) REDUCE(NAME, T, SUMS(T, COMPLEX(T), sum += value, sum *= value))
REDUCE_COMPLEX(complexf, ComplexFloat)
REDUCE_COMPLEX(complexd, ComplexDouble)
REDUCE_COMPLEX(complex_of_c, ComplexOfC)

int main(void) {
  gshmem_init();
  me = gshmem_my_pe();
  n = gshmem_n_pes();
  next = (me + 1) % n;
  previous = (me + n - 1) % n;
  to_memory = gshmem_malloc(kBytes);
  from_memory = gshmem_malloc(2 * kBytes);
  signal_word = (uint64_t*)gshmem_calloc(1, sizeof(*signal_word));
  expect(gshmem_ctx_create(0, &ctx) == 0, "ctx_create", "context");
  for (size_t i = 0; i < kBytes; ++i) ((unsigned char*)from_memory)[i] = pattern(me, i);

#define RUN_WAIT_0(NAME)
#define RUN_WAIT_1(NAME) wait_##NAME();
#define GSHMEM_TYPE(NAME, T, AMO, WAIT, REDUCE) \
  rma_##NAME();                                 \
  amo_##NAME();                                 \
  RUN_WAIT_##WAIT(NAME) gather_##NAME();        \
  reduce_##NAME();
#include <gshmem/types.def>
  rma_longdouble();
  gather_longdouble();
  reduce_longdouble();
  reduce_complexf();
  reduce_complexd();
  reduce_complex_of_c();

  gshmem_ctx_destroy(ctx);
  gshmem_finalize();
  return failures != 0;
}
