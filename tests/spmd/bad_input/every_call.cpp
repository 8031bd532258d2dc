#include "tests/spmd/bad_input/every_call.h"

#include <gshmem/device/pe/caller.h>

#include "host/runtime/fault.h"

#include <cctype>
#include <climits>
#include <cstdint>
#include <map>
#include <set>
#include <stdexcept>
#include <string_view>

namespace gshmem::spmd {
namespace {

template <class T>
constexpr std::size_t size_of_pointee() {
  if constexpr (std::is_void_v<std::remove_pointer_t<T>> || std::is_same_v<T, gshmemx_stream_t>) {
    return 0;
  } else {
    return sizeof(std::remove_pointer_t<T>);
  }
}
template <class Result>
constexpr std::size_t unit_of(Result (*)()) {
  return 0;
}
template <class Result, class First, class... More>
constexpr std::size_t unit_of(Result (*)(First, More...)) {
  if constexpr (std::is_pointer_v<First>) {
    return size_of_pointee<First>();
  } else if constexpr (std::is_class_v<First>) {  // of complex numbers
    return size_of_pointee<decltype(First::at)>();
  } else {
    return unit_of(static_cast<Result (*)(More...)>(nullptr));
  }
}

std::vector<std::string> split(std::string_view names) {
  std::vector<std::string> all;
  for (const char c : names) {
    if (c == '(' || c == ',') all.emplace_back();
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '_') all.back() += c;
  }
  if (all.size() == 1 && all[0].empty()) all.clear();
  return all;
}

/// The function of namespace gshmem::api.
std::string implementation(const Function& function) {
  const std::string_view call = function.call;
  return std::string(call.substr(0, call.find_first_of("(<")));
}

/// Returns the bytes of a transferred element: the name of putN has them; for putmem it is one.
std::size_t unit_of(const Function& function) {
  if (function.unit != 0) return function.unit;
  const std::string name = function.name;
  auto at = name.find("put");
  if (at == std::string::npos) at = name.find("get");
  if (at == std::string::npos) return 1;
  const int bits = std::atoi(name.c_str() + at + 3);
  return bits == 0 ? 1 : static_cast<std::size_t>(bits) / 8;
}

enum class Kind {
  kAnything,
  kPe,
  kPeOrAll,
  kSymmetric,  ///< elements that are transferred
  kElement,    ///< one element, as an object of its type
  kWords,      ///< whole words: one, or one per element
  kLocal,      ///< elements that are transferred
  kLocalWords,
  kOptionalWords,
  kSignal,
  kCount,
  kStride,
  kBlock,  ///< consecutive elements, at most a stride
  kSignalOp,
  kCmp,
  kHandle,
  kHandles,
  kHandleCount,
  kTeam,
  kPes,
  kPesCount,
  kNull,  ///< null is valid
  kSmem,
  kSmemBytes,
  kAmount,
  kPieces,
  kPiecesCount,
  kBlocksCount,
  kAnswered,  ///< null is reported as GSHMEMX_ERROR_INVALID_VALUE, without a fault
  kAsked,     ///< for a call that tests its arguments
};

Kind kind_of(const Function& function, const std::string& name) {
  static const std::set<std::string> questions{"ptr", "team_ptr", "mc_ptr", "pe_accessible",
                                               "addr_accessible"};
  static const std::map<std::string, Kind> by_name{{"ctx", Kind::kHandle},
                                                   {"qp", Kind::kHandle},
                                                   {"qps", Kind::kHandles},
                                                   {"num_qps", Kind::kHandleCount},
                                                   {"team", Kind::kTeam},
                                                   {"src_team", Kind::kTeam},
                                                   {"dest_team", Kind::kTeam},
                                                   {"src_pe", Kind::kAnything},
                                                   {"root", Kind::kPe},
                                                   {"nelems", Kind::kCount},
                                                   {"nblocks", Kind::kCount},
                                                   {"bsize", Kind::kBlock},
                                                   {"target_pes", Kind::kPes},
                                                   {"npes", Kind::kPesCount},
                                                   {"pieces", Kind::kPieces},
                                                   {"npieces", Kind::kPiecesCount},
                                                   {"num_blocks", Kind::kBlocksCount},
                                                   {"lock", Kind::kWords},
                                                   {"dst", Kind::kStride},
                                                   {"sst", Kind::kStride},
                                                   {"sig_addr", Kind::kSignal},
                                                   {"sig_op", Kind::kSignalOp},
                                                   {"cmp", Kind::kCmp},
                                                   {"ivar", Kind::kWords},
                                                   {"ivars", Kind::kWords},
                                                   {"status", Kind::kOptionalWords},
                                                   {"indices", Kind::kLocalWords},
                                                   {"cmp_values", Kind::kLocalWords},
                                                   {"fetch", Kind::kLocalWords},
                                                   {"handle", Kind::kAnswered},
                                                   {"active", Kind::kAnswered},
                                                   {"attrs", Kind::kNull},
                                                   {"flag", Kind::kAmount},
                                                   {"smem", Kind::kSmem},
                                                   {"size", Kind::kSmemBytes},
                                                   {"region", Kind::kAnything},
                                                   {"hints", Kind::kNull},
                                                   {"signal", Kind::kAnything},
                                                   {"stream", Kind::kAnything},
                                                   {"value", Kind::kAnything},
                                                   {"cond", Kind::kAnything},
                                                   {"cmp_value", Kind::kAnything}};
  // The kinds of dest and source, by the function's use of them.
  static const std::map<std::string, std::pair<Kind, Kind>> by_function{
      {"put", {Kind::kSymmetric, Kind::kLocal}},
      {"put_nbi", {Kind::kSymmetric, Kind::kLocal}},
      {"put_signal", {Kind::kSymmetric, Kind::kLocal}},
      {"put_signal_nbi", {Kind::kSymmetric, Kind::kLocal}},
      {"iput", {Kind::kSymmetric, Kind::kLocal}},
      {"ibput", {Kind::kSymmetric, Kind::kLocal}},
      {"get", {Kind::kLocal, Kind::kSymmetric}},
      {"get_nbi", {Kind::kLocal, Kind::kSymmetric}},
      {"iget", {Kind::kLocal, Kind::kSymmetric}},
      {"ibget", {Kind::kLocal, Kind::kSymmetric}},
      {"p", {Kind::kElement, Kind::kAnything}},
      {"g", {Kind::kAnything, Kind::kElement}},
      {"fetch_into", {Kind::kWords, Kind::kWords}},
      {"alltoall", {Kind::kSymmetric, Kind::kSymmetric}},
      {"broadcast", {Kind::kSymmetric, Kind::kSymmetric}},
      {"fcollect", {Kind::kSymmetric, Kind::kSymmetric}},
      {"collect", {Kind::kSymmetric, Kind::kSymmetric}},
      {"alltoalls", {Kind::kSymmetric, Kind::kSymmetric}}};
  const std::string does = implementation(function);
  if (questions.count(does) != 0 && (does != "team_ptr" || name != "team")) return Kind::kAsked;
  if (name == "pe") return does.rfind("qp_", 0) == 0 ? Kind::kPeOrAll : Kind::kPe;
  if (name == "dest" || name == "source") {
    if (does.rfind("amo_", 0) == 0 || does.rfind("reduce", 0) == 0 ||
        does.find("scan_") != std::string::npos)
      return Kind::kWords;
    const auto found = by_function.find(does);
    if (found != by_function.end())
      return name == "dest" ? found->second.first : found->second.second;
  } else if (const auto found = by_name.find(name); found != by_name.end()) {
    return found->second;
  }
  throw std::runtime_error("every_call.cpp: argument " + name + " of " + function.name +
                           " has no kind");
}

std::string number(std::int64_t value) { return std::to_string(value) + " "; }
std::string address(std::uint64_t value) {
  char text[32];
  std::snprintf(text, sizeof(text), "0x%llx ", static_cast<unsigned long long>(value));
  return text;
}
std::uint64_t raw_of(const void* p) { return reinterpret_cast<std::uint64_t>(p); }
std::uint64_t raw_of(std::int64_t value) { return static_cast<std::uint64_t>(value); }

/// Makes the cases of one function.
class Maker {
 public:
  Maker(std::size_t index, const Ground& ground)
      : index_(index),
        function_(functions().at(index)),
        ground_(ground),
        names_(split(function_.names)),
        unit_(unit_of(function_)) {
    if (names_.size() > good_.size()) throw std::runtime_error("too many arguments");
    for (const std::string& name : names_) kinds_.push_back(kind_of(function_, name));
    count_ = has(Kind::kCount) ? 2 : 1;
    for (std::size_t i = 0; i < names_.size(); ++i) good_[i] = good(i);
  }

