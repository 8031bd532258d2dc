// The fatbins of the library's kernels as bytes in the library.
#define GSHMEM_IMAGE(NAME, FATBIN) \
  __asm__(                         \
      ".section .rodata\n"         \
      ".balign 16\n"               \
      ".global " NAME              \
      "\n"                         \
      ".hidden " NAME "\n" NAME    \
      ":\n"                        \
      ".incbin \"" FATBIN          \
      "\"\n"                       \
      ".size " NAME ", . - " NAME  \
      "\n"                         \
      ".previous\n")
GSHMEM_IMAGE("gshmem_service_image", GSHMEM_FATBINS "/service.fatbin");
GSHMEM_IMAGE("gshmem_list_kernel_image", GSHMEM_FATBINS "/list_kernel.fatbin");
GSHMEM_IMAGE("gshmem_grid_kernels_image", GSHMEM_FATBINS "/grid_kernels.fatbin");
