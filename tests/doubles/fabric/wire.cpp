#include "tests/doubles/fabric/wire.h"

#include "tests/doubles/fabric/charges.h"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>

namespace gshmem::test {
namespace {

constexpr std::size_t kRegions = 1 << 16;
constexpr std::uint64_t kFirstKey = 0x5eed0000;

std::array<std::atomic<Region*>, kRegions> regions;
std::atomic<std::size_t> region_count{0}, endpoint_count{0};

/// Copies every word by one store: other threads may be polling it without a lock.
void copy_words(std::uint8_t* to, const std::uint8_t* from, std::size_t bytes) {
  const auto odd = [](const void* at) { return reinterpret_cast<std::uintptr_t>(at) % 8; };
  while (bytes > 0 && odd(to) != 0) {
    std::atomic_ref(*to++).store(*from++, std::memory_order_release);
    --bytes;
  }
  for (; bytes >= 8; bytes -= 8, to += 8, from += 8) {
    std::uint64_t word;
    std::memcpy(&word, from, 8);
    std::atomic_ref(*reinterpret_cast<std::uint64_t*>(to)).store(word, std::memory_order_release);
  }
  if (bytes >= 4) {
    std::uint32_t word;
    std::memcpy(&word, from, 4);
    std::atomic_ref(*reinterpret_cast<std::uint32_t*>(to)).store(word, std::memory_order_release);
    bytes -= 4, to += 4, from += 4;
  }
  for (; bytes > 0; --bytes) std::atomic_ref(*to++).store(*from++, std::memory_order_release);
}

template <class T>
std::uint64_t change(void* at, const Request& request) {
  std::atomic_ref<T> word(*static_cast<T*>(at));
  T old = word.load(std::memory_order_relaxed);
  while (!word.compare_exchange_weak(old, static_cast<T>(after_atomic(request, old)),
                                     std::memory_order_acq_rel))
    continue;
  return old;
}

bool is_atomic(FabricDouble::Call call) {
  return call == FabricDouble::kFetchAtomic || call == FabricDouble::kCompareAtomic;
}

}  // namespace

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::uint8_t* Region::view(const void* at) const {
  auto* const address = static_cast<std::uint8_t*>(const_cast<void*>(at));
  const auto gpu_view = record().gpu_view.load();
  return gpu && gpu_view != nullptr ? static_cast<std::uint8_t*>(gpu_view(address)) : address;
}
bool Region::holds(const void* at, std::size_t length) const {
  const auto* const first = static_cast<const std::uint8_t*>(at);
  return usable && first >= base && length <= bytes && first <= base + (bytes - length);
}

Region* region_of(std::uint64_t key) {
  return key - kFirstKey < kRegions ? regions[key - kFirstKey].load() : nullptr;
}
std::uint64_t add_region(std::unique_ptr<Region> region) {
  const std::size_t index = region_count++;
  if (index >= kRegions) std::abort();
  regions[index] = region.release();
  return kFirstKey + index;
}

void Port::arrive(Arrival arrival) {
  const std::lock_guard lock(mutex);
  const std::int64_t due = arrival.due;
  arrivals.emplace(due, std::move(arrival));
  next_due = arrivals.begin()->first;
}

void Port::settle(Which which, std::int64_t now) {
  if (!any_trailing) return;
  const std::lock_guard lock(mutex);
  for (auto at = trailing.begin(); at != trailing.end();) {
    const bool stays =
        (which == Which::kDue && at->due > now) || (which == Which::kHost && at->gpu);
    // PCIe keeps the order of writes to one target.
    if (stays && which == Which::kDue) break;
    if (stays) {
      ++at;
      continue;
    }
    copy_words(at->to, at->bytes.data(), at->bytes.size());
    at = trailing.erase(at);
  }
  any_trailing = !trailing.empty();
}

void Cq::add(const fi_cq_data_entry& entry, int error) {
  if (entries.size() >= size)
    record().violation("a completion queue of " + std::to_string(size) + " overflows");
  if (error != 0) errors[taken + entries.size()] = error;
  entries.push_back(entry);
}

Endpoint::Endpoint(const Profile& profile, const fi_info& info, const void* domain,
                   std::uint32_t version)
    : fid_ep{},
      profile_(profile),
      nic_(nic_of(info)),
      port_(std::make_shared<Port>()),
      domain_(domain),
      ordered_((info.tx_attr->msg_order & FI_ORDER_SAS) != 0),
      gpu_((info.caps & FI_HMEM) != 0),
      places_(info.tx_attr->size),
      number_(endpoint_count++),
      random_(record().seed) {
  port_->domain = domain;
  port_->largest_send = profile.largest_send;
  // efa calls CUDA by default from version 1.18 of the interface on, others always.
  may_call_cuda = gpu_ && profile.cuda_unless_told &&
                  (std::strcmp(profile.provider, "efa") != 0 || version >= FI_VERSION(1, 18));
  // cxip_rma.c: the CPU copies data that fits an immediate data command.
  small_writes_by_cpu_ = std::strcmp(profile.provider, "cxi") == 0 &&
                         variable("FI_CXI_DISABLE_NON_INJECT_RMA_IDC") == nullptr;
}

Endpoint::~Endpoint() {
  port_->open = false;
  const std::lock_guard lock(port_->mutex);
  port_->arrivals.clear();
}

bool Endpoint::quick() const {
  const FabricDouble& rules = record();
  return rules.rtt == 0 && rules.jitter == 0 && rules.trail == 0 && rules.held == nullptr &&
         rules.errors == 0;
}

std::int64_t Endpoint::drawn(std::int64_t most) {
  return most == 0 ? 0
                   : static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(most + 1));
}

