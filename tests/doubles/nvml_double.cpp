// A libnvidia-ml without a GPU: fabric information by PCI address, as in NVML's documentation, with
// types of its own. With DOUBLE_OLD it is a version from before fabric information.
#include <pthread.h>
#include <signal.h>

#include <cstring>

extern "C" {

struct nvmlDevice_st {
  char pci[16];
  unsigned char state;
  int status;
  bool has_cluster;
};
typedef nvmlDevice_st* nvmlDevice_t;

struct nvmlGpuFabricInfo_v2_t {
  unsigned int version;
  unsigned char clusterUuid[16];
  int status;
  unsigned int cliqueId;
  unsigned char state;
  unsigned int healthMask;
};

#define EXPORTED __attribute__((visibility("default")))

EXPORTED int nvml_double_sessions = 0;
/// SIGALRM was blocked on the thread that loaded this library.
EXPORTED bool nvml_double_undisturbed = [] {
  sigset_t now;
  return pthread_sigmask(SIG_BLOCK, nullptr, &now) == 0 && sigismember(&now, SIGALRM) == 1;
}();

EXPORTED int nvmlInit_v2(void) { return ++nvml_double_sessions, 0; }
EXPORTED int nvmlShutdown(void) { return --nvml_double_sessions, 0; }
EXPORTED const char* nvmlErrorString(int result) {
  return result == 6 ? "Not Found" : result == 25 ? "Argument version mismatch" : "Unknown Error";
}

EXPORTED int nvmlDeviceGetHandleByPciBusId_v2(const char* pci, nvmlDevice_t* device) {
  static nvmlDevice_st devices[] = {{"0000:01:00.0", 3, 0, true},  {"0000:02:00.0", 3, 0, false},
                                    {"0000:03:00.0", 0, 0, false}, {"0000:04:00.0", 1, 0, false},
                                    {"0000:05:00.0", 2, 0, false}, {"0000:06:00.0", 3, 999, true}};
  if (nvml_double_sessions <= 0) return 1;  // NVML_ERROR_UNINITIALIZED
  for (nvmlDevice_st& one : devices) {
    if (std::strcmp(one.pci, pci) == 0) return *device = &one, 0;
  }
  return 6;
}

EXPORTED int nvmlDeviceGetP2PStatus(nvmlDevice_t device, nvmlDevice_t peer, int what, int* status) {
  if (what != 3) return 2;  // NVML_ERROR_INVALID_ARGUMENT: not the index of atomics
  // Between the first two GPUs; 2 is NVML_P2P_STATUS_GPU_NOT_SUPPORTED.
  *status = device->has_cluster != peer->has_cluster && device->state + peer->state == 6 ? 0 : 2;
  return 0;
}

#ifndef DOUBLE_OLD
struct nvmlPciInfo_t {
  char busIdLegacy[16];
  unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
  char busId[32];
};

// The first GPU has link 1, to the GPU at 0000:07:00.0; the second has link 0, to a switch.
EXPORTED int nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, unsigned* is_active) {
  const bool linked = device->pci[6] == '1' || device->pci[6] == '2';
  if (!linked) return 3;    // NVML_ERROR_NOT_SUPPORTED
  if (link > 17) return 2;  // NVML_ERROR_INVALID_ARGUMENT
  *is_active = link == (device->pci[6] == '1' ? 1u : 0u) ? 1 : 0;
  return 0;
}
EXPORTED int nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned, int* type) {
  *type = device->pci[6] == '1' ? 0 : 2;
  return 0;
}
EXPORTED int nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t, unsigned, nvmlPciInfo_t* pci) {
  *pci = {};
  pci->bus = 7;
  return 0;
}

EXPORTED int nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfo_v2_t* info) {
  if (info->version != 0x02000024) return 25;
  info->state = device->state;
  info->status = device->status;
  info->cliqueId = 7;
  for (unsigned i = 0; device->has_cluster && i < 16; ++i)
    info->clusterUuid[i] = static_cast<unsigned char>(i + 1);
  return 0;
}
#endif

}  // extern "C"
