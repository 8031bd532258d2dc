#include "perftest/common/options.h"

#include <catch2/catch.hpp>

using namespace perftest;
using Catch::Contains;

namespace {

constexpr unsigned kAll = ~kCaller;  // the -s of kScope

std::string error_of(std::vector<std::string> arguments, unsigned groups = kAll) {
  try {
    (void)parse_options(groups, arguments);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("long and short options mean the same") {
  for (const auto& arguments :
       std::vector<std::vector<std::string>>{{"-b", "8", "-e", "1K"},
                                             {"-b8", "-e1024"},
                                             {"--min_size", "8", "--max_size", "1k"},
                                             {"--min_size=8", "--max_size=1K"}}) {
    const Options options = parse_options(kAll, arguments);
    CHECK(options.min_size == 8);
    CHECK(options.max_size == 1024);
  }
  CHECK(parse_options(kAll, {"-a", "inc"}).atomic_op == "inc");
  CHECK(parse_options(kAll, {"-o", "inc"}).atomic_op == "inc");
}

TEST_CASE("flags are set by their name alone") {
  const Options options = parse_options(kAll, {"--bidir", "--sweep_ctas", "--smem"});
  CHECK(options.bidir);
  CHECK(options.smem);
  CHECK(options.sweep_ctas);
  CHECK_FALSE(options.report_msgrate);
  CHECK_THAT(error_of({"--bidir=1"}), Contains("bidir"));
}

TEST_CASE("sizes take suffixes") {
  const auto size = [](const char* text) { return parse_options(kAll, {"-b", text}).min_size; };
  CHECK(size("3") == 3);
  CHECK(size("2K") == 2048);
  CHECK(size("64M") == std::size_t{64} << 20);
  CHECK(size("1g") == std::size_t{1} << 30);
  for (const char* bad :
       {"", "K", "0", "-1", "1.5K", "8B", "1KK", "99999999999999999999", "18446744073709551615K"}) {
    CHECK_THROWS_AS(size(bad), UsageError);
  }
}

TEST_CASE("an error names option, value and what is accepted") {
  CHECK_THAT(error_of({"--scope", "grid"}),
             Contains("scope") && Contains("'grid'") && Contains("thread|warp|block|all"));
  CHECK_THAT(error_of({"-n", "0"}), Contains("iters") && Contains("'0'") && Contains("1 to"));
  CHECK_THAT(error_of({"-n", "many"}), Contains("iters") && Contains("'many'"));
  CHECK_THAT(error_of({"-f", "1"}), Contains("step") && Contains("'1'") && Contains("2 to"));
  CHECK_THAT(error_of({"--unroll", "2"}), Contains("unroll") && Contains("1|4"));
  CHECK_THAT(error_of({"-d", "quad"}), Contains("datatype") && Contains("'quad'") &&
                                           Contains("bfloat16|half|") && !Contains("||"));
  CHECK_THAT(error_of({"-s", "thread|warp"}), Contains("scope"));
  CHECK_THAT(error_of({"-b", "2K", "-e", "1K"}), Contains("min_size") && Contains("2048"));
  CHECK_THAT(error_of({"-b"}), Contains("min_size") && Contains("required"));
  CHECK_THAT(error_of({"--sizes", "1"}), Contains("--sizes") && Contains("--help"));
  CHECK_THAT(error_of({"64"}), Contains("64"));
}

TEST_CASE("an option of other programs is refused") {
  CHECK_THAT(error_of({"--bidir"}, kSizes), Contains("--bidir") && Contains("--help"));
  CHECK(error_of({"-n", "5"}, kSizes) == "no error");
}

TEST_CASE("help shows the options of the program and no others") {
  const std::string help = help_text("put_bw", "bandwidth of puts", kSizes | kScope);
  CHECK_THAT(help, Contains("--min_size") && Contains("--scope") && Contains("--format") &&
                       Contains("thread|warp|block|all"));
  CHECK_THAT(help, !Contains("--bidir") && !Contains("inject"));
}

TEST_CASE("defaults fill in what was not given") {
  Options options = parse_options(kAll, {"-c", "4", "-e", "16"});
  apply_defaults(options, {.min_size = 64, .max_size = 128, .ctas = 32, .threads_per_cta = 256});
  CHECK(options.ctas == 4);
  CHECK(options.threads_per_cta == 256);
  CHECK(options.max_size == 16);
  CHECK(options.min_size == 16);  // moved along

  options = parse_options(kAll, {"-b", "1K"});
  apply_defaults(options, {.min_size = 64, .max_size = 128});
  CHECK(options.max_size == 1024);
}

TEST_CASE("sizes go from the smallest to the largest") {
  using Sizes = std::vector<std::size_t>;
  CHECK(sizes_of({.min_size = 4, .max_size = 40, .step = 2}, 1) == Sizes{4, 8, 16, 32});
  CHECK(sizes_of({.min_size = 4, .max_size = 16, .increment = 6, .step = 2}, 1) ==
        Sizes{4, 10, 16});
  CHECK(sizes_of({.min_size = 1, .max_size = 16, .step = 2}, 8) == Sizes{8, 16});
  CHECK(sizes_of({.min_size = 8, .max_size = 8, .step = 2}, 1) == Sizes{8});
}

TEST_CASE("types come from the type table") {
  REQUIRE(find_type("half"));
  CHECK(find_type("half")->size == 2);
  CHECK_FALSE(find_type("half")->is_atomic);
  CHECK(find_type("float")->is_atomic);
  CHECK_FALSE(find_type("float")->has_add);
  CHECK(find_type("int")->has_add);
  CHECK_FALSE(find_type("int")->has_bits);
  CHECK(find_type("uint64")->has_bits);
  CHECK(find_type("quad") == nullptr);
}
