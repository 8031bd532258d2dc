// The conformance suite of bootstraps, and the collectives of a job after it, as bodies over
// Collectives& that throw on the first error. Every rank of a job runs them: threads, forked
// processes, ranks of mpirun and srun.
#pragma once

#include "bootstrap/bootstrap.h"

#include <functional>
#include <memory>
#include <string>

namespace gshmem::test {

using Maker = std::function<std::unique_ptr<Collectives>()>;

/// Throws std::runtime_error{what} unless `ok`, because the bodies run where Catch2's macros
/// cannot.
void expect(bool ok, const std::string& what);

/// Runs `call` and returns the Error that it throws; any other result throws.
[[nodiscard]] Error expect_error(const std::function<void()>& call);
/// Requires also that the error has this code and that its text contains `part`.
void expect_error(gshmemx_status code, const std::string& part, const std::function<void()>& call);

void rank_and_size_are_sane(Collectives& boot);
void allgather_moves_every_byte(Collectives& boot, std::size_t bytes);
/// Each rank receives from every rank the part for it.
void alltoall_moves_every_part(Collectives& boot, std::size_t bytes);
void small_allgathers_do_not_mix(Collectives& boot, int rounds);
void barrier_waits_for_each_rank_in_turn(Collectives& boot);

/// Runs all of the above over the result of `make`, then over a second one; allgathers of more than
/// `max_bytes` are left out.
void conformance(const Maker& make, std::size_t max_bytes = bootstrap::kMaxBytes);

}  // namespace gshmem::test
