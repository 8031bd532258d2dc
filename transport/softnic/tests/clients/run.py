#!/usr/bin/env python3
"""Programs of others, unmodified, on the soft NIC's libibverbs and libmlx5. Usage: run.py FOLDER CLIENT

FOLDER has the two libraries; a client is a function below. Exit 77, with the reason, where the
program is not installed.
"""
import gzip
import importlib.util
import os
import random
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
    """Returns its output. Errors: an exit code, a time-out, a line of the soft NIC."""
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
    """ibv_devinfo -v: its description of a ConnectX-7 with one active InfiniBand port"""
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
    # A RoCE port has two addresses, each for both versions.
    text = run(folder, "ibv_devinfo", "-v", GSHNIC_PROFILE="roce")
    expect(text, ["link_layer: Ethernet", "gid_tbl_len: 4",
                  r"GID\[ 0\]: fe80:0000:0000:0000:004e:49ff:fe43:0000, RoCE v1",
                  r"GID\[ 1\]: fe80::4e:49ff:fe43:0, RoCE v2",
                  r"GID\[ 2\]: 0000:0000:0000:0000:0000:ffff:0a00:0001, RoCE v1",
                  r"GID\[ 3\]: ::ffff:10.0.0.1, RoCE v2"])


def free_port():
    """A port that the kernel gives nobody before the server listens there."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as bounds:
        first = int(bounds.read().split()[0])
    while True:
        port = random.randrange(1024, max(first, 2048))
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def listens(port):
    """Returns whether a process of this machine waits for a connection there."""
    with open("/proc/net/tcp", encoding="ascii") as v4, open("/proc/net/tcp6", encoding="ascii") as v6:
        lines = [line.split() for line in [*v4, *v6]]
    return any(words[1].endswith(f":{port:04X}") and words[3] == "0A" for words in lines)


def complaints(text, of_ucx):
    """Returns the soft NIC's lines. UCX leaves old data in fields of its entries that have no meaning."""
    return [line for line in text.splitlines()
            if "soft NIC" in line and not (of_ucx and "a NIC would ignore" in line)]


class Pair:
    """A server and a client, each a process, on one fabric."""

    of_ucx = False

    def __init__(self, folder, *command, **variables):
        self.port = free_port()
        self.fabric = f"gshnic_clients_{os.getpid()}_{self.port}"
        self.env = environment(folder, GSHNIC_FABRIC=self.fabric, **variables)
        self.command = [str(self.port) if word == "PORT" else word for word in command]

    def run(self, *at):
        """Returns the output of each; `at` are the client's further words. Errors: those of run()."""
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
        need(not complaints(client.stdout + answer, self.of_ucx), "the soft NIC remarks something")
        return client.stdout, answer


# A port of InfiniBand and its GID; one of RoCE, and its GIDs of IPv6 for v1 and of IPv4 for v2.
PORTS = (("ib", "0"), ("roce", "0"), ("roce", "3"))


def pingpong(folder):
    """ibv_rc_pingpong, ibv_uc_pingpong and ibv_ud_pingpong: messages in both directions, by polling and by events"""
    path = program("ibv_rc_pingpong", "ibverbs-utils")
    for options in (["-e"], ["-e", "-s", "20000", "-m", "1024", "-r", "3"], ["-e", "-N"],
                    ["-n", "20"]):
        one = Pair(folder, path, "-p", "PORT", "-c", "-g", "0", "-n", "200", *options)
        for text in one.run("localhost"):
            need(re.search(r"\b(200|20) iters in", text) and "invalid data" not in text,
                 "it did not end well")
    for name in ("ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong"):
        for profile, gid in PORTS:
            one = Pair(folder, program(name, "ibverbs-utils"), "-p", "PORT", "-g", gid, "-e", "-n", "100",
                       GSHNIC_PROFILE=profile)
            for text in one.run("localhost"):
                need(re.search(r"\b100 iters in", text), f"{name} on {profile}, GID {gid}: it did not end well")


