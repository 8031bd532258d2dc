#include "transport/ofi/rma.h"

#include "transport/ofi/provider_error.h"

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#include <sys/uio.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace gshmem::ofi {
namespace {

/// Transfers of at least kSpread bytes are spread over all rails, in chunks of at least half of
/// that size. The transfer of a smaller chunk takes no longer than the calls for it.
constexpr std::uint64_t kSpread = 256 * 1024, kPieceAlignment = 4096;
/// If threads move the data, large transfers are split into chunks, so that a small transfer need
/// not wait for all of a large one. Only as many chunks are pending as keep a connection busy.
constexpr std::uint64_t kThreadChunk = 1 << 20;
constexpr std::size_t kThreadBytes = 8 << 20;
// A chunk of this size is always issued if nothing else is pending.
static_assert(kThreadChunk <= kThreadBytes);

/// Offsets of an atomic's operands in Operation::scratch.
enum Scratch : std::size_t { kOperand = 0, kCompare = 8, kResult = 16 };

/// Stores an operand. One of 4 bytes is in the first half: all hosts of NVIDIA GPUs are
/// little-endian.
void put(std::uint8_t* to, std::uint64_t value) { std::memcpy(to, &value, sizeof(value)); }

std::uint64_t get(const std::uint8_t* from, std::uint64_t bytes) {
  std::uint32_t low = 0;
  std::uint64_t value = 0;
  if (bytes == 4) {
    std::memcpy(&low, from, sizeof(low));
    return low;
  }
  std::memcpy(&value, from, sizeof(value));
  return value;
}

}  // namespace

RmaEngine::RmaEngine(const Setup& setup)
    : setup_(setup),
      max_chunk_(setup.rails.first().info().ep_attr->max_msg_size),
      max_bytes_(~std::size_t{0}) {
  if (!setup.rails.first().able().rdma) {
    max_chunk_ = std::min(max_chunk_, kThreadChunk);
    max_bytes_ = kThreadBytes;
  }
  for (std::size_t i = 0; i < setup.rails.count(); ++i) {
    const std::size_t size = std::clamp<std::size_t>(setup.rails[i].info().tx_attr->size, 1, 4096);
    Rail& rail = rails_.emplace_back(size, setup.peers.size());
    for (std::size_t n = size; n > 0; --n) {
      Piece& piece = rail.pieces.emplace_back();
      piece.sink = this;
      piece.rail = i;
      rail.free.push_back(&piece);
    }
  }
}

std::string RmaEngine::awaits(const Operation& operation) const {
  return strprintf("%u call(s) that the provider did not complete", operation.in_flight);
}

RmaEngine::Piece* RmaEngine::acquire(Operation& operation, std::size_t rail, Use use) {
  std::vector<Piece*>& free = rails_[rail].free;
  PeerQuota& quota = rails_[rail].quota;
  if (free.empty() || !quota.may_take(operation.peer->pe)) return nullptr;
  quota.take(operation.peer->pe);
  Piece* piece = free.back();
  free.pop_back();
  piece->operation = &operation;
  piece->use = use;
  piece->chunk = {};
  return piece;
}

void RmaEngine::release(Piece& piece) {
  Rail& rail = rails_[piece.rail];
  if (piece.operation != nullptr) rail.quota.release(piece.operation->peer->pe);
  rail.free.push_back(&piece);
}

bool RmaEngine::accepted(Piece& piece, ssize_t result) {
  Operation& operation = *piece.operation;
  if (result == 0) {
    operation.piece_begins();
    operation.peer->bytes += piece.chunk.bytes;
    return true;
  }
  release(piece);
  if (result == -FI_EAGAIN) {
    operation.refused = true;
    return false;
  }
  const int error = static_cast<int>(-result);
  const std::string text = Library::get().text(error);
  ProviderError provider_error =
      judge(setup_.rails.first().info(), {.error = error, .text = text}, operation.describe());
  if (provider_error.peer_lost) lose(*operation.peer, provider_error.failure.text);
  operation.fail(std::move(provider_error.failure));
  return false;
}

