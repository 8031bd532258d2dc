#include "transport/nic/gid_choice.h"

#include "host/base/files.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <tuple>

namespace gshmem::nic {
namespace {

namespace fs = std::filesystem;

template <class T>
bool parse(std::string_view text, T& value, int base = 10) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc{} && end == text.data() + text.size();
}

/// "fe80:0000:0000:0000:0202:c9ff:fe00:0001"
bool parse_gid(std::string_view text, Gid& gid) {
  for (std::size_t group = 0; group < 8; ++group) {
    std::uint16_t value = 0;
    const std::string_view word = text.substr(0, text.find(':'));
    if (!parse(word, value, 16)) return false;
    gid[group * 2] = static_cast<std::uint8_t>(value >> 8);
    gid[group * 2 + 1] = static_cast<std::uint8_t>(value);
    text.remove_prefix(std::min(word.size() + 1, text.size()));
  }
  return text.empty();
}

GidKind parse_kind(const std::string& text, const std::string& link_layer) {
  // linux drivers/infiniband/core/sysfs.c writes "IB/RoCE v1" for either of the two.
  if (text == "RoCE v2") return GidKind::kRoceV2;
  if (text != "IB/RoCE v1") return GidKind::kUnknown;
  return link_layer == "Ethernet" ? GidKind::kRoceV1 : GidKind::kInfiniBand;
}

/// Returns the rank of an entry; a lower one is better.
auto rank_on_ethernet(const GidEntry& entry) {
  return std::tuple(!entry.reachable, entry.kind, !gid_is_ipv4(entry.gid),
                    gid_is_link_local(entry.gid));
}

}  // namespace

std::vector<GidEntry> read_gids(const std::string& sysfs, const std::string& device, int port) {
  const fs::path folder =
      fs::path(sysfs) / "class/infiniband" / device / "ports" / std::to_string(port);
  const std::string link_layer = first_line(folder / "link_layer");
  std::vector<GidEntry> entries;
  for (const std::string& name : names_in(folder / "gids")) {
    GidEntry entry;
    if (!parse(name, entry.index) || !parse_gid(first_line(folder / "gids" / name), entry.gid))
      continue;
    if (entry.gid == Gid{}) continue;
    // Documentation/ABI/stable/sysfs-class-infiniband. Attributes of unused entries fail with
    // EINVAL.
    entry.kind = parse_kind(first_line(folder / "gid_attrs/types" / name), link_layer);
    entry.netdev = first_line(folder / "gid_attrs/ndevs" / name);
    // class/net shows the devices of one network namespace; the RDMA device shows its GIDs of all
    // namespaces.
    std::error_code unknown;
    entry.reachable =
        entry.netdev.empty() || fs::exists(fs::path(sysfs) / "class/net" / entry.netdev, unknown);
    entries.push_back(std::move(entry));
  }
  std::ranges::sort(entries, {}, &GidEntry::index);
  return entries;
}

bool gid_is_ipv4(const Gid& gid) noexcept {
  // ::ffff:a.b.c.d, RFC 4291 section 2.5.5.2
  constexpr std::uint8_t kPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(gid.data(), kPrefix, sizeof(kPrefix)) == 0;
}

bool gid_is_link_local(const Gid& gid) noexcept {
  return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
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

std::string gid_address(const Gid& gid) {
  if (!gid_is_ipv4(gid)) return gid_text(gid);
  return strprintf("%d.%d.%d.%d", gid[12], gid[13], gid[14], gid[15]);
}

const char* link_layer_name(LinkLayer layer) noexcept {
  if (layer == LinkLayer::kEthernet) return "Ethernet";
  return layer == LinkLayer::kInfiniBand ? "InfiniBand" : "unknown link layer";
}

const GidEntry* find_gid(const std::vector<GidEntry>& entries, LinkLayer layer, int wanted) {
  auto found = entries.begin();
  if (wanted >= 0) {
    found = std::ranges::find(entries, wanted, &GidEntry::index);
  } else if (layer == LinkLayer::kEthernet) {
    found = std::ranges::min_element(entries, {}, rank_on_ethernet);
  }
  return found == entries.end() ? nullptr : &*found;
}

GidEntry choose_gid(const std::vector<GidEntry>& entries, LinkLayer layer, int wanted,
                    const std::string& device) {
  if (const GidEntry* found = find_gid(entries, layer, wanted)) return *found;
  if (wanted >= 0) {
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
  require(layer == LinkLayer::kInfiniBand, GSHMEMX_ERROR_NIC, device + " " + kNoGid);
  return {};
}

}  // namespace gshmem::nic