def srq_pingpong(folder):
    """ibv_srq_pingpong: 16 queue pairs that share a receive queue"""
    path = program("ibv_srq_pingpong", "ibverbs-utils")
    Pair(folder, path, "-p", "PORT", "-c", "-g", "0", "-e", "-n", "400").run("localhost")


def perftest(folder):
    """perftest: its figures, by the extended calls and by ibv_post_send"""
    for name, *options in (["ib_write_bw", "-s", "65536"], ["ib_write_lat"], ["ib_read_lat"],
                           ["ib_read_bw", "-s", "100000"], ["ib_atomic_lat"],
                           ["ib_atomic_lat", "-A", "CMP_AND_SWAP"], ["ib_send_lat", "-e"],
                           ["ib_send_bw", "-r", "8"], ["ib_write_bw", "--use_old_post_send"],
                           ["ib_send_lat", "-e", "--use_old_post_send"],
                           ["ib_send_lat", "-c", "UD"], ["ib_send_bw", "-c", "UD", "-s", "4096"],
                           ["ib_send_lat", "-c", "UD", "--use_old_post_send"],
                           ["ib_write_lat", "-c", "UC"], ["ib_write_bw", "-c", "UC", "-s", "65536"],
                           ["ib_send_lat", "-c", "UC", "-s", "10000"],
                           ["ib_write_lat", "-c", "DC"], ["ib_write_bw", "-c", "DC", "-s", "65536"],
                           ["ib_read_lat", "-c", "DC"], ["ib_read_bw", "-c", "DC", "-s", "100000"],
                           ["ib_send_lat", "-c", "DC"], ["ib_send_bw", "-c", "DC"],
                           ["ib_atomic_lat", "-c", "DC"]):
        path = program(name, "perftest")
        one = Pair(folder, path, "-d", "mlx5_0", "-F", "-p", "PORT", "-n", "20", *options)
        text, _ = one.run("localhost")
        need(re.search(r"^ \d+ +20 +[0-9.]+ ", text, re.M), f"{name}: no row of figures")


