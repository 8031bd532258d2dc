#include "transport/nic/rails.h"

#include "host/base/collectives.h"
#include "host/base/log.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

namespace gshmem::nic {
namespace {

/// The name of a port, as PEs exchange it.
using PortName = std::array<char, 80>;

PortName name_of(const Nic& nic) {
  PortName name{};
  const std::string text = nic.port();
  require(text.size() < name.size(), GSHMEMX_ERROR_NIC, "the name of a port is too long: " + text);
  std::memcpy(name.data(), text.data(), text.size());
  return name;
}

}  // namespace

std::string Rails::describe() const {
  std::string text;
  for (const auto& nic : nics_) text += (text.empty() ? "" : "; ") + nic->describe();
  return text;
}

std::string Rails::explain(std::uint32_t number, int pe, int error) const {
  std::string text;
  const auto add = [&](const std::string& what) {
    if (!what.empty()) text += (text.empty() ? "" : "; ") + what;
  };
  for (int rail = 0; rail < count(); ++rail) {
    const Nic& nic = to(pe, rail);
    add(nic.describe_ends(number, pe));
    if (error == GSHMEMX_ERROR_TIMEOUT) add(nic.queue_status(number, pe));
  }
  for (const Nic* nic : all()) add(nic->history());
  return text;
}

Nic::Limits Rails::limits() const {
  Nic::Limits all = nics_.front()->limits();
  for (const auto& nic : nics_) {
    const Nic::Limits one = nic->limits();
    // Only atomics depend on the byte order of fetched values.
    all.flags |= one.flags & ~abi::kNicFetchedBig;
    all.max_message = std::min(all.max_message, one.max_message);
    all.coherent_atomics = all.coherent_atomics && one.coherent_atomics;
    all.registers = all.registers && one.registers;
    all.first_use = all.first_use && one.first_use;
    all.dynamic = all.dynamic && one.dynamic;
  }
  for (const auto& nic : guests_) {
    all.flags |= nic->limits().flags;
    all.max_message = std::min(all.max_message, nic->limits().max_message);
  }
  return all;
}

std::vector<Nic*> Rails::all() const {
  std::vector<Nic*> all;
  for (const NicList* list : {&nics_, &guests_})
    for (const auto& nic : *list) all.push_back(nic.get());
  return all;
}

void Rails::start() {
  for (Nic* nic : all()) nic->start();
}

void Rails::all_started() {
  for (Nic* nic : all()) nic->all_started();
}

void Rails::stop() noexcept {
  for (const NicList* list : {&nics_, &guests_})  // this allocates nothing
    for (const auto& nic : *list) nic->stop();
}

Nic& Rails::to(int pe, int rail) const {
  const auto way = ways_.find({pe, rail});
  return way == ways_.end() ? (*this)[rail] : *way->second;
}

bool Rails::is_one_way(int pe, int rail) const { return &to(pe, rail) != &(*this)[rail]; }

/// `ports` has the names by PE and rail.
void Rails::open_guests(const std::vector<int>& pes, const std::vector<std::string>& ports) {
  std::map<std::string, Nic*> opened;
  for (const auto& nic : nics_) opened.emplace(nic->port(), nic.get());
  for (const int pe : pes) {
    for (int rail = 0; rail < count(); ++rail) {
      const std::string& port = ports[static_cast<std::size_t>(pe * count() + rail)];
      Nic*& there = opened[port];
      if (there == nullptr) {
        guests_.push_back(nics_.front()->open_port(port));
        there = guests_.back().get();
        const std::uint32_t differ = there->limits().flags ^ nics_.front()->limits().flags;
        require((differ & abi::kNicFetchedBig) == 0, GSHMEMX_ERROR_NOT_SUPPORTED,
                "atomics of " + port + " return their values in another byte order");
      }
      if (there != &(*this)[rail]) ways_[{pe, rail}] = there;
    }
  }
}

void Rails::open_host_ports(Collectives& boot, const std::vector<int>& node_of) {
  const auto rails = static_cast<std::size_t>(count());
  std::vector<PortName> mine, all(static_cast<std::size_t>(boot.size()) * rails);
  for (const auto& nic : nics_) mine.push_back(name_of(*nic));
  boot.allgather(mine.data(), all.data(), rails * sizeof(PortName));
  std::vector<std::string> ports;
  for (const PortName& name : all) ports.emplace_back(name.data());
  const auto node = [&](int pe) { return node_of[static_cast<std::size_t>(pe)]; };
  std::vector<int> host;
  for (int pe = 0; pe < boot.size(); ++pe)
    if (node(pe) == node(boot.rank())) host.push_back(pe);
  enum : int { kNone, kSome, kFailed };
  int outcome = kNone;
  try {
    if (!ports.front().empty()) open_guests(host, ports);
    if (!ways_.empty()) outcome = kSome;
  } catch (const Error& error) {
    outcome = kFailed;
    GSHMEM_WARN("PEs of this host are reached over the network: %s", error.what());
  }
  const std::vector<int> outcomes = allgather(boot, outcome);
  std::set<int> without;
  for (int pe = 0; pe < boot.size(); ++pe)
    if (outcomes[static_cast<std::size_t>(pe)] == kFailed) without.insert(node(pe));
  for (int pe = 0; pe < boot.size(); ++pe)
    any_one_way_ |= outcomes[static_cast<std::size_t>(pe)] == kSome && without.count(node(pe)) == 0;
  if (without.count(node(boot.rank())) == 0) return;
  ways_.clear();
  guests_.clear();
}

QueueRails default_queues(int rails, const Config& config) {
  const int wanted = queues_wanted(config);
  QueueRails queues;
  for (int i = 0; i < (wanted + rails - 1) / rails * rails; ++i) queues.push_back(i % rails);
  return queues;
}

QueueRails context_queues(int rails, int nth) {
  const int own = nth % rails;
  return own == 0 ? QueueRails{0} : QueueRails{0, own};
}

}  // namespace gshmem::nic
