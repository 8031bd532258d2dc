#include "host/runtime/same_call.h"

#include "host/base/error.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace gshmem {
namespace {

struct Request {
  char call[64];
  std::uint64_t values[kMostSharedArguments];
};

std::vector<Request> requests_of_all(Collectives& ranks, const char* call, const Request& mine) {
  try {
    return allgather(ranks, mine);
  } catch (const Error& error) {
    throw Error(error.code(), strprintf("%s: %s", call, error.what()));
  }
}

std::string value_text(const SharedArgument& argument, std::uint64_t value) {
  using Form = SharedArgument::Form;
  if (argument.form == Form::kSigned) return strprintf("%ld", static_cast<long>(value));
  if (argument.form == Form::kUnsigned) return strprintf("%lu", value);
  return value == SharedArgument::kNull ? "null" : strprintf("heap offset %lu", value);
}

}  // namespace

void require_same_call(Collectives& ranks, const char* call,
                       std::initializer_list<SharedArgument> arguments) {
  Request mine{};
  std::ranges::transform(arguments, mine.values, &SharedArgument::value);
  std::snprintf(mine.call, sizeof(mine.call), "%s", call);
  std::vector<Request> all = requests_of_all(ranks, call, mine);
  // A PE that contributes another number of bytes is in a later step of another call.
  for (Request& request : all) {
    request.call[sizeof(request.call) - 1] = '\0';
    if (*request.call == '\0') std::strcpy(request.call, "another call");
  }
  for (std::size_t pe = 1; pe < all.size(); ++pe) {
    require(std::strcmp(all[pe].call, all[0].call) == 0, GSHMEMX_ERROR_SYMMETRY, [&] {
      return strprintf("%s: collective calls differ: PE 0 called %s, PE %zu called %s", call,
                       all[0].call, pe, all[pe].call);
    });
    const std::uint64_t *first = all[0].values, *other = all[pe].values;
    for (const SharedArgument& argument : arguments) {
      require(*first == *other, GSHMEMX_ERROR_SYMMETRY, [&] {
        return strprintf("%s: %s differs: PE 0 passed %s, PE %zu %s", call, argument.name,
                         value_text(argument, *first).c_str(), pe,
                         value_text(argument, *other).c_str());
      });
      ++first;
      ++other;
    }
  }
}

}  // namespace gshmem