void RmaEngine::issue(Operation& operation, bool more) {
  if (operation.rails != 0 && operation.left() == 0) {
    if (flush(operation)) operation.state = Operation::State::kIssued;
  } else if (operation.wqe.is_atomic()) {
    issue_atomic(operation);
  } else {
    issue_chunks(operation, more);
  }
}

bool RmaEngine::is_spread(const Operation& operation) const {
  return setup_.rails.count() > 1 && operation.wqe.length >= kSpread;
}

std::uint64_t RmaEngine::chunk_bytes(const Operation& operation) const {
  if (!is_spread(operation)) return max_chunk_;
  const std::uint64_t each = operation.wqe.length / setup_.rails.count();
  const std::uint64_t whole = (each + kPieceAlignment) / kPieceAlignment * kPieceAlignment;
  return std::min(max_chunk_, std::max(whole, kSpread / 2));
}

/// Returns the rail of the chunk that begins `at` bytes after the start of the operation.
std::size_t RmaEngine::rail_of(const Operation& operation, std::uint64_t at) const {
  const std::size_t home = operation.peer->home;
  if (!is_spread(operation)) return home;
  return (home + at / chunk_bytes(operation)) % setup_.rails.count();
}

bool RmaEngine::reserve_immediates(Operation& operation) {
  // A gather element ends a chunk.
  const std::uint64_t pieces =
      operation.wqe.length / chunk_bytes(operation) + operation.wqe.local.size() + 1;
  Peer& peer = *operation.peer;
  if (peer.immediates + pieces > setup_.immediates) return false;
  peer.immediates += pieces;
  operation.reserved = static_cast<std::uint32_t>(pieces);
  return true;
}

void RmaEngine::issue_chunks(Operation& operation, bool more) {
  const std::uint64_t most = chunk_bytes(operation);
  for (;;) {
    const Chunk chunk = operation.next_chunk(most);
    if (chunk.bytes == 0) {
      operation.state = Operation::State::kIssued;
      return;
    }
    const std::size_t rail = rail_of(operation, operation.wqe.length - operation.left());
    if (operation.peer->bytes + chunk.bytes > max_bytes_) return;
    Piece* piece = acquire(operation, rail, Use::kData);
    if (piece == nullptr) return;
    piece->chunk = chunk;
    std::uint64_t flags = flags_of(operation, chunk, rail);
    const bool last = chunk.bytes == operation.left();
    // This is only set if the next call is sure to find space.
    const bool follows = (more && last) || (!last && !is_spread(operation));
    if (follows && !rails_[rail].free.empty() && rails_[rail].quota.may_take(operation.peer->pe))
      flags |= FI_MORE;
    if (!accepted(*piece, post_chunk(*piece, flags))) return;
    rails_[rail].unrung = (flags & FI_MORE) != 0;
    if (operation.group != Operation::kNoGroup) ++operation.pieces;
    // Operations on another rail are not ordered after this one's completion.
    const bool spread = rail != operation.peer->home;
    if (spread && operation.group == Operation::kNoGroup && !setup_.rails.first().able().delivers &&
        operation.writes())
      operation.rails |= 1u << rail;
    if (operation.wqe.kind == nic::WqeKind::kRead && setup_.reads_trail)
      operation.rails |= 1u << rail;
    operation.advance(chunk.bytes);
  }
}

std::uint64_t RmaEngine::flags_of(const Operation& operation, const Chunk& chunk,
                                  std::size_t rail) const {
  const Abilities& able = setup_.rails[rail].able();
  if (operation.wqe.kind == nic::WqeKind::kRead) return FI_COMPLETION;
  std::uint64_t flags = FI_COMPLETION | able.completion;
  if (operation.group != Operation::kNoGroup) flags |= FI_REMOTE_CQ_DATA;
  if (chunk.payload != nullptr && chunk.bytes <= able.inject) flags |= FI_INJECT;
  return flags;
}

