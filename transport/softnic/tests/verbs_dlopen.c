// Loads the two libraries as NVSHMEM's transport and NCCL's do: dlopen by soname, libibverbs by
// plain and by versioned names, libmlx5 by versioned ones. Exit 0, or a line on stderr and 1.
#define _GNU_SOURCE
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                        \
    }                                                                 \
  } while (0)

// NVSHMEM IBGDA 3.5: dlsym without a version.
static const char* const kPlain[] = {
    "ibv_fork_init",       "ibv_create_ah",       "ibv_get_device_list", "ibv_get_device_name",
    "ibv_open_device",     "ibv_close_device",    "ibv_query_port",      "ibv_query_device",
    "ibv_alloc_pd",        "ibv_reg_mr",          "ibv_reg_mr_iova",     "ibv_reg_dmabuf_mr",
    "ibv_dereg_mr",        "ibv_create_cq",       "ibv_create_qp",       "ibv_create_srq",
    "ibv_modify_qp",       "ibv_query_gid",       "ibv_dealloc_pd",      "ibv_destroy_qp",
    "ibv_destroy_cq",      "ibv_destroy_srq",     "ibv_destroy_ah",      "ibv_free_device_list",
    "ibv_get_async_event", "ibv_ack_async_event", "ibv_event_type_str",  "ibv_query_qp"};
struct versioned {
  const char *name, *version;
};
static const struct versioned kVerbs[] = {
    {"ibv_get_device_list", "IBVERBS_1.1"}, {"ibv_get_device_list", "IBVERBS_1.0"},
    {"ibv_open_device", "IBVERBS_1.1"},     {"ibv_reg_mr_iova2", "IBVERBS_1.8"},
    {"ibv_query_ece", "IBVERBS_1.10"},      {"ibv_reg_dmabuf_mr", "IBVERBS_1.12"},
    {"ibv_reg_mr_ex", "IBVERBS_1.15"},      {"ibv_query_port_speed", "IBVERBS_1.16"},
    {"ibv_free_buf", "IBVERBS_1.17"},       {"ibv_create_comp_cntr", "IBVERBS_1.18"}};
static const struct versioned kMlx5[] = {
    {"mlx5dv_is_supported", "MLX5_1.8"},     {"mlx5dv_get_data_direct_sysfs_path", "MLX5_1.25"},
    {"mlx5dv_reg_dmabuf_mr", "MLX5_1.25"},   {"mlx5dv_init_obj", "MLX5_1.0"},
    {"mlx5dv_init_obj", "MLX5_1.2"},         {"mlx5dv_create_qp", "MLX5_1.3"},
    {"mlx5dv_devx_alloc_uar", "MLX5_1.7"},   {"mlx5dv_devx_free_uar", "MLX5_1.7"},
    {"mlx5dv_devx_general_cmd", "MLX5_1.7"}, {"mlx5dv_devx_obj_create", "MLX5_1.7"},
    {"mlx5dv_devx_obj_destroy", "MLX5_1.7"}, {"mlx5dv_devx_obj_modify", "MLX5_1.7"},
    {"mlx5dv_devx_query_eqn", "MLX5_1.7"},   {"mlx5dv_devx_umem_reg", "MLX5_1.7"},
    {"mlx5dv_devx_umem_dereg", "MLX5_1.7"},  {"mlx5dv_devx_umem_reg_ex", "MLX5_1.19"},
    {"mlx5dv_var_unimport", "MLX5_1.27"}};

static void* named(void* library, const struct versioned* symbol) {
  void* address = dlvsym(library, symbol->name, symbol->version);
  if (!address) fprintf(stderr, "%s@%s: %s\n", symbol->name, symbol->version, dlerror());
  CHECK(address);
  return address;
}

// Function pointers from void*, without a cast that ISO C does not have.
#define BIND(variable, symbol)                      \
  do {                                              \
    void* address = (symbol);                       \
    memcpy(&(variable), &address, sizeof(address)); \
  } while (0)

