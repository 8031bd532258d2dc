#!/usr/bin/env python3
"""Runs gshmem-info and checks what it says. Usage: check_info.py CASE gshmem-info [launcher...]

With a launcher ("mpirun -np 2"), that starts gshmem-info.
"""
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def run_both(program, options, status, **environment):
    """Returns the output of gshmem-info, which must end with `status`, and its log."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("GSHMEM_", "NVSHMEM_"))}
    done = subprocess.run([*program, *options], env={**env, "GSHMEM_DEVICE": "cpu", **environment},
                          capture_output=True, text=True)
    assert done.returncode == status, f"exit {done.returncode}, not {status}\n{done.stderr}"
    return done.stdout, done.stderr


def run(program, options, status, **environment):
    """Returns its output only."""
    return run_both(program, options, status, **environment)[0]


def run_any(program, options, **environment):
    """Returns the output for a status that depends on the machine."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GSHMEM_")}
    return subprocess.run([*program, *options], env={**env, **environment}, capture_output=True,
                          text=True)


def case_plain(program):
    text = run(program, ["--no-job"], 0)
    for part in ("version", "library  ", "Variables that are set\n  GSHMEM_DEVICE = \"cpu\" (environment)\n      where",
                 "  GSHMEM_SYMMETRIC_SIZE = \"1G\"\n", "GPUs", "RDMA network cards"):
        assert part in text, f"no {part!r} in\n{text}"


def case_json(program):
    report = json.loads(run(program, ["--json", "--no-job"], 0, GSHMEM_LOG_FILE='/tmp/"\\\t\x7f\xe9'))
    variables = {entry["name"]: entry for entry in report["variables"]}
    assert variables["GSHMEM_LOG_FILE"]["value"] == '/tmp/"\\\t\x7f\xe9'
    assert variables["GSHMEM_LOG_FILE"]["origin"] == "environment"
    assert variables["GSHMEM_TIMEOUT"]["origin"] == "default"
    assert report["build"]["version"] and report["unknown_variables"] == []
    assert report["gpus"] or report["no_gpus"]
    assert report["pes"] is None and report["schema"] == 1
    # The members do not depend on what there is.
    other = json.loads(run(program, ["--json", "--job"], 1, GSHMEM_P2P="0", GSHMEM_NIC="none", GSHMEM_TIMEOUT="abc"))
    assert list(other) == list(report) and [list(v) for v in other["variables"]] == [list(v) for v in report["variables"]]


def case_lost_output(program):
    """What cannot be printed is a failure with a line."""
    for options in (["--json", "--no-job"], ["--doctor", "--list"], ["--version"], ["--help"]):
        for where in ("> /dev/full", ">&-"):
            done = subprocess.run(["sh", "-c", f'"$@" {where}', "sh", *program, *options], capture_output=True, text=True)
            assert done.returncode == 1 and "standard output cannot be written" in done.stderr, (options, where, done)


WRAP = "wrap of the queue .*"
FLUSHED = WRAP + "flushed: an earlier entry or the other end failed"
SELFTEST_FAULTS = [  # rules and adversary of the soft NIC, and the lines that name the reasons
    ("op=mcas:syndrome=0x12;wqe=60000:cq=overrun", "",
     ["atomics of 8 bytes .*(remote invalid request|not valid here)", WRAP + "completion queue broke"]),
    ("op=read:drop;wqe=60000:queue=error", "",
     ["transfers .*get .READ. to PE 0 failed: retries exceeded: .*does not answer", FLUSHED]),
    # An early look sees the completion that the flushed entries overwrite.
    ("op=read:rnr;wqe=60000:peer=error", "",
     ["transfers .*get .READ. to PE 0 failed: retries exceeded: the target is not ready",
      WRAP + "(flushed: an earlier entry or the other end failed|"
      "retries exceeded: the target does not answer .*entry 60000,)"]),
    ("op=read:key=remote;wqe=60000:queue=reset", "",
     ["transfers .*(asked for memory that it may not touch|get .READ. .*remote access error)",
      WRAP + "waited [3-9][0-9.]* s .*GSHMEM_TIMEOUT=3 allows; .*the queue is in state RESET"]),
    ("wqe=2:port=down", "", ["transfers .*retries exceeded.*mlx5_0 port 1 is down"]),
    ("op=read:port=flap:5s", "", ["transfers .*retries exceeded.*mlx5_0 port 1 is down"]),
    ("wqe=60000:device=gone", "", [WRAP + "mlx5_0 port 1: the device failed"]),
    ("op=nop:syndrome=0x02", "", ["init .*does not work off its queues"]),
    ("", "trailing_read=1", ["transfers .*complete, but the data is not there",
                             # A late look does not see it of the first one.
                             r"order of arrival .*completion of READ \d+ was there before word 0"]),
]


