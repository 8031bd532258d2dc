"""Bugs of the control path of a ConnectX, and of connections on first use, that a test over the soft
NIC must catch: exact texts of transport/nic and their replacements. Most of them would keep a card from
working.
"""
from collections import namedtuple

Connection = namedtuple("Connection", "name file old new")

CONNECTION, COMMANDS, MEMORY, DEVICE, REGISTERS = (
    f"transport/nic/mlx5/{name}.cpp"
    for name in ("connection", "commands", "memory", "device", "registers"))
NIC = "transport/nic/mlx5/mlx5_nic.cpp"
FIRST_USE, QUEUES = "transport/nic/first_use.cpp", "transport/nic/queue_set.cpp"

CONNECTIONS = [
    # Messages between the ends.
    Connection("psn_of_the_own_end", CONNECTION, "rtr.receive_psn = remote.psn;", "rtr.receive_psn = psn_;"),
    Connection("psn_one_later", CONNECTION, ".send_psn = psn_,", ".send_psn = psn_ + 1,"),
    Connection("psn_not_told", CONNECTION, "wire.psn = psn;", "wire.psn = 0;"),
    Connection("mtu_of_the_own_end", CONNECTION, "smaller(remote.mtu, device_", "smaller(7, device_"),
    Connection("mtu_of_the_other_end", CONNECTION, "smaller(remote.mtu, device_.port_attributes.active_mtu)",
               "remote.mtu"),
    Connection("lid_of_the_own_end", CONNECTION, "rtr.remote_lid = remote.lid;",
               "rtr.remote_lid = device_.port_attributes.lid;"),
    Connection("number_of_the_own_end", CONNECTION, "rtr.remote_number = remote.number;",
               "rtr.remote_number = qp_.number;"),
    Connection("number_of_the_completion_queue", CONNECTION, "connect_info(device_, qp_.number, psn_)",
               "connect_info(device_, cq_.number, psn_)"),
    Connection("more_reads_than_the_target_answers", COMMANDS,
               "qp.set(Qp::kLogReadsIn, spec.log_reads_in);", "qp.set(Qp::kLogReadsIn, 0);"),
    Connection("port_that_is_not_there", CONNECTION, "rtr.port = static_cast<std::uint32_t>(device_.port);",
               "rtr.port = 2;"),
    Connection("mac_of_nobody", DEVICE, "std::memcpy(mac.data(), av.rmac, mac.size());", ""),
    Connection("networks_not_compared", NIC, "  if (!common) return;\n", "  return;\n"),
    # Rights and modes.
    Connection("no_remote_write", COMMANDS, "  qp.set(Qp::kRemoteWrite, 1);\n", ""),
    Connection("no_remote_read", COMMANDS, "  qp.set(Qp::kRemoteRead, 1);\n", ""),
    Connection("no_remote_atomic", COMMANDS, "  qp.set(Qp::kRemoteAtomic, 1);\n", ""),
    Connection("atomic_mode_of_infiniband", COMMANDS, "qp.set(Qp::kAtomicMode, prm::kAtomicUpTo8);",
               "qp.set(Qp::kAtomicMode, 1);"),
    Connection("unreliable_connection", COMMANDS, "prm::kServiceDci : prm::kServiceRc);",
               "prm::kServiceDci : 1);"),
    Connection("key_without_remote_write", MEMORY, "access |= IBV_ACCESS_REMOTE_WRITE | IBV", "access |= IBV"),
    Connection("key_without_atomics", MEMORY, "IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;",
               "IBV_ACCESS_REMOTE_READ;"),
    Connection("wait_for_answers_without_end", CONNECTION,
               ".ack_timeout = static_cast<std::uint32_t>(config.ib_timeout)", ".ack_timeout = 0"),
    # Relaxed ordering.
    Connection("signals_by_the_relaxed_key", NIC,
               "keys.remote = enter(Order::kRelaxed).rkey;", "keys.remote = keys.atomic = enter(Order::kRelaxed).rkey;"),
    Connection("relaxed_quiets_without_reads", QUEUES, "config_.ib_relaxed_ordering || config_.quiet",
               "config_.quiet"),
    # Reads into a GPU.
    Connection("no_dump_with_completions_in_host_memory", NIC, "queue_kind == MemoryKind::kHost ||",
               "(data_direct_ && queue_kind == MemoryKind::kHost) ||"),
    Connection("no_dump_for_a_gpu_without_order", NIC, "(!use_.gpu_orders_writes || ", "("),
    Connection("no_dump_after_waits", NIC, "limits.flags |= abi::kNicInboundTrails;", ";"),
    # States.
    Connection("never_initialized", CONNECTION, "  to_init(memory.target);\n", ""),
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
    Connection("no_record_by_the_other_register", REGISTERS, "if (device.caps.no_record) address",
               "if (device.caps.no_record && false) address"),
    Connection("no_record_by_the_page_of_the_host", REGISTERS, "constexpr std::uintptr_t kUarBytes = 4096;",
               "constexpr std::uintptr_t kUarBytes = 65536;"),
    Connection("register_of_another_page", CONNECTION, ".uar_page = bell_.page_id,\n                   .pd",
               ".uar_page = bell_.page_id + 1,\n                   .pd"),
    Connection("protection_domain_of_nobody", COMMANDS, "qp.set(Qp::kPd, spec.pd);",
               "qp.set(Qp::kPd, spec.pd + 1);"),
    Connection("events_to_nobody", COMMANDS, "cq.set(Cq::kEventQueue, spec.event_queue);",
               "cq.set(Cq::kEventQueue, 77);"),
    # On first use: the messages of two PEs.
    Connection("question_not_seen", FIRST_USE, "for (const Pair& pair : queues_.asked()) {",
               "for (const Pair& pair : std::vector<Pair>{}) {"),
    Connection("question_by_the_first_queue_only", QUEUES, "std::any_of(uses, uses + per_pe,",
               "std::any_of(uses, uses + 1,"),
    Connection("offered_again_with_each_question", FIRST_USE, "  if (stage != Stage::kNothing) return;", ""),
    Connection("offer_not_answered", FIRST_USE, "    return send(Kind::kAnswer, pair, mine);\n", "    return;\n"),
    Connection("answer_of_the_queues_that_were_offered", FIRST_USE, "send(Kind::kAnswer, pair, mine);",
               "send(Kind::kAnswer, pair, theirs);"),
    Connection("answer_about_another_context", FIRST_USE, "const Header header{kind, pair.context};",
               "const Header header{kind, 0};"),
    Connection("answered_unconnected", FIRST_USE,
               "    queues_.connect(pair, theirs);\n    stage = Stage::kConnected;\n    return send",
               "    stage = Stage::kConnected;\n    return send"),
    Connection("connected_to_the_own_queues", FIRST_USE,
               "    queues_.connect(pair, theirs);\n    stage = Stage::kConnected;\n    return send",
               "    queues_.connect(pair, mine);\n    stage = Stage::kConnected;\n    return send"),
    Connection("offering_end_unconnected", FIRST_USE,
               "    queues_.connect(pair, theirs);\n    stage = Stage::kConnected;\n    send(",
               "    stage = Stage::kConnected;\n    send("),
    Connection("answer_not_confirmed", FIRST_USE, "    send(Kind::kConfirm, pair, {});\n", ""),
    Connection("crossing_offer_refused", FIRST_USE, "if (header.kind != Kind::kConfirm && stage == Stage::kOffered) {",
               "if (header.kind == Kind::kAnswer && stage == Stage::kOffered) {"),
    Connection("crossing_offer_releases", FIRST_USE,
               "    if (header.kind == Kind::kOffer) return;", ""),
    Connection("never_released", FIRST_USE, "  queues_.release(pair);\n  stage = Stage::kReleased;\n}\n\nvoid FirstUse::send",
               "  stage = Stage::kReleased;\n}\n\nvoid FirstUse::send"),
    Connection("own_pe_never_released", FIRST_USE, "  queues_.connect(pair, mine);\n  queues_.release(pair);\n",
               "  queues_.connect(pair, mine);\n"),
    Connection("number_of_another_queue", QUEUES, "uses[i].number, queues[i].own.created.number",
               "uses[i].number, queues[0].own.created.number"),
    Connection("released_by_its_own_pe", QUEUES, "static_cast<std::size_t>(pair.pe) * queues.size();",
               "static_cast<std::size_t>(my_pe_) * queues.size();"),
    Connection("failure_not_told", FIRST_USE,
               "    outside_.on_error(Error(known", "    (void)(Error(known"),
]

# Names of tests in steps, the short ones first. The soft NIC refuses these, or does not answer, like a ConnectX; or
# they fail before the first post.
OVER_SOFT_NIC = [r"(mlx5_nic_test|mlx5_soft_test)\..*",
                 r"spmd\.(soft_rails_mpirun_2|soft_roce_2|soft_adversary_relaxed_3_11)|"
                 r"errors\.(a_|burst|entries|every_call_w|local|message|remote|retries|target).*"]
FIRST_USE_TESTS = [r"nic_queue_set_test\..*|launch\.first_use.*",
                   r"spmd\.soft_first_use_3.*|errors\..*first_use.*"]


def tests_of(file):
    return OVER_SOFT_NIC if file.startswith("transport/nic/mlx5/") else FIRST_USE_TESTS
