// The engine's thread. It processes doorbells, packets and queue pairs in turn, and rests when
// there is no work. It owns the lock that guards all state; control calls (engine.cpp) take it
// between passes.
#pragma once

#include "transport/softnic/context.h"
#include "transport/softnic/requester.h"
#include "transport/softnic/responder.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace gshmem::soft {

/// Doorbell registers, in memory of the process. A page of the host has one or several.
struct Uar {
  /// Returns the register at an offset.
  [[nodiscard]] std::uint64_t* bell(std::size_t offset) const {
    return reinterpret_cast<std::uint64_t*>(static_cast<std::uint8_t*>(page) + offset);
  }

  std::uint32_t number = 0;
  std::shared_ptr<void> memory;  ///< memory of all UARs of the page
  void* page = nullptr;          ///< this one
  std::vector<QueuePair*> users;
  std::uint64_t doorbells = 0;
  std::int64_t leave_until_ns = 0;  ///< until when the adversary leaves it unread
};

class Core {
 public:
  static constexpr std::size_t kUarBytes = 4096;

  explicit Core(const EngineOptions& options);
  ~Core();
  Core(const Core&) = delete;

  /// Locks the engine's state. The engine's thread lets control calls go first.
  class Lock {
   public:
    explicit Lock(Core& core);
    ~Lock();
    Lock(const Lock&) = delete;

   private:
    Core& core_;
  };

  // The members below require the lock.
  Context context;
  Requester requester;
  Responder responder;
  std::map<std::uint32_t, std::unique_ptr<Uar>> uars;
  std::map<std::uint32_t, int> pds;  ///< with the number of their queue pairs
  std::uint32_t last_pd = 0, last_uar = 0, last_cq = 0, last_receives = 0x100, last_qp = 0;
  std::uint64_t created_qps = 0;
  int last_listener = 0;
  bool joined = false;  ///< it joined a fabric by name or descriptor

  /// Returns a number for a queue pair or a target. Errors: EngineError 0xf when all are used.
  [[nodiscard]] std::uint32_t next_number();
  /// Puts the queue pair into the state after creation.
  void reset(QueuePair& qp);
  /// Processes doorbells that the client has stored to UAR `uar` before a command: a card has seen
  /// them when the command comes.
  void take_doorbells(std::uint32_t uar);
  void use_fabric(int fd);
  /// Errors: EngineError 0x1 when the device is gone.
  void check_present() const;
  /// Returns the fabric that was joined, or else the process's own one.
  Fabric& fabric();

  /// Returns false in a process that was forked and has no engine thread.
  [[nodiscard]] bool runs_here() const;

 private:
  void run();
  bool pass();
  bool look_at_doorbells(std::int64_t now);
  void look_at_records(std::int64_t now);
  bool look_at(Uar& uar, std::size_t at, std::int64_t now);
  bool look_at_arming();
  std::uint64_t look_at_requests();
  bool receive_requests(std::uint64_t senders, std::int64_t now);
  bool receive_replies(std::int64_t now);
  [[nodiscard]] bool drops(const QueuePair& qp, const Packet& reply) const;
  void rest(std::int64_t idle_ns);

  std::uint32_t next_uar_ = 0, next_record_ = 0;  ///< numbers, where the next pass goes on
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<int> waiting_{0};  ///< control calls that want the lock
  std::atomic<bool> stop_{false};
  int process_;
  std::thread thread_;
};

/// The engine is its thread, and calls that take its lock.
struct Engine::Impl : Core {
  using Core::Core;
};

}  // namespace gshmem::soft