NUMBER = r"([0-9.]+)"
SYNDROME = r"syndrome 0x{:02x}, vendor 0x{:02x}, hardware 0x{:04x} \({}: .*\)"
SELFTEST_LINES = [  # in host memory, where there is no error
    ("ok", "init", r"mlx5 \(mlx5: mlx5_0 port 1 .*\), doorbell by thread, queues in host memory"),
    ("ok", "transfers", "WRITE and READ of 1 byte to 1 MiB"),
    ("ok", "inline payloads", "230 lengths up to 230 bytes, from outside of the heap"),
    ("ok", "atomics of 4 bytes", "8 operations"),
    ("ok", "atomics of 8 bytes", "8 operations"),
    ("ok", "signals", r"SET \(masked swap\) and ADD after a payload"),
    ("ok", "wrap of the queue", "70000 entries on a collapsed completion queue of one entry"),
    ("ok", "doorbell alone", "the NIC takes the producer index from the doorbell"),
    ("ok", "record first", "record, then doorbell"),
    ("ok", "order of arrival",
     f"{NUMBER} payloads of 512 bytes: none after its signal, nor after its READ"),
    ("ok", "error: beyond the heap", SYNDROME.format(0x13, 0x88, 0, "put")),
    ("ok", "error: remote key", SYNDROME.format(0x13, 0x88, 0, "put")),
    ("ok", "error: local key", SYNDROME.format(0x04, 0x53, 0x9d00, "put")),
    ("ok", "error: unaligned atomic", SYNDROME.format(0x12, 0x8a, 0, "fetch_add")),
    ("ok", "error: what comes after", "its completion (?:stayed|was overwritten by those of flushed entries)"
     "; none of them was executed"),
    ("", "latency", f"8 bytes: put {NUMBER} us, get {NUMBER} us, fetch_add {NUMBER} us"),
    ("", "rate", f"one queue: {NUMBER} M puts of 64 bytes/s, {NUMBER} M atomics/s"),
    ("", "bandwidth", f"1 MiB each: put {NUMBER} GB/s, get {NUMBER} GB/s"),
]


def check_good_page(page, seconds):
    """Every line of the part in host memory has a figure. None is faster than a processor, and together they have not
    taken longer than the program."""
    lines = page.split("\n\n")[1].splitlines()
    assert lines[0] == "host memory, rung by a CPU" and len(lines) == len(SELFTEST_LINES) + 1, page
    figures = []
    for line, (word, what, detail) in zip(lines[1:], SELFTEST_LINES):
        match = re.fullmatch(f"  {word:6}  {what:24}  {detail}", line)
        assert match, f"{what}: {line}"
        figures += [float(number) for number in match.groups()]
    payloads, *latencies, puts, atomics, put, get = figures
    assert payloads >= 64 and payloads % 64 == 0, payloads
    assert min(latencies) > 0.1 and 0 < max(puts, atomics) < 20 and 0 < max(put, get) < 200, figures
    took = 21 * 100 * sum(latencies) * 1e-6 + 0.02 / max(puts, 0.005) + 0.005 / max(atomics, 0.005)
    took += 200 * 2**20 * 1e-9 * (1 / max(put, 0.005) + 1 / max(get, 0.005))
    # Latencies are medians, which are at most twice the mean.
    assert took < 2 * seconds, f"{took} s of figures within {seconds} s\n{page}"


