#include "tests/ofi/busy_double.h"

#include "tests/ofi/getinfo_double.h"

#include <rdma/fi_atomic.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>

#include <map>
#include <mutex>
#include <random>

namespace gshmem::test {
namespace {

using Call = BusyDouble::Call;

std::mutex mutex;  // of all below
bool busy = false;
std::minstd_rand random_bits;
std::array<int, Call::kCalls> refusals{};

decltype(&::fi_fabric) real_fabric = nullptr;

/// Per endpoint, as long as the process lives: a provider may keep one that could not be closed.
template <class Ops>
struct Table {
  Ops real, busy;
};
template <class Ops>
std::map<const fid_ep*, Table<Ops>> tables;

bool refuses(Call call) {
  const bool refused = busy && random_bits() % 2 == 0;
  refusals[call] += refused;
  return refused;
}

/// A function of a table of an endpoint's, or a refusal.
template <auto kFunction, Call kCall>
struct Busy;
template <class Ops, class... Args, ssize_t (*Ops::*kFunction)(fid_ep*, Args...), Call kCall>
struct Busy<kFunction, kCall> {
  static ssize_t call(fid_ep* endpoint, Args... args) {
    decltype(Ops{}.*kFunction) real = nullptr;
    {
      const std::lock_guard lock(mutex);
      if (refuses(kCall)) return -FI_EAGAIN;
      real = tables<Ops>.at(endpoint).real.*kFunction;
    }
    return real(endpoint, args...);
  }
};

template <auto kFunction, Call kCall, class Ops>
void replace(Ops& ops) {
  ops.*kFunction = Busy<kFunction, kCall>::call;
}

/// The endpoint's table from now on, which begins as a copy.
template <class Ops>
Ops& own_table(const fid_ep* endpoint, Ops*& ops) {
  Table<Ops>& table = tables<Ops>[endpoint];
  table = {*ops, *ops};
  ops = &table.busy;
  return table.busy;
}

/// Of fabrics and domains, by the provider's table; written once, for threads read them unlocked.
template <class Ops>
std::map<const Ops*, Table<Ops>> makers;

/// `ops` become its copy with another function that makes the next object.
template <class Ops, class Function>
void take_over(Ops*& ops, Function Ops::*member, Function function) {
  const std::lock_guard lock(mutex);
  for (const auto& [real, table] : makers<Ops>) {
    if (ops == &table.busy) return;  // an object that was made before
  }
  const auto [at, is_new] = makers<Ops>.try_emplace(ops);
  if (is_new) {
    at->second = {*ops, *ops};
    at->second.busy.*member = function;
  }
  ops = &at->second.busy;
}
template <class Ops>
Ops real_of(const Ops* ops) {
  const std::lock_guard lock(mutex);
  for (const auto& [real, table] : makers<Ops>) {
    if (ops == &table.busy) return table.real;
  }
  return *ops;
}

int make_endpoint(fid_domain* domain, fi_info* info, fid_ep** endpoint, void* context) {
  const int result = real_of(domain->ops).endpoint(domain, info, endpoint, context);
  if (result != 0) return result;
  const std::lock_guard lock(mutex);
  fid_ep& made = **endpoint;
  fi_ops_msg& messages = own_table(&made, made.msg);
  replace<&fi_ops_msg::recv, Call::kReceive>(messages);
  replace<&fi_ops_msg::sendmsg, Call::kSend>(messages);
  fi_ops_rma& rma = own_table(&made, made.rma);
  replace<&fi_ops_rma::readmsg, Call::kRead>(rma);
  replace<&fi_ops_rma::writemsg, Call::kWrite>(rma);
  fi_ops_atomic& atomics = own_table(&made, made.atomic);
  replace<&fi_ops_atomic::readwrite, Call::kFetchAtomic>(atomics);
  replace<&fi_ops_atomic::compwrite, Call::kCompareAtomic>(atomics);
  return 0;
}

int make_domain(fid_fabric* fabric, fi_info* info, fid_domain** domain, void* context) {
  const int result = real_of(fabric->ops).domain(fabric, info, domain, context);
  if (result == 0) take_over((*domain)->ops, &fi_ops_domain::endpoint, make_endpoint);
  return result;
}

int make_fabric(fi_fabric_attr* attributes, fid_fabric** fabric, void* context) {
  const int result = real_fabric(attributes, fabric, context);
  if (result == 0) take_over((*fabric)->ops, &fi_ops_fabric::domain, make_domain);
  return result;
}

}  // namespace

BusyDouble::BusyDouble() {
  const std::lock_guard lock(mutex);
  busy = true;
  random_bits.seed();
  refusals = {};
  real_fabric = mutable_library().fabric;
  mutable_library().fabric = make_fabric;
}

BusyDouble::~BusyDouble() {
  const std::lock_guard lock(mutex);
  busy = false;
  mutable_library().fabric = real_fabric;
}

std::array<int, Call::kCalls> BusyDouble::refused() {
  const std::lock_guard lock(mutex);
  return refusals;
}

}  // namespace gshmem::test
