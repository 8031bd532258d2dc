"""Random small changes of host code, and whether the tests of its folder see them.

Each change is made, built and tested in a mount namespace of its own, over the source tree and a
build folder that has everything built; both stay what they are (overlayfs, as root). What it
starts ends with it. stages.py says what is built and which tests run.
"""
import ctypes
import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter

import places
from connections import CONNECTIONS
from equivalents import EQUIVALENT
from stages import (FIRST_USE, NAMED, OVER_CUDA_DOUBLE, OVER_SOFT_NIC, STAGES, Stage, over_soft_nic,
                    stages_of)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MOUNTED = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
BUILD_SECONDS = 300
FAILED = re.compile(r"^\s*\d+/\d+ Test\s+#\d+: (.+?) \.*\s*"
                    r"((?:[A-Z][A-Za-z ]*)?\*\*\*(?!Skipped).+?)\s+[\d.]+ sec",
                    re.MULTILINE)
STARTED = re.compile(r"^\s*Start\s+\d+: (.+)$", re.MULTILINE)
ENDED = re.compile(r"^\s*\d+/\d+ Test\s+#\d+: (.+?) \.*\s*(?:Passed|\*\*\*)", re.MULTILINE)


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def has_overlays():
    """Whether this process may mount what it needs."""
    with tempfile.TemporaryDirectory() as folder:
        script = (f"mount -t tmpfs none {folder} && cd {folder} && mkdir low up work all && "
                  "mount -t overlay overlay -o lowerdir=low,upperdir=up,workdir=work all")
        try:
            return subprocess.run([*MOUNTED, "sh", "-c", script], capture_output=True,
                                  check=False).returncode == 0
        except FileNotFoundError:
            return False


def mount_over(folder, scratch):
    """From now on this namespace sees the folder as it is, and keeps what it writes in `scratch`."""
    above = tempfile.mkdtemp(dir=scratch)
    for name in ("up", "work"):
        os.mkdir(os.path.join(above, name))
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o",
                    f"lowerdir={folder},upperdir={above}/up,workdir={above}/work", folder],
                   check=True)


class Build:
    """The build folder: which objects are made of a source."""

    def __init__(self, folder, root=ROOT):
        self.folder = os.path.abspath(folder)
        self.objects = {}
        with open(os.path.join(self.folder, "compile_commands.json"), encoding="utf-8") as file:
            for entry in json.load(file):
                name = os.path.relpath(entry["file"], root)
                made = re.search(r" -o (\S+)", entry["command"]).group(1)
                self.objects.setdefault(name, []).append(made)

    def ninja(self, targets):
        return subprocess.run(["ninja", "-C", self.folder, *targets], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace",
                              timeout=BUILD_SECONDS, check=False)

    def bytes_of(self, file):
        found = []
        for name in self.objects[file]:
            with open(os.path.join(self.folder, name), "rb") as made:
                found.append(made.read())
        return found


class NoTime(Exception):
    """The time for all changes is over."""


