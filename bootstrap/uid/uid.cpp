// Ranks that meet over TCP at a root service, found by a unique id or by a fixed address. Each
// keeps one connection open for the whole job: its end without a goodbye is how a death is noticed.
#include "bootstrap/uid/uid.h"

#include "bootstrap/uid/connection.h"
#include "bootstrap/uid/interfaces.h"
#include "bootstrap/uid/root.h"
#include "host/base/log.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <mutex>
#include <optional>

namespace gshmem::bootstrap {
namespace {

constexpr double kVerdictSeconds = 2;  // for the root to say who is missing, or to take an abort
constexpr double kLookSeconds = 0.1;  // between looks for a failure that another thread was told of
constexpr double kGoodbyeSeconds = 1;  // for a Leave to go out
constexpr double kAttemptSeconds = 3;  // for one address of several: packets to it may vanish

/// Where a rank finds the root service and how it introduces itself.
struct Entry {
  std::vector<Endpoint> roots;  ///< tried in turn
  Hello hello;
  /// A refused connection is final when the root has to be listening already (its id exists).
  enum class Refused { kFinal, kRetry } refused = Refused::kFinal;
};

class Uid final : public Bootstrap {
 public:
  Uid(const Entry& entry, double join_seconds, double timeout_seconds)
      : rank_(static_cast<int>(entry.hello.rank)),
        size_(static_cast<int>(entry.hello.size)),
        timeout_seconds_(join_seconds),
        connection_(connect(entry, Deadline(join_seconds)),
                    {FrameType::kWelcome, FrameType::kResult, FrameType::kFail}) {
    connection_.queue(encode(entry.hello));
    const auto welcome = decode_welcome(await(FrameType::kWelcome, 0));
    if (!welcome || welcome->size != entry.hello.size) fail_protocol();
    root_rank_ = welcome->root_rank;
    timeout_seconds_ = timeout_seconds;
    GSHMEM_DEBUG("bootstrap uid: rank %d of %d, root service at %s", rank_, size_, where_.c_str());
  }
  Uid(const Uid&) = delete;
  Uid& operator=(const Uid&) = delete;

  ~Uid() override {
    if (!connection_.fd()) return;  // in a forked child
    try {                           // inside: that of a whole destructor throws on
      connection_.queue(encode_leave());
      const Deadline deadline(kGoodbyeSeconds);
      while (!connection_.flushed() && wait_for(connection_.fd(), POLLOUT, deadline))
        connection_.send_some();
      connection_.finish_sending();
    } catch (const std::exception& error) {
      GSHMEM_WARN("bootstrap uid: leaving without a goodbye: %s", error.what());
    }
  }

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }
  const char* name() const noexcept override { return "uid"; }

  void allgather(const void* send, void* recv, std::size_t bytes) override {
    collective(Operation::kAllgather, {static_cast<const std::byte*>(send), bytes}, recv, bytes);
  }

  void alltoall(const void* send, void* recv, std::size_t bytes) override {
    const std::size_t of_all = bytes * static_cast<std::size_t>(size_);
    collective(Operation::kAlltoall, {static_cast<const std::byte*>(send), of_all}, recv, bytes);
  }

  void barrier() override { collective(Operation::kBarrier, {}, nullptr, 0); }

  void abort(int code, std::string_view reason) noexcept override try {
    const Failure failure = failure_abort(rank_, code, reason);
    if (failed()) return;
    send(encode(Abort{code, std::string(reason)}));
    // The root answers with the failure it tells everyone; then nothing can be lost by our exit.
    const Deadline deadline(kVerdictSeconds);
    while (!receive_until(FrameType::kFail, deadline).has_value() && !deadline.passed()) {
    }
    const std::lock_guard lock(mutex_);
    failure_ = failure;
  } catch (const std::exception& error) {
    if (!failed()) GSHMEM_WARN("bootstrap uid: abort not delivered: %s", error.what());
  }

