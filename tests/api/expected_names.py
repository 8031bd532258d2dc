"""The public names, written from the OpenSHMEM specification and NVSHMEM's inventory and not from our
tables. names(prefix) is what the API must offer, no more and no less. nvshmem_inventory() and
openshmem_inventory() are all that those two have: what we lack of them is in ABSENT, with the reason.
Imported by names_test.py.
"""

import re

# The release of NVSHMEM that has these names.
NVSHMEM_RELEASE = (3, 8, 0)

# Type sets: OpenSHMEM 1.5, tables 3 (RMA), 4 and 5 (atomics), 6 (point-to-point synchronization),
# plus the two 16-bit floating types of NVSHMEM and without long double and complex.
RMA = ("bfloat16 half float double char schar short int long longlong uchar ushort uint ulong "
       "ulonglong int8 int16 int32 int64 uint8 uint16 uint32 uint64 size ptrdiff").split()
SIZES = "8 16 32 64 128".split()
AMO_BIT = "uint ulong ulonglong int32 int64 uint32 uint64".split()
AMO_STD = AMO_BIT + "int long longlong size ptrdiff".split()
AMO_EXT = AMO_STD + "float double".split()
WAIT = ("short int long longlong ushort uint ulong ulonglong int32 int64 uint32 uint64 size "
        "ptrdiff").split()
# Reductions: OpenSHMEM 1.5, table 9; ptrdiff is not in NVSHMEM's list.
REDUCE_BITS = ("uchar ushort uint ulong ulonglong int8 int16 int32 int64 uint8 uint16 uint32 uint64 "
               "size").split()
REDUCE_NUM = [t for t in RMA if t != "ptrdiff"]
COMPLEX = ["complexd", "complexf"]
SCOPES = ("_warp", "_block")

# Host functions that are in no family. The last two groups are gshmem's own.
SETUP = ("init init_thread query_thread finalize global_exit info_get_version info_get_name malloc "
         "calloc align free team_split_strided team_split_2d team_get_config team_destroy").split()
SETUP_X = ("init_attr init_status get_uniqueid set_attr_uniqueid_args set_attr_mpi_comm_args "
           "cumodule_init cumodule_finalize culibrary_init culibrary_finalize "
           "vendor_get_version_info qp_create status_string team_get_uniqueid team_init buffer_register buffer_unregister "
           "buffer_unregister_all buffer_register_symmetric buffer_register_symmetric_at_preferred_address "
           "buffer_unregister_symmetric region_start region_stop").split()
HALF_NBI = ["half_atomic_fetch_nbi", "half_atomic_swap_nbi"]
OWN_1_6 = ["query_initialized", "ctx_session_start", "ctx_session_stop"]
OWN = "pcontrol realloc malloc_with_hints ctx_create ctx_destroy ctx_get_team team_create_ctx".split()
OWN_X = ("set_attr_thread_args thread_world_create thread_world_destroy pe_handle bind_thread "
         "last_fault qp_destroy").split()
# Other names of NVSHMEM for the same functions.
NVSHMEM_X = "hostlib_init_attr hostlib_finalize".split()
# Declared only if CUDA's headers are there.
LAUNCH_X = ["collective_launch", "collective_launch_attr", "collective_launch_query_gridsize"]
# Functions of the library that headers and programs use, and that users do not call.
INTERNAL = ("gshmemi_ambient gshmemi_host_fault gshmemi_register_unit gshmemi_unregister_unit "
            "gshmemi_abi_number gshmemi_agree_status gshmemi_by_nvshmem gshmemi_note_calls "
            "gshmemi_enter_gpu gshmemi_leave_gpu gshmemi_launch_on_host gshmemi_run_threads").split()


def scoped(stems):
    """(thread names, warp and block names) of operations that exist for all three groups."""
    stems = list(stems)
    return stems, [stem + scope for stem in stems for scope in SCOPES]


def rma():
    single = [f"{t}_{op}" for t in RMA for op in ("p", "g")]
    shapes = [f"{t}_{op}" for t in RMA for op in ("put", "get", "iput", "iget", "put_nbi",
                                                  "get_nbi")]
    shapes += [f"{op}{n}" for n in SIZES for op in ("put", "get", "iput", "iget")]
    shapes += [f"{op}{n}_nbi" for n in SIZES for op in ("put", "get")]
    shapes += ["putmem", "getmem", "putmem_nbi", "getmem_nbi"]
    thread, groups = scoped(shapes)
    assert len(single + thread) == 234 and len(groups) == 368
    return single + thread, groups


