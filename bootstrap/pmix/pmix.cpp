// Rank and size come from the launcher's server; allgather is put + fence + get.
//
// A collecting fence exchanges everything that its ranks have ever put, not only new values. So the
// cost of a call grows with the bytes gathered before it. The first addresses of a job are few
// enough for that. Erasing a value by putting a shorter one under the old key does not work: PMIx
// 4.2.2's shared-memory store (gds ds21) then loses other keys ("NOT-FOUND" within 10 to 120
// fences; the hash store is right).
//
// Every fence collects data, barriers included. Slurm 22.05's plain fence returns before the ranks
// of other nodes have arrived (tests/bootstrap, late rank on two nodes); its collecting fence does
// not. A fence that reports success does not prove that every rank took part: servers complete it
// without ranks that have died in the meantime. So a barrier is an allgather, too, and the value of
// a rank that did not take part is not found. A fence that does not report success is fatal.
#include "bootstrap/bootstrap.h"
#include "bootstrap/pmix/api.h"
#include "host/base/at_fork.h"
#include "host/base/config.h"
#include "host/base/failure.h"
#include "host/base/log.h"
#include "host/base/thread.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <iterator>
#include <mutex>
#include <optional>

namespace gshmem::bootstrap {
namespace {

constexpr double kAbortSeconds = 5;
constexpr double kVerdictSeconds = 2;

/// Number of values that all ranks have exchanged; it is the name of the next one. PMIx never
/// forgets a key, so the count continues after a new initialization. All ranks make the same
/// collectives, and a collective whose fence fails counts on none of them. So all ranks have the
/// same count.
std::atomic<std::uint64_t> values_exchanged{0};
/// The data that this rank has put under the name of the next value.
std::optional<std::vector<char>> next_value;

/// The shared-memory store of these versions returns values of other keys. With 5.0.1 of Ubuntu
/// 24.04 every second value over two hosts was wrong. Their other store is right.
// For example "OpenPMIx 5.0.1a1 (PMIx Standard: ...".
bool shares_wrong_values(std::string_view version) {
  for (const char* of : {" 5.0.0", " 5.0.1", " 5.0.2"}) {
    const std::size_t at = version.find(of);
    if (at == std::string_view::npos) continue;
    const std::string_view rest = version.substr(at + std::strlen(of));
    return rest.empty() || rest[0] < '0' || rest[0] > '9';
  }
  return false;
}

std::string key_of(std::uint64_t value) { return "gshmem." + std::to_string(value); }

/// The function to call when the connection to the launcher's server is lost. Handlers stay
/// registered with PMIx. They run on a PMIx thread, in which no call of PMIx may wait.
struct Lost {
  std::mutex mutex;
  std::function<void(const std::string& why)> call;
};
Lost& lost() {
  static auto* const instance = new Lost;  // PMIx's thread may outlive all other objects
  return *instance;
}

void on_lost_server(std::size_t, pmix_status_t, const pmix_proc_t*, pmix_info_t*, std::size_t,
                    pmix_info_t*, std::size_t, pmix_event_notification_cbfunc_fn_t done,
                    void* data) {
  start_thread([] {
    const std::lock_guard lock(lost().mutex);
    if (lost().call) lost().call("the launcher has ended: its PMIx server is gone");
  }).detach();
  if (done != nullptr) done(PMIX_EVENT_ACTION_COMPLETE, nullptr, 0, nullptr, nullptr, data);
}

/// This process's single reference to PMIx. The first bootstrap takes it, and process exit returns
/// it. PMIx 5.0.11 crashes in its second PMIx_Finalize (hwloc assertion, seen with two bootstraps
/// one after the other under Open MPI 5). PMIx counts references, so an MPI library in this process
/// keeps its own.
class Session {
 public:
  /// Errors: GSHMEMX_ERROR_BOOTSTRAP, _TIMEOUT; the next call tries again.
  [[nodiscard]] static const Session& get(double timeout_seconds) {
    static const Session session(pmix_api(), timeout_seconds);
    require(session.forks_ == fork_count(), GSHMEMX_ERROR_NOT_SUPPORTED,
            strprintf("this process was forked from rank %u of a PMIx job, and the launcher's "
                      "server does not know it; choose another GSHMEM_BOOTSTRAP for it",
                      session.me_.rank));
    return session;
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() {
    // A forked child that exits must not finalize PMIx on behalf of its parent. Nothing is logged
    // here: the logger may be destroyed already.
    if (forks_ == fork_count()) (void)api_.finalize(nullptr, 0);
  }
  [[nodiscard]] const pmix_proc_t& me() const noexcept { return me_; }

 private:
  Session(const PmixApi& api, double timeout_seconds) : api_(api) {
    // This has no effect if an MPI library has initialized PMIx before. In that case copy_value
    // detects wrong values.
    if (shares_wrong_values(api.version())) env_set_default("PMIX_MCA_gds", "hash");
    const pmix_status_t status = pmix_init(api, Deadline(timeout_seconds), &me_);
    require(status != PMIX_ERR_TIMEOUT, GSHMEMX_ERROR_TIMEOUT,
            strprintf("the launcher's PMIx server did not answer within %g s "
                      "(GSHMEM_BOOTSTRAP_TIMEOUT)",
                      timeout_seconds));
    require(status == PMIX_SUCCESS, GSHMEMX_ERROR_BOOTSTRAP,
            strprintf("not started by a PMIx launcher: PMIx_Init says %s (%d); start with mpirun "
                      "or srun --mpi=pmix, or choose another GSHMEM_BOOTSTRAP",
                      api.error_string(status), status));
    static pmix_status_t gone[] = {PMIX_ERR_LOST_CONNECTION, kLostConnectionToServer};
    api.register_event_handler(gone, std::size(gone), nullptr, 0, on_lost_server, nullptr, nullptr);
  }

  /// PMIx before version 5 has this code; later headers list it among deprecated names.
  static constexpr pmix_status_t kLostConnectionToServer = -101;

  const PmixApi& api_;
  std::uint32_t forks_ = fork_count();
  pmix_proc_t me_{};
};

class Pmix final : public Bootstrap {
 public:
  ~Pmix() override { on_lost({}); }
  explicit Pmix(double timeout_seconds) : timeout_seconds_(timeout_seconds) {
    PmixValue size;
    check(pmix_get(api_, everyone(), PMIX_JOB_SIZE, Deadline(timeout_seconds), &size),
          "asking the PMIx server for the job size");
    size_ = static_cast<int>(size.number);
    require(rank() >= 0 && rank() < size_, GSHMEMX_ERROR_BOOTSTRAP,
            strprintf("PMIx gives rank %d in a job of %d", rank(), size_));
    GSHMEM_DEBUG("bootstrap pmix: rank %d of %d in %s, %s", rank(), size_, session_.me().nspace,
                 api_.version());
    // The data of this first fence is the same in every attempt, so ranks that gave up can try
    // again.
    if (size_ > 1) synchronize("init", Deadline(timeout_seconds));
  }