 private:
  /// `bytes`: what comes of each rank.
  void collective(Operation operation, ByteView data, void* recv, std::size_t bytes) {
    require(data.size() <= kMaxGatherBytes, GSHMEMX_ERROR_INVALID_VALUE,
            strprintf("bootstrap %s of %zu bytes per rank; at most %llu", operation_name(operation),
                      data.size(), static_cast<unsigned long long>(kMaxGatherBytes)));
    const std::uint64_t number = ++collectives_;
    operation_ = operation;
    send(encode(Gather{number, operation, data}));
    const Bytes payload = await(FrameType::kResult, number);
    const auto result = decode_result(payload);
    const std::size_t expected = bytes * static_cast<std::size_t>(size_);
    if (!result || result->number != number || result->data.size() != expected) fail_protocol();
    if (recv != nullptr && expected > 0) std::memcpy(recv, result->data.data(), expected);
  }

  /// The payload of the next frame, which has to be of this type; a Fail is thrown as an Error.
  Bytes await(FrameType type, std::uint64_t number) {
    if (auto payload = receive_until(type, Deadline(timeout_seconds_))) return *std::move(payload);
    const double milliseconds = std::ceil(timeout_seconds_ * 1e3);
    send(encode(Expired{number, static_cast<std::uint64_t>(milliseconds)}));
    if (auto payload = receive_until(type, Deadline(kVerdictSeconds))) return *std::move(payload);
    const char* what = number == 0 ? "init" : operation_name(operation_);
    const std::lock_guard lock(mutex_);
    failure_ = failure_timeout(what, timeout_seconds_, {});
    failure_.text += "; the root service at " + where_ + " does not answer either";
    failure_.raise();
  }

  [[nodiscard]] bool failed() {
    const std::lock_guard lock(mutex_);
    return static_cast<bool>(failure_);
  }

  /// Queues a frame; an error when the job has failed.
  template <class Encoded>
  void send(Encoded frame) {
    const std::lock_guard lock(mutex_);
    if (failure_) failure_.raise();
    connection_.queue(std::move(frame));
  }

  /// None when the deadline passed first. A thread that waits for a Fail passes over what another
  /// thread waits for.
  std::optional<Bytes> receive_until(FrameType type, const Deadline& deadline) {
    while (true) {
      short events = 0;
      {
        const std::lock_guard lock(mutex_);
        if (failure_) failure_.raise();
        connection_.send_some();
        if (auto incoming = connection_.receive()) {
          if (incoming->type == FrameType::kFail) fail_as_told(incoming->payload);
          if (incoming->type == type) return std::move(incoming->payload);
          if (type != FrameType::kFail) fail_protocol();
          continue;
        }
        if (connection_.state() != Connection::State::kOpen) fail_connection();
        events = connection_.poll_events();
      }
      // Not at once to the end: what fails the job may have come to another thread.
      if (!wait_for(connection_.fd(), events, Deadline(kLookSeconds)) && deadline.passed())
        return std::nullopt;
    }
  }

  // With mutex_ held:
  [[noreturn]] void raise(Failure failure) {
    failure_ = std::move(failure);
    failure_.raise();
  }
  [[noreturn]] void fail_as_told(const Bytes& payload) {
    const auto fail = decode_fail(payload);
    if (!fail || fail->status == GSHMEMX_SUCCESS) fail_protocol();
    raise({static_cast<gshmemx_status>(fail->status), fail->text});
  }
  [[noreturn]] void fail_protocol() {
    raise({GSHMEMX_ERROR_BOOTSTRAP,
           "what answers at " + where_ + " is not the root service of this job"});
  }
  [[noreturn]] void fail_connection() {
    if (connection_.state() != Connection::State::kClosed) fail_protocol();
    const std::string who = root_rank_ < 0 ? "the process that made the unique id"
                                           : "rank " + std::to_string(root_rank_);
    raise({GSHMEMX_ERROR_PEER_FAILED, who + " died: the connection to its root service at " +
                                          where_ + " ended: " + connection_.reason()});
  }

