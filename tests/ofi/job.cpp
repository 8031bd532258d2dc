#include "tests/ofi/job.h"

#include "host/base/dynamic_library.h"
#include "tests/sanitizers/sanitizers.h"
#include "tests/doubles/gdr_double.h"
#include "transport/ofi/library.h"
#include "transport/ofi/ofi_nic.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <random>
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

std::vector<Leg> order_legs() {
  std::vector<Leg> all = data_legs();
  for (Leg& leg : all) leg.trailing = leg.adverse && leg.gdr != "off";
  return all;
}

FabricDouble* fabric_double() {
  static const DynamicLibrary library("libfabric.so.1");
  void* const function = library.find("fabric_double_record");
  return function != nullptr ? reinterpret_cast<FabricDoubleRecord*>(function)() : nullptr;
}

std::vector<Leg> legs() {
  if (fabric_double() != nullptr)
    return {{"efa/efa-direct", "auto"}, {"efa/efa", "off"}, {"cxi", "auto"}};
  // TSan does not see inside libfabric. With this provider only gshmem's own code accesses the
  // heaps.
  if (kUnderTsan) return {{"tcp;ofi_rxm", "off"}};
  return {{"tcp;ofi_rxm", "auto"}, {"tcp;ofi_rxm", "off"}};
}

