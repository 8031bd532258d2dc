#include "tests/doubles/fabric/charges.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <mutex>
#include <sstream>
#include <vector>

namespace gshmem::test {
namespace {

using soft::Costs;

/// Seconds for bytes at 10^9 bytes per second; 0 = without limit.
double seconds_of(double bytes, double gb_s) { return gb_s > 0 ? bytes / gb_s * 1e-9 : 0; }

/// The clock of the soft NIC's model (soft::CostModel), for operations of which some are staged,
/// and for links that do not wait for each other. Guarded by `mutex`.
struct Model {
  std::mutex mutex;
  Costs costs;
  bool is_on = false;
  double now = 0, cpu = 0;
  std::vector<double> free{};  ///< when each link has sent
  double end = 0;              ///< when the last message has arrived

  void charge(double bytes, bool staged, std::size_t link) {
    const double copy = staged ? seconds_of(2 * bytes, costs.copy_gb_s) : 0;
    const double direct = staged ? 0 : seconds_of(bytes, costs.gpu_gb_s);
    const double each = std::max(costs.link_mops > 0 ? 1e-6 / costs.link_mops : 0,
                                 staged ? costs.copy_us * 1e-6 : 0);
    const double busy = std::max({seconds_of(bytes, costs.link_gb_s), copy, direct, each});
    const double way = costs.link_us + (staged ? 2 * costs.copy_us : costs.gpu_us);
    if (link >= free.size()) free.resize(link + 1);
    free[link] = std::max(free[link], now) + busy;
    end = std::max(end, free[link] + way * 1e-6);
    cpu += copy + (staged ? 0 : costs.gpu_cpu_s_gb * bytes * 1e-9);
  }
  /// Waits for all messages so far.
  void read() {
    const double waited = std::max(end - now, 0.0);
    now += waited;
    cpu += costs.busy_cpus * waited;
  }
};

/// Returns the model of this process, which is off without a file.
Model& model() {
  static Model* const only = [] {
    auto* const made = new Model;
    const char* const name = variable("GSHMEM_TEST_FABRIC_COSTS");
    if (name == nullptr) return made;
    std::ostringstream text;
    text << std::ifstream(name).rdbuf();
    try {
      made->costs = soft::parse_costs(text.str());
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s: %s\n", name, error.what());
      std::exit(2);
    }
    made->is_on = true;
    return made;
  }();
  return *only;
}

}  // namespace

void charge(const Request& request, std::size_t endpoint) {
  Model& of = model();
  if (!of.is_on) return;
  const std::lock_guard lock(of.mutex);
  of.charge(static_cast<double>(request.bytes), request.call == FabricDouble::kSend, endpoint);
}

bool fails_by_costs(Costs::Fails what) { return model().is_on && model().costs.fails == what; }

}  // namespace gshmem::test

extern "C" void fabric_double_model_time(double* seconds, double* cpu_seconds) {
  gshmem::test::Model& of = gshmem::test::model();
  const std::lock_guard lock(of.mutex);
  of.read();
  *seconds = of.now;
  *cpu_seconds = of.cpu;
}
