#include "transport/nic/mlx5/device_choice.h"

#include "host/base/error.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace gshmem::nic::mlx5 {
namespace {

bool parse(std::string_view text, int& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

}  // namespace

DeviceFilter::DeviceFilter(const std::string& text) {
  std::string_view rest = text;
  const auto consume = [&](char sign) {
    if (rest.empty() || rest.front() != sign) return false;
    rest.remove_prefix(1);
    return true;
  };
  const auto bad = [&](const char* why) {
    throw Error(GSHMEMX_ERROR_CONFIG,
                "GSHMEM_NIC_DEVICES=\"" + text + "\": " + why +
                    "; expected name[:port],... after an optional ^ (all but these) and = (exact "
                    "names), such as =mlx5_0:1,mlx5_2");
  };
  exclude_ = consume('^');
  exact_ = consume('=');
  while (!rest.empty()) {
    std::string_view word = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    if (word.empty()) continue;
    if (word.front() == '^' || word.front() == '=') bad("the sign stands once, at the front");
    Word entry;
    if (const std::size_t colon = word.find(':'); colon != std::string_view::npos) {
      if (!parse(word.substr(colon + 1), entry.port) || entry.port < 1 || entry.port > 255) {
        bad("a port is a number from 1 to 255");
      }
      word = word.substr(0, colon);
    }
    entry.device = word;
    words_.push_back(std::move(entry));
  }
  if ((exclude_ || exact_) && words_.empty()) bad("no name after the sign");
}

bool DeviceFilter::accepts(const std::string& device, int port) const {
  if (words_.empty()) return true;
  const bool listed = std::ranges::any_of(words_, [&](const Word& word) {
    const bool named =
        exact_ ? device == word.device : device.compare(0, word.device.size(), word.device) == 0;
    return named && (word.port == 0 || word.port == port);
  });
  return listed != exclude_;
}

std::optional<Network> common_network(const std::vector<Networks>& all) {
  std::optional<Network> best;
  std::ptrdiff_t most = -1;
  for (const Network& each : all.front()) {
    const bool everywhere = std::ranges::all_of(
        all, [&](const Networks& of_pe) { return std::ranges::find(of_pe, each) != of_pe.end(); });
    if (!everywhere) continue;
    const std::ptrdiff_t firsts =
        std::ranges::count_if(all, [&](const Networks& of_pe) { return of_pe.front() == each; });
    if (firsts <= most) continue;
    most = firsts;
    best = each;
  }
  return best;
}

std::string network_text(const Network& network) {
  if (network.layer == LinkLayer::kEthernet) return "Ethernet";
  return strprintf("InfiniBand subnet %016lx", network.prefix);
}

}  // namespace gshmem::nic::mlx5