RmaEngine::RemoteAddress RmaEngine::remote_address(const Peer& peer, std::size_t rail,
                                                   std::uint64_t offset) const {
  const Memory* const beside = offset < peer.heap_bytes ? nullptr : setup_.memories.find(offset, 1);
  if (beside == nullptr) return {peer.heap_base + offset, peer.routes[rail].heap_key};
  const RemoteMemory& there = beside->there[static_cast<std::size_t>(peer.pe)];
  return {there.base + (offset - beside->begin), there.keys[rail]};
}

/// Returns the descriptor of local memory. All heaps have the same size.
void* RmaEngine::descriptor_of(std::uint64_t offset, std::size_t rail) const {
  const Peer& own = setup_.peers[static_cast<std::size_t>(setup_.pe)];
  const Memory* const beside = offset < own.heap_bytes ? nullptr : setup_.memories.find(offset, 1);
  return (beside == nullptr ? setup_.heap : beside->here).descriptors[rail];
}

ssize_t RmaEngine::post_chunk(const Piece& piece, std::uint64_t flags) {
  const Operation& operation = *piece.operation;
  const Peer& peer = *operation.peer;
  const Chunk& chunk = piece.chunk;
  const Route& route = peer.routes[piece.rail];
  void* local = address_at(setup_.heap.base, chunk.local);
  void* descriptor = nullptr;
  if (chunk.payload != nullptr) {
    const std::size_t at =
        static_cast<std::size_t>(chunk.payload - operation.wqe.inline_payload.data());
    local = operation.scratch + at;
    descriptor = setup_.pool.descriptors[piece.rail];
    std::memcpy(local, chunk.payload, chunk.bytes);
  } else {
    descriptor = descriptor_of(chunk.local, piece.rail);
  }
  const iovec here{local, chunk.bytes};
  const RemoteAddress target = remote_address(peer, piece.rail, chunk.remote);
  const fi_rma_iov there{target.address, chunk.bytes, target.key};
  fi_msg_rma message{};
  message.msg_iov = &here;
  message.desc = &descriptor;
  message.iov_count = 1;
  message.addr = route.address;
  message.rma_iov = &there;
  message.rma_iov_count = 1;
  message.context = const_cast<Context*>(static_cast<const Context*>(&piece));
  message.data = immediate_of(*operation.outbound, operation.group);
  fid_ep* const endpoint = setup_.rails[piece.rail].endpoint();
  if (operation.wqe.kind == nic::WqeKind::kRead) return fi_readmsg(endpoint, &message, flags);
  return fi_writemsg(endpoint, &message, flags);
}

ssize_t RmaEngine::post_read_of_heap(const Peer& peer, Piece& piece) {
  const Route& route = peer.routes[piece.rail];
  return fi_read(setup_.rails[piece.rail].endpoint(), setup_.pool.base + setup_.landing,
                 sizeof(std::uint64_t), setup_.pool.descriptors[piece.rail], route.address,
                 peer.heap_base, route.heap_key, static_cast<Context*>(&piece));
}

/// Reads a word on every rail to flush. The NIC at the other end pushes its earlier writes into
/// memory before it answers (PCI Express, 2.4.1). An answer of the local NIC does the same for the
/// data of its reads.
bool RmaEngine::flush(Operation& operation) {
  const bool reads = operation.wqe.kind == nic::WqeKind::kRead;
  const Peer& peer = reads ? setup_.peers[static_cast<std::size_t>(setup_.pe)] : *operation.peer;
  for (std::size_t rail = 0; rail < setup_.rails.count(); ++rail) {
    if ((operation.rails >> rail & 1) == 0) continue;
    Piece* piece = acquire(operation, rail, Use::kFlush);
    if (piece == nullptr || !accepted(*piece, post_read_of_heap(peer, *piece))) return false;
    operation.rails &= ~(1u << rail);
  }
  return true;
}

