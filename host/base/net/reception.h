// Accepts the connections of the processes that are expected, among those of strangers. Callers
// begin with a kHello; a caller that does not send one in time is disconnected. Included by
// everything that listens: the root service of a unique id, a host's first PE, PEs of one host.
// Invariant: strangers cost this process a few descriptors for a few seconds and nothing else. A
// caller that is refused is told the reason. If there is a secret, no caller is judged or accepted
// before it has proved that it knows the secret (greeting.h).
#pragma once

#include "host/base/deadline.h"
#include "host/base/fd.h"
#include "host/base/failure.h"
#include "host/base/net/greeting.h"
#include "host/base/net/socket.h"
#include "host/base/net/stream.h"

#include <poll.h>

#include <deque>
#include <functional>
#include <optional>
#include <string>

namespace gshmem::net {

class Reception {
 public:
  /// Decides who may come in: a JobFailure has the reason for a refusal.
  using Judge = std::function<JobFailure(const Stream& caller, const Frame& hello)>;
  using Take = std::function<void(Stream caller, const FrameHeader& hello)>;
  struct Guard {
    Secret secret;
    /// Is called for a caller that claims that this side does not know the secret.
    std::function<void(const Stream& caller, const FrameHeader& hello)> on_stranger;
  };
  Reception(std::vector<Fd> listeners, Judge judge, Take take,
            std::optional<Guard> guard = std::nullopt)
      : listeners_(std::move(listeners)),
        judge_(std::move(judge)),
        take_(std::move(take)),
        guard_(std::move(guard)) {}

  /// Waits for callers and serves them, until something has happened or `deadline` has passed.
  /// Returns true when `also`, which may be empty, is readable.
  bool wait(const Deadline& deadline, const Fd& also = Fd());

  // For owners that have a loop of their own, instead of wait.
  /// Appends the descriptors to poll.
  void add_to(std::vector<pollfd>& entries);
  /// Call this after poll(2): `entries` are those of add_to. `judge` and `take` are called from
  /// here.
  void serve(const pollfd* entries);
  /// Returns when serve must be called even if no event occurs; -1 = never.
  [[nodiscard]] int poll_ms() const;

  /// Stops listening: no more callers are expected.
  void close();
  [[nodiscard]] bool listens() const { return !listeners_.empty(); }
  /// Returns what has kept this process from accepting a caller just now.
  [[nodiscard]] const std::string& shortage() const { return shortage_; }

 private:
  struct Caller {
    explicit Caller(Fd fd) : stream(std::move(fd), {FrameKind::kHello}) {}
    Stream stream;
    Deadline until{kHandshakeSeconds};
    Frame hello;           ///< the hello of a caller that has been challenged ...
    Cookie nonce{};        ///< ... with this nonce
    bool refused = false;  ///< it has been told the reason; stays until it disconnects
    bool done = false;
  };
  void accept_all(std::size_t listener);
  void greet(Caller& caller);
  void challenge(Caller& caller, const Frame& hello);
  [[nodiscard]] JobFailure judge(const Caller& caller, const Frame& frame);
  void refuse(Caller& caller, const JobFailure& why);
  [[nodiscard]] bool drop_oldest();

  std::vector<Fd> listeners_;
  Judge judge_;
  Take take_;
  std::optional<Guard> guard_;
  std::deque<Caller> callers_;  ///< oldest first
  std::size_t polled_listeners_ = 0, polled_callers_ = 0;
  bool paused_ = false;  ///< does not accept for a moment
  std::string shortage_;
};

}  // namespace gshmem::net