def case_selftest(program):
    soft = {"GSHMEM_NIC": "soft"}
    begun = time.monotonic()
    good, log = run_both(program, ["--nic-selftest"], 0, GSHNIC_STRICT="1", **soft)
    check_good_page(good, time.monotonic() - begun)
    # The log has the error at this end, and no other finding of the soft NIC.
    found = log.splitlines()
    assert len(found) == 1 and "soft NIC" in log and "key 0xdead00: no region has this key" in found[0], log
    end, line, rest = good.split("\n\n")[-1].split("\n")
    assert (end, rest) == ("All checks are good.", "") and "FAILED" not in good, good
    assert re.fullmatch(r"result: gshmem \S+; mlx5 \(mlx5: mlx5_0 port 1 .*; host memory, rung by a CPU: 15 ok"
                        "; doorbell records, in host memory: 1 ok, off is not there; GPU memory.*", line), line
    # Each part tries the same, also the parts in GPU memory if there is a GPU.
    parts = [re.findall("^  (?:ok|FAILED|      ) +(.*?)  ", part, re.M) for part in good.split("\n\n")[1:-1]]
    assert parts.pop(1) == ["on", "off"], good
    for part in parts[1:]:
        assert part in (["left out"], parts[0]), f"{parts[0]} and {part} in\n{good}"
    for rules, adversary, lines in SELFTEST_FAULTS:
        page = run(program, ["--nic-selftest"], 1, GSHNIC_RULES=rules, GSHNIC_ADVERSARY=adversary,
                   **soft)
        for line in lines:
            assert re.search("FAILED +" + line, page), f"{rules} {adversary}: no {line!r} in\n{page}"
    # The soft NIC's lines have the prefix of the log.
    log = run_both(program, ["--nic-selftest"], 1, GSHNIC_SEED="many", **soft)[1]
    assert re.match(r'gshmem\[.*\] ERROR: soft NIC: GSHNIC_SEED="many": expected a number', log), log
    # The program finds the soft NIC beside it, also if it is found through PATH.
    page = run(["gshmem-info"], ["--nic-selftest"], 1, GSHMEM_NIC_DEVICES="=mlx5_9", PATH=os.path.dirname(program[0]), **soft)
    assert re.search("FAILED +init .*mlx5_9", page) and "transfers" not in page, page
    assert "result: gshmem" in page and "; no network; host memory, rung by a CPU: 0 ok, FAILED init" in page, page
    # A port of RoCE has its addresses tried, and one that can do without records is tried without.
    page, log = run_both(program, ["--nic-selftest"], 0, GSHNIC_PROFILE="roce,no_record",
                         GSHMEM_DOORBELL_RECORD="auto", **soft)
    for index, version in enumerate((1, 2, 1, 2)):
        assert re.search(rf"ok +GID {index} .*GID {index} .*, RoCE v{version}, MTU .*, no doorbell records", page), page
    assert re.search(r"ok +off .*, no doorbell records\)", page) and "GID 4" not in page, page
    assert re.search(r"ok +on +mlx5 \((?!.*no doorbell)", page), page
    assert "; doorbell records, in host memory: 2 ok; addresses of the port, in host memory: 4 ok; GPU memory" in page, page
    # An address that does not work is an error only if it is the one that is used.
    page = run(program, ["--nic-selftest"], 0, GSHNIC_PROFILE="roce,down=0", **soft)
    assert re.search("  {9}GID 0 +unused, and does not work: .*no way from", page) and "FAILED" not in page, page
    assert "; addresses of the port, in host memory: 3 ok, GID 0 does not work; GPU memory" in page, page
    # A queue without a record that does not work is noticed, and the others have one.
    page, log = run_both(program, ["--nic-selftest"], 0, GSHNIC_PROFILE="no_record",
                         GSHNIC_RULES="op=nop:times=1:queue=error", GSHMEM_LOG="warn",
                         GSHMEM_DOORBELL_RECORD="auto", **soft)
    assert "queues have doorbell records, because one without failed: its NOP" in log, log
    page, log = run_both(program, ["--nic-selftest"], 0, GSHMEM_DOORBELL="agent", GSHMEM_LOG="info", **soft)
    assert "gshmem[0] ERROR: " in log, log  # if they are requested
    assert re.search("INFO: soft NIC: queue pair 0x.* fails with syndrome 0x13", log), log
    for name in ("doorbell alone", "record first"):
        assert re.search(f"ok +{name} +left out: kernels ring a word in memory", page), page


