#!/usr/bin/env python3
"""The address fields of gshmem's RoCE connections against packets of the kernel's Soft-RoCE.

wire.py send PATH_BYTES, in the virtual machine with rxe0 and rxe1: connects two queue pairs of the kernel, writes by
them, and prints the first packet on the cable. For the same path it prints the command of gshmem (path_bytes).
wire.py check FILE, outside: decodes the commands by the table that rdma-core's developers use on hardware
(mlx5_prm_structs.py), and compares what a card has to put on the wire with what the kernel has put there. The rules are
those of InfiniBand annex A17 (RoCE v2): GIDs as IP addresses, the traffic class, UDP ports.
"""
import gzip
import os
import re
import socket
import struct
import subprocess
import sys
import types

TABLE = "/usr/share/doc/rdma-core/tests/mlx5_prm_structs.py"
ROCE_PORT = 4791
CLASSES = (0, 0x68, 0xb8)  # traffic classes: none, DSCP 26 and 46
PRIORITY, HOPS, PORT = 5, 255, 0xcafe


def mac_of(interface):
    with open(f"/sys/class/net/{interface}/address", encoding="ascii") as file:
        return file.read().strip()


def gid_index(device, ending):
    folder = f"/sys/class/infiniband/{device}/ports/1/gids"
    for name in sorted(os.listdir(folder), key=int):
        with open(f"{folder}/{name}", encoding="ascii") as file:
            if file.read().strip().endswith(ending):
                return int(name)
    sys.exit(f"{device} has no GID that ends with {ending}")


def connect(traffic_class):
    """Two connected queue pairs of the kernel, and memory."""
    # pylint: disable=import-outside-toplevel
    import pyverbs.enums as e
    from pyverbs.addr import AHAttr, GlobalRoute
    from pyverbs.cq import CQ
    from pyverbs.device import Context
    from pyverbs.mr import MR
    from pyverbs.pd import PD
    from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr

    rights = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE
    ends = []
    for n in (0, 1):
        context = Context(name=f"rxe{n}")
        pd, cq = PD(context), CQ(context, 8)
        qp = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(4, 4, 1, 1)))
        index = gid_index(f"rxe{n}", f"ffff:0a01:0{n}01")
        ends.append(types.SimpleNamespace(context=context, pd=pd, cq=cq, qp=qp, index=index,
                                          gid=context.query_gid(1, index), mr=MR(pd, 64, rights)))
    for end, other in (ends, ends[::-1]):
        route = GlobalRoute(dgid=other.gid, sgid_index=end.index)
        route.traffic_class, route.hop_limit = traffic_class, HOPS
        attr = QPAttr(port_num=1)
        attr.qp_access_flags = rights
        attr.dest_qp_num = other.qp.qp_num
        attr.path_mtu = e.IBV_MTU_1024
        attr.timeout, attr.retry_cnt, attr.rnr_retry, attr.min_rnr_timer = 18, 7, 7, 12
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
        attr.ah_attr = AHAttr(gr=route, is_global=1, port_num=1)
        end.qp.to_rts(attr)
    return ends


def first_packet(ends):
    """Writes from the first end to the other, and returns the packet as it leaves."""
    # pylint: disable=import-outside-toplevel
    import pyverbs.enums as e
    from pyverbs.wr import SGE, SendWR

    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as cable:  # ETH_P_ALL
        cable.bind(("v0", 0))
        cable.settimeout(60)
        here, there = ends
        request = SendWR(opcode=e.IBV_WR_RDMA_WRITE, num_sge=1, sg=[SGE(here.mr.buf, 8, here.mr.lkey)])
        request.set_wr_rdma(there.mr.rkey, there.mr.buf)
        here.qp.post_send(request)
        while True:
            packet, (_, _, kind, _, _) = cable.recvfrom(2048)
            is_udp = packet[12:14] == b"\x08\x00" and packet[23] == socket.IPPROTO_UDP
            if kind == socket.PACKET_OUTGOING and is_udp and struct.unpack_from(">H", packet, 36)[0] == ROCE_PORT:
                return packet


