// A libnvidia-ml with no GPU behind it: fabric information by PCI address, as NVML's documentation
// has it, with types of its own. With DOUBLE_OLD it is one from before fabric information.
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
  // Between the first two; 2 is NVML_P2P_STATUS_GPU_NOT_SUPPORTED.
  *status = device->has_cluster != peer->has_cluster && device->state + peer->state == 6 ? 0 : 2;
  return 0;
}

#ifndef DOUBLE_OLD
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