def case_no_card(program):
    """Where there is no card the self-test does not apply; a card without its driver is a failure."""
    with tempfile.TemporaryDirectory() as root:
        page = run(program, ["--nic-selftest"], 2, GSHMEM_TEST_ROOT=root)
        assert "does not apply to this machine: no Mellanox or NVIDIA network card on the PCI bus.\n" in page, page
        assert "FAILED" not in page and "send" not in page and "result:" not in page, page
        card = os.path.join(root, "sys/bus/pci/devices/0000:04:00.0")
        os.makedirs(card)
        for name, text in (("vendor", "0x15b3"), ("class", "0x020000")):
            with open(os.path.join(card, name), "w", encoding="ascii") as file:
                file.write(text)
        assert re.search("FAILED +init ", run(program, ["--nic-selftest"], 1, GSHMEM_TEST_ROOT=root))


def case_bad_value(program):
    report = json.loads(run(program, ["--json", "--job"], 1, GSHMEM_TIMEOUT="abc"))
    bad = [entry for entry in report["variables"] if entry["error"]]
    assert [entry["name"] for entry in bad] == ["GSHMEM_TIMEOUT"]
    assert 'GSHMEM_TIMEOUT="abc": expected seconds' in bad[0]["error"]
    assert report["job_error"]
    assert 'ERROR: GSHMEM_TIMEOUT="abc"' in run(program, [], 1, GSHMEM_TIMEOUT="abc")
    # One process reports a job that does not start.
    job = {"GSHMEM_TIMEOUT": "abc", "GSHMEM_UID_ADDRESS": "127.0.0.1:9", "GSHMEM_UID_SIZE": "2"}
    assert json.loads(run(program, ["--json"], 1, GSHMEM_UID_RANK="0", **job))["job_error"]
    assert run(program, ["--json"], 1, GSHMEM_UID_RANK="1", **job) == ""
    assert not json.loads(run(program, ["--json", "--no-job"], 1, GSHMEM_UID_RANK="0", **job))["job_error"]
    page, log = run_both(program, ["--nic-selftest"], 1, GSHMEM_TIMEOUT="abc")
    assert page == "" and log.startswith('gshmem-info: GSHMEM_TIMEOUT="abc": expected seconds'), log


def case_unknown_variable(program):
    report = json.loads(run(program, ["--json", "--no-job"], 0, GSHMEM_SYMETRIC_SIZE="1M"))
    assert report["unknown_variables"] == [
        "GSHMEM_SYMETRIC_SIZE is not a variable of gshmem; did you mean GSHMEM_SYMMETRIC_SIZE?"]


