#include "transport/p2p/window.h"

#if defined(GSHMEM_HAVE_CUDA)
// Maps heaps by the CUDA driver.
#include "host/base/cuda_driver.h"
#include "host/base/log.h"
#include "transport/p2p/cuda_heap.h"
#include "transport/p2p/mapped_set.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>

namespace gshmem::p2p {
namespace {

using Numbers = std::vector<int>;

int of(const Numbers& by_pe, int pe) { return by_pe[static_cast<std::size_t>(pe)]; }

/// Gathers one row of bits from every PE. `width` is the same everywhere.
Reach gather_bits(Collectives& boot, const std::vector<char>& mine, std::size_t width) {
  std::vector<char> row((width + 7) / 8), rows(row.size() * static_cast<std::size_t>(boot.size()));
  for (std::size_t i = 0; i < mine.size(); ++i) {
    if (mine[i] != 0) row[i / 8] = static_cast<char>(row[i / 8] | 1 << i % 8);
  }
  boot.allgather(row.data(), rows.data(), row.size());
  Reach reach(static_cast<std::size_t>(boot.size()));
  for (std::size_t pe = 0; pe < reach.size(); ++pe) {
    for (std::size_t i = 0; i < width; ++i)
      reach[pe].push_back(static_cast<char>(rows[pe * row.size() + i / 8] >> i % 8 & 1));
  }
  return reach;
}

class CudaWindow final : public PeerWindow {
 public:
  explicit CudaWindow(CudaWindowOptions options)
      : o_(std::move(options)), cuda_(*CudaDriver::get()), me_(o_.local.group().me()) {
    const CudaHeap heap = make_heap();  // kept until all PEs have mapped what they can
    bytes_ = heap.bytes;
    lent_granularity_ = heap.granularity;
    lent_bytes_ = (o_.bytes.lent + heap.granularity - 1) / heap.granularity * heap.granularity;
    set_stride();
    domains_ =
        offers_.empty() ? Numbers(o_.local_groups.size(), -1) : fabric_domains(offers_, o_.fabric);
    choose_slots();
    try {
      if (o_.peers == Peers::kAll) {
        map_peers(heap);
      } else {
        reserve(heap.granularity);
        map_own(heap);
      }
    } catch (...) {
      release();
      throw;
    }
    heap_ = base_ + stride_ * static_cast<std::int64_t>(slot_of(me_));
  }
  ~CudaWindow() override { release(); }
  std::string why_not(int pe) const override;
  bool by_fabric(int pe) const override {
    const std::size_t slot = slot_of(pe);
    return slot < pes_.size() && mapped_[slot] && !is_local(pe);
  }
  LentMemory lend(const void* p, std::size_t bytes) const override;
  LentMemory make_more(std::uint64_t bytes, std::uint64_t held) const override;
  void map_lent(std::uint64_t offset, const LentMemory& mine) override;
  void unmap_lent(std::uint64_t offset) noexcept override {
    for (const Lent& lent : lent_[offset]) cuda_.cuMemUnmap(lent.at, lent.bytes);
    lent_.erase(offset);
  }

 private:
  [[nodiscard]] bool is_local(int pe) const {
    return of(o_.local_groups, pe) == of(o_.local_groups, me_);
  }
  [[nodiscard]] bool is_fabric_peer(int pe) const {
    return of(domains_, me_) >= 0 && of(domains_, pe) == of(domains_, me_);
  }
  /// Returns the slot of a PE; pes_.size() if it has none.
  [[nodiscard]] std::size_t slot_of(int pe) const {
    const auto found = std::lower_bound(pes_.begin(), pes_.end(), pe);
    return static_cast<std::size_t>((found != pes_.end() && *found == pe ? found : pes_.end()) -
                                    pes_.begin());
  }

  CudaHeap make_heap();
  void choose_slots();
  void reserve(std::uint64_t granularity);
  void map_peers(const CudaHeap& heap);
  void map_all(const CudaHeap& heap, const std::vector<Fd>& segments);
  void agree(const Numbers& components, std::optional<Error> failure);
  [[nodiscard]] std::string why_apart(const Reach& reach, const Numbers& among, std::size_t me,
                                      std::size_t other) const;