def nodes(*settings):
    """Makes /dev and /sys look as with a card, for UCX."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "nodes.sh")
    probe = subprocess.run([path, "true"], capture_output=True, text=True, check=False)
    if probe.returncode == 77:
        raise Skip(probe.stdout.strip())
    # With relaxed ordering, its default on some processors, UCX registers keys of keys.
    return [path, "env", "UCX_IB_PCI_RELAXED_ORDERING=off", *settings]


def go_to_nodes(**variables):
    """Goes on where nodes() are made once for all processes of this client: each time takes as long as a small job."""
    if "GSHNIC_NODES" not in os.environ:
        command = nodes(sys.executable, "-B", *sys.argv)
        os.execve(command[0], command, {**os.environ, **variables})


def ucx(folder):
    """ucx_perftest over rc_mlx5 and dc_mlx5 (queues and commands of its own by DevX), rc_verbs, ud_mlx5 and ud_verbs"""
    path = program("ucx_perftest", "ucx-utils")
    go_to_nodes()
    messages = [["am_lat"], ["am_bw", "-D", "zcopy", "-s", "4000"]]
    memory = [["put_lat"], ["put_bw", "-D", "zcopy", "-s", "100000"], ["get", "-D", "zcopy", "-s", "70000"],
              ["get", "-D", "bcopy"], ["fadd"], ["cswap"], ["fadd", "-s", "4"]]
    by_transport = {
        "rc_mlx5": [*memory, *messages],
        "dc_mlx5": [*memory, *messages],
        "rc_verbs": [["put_lat"], ["fadd"], ["am_lat"]],  # InfiniBand has atomics of 8 bytes only
        "ud_mlx5": messages,
        "ud_verbs": messages,
    }
    for transport, tests in by_transport.items():
        for test in tests:
            one = Pair(folder, path, "-p", "PORT", "-d", "mlx5_0:1", "-x", transport, "-w", "2", "-n",
                       "20", "-t", *test)
            one.of_ucx = transport in ("ud_mlx5", "dc_mlx5")
            text, _ = one.run("127.0.0.1")
            need("Final:" in text, f"{transport} {test}: no figures")


def ucp(folder):
    """ucx_perftest over UCP, which connects its transports by datagrams: tags, memory, atomics, streams"""
    tests = [["tag_lat"], ["tag_bw", "-s", "200000"], ["ucp_put_lat"], ["ucp_fadd"], ["stream_lat"]]
    over_ucp(folder, "ib", {"rc_mlx5": tests, "rc_verbs": tests[:2], "ud_mlx5": tests, "dc_mlx5": tests})


def ucp_roce(folder):
    """The same on a port of RoCE"""
    tests = [["tag_lat"], ["tag_bw", "-s", "200000"]]
    over_ucp(folder, "roce", {"rc_mlx5": tests, "ud_mlx5": tests, "dc_mlx5": tests})


def over_ucp(folder, profile, by_transport):
    path = program("ucx_perftest", "ucx-utils")
    go_to_nodes(GSHNIC_PROFILE=profile)
    for transports, tests in by_transport.items():
        for test in tests:
            one = Pair(folder, path, "-p", "PORT", "-w", "2", "-n", "20", "-t", *test,
                       UCX_TLS=f"{transports},ud_mlx5,self", UCX_NET_DEVICES="mlx5_0:1")
            one.of_ucx = True
            text, _ = one.run("127.0.0.1")
            need("Final:" in text, f"{transports} on {profile} {test}: no figures")


MPI_PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char** argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int wrong = 0;
  for (int n = 1; n <= 1 << 18; n *= 8) {
    int *out = malloc(sizeof(int) * n), *in = malloc(sizeof(int) * n), to = (rank + 1) % size;
    for (int i = 0; i < n; ++i) out[i] = rank * 1000003 + i;
    int from = (rank + size - 1) % size;
    MPI_Sendrecv(out, n, MPI_INT, to, 1, in, n, MPI_INT, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < n; ++i) wrong += in[i] != from * 1000003 + i;
    MPI_Allreduce(out, in, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < n; ++i) wrong += in[i] != size * (size - 1) / 2 * 1000003 + size * i;
    free(out), free(in);
  }
  printf("rank %d of %d: %d wrong\n", rank, size, wrong);
  MPI_Finalize();
  return wrong != 0;
}
"""


def openmpi(folder):
    """Open MPI over UCX: three ranks send around and add up, by connections and by one initiator for all"""
    compiler, mpirun = program("mpicc", "libopenmpi-dev"), program("mpirun", "openmpi-bin")
    with tempfile.TemporaryDirectory() as work:
        source, binary = os.path.join(work, "around.c"), os.path.join(work, "around")
        with open(source, "w", encoding="ascii") as file:
            file.write(MPI_PROGRAM)
        subprocess.run([compiler, source, "-o", binary], check=True)
        for settings in (["UCX_TLS=rc_mlx5,ud_mlx5,self"],
                         ["UCX_TLS=dc_mlx5,self", "UCX_DC_MLX5_NUM_DCI=1", "UCX_DC_MLX5_TX_POLICY=rand"]):
            around(folder, mpirun, binary, nodes(*settings, "UCX_NET_DEVICES=mlx5_0:1"))


def around(folder, mpirun, binary, prefix):
    fabric = f"gshnic_clients_{os.getpid()}_mpi"
    command = [mpirun, "--allow-run-as-root", "--oversubscribe", "-np", "3", "--mca", "pml", "ucx", "--mca", "osc",
               "ucx", "--mca", "btl", "^vader,tcp,openib", *prefix, binary]
    try:
        done = subprocess.run(command, env=environment(folder, GSHNIC_FABRIC=fabric), capture_output=True, text=True,
                              timeout=SECONDS, check=False)
    finally:
        if os.path.exists("/dev/shm/" + fabric):
            os.unlink("/dev/shm/" + fabric)
    print("$", *command, done.stdout, done.stderr, sep="\n")
    need(done.returncode == 0, f"exit code {done.returncode}")
    expect(done.stdout, [f"rank {rank} of 3: 0 wrong" for rank in range(3)])
    need(not complaints(done.stderr, of_ucx=True), "the soft NIC remarks something")