def case_names(program):
    """One variable, one check, and only what is wrong."""
    assert run(program, ["GSHMEM_TIMEOUT"], 0, GSHMEM_TIMEOUT="7").startswith('  GSHMEM_TIMEOUT = "7" (environment)\n')
    report = json.loads(run(program, ["--json", "GSHMEM_LOG", "GSHMEM_TIMEOUT"], 1, GSHMEM_TIMEOUT="abc"))
    assert [v["name"] for v in report["variables"]] == ["GSHMEM_LOG", "GSHMEM_TIMEOUT"] and report["variables"][1]["error"]
    for name, advice in (("GSHMEM_TIMOUT", "did you mean GSHMEM_TIMEOUT?"), ("TIMEOUT", "gshmem-info lists those")):
        page, log = run_both(program, [name], 2)
        assert page == "" and log.startswith(f"gshmem-info: {name} is not a variable") and advice in log, log
    # Those of NVSHMEM are the names of ours.
    page = run(program, ["NVSHMEM_SYMMETRIC_SIZE"], 0, NVSHMEM_SYMMETRIC_SIZE="8M")
    assert page.startswith('  GSHMEM_SYMMETRIC_SIZE = "8M" (NVSHMEM_SYMMETRIC_SIZE)\n'), page
    assert "for NVSHMEM_BOOTSTRAP see GSHMEM_BOOTSTRAP" in run_both(program, ["NVSHMEM_BOOTSTRAP"], 2)[1]
    checks = json.loads(run(program, ["--doctor", "--json", "variables"], 1, GSHMEM_TIMEOUT="abc"))
    assert checks["schema"] == 1 and {f["check"] for f in checks["findings"]} == {"variables"}, checks
    assert "no check \"variabels\"" in run_both(program, ["--doctor", "variabels"], 2)[1]
    loud = run(program, ["--doctor", "--quiet", "variables", "fabric"], 1, GSHMEM_TIMEOUT="abc").splitlines()
    assert len(loud) == 3 and loud[0].startswith("PROBLEM  variables: ") and loud[1].startswith("           cause: "), loud
    assert run(program, ["--doctor", "--quiet", "variables"], 0) == ""
    assert run(program, ["--quiet"], 2) == ""


def case_job(program):
    report = json.loads(run(program, ["--json", "--job"], 0, GSHMEM_BOOTSTRAP="single"))
    assert [pe["paths"] for pe in report["pes"]] == [["self"]]
    assert report["pes"][0]["bootstrap"] == "single" and report["pes"][0]["gpu"] is None
    assert report["pes"][0]["host"]
    # The log has what a report of a problem needs.
    log = run_both(program, ["--job"], 0, GSHMEM_BOOTSTRAP="single", GSHMEM_LOG="info")[1]
    version = run(program, ["--version"], 0).rpartition(", NVSHMEM")[0]
    assert re.search(rf"PE 0 of 1, bootstrap single, CPU mode, heap of .*; {version}\n", log), log
    # PE 0 of the job prints, whatever number its launcher gave it.
    other = run(program, ["--json", "--job"], 0, GSHMEM_BOOTSTRAP="single", PMIX_RANK="1")
    assert json.loads(other)["pes"] == report["pes"]
    # This holds even if not even its own heap counts as mapped.
    report = json.loads(run(program, ["--json", "--job"], 0, GSHMEM_BOOTSTRAP="single",
                            GSHMEM_P2P="0", GSHMEM_NIC="soft"))
    assert [pe["paths"] for pe in report["pes"]] == [["self"]]


def case_libcrypto(program):
    """Only a job with a secret needs libcrypto; an error names it and what to do."""
    job = {"GSHMEM_UID_RANK": "0", "GSHMEM_UID_SIZE": "1"}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("libcrypto.so.3", "libcrypto.so.1.1"):  # found first, and no libraries
            with open(os.path.join(folder, name), "wb"):
                pass
        for secret, status in (("", 0), ("correct horse", 1)):
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                job["GSHMEM_UID_ADDRESS"] = f"127.0.0.1:{free.getsockname()[1]}"
            report = json.loads(run(program, ["--json", "--job"], status, GSHMEM_UID_SECRET=secret,
                                    LD_LIBRARY_PATH=folder, **job))
            if not secret:
                assert report["pes"][0]["bootstrap"] == "uid", report
                continue
            for part in ("GSHMEM_UID_SECRET needs", "cannot load libcrypto.so.3: ", "cannot load libcrypto.so.1.1: ",
                         "package libssl3 or openssl-libs"):
                assert part in report["job_error"], report["job_error"]