def put_signal():
    stems = [f"{t}_put" for t in RMA] + [f"put{n}" for n in SIZES] + ["putmem"]
    thread, groups = scoped(stem + end for stem in stems for end in ("_signal", "_signal_nbi"))
    assert len(thread) == 62 and len(groups) == 124
    return thread, groups


def atomics():
    names = [f"{t}_atomic_{op}" for t in AMO_EXT for op in ("fetch", "set", "swap")]
    names += [f"{t}_atomic_{op}" for t in AMO_STD
              for op in ("add", "fetch_add", "inc", "fetch_inc", "compare_swap")]
    names += [f"{t}_atomic_{fetch}{op}" for t in AMO_BIT for op in ("and", "or", "xor")
              for fetch in ("", "fetch_")]
    assert len(names) == 144
    return names


def float_atomics():
    """(names of half that those of OpenSHMEM have, extensions) of floating-point types: NVSHMEM's."""
    return [f"half_atomic_{op}" for op in ("fetch", "set", "swap")], [
        f"{t}_atomic_{op}" for t in ("half", "float", "double") for op in ("add", "fetch_add")]


def atomics_nbi():
    """OpenSHMEM 1.5, section 9.7.2; NVSHMEM has none."""
    names = [f"{t}_atomic_{op}_nbi" for t in AMO_EXT for op in ("fetch", "swap")]
    names += [f"{t}_atomic_{op}_nbi" for t in AMO_STD
              for op in ("compare_swap", "fetch_inc", "fetch_add")]
    names += [f"{t}_atomic_fetch_{op}_nbi" for t in AMO_BIT for op in ("and", "or", "xor")]
    assert len(names) == 85
    return names


def waits():
    ends = ["", "_all", "_any", "_some", "_all_vector", "_any_vector", "_some_vector"]
    names = [f"{t}_{op}{end}" for t in WAIT for op in ("wait_until", "test") for end in ends]
    assert len(names) == 196
    return names


def collectives():
    """Returns NVSHMEM's names for the calling thread."""
    names = [f"{t}_{op}" for t in RMA for op in ("alltoall", "broadcast", "fcollect")]
    names += ["alltoallmem", "broadcastmem", "fcollectmem"]
    assert len(names) == 3 * 26
    pairs = reduce_pairs(REDUCE_NUM, REDUCE_BITS)
    assert len(pairs) == 138
    return names + [f"{pair}_{end}" for pair in pairs for end in ("reduce", "reducescatter")]


def own_collectives():
    """Returns names that NVSHMEM lacks: those of OpenSHMEM 1.5 and 1.6, and the same for more types."""
    pairs = reduce_pairs(["ptrdiff"], []) + [f"{t}_{op}" for t in COMPLEX for op in ("sum", "prod")]
    names_ = [f"{pair}_{end}" for pair in pairs for end in ("reduce", "reducescatter")]
    names_ += [f"{t}_sum_{scan}" for t in RMA + COMPLEX for scan in ("inscan", "exscan")]
    return names_ + [f"{stem}{op}" for stem in [f"{t}_" for t in RMA] for op in ("collect", "alltoalls")] + [
        "collectmem", "alltoallsmem"]


def lists():
    """Returns gshmem's own calls for lists of pieces, for the calling thread."""
    return "putv putv_nbi getv getv_nbi putv_signal putv_signal_nbi getv_signal".split()


def on_contexts():
    """Returns (thread names, warp and block names) of calls with a context. OpenSHMEM has them for threads."""
    rma_thread, rma_groups = rma()
    signal_thread, signal_groups = put_signal()
    half, floats = float_atomics()
    thread = rma_thread + signal_thread + atomics() + half + atomics_nbi() + HALF_NBI + ["fence", "quiet"]
    groups = rma_groups + signal_groups + ["signal_op"] + floats
    thread += ["signal_set", "signal_add", "pe_quiet"] + ibputs(RMA)
    list_thread, list_groups = scoped(lists())
    groups += list_thread + list_groups
    return [f"ctx_{n}" for n in thread], [f"ctx_{n}" for n in groups]


def on_queues():
    """Returns the calls with queue handles: NVSHMEM's, without qp_create."""
    shapes = [f"{t}_{op}" for t in RMA for op in ("put", "get", "put_nbi", "get_nbi", "put_signal",
                                                  "put_signal_nbi")]
    thread, groups = scoped(shapes + ["fence", "quiet"])
    single = [f"{t}_{op}" for t in RMA for op in ("p", "g")] + ["signal_op"]
    assert len(single + thread + groups) == 507
    return [f"qp_{n}" for n in single + thread + groups]


