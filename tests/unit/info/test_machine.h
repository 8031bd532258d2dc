// Machines that are folders, described by lines of text: everything that gshmem-info reads of a
// machine, for its tests. Each line is a command; TestMachine::command has them.
#pragma once

#include "host/tools/doctor/machine.h"

#include <catch2/catch.hpp>

#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace gshmem::info {

namespace fs = std::filesystem;
using Files = std::map<std::string, std::string>;
using Words = std::vector<std::string>;

inline std::string read(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

/// A PCI configuration space: PCI Express after power management, ACS after AER.
inline std::string config_space(std::uint32_t acs, std::uint32_t device_control) {
  std::string config(4096, '\0');
  const auto put = [&](std::size_t at, std::uint32_t value, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) config[at + i] = static_cast<char>(value >> (8 * i));
  };
  put(0x34, 0x40, 1);
  put(0x40, 0x6001, 2);  // power management, next 0x60
  put(0x60, 0x7010, 2);  // PCI Express, next 0x70
  put(0x70, 0x0005, 2);  // MSI, last
  put(0x68, device_control, 2);
  put(0x100, 0x14820001, 4);  // AER, next 0x148
  put(0x148, 0x0001000d, 4);  // ACS, last
  put(0x14e, acs, 2);
  return config;
}

