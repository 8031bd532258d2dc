// Tells whether a name is a function of a type. Included by tests of declarations.
#pragma once

/// Accepts a function of type F, or a template of functions that has one.
template <class F>
constexpr bool is_a(F) {
  return true;
}
