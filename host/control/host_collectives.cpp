#include "host/control/host_collectives.h"

#include "host/base/reminder.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <span>

namespace gshmem::control {
namespace {

constexpr double kVerdictSeconds = 2;  // how long a PE waits for the root to name the missing PE
constexpr double kFirstReminder = 0.3;

/// The chunk size of one PE. It is chosen so that the chunks of all PEs together are at most a
/// megabyte.
std::size_t piece_bytes_of(const HostGroup& group) {
  return std::clamp<std::size_t>((std::size_t{1} << 20) / group.node_of.size(), 64,
                                 Board::kPieceBytes);
}

}  // namespace

std::size_t HostCollectives::board_bytes(const HostGroup& group) {
  const std::size_t rows = group.n_nodes() == 1 ? 0 : group.node_of.size();
  return Board::bytes_of(group.size(), sizeof(ResultHead) + rows * piece_bytes_of(group));
}

HostCollectives::HostCollectives(const HostGroup& group, void* memory, Outside outside)
    : group_(group),
      board_(memory, group.index, group.size()),
      outside_(std::move(outside)),
      interrupted_([this] { return !outside_.stopped().empty(); }),
      order_(tree_order(group)),
      piece_bytes_(piece_bytes_of(group)) {}

HostCollectives::Part::Span HostCollectives::Part::in_piece(int pe, std::size_t at,
                                                            std::size_t size) const {
  const std::size_t first = step * static_cast<std::size_t>(pe);
  return {std::clamp(first, at, at + size) - at, std::clamp(first + bytes, at, at + size) - at};
}

template <class Call>
void HostCollectives::attempt(const Call& call) {
  if (failure_) failure_.raise();
  try {
    call();
    waits_in_.store(0, std::memory_order_relaxed);
  } catch (const Error& error) {
    waits_in_.store(0, std::memory_order_relaxed);
    failure_ = {error.code(), error.what()};
    throw;
  }
}

void HostCollectives::allgather(const void* send, void* recv, std::size_t bytes) {
  attempt([&] {
    exchange(static_cast<const char*>(send), bytes, static_cast<char*>(recv), {0, bytes});
  });
}

void HostCollectives::alltoall(const void* send, void* recv, std::size_t bytes) {
  const auto from = static_cast<const char*>(send);
  const auto to = static_cast<char*>(recv);
  attempt([&] {
    if (one_host()) return exchange(from, bytes * order_.size(), to, {bytes, bytes});
    exchange_parts(from, to, bytes);
  });
}

void HostCollectives::exchange(const char* send, std::size_t bytes, char* recv, Part part) {
  const Deadline deadline(timeout_seconds_);
  std::size_t at = 0;
  do {
    const std::size_t piece = std::min(piece_bytes_, bytes - at);
    board_.bring(send + at, piece);
    come_to_.store(board_.number(), std::memory_order_relaxed);
    waits_in_.store(board_.number(), std::memory_order_relaxed);
    if (one_host() || group_.index == 0)
      check(await(deadline, [&](Deadline end) { return board_.await_all(end, interrupted_); }));
    if (!one_host()) {
      if (group_.index == 0) bring_block();
      check(await(deadline, [&](Deadline end) { return board_.await_release(end, interrupted_); }));
    }
    take(recv, at, piece, part);
    at += piece;
  } while (at < bytes);
}

/// The PEs send each other their parts after all PEs have arrived, so that a missing PE can be
/// named. No PE returns before all PEs have their parts: otherwise the news that a PE has left
/// could arrive before a part from another PE.
void HostCollectives::exchange_parts(const char* send, char* recv, std::size_t bytes) {
  const auto synchronize = [&] { exchange(nullptr, 0, nullptr, {0, 0}); };
  const auto set_parts = [&](Parts parts) {
    const std::lock_guard lock(parts_mutex_);
    parts_ = std::move(parts);
  };
  const std::uint64_t number = board_.number() + 1;
  set_parts({number, recv, bytes, std::vector<bool>(order_.size(), true), order_.size()});
  try {
    synchronize();
    for (std::size_t pe = 0; pe < order_.size(); ++pe) {
      outside_.contribute(net::make_frame({.kind = net::FrameKind::kPart,
                                           .number = number,
                                           .rank = rank(),
                                           .detail = static_cast<std::uint32_t>(pe)},
                                          std::as_bytes(std::span(send + pe * bytes, bytes))));
    }
    await_parts();
  } catch (...) {
    set_parts({});
    throw;
  }
  synchronize();
}

void HostCollectives::await_parts() {
  // Interval at which the conditions that end the wait are checked.
  constexpr std::chrono::milliseconds kLook{10};
  const Deadline deadline(timeout_seconds_);
  Reminder reminder(kFirstReminder);
  std::unique_lock lock(parts_mutex_);
  while (!part_came_.wait_for(lock, kLook, [&] { return parts_.n_missing == 0; })) {
    const std::string why = outside_.stopped();
    require(why.empty(), GSHMEMX_ERROR_PEER_FAILED, why);
    if (reminder.due()) {
      const auto first = std::ranges::find(parts_.missing, true) - parts_.missing.begin();
      outside_.waits_long(reminder.seconds(), static_cast<int>(first));
      reminder.next();
    }
    require(!deadline.passed(), GSHMEMX_ERROR_TIMEOUT, [&] {
      const auto first = std::ranges::find(parts_.missing, true);
      return strprintf("no data of PE %td, and of %zu PEs in all, within %.3g s",
                       first - parts_.missing.begin(), parts_.n_missing, timeout_seconds_);
    });
  }
}

/// Stores a part that arrived. When a PE sends a part of another size, it called another function,
/// and the rest is filled with zeros.
void HostCollectives::take_part(const net::Frame& part) {
  const net::FrameHeader header = net::header_of(part);
  const net::ByteView data = net::payload_of(part);
  const std::lock_guard lock(parts_mutex_);
  const auto from = static_cast<std::size_t>(header.rank);
  if (header.number != parts_.number || from >= parts_.missing.size() || !parts_.missing[from])
    return;
  char* const to = parts_.to + from * parts_.bytes;
  const std::size_t there = std::min(data.size(), parts_.bytes);
  if (there > 0) std::memcpy(to, data.data(), there);
  std::fill(to + there, to + parts_.bytes, '\0');
  parts_.missing[from] = false;
  if (--parts_.n_missing == 0) part_came_.notify_all();
}

/// Sends the data of this host's PEs up the tree as one block.
void HostCollectives::bring_block() {
  Rows rows{.width = 0, .alike = true};
  const Board::Piece first = board_.of(0);
  for (int i = 0; i < group_.size(); ++i) {
    const Board::Piece piece = board_.of(i);
    rows.width = std::max(rows.width, static_cast<std::uint32_t>(piece.bytes));
    rows.alike = rows.alike && piece.bytes == first.bytes &&
                 std::memcmp(piece.data, first.data, piece.bytes) == 0;
  }
  std::vector<std::byte> block(rows.width *
                               (rows.alike ? 1 : static_cast<std::size_t>(group_.size())));
  for (std::size_t i = 0; i * rows.width < block.size(); ++i) {
    const Board::Piece piece = board_.of(static_cast<int>(i));
    std::memcpy(block.data() + i * rows.width, piece.data, piece.bytes);
  }
  outside_.contribute(rows_frame(net::FrameKind::kContribution, board_.number(), rows, block));
}

/// The monitor calls this before it passes on news that arrived after the result.
void HostCollectives::deliver(const net::Frame& frame) {
  const net::FrameHeader header = net::header_of(frame);
  if (header.kind == net::FrameKind::kPart) return take_part(frame);
  if (header.kind == net::FrameKind::kMissing)
    return board_.report_missing(header.number, header.rank);
  const Rows rows = rows_of(header);
  const net::ByteView data = net::payload_of(frame);
  const std::size_t whole = rows.width * (rows.alike ? 1 : order_.size());
  if (rows.width > piece_bytes_ || data.size() != whole) return;
  const ResultHead head{rows.width, rows.alike ? 1u : 0u};
  char* const to = board_.result() + sizeof(head);
  std::memcpy(board_.result(), &head, sizeof(head));
  for (std::size_t i = 0; i * rows.width < data.size(); ++i) {
    const std::size_t pe = rows.alike ? 0 : static_cast<std::size_t>(order_[i]);
    std::memcpy(to + pe * rows.width, data.data() + i * rows.width, rows.width);
  }
  board_.release(header.number);
}

/// Copies this PE's bytes out of the board. When a PE contributed fewer bytes, it called another
/// function. The rest is filled with zeros, and the caller that compares the data detects it.
void HostCollectives::take(char* recv, std::size_t at, std::size_t piece, const Part& part) const {
  const Part::Span span = part.in_piece(rank(), at, piece);
  if (span.begin == span.end) return;
  ResultHead head{};
  const char* rows = nullptr;
  if (!one_host()) {
    std::memcpy(&head, board_.result(), sizeof(head));
    rows = board_.result() + sizeof(head);
  }
  const std::size_t place = at + span.begin - part.step * static_cast<std::size_t>(rank());
  for (int pe = 0; pe < size(); ++pe) {
    const auto row = head.alike != 0 ? 0 : static_cast<std::size_t>(pe);
    const Board::Piece brought =
        rows ? Board::Piece{rows + row * head.width, head.width, head.width} : board_.of(pe);
    char* const to = recv + part.bytes * static_cast<std::size_t>(pe) + place;
    const std::size_t there = std::clamp(brought.bytes, span.begin, span.end) - span.begin;
    std::memcpy(to, brought.data + span.begin, there);
    std::memset(to + there, 0, span.end - span.begin - there);
  }
}

int HostCollectives::missing_here(std::uint64_t number) const {
  const std::vector<int> missing = board_.missing(number);
  return missing.empty() ? -1 : group_.pe(missing.front());
}

/// Asks the root, which knows the missing PEs of other hosts. They may have arrived in the
/// meantime. An earlier answer may be out of date, so a newer answer gets a moment to arrive.
Board::Waited HostCollectives::ask_who_is_missing() {
  const int before = board_.reported_missing();
  outside_.expired(board_.number());
  return board_.await_release(Deadline(before >= 0 ? kVerdictSeconds / 4 : kVerdictSeconds), [&] {
    return board_.reported_missing() != before || interrupted_();
  });
}

/// Waits with `wait` until `deadline`, and calls `waits_long` when that takes long.
template <class Wait>
Board::Waited HostCollectives::await(const Deadline& deadline, const Wait& wait) {
  for (Reminder reminder(kFirstReminder);; reminder.next()) {
    const Board::Waited waited = wait(deadline.within(reminder.seconds_left()));
    if (waited != Board::Waited::kTimeout || deadline.passed()) return waited;
    int missing = missing_here(board_.number());
    if (missing < 0 && !one_host() && reminder.seconds() > 1) {
      (void)ask_who_is_missing();
      missing = board_.reported_missing();
    }
    outside_.waits_long(reminder.seconds(), missing);
  }
}

void HostCollectives::check(Board::Waited waited) {
  const auto throw_timeout = [this](int pe) {
    throw Error(GSHMEMX_ERROR_TIMEOUT, strprintf("PE %d did not reach a host barrier within %.3g s",
                                                 pe, timeout_seconds_));
  };
  if (waited == Board::Waited::kTimeout) {
    const int here = missing_here(board_.number());
    if (here >= 0) throw_timeout(here);
    waited = one_host() ? Board::Waited::kDone : ask_who_is_missing();
  }
  if (waited == Board::Waited::kDone) return;
  if (const int pe = board_.reported_missing(); pe >= 0) throw_timeout(pe);
  const std::string why = outside_.stopped();
  if (!why.empty()) throw Error(GSHMEMX_ERROR_PEER_FAILED, why);
  throw Error(
      GSHMEMX_ERROR_TIMEOUT,
      strprintf("not all PEs reached a host barrier within %.3g s, and PE 0, which knows who "
                "is missing, does not answer",
                timeout_seconds_));
}

}  // namespace gshmem::control
