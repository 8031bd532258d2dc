#include "bootstrap/uid/job.h"

#include <algorithm>

namespace gshmem::bootstrap {
namespace {

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

Failure refuse(const std::string& why) { return {GSHMEMX_ERROR_BOOTSTRAP, "refused: " + why}; }

constexpr std::uint32_t kMaxSize = 1 << 20;  // as GSHMEM_UID_SIZE

}  // namespace

Failure Job::join(const Hello& hello) {
  if (hello.cookie != cookie_)
    return refuse("the unique id belongs to another job, or GSHMEM_UID_SECRET differs");
  if (failure_) return failure_;
  if (hello.size == 0 || hello.size > kMaxSize || hello.rank >= hello.size)
    return refuse(strprintf("rank %u in a job of %u", hello.rank, hello.size));
  if (members_.empty()) members_.resize(hello.size);
  if (hello.size != members_.size()) {
    return refuse(strprintf("rank %u says the job has %u ranks, another says %zu", hello.rank,
                            hello.size, members_.size()));
  }
  Member& member = members_[hello.rank];
  if (member.joined) return refuse(strprintf("rank %u is in the job already", hello.rank));
  member.joined = true;
  ++joined_;
  if (hello.hosts_root && root_rank_ < 0) root_rank_ = static_cast<int>(hello.rank);
  if (complete()) tell_all(encode(Welcome{hello.size, root_rank_}));
  return {};
}

void Job::gather(int rank, const Gather& gather) {
  if (failure_) return;  // it crossed the news on its way
  if (!complete() || gather.number != done_ + 1 || members_[index(rank)].entered > done_) {
    return fail(
        {GSHMEMX_ERROR_INTERNAL, strprintf("rank %d sent collective %llu out of turn", rank,
                                           static_cast<unsigned long long>(gather.number))});
  }
  Collective& now = current_;
  if (now.contributions == 0) {
    now.operation = gather.operation;
    now.bytes = gather.data.size();
    now.first = rank;
  }
  if (gather.operation != now.operation || gather.data.size() != now.bytes) {
    return fail({GSHMEMX_ERROR_SYMMETRY,
                 strprintf("ranks disagree: rank %d is in bootstrap %s of %zu bytes, rank %d in "
                           "bootstrap %s of %zu bytes",
                           now.first, operation_name(now.operation), now.bytes, rank,
                           operation_name(gather.operation), gather.data.size())});
  }
  if (now.bytes > max_bytes()) {
    return fail({GSHMEMX_ERROR_BOOTSTRAP,
                 strprintf("bootstrap %s of %zu bytes per rank; at most %llu unless "
                           "GSHMEM_UID_SECRET tells this job's ranks from strangers",
                           operation_name(now.operation), now.bytes,
                           static_cast<unsigned long long>(max_bytes()))});
  }
  take(rank, gather);
  members_[index(rank)].entered = gather.number;
  if (++now.contributions == members_.size()) return finish_collective();
  check_gone();
}

/// Init brings less than a kilobyte for each rank.
std::uint64_t Job::max_bytes() const {
  constexpr std::uint64_t kKilobyte = 1024;
  return kind_ == CookieKind::kSecret ? kMaxGatherBytes : kKilobyte * (64 + members_.size());
}

/// One rank alone does not make the root allocate what all would bring.
void Job::take(int rank, const Gather& gather) {
  Collective& now = current_;
  if (now.contributions == 0 && members_.size() > 1) {
    now.first_data.assign(gather.data.begin(), gather.data.end());
    return;
  }
  const auto put = [&now](int from, ByteView data) {
    std::copy(data.begin(), data.end(),
              now.result.begin() +
                  static_cast<std::ptrdiff_t>(kResultDataOffset + index(from) * now.bytes));
  };
  if (now.result.empty()) {
    now.result = encode_result(gather.number, now.bytes * members_.size());
    put(now.first, std::exchange(now.first_data, {}));
  }
  put(rank, gather.data);
}

/// Of what every rank brought, each gets the part for it.
void Job::tell_parts() {
  const std::size_t n = members_.size(), bytes = current_.bytes / n;
  for (std::size_t to = 0; to < n; ++to) {
    Bytes frame = encode_result(done_ + 1, n * bytes);
    for (std::size_t from = 0; from < n; ++from) {
      std::copy_n(current_.result.data() + kResultDataOffset + from * current_.bytes + to * bytes,
                  bytes, frame.data() + kResultDataOffset + from * bytes);
    }
    tell(to, std::make_shared<const Bytes>(std::move(frame)));
  }
}

void Job::finish_collective() {
  if (current_.operation == Operation::kAlltoall) {
    tell_parts();
  } else {
    tell_all(std::move(current_.result));
  }
  current_ = {};
  ++done_;
}

void Job::leave(int rank) {
  members_[index(rank)].gone = true;
  ++gone_;
  if (!complete()) {
    fail({GSHMEMX_ERROR_PEER_FAILED, strprintf("rank %d left before all had joined", rank)});
  }
  check_gone();
}

void Job::lost(int rank, const std::string& why) {
  members_[index(rank)].gone = true;
  ++gone_;
  fail({GSHMEMX_ERROR_PEER_FAILED, strprintf("rank %d died: %s", rank, why.c_str())});
}

void Job::abort(int rank, const Abort& abort) {
  fail(failure_abort(rank, abort.code, abort.reason));
}

void Job::expired(const Expired& expired) {
  if (complete() && expired.number != done_ + 1) return;  // its answer is on the way
  const char* operation = complete() ? operation_name(current_.operation) : "init";
  Failure failure =
      failure_timeout(operation, static_cast<double>(expired.timeout_ms) / 1e3, missing());
  if (!note_.empty()) failure.text += "; " + note_;
  fail(failure);
}

void Job::check_gone() {
  if (current_.contributions == 0 || gone_ == 0) return;
  std::vector<int> gone;
  for (const int rank : missing()) {
    if (members_[index(rank)].gone) gone.push_back(rank);
  }
  if (gone.empty()) return;
  fail({GSHMEMX_ERROR_PEER_FAILED, rank_list(gone) +
                                       " left the job while others wait in bootstrap " +
                                       operation_name(current_.operation)});
}

void Job::fail(const Failure& failure) {
  if (failure_) return;
  failure_ = failure;
  tell_all(encode(Fail{static_cast<std::uint32_t>(failure.code), failure.text}));
}

void Job::tell_all(Bytes frame) {
  const auto shared = std::make_shared<const Bytes>(std::move(frame));
  for (std::size_t r = 0; r < members_.size(); ++r) tell(r, shared);
}

void Job::tell(std::size_t rank, const Frame& frame) {
  if (members_[rank].joined && !members_[rank].gone)
    outgoing_.emplace_back(static_cast<int>(rank), frame);
}

std::vector<int> Job::missing() const {
  std::vector<int> ranks;
  for (std::size_t r = 0; r < members_.size(); ++r) {
    const bool here = complete() ? members_[r].entered > done_ : members_[r].joined;
    if (!here) ranks.push_back(static_cast<int>(r));
  }
  return ranks;
}

}  // namespace gshmem::bootstrap
