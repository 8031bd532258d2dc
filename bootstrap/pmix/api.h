// libpmix as a table of functions, loaded at run time. Included by bootstrap/pmix only; this is the
// only header that includes pmix.h. Its macros are not used: in 4.2 and later many expand to calls
// of library functions, which would link the build to libpmix. The structures are the same in 4.2
// and 5 (PMIx Standard ABI, soname libpmix.so.2).
#pragma once

#include "host/base/deadline.h"
#include "host/base/dynamic_library.h"

#include <pmix.h>

#include <cstdint>
#include <string>
#include <vector>

namespace gshmem::bootstrap {

struct PmixApi {
  PmixApi();
  DynamicLibrary library;
  decltype(PMIx_Init)* init;
  decltype(PMIx_Finalize)* finalize;
  decltype(PMIx_Put)* put;
  decltype(PMIx_Commit)* commit;
  decltype(PMIx_Fence_nb)* fence_nb;
  decltype(PMIx_Get_nb)* get_nb;
  decltype(PMIx_Abort)* abort;
  decltype(PMIx_Register_event_handler)* register_event_handler;
  decltype(PMIx_Error_string)* error_string;
  decltype(PMIx_Get_version)* version;
};

/// Loads libpmix on first use and never unloads it: its progress thread may outlive a failed call.
/// Errors: GSHMEMX_ERROR_NOT_SUPPORTED.
[[nodiscard]] const PmixApi& pmix_api();

/// The value that a PMIx server returns for a key.
struct PmixValue {
  std::vector<std::byte> bytes;  ///< for PMIX_BYTE_OBJECT
  std::uint32_t number = 0;      ///< for PMIX_UINT32
};

/// Calls PMIx_Init, which itself waits for ever for a server that has stopped answering. Returns
/// PMIX_ERR_TIMEOUT when the deadline passed first. Then the attempt continues in a thread of its
/// own, and the next call waits for it. Threads: one at a time.
[[nodiscard]] pmix_status_t pmix_init(const PmixApi& api, const Deadline& deadline,
                                      pmix_proc_t* me);

/// Waits at most until `deadline`, and returns PMIX_ERR_TIMEOUT when it has passed. The library may
/// still answer later, into memory that is not read any more.
[[nodiscard]] pmix_status_t pmix_fence(const PmixApi& api, const pmix_proc_t& all,
                                       const std::vector<pmix_info_t>& directives,
                                       const Deadline& deadline);
[[nodiscard]] pmix_status_t pmix_get(const PmixApi& api, const pmix_proc_t& who,
                                     const std::string& key, const Deadline& deadline,
                                     PmixValue* value);
/// Returns for each process whether the server has its value of this key, or gets it from another
/// server within a second. False where it has not answered before the deadline.
[[nodiscard]] std::vector<bool> pmix_has(const PmixApi& api, const std::vector<pmix_proc_t>& procs,
                                         const std::string& key, const Deadline& deadline);
/// Returns when the server has answered or the deadline has passed, whichever is first.
void pmix_abort(const PmixApi& api, int code, const std::string& message, const Deadline& deadline);

[[nodiscard]] pmix_proc_t pmix_proc(const char* nspace, pmix_rank_t rank);
[[nodiscard]] pmix_info_t pmix_info_flag(const char* key);
[[nodiscard]] pmix_info_t pmix_info_int(const char* key, int value);

}  // namespace gshmem::bootstrap
