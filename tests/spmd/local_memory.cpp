// Local memory that is registered with the NICs (gshmemx_buffer_register): every transfer from and
// to it, by host threads and in kernels; that a NIC reads it itself; that what takes its place is
// seen; and the limits of registration.
#include "tests/spmd/user_memory.h"

#include <sys/mman.h>

#include <cstring>
#include <stdexcept>
#include <utility>
#include <vector>

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

/// At an odd address in a page, a transfer of several pages.
constexpr std::size_t kAt = 4099, kBytes = 70000;

/// Puts local memory to the next PE, and gets what that one had at first.
struct MoveInKernel {
  GSHMEM_FN static std::uint64_t posted(const abi::DeviceState& state, int pe) {
    std::uint64_t sum = 0;
    for (std::uint32_t i = 0; i < state.nic.per_pe; ++i) {
      const std::uint32_t at = static_cast<std::uint32_t>(pe) * state.nic.per_pe + i;
      const device::Queue queue(state.nic.queues + at);
      sum += device::PublishedWord::end(device::load_acquire_gpu(&queue.cursor()->ready));
    }
    return sum;
  }
  /// `entries`: how many a put must take; 0: it does not matter.
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, char* heap, std::uint64_t* signal,
                            char* local, std::uint64_t entries) const {
    const int next = (ctx.my_pe() + 1) % ctx.n_pes();
    const std::uint64_t before = entries ? posted(ctx.state(), next) : 0;
    ctx.put_nbi(Thread{}, heap, local, kBytes, next);
    // With an address vector an entry takes two.
    const std::uint64_t each = ctx.state().nic.vectors ? 2 : 1;
    if (entries) SPMD_EQ(log, posted(ctx.state(), next) - before, entries * each);
    ctx.quiet();
    ctx.get(Thread{}, local + kBytes, heap + kBytes, kBytes, next);
    ctx.put_signal(Thread{}, heap + 2 * kBytes, local, kBytes, {signal, 1, Signal::kAdd}, next);
    ctx.wait_until(signal, Cmp::kEq, std::uint64_t{1});
  }
};

/// Private pages, which can be replaced by others at the same address.
class Pages {
 public:
  static constexpr std::size_t kSize = 1 << 17;
  explicit Pages(std::uint8_t value) { map(nullptr, 0, value); }
  ~Pages() { ::munmap(data_, kSize); }
  Pages(const Pages&) = delete;
  /// Frees the pages and maps new ones, in one call: other threads map memory, too.
  void replace(std::uint8_t value) { map(data_, MAP_FIXED, value); }
  [[nodiscard]] std::uint8_t* data() const { return data_; }

 private:
  void map(void* at, int flags, std::uint8_t value) {
    void* const got =
        ::mmap(at, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    if (got == MAP_FAILED) throw std::runtime_error("no pages for a test");
    data_ = static_cast<std::uint8_t*>(got);
    std::memset(data_, value, kSize);
  }
  std::uint8_t* data_ = nullptr;
};

}  // namespace

SPMD_TEST(host_threads_move_registered_local_memory) {
  UserMemory memory(pe, 1);
  char* const local = memory.data() + kAt;
  SymmetricArray<char> heap(2 * kBytes);
  SymmetricArray<std::uint64_t> signal(1);
  SPMD_EQ(pe, gshmemx_buffer_register(local, 2 * kBytes), 0);
  std::uint64_t round = 0;
  // The sizes fit inside of an entry of three units, need more, or have an entry of their own.
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{20}, std::size_t{300}, kBytes}) {
    for (const bool nbi : {false, true}) {
      const auto check = [&](int line, int tag) {
        pe.barrier();
        pe.equal_bytes(line, pe.read(heap.data(), bytes), bytes_of(pe, pe.previous() + tag, bytes));
        pe.barrier();
      };
      const auto fill = [&](int tag) { memory.write(kAt, bytes_of(pe, pe.me() + tag, bytes)); };
      fill(100);
      if (nbi) gshmem_putmem_nbi(heap.data(), local, bytes, pe.next());
      if (!nbi) gshmem_putmem(heap.data(), local, bytes, pe.next());
      check(__LINE__, 100);
      // To the last byte that is registered.
      char* const dest = local + 2 * kBytes - bytes;
      if (nbi) gshmem_getmem_nbi(dest, heap.data(), bytes, pe.next());
      if (!nbi) gshmem_getmem(dest, heap.data(), bytes, pe.next());
      gshmem_quiet();
      pe.equal_bytes(__LINE__, memory.read(kAt + 2 * kBytes - bytes, bytes),
                     bytes_of(pe, pe.me() + 100, bytes));
      pe.barrier();
      fill(200);
      ++round;
      if (nbi)
        gshmem_putmem_signal_nbi(heap.data(), local, bytes, signal.data(), round, GSHMEM_SIGNAL_SET,
                                 pe.next());
      if (!nbi)
        gshmem_putmem_signal(heap.data(), local, bytes, signal.data(), round, GSHMEM_SIGNAL_SET,
                             pe.next());
      SPMD_EQ(pe, gshmem_signal_wait_until(signal.data(), GSHMEM_CMP_EQ, round), round);
      check(__LINE__, 200);
    }
  }
  SPMD_EQ(pe, gshmemx_buffer_unregister(local), 0);
}