  struct Attempt {
    CUresult result = CUDA_SUCCESS;
    const char* call = "";
  };
  Attempt map(CUdeviceptr at, std::uint64_t bytes, const void* os_handle,
              CUmemAllocationHandleType type);
  Attempt map_heap(std::size_t slot, const void* os_handle, CUmemAllocationHandleType type) {
    const Attempt done = map(address(slot), bytes_, os_handle, type);
    at_slot_[slot] = done.result == CUDA_SUCCESS;
    return done;
  }
  [[nodiscard]] std::string why_not_lent() const;
  [[nodiscard]] LentMemory::Piece lend_allocation(CUdeviceptr at, std::size_t bytes) const;
  void map_own(const CudaHeap& heap);
  void map_local(std::size_t slot, int fd);
  void map_by_fabric(std::size_t slot, const FabricHandle& handle);

  [[nodiscard]] CUdeviceptr address(std::size_t slot) const {
    return reinterpret_cast<CUdeviceptr>(base_ + stride_ * static_cast<std::int64_t>(slot));
  }
  void unmap(std::size_t slot) noexcept {
    if (at_slot_[slot]) cuda_.cuMemUnmap(address(slot), bytes_);
    at_slot_[slot] = false;
  }
  /// Unmaps everything. Errors are ignored: after a fault the context may be gone, and the process
  /// must continue.
  void release() noexcept {
    if (!base_) return;
    for (std::size_t slot = 0; slot < at_slot_.size(); ++slot) unmap(slot);
    while (!lent_.empty()) unmap_lent(lent_.begin()->first);
    cuda_.cuMemAddressFree(range_, reserved_);
    base_ = nullptr;
  }

