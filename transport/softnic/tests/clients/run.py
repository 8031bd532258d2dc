#!/usr/bin/env python3
"""Programs of others, unmodified, on the soft NIC's libibverbs and libmlx5. Usage: run.py FOLDER CLIENT

FOLDER has the two libraries; a client is a function below. Exit 77, with the reason, where the
program is not installed.
"""
import gzip
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

SECONDS = 600  # a quiet machine takes less than 60


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
    return {**os.environ, "LD_LIBRARY_PATH": folder, "GSHNIC_FABRIC": "", "GSHMEM_LOG": "warn", **more}


def run(folder, *command, **variables):
    """What it prints. Errors: an exit code, a time-out, a line of the soft NIC."""
    done = subprocess.run(command, env=environment(folder, **variables), capture_output=True, text=True,
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
    # And a RoCE port: two addresses, each for both versions.
    text = run(folder, "ibv_devinfo", "-v", GSHNIC_PROFILE="roce")
    expect(text, ["link_layer: Ethernet", "gid_tbl_len: 4",
                  r"GID\[ 0\]: fe80:0000:0000:0000:004e:49ff:fe43:0000, RoCE v1",
                  r"GID\[ 1\]: fe80::4e:49ff:fe43:0, RoCE v2",
                  r"GID\[ 2\]: 0000:0000:0000:0000:0000:ffff:0a00:0001, RoCE v1",
                  r"GID\[ 3\]: ::ffff:10.0.0.1, RoCE v2"])


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def listens(port):
    """Whether a process of this machine waits for a connection there."""
    with open("/proc/net/tcp", encoding="ascii") as v4, open("/proc/net/tcp6", encoding="ascii") as v6:
        lines = [line.split() for line in [*v4, *v6]]
    return any(words[1].endswith(f":{port:04X}") and words[3] == "0A" for words in lines)


class Pair:
    """A server and a client, each a process, on one fabric."""

    def __init__(self, folder, *command, prefix=()):
        self.port = free_port()
        self.fabric = f"gshnic_clients_{os.getpid()}_{self.port}"
        self.env = environment(folder, GSHNIC_FABRIC=self.fabric)
        self.command = [*prefix, *(str(self.port) if word == "PORT" else word for word in command)]

    def run(self, *at):
        """What each prints; `at` are the client's words more. Errors: those of run()."""
        print("$", *self.command, "&", *self.command, *at)
        server = subprocess.Popen(self.command, env=self.env, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True)
        try:
            end = time.monotonic() + SECONDS
            while not listens(self.port):
                if server.poll() is not None:
                    raise Failure("the server ended: " + server.stdout.read())
                need(time.monotonic() < end, "the server does not listen")
                time.sleep(0.05)
            client = subprocess.run([*self.command, *at], env=self.env, stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, text=True, timeout=SECONDS, check=False)
            print(client.stdout)
            answer = server.communicate(timeout=SECONDS)[0]
            print(answer)
        finally:
            server.kill()
            server.wait()
            if os.path.exists("/dev/shm/" + self.fabric):
                os.unlink("/dev/shm/" + self.fabric)
        need(client.returncode == 0 and server.returncode == 0,
             f"exit codes {server.returncode} of the server, {client.returncode} of the client")
        need("soft NIC" not in client.stdout + answer, "the soft NIC remarks something")
        return client.stdout, answer


def pingpong(folder):
    """ibv_rc_pingpong: messages in both directions, by polling and by events, each compared"""
    path = program("ibv_rc_pingpong", "ibverbs-utils")
    for options in (["-e"], ["-e", "-s", "20000", "-m", "1024", "-r", "3"], ["-e", "-N"],
                    ["-n", "20"]):
        one = Pair(folder, path, "-p", "PORT", "-c", "-g", "0", "-n", "200", *options)
        for text in one.run("localhost"):
            need(re.search(r"\b(200|20) iters in", text) and "invalid data" not in text,
                 "it did not end well")


def srq_pingpong(folder):
    """ibv_srq_pingpong: 16 queue pairs that share a receive queue"""
    path = program("ibv_srq_pingpong", "ibverbs-utils")
    Pair(folder, path, "-p", "PORT", "-c", "-g", "0", "-e", "-n", "400").run("localhost")


def perftest(folder):
    """perftest: what it measures, by the extended calls and by ibv_post_send"""
    for name, *options in (["ib_write_bw", "-s", "65536"], ["ib_write_lat"], ["ib_read_lat"],
                           ["ib_read_bw", "-s", "100000"], ["ib_atomic_lat"],
                           ["ib_atomic_lat", "-A", "CMP_AND_SWAP"], ["ib_send_lat", "-e"],
                           ["ib_send_bw", "-r", "8"], ["ib_write_bw", "--use_old_post_send"],
                           ["ib_send_lat", "-e", "--use_old_post_send"]):
        path = program(name, "perftest")
        one = Pair(folder, path, "-d", "mlx5_0", "-F", "-p", "PORT", "-n", "20", *options)
        text, _ = one.run("localhost")
        need(re.search(r"^ \d+ +20 +[0-9.]+ ", text, re.M), f"{name}: no row of figures")


def ucx(folder):
    """ucx_perftest over rc_mlx5 (queues and commands of its own by DevX) and rc_verbs"""
    path = program("ucx_perftest", "ucx-utils")
    nodes = os.path.join(os.path.dirname(os.path.abspath(__file__)), "nodes.sh")
    probe = subprocess.run([nodes, "true"], capture_output=True, text=True, check=False)
    if probe.returncode == 77:
        raise Skip(probe.stdout.strip())
    # With relaxed ordering, its default on some processors, UCX makes keys of keys.
    prefix = [nodes, "env", "UCX_IB_PCI_RELAXED_ORDERING=off"]
    for transport in ("rc_mlx5", "rc_verbs"):
        for test in (["put_lat"], ["put_bw", "-D", "zcopy", "-s", "100000"],
                     ["get", "-D", "zcopy", "-s", "70000"], ["get", "-D", "bcopy"], ["fadd"],
                     ["cswap"], ["fadd", "-s", "4"], ["am_lat"], ["am_bw", "-D", "zcopy", "-s", "4000"]):
            if transport == "rc_verbs" and test[0] not in ("put_lat", "fadd", "am_lat"):
                continue  # pingpong and perftest show what libibverbs does
            if transport == "rc_verbs" and test[-1] == "4":
                continue  # InfiniBand has atomics of 8 bytes only
            one = Pair(folder, path, "-p", "PORT", "-d", "mlx5_0:1", "-x", transport, "-w", "2", "-n",
                       "20", "-t", *test, prefix=prefix)
            text, _ = one.run("127.0.0.1")
            need("Final:" in text, f"{transport} {test}: no figures")


RDMA_CORE_TESTS = "/usr/share/doc/rdma-core/tests"
# What the soft NIC does not have: regions that change, memory of the device, steering of packets, huge pages, objects
# of another process, libmlx5's MLX5_CQE_SIZE.
LACKING = ["test_mr_rereg_access", "test_mr_rereg_access_bad_flow", "test_mr_rereg_addr", "test_mr_rereg_pd",
           "test_dm_atomic_ops", "test_parallel_dm_atomic_ops", "test_packet_reformat",
           "test_tx_packet_reformat", "test_prefer_obj_on_huge", "test_imported_rc_ex_rdma_write",
           "test_dv_cq_cqe_size_with_bad_size"]


def rdma_core(folder):
    """rdma-core's own tests, which its package has among its documentation: those of DevX among them"""
    python = "/usr/bin/python3"
    if subprocess.run([python, "-c", "import pyverbs"], capture_output=True, check=False).returncode != 0 \
            or not os.path.exists(RDMA_CORE_TESTS + "/run_tests.py"):
        raise Skip("there is no pyverbs with its tests (Debian: python3-pyverbs)")
    if subprocess.run([python, "-c", "import scapy"], capture_output=True, check=False).returncode != 0:
        raise Skip("there is no scapy, which their tests of DevX want (Debian: python3-scapy)")
    with tempfile.TemporaryDirectory() as copy:
        for name in os.listdir(RDMA_CORE_TESTS):
            path = os.path.join(RDMA_CORE_TESTS, name)
            with (gzip.open if name.endswith(".gz") else open)(path, "rb") as packed, \
                    open(os.path.join(copy, name.removesuffix(".gz")), "wb") as unpacked:
                unpacked.write(packed.read())
        done = subprocess.run([python, "-B", os.path.join(copy, "run_tests.py"), "-v"],
                              env=environment(folder), capture_output=True, text=True,
                              timeout=SECONDS, check=False)
    print(done.stderr)
    if re.search("CalledProcessError: .*'rdma', 'link', 'show'", done.stderr):
        raise Skip("these tests of rdma-core ask the kernel for its links (rdma link show), and it does not know any")
    counts = re.search(r"^Ran (\d+) tests.*\n\n(?:OK|FAILED) \((.*)\)", done.stderr, re.M)
    need(counts, "the tests have not ended")
    failed = sorted(re.findall(r"^(?:ERROR|FAIL): (\w+)", done.stderr, re.M))
    need(set(failed) <= set(LACKING), f"not these alone: {LACKING}")
    good = int(counts.group(1)) - len(failed) - int(re.search(r"skipped=(\d+)", counts.group(2)).group(1))
    need(good >= 50, f"only {good} went well")
    need(re.search(r"^test_devx_rc_qp_send_imm_traffic .*\n.* ok$", done.stderr, re.M), "not by DevX")


CLIENTS = [devices, devinfo, pingpong, srq_pingpong, perftest, ucx, rdma_core]


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
