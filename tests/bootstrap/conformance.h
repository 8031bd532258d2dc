// What every bootstrap has to do, and what the PEs of a job meet by after it, as bodies over
// Collectives& that throw on the first broken fact. Run by every rank of a job: by threads, forked
// processes, mpirun and srun alike.
#pragma once

#include "bootstrap/bootstrap.h"

#include <functional>
#include <memory>
#include <string>

namespace gshmem::test {

using Maker = std::function<std::unique_ptr<Collectives>()>;

/// Throws std::runtime_error{what} unless `ok`; the bodies run where Catch2's macros cannot.
void expect(bool ok, const std::string& what);

/// Runs `call` and returns the Error it throws; anything else breaks the expectation.
[[nodiscard]] Error expect_error(const std::function<void()>& call);
/// The same, and the error has this code and its text contains `part`.
void expect_error(gshmemx_status code, const std::string& part, const std::function<void()>& call);

void rank_and_size_are_sane(Collectives& boot);
void allgather_moves_every_byte(Collectives& boot, std::size_t bytes);
/// Each rank gets from every one the part that was for it.
void alltoall_moves_every_part(Collectives& boot, std::size_t bytes);
void small_allgathers_do_not_mix(Collectives& boot, int rounds);
void barrier_waits_for_each_rank_in_turn(Collectives& boot);

/// All of the above over what `make` makes, then again over a second one; allgathers of more than
/// `max_bytes` are left out.
void conformance(const Maker& make, std::size_t max_bytes = bootstrap::kMaxBytes);

}  // namespace gshmem::test
