// How operations get from one endpoint of the double to another: when they arrive, what they move,
// when they complete. Every endpoint belongs to one thread; other threads access only its Port.
#pragma once

#include "tests/doubles/fabric/fabric_double.h"
#include "tests/doubles/fabric/profiles.h"

#include <rdma/fi_atomic.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include <deque>
#include <map>
#include <memory>
#include <queue>
#include <random>

namespace gshmem::test {

/// Returns the record of the process.
[[nodiscard]] FabricDouble& record();
/// Returns the monotonic time.
[[nodiscard]] std::int64_t now_ns();

inline constexpr std::int64_t kNever = INT64_MAX;

struct Port;

/// A memory region. It is kept until the process ends, so keys of closed regions are wrong keys.
struct Region {
  std::uint8_t* base = nullptr;
  std::size_t bytes = 0;
  std::uint64_t access = 0;
  bool gpu = false;
  bool by_address = false;  ///< peers name memory by address, otherwise by offset from `base`
  const void* domain = nullptr;
  std::atomic<bool> usable{false};
  /// Returns the address by which this process reaches `at`.
  [[nodiscard]] std::uint8_t* view(const void* at) const;
  [[nodiscard]] bool holds(const void* at, std::size_t length) const;
};
/// Returns null if no region has that key.
[[nodiscard]] Region* region_of(std::uint64_t key);
[[nodiscard]] std::uint64_t add_region(std::unique_ptr<Region> region);

/// The arguments of an operation.
struct Request {
  FabricDouble::Call call = FabricDouble::kSend;
  void* local = nullptr;
  std::size_t bytes = 0;
  void* descriptor = nullptr;
  fi_addr_t peer = FI_ADDR_UNSPEC;
  std::uint64_t remote = 0, key = 0;
  void* context = nullptr;
  std::uint64_t flags = 0, data = 0;
  // For atomics: their words have 4 or 8 bytes.
  fi_op op = FI_SUM;
  std::uint64_t operand = 0, compare = 0;
};

/// An arrival at an endpoint: a message, or the immediate of a write.
struct Arrival {
  std::int64_t due = 0;
  std::vector<std::uint8_t> message;
  bool is_immediate = false;
  std::uint64_t data = 0;
  std::size_t bytes = 0;
};
/// Data that is written and not visible yet.
struct Trailing {
  std::int64_t due = 0;
  std::uint8_t* to = nullptr;
  std::vector<std::uint8_t> bytes;
  bool gpu = false;
};

/// The part of an endpoint that other threads reach. It outlives the endpoint.
struct Port {
  std::mutex mutex;  ///< for all members below but the atomics
  std::atomic<bool> open{true};
  std::atomic<std::int64_t> next_due{kNever};  ///< of arrivals
  std::atomic<bool> any_trailing{false};
  std::multimap<std::int64_t, Arrival> arrivals;
  std::deque<Trailing> trailing;
  const void* domain = nullptr;
  std::size_t largest_send = 0;

  void arrive(Arrival arrival);
  /// Makes earlier writes visible: all of them, those that are due, or those in host memory.
  enum class Which { kAll, kDue, kHost };
  void settle(Which which, std::int64_t now);
};

class Endpoint;

struct Cq : fid_cq {
  fi_cq_format format = FI_CQ_FORMAT_MSG;
  std::size_t size = 0;
  std::deque<fi_cq_data_entry> entries;
  std::map<std::size_t, int> errors;  ///< by position among all entries so far
  std::size_t taken = 0;              ///< entries that were read
  std::vector<Endpoint*> endpoints;

  void add(const fi_cq_data_entry& entry, int error = 0);
};

class Endpoint : public fid_ep {
 public:
  Endpoint(const Profile& profile, const fi_info& info, const void* domain, std::uint32_t version);
  ~Endpoint();

  /// Returns what the libfabric call returns.
  ssize_t post(const Request& request);
  ssize_t receive(void* buffer, std::size_t bytes, void* descriptor, void* context);
  /// Executes what is due.
  void progress();

  Cq* cq = nullptr;
  std::vector<std::shared_ptr<Port>>* peers = nullptr;
  bool enabled = false, may_call_cuda = false;
  int bound_regions = 0;

  [[nodiscard]] const Profile& profile() const { return profile_; }
  [[nodiscard]] int nic() const { return nic_; }
  [[nodiscard]] const std::shared_ptr<Port>& port() const { return port_; }

 private:
  enum class Stage { kOnItsWay, kArrived };
  struct Flight {
    Request request;
    std::shared_ptr<Port> target;
    Stage stage = Stage::kOnItsWay;
    std::int64_t due = 0;
    std::int64_t arrival = 0;
    int error = 0;
    std::vector<std::uint8_t> bytes;  ///< sent at once, or read
  };
  struct Later {
    bool operator()(const Flight* a, const Flight* b) const { return a->due > b->due; }
  };
  struct Buffer {
    void* to;
    std::size_t bytes;
    Region* region;
    void* context;
  };

  [[nodiscard]] bool quick() const;
  [[nodiscard]] std::int64_t drawn(std::int64_t most);
  void check(const Request& request);
  void count_cuda(const Request& request, const Region* local);
  void depart(Flight* flight, std::int64_t now);
  void send(Flight& flight);
  /// Executes the operation at its target.
  void reach(Flight& flight, std::int64_t now);
  void write(Flight& flight, Region& there, std::int64_t now);
  void end(Flight& flight, std::int64_t now);
  void deliver(std::int64_t now);
  void take(Arrival& arrival);
  void release_held(std::int64_t now);
  [[nodiscard]] Region* remote_region(Flight& flight, std::uint64_t access);
  [[nodiscard]] Flight* acquire();

  const Profile& profile_;
  int nic_;
  std::shared_ptr<Port> port_;
  const void* domain_;
  bool ordered_, gpu_;
  std::size_t places_, in_use_ = 0, number_;
  std::atomic<bool> entered_{false};
  std::minstd_rand random_;
  std::deque<Flight> flights_;
  std::vector<Flight*> free_, deferred_, held_;
  std::priority_queue<Flight*, std::vector<Flight*>, Later> flying_;
  std::map<Port*, std::int64_t> last_arrival_;
  std::vector<bool> connected_;  ///< by address
  std::deque<Buffer> buffers_;
  bool small_writes_by_cpu_ = false;
};

/// The value of a word after an atomic of libfabric.
[[nodiscard]] std::uint64_t after_atomic(const Request& request, std::uint64_t old);

}  // namespace gshmem::test
