// outlive FOLDER: a PE that writes its process id to a file of the folder and makes barriers until
// its job ends. Started by killed_mpirun.sh.
#include <gshmem/gshmem.hpp>

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <string>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::signal(SIGPIPE, SIG_IGN);  // the launcher's end of stdout and stderr is gone
  ::alarm(300);                   // if the job does not end, this process does
  const gshmem::Runtime runtime;
  const std::string mine = std::string(argv[1]) + "/PE" + std::to_string(runtime.my_pe());
  std::ofstream(mine + ".new") << ::getpid() << std::endl;
  if (::rename((mine + ".new").c_str(), mine.c_str()) != 0) return 3;
  while (true) {
    gshmem_barrier_all();
    ::usleep(1000);
  }
}
