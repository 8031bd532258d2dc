#include "host/tools/doctor/doctor.h"
#include "tests/unit/info/fake_machine.h"

#include <set>
#include <stdexcept>

namespace gshmem::info {

TEST_CASE("every_check_has_a_name_of_its_own_and_says_something_on_an_empty_machine") {
  const FakeMachine fake;
  std::set<std::string> names;
  for (const Check& check : all_checks()) {
    INFO(check.name);
    CHECK(names.insert(check.name).second);
    CHECK(std::string(check.purpose).size() < 80);
    CHECK_FALSE(check.run(fake.machine).empty());
  }
  const Diagnosis diagnosis = diagnose(fake.machine);
  CHECK(diagnosis.results.size() == names.size());
  CHECK(diagnosis.status() == 0);
}

TEST_CASE("a_problem_sets_the_status_and_a_hint_does_not") {
  Diagnosis diagnosis{.host = "h", .results = {{&all_checks()[0], {ok("fine")}}}};
  CHECK(diagnosis.status() == 0);
  diagnosis.results[0].findings.push_back(hint({.symptom = "s", .cause = "c", .fix = "f"}));
  CHECK(diagnosis.status() == 0);
  diagnosis.results[0].findings.push_back(problem({.symptom = "s", .cause = "c", .fix = "f"}));
  CHECK(diagnosis.status() == 1);
  CHECK(diagnosis.count(Verdict::kHint) == 1);
}

TEST_CASE("a_check_that_throws_is_one_that_could_not_be_looked_at") {
  FakeMachine fake;
  fake.machine.library = [](const std::string&, const std::vector<std::string>&) -> Library {
    throw std::runtime_error("loader trouble");
  };
  const std::string text = as_text(diagnose(fake.machine));
  CHECK(contains(text, "skipped  pmix: the check failed: loader trouble"));
}

TEST_CASE("text_and_json_have_symptom_cause_and_fix") {
  const Diagnosis diagnosis{
      .host = "node7",
      .results = {{&all_checks()[0], {problem({.symptom = "sy", .cause = "ca", .fix = "fi"})}},
                  {&all_checks()[1], {ok("good"), skipped("hidden")}}}};
  CHECK(as_text(diagnosis) ==
        "gshmem doctor, 2 checks on node7\n"
        "PROBLEM  variables: sy\n"
        "           cause: ca\n"
        "           fix:   fi\n"
        "ok       nvidia_driver: good\n"
        "skipped  nvidia_driver: hidden\n"
        "1 problem(s), 0 hint(s), 1 not looked at\n");
  const std::string json = R"({
  "host": "node7",
  "findings": [
    {
      "check": "variables",
      "verdict": "problem",
      "symptom": "sy",
      "cause": "ca",
      "fix": "fi"
    },
    {
      "check": "nvidia_driver",
      "verdict": "ok",
      "text": "good"
    },
    {
      "check": "nvidia_driver",
      "verdict": "skipped",
      "text": "hidden"
    }
  ],
  "problems": 1,
  "hints": 0
}
)";
  CHECK(as_json(diagnosis) == json);
}

TEST_CASE("list_has_every_check_once") {
  for (const Check& check : all_checks()) {
    INFO(check.name);
    CHECK(contains(list_as_text(), std::string(check.name) + " "));
    CHECK(contains(list_as_json(), "\"name\": \"" + std::string(check.name) + "\""));
  }
}

TEST_CASE("one_process_speaks_for_its_host") {
  FakeMachine fake;
  CHECK(speaks_for_host(fake.machine));
  fake.environment["SLURM_LOCALID"] = "1";
  CHECK_FALSE(speaks_for_host(fake.machine));
  fake.environment["OMPI_COMM_WORLD_LOCAL_RANK"] = "0";
  CHECK(speaks_for_host(fake.machine));
}

}  // namespace gshmem::info
