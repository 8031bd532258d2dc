// What the sanitizers of this unit are: g++ says so by macros, clang 14 by features. Included by
// tests whose sizes or limits differ under them.
#pragma once

namespace gshmem {

// The macros first: some headers define __has_feature for compilers that lack it, as false.
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
/// Code takes several times as long.
inline constexpr bool kSanitized = kUnderAsan || kUnderTsan;

}  // namespace gshmem
