"""The public names, written from OpenSHMEM 1.5 and NVSHMEM's inventory and not from our tables:
names(prefix) is what the API must offer, no more and no less. Imported by names_test.py.
"""

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
SCOPES = ("_warp", "_block")

# Host functions that are in no family; the last two groups are gshmem's own.
SETUP = ("init init_thread query_thread finalize global_exit info_get_version info_get_name malloc "
         "calloc align free team_split_strided team_split_2d team_get_config team_destroy").split()
SETUP_X = ("init_attr init_status get_uniqueid set_attr_uniqueid_args set_attr_mpi_comm_args "
           "cumodule_init cumodule_finalize culibrary_init culibrary_finalize "
           "vendor_get_version_info qp_create status_string").split()
OWN = "realloc malloc_with_hints ctx_create ctx_destroy ctx_get_team".split()
OWN_X = ("set_attr_thread_args thread_world_create thread_world_destroy pe_handle bind_thread "
         "last_fault qp_destroy").split()
# NVSHMEM's other names for the same.
NVSHMEM_X = "hostlib_init_attr hostlib_finalize".split()
# C++ only, compiled into the program.
LAUNCH_X = ["collective_launch", "collective_launch_query_gridsize"]
# What headers and programs need of the library, and no user calls.
INTERNAL = ("gshmemi_ambient gshmemi_host_fault gshmemi_register_unit gshmemi_unregister_unit "
            "gshmemi_agree_status gshmemi_pes_on_gpu gshmemi_enter_gpu gshmemi_leave_gpu "
            "gshmemi_launch_on_host gshmemi_run_threads").split()


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
    """Of NVSHMEM, for the calling thread."""
    names = [f"{t}_{op}" for t in RMA for op in ("alltoall", "broadcast", "fcollect")]
    names += ["alltoallmem", "broadcastmem", "fcollectmem"]
    assert len(names) == 3 * 26
    reductions = [f"{t}_{op}_reduce" for t in REDUCE_NUM for op in ("sum", "prod", "min", "max")]
    reductions += [f"{t}_{op}_reduce" for t in REDUCE_BITS for op in ("and", "or", "xor")]
    assert len(reductions) == 138
    return names + reductions


def own_reductions():
    return [f"ptrdiff_{op}_reduce" for op in ("sum", "prod", "min", "max")]


def on_contexts():
    """(thread names, warp and block names) of what takes a context: OpenSHMEM's for threads."""
    rma_thread, rma_groups = rma()
    signal_thread, signal_groups = put_signal()
    thread = rma_thread + signal_thread + atomics() + atomics_nbi() + ["fence", "quiet"]
    groups = rma_groups + signal_groups + ["signal_op"]
    return [f"ctx_{n}" for n in thread], [f"ctx_{n}" for n in groups]


def on_queues():
    """What takes queue handles: NVSHMEM's, without qp_create."""
    shapes = [f"{t}_{op}" for t in RMA for op in ("put", "get", "put_nbi", "get_nbi", "put_signal",
                                                  "put_signal_nbi")]
    thread, groups = scoped(shapes + ["fence", "quiet"])
    single = [f"{t}_{op}" for t in RMA for op in ("p", "g")] + ["signal_op"]
    assert len(single + thread + groups) == 507
    return [f"qp_{n}" for n in single + thread + groups]


def on_streams():
    """Host only, and all extensions. Of waits those that have one stream to hold."""
    signals = [f"{stem}_signal{nbi}" for stem in [f"{t}_put" for t in RMA] +
               [f"put{n}" for n in SIZES] + ["putmem"] for nbi in ("", "_nbi")]
    waits_ = [f"{t}_wait_until{end}" for t in WAIT for end in ("", "_all", "_all_vector")]
    names_ = rma()[0] + signals + waits_
    assert len(names_) == 234 + 62 + 42
    names_ += "signal_op signal_wait_until quiet barrier_all sync_all barrier team_sync".split()
    names_ += collectives()
    return [f"{n}_on_stream" for n in names_]


def device_names(p):
    """What device code can call (and hosts, too): full names for the prefix `p`."""
    rma_thread, rma_groups = rma()
    signal_thread, signal_groups = put_signal()
    barrier_thread, barrier_groups = scoped(["barrier_all", "sync_all", "barrier", "team_sync"])
    team_thread, team_groups = scoped(collectives())
    std = rma_thread + signal_thread + atomics() + waits() + barrier_thread + team_thread
    std += ("signal_fetch signal_wait_until fence quiet my_pe n_pes ptr team_my_pe team_n_pes "
            "team_translate_pe").split()
    ext = rma_groups + signal_groups + barrier_groups + team_groups + ["signal_op"] + on_queues()
    if p == "gshmem":  # NVSHMEM has no contexts
        own_thread, own_groups = scoped(own_reductions())
        std += atomics_nbi() + ["pe_accessible", "addr_accessible"] + own_thread
        ext += [stem + scope for stem in ("quiet_status", "pe_quiet") for scope in ("", *SCOPES)]
        context_thread, context_groups = on_contexts()
        std, ext = std + context_thread, ext + context_groups + own_groups
    return {f"{p}_{n}" for n in std} | {f"{p}x_{n}" for n in ext}


def host_names(p):
    """What hosts can call besides: full names for the prefix `p`."""
    std, ext = list(SETUP), SETUP_X + on_streams()
    if p == "gshmem":
        std, ext = std + OWN, ext + OWN_X
    else:
        ext += NVSHMEM_X
    return {f"{p}_{n}" for n in std} | {f"{p}x_{n}" for n in ext}


def launch_names(p):
    return {f"{p}x_{n}" for n in LAUNCH_X}


def names(p):
    return device_names(p) | host_names(p)