def run_stage(build, stage, end):
    """How the stage saw the change, and by which tests; or None. NoTime when the clock passes `end`
    before that."""
    begun = time.monotonic()
    program = subprocess.Popen(
        ["ctest", "--test-dir", build.folder, "-R", f"(^|/)({stage.tests})", "-E",
         f"(^|/)({stage.without})", "--stop-on-failure", "-j4", "--no-tests=error"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    try:
        output, _ = program.communicate(timeout=max(min(stage.seconds, end - begun), 0))
    except subprocess.TimeoutExpired:
        program.kill()  # what it has started ends with the namespace
        if time.monotonic() >= end:
            raise NoTime from None
        output = program.communicate()[0]
        waiting = sorted(set(STARTED.findall(output)) - set(ENDED.findall(output)))
        return f"no end within {stage.seconds} s: " + ", ".join(waiting[:3]), waiting[:3]
    if program.returncode == 0:
        return None
    failed = FAILED.search(output)
    if failed is None:
        raise RuntimeError(f"ctest -R {stage.tests}:\n{output[-2000:]}")
    took = time.monotonic() - begun
    how = f"{failed.group(1)} ({failed.group(2).strip(' *')}) after {took:.0f} s"
    return how, [failed.group(1)]


def judge(build, place, stages, end):
    """In a namespace of its own: what becomes of the change, how, and by which tests. Without a
    place, of none."""
    if place is None:
        return see(build, stages, end)
    with open(os.path.join(ROOT, place.file), encoding="utf-8") as file:
        text = file.read()
    before = build.bytes_of(place.file)
    with open(os.path.join(ROOT, place.file), "w", encoding="utf-8") as file:
        file.write(text[:place.start] + place.new + text[place.end:])
    made = build.ninja(build.objects[place.file])
    if made.returncode != 0:
        error = re.search(r"error: .*", made.stdout)
        return "does not compile", error.group() if error else made.stdout[-300:], []
    if build.bytes_of(place.file) == before:
        return "same code", "", []
    return see(build, stages, end)


def see(build, stages, end):
    """What the stages see."""
    for stage in stages:
        try:
            made = build.ninja(stage.targets)
        except subprocess.TimeoutExpired:
            return "seen", "the build does not end", []  # it asks test programs for their cases
        if "unknown target" in made.stdout:
            raise RuntimeError(made.stdout)
        if made.returncode != 0:
            return "seen", "the build: " + made.stdout.strip()[-200:], []
        found = run_stage(build, stage, end)
        if found is not None:
            return "seen", *found
    return "NOT SEEN", "", []


def inside():
    """The process in the namespace: reads a request, prints the verdict."""
    request = json.load(sys.stdin)
    os.nice(10)
    scratch = tempfile.mkdtemp()
    subprocess.run(["mount", "-t", "tmpfs", "none", scratch], check=True)
    build = Build(request["build"])
    mount_over(ROOT, scratch)
    if os.path.commonpath([ROOT, build.folder]) != ROOT:
        mount_over(build.folder, scratch)
    # Files that name processes by numbers, which other namespaces have, too.
    for folder in ("/tmp", "/dev/shm"):
        if not ROOT.startswith(folder) and not build.folder.startswith(folder):
            subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=True)
    os.chdir(ROOT)  # as it is seen from here
    place = request["place"] and places.Place(*request["place"])
    stages = [Stage(*stage) for stage in request["stages"]]
    try:
        verdict = judge(build, place, stages, request["end"] or math.inf)
    except NoTime:
        verdict = "no time", "", []
    print(json.dumps(verdict))


def end_with_parent():
    """Also where ctest kills it, and then by unshare what that has started."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG, linux/prctl.h


def verdict_on(build, place, stages, end):
    request = json.dumps({"build": build.folder, "place": place, "stages": stages, "end": end})
    done = subprocess.run([*MOUNTED, sys.executable, "-B", os.path.abspath(__file__)],
                          input=request, stdout=subprocess.PIPE, text=True, check=True,
                          preexec_fn=end_with_parent)
    return json.loads(done.stdout.splitlines()[-1])


class Sources:
    """The sources of the folders that this build compiles, and their places."""

    def __init__(self, build, folders, ending=""):
        self.texts = {}
        for file in sorted(build.objects):
            if file.startswith(tuple(folder.rstrip("/") + "/" for folder in folders)) and file.endswith(ending):
                with open(os.path.join(ROOT, file), encoding="utf-8") as source:
                    self.texts[file] = source.read()
        self.places = [place for file, text in self.texts.items()
                       for place in places.places(file, text)]

    def lines(self, place):
        return places.changed_lines(place, self.texts[place.file])

    def reason(self, place):
        """Why nothing is worse with the change, if that is known."""
        change = (place.file, *self.lines(place))
        return next((row.reason for row in EQUIVALENT if tuple(row[:3]) == change), None)

    def stale(self):
        """Equivalents that are no change of any place any more."""
        files = {row.file for row in EQUIVALENT}
        changes = {(place.file, *self.lines(place)) for place in self.places if place.file in files}
        for row in EQUIVALENT:
            if row.file in self.texts and tuple(row[:3]) not in changes:
                yield f"{row.file}: {row.old}"


def say(verdict, place, sources, how):
    old, new = sources.lines(place)
    print(f"{verdict}: {place.file}, {place.operator}: {old}  ->  {new}  [{how}]", flush=True)


def chosen(sources, options):
    """Places in the order of the draw, or those of a report that were not seen."""
    if options.again:
        with open(options.again, encoding="utf-8") as file:
            wanted = [tuple(row[1:4]) for row in json.load(file) if row[0] == "NOT SEEN"]
        return [place for place in sources.places
                if (place.file, *sources.lines(place)) in wanted]
    print(f"{len(sources.places)} places in {len(sources.texts)} files, --seed {options.seed}")
    return random.Random(options.seed).sample(sources.places, len(sources.places))


def without_a_change(build, with_cuda):
    """Whether the stages see nothing where there is nothing."""
    rows = [(build, folder, stage) for folder, stages in STAGES.items() for stage in stages]
    rows += [(build, "connections", stage) for stage in OVER_SOFT_NIC + FIRST_USE]
    rows += [(with_cuda, "with CUDA", stage) for stage in OVER_CUDA_DOUBLE if with_cuda]
    good = True
    for built, folder, stage in rows:
        begun = time.monotonic()
        verdict, how, _ = verdict_on(built, None, [stage], None)
        good = good and verdict == "NOT SEEN"
        print(f"{folder}: {verdict} within {time.monotonic() - begun:.0f} of {stage.seconds} s, "
              f"{stage.tests} {how}", flush=True)
    return good


def pass_without(build, tests, end):
    """Whether the tests pass where nothing is changed, as far as the time allows to say."""
    if not tests:
        return True
    names = "|".join(re.escape(test.partition("/")[2]) for test in tests)
    stage = Stage([], f"({names})$", "^$", BUILD_SECONDS)
    return verdict_on(build, None, [stage], end)[0] != "seen"


def place_of(change):
    """ValueError when the text is not there any more, or twice."""
    with open(os.path.join(ROOT, change.file), encoding="utf-8") as file:
        text = file.read()
    if text.count(change.old) != 1:
        raise ValueError(f"{change.name}: {change.file} has {text.count(change.old)} times what is "
                         f"to be changed:\n{change.old}")
    begin = text.index(change.old)
    return places.Place(change.file, begin, begin + len(change.old), change.new, change.name)


def bugs_of_connections(options):
    """Whether those of connections.py that were asked for, or drawn, are seen over the soft NIC."""
    all_places = [place_of(change) for change in CONNECTIONS]
    build = Build(options.build)
    drawn = [place for place in all_places if place.operator in options.names]
    if not options.names:
        count = min(options.connections, len(all_places))
        print(f"{count} of {len(all_places)} bugs of connections, --seed {options.seed}", flush=True)
        drawn = random.Random(options.seed).sample(all_places, count)
    missed = []
    for place in drawn:
        verdict, how, _ = verdict_on(build, place, over_soft_nic(place.file), None)
        print(f"{verdict}: {place.operator} [{how}]", flush=True)
        if verdict != "seen":
            missed.append(place.operator)
    print(f"{len(drawn) - len(missed)} of {len(drawn)} seen", *missed)
    return 1 if missed else 0


def main(options):
    if not has_overlays():
        skip("root, unshare and overlayfs are needed for a source tree that is changed")
    if options.connections is not None:
        return bugs_of_connections(options)
    build = Build(options.build)
    with_cuda = options.cuda_build and Build(options.cuda_build)
    sources = Sources(build, options.folders)
    if options.without:
        return 0 if without_a_change(build, with_cuda) else 1
    listed = subprocess.run(["ctest", "--test-dir", os.path.join(build.folder, "tests/spmd"), "-N"],
                            capture_output=True, text=True, check=True).stdout.split()
    legs = {name.partition("spmd.")[2] for name in listed if "spmd." in name}
    missing = [leg for leg in NAMED if leg not in legs]
    if missing and any(leg.startswith("ofi_") for leg in legs):
        print("stages name legs that there are not:", *missing)
        return 1
    stale = list(sources.stale())
    if stale:
        print("stale equivalents:", *stale, sep="\n")
        if not options.least:
            return 1
    counts, report, sound = Counter(), [], set()
    end = options.seconds and time.monotonic() + options.seconds
    # Without those under way the rate would be too good: what is not seen takes longest.
    cut = end if options.least else None
    for place in chosen(sources, options):
        judged = counts["seen"] + counts["NOT SEEN"]
        enough = judged >= options.random and counts["seen"] >= (options.least or 0)
        if enough or judged >= 4 * options.random or (end and time.monotonic() > end):
            break
        how, blamed = sources.reason(place), []
        verdict = "equivalent"
        if how is None:
            seen_by = build
            verdict, how, blamed = verdict_on(build, place, stages_of(place.file), cut)
            if verdict in ("NOT SEEN", "same code") and with_cuda:
                seen_by = with_cuda
                verdict, how, blamed = verdict_on(with_cuda, place, OVER_CUDA_DOUBLE, cut)
        if verdict == "seen" and not pass_without(seen_by, set(blamed) - sound, cut):
            print(f"no bug of the change: {how}")
            return 1
        sound |= set(blamed)
        counts[verdict] += 1
        report.append([verdict, place.file, *sources.lines(place), place.operator, how])
        say(verdict, place, sources, how)
        if options.report:
            with open(options.report, "w", encoding="utf-8") as file:
                json.dump(report, file, indent=1)
    seen, survivors = counts.pop("seen", 0), counts.pop("NOT SEEN", 0)
    print(f"{seen} of {seen + survivors} seen; apart from these {dict(counts)}")
    if seen + survivors == 0:
        skip("none was tested in time")
    if options.least and seen < options.least:
        skip(f"chance drew {survivors} that no test of their folders sees, and {seen} others")
    return 1 if survivors and not options.least else 0


if __name__ == "__main__":
    inside()
