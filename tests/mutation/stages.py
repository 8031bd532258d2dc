"""Which tests see changes of which folder, the nearest and quickest ones first.

Stage(targets, tests, without, seconds): ninja targets that hold the folder's code and run it, tests
by regular expressions of ctest -R and -E without the leg, and the time within which they end on a
busy machine; one that does not is a hang. The row with the longest path counts.
"""
from collections import namedtuple

Stage = namedtuple("Stage", "targets tests without seconds")

# Programs use the shared library, so that it alone is linked again.
LIBRARY = ["gshmem"]
LEGS = r"spmd\.(threads|mpirun|uid|uid-address|slurm|soft|ofi|auto|mlx5|teams|unknown)_"
# One case per misuse, death, fork, setting.
MISUSE = Stage(LIBRARY, r"spmd\.", LEGS, 120)


def tests(targets, pattern, seconds, without="^$"):
    return Stage(targets, pattern, without, seconds)


NAMED = []  # legs of spmd that stages name


def spmd(*legs):
    NAMED.extend(legs)
    return tests(LIBRARY, rf"spmd\.({'|'.join(legs)})$", 150)


def units(*programs):
    return tests(list(programs), rf"({'|'.join(programs)})\.", 60)


HOSTS = tests([*LIBRARY, "hosts_program", "hosts_traffic"],
              r"hosts\.(collectives|life|sizes|late|death|early|link_down|without|address|interface|traffic_over_a_link)",
              150)
ERRORS = tests(LIBRARY, r"errors\.", 150, r"errors\.(rounds|bad_remote_key_of_every_call)")

# What a ConnectX would refuse, or not answer.
OVER_SOFT_NIC = [units("mlx5_nic_test", "mlx5_soft_test"), spmd("soft_rails_mpirun_2", "soft_roce_2"),
                 spmd("soft_adversary_relaxed_3_11"), ERRORS]
# What goes wrong before the first post.
FIRST_USE = [tests(LIBRARY, r"(launch\.first_use|spmd\.soft_first_use_3)", 100),
             tests(LIBRARY, r"errors\..*first_use", 60), units("nic_queue_set_test")]

# What a build with CUDA has alone: GPU memory, over a double of libcuda. No GPU is needed.
OVER_CUDA_DOUBLE = [units(*(f"gpu_memory_{part}_test" for part in
                            ("window", "pe", "stream", "threads", "soft", "mlx5", "ofi"))),
                    tests([], r"gpu_memory_(pe_mlx5|ofi_double)\.", 60)]


def over_soft_nic(file):
    """The stages of a bug of connections, by the file that has it."""
    return OVER_SOFT_NIC if file.startswith("transport/nic/mlx5/") else FIRST_USE

STAGES = {
    "bootstrap": [
        tests(["bootstrap_test", "bootstrap_pmix_test", "bootstrap_ranks", "bootstrap_mpi_ranks",
               "gshmem_bootstrap_mpi"],
              r"bootstrap\.", 120, ".*slurm"),
        tests(LIBRARY, r"spmd\.(uid_3|mpirun_2|global_exit|dead_pe|pe_that_never)", 120)],
    "host/base": [
        units("base_log_test", "base_fd_test", "base_net_test", "base_error_test", "base_config_test",
              "base_dynamic_library_test", "base_gpu_mapping_test", "base_nvml_test"),
        MISUSE],
    "host/base/net": [units("base_net_test", "control_test", "control_local_test"),
                      tests(["bootstrap_test"], r"bootstrap\.", 120, ".*slurm"), MISUSE],
    "host/control": [
        units("control_test", "control_local_test", "control_plane_test"), HOSTS, MISUSE],
    "host/runtime/heap": [units("heap_allocator_test"), spmd("threads_2")],
    "host/tools/info": [
        units("info_test", "info_doctor_test"),
        tests(["gshmem-info"], r"info\.", 60)],
    "host/runtime/nvshmem": [tests([*LIBRARY, "nvshmem_host", "nvshmem"],
                           r"(api\.nvshmem_symbols|install\.nvshmem_make)$", 120)],
    "host": [units("p2p_teams_test", "queue_wait_test", "control_plane_test"), MISUSE, spmd("threads_3", "soft_threads_3", "mpirun_2"),
             spmd("soft_teams_of_11", "teams_of_67"),
             tests([*LIBRARY, "gshmem-info"], r"(launch|api|info\.network$|errors\.(target_is_killed|quiet|finalize|who|remote_access))", 120), HOSTS],
    "transport/p2p": [
        units("p2p_test", "p2p_teams_test"),
        MISUSE, spmd("threads_2", "mpirun_2", "soft_mixed_threads_3")],
    "transport/nic": [
        units("nic_decode_test", "rails_test", "mlx5_choice_test", "mlx5_soft_test",
              "nic_queue_set_test"),
        spmd("soft_threads_3", "soft_agent_2", "soft_rails_3", "soft_map_pe_3", "ofi_threads_1"),
        MISUSE],
    "transport/nic/first_use.": FIRST_USE,
    "transport/nic/mlx5": [
        units("mlx5_prm_test", "mlx5_choice_test", "mlx5_nic_test", "mlx5_soft_test", "rails_test"),
        spmd("soft_rails_mpirun_2"), ERRORS],
    "transport/softnic": [
        units("nic_engine_test", "nic_adversary_test", "nic_fabric_test", "verbs_firmware_test",
              "verbs_api_test"),
        tests(["gshnic", "gshnic_ibverbs", "gshnic_mlx5", "verbs_client", "verbs_dlopen",
               "mlx5_soft_test", "mlx5_processes", "devx_fuzz"],
              r"(verbs_|devx_fuzz|mlx5_soft_test|mlx5_processes)", 90),
        spmd("soft_threads_3", "soft_mpirun_2", "soft_adversary_mixed_3_11", "soft_rails_3"), ERRORS],
    "transport/ofi": [
        tests(["ofi_test", "ofi_rank"], r"ofi\.(what a busy|inline|an? [a-z ]*error$)", 45),
        tests(["ofi_test"], r"ofi_double\.", 60),
        tests(["ofi_test", "ofi_rank"], r"ofi\.", 120),
        spmd("ofi_threads_3", "ofi_mpirun_3", "ofi_messages_2"),
        tests(LIBRARY, r"(spmd\.(job_with|finalize_leaves)|errors\.(quiet|target|retries|entries))", 120)],
}


def stages_of(file):
    """The stages of a source, by its path in the tree."""
    rows = [row for row in STAGES if file.startswith(row if row.endswith(".") else row + "/")]
    return STAGES[max(rows, key=len)]