def nixl(folder):
    """NIXL's wheel with the UCX that it brings: an agent writes another's memory, reads it, and notifies it"""
    # .ci/setup puts the package here; another one may be installed.
    root = os.path.abspath(os.path.join(os.path.dirname(__file__), *[".."] * 4))
    sys.path.append(os.path.join(root, ".deps", "python"))
    found = [spec for name in ("nixl_cu13", "nixl_cu12") if (spec := importlib.util.find_spec(name))]
    if not found:
        raise Skip("there is no NIXL (PyPI: nixl-cu12, with numpy)")
    package = os.path.dirname(found[0].origin)
    # The wheel has verbs of its own under names of its own.
    libraries = os.path.join(os.path.dirname(package), os.path.basename(package) + ".libs")
    with tempfile.TemporaryDirectory() as work:
        for name in os.listdir(libraries):
            if match := re.match(r"(libibverbs|libmlx5)-[0-9a-f]+\.so", name):
                os.symlink(os.path.join(folder, match.group(1) + ".so.1"), os.path.join(work, name))
        os.symlink(os.path.join(folder, "libgshnic.so"), os.path.join(work, "libgshnic.so"))
        agent = os.path.join(os.path.dirname(os.path.abspath(__file__)), "nixl_agent.py")
        for transports in ("rc_mlx5,ud_mlx5,self", "rc_verbs,ud_verbs,self"):  # it is built without DC
            exchange = tempfile.mkdtemp(dir=work)
            fabric = f"gshnic_clients_{os.getpid()}_nixl"
            prefix = nodes(f"UCX_TLS={transports}", "UCX_NET_DEVICES=mlx5_0:1", sys.executable, "-B", agent)
            env = environment(work, GSHNIC_FABRIC=fabric, PYTHONPATH=os.pathsep.join(sys.path))
            agents = [subprocess.Popen([*prefix, role, exchange], env=env, stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT, text=True) for role in ("source", "sink")]
            try:
                said = [one.communicate(timeout=SECONDS)[0] for one in agents]
            finally:
                for one in agents:
                    one.kill()
                if os.path.exists("/dev/shm/" + fabric):
                    os.unlink("/dev/shm/" + fabric)
            print(*said, sep="\n")
            for role, text in zip(("source", "sink"), said):
                expect(text, [f"{role}: 0 wrong"])
                need(not complaints(text, of_ucx=True), "the soft NIC remarks something")


RDMA_CORE_TESTS = "/usr/share/doc/rdma-core/tests"
# Features that the soft NIC lacks: regions and queues that change, memory of the device, steering of packets, huge
# pages, objects of another process, libmlx5's MLX5_CQE_SIZE.
LACKING = ["test_mr_rereg_access", "test_mr_rereg_access_bad_flow", "test_mr_rereg_addr", "test_mr_rereg_pd",
           "test_dm_atomic_ops", "test_parallel_dm_atomic_ops", "test_packet_reformat",
           "test_tx_packet_reformat", "test_prefer_obj_on_huge", "test_imported_rc_ex_rdma_write",
           "test_dv_cq_cqe_size_with_bad_size", "test_resize_cq"]


def rdma_core(folder):
    """rdma-core's own tests, which its package has among its documentation, with those of DevX"""
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
    need(good >= 70, f"only {good} went well")
    for test in ("test_devx_rc_qp_send_imm_traffic", "test_dc_rdma_write", "test_dc_send"):
        need(re.search(rf"^{test} .*\n?.* ok$", done.stderr, re.M), f"not {test}")


CLIENTS = [devices, devinfo, pingpong, srq_pingpong, perftest, ucx, ucp, ucp_roce, openmpi, nixl, rdma_core]


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
