// The output of the perftests: rows as a table, CSV or JSON, on the standard output of PE 0. A row
// has the measured values; every column is derived from them here.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace perftest {

/// Properties of the run, in the order in which they are printed.
using Header = std::vector<std::pair<std::string, std::string>>;

struct Row {
  std::string name{};  ///< operation or variant, "" = none
  std::size_t size = 0;
  std::string scope{};
  unsigned blocks = 1, threads = 1, iters = 0;
  double min_us = 0, median_us = 0;  ///< times of one iteration
  std::size_t bytes = 0;             ///< payload per iteration of one PE; 0 = no bandwidth
  std::size_t operations = 1;        ///< API operations per iteration of one PE
  unsigned senders = 1;              ///< number of PEs that did this at once
  double clocks = 0;                 ///< clocks of an SM per operation; kIssue only
  double floor_us = 0;               ///< the least time that one iteration can take
  double cpu_us = 0;  ///< CPU time of all PEs for one iteration, with their threads; 0 = unknown

  /// Returns 10^9 bytes per second from one PE, by the median.
  [[nodiscard]] double gigabytes_per_s() const;
  /// Returns 10^6 operations per second from one PE, by the median.
  [[nodiscard]] double megaops() const;
};

/// The quantity in the rows of a program.
enum class Shows { kLatency, kBandwidth, kRate, kIssue };

class Report {
 public:
  /// `with_cpu`: a column for CPU time. PEs that map each other wait by spinning, so that over
  /// load/store it says nothing.
  Report(std::string format, Shows shows, bool with_rate, bool with_cpu, std::FILE* out);
  void begin(const Header& header);
  void add(const Row& row);
  /// One line about all rows ("summary" in JSON; a comment in tables, not in CSV).
  void add_summary(const std::string& key, const std::string& text);
  void end();

 private:
  struct Column {
    std::string title;
    int width;
    bool is_text;
    std::string (*value)(const Row& row);
  };
  void print_table_row(const std::vector<std::string>& cells) const;
  [[nodiscard]] std::vector<std::string> cells_of(const Row& row) const;

  std::string format_;
  std::FILE* out_;
  std::vector<Column> columns_;
  Header header_, summary_;
  std::vector<Row> rows_;
};

}  // namespace perftest