  std::vector<Case> make() {
    // With good arguments it clears a lock that no thread holds, which is a fault.
    if (std::string_view(function_.name) != "gshmem_clear_lock")
      cases_.push_back({index_, good_, "", ""});
    if (has(Kind::kCount) || has(Kind::kPiecesCount)) make_empty();
    for (std::size_t i = 0; i < names_.size(); ++i) make_wrong(i);
    return cases_;
  }

 private:
  [[nodiscard]] bool has(Kind kind) const {
    for (const Kind one : kinds_)
      if (one == kind) return true;
    return false;
  }

  [[nodiscard]] std::uint64_t good(std::size_t i) const {
    switch (kinds_[i]) {
      case Kind::kSymmetric:
      case Kind::kElement:
      case Kind::kWords:
        return raw_of(ground_.symmetric);
      case Kind::kSignal:
        return raw_of(ground_.symmetric + Ground::kSignal);
      case Kind::kLocal:
      case Kind::kSmem:
      case Kind::kAnswered:
        return raw_of(ground_.local);
      case Kind::kLocalWords:
        return raw_of(ground_.local + (names_[i] == "fetch"     ? Ground::kFetch
                                       : names_[i] == "indices" ? Ground::kIndices
                                                                : Ground::kValues));
      case Kind::kHandles:
        return raw_of(ground_.local + Ground::kHandles);
      case Kind::kHandle:
        return GSHMEM_CTX_DEFAULT;
      case Kind::kSmemBytes:
        return Ground::kBytes;
      case Kind::kPieces:
        return raw_of(ground_.list(puts_list() ? Ground::kPut : Ground::kGet));
      case Kind::kCount:
      case Kind::kPiecesCount:
        return 2;
      case Kind::kPes:
        return raw_of(ground_.local + Ground::kValues);  // zeros
      case Kind::kStride:
      case Kind::kBlock:
      case Kind::kHandleCount:
      case Kind::kPesCount:
        return 1;
      case Kind::kSignalOp:
        return GSHMEM_SIGNAL_SET;
      case Kind::kAsked:
        return names_[i] == "pe" ? 0 : raw_of(ground_.symmetric);
      case Kind::kAnything:
        return names_[i] == "cmp_value" ? 0 : 7;
      case Kind::kPe:
      case Kind::kPeOrAll:
      case Kind::kOptionalWords:
      case Kind::kCmp:
      case Kind::kTeam:
      case Kind::kAmount:
      case Kind::kBlocksCount:
      case Kind::kNull:
        break;
    }
    return 0;
  }
  [[nodiscard]] bool puts_list() const { return implementation(function_).rfind("putv", 0) == 0; }