  int rank() const noexcept override { return static_cast<int>(session_.me().rank); }
  int size() const noexcept override { return size_; }
  const char* name() const noexcept override { return "pmix"; }

  void allgather(const void* send, void* recv, std::size_t bytes) override {
    if (failure_) failure_.raise();
    if (size_ == 1) {
      std::copy_n(static_cast<const std::byte*>(send), bytes, static_cast<std::byte*>(recv));
      return;
    }
    require(bytes <= kMaxBytes, GSHMEMX_ERROR_INVALID_VALUE,
            strprintf("bootstrap allgather of %zu bytes per rank; at most %zu", bytes, kMaxBytes));
    const Deadline deadline(timeout_seconds_);
    if (bytes == 0) return synchronize("barrier", deadline);
    gather("allgather", static_cast<const std::byte*>(send), static_cast<std::byte*>(recv), bytes,
           deadline);
  }

  void on_lost(std::function<void(const std::string& why)> call) override {
    const std::lock_guard lock(lost().mutex);
    lost().call = std::move(call);
  }

  void abort(int code, std::string_view reason) noexcept override try {
    const std::string text = strprintf("rank %d aborted the job (code %d): %.*s", rank(), code,
                                       static_cast<int>(reason.size()), reason.data());
    pmix_abort(
        api_, code, text,
        Deadline(timeout_seconds_ > 0 ? std::min(timeout_seconds_, kAbortSeconds) : kAbortSeconds));
  } catch (const std::exception& error) {
    GSHMEM_ERROR("PMIx_Abort was not called: %s", error.what());
  }