bool RmaEngine::read_own(std::size_t rail, Use use) {
  std::vector<Piece*>& free = rails_[rail].free;
  if (free.empty()) return false;
  Piece* const piece = free.back();
  free.pop_back();
  piece->operation = nullptr;
  piece->use = use;
  const bool taken =
      post_read_of_heap(setup_.peers[static_cast<std::size_t>(setup_.pe)], *piece) == 0;
  if (!taken) release(*piece);
  return taken;
}

void RmaEngine::flush_own(FlushSink& sink) {
  own_flush_.sink = &sink;
  own_flush_.to_read = (1u << setup_.rails.count()) - 1;
  read_rails();
}

void RmaEngine::read_rails() {
  for (std::size_t rail = 0; rail < setup_.rails.count(); ++rail) {
    const std::uint32_t bit = 1u << rail;
    if ((own_flush_.to_read & bit) == 0 || !read_own(rail, Use::kFlushOwn)) continue;
    own_flush_.to_read &= ~bit;
    ++own_flush_.flying;
  }
}

void RmaEngine::flushed_own(std::size_t rail, const Completion& completion) {
  --own_flush_.flying;
  if (completion.error != 0) {
    ProviderError provider_error =
        judge(setup_.rails.first().info(), completion, "READ of this PE's heap");
    if (provider_error.transient)
      own_flush_.to_read |= 1u << rail;
    else
      own_flush_.why = std::move(provider_error.failure);
  }
  if (own_flush_.flying > 0 || own_flush_.to_read != 0) return;
  const OwnFlush flush = std::exchange(own_flush_, {});
  flush.sink->flushed(flush.why);
}

void RmaEngine::end_round() {
  for (std::size_t rail = 0; rail < setup_.rails.count(); ++rail)
    if (rails_[rail].unrung && read_own(rail, Use::kRing)) rails_[rail].unrung = false;
}

void RmaEngine::completed(Context& context, const Completion& completion) {
  auto& piece = static_cast<Piece&>(context);
  if (piece.operation == nullptr) {
    const Use use = piece.use;
    release(piece);
    if (use == Use::kFlushOwn) flushed_own(piece.rail, completion);
  } else if (completion.error != 0) {
    failed(piece, completion);
  } else {
    ended(piece);
  }
}

void RmaEngine::failed(Piece& piece, const Completion& completion) {
  Operation& operation = *piece.operation;
  ProviderError provider_error =
      judge(setup_.rails.first().info(), completion, operation.describe());
  if (provider_error.transient && piece.use == Use::kData) {
    again_.push_back(&piece);
    return;
  }
  if (provider_error.peer_lost) lose(*operation.peer, provider_error.failure.text);
  operation.peer->bytes -= piece.chunk.bytes;
  release(piece);
  operation.piece_fails(std::move(provider_error.failure));
}

void RmaEngine::ended(Piece& piece) {
  Operation& operation = *piece.operation;
  operation.peer->bytes -= piece.chunk.bytes;
  const Use use = piece.use;
  release(piece);
  if (use == Use::kAtomic && !operation.failure) {
    const AtomicEnd end = finish_atomic(operation);
    if (end == AtomicEnd::kResultPending) return;
    if (end == AtomicEnd::kAgain) operation.issue_again();
  }
  const bool was_last = operation.in_flight == 1 && operation.left() == 0;
  if (was_last && operation.rails != 0 && !operation.failure) operation.issue_again();
  operation.piece_ends();
}

void RmaEngine::issue_atomic(Operation& operation) {
  const AtomicPlan plan = plan_atomic(operation.wqe, setup_.atomics);
  Piece* piece = acquire(operation, operation.peer->home, Use::kAtomic);
  if (piece == nullptr) return;
  if (accepted(*piece, post_atomic(operation, plan, *piece)))
    operation.state = Operation::State::kIssued;
}

