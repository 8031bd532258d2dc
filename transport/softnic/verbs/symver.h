// Two versions of a symbol, which a version script alone cannot express. clang 14 has no attribute
// symver, hence the assembler directive.
#pragma once

/// Exports `function` as `name@version`, for programs that were linked when that was the newest.
#define GSHNIC_OLD_VERSION(function, name, version) \
  __asm__(".symver " #function "," #name "@" version)
/// Exports `function` as the version that programs linked today get.
#define GSHNIC_DEFAULT_VERSION(function, name, version) \
  __asm__(".symver " #function "," #name "@@" version)
