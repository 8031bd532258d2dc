// gshmem-check-main FOLDER PES PROGRAM [ARGUMENT...]: calls the main of a program by threads, each
// a PE that is initialized. The program is a shared object. Every PE loads a copy of it from
// FOLDER, and so has global variables of its own. Run by gshmem-check.
#include "host/base/dynamic_library.h"

#include <gshmem/gshmem.hpp>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const std::filesystem::path folder = argv[1], program = argv[3];
  std::atomic<int> status{0};
  try {
    gshmem::run_threads(std::atoi(argv[2]), [&](const gshmem::Runtime& runtime) {
      const auto copy = folder / ("PE" + std::to_string(runtime.my_pe()) + ".so");
      std::filesystem::copy_file(program, copy);
      // The library is not closed: threads and exit handlers of the program may still run.
      const auto* const library = new gshmem::DynamicLibrary(copy.string());
      const int result = library->function<int(int, char**)>("main")(argc - 3, argv + 3);
      if (result != 0) status.store(result);
    });
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gshmem-check: %s\n", error.what());
    return 2;
  }
  return status.load();
}
