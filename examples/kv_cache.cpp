// Moves the KV cache of a sequence from the PE that has computed it to the PE that decodes it. The
// cache is paged, as those of inference servers are: the blocks of a sequence are in any pages, and
// each layer has pages of its own. The target reserves pages and says which. The source puts each
// layer by one list of pieces, with a signal, so the target can begin with the first layers while
// the others are in flight. Every PE is the source for the next one.
//   mpirun -np 2 bin/kv_cache     or as threads: bin/kv_cache 2
#include <gshmem/gshmem.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

constexpr int kLayers = 8, kPages = 96, kBlocks = 40;  // pages of a layer, blocks of the sequence
constexpr std::size_t kTokens = 16, kWordsOfToken = 128;  // keys and values
constexpr std::size_t kPageWords = kTokens * kWordsOfToken;
constexpr int kSms = 4;  // blocks of the GPU that move the pages; 0 would be the copy engine

std::size_t page_at(int layer, int page) {
  return static_cast<std::size_t>(layer * kPages + page) * kPageWords;
}
std::uint32_t value_of(int pe, int layer, int block, std::size_t i) {
  return static_cast<std::uint32_t>(((pe * kLayers + layer) * kBlocks + block) * 2048) +
         static_cast<std::uint32_t>(i);
}

// Takes pages from the free list, which is in no order.
class FreePages {
 public:
  explicit FreePages(int pe) {
    for (int i = 0; i < kPages; ++i) free_.push_back((i * 37 + pe * 11) % kPages);
  }
  std::vector<int> take(int count) {
    std::vector<int> pages;
    for (int i = 0; i < count; ++i) {
      pages.push_back(free_.back());
      free_.pop_back();
    }
    return pages;
  }

 private:
  std::vector<int> free_;
};

void run(const gshmem::Runtime& runtime) {
  const int me = runtime.my_pe(), n = runtime.n_pes();
  const int next = (me + 1) % n, previous = (me + n - 1) % n;
  gshmem::SymmetricArray<std::uint32_t> cache(page_at(kLayers, 0));
  gshmem::SymmetricArray<int> their_pages(kBlocks);  // those that the next PE has reserved
  gshmem::SymmetricArray<std::uint64_t> arrived(kLayers);

  // The sequence that this PE has computed, and pages for the one that comes.
  FreePages free(me);
  const std::vector<int> mine = free.take(kBlocks), reserved = free.take(kBlocks);
  std::vector<std::uint32_t> words(cache.size());
  for (int layer = 0; layer < kLayers; ++layer)
    for (int b = 0; b < kBlocks; ++b)
      for (std::size_t i = 0; i < kPageWords; ++i)
        words[page_at(layer, mine[static_cast<std::size_t>(b)]) + i] = value_of(me, layer, b, i);
  cache.write(words, me);
  their_pages.write(reserved, previous);
  gshmem_barrier_all();

  const std::vector<int> theirs = their_pages.to_vector(me);
  for (int layer = 0; layer < kLayers; ++layer) {
    std::vector<gshmemx_piece_t> pieces;
    for (std::size_t b = 0; b < kBlocks; ++b)
      pieces.push_back({cache.data() + page_at(layer, theirs[b]),
                        cache.data() + page_at(layer, mine[b]),
                        kPageWords * sizeof(std::uint32_t)});
    // The list is read by the call; the pages are until the stream is quiet.
    gshmemx_putv_signal_nbi_on_stream(pieces.data(), pieces.size(), arrived.data() + layer, 1,
                                      GSHMEM_SIGNAL_SET, next, kSms, nullptr);
  }

  for (int layer = 0; layer < kLayers; ++layer) {
    gshmem_signal_wait_until(arrived.data() + layer, GSHMEM_CMP_EQ, 1);
    std::vector<std::uint32_t> page(kPageWords);
    for (int b = 0; b < kBlocks; ++b) {
      cache.read(page, me, page_at(layer, reserved[static_cast<std::size_t>(b)]));
      for (std::size_t i = 0; i < kPageWords; ++i)
        if (page[i] != value_of(previous, layer, b, i))
          throw std::runtime_error("layer " + std::to_string(layer) + ", block " +
                                   std::to_string(b) + " is wrong");
    }
  }
  gshmemx_quiet_on_stream(nullptr);
  gshmem::synchronize();
  gshmem_barrier_all();
  if (me == 0)
    std::printf("kv_cache: %d layers of %d pages from each of %d PEs to the next, all correct\n",
                kLayers, kBlocks, n);
}

int main(int argc, char** argv) {
  try {
    argc > 1 ? gshmem::run_threads(std::atoi(argv[1]), run) : run(gshmem::Runtime());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kv_cache: %s\n", error.what());
    return 1;
  }
  return 0;
}
