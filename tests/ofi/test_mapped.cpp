// Tests a heap that the CPU reaches by a mapping: what uses it and what uses the copy engine, and
// when data counts as arrived. The executor over it is a leg of the other tests (job.h).
#include "transport/ofi/mapped_access.h"

#include "host/base/fd.h"
#include "tests/ofi/job.h"
#include "tests/doubles/gdr_fixture.h"

#include <catch2/catch.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>

using namespace gshmem;
using namespace gshmem::test;
using ofi::kNoTicket;
using ofi::MappedAccess;

namespace {

constexpr std::uint64_t kBytes = 1 << 20;

/// A copy engine that executes its copies only when it is polled.
class SlowEngine final : public ofi::MemoryAccess {
 public:
  explicit SlowEngine(std::uint8_t* base) : base_(base) {}
  void attach_thread() override { ++attached; }
  ofi::Staging allocate(std::size_t bytes) override {
    return {new std::uint8_t[bytes](), std::default_delete<std::uint8_t[]>()};
  }
  ofi::Ticket start_write(std::uint64_t offset, const void* from, std::size_t bytes) override {
    ++writes;
    return start([=, this] { std::memcpy(base_ + offset, from, bytes); });
  }
  ofi::Ticket start_read(std::uint64_t offset, void* to, std::size_t bytes) override {
    ++reads;
    return start([=, this] { std::memcpy(to, base_ + offset, bytes); });
  }
  bool done(ofi::Ticket ticket) override {
    if (ticket != kNoTicket) copies_.at(static_cast<std::size_t>(ticket))();
    return true;
  }
  ofi::Ticket start_atomic(std::uint64_t, const nic::Wqe&, std::uint64_t*) override {
    ++atomics;
    return kNoTicket;
  }
  bool coherent() const override { return true; }

  int attached = 0, writes = 0, reads = 0, atomics = 0;

 private:
  ofi::Ticket start(std::function<void()> copy) {
    copies_.push_back(std::move(copy));
    return static_cast<ofi::Ticket>(copies_.size() - 1);
  }
  std::uint8_t* base_;
  std::vector<std::function<void()>> copies_;
};

struct Rig {
  Gdr gdr;
  std::uint8_t* gpu = gdr.allocate(kBytes);
  std::unique_ptr<GpuMapping> mapping = map_gpu_memory(Switch::kOn, gpu, kBytes, GDR_DOUBLE);
  SlowEngine* engine = new SlowEngine(gpu);
  MappedAccess access{std::unique_ptr<ofi::MemoryAccess>(engine), *mapping};

  void finish(ofi::Ticket ticket) {
    while (!access.done(ticket)) continue;
  }
  std::uint64_t atomic(std::uint64_t offset, const nic::Wqe& wqe) {
    std::uint64_t old = 0;
    finish(access.start_atomic(offset, wqe, &old));
    return old;
  }
};

nic::Wqe atomic_of(nic::WqeKind kind, std::uint32_t bytes, std::uint64_t operand,
                   std::uint64_t compare = 0) {
  nic::Wqe wqe;
  wqe.kind = kind;
  wqe.length = bytes;
  wqe.swap_or_add = operand;
  wqe.compare = compare;
  return wqe;
}

/// A page of the mapping that was neither loaded from nor stored to since this object was made. The
/// page table shows it (proc(5), pagemap), because the entry of the page was removed.
class ViewPage {
 public:
  ViewPage(std::uint8_t* view, std::uint64_t offset)
      : page_(view + offset / kPage * kPage), table_(::open("/proc/self/pagemap", O_RDONLY)) {
    REQUIRE(table_);
    REQUIRE(::madvise(page_, kPage, MADV_DONTNEED) == 0);
    REQUIRE_FALSE(touched());
  }
  [[nodiscard]] bool touched() const {
    std::uint64_t entry = 0;
    const std::uint64_t at = reinterpret_cast<std::uintptr_t>(page_) / kPage * sizeof(entry);
    REQUIRE(::pread(table_.get(), &entry, sizeof(entry), static_cast<off_t>(at)) == sizeof(entry));
    return entry >> 63 != 0;
  }

