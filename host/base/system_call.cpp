#include "host/base/system_call.h"

#include "host/base/error.h"

namespace gshmem {

int poll_once(std::span<pollfd> entries, int milliseconds) {
  for (pollfd& entry : entries) entry.revents = 0;
  const int ready = ::poll(entries.data(), entries.size(), milliseconds);
  if (ready == -1 && errno == EINTR) return 0;
  check_errno(ready, strprintf("poll of %zu descriptors", entries.size()));
  return ready;
}

}  // namespace gshmem