SPMD_TEST(a_nic_reads_registered_local_memory_itself_when_a_kernel_puts_it) {
  UserMemory memory(pe, 1);
  char* const local = memory.data() + kAt;
  SymmetricArray<char> heap(3 * kBytes);
  SymmetricArray<std::uint64_t> signal(1);
  for (const bool registered : {true, false}) {
    if (registered) SPMD_EQ(pe, gshmemx_buffer_register(local, 2 * kBytes), 0);
    const int tag = registered ? 100 : 300;
    memory.write(kAt, bytes_of(pe, pe.me() + tag, kBytes));
    pe.write(heap.data() + kBytes, bytes_of(pe, pe.me() + tag + 100, kBytes));
    pe.write(signal.data(), std::vector<std::uint8_t>(8));
    pe.barrier();
    // A put that is one entry names the memory. Otherwise the data is inside of many entries.
    const bool counts = registered && !pe.maps(pe.next());
    pe.run({}, MoveInKernel{}, heap.data(), signal.data(), local, std::uint64_t{counts ? 1u : 0u});
    pe.barrier();
    const std::vector<std::uint8_t> theirs = bytes_of(pe, pe.previous() + tag, kBytes);
    pe.equal_bytes(__LINE__, pe.read(heap.data(), kBytes), theirs);
    pe.equal_bytes(__LINE__, pe.read(heap.data() + 2 * kBytes, kBytes), theirs);
    pe.equal_bytes(__LINE__, memory.read(kAt + kBytes, kBytes),
                   bytes_of(pe, pe.next() + tag + 100, kBytes));
    if (registered) SPMD_EQ(pe, gshmemx_buffer_unregister(local), 0);
    pe.barrier();
  }
}

SPMD_TEST(memory_that_takes_the_place_of_local_memory_is_what_puts_read) {
  if (pe.on_gpu()) return pe.skip("CUDA chooses the addresses of its memory");
  constexpr std::size_t kPut = Pages::kSize;
  Pages pages(1);
  SymmetricArray<std::uint8_t> heap(kPut);
  std::uint8_t value = 1;
  const auto put_and_check = [&](int line) {
    gshmem_putmem(heap.data(), pages.data(), kPut, pe.next());
    pe.barrier();
    pe.equal_bytes(line, pe.read(heap.data(), kPut), std::vector<std::uint8_t>(kPut, value));
    pe.barrier();
  };
  // Without registration.
  put_and_check(__LINE__);
  pages.replace(++value);
  put_and_check(__LINE__);
  SPMD_EQ(pe, gshmemx_buffer_register(pages.data(), kPut), 0);
  put_and_check(__LINE__);
  // The registration has ended before the memory.
  SPMD_EQ(pe, gshmemx_buffer_unregister(pages.data()), 0);
  pages.replace(++value);
  put_and_check(__LINE__);
  SPMD_EQ(pe, gshmemx_buffer_register(pages.data(), kPut), 0);
  put_and_check(__LINE__);
  // The memory ends first: what is there now is registered by the same call.
  pages.replace(++value);
  SPMD_EQ(pe, gshmemx_buffer_register(pages.data(), kPut), 0);
  put_and_check(__LINE__);
  SPMD_EQ(pe, gshmemx_buffer_unregister(pages.data()), 0);
  SPMD_CHECK(pe, gshmemx_buffer_unregister(pages.data()) != 0);
}

SPMD_TEST(a_transfer_that_is_registered_in_part_moves_all_its_bytes) {
  UserMemory memory(pe, 1);
  char* const local = memory.data() + kAt;
  SymmetricArray<char> heap(kBytes);
  memory.write(kAt, bytes_of(pe, pe.me(), kBytes));
  // All but the first byte, all but the last one, and two neighbours.
  const std::pair<std::size_t, std::size_t> ranges[] = {{1, kBytes}, {0, kBytes - 1}, {0, 512}};
  for (const auto& [from, to] : ranges) {
    SPMD_EQ(pe, gshmemx_buffer_register(local + from, to - from), 0);
    if (to == 512) SPMD_EQ(pe, gshmemx_buffer_register(local + to, kBytes - to), 0);
    SPMD_EQ(pe, gshmemx_buffer_register(local, kBytes), GSHMEMX_ERROR_INVALID_VALUE);
    gshmem_putmem(heap.data(), local, kBytes, pe.next());
    pe.barrier();
    pe.equal_bytes(__LINE__, pe.read(heap.data(), kBytes), bytes_of(pe, pe.previous(), kBytes));
    pe.write(heap.data(), std::vector<std::uint8_t>(kBytes));
    pe.barrier();
    gshmemx_buffer_unregister_all();
  }
}

SPMD_TEST(more_ranges_are_registered_than_the_table_has_rows) {
  UserMemory memory(pe, 1);
  SymmetricArray<char> heap(64);
  const auto put_last = [&] {
    SPMD_EQ(pe, gshmemx_buffer_register(memory.data() + 64 * abi::kMaxLocal, 64), 0);
    memory.write(64 * abi::kMaxLocal, bytes_of(pe, pe.me(), 64));
    gshmem_putmem(heap.data(), memory.data() + 64 * abi::kMaxLocal, 64, pe.next());
    pe.barrier();
    pe.equal_bytes(__LINE__, pe.read(heap.data(), 64), bytes_of(pe, pe.previous(), 64));
    pe.write(heap.data(), std::vector<std::uint8_t>(64));
    pe.barrier();
  };
  for (std::uint32_t i = 0; i < abi::kMaxLocal; ++i)
    SPMD_EQ(pe, gshmemx_buffer_register(memory.data() + 64 * i, 64), 0);
  put_last();  // it has no row
  SPMD_EQ(pe, gshmemx_buffer_unregister(memory.data() + 64), 0);
  put_last();  // in the row that is free again
  gshmemx_buffer_unregister_all();
  pe.barrier();
}