  CudaWindowOptions o_;
  const CudaDriver& cuda_;
  int me_;
  CUdeviceptr range_ = 0;
  std::size_t reserved_ = 0;         ///< size of the reserved addresses
  std::vector<bool> at_slot_;        ///< memory is mapped at this slot
  std::vector<FabricOffer> offers_;  ///< by PE; empty: fabric handles are off
  Numbers domains_;                  ///< by PE
  std::map<int, std::string> why_not_;
  struct Lent {
    CUdeviceptr at;
    std::uint64_t bytes;
  };
  std::map<std::uint64_t, std::vector<Lent>> lent_;  ///< mapped memory, by offset
};

/// Makes this PE's heap. With fabric handles all PEs get the offers of all heaps, and the first
/// failure.
CudaHeap CudaWindow::make_heap() {
  const bool fabric =
      o_.fabric == FabricUse::kOn || (o_.fabric == FabricUse::kAuto && o_.place.why_none.empty());
  const auto make = [&] {
    return make_cuda_heap(cuda_, o_.device, o_.bytes.heap, fabric ? o_.fabric : FabricUse::kOff);
  };
  if (o_.fabric == FabricUse::kOff) return make();
  CudaHeap heap;
  FabricOffer mine;
  std::optional<Error> failure;
  try {
    heap = make();
    mine.heap_bytes = heap.bytes;
    mine.set_why(fabric ? heap.why_no_fabric : o_.place.why_none);
    if (heap.fabric) {
      mine.state = FabricOffer::State::kHandle;
      mine.handle = *heap.fabric;
      mine.cluster = o_.place.cluster;
      mine.clique = o_.place.clique;
    } else {
      GSHMEM_DEBUG("no fabric handle: %s", mine.why);
    }
  } catch (const Error& error) {
    failure = error;
    mine.state = FabricOffer::State::kFailed;
    mine.code = error.code();
    mine.set_why(error.what());
  }
  try {
    offers_ = exchange_offers(o_.boot, mine);
  } catch (const Error&) {
    if (failure) throw *failure;
    throw;
  }
  return heap;
}

void CudaWindow::choose_slots() {
  const int n = static_cast<int>(o_.local_groups.size());
  for (int pe = 0; pe < n; ++pe) {
    const bool wanted = o_.peers == Peers::kAll && (is_local(pe) || is_fabric_peer(pe));
    if (wanted || pe == me_) pes_.push_back(pe);
  }
  at_slot_.assign(pes_.size(), false);
  mapped_.assign(pes_.size(), false);
}

void CudaWindow::reserve(std::uint64_t granularity) {
  // The range is aligned here, because the driver does not document how large an alignment it
  // accepts.
  whole_bytes_ = static_cast<std::size_t>(stride_) * pes_.size();
  const std::size_t bytes = whole_bytes_ + alignment();
  const CUresult result = cuda_.cuMemAddressReserve(&range_, bytes, granularity, 0, 0);
  require(result != CUDA_ERROR_OUT_OF_MEMORY, GSHMEMX_ERROR_OUT_OF_MEMORY, [&] {
    return strprintf(
        "cuMemAddressReserve: %zu bytes of addresses for %zu heaps and what is beside "
        "them; lower GSHMEM_REGISTERED_SIZE",
        bytes, pes_.size());
  });
  cuda_.check(result, "cuMemAddressReserve");
  reserved_ = bytes;
  base_ = reinterpret_cast<char*>((range_ + alignment() - 1) & ~(alignment() - 1));
}

/// Maps all heaps that this GPU can access, and then keeps those of the PEs that form a set with
/// this one, on which all agree.
void CudaWindow::map_peers(const CudaHeap& heap) {
  const Numbers groups = components(o_.local_groups, domains_);
  std::optional<Error> failure;  // is thrown after the exchange, so that the other PEs do not wait
  std::vector<Fd> segments;
  try {
    segments = o_.local.exchange(heap.fd.get());
  } catch (const Error& error) {
    // A PE that waits for this one here would wait in vain there.
    if (groups == o_.local_groups) throw;
    failure = error;
  }
  try {
    if (!failure) map_all(heap, segments);
  } catch (const Error& error) {
    failure = error;
  }
  agree(groups, std::move(failure));
}

void CudaWindow::map_all(const CudaHeap& heap, const std::vector<Fd>& segments) {
  reserve(heap.granularity);
  map_own(heap);
  const control::HostGroup& host = o_.local.group();
  for (int i = 0; i < host.size(); ++i) {
    if (i != host.index && is_local(host.pe(i)))
      map_local(slot_of(host.pe(i)), segments[static_cast<std::size_t>(i)].get());
  }
  for (std::size_t slot = 0; slot < pes_.size(); ++slot) {
    if (!is_local(pes_[slot]))
      map_by_fabric(slot, offers_[static_cast<std::size_t>(pes_[slot])].handle);
  }
}

/// Agrees among the PEs of this one's component. Those are the PEs of its host if no fabric handle
/// is usable in the job, which all PEs know from the offers.
void CudaWindow::agree(const Numbers& groups, std::optional<Error> failure) {
  const bool over_hosts = groups != o_.local_groups;
  const Numbers among = over_hosts ? members(groups, of(groups, me_)) : o_.local.group().pes;
  std::vector<char> reached;
  for (const int pe : among) {
    const std::size_t slot = slot_of(pe);
    reached.push_back(slot < pes_.size() && at_slot_[slot] ? 1 : 0);
  }
  Reach reach;
  if (over_hosts) {
    const Reach rows = gather_bits(o_.boot, reached, largest(groups));
    for (const int pe : among) reach.push_back(rows[static_cast<std::size_t>(pe)]);
  } else {
    reach = o_.local.gather(reached);
  }
  if (failure) throw *failure;

  Numbers local;
  for (const int pe : among) local.push_back(of(o_.local_groups, pe));
  for (std::vector<char>& row : reach) row.resize(among.size());
  const Numbers sets = sets_of_groups(reach, local);
  const auto me =
      static_cast<std::size_t>(std::lower_bound(among.begin(), among.end(), me_) - among.begin());
  for (std::size_t i = 0; i < among.size(); ++i) {
    const std::size_t slot = slot_of(among[i]);
    if (slot == pes_.size()) continue;
    mapped_[slot] = sets[i] == sets[me];
    if (mapped_[slot] || !at_slot_[slot]) continue;
    unmap(slot);
    why_not_[among[i]] = why_apart(reach, among, me, i);
  }
}

/// Explains why a PE is not mapped although this PE was able to map its heap.
std::string CudaWindow::why_apart(const Reach& reach, const Numbers& among, std::size_t me,
                                  std::size_t other) const {
  if (reach[other][me] == 0)
    return strprintf("PE %d cannot map the heap of this one", among[other]);
  if (is_local(among[other])) return "its GPU and this one do not reach the same other GPUs";
  return "not all PEs of its host and of this one reach each other";
}

CudaWindow::Attempt CudaWindow::map(CUdeviceptr at, std::uint64_t bytes, const void* os_handle,
                                    CUmemAllocationHandleType type) {
  CUmemGenericAllocationHandle handle = 0;
  CUresult result =
      cuda_.cuMemImportFromShareableHandle(&handle, const_cast<void*>(os_handle), type);
  if (result != CUDA_SUCCESS) return {result, "cuMemImportFromShareableHandle"};
  result = cuda_.cuMemMap(at, bytes, 0, handle, 0);
  cuda_.cuMemRelease(handle);  // the mapping keeps the memory
  if (result != CUDA_SUCCESS) return {result, "cuMemMap"};
  CUmemAccessDesc access{};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, {o_.device}};
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  result = cuda_.cuMemSetAccess(at, bytes, &access, 1);
  if (result != CUDA_SUCCESS) cuda_.cuMemUnmap(at, bytes);
  return {result, "cuMemSetAccess"};
}

void CudaWindow::map_own(const CudaHeap& heap) {
  map_local(slot_of(me_), heap.fd.get());
  if (at_slot_[slot_of(me_)]) return;
  throw Error(GSHMEMX_ERROR_CUDA, "this PE's heap: " + why_not_[me_]);
}

/// Leaves the slot unmapped, with the reason, if this GPU cannot access the memory. Errors:
/// everything else.
void CudaWindow::map_local(std::size_t slot, int fd) {
  const Attempt done = map_heap(slot, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)),
                                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  if (done.result == CUDA_SUCCESS) return;
  if (std::strcmp(done.call, "cuMemSetAccess") != 0) cuda_.check(done.result, done.call);
  why_not_[pes_[slot]] = strprintf("GPU %d cannot reach the memory of its GPU by load/store (%s)",
                                   o_.device, cuda_text(cuda_, done.result).c_str());
}

