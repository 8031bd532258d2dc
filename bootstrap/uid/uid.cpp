// Ranks that synchronize over TCP at a root service, which they find by a unique id or by a fixed
// address. Each rank keeps one connection until all have synchronized. A connection that ends
// without a goodbye shows that its rank has died.
#include "bootstrap/bootstrap.h"
#include "bootstrap/uid/id.h"
#include "bootstrap/uid/root.h"
#include "host/base/log.h"
#include "host/base/net/candidates.h"
#include "host/base/net/greeting.h"
#include "host/base/net/interfaces.h"
#include "host/base/net/owner.h"
#include "host/base/net/stream.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <optional>

namespace gshmem::bootstrap {
namespace {

using net::Endpoint;
using net::Frame;
using net::FrameKind;
using net::Listener;
using net::Stream;

// How long a rank waits for the root to name the missing rank.
constexpr double kVerdictSeconds = 2;
constexpr double kGoodbyeSeconds = 1;  // time limit for sending a goodbye
// Limit for one of several addresses: packets to it may be lost.
constexpr double kAttemptSeconds = 3;
// How long the previous job may keep the port of rank 0 before that is worth a warning.
constexpr double kPortSeconds = 1;

/// How a rank finds the root service and introduces itself.
struct Entry {
  std::vector<Endpoint> roots;  ///< tried one after another
  net::Secret secret;           ///< secret that both sides prove to know
  int rank, size;
  bool hosts_root;
  bool one_user;  ///< a root service on this host must belong to this user
  /// A refused connection is final when the root must be listening already (its id exists).
  enum class Refused { kFinal, kRetry } refused = Refused::kFinal;
};

class Uid final : public Bootstrap {
 public:
  Uid(const Entry& entry, double timeout_seconds)
      : rank_(entry.rank), size_(entry.size), timeout_seconds_(timeout_seconds) {
    enter(entry, Deadline(timeout_seconds));
    stream_.accept_only(
        {FrameKind::kWelcome, FrameKind::kResult, FrameKind::kFail, FrameKind::kNote});
    const net::FrameHeader welcome = net::header_of(await(FrameKind::kWelcome, "init"));
    if (welcome.number != static_cast<std::uint64_t>(size_)) fail_protocol();
    root_rank_ = welcome.rank;
    GSHMEM_DEBUG("bootstrap uid: rank %d of %d, root service at %s", rank_, size_, where_.c_str());
  }
  Uid(const Uid&) = delete;
  Uid& operator=(const Uid&) = delete;

  ~Uid() override { finish(); }

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }
  const char* name() const noexcept override { return "uid"; }

  void allgather(const void* send, void* recv, std::size_t bytes) override {
    if (failure_) failure_.raise();
    const char* const operation = bytes == 0 ? "barrier" : "allgather";
    require(
        bytes <= kMaxBytes, GSHMEMX_ERROR_INVALID_VALUE,
        strprintf("bootstrap %s of %zu bytes per rank; at most %zu", operation, bytes, kMaxBytes));
    ++number_;
    stream_.queue(net::make_frame({.kind = FrameKind::kContribution, .number = number_},
                                  {static_cast<const std::byte*>(send), bytes}));
    const Frame result = await(FrameKind::kResult, operation);
    const net::ByteView all = net::payload_of(result);
    if (net::header_of(result).number != number_ ||
        all.size() != bytes * static_cast<std::size_t>(size_))
      fail_protocol();
    std::ranges::copy(all, static_cast<std::byte*>(recv));
  }

  void finish() noexcept override {
    if (!stream_.fd()) return;  // it has finished, or is in a forked child
    try {
      stream_.queue(net::make_frame({.kind = FrameKind::kGoodbye}));
      const Deadline deadline(kGoodbyeSeconds);
      while (!stream_.flushed() && net::wait_for(stream_.fd(), POLLOUT, deadline))
        stream_.send_some();
      stream_.finish_sending();
    } catch (const std::exception& error) {
      GSHMEM_WARN("bootstrap uid: leaving without a goodbye: %s", error.what());
    }
    const Fd closed = std::move(stream_).take_fd();
    failure_ = {GSHMEMX_ERROR_BOOTSTRAP, "the ranks have met, and need no bootstrap any more"};
  }