  /// Tries every address in turn until the deadline.
  Fd connect(const Entry& entry, const Deadline& deadline) {
    int pause_ms = 5;
    while (true) {
      int error = 0;
      for (const Endpoint& root : entry.roots) {
        where_ = endpoint_text(root);
        const bool only = entry.roots.size() == 1;
        Attempt attempt = connect_to(root, only ? deadline : deadline.within(kAttemptSeconds));
        if (attempt.fd) return std::move(attempt.fd);
        error = attempt.error;
      }
      const bool final = entry.refused == Entry::Refused::kFinal && error == ECONNREFUSED;
      if (final || deadline.passed()) {
        const std::string job_ended =
            final ? "; has the process that made the unique id ended, or did no rank come for an "
                    "hour?"
                  : strprintf(" for %g s (rank 0 is to listen there)", timeout_seconds_);
        throw Error(final ? GSHMEMX_ERROR_PEER_FAILED : GSHMEMX_ERROR_TIMEOUT,
                    "no root service at " + where_ + ": " + std::strerror(error) + job_ended);
      }
      poll(nullptr, 0, std::min(pause_ms, std::max(deadline.poll_ms(), 1)));
      pause_ms = std::min(pause_ms * 2, 200);
    }
  }

  int rank_, size_;
  double timeout_seconds_;  ///< of the call under way
  std::string where_;       ///< the root service; set by connect, so declared before connection_
  Connection connection_;
  std::mutex
      mutex_;  ///< connection_, failure_: a thread may abort while another is in a collective
  int root_rank_ = -1;
  std::uint64_t collectives_ = 0;
  Operation operation_ = Operation::kBarrier;
  Failure failure_;
};

Hello make_hello(const Cookie& cookie, int rank, int size, bool hosts_root) {
  return {cookie, static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(size), hosts_root};
}

/// Without a shared id or secret the address is all that tells jobs apart.
constexpr Cookie kAddressCookie{std::byte{'a'}, std::byte{'d'}, std::byte{'d'}, std::byte{'r'}};

/// The first line of GSHMEM_UID_SECRET_FILE, or GSHMEM_UID_SECRET.
std::string read_secret(const Config& config) {
  const std::string& path = config.uid_secret_file;
  if (path.empty()) return config.uid_secret;
  const auto bad = [&](const std::string& why) {
    return Error(GSHMEMX_ERROR_CONFIG, "GSHMEM_UID_SECRET_FILE=\"" + path + "\": " + why);
  };
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) throw bad(std::strerror(errno));
  struct stat about {};
  if (::fstat(fd.get(), &about) != 0) throw bad(std::strerror(errno));
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

/// FNV-1a with 64 bits, twice. It tells strangers apart, as the cookie itself does, which crosses
/// the network in the clear: who reads the traffic needs no secret.
Cookie hash_secret(const std::string& secret) {
  Cookie cookie;
  for (const unsigned half : {0u, 1u}) {
    std::uint64_t hash = 0xCBF29CE484222325u + half;
    for (int round = 0; round < 2; ++round) {
      for (const char c : secret) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
      hash = (hash ^ 0xFFu) * 0x100000001B3u;
    }
    for (unsigned i = 0; i < 8; ++i)
      cookie[8 * half + i] = static_cast<std::byte>((hash >> (8 * i)) & 0xFF);
  }
  return cookie;
}

void warn_without_secret(const std::vector<Listener>& listeners) {
  const auto open = std::find_if(listeners.begin(), listeners.end(), [](const Listener& listener) {
    return !is_loopback(listener.endpoint);
  });
  if (open == listeners.end()) return;
  GSHMEM_WARN(
      "whoever reaches %s can join this job as a rank; set GSHMEM_UID_SECRET or "
      "GSHMEM_UID_SECRET_FILE on all PEs",
      endpoint_text(open->endpoint).c_str());
}

/// Those of `endpoints` that this host has. Empty when another process has a port.
/// Errors: those of the last where it has none.
std::vector<Listener> try_listen(const std::vector<Endpoint>& endpoints) {
  std::vector<Listener> listeners;
  std::optional<Error> failure;
  for (const Endpoint& endpoint : endpoints) {
    bool in_use = false;
    try {
      listeners.push_back(listen_on(endpoint, &in_use));
    } catch (const Error& error) {
      failure = error;
    }
    if (in_use) return {};
  }
  if (listeners.empty()) throw *failure;
  return listeners;
}

/// Rank 0's listeners: the others may know it by any address the name stands for. A port that is
/// taken may be free soon: when the job before this one has all its ranks.
std::vector<Listener> listen_on_all(const std::vector<Endpoint>& endpoints,
                                    const Deadline& deadline) {
  while (true) {
    std::vector<Listener> listeners = try_listen(endpoints);
    if (!listeners.empty()) return listeners;
    require(!deadline.passed(), GSHMEMX_ERROR_BOOTSTRAP,
            "GSHMEM_UID_ADDRESS: another process listens on " + endpoint_text(endpoints.front()));
    poll(nullptr, 0, 20);
  }
}

/// A program may do much between making an id and init.
double alone_seconds(const Config& config) {
  constexpr double kHour = 3600;
  return config.bootstrap_timeout > 0 ? std::max(config.bootstrap_timeout, kHour) : 0;
}

}  // namespace

