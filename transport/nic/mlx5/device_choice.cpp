#include "transport/nic/mlx5/device_choice.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <tuple>

namespace gshmem::nic::mlx5 {
namespace {

namespace fs = std::filesystem;

/// Components from the host bridge on: {"pci0000:00", "0000:00:01.0", ...}; empty without one.
std::vector<std::string> pci_components(const std::string& path) {
  std::vector<std::string> parts;
  for (const fs::path& part : fs::path(path)) {
    const std::string name = part.string();
    if (!parts.empty() || name.rfind("pci", 0) == 0) parts.push_back(name);
  }
  return parts;
}

std::string real_path(const fs::path& path) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  return error ? std::string{} : real.string();
}

std::string first_line(const fs::path& file) {
  std::string line;
  std::getline(std::ifstream(file), line);
  return line;
}

template <class T>
bool parse(std::string_view text, T& value, int base = 10) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc{} && end == text.data() + text.size() && !text.empty();
}

int numa_node(const std::string& path) {
  int node = -1;
  parse(first_line(fs::path(path) / "numa_node"), node);
  return node;
}

/// "fe80:0000:0000:0000:0202:c9ff:fe00:0001"
bool parse_gid(std::string_view text, Gid& gid) {
  for (std::size_t group = 0; group < 8; ++group) {
    std::uint16_t value = 0;
    const std::string_view word = text.substr(0, text.find(':'));
    if (!parse(word, value, 16)) return false;
    gid[group * 2] = static_cast<std::uint8_t>(value >> 8);
    gid[group * 2 + 1] = static_cast<std::uint8_t>(value & 0xff);
    text.remove_prefix(std::min(word.size() + 1, text.size()));
  }
  return text.empty();
}

GidKind parse_kind(const std::string& text, const std::string& link_layer) {
  // linux drivers/infiniband/core/sysfs.c: "IB/RoCE v1" stands for either.
  if (text == "RoCE v2") return GidKind::kRoceV2;
  if (text != "IB/RoCE v1") return GidKind::kUnknown;
  return link_layer == "Ethernet" ? GidKind::kRoceV1 : GidKind::kInfiniBand;
}

bool link_local(const Gid& gid) { return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80; }

/// Lower is better.
int rank_on_ethernet(const GidEntry& entry) {
  int rank = gid_is_ipv4(entry.gid) ? 0 : (link_local(entry.gid) ? 2 : 1);
  if (entry.kind == GidKind::kUnknown) rank += 3;
  if (entry.kind == GidKind::kRoceV1 || entry.kind == GidKind::kInfiniBand) rank += 6;
  return rank;
}

}  // namespace

const char* distance_name(Distance distance) noexcept {
  constexpr const char* kNames[] = {"PIX", "PXB", "PHB", "NODE", "SYS", "unknown"};
  return kNames[static_cast<int>(distance)];
}

Distance pci_distance(const std::string& nic_path, const std::string& gpu_path) {
  const std::vector<std::string> nic = pci_components(nic_path), gpu = pci_components(gpu_path);
  if (nic.empty() || gpu.empty()) return Distance::kUnknown;
  const auto split = std::mismatch(nic.begin(), nic.end(), gpu.begin(), gpu.end());
  const auto common = split.first - nic.begin();
  if (common == 0) return Distance::kSys;
  if (common == 1) return Distance::kPhb;
  // What is left on each side: the downstream port of the switch they share, and the device. More
  // means another switch in between.
  const auto left = std::max(nic.end() - split.first, gpu.end() - split.second);
  return left <= 2 ? Distance::kPix : Distance::kPxb;
}

Distance device_distance(const std::string& sysfs, const std::string& device,
                         const std::string& gpu_pci) {
  if (gpu_pci.empty()) return Distance::kUnknown;
  std::string address = gpu_pci;
  std::transform(address.begin(), address.end(), address.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::string nic = real_path(fs::path(sysfs) / "class/infiniband" / device / "device");
  const std::string gpu = real_path(fs::path(sysfs) / "bus/pci/devices" / address);
  if (nic.empty() || gpu.empty()) return Distance::kUnknown;
  const Distance distance = pci_distance(nic, gpu);
  if (distance != Distance::kSys) return distance;
  const int node = numa_node(nic);
  return node >= 0 && node == numa_node(gpu) ? Distance::kNode : Distance::kSys;
}

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
  if ((exclude_ || exact_) && words_.empty()) bad("no name behind the sign");
}

