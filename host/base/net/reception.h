// Takes in the processes that are to call, whatever else calls: they come with a kHello, and what
// does not say one in time is hung up on. Included by whatever listens: the root service of a
// unique id, a host's first PE, PEs of one host. Invariant: strangers cost this process a few
// descriptors for a few seconds and nothing else. A caller that is refused is told why. Where there
// is a secret, nobody is judged or taken before it has proved that it knows it (greeting.h).
#pragma once

#include "host/base/deadline.h"
#include "host/base/fd.h"
#include "host/base/failure.h"
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
  /// Who may come in: a JobFailure says why not.
  using Judge = std::function<JobFailure(const Stream& caller, const Frame& hello)>;
  using Take = std::function<void(Stream caller, const FrameHeader& hello)>;
  struct Secret {
    std::string text;
    /// A caller that says this does not know it.
    std::function<void(const Stream& caller, const FrameHeader& hello)> on_stranger;
  };
  Reception(std::vector<Fd> listeners, Judge judge, Take take,
            std::optional<Secret> secret = std::nullopt)
      : listeners_(std::move(listeners)),
        judge_(std::move(judge)),
        take_(std::move(take)),
        secret_(std::move(secret)) {}

  /// Waits for callers and serves them, until something has happened or `deadline` has passed.
  /// True when there is something to read from `also`, which may be empty.
  bool wait(const Deadline& deadline, const Fd& also = Fd());

  // For a loop of the owner's, in the place of wait.
  /// Appends what is to be polled.
  void add_to(std::vector<pollfd>& entries);
  /// After poll(2): `entries` are those of add_to. `judge` and `take` are called in here.
  void serve(const pollfd* entries);
  /// When serve is to be called although nothing happens; -1 = need not be.
  [[nodiscard]] int poll_ms() const;

  /// Nobody else is to come.
  void close();
  [[nodiscard]] bool listens() const { return !listeners_.empty(); }
  /// What has kept this process from taking a caller in just now.
  [[nodiscard]] const std::string& shortage() const { return shortage_; }

 private:
  struct Caller {
    explicit Caller(Fd fd) : stream(std::move(fd), {FrameKind::kHello}) {}
    Stream stream;
    Deadline until{kHandshakeSeconds};
    Frame hello;           ///< of one that has been challenged ...
    Cookie nonce{};        ///< ... with this
    bool refused = false;  ///< has been told why; stays until it hangs up
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
  std::optional<Secret> secret_;
  std::deque<Caller> callers_;  ///< oldest first
  std::size_t polled_listeners_ = 0, polled_callers_ = 0;
  bool paused_ = false;  ///< does not listen for a moment
  std::string shortage_;
};

}  // namespace gshmem::net
