// Reads the small files of sysfs and procfs. Included by code that chooses devices and by
// gshmem-info. Invariant: a file that is absent or not readable reads as empty, never as an error.
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
/// Returns the file as bytes, at most `limit`: sysfs and procfs do not report sizes beforehand.
[[nodiscard]] std::string whole_file(const std::filesystem::path& file, std::size_t limit = 65536);
/// Returns the number in the first line, decimal or with 0x; the rest of the line is ignored.
[[nodiscard]] std::optional<std::int64_t> number_in(const std::filesystem::path& file);
/// Returns the text after `key` and blanks on the first line that starts with `key`; empty when
/// there is none.
[[nodiscard]] std::string value_in(const std::filesystem::path& file, std::string_view key);
/// Returns the names in a folder, sorted.
[[nodiscard]] std::vector<std::string> names_in(const std::filesystem::path& folder);
/// Returns the last component of a link's target, for example the name of a driver.
[[nodiscard]] std::string link_target_name(const std::filesystem::path& link);

/// Returns the number at the start of `text`, or nothing when there is none.
[[nodiscard]] std::optional<std::int64_t> leading_number(std::string_view text);
/// Parses a list of CPUs, such as "0-3,8".
[[nodiscard]] std::set<int> cpu_list(const std::string& text);

}  // namespace gshmem