bool DeviceFilter::accepts(const std::string& device, int port) const {
  if (words_.empty()) return true;
  const bool listed = std::any_of(words_.begin(), words_.end(), [&](const Word& word) {
    const bool named =
        exact_ ? device == word.device : device.compare(0, word.device.size(), word.device) == 0;
    return named && (word.port == 0 || word.port == port);
  });
  return listed != exclude_;
}

int choose_device(const std::vector<Candidate>& candidates, int local_rank) {
  if (candidates.empty()) return -1;
  const auto nearer = [](const Candidate& a, const Candidate& b) {
    return a.distance < b.distance;
  };
  const Distance best = std::min_element(candidates.begin(), candidates.end(), nearer)->distance;
  std::vector<std::size_t> equal;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].distance == best) equal.push_back(i);
  }
  std::sort(equal.begin(), equal.end(), [&](std::size_t a, std::size_t b) {
    const Candidate &x = candidates[a], &y = candidates[b];
    // Shorter names first: mlx5_2 before mlx5_10.
    return std::make_tuple(x.device.size(), x.device, x.port) <
           std::make_tuple(y.device.size(), y.device, y.port);
  });
  return static_cast<int>(equal[static_cast<std::size_t>(local_rank) % equal.size()]);
}

std::vector<GidEntry> read_gids(const std::string& sysfs, const std::string& device, int port) {
  const fs::path folder =
      fs::path(sysfs) / "class/infiniband" / device / "ports" / std::to_string(port);
  const std::string link_layer = first_line(folder / "link_layer");
  std::vector<GidEntry> entries;
  std::error_code error;
  for (fs::directory_iterator file(folder / "gids", error), end; !error && file != end;
       file.increment(error)) {
    GidEntry entry;
    const std::string name = file->path().filename().string();
    if (!parse(name, entry.index) || !parse_gid(first_line(file->path()), entry.gid)) continue;
    if (entry.gid == Gid{}) continue;
    entry.kind = parse_kind(first_line(folder / "gid_attrs/types" / name), link_layer);
    entries.push_back(entry);
  }
  std::sort(entries.begin(), entries.end(),
            [](const GidEntry& a, const GidEntry& b) { return a.index < b.index; });
  return entries;
}

bool gid_is_ipv4(const Gid& gid) noexcept {
  // ::ffff:a.b.c.d, RFC 4291 section 2.5.5.2
  constexpr std::uint8_t kPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(gid.data(), kPrefix, sizeof(kPrefix)) == 0;
}

std::string gid_text(const Gid& gid) {
  if (gid_is_ipv4(gid)) {
    return strprintf("::ffff:%d.%d.%d.%d", gid[12], gid[13], gid[14], gid[15]);
  }
  std::string text;
  for (std::size_t i = 0; i < 16; i += 2) {
    text += strprintf("%s%02x%02x", i == 0 ? "" : ":", gid[i], gid[i + 1]);
  }
  return text;
}

const char* link_layer_name(LinkLayer layer) noexcept {
  switch (layer) {
    case LinkLayer::kInfiniBand:
      return "InfiniBand";
    case LinkLayer::kEthernet:
      return "Ethernet";
  }
  return "unknown link layer";
}

GidEntry choose_gid(const std::vector<GidEntry>& entries, LinkLayer layer, int wanted,
                    const std::string& device) {
  if (wanted >= 0) {
    for (const GidEntry& entry : entries) {
      if (entry.index == wanted) return entry;
    }
    std::string there;
    for (const GidEntry& entry : entries) {
      there += strprintf("%s%d (%s)", there.empty() ? "" : ", ", entry.index,
                         gid_text(entry.gid).c_str());
    }
    throw Error(
        GSHMEMX_ERROR_CONFIG,
        strprintf("GSHMEM_IB_GID_INDEX=%d: entry %d of the GID table of %s is empty; there are %s",
                  wanted, wanted, device.c_str(), there.empty() ? "none" : there.c_str()));
  }
  if (layer == LinkLayer::kInfiniBand) return entries.empty() ? GidEntry{} : entries.front();
  const auto better = [](const GidEntry& a, const GidEntry& b) {
    return rank_on_ethernet(a) < rank_on_ethernet(b);
  };
  const auto best = std::min_element(entries.begin(), entries.end(), better);
  require(best != entries.end(), GSHMEMX_ERROR_NIC,
          device +
              " has no GID: give its network interface an IP address (ip addr), or bring the "
              "interface up");
  return *best;
}

}  // namespace gshmem::nic::mlx5
