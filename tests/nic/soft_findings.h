// Checks that programs that gshmem is tested with obey the specification of the soft NIC: it is
// strict from the start, and has found nothing at their end.
#pragma once

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <initializer_list>

namespace gshmem::test {

/// Called before the process opens the soft NIC or starts threads.
inline void make_soft_nic_strict() { setenv("GSHNIC_STRICT", "1", 0); }

/// Returns the violations and remarks of the soft NIC for this process, or 0 if it does not use it.
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