 private:
  /// Returns the next frame, which must be of this kind; a kFail is thrown as an Error.
  Frame await(FrameKind kind, const char* operation) {
    if (Frame frame = receive_until(kind, Deadline(timeout_seconds_))) return frame;
    const double milliseconds = std::ceil(std::min(timeout_seconds_ * 1e3, 4e9));
    stream_.queue(net::make_frame({.kind = FrameKind::kExpired,
                                   .number = number_,
                                   .detail = static_cast<std::uint32_t>(milliseconds)}));
    if (Frame frame = receive_until(kind, Deadline(kVerdictSeconds))) return frame;
    JobFailure failure = failure_timeout(operation, timeout_seconds_, {});
    failure.text += "; the root service at " + where_ + " does not answer either";
    raise(std::move(failure));
  }

  /// Returns null when the deadline passed first.
  Frame receive_until(FrameKind kind, const Deadline& deadline) {
    for (;;) {
      stream_.send_some();
      if (Frame frame = stream_.receive()) {
        const FrameKind got = net::header_of(frame).kind;
        if (got == FrameKind::kFail) throw_failure(frame);
        if (got == FrameKind::kNote) {
          GSHMEM_WARN("rank %d of %d still waits for others: %s", rank_, size_,
                      net::text_of(frame).c_str());
          continue;
        }
        if (got != kind) fail_protocol();
        return frame;
      }
      if (stream_.state() != Stream::State::kOpen) fail_connection();
      if (!net::wait_for(stream_.fd(), stream_.poll_events(), deadline)) return nullptr;
    }
  }

  [[noreturn]] void raise(JobFailure failure) {
    failure_ = std::move(failure);
    failure_.raise();
  }
  [[noreturn]] void throw_failure(const Frame& fail) {
    const auto status = net::header_of(fail).detail;
    if (status == GSHMEMX_SUCCESS) fail_protocol();
    raise({static_cast<gshmemx_status>(status), net::text_of(fail)});
  }
  [[noreturn]] void fail_protocol() {
    raise({GSHMEMX_ERROR_BOOTSTRAP,
           "what answers at " + where_ + " is not the root service of this job"});
  }
  [[noreturn]] void fail_connection() {
    if (stream_.state() != Stream::State::kClosed) fail_protocol();
    const std::string who = root_rank_ < 0 ? "the process that made the unique id"
                                           : "rank " + std::to_string(root_rank_);
    raise({GSHMEMX_ERROR_PEER_FAILED, who + " died: the connection to its root service at " +
                                          where_ + " ended: " + stream_.reason()});
  }

  /// Tries every address in turn until the deadline.
  void enter(const Entry& entry, const Deadline& deadline) {
    const bool only = entry.roots.size() == 1;
    for (double pause = 0.005;; pause = std::min(2 * pause, 0.2)) {
      std::string tried;
      JobFailure refusal;
      bool settled = true;  // no address may answer differently later
      for (const Endpoint& root : entry.roots) {
        where_ = net::endpoint_text(root);
        const Deadline limit = only ? deadline : deadline.within(kAttemptSeconds);
        net::Attempt attempt = net::connect_to(root, limit);
        std::string why = std::strerror(attempt.error);
        JobFailure reply;
        if (attempt.fd) {
          stream_ = Stream(std::move(attempt.fd), {FrameKind::kChallenge, FrameKind::kFail});
          why = greet(entry, limit, reply);
          if (why.empty()) return;
        }
        settled &= reply || attempt.error == ECONNREFUSED;
        if (reply) refusal = reply;
        tried += (tried.empty() ? "" : ", ") + where_ + ": " + why;
      }
      if (refusal && settled)
        throw Error(refusal.code, only ? refusal.text : "no root service at " + tried);
      const bool final = entry.refused == Entry::Refused::kFinal && settled;
      if (final || deadline.passed()) fail_to_enter(entry, tried, final);
      poll(nullptr, 0, deadline.within(pause).poll_ms());
    }
  }

  [[noreturn]] void fail_to_enter(const Entry& entry, const std::string& tried, bool final) const {
    std::string text = "no root service at " + tried;
    if (!final) text += strprintf(" for %g s", timeout_seconds_);
    const bool by_address = entry.refused == Entry::Refused::kRetry;
    if (by_address) text += " (rank 0 is to listen there)";
    if (final)
      text +=
          "; has the process that made the unique id ended, or has no rank connected for an hour?";
    text += "; this host has " + net::interfaces_text(net::list_interfaces());
    text += by_address ? ", GSHMEM_UID_ADDRESS has to be an address of rank 0 that it reaches"
                       : ", choose the network with GSHMEM_UID_INTERFACE where the id is made";
    throw Error(final ? GSHMEMX_ERROR_PEER_FAILED : GSHMEMX_ERROR_TIMEOUT, text);
  }

