#include "tests/bootstrap/conformance.h"

#include "tests/sanitizers/sanitizers.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

namespace gshmem::test {

void expect(bool ok, const std::string& what) {
  if (!ok) throw std::runtime_error("broken expectation: " + what);
}

Error expect_error(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  throw std::runtime_error("broken expectation: the call succeeded where it had to fail");
}

void expect_error(gshmemx_status code, const std::string& part, const std::function<void()>& call) {
  const Error error = expect_error(call);
  const std::string what = error.what();
  expect(error.code() == code, std::string("code ") + status_text(error.code()) + ", not " +
                                   status_text(code) + ": " + what);
  expect(what.find(part) != std::string::npos, "\"" + what + "\" contains \"" + part + "\"");
}

void rank_and_size_are_sane(Collectives& boot) {
  expect(boot.size() >= 1, "size is positive");
  expect(boot.rank() >= 0 && boot.rank() < boot.size(), "rank is in [0, size)");
  const auto ranks = allgather(boot, boot.rank());
  const auto sizes = allgather(boot, boot.size());
  for (int r = 0; r < boot.size(); ++r) {
    expect(ranks[static_cast<std::size_t>(r)] == r, "every rank has contributed, in order");
    expect(sizes[static_cast<std::size_t>(r)] == boot.size(), "all ranks agree on the size");
  }
}

namespace {

/// Bytes that depend on their sender and their offset, and repeat after kPeriod, which no chunk's
/// size divides. They are moved and compared by periods: byte by byte takes minutes under TSan.
class Pattern {
 public:
  explicit Pattern(std::size_t rank) : period_(kPeriod) {
    for (std::size_t i = 0; i < kPeriod; ++i)
      period_[i] = static_cast<unsigned char>((i * 31 + i / 251 + rank * 97 + 13) % 253);
  }
  void fill(unsigned char* to, std::size_t bytes) const {
    for (std::size_t at = 0; at < bytes; at += kPeriod)
      std::memcpy(to + at, period_.data(), std::min(kPeriod, bytes - at));
  }
  /// Returns the index of the first byte that differs, or `bytes`.
  [[nodiscard]] std::size_t mismatch(const unsigned char* in, std::size_t bytes) const {
    for (std::size_t at = 0; at < bytes; at += kPeriod) {
      const std::size_t count = std::min(kPeriod, bytes - at);
      if (std::memcmp(in + at, period_.data(), count) == 0) continue;
      return at + static_cast<std::size_t>(
                      std::mismatch(in + at, in + at + count, period_.begin()).first - (in + at));
    }
    return bytes;
  }

 private:
  static constexpr std::size_t kPeriod = 251 * 253;
  std::vector<unsigned char> period_;
};

std::int64_t now_ns() {
  // All processes of a machine share CLOCK_MONOTONIC.
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

}  // namespace

void allgather_moves_every_byte(Collectives& boot, std::size_t bytes) {
  const auto rank = static_cast<std::size_t>(boot.rank());
  const auto size = static_cast<std::size_t>(boot.size());
  constexpr std::size_t kGuard = 64;  // bytes after the result that must stay unchanged
  std::vector<unsigned char> mine(bytes);
  Pattern(rank).fill(mine.data(), bytes);
  std::vector<unsigned char> all(size * bytes + kGuard, 0xEE);
  boot.allgather(mine.data(), all.data(), bytes);
  for (std::size_t r = 0; r < size; ++r) {
    const std::size_t wrong = Pattern(r).mismatch(all.data() + r * bytes, bytes);
    expect(wrong == bytes, "allgather of " + std::to_string(bytes) + " bytes: byte " +
                               std::to_string(wrong) + " of rank " + std::to_string(r));
  }
  expect(std::all_of(all.end() - kGuard, all.end(), [](unsigned char c) { return c == 0xEE; }),
         "allgather writes nothing after its result");
}

void alltoall_moves_every_part(Collectives& boot, std::size_t bytes) {
  const auto rank = static_cast<std::size_t>(boot.rank());
  const auto size = static_cast<std::size_t>(boot.size());
  std::vector<unsigned char> mine(size * bytes), got(size * bytes, 0xEE);
  for (std::size_t to = 0; to < size; ++to)
    Pattern(rank * size + to).fill(mine.data() + to * bytes, bytes);
  boot.alltoall(mine.data(), got.data(), bytes);
  for (std::size_t from = 0; from < size; ++from) {
    const std::size_t wrong =
        Pattern(from * size + rank).mismatch(got.data() + from * bytes, bytes);
    expect(wrong == bytes, "alltoall of " + std::to_string(bytes) + " bytes: byte " +
                               std::to_string(wrong) + " of rank " + std::to_string(from));
  }
}

void small_allgathers_do_not_mix(Collectives& boot, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    const auto all = allgather(boot, round * 1000 + boot.rank());
    for (int r = 0; r < boot.size(); ++r) {
      expect(all[static_cast<std::size_t>(r)] == round * 1000 + r,
             "round " + std::to_string(round) + " carries its own values");
    }
  }
}

void barrier_waits_for_each_rank_in_turn(Collectives& boot) {
  struct Times {
    std::int64_t entered, left;
  };
  for (int late = 0; late < boot.size(); ++late) {
    // The sleep lets a wrong barrier fail; a right one passes with any timing.
    if (boot.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    Times mine{now_ns(), 0};
    boot.barrier();
    mine.left = now_ns();
    const auto all = allgather(boot, mine);
    for (const Times& left : all) {
      for (const Times& entered : all) {
        expect(left.left >= entered.entered, "no rank leaves a barrier before all have entered (" +
                                                 std::to_string(late) + " was late)");
      }
    }
  }
}

void conformance(const Maker& make, std::size_t max_bytes) {
  // 5 MiB are more than a socket buffer holds. Under sanitizers, whose shadow memory is slow, the
  // results of several ranks together are.
  constexpr std::size_t kLarge = (kSanitized ? std::size_t{1} : std::size_t{5}) << 20;
  constexpr std::size_t kSizes[] = {0, 1, 7, 4096, 65536, kLarge / 5, kLarge};
  for (int life = 0; life < 2; ++life) {
    const auto boot = make();
    rank_and_size_are_sane(*boot);
    for (const std::size_t bytes : kSizes) {
      if (bytes <= max_bytes) allgather_moves_every_byte(*boot, bytes);
    }
    for (const std::size_t bytes : {0U, 1U, 128U, 4097U}) {
      if (bytes * static_cast<std::size_t>(boot->size()) <= max_bytes)
        alltoall_moves_every_part(*boot, bytes);
    }
    small_allgathers_do_not_mix(*boot, 50);
    barrier_waits_for_each_rank_in_turn(*boot);
    boot->barrier();  // no rank leaves the job while another one still waits
  }
}

}  // namespace gshmem::test