  /// No memory is accessed, but the PE is checked.
  void make_empty() {
    Case empty{index_, good_, "", ""};
    for (std::size_t i = 0; i < names_.size(); ++i) {
      const Kind kind = kinds_[i];
      const bool memory = kind == Kind::kSymmetric || kind == Kind::kLocal ||
                          kind == Kind::kWords || kind == Kind::kLocalWords ||
                          kind == Kind::kPieces;
      if (memory || kind == Kind::kCount || kind == Kind::kPiecesCount || kind == Kind::kStride)
        empty.raw[i] = 0;
    }
    cases_.push_back(empty);
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (kinds_[i] != Kind::kPe) continue;
      empty.raw[i] = raw_of(-1);
      empty.argument = names_[i];
      empty.value = number(-1);
      cases_.push_back(empty);
    }
  }

  void wrong(std::size_t i, std::uint64_t raw, const std::string& argument,
             const std::string& value) {
    Case one{index_, good_, argument, value};
    one.raw[i] = raw;
    cases_.push_back(one);
  }
  void wrong_numbers(std::size_t i, const std::vector<std::int64_t>& values) {
    for (const std::int64_t value : values) wrong(i, raw_of(value), names_[i], number(value));
  }
  void wrong_address(std::size_t i, const void* p) {
    wrong(i, raw_of(p), names_[i], address(raw_of(p)));
  }
  void wrong_list(std::size_t i, Ground::List list, const std::string& argument,
                  const std::string& value) {
    wrong(i, raw_of(ground_.list(list)), argument, value);
  }
  void not_symmetric(std::size_t i, std::size_t elements) {
    for (const void* p :
         {static_cast<const void*>(nullptr), static_cast<const void*>(ground_.local),
          static_cast<const void*>(ground_.heap), static_cast<const void*>(ground_.heap - 4096),
          static_cast<const void*>(ground_.heap_end),
          static_cast<const void*>(ground_.heap_end - unit_ * (elements - 1))})
      wrong_address(i, p);
  }
  void unaligned(std::size_t i) {
    if (unit_ > 1) wrong_address(i, reinterpret_cast<const char*>(good_[i]) + 1);
  }
  /// Symmetric memory that begins inside and ends beyond the end.
  void too_many(std::size_t i, std::uint64_t n) {
    for (std::size_t k = 0; k < names_.size(); ++k) {
      if (kinds_[k] != Kind::kSymmetric && kinds_[k] != Kind::kWords) continue;
      wrong(i, n, names_[k], address(good_[k]));
      if (has(Kind::kTeam)) break;  // both arrays are too long; the first one is reported
    }
  }

