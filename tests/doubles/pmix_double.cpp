#include "tests/doubles/pmix_double.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <functional>

using gshmem::test::PmixDouble;

namespace {

const std::string kNamespace(PMIX_MAX_NSLEN, 'n');  ///< the longest possible one
std::vector<char> mine;                             ///< the last data that rank 0 has put

/// A call without an answer yet: its arguments, and their content at that time.
struct Late {
  const pmix_proc_t* proc;
  const char* key;
  std::string then;
  std::function<void()> answer;
};
std::vector<Late> late;

pmix_notification_fn_t gone = nullptr;  ///< the handler for the loss of the server

std::string read(const pmix_proc_t& proc, const char* key) {
  return std::string(proc.nspace) + " " + std::to_string(proc.rank) + " " + key;
}

template <class Callback>
void answer_bytes(Callback callback, void* data, std::vector<char>& bytes, pmix_data_type_t type) {
  pmix_value_t value{};
  value.type = type;
  value.data.bo.bytes = bytes.data();
  value.data.bo.size = bytes.size();
  callback(PMIX_SUCCESS, &value, data);
}

}  // namespace

#pragma GCC visibility push(default)

extern "C" {

PmixDouble* pmix_double() {
  static PmixDouble one;
  return &one;
}

bool pmix_double_answers() {
  bool whole = !late.empty();
  for (const Late& call : late) {
    whole &= read(*call.proc, call.key) == call.then;  // libpmix 5.0.1 reads the key again
    call.answer();
  }
  late.clear();
  return whole;
}

bool pmix_double_loses_its_server() {
  if (gone) gone(1, PMIX_ERR_LOST_CONNECTION, nullptr, nullptr, 0, nullptr, 0, nullptr, nullptr);
  return gone != nullptr;
}

pmix_status_t PMIx_Register_event_handler(pmix_status_t codes[], size_t count, pmix_info_t*, size_t,
                                          pmix_notification_fn_t handler, pmix_hdlr_reg_cbfunc_t,
                                          void*) {
  for (size_t i = 0; i < count; ++i)
    if (codes[i] == PMIX_ERR_LOST_CONNECTION) gone = handler;
  return PMIX_SUCCESS;
}

pmix_status_t PMIx_Init(pmix_proc_t* proc, pmix_info_t*, size_t) {
  std::memcpy(proc->nspace, kNamespace.c_str(), sizeof(proc->nspace));
  proc->rank = 0;
  const char* const store = std::getenv("PMIX_MCA_gds");
  pmix_double()->store = store ? store : "";
  return PMIX_SUCCESS;
}

pmix_status_t PMIx_Finalize(const pmix_info_t* info, size_t n_info) {
  if (!info && n_info > 0) return PMIX_ERR_BAD_PARAM;
  if (int* const count = pmix_double()->finalizes) ++*count;
  return PMIX_SUCCESS;
}

pmix_status_t PMIx_Put(pmix_scope_t scope, const char key[], pmix_value_t* value) {
  if (scope != PMIX_GLOBAL || value->type != PMIX_BYTE_OBJECT) return PMIX_ERR_BAD_PARAM;
  mine.assign(value->data.bo.bytes, value->data.bo.bytes + value->data.bo.size);
  pmix_double()->keys.emplace_back(key);
  return PMIX_SUCCESS;
}

pmix_status_t PMIx_Commit() { return PMIX_SUCCESS; }

pmix_status_t PMIx_Fence_nb(const pmix_proc_t* procs, size_t count, const pmix_info_t* info,
                            size_t n_info, pmix_op_cbfunc_t callback, void* data) {
  PmixDouble& one = *pmix_double();
  if (count != 1 || procs->nspace != kNamespace || procs->rank != PMIX_RANK_WILDCARD)
    return PMIX_ERR_BAD_PARAM;
  ++one.fences;
  one.collects = false;
  one.seconds = -1;
  for (size_t i = 0; i < n_info; ++i) {
    const pmix_value_t& value = info[i].value;
    if (std::strcmp(info[i].key, PMIX_COLLECT_DATA) == 0)
      one.collects = value.type == PMIX_BOOL && value.data.flag;
    if (std::strcmp(info[i].key, PMIX_TIMEOUT) == 0 && value.type == PMIX_INT)
      one.seconds = value.data.integer;
  }
  if (!one.calls_back) return one.fence;
  if (one.fence_is_late) {
    late.push_back(
        {procs, info[0].key, read(*procs, info[0].key), [=] { callback(PMIX_ERR_TIMEOUT, data); }});
    return PMIX_SUCCESS;
  }
  callback(one.fence, data);
  return PMIX_SUCCESS;
}

pmix_status_t PMIx_Get_nb(const pmix_proc_t* proc, const char key[], const pmix_info_t* info,
                          size_t n_info, pmix_value_cbfunc_t callback, void* data) {
  PmixDouble& one = *pmix_double();
  one.get_seconds =
      n_info == 1 && std::strcmp(info->key, PMIX_TIMEOUT) == 0 ? info->value.data.integer : -1;
  if (proc->nspace != kNamespace) return PMIX_ERR_BAD_PARAM;
  if (std::strcmp(key, PMIX_JOB_SIZE) == 0) {
    pmix_value_t value{};
    value.type = PMIX_UINT32;
    value.data.uint32 = one.size;
    callback(one.sized, &value, data);
  } else if (one.keys.empty() || one.keys.back() != key || (proc->rank == 0 && !one.has_mine)) {
    return PMIX_ERR_NOT_FOUND;
  } else if (proc->rank == 1 && one.is_late) {
    late.push_back(
        {proc, key, read(*proc, key), [=] { callback(PMIX_ERR_NOT_FOUND, nullptr, data); }});
  } else if (proc->rank == 0) {
    answer_bytes(callback, data, mine, PMIX_BYTE_OBJECT);
  } else if (one.get == PMIX_SUCCESS && !one.is_nothing) {
    // The data of rank 0 begins with the number of the value, and so does that of rank 1.
    std::vector<char> value(mine.begin(), mine.begin() + sizeof(std::uint64_t));
    if (one.of_another_key) value[0] = static_cast<char>(value[0] + 1);
    value.insert(value.end(), one.theirs.begin(), one.theirs.end());
    if (one.is_short) value.resize(sizeof(std::uint64_t) - 1);
    answer_bytes(callback, data, value, one.type);
  } else {
    callback(one.get, nullptr, data);
  }
  return PMIX_SUCCESS;
}

pmix_status_t PMIx_Abort(int status, const char message[], pmix_proc_t*, size_t) {
  PmixDouble& one = *pmix_double();
  one.message = message;
  one.code = status;
  while (!one.aborts) pause();
  return PMIX_SUCCESS;
}

const char* PMIx_Error_string(pmix_status_t) { return "what PMIx says"; }
const char* PMIx_Get_version() { return pmix_double()->version.c_str(); }

}  // extern "C"

#pragma GCC visibility pop