def algorithms(program, **environment):
    """Returns the algorithms and their last bytes, by operation and scope, of a job of one PE."""
    report = json.loads(run(program, ["--json", "--job"], 0, GSHMEM_BOOTSTRAP="single", **environment))
    return {(row["operation"], scope): row["ranges"]
            for row in report["algorithms"]["collectives"] for scope in row["scopes"]}


def case_algorithms(program):
    """Settings appear in the table; its text and its JSON agree."""
    usual = algorithms(program)
    names = {operation for operation, _ in usual}
    assert names == {"alltoall", "broadcast", "fcollect", "reduce", "reduce in place", "reducescatter",
                     "collect", "alltoalls", "inscan", "exscan"}, names
    assert {scope for _, scope in usual} == {"thread", "warp", "block", "host", "stream"}
    first, *rest = usual["alltoall", "block"]
    assert first == {"from": 1, "to": 4096, "algorithm": "packets", "moved_by": [
        {"variable": "GSHMEM_ALLTOALL_PACKETS", "value": "4K"}]}, first
    assert [(r["from"], r["to"], r["algorithm"]) for r in rest] == [(4097, None, "direct")], rest
    without = algorithms(program, GSHMEM_ALLTOALL_PACKETS="0")
    assert without["alltoall", "block"] == [{"from": 1, "to": None, "algorithm": "direct", "moved_by": [
        {"variable": "GSHMEM_ALLTOALL_PACKETS", "value": "0"}]}]
    changed = {key for key in usual if usual[key] != without[key]}
    assert {operation for operation, _ in changed} == {"alltoall"}, changed
    # Each variable moves the rows of its operation.
    for name, operation in (("FCOLLECT_PACKETS", "fcollect"), ("BROADCAST_PACKETS", "broadcast"),
                            ("REDUCE_PACKETS", "reduce in place"), ("REDUCE_ONE_SHOT", "reduce")):
        moved = algorithms(program, **{f"GSHMEM_{name}": "1000"})[operation, "block"]
        bounds = {r["to"]: r["moved_by"] for r in moved}
        if name == "REDUCE_ONE_SHOT":  # packets are used up to 4096 bytes
            assert [r["algorithm"] for r in moved] == ["packets", "two shots"], moved
        else:
            assert bounds[1000] == [{"variable": f"GSHMEM_{name}", "value": "1000"}], moved
    text = run(program, ["--job"], 0, GSHMEM_BOOTSTRAP="single", GSHMEM_THREAD_PACKETS="9")
    assert "packets to 72 (GSHMEM_THREAD_PACKETS=9), then direct" in text, text
    assert re.search(r"sync, barrier +all +flat \(flat to 64 members\)", text), text


def case_network(program):
    """PEs that are not mapped: the page names their network, the reason, and that it is built in."""
    apart = {"GSHMEM_P2P_GROUP": "1", "GSHMEM_NIC": "soft", "GSHMEM_SYMMETRIC_SIZE": "8M"}
    pes = json.loads(run(program, ["--json"], 0, **apart))["pes"]
    assert [pe["paths"] for pe in pes] == [["self", "network"], ["network", "self"]]
    assert {pe["nic"] for pe in pes} == {"soft"}
    assert "soft" in json.loads(run(program, ["--json", "--no-job"], 0))["build"]["network"]
    for pe in pes:
        why = pe["why_no_load_store"]
        assert why[pe["pe"]] == "" and "GSHMEM_P2P_GROUP" in why[1 - pe["pe"]], why
    assert "to PE 1: network (soft); PE 1 (" in run(program, [], 0, **apart)


