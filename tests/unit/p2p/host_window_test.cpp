// Tests the window of heaps in host memory: addresses, which PEs map which heap, and memory of the
// program beside the heaps. PEs are processes, or threads of one.
#include "transport/p2p/lent_memory.h"
#include "transport/p2p/window.h"

#include <gshmem/abi/state.h>

#include "tests/bootstrap/run_ranks.h"
#include "tests/bootstrap/uid_fixture.h"
#include "tests/unit/control/local_host.h"

#include <catch2/catch.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

using namespace gshmem;
using namespace gshmem::p2p;
using test::expect;
using test::expect_error;

namespace {

constexpr std::uint64_t kStep = abi::kHeapAlignment;
const auto kPage = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));

/// A PE of a host that has no window yet.
struct HostPe {
  Collectives& boot;
  control::LocalPeers& local;
  [[nodiscard]] int me() const { return boot.rank(); }
  [[nodiscard]] int n() const { return boot.size(); }
  [[nodiscard]] std::unique_ptr<PeerWindow> window(WindowBytes bytes, Peers peers = Peers::kAll,
                                                   std::vector<int> groups = {}) const {
    groups.resize(static_cast<std::size_t>(n()));
    return make_host_window(local, bytes, peers, groups);
  }
};

using Body = std::function<void(const HostPe&)>;

std::string by_processes(int size, const Body& body) {
  test::IdChannel channel;
  return test::run_processes(size, [&](int rank) {
    const auto boot = channel.join(rank, size, test::uid_config());
    test::LocalHost host(*boot, 60);
    body({*boot, host.local});
    boot->barrier();
  });
}

std::string by_threads(int size, const Body& body) {
  auto boots = bootstrap::create_threads(size, 60);
  return test::run_threads(size, [&](int rank) {
    bootstrap::Bootstrap& boot = *boots[static_cast<std::size_t>(rank)];
    test::LocalHost host(boot, 60);
    body({boot, host.local});
    boot.barrier();
  });
}

/// Shared pages of this process, from a file of their own, from its second page on.
class Pages {
 public:
  explicit Pages(std::size_t count, int access = PROT_READ | PROT_WRITE, int sharing = MAP_SHARED)
      : bytes(count * kPage) {
    file_ = Fd(static_cast<int>(check_errno(::memfd_create("pages", MFD_CLOEXEC), "memfd_create")));
    check_errno(::ftruncate(file_.get(), static_cast<off_t>(bytes + kPage)), "ftruncate");
    void* const at =
        ::mmap(nullptr, bytes, access, sharing, file_.get(), static_cast<off_t>(kPage));
    expect(at != MAP_FAILED, "mmap");
    data = static_cast<char*>(at);
  }
  ~Pages() { ::munmap(data, bytes); }
  Pages(const Pages&) = delete;
  void close() { file_ = Fd(); }
  /// Maps them over pages `from` on.
  void put(std::size_t from, std::size_t count, const Pages& other) {
    void* const at = ::mmap(data + from * kPage, count * kPage, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_FIXED, other.file_.get(), static_cast<off_t>(kPage));
    expect(at != MAP_FAILED, "mmap");
  }
  std::size_t bytes;
  char* data = nullptr;

 private:
  Fd file_;
};

/// Returns the byte at an address, or -1 if it is not readable.
int byte_at(const char* at) {
  int ends[2];
  check_errno(::pipe(ends), "pipe");
  const Fd out(ends[0]), in(ends[1]);
  if (::write(in.get(), at, 1) != 1) return -1;
  unsigned char byte = 0;
  check_errno(::read(out.get(), &byte, 1), "read");
  return byte;
}

}  // namespace

TEST_CASE("heaps_of_a_host_are_in_slots_of_one_range") {
  const Body body = [](const HostPe& pe) {
    const auto window = pe.window({kStep + 1, kPage}, Peers::kAll, {0, 0, 1});
    const PeerWindow& w = *window;
    expect(w.bytes() == 2 * kStep && w.alignment() == 2 * kStep, "in whole steps");
    expect(w.lent_begin() == 2 * kStep && w.lent_bytes() == kStep, "and what is beside them");
    expect(w.lent_granularity() == kPage, "in pages");
    expect(w.stride() == static_cast<std::int64_t>(4 * kStep), "no address is wasted");
    expect(reinterpret_cast<std::uintptr_t>(w.heap()) % w.alignment() == 0, "the alignment");
    expect(w.pes() == std::vector<int>{0, 1, 2}, "the PEs of the host");
    const bool last = pe.me() == 2;
    expect(w.mapped() == std::vector<bool>{!last, !last, last}, "those of the group are mapped");
    expect(w.why_not(pe.me()).empty() && w.why_not(3) == "it is on another host", "why not");
    expect(w.why_not(last ? 1 : 2) == "GSHMEM_P2P_GROUP puts it into another group", "why not");
    char* const first = w.heap() - pe.me() * w.stride();
    char* const end = first + 3 * w.stride();
    expect(!w.overlaps(first - 8, 8) && w.overlaps(first - 8, 9), "it begins there");
    expect(!w.overlaps(end, 8) && w.overlaps(end - 1, 1), "and ends there");
    w.heap()[0] = w.heap()[w.bytes() - 1] = static_cast<char>('a' + pe.me());
    pe.boot.barrier();
    for (int other = 0; other < 3; ++other) {
      const char* const heap = first + other * w.stride();
      expect(heap[0] == 'a' + other && heap[w.bytes() - 1] == 'a' + other, "whose heap it is");
    }
    pe.boot.barrier();
  };
  CHECK(by_processes(3, body) == "");
  CHECK(by_threads(3, body) == "");
}

