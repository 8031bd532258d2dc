"""Bugs of host code, put in one at a time, and whether the tests that are named for each see it.

Each bug is made, built and tested in a mount namespace of its own, over the source tree and a build
folder that has everything built; both stay what they are (overlayfs, as root). What it starts ends
with it.
"""
import ctypes
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections import namedtuple

from connections import CONNECTIONS, tests_of

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MOUNTED = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
SECONDS = 200  # for a build, and for the tests of a bug
LIBRARIES = ["gshmem", "gshnic", "gshnic_ibverbs", "gshnic_mlx5", "gshmem_bootstrap_mpi", "nvshmem_host"]
STALE = 15     # so many rows of seeded.tsv may have lost their text to changes of the code
ERROR = re.compile(r"^\S+:\d+:\d+: (?:fatal )?error: .*", re.MULTILINE)
FAILED = re.compile(r"^\s*\d+/\d+ Test\s+#\d+: (.+?) \.*\s*\*\*\*(?!Skipped)", re.MULTILINE)

# `old` and `new` are texts of the file in which any blanks and line breaks count as one blank;
# `tests` are regular expressions of names of tests, without the leg: those of one are tried before those of the next.
Bug = namedtuple("Bug", "name file old new tests")


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def has_overlays():
    """Returns whether this process may mount the overlays."""
    with tempfile.TemporaryDirectory() as folder:
        script = (f"mount -t tmpfs none {folder} && cd {folder} && mkdir low up work all && "
                  "mount -t overlay overlay -o lowerdir=low,upperdir=up,workdir=work all")
        try:
            return subprocess.run([*MOUNTED, "sh", "-c", script], capture_output=True,
                                  check=False).returncode == 0
        except FileNotFoundError:
            return False


def mount_over(folder, scratch):
    """From now on this namespace sees the folder unchanged, and keeps its own changes in `scratch`."""
    above = tempfile.mkdtemp(dir=scratch)
    for name in ("up", "work"):
        os.mkdir(os.path.join(above, name))
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o",
                    f"lowerdir={folder},upperdir={above}/up,workdir={above}/work", folder],
                   check=True)


def changed(bug):
    """Returns the text of the file with the bug; raises ValueError unless the old text is there once."""
    with open(os.path.join(ROOT, bug.file), encoding="utf-8") as file:
        text = file.read()
    found = list(re.finditer(r"\s+".join(map(re.escape, bug.old.split())), text))
    if len(found) != 1:
        raise ValueError(f"{bug.name}: {bug.file} has {len(found)} times what is to be changed:\n{bug.old}")
    return text[:found[0].start()] + bug.new + text[found[0].end():]


def targets_of(build, tests):
    """Returns the targets that these tests need: programs of the build that their commands name, and the libraries
    that programs load."""
    listed = subprocess.run(["ctest", "--test-dir", build, "-R", tests, "--show-only=json-v1"],
                            stdout=subprocess.PIPE, text=True, check=True).stdout
    words = {word for test in json.loads(listed)["tests"] for word in test.get("command", [])}
    programs = {os.path.relpath(word, build) for word in words
                if word.startswith(build + "/bin/") and os.path.isfile(word)}
    known = subprocess.run(["ninja", "-C", build, "-t", "targets", "all"], stdout=subprocess.PIPE, text=True,
                           check=True).stdout
    return sorted(programs) + [name for name in LIBRARIES if f"\n{name}: phony\n" in known]


