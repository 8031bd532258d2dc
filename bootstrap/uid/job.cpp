#include "bootstrap/uid/job.h"

#include "bootstrap/bootstrap.h"

#include <algorithm>

namespace gshmem::bootstrap {
namespace {

using net::Frame;
using net::FrameHeader;
using net::FrameKind;

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

JobFailure refuse(const std::string& why) { return {GSHMEMX_ERROR_BOOTSTRAP, "refused: " + why}; }

const char* operation_of(std::uint64_t bytes) { return bytes == 0 ? "barrier" : "allgather"; }

constexpr std::uint64_t kMaxSize = 1 << 20;  // the limit of GSHMEM_UID_SIZE

}  // namespace

JobFailure Job::join(const Frame& hello) {
  const FrameHeader header = net::header_of(hello);
  if (failure_) return failure_;
  const std::uint64_t size = header.number;
  if (header.rank < 0 || size > kMaxSize || static_cast<std::uint64_t>(header.rank) >= size) {
    return refuse(strprintf("rank %d in a job of %lu", header.rank, size));
  }
  if (members_.empty()) {
    members_.resize(size);
    gathering_ = net::Gathering(size);
  }
  if (size != members_.size()) {
    return refuse(
        strprintf("rank %d says the job has %lu ranks, another says %zu (is "
                  "GSHMEM_UID_SIZE, or the number of ranks at init, the same for all?)",
                  header.rank, size, members_.size()));
  }
  Member& member = members_[index(header.rank)];
  if (member.joined) return refuse(strprintf("rank %d is in the job already", header.rank));
  member.joined = true;
  ++joined_;
  if ((header.detail & net::kHostsRoot) != 0) root_rank_ = header.rank;
  if (!note_.empty())
    outgoing_.emplace_back(header.rank, net::make_frame({.kind = FrameKind::kNote}, note_));
  if (complete())
    send_to_all(net::make_frame({.kind = FrameKind::kWelcome, .number = size, .rank = root_rank_}));
  return {};
}

void Job::contribute(int rank, const Frame& contribution) {
  if (failure_) return;  // it was sent before the rank received the news
  const FrameHeader header = net::header_of(contribution);
  if (header.bytes > kMaxBytes) {
    return fail({GSHMEMX_ERROR_BOOTSTRAP,
                 strprintf("rank %d brings %lu bytes to a collective of the bootstrap; at most %zu",
                           rank, header.bytes, kMaxBytes)});
  }
  if (!complete() || !gathering_.put(index(rank), contribution)) {
    return fail({GSHMEMX_ERROR_INTERNAL,
                 strprintf("rank %d sent collective %lu out of turn", rank, header.number)});
  }
  if (first_ < 0) first_ = rank;
  const std::uint64_t bytes = net::header_of(gathering_.contributions()[index(first_)]).bytes;
  if (header.bytes != bytes) {
    return fail({GSHMEMX_ERROR_SYMMETRY,
                 strprintf("ranks disagree: rank %d is in bootstrap %s of %lu bytes, rank %d in "
                           "bootstrap %s of %lu bytes",
                           first_, operation_of(bytes), bytes, rank, operation_of(header.bytes),
                           header.bytes)});
  }
  if (gathering_.complete()) return finish_collective();
  check_gone();
}

void Job::finish_collective() {
  net::Bytes all;
  for (const Frame& frame : gathering_.contributions()) {
    const net::ByteView data = net::payload_of(frame);
    all.insert(all.end(), data.begin(), data.end());
  }
  send_to_all(net::make_frame({.kind = FrameKind::kResult, .number = gathering_.number()}, all));
  gathering_.finish();
  first_ = -1;
}

void Job::leave(int rank) {
  members_[index(rank)].gone = true;
  ++gone_;
  if (!complete())
    fail({GSHMEMX_ERROR_PEER_FAILED, strprintf("rank %d left before all had joined", rank)});
  check_gone();
}

void Job::lost(int rank, const std::string& why) {
  members_[index(rank)].gone = true;
  ++gone_;
  fail({GSHMEMX_ERROR_PEER_FAILED, strprintf("rank %d died: %s", rank, why.c_str())});
}

void Job::expired(std::uint64_t number, double seconds) {
  if (complete() && number != gathering_.number()) return;  // the answer is on its way
  JobFailure failure = failure_timeout(complete() ? operation() : "init", seconds, missing());
  if (!note_.empty()) failure.text += "; " + note_;
  if (!complete() && !where_.empty()) failure.text += "; " + where_;
  fail(failure);
}

void Job::note(const std::string& reason) {
  if (reason == note_) return;
  note_ = reason;
  constexpr int kMostTold = 8;  // strangers may cause any number of notes
  if (!complete() && ++notes_ <= kMostTold)
    send_to_all(net::make_frame({.kind = FrameKind::kNote}, note_));
}

void Job::check_gone() {
  if (first_ < 0 || gone_ == 0) return;
  std::vector<int> gone;
  for (const int rank : missing()) {
    if (members_[index(rank)].gone) gone.push_back(rank);
  }
  if (gone.empty()) return;
  fail({GSHMEMX_ERROR_PEER_FAILED,
        rank_list(gone) + " left the job while others wait in bootstrap " + operation()});
}

void Job::fail(const JobFailure& failure) {
  if (failure_) return;
  failure_ = failure;
  send_to_all(net::make_frame(
      {.kind = FrameKind::kFail, .detail = static_cast<std::uint32_t>(failure.code)},
      failure.text));
}

void Job::send_to_all(const Frame& frame) {
  for (std::size_t r = 0; r < members_.size(); ++r) {
    if (members_[r].joined && !members_[r].gone) outgoing_.emplace_back(static_cast<int>(r), frame);
  }
}

std::vector<int> Job::missing() const {
  std::vector<int> ranks;
  for (std::size_t r = 0; r < members_.size(); ++r) {
    if (!(complete() ? gathering_.has(r) : members_[r].joined))
      ranks.push_back(static_cast<int>(r));
  }
  return ranks;
}

/// Returns the name of the operation that other ranks wait in.
const char* Job::operation() const {
  return first_ < 0 ? "barrier"
                    : operation_of(net::header_of(gathering_.contributions()[index(first_)]).bytes);
}

}  // namespace gshmem::bootstrap
