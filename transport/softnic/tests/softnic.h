// A client of the soft NIC that writes its bytes by hand: a queue pair with its ring, completion
// queue and doorbell record in plain memory. Used by the engine's tests. It uses nothing of
// include/gshmem/abi, so that these tests depend on the specification only.
#pragma once

#include "tests/patience.h"
#include "transport/softnic/engine.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace gshmem::test {

using Bytes = std::vector<std::uint8_t>;

/// Returns "status: reason" of a refused control call, otherwise "none".
template <class F>
std::string refusal(F call) {
  try {
    call();
  } catch (const soft::EngineError& error) {
    return std::to_string(error.status) + ": " + error.what();
  }
  return "none";
}

inline void append32(Bytes& to, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8)
    to.push_back(static_cast<std::uint8_t>(value >> shift));
}
inline void append64(Bytes& to, std::uint64_t value) {
  append32(to, static_cast<std::uint32_t>(value >> 32));
  append32(to, static_cast<std::uint32_t>(value));
}

/// Syndromes of completions (MLX5_CQE_SYNDROME_* in <infiniband/mlx5dv.h>).
inline constexpr std::uint8_t kBadLength = 0x01, kBadOperation = 0x02, kProtection = 0x04,
                              kFlush = 0x05, kBadResponse = 0x10, kBadRequest = 0x12,
                              kAccess = 0x13, kRemoteOperation = 0x14, kRetry = 0x15,
                              kRnrRetry = 0x16;

/// The content of a completion.
struct Cqe {
  std::uint8_t opcode = 0, syndrome = 0, vendor = 0, wqe_opcode = 0, owner = 0;
  std::uint16_t counter = 0;
  std::uint32_t qpn = 0, bytes = 0, user_index = 0;
  [[nodiscard]] bool error() const { return opcode == 13 || opcode == 14; }
};