/// Leaves the slot unmapped, with the reason, after any failure: the network remains.
void CudaWindow::map_by_fabric(std::size_t slot, const FabricHandle& handle) {
  const Attempt done = map_heap(slot, handle.data(), kFabricHandleType);
  if (done.result == CUDA_SUCCESS) return;
  std::string& why = why_not_[pes_[slot]];
  why = strprintf("its fabric handle: %s: %s", done.call, cuda_text(cuda_, done.result).c_str());
  if (done.result == CUDA_ERROR_NOT_PERMITTED) why += " (another IMEX channel?)";
  GSHMEM_INFO("PE %d is not mapped: %s", pes_[slot], why.c_str());
}

/// Returns the allocation that is mapped at `at`, and ends within `bytes` bytes.
LentMemory::Piece CudaWindow::lend_allocation(CUdeviceptr at, std::size_t bytes) const {
  constexpr char kHow[] =
      "; it takes memory of cuMemCreate with CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, as "
      "ncclMemAlloc and PyTorch's expandable_segments give";
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr base = 0;
  std::size_t whole = 0;
  const bool is_known =
      cuda_.cuMemGetAddressRange(&base, &whole, at) == CUDA_SUCCESS &&
      cuda_.cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(at)) == CUDA_SUCCESS;
  require(is_known, GSHMEMX_ERROR_NOT_SUPPORTED,
          strprintf("has no memory that can be mapped again at 0x%llx", at) + kHow);
  const CudaAllocation allocation(cuda_, handle);
  // CUDA driver API, cuMemMap: a part of an allocation cannot be mapped (driver 580: not
  // supported).
  require(base == at && whole <= bytes, GSHMEMX_ERROR_INVALID_VALUE,
          strprintf("(from 0x%llx on %zu bytes) is not the whole of its allocation of %zu bytes at "
                    "0x%llx, and allocations are mapped as wholes",
                    at, bytes, whole, base));
  CUmemAllocationProp properties{};
  GSHMEM_CU(&cuda_, cuMemGetAllocationPropertiesFromHandle, &properties, handle);
  require(properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
              properties.location.id == o_.device,
          GSHMEMX_ERROR_NOT_SUPPORTED,
          strprintf("is memory of %s %d, and this PE's is that of GPU %d",
                    properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE ? "GPU" : "the host,",
                    properties.location.id, o_.device));
  require((properties.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0,
          GSHMEMX_ERROR_NOT_SUPPORTED,
          std::string("was made without a handle that can be passed on") + kHow);
  return {export_descriptor(cuda_, handle), 0, whole};
}