std::vector<Leg> data_legs() {
  // Sanitizers find errors of a path, hardly of a provider.
  if (fabric_double() != nullptr && kSanitized)
    return {{.provider = "efa/efa-direct", .gdr = "auto", .adverse = true, .nics = 3},
            {.provider = "cxi", .gdr = "auto", .busy = true, .adverse = true},
            {.provider = "tcp;ofi_rxm", .gdr = "off", .busy = true, .adverse = true}};
  std::vector<Leg> all = legs();
  if (fabric_double() != nullptr) {
    for (const char* provider : {"efa/efa-direct", "efa/efa", "cxi", "verbs;ofi_rxm"})
      all.push_back({.provider = provider, .gdr = "auto", .busy = true, .adverse = true});
    all.push_back({.provider = "tcp;ofi_rxm", .gdr = "off", .busy = true, .adverse = true});
    all.push_back({.provider = "efa/efa-direct", .gdr = "auto", .adverse = true, .nics = 3});
  }
  // The mapping is the same memory at another address, for which TSan does not see the order of
  // accesses.
  const char* const staged = fabric_double() != nullptr ? "efa/efa" : "tcp;ofi_rxm";
  if (!kUnderTsan) all.push_back({staged, "off", true});
  if (!kUnderTsan && fabric_double() != nullptr) all.push_back({"cxi", "auto", true});
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
bool have_double() {
  const bool has = have_libfabric() && fabric_double() != nullptr;
  if (!has) std::printf("skipped: over the double of libfabric only\n");
  return has;
}
bool have_real_libfabric() {
  const bool has = have_libfabric() && fabric_double() == nullptr;
  if (!has) std::printf("skipped: over a network only\n");
  return has;
}

Config config_of(const Leg& leg, double timeout_seconds,
                 std::vector<std::pair<std::string, std::string>> more) {
  const char* const interface = fabric_double() == nullptr ? "127.0.0.1" : "";
  std::map<std::string, std::string> values{{"GSHMEM_OFI_PROVIDER", leg.provider},
                                            {"GSHMEM_OFI_INTERFACE", interface},
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
  const std::uint64_t used = kHeapBytes + (queues + 1) * per_queue;
  memory_.resize(kPage + used + 2 * kPage);
  const auto raw = reinterpret_cast<std::uintptr_t>(memory_.data());
  heap_ = memory_.data() + (kPage - raw % kPage) % kPage;
  queues_ = heap_ + kHeapBytes;
  beside_ = {.base = heap_ + used, .bytes = 2 * kPage, .offset = used};
  if (leg.mapped) {
    heap_ = mappable_memory(kHeapBytes);
    mapping_ = map_gpu_memory(Switch::kOn, heap_, kHeapBytes, GDR_DOUBLE);
  }
  const bool on_gpu = leg.gpu_memory != nullptr;
  if (on_gpu) heap_ = static_cast<std::uint8_t*>(leg.gpu_memory(kHeapBytes));

  using enum nic::MemoryKind;
  const nic::Region heap{.base = heap_,
                         .bytes = kHeapBytes,
                         .kind = on_gpu ? kGpu : kHost,
                         .gpu = on_gpu ? 0 : -1,
                         .mapping = mapping_.get()};
  const nic::OpenOptions options{.config = config,
                                 .boot = boot,
                                 .heap_kind = heap.kind,
                                 .gpu = heap.gpu,
                                 .heap = heap,
                                 .gpu_pci = {},
                                 .on_error = [this](const Error& error, int pe) {
                                   const std::lock_guard lock(mutex_);
                                   errors_.emplace_back(pe, error.what());
                                 }};
  nic_ = nic::open_ofi(options);
  nic_->use_queue_memory({.base = queues_, .bytes = (queues + 1) * per_queue});
  const nic::Keys keys = nic_->register_memory(heap);
  std::vector<Card> mine;
  std::vector<nic::QueuePlace> places;
  std::vector<nic::CreatedQueue> created;
  const auto place = [&](std::uint64_t queue) -> nic::QueuePlace {
    const std::uint64_t at = queue * per_queue;
    return {.entries = at,
            .completion = at + depth * 64,
            .record = at + depth * 64 + kPage,
            .cq_record = at + depth * 64 + kPage + 8,
            .depth = depth};
  };
  spare_ = place(queues);
  for (std::uint64_t pe = 0; pe < queues; ++pe) {
    places.push_back(place(pe));
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
  if (leg.by_hand)
    dynamic_cast<ofi::OfiNic&>(*nic_).executor().hand_over();
  else
    nic_->start();
  boot.barrier();
  nic_->all_started();
}

Client& Pe::add_queue() {
  const nic::CreatedQueue created = nic_->create_queue(spare_);
  const int index = static_cast<int>(clients_.size());
  const std::uint32_t key = clients_.front().remote_key;
  nic_->connect(index, 0, nic_->connect_info(index), key);
  dynamic_cast<ofi::OfiNic&>(*nic_).executor().hand_over();
  return clients_.emplace_back(queues_, spare_, created, clients_.front().local_key, key);
}

bool Pe::round(ofi::Clock::time_point now) {
  return dynamic_cast<ofi::OfiNic&>(*nic_).executor().round(now);
}

std::vector<std::pair<int, std::string>> Pe::errors() {
  const std::lock_guard lock(mutex_);
  return errors_;
}

Job::Job(int size, const Leg& leg, double timeout_seconds, std::uint32_t depth,
         std::vector<std::pair<std::string, std::string>> more)
    : boots_(bootstrap::create_threads(size, 30)) {
  if (FabricDouble* const rules = fabric_double()) {
    rules->offer({leg.provider.substr(leg.provider.find('/') + 1)});
    rules->nics = leg.nics;
    rules->busy = leg.busy ? 50 : 0;
    rules->rtt = leg.adverse ? 6'000 : 0;
    rules->jitter = leg.adverse ? 20'000 : 0;
    rules->trail = leg.trailing ? 50'000 : 0;
    if (leg.adverse) {
      rules->seed = std::random_device()();
      std::printf("%s: seed %u\n", leg.name().c_str(), rules->seed.load());
    }
    if (leg.nics > 1) more.emplace_back("GSHMEM_NICS_PER_PE", std::to_string(leg.nics));
  }
  pes_.resize(static_cast<std::size_t>(size));
  const Config config = config_of(leg, timeout_seconds, std::move(more));
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

Job::~Job() {
  // All PEs stop before the heap of one is freed.
  for (const auto& pe : pes_)
    if (pe != nullptr) pe->nic().stop();
  if (fabric_double() == nullptr) return;
  for (const std::string& what : fabric_double()->violations())
    std::printf("violation: %s\n", what.c_str());
  const bool clean = fabric_double()->violations().empty();
  fabric_double()->reset();
  if (!clean && std::uncaught_exceptions() == 0) std::abort();
}

}  // namespace gshmem::test
