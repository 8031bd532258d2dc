// A function that is called while somebody waits for it: a reference, not a copy. Without
// <functional>, which would be 12,000 of the 42,000 lines that each perftest reads.
#pragma once

#include <utility>

namespace perftest {

template <class Signature>
class FunctionRef;

template <class Result, class... Args>
class FunctionRef<Result(Args...)> {
 public:
  /// Refers to `function`, which must outlive it. Implicit: lambdas are passed for it.
  template <class Function>
  FunctionRef(const Function& function)
      : object_(&function), call_([](const void* object, Args... args) -> Result {
          return (*static_cast<const Function*>(object))(std::forward<Args>(args)...);
        }) {}
  Result operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  const void* object_;
  Result (*call_)(const void* object, Args... args);
};

}  // namespace perftest