ssize_t RmaEngine::post_atomic(Operation& operation, const AtomicPlan& plan, Piece& piece) {
  const nic::Wqe& wqe = operation.wqe;
  const Peer& peer = *operation.peer;
  const Route& route = peer.routes[piece.rail];
  std::uint64_t operand = plan.operand, compare = plan.compare;
  if (plan.call == AtomicPlan::Call::kLoop) {
    operand = nic::atomic_result(wqe, operation.expected);
    compare = operation.expected;
  }
  std::uint8_t* const scratch = operation.scratch;
  put(scratch + kOperand, operand);
  put(scratch + kCompare, compare);
  void* const descriptor = setup_.pool.descriptors[piece.rail];
  void* const context = static_cast<Context*>(&piece);
  fid_ep* const endpoint = setup_.rails[piece.rail].endpoint();
  const fi_datatype type = wqe.length == 4 ? FI_UINT32 : FI_UINT64;
  const RemoteAddress there = remote_address(peer, piece.rail, wqe.remote_address);
  if (plan.call == AtomicPlan::Call::kFetch)
    return fi_fetch_atomic(endpoint, scratch + kOperand, 1, descriptor, scratch + kResult,
                           descriptor, route.address, there.address, there.key, type, plan.op,
                           context);
  return fi_compare_atomic(endpoint, scratch + kOperand, 1, descriptor, scratch + kCompare,
                           descriptor, scratch + kResult, descriptor, route.address, there.address,
                           there.key, type, plan.op, context);
}

RmaEngine::AtomicEnd RmaEngine::finish_atomic(Operation& operation) {
  const nic::Wqe& wqe = operation.wqe;
  const std::uint64_t old = get(operation.scratch + kResult, wqe.length);
  const AtomicPlan plan = plan_atomic(wqe, setup_.atomics);
  if (plan.call == AtomicPlan::Call::kLoop && old != operation.expected) {
    operation.expected = old;
    return AtomicEnd::kAgain;
  }
  if (is_unwanted(wqe)) return AtomicEnd::kDone;
  try {
    const Ticket ticket = start_result(setup_.access, wqe, old, operation.scratch + kResult);
    if (ticket == kNoTicket) return AtomicEnd::kDone;
    results_.push_back({&operation, ticket});
    return AtomicEnd::kResultPending;
  } catch (const Error& error) {
    operation.fail(failure(abi::Syndrome::kLocalProtection, error.what()));
    return AtomicEnd::kDone;
  }
}

bool RmaEngine::progress() {
  if (own_flush_.to_read != 0) read_rails();
  const bool retried = !again_.empty() && try_again();
  return (!results_.empty() && poll_results()) || retried;
}

bool RmaEngine::try_again() {
  bool busy = false;
  for (Piece* piece : std::exchange(again_, {})) {
    Operation& operation = *piece->operation;
    if (operation.failure || !operation.peer->lost.empty()) {
      operation.peer->bytes -= piece->chunk.bytes;
      release(*piece);
      operation.piece_fails(failure(abi::Syndrome::kRetryExceeded, operation.peer->lost));
    } else if (post_chunk(*piece, flags_of(operation, piece->chunk, piece->rail)) != 0) {
      again_.push_back(piece);  // GSHMEM_TIMEOUT limits the attempts
      continue;
    }
    busy = true;
  }
  return busy;
}

bool RmaEngine::poll_results() {
  bool busy = false;
  setup_.access.poll();
  std::erase_if(results_, [&](const Result& result) {
    try {
      if (!setup_.access.done(result.ticket)) return false;
      result.operation->piece_ends();
    } catch (const Error& error) {
      result.operation->piece_fails(failure(abi::Syndrome::kLocalProtection, error.what()));
    }
    busy = true;
    return true;
  });
  return busy;
}

}  // namespace gshmem::ofi
