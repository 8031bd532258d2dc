// The API layer of waits and tests, whose variables are local. Included by device/api/api.h, which
// says what these functions are.
#pragma once

#include "order_calls.h"
#include "../core/wait.h"
#include "../ops/signal.h"
#include "../pe/caller.h"
#include "../pe/check.h"

namespace gshmem::api {

/// Return the comparison values of the plain and of the vector forms.
template <class T>
GSHMEM_FN WaitValues<T> one(T value) {
  return {value, nullptr};
}
template <class T>
struct ValueOfEach : WaitValues<T> {};
template <class T>
GSHMEM_FN ValueOfEach<T> each(const T* values) {
  return {{T{}, values}};
}

GSHMEM_FN std::uint64_t signal_fetch(const Caller& call, const std::uint64_t* sig_addr) {
  const State& state = call.state;
  if (!check_arguments(state, call.name, word("sig_addr", sig_addr))) return 0;
  const std::uint64_t value = load_sync(sig_addr);
  push_inbound(state);
  GSHMEM_WATCH(order::acquire(watch);)
  return value;
}

GSHMEM_FN std::uint64_t signal_wait_until(const Caller& call, const std::uint64_t* sig_addr,
                                          int cmp, std::uint64_t cmp_value) {
  const State& state = call.state;
  if (!check_arguments(state, call.name, Comparison{cmp}, word("sig_addr", sig_addr))) return 0;
  GSHMEM_WATCH(std::uint64_t seen = 0; if (order::await(watch, sig_addr, cmp, cmp_value, &seen)) {
    push_inbound(state);
    return seen;
  })
  return device::signal_wait_until(state, call.name, sig_addr, cmp, cmp_value);
}

template <class T>
GSHMEM_FN void wait_until(const Caller& call, const T* ivar, int cmp, T cmp_value) {
  const State& state = call.state;
  if (!check_arguments(state, call.name, Comparison{cmp}, word("ivar", ivar))) return;
  GSHMEM_WATCH(T seen{};
               if (order::await(watch, ivar, cmp, cmp_value, &seen)) return push_inbound(state);)
  if (device::wait_until(state, call.name, ivar, cmp, cmp_value)) push_inbound(state);
}

template <class T>
GSHMEM_FN int test(const Caller& call, const T* ivar, int cmp, T cmp_value) {
  const State& state = call.state;
  if (!check_arguments(state, call.name, Comparison{cmp}, word("ivar", ivar))) return 0;
  GSHMEM_ORDER(return device::test(ivar, cmp, cmp_value) ? 1 : 0;)
  const bool is_met = pushed_inbound(state, compare(load_sync(ivar), cmp, cmp_value));
  GSHMEM_WATCH(if (is_met) order::acquire(watch);)
  return is_met ? 1 : 0;
}

/// An array of the caller with an entry for every variable.
template <class T>
GSHMEM_FN Memory entries(const char* name, const T* p, std::size_t nelems) {
  return {name, p, {nelems, sizeof(T)}, alignof(T)};
}
template <class T>
GSHMEM_FN Local values_of(std::size_t, const WaitValues<T>&) {
  return {{"cmp_value", nullptr, {0, 1}}};
}
template <class T>
GSHMEM_FN Local values_of(std::size_t nelems, const ValueOfEach<T>& values) {
  return {entries("cmp_values", values.each, nelems)};
}

/// `more` are arguments that only some of the functions have.
template <class T, class Values, class... More>
GSHMEM_FN bool check_set(const Caller& call, const WaitSet<T>& set, const Values& values,
                         const More&... more) {
  return check_arguments(call.state, call.name, Comparison{set.cmp},
                         Symmetric{{"ivars", set.ivars, {set.nelems, sizeof(T)}, sizeof(T)}},
                         Optional{entries("status", set.status, set.nelems)},
                         values_of(set.nelems, values), more...);
}

template <class T, class Values>
GSHMEM_FN void wait_until_all(const Caller& call, const T* ivars, std::size_t nelems,
                              const int* status, int cmp, Values values) {
  const WaitSet<T> set{ivars, nelems, status, cmp, values};
  if (!check_set(call, set, values)) return;
  device::wait_until_all(call.state, call.name, set);
  push_inbound(call.state);
  GSHMEM_WATCH(order::acquire(watch);)
}

template <class T, class Values>
GSHMEM_FN std::size_t wait_until_any(const Caller& call, const T* ivars, std::size_t nelems,
                                     const int* status, int cmp, Values values) {
  const WaitSet<T> set{ivars, nelems, status, cmp, values};
  if (!check_set(call, set, values)) return SIZE_MAX;
  const std::size_t found = device::wait_until_any(call.state, call.name, set);
  push_inbound(call.state);
  GSHMEM_WATCH(order::acquire(watch);)
  return found;
}

template <class T, class Values>
GSHMEM_FN std::size_t wait_until_some(const Caller& call, const T* ivars, std::size_t nelems,
                                      std::size_t* indices, const int* status, int cmp,
                                      Values values) {
  const WaitSet<T> set{ivars, nelems, status, cmp, values};
  if (!check_set(call, set, values, Local{entries("indices", indices, nelems)})) return 0;
  const std::size_t count = device::wait_until_some(call.state, call.name, set, indices);
  push_inbound(call.state);
  GSHMEM_WATCH(order::acquire(watch);)
  return count;
}

/// Also returns true for a set in which no element takes part (OpenSHMEM 1.5, section 9.10).
template <class T, class Values>
GSHMEM_FN int test_all(const Caller& call, const T* ivars, std::size_t nelems, const int* status,
                       int cmp, Values values) {
  const WaitSet<T> set{ivars, nelems, status, cmp, values};
  const bool are_met =
      check_set(call, set, values) && pushed_inbound(call.state, device::test_all(set));
  GSHMEM_WATCH(if (are_met) order::acquire(watch);)
  return are_met ? 1 : 0;
}

template <class T, class Values>
GSHMEM_FN std::size_t test_any(const Caller& call, const T* ivars, std::size_t nelems,
                               const int* status, int cmp, Values values) {
  const WaitSet<T> set{ivars, nelems, status, cmp, values};
  const std::size_t found = check_set(call, set, values) ? device::test_any(set) : SIZE_MAX;
  pushed_inbound(call.state, found != SIZE_MAX);
  GSHMEM_WATCH(if (found != SIZE_MAX) order::acquire(watch);)
  return found;
}

template <class T, class Values>
GSHMEM_FN std::size_t test_some(const Caller& call, const T* ivars, std::size_t nelems,
                                std::size_t* indices, const int* status, int cmp, Values values) {
  const WaitSet<T> set{ivars, nelems, status, cmp, values};
  const std::size_t count = check_set(call, set, values, Local{entries("indices", indices, nelems)})
                                ? device::test_some(set, indices)
                                : 0;
  pushed_inbound(call.state, count != 0);
  GSHMEM_WATCH(if (count != 0) order::acquire(watch);)
  return count;
}

}  // namespace gshmem::api
