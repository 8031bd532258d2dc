#include "transport/nic/nearest.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace gshmem::nic {
namespace {

/// `take` of `equal` for the PE with local rank `rank`.
void take_in_turn(const std::vector<int>& equal, std::size_t rank, std::size_t take,
                  std::vector<int>& chosen) {
  const std::size_t size = equal.size();
  // Ranks that all begin at different ones, until the first begins again where rank 0 did.
  const std::size_t round = std::lcm(take, size) / take;
  const std::size_t begin = rank * take + rank / round % take;
  for (std::size_t i = 0; i < take; ++i) chosen.push_back(equal[(begin + i) % size]);
}

}  // namespace

std::vector<int> choose_devices(const std::vector<Candidate>& candidates, int local_rank,
                                int count) {
  std::vector<int> order(candidates.size());
  std::iota(order.begin(), order.end(), 0);
  const auto of = [&](int index) -> const Candidate& {
    return candidates[static_cast<std::size_t>(index)];
  };
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    const Candidate &x = of(a), &y = of(b);
    // Shorter names first: mlx5_2 before mlx5_10.
    return std::make_tuple(x.distance, -x.gbits, x.device.size(), x.device, x.port) <
           std::make_tuple(y.distance, -y.gbits, y.device.size(), y.device, y.port);
  });
  const std::size_t wanted = std::min(order.size(), static_cast<std::size_t>(std::max(count, 0)));
  std::vector<int> chosen;
  for (auto begin = order.begin(); chosen.size() < wanted;) {
    const auto end = std::find_if(begin, order.end(), [&](int index) {
      return of(index).distance != of(*begin).distance || of(index).gbits < of(*begin).gbits;
    });
    const std::vector<int> equal(begin, end);
    take_in_turn(equal, static_cast<std::size_t>(local_rank),
                 std::min(equal.size(), wanted - chosen.size()), chosen);
    begin = end;
  }
  return chosen;
}

}  // namespace gshmem::nic