def prove(program):
    """Returns the page as JSON, over the soft NIC with costs."""
    with tempfile.TemporaryDirectory() as root:
        files = {"sys/bus/pci/devices/0000:04:00.0/vendor": "0x10de",
                 "sys/bus/pci/devices/0000:04:00.0/class": "0x030200",
                 "sys/class/infiniband/mlx5_0/ports/1/rate": "80 Gb/sec (4X QDR)",
                 "sys/class/infiniband/mlx5_0/ports/1/link_layer": "InfiniBand",
                 "sys/class/infiniband/mlx5_0/ports/1/state": "4: ACTIVE",
                 "costs": "link_us 2\nlink_gb_s 9\ncopy_us 10\ncopy_gb_s 8\nbusy_cpus 1\n"}
        for name, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
            with open(os.path.join(root, name), "w", encoding="ascii") as file:
                file.write(text)
        return json.loads(run(program, ["--gdr-proof", "--json", "--repeats", "2", "--largest", "1"], 0,
                              CUDA_VISIBLE_DEVICES="", GSHMEM_NIC="soft", GSHMEM_TEST_ROOT=root,
                              GSHNIC_COSTS=os.path.join(root, "costs")))


def case_proof(program):
    """Two processes prove GPUDirect RDMA, and the first one prints the page."""
    proof = prove(program)
    assert proof["verdict"] == "works" and proof["link_GB_s"] == 10, proof
    assert proof["gdr"]["one_host"] and proof["gdr"]["modelled"] and proof["all_pairs"] is None, proof
    for series in proof["gdr"]["series"]:
        assert len(series["on"]["values"]) == len(series["off"]["values"]) == 2, series
    share = next(c for c in proof["criteria"] if c["name"] == "share of the link")
    assert share["met"] and share["measured"].startswith(("88 %", "89 %", "90 %")), share


def case_proof_pairs(program):
    """Four processes are two pairs, each with a link of its own: together they have twice the bandwidth."""
    proof = prove(program)
    assert proof["verdict"] == "works" and proof["all_pairs"]["pairs"] == 2, proof
    one, both = proof["all_pairs"]["series"]
    assert (one["quantity"], both["quantity"]) == ("one_pair_GB_s", "all_pairs_GB_s"), proof
    for side, most in (("on", 9), ("off", 4)):
        assert 0.9 * most < one[side]["median"] <= most, (side, one)
        assert 1.8 * most < both[side]["median"] <= 2 * most, (side, both)


def case_fabric(program):
    """Two GPUs as if on two hosts are mapped by fabric handles, or the test prints why there can be none."""
    apart = {"GSHMEM_DEVICE": "cuda", "GSHMEM_P2P_GROUP": "1", "GSHMEM_FABRIC": "on",
             "GSHMEM_NIC": "none", "GSHMEM_SYMMETRIC_SIZE": "8M"}
    pes = json.loads(run(program, ["--json"], 0, **apart))["pes"]
    assert [pe["paths"] for pe in pes] == [["self", "NVLink fabric"], ["NVLink fabric", "self"]]
    assert {pe["nic"] for pe in pes} == {"none"}


def case_job_error(program, status=1):
    report = json.loads(run(program, ["--json", "--job"], status, GSHMEM_P2P="0",
                            GSHMEM_NIC="none"))
    assert "GSHMEM_P2P=0" in report["job_error"] and report["pes"] is None


def case_mpirun_job_error(program):
    """PE 0 reports why there is no job, even if the other process ends very early."""
    for _ in range(3):
        case_job_error(program, status=0)


def case_mpirun(program):
    pes = json.loads(run(program, ["--json"], 0))["pes"]
    assert [pe["pe"] for pe in pes] == [0, 1]
    assert {pe["bootstrap"] for pe in pes} == {"pmix"} and pes[0]["host"] == pes[1]["host"]
    assert [pe["paths"] for pe in pes] == [["self", "shared memory"], ["shared memory", "self"]]
    assert [pe["why_no_load_store"] for pe in pes] == [["", ""], ["", ""]]
    assert run(program, [], 0).count("to PE 1: load/store, shared memory") == 1


