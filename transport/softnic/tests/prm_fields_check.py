#!/usr/bin/env python3
"""Fields of the firmware against a third party's table: rdma-core's, as its package installs it.

Usage: prm_fields_check.py FIELDS
FIELDS is transport/softnic/verbs/prm_fields.def. The other table is tests/mlx5_prm_structs.py of
rdma-core, which its developers run on hardware; Debian's python3-pyverbs has it among its
documentation. It is evaluated with classes of our own in the place of scapy's, which only note how
many bits a field has. Exit 77: it is not there.
"""
import gzip
import os
import re
import sys
import types

TABLE = "/usr/share/doc/rdma-core/tests/mlx5_prm_structs.py"

# The firmware's structures by their names in that table, and their offsets in its structures.
STRUCTURES = {
    "in": "CreateQpIn", "out": "CreateQpOut", "object": "ModifyQpIn",
    "create_cq_in": "CreateCqIn", "cqc": "SwCqc", "qp_in": "ModifyQpIn", "create_qp_in": "CreateQpIn",
    "qpc": "SwQpc", "ads": "SwAds", "query_hca_cap_in": "QueryHcaCapIn", "cmd_hca_cap": "CmdHcaCap",
    "query_hca_vport_context_in": "QueryHcaVportContextIn", "hca_vport_context": "HcaVportContext",
}
# The firmware's names of fields that have other names there.
NAMES = {
    "object.number": "qpn", "cqc.cqe_comp_en": "cqe_compression_en", "qpc.rlky": "rlkey",
    "qpc.srqn": "srqn_rmpn_xrqn", "cmd_hca_cap.log_max_srq": "log_max_srqs",
    "create_cq_in.cq_umem_offset": "e_mtt_pointer_or_cq_umem_offset",
    "create_qp_in.wq_umem_offset": "e_mtt_pointer_or_wq_umem_offset",
}
LEAST = 140  # fields that must have been found, otherwise this script reads one of the tables wrongly


class Field:
    """A field of scapy: a name and a number of bits."""

    def __init__(self, name, bits):
        self.name = name
        self.bits = bits


def fixed(bits):
    return lambda name, *_, **__: Field(name, bits)


def bits_of(packet):
    return sum(field.bits for field in packet.fields_desc)


def of_packet(name, default, *_, **__):
    return Field(name, bits_of(default))


def of_list(name, default, field=None, count_from=None, **_):
    return Field(name, field.bits * count_from(None))


def load():
    """The module's structures, by name."""
    fields = types.ModuleType("scapy.fields")
    fields.BitField = lambda name, default, size, *_: Field(name, size)
    fields.ByteField, fields.ShortField = fixed(8), fixed(16)
    fields.IntField, fields.LongField = fixed(32), fixed(64)
    fields.IPField, fields.MACField = fixed(32), fixed(48)
    fields.StrFixedLenField = lambda name, default, length, *_: Field(name, 8 * length)
    fields.PacketField = of_packet
    fields.PacketListField = lambda name, *_, **__: Field(name, 0)  # at the end only
    fields.FieldListField = of_list
    fields.ConditionalField = lambda field, *_: field
    fields.PadField = lambda field, align, *_, **__: Field(
        field.name, -(-field.bits // (8 * align)) * 8 * align)
    fields.MultipleTypeField = lambda choices, default: default
    packet = types.ModuleType("scapy.packet")
    packet.Packet = type("Packet", (), {"fields_desc": []})
    inet6 = types.ModuleType("scapy.layers.inet6")
    inet6.IP6Field = fixed(128)
    for name, module in (("scapy", types.ModuleType("scapy")), ("scapy.packet", packet),
                         ("scapy.fields", fields), ("scapy.layers", types.ModuleType("scapy.layers")),
                         ("scapy.layers.inet6", inet6)):
        sys.modules[name] = module
    if os.path.exists(TABLE):
        with open(TABLE, encoding="utf-8") as file:
            source = file.read()
    elif os.path.exists(TABLE + ".gz"):
        with gzip.open(TABLE + ".gz", "rt", encoding="utf-8") as file:
            source = file.read()
    else:
        print(f"skipped: {TABLE} is not there (Debian: python3-pyverbs)")
        sys.exit(77)
    space = {"__name__": "mlx5_prm_structs"}
    exec(compile(source, TABLE, "exec"), space)  # pylint: disable=exec-used
    return space


def places(structure):
    """Returns word, high and low bit of each field, by name, or the first word of several."""
    found, at = {}, 0
    for field in structure.fields_desc:
        low = 31 - (at % 32 + field.bits - 1) if at % 32 + field.bits <= 32 else 0
        found[field.name] = (at // 32 * 4, 31 - at % 32, low, field.bits)
        at += field.bits
    return found


def rows(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    for structure, name, byte, high, low in re.findall(
            r"^GSHNIC_FIELD\((\w+), (\w+), (0x\w+), (\d+), (\d+), \w+\)", text, re.M):
        yield structure, name, (int(byte, 16), int(high), int(low), int(high) - int(low) + 1)
    for structure, name, byte in re.findall(r"^GSHNIC_FIELD64\((\w+), (\w+), (0x\w+), \w+\)", text, re.M):
        yield structure, name, (int(byte, 16), 31, 0, 64)


def main():
    theirs = load()
    equal, differ, unknown = 0, [], []
    for structure, name, place in rows(sys.argv[1]):
        full = f"{structure}.{name}"
        known = theirs.get(STRUCTURES.get(structure))
        other = places(known).get(NAMES.get(full, name)) if known else None
        if other is None:
            unknown.append(full)
        elif other == place:
            equal += 1
        else:
            differ.append(f"{full}: {place}, rdma-core has {other}")
    print(f"{equal} fields are where rdma-core has them; it has no {', '.join(unknown)}")
    print(*differ, sep="\n")
    return 1 if differ or equal < LEAST else 0


if __name__ == "__main__":
    sys.exit(main())
