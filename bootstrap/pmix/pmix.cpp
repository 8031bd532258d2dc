// PMIx: the launcher's server gives rank and size and carries one unique id; over that the ranks
// form the TCP star of bootstrap/uid, and all later collectives go there. The star costs no memory
// per call, which the server's fences do (exchange.cpp). It names the rank that is missing or dead,
// which a fence cannot. Ranks that cannot reach each other by TCP stay with the server.
#include "bootstrap/pmix/exchange.h"
#include "bootstrap/uid/uid.h"
#include "host/base/log.h"

#include <gshmem/uniqueid.h>

#include <algorithm>

namespace gshmem::bootstrap {
namespace {

constexpr double kStarSeconds = 10;  // to connect; where packets vanish, do without

class Pmix final : public Bootstrap {
 public:
  Pmix(std::unique_ptr<Bootstrap> server, std::unique_ptr<Bootstrap> star)
      : server_(std::move(server)), star_(std::move(star)) {}
  int rank() const noexcept override { return server_->rank(); }
  int size() const noexcept override { return server_->size(); }
  const char* name() const noexcept override { return "pmix"; }
  void allgather(const void* send, void* recv, std::size_t bytes) override {
    star_->allgather(send, recv, bytes);
  }
  void alltoall(const void* send, void* recv, std::size_t bytes) override {
    star_->alltoall(send, recv, bytes);
  }
  void barrier() override { star_->barrier(); }
  /// The other ranks by the star, which brings them the reason; then the launcher, which ends them.
  void abort(int code, std::string_view reason) noexcept override {
    star_->abort(code, reason);
    server_->abort(code, reason);
  }

 private:
  std::unique_ptr<Bootstrap> server_, star_;
};

/// This rank's part in forming the star; null and `*why` when it did not work here.
std::unique_ptr<Bootstrap> try_star(Bootstrap& server, const Config& config, std::string* why) {
  struct Offer {
    gshmemx_uniqueid id;  // version 0 = none
  };
  Offer mine{};
  if (server.rank() == 0) {
    try {
      make_uniqueid(&mine.id, config);
    } catch (const Error& error) {
      *why = error.what();
    }
  }
  const Offer offer = allgather(server, mine).front();
  if (offer.id.version == 0) return nullptr;
  try {
    const double timeout = config.bootstrap_timeout;
    const double join = timeout > 0 ? std::min(timeout, kStarSeconds) : kStarSeconds;
    return create_uid_within(join, offer.id, server.rank(), server.size(), config);
  } catch (const Error& error) {
    *why = error.what();
    return nullptr;
  }
}

}  // namespace

std::unique_ptr<Bootstrap> create_pmix(const Config& config) {
  auto server = create_pmix_exchange(config.bootstrap_timeout);
  if (server->size() == 1) return server;
  std::string why;
  auto star = try_star(*server, config, &why);
  // One rank without the star is all ranks without it.
  const auto have = allgather(*server, star != nullptr ? 1 : 0);
  if (std::all_of(have.begin(), have.end(), [](int mine) { return mine == 1; }))
    return std::make_unique<Pmix>(std::move(server), std::move(star));
  if (!why.empty()) {
    GSHMEM_WARN("rank %d: no TCP connection between the ranks, PMIx carries all data: %s",
                server->rank(), why.c_str());
  }
  return server;
}

}  // namespace gshmem::bootstrap