  void make_wrong(std::size_t i) {
    switch (kinds_[i]) {
      case Kind::kPe:
        wrong_numbers(i, {-1, 1, INT_MAX, INT_MIN});
        break;
      case Kind::kPeOrAll:
        wrong_numbers(i, {-1, 1, GSHMEMX_PE_ALL + 1, INT_MIN});
        break;
      case Kind::kSymmetric:
        not_symmetric(i, count_);
        break;
      case Kind::kElement:
        not_symmetric(i, 1);
        unaligned(i);
        break;
      case Kind::kSignal:
        for (std::size_t k = 0; k < names_.size(); ++k)
          if (names_[k] == "dest") wrong_address(i, reinterpret_cast<const void*>(good_[k]));
        if (has(Kind::kPieces) && puts_list()) wrong_address(i, ground_.symmetric);
        wrong_address(i, reinterpret_cast<const char*>(good_[i]) + 1);
        wrong_address(i, reinterpret_cast<const char*>(good_[i]) + 4);
        wrong_address(i, ground_.heap_end);
        wrong_address(i, ground_.local);
        wrong_address(i, nullptr);
        break;
      case Kind::kWords:
        not_symmetric(i, count_);
        unaligned(i);
        break;
      case Kind::kLocal:
        wrong_address(i, nullptr);
        break;
      case Kind::kLocalWords:
        wrong_address(i, nullptr);
        unaligned(i);
        break;
      case Kind::kOptionalWords:
        wrong_address(i, ground_.local + 1);
        break;
      case Kind::kHandles:
        wrong_address(i, nullptr);
        wrong_address(i, ground_.local + Ground::kHandles + 1);
        wrong(i, good_[i] + sizeof(gshmemx_qp_handle_t), "qp", number(77));
        break;
      case Kind::kPes:
        wrong_address(i, nullptr);
        wrong_address(i, ground_.local + Ground::kValues + 1);
        wrong(i, raw_of(ground_.local), names_[i], number(0x55555555));
        break;
      case Kind::kPesCount:
        wrong(i, SIZE_MAX, names_[i], std::to_string(SIZE_MAX) + " ");
        break;
      case Kind::kHandleCount:
        wrong_numbers(i, {-1, INT_MIN});
        break;
      case Kind::kHandle:
        wrong_numbers(i, {2, 77, 1024, INT_MIN});
        // The handle is GSHMEM_CTX_INVALID, with which a fence and a quiet do nothing.
        if (names_.size() > 1 && !has(Kind::kPes)) wrong_numbers(i, {-1});
        break;
      case Kind::kCount:
        for (const std::size_t n :
             {SIZE_MAX, SIZE_MAX / unit_ + 2, static_cast<std::size_t>(PTRDIFF_MAX) / unit_ + 1}) {
          // For single bytes the second is one, which is valid.
          if (n != 1) wrong(i, n, names_[i], std::to_string(n) + " ");
        }
        too_many(i, std::uint64_t{1} << 40);
        break;
      case Kind::kStride:
        wrong_numbers(i, {0, -1, PTRDIFF_MIN});
        wrong(i, PTRDIFF_MAX, has(Kind::kBlock) ? "nblocks" : "nelems", number(2));
        break;
      case Kind::kBlock: {
        // Larger than a stride of the symmetric side, which is checked first.
        const std::string side = implementation(function_) == "ibput" ? "dst" : "sst";
        for (const std::uint64_t size : {std::uint64_t{2}, std::uint64_t{SIZE_MAX}})
          wrong(i, size, side, number(1));
        break;
      }
      case Kind::kSignalOp:
        wrong_numbers(i, {-1, 0, GSHMEM_SIGNAL_SET - 1, GSHMEM_SIGNAL_ADD + 1});
        break;
      case Kind::kCmp:
        wrong_numbers(i, {-1, GSHMEM_CMP_GE + 1, INT_MAX, INT_MIN});
        break;
      case Kind::kTeam:
        wrong_numbers(i, {GSHMEM_TEAM_INVALID - 1, abi::kNvshmemTeams, INT_MAX});
        break;
      case Kind::kPieces:
        wrong_address(i, nullptr);
        wrong_address(i, reinterpret_cast<const char*>(good_[i]) + 4);
        wrong_list(i, puts_list() ? Ground::kPutWrongDest : Ground::kGetWrongSource,
                   puts_list() ? "pieces[1].dest" : "pieces[1].source",
                   address(raw_of(ground_.local)));
        wrong_list(i, puts_list() ? Ground::kPutNoSource : Ground::kGetNoDest,
                   puts_list() ? "pieces[1].source" : "pieces[1].dest", address(0));
        wrong_list(i, Ground::kTooLarge, "pieces[1].bytes", std::to_string(SIZE_MAX) + " ");
        break;
      case Kind::kPiecesCount:
        for (const std::size_t n :
             {SIZE_MAX, std::size_t{PTRDIFF_MAX} / sizeof(gshmemx_piece_t) + 1})
          wrong(i, n, names_[i], std::to_string(n) + " ");
        break;
      case Kind::kBlocksCount:
        wrong_numbers(i, {-1, INT_MIN});
        break;
      case Kind::kSmem:
        wrong_address(i, nullptr);
        wrong_address(i, ground_.local + 8);
        break;
      case Kind::kSmemBytes:
        for (const std::size_t n : {0u, 127u}) wrong(i, n, names_[i], std::to_string(n) + " ");
        break;
      case Kind::kAmount:
        wrong_numbers(i, {-1, GSHMEMX_SMEM_BARRIERS_ONLY + 1, INT_MAX});
        break;
      case Kind::kAsked:
        for (const std::uint64_t raw :
             {names_[i] == "pe" ? raw_of(1) : std::uint64_t{0},
              names_[i] == "pe" ? raw_of(-1) : raw_of(ground_.heap_end)}) {
          Case answer{index_, good_, "", "", true, 0};
          answer.raw[i] = raw;
          cases_.push_back(answer);
        }
        break;
      case Kind::kAnswered: {
        Case answer{index_, good_, "", "", true, GSHMEMX_ERROR_INVALID_VALUE};
        answer.raw[i] = 0;
        cases_.push_back(answer);
        break;
      }
      case Kind::kNull:
      case Kind::kAnything:
        break;
    }
  }

