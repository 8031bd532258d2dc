#include "host/tools/selftest/bench.h"

#include "bootstrap/bootstrap.h"
#include "host/runtime/execute.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

namespace gshmem::selftest {

Bench::Bench(const Config& config)
    : pe_(std::make_unique<Pe>(bootstrap::create_single(), PeOptions{.config = config})) {
  require(pe_->heap().allocate("gshmem_calloc", kBytes, 4096, true) == at(0),
          GSHMEMX_ERROR_INTERNAL, "the first allocation is not the beginning of the heap");
}

char* Bench::at(std::uint64_t offset) const { return state().heap + abi::kInternalBytes + offset; }

void Bench::look_for_fault(const char* call) const {
  gshmemx_fault_t fault{};
  if (pe_->faults().last(&fault)) throw CheckFailed{std::string(call) + ": " + fault.message};
}

std::uint64_t Bench::run(const device::Call& call) {
  const std::uint64_t answer = on_gpu()
                                   ? pe_->ops()->run(call)
                                   : device::execute(device::Thread{}, state(), call.name, call);
  look_for_fault(call.name);
  return answer;
}

void Bench::put(void* dest, const void* source, std::size_t bytes) {
  using device::Call;
  run(Call::transfer(device::CallKind::kPut, "put", dest, source, bytes, 0, true));
}
void Bench::get(void* dest, const void* source, std::size_t bytes) {
  using device::Call;
  run(Call::transfer(device::CallKind::kGet, "get", dest, source, bytes, 0, true));
}
void Bench::quiet() { run(device::Call::quiet("quiet")); }

Bench::Met Bench::error_of(const std::function<void()>& provoke) {
  Met met{};
  try {
    provoke();
    quiet();
  } catch (const CheckFailed& failed) {
    met.message = failed.why;
  }
  if (met.message.empty()) throw CheckFailed{"no error, where there should be one"};
  // An event at the target, which is also this PE, may have come before the completion.
  abi::QueueView view;
  copy(&view, state().nic.queues, sizeof(view));
  const char* const entry =
      reinterpret_cast<const char*>(view.completion) - abi::kCompletionWordOffset;
  constexpr int kTries = 2000;
  for (int i = 0; i < kTries; ++i) {
    copy(&met.completion, entry, sizeof(met.completion));
    const auto opcode = static_cast<abi::CompletionOpcode>(met.completion.op_own >> 4);
    if (opcode == abi::CompletionOpcode::kRequesterError) return met;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  throw CheckFailed{"no error completion, but " + met.message};
}

void Bench::change_queue(const std::function<void(abi::QueueView&)>& change) {
  auto* const place = const_cast<abi::QueueView*>(state().nic.queues);
  abi::QueueView view;
  copy(&view, place, sizeof(view));
  change(view);
  copy(place, &view, sizeof(view));
}

void Bench::copy(void* to, const void* from, std::size_t bytes) const {
  if (on_gpu()) {
    pe_->gpu()->copy(to, from, bytes);
  } else {
    std::memcpy(to, from, bytes);
  }
}

void Bench::store(std::uint64_t offset, const Bytes& bytes) {
  copy(at(offset), bytes.data(), bytes.size());
}

Bytes Bench::load(std::uint64_t offset, std::size_t bytes) const {
  Bytes result(bytes);
  copy(result.data(), at(offset), bytes);
  return result;
}

std::uint64_t Bench::load_word(std::uint64_t offset) const {
  std::uint64_t word = 0;
  copy(&word, at(offset), sizeof(word));
  return word;
}

Bytes pattern(std::size_t bytes, unsigned seed) {
  Bytes result(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    result[i] = static_cast<std::uint8_t>((i * 131 + i / 251 + seed * 29 + 1) & 0xff);
  }
  return result;
}

void expect_equal(const std::string& what, const Bytes& got, const Bytes& expected) {
  const auto [here, there] = std::mismatch(got.begin(), got.end(), expected.begin());
  if (here == got.end()) return;
  throw CheckFailed{strprintf("%s: byte %td is 0x%02x and should be 0x%02x", what.c_str(),
                              here - got.begin(), *here, *there)};
}

void expect_word(const std::string& what, std::uint64_t got, std::uint64_t expected,
                 std::uint32_t width) {
  if (got == expected) return;
  const std::uint64_t reversed =
      width == 8 ? abi::swap_bytes(got) : abi::swap_bytes(static_cast<std::uint32_t>(got));
  throw CheckFailed{strprintf("%s: 0x%lx, and should be 0x%lx%s", what.c_str(), got, expected,
                              reversed == expected ? " (its bytes are in reverse order)" : "")};
}

}  // namespace gshmem::selftest
