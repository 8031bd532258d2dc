// Gives the tests the names of Catch2 version 2 from version 3.
#pragma once
#include <catch2/catch_all.hpp>
#include <string>

namespace Catch {
inline auto Contains(const std::string& text) { return Matchers::ContainsSubstring(text); }
using Matchers::EndsWith;
using Matchers::Matches;
using Matchers::StartsWith;
}  // namespace Catch
using Catch::Approx;
