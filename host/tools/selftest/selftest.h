// gshmem-info --nic-selftest: tests on a real network card the properties that only a card can
// confirm. A PE sends to itself, by the same code as programs: in host memory, and in GPU memory if
// there is a GPU. The result is one page of text, which a user with a card can send back. Included
// by main.cpp and the checks.
#pragma once

#include "host/base/config.h"
#include "host/tools/doctor/machine.h"

#include <string>
#include <vector>

namespace gshmem::selftest {

/// A line of the page.
struct Finding {
  enum class Kind { kGood, kFailed, kNote };
  Kind kind = Kind::kGood;
  std::string what, detail;
};
struct SelfTestPart {
  std::string title;
  std::vector<Finding> findings;
};
struct SelfTest {
  std::vector<SelfTestPart> parts;
  std::string network;  ///< in host memory, once it is up
  [[nodiscard]] bool good() const;
};

/// Returns the settings that all parts share: the PE is reached by its network only, errors do not
/// end the process, and no wait is long. The card gives up before the wait does, so that it reports
/// the reason. It sends four times, and waits 67 ms to 268 ms each time (InfiniBand 9.7.6.1.3; 14
/// is 67 ms, and cards may take four times as long).
[[nodiscard]] Config config_of(const Config& given);
/// Returns why there is no card to test. Empty where there is one, or where a card has a problem.
[[nodiscard]] std::string why_not(const info::Machine& machine);
/// Returns the page with this reason.
[[nodiscard]] std::string as_text_without(const std::string& why);
/// `config` selects the NIC (GSHMEM_NIC=soft, otherwise mlx5) and the ports.
[[nodiscard]] SelfTest test_nic(const Config& config);
[[nodiscard]] std::string as_text(const SelfTest& test);
/// Returns the result as one line: the card, and per part the number of good lines and the names of
/// the others.
[[nodiscard]] std::string as_line(const SelfTest& test);

}  // namespace gshmem::selftest
