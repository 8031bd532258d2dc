#include "transport/softnic/costs.h"

#include "transport/softnic/parts.h"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace gshmem::soft {
namespace {

constexpr struct {
  const char* name;
  double Costs::*value;
} kCostNames[] = {{"link_us", &Costs::link_us},     {"link_gb_s", &Costs::link_gb_s},
                  {"link_mops", &Costs::link_mops}, {"gpu_us", &Costs::gpu_us},
                  {"gpu_gb_s", &Costs::gpu_gb_s},   {"gpu_cpu_s_gb", &Costs::gpu_cpu_s_gb},
                  {"copy_us", &Costs::copy_us},     {"copy_gb_s", &Costs::copy_gb_s},
                  {"busy_cpus", &Costs::busy_cpus}};

[[noreturn]] void bad_cost(std::string_view line) {
  std::string names;
  for (const auto& known : kCostNames) names += known.name + std::string(", ");
  bad_part("GSHNIC_COSTS", line, names + "each with a number, or fails gpu, port or peer");
}

Costs::Fails failure(const std::string& word, std::string_view line) {
  if (word == "gpu") return Costs::Fails::kGpu;
  if (word == "port") return Costs::Fails::kPort;
  if (word == "peer") return Costs::Fails::kPeer;
  bad_cost(line);
}

void take_line(Costs& costs, std::string_view line) {
  std::istringstream words{std::string(line.substr(0, line.find('#')))};
  std::string name, value, more;
  if (!(words >> name)) return;
  if (!(words >> value) || words >> more) bad_cost(line);
  if (name == "fails") {
    costs.fails = failure(value, line);
    return;
  }
  const auto* const known =
      std::ranges::find(kCostNames, name, [](const auto& k) { return k.name; });
  const auto number = number_of<double>(value);
  if (known == std::end(kCostNames) || !number || *number < 0) bad_cost(line);
  costs.*known->value = *number;
}

/// Seconds for bytes at 10^9 bytes per second; 0 = without limit.
double seconds_of(double bytes, double gb_s) { return gb_s > 0 ? bytes / gb_s * 1e-9 : 0; }

}  // namespace

Costs parse_costs(std::string_view text) {
  Costs costs;
  for_each_part(text, "\n", [&](std::string_view line) { take_line(costs, line); });
  return costs;
}

void CostModel::load(const std::string& path, bool staged) {
  on_ = !path.empty();
  staged_ = staged;
  if (!on_) return;
  std::ifstream file(path);
  if (!file) bad_part("GSHNIC_COSTS", path, "a file that can be read");
  std::ostringstream text;
  text << file.rdbuf();
  costs_ = parse_costs(text.str());
}

void CostModel::charge(std::uint64_t bytes) {
  if (!on_) return;
  const double amount = static_cast<double>(bytes);
  const double copy = staged_ ? seconds_of(2 * amount, costs_.copy_gb_s) : 0;
  const double direct = staged_ ? 0 : seconds_of(amount, costs_.gpu_gb_s);
  const double each = std::max(costs_.link_mops > 0 ? 1e-6 / costs_.link_mops : 0,
                               staged_ ? costs_.copy_us * 1e-6 : 0);
  const double busy = std::max({seconds_of(amount, costs_.link_gb_s), copy, direct, each});
  const double way = costs_.link_us + (staged_ ? 2 * costs_.copy_us : costs_.gpu_us);
  free_ = std::max(free_, now_.seconds) + busy;
  end_ = std::max(end_, free_ + way * 1e-6);
  // The CPU makes the copies.
  now_.cpu_seconds += copy + (staged_ ? 0 : costs_.gpu_cpu_s_gb * amount * 1e-9);
}

CostModel::Time CostModel::read() {
  const double waited = std::max(end_ - now_.seconds, 0.0);
  now_.seconds += waited;
  now_.cpu_seconds += costs_.busy_cpus * waited;
  return now_;
}

}  // namespace gshmem::soft
