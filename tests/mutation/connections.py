"""Bugs of the control path of a ConnectX that a test over the soft NIC must catch: exact texts of
transport/nic/mlx5 and what stands there instead. As a rule each would keep a card from working.
"""
from collections import namedtuple

Connection = namedtuple("Connection", "name file old new")

CONNECTION, COMMANDS, MEMORY, DEVICE, REGISTERS = (
    f"transport/nic/mlx5/{name}.cpp"
    for name in ("connection", "commands", "memory", "device", "registers"))

CONNECTIONS = [
    # What the ends tell each other.
    Connection("psn_of_the_own_end", CONNECTION, "rtr.receive_psn = remote.psn;", "rtr.receive_psn = psn_;"),
    Connection("psn_one_later", CONNECTION, ".send_psn = psn_,", ".send_psn = psn_ + 1,"),
    Connection("psn_not_told", CONNECTION, "wire.psn = psn_;", "wire.psn = 0;"),
    Connection("mtu_of_the_own_end", CONNECTION, "smaller(remote.mtu, device_", "smaller(7, device_"),
    Connection("mtu_of_the_other_end", CONNECTION, "smaller(remote.mtu, device_.port_attributes.active_mtu)",
               "remote.mtu"),
    Connection("lid_of_the_own_end", CONNECTION, "rtr.remote_lid = remote.lid;",
               "rtr.remote_lid = device_.port_attributes.lid;"),
    Connection("number_of_the_own_end", CONNECTION, "rtr.remote_number = remote.number;",
               "rtr.remote_number = qp_.number;"),
    Connection("number_of_the_completion_queue", CONNECTION, "wire.number = qp_.number;",
               "wire.number = cq_.number;"),
    Connection("more_reads_than_the_target_answers", COMMANDS,
               "qp.set(Qp::kLogReadsIn, spec.log_reads_in);", "qp.set(Qp::kLogReadsIn, 0);"),
    Connection("port_that_is_not_there", CONNECTION, "rtr.port = static_cast<std::uint32_t>(device_.port);",
               "rtr.port = 2;"),
    Connection("mac_of_nobody", DEVICE, "std::memcpy(mac.data(), out.av->rmac, mac.size());", ""),
    # Rights and modes.
    Connection("no_remote_write", COMMANDS, "  qp.set(Qp::kRemoteWrite, 1);\n", ""),
    Connection("no_remote_read", COMMANDS, "  qp.set(Qp::kRemoteRead, 1);\n", ""),
    Connection("no_remote_atomic", COMMANDS, "  qp.set(Qp::kRemoteAtomic, 1);\n", ""),
    Connection("atomic_mode_of_infiniband", COMMANDS, "qp.set(Qp::kAtomicMode, prm::kAtomicUpTo8);",
               "qp.set(Qp::kAtomicMode, 1);"),
    Connection("unreliable_connection", COMMANDS, "qp.set(Qp::kServiceType, prm::kServiceRc);",
               "qp.set(Qp::kServiceType, 1);"),
    Connection("key_without_remote_write", MEMORY, "IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV",
               "IBV_ACCESS_LOCAL_WRITE | IBV"),
    Connection("key_without_atomics", MEMORY, "IBV_ACCESS_REMOTE_READ |\n               IBV_ACCESS_REMOTE_ATOMIC;",
               "IBV_ACCESS_REMOTE_READ;"),
    Connection("wait_for_answers_without_end", CONNECTION,
               ".ack_timeout = static_cast<std::uint32_t>(config.ib_timeout)", ".ack_timeout = 0"),
    # States.
    Connection("never_initialized", CONNECTION, "  to_init();\n}", "}"),
    Connection("never_ready_to_receive", CONNECTION,
               '  modify_qp(device_.api, qp_, "INIT2RTR", encode_rtr(qp_.number, rtr));\n', ""),
    Connection("never_ready_to_send", CONNECTION,
               '  modify_qp(device_.api, qp_, "RTR2RTS", encode_rts(qp_.number, rts));\n', "  (void)rts;\n"),
    Connection("command_of_another_state", COMMANDS, "set_opcode(in, Opcode::kRtr2Rts);",
               "set_opcode(in, Opcode::kInit2Rtr);"),
    # Memory and registers of a queue.
    Connection("pages_larger_than_the_places", MEMORY, "return largest * 2 - kSmallest;",
               "return (std::uint64_t{largest > 0} << 32) - kSmallest;"),
    Connection("pages_smaller_than_the_hosts", MEMORY, "return largest * 2 - kSmallest;",
               "return largest * 32;"),
    Connection("entries_of_another_queue", COMMANDS, "in.set(In::kUmemOffset, spec.entries);",
               "in.set(In::kUmemOffset, 0);"),
    Connection("completion_among_the_entries", CONNECTION, ".entry = place.completion,",
               ".entry = place.entries,"),
    Connection("record_of_the_completion_queue", CONNECTION, ".record = place.record,\n",
               ".record = place.cq_record,\n"),
    Connection("twice_the_entries", COMMANDS, "qp.set(Qp::kLogSendQueue, spec.log_entries);",
               "qp.set(Qp::kLogSendQueue, spec.log_entries + 1);"),
    Connection("overrun_not_ignored", COMMANDS, "  cq.set(Cq::kIgnoreOverrun, 1);\n", ""),
    Connection("no_record_unasked", COMMANDS, "spec.no_record ? prm::kRecordNone : 0", "prm::kRecordNone"),
    Connection("no_record_unknown_to_the_card", COMMANDS, "spec.no_record ? prm::kRecordNone : 0", "0"),
    Connection("no_record_by_the_other_register", REGISTERS, "if (device.caps.no_record) address", "if (false) address"),
    Connection("no_record_by_the_page_of_the_host", REGISTERS, "constexpr std::uintptr_t kUarBytes = 4096;",
               "constexpr std::uintptr_t kUarBytes = 65536;"),
    Connection("register_of_another_page", CONNECTION, ".uar_page = bell_.page_id,\n                   .pd",
               ".uar_page = bell_.page_id + 1,\n                   .pd"),
    Connection("protection_domain_of_nobody", COMMANDS, "qp.set(Qp::kPd, spec.pd);",
               "qp.set(Qp::kPd, spec.pd + 1);"),
    Connection("events_to_nobody", COMMANDS, "cq.set(Cq::kEventQueue, spec.event_queue);",
               "cq.set(Cq::kEventQueue, 77);"),
]