Endpoint::Flight* Endpoint::acquire() {
  if (free_.empty()) free_.push_back(&flights_.emplace_back());
  Flight* const flight = free_.back();
  free_.pop_back();
  ++in_use_;
  return flight;
}

void Endpoint::check(const Request& request) {
  FabricDouble& rules = record();
  if (!enabled) rules.violation("an operation on an endpoint that is not enabled");
  if (request.peer >= peers->size())
    rules.violation("an operation to an address that was not inserted");
  const bool injected = (request.flags & FI_INJECT) != 0;
  if (injected && request.bytes > profile_.inject)
    rules.violation("more bytes injected than inject_size");
  if (request.call == FabricDouble::kSend && request.bytes > profile_.largest_send)
    rules.violation("a message larger than the provider's");
  if (request.call != FabricDouble::kSend && request.bytes > profile_.largest)
    rules.violation("an operation larger than max_msg_size");
  if ((request.flags & FI_REMOTE_CQ_DATA) != 0 && profile_.cq_data == 0)
    rules.violation("an immediate by a provider without");
  if ((request.flags & FI_DELIVERY_COMPLETE & ~profile_.op_flags) != 0)
    rules.violation("FI_DELIVERY_COMPLETE by a provider without");
  const auto* const local = static_cast<const Region*>(request.descriptor);
  if (injected || request.bytes == 0) return;
  if (local == nullptr && (profile_.mr_mode & FI_MR_LOCAL) == 0) return;
  if (local == nullptr || !local->holds(request.local, request.bytes) || local->domain != domain_)
    rules.violation("local memory that is not registered, or by another domain");
  count_cuda(request, local);
}

void Endpoint::count_cuda(const Request& request, const Region* local) {
  if (local == nullptr || !local->gpu) return;
  const bool small = request.call == FabricDouble::kWrite && request.bytes <= profile_.inject;
  if (may_call_cuda || (small && small_writes_by_cpu_)) ++record().cuda_calls;
  // libmlx5 copies data that fits a completion from there by the CPU.
  const char* const scatter = variable("MLX5_SCATTER_TO_CQE");
  const bool verbs = std::strncmp(profile_.provider, "verbs", 5) == 0;
  if (verbs && request.call == FabricDouble::kRead && request.bytes <= 64 &&
      (scatter == nullptr || std::strcmp(scatter, "0") != 0))
    record().violation("a completion carries data for GPU memory (MLX5_SCATTER_TO_CQE)");
}

