// Tells which sanitizers this unit is compiled with: g++ has macros for it, clang 14 features.
// Included by tests whose sizes or limits differ under them.
#pragma once

namespace gshmem {

// The macros come first: some headers define __has_feature as false for compilers that lack it.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kUnderAsan = true;
#elif defined(__has_feature)
inline constexpr bool kUnderAsan = __has_feature(address_sanitizer);
#else
inline constexpr bool kUnderAsan = false;
#endif
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kUnderTsan = true;
#elif defined(__has_feature)
inline constexpr bool kUnderTsan = __has_feature(thread_sanitizer);
#else
inline constexpr bool kUnderTsan = false;
#endif
/// Code is several times slower.
inline constexpr bool kSanitized = kUnderAsan || kUnderTsan;

}  // namespace gshmem
