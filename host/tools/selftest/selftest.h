// gshmem-info --nic-selftest: what only a network card can confirm, tried on the one that is here.
// A PE of its own sends to itself, by the same code as programs: in host memory, and in GPU memory
// where there is a GPU. One page of text, which a user with a card can send back. Included by
// main.cpp and the checks.
#pragma once

#include "host/base/config.h"

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
  [[nodiscard]] bool good() const;
};

/// Settings that all parts share: nothing reaches the PE but its network, errors end nothing, and
/// no wait is long. The card gives up before the wait does, so that it says why: it sends four
/// times, and waits 67 ms to 268 ms each time (InfiniBand 9.7.6.1.3; 14 is 67 ms, cards may take
/// four times as long).
[[nodiscard]] Config config_of(const Config& given);
/// `config` says which NIC (GSHMEM_NIC=soft, else mlx5) and which ports.
[[nodiscard]] SelfTest test_nic(const Config& config);
[[nodiscard]] std::string as_text(const SelfTest& test);

}  // namespace gshmem::selftest
