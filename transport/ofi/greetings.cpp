#include "transport/ofi/greetings.h"

#include "transport/ofi/verdict.h"

#include <rdma/fi_rma.h>

#include <algorithm>

namespace gshmem::ofi {

Greetings::Greetings(Lanes& lanes, const LaneMemory& memory, std::uint64_t landing, std::size_t pes)
    : lanes_(lanes),
      memory_(memory),
      landing_(memory.base + landing),
      known_(pes),
      unanswered_(pes) {}

void Greetings::expect(Peer& peer) {
  const auto pe = static_cast<std::size_t>(peer.pe);
  if (known_[pe]) return;
  known_[pe] = true;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (std::size_t lane = 0; lane < lanes_.count(); ++lane) {
    Greeting& greeting = all_.emplace_back();
    greeting.sink = this;
    greeting.peer = &peer;
    greeting.lane = lane;
    new_.push_back(&greeting);
    ++unanswered_[pe];
    ++left_;
  }
  any_new_.store(true, std::memory_order_relaxed);  // the lock orders the rest
}

void Greetings::wait(Clock::duration patience) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto ended = [this] { return left_ == 0 || !failure_.empty(); };
  if (patience.count() > 0)
    changed_.wait_until(lock, Clock::now() + patience, ended);
  else
    changed_.wait(lock, ended);
  require(failure_.empty(), GSHMEMX_ERROR_PEER_FAILED, failure_);
  const auto silent = std::find_if(unanswered_.begin(), unanswered_.end(),
                                   [](std::size_t greetings) { return greetings > 0; });
  require(silent == unanswered_.end(), GSHMEMX_ERROR_TIMEOUT, [&] {
    return strprintf(
        "PE %td has not answered over %s for %g s (GSHMEM_BOOTSTRAP_TIMEOUT, GSHMEM_TIMEOUT)",
        silent - unanswered_.begin(), lanes_.first().info().fabric_attr->prov_name,
        std::chrono::duration<double>(patience).count());
  });
}

bool Greetings::progress() {
  if (any_new_.load(std::memory_order_relaxed)) {
    const std::lock_guard<std::mutex> lock(mutex_);
    to_send_.insert(to_send_.end(), new_.begin(), new_.end());
    new_.clear();
    any_new_.store(false, std::memory_order_relaxed);
  }
  if (to_send_.empty()) return false;
  // What ends unsuccessfully within a call comes back to the list.
  std::vector<Greeting*> turn;
  turn.swap(to_send_);
  const std::size_t before = turn.size();
  std::erase_if(turn, [this](Greeting* greeting) { return send(*greeting); });
  to_send_.insert(to_send_.end(), turn.begin(), turn.end());
  return turn.size() < before;
}

bool Greetings::send(Greeting& greeting) {
  const Way& way = greeting.peer->ways[greeting.lane];
  const ssize_t result =
      fi_read(lanes_[greeting.lane].endpoint(), landing_, sizeof(std::uint64_t),
              memory_.descriptors[greeting.lane], way.address, greeting.peer->probe_base,
              way.probe_key, static_cast<Context*>(&greeting));
  if (result == 0) return true;
  if (result == -FI_EAGAIN) return false;
  const std::string text = Library::get().text(result);
  completed(greeting, {.error = static_cast<int>(-result), .bytes = 0, .text = text});
  return true;
}

void Greetings::completed(Context& context, const Completion& completion) {
  auto& greeting = static_cast<Greeting&>(context);
  if (completion.error == 0) {
    greeting.peer->answered = true;
    end(greeting, "");
    return;
  }
  const Verdict verdict = judge(lanes_.first().info(), completion,
                                strprintf("PE %d cannot be reached", greeting.peer->pe));
  if (verdict.transient)
    to_send_.push_back(&greeting);
  else
    end(greeting, verdict.failure.text);
}

void Greetings::end(const Greeting& greeting, const std::string& why) {
  const std::lock_guard<std::mutex> lock(mutex_);
  --unanswered_[static_cast<std::size_t>(greeting.peer->pe)];
  --left_;
  if (failure_.empty()) failure_ = why;
  if (left_ == 0 || !failure_.empty()) changed_.notify_all();
}

void Greetings::give_up(const std::string& why) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (left_ > 0 && failure_.empty()) failure_ = why;
  changed_.notify_all();
}

}  // namespace gshmem::ofi