TEST_CASE("lent_memory_is_mapped_at_its_offset_by_all_pes_that_map_the_heap") {
  const Body body = [](const HostPe& pe) {
    const auto window = pe.window({kStep, kStep}, Peers::kAll, {0, 0, 1});
    const std::uint64_t offset = window->lent_begin() + 2 * kPage;
    const auto seen = [&](int of, std::size_t page) {
      return byte_at(window->heap() + (of - pe.me()) * window->stride() + offset + page * kPage);
    };
    const auto value = [](int of, int round, std::size_t page) {
      return 1 + 10 * of + 3 * round + static_cast<int>(page);
    };
    // PE 0 shares two files, the others one; the second round uses other files.
    for (int round = 0; round < 2; ++round) {
      Pages pages(3), more(1);
      if (pe.me() == 0) pages.put(1, 1, more);
      for (std::size_t page = 0; page < 3; ++page)
        pages.data[page * kPage] = static_cast<char>(value(pe.me(), round, page));
      const LentMemory mine = window->lend(pages.data, pages.bytes);
      expect(mine.pieces.size() == (pe.me() == 0 ? 3u : 1u), "a piece for each part of a file");
      window->map_lent(offset, mine);
      pe.boot.barrier();
      for (int other = 0; other < 3; ++other) {
        // PEs that are threads share one mapping, which has everything.
        const bool is_there = pe.local.is_one_process() || (other == 2) == (pe.me() == 2);
        for (std::size_t page = 0; page < 3; ++page)
          expect(seen(other, page) == (is_there ? value(other, round, page) : -1),
                 "what PE " + std::to_string(other) + " has lent");
      }
      pe.boot.barrier();
      window->unmap_lent(offset);
      pe.boot.barrier();
      for (std::size_t page = 0; page < 3; ++page) expect(seen(pe.me(), page) == -1, "it is gone");
      pe.boot.barrier();
    }
    window->unmap_lent(offset);  // nothing is mapped, so nothing changes
  };
  CHECK(by_processes(3, body) == "");
  CHECK(by_threads(3, body) == "");
}

TEST_CASE("every_pe_gets_the_chunks_of_all_in_the_order_of_their_loans") {
  const Body body = [](const HostPe& pe) {
    Pages pages(3), more(1);
    if (pe.me() == 0) pages.put(1, 1, more);
    const LentMemory mine = lend_host_memory(pages.data, pages.bytes);
    const std::vector<LentMemory> all = exchange_lent(pe.local, mine);
    for (std::size_t other = 0; other < 3; ++other) {
      expect(all[other].pieces.size() == (other == 0 ? 3u : 1u), "as many pieces as were lent");
      std::uint64_t bytes = 0;
      for (const LentMemory::Piece& piece : all[other].pieces) bytes += piece.bytes;
      expect(bytes == 3 * kPage, "and as many bytes");
    }
  };
  CHECK(by_processes(3, body) == "");
  CHECK(by_threads(3, body) == "");
}

TEST_CASE("memory_that_others_cannot_map_is_not_lent") {
  CHECK(by_threads(1, [](const HostPe& pe) {
          const auto window = pe.window({kStep, kStep});
          Pages good(3);
          const auto refused = [&](const char* at, std::size_t bytes, const std::string& why,
                                   gshmemx_status code = GSHMEMX_ERROR_NOT_SUPPORTED) {
            expect_error(code, why, [&] { (void)window->lend(at, bytes); });
          };
          const auto invalid = GSHMEMX_ERROR_INVALID_VALUE;
          refused(good.data + 8, kPage, "is not in whole pages of", invalid);
          refused(good.data, kPage + 8, "is not in whole pages of", invalid);
          const LentMemory two = window->lend(good.data + kPage, 2 * kPage);
          expect(two.pieces.size() == 1 && two.pieces[0].offset == 2 * kPage &&
                     two.pieces[0].bytes == 2 * kPage,
                 "where it is in its file");
          // The first page is good, the second one is not.
          const auto second = [&](const std::function<void(char* at)>& spoil) {
            auto pages = std::make_unique<Pages>(3);
            spoil(pages->data + kPage);
            return pages;
          };
          const std::string from = " from byte " + std::to_string(kPage) + " on";
          const auto gone = second([](char* at) { ::munmap(at, kPage); });
          refused(gone->data, 2 * kPage, "is not mapped" + from);
          const auto read_only = second([](char* at) { ::mprotect(at, kPage, PROT_READ); });
          refused(read_only->data, 2 * kPage, "cannot be read and written" + from);
          const auto unreadable = second([](char* at) { ::mprotect(at, kPage, PROT_WRITE); });
          refused(unreadable->data, 2 * kPage, "cannot be read and written" + from);
          const auto own = second([](char* at) {
            (void)::mmap(at, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                         -1, 0);
          });
          refused(own->data, 2 * kPage, "is private" + from);
          Pages closed(1);
          closed.close();
          refused(closed.data, kPage, "is of a file that this process has no descriptor of");
        }) == "");
}
