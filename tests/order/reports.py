"""gshmem-check names both lines of a mistake, and nothing else: reports.py CHECK PROGRAM SOURCE."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

check, program, source = sys.argv[1:]
lines = pathlib.Path(source).read_text().splitlines()


def check_program(mistake, seed, *options):
    """Returns exit status, text and JSON of the report."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "findings.json"
        run = subprocess.run([sys.executable, check, *options, "--json", str(file), "--seed", str(seed), program, mistake],
                             capture_output=True, text=True, timeout=300)
        return run.returncode, run.stdout, run.stderr, json.loads(file.read_text())


for mistake in ("signal", "source", "get", "kernel", "memset", "stream", "collective"):
    for seed in (1, 2, 3):  # ThreadSanitizer may overlook two accesses at the same moment
        status, _, text, report = check_program(mistake, seed)
        if status == 1:
            break
    wanted = {number: found[1] for number, line in enumerate(lines, 1) if (found := re.search(rf"// {mistake}: (.+)$", line))}
    assert len(wanted) == 2 and status == 1, (mistake, status, text)
    for finding in report["findings"]:
        assert {access["line"] for access in finding["accesses"]} == set(wanted), (mistake, text)
    for number, word in wanted.items():
        named = [line for line in text.splitlines() if line.endswith(f"wrong.cpp:{number}")]
        assert named and all(word in line for line in named), (mistake, word, text)
    assert ("`dest` of PE 1 is ready" in text) == (mistake == "collective"), (mistake, text)
for mistake, ignored in (("fence", False), ("sizes", False), ("contexts", False), ("quiet on a stream", False), ("ignored", True), ("none", False)):
    for seed in (1, 2, 3):  # ThreadSanitizer may overlook two accesses at the same moment
        status, _, text, report = check_program(mistake, seed)
        if status == 1:
            break
    assert status == 0 and not report["findings"] and (report["ignored"] > 0) == ignored, (mistake, status, text)
# Of two fences the one before the put orders nothing.
line = next(number for number, line in enumerate(lines, 1) if "// orders nothing: gshmem_fence" in line)
status, _, text, report = check_program("fence", 1, "--fences")
assert status == 0 and not report["findings"], (status, text)
idle = [(row["call"], row["place"].rsplit("/", 1)[-1], row["calls"]) for row in report["orders_nothing"] if "fence" in row["call"]]
assert idle == [("gshmem_fence", f"wrong.cpp:{line}", 1)] and f"gshmem_fence orders nothing: " in text, (idle, text)
# An operation without order also has a wrong result: the get has not arrived.
outputs = [check_program("get", seed)[1] for seed in (1, 2)]
assert outputs == ["early: 0\n"] * 2, outputs
# A program may choose its log itself.
for setting in ("GSHMEM_LOG=none", "GSHMEM_LOG_FILE=/dev/null"):
    run = subprocess.run([sys.executable, check, "env", setting, program, "none"], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0 and "gshmem-check: 0 findings" in run.stderr, (setting, run)
# A crash is no success.
status, _, text, report = check_program("crash", 1)
assert status == 139 and report["checked"] and "was ended by SIGSEGV" in text, (status, text)
# Where nothing was checked, that is no success.
for command, status, words in (
        (["true"], 2, "nothing was checked: the program never ran under GSHMEM_CHECK=order"),
        (["false"], 1, "nothing was checked"),
        (["-n", "2", "--runner", "/none/gshmem-check-main", program], 2, "run the installed gshmem-check"),
        (["-n", "0", program], 2, "'0' is no number of PEs"),
        (["--json", "/none/file", program, "none"], 2, "--json /none/file: No such file"),
        (["--json", "/dev/full", "false"], 2, "--json /dev/full: No space"),
        (["--seed", "-1", program, "none"], 2, "'-1' is no seed"),
        (["/none/program"], 2, "/none/program: No such file")):
    run = subprocess.run([sys.executable, check, *command], capture_output=True, text=True, timeout=300)
    assert run.returncode == status and words in run.stderr and "0 findings" not in run.stderr, (command, run)
print("the reports name their lines")