def on_streams(p):
    """Returns names for the host only, and all extensions. Only waits on one object have a form on a stream."""
    signals = [f"{stem}_signal{nbi}" for stem in [f"{t}_put" for t in RMA] +
               [f"put{n}" for n in SIZES] + ["putmem"] for nbi in ("", "_nbi")]
    waits_ = [f"{t}_wait_until{end}" for t in WAIT for end in ("", "_all", "_all_vector")]
    names_ = rma()[0] + signals + waits_
    assert len(names_) == 234 + 62 + 42
    names_ += "signal_op signal_wait_until quiet flush barrier_all sync_all barrier team_sync".split()
    names_ += collectives()
    if p == "gshmem":
        names_ += own_collectives() + ["double2_maxloc_reduce"] + lists()
    return [f"{n}_on_stream" for n in names_]


def reduce_pairs(numbers, bits):
    pairs = [f"{t}_{op}" for t in numbers for op in ("sum", "prod", "min", "max")]
    return pairs + [f"{t}_{op}" for t in bits for op in ("and", "or", "xor")]


def device_names(p):
    """Returns the functions that device code can call (and hosts, too): full names for the prefix `p`."""
    rma_thread, rma_groups = rma()
    signal_thread, signal_groups = put_signal()
    barrier_thread, barrier_groups = scoped(["barrier_all", "sync_all", "barrier", "team_sync"])
    team_thread, team_groups = scoped(collectives())
    half, floats = float_atomics()
    std = rma_thread + signal_thread + atomics() + half + waits() + barrier_thread + team_thread
    std += ("signal_fetch signal_wait_until fence quiet my_pe n_pes ptr team_my_pe team_n_pes "
            "team_translate_pe").split()
    ext = rma_groups + signal_groups + barrier_groups + team_groups + ["signal_op"] + floats + on_queues()
    ext += ["region_start_block", "region_stop_block", "region_is_active", "signal_counted_reset",
            "barrier_warpgroup", "ask_smem", "give_smem", "release_smem"]
    ext += ["mc_ptr", "double2_maxloc_reduce_block"] + ["flush" + scope for scope in ("", *SCOPES)]
    if p == "gshmem":  # NVSHMEM has no contexts
        own_thread, own_groups = scoped(own_collectives())
        ext += ["double2_maxloc_reduce", "double2_maxloc_reduce_warp"]
        list_thread, list_groups = scoped(lists())
        ext += list_thread + list_groups
        std += atomics_nbi() + HALF_NBI + own_thread + ibputs(RMA)
        std += ("pe_accessible addr_accessible team_ptr signal_set signal_add pe_quiet set_lock clear_lock "
                "test_lock").split()
        ext += [stem + scope for stem in ("quiet_status", "pe_quiet") for scope in ("", *SCOPES)]
        context_thread, context_groups = on_contexts()
        std, ext = std + context_thread, ext + context_groups + own_groups
    return {f"{p}_{n}" for n in std} | {f"{p}x_{n}" for n in ext}


def host_names(p):
    """Returns the functions that only hosts can call: full names for the prefix `p`."""
    std, ext = list(SETUP), SETUP_X + on_streams(p)
    if p == "gshmem":
        std, ext = std + OWN + OWN_1_6 + long_double(), ext + OWN_X
    else:
        ext += NVSHMEM_X
    return {f"{p}_{n}" for n in std} | {f"{p}x_{n}" for n in ext}


def launch_names(p):
    return {f"{p}x_{n}" for n in LAUNCH_X}


def tiles():
    """Function templates of the namespaces gshmemx and nvshmemx, for kernels."""
    stems = [f"{op}_{end}" for op in ("sum", "max", "min") for end in ("reduce", "rooted_reduce")]
    stems += "allgather put get broadcast collective_wait".split()
    names_ = [f"tile_{stem}{scope}" for stem in stems for scope in ("", "_warp", "_warpgroup", "_block")]
    assert len(names_) == 44
    return names_


def names(p):
    return device_names(p) | host_names(p)


# --- Names of other libraries ---------------------------------------------------------------------
# Types of OpenSHMEM 1.5, table 3, and of reductions, table 9.
SHMEM_RMA = [t for t in RMA if t not in ("bfloat16", "half")] + ["longdouble"]
SHMEM_NUM = [t for t in SHMEM_RMA if t != "longdouble"]