  std::size_t index_;
  const Function& function_;
  const Ground& ground_;
  std::vector<std::string> names_;
  std::size_t unit_, count_ = 1;
  std::vector<Kind> kinds_;
  Raw good_{};
  std::vector<Case> cases_;
};

}  // namespace

const std::vector<Function>& functions() {
  static const std::vector<Function> all{
#define GSHMEM_FUNCTION(KIND, RET, STEM, PARAMS, NAMES, CALL)        \
  {GSHMEM_TEXT(GSHMEM_NAME_##KIND(STEM)), GSHMEM_TEXT(NAMES), #CALL, \
   unit_of(static_cast<RET(*) PARAMS>(nullptr))},
#include <gshmem/functions.def>
#define GSHMEM_STREAM_FUNCTION(KIND, RET, STEM, PARAMS, NAMES, CALL)   \
  {GSHMEM_TEXT(gshmemx_##STEM##_on_stream), GSHMEM_TEXT(NAMES), #CALL, \
   unit_of(static_cast<RET(*) PARAMS>(nullptr))},
#include <gshmem/stream_functions.def>
  };
  return all;
}

std::string Case::text() const {
  const char* name = functions()[function].name;
  if (argument.empty()) return std::string(name) + " without a fault";
  return std::string(name) + ": argument " + argument + " = " + value;
}

std::string Case::complaint(const abi::FaultRecord& fault, std::uint64_t got) const {
  const std::string said = fault.published == 0 ? "nothing" : fault_message(fault);
  const bool as_expected =
      argument.empty() ? fault.published == 0
                       : fault.code == GSHMEMX_ERROR_INVALID_VALUE && said.rfind(text(), 0) == 0;
  if (!as_expected) return "expected: " + text() + "\n    said: " + said;
  if (has_result && got != result) return text() + ": returned " + std::to_string(got);
  return "";
}

std::vector<Case> cases_of(std::size_t function, const Ground& ground) {
  return Maker(function, ground).make();
}

}  // namespace gshmem::spmd
