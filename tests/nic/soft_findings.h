// How programs that gshmem is tested with are held to account by the soft NIC: it is strict before
// it starts, and has found nothing at their end.
#pragma once

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <initializer_list>

namespace gshmem::test {

/// Before the process opens the soft NIC, and has threads.
inline void make_soft_nic_strict() { setenv("GSHNIC_STRICT", "1", 0); }

/// What this process has done to the soft NIC that its specification does not allow, violations and
/// remarks, if it uses it.
inline int soft_nic_findings() {
  void* library = dlopen("libgshnic.so", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return 0;
  using Function = int (*)(char*, unsigned long);
  int all = 0;
  for (const char* name : {"gshnic_violations", "gshnic_remarks"}) {
    const auto read = reinterpret_cast<Function>(dlsym(library, name));
    char text[4096] = "the soft NIC has no such function";
    const int count = read != nullptr ? read(text, sizeof(text)) : 1;
    if (count != 0) std::fprintf(stderr, "%s: %d\n%s\n", name, count, text);
    all += count;
  }
  return all;
}

}  // namespace gshmem::test
