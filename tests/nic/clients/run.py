#!/usr/bin/env python3
"""Programs of others, unmodified, on the soft NIC's libibverbs and libmlx5. Usage: run.py FOLDER CLIENT

FOLDER has the two libraries; a client is a function below. Exit 77, with the reason, where the
program is not installed.
"""
import os
import re
import shutil
import subprocess
import sys

SECONDS = 60


class Skip(Exception):
    pass


class Failure(Exception):
    pass


def need(condition, what):
    if not condition:
        raise Failure(what)


def program(name, package):
    path = shutil.which(name)
    if path is None:
        raise Skip(f"there is no {name} (Debian: {package})")
    return path


def environment(folder, **more):
    return dict(os.environ, LD_LIBRARY_PATH=folder, GSHNIC_FABRIC="", GSHMEM_LOG="warn", **more)


def run(folder, *command):
    """What it prints. Errors: an exit code, a time-out, a line of the soft NIC."""
    done = subprocess.run(command, env=environment(folder), capture_output=True, text=True,
                          timeout=SECONDS, check=False)
    print("$", *command, done.stdout, done.stderr, sep="\n" if done.stderr else " ")
    need(done.returncode == 0, f"exit code {done.returncode}")
    need("soft NIC" not in done.stderr, "the soft NIC remarks something")
    return done.stdout


def expect(text, wanted):
    """Each pattern of `wanted` must be a whole line of `text`, where spaces are one."""
    lines = [re.sub(r"\s+", " ", line).strip() for line in text.splitlines()]
    missing = [one for one in wanted if not any(re.fullmatch(one, line) for line in lines)]
    need(not missing, f"not printed: {missing}")


def devices(folder):
    """ibv_devices"""
    expect(run(folder, program("ibv_devices", "ibverbs-utils")), ["mlx5_0 02534e494300[0-9a-f]{4}"])


def devinfo(folder):
    """ibv_devinfo -v: what it says of a ConnectX-7 with one active InfiniBand port"""
    text = run(folder, program("ibv_devinfo", "ibverbs-utils"), "-v")
    guid = re.search(r"node_guid:\s+([0-9a-f:]+)\n", text)
    lid = re.search(r"port_lid:\s+(\d+)\n", text)
    need(guid and lid and 1 <= int(lid.group(1)) <= 0xbfff, "no GUID, or no unicast LID")
    expect(text, [
        "hca_id: mlx5_0", r"transport: InfiniBand \(0\)", r"fw_ver: 0\.0\.0-soft",
        "node_guid: 0253:4e49:4300:[0-9a-f]{4}", f"sys_image_guid: {guid.group(1)}",
        "vendor_id: 0x02c9", "vendor_part_id: 4129", "phys_port_cnt: 1",
        "max_mr_size: 0xffffffffffffffff", "page_size_cap: 0xfffffffffffff000",
        "max_qp: 262144", "max_qp_wr: 32768", "max_sge: 30", "max_sge_rd: 30",
        "max_cq: 262144", "max_cqe: 4194303", "max_qp_rd_atom: 16", "max_qp_init_rd_atom: 16",
        r"atomic_cap: ATOMIC_HCA \(1\)", "max_pkeys: 1", "num_comp_vectors: 8", "port: 1",
        r"state: PORT_ACTIVE \(4\)", r"max_mtu: 4096 \(5\)", r"active_mtu: 4096 \(5\)",
        "link_layer: InfiniBand", "max_msg_sz: 0x40000000", "pkey_tbl_len: 1", "gid_tbl_len: 1",
        r"active_width: 4X \(2\)", r"active_speed: 100\.0 Gbps \(128\)",
        r"phys_state: LINK_UP \(5\)",
        rf"GID\[ 0\]: fe80:0000:0000:0000:{guid.group(1)}"])


CLIENTS = [devices, devinfo]


def main():
    folder, name = sys.argv[1:]
    for client in CLIENTS:
        if client.__name__ == name:
            break
    else:
        sys.exit(f"{name}: there are {', '.join(c.__name__ for c in CLIENTS)}")
    try:
        client(os.path.abspath(folder))
    except Skip as skip:
        print(f"skipped: {skip}")
        return 77
    except (Failure, subprocess.TimeoutExpired) as failure:
        print(f"{name}: {failure}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