 private:
  void synchronize(const char* operation, const Deadline& deadline) {
    const std::byte here{1};
    std::vector<std::byte> all(static_cast<std::size_t>(size_));
    gather(operation, &here, all.data(), 1, deadline);
  }

  void gather(const char* operation, const std::byte* send, std::byte* recv, std::size_t bytes,
              const Deadline& deadline) {
    const std::uint64_t number = values_exchanged.load(std::memory_order_relaxed);
    put(number, send, bytes);
    fence(operation, deadline);
    struct Answer {
      pmix_status_t status;
      PmixValue value;
    };
    std::vector<Answer> answers(static_cast<std::size_t>(size_));
    for (int r = 0; r < size_; ++r) {
      Answer& answer = answers[static_cast<std::size_t>(r)];
      const auto who = pmix_proc(session_.me().nspace, static_cast<pmix_rank_t>(r));
      answer.status = pmix_get(api_, who, key_of(number), deadline, &answer.value);
      // Some servers complete a fence before all ranks have arrived (PMIx 5.0.1). It counts on no
      // rank, like a failed fence.
      if (answer.status == PMIX_ERR_TIMEOUT) time_out(operation, {r});
    }
    next_value.reset();
    // This number is only a name, and orders nothing.
    values_exchanged.store(number + 1, std::memory_order_relaxed);
    for (int r = 0; r < size_; ++r, recv += bytes) {
      const Answer& answer = answers[static_cast<std::size_t>(r)];
      const std::string what = strprintf("bootstrap %s: reading the data of rank %d", operation, r);
      check(answer.status, what);
      copy_value(answer.value.bytes, number, recv, bytes, operation, r);
    }
  }

  /// A store may return the value of another key (shares_wrong_values), so each value begins with
  /// its number.
  void copy_value(const std::vector<std::byte>& value, std::uint64_t number, std::byte* recv,
                  std::size_t bytes, const char* operation, int r) {
    std::uint64_t found = ~number;
    if (value.size() >= sizeof(found)) std::memcpy(&found, value.data(), sizeof(found));
    require(
        found == number, GSHMEMX_ERROR_BOOTSTRAP,
        strprintf("bootstrap %s: PMIx gives another value of rank %d than was asked for (%s); set "
                  "PMIX_MCA_gds=hash for all ranks, or take GSHMEM_BOOTSTRAP=uid",
                  operation, r, api_.version()));
    require(value.size() - sizeof(found) == bytes, GSHMEMX_ERROR_SYMMETRY,
            strprintf("bootstrap %s of %zu bytes, but rank %d passes %zu", operation, bytes, r,
                      value.size() - sizeof(found)));
    std::memcpy(recv, value.data() + sizeof(found), bytes);
  }

