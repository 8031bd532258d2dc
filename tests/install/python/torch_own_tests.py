#!/usr/bin/env python3
"""PyTorch's own tests of symmetric memory, with the backend GSHMEM in the place of theirs. By hand, on 2 or 4 GPUs.

    torch_own_tests.py PYTORCH [-k PATTERN]

PYTORCH is a checkout of PyTorch's sources, of the version that is installed; gshmem's wheel is installed, too. The tests
are copied and get a beginning that chooses the backend, also in the processes that they start. Those of LEFT_OUT are
skipped: after one that fails, PyTorch skips the rest of its class. Exit 77: fewer than 2 GPUs, or no torch.
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

FILES = ("test_symmetric_memory.py", "test_nvshmem.py")
BEGINNING = """
import gshmem.torch
import torch.distributed._symmetric_memory as _symm_mem
_symm_mem._SymmetricMemory.set_backend("GSHMEM")
_symm_mem.set_backend = lambda name: None
_symm_mem.is_nvshmem_available = lambda: True
"""
# Names of tests that cannot pass, and why.
LEFT_OUT = {
    "multimem|multicast": "there is no multicast",
    "timeout": "GSHMEM_TIMEOUT limits waits of streams",
    "triton": "needs bitcode of the device library, with NVSHMEM's names",
    "overlapping_devices": "a rank has one GPU",
    "via_pg_allgather": "a rendezvous is by the store of the group",
    "vdev_2d|tile_reduce|dispatch_combine": "an operation that is NVSHMEM's still",
}
END = f"""
def _leave_out(cases):
    import re
    import unittest
    for case in [each for each in cases if isinstance(each, type) and issubclass(each, unittest.TestCase)]:
        for pattern, why in {LEFT_OUT!r}.items():
            for name in [name for name in dir(case) if name.startswith("test") and re.search(pattern, name)]:
                setattr(case, name, unittest.skip(why)(getattr(case, name)))


_leave_out(list(globals().values()))


"""


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def changed(source):
    """The text with the beginning after what has to be first, and the end before the tests start."""
    lines = source.split("\n")
    at = max((number for number, line in enumerate(lines) if line.startswith("from __future__")), default=-1) + 1
    text = "\n".join([*lines[:at], BEGINNING, *lines[at:]])
    text = text.replace('if __name__ == "__main__":', END + 'if __name__ == "__main__":')
    return re.sub(r"(TORCH_SYMMMEM[\"'].*?[!=]= ?|symm_mem_backend [!=]= )[\"']NVSHMEM[\"']", r"\1'GSHMEM'", text)


def failures_of(said):
    """How many tests ran to their end, and the names of those that failed, from the summary of unittest."""
    ran = sum(map(int, re.findall(r"^Ran (\d+) tests? in", said, re.M)))
    skipped = sum(map(int, re.findall(r"^(?:OK|FAILED) \(.*?skipped=(\d+)", said, re.M)))
    return ran - skipped, sorted(set(re.findall(r"^(?:FAIL|ERROR): (\w+) \(", said, re.M)))


def none_asked_for(said):
    """Whether the file has no test of that pattern, which newer versions of unittest give a status of its own."""
    return re.search(r"^Ran 0 tests in", said, re.M) is not None


def output_of(*command):
    """The status of a program and its output, which is shown as it comes: somebody may have to end it."""
    lines = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as program:
        for line in program.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    return program.returncode, "".join(lines)


def main():
    try:
        import torch
    except ImportError:
        skip("no torch")
    if torch.cuda.device_count() < 2:
        skip(f"{torch.cuda.device_count()} GPUs: it takes 2")
    failed, total = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for name in FILES:
            copy = Path(folder) / name
            copy.write_text(changed((Path(sys.argv[1]) / "test" / "distributed" / name).read_text(encoding="utf-8")),
                            encoding="utf-8")
            status, said = output_of(sys.executable, copy, "-v", *sys.argv[2:])
            ran, bad = failures_of(said)
            print(f"{name}: {ran} tests, {len(bad)} failed")
            total += ran
            if status != 0 and not bad and not none_asked_for(said):
                failed.append(f"{name} (status {status})")
            failed += bad
    if total <= 0:
        failed.append("no test ran")
    print(f"failed: {', '.join(failed)}" if failed else "passed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
