#include "bootstrap/pmix/api.h"

#include "host/base/thread.h"

#include <cstring>
#include <memory>

namespace gshmem::bootstrap {

PmixApi::PmixApi()
    : library("libpmix.so.2"),
      init(library.function<decltype(PMIx_Init)>("PMIx_Init")),
      finalize(library.function<decltype(PMIx_Finalize)>("PMIx_Finalize")),
      put(library.function<decltype(PMIx_Put)>("PMIx_Put")),
      commit(library.function<decltype(PMIx_Commit)>("PMIx_Commit")),
      fence_nb(library.function<decltype(PMIx_Fence_nb)>("PMIx_Fence_nb")),
      get_nb(library.function<decltype(PMIx_Get_nb)>("PMIx_Get_nb")),
      abort(library.function<decltype(PMIx_Abort)>("PMIx_Abort")),
      register_event_handler(
          library.function<decltype(PMIx_Register_event_handler)>("PMIx_Register_event_handler")),
      error_string(library.function<decltype(PMIx_Error_string)>("PMIx_Error_string")),
      version(library.function<decltype(PMIx_Get_version)>("PMIx_Get_version")) {}

const PmixApi& pmix_api() {
  static const PmixApi* const api = new PmixApi;  // it is never deleted, see the header
  return *api;
}

namespace {

/// A pending call: PMIx's thread stores the result, and ours waits for it.
struct Pending {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  pmix_status_t status = PMIX_ERR_TIMEOUT;
  PmixValue value;