def send(path_bytes):
    print("macs", mac_of("v0"), mac_of("v1"))
    for traffic_class in CLASSES:
        packet = first_packet(connect(traffic_class))
        print("packet", traffic_class, packet.hex())
        path = subprocess.run([path_bytes, "rxe0", "rxe1", mac_of("v1"), "-1", str(traffic_class), str(PRIORITY),
                               str(HOPS), str(PORT)], capture_output=True, text=True, check=True).stdout.strip()
        print("path", traffic_class, path, flush=True)
    print("gid", gid_index("rxe0", "ffff:0a01:0001"))


class Field:
    """A field of scapy: a name and a number of bits."""

    def __init__(self, name, bits):
        self.name, self.bits = name, bits


def third_party_path():
    """Returns the fields of SwAds, the address path, as (name, bits) in order."""
    table = TABLE if os.path.exists(TABLE) else TABLE + ".gz"
    if not os.path.exists(table):
        print("skipped: there is no table of rdma-core (Debian: python3-pyverbs)")
        sys.exit(77)
    with (gzip.open if table.endswith(".gz") else open)(table, "rt", encoding="utf-8") as file:
        text = re.search(r"class SwAds\(Packet\):\n    fields_desc = \[\n(.*?)\n\n?    \]", file.read(), re.S).group(1)
    kinds = {"BitField": None, "ByteField": 8, "ShortField": 16, "IntField": 32, "MACField": 48}
    fields = []
    for kind, name, rest in re.findall(r"^        (\w+)\('(\w+)',(.*)$", text, re.M):
        if kind == "FieldListField":
            bits = 4 * 32
        else:
            bits = kinds[kind] or int(re.search(r"(\d+)\)", rest).group(1))
        fields.append(Field(name, bits))
    assert sum(field.bits for field in fields) == 44 * 8, [vars(field) for field in fields]
    return fields


def decode(command):
    """The path of a command, modify_qp_in: the queue pair's context is at 0x18, its primary path 0x18 after that."""
    value, left, path = int.from_bytes(command[0x30:0x30 + 44], "big"), 44 * 8, {}
    for field in third_party_path():
        left -= field.bits
        path[field.name] = value >> left & ((1 << field.bits) - 1)
    return path


def check(name):
    with open(name, encoding="utf-8", errors="replace") as file:
        lines = [line.split() for line in file]
    macs = [line[1:3] for line in lines if line[:1] == ["macs"]][0]
    index = int([line[1] for line in lines if line[:1] == ["gid"]][0])
    found = {(line[0], int(line[1])): bytes.fromhex(line[2]) for line in lines if line[:1] in (["packet"], ["path"])}
    for traffic_class in CLASSES:
        packet, path = found["packet", traffic_class], decode(found["path", traffic_class])
        source, dest = (packet[26:30], packet[30:34])
        seen = {
            "destination MAC": packet[0:6].hex(":"), "source MAC": packet[6:12].hex(":"),
            "version of IP": packet[14] >> 4, "type of service": packet[15],
            "destination GID": bytes(10).hex() + "ffff" + dest.hex(), "source": socket.inet_ntoa(source),
            "UDP port": struct.unpack_from(">H", packet, 36)[0],
        }
        made = {
            "destination MAC": path["rmac"].to_bytes(6, "big").hex(":"), "source MAC": macs[0],
            "version of IP": 4, "type of service": path["tclass"],
            "destination GID": f"{path['rgid_rip']:032x}", "source": "10.1.0.1", "UDP port": ROCE_PORT,
        }
        print(f"class 0x{traffic_class:02x}: {seen}")
        assert seen == made, f"gshmem has asked for {made}"
        assert seen["destination MAC"] == macs[1] and traffic_class == seen["type of service"]
        assert path["src_addr_index"] == index, f"{path} for GID {index}"
        # The kernel takes the hop limit of the route, gshmem its own; both may be any that is not 0.
        assert packet[22] > 0 and path["hop_limit"] == HOPS, path
        # Source ports are those of the upper quarter: the kernel's by a hash.
        kernels = struct.unpack_from(">H", packet, 34)[0]
        assert kernels >= 0xc000 and path["udp_sport"] == PORT, (kernels, path)
        # What the kernel's mlx5 driver has for the same attributes; no packet of Soft-RoCE shows it.
        assert path["dscp"] == traffic_class >> 2 and path["eth_prio"] == PRIORITY and path["grh"] == 0, path
    print(f"{len(CLASSES)} paths have the addresses of the kernel's packets")


if __name__ == "__main__":
    {"send": send, "check": check}[sys.argv[1]](sys.argv[2])
