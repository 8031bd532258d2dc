// The service kernels' fatbin as bytes of the library.
__asm__(
    ".section .rodata\n"
    ".balign 16\n"
    ".global gshmem_service_image\n"
    ".hidden gshmem_service_image\n"
    "gshmem_service_image:\n"
    ".incbin \"" GSHMEM_SERVICE_FATBIN
    "\"\n"
    ".size gshmem_service_image, . - gshmem_service_image\n"
    ".previous\n");
