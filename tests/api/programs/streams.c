/* A program for NVSHMEM in C: a ring of messages on the default stream, in teams of the PEs. It
 * makes no CUDA call, so that it runs without CUDA. */
#include <nvshmem.h>
#include <nvshmemx.h>
#include <stdio.h>

enum { kWords = 1000 };

/* Each member receives from the previous one, by every kind of call on a stream. */
static int ring(nvshmem_team_t team, uint64_t round) {
  const int me = nvshmem_team_my_pe(team), n = nvshmem_team_n_pes(team);
  const int next = nvshmem_team_translate_pe(team, (me + 1) % n, NVSHMEM_TEAM_WORLD);
  const int previous = nvshmem_team_translate_pe(team, (me + n - 1) % n, NVSHMEM_TEAM_WORLD);
  uint64_t* source = (uint64_t*)nvshmem_calloc(kWords, sizeof(uint64_t));
  uint64_t* dest = (uint64_t*)nvshmem_calloc(kWords, sizeof(uint64_t));
  uint64_t* got = (uint64_t*)nvshmem_calloc(kWords, sizeof(uint64_t));
  uint64_t* words = (uint64_t*)nvshmem_calloc(3, sizeof(uint64_t));
  uint64_t sum = 0;
  int i, good = source != NULL && dest != NULL && got != NULL && words != NULL;
  if (!good) nvshmem_global_exit(1);
  for (i = 0; i < kWords; ++i)
    nvshmem_uint64_p(source + i, 1000 * (uint64_t)nvshmem_my_pe() + round, nvshmem_my_pe());
  nvshmem_barrier_all();

  nvshmemx_putmem_signal_on_stream(dest, source, kWords * sizeof(uint64_t) / 2, words, round,
                                   NVSHMEM_SIGNAL_SET, next, NULL);
  nvshmemx_putmem_signal_nbi_on_stream(dest + kWords / 2, source, kWords * sizeof(uint64_t) / 2,
                                       words + 1, 1, NVSHMEM_SIGNAL_ADD, next, NULL);
  nvshmemx_signal_wait_until_on_stream(words, NVSHMEM_CMP_EQ, round, NULL);
  nvshmemx_uint64_wait_until_on_stream(words + 1, NVSHMEM_CMP_GE, 1, NULL);
  nvshmemx_signal_op_on_stream(words + 2, 5, NVSHMEM_SIGNAL_SET, previous, NULL);
  nvshmemx_quiet_on_stream(NULL);
  if (nvshmemx_barrier_on_stream(team, NULL) != 0) return 0;
  /* The value is valid after the stream has reached the call. */
  good = good && nvshmemx_uint64_g_on_stream(words + 2, nvshmem_my_pe(), NULL) == 5;
  for (i = 0; i < kWords; ++i) sum += nvshmem_uint64_g(dest + i, nvshmem_my_pe());
  good = good && sum == kWords * (1000 * (uint64_t)previous + round);

  nvshmemx_sync_all_on_stream(NULL);
  nvshmemx_putmem_on_stream(dest, source, 8, next, NULL);
  nvshmemx_putmem_nbi_on_stream(dest + 1, source, 8, next, NULL);
  nvshmemx_getmem_on_stream(got, source, 8, previous, NULL);
  nvshmemx_getmem_nbi_on_stream(got + 1, source, 8, previous, NULL);
  nvshmemx_barrier_all_on_stream(NULL);
  if (nvshmemx_team_sync_on_stream(team, NULL) != 0) return 0;
  good = good && nvshmemx_uint64_g_on_stream(words, nvshmem_my_pe(), NULL) == round;
  for (i = 0; i < 2; ++i) {
    good = good && nvshmem_uint64_g(got + i, nvshmem_my_pe()) == 1000 * (uint64_t)previous + round;
    good = good && nvshmem_uint64_g(dest + i, nvshmem_my_pe()) == 1000 * (uint64_t)previous + round;
  }
  nvshmem_barrier_all();
  nvshmem_free(words);
  nvshmem_free(got);
  nvshmem_free(dest);
  nvshmem_free(source);
  return good;
}

int main(void) {
  nvshmem_team_config_t config = NVSHMEM_TEAM_CONFIG_INITIALIZER;
  nvshmem_team_t low = NVSHMEM_TEAM_INVALID, high = NVSHMEM_TEAM_INVALID;
  nvshmem_team_t row = NVSHMEM_TEAM_INVALID, column = NVSHMEM_TEAM_INVALID;
  int half, good;
  nvshmem_init();
  half = (nvshmem_n_pes() + 1) / 2;
  if (nvshmem_team_split_strided(NVSHMEM_TEAM_WORLD, 0, 1, half, NULL, 0, &low) != 0) return 1;
  if (half < nvshmem_n_pes() && nvshmem_team_split_strided(NVSHMEM_TEAM_WORLD, half, 1,
                                                           nvshmem_n_pes() - half, NULL, 0, &high))
    return 1;
  if (nvshmem_team_split_2d(NVSHMEM_TEAM_WORLD, 2, NULL, 0, &row, NULL, 0, &column) != 0) return 1;
  nvshmem_team_get_config(row, &config);
  if (nvshmem_barrier(row) != 0 || nvshmem_sync(column) != 0) return 1;
  good = ring(low != NVSHMEM_TEAM_INVALID ? low : high, 7);
  good = ring(NVSHMEM_TEAM_WORLD, 9) && good;
  good = ring(column, 11) && good;
  nvshmem_team_destroy(column);
  nvshmem_team_destroy(row);
  nvshmem_team_destroy(high);
  nvshmem_team_destroy(low);
  printf("PE %d of %d: %s\n", nvshmem_my_pe(), nvshmem_n_pes(), good ? "good" : "wrong");
  nvshmem_finalize();
  return good ? 0 : 1;
}