  /// The root service proves that it belongs to this job, then this rank does. Returns the reason
  /// of a failure; a `refusal` is final.
  std::string greet(const Entry& entry, const Deadline& limit, JobFailure& refusal) {
    const Frame hello = net::make_frame({.kind = FrameKind::kHello,
                                         .number = static_cast<std::uint64_t>(size_),
                                         .rank = rank_,
                                         .detail = entry.hosts_root ? net::kHostsRoot : 0u},
                                        net::random_cookie());
    stream_.queue(hello);
    Frame answer;
    for (;;) {
      stream_.send_some();
      answer = stream_.receive();
      if (answer || stream_.state() != Stream::State::kOpen) break;
      if (!net::wait_for(stream_.fd(), stream_.poll_events(), limit)) return "no answer";
    }
    if (!answer && stream_.state() == Stream::State::kClosed) return stream_.reason();
    const std::string stranger =
        "what answers at " + where_ + " is not the root service of this job";
    if (answer && net::header_of(answer).kind == FrameKind::kFail) {
      refusal = {static_cast<gshmemx_status>(net::header_of(answer).detail), net::text_of(answer)};
      if (!refusal) refusal = {GSHMEMX_ERROR_BOOTSTRAP, stranger};
      return refusal.text;
    }
    const unsigned me = geteuid();
    const unsigned user = entry.one_user ? net::peer_user(stream_.fd()).value_or(me) : me;
    const Frame proof = answer ? net::answer_to(answer, hello, entry.secret) : nullptr;
    if (proof && user == me) {
      stream_.queue(proof);
      stream_.send_some();
      return {};
    }
    refusal = {GSHMEMX_ERROR_BOOTSTRAP, stranger};
    if (answer && !proof)
      refusal.text += ": the unique id belongs to another job, or GSHMEM_UID_SECRET differs";
    if (proof)
      refusal.text += strprintf(": it is of user %u, and this process of user %u", user, me);
    // Notifies the ranks that wait for this one.
    stream_.queue(net::make_frame({.kind = FrameKind::kFail, .detail = GSHMEMX_ERROR_BOOTSTRAP},
                                  refusal.text));
    stream_.send_some();
    return refusal.text;
  }

  int rank_, size_;
  double timeout_seconds_;  ///< timeout of each call
  std::string where_;       ///< address of the root service
  Stream stream_{Fd(), {}};
  int root_rank_ = -1;
  std::uint64_t number_ = 0;  ///< number of the current collective
  JobFailure failure_;
};

/// Without a shared id or secret only the address distinguishes jobs.
const net::Secret kNoSecret{.text = "gshmem", .shown = true};

/// Returns the first line of GSHMEM_UID_SECRET_FILE, or GSHMEM_UID_SECRET.
std::string read_secret(const Config& config) {
  const std::string& path = config.uid_secret_file;
  if (path.empty()) return config.uid_secret;
  const auto bad = [&](const std::string& why) {
    return Error(GSHMEMX_ERROR_CONFIG, "GSHMEM_UID_SECRET_FILE=\"" + path + "\": " + why);
  };
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) throw bad(std::strerror(errno));
  struct stat about {};
  (void)::fstat(fd.get(), &about);
  if (!S_ISREG(about.st_mode)) throw bad("not a file");
  if ((about.st_mode & 077) != 0) throw bad("others may read or write it; chmod 600");
  std::array<char, 4096> text{};
  const ssize_t n = ::read(fd.get(), text.data(), text.size());
  if (n < 0) throw bad(std::strerror(errno));
  const std::string all(text.data(), static_cast<std::size_t>(n));
  const std::string line = all.substr(0, all.find('\n'));
  if (line.empty()) throw bad("its first line is empty");
  return line;
}

std::string list_of(const std::vector<Endpoint>& endpoints) {
  std::string text;
  for (const Endpoint& endpoint : endpoints)
    text += (text.empty() ? "" : ", ") + net::endpoint_text(endpoint);
  return text;
}

/// Warns if other users can join. Other users of this host are refused if the kernel shows the user
/// of a caller.
void warn_without_secret(const std::vector<Listener>& listeners) {
  const auto open = std::ranges::find_if(listeners, [](const Listener& listener) {
    return !net::is_loopback(listener.endpoint) || !net::peer_users_known();
  });
  if (open == listeners.end()) return;
  GSHMEM_WARN(
      "every process that reaches %s can join this job as a rank; set GSHMEM_UID_SECRET or "
      "GSHMEM_UID_SECRET_FILE on all PEs",
      net::endpoint_text(open->endpoint).c_str());
}

