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

/// `config` says which NIC (GSHMEM_NIC=soft, else mlx5) and which ports.
[[nodiscard]] SelfTest test_nic(const Config& config);
[[nodiscard]] std::string as_text(const SelfTest& test);

}  // namespace gshmem::selftest
