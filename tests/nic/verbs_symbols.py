#!/usr/bin/env python3
"""Symbols of the soft NIC's libraries against those of rdma-core. Usage: verbs_symbols.py FOLDER

Every exported symbol must be in the table at the version that rdma-core has it at (published in
libibverbs/libibverbs.map.in and providers/mlx5/libmlx5.map), and everything in the table must be
exported: "+" is the default version, "-" an old one.
"""
import os
import re
import subprocess
import sys

EXPECTED = {
    "libibverbs.so.1": {
        "IBVERBS_1.0": "-ibv_get_device_list +ibv_create_comp_channel +ibv_destroy_comp_channel",
        "IBVERBS_1.1": """
            +ibv_ack_async_event +ibv_ack_cq_events +ibv_alloc_pd +ibv_close_device +ibv_create_ah
            +ibv_create_cq +ibv_create_qp +ibv_create_srq +ibv_dealloc_pd +ibv_dereg_mr
            +ibv_destroy_ah +ibv_destroy_cq +ibv_destroy_qp +ibv_destroy_srq +ibv_event_type_str
            +ibv_fork_init +ibv_free_device_list +ibv_get_async_event +ibv_get_cq_event
            +ibv_get_device_guid +ibv_get_device_list +ibv_get_device_name +ibv_modify_qp
            +ibv_modify_srq +ibv_node_type_str +ibv_open_device +ibv_port_state_str
            +ibv_query_device +ibv_query_gid +ibv_query_pkey +ibv_query_port +ibv_query_qp
            +ibv_query_srq +ibv_reg_mr +ibv_rereg_mr +ibv_resize_cq +ibv_wc_status_str""",
        "IBVERBS_1.5": "+ibv_get_pkey_index",
        "IBVERBS_1.7": "+ibv_reg_mr_iova",
        "IBVERBS_1.8": "+ibv_reg_mr_iova2",
        "IBVERBS_1.9": "+ibv_get_device_index",
        "IBVERBS_1.10": "+ibv_query_ece +ibv_set_ece",
        "IBVERBS_1.11": "+_ibv_query_gid_ex +_ibv_query_gid_table",
        "IBVERBS_1.12": "+ibv_reg_dmabuf_mr",
        "IBVERBS_1.13": "+ibv_is_fork_initialized",
        "IBVERBS_1.14": "+ibv_query_qp_data_in_order",
    },
    "libmlx5.so.1": {
        "MLX5_1.0": "-mlx5dv_init_obj +mlx5dv_query_device",
        "MLX5_1.2": "+mlx5dv_init_obj",
        "MLX5_1.3": "+mlx5dv_create_qp",
        "MLX5_1.7": """
            +mlx5dv_devx_alloc_uar +mlx5dv_devx_free_uar +mlx5dv_devx_general_cmd
            +mlx5dv_devx_obj_create +mlx5dv_devx_obj_destroy +mlx5dv_devx_obj_modify
            +mlx5dv_devx_obj_query +mlx5dv_devx_query_eqn +mlx5dv_devx_umem_dereg
            +mlx5dv_devx_umem_reg +mlx5dv_open_device""",
        "MLX5_1.8": "+mlx5dv_is_supported",
        "MLX5_1.11": """
            +mlx5dv_devx_create_event_channel +mlx5dv_devx_destroy_event_channel
            +mlx5dv_devx_get_event +mlx5dv_devx_subscribe_devx_event""",
        "MLX5_1.19": "+mlx5dv_devx_umem_reg_ex",
        "MLX5_1.25": "+mlx5dv_get_data_direct_sysfs_path +mlx5dv_reg_dmabuf_mr",
    },
}
# Nodes without a symbol that programs may still have been linked against.
NODES = {
    "libibverbs.so.1": ["IBVERBS_1.0", "IBVERBS_1.1", *(f"IBVERBS_1.{n}" for n in range(5, 15))],
    "libmlx5.so.1": [f"MLX5_1.{n}" for n in range(26)],
}


def objdump(option, path):
    return subprocess.run(["objdump", option, path], check=True, capture_output=True,
                          text=True).stdout


def exported(path):
    """{"+name@version", ...} and the set of version nodes."""
    symbols, nodes = set(), set()
    for line in objdump("-T", path).splitlines():
        if "*UND*" in line or not line.startswith("0"):
            continue
        match = re.search(r"\s(\(?)(\w[\w.]*)\)?\s+(\S+)$", line)
        if " *ABS*" in line:
            nodes.add(match.group(3))
        else:
            symbols.add(("-" if match.group(1) else "+") + f"{match.group(3)}@{match.group(2)}")
    return symbols, nodes


def check(folder, name):
    path = os.path.join(folder, name)
    wanted = {symbol + "@" + version
              for version, list_ in EXPECTED[name].items() for symbol in list_.split()}
    symbols, nodes = exported(path)
    wrong = [f"{name}: not exported: {s}" for s in sorted(wanted - symbols)]
    wrong += [f"{name}: exported, but not rdma-core's: {s}" for s in sorted(symbols - wanted)]
    wrong += [f"{name}: no version node {n}" for n in NODES[name] if n not in nodes]
    soname = re.search(r"SONAME\s+(\S+)", objdump("-p", path)).group(1)
    if soname != name:
        wrong.append(f"{name}: its soname is {soname}")
    return wrong


def main():
    wrong = [line for name in EXPECTED for line in check(sys.argv[1], name)]
    print("\n".join(wrong) or "verbs symbols: ok")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