/// The machine that a tree describes. `command` has a branch for each command of trees.
class TestMachine {
 public:
  explicit TestMachine(const fs::path& tree)
      : TestMachine(tree.parent_path().filename().string(), std::ifstream(tree)) {}
  TestMachine(const std::string& host, std::istream&& lines) {
    std::string name = (fs::temp_directory_path() / "gshmem-doctor.XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    machine.root = fs::canonical(name);
    machine.host = host;
    machine.architecture = "x86_64";
    machine.cuda.why_none = "no driver here";
    machine.program_library.mine = {.file = "", .version = "0.1.0", .abi = 12};
    machine.program_library.why_none = "cannot load";
    for (std::string line; std::getline(lines, line);) {
      if (line.empty() || line[0] == '#') continue;
      INFO(line);
      std::istringstream text(line);
      std::string what;
      text >> what;
      command(what, text);
    }
    const auto get = [](const char* variable, void* all) -> const char* {
      return find(*static_cast<const Files*>(all), variable);
    };
    machine.variables = config_entries(get, &variables_);
    Files good = variables_;
    for (const std::string& variable : bad_) good.erase(variable);
    machine.config = Config::from(get, &good);
    machine.env = [this](const char* variable) { return find(environment_, variable); };
    machine.open_errno = [this](const fs::path& file) {
      const auto found = errors_.find(file.filename().string());
      return found != errors_.end() ? found->second : fs::exists(file) ? 0 : ENOENT;
    };
    machine.volume_bytes = [this](const fs::path&) { return shm_bytes_; };
    machine.library = [this](const std::string& soname, const Words&) {
      const auto found = libraries_.find(soname);
      return found != libraries_.end()
                 ? found->second
                 : Library{.file = "", .why_not = "cannot load", .missing = {}};
    };
  }
  ~TestMachine() { fs::remove_all(machine.root); }
  TestMachine(const TestMachine&) = delete;

  Machine machine;

 private:
  static const char* find(const Files& values, const char* name) {
    const auto found = values.find(name);
    return found == values.end() ? nullptr : found->second.c_str();
  }
  static Words words_of(std::istringstream& text) {
    Words words;
    for (std::string word; text >> word;) words.push_back(word);
    return words;
  }
  static std::string rest_of(std::istringstream& text) {
    std::string rest;
    std::getline(text >> std::ws, rest);
    for (std::size_t at; (at = rest.find("\\n")) != std::string::npos;) rest.replace(at, 2, "\n");
    return rest;
  }
  void write(const std::string& file, const std::string& text) {
    fs::create_directories(machine.at(file).parent_path());
    std::ofstream(machine.at(file), std::ios::binary) << text;
  }
  void link(const std::string& from, const std::string& to) {
    fs::create_directories(machine.at(from).parent_path());
    fs::create_directories(machine.at(to));
    fs::create_symlink(machine.at(to), machine.at(from));
  }
  /// Adds the function at the end of "pci0000:00/0000:00:01.0/0000:01:00.0" and the bridges above
  /// it, with files NAME=VALUE, where "_" is a blank.
  void pci(const std::string& path, Files files, std::istringstream& text) {
    for (const std::string& word : words_of(text)) {
      const std::size_t equal = word.find('=');
      std::string value = word.substr(equal + 1);
      std::ranges::replace(value, '_', ' ');
      files[word.substr(0, equal)] = value;
    }
    for (std::size_t slash = path.find('/'); slash != std::string::npos;) {
      const std::size_t next = path.find('/', slash + 1);
      const std::string bus = "/sys/bus/pci/devices/" + path.substr(slash + 1, next - slash - 1);
      if (!fs::exists(machine.at(bus))) link(bus, "/sys/devices/" + path.substr(0, next));
      slash = next;
    }
    for (const auto& [name, value] : files)
      write("/sys/devices/" + path + "/" + name, value + "\n");
  }

  void command(const std::string& what, std::istringstream& text) {
    std::string a, b, c;
    if (what == "file") {  // PATH TEXT
      text >> a;
      write(a, rest_of(text) + "\n");
    } else if (what == "link") {  // PATH TARGET
      text >> a >> b;
      link(a, b);
    } else if (what == "pci") {  // PATH NAME=VALUE...
      text >> a;
      pci(a, {}, text);
    } else if (what == "gpu") {  // PATH NAME=VALUE..., without CUDA
      text >> a;
      pci(a, {{"vendor", "0x10de"}, {"class", "0x030200"}, {"numa_node", "0"}}, text);
    } else if (what == "nic") {  // DEVICE LINK-LAYER PATH NAME=VALUE..., mlx5 with an active port
      text >> a >> b >> c;
      pci(c, {{"vendor", "0x15b3"}, {"class", "0x020700"}, {"numa_node", "0"}}, text);
      link("/sys/devices/" + c + "/driver", "/sys/bus/pci/drivers/mlx5_core");
      link("/sys/class/infiniband/" + a + "/device", "/sys/devices/" + c);
      const Files port{{"link_layer", b},
                       {"state", "4: ACTIVE"},
                       {"phys_state", "5: LinkUp"},
                       {"rate", "400 Gb/sec (4X NDR)"},
                       {"pkeys/0", "0xffff"}};
      for (const auto& [name, value] : port)
        write("/sys/class/infiniband/" + a + "/ports/1/" + name, value + "\n");
    } else if (what == "gid") {  // DEVICE INDEX GID INTERFACE TYPE
      std::string netdev;
      text >> a >> b >> c >> netdev;
      const std::string port = "/sys/class/infiniband/" + a + "/ports/1/";
      write(port + "gids/" + b, c + "\n");
      write(port + "gid_attrs/types/" + b, rest_of(text) + "\n");
      write(port + "gid_attrs/ndevs/" + b, netdev + "\n");
    } else if (what == "config") {  // PATH ACS-CONTROL DEVICE-CONTROL, both hexadecimal
      std::uint32_t acs = 0, control = 0;
      text >> a >> std::hex >> acs >> control;
      write("/sys/devices/" + a + "/config", config_space(acs, control));
    } else if (what == "cuda") {  // DEVICE PCI WORD..., a GPU that CUDA lists
      machine.cuda.built = true;
      machine.cuda.why_none.clear();
      CudaGpu& gpu = machine.cuda.gpus.emplace_back();
      text >> gpu.info.device >> gpu.info.pci;
      const Words words = words_of(text);
      const auto has = [&](const char* word) { return std::ranges::count(words, word) > 0; };
      gpu.dma_buf = gpu.gpudirect_rdma = has("rdma");
      gpu.orders_writes = has("ordered");
      gpu.fabric_handles = has("fabric");
      if (has("fabric")) gpu.fabric.why_none.clear();
      gpu.mps = has("mps");
      if (has("exclusive")) gpu.mode = ComputeMode::kExclusiveProcess;
      if (has("prohibited")) gpu.mode = ComputeMode::kProhibited;
      for (const int peer : {0, 1})
        gpu.info.peer_access.push_back(peer == gpu.info.device || !has("alone"));
      gpu.info.peer_atomics = gpu.info.peer_access;
      machine.cuda.sync_memops = has("memops");
    } else if (what == "set" || what == "bad" || what == "env") {  // NAME VALUE
      text >> a;
      (what == "env" ? environment_ : variables_)[a] = rest_of(text);
      if (what == "bad") bad_.push_back(a);
    } else if (what == "path") {  // FOLDER of this machine
      text >> a;
      environment_["PATH"] = machine.at(a).string();
    } else if (what == "unknown") {  // SENTENCE
      machine.unknown_names.push_back(rest_of(text));
    } else if (what == "library") {  // SONAME FILE MISSING-SYMBOL...
      text >> a >> b;
      libraries_[a] = {.file = b, .why_not = "", .missing = words_of(text)};
    } else if (what == "loaded") {  // FILE VERSION ABI of the libgshmem.so that programs load
      SharedLibrary& loaded = machine.program_library.loaded;
      text >> loaded.file >> loaded.version >> loaded.abi;
    } else if (what == "found") {  // FILE... called libgshmem.so in the search path
      machine.program_library.found = words_of(text);
    } else if (what == "nvshmem") {  // FILE of NVSHMEM's own library
      text >> machine.others_nvshmem;
    } else if (what == "error") {  // FILE ERRNO, with which an attempt to open it fails
      text >> a;
      text >> errors_[a];
    } else if (what == "shm") {  // BYTES
      text >> shm_bytes_.emplace();
    } else if (what == "memlock" || what == "files") {  // SOFT HARD
      Limit& limit = what == "files" ? machine.open_files : machine.memlock;
      text >> limit.soft >> limit.hard;
    } else if (what == "arch") {
      text >> machine.architecture;
    } else {
      FAIL("no command of a tree: " << what);
    }
  }

  Files variables_, environment_;
  Words bad_;
  std::map<std::string, Library> libraries_;
  std::map<std::string, int> errors_;
  std::optional<std::uint64_t> shm_bytes_;
};

}  // namespace gshmem::info