def ninja(build, targets):
    return subprocess.run(["ninja", "-C", build, *targets], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", timeout=SECONDS, check=False)


def judge(build, bug, tests):
    """In a namespace of its own: returns the verdict on the bug, or on the tests without one, and the reason."""
    if bug:
        text = changed(bug)
        with open(os.path.join(ROOT, bug.file), "w", encoding="utf-8") as file:
            file.write(text)
    try:
        made = ninja(build, targets_of(build, tests))
    except subprocess.TimeoutExpired:
        return "seen", "the build does not end"  # it asks test programs for their cases
    if made.returncode != 0:
        error = ERROR.search(made.stdout)
        return ("does not compile", error.group()) if error else ("seen", made.stdout.strip()[-200:])
    output = ""
    with subprocess.Popen(["ctest", "--test-dir", build, "-R", tests, "--stop-on-failure", "-j4",
                           "--no-tests=error"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace") as program:
        too_long = threading.Timer(SECONDS, program.kill)  # what it has started ends with the namespace
        too_long.start()
        for line in program.stdout:
            output += line
            if failed := FAILED.match(line):
                # Others that were started before it may hang.
                too_long.cancel()
                program.kill()
                return "seen", failed.group(1)
        program.wait()
        in_time = too_long.is_alive()
        too_long.cancel()
    if program.returncode == 0:
        return "NOT SEEN", ""
    if not in_time:
        return "seen", f"no end within {SECONDS} s"
    raise RuntimeError(f"ctest -R {tests}:\n{output[-2000:]}")


def inside():
    """The process in the namespace: reads a request, prints the verdict."""
    build, bug, tests = json.load(sys.stdin)
    scratch = tempfile.mkdtemp()
    subprocess.run(["mount", "-t", "tmpfs", "none", scratch], check=True)
    mount_over(ROOT, scratch)
    if os.path.commonpath([ROOT, build]) != ROOT:
        mount_over(build, scratch)
    # Files that name processes by numbers, which other namespaces have, too.
    for folder in ("/tmp", "/dev/shm"):
        if not ROOT.startswith(folder) and not build.startswith(folder):
            subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=True)
    os.chdir(ROOT)  # as it is seen from here
    print(json.dumps(judge(build, bug and Bug(*bug), tests)))


def end_with_parent():
    """Ends the process with its parent, even if ctest kills that; unshare then ends its children."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG, linux/prctl.h


def verdict_on(build, bug, tests):
    done = subprocess.run([*MOUNTED, sys.executable, "-B", os.path.abspath(__file__)],
                          input=json.dumps([build, bug, f"^([^/]*/)?({tests})$"]), stdout=subprocess.PIPE,
                          text=True, check=True, preexec_fn=end_with_parent)
    return json.loads(done.stdout.splitlines()[-1])


def connection_bugs():
    return [Bug(row.name, row.file, row.old, row.new, tests_of(row.file)) for row in CONNECTIONS]


def seeded_bugs():
    """Returns the rows of seeded.tsv: file, old, new, tests (none if no test sees the bug). `program.*` means all
    tests of a program."""
    with open(os.path.join(os.path.dirname(__file__), "seeded.tsv"), encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file if not line.startswith("#")]
    return [Bug(f"seeded_{number}", *row[:3], ["|".join(re.escape(name).replace(r"\.\*", r"\..*")
                                                        for name in row[3].split(";"))] if row[3] else [])
            for number, row in enumerate(rows, 1)]


def first_verdict(build, bug):
    """Returns the verdict of the first tests that see the bug, the reason, and a regular expression of those tests."""
    for tests in bug.tests:
        verdict, how = verdict_on(build, bug, tests)
        if verdict != "NOT SEEN":
            return verdict, how, re.escape(how.partition("/")[2] or how) if "." in how else tests
    return "NOT SEEN", "", ""


def main(options):
    """Returns 0 when at least 95 % of the bugs that were drawn or named are seen, or all but one."""
    if not has_overlays():
        skip("root, unshare and overlayfs are needed for a source tree that is changed")
    build = os.path.abspath(options.build)
    bugs, stale = (connection_bugs(), 0) if options.seeded is None else (seeded_bugs(), STALE)
    texts, lost = {}, []
    for bug in bugs:
        try:
            texts[bug.name] = changed(bug)
        except ValueError as error:
            lost.append(str(error))
    if lost:
        print(f"{len(lost)} of {len(bugs)} bugs are stale:", *lost, sep="\n")
    if len(lost) > stale:
        return 1
    count = options.seeded if options.connections is None else options.connections
    drawn = [bug for bug in bugs if bug.name in texts and (not options.names or bug.name in options.names)]
    if not options.names:
        print(f"{min(count, len(drawn))} of {len(drawn)} bugs, --seed {options.seed}", flush=True)
        drawn = random.Random(options.seed).sample(drawn, min(count, len(drawn)))
    missed = []
    for bug in drawn:
        verdict, how, alone = first_verdict(build, bug)
        # A test that takes too long on a busy machine is tried again.
        if verdict == "seen" and all(verdict_on(build, None, alone)[0] == "seen" for _ in range(2)):
            print(f"{bug.name}: its tests fail without it, too [{how}]")
            return 1
        print(f"{verdict}: {bug.name}, {bug.file}: {bug.old[:90]}  ->  {bug.new[:90]}  [{how}]", flush=True)
        if verdict != "seen":
            missed.append(bug.name)
    print(f"{len(drawn) - len(missed)} of {len(drawn)} seen", *missed)
    return 1 if len(missed) > max(0.05 * len(drawn), len(drawn) > 1) else 0


if __name__ == "__main__":
    inside()