ssize_t Endpoint::post(const Request& request) {
  FabricDouble& rules = record();
  if (entered_.exchange(true)) rules.violation("two threads in one domain");
  const auto leave = [&](ssize_t result) {
    entered_ = false;
    return result;
  };
  const bool full = in_use_ >= places_;
  if (full || (rules.busy != 0 && random_() % 100 < rules.busy)) {
    ++rules.refused[request.call];
    return leave(-FI_EAGAIN);
  }
  if (const int error = rules.refusal.exchange(0); error != 0) return leave(-error);
  check(request);
  charge(request, number_);
  ++rules.taken[request.call];
  connected_.resize(peers->size());
  if (!connected_[request.peer]) ++rules.connections;
  connected_[request.peer] = true;
  if ((request.flags & FI_INJECT) != 0) ++rules.injected;
  if ((request.flags & FI_REMOTE_CQ_DATA) != 0) ++rules.immediate;
  Flight& flight = *acquire();
  flight.request = request;
  flight.target = (*peers)[request.peer];
  flight.stage = Stage::kOnItsWay;
  // A staged job writes to no memory of others, and only reads to see whether they live.
  const bool is_lost = request.call == FabricDouble::kWrite;
  flight.error = is_lost && fails_by_costs(soft::Costs::Fails::kPeer) ? FI_EHOSTUNREACH : 0;
  flight.bytes.clear();
  const auto* const first = static_cast<const std::uint8_t*>(request.local);
  // A message is sent within the call. A caller that changes it before completion makes an error,
  // which end() reports.
  const bool at_once = request.call == FabricDouble::kSend || (request.flags & FI_INJECT) != 0;
  if (at_once) flight.bytes.assign(first, first + request.bytes);
  if (request.call == FabricDouble::kSend) rules.note_sent(flight.bytes);
  if ((request.flags & FI_MORE) != 0) {
    ++rules.more;
    deferred_.push_back(&flight);
    return leave(0);
  }
  ++rules.doorbells;
  const bool now_counts = !quick();
  const std::int64_t now = now_counts ? now_ns() : 0;
  for (Flight* earlier : deferred_) depart(earlier, now);
  deferred_.clear();
  depart(&flight, now);
  return leave(0);
}

void Endpoint::depart(Flight* flight, std::int64_t now) {
  FabricDouble& rules = record();
  if (quick()) {
    reach(*flight, now);
    end(*flight, now);
    return;
  }
  Port& target = *flight->target;
  flight->arrival = now + rules.rtt / 2 + drawn(rules.jitter);
  if (ordered_ && flight->request.call == FabricDouble::kSend) {
    std::int64_t& last = last_arrival_[&target];
    last = flight->arrival = std::max(last, flight->arrival);
  }
  if (int left = rules.errors; left > 0 && rules.errors.compare_exchange_strong(left, left - 1)) {
    flight->error = rules.error;
  }
  flight->due = flight->arrival;
  const void* const held = rules.held;
  bool hold = false;
  if (held != nullptr)
    for (std::size_t i = 0; i < region_count; ++i) {
      const Region* const region = regions[i];
      hold |= region != nullptr && region->domain == target.domain && region->holds(held, 1);
    }
  if (hold && rules.hold < 0) {
    held_.push_back(flight);
    return;
  }
  if (hold) flight->due = flight->arrival += rules.hold;
  send(*flight);
}

void Endpoint::send(Flight& flight) {
  // The target's thread looks for messages itself, because a NIC needs no thread of the sender.
  if (flight.request.call == FabricDouble::kSend) reach(flight, flight.arrival);
  flying_.push(&flight);
}

void Endpoint::release_held(std::int64_t now) {
  if (held_.empty() || (record().held != nullptr && record().hold < 0)) return;
  for (Flight* flight : held_) {
    flight->due = flight->arrival = now;
    send(*flight);
  }
  held_.clear();
}

Region* Endpoint::remote_region(Flight& flight, std::uint64_t access) {
  const Request& request = flight.request;
  Region* const there = region_of(request.key);
  const bool known =
      there != nullptr && there->domain == flight.target->domain && flight.target->open;
  if (known) {
    const std::uint8_t* at = there->by_address ? reinterpret_cast<std::uint8_t*>(request.remote)
                                               : there->base + request.remote;
    if (there->holds(at, request.bytes) && (there->access & access) == access) {
      flight.request.remote = reinterpret_cast<std::uintptr_t>(there->view(at));
      return there;
    }
  }
  // EFA: an address that the target does not know is FI_EINVAL (efa_errno.h).
  flight.error = flight.target->open ? FI_EINVAL : FI_EHOSTUNREACH;
  return nullptr;
}