  /// After a failed fence the value has been put already. It is not put again: stores lose a value
  /// that is put twice.
  void put(std::uint64_t number, const std::byte* data, std::size_t bytes) {
    std::vector<char> copy(sizeof(number) + bytes);  // PMIx takes a non-const pointer
    std::memcpy(copy.data(), &number, sizeof(number));
    std::memcpy(copy.data() + sizeof(number), data, bytes);
    if (next_value) {
      require(*next_value == copy, GSHMEMX_ERROR_BOOTSTRAP,
              "an earlier init failed on some ranks only, and PMIx does not accept a value twice; "
              "start the job again");
      return;
    }
    next_value = copy;
    pmix_value_t value{};
    value.type = PMIX_BYTE_OBJECT;
    value.data.bo.bytes = copy.data();
    value.data.bo.size = copy.size();
    check(api_.put(PMIX_GLOBAL, key_of(number).c_str(), &value), "bootstrap allgather: PMIx_Put");
    check(api_.commit(), "bootstrap allgather: PMIx_Commit");
  }

  /// After a timeout the server's answer is awaited for a while, since it withdraws this rank's
  /// arrival. Otherwise a rank that gave up would count twice when it tries again, and stand in for
  /// a missing rank.
  void fence(const char* operation, const Deadline& deadline) {
    std::vector<pmix_info_t> directives{pmix_info_flag(PMIX_COLLECT_DATA)};
    Deadline verdict = deadline;
    if (!deadline.never()) {
      const int whole_seconds = static_cast<int>(deadline.seconds_left()) + 1;
      directives.push_back(pmix_info_int(PMIX_TIMEOUT, whole_seconds));
      verdict = Deadline(whole_seconds + kVerdictSeconds);
    }
    const pmix_status_t status = pmix_fence(api_, everyone(), directives, verdict);
    if (status == PMIX_ERR_TIMEOUT) time_out(operation, ranks_without_value());
    check(status, std::string("bootstrap ") + operation + ": PMIx_Fence");
  }

  /// Returns the ranks whose next value the server does not have: they have not entered the fence.
  /// Returns no rank if the server has no value at all, not even this rank's, since it does not
  /// answer then.
  [[nodiscard]] std::vector<int> ranks_without_value() const {
    const std::string key = key_of(values_exchanged.load(std::memory_order_relaxed));
    std::vector<pmix_proc_t> all;
    for (int r = 0; r < size_; ++r)
      all.push_back(pmix_proc(session_.me().nspace, static_cast<pmix_rank_t>(r)));
    const std::vector<bool> is_there = pmix_has(api_, all, key, Deadline(kVerdictSeconds));
    std::vector<int> missing;
    for (int r = 0; r < size_; ++r)
      if (!is_there[static_cast<std::size_t>(r)]) missing.push_back(r);
    return std::ranges::find(missing, rank()) == missing.end() ? missing : std::vector<int>();
  }

  void time_out(const char* operation, const std::vector<int>& missing) {
    failure_ = failure_timeout(operation, timeout_seconds_, missing);
    failure_.raise();
  }

  /// Any status but success ends this bootstrap: later calls fail in the same way.
  void check(pmix_status_t status, const std::string& what) {
    if (status == PMIX_SUCCESS) return;
    const bool peer = status == PMIX_ERR_PARTIAL_SUCCESS || status == PMIX_ERR_PROC_TERM_WO_SYNC ||
                      status == PMIX_ERR_LOST_CONNECTION;
    const auto code = status == PMIX_ERR_TIMEOUT ? GSHMEMX_ERROR_TIMEOUT
                      : peer                     ? GSHMEMX_ERROR_PEER_FAILED
                                                 : GSHMEMX_ERROR_BOOTSTRAP;
    failure_ = {code, what + ": " + api_.error_string(status) +
                          (peer ? " (another rank or the launcher ended)" : "")};
    failure_.raise();
  }

  [[nodiscard]] pmix_proc_t everyone() const {
    return pmix_proc(session_.me().nspace, PMIX_RANK_WILDCARD);
  }

  const PmixApi& api_ = pmix_api();
  double timeout_seconds_;
  const Session& session_ = Session::get(timeout_seconds_);
  int size_ = 0;
  JobFailure failure_;
};

}  // namespace

std::unique_ptr<Bootstrap> create_pmix(const Config& config) {
  return std::make_unique<Pmix>(config.bootstrap_timeout);
}

}  // namespace gshmem::bootstrap
