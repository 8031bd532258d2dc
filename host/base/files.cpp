#include "host/base/files.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

namespace gshmem {

namespace fs = std::filesystem;

std::string first_line(const fs::path& file) {
  std::string line;
  std::ifstream stream(file);
  std::getline(stream, line);
  return line;
}

std::string whole_file(const fs::path& file, std::size_t limit) {
  std::string bytes(limit, '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.read(bytes.data(), static_cast<std::streamsize>(limit));
  bytes.resize(static_cast<std::size_t>(stream.gcount()));
  return bytes;
}

std::optional<std::int64_t> number_in(const fs::path& file) {
  return leading_number(first_line(file));
}

std::string value_in(const fs::path& file, std::string_view key) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t start = line.find_first_not_of(" \t", key.size());
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "";
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

std::string link_target_name(const fs::path& link) {
  std::error_code error;
  const fs::path target = fs::read_symlink(link, error);
  return error ? "" : target.filename().string();
}

std::optional<std::int64_t> leading_number(std::string_view text) {
  const bool hex = text.starts_with("0x");
  if (hex) text.remove_prefix(2);
  std::int64_t value = 0;
  const auto [stop, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, hex ? 16 : 10);
  if (error != std::errc()) return {};
  return value;
}

std::set<int> cpu_list(const std::string& text) {
  std::set<int> cpus;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const std::optional<std::int64_t> first = leading_number(part);
    if (!first) continue;
    const std::size_t dash = part.find('-');
    const std::int64_t last =
        dash == std::string::npos ? *first : leading_number(part.substr(dash + 1)).value_or(-1);
    for (std::int64_t cpu = *first; cpu <= last; ++cpu) cpus.insert(static_cast<int>(cpu));
  }
  return cpus;
}

}  // namespace gshmem
