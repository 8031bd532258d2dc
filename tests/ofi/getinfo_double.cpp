#include "tests/ofi/getinfo_double.h"

#include <rdma/fi_domain.h>

#include <cstdlib>
#include <cstring>

namespace gshmem::test {
namespace {

GetinfoDouble::Answer current;
decltype(&::fi_getinfo) real = nullptr;

void rename_provider(fi_info& info, const std::string& name) {
  std::free(info.fabric_attr->prov_name);
  info.fabric_attr->prov_name = strdup(name.c_str());
}

}  // namespace

ofi::Library& mutable_library() { return const_cast<ofi::Library&>(ofi::Library::get()); }

GetinfoDouble::GetinfoDouble(Answer answer) {
  current = std::move(answer);
  real = mutable_library().getinfo;
  mutable_library().getinfo = [](std::uint32_t version, const char*, const char*, std::uint64_t,
                                 const fi_info* hints,
                                 fi_info** found) { return current(version, hints, found); };
}

GetinfoDouble::~GetinfoDouble() { mutable_library().getinfo = real; }

int sockets_as(const std::string& provider, const fi_info* hints, fi_info** found) {
  const ofi::InfoPtr plain(mutable_library().dupinfo(hints));
  plain->caps &= ~FI_HMEM;
  plain->domain_attr->mr_mode &= ~FI_MR_HMEM;
  rename_provider(*plain, "sockets");
  const int result = real(FI_VERSION(1, 14), nullptr, nullptr, 0, plain.get(), found);
  if (result != 0) return result;
  for (fi_info* info = *found; info != nullptr; info = info->next) rename_provider(*info, provider);
  return 0;
}

}  // namespace gshmem::test