int main(void) {
  void* verbs = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!verbs) fprintf(stderr, "%s\n", dlerror());
  CHECK(verbs);
  void* mlx5 = dlopen("libmlx5.so.1", RTLD_NOW | RTLD_LOCAL);
  CHECK(mlx5);
  for (size_t i = 0; i < sizeof(kPlain) / sizeof(kPlain[0]); ++i) CHECK(dlsym(verbs, kPlain[i]));
  for (size_t i = 0; i < sizeof(kVerbs) / sizeof(kVerbs[0]); ++i) named(verbs, &kVerbs[i]);
  for (size_t i = 0; i < sizeof(kMlx5) / sizeof(kMlx5[0]); ++i) named(mlx5, &kMlx5[i]);
  CHECK(!dlvsym(verbs, "ibv_open_device", "IBVERBS_1.0"));

  struct ibv_device** (*get_device_list)(int*);
  struct ibv_device** (*old_device_list)(int*);
  struct ibv_context* (*open_device)(struct ibv_device*);
  void (*free_device_list)(struct ibv_device**);
  int (*close_device)(struct ibv_context*);
  int (*query_port_speed)(struct ibv_context*, uint32_t, uint64_t*);
  int (*query_port)(struct ibv_context*, uint8_t, struct ibv_port_attr*);
  bool (*is_supported)(struct ibv_device*);
  BIND(get_device_list, dlsym(verbs, "ibv_get_device_list"));
  BIND(old_device_list, dlvsym(verbs, "ibv_get_device_list", "IBVERBS_1.0"));
  BIND(free_device_list, dlsym(verbs, "ibv_free_device_list"));
  BIND(open_device, dlsym(verbs, "ibv_open_device"));
  BIND(close_device, dlsym(verbs, "ibv_close_device"));
  BIND(query_port, dlsym(verbs, "ibv_query_port"));
  BIND(query_port_speed, dlvsym(verbs, "ibv_query_port_speed", "IBVERBS_1.16"));
  BIND(is_supported, dlvsym(mlx5, "mlx5dv_is_supported", "MLX5_1.8"));

  int count = 0;
  struct ibv_device** list = get_device_list(&count);
  CHECK(list && count == 1 && list[1] == NULL && strstr(list[0]->name, "mlx5"));
  CHECK(is_supported(list[0]));
  // A program of that time finds none, and its log says why.
  int ends[2], errors = dup(2);
  CHECK(!pipe(ends) && dup2(ends[1], 2) == 2);
  struct ibv_device** old_list = old_device_list(&count);
  const int why = errno;
  CHECK(dup2(errors, 2) == 2 && !close(ends[1]));
  char said[256] = "";
  CHECK(read(ends[0], said, sizeof(said) - 1) > 0 && strstr(said, "libibverbs 1.0"));
  CHECK(!old_list && count == 0 && why == ENOSYS);

  struct ibv_context* context = open_device(list[0]);
  free_device_list(list);
  CHECK(context && context->abi_compat == __VERBS_ABI_IS_EXTENDED);
  CHECK(verbs_get_ctx_op(context, alloc_parent_domain) && verbs_get_ctx_op(context, query_port));
  // Plain dlsym gives the function of the old structure: it ends where port_cap_flags2 begins.
  struct ibv_port_attr port = {.port_cap_flags2 = 0x1234};
  CHECK(!query_port(context, 1, &port));
  CHECK(port.port_cap_flags2 == 0x1234 && port.lid && port.active_mtu == IBV_MTU_4096);
  CHECK(query_port(context, 2, &port) == EINVAL);
  uint64_t speed = 0;  // NDR: four lanes of 100 Gb/s
  CHECK(!query_port_speed(context, 1, &speed) && speed == 4000);
  CHECK(!close_device(context));
  puts("verbs dlopen: ok");
  return 0;
}
