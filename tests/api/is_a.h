// Whether something is a function of a type. Included by what checks declarations.
#pragma once

/// Takes a function of type F, or a template of functions that has one.
template <class F>
constexpr bool is_a(F) {
  return true;
}
