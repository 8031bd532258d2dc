// Reading the small files of sysfs and procfs. Included by what chooses devices and by gshmem-info.
// Invariant: what is absent or not readable reads as empty, never as an error.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace gshmem {

[[nodiscard]] std::string first_line(const std::filesystem::path& file);
/// The file as bytes, at most `limit`: sysfs and procfs do not tell sizes beforehand.
[[nodiscard]] std::string whole_file(const std::filesystem::path& file, std::size_t limit = 65536);
/// A number in the first line, decimal or with 0x; what follows it is ignored.
[[nodiscard]] std::optional<std::int64_t> number_in(const std::filesystem::path& file);
/// What follows `key` and blanks on the first line that starts with it; empty when none does.
[[nodiscard]] std::string value_in(const std::filesystem::path& file, std::string_view key);
/// Names in a folder, sorted.
[[nodiscard]] std::vector<std::string> names_in(const std::filesystem::path& folder);
/// Last component of what a link points to; a driver's name, say.
[[nodiscard]] std::string link_target_name(const std::filesystem::path& link);

/// The number at the start of `text`; nothing when there is none.
[[nodiscard]] std::optional<std::int64_t> leading_number(std::string_view text);
/// "0-3,8" as a set.
[[nodiscard]] std::set<int> cpu_list(const std::string& text);

}  // namespace gshmem
