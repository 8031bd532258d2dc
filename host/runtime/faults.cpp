#include "host/runtime/faults.h"

#include "host/base/log.h"
#include "host/base/thread.h"
#include "host/runtime/fault.h"

#include <cstdio>
#include <cstring>
#include <utility>

namespace gshmem {
namespace {

/// How long to wait until a PE that has refused a request reports the fault itself.
constexpr double kPeerReportSeconds = 2;

}  // namespace

bool Faults::stopped() const noexcept {
  return __atomic_load_n(&state_.control->stop, __ATOMIC_ACQUIRE) != 0;
}

bool Faults::ends_waits() const noexcept { return state_.control != nullptr && stopped(); }

void Faults::require_complete(int status) const {
  if (status == GSHMEMX_SUCCESS) return;
  gshmemx_fault_t fault{};
  const bool known = last(&fault);
  throw Error(static_cast<gshmemx_status>(status), known ? fault.message : status_text(status));
}

bool Faults::ends_job() const noexcept {
  return state_.fault_policy == abi::FaultPolicy::kAbort &&
         !leaving_.load(std::memory_order_acquire);  // finalize always returns
}

void Faults::log_once() noexcept {
  abi::FaultRecord record;
  if (logged_ || !fault_read(state_.control, &record)) return;
  logged_ = true;
  const std::lock_guard lock(mutex_);
  if (by_host_.empty()) GSHMEM_ERROR("%s", text_(record).c_str());
}

void Faults::poll_record(bool on_gpu) noexcept {
  abi::FaultRecord record;
  if (!fault_read(state_.control, &record)) return;
  KnownTo known = KnownTo::kHere;
  {
    const std::lock_guard lock(mutex_);
    known = known_to_;
  }
  log_set_pe(state_.my_pe);
  if (ends_job() && __atomic_load_n(&state_.control->returned, __ATOMIC_ACQUIRE) == 0) {
    if (on_gpu) end_job();
    return;
  }
  log_once();
  if (ends_job()) return;
  // The peer knows more about the fault. But its thread may not be running.
  if (known == KnownTo::kByPeer && !peer_reports_) peer_reports_.emplace(kPeerReportSeconds);
  if (!peer_reports_ || peer_reports_->passed()) notify_peers();
}

void Faults::notify_peers() noexcept {
  gshmemx_fault_t fault{};
  if (!nic_path_ || !last(&fault)) return;
  {
    const std::lock_guard lock(mutex_);
    if (known_to_ == KnownTo::kByAll) return;
  }
  if (!peers_notified_.exchange(true)) plane_->monitor().stopped(fault.message);
}

void Faults::require_running() const {
  gshmemx_fault_t fault{};
  if (!nic_path_ || !stopped() || !last(&fault)) return;
  throw Error(static_cast<gshmemx_status>(fault.code),
              std::string("this PE is stopped by a fault: ") + fault.message);
}

/// A PE leaves on purpose only after all have entered finalize, or when it gave up waiting for
/// them.
void Faults::on_peer_news(const control::PeerNews& news) noexcept {
  using control::PeerEvent;
  if (news.event == PeerEvent::kExited) follow_exit(news);
  // A stopped PE does not enter the barrier of finalize.
  const bool gone = news.event == PeerEvent::kLeft || news.event == PeerEvent::kStopped;
  if (gone && leaving_.load(std::memory_order_acquire)) return;
  log_set_pe(state_.my_pe);
  const std::string text = plane_->text_of(news);
  // Later news may be an effect of the first.
  if (peer_failed_.exchange(true)) {
    GSHMEM_INFO("%s", text.c_str());
    return;
  }
  raise(Error(GSHMEMX_ERROR_PEER_FAILED, text), news.pe, KnownTo::kByAll);
}

void Faults::follow_exit(const control::PeerNews& news) noexcept {
  log_set_pe(state_.my_pe);
  const std::string text =
      strprintf("PE %d ends the job with status %d (gshmem_global_exit)", news.pe, news.status);
  GSHMEM_WARN("%s", text.c_str());
  boot_.abort(news.status, text);
  end_process(news.status);
}

void Faults::raise(const Error& error, int pe, KnownTo known) noexcept {
  abi::FaultRecord record{};
  record.code = error.code();
  record.pe = pe;
  const bool ends = ends_job();
  // This is logged before a waiting thread may see the fault and end the process.
  if (!ends) GSHMEM_ERROR("%s", error.what());
  {
    const std::lock_guard lock(mutex_);
    if (fault_record(state_.control, record)) {
      by_host_ = error.what();
      known_to_ = known;
    }
  }
  if (ends) end_job();
}

bool Faults::last(gshmemx_fault_t* info) const {
  abi::FaultRecord record;
  if (!fault_read(state_.control, &record)) return false;
  info->code = record.code;
  info->pe = record.pe;
  info->queue = record.queue;
  info->wqe_index = record.wqe_index;
  info->opcode = record.opcode;
  info->syndrome = record.syndrome;
  const std::lock_guard lock(mutex_);
  const std::string message = by_host_.empty() ? text_(record) : by_host_;
  std::snprintf(info->message, sizeof(info->message), "%s", message.c_str());
  return true;
}

void Faults::end_job() noexcept {
  gshmemx_fault_t info{};
  if (!last(&info)) std::strcpy(info.message, "stopped by a fault");
  {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(ending_logged_, true))
      log_last_line("%s (ending the job: GSHMEM_FAULT=abort)", info.message);
  }
  control::PeerNews mine{state_.my_pe, control::PeerEvent::kStopped, info.message};
  end_job_because(mine, info.pe, 1);
}

void Faults::global_exit(int status) noexcept {
  control::PeerNews mine{state_.my_pe, control::PeerEvent::kExited, "gshmem_global_exit", status};
  end_job_because(mine, -1, status);
}

/// The peers receive the cause before the launcher may end this process.
void Faults::end_job_because(const control::PeerNews& mine, int about, int status) noexcept {
  plane_->monitor().ending(mine, about == state_.my_pe ? -1 : about);
  boot_.abort(status, strprintf("PE %d ends the job with status %d: %s", state_.my_pe, status,
                                mine.why.c_str()));
  end_process(status);
}

}  // namespace gshmem
