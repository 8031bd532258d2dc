#include "tests/ofi/job.h"

#include "host/base/dynamic_library.h"
#include "tests/sanitizers/sanitizers.h"
#include "tests/unit/base/gdr_double.h"
#include "transport/ofi/library.h"

#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <thread>

namespace gshmem::test {
namespace {

constexpr std::uint64_t kPage = 4096;

struct Card {
  nic::ConnectInfo info;
  std::uint32_t remote_key;
};

std::uint8_t* mappable_memory(std::size_t bytes) {
  static const DynamicLibrary library(GDR_DOUBLE);
  void* const memory = library.function<GdrDoubleAllocate>("gdr_double_allocate")(bytes);
  require(memory != nullptr, GSHMEMX_ERROR_SYSTEM, "no memory for the double of GDRCopy");
  return static_cast<std::uint8_t*>(memory);
}

}  // namespace

std::vector<Leg> legs() {
  // TSan does not see what libfabric does inside: here only gshmem's own code touches the heaps.
  if (kUnderTsan) return {{"tcp;ofi_rxm", "off"}, {"sockets", "off"}};
  return {{"tcp;ofi_rxm", "auto"}, {"tcp;ofi_rxm", "off"}, {"sockets", "auto"}, {"sockets", "off"}};
}

std::vector<Leg> data_legs() {
  std::vector<Leg> all = legs();
  all.push_back({.provider = "tcp;ofi_rxm", .gdr = "off", .busy = true});
  if (!kUnderTsan) all.push_back({.provider = "sockets", .gdr = "auto", .busy = true});
  // The mapping is the same memory at another address, where TSan does not see what orders
  // accesses.
  if (!kUnderTsan) all.push_back({"tcp;ofi_rxm", "off", true});
  return all;
}

bool have_libfabric() {
  try {
    (void)ofi::Library::get();
    return true;
  } catch (const Error& error) {
    std::printf("skipped: %s\n", error.what());
    return false;
  }
}

Config config_of(const Leg& leg, double timeout_seconds,
                 std::vector<std::pair<std::string, std::string>> more) {
  std::map<std::string, std::string> values{{"GSHMEM_OFI_PROVIDER", leg.provider},
                                            {"GSHMEM_OFI_INTERFACE", "127.0.0.1"},
                                            {"GSHMEM_GDR", leg.gdr},
                                            {"GSHMEM_TIMEOUT", strprintf("%g", timeout_seconds)}};
  for (auto& [name, value] : more) values[name] = value;
  const auto lookup = [](const char* name, void* context) -> const char* {
    const auto& table = *static_cast<std::map<std::string, std::string>*>(context);
    const auto found = table.find(name);
    return found == table.end() ? nullptr : found->second.c_str();
  };
  return Config::from(lookup, &values);
}

Pe::Pe(bootstrap::Bootstrap& boot, const Config& config, std::uint32_t depth, const Leg& leg) {
  const int size = boot.size();
  const auto queues = static_cast<std::uint64_t>(size);
  const std::uint64_t per_queue = depth * 64 + 2 * kPage;
  memory_.resize(kPage + kHeapBytes + queues * per_queue);
  const auto raw = reinterpret_cast<std::uintptr_t>(memory_.data());
  heap_ = memory_.data() + (kPage - raw % kPage) % kPage;
  queues_ = heap_ + kHeapBytes;
  if (leg.mapped) {
    heap_ = mappable_memory(kHeapBytes);
    mapping_ = map_gpu_memory(Switch::kOn, heap_, kHeapBytes, GDR_DOUBLE);
  }
  const bool on_gpu = leg.gpu_memory != nullptr;
  if (on_gpu) heap_ = static_cast<std::uint8_t*>(leg.gpu_memory(kHeapBytes));

  using enum nic::MemoryKind;
  const nic::OpenOptions options{.config = config,
                                 .boot = boot,
                                 .heap_kind = on_gpu ? kGpu : kHost,
                                 .gpu = on_gpu ? 0 : -1,
                                 .gpu_pci = {},
                                 .on_error = [this](const Error& error, int pe) {
                                   const std::lock_guard lock(mutex_);
                                   errors_.emplace_back(pe, error.what());
                                 }};
  nic_ = nic::open_ofi(options);
  nic_->use_queue_memory({.base = queues_, .bytes = queues * per_queue});
  const nic::Keys keys = nic_->register_memory({.base = heap_,
                                                .bytes = kHeapBytes,
                                                .kind = on_gpu ? kGpu : kHost,
                                                .gpu = on_gpu ? 0 : -1,
                                                .mapping = mapping_.get()});
  std::vector<Card> mine;
  std::vector<nic::QueuePlace> places;
  std::vector<nic::CreatedQueue> created;
  for (std::uint64_t pe = 0; pe < queues; ++pe) {
    const std::uint64_t at = pe * per_queue;
    places.push_back({.entries = at,
                      .completion = at + depth * 64,
                      .record = at + depth * 64 + kPage,
                      .cq_record = at + depth * 64 + kPage + 8,
                      .depth = depth});
    created.push_back(nic_->create_queue(places.back()));
    mine.push_back({nic_->connect_info(static_cast<int>(pe)), keys.remote});
  }
  std::vector<Card> all(queues * queues);
  boot.allgather(mine.data(), all.data(), queues * sizeof(Card));
  for (std::uint64_t pe = 0; pe < queues; ++pe) {
    const Card& card = all[pe * queues + static_cast<std::uint64_t>(boot.rank())];
    nic_->connect(static_cast<int>(pe), static_cast<int>(pe), card.info, card.remote_key);
    clients_.emplace_back(queues_, places[pe], created[pe], keys.local, card.remote_key);
  }
  nic_->start();
  boot.barrier();
}

Pe::~Pe() {
  if (nic_ != nullptr) nic_->stop();
}

std::vector<std::pair<int, std::string>> Pe::errors() {
  const std::lock_guard lock(mutex_);
  return errors_;
}

Job::Job(int size, const Leg& leg, double timeout_seconds, std::uint32_t depth)
    : boots_(bootstrap::create_threads(size, 30)) {
  if (leg.busy) busy_.emplace();
  pes_.resize(static_cast<std::size_t>(size));
  const Config config = config_of(leg, timeout_seconds);
  std::vector<std::exception_ptr> failures(pes_.size());
  std::vector<std::thread> threads;
  for (std::size_t pe = 0; pe < pes_.size(); ++pe)
    threads.emplace_back([&, pe] {
      try {
        pes_[pe] = std::make_unique<Pe>(*boots_[pe], config, depth, leg);
      } catch (...) {
        failures[pe] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures)
    if (failure != nullptr) std::rethrow_exception(failure);
}

}  // namespace gshmem::test
