// Runs a libFuzzer target without libFuzzer (g++): every file of a corpus, then random inputs, most
// of them edits of corpus files. Input I of seed S is the same on every machine.
//   x [--runs N] [--seed S] [file or folder]...
// The inputs run in a child process. If that dies, the parent still has the input in shared memory,
// writes it to a file and prints how to run it again.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Input = std::vector<std::uint8_t>;
constexpr std::size_t kMaxRandomBytes = 512;
constexpr std::size_t kMaxBytes = 1 << 20;

/// The current input, which the parent can read after the child has ended.
struct Current {
  std::size_t size;
  std::uint8_t data[kMaxBytes];
};

struct Options {
  std::uint64_t runs = 0;
  std::uint64_t seed = 0;
  std::vector<Input> corpus;
};

[[noreturn]] void usage(const char* why) {
  std::fprintf(stderr, "%s\nusage: x [--runs N] [--seed S] [file or folder]...\n", why);
  std::exit(2);
}

std::uint64_t number(const std::string& text) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end) usage(("not a number: " + text).c_str());
  return value;
}

Input read_input(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) usage(("cannot read " + path.string()).c_str());
  Input input{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  input.resize(std::min(input.size(), kMaxBytes));
  return input;
}

void add_to_corpus(const std::filesystem::path& path, std::vector<Input>* corpus) {
  std::vector<std::filesystem::path> files = {path};
  if (std::filesystem::is_directory(path)) {
    files.clear();
    for (const auto& entry : std::filesystem::directory_iterator(path)) files.push_back(entry);
    std::sort(files.begin(), files.end());  // the order of a folder differs between machines
  }
  for (const auto& file : files) corpus->push_back(read_input(file));
}

Options parse(int argc, char** argv) {
  Options options;
  options.seed = std::random_device{}();
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const bool has_value = argument == "--runs" || argument == "--seed";
    if (has_value && i + 1 == argc) usage("a value is missing");
    if (argument == "--runs") {
      options.runs = number(argv[++i]);
    } else if (argument == "--seed") {
      options.seed = number(argv[++i]);
    } else if (argument.starts_with("--")) {
      usage(("unknown option " + argument).c_str());
    } else {
      add_to_corpus(argument, &options.corpus);
    }
  }
  return options;
}

/// splitmix64 (Vigna): the standard's distributions differ between libraries, this does not.
class Random {
 public:
  Random(std::uint64_t seed, std::uint64_t index) : state_(seed ^ (index * 0xd1342543de82ef95)) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(next() % bound); }
  std::uint8_t byte() { return static_cast<std::uint8_t>(next() >> 56); }

 private:
  std::uint64_t state_;
};

// Makes one edit of a kind that parsers often fail on.
void edit(Input* input, const std::vector<Input>& corpus, Random* random) {
  const std::size_t at = random->below(input->size() + 1);
  const auto position = input->begin() + static_cast<std::ptrdiff_t>(at);
  const bool has_byte = at < input->size();
  switch (random->below(6)) {
    case 0:
      input->insert(position, random->byte());
      break;
    case 1:
      if (has_byte) input->erase(position);
      break;
    case 2:
      if (has_byte) *position = random->byte();
      break;
    case 3:
      if (has_byte) *position = static_cast<std::uint8_t>(*position ^ (1U << random->below(8)));
      break;
    case 4:  // a run of equal bytes: overlong numbers
      if (has_byte) input->insert(position, random->below(40), std::uint8_t{*position});
      break;
    default: {  // the rest of another input
      const Input& other = corpus[random->below(corpus.size())];
      const std::size_t from = random->below(other.size() + 1);
      input->erase(position, input->end());
      input->insert(input->end(), other.begin() + static_cast<std::ptrdiff_t>(from), other.end());
    }
  }
}

Input make_input(const Options& options, std::uint64_t index) {
  Random random(options.seed, index);
  Input input;
  if (options.corpus.empty() || random.below(8) == 0) {
    input.resize(random.below(kMaxRandomBytes + 1));
    for (std::uint8_t& byte : input) byte = random.byte();
    return input;
  }
  input = options.corpus[random.below(options.corpus.size())];
  for (std::size_t edits = 1 + random.below(6); edits > 0; --edits)
    edit(&input, options.corpus, &random);
  return input;
}

void run_one(const Input& input, Current* current) {
  current->size = std::min(input.size(), kMaxBytes);
  std::copy_n(input.data(), current->size, current->data);
  // A copy of exactly this size, so that AddressSanitizer sees a read beyond it.
  const Input exact(current->data, current->data + current->size);
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

void run_all(const Options& options, Current* current) {
  for (const Input& input : options.corpus) run_one(input, current);
  for (std::uint64_t i = 0; i < options.runs; ++i) run_one(make_input(options, i), current);
}

int report(int status, const Options& options, const Current& current, const char* program) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return 0;
  const std::string file = "crash-seed-" + std::to_string(options.seed);
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(current.data),
             static_cast<std::streamsize>(current.size));
  const bool signaled = WIFSIGNALED(status);
  std::fprintf(stderr, "input failed (%s %d): run it again with `%s %s`\n",
               signaled ? "signal" : "exit status",
               signaled ? WTERMSIG(status) : WEXITSTATUS(status), program, file.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  std::printf("seed %llu: %zu corpus inputs, %llu random inputs\n",
              static_cast<unsigned long long>(options.seed), options.corpus.size(),
              static_cast<unsigned long long>(options.runs));
  std::fflush(stdout);
  void* const memory =
      mmap(nullptr, sizeof(Current), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) usage("no shared memory");
  auto* const current = new (memory) Current;
  const pid_t child = fork();
  if (child < 0) usage("cannot fork");
  if (child == 0) {
    run_all(options, current);
    std::exit(0);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return report(status, options, *current, argv[0]);
}
