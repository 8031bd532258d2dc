#include "host/runtime/same_call.h"

#include "host/base/error.h"

#include <cstdio>
#include <cstring>
#include <vector>

namespace gshmem {
namespace {

struct Request {
  char call[64];
  std::uint64_t size, other;
};

std::vector<Request> requests_of_all(Collectives& ranks, const char* call, const Request& mine) {
  try {
    return allgather(ranks, mine);
  } catch (const Error& error) {
    throw Error(error.code(), strprintf("%s: %s", call, error.what()));
  }
}

}  // namespace

void require_same_call(Collectives& ranks, const char* call, std::uint64_t size,
                       std::uint64_t other) {
  Request mine{"", size, other};
  std::snprintf(mine.call, sizeof(mine.call), "%s", call);
  std::vector<Request> all = requests_of_all(ranks, call, mine);
  // A PE that contributes something else is in a later step of another call.
  for (Request& request : all) {
    request.call[sizeof(request.call) - 1] = '\0';
    if (*request.call == '\0') std::strcpy(request.call, "another call");
  }
  for (std::size_t pe = 1; pe < all.size(); ++pe) {
    require(std::strcmp(all[pe].call, all[0].call) == 0, GSHMEMX_ERROR_SYMMETRY, [&] {
      return strprintf("%s: collective calls differ: PE 0 called %s, PE %zu called %s", call,
                       all[0].call, pe, all[pe].call);
    });
    require(
        all[pe].size == all[0].size && all[pe].other == all[0].other, GSHMEMX_ERROR_SYMMETRY, [&] {
          if (all[pe].other == all[0].other)
            return strprintf("%s: arguments differ: PE 0 passed size %lu, PE %zu size %lu", call,
                             all[0].size, pe, all[pe].size);
          return strprintf(
              "%s: arguments differ: PE 0 passed size %lu (alignment or offset %lu), PE %zu size "
              "%lu (%lu)",
              call, all[0].size, all[0].other, pe, all[pe].size, all[pe].other);
        });
  }
}

}  // namespace gshmem
