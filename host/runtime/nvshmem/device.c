/* libnvshmem_device.a: what kernels call comes from the headers, so that the library, which every
   link line for NVSHMEM names, has nothing but this one name. */
const char gshmemi_device_library[] = "gshmem: device code is in the headers";
