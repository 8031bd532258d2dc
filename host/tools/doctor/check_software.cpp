// Checks launchers, the library itself, and the libraries that it loads at run time.
#include "bootstrap/bootstrap.h"
#include "host/base/error.h"
#include "host/base/gdrapi.h"
#include "host/tools/doctor/checks.h"
#include "host/tools/doctor/topology.h"

#include <cerrno>
#include <cstring>
#include <sstream>

namespace gshmem::info {
namespace {

namespace fs = std::filesystem;

const char* lookup(const char* name, void* machine) {
  return static_cast<const Machine*>(machine)->env(name);
}

/// Returns the launcher of this process, by the variables it set; empty = unknown.
std::string launcher_name(const Machine& machine) {
  Machine copy = machine;
  if (const auto* of_several = bootstrap::launcher_of_several(lookup, &copy)) {
    const bool by_slurm = machine.env("SLURM_STEP_ID") != nullptr;
    if (!by_slurm) return of_several->name;
  }
  const auto set = [&](const char* name) { return machine.env(name) != nullptr; };
  std::string name;
  if (set("OMPI_COMM_WORLD_SIZE")) name = "Open MPI's mpirun";
  if (set("SLURM_STEP_ID")) name = "srun (job " + machine.env_or_empty("SLURM_JOB_ID") + ")";
  if (name.empty() && set("PMI_RANK")) name = "a PMI launcher (hydra)";
  if (name.empty() && set("PMIX_RANK")) name = "a PMIx launcher";
  return name;
}

/// Returns the first file of that name in PATH; empty = none.
std::string in_path(const Machine& machine, const char* program) {
  std::istringstream folders(machine.env_or_empty("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::error_code error;
    const fs::path file = fs::path(folder) / program;
    if (fs::is_regular_file(file, error)) return file.string();
  }
  return "";
}

/// Returns why GDRCopy does not work, without the symptom. `device` is the errno of its device
/// file.
Trouble gdrcopy_trouble(const Machine& machine, const Library& library, int device) {
  Trouble trouble;
  if (library.file.empty()) {
    trouble.cause = library.why_not;
    trouble.fix =
        "install libgdrapi of GDRCopy 2 (github.com/NVIDIA/gdrcopy, its packages folder), "
        "or LD_LIBRARY_PATH to it";
  } else if (!library.missing.empty()) {
    trouble.cause = library.file + " lacks " + joined(library.missing) + ": GDRCopy is too old";
    trouble.fix = "a newer libgdrapi (github.com/NVIDIA/gdrcopy, its packages folder)";
  } else if (device == ENOENT && in_container(machine)) {
    trouble.cause = std::string("the container has no ") + gdr::kDevice;
    trouble.fix = std::string("docker run --device=") + gdr::kDevice +
                  " ...   (and sudo modprobe gdrdrv on the host)";
  } else if (device == ENOENT) {
    trouble.cause = std::string("there is no ") + gdr::kDevice + ": gdrdrv is not loaded";
    trouble.fix = "sudo modprobe gdrdrv   (package gdrdrv-dkms; the device file: its insmod.sh)";
  } else {
    trouble.cause = strprintf("%s cannot be opened: %s", gdr::kDevice, std::strerror(device));
    trouble.fix = std::string("sudo chmod 666 ") + gdr::kDevice +
                  "   (in a container: docker run --device=" + gdr::kDevice + " ...)";
  }
  return trouble;
}

/// FI_HMEM is available only if libfabric finds the CUDA runtime, by a name that packages for
/// development have and containers for running programs lack (hmem_cuda.c, cuda_hmem_dl_init).
void look_for_cuda_runtime(const Machine& machine, Findings& findings) {
  const bool by_mlx5 = machine.config.nic != NicKind::kOfi && !mlx5_devices(machine).empty();
  if (by_mlx5 || machine.config.gdr == Switch::kOff || gpus(machine).empty()) return;
  const Library found = machine.library("libcudart.so", {"cudaMemcpy"});
  if (!found.file.empty()) {
    findings.push_back(ok(found.file + ", for heaps in GPU memory"));
    return;
  }
  Trouble trouble{.symptom =
                      "libfabric has no FI_HMEM: data of heaps in GPU memory is copied through "
                      "host memory, or init fails (EFA, Slingshot, GSHMEM_GDR=on)",
                  .cause = "it opens the CUDA runtime as libcudart.so: " + found.why_not,
                  .fix = "install the CUDA runtime, or LD_LIBRARY_PATH to it"};
  for (const char* number : {"13", "12", "11.0"}) {
    const std::string name = std::string("libcudart.so.") + number;
    const std::string file = machine.library(name, {}).file;
    if (file.empty()) continue;
    trouble.fix =
        "sudo ln -s " + name + " " + (fs::path(file).parent_path() / "libcudart.so").string();
    break;
  }
  const bool wanted = machine.config.gdr == Switch::kOn;
  findings.push_back(wanted ? problem(std::move(trouble)) : hint(std::move(trouble)));
}

/// Processes of a job on Slingshot reach each other only within a VNI (fi_cxi(7)).
void look_for_vni(const Machine& machine, Findings& findings) {
  std::error_code none;
  const bool slingshot =
      fs::directory_iterator(machine.at("/sys/class/cxi"), none) != fs::directory_iterator();
  if (!slingshot || launcher_name(machine).empty()) return;
  for (const char* name : {"SLINGSHOT_VNIS", "FI_CXI_DEFAULT_VNI"}) {
    if (machine.env(name) == nullptr) continue;
    findings.push_back(ok(std::string(name) + "=" + machine.env(name)));
    return;
  }
  findings.push_back(hint({.symptom = "PEs may not reach each other over Slingshot",
                           .cause = "the launcher gave this job no VNI (SLINGSHOT_VNIS is not set)",
                           .fix = "srun --network=job_vni ...   (without Slurm: the same "
                                  "FI_CXI_DEFAULT_VNI=<number> for all PEs)"}));
}

}  // namespace

Findings check_launcher(const Machine& machine) {
  const std::string name = launcher_name(machine);
  Machine copy = machine;
  const auto* const lonely = bootstrap::launcher_of_several(lookup, &copy);
  const bool by_uid = machine.config.bootstrap == BootstrapKind::kUid;
  if (by_uid && machine.config.uid_address.empty() && machine.env("MASTER_PORT") == nullptr) {
    return {problem({.symptom = "init without a unique id fails: GSHMEM_BOOTSTRAP=uid has no "
                                "address of rank 0",
                     .cause = "neither GSHMEM_UID_ADDRESS nor torchrun's MASTER_PORT is set",
                     .fix = "export GSHMEM_UID_ADDRESS=<host of rank 0>:<port>   (or unset "
                            "GSHMEM_BOOTSTRAP)"})};
  }
  if (machine.env("PMIX_RANK") != nullptr) {
    return {ok("started by " + name + " as PMIx rank " + machine.env_or_empty("PMIX_RANK"))};
  }
  if (!machine.config.uid_address.empty()) {
    return {ok("GSHMEM_UID_ADDRESS=" + machine.config.uid_address + ": PEs meet over TCP")};
  }
  if (lonely == nullptr) {
    return {
        ok(name.empty() ? "started without a launcher: a job of one PE" : "started by " + name)};
  }
  if (lonely->rank == std::string_view("RANK") && machine.env("MASTER_PORT") != nullptr) {
    return {ok("started by torchrun as rank " + machine.env_or_empty("RANK"))};
  }
  return {problem(
      {.symptom = "init fails: this process is one of several, and cannot join them",
       .cause = bootstrap::cannot_join(*lonely, lookup, &copy),
       .fix = std::string(lonely->way_out) + "; or GSHMEMX_INIT_WITH_MPI_COMM in the program"})};
}

Findings check_library(const Machine& machine) {
  const ProgramLibrary& library = machine.program_library;
  const SharedLibrary &mine = library.mine, &loaded = library.loaded;
  const bool differs =
      !loaded.file.empty() && (loaded.version != mine.version || loaded.abi != mine.abi);
  Findings findings;
  if (differs) {
    findings.push_back(problem(
        {.symptom = "programs load another libgshmem.so than this gshmem-info belongs to",
         .cause = library_text(loaded) + strprintf("; this gshmem-info has version %s, ABI %u",
                                                   mine.version.c_str(), mine.abi),
         .fix = "the folder of the wanted libgshmem.so first in LD_LIBRARY_PATH, or the "
                "gshmem-info beside the one that is loaded"}));
  } else if (loaded.file.empty() && library.found.empty()) {
    findings.push_back(hint({.symptom = "programs may not start: the loader finds no libgshmem.so",
                             .cause = library.why_none,
                             .fix = "the folder of libgshmem.so in LD_LIBRARY_PATH, or "
                                    "-Wl,-rpath=FOLDER when programs are linked"}));
  } else {
    findings.push_back(ok(library_text(library)));
  }
  if (library.found.size() > 1) {
    findings.push_back(hint({.symptom = "programs may load different libgshmem.so",
                             .cause = "the search path has " + joined(library.found),
                             .fix = "one of their folders in LD_LIBRARY_PATH, not several"}));
  }
  if (!machine.others_nvshmem.empty()) {
    findings.push_back(
        hint({.symptom = "programs linked with gshmem's libnvshmem_host.so do not start (undefined "
                         "symbol: gshmem_init)",
              .cause = "the loader finds NVSHMEM's first: " + machine.others_nvshmem,
              .fix = "the folder lib/gshmem/nvshmem/lib of gshmem's prefix first in "
                     "LD_LIBRARY_PATH"}));
  }
  return findings;
}

Findings check_pmix(const Machine& machine) {
  if (!machine.built_with_pmix) {
    return {hint({.symptom = "programs under mpirun or srun fail to start a job",
                  .cause = "this gshmem was built without PMIx headers",
                  .fix = "sudo apt-get install libpmix-dev, then configure and build again"})};
  }
  const Library library = machine.library("libpmix.so.2", {"PMIx_Init"});
  if (!library.file.empty()) return {ok(library.file)};
  const Trouble trouble{.symptom = "no job under mpirun or srun --mpi=pmix",
                        .cause = library.why_not,
                        .fix =
                            "sudo apt-get install libpmix2   (or LD_LIBRARY_PATH to that of the "
                            "MPI installation)"};
  const bool wanted =
      machine.env("PMIX_RANK") != nullptr || machine.config.bootstrap == BootstrapKind::kPmix;
  return {wanted ? problem(trouble) : hint(trouble)};
}

Findings check_mpirun(const Machine& machine) {
  std::vector<std::string> found;
  for (const char* program : {"mpirun", "prterun", "srun"}) {
    if (std::string file = in_path(machine, program); !file.empty()) found.push_back(file);
  }
  if (!found.empty()) return {ok(joined(found))};
  return {hint({.symptom = "no mpirun, prterun or srun in PATH",
                .cause = "jobs of several processes need a launcher, or GSHMEM_UID_ADDRESS and its "
                         "rank and size for each process",
                .fix = "sudo apt-get install openmpi-bin   (module load openmpi on clusters)"})};
}

Findings check_verbs_libraries(const Machine& machine) {
  const bool wanted = machine.config.nic == NicKind::kMlx5 || !mlx5_devices(machine).empty();
  if (!wanted) return {skipped("there is no mlx5 NIC that they would drive")};
  // Symbols that show whether rdma-core is recent enough: dma-bufs for verbs since 34, pages of
  // chosen size for DevX since 35 (libibverbs/libibverbs.map.in IBVERBS_1.12,
  // providers/mlx5/libmlx5.map MLX5_1.19). No symbol shows that the latter accepts dma-bufs, too,
  // since 44.
  struct Needed {
    const char* soname;
    std::vector<std::string> symbols;
    const char* symptom;
    const char* since;
  };
  const Needed kLibraries[] = {
      {"libibverbs.so.1",
       {"ibv_reg_dmabuf_mr"},
       "heaps in GPU memory cannot be given to the NIC as dma-buf",
       "34"},
      {"libmlx5.so.1",
       {"mlx5dv_devx_obj_create", "mlx5dv_devx_umem_reg_ex"},
       "work queues may not find the pages they need, and cannot be in GPU memory as dma-buf "
       "(which 44 can)",
       "35"}};
  Findings findings;
  for (const auto& [soname, symbols, symptom, since] : kLibraries) {
    const Library library = machine.library(soname, symbols);
    if (library.file.empty()) {
      findings.push_back(
          problem({.symptom = "GSHMEM_NIC=mlx5 fails; auto falls back to libfabric",
                   .cause = library.why_not,
                   .fix = "sudo apt-get install libibverbs1 ibverbs-providers   (Red Hat: "
                          "libibverbs)"}));
    } else if (!library.missing.empty()) {
      findings.push_back(
          problem({.symptom = symptom,
                   .cause = library.file + " lacks " + joined(library.missing) +
                            ": rdma-core is older than " + since,
                   .fix = "a newer rdma-core (apt-get install -t <backports> libibverbs1 "
                          "ibverbs-providers, or DOCA-OFED)"}));
    } else {
      findings.push_back(ok(library.file));
    }
  }
  return findings;
}

Findings check_libfabric(const Machine& machine) {
  const Library library = machine.library("libfabric.so.1", {"fi_getinfo"});
  if (!library.file.empty()) {
    Findings findings{ok(library.file)};
    look_for_cuda_runtime(machine, findings);
    look_for_vni(machine, findings);
    return findings;
  }
  if (machine.config.nic != NicKind::kOfi) {
    return {
        skipped("libfabric.so.1 is not loadable, and only GSHMEM_NIC=ofi and hosts without an "
                "mlx5 NIC need it")};
  }
  return {problem({.symptom = "GSHMEM_NIC=ofi fails at init",
                   .cause = library.why_not,
                   .fix = "sudo apt-get install libfabric1   (Amazon EFA: /opt/amazon/efa/lib in "
                          "LD_LIBRARY_PATH)"})};
}

Findings check_gdrcopy(const Machine& machine) {
  const Switch policy = machine.config.gdrcopy;
  if (policy == Switch::kOff) return {skipped("GSHMEM_GDRCOPY=off")};
  if (gpus(machine).empty()) return {skipped("there is no NVIDIA GPU")};
  const bool wanted = policy == Switch::kOn;
  const Library library = machine.library(gdr::kSoname, gdr::symbols());
  const int device = machine.open_errno(machine.at(gdr::kDevice));
  const bool usable = !library.file.empty() && library.missing.empty();
  if (usable && device == 0) return {ok(library.file + ", and may open " + gdr::kDevice)};
  if (library.file.empty() && device == ENOENT && !wanted) {
    return {
        skipped("GDRCopy is not installed; the copy engine serves host threads that wait on heaps "
                "of GPUs, and staged transfers, in some 10 us instead of 1")};
  }
  Trouble trouble = gdrcopy_trouble(machine, library, device);
  trouble.symptom = wanted
                        ? "GSHMEM_GDRCOPY=on: init fails on GPUs"
                        : "host threads reach heaps of GPUs by the copy engine alone, some 10 us "
                          "each time";
  return {wanted ? problem(std::move(trouble)) : hint(std::move(trouble))};
}

}  // namespace gshmem::info