def shmem_rma(types):
    names_ = [f"{t}_{op}" for t in types for op in "p g put get iput iget put_nbi get_nbi".split()]
    return names_ + [f"{t}_put_signal{nbi}" for t in types for nbi in ("", "_nbi")]


def long_double():
    """Returns names that GPUs do not have."""
    moved = shmem_rma(["longdouble"]) + ["longdouble_ibput", "longdouble_ibget"]
    team = "alltoall alltoalls broadcast collect fcollect sum_inscan sum_exscan".split()
    team += [f"{op}_reduce" for op in ("sum", "prod", "min", "max")]
    return moved + [f"ctx_{name}" for name in moved] + [f"longdouble_{op}" for op in team]


def ibputs(types):
    """Returns names of OpenSHMEM 1.6."""
    return [f"{t}_{op}" for t in types for op in ("ibput", "ibget")] + [
        f"{op}{n}" for n in SIZES for op in ("ibput", "ibget")]


def scans():
    """Returns names of OpenSHMEM 1.6."""
    types = SHMEM_NUM + ["longdouble"] + COMPLEX
    return [f"{t}_sum_{scan}" for t in types for scan in ("inscan", "exscan")]


def generics():
    """Returns names of OpenSHMEM 1.5 and 1.6 in C11 that leave out the type."""
    names_ = "p g put get put_nbi get_nbi iput iget ibput ibget put_signal put_signal_nbi".split()
    update = "inc add and or xor".split()
    returning = "fetch swap compare_swap".split() + [f"fetch_{op}" for op in update]
    names_ += [f"atomic_{op}" for op in ["set", *update, *returning]] + [f"atomic_{op}_nbi" for op in returning]
    names_ += [f"{op}{end}" for op in ("wait_until", "test") for end in
               ("", "_all", "_any", "_some", "_all_vector", "_any_vector", "_some_vector")]
    names_ += "alltoall alltoalls broadcast collect fcollect sum_inscan sum_exscan".split()
    return names_ + [f"{op}_reduce" for op in "and or xor max min sum prod".split()]


# Names of both libraries, without the prefix, and why they are not here.
ABSENT_NVSHMEM = {}
ABSENT_OPENSHMEM = {}


def nvshmem_inventory():
    """Returns all functions of NVSHMEM; its headers declare no others."""
    absent = [name for names_ in ABSENT_NVSHMEM.values() for name in names_]
    inventory = names("nvshmem") | launch_names("nvshmem") | {f"nvshmem{n}" for n in absent}
    assert len(inventory) == 3484 + len(NVSHMEM_BEYOND), len(inventory)
    return inventory


# Names of gshmem under NVSHMEM's prefix that NVSHMEM lacks.
NVSHMEM_BEYOND = []
# Names of libnvshmem_host.so that NVIDIA's libnvshmem_device.a calls, in libraries that have it linked in.
NVSHMEM_DEVICE_LIBRARY = ["nvshmem_selected_device_transport", "nvshmemid_hostlib_finalize", "nvshmemid_hostlib_init_attr",
                          "nvshmemid_init_status"]


def openshmem_inventory():
    """Returns all functions of OpenSHMEM 1.5 and 1.6 but the deprecated ones, without the prefix."""
    rma = shmem_rma(SHMEM_RMA)
    rma += [f"{op}{n}" for n in SIZES for op in "put get iput iget put_nbi get_nbi".split()]
    rma = [re.sub(r"_nbi(\d+)$", r"\1_nbi", n) for n in rma] + [
        f"{op}mem{nbi}" for op in ("put", "get") for nbi in ("", "_nbi")]
    rma += [f"put{n}_signal{nbi}" for n in [*SIZES, "mem"] for nbi in ("", "_nbi")]
    on_contexts_ = rma + atomics() + atomics_nbi() + ["fence", "quiet"]
    alone = SETUP + OWN + waits() + (
        "my_pe n_pes pe_accessible addr_accessible ptr team_my_pe team_n_pes team_translate_pe "
        "signal_fetch signal_wait_until barrier_all sync_all team_sync set_lock "
        "clear_lock test_lock pcontrol").split()
    alone += [f"{t}_{op}" for t in SHMEM_RMA
              for op in "alltoall alltoalls broadcast collect fcollect".split()]
    alone += "alltoallmem alltoallsmem broadcastmem collectmem fcollectmem".split()
    alone += [f"{pair}_reduce" for pair in reduce_pairs(SHMEM_NUM, REDUCE_BITS)]
    alone += [f"longdouble_{op}_reduce" for op in ("sum", "prod", "min", "max")]
    alone += [f"{t}_{op}_reduce" for t in COMPLEX for op in ("sum", "prod")]
    inventory = {*alone, *on_contexts_, *(f"ctx_{n}" for n in on_contexts_)}
    assert len(inventory) == 1535, len(inventory)
    in_1_6 = ibputs(SHMEM_RMA) + ["signal_set", "signal_add", "pe_quiet"]
    inventory |= {*in_1_6, *(f"ctx_{n}" for n in in_1_6), *scans(), "team_ptr", "query_initialized",
                  "ctx_session_start", "ctx_session_stop"}
    assert len(inventory) == 1535 + 178, len(inventory)
    return inventory


