#include "host/base/net/reception.h"

#include "host/base/net/socket.h"
#include "host/base/random.h"
#include "host/base/system_call.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace gshmem::net {
namespace {

constexpr int kPauseMs = 100;  // pause when the process is out of descriptors

}  // namespace

bool Reception::wait(const Deadline& deadline, const Fd& also) {
  std::vector<pollfd> entries{polled(also.get(), POLLIN)};
  add_to(entries);
  poll_once(entries, sooner_ms(poll_ms(), deadline.poll_ms()));
  serve(entries.data() + 1);
  return entries[0].revents != 0;
}

void Reception::add_to(std::vector<pollfd>& entries) {
  for (const Fd& listener : listeners_)
    entries.push_back(polled(paused_ ? -1 : listener.get(), POLLIN));
  for (const Caller& caller : callers_)
    entries.push_back(polled(caller.stream.fd().get(), caller.stream.poll_events()));
  polled_listeners_ = listeners_.size();
  polled_callers_ = callers_.size();
}

void Reception::serve(const pollfd* entries) {
  paused_ = false;
  shortage_.clear();
  for (std::size_t i = 0; i < polled_callers_; ++i) {
    if (entries[polled_listeners_ + i].revents != 0) greet(callers_[i]);
  }
  for (std::size_t i = 0; i < listeners_.size(); ++i) {  // greet may have closed the listeners
    if (entries[i].revents != 0) accept_all(i);
  }
  std::erase_if(callers_, [this](const Caller& caller) {
    return caller.done || caller.until.passed() || (!listens() && !caller.refused);
  });
}

int Reception::poll_ms() const {
  int least = paused_ ? kPauseMs : -1;
  for (const Caller& caller : callers_) least = sooner_ms(least, caller.until.poll_ms());
  return least;
}

void Reception::close() { listeners_.clear(); }

/// `listener` is an index into listeners_, which may be empty afterwards.
void Reception::accept_all(std::size_t listener) {
  while (listens()) {
    // Callers that have been challenged need a moment; other callers are dropped to make room for
    // new ones.
    paused_ = callers_.size() > stranger_limit() && !drop_oldest();
    if (paused_) return;
    Fd fd = accept_from(listeners_[listener]);
    if (!fd) {
      const int error = errno;
      // A second accept would find the same connection and fail in the same way, in an endless
      // loop.
      if (!is_shortage(error) || drop_oldest()) return;
      shortage_ = std::string("accept4: ") + std::strerror(error) + "; " + descriptor_limit_text();
      paused_ = true;
      return;
    }
    // A caller of this job is accepted at once, before it could be dropped to make room.
    callers_.emplace_back(std::move(fd));
    greet(callers_.back());
    if (callers_.back().done) callers_.pop_back();
    if (callers_.size() > stranger_limit()) (void)drop_oldest();
  }
}

/// Drops the oldest caller that has not been challenged.
bool Reception::drop_oldest() {
  const auto oldest = std::ranges::find_if(
      callers_, [](const Caller& caller) { return !caller.done && caller.hello == nullptr; });
  if (oldest == callers_.end()) return false;
  callers_.erase(oldest);
  return true;
}

void Reception::challenge(Caller& caller, const Frame& hello) {
  caller.hello = hello;
  caller.nonce = random_bits<Cookie>();
  caller.stream.accept_only({FrameKind::kProof, FrameKind::kFail});
  caller.stream.queue(challenge_to(hello, guard_->secret, caller.nonce));
  caller.stream.send_some();
}

JobFailure Reception::judge(const Caller& caller, const Frame& frame) {
  if (!guard_) return judge_(caller.stream, frame);
  const bool proves =
      header_of(frame).kind == FrameKind::kProof &&
      same_digest(proof_of(Side::kCaller, guard_->secret, caller.hello, caller.nonce),
                  payload_of(frame));
  if (proves) return judge_(caller.stream, caller.hello);
  guard_->on_stranger(caller.stream, header_of(caller.hello));
  return {GSHMEMX_ERROR_BOOTSTRAP,
          "refused: the unique id belongs to another job, or GSHMEM_UID_SECRET differs"};
}

void Reception::greet(Caller& caller) {
  Stream& stream = caller.stream;
  stream.send_some();
  while (const Frame frame = stream.receive()) {
    caller.done = caller.refused;  // ends a caller that continues although it was refused
    if (caller.done) return;
    if (guard_ && caller.hello == nullptr) {
      challenge(caller, frame);
      continue;
    }
    const JobFailure why = judge(caller, frame);
    if (!why) {
      caller.done = true;
      return take_(std::move(stream), header_of(guard_ ? caller.hello : frame));
    }
    caller.hello = nullptr;  // it may be dropped to make room for others
    refuse(caller, why);
  }
  if (stream.state() == Stream::State::kOpen) return;
  if (stream.state() != Stream::State::kOtherVersion || caller.refused) {
    caller.done = true;
    return;
  }
  refuse(caller, {GSHMEMX_ERROR_BOOTSTRAP,
                  strprintf("refused: the caller's protocol has version %d, this process's %d",
                            stream.other_version(), int{FrameHeader::kVersion})});
}

void Reception::refuse(Caller& caller, const JobFailure& why) {
  caller.refused = true;
  caller.stream.queue(make_frame(
      {.kind = FrameKind::kFail, .detail = static_cast<std::uint32_t>(why.code)}, why.text));
  caller.stream.send_some();
}

}  // namespace gshmem::net
