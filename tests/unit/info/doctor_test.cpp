// Runs gshmem-info --doctor on machines that are folders. machines/NAME/tree describes what the
// checks read; expected.txt beside it, and expected.json if it exists, are the pages that they must
// print. GSHMEM_TEST_REWRITE=1 overwrites them with the printed pages, for a reader to judge.
#include "host/tools/doctor/doctor.h"

#include "tests/unit/info/test_machine.h"

#include <catch2/catch.hpp>

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace gshmem::info {
namespace {

namespace fs = std::filesystem;

void expect(const fs::path& file, std::string page, const Machine& machine) {
  for (std::size_t at; (at = page.find(machine.root.string())) != std::string::npos;)
    page.erase(at, machine.root.string().size());
  if (getenv("GSHMEM_TEST_REWRITE") != nullptr) std::ofstream(file) << page;
  CHECK(page == read(file));
}

}  // namespace

TEST_CASE("each_machine_has_its_page") {
  Words names;
  for (const auto& entry : fs::directory_iterator(GSHMEM_MACHINES))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  REQUIRE(names.size() >= 10);
  for (const std::string& name : names) {
    INFO(name);
    const fs::path folder = fs::path(GSHMEM_MACHINES) / name;
    const TestMachine test(folder / "tree");
    const Diagnosis diagnosis = diagnose(test.machine);
    expect(folder / "expected.txt", as_text(diagnosis), test.machine);
    if (fs::exists(folder / "expected.json"))
      expect(folder / "expected.json", as_json(diagnosis), test.machine);
    CHECK(diagnosis.status() == (diagnosis.count(Verdict::kProblem) > 0 ? 1 : 0));
    for (const CheckResult& result : diagnosis.results) {
      for (const Finding& finding : result.findings) {
        INFO(result.check->name);
        CHECK(finding.cause.empty() != finding.is_trouble());
        CHECK(finding.fix.empty() != finding.is_trouble());
      }
    }
  }
}

TEST_CASE("a_check_that_throws_is_reported_as_not_possible") {
  TestMachine test(fs::path(GSHMEM_MACHINES) / "empty" / "tree");
  test.machine.library = [](const std::string&, const Words&) -> Library {
    throw std::runtime_error("loader trouble");
  };
  const std::string text = as_text(diagnose(test.machine));
  CHECK_THAT(text, Catch::Contains("skipped  pmix: the check failed: loader trouble"));
}

TEST_CASE("one_process_reports_for_its_host") {
  TestMachine test(fs::path(GSHMEM_MACHINES) / "empty" / "tree");
  CHECK(speaks_for_host(test.machine));
  test.machine.env = [](const char* name) -> const char* {
    return std::string(name) == "SLURM_LOCALID" ? "1" : nullptr;
  };
  CHECK_FALSE(speaks_for_host(test.machine));
}

TEST_CASE("this_machine_is_read_from_the_kernel") {
  const Machine machine = this_machine();
  CHECK(machine.open_errno("/dev/null") == 0);
  CHECK(machine.open_errno("/nowhere") == ENOENT);
  CHECK(std::string(machine.env("PATH")) == getenv("PATH"));
  CHECK(machine.volume_bytes("/dev"));
  CHECK_FALSE(machine.volume_bytes("/nowhere"));
  const Library library = machine.library("libc.so.6", {"malloc", "no_such_function"});
  CHECK(fs::path(library.file).filename() == "libc.so.6");
  CHECK(library.missing == Words{"no_such_function"});
}

}  // namespace gshmem::info