void Endpoint::reach(Flight& flight, std::int64_t now) {
  const Request& request = flight.request;
  Port& target = *flight.target;
  if (flight.error != 0) return;
  if (request.call == FabricDouble::kSend) {
    if (!target.open)
      flight.error = FI_EHOSTUNREACH;
    else
      target.arrive({.due = now, .message = flight.bytes, .bytes = request.bytes});
    return;
  }
  const std::uint64_t access = request.call == FabricDouble::kWrite ? FI_REMOTE_WRITE
                               : request.call == FabricDouble::kRead
                                   ? FI_REMOTE_READ
                                   : FI_REMOTE_READ | FI_REMOTE_WRITE;
  Region* const there = remote_region(flight, access);
  if (there == nullptr) return;
  if (request.call == FabricDouble::kWrite) {
    write(flight, *there, now);
    return;
  }
  target.settle(Port::Which::kAll, now);
  auto* const at = reinterpret_cast<std::uint8_t*>(flight.request.remote);
  flight.bytes.resize(request.bytes);
  if (is_atomic(request.call)) {
    const std::uint64_t old = request.bytes == 4 ? change<std::uint32_t>(at, request)
                                                 : change<std::uint64_t>(at, request);
    std::memcpy(flight.bytes.data(), &old, request.bytes);
  } else {
    copy_words(flight.bytes.data(), at, request.bytes);
  }
}

void Endpoint::write(Flight& flight, Region& there, std::int64_t now) {
  const Request& request = flight.request;
  Port& target = *flight.target;
  const auto* const local = static_cast<const Region*>(request.descriptor);
  const auto* from = static_cast<const std::uint8_t*>(request.local);
  if ((request.flags & FI_INJECT) != 0)
    from = flight.bytes.data();
  else if (local != nullptr)
    from = local->view(from);
  auto* const to = reinterpret_cast<std::uint8_t*>(request.remote);
  if (const std::int64_t trail = record().trail; trail != 0) {
    const std::lock_guard lock(target.mutex);
    std::int64_t due = now + drawn(trail);
    if (!target.trailing.empty()) due = std::max(due, target.trailing.back().due);
    target.trailing.push_back({due, to, {from, from + request.bytes}, there.gpu});
    target.any_trailing = true;
  } else {
    copy_words(to, from, request.bytes);
    // memcpy does this: its stores overlap, and the thread may lose its processor between them.
    const std::string_view name = profile_.name;
    if ((name == "efa" || name.starts_with("tcp")) && request.bytes <= 8) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      copy_words(to, from, request.bytes);
    }
  }
  if ((request.flags & FI_REMOTE_CQ_DATA) != 0)
    target.arrive({.due = now,
                   .message = {},
                   .is_immediate = true,
                   .data = request.data,
                   .bytes = request.bytes});
}

void Endpoint::end(Flight& flight, std::int64_t now) {
  const Request& request = flight.request;
  const bool reads = request.call == FabricDouble::kRead || is_atomic(request.call);
  const auto* const local = static_cast<const Region*>(request.descriptor);
  if (flight.error == 0 && reads) {
    std::uint8_t* const to =
        local != nullptr ? local->view(request.local) : static_cast<std::uint8_t*>(request.local);
    const std::int64_t trail = record().trail;
    if (trail != 0 && local != nullptr && local->gpu) {
      // Its own reads flush data that earlier reads of its own have fetched.
      if (flight.target == port_) port_->settle(Port::Which::kAll, now);
      const std::lock_guard lock(port_->mutex);
      port_->trailing.push_back({now + trail, to, flight.bytes, true});
      port_->any_trailing = true;
    } else {
      copy_words(to, flight.bytes.data(), flight.bytes.size());
    }
  }
  const bool sends = request.call == FabricDouble::kSend && (request.flags & FI_INJECT) == 0;
  if (sends && std::memcmp(request.local, flight.bytes.data(), request.bytes) != 0)
    record().violation("a message was changed before its end");
  const std::uint64_t flags = request.call == FabricDouble::kSend ? FI_SEND | FI_MSG : FI_RMA;
  if (flight.error != 0 || (request.flags & FI_COMPLETION) != 0 || is_atomic(request.call) ||
      request.call == FabricDouble::kRead)
    cq->add({request.context, flags, request.bytes, nullptr, 0}, flight.error);
  flight.target.reset();
  --in_use_;
  free_.push_back(&flight);
}

