// Golden bytes: compares every work queue entry that device/network/wqe.h makes, the doorbell, and
// the reading of completions with bytes written by hand from the specification (ConnectX manual,
// "Work queue elements" and "Completion queue entry"; <infiniband/mlx5dv.h>; rdma-core
// providers/mlx5/wqe.h for the masked atomics). Nothing here is computed by the structures of
// include/gshmem/abi/mlx5.h.
#include <gshmem/abi/queue_shape.h>
#include <gshmem/device/network/post.h>

#include <catch2/catch.hpp>

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <vector>

// There is no PE here. These are the two entry points of libgshmem, which no test below may call.
gshmem::device::Ambient* gshmemi_ambient(void) {
  static gshmem::device::Ambient none;
  return &none;
}
void gshmemi_host_fault(const gshmem::abi::DeviceState*) { std::abort(); }

namespace gshmem::device {
// QueueKeys are the last unit of a queue's view.
static_assert(sizeof(QueueKeys) == sizeof(Word16) &&
              offsetof(QueueView, local_key) + sizeof(QueueKeys) == sizeof(QueueView) &&
              offsetof(QueueView, local_key) % sizeof(Word16) == 0 &&
              offsetof(QueueView, atomic_key) ==
                  offsetof(QueueView, local_key) + offsetof(QueueKeys, atomic));

namespace {

using Bytes = std::vector<std::uint8_t>;

// Entry 0x51234 (of which 16 bits go into the entry) of queue pair 0xabcdef.
constexpr std::uint64_t kIndex = 0x51234;
constexpr std::uint32_t kNumber = 0xabcdef;
const KeyedAddress kThere{0x0102030405060708, Be32(0x11121314)};
const KeyedAddress kHere{0x2122232425262728, Be32(0x31323334)};
constexpr std::uint64_t kOperand = 0x4142434445464748, kCond = 0x5152535455565758;

// Segments as they are stored in memory.
Bytes control(std::uint8_t opmod, std::uint8_t opcode, std::uint8_t ds, std::uint8_t flags = 8) {
  return {opmod, 0x12, 0x34, opcode, 0xab, 0xcd, 0xef, ds, 0, 0, 0, flags, 0, 0, 0, 0};
}
const Bytes kRemote = {1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0, 0, 0, 0};
Bytes local(std::uint8_t bytes) {
  return {0, 0, 0, bytes, 0x31, 0x32, 0x33, 0x34, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28};
}
const Bytes kZeros8(8, 0), kOnes8(8, 0xff), kZeros4(4, 0), kOnes4(4, 0xff);
const Bytes kOperand8 = {0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48};
const Bytes kNotOperand8 = {0xbe, 0xbd, 0xbc, 0xbb, 0xba, 0xb9, 0xb8, 0xb7};
const Bytes kCond8 = {0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58};
const Bytes kOperand4 = {0x45, 0x46, 0x47, 0x48};
const Bytes kNotOperand4 = {0xba, 0xb9, 0xb8, 0xb7};
const Bytes kCond4 = {0x55, 0x56, 0x57, 0x58};

Bytes join(std::initializer_list<Bytes> parts) {
  Bytes all;
  for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// Returns the image as it goes to the queue, with its last WQE signaled.
Bytes in_queue(const WqeImage& image) {
  Bytes bytes;
  for (std::uint32_t u = 0; u < image.units; ++u) {
    Word16 unit = image.unit[u];
    const bool last = u == image.second;
    if (u == 0 || last) unit = placed(unit, kIndex + u / 4, kNumber, last ? abi::kCqUpdate : 0);
    const auto* raw = reinterpret_cast<const std::uint8_t*>(&unit);
    bytes.insert(bytes.end(), raw, raw + sizeof(unit));
  }
  return bytes;
}

/// Returns an image in which no byte happens to be zero.
WqeImage used_image() {
  WqeImage image;
  std::memset(image.unit, 0xa5, sizeof(image.unit));
  return image;
}

Bytes atomic(AmoOp op, std::uint32_t width) {
  WqeImage image = used_image();
  const bool swaps = op == AmoOp::kCompareSwap;
  const std::uint64_t mask = width == 8 ? ~std::uint64_t{0} : 0xffffffff;
  image_amo(image, 0, {op, width, kOperand & mask, swaps ? kCond & mask : 0}, kThere, kHere);
  CHECK(image.second == 0);
  return in_queue(image);
}

TEST_CASE("write_from_memory") {
  WqeImage image = used_image();
  image_transfer(image, Opcode::kRdmaWrite, kThere, kHere, 0x7fedcb98);
  CHECK(image.entries() == 1);
  CHECK(in_queue(image) == join({control(0, 0x08, 3),
                                 kRemote,
                                 {0x7f, 0xed, 0xcb, 0x98, 0x31, 0x32, 0x33, 0x34},
                                 {0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28}}));
}

TEST_CASE("write_that_carries_up_to_three_words") {
  const ShortPayload payload{{0x04030201, 0x08070605, 0x0c0b0a09}};  // in memory 1, 2, 3 ... 12
  for (std::uint8_t bytes = 1; bytes <= kShortInlineBytes; ++bytes) {
    WqeImage image = used_image();
    image_short_inline(image, kThere, payload, bytes);
    CHECK(image.entries() == 1);
    CHECK(image.second == 0);
    CHECK(in_queue(image) == join({control(0, 0x08, 3),
                                   kRemote,
                                   {0x80, 0, 0, bytes},
                                   {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}));
  }
}

const HeldKeys kKeys{kHere.key, kThere.key};
const Be32 kAtomicKey(0x21222324);

/// A call stores the image unit by unit; at the end of a queue of 8 entries it continues at its
/// beginning.
template <class Entries>
void check_stored(const Entries& call) {
  constexpr std::uint32_t kEntries = 8, kFirst = kEntries - 1;
  WqeImage image = used_image();
  image.second = 0;
  call.fill(image, kKeys);
  REQUIRE(call.entries() == image.entries());
  REQUIRE(call.last() == image.second / 4);

  std::vector<Word16> queue(kEntries * 4), wanted(kEntries * 4);
  std::memset(queue.data(), 0xa5, queue.size() * sizeof(Word16));
  std::memset(wanted.data(), 0xa5, wanted.size() * sizeof(Word16));
  for (std::uint32_t u = 0; u < image.units; ++u) {
    Word16 unit = image.unit[u];
    if (u == 0 || u == image.second) {
      unit = placed(unit, kFirst + u / 4, kNumber, u == image.second ? abi::kCqUpdate : 0);
    }
    wanted[(kFirst * 4 + u) % wanted.size()] = unit;
  }
  EntryStore store(queue.data(), kEntries - 1, kFirst, kNumber, call.last(), abi::kCqUpdate);
  call.fill(store, kKeys);
  CHECK(std::memcmp(queue.data(), wanted.data(), queue.size() * sizeof(Word16)) == 0);
}

/// An atomic made of its parts is the same as one made at once.
void check_atomic(const Queue& queue, const OneEntry* transfer, const Amo& amo) {
  WqeImage made;
  std::memset(made.unit, 0, sizeof(made.unit));
  WqeImage wanted;
  std::memset(wanted.unit, 0, sizeof(wanted.unit));
  if (transfer) {
    make_transfer(made, queue, *transfer);
    transfer->fill(wanted, kKeys);
  }
  make_atomic(made, queue, kThere.offset, amo, kSink);
  image_amo(wanted, transfer ? 4 : 0, amo, {kThere.offset, kAtomicKey},
            {offsetof(abi::InternalArea, sink), kHere.key});
  REQUIRE(made.units == wanted.units);
  REQUIRE(made.second == wanted.second);
  CHECK(std::memcmp(made.unit, wanted.unit, made.units * sizeof(Word16)) == 0);
  check_stored(made);
}

TEST_CASE("calls_are_stored_as_their_image") {
  const OneEntry transfer = transfer_entry(Opcode::kRdmaWrite, kThere.offset, kHere.offset, 100);
  check_stored(transfer);
  check_stored(transfer_entry(Opcode::kRdmaRead, kThere.offset, kHere.offset, 1));
  check_stored(inline_entry(kThere.offset, {{1, 2, 0}}, 7));
  QueueView view;
  view.local_key = kHere.key;
  view.remote_key = kThere.key;
  view.atomic_key = kAtomicKey;
  for (const AmoOp op : {AmoOp::kFetch, AmoOp::kSet, AmoOp::kSwap, AmoOp::kCompareSwap, AmoOp::kAdd,
                         AmoOp::kAnd, AmoOp::kOr, AmoOp::kXor}) {
    for (const std::uint32_t width : {4u, 8u}) {
      INFO(static_cast<int>(op) << " on " << width << " bytes");
      const Amo amo{op, width, 0x4142434445464748, 0x5152535455565758};
      check_atomic(Queue(&view), nullptr, amo);
      check_atomic(Queue(&view), &transfer, amo);
    }
  }
}

TEST_CASE("write_that_carries_its_payload") {
  // Bytes, units and entries. The payload follows the header of 4 bytes, and is padded with zeros
  // to 16 bytes.
  struct Shape {
    std::uint32_t bytes;
    std::uint8_t units;
    std::uint32_t entries;
  };
  for (const Shape shape :
       {Shape{1, 3, 1}, Shape{4, 3, 1}, Shape{11, 3, 1}, Shape{12, 3, 1}, Shape{13, 4, 1},
        Shape{28, 4, 1}, Shape{29, 5, 2}, Shape{92, 8, 2}, Shape{93, 9, 3}, Shape{220, 16, 4}}) {
    INFO(shape.bytes);
    WqeImage image = used_image();
    std::uint32_t* payload = image_inline(image, kThere, shape.bytes);
    Bytes expected = join({control(0, 0x08, shape.units),
                           kRemote,
                           {0x80, 0, 0, static_cast<std::uint8_t>(shape.bytes)}});
    // The caller stores whole words and pads the last one with zeros.
    std::memset(payload, 0, (shape.bytes + 3) / 4 * 4);
    for (std::uint32_t i = 0; i < shape.bytes; ++i) {
      expected.push_back(static_cast<std::uint8_t>(i + 1));
      std::memcpy(reinterpret_cast<char*>(payload) + i, &expected.back(), 1);
    }
    expected.resize(shape.units * 16u, 0);
    CHECK(image.entries() == shape.entries);
    CHECK(image.second == 0);
    CHECK(in_queue(image) == expected);
  }
}

TEST_CASE("read_with_and_without_a_dump_after_it") {
  WqeImage image = used_image();
  image_transfer(image, Opcode::kRdmaRead, kThere, kHere, 200);
  CHECK(in_queue(image) == join({control(0, 0x10, 3), kRemote, local(200)}));

  image_dump(image, 4, {kHere.offset, kHere.key}, 4);
  CHECK(image.entries() == 2);
  const Bytes gap(16, 0xa5);  // ds does not cover these bytes, so their value does not matter
  Bytes dump = control(0, 0x23, 2, 0x88);  // fence and completion
  dump[2] = 0x35;
  CHECK(in_queue(image) ==
        join({control(0, 0x10, 3, 0), kRemote, local(200), gap, dump, local(4)}));
}

TEST_CASE("atomics_of_8_bytes") {
  const Bytes swap = control(9, 0x14, 5), add = control(9, 0x15, 4);
  for (const AmoOp op : {AmoOp::kSet, AmoOp::kSwap}) {
    CHECK(atomic(op, 8) == join({swap, kRemote, kOperand8, kZeros8, kOnes8, kZeros8, local(8)}));
  }
  CHECK(atomic(AmoOp::kOr, 8) ==
        join({swap, kRemote, kOperand8, kZeros8, kOperand8, kZeros8, local(8)}));
  CHECK(atomic(AmoOp::kAnd, 8) ==
        join({swap, kRemote, kOperand8, kZeros8, kNotOperand8, kZeros8, local(8)}));
  CHECK(atomic(AmoOp::kXor, 8) == join({add, kRemote, kOperand8, kOnes8, local(8)}));
  CHECK(atomic(AmoOp::kCompareSwap, 8) ==
        join({control(0, 0x11, 4), kRemote, kOperand8, kCond8, local(8)}));
  CHECK(atomic(AmoOp::kAdd, 8) ==
        join({control(0, 0x12, 4), kRemote, kOperand8, kZeros8, local(8)}));
  CHECK(atomic(AmoOp::kFetch, 8) ==
        join({control(0, 0x12, 4), kRemote, kZeros8, kZeros8, local(8)}));
}

TEST_CASE("atomics_of_4_bytes") {
  const Bytes swap = control(8, 0x14, 4), add = control(8, 0x15, 4);
  for (const AmoOp op : {AmoOp::kSet, AmoOp::kSwap}) {
    CHECK(atomic(op, 4) == join({swap, kRemote, kOperand4, kZeros4, kOnes4, kZeros4, local(4)}));
  }
  CHECK(atomic(AmoOp::kOr, 4) ==
        join({swap, kRemote, kOperand4, kZeros4, kOperand4, kZeros4, local(4)}));
  CHECK(atomic(AmoOp::kAnd, 4) ==
        join({swap, kRemote, kOperand4, kZeros4, kNotOperand4, kZeros4, local(4)}));
  CHECK(atomic(AmoOp::kXor, 4) == join({add, kRemote, kOperand4, kOnes4, kZeros8, local(4)}));
  CHECK(atomic(AmoOp::kCompareSwap, 4) ==
        join({swap, kRemote, kOperand4, kCond4, kOnes4, kOnes4, local(4)}));
  CHECK(atomic(AmoOp::kAdd, 4) == join({add, kRemote, kOperand4, kZeros4, kZeros8, local(4)}));
  CHECK(atomic(AmoOp::kFetch, 4) == join({add, kRemote, kZeros4, kZeros4, kZeros8, local(4)}));
}

TEST_CASE("atomics_know_their_length") {
  for (const std::uint32_t width : {4u, 8u}) {
    for (const AmoOp op : {AmoOp::kFetch, AmoOp::kSet, AmoOp::kSwap, AmoOp::kCompareSwap,
                           AmoOp::kAdd, AmoOp::kAnd, AmoOp::kOr, AmoOp::kXor}) {
      const Bytes wqe = atomic(op, width);
      CHECK(wqe[7] * 16u == wqe.size());  // ds
    }
  }
}

TEST_CASE("a_signal_after_a_payload_is_a_second_wqe") {
  const KeyedAddress signal{0x6162636465666768, kThere.key};
  const Bytes signal_at = {0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68,
                           0x11, 0x12, 0x13, 0x14, 0,    0,    0,    0};
  const Bytes gap(16, 0xa5);
  for (const AmoOp op : {AmoOp::kSet, AmoOp::kAdd}) {
    WqeImage image = used_image();
    image_transfer(image, Opcode::kRdmaWrite, kThere, kHere, 100);
    image_amo(image, 4, {op, 8, kOperand, 0}, signal, kHere);
    CHECK(image.second == 4);
    const bool set = op == AmoOp::kSet;
    CHECK(image.entries() == (set ? 3 : 2));
    Bytes second = set ? control(9, 0x14, 5) : control(0, 0x12, 4);
    second[2] = 0x35;  // the next entry
    const Bytes operands =
        set ? join({kOperand8, kZeros8, kOnes8, kZeros8}) : join({kOperand8, kZeros8});
    CHECK(in_queue(image) == join({control(0, 0x08, 3, 0), kRemote, local(100), gap, second,
                                   signal_at, operands, local(8)}));
  }
}

/// The address vector of a PE (PRM, "address vector", and struct mlx5_wqe_av): the key of dynamic
/// connections, the long form and the number of the target, rate and service level, path bits, LID,
/// reserved bytes, MAC address, traffic class, hop limit, flags with GID index and flow label, GID.
const Bytes kVector = {0xc0, 0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0x80, 0xd1, 0xd2, 0xd3,
                       0x03, 0,    0x0e, 0x0f, 0,    0,    0,    0,    0xa0, 0xa1, 0xa2, 0xa3,
                       0xa4, 0xa5, 0x6a, 0xff, 0x40, 0x30, 0,    0,    0xfe, 0x80, 0,    0,
                       0,    0,    0,    0,    0xb8, 0xb9, 0xba, 0xbb, 0xbc, 0xbd, 0xbe, 0xbf};

/// Returns the bytes of an image that an initiator posts.
Bytes addressed(WqeImage& image) {
  abi::AddressVector vector;
  static_assert(sizeof(vector) == 48);
  std::memcpy(&vector, kVector.data(), sizeof(vector));
  address_image(image, reinterpret_cast<const Word16*>(&vector));
  return in_queue(image);
}

TEST_CASE("entries_of_an_initiator_have_the_vector_after_their_control_unit") {
  WqeImage image = used_image();
  image_transfer(image, Opcode::kRdmaRead, kThere, kHere, 100);
  CHECK(addressed(image) == join({control(0, 0x10, 6), kVector, kRemote, local(100)}));
  CHECK(image.entries() == 2);

  image = used_image();
  std::uint32_t* const payload = image_inline(image, kThere, kAddressedInlineBytes);
  std::memset(payload, 0x77, kAddressedInlineBytes);
  const Bytes header = {0x80, 0, 0, static_cast<std::uint8_t>(kAddressedInlineBytes)};
  CHECK(addressed(image) ==
        join({control(0, 0x08, 16), kVector, kRemote, header, Bytes(kAddressedInlineBytes, 0x77)}));
  CHECK(image.entries() == 4);

  image = used_image();
  image_amo(image, 0, {AmoOp::kCompareSwap, 4, 0x45464748, 0x55565758}, kThere, kHere);
  CHECK(addressed(image) ==
        join({control(8, 0x14, 7), kVector, kRemote, kOperand4, kCond4, kOnes4, kOnes4, local(4)}));
}

TEST_CASE("an_initiators_signal_after_a_payload_takes_four_entries") {
  const Bytes gap(32, 0xa5);
  for (const AmoOp op : {AmoOp::kSet, AmoOp::kAdd}) {
    WqeImage image = used_image();
    image_transfer(image, Opcode::kRdmaWrite, kThere, kHere, 100);
    image_amo(image, 4, {op, 8, kOperand, 0}, kThere, kHere);
    const bool set = op == AmoOp::kSet;
    Bytes second = set ? control(9, 0x14, 8) : control(0, 0x12, 7);
    second[2] = 0x36;  // two entries later
    const Bytes operands =
        set ? join({kOperand8, kZeros8, kOnes8, kZeros8}) : join({kOperand8, kZeros8});
    Bytes made = addressed(image);
    CHECK(image.entries() == 4);
    CHECK(image.last() == 2);
    REQUIRE(made.size() == (set ? 256 : 240));
    std::memcpy(&made[6 * 16], gap.data(), gap.size());  // nobody reads it
    CHECK(made == join({control(0, 0x08, 6, 0), kVector, kRemote, local(100), gap, second, kVector,
                        kRemote, operands, local(8)}));
  }
}

TEST_CASE("a_nop_and_a_dump_of_an_initiator_have_no_vector") {
  WqeImage image = used_image();
  image.put(0, control_unit({Opcode::kNop, 0, 1, 0}));
  image.units = 1;
  CHECK(addressed(image) == control(0, 0, 1));

  image = used_image();
  image_transfer(image, Opcode::kRdmaRead, kThere, kHere, 100);
  image_dump(image, 4, kHere, 4);
  Bytes made = addressed(image), dump = control(0, 0x23, 2, 0x88);
  dump[2] = 0x36;
  REQUIRE(made.size() == 10 * 16);
  CHECK(Bytes(made.begin(), made.begin() + 6 * 16) ==
        join({control(0, 0x10, 6, 0), kVector, kRemote, local(100)}));
  CHECK(Bytes(made.begin() + 8 * 16, made.end()) == join({dump, local(4)}));
}

TEST_CASE("old_values_have_the_byte_order_of_this_machine") {
  CHECK(fetched_value(0x44434241, 4, 0) == 0x41424344);
  CHECK(fetched_value(0x44434241, 4, abi::kNicFetchedBig) == 0x41424344);
  CHECK(fetched_value(0x4142434445464748, 8, 0) == 0x4142434445464748);
  CHECK(fetched_value(0x4142434445464748, 8, abi::kNicFetchedBig) == 0x4847464544434241);
}

TEST_CASE("doorbell_is_the_next_index_and_the_queue_pair") {
  const auto bytes = [](std::uint32_t next, std::uint32_t number) {
    const std::uint64_t value = abi::doorbell_value(next, number);
    Bytes all(sizeof(value));
    std::memcpy(all.data(), &value, sizeof(value));
    return all;
  };
  CHECK(bytes(0x1234, 0xabcdef) == Bytes{0, 0x12, 0x34, 0, 0xab, 0xcd, 0xef, 0});
  CHECK(bytes(0x51234, 0xabcdef) == Bytes{0, 0x12, 0x34, 0, 0xab, 0xcd, 0xef, 0});
  CHECK(bytes(0xffff, 0x000041) == Bytes{0, 0xff, 0xff, 0, 0, 0, 0x41, 0});
  CHECK(bytes(0, 1) == Bytes{0, 0, 0, 0, 0, 0, 1, 0});
}

/// A queue without a NIC: the test writes the completion.
struct Completed {
  std::uint8_t entry[64];
  QueueCursor cursor{};
  QueueView view;
  abi::Control control{};
  State state;

  Completed() {
    std::memset(entry, 0xff, sizeof(entry));
    view.completion = reinterpret_cast<const Be32*>(entry + 60);
    view.cursor = &cursor;
    view.number = kNumber;
    view.pe = 3;
    state.control = &control;
    state.nic.traits = abi::traits_of({.depth = 0x4000, .batch = 16});
    state.fault_policy = abi::FaultPolicy::kReport;
    set(0, 15);
  }
  void set(std::uint16_t counter, std::uint8_t opcode) {
    entry[60] = static_cast<std::uint8_t>(counter >> 8);
    entry[61] = static_cast<std::uint8_t>(counter);
    entry[62] = 0x77;                                          // signature: ignored
    entry[63] = static_cast<std::uint8_t>(opcode << 4 | 0x3);  // solicited and owner: neither
  }
  std::uint64_t look() {
    Wait wait;
    begin_wait(wait, &state, &view, "test");
    const std::uint64_t done = queue_poll(wait);
    post_report(wait);
    return done;
  }
  std::uint64_t poll(std::uint64_t base, std::uint16_t counter) {
    cursor.done = base;
    set(counter, 0);
    return look();
  }
};

TEST_CASE("completion_names_the_completed_entry") {
  Completed queue;
  CHECK(queue.look() == 0);  // opcode 15: no completion yet
  CHECK(queue.cursor.done == 0);
  CHECK(queue.poll(0, 0) == 1);
  CHECK(queue.cursor.done == 1);
  CHECK(queue.poll(1, 0) == 1);  // unchanged
  CHECK(queue.poll(1, 0x1234) == 0x1235);
  CHECK(queue.cursor.done == 0x1235);
}

TEST_CASE("completion_counter_has_16_bits_and_the_result_64") {
  Completed queue;
  CHECK(queue.poll(0xfffe, 0xffff) == 0x10000);
  CHECK(queue.poll(0xfff0, 0x0002) == 0x10003);
  CHECK(queue.poll(0x10000, 0xffff) == 0x10000);
  CHECK(queue.poll(0x1fffffff0, 0x0010) == 0x200000011);
  CHECK(queue.cursor.done == 0x200000011);
}

TEST_CASE("completion_of_an_impossible_entry_is_ignored_and_counted") {
  Completed queue;
  CHECK(queue.poll(0x10005, 0x4004) == 0x14005);  // the last entry that is possible
  CHECK(queue.control.bad_completions == 0);
  CHECK(queue.poll(0x10005, 0x4005) == 0x10005);
  CHECK(queue.poll(0x10005, 0x0003) == 0x10005);  // an older one
  CHECK(queue.cursor.done == 0x10005);
  CHECK(queue.control.bad_completions == 2);
}

TEST_CASE("error_completion_is_a_fault_that_names_the_operation") {
  for (const std::uint8_t syndrome : {std::uint8_t{0x13}, std::uint8_t{0x05}}) {  // 05: flushed
    Completed queue;
    queue.cursor.reserved = 0x1236;
    queue.cursor.ready = abi::PublishedWord::make(0x1236, 1);
    queue.set(0x1235, 13);
    const std::uint8_t words[8] = {0xaa, 0xbb, 0xcc, syndrome,  // hardware and vendor, syndrome
                                   0x08, 0xab, 0xcd, 0xef};     // WQE opcode, queue pair
    std::memcpy(queue.entry + 52, words, sizeof(words));
    CHECK_FALSE(queue_quiet(queue.state, Queue(&queue.view), "quiet"));
    const abi::FaultRecord& fault = queue.control.fault;
    CHECK(queue.control.stop == 1);
    CHECK(fault.published == 1);
    CHECK(fault.code == GSHMEMX_ERROR_NIC);
    CHECK(fault.pe == 3);
    CHECK(fault.queue == kNumber);
    CHECK(fault.wqe_index == 0x1235);
    CHECK(fault.opcode == 0x08);
    CHECK(fault.syndrome == syndrome);
    CHECK(queue.cursor.done == 0);
  }
}

TEST_CASE("an_initiators_error_names_the_pe_of_the_entry") {
  // Targets of two cards may have one number; then their LIDs or their GIDs differ.
  abi::AddressVector vectors[4] = {
      {{1, 0x10, 0, 0, 9, 9}}, {{1, 0x11, 0, 0, 9, 8}}, {{1, 0x10, 0, 0, 9, 8}}, {}};
  std::vector<Word16> entries(64 * 4);
  Completed queue;
  queue.view.entries = reinterpret_cast<char*>(entries.data());
  queue.state.nic.traits = abi::traits_of({.depth = 64, .dynamic = true});
  queue.state.nic.vectors = vectors;
  queue.state.n_pes = 3;
  queue.cursor.reserved = 0x7c;
  queue.cursor.ready = abi::PublishedWord::make(0x7c, 2);
  queue.set(0x7a, 13);
  queue.entry[55] = 0x13, queue.entry[56] = 0x08;
  const auto pe_with = [&](const abi::AddressVector& vector) {
    std::memcpy(&entries[0x3a * 4 + 1], &vector, sizeof(vector));
    queue.control.fault = {};
    queue.control.stop = 0;
    CHECK_FALSE(queue_quiet(queue.state, Queue(&queue.view), "quiet"));
    CHECK(queue.control.fault.wqe_index == 0x7a);
    return queue.control.fault.pe;
  };
  for (int pe = 0; pe < 3; ++pe) CHECK(pe_with(vectors[pe]) == pe);
  CHECK(pe_with(abi::AddressVector{{1, 0x12, 0, 0, 9, 9}}) == -1);
}

TEST_CASE("first_error_of_a_queue_is_reported_by_all_that_see_a_flushed_entry") {
  Completed queue;
  queue.set(0x1235, 13);
  queue.entry[55] = 0x13, queue.entry[56] = 0x08;
  CHECK(queue_fault(Queue(&queue.view)).syndrome == 0x13);
  queue.set(0x1240, 13);
  queue.entry[55] = 0x05, queue.entry[56] = 0x10;
  const FaultInfo later = queue_fault(Queue(&queue.view));
  CHECK(later.syndrome == 0x13);
  CHECK(later.opcode == 0x08);
  CHECK(later.wqe_index == 0x1235);
}

}  // namespace
}  // namespace gshmem::device