/// Listens on those of `endpoints` that this host has. Returns nothing when another process has a
/// port. Errors: if the host has none of them, the error of the last one.
std::vector<Listener> try_listen(const std::vector<Endpoint>& endpoints) {
  std::vector<Listener> listeners;
  std::optional<Error> failure;
  for (const Endpoint& endpoint : endpoints) {
    bool in_use = false;
    try {
      listeners.push_back(net::listen_on(endpoint, &in_use));
    } catch (const Error& error) {
      failure = error;
    }
    if (in_use) return {};
  }
  if (listeners.empty()) throw *failure;
  return listeners;
}

struct Listening {
  std::vector<Listener> listeners;
  double taken_seconds = 0;  ///< how long another process had a port of these
};

/// Opens rank 0's listeners: the other ranks may know it by any address that the name resolves to.
/// A port in use may become free soon, when the previous job has all its ranks.
Listening listen_on_all(const std::vector<Endpoint>& endpoints, const Deadline& deadline) {
  const auto begun = Deadline::Clock::now();
  Listening result;
  for (bool warned = false;;) {
    result.listeners = try_listen(endpoints);
    if (!result.listeners.empty()) return result;
    const std::string taken =
        "GSHMEM_UID_ADDRESS: another process listens on " + net::endpoint_text(endpoints.front());
    require(!deadline.passed(), GSHMEMX_ERROR_BOOTSTRAP, taken);
    poll(nullptr, 0, 20);
    result.taken_seconds = std::chrono::duration<double>(Deadline::Clock::now() - begun).count();
    if (warned || result.taken_seconds < kPortSeconds) continue;
    GSHMEM_WARN(
        "%s, and rank 0 tries again until GSHMEM_BOOTSTRAP_TIMEOUT; choose another port if that is "
        "another job, and look for a second rank 0 if it is this one",
        taken.c_str());
    warned = true;
  }
}

/// Returns a text that is added to errors about missing ranks.
std::string root_text(const std::vector<Endpoint>& roots, double taken_seconds) {
  std::string text = "the root service listens at " + list_of(roots) + " (GSHMEM_UID_ADDRESS)";
  if (taken_seconds > 0)
    text += strprintf(
        ", where another process listened for the first %g s: ranks that called it may have "
        "given up",
        std::ceil(taken_seconds * 10) / 10);
  return text + "; this host has " + net::interfaces_text(net::list_interfaces());
}

/// Returns how long a root service waits for its first rank. A program may do a lot of work between
/// making an id and init.
double alone_seconds(const Config& config) {
  constexpr double kHour = 3600;
  return config.bootstrap_timeout > 0 ? std::max(config.bootstrap_timeout, kHour) : 0;
}

}  // namespace

namespace {

net::Secret secret_of(const UniqueId& id) {
  return {.text = {reinterpret_cast<const char*>(id.cookie.data()), id.cookie.size()},
          .shown = !id.proved};
}

/// Opens one socket for all addresses of a family, unless GSHMEM_UID_INTERFACE selects some.
std::vector<Listener> listen_for(const std::vector<net::Interface>& fitting, const Config& config,
                                 std::vector<RootAddress>& roots) {
  std::vector<Listener> listeners;
  for (const net::Interface& interface : fitting) {
    Endpoint at = interface.address;
    if (config.uid_interface.empty()) at.ip = {};
    auto listener = std::ranges::find_if(listeners, [&](const Listener& each) {
      return each.endpoint.family == at.family && each.endpoint.ip == at.ip;
    });
    if (listener == listeners.end()) listener = listeners.insert(listener, net::listen_on(at));
    at = interface.address;
    at.port = listener->endpoint.port;
    roots.push_back({at, static_cast<std::uint8_t>(interface.prefix_bits)});
  }
  return listeners;
}

/// Returns the addresses in the order of preference of this host, by the rules for links between
/// hosts (candidates.h).
std::vector<Endpoint> roots_for(const UniqueId& id, const Config& config) {
  net::Candidates theirs{};
  for (std::size_t i = 0; i < std::min(theirs.size(), id.roots.size()); ++i)
    theirs.at(i) = {.family = id.roots[i].endpoint.family,
                    .prefix_bits = id.roots[i].prefix_bits,
                    .wanted = true,
                    .valid = true,
                    .ip = id.roots[i].endpoint.ip};
  const net::Candidates mine = net::candidates_of(net::list_interfaces(), config);
  std::vector<Endpoint> ordered;
  for (const net::Candidate& candidate : net::order_addresses({theirs, mine}, 0)) {
    const auto root = std::ranges::find_if(id.roots, [&](const RootAddress& each) {
      return each.endpoint.family == candidate.family && each.endpoint.ip == candidate.ip;
    });
    ordered.push_back(root->endpoint);
  }
  return ordered;
}

}  // namespace

