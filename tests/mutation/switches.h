// Changes of sources that are compiled in and switched on one at a time. switches.py puts these in.
//
// MUTATION_CHANGE is the number of the change that is on; without it none is. The file that
// MUTATION_REACHED names, of kChanges bytes, gets a 1 for each change that is reached. What is
// evaluated at compile time stays what it is.
#pragma once
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <type_traits>

namespace switches {

inline constexpr int kChanges = 1 << 16;

struct State {
  int chosen;
  unsigned char* reached;
};
inline State state;

[[gnu::noinline]] inline void begin() {
  static unsigned char nobody[kChanges];
  unsigned char* reached = nobody;
  if (const char* file = std::getenv("MUTATION_REACHED")) {
    const int fd = ::open(file, O_RDWR | O_CLOEXEC);
    void* const at = ::mmap(nullptr, kChanges, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at != MAP_FAILED) reached = static_cast<unsigned char*>(at);
    if (fd >= 0) ::close(fd);
  }
  const char* const chosen = std::getenv("MUTATION_CHANGE");
  state.chosen = chosen != nullptr ? std::atoi(chosen) : -1;
  __atomic_store_n(&state.reached, reached, __ATOMIC_RELEASE);
}

constexpr bool on(int number) {
  if (std::is_constant_evaluated()) return false;
  if (__atomic_load_n(&state.reached, __ATOMIC_ACQUIRE) == nullptr) begin();
  unsigned char* const reached = state.reached + number;
  if (__atomic_load_n(reached, __ATOMIC_RELAXED) == 0)
    __atomic_store_n(reached, 1, __ATOMIC_RELAXED);
  return state.chosen == number;
}

template <class Flag>
constexpr Flag flag(int number, Flag value) {
  return on(number) ? Flag{} : value;
}

// `a < Less(7) < b` is a < b, and a <= b when 7 is on: an operator between two others of its level
// keeps what belongs to which operand.
#define GSHMEM_SWITCHED(NAME, LEVEL, OPERATOR, OTHER)                  \
  struct NAME {                                                        \
    int number;                                                        \
    explicit constexpr NAME(int n) : number(n) {}                      \
  };                                                                   \
  template <class A>                                                   \
  struct Left##NAME {                                                  \
    const A& a;                                                        \
    int number;                                                        \
  };                                                                   \
  template <class A>                                                   \
  constexpr Left##NAME<A> operator LEVEL(const A& a, NAME it) {        \
    return {a, it.number};                                             \
  }                                                                    \
  template <class A, class B>                                          \
  constexpr auto operator LEVEL(Left##NAME<A> left, const B& b) {      \
    using Result = decltype(left.a OPERATOR b);                        \
    if constexpr (requires { left.a OTHER b; }) {                      \
      if (on(left.number)) return static_cast<Result>(left.a OTHER b); \
    }                                                                  \
    return static_cast<Result>(left.a OPERATOR b);                     \
  }

GSHMEM_SWITCHED(Less, <, <, <=)
GSHMEM_SWITCHED(AtMost, <, <=, <)
GSHMEM_SWITCHED(More, <, >, >=)
GSHMEM_SWITCHED(AtLeast, <, >=, >)
GSHMEM_SWITCHED(Same, ==, ==, !=)
GSHMEM_SWITCHED(Other, ==, !=, ==)
GSHMEM_SWITCHED(Plus, +, +, -)
GSHMEM_SWITCHED(Minus, +, -, +)
GSHMEM_SWITCHED(Times, *, *, /)
GSHMEM_SWITCHED(Over, *, /, *)
GSHMEM_SWITCHED(Rest, *, %, *)

}  // namespace switches