ssize_t Endpoint::receive(void* buffer, std::size_t bytes, void* descriptor, void* context) {
  FabricDouble& rules = record();
  if (const int error = rules.receive_refusal.exchange(0); error != 0) return -error;
  if (entered_.exchange(true)) rules.violation("two threads in one domain");
  const bool refused =
      buffers_.size() >= profile_.places || (rules.busy != 0 && random_() % 100 < rules.busy);
  if (refused) {
    ++rules.refused[FabricDouble::kReceive];
  } else {
    ++rules.taken[FabricDouble::kReceive];
    auto* const region = static_cast<Region*>(descriptor);
    if ((profile_.mr_mode & FI_MR_LOCAL) != 0 &&
        (region == nullptr || !region->holds(buffer, bytes)))
      rules.violation("a receive into memory that is not registered");
    buffers_.push_back({buffer, bytes, region, context});
  }
  entered_ = false;
  return refused ? -FI_EAGAIN : 0;
}

void Endpoint::take(Arrival& arrival) {
  if (arrival.is_immediate) {
    // libfabric 1.17: tcp reports neither that it was RMA nor its size.
    const bool tcp = std::strncmp(profile_.provider, "tcp", 3) == 0;
    cq->add({nullptr, FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA | (tcp ? 0 : FI_RMA),
             tcp ? 0 : arrival.bytes, nullptr, arrival.data});
    return;
  }
  const Buffer buffer = buffers_.front();
  buffers_.pop_front();
  const std::size_t fits = std::min(buffer.bytes, arrival.message.size());
  std::memcpy(buffer.to, arrival.message.data(), fits);
  const int error = fits < arrival.message.size() ? FI_ETRUNC : 0;
  cq->add({buffer.context, FI_RECV | FI_MSG, fits, nullptr, 0}, error);
}

void Endpoint::deliver(std::int64_t now) {
  Port& port = *port_;
  std::vector<Arrival> come;
  {
    const std::lock_guard lock(port.mutex);
    std::size_t messages = 0;
    for (auto at = port.arrivals.begin(); at != port.arrivals.end() && at->first <= now;) {
      if (!at->second.is_immediate && ++messages > buffers_.size()) {
        record().violation("a message without a receive");
        break;
      }
      come.push_back(std::move(at->second));
      at = port.arrivals.erase(at);
    }
    port.next_due = port.arrivals.empty() ? kNever : port.arrivals.begin()->first;
  }
  // Entries of a queue flush earlier data in host memory.
  if (!come.empty()) port.settle(Port::Which::kHost, now);
  for (Arrival& arrival : come) take(arrival);
}

void Endpoint::progress() {
  if (entered_.exchange(true)) record().violation("two threads in one domain");
  const bool waits =
      port_->next_due != kNever || !flying_.empty() || !held_.empty() || port_->any_trailing;
  if (waits) {
    const std::int64_t now = now_ns();
    release_held(now);
    while (!flying_.empty() && flying_.top()->due <= now) {
      Flight& flight = *flying_.top();
      flying_.pop();
      if (flight.stage == Stage::kArrived) {
        end(flight, now);
        continue;
      }
      if (flight.request.call != FabricDouble::kSend) reach(flight, now);
      flight.stage = Stage::kArrived;
      flight.due = flight.arrival + record().rtt / 2 + drawn(record().jitter);
      flying_.push(&flight);
    }
    if (port_->next_due <= now) deliver(now);
    port_->settle(Port::Which::kDue, now);
  }
  entered_ = false;
}

std::uint64_t after_atomic(const Request& request, std::uint64_t old) {
  const std::uint64_t operand = request.operand;
  switch (request.op) {
    case FI_SUM:
      return old + operand;
    case FI_BXOR:
      return old ^ operand;
    case FI_BOR:
      return old | operand;
    case FI_BAND:
      return old & operand;
    case FI_ATOMIC_WRITE:
      return operand;
    case FI_CSWAP:
      return old == request.compare ? operand : old;
    case FI_MSWAP:
      return (old & ~request.compare) | (operand & request.compare);
    default:
      return old;
  }
}

}  // namespace gshmem::test
