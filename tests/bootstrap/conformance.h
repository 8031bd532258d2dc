// What every bootstrap has to do, as bodies over Bootstrap& that throw on the first broken fact.
// Run by every rank of a job: by threads, forked processes, mpirun and srun alike.
#pragma once

#include "bootstrap/bootstrap.h"

#include <functional>
#include <memory>
#include <string>

namespace gshmem::test {

using Maker = std::function<std::unique_ptr<bootstrap::Bootstrap>()>;

/// Throws std::runtime_error{what} unless `ok`; the bodies run where Catch2's macros cannot.
void expect(bool ok, const std::string& what);

/// Runs `call` and returns the Error it throws; anything else breaks the expectation.
[[nodiscard]] Error expect_error(const std::function<void()>& call);
/// The same, and the error has this code and its text contains `part`.
void expect_error(gshmemx_status code, const std::string& part, const std::function<void()>& call);

void rank_and_size_are_sane(bootstrap::Bootstrap& boot);
void allgather_moves_every_byte(bootstrap::Bootstrap& boot, std::size_t bytes);
/// Each rank gets from every one the part that was for it.
void alltoall_moves_every_part(bootstrap::Bootstrap& boot, std::size_t bytes);
void small_allgathers_do_not_mix(bootstrap::Bootstrap& boot, int rounds);
void barrier_waits_for_each_rank_in_turn(bootstrap::Bootstrap& boot);

/// All of the above over a bootstrap from `make`, then again over a second one; allgathers of more
/// than `max_bytes` are left out.
void conformance(const Maker& make, std::size_t max_bytes = std::size_t{5} << 20);

/// Rank size-1 aborts while the others wait; they fail and are told who and why.
void abort_reaches_the_others(bootstrap::Bootstrap& boot);

}  // namespace gshmem::test