 private:
  inline static const auto kPage = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  std::uint8_t* page_;
  Fd table_;
};

Leg mapped_leg() { return {fabric_double() != nullptr ? "efa/efa" : "tcp;ofi_rxm", "off", true}; }

}  // namespace

TEST_CASE("data that the mapping has written is read back before it counts as arrived", "[ofi]") {
  Rig rig;
  constexpr std::uint64_t kAt = 5 * 65536;
  const std::uint64_t word = 42;
  std::vector<std::uint8_t> large(MappedAccess::kMaxWrite + 1, 7);
  nic::Wqe beyond = atomic_of(nic::WqeKind::kFetchAdd, 8, 1);
  const ofi::Ticket ticket = rig.access.start_write(kAt, &word, sizeof(word));
  const ViewPage page(rig.gdr->view, kAt);
  SECTION("who asks") { CHECK(rig.access.done(ticket)); }
  SECTION("a write by the copy engine") {
    (void)rig.access.start_write(0, large.data(), large.size());
  }
  SECTION("a read by it") { (void)rig.access.start_read(0, large.data(), large.size()); }
  SECTION("an atomic by it") { (void)rig.access.start_atomic(kBytes, beyond, nullptr); }
  CHECK(page.touched());
  // Only once: there is nothing left to wait for.
  const ViewPage again(rig.gdr->view, kAt);
  CHECK(rig.access.done(ticket));
  CHECK_FALSE(again.touched());
}

TEST_CASE("atomics use the mapping and return the old value", "[ofi]") {
  Rig rig;
  std::uint64_t word = 0xfffffffffffffff0;
  std::memcpy(rig.gpu + 16, &word, 8);
  CHECK(rig.atomic(16, atomic_of(nic::WqeKind::kFetchAdd, 8, 0x20)) == word);
  std::memcpy(&word, rig.gpu + 16, 8);
  CHECK(word == 0x10);
  CHECK(rig.atomic(16, atomic_of(nic::WqeKind::kCompareSwap, 8, 5, 0x11)) == 0x10);
  CHECK(rig.gpu[16] == 0x10);
  CHECK(rig.atomic(16, atomic_of(nic::WqeKind::kCompareSwap, 8, 5, 0x10)) == 0x10);
  CHECK(rig.gpu[16] == 5);
  CHECK(rig.engine->atomics + rig.engine->reads + rig.engine->writes == 0);
  CHECK_FALSE(rig.access.coherent());
}

TEST_CASE("a failing mapping fails the put that it was for", "[ofi]") {
  if (!have_libfabric()) return;
  const Gdr gdr;
  {
    Job job(2, mapped_leg());
    Client& client = job[0].to(1);
    REQUIRE(client.ring_and_wait(client.write(0, 0, 100)).ok());
    gdr->copy_error = EIO;
    CHECK_FALSE(client.ring_and_wait(client.write(0, 0, 100)).ok());
    gdr->copy_error = 0;
  }
  CHECK(gdr.clean());
}

TEST_CASE("small puts use the mapping, and a job leaves nothing pinned", "[ofi]") {
  if (!have_libfabric()) return;
  const Gdr gdr;
  {
    Job job(2, mapped_leg());
    CHECK(gdr->mappings == 2);
    std::memcpy(job[0].heap() + 1, "twelve bytes", 12);
    Client& client = job[0].to(1);
    REQUIRE(client.ring_and_wait(client.write(33, 1, 12)).ok());
    CHECK(std::memcmp(job[1].heap() + 33, "twelve bytes", 12) == 0);
    CHECK(gdr->copies_from == 1);  // of the source
    CHECK(gdr->copies_to == 1);    // at the target
  }
  CHECK(gdr.clean());
}