void make_uniqueid(gshmemx_uniqueid* id, const Config& config) {
  const Endpoint address =
      choose_address(list_interfaces(), config.uid_interface, config.uid_family);
  Listener listener = listen_on(address);
  const UniqueId unique{listener.endpoint, random_cookie()};
  std::vector<Listener> listeners;
  listeners.push_back(std::move(listener));
  RootRegistry::get().start(std::move(listeners), unique.cookie, CookieKind::kSecret,
                            {config.bootstrap_timeout, alone_seconds(config)});
  encode_uniqueid(unique, id);
}

std::unique_ptr<Bootstrap> create_uid(const gshmemx_uniqueid& id, int rank, int size,
                                      const Config& config) {
  return create_uid_within(config.bootstrap_timeout, id, rank, size, config);
}

std::unique_ptr<Bootstrap> create_uid_within(double join_seconds, const gshmemx_uniqueid& id,
                                             int rank, int size, const Config& config) {
  require(size >= 1 && rank >= 0 && rank < size, GSHMEMX_ERROR_INVALID_VALUE,
          strprintf("rank %d in a job of %d", rank, size));
  const auto unique = decode_uniqueid(id);
  require(unique.has_value(), GSHMEMX_ERROR_INVALID_VALUE,
          strprintf("not a unique id of this library (version %d; make one with "
                    "gshmemx_get_uniqueid)",
                    id.version));
  const bool hosts_root = RootRegistry::get().serves(unique->cookie);
  const Entry entry{
      {unique->root}, make_hello(unique->cookie, rank, size, hosts_root), Entry::Refused::kFinal};
  return std::make_unique<Uid>(entry, join_seconds, config.bootstrap_timeout);
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
  const Cookie cookie = secret.empty() ? kAddressCookie : hash_secret(secret);
  Entry entry{resolve(config.uid_address, config.uid_family),
              make_hello(cookie, rank, size, rank == 0), Entry::Refused::kRetry};
  if (rank == 0) {
    std::vector<Listener> listeners =
        listen_on_all(to_listen_on(config.uid_address, config.uid_family, entry.roots),
                      Deadline(config.bootstrap_timeout));
    entry.roots.clear();
    for (const Listener& listener : listeners) entry.roots.push_back(listener.endpoint);
    if (secret.empty()) warn_without_secret(listeners);
    RootRegistry::get().start(std::move(listeners), cookie,
                              secret.empty() ? CookieKind::kPublic : CookieKind::kSecret, {0, 0});
  }
  return std::make_unique<Uid>(entry, config.bootstrap_timeout, config.bootstrap_timeout);
}

}  // namespace gshmem::bootstrap