  void finish(pmix_status_t result) {
    const std::lock_guard lock(mutex);
    status = result;
    done = true;
    changed.notify_all();
  }
  [[nodiscard]] bool ended() {
    const std::lock_guard lock(mutex);
    return done;
  }
  [[nodiscard]] pmix_status_t await(const Deadline& deadline) {
    std::unique_lock lock(mutex);
    return deadline.wait(changed, lock, [this] { return done; }) ? status : PMIX_ERR_TIMEOUT;
  }
};

// The reference is shared: after a timeout the caller has returned while PMIx's thread still holds
// the other reference. The library carries that one as a pointer to a copy on the heap.
using PendingRef = std::shared_ptr<Pending>;

std::unique_ptr<PendingRef> claim(void* callback_data) {
  return std::unique_ptr<PendingRef>(static_cast<PendingRef*>(callback_data));
}

void on_fence(pmix_status_t status, void* data) { (*claim(data))->finish(status); }

void on_value(pmix_status_t status, pmix_value_t* value, void* data) {
  const auto pending = claim(data);
  PmixValue& out = (*pending)->value;  // owned by the caller until finish()
  if (status == PMIX_SUCCESS && value != nullptr && value->type == PMIX_BYTE_OBJECT) {
    const auto* const first = reinterpret_cast<const std::byte*>(value->data.bo.bytes);
    out.bytes.assign(first, first + value->data.bo.size);
  } else if (status == PMIX_SUCCESS && value != nullptr && value->type == PMIX_UINT32) {
    out.number = value->data.uint32;
  } else if (status == PMIX_SUCCESS) {
    status = PMIX_ERR_TYPE_MISMATCH;
  }
  (*pending)->finish(status);
}

/// Arguments that a call passes by address; they must live until its callback. libpmix 5.0.1
/// compares the key when the answer arrives.
struct PendingGet : Pending {
  pmix_proc_t who{};
  std::string key;
  std::vector<pmix_info_t> directives;
};
struct PendingFence : Pending {
  pmix_proc_t all{};
  std::vector<pmix_info_t> directives;
};

/// Runs `start(callback data)`. A call that is refused or completes at once has no callback.
template <class Start>
void begin_call(const PendingRef& pending, Start start) {
  auto reference = std::make_unique<PendingRef>(pending);
  PendingRef* const handed_over = reference.release();
  const pmix_status_t status = start(handed_over);
  if (status == PMIX_SUCCESS) return;
  claim(handed_over).reset();
  pending->finish(status == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : status);
}

std::shared_ptr<PendingGet> begin_get(const PmixApi& api, const pmix_proc_t& who,
                                      const std::string& key,
                                      const std::vector<pmix_info_t>& directives = {}) {
  const auto pending = std::make_shared<PendingGet>();
  pending->who = who;
  pending->key = key;
  pending->directives = directives;
  begin_call(pending, [&](void* data) {
    return api.get_nb(&pending->who, pending->key.c_str(), pending->directives.data(),
                      pending->directives.size(), on_value, data);
  });
  return pending;
}

}  // namespace

pmix_status_t pmix_fence(const PmixApi& api, const pmix_proc_t& all,
                         const std::vector<pmix_info_t>& directives, const Deadline& deadline) {
  const auto pending = std::make_shared<PendingFence>();
  pending->all = all;
  pending->directives = directives;
  begin_call(pending, [&](void* data) {
    return api.fence_nb(&pending->all, 1, pending->directives.data(), pending->directives.size(),
                        on_fence, data);
  });
  return pending->await(deadline);
}

pmix_status_t pmix_get(const PmixApi& api, const pmix_proc_t& who, const std::string& key,
                       const Deadline& deadline, PmixValue* value) {
  const auto pending = begin_get(api, who, key);
  const pmix_status_t status = pending->await(deadline);
  if (status == PMIX_SUCCESS) *value = std::move(pending->value);
  return status;
}

std::vector<bool> pmix_has(const PmixApi& api, const std::vector<pmix_proc_t>& procs,
                           const std::string& key, const Deadline& deadline) {
  std::vector<std::shared_ptr<PendingGet>> questions;
  for (const pmix_proc_t& who : procs)
    questions.push_back(begin_get(api, who, key, {pmix_info_int(PMIX_TIMEOUT, 1)}));
  std::vector<bool> has;
  for (const auto& pending : questions) has.push_back(pending->await(deadline) == PMIX_SUCCESS);
  return has;
}

pmix_status_t pmix_init(const PmixApi& api, const Deadline& deadline, pmix_proc_t* me) {
  struct Attempt : Pending {
    pmix_proc_t me{};
  };
  // PMIx_Init must not run on two threads at a time. A caller that comes after a timeout waits for
  // the same call.
  static std::shared_ptr<Attempt> under_way;
  if (!under_way) {
    under_way = std::make_shared<Attempt>();
    // PMIx_Init and PMIx_Abort have no non-blocking form, so they need threads.
    start_thread([&api, attempt = under_way] {
      attempt->finish(api.init(&attempt->me, nullptr, 0));
    }).detach();
  }
  const std::shared_ptr<Attempt> attempt = under_way;
  const pmix_status_t status = attempt->await(deadline);
  if (attempt->ended()) under_way = nullptr;
  if (status == PMIX_SUCCESS) *me = attempt->me;
  return status;
}

void pmix_abort(const PmixApi& api, int code, const std::string& message,
                const Deadline& deadline) {
  const auto pending = std::make_shared<Pending>();
  start_thread([&api, pending, code, message] {
    pending->finish(api.abort(code, message.c_str(), nullptr, 0));
  }).detach();
  (void)pending->await(deadline);
}

pmix_proc_t pmix_proc(const char* nspace, pmix_rank_t rank) {
  pmix_proc_t proc{};
  std::strncpy(proc.nspace, nspace, sizeof proc.nspace - 1);
  proc.rank = rank;
  return proc;
}

pmix_info_t pmix_info_flag(const char* key) {
  pmix_info_t info{};
  std::strncpy(info.key, key, sizeof info.key - 1);
  info.value.type = PMIX_BOOL;
  info.value.data.flag = true;
  return info;
}

pmix_info_t pmix_info_int(const char* key, int value) {
  pmix_info_t info{};
  std::strncpy(info.key, key, sizeof info.key - 1);
  info.value.type = PMIX_INT;
  info.value.data.integer = value;
  return info;
}

}  // namespace gshmem::bootstrap
