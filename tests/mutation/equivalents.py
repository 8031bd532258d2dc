"""Random changes of host code after which nothing is worse: the line before, after, and why.

Equivalent(file, old, new, reason): the lines without indentation, as mutate.py --random prints
them. A row that is no change of its file any more fails runs by hand.
"""
from collections import namedtuple

Equivalent = namedtuple("Equivalent", "file old new reason")

EQUIVALENT = [
    Equivalent("host/runtime/pe_network.cpp",
               "gpu_ ? gpu_->device() : -1, heap_mapping_.get()};",
               "gpu_ ? gpu_->device() : -2, heap_mapping_.get()};",
               "memory of the host is on no GPU, and its number is not looked at"),
    Equivalent("host/info/doctor/config_space.cpp",
               "for (std::size_t step = 0; step < (kSpaceBytes - kExtendedStart) / 4; ++step) {",
               "for (std::size_t step = 1; step < (kSpaceBytes - kExtendedStart) / 4; ++step) {",
               "a bound for lists that are circles; none has that many entries"),
    Equivalent("transport/ofi/work_queue.cpp",
               "closed_ = true;",
               "closed_ = false;",
               "the next error finds the queue failed already; only memory of a few operations"
               " is used"),
    Equivalent("transport/ofi/active_messages_request.cpp",
               "post_receive(buffer);",
               "{}",
               "a receive less for each late reply of a peer that is lost, which had one for "
               "each of its own"),
    Equivalent("host/runtime/process.cpp",
               "thrown = std::current_exception();",
               "{}",
               "on a GPU only, which a build without CUDA does not have"),
    Equivalent("transport/ofi/work_queue.cpp",
               "why.text += \"\\n\" + nic::dump_wqe(bytes.data(), known); closed_ = true;",
               "why.text += \"\\n\" + nic::dump_wqe(bytes.data(), known); closed_ = false;",
               "what stands behind a failure is fetched then, but not issued"),
    Equivalent("host/base/board.cpp",
               "10; // between looks at what interrupts a wait, which need not wake anybody",
               "11; // between looks at what interrupts a wait, which need not wake anybody",
               "a millisecond more"),
    Equivalent("bootstrap/uid/uid.cpp",
               "constexpr double kHour = 3600;",
               "constexpr double kHour = 3601;",
               "a second more in an hour"),
    Equivalent("host/control/host_collectives.cpp",
               "const std::uint64_t number = board_.number() + 1;",
               "const std::uint64_t number = board_.number() - 1;",
               "a number that all PEs derive alike, and another in every exchange"),
    Equivalent("host/runtime/pe.cpp",
               "if (state_.magic != abi::kStateMagic) return; state_.magic = 0;",
               "if (state_.magic != abi::kStateMagic) return; state_.magic = 1;",
               "any number but two says that there is no state"),
    Equivalent("transport/nic/soft/verbs/verbs_qp.cpp",
               "const std::uint32_t max = 1u << engine.device().max_log_qp_entries;",
               "const std::uint32_t max = 2u << engine.device().max_log_qp_entries;",
               "the engine refuses such a queue pair, too"),
    Equivalent("host/base/net/stream.cpp",
               "constexpr std::size_t kStep = std::size_t{1} << 16;",
               "constexpr std::size_t kStep = std::size_t{2} << 16;",
               "it reads by larger steps"),
    Equivalent("host/control/monitor.cpp",
               "std::uint64_t count = 0;",
               "std::uint64_t count = 1;",
               "read(2) stores into it, and nobody looks at it"),
    Equivalent("host/api/setup.cpp",
               "return guard_status([&] { pe->gpu()->push_current(); }) == GSHMEMX_SUCCESS ? 1 : 0;",
               "return guard_status([&] { pe->gpu()->push_current(); }) != GSHMEMX_SUCCESS ? 1 : 0;",
               "on a GPU only, which a build without CUDA does not have"),
]
