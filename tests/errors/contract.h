// The expectations of every case of tests/errors: for its actor, for the target's memory, and for
// the waiters. Included by the cases only.
#pragma once

#include "tests/errors/scene.h"

#include <string>
#include <vector>

namespace gshmem::errors {

inline constexpr unsigned kNone = 0;
inline const std::vector<int> kNicError{GSHMEMX_ERROR_NIC};

struct Expected {
  std::vector<int> codes;
  unsigned syndrome = kNone;  ///< kNone also if any syndrome will do
  std::vector<std::string> parts;
  bool names_queue = true;
};

[[nodiscard]] bool is_in(int value, const std::vector<int>& values);
/// Checks the actor's part of the contract.
void check_actor(const Shared& seen, const Expected& expected);
/// Checks that the target's memory agrees with the actor's status.
void check_memory(const Shared& seen);
/// Checks that the waiters know that the actor has stopped, and why.
void check_told(const Shared& seen);
void check_all_returned(const Shared& seen);
/// Runs the play with all of these checks, in every leg with another kind of wait, so that all
/// kinds meet all NICs over the cases.
void run(const std::vector<Leg>& where, Play play, const Expected& expected);

}  // namespace gshmem::errors
