// Seeded machines for gshmem-info --gdr-proof, and the program as its users run it on them.
// proofs/NAME.case describes a machine by the lines of a TestMachine, by lines of GSHNIC_COSTS for
// what a trouble does to the figures, and by limits of the process (ulimit). The soft NIC stands
// for the card, or the double of libfabric.
#pragma once

#include "tests/unit/info/test_machine.h"

#include <catch2/catch.hpp>

#include <stdio.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace gshmem::proof {

namespace fs = std::filesystem;

struct Case {
  std::string tree, costs, shell;
};

inline void read_case(const fs::path& file, Case& into) {
  std::ifstream lines(file);
  REQUIRE(lines.good());
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("base ")) {
      read_case(file.parent_path() / ("base." + line.substr(5)), into);
    } else if (line.starts_with("costs ")) {
      into.costs += line.substr(6) + "\n";
    } else if (line.starts_with("ulimit ")) {
      into.shell += line + "; ";
    } else if (line.starts_with("without ")) {  // a file of the base
      const std::string file_line = "file " + line.substr(8) + "\n";
      const std::size_t at = into.tree.find(file_line);
      REQUIRE(at != std::string::npos);
      into.tree.erase(at, file_line.size());
    } else {
      into.tree += line + "\n";
    }
  }
}

struct Ran {
  int status = -1;
  std::string output;
};

inline Ran run(const std::string& command) {
  FILE* const pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  Ran ran;
  char buffer[4096];
  for (std::size_t got; (got = fread(buffer, 1, sizeof(buffer), pipe)) > 0;)
    ran.output.append(buffer, got);
  const int status = pclose(pipe);
  REQUIRE(WIFEXITED(status));
  ran.status = WEXITSTATUS(status);
  return ran;
}

/// Runs gshmem-info on the machine of a case, as `NAME=value ` in `variables` say.
inline Ran prove_case(const std::string& name, const std::string& options,
                      const std::string& variables = "") {
  Case seeded;
  read_case(fs::path(GSHMEM_PROOFS) / (name + ".case"), seeded);
  const info::TestMachine test(name, std::istringstream(seeded.tree));
  const fs::path costs = test.machine.root / "costs";
  std::ofstream(costs) << seeded.costs;
  // The GPUs of this machine are not those of the tree.
  return run(seeded.shell +
             "CUDA_VISIBLE_DEVICES= GSHMEM_DEVICE=cpu GSHMEM_NIC=soft GSHMEM_TEST_ROOT=" +
             test.machine.root.string() + " GSHNIC_COSTS=" + costs.string() +
             " GSHMEM_TEST_FABRIC_COSTS=" + costs.string() + " " + variables +
             GSHMEM_INFO_PROGRAM " --gdr-proof --largest 1 " + options);
}

}  // namespace gshmem::proof