/// Returns why memory cannot be lent, as a text that continues its name; empty if it can be. Only
/// descriptors are passed on.
std::string CudaWindow::why_not_lent() const {
  for (const int pe : pes_) {
    if (by_fabric(pe))
      return strprintf("cannot be mapped by PE %d, which maps this one's heap by a fabric handle",
                       pe);
  }
  return "";
}

LentMemory CudaWindow::make_more(std::uint64_t bytes, std::uint64_t /*held*/) const {
  const std::string why = why_not_lent();
  require(why.empty(), GSHMEMX_ERROR_NOT_SUPPORTED,
          "its memory " + why + "; raise GSHMEM_SYMMETRIC_SIZE");
  CudaHeap heap = make_cuda_heap(cuda_, o_.device, bytes, FabricUse::kOff, HeapPart::kLater);
  LentMemory more;
  more.pieces.push_back({std::move(heap.fd), 0, heap.bytes});
  return more;
}

LentMemory CudaWindow::lend(const void* p, std::size_t bytes) const {
  const std::string why = why_not_lent();
  require(why.empty(), GSHMEMX_ERROR_NOT_SUPPORTED, why);
  LentMemory lent;
  for (std::size_t at = 0; at < bytes; at += lent.pieces.back().bytes) {
    lent.pieces.push_back(lend_allocation(reinterpret_cast<CUdeviceptr>(p) + at, bytes - at));
  }
  return lent;
}

void CudaWindow::map_lent(std::uint64_t offset, const LentMemory& mine) {
  const auto place = [&](int pe, const LentMemory& memory) {
    const std::size_t slot = slot_of(pe);
    if (pe != me_ && (slot == pes_.size() || !mapped_[slot])) return;
    CUdeviceptr at = address(slot) + offset;
    for (const LentMemory::Piece& piece : memory.pieces) {
      const Attempt done =
          map(at, piece.bytes, reinterpret_cast<void*>(static_cast<std::intptr_t>(piece.fd.get())),
              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
      cuda_.check(done.result, done.call);
      lent_[offset].push_back({at, piece.bytes});
      at += piece.bytes;
    }
  };
  if (o_.peers == Peers::kNone) return place(me_, mine);
  const std::vector<LentMemory> all = exchange_lent(o_.local, mine);
  for (std::size_t i = 0; i < all.size(); ++i)
    place(o_.local.group().pe(static_cast<int>(i)), all[i]);
}

std::string CudaWindow::why_not(int pe) const {
  const std::size_t slot = slot_of(pe);
  if (slot < pes_.size() && mapped_[slot]) return "";
  if (const auto known = why_not_.find(pe); known != why_not_.end()) return known->second;
  if (o_.peers == Peers::kNone) return "GSHMEM_P2P=0";
  const control::HostGroup& host = o_.local.group();
  const bool here = std::binary_search(host.pes.begin(), host.pes.end(), pe);
  const std::string where =
      here ? "GSHMEM_P2P_GROUP puts it into another group" : "it is on another host";
  if (offers_.empty()) return where;
  const FabricOffer &mine = offers_[static_cast<std::size_t>(me_)],
                    &theirs = offers_[static_cast<std::size_t>(pe)];
  for (const FabricOffer* offer : {&mine, &theirs}) {
    if (offer->state != FabricOffer::State::kHandle)
      return where + strprintf(", and PE %d has no fabric handle: %s", offer == &mine ? me_ : pe,
                               offer->why);
  }
  if (mine.heap_bytes != theirs.heap_bytes)
    return where +
           strprintf(", with a heap of %lu bytes, not %lu", theirs.heap_bytes, mine.heap_bytes);
  return where + ", in another NVLink fabric";
}

}  // namespace

std::unique_ptr<PeerWindow> make_cuda_window(CudaWindowOptions options) {
  return std::make_unique<CudaWindow>(std::move(options));
}

}  // namespace gshmem::p2p

#else

namespace gshmem::p2p {

std::unique_ptr<PeerWindow> make_cuda_window(CudaWindowOptions) {
  throw Error(GSHMEMX_ERROR_NOT_SUPPORTED,
              "this build of gshmem has no GPU support (no CUDA toolkit)");
}

}  // namespace gshmem::p2p

#endif