void make_uniqueid(gshmemx_uniqueid* id, const Config& config) {
  const std::vector<net::Interface> interfaces = net::list_interfaces();
  // This throws if no interface can be used.
  (void)net::choose_address(interfaces, config.uid_interface, config.uid_family);
  std::vector<net::Interface> fitting =
      net::fitting_interfaces(interfaces, config.uid_interface, config.uid_family);
  // A loopback address is valid on this host only; it is the last one.
  if (!fitting.front().loopback)
    std::erase_if(fitting, [](const net::Interface& interface) { return interface.loopback; });
  fitting.resize(std::min(fitting.size(), net::kMaxCandidates));
  UniqueId unique;
  std::vector<Listener> listeners = listen_for(fitting, config, unique.roots);
  unique.cookie = net::random_cookie();
  unique.proved = has_libcrypto();
  encode_uniqueid(unique, id);
  const UniqueId packed = decode_uniqueid(*id).value();  // the addresses that fitted into the id
  std::vector<Endpoint> endpoints;
  for (const RootAddress& root : packed.roots) endpoints.push_back(root.endpoint);
  RootRegistry::get().start_when_called(
      std::move(listeners),
      {.secret = secret_of(unique),
       .where =
           "the root service listens at " + list_of(endpoints) +
           ": for ranks that reach none of these, set GSHMEM_UID_INTERFACE where the unique id "
           "is made",
       .linger = config.bootstrap_timeout,
       .alone = Deadline(alone_seconds(config)),
       .alone_seconds = alone_seconds(config)});
}

std::unique_ptr<Bootstrap> create_uid(const gshmemx_uniqueid& id, int rank, int size,
                                      const Config& config) {
  require(size >= 1 && rank >= 0 && rank < size, GSHMEMX_ERROR_INVALID_VALUE,
          strprintf("rank %d in a job of %d", rank, size));
  const auto unique = decode_uniqueid(id);
  require(unique.has_value(), GSHMEMX_ERROR_INVALID_VALUE,
          strprintf("not a unique id of this library (version %d; make one with "
                    "gshmemx_get_uniqueid)",
                    id.version));
  if (unique->proved)
    require_libcrypto("the unique id was made where libcrypto is installed, so it");
  const net::Secret secret = secret_of(*unique);
  const Entry entry{.roots = roots_for(*unique, config),
                    .secret = secret,
                    .rank = rank,
                    .size = size,
                    .hosts_root = RootRegistry::get().serves(secret),
                    .one_user = false};
  return std::make_unique<Uid>(entry, config.bootstrap_timeout);
}

std::unique_ptr<Bootstrap> create_uid_from_address(const Config& config) {
  const int rank = config.uid_rank, size = config.uid_size;
  require(!config.uid_address.empty(), GSHMEMX_ERROR_CONFIG,
          "GSHMEM_BOOTSTRAP=uid needs GSHMEM_UID_ADDRESS, GSHMEM_UID_RANK and GSHMEM_UID_SIZE");
  require(size >= 1 && rank >= 0 && rank < size, GSHMEMX_ERROR_CONFIG,
          strprintf("GSHMEM_UID_ADDRESS needs GSHMEM_UID_RANK in [0, GSHMEM_UID_SIZE); they are "
                    "%d and %d",
                    rank, size));
  const std::string secret = read_secret(config);
  if (!secret.empty()) require_libcrypto("GSHMEM_UID_SECRET");
  Entry entry{.roots = net::resolve(config.uid_address, config.uid_family),
              .secret = secret.empty() ? kNoSecret : net::Secret{.text = secret},
              .rank = rank,
              .size = size,
              .hosts_root = rank == 0,
              .one_user = secret.empty(),
              .refused = Entry::Refused::kRetry};
  if (rank == 0) {
    auto [listeners, taken_seconds] =
        listen_on_all(net::to_listen_on(config.uid_address, config.uid_family, entry.roots),
                      Deadline(config.bootstrap_timeout));
    entry.roots.clear();
    for (const Listener& listener : listeners) entry.roots.push_back(listener.endpoint);
    if (secret.empty()) warn_without_secret(listeners);
    RootRegistry::get().start(std::move(listeners),
                              {.secret = entry.secret,
                               .one_user = entry.one_user,
                               .where = root_text(entry.roots, taken_seconds)});
  }
  return std::make_unique<Uid>(entry, config.bootstrap_timeout);
}

}  // namespace gshmem::bootstrap
