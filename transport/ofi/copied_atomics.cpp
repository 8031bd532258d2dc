#include "transport/ofi/copied_atomics.h"

#include <algorithm>
#include <cstring>

namespace gshmem::ofi {
namespace {

/// Does the atomic store a value that does not depend on the old one?
bool sets(const nic::Wqe& wqe) {
  const std::uint64_t all = wqe.length == 4 ? 0xffffffffu : ~std::uint64_t{0};
  return wqe.kind == nic::WqeKind::kMaskedCompareSwap && (wqe.compare_mask & all) == 0 &&
         (wqe.swap_mask & all) == all;
}

}  // namespace

CopiedAtomics::CopiedAtomics(MemoryAccess& copies)
    : copies_(copies), staging_(copies.allocate(8 * kMost)) {}

Ticket CopiedAtomics::start(std::uint64_t offset, const nic::Wqe& wqe, std::uint64_t* old) {
  const Ticket ticket = next_--;
  waiting_.push_back({ticket, offset, wqe, old});
  if (state_ == State::kIdle) begin();
  return ticket;
}

bool CopiedAtomics::done(Ticket ticket) {
  if (ticket <= ended_) return false;
  const auto failed = failed_.find(ticket);
  if (failed == failed_.end()) return true;
  const Error error = failed->second;
  failed_.erase(failed);
  throw error;
}

/// Returns the word of the request, which may be a new one; null if it overlaps a word of another
/// length.
CopiedAtomics::Word* CopiedAtomics::word_of(const Request& request) {
  const std::uint64_t bytes = request.wqe.length;
  for (Word& word : words_) {
    if (word.offset == request.offset && word.bytes == bytes) return &word;
    if (word.offset < request.offset + bytes && request.offset < word.offset + word.bytes)
      return nullptr;
  }
  words_.push_back({.offset = request.offset, .bytes = bytes});
  words_.back().known = request.old == nullptr && sets(request.wqe);
  return &words_.back();
}

void CopiedAtomics::begin() {
  requests_.clear();
  words_.clear();
  while (!waiting_.empty() && requests_.size() < kMost && word_of(waiting_.front()) != nullptr) {
    requests_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  if (requests_.empty()) return;
  state_ = State::kReading;
  try {
    for (std::size_t i = 0; i < words_.size(); ++i)
      if (!words_[i].known)
        words_[i].copy = copies_.start_read(words_[i].offset, slot(i), words_[i].bytes);
    if (copied()) change();
  } catch (const Error& error) {
    for (const Request& request : requests_) failed_.emplace(request.ticket, error);
    end();
  }
}

bool CopiedAtomics::copied() {
  return std::ranges::all_of(words_, [&](Word& word) {
    if (word.copy != kNoTicket && copies_.done(word.copy)) word.copy = kNoTicket;
    return word.copy == kNoTicket;
  });
}

void CopiedAtomics::change() {
  for (std::size_t i = 0; i < words_.size(); ++i)
    if (!words_[i].known) std::memcpy(&words_[i].value, slot(i), words_[i].bytes);
  for (const Request& request : requests_) {
    Word& word = *word_of(request);
    if (request.old != nullptr) *request.old = word.value;
    const std::uint64_t result = nic::atomic_result(request.wqe, word.value);
    word.changed |= word.known || result != word.value;
    word.value = result;
  }
  state_ = State::kWriting;
  for (std::size_t i = 0; i < words_.size(); ++i) {
    if (!words_[i].changed) continue;
    std::memcpy(slot(i), &words_[i].value, words_[i].bytes);
    words_[i].copy = copies_.start_write(words_[i].offset, slot(i), words_[i].bytes);
  }
  if (copied()) end();
}

void CopiedAtomics::end() {
  state_ = State::kIdle;
  ended_ -= static_cast<Ticket>(requests_.size());
  begin();
}

void CopiedAtomics::poll() {
  try {
    if (!copied()) return;
    if (state_ == State::kReading)
      change();
    else
      end();
  } catch (const Error& error) {
    for (const Request& request : requests_) failed_.emplace(request.ticket, error);
    end();
  }
}

}  // namespace gshmem::ofi
