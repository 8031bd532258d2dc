#include "perftest/common/report.h"

#include <nlohmann/json.hpp>

namespace perftest {
namespace {

std::string number(double value, const char* format) {
  char text[64];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

}  // namespace

double Row::gigabytes_per_s() const {
  return median_us > 0 ? static_cast<double>(bytes) / median_us * 1e-3 : 0;
}
double Row::megaops() const {
  return median_us > 0 ? static_cast<double>(operations) / median_us : 0;
}

Report::Report(std::string format, Shows shows, bool with_rate, bool with_cpu, std::FILE* out)
    : format_(std::move(format)), out_(out) {
  using R = const Row&;
  columns_ = {
      {"name", 23, true, [](R row) { return row.name; }},
      {"size_bytes", 12, false, [](R row) { return std::to_string(row.size); }},
      {"scope", 6, true, [](R row) { return row.scope; }},
      {"blocks", 6, false, [](R row) { return std::to_string(row.blocks); }},
      {"threads", 7, false, [](R row) { return std::to_string(row.threads); }},
      {"iters", 6, false, [](R row) { return std::to_string(row.iters); }},
      {"min_us", 11, false, [](R row) { return number(row.min_us, "%.4f"); }},
      {"median_us", 11, false, [](R row) { return number(row.median_us, "%.4f"); }},
      {"floor_us", 9, false, [](R row) { return number(row.floor_us, "%.4f"); }},
  };
  if (with_cpu) {
    columns_.push_back({"cpu_us", 11, false, [](R row) {
                          return row.cpu_us > 0 ? number(row.cpu_us, "%.4f") : std::string();
                        }});
  }
  if (shows == Shows::kBandwidth || shows == Shows::kRate) {
    columns_.push_back(
        {"GB_s", 10, false, [](R row) { return number(row.gigabytes_per_s(), "%.3f"); }});
    columns_.push_back({"total_GB_s", 12, false,
                        [](R row) { return number(row.gigabytes_per_s() * row.senders, "%.3f"); }});
  }
  if (shows == Shows::kIssue) {
    columns_.push_back({"clocks", 10, false, [](R row) { return number(row.clocks, "%.1f"); }});
  }
  if (shows == Shows::kRate || shows == Shows::kIssue || with_rate) {
    columns_.push_back({"Mops", 12, false, [](R row) { return number(row.megaops(), "%.3f"); }});
  }
}

std::vector<std::string> Report::cells_of(const Row& row) const {
  std::vector<std::string> cells;
  for (const Column& column : columns_) cells.push_back(column.value(row));
  return cells;
}

void Report::print_table_row(const std::vector<std::string>& cells) const {
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string cell = cells[i].empty() ? "-" : cells[i];
    std::fprintf(out_, columns_[i].is_text ? "%s%-*s" : "%s%*s", i ? " " : "", columns_[i].width,
                 cell.c_str());
  }
  std::fputc('\n', out_);
  std::fflush(out_);
}

void Report::begin(const Header& header) {
  header_ = header;
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  if (format_ == "table") {
    for (const auto& [key, value] : header) {
      std::fprintf(out_, "# %s: %s\n", key.c_str(), value.c_str());
    }
    print_table_row(titles);
  } else if (format_ == "csv") {
    for (const auto& [key, value] : header) titles.push_back(key);
    for (std::size_t i = 0; i < titles.size(); ++i) {
      std::fprintf(out_, "%s%s", i ? "," : "", csv_cell(titles[i]).c_str());
    }
    std::fputc('\n', out_);
  }
}

void Report::add(const Row& row) {
  rows_.push_back(row);
  std::vector<std::string> cells = cells_of(row);
  if (format_ == "table") {
    print_table_row(cells);
  } else if (format_ == "csv") {
    for (const auto& [key, value] : header_) cells.push_back(value);
    for (std::size_t i = 0; i < cells.size(); ++i) {
      std::fprintf(out_, "%s%s", i ? "," : "", csv_cell(cells[i]).c_str());
    }
    std::fputc('\n', out_);
  }
}

void Report::add_summary(const std::string& key, const std::string& text) {
  summary_.emplace_back(key, text);
  if (format_ == "table") std::fprintf(out_, "# %s: %s\n", key.c_str(), text.c_str());
}

void Report::end() {
  if (format_ == "json") {
    using Json = nlohmann::ordered_json;
    Json document;
    for (const auto& [key, value] : header_) document[key] = value;
    document["summary"] = Json::object();
    for (const auto& [key, value] : summary_) document["summary"][key] = value;
    document["rows"] = Json::array();
    for (const Row& row : rows_) {
      Json cells;
      for (const Column& column : columns_) {
        const std::string cell = column.value(row);
        cells[column.title] =
            column.is_text ? Json(cell) : Json::parse(cell.empty() ? "null" : cell);
      }
      document["rows"].push_back(cells);
    }
    std::fprintf(out_, "%s\n", document.dump(2).c_str());
  }
  std::fflush(out_);
}

}  // namespace perftest