# Constants of NVSHMEM with their values, except for strings. Programs choose code by the release.
MAX = 0x7fffffff
MAJOR, MINOR, PATCH = NVSHMEM_RELEASE
CONSTANTS = {
    "NVSHMEM_CMP_": dict(EQ=0, NE=1, GT=2, LE=3, LT=4, GE=5, SENTINEL=MAX),
    "NVSHMEM_SIGNAL_": dict(SET=9, ADD=10),
    "NVSHMEM_THREAD_": dict(SINGLE=0, FUNNELED=1, SERIALIZED=2, MULTIPLE=3, TYPE_SENTINEL=MAX),
    "NVSHMEM_TEAM_": dict(INVALID=-1, WORLD=0, WORLD_INDEX=0, SHARED=1, SHARED_INDEX=1, NODE_INDEX=2,
                          SAME_MYPE_NODE_INDEX=3, SAME_GPU_INDEX=4, GPU_LEADERS_INDEX=5, MC_SHARED=6,
                          MC_SHARED_INDEX=6, INDEX_MAX=MAX, CONFIG_MASK_NUM_CONTEXTS=1,
                          CONFIG_MASK_UNIQUEID=2),
    "NVSHMEM_TEAMS_": dict(MIN=7),
    "NVSHMEM_PE_": dict(INVALID=-1),
    "NVSHMEM_STATUS_": dict(NOT_INITIALIZED=0, IS_BOOTSTRAPPED=1, IS_INITIALIZED=2, LIMITED_MPG=3,
                            FULL_MPG=4, INVALID=MAX),
    "NVSHMEM_MAJOR_": dict(VERSION=1),
    "NVSHMEM_MINOR_": dict(VERSION=3),
    "NVSHMEM_MAX_": dict(NAME_LEN=256),
    "NVSHMEM_VENDOR_": dict(MAJOR_VERSION=MAJOR, MINOR_VERSION=MINOR, PATCH_VERSION=PATCH,
                            VERSION=MAJOR * 10000 + MINOR * 100 + PATCH),
    "NVSHMEMX_TEAM_": dict(NODE=2, SAME_MYPE_NODE=3),
    "NVSHMEMX_INIT_": dict(THREAD_PES=1, WITH_MPI_COMM=2, WITH_SHMEM=4, WITH_UNIQUEID=8, MAX=-1 - MAX),
    "NVSHMEMX_QP_": dict(HOST=0, DEFAULT=1, ANY=MAX, ALL=MAX),
    "NVSHMEMX_PE_": dict(ANY=1 << 15, ALL=1 << 15),
    "NVSHMEMX_": dict(SUCCESS=0),
    "NVSHMEMX_ERROR_": dict(INVALID_VALUE=1, OUT_OF_MEMORY=2, NOT_SUPPORTED=3, SYMMETRY=4,
                            GPU_NOT_SELECTED=5, COLLECTIVE_LAUNCH_FAILED=6, INTERNAL=7, SENTINEL=MAX),
    "NVSHMEMX_REGION_": dict(HINT_NONE=0, HINT_BATCH_RMA=1, ATTRS_RESERVED_BYTES=60),
    "NVSHMEMX_SMEM_": dict(RECOMMENDED=0, MINIMUM=1, BARRIERS_ONLY=2, AMOUNT_MAX=MAX),
    "NVSHMEMX_TMA_": dict(DISABLE=0, ENABLE=1, FORCE=2, POLICY_MAX=MAX),
}
# Its types that programs name, with their sizes.
TYPES = {
    "nvshmem_pe_index_t": 4, "nvshmem_team_config_t": 64, "nvshmem_team_config_v1": 64,
    "nvshmem_team_config_v2": 64, "nvshmem_team_id_t": 4, "nvshmem_team_t": 4,
    "nvshmemx_cmp_type_t": 4, "nvshmemx_init_args_t": 128, "nvshmemx_init_args_v1": 128,
    "nvshmemx_init_args_v2": 128, "nvshmemx_init_attr_t": 144, "nvshmemx_init_attr_v1": 144,
    "nvshmemx_init_attr_v2": 144, "nvshmemx_init_status_t": 4, "nvshmemx_qp_handle_index_t": 4,
    "nvshmemx_qp_handle_t": 4, "nvshmemx_region_attrs_t": 64, "struct nvshmemx_region_attrs": 64,
    "nvshmemx_region_handle_t": 8,
    "nvshmemx_region_hint_t": 4, "nvshmemx_signal_op_t": 4, "nvshmemx_smem_amount_t": 4,
    "nvshmemx_team_t": 4, "nvshmemx_team_uniqueid_t": 8, "nvshmemx_thread_support_t": 4,
    "nvshmemx_tma_policy_t": 4, "nvshmemx_uniqueid_args_t": 24, "nvshmemx_uniqueid_args_v1": 24,
    "nvshmemx_uniqueid_t": 128, "nvshmemx_uniqueid_v1": 128, "enum nvshmemx_status": 4,
}
# Initializers of its objects.
INITIALIZERS = {
    "NVSHMEM_TEAM_CONFIG_INITIALIZER": "nvshmem_team_config_t",
    "NVSHMEM_TEAM_UNIQUID_INITIALIZER": "nvshmemx_team_uniqueid_t",
    "NVSHMEMX_INIT_ARGS_INITIALIZER": "nvshmemx_init_args_v1",
    "NVSHMEMX_INIT_ARGS_V2_INITIALIZER": "nvshmemx_init_args_v2",
    "NVSHMEMX_INIT_ATTR_INITIALIZER": "nvshmemx_init_attr_t",
    "NVSHMEMX_INIT_ATTR_V1_INITIALIZER": "nvshmemx_init_attr_v1",
    "NVSHMEMX_REGION_ATTRS_INITIALIZER": "nvshmemx_region_attrs_t",
    "NVSHMEMX_UNIQUEID_ARGS_INITIALIZER": "nvshmemx_uniqueid_args_t",
    "NVSHMEMX_UNIQUEID_INITIALIZER": "nvshmemx_uniqueid_t",
    "NVSHMEM_INIT_ARGS_V2_IDENTIFIER": "int",
    "NVSHMEM_INIT_ATTR_V1_IDENTIFIER": "int",
    "NVSHMEM_INIT_ATTR_V2_IDENTIFIER": "int",
    "NVSHMEM_VENDOR_VERSION": "int",
    "NVSHMEM_VENDOR_STRING": "const char*",
}
# Its other public names, and why they are not here.
ABSENT_OTHERS = {
    "nvshmemx_proxy_status_t": "the state of a thread of its own that NVSHMEM's kernels watch",
    "NVSHMEMX_STATUS_LIST": "status.h has such a table of ours, whose codes are more",
    "NVSHMEM_VENDOR_..._STRING": "the vendor's packages",
    "NVSHMEM_..._PLUGIN_..._VERSION": "its plugins do not fit into this library",
    "nvshmemi_... and NVSHMEMI_... but NVSHMEMI_ERROR_PRINT": "internal of NVSHMEM; its perftests print by that one",
    "nvshmemi_ibgda_device_state_t and others of nvshmem_common_ibgda.h":
        "structs of its queues, which differ between its releases; the header says what there is instead",
    "NVSHMEM_IBRC_SUPPORT and other options of its build": "they tell of transports that it has",
}
# Functions of ours that no body of tests/spmd calls: a pattern, and the name of the tested function that is the same
# row of functions.def; without one, the test that has them.
EXCUSED = [
    (r"gshmem_(\w+_atomic_\w+_nbi)", r"gshmem_ctx_\1", "on the default context they are the same call"),
    (r"gshmemx_cu(module|library)_(init|finalize)", None, "tests/device/module, tests/device/library: of GPUs alone"),
    (r"gshmemx_set_attr_mpi_comm_args", None, "examples/mpi_init: MPI makes the job"),
    (r"gshmem_global_exit", None, "tests/spmd/bad_input/test_death.cpp: it ends the program"),
]