inline std::int64_t clock_ns(clockid_t clock = CLOCK_MONOTONIC) {
  timespec now = {};
  ::clock_gettime(clock, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

/// Yields its core until `ready` returns true, or for a time that only a hang takes.
template <class F>
bool eventually(F ready, std::int64_t limit_ns = 40'000'000'000 * kPatience) {
  const std::int64_t end = clock_ns() + limit_ns;
  while (!ready()) {
    if (clock_ns() > end) return false;
    ::sched_yield();
  }
  return true;
}

/// Page-aligned zeroed memory with a region.
class Memory {
 public:
  Memory(soft::Engine& engine, std::uint32_t pd, std::uint64_t bytes, std::uint32_t access = 15,
         std::optional<std::uint64_t> iova = std::nullopt)
      : engine_(engine), storage_(bytes + 4096) {
    const auto raw = reinterpret_cast<std::uintptr_t>(storage_.data());
    data_ = storage_.data() + (4096 - raw % 4096) % 4096;
    iova_ = iova.value_or(reinterpret_cast<std::uintptr_t>(data_));
    key_ = engine_.create_region(
        {.pd = pd, .address = data_, .bytes = bytes, .iova = iova_, .access = access});
  }
  ~Memory() { drop(); }
  Memory(const Memory&) = delete;

  void drop() {
    if (key_ != 0) engine_.destroy_region(key_);
    key_ = 0;
  }
  [[nodiscard]] std::uint8_t* data() { return data_; }
  template <class T>
  [[nodiscard]] T* as(std::uint64_t offset = 0) {
    return reinterpret_cast<T*>(data_ + offset);
  }
  [[nodiscard]] std::uint32_t key() const { return key_; }
  [[nodiscard]] std::uint64_t address(std::uint64_t offset = 0) const { return iova_ + offset; }

 private:
  soft::Engine& engine_;
  std::uint64_t iova_ = 0;
  std::vector<std::uint8_t> storage_;
  std::uint8_t* data_ = nullptr;
  std::uint32_t key_ = 0;
};

struct QueueOptions {
  std::uint32_t log_entries = 6;
  std::uint32_t log_cq = 0;
  bool collapsed = true, ignore_overrun = true;
  std::uint32_t user_index = 0;
  /// The page of another queue pair, which must live longer; by default it has its own.
  std::uint32_t uar = 0;
  void* page = nullptr;
  soft::ReceiveAttributes receives = {};  ///< its own by default
  std::uint32_t shared_receives = 0;
  bool no_record = false;
  bool waits_for_others = false;
  soft::Service service = soft::Service::kReliable;
};

/// A queue pair as a client sees it.
class Queue {
 public:
  Queue(soft::Engine& engine, std::uint32_t pd, const QueueOptions& options = {})
      : engine_(engine),
        options_(options),
        ring_(pages(64ull << options.log_entries)),
        cq_(pages(64ull << options.log_cq)) {
    std::memset(cq_.get(), 0xff, 64ull << options.log_cq);
    page_ = options.page;
    uar_ = options.page != nullptr ? options.uar : engine.create_uar(&page_);
    cqn_ = engine.create_cq({.buffer = cq_.get(),
                             .log_entries = options.log_cq,
                             .collapsed = options.collapsed,
                             .ignore_overrun = options.ignore_overrun,
                             .record = records_ + 2,
                             .uar = uar_});
    qpn_ = engine.create_qp({.service = options.service,
                             .pd = pd,
                             .send_queue = ring_.get(),
                             .log_send_entries = options.log_entries,
                             .record = records_,
                             .send_cq = cqn_,
                             .receive_cq = cqn_,
                             .uar = uar_,
                             .user_index = options.user_index,
                             .receives = options.receives,
                             .shared_receives = options.shared_receives,
                             .no_record = options.no_record,
                             .waits_for_others = options.waits_for_others});
  }
  ~Queue() {
    if (qpn_ != 0) engine_.destroy_qp(qpn_);
    engine_.destroy_cq(cqn_);
    if (options_.page == nullptr) engine_.destroy_uar(uar_);
  }
  Queue(const Queue&) = delete;

  void destroy_qp() { engine_.destroy_qp(qpn_), qpn_ = 0; }

  void connect(std::uint32_t remote_qpn, const soft::QpRtr& rtr = {}, const soft::QpRts& rts = {}) {
    engine_.modify_to_init(qpn_, {true, true, true});
    finish_connect(remote_qpn, rtr, rts);
  }
  void finish_connect(std::uint32_t remote_qpn, soft::QpRtr rtr = {}, const soft::QpRts& rts = {}) {
    rtr.remote_qpn = remote_qpn;
    engine_.modify_to_rtr(qpn_, rtr);
    engine_.modify_to_rts(qpn_, rts);
  }
  void reset() {
    engine_.modify_to_reset(qpn_);
    next_ = polled_ = 0;
    store_record(0);
    std::memset(cq_.get(), 0xff, 64);
  }

  // Entries. `flags`: 8 requests a completion.
  [[nodiscard]] Bytes control(std::uint8_t opcode, std::uint8_t units, std::uint8_t flags,
                              std::uint8_t opmod = 0) const {
    Bytes wqe;
    append32(wqe, static_cast<std::uint32_t>(opmod) << 24 | (next_ & 0xffff) << 8 | opcode);
    append32(wqe, qpn_ << 8 | units);
    append32(wqe, flags);
    append32(wqe, 0);
    return wqe;
  }
  static void remote(Bytes& wqe, std::uint64_t address, std::uint32_t key) {
    append64(wqe, address);
    append32(wqe, key);
    append32(wqe, 0);
  }
  static void data(Bytes& wqe, std::uint64_t address, std::uint32_t bytes, std::uint32_t key) {
    append32(wqe, bytes);
    append32(wqe, key);
    append64(wqe, address);
  }
  struct Far {
    std::uint64_t address;
    std::uint32_t key;
  };
  struct Near {
    std::uint64_t address;
    std::uint32_t bytes, key;
  };
  std::uint16_t send(const Near& near, std::uint8_t flags = 8) {
    Bytes wqe = control(0x0a, 2, flags);
    data(wqe, near.address, near.bytes, near.key);
    return post(wqe);
  }
  std::uint16_t nop(std::uint8_t flags = 8) { return post(control(0x00, 1, flags)); }
  std::uint16_t write(const Far& far, const Near& near, std::uint8_t flags = 8) {
    return transfer(0x08, far, near, flags);
  }
  std::uint16_t read(const Far& far, const Near& near, std::uint8_t flags = 8) {
    return transfer(0x10, far, near, flags);
  }
  std::uint16_t write_inline(const Far& far, const Bytes& payload, std::uint8_t flags = 8) {
    const auto units = static_cast<std::uint8_t>(2 + (payload.size() + 4 + 15) / 16);
    Bytes wqe = control(0x08, units, flags);
    remote(wqe, far.address, far.key);
    append32(wqe, 0x80000000u | static_cast<std::uint32_t>(payload.size()));
    for (const std::uint8_t byte : payload) wqe.push_back(byte);
    wqe.resize(units * 16u);
    return post(wqe);
  }
  /// Operands of 4 or 8 bytes as the segment has them; the result has the same size.
  std::uint16_t atomic(std::uint8_t opcode, std::uint8_t opmod, const Far& far, const Near& near,
                       const Bytes& operands, std::uint8_t flags = 8) {
    Bytes wqe = control(opcode, static_cast<std::uint8_t>(3 + operands.size() / 16), flags, opmod);
    remote(wqe, far.address, far.key);
    for (const std::uint8_t byte : operands) wqe.push_back(byte);
    data(wqe, near.address, near.bytes, near.key);
    return post(wqe);
  }
  std::uint16_t fetch_add(const Far& far, const Near& near, std::uint64_t add,
                          std::uint8_t flags = 8) {
    Bytes operands;
    append64(operands, add);
    append64(operands, 0);
    return atomic(0x12, 0, far, near, operands, flags);
  }
  std::uint16_t compare_swap(const Far& far, const Near& near, std::uint64_t compare,
                             std::uint64_t swap, std::uint8_t flags = 8) {
    Bytes operands;
    append64(operands, swap);
    append64(operands, compare);
    return atomic(0x11, 0, far, near, operands, flags);
  }

  /// Entries after it stay until a completion queue has had `count` of its own.
  std::uint16_t wait_for(std::uint32_t cqn, std::uint32_t count, std::uint8_t flags = 8) {
    Bytes wqe = control(0x0f, 2, flags);
    append64(wqe, 0);
    append32(wqe, count);
    append32(wqe, cqn);
    return post(wqe);
  }

  /// An initiator's entries have this address vector from now on, all but NOP, DUMP and WAIT.
  void set_vector(const Bytes& vector) { vector_ = vector; }
  /// Stores a WQE in the ring; returns its index.
  std::uint16_t post(Bytes wqe) {
    if (wqe[3] != 0x00 && wqe[3] != 0x23 && wqe[3] != 0x0f) {
      wqe.insert(wqe.begin() + 16, vector_.begin(), vector_.end());
      wqe[7] = static_cast<std::uint8_t>(wqe[7] + vector_.size() / 16);
    }
    const std::uint32_t entries = static_cast<std::uint32_t>((wqe.size() + 63) / 64);
    for (std::size_t at = 0; at < wqe.size(); at += 64) {
      std::memcpy(slot(next_ + static_cast<std::uint32_t>(at / 64)), wqe.data() + at,
                  std::min<std::size_t>(64, wqe.size() - at));
    }
    const auto index = static_cast<std::uint16_t>(next_);
    opcodes_[index % kKept] = wqe[3];
    next_ += entries;
    return index;
  }
  [[nodiscard]] std::uint32_t cqn() const { return cqn_; }
  /// Returns the opcode of one of the last WQEs, although its slot may be in use again.
  [[nodiscard]] std::uint8_t kept_opcode(std::uint16_t index) const {
    return opcodes_[index % kKept];
  }
  void store_record(std::uint32_t next) {
    __atomic_store_n(&records_[1], __builtin_bswap32(next & 0xffff), __ATOMIC_RELEASE);
  }
  void store_doorbell(std::uint32_t next, std::uint32_t qpn, unsigned offset = 0x800) {
    Bytes bytes;
    append32(bytes, (next & 0xffff) << 8);
    append32(bytes, qpn << 8);
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data(), 8);
    store_doorbell_value(value, offset);
  }
  void store_doorbell_value(std::uint64_t value, unsigned offset = 0x800) {
    __atomic_store_n(reinterpret_cast<std::uint64_t*>(static_cast<char*>(page_) + offset), value,
                     __ATOMIC_RELEASE);
  }
  void ring() {
    store_record(next_);
    store_doorbell(next_, qpn_);
  }

  /// Returns the entry of the collapsed queue if its counter is `index` and it is valid.
  [[nodiscard]] std::optional<Cqe> peek(std::uint32_t entry = 0) const {
    const auto* words = reinterpret_cast<const std::uint32_t*>(cq_.get()) + entry * 16;
    const std::uint32_t last = __builtin_bswap32(__atomic_load_n(words + 15, __ATOMIC_ACQUIRE));
    Cqe cqe;
    cqe.opcode = static_cast<std::uint8_t>((last & 0xff) >> 4);
    if (cqe.opcode == 15) return std::nullopt;
    cqe.owner = last & 1;
    cqe.counter = static_cast<std::uint16_t>(last >> 16);
    const std::uint32_t syndrome = load(words + 13), number = load(words + 14);
    cqe.vendor = static_cast<std::uint8_t>(syndrome >> 8);
    cqe.syndrome = static_cast<std::uint8_t>(syndrome);
    cqe.wqe_opcode = static_cast<std::uint8_t>(number >> 24);
    cqe.qpn = number & 0xffffff;
    cqe.bytes = load(words + 11);
    cqe.user_index = load(words + 8);
    return cqe;
  }
  /// Waits on a collapsed queue for the completion of `index`.
  Cqe wait(std::uint16_t index) {
    std::optional<Cqe> cqe;
    if (!eventually([&] {
          cqe = peek();
          return cqe && (cqe->counter == index || (cqe->error() && cqe->syndrome != 5));
        })) {
      throw std::runtime_error("no completion of index " + std::to_string(index) + "; " +
                               engine_.violations());
    }
    return *cqe;
  }
  Cqe ring_and_wait(std::uint16_t index) {
    ring();
    return wait(index);
  }
  /// Returns the next entry of an ordinary queue, if it has the owner bit of this lap.
  std::optional<Cqe> poll() {
    const std::uint32_t mask = (1u << options_.log_cq) - 1;
    const auto cqe = peek(polled_ & mask);
    if (!cqe || cqe->owner != (polled_ >> options_.log_cq & 1)) return std::nullopt;
    ++polled_;
    return cqe;
  }
  Cqe wait_next() {
    std::optional<Cqe> cqe;
    if (!eventually([&] { return (cqe = poll()).has_value(); })) {
      throw std::runtime_error("no completion; " + engine_.violations());
    }
    return *cqe;
  }
  void consume() {
    __atomic_store_n(&records_[2], __builtin_bswap32(polled_ & 0xffffff), __ATOMIC_RELEASE);
  }

  /// Requests an event of the completion queue for entries after `consumer`; the doorbell of
  /// another queue may write the register instead.
  void arm(std::uint32_t consumer, std::uint32_t sequence, bool doorbell = true) {
    const std::uint32_t wish = sequence << 28 | consumer;
    __atomic_store_n(&records_[3], __builtin_bswap32(wish), __ATOMIC_RELEASE);
    if (doorbell)
      store_doorbell_value(__builtin_bswap64(std::uint64_t{wish} << 32 | cqn_), kArmRegister);
  }

  [[nodiscard]] std::uint8_t* slot(std::uint32_t index) {
    return ring_.get() + 64ull * (index & ((1u << options_.log_entries) - 1));
  }
  [[nodiscard]] std::uint32_t qpn() const { return qpn_; }
  [[nodiscard]] std::uint32_t next() const { return next_; }
  void set_next(std::uint32_t next) { next_ = next; }
  [[nodiscard]] void* page() { return page_; }
  [[nodiscard]] std::uint32_t uar() const { return uar_; }

  static constexpr unsigned kArmRegister = 0x20;

 private:
  struct Free {
    void operator()(std::uint8_t* memory) const { std::free(memory); }
  };
  using Pages = std::unique_ptr<std::uint8_t[], Free>;
  static Pages pages(std::uint64_t bytes) {
    const std::uint64_t whole = (bytes + 4095) / 4096 * 4096;
    auto* memory = static_cast<std::uint8_t*>(std::aligned_alloc(4096, whole));
    std::memset(memory, 0, whole);
    return Pages(memory);
  }
  static std::uint32_t load(const std::uint32_t* word) {
    return __builtin_bswap32(__atomic_load_n(word, __ATOMIC_RELAXED));
  }
  std::uint16_t transfer(std::uint8_t opcode, const Far& far, const Near& near,
                         std::uint8_t flags) {
    Bytes wqe = control(opcode, near.bytes > 0 ? 3 : 2, flags);
    remote(wqe, far.address, far.key);
    if (near.bytes > 0) data(wqe, near.address, near.bytes, near.key);
    return post(wqe);
  }

  soft::Engine& engine_;
  QueueOptions options_;
  Pages ring_, cq_;
  alignas(64) std::uint32_t records_[4] = {};  ///< queue pair's two words, then the CQ's
  void* page_ = nullptr;
  std::uint32_t uar_ = 0, cqn_ = 0, qpn_ = 0;
  std::uint32_t next_ = 0, polled_ = 0;
  Bytes vector_;
  static constexpr std::uint32_t kKept = 64;
  std::array<std::uint8_t, kKept> opcodes_{};
};

/// Returns a route to the port of a device, by its GID `index` and from the GID with the same
/// index.
inline soft::Route route_to(const soft::DeviceAttributes& device, std::uint8_t index = 0) {
  return {
      .lid = device.lid, .mac = device.mac, .gid_index = index, .gid = device.gids[index].bytes};
}

/// Two connected queue pairs of one engine, and memory at both ends.
struct Pair {
  explicit Pair(const soft::EngineOptions& options = {}, const QueueOptions& queue = {},
                const soft::QpRtr& rtr = {}, const soft::QpRts& rts = {})
      : engine(options),
        pd(engine.create_pd()),
        source(engine, pd, kBytes, 15, 0),
        target(engine, pd, kBytes, 15, 0),
        a(engine, pd, queue),
        b(engine, pd, queue) {
    a.connect(b.qpn(), rtr, rts);
    b.connect(a.qpn(), rtr, rts);
  }
  [[nodiscard]] Queue::Far far(std::uint64_t offset) const {
    return {target.address(offset), target.key()};
  }
  [[nodiscard]] Queue::Near near(std::uint64_t offset, std::uint32_t bytes) const {
    return {source.address(offset), bytes, source.key()};
  }

  static constexpr std::uint64_t kBytes = 1 << 20;
  soft::Engine engine;
  std::uint32_t pd;
  Memory source, target;
  Queue a, b;
};

}  // namespace gshmem::test
