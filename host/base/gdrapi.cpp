#include "host/base/gdrapi.h"

namespace gshmem::gdr {

Library Library::load(const std::string& soname) {
  Library loaded;
  loaded.library_ = DynamicLibrary(soname);
#define GSHMEM_GDR_FUNCTION(name, result, ...) \
  loaded.name = loaded.library_.function<result(__VA_ARGS__)>(#name);
#include "host/base/gdrapi.def"
  return loaded;
}

std::vector<std::string> symbols() {
  return {
#define GSHMEM_GDR_FUNCTION(name, ...) #name,
#include "host/base/gdrapi.def"
  };
}

}  // namespace gshmem::gdr
