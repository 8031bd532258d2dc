#include "perftest/common/report.h"

#include <catch2/catch.hpp>

#include <memory>

using namespace perftest;
using Catch::Contains;

namespace {

/// Returns the printed report with one row.
std::string printed(const std::string& format, Shows shows, const Row& row, bool with_cpu = false) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), &std::fclose);
  REQUIRE(file);
  Report report(format, shows, false, with_cpu, file.get());
  report.begin({{"program", "p"}, {"mode", "\"a\", b"}});
  report.add(row);
  report.add_summary("peak", "1 \"x\"");
  report.end();
  std::rewind(file.get());
  std::string text(4096, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  return text;
}

const Row kRow{.name = "op",
               .size = 1000,
               .scope = "block",
               .blocks = 4,
               .threads = 32,
               .iters = 10,
               .min_us = 1,
               .median_us = 2,
               .bytes = 1000,
               .operations = 8,
               .senders = 2,
               .floor_us = 0.5,
               .cpu_us = 1.25};

}  // namespace

TEST_CASE("bandwidth and rate follow from the median") {
  CHECK(kRow.gigabytes_per_s() == Approx(0.5));
  CHECK(kRow.megaops() == Approx(4));
  CHECK(Row{}.gigabytes_per_s() == 0);
}

TEST_CASE("a table has a header, titles and a row") {
  const std::string text = printed("table", Shows::kRate, kRow);
  CHECK_THAT(text, Contains("# program: p\n") && Contains("median_us") && Contains("0.500") &&
                       Contains("4.000") && Contains("# peak: 1 \"x\""));
  CHECK_THAT(printed("table", Shows::kLatency, kRow), !Contains("GB_s"));
}

TEST_CASE("CPU time has a column where it is asked for, and is empty where it is unknown") {
  CHECK_THAT(printed("json", Shows::kLatency, kRow, true), Contains("\"cpu_us\": 1.25"));
  CHECK_THAT(printed("json", Shows::kLatency, {.size = 8}, true), Contains("\"cpu_us\": null"));
  CHECK_THAT(printed("json", Shows::kLatency, kRow), !Contains("cpu_us"));
}

TEST_CASE("CSV quotes what needs it and repeats the header in every row") {
  CHECK(printed("csv", Shows::kLatency, kRow) ==
        "name,size_bytes,scope,blocks,threads,iters,min_us,median_us,floor_us,program,mode\n"
        "op,1000,block,4,32,10,1.0000,2.0000,0.5000,p,\"\"\"a\"\", b\"\n");
}

TEST_CASE("JSON has numbers as numbers and escapes text") {
  CHECK(printed("json", Shows::kLatency, kRow) == R"({
  "program": "p",
  "mode": "\"a\", b",
  "summary": {
    "peak": "1 \"x\""
  },
  "rows": [
    {
      "name": "op",
      "size_bytes": 1000,
      "scope": "block",
      "blocks": 4,
      "threads": 32,
      "iters": 10,
      "min_us": 1.0,
      "median_us": 2.0,
      "floor_us": 0.5
    }
  ]
}
)");
}