def case_options(program):
    page = run(program, ["--help"], 0)
    assert "Usage: gshmem-info" in page and "Exit status:\n  0  all is well\n" in page, page
    assert max(map(len, page.splitlines())) <= 102 and "Excludes" not in page, page
    with open(os.path.join(ROOT, "host/packages/gshmem-info.1"), encoding="ascii") as file:
        manual = file.read().replace("\\-", "-")
    options = set(re.findall(r"--[a-z][a-z-]+", page))
    assert len(options) > 6 and not [option for option in options if option not in manual], (options, manual)
    assert re.fullmatch(r"gshmem \d+\.\d+\.\d+, ABI \d+, NVSHMEM \d+\.\d+\.\d+\n",
                        run(program, ["--version"], 0))
    assert run(program, ["--wrong"], 2) == ""
    assert run(program, ["--list"], 2) == ""
    for both in (["--json", "--version"], ["--json", "--markdown"], ["--json", "--nic-selftest"], ["--doctor", "--gdr-proof"], ["--doctor", "--markdown"],
                 ["--doctor", "--nic-selftest"], ["--gdr-proof", "GSHMEM_NIC"], ["--markdown", "GSHMEM_NIC"]):
        text, error = run_both(program, both, 2)
        assert text == "" and "excludes" in error, (both, text, error)
    rows = run(program, ["--markdown"], 0).splitlines()  # only the table
    assert rows[:2] == ["| variable | default | meaning | accepted | PEs |", "| --- | --- | --- | --- | --- |"]
    assert len(rows) > 30 and all(row.startswith("| `GSHMEM_") for row in rows[2:]), rows


def check_finding(finding, names):
    assert finding["check"] in names, finding
    if finding["verdict"] in ("hint", "problem"):
        assert finding["text"] and finding["cause"] and finding["fix"], finding
    else:
        assert finding["verdict"] in ("ok", "skipped") and finding["text"], finding
    assert list(finding) == ["check", "verdict", "text", "cause", "fix"], finding


def case_doctor(program):
    """On any machine: status and findings agree, and every check has reported."""
    checks = json.loads(run(program, ["--doctor", "--list", "--json"], 0))
    names = [check["name"] for check in checks]
    assert len(names) > 30 and len(set(names)) == len(names)
    assert all(check["purpose"] for check in checks)
    table = run(program, ["--doctor", "--list"], 0)
    assert [line.split()[0] for line in table.splitlines()] == names

    done = run_any(program, ["--doctor", "--json"])
    report = json.loads(done.stdout)
    for finding in report["findings"]:
        check_finding(finding, names)
    spoken = [finding["check"] for finding in report["findings"]]
    assert list(dict.fromkeys(spoken)) == names, "not every check, or not in the table's order"
    built = json.loads(run(program, ["--json", "--no-job"], 0))["build"]
    without = [f for f in report["findings"] if "built without PMIx" in (f["cause"] or "")]
    assert bool(without) == (built["pmix"] == "no"), (without, built)
    other = run_any(program, ["--doctor"], OMPI_COMM_WORLD_LOCAL_RANK="1")
    assert (other.returncode, other.stdout) == (0, "")  # the first process of its host prints
    problems = [f for f in report["findings"] if f["verdict"] == "problem"]
    assert report["problems"] == len(problems) and report["host"]
    assert done.returncode == (1 if problems else 0), done.stderr


def case_doctor_problem(program):
    """A bad value is a problem on every machine, an unknown name is not."""
    text = run(program, ["--doctor"], 1, GSHMEM_TIMEOUT="abc")
    assert 'PROBLEM  variables: init fails: GSHMEM_TIMEOUT="abc"' in text
    assert "cause: " in text and "fix:   unset GSHMEM_TIMEOUT" in text
    report = json.loads(run_any(program, ["--doctor", "--json"], GSHMEM_TIMOUT="1").stdout)
    hints = [f for f in report["findings"] if f["verdict"] == "hint" and f["check"] == "variables"]
    assert "did you mean GSHMEM_TIMEOUT" in hints[0]["text"]


def main():
    name, info, *launcher = sys.argv[1:]
    globals()[f"case_{name}"]([*launcher, info])
    print(f"{name}: as expected")


if __name__ == "__main__":
    main()
