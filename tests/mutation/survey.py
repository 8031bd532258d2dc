#!/usr/bin/env python3
"""Which of all small changes of host code do the tests see?

Usage: survey.py FOLDER [--files REGEX] [--numbers N...] [--seed S] [--seconds S] [--jobs J] [--keep]
                 [--before FOLDER] [--first N] [--cap S] [--most N]
builds a copy of the sources in FOLDER in which every change can be switched on (switches.py), runs
each test once to learn which changes it reaches, and then, for each change, the tests that reach it
until one fails: those first that saw changes of the same file, then quick and narrow ones. So a
change costs a second or two, where one that is compiled (mutate.py --random) costs a minute.

The changes come in an order drawn by the seed, so that what was judged when the time is up is a fair
sample; --first N of them are a draw, as mutate.py --random N makes one. FOLDER/changes.json has the
rows [number, file, line, operator, before, after], FOLDER/verdicts.json the verdicts:
  seen       a test fails with it, and passes without it
  not seen   all tests that reach it pass
  open       so do those tried; the others take longer than --cap seconds
  unreached  no test reaches it, or its code is for a GPU, or evaluated by the compiler
MUTATION_CHANGE=number switches one on for any program of FOLDER/tree/build/release by hand.
--keep takes the build and what the tests reach as the last run left them. --before names the folder of
an earlier run: what saw a change then is tried first. Root and Linux are needed.
"""
import argparse
import json
import os
import queue
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict

import switches
from host import MOUNTED, ROOT, Build, Sources, end_with_parent, has_overlays, mount_over, skip

FOLDERS = ["transport", "host", "bootstrap"]
# What builds or reads sources, installs, or starts a machine.
LEFT_OUT = re.compile(r"^(rdma|examples|install|mutation|lint|docs|options)\b")
CONFIGURE = ["cmake", "--preset", "release", "-DGSHMEM_TESTS=ON", "-DGSHMEM_LEG=release",
             "-DGSHMEM_QUICK_TESTS=ON", "-DGSHMEM_PRECOMPILE=ON",
             "-DCMAKE_CXX_FLAGS=-w -Wno-narrowing -O1"]
CHANGES = 1 << 16  # as in switches.h
LINE_WITH_ERROR = re.compile(r"^(?:\S*/tree/|(?:\.\./)*)((?:transport|host|bootstrap)/[\w/.]+\.cpp):(\d+):\d+: +"
                             r"(error|required|  required)", re.MULTILINE)


class Tree:
    """The copy with the switches, and its build."""

    def __init__(self, folder):
        self.folder = os.path.join(os.path.abspath(folder), "tree")
        self.build = os.path.join(self.folder, "build", "release")
        self.left_out = set()

    def copy(self):
        listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others",
                                 "--exclude-standard"], capture_output=True, check=True).stdout
        for name in filter(None, listed.decode().split("\0")):
            switched = name.startswith(tuple(FOLDERS)) and name.endswith(".cpp")
            if os.path.isfile(os.path.join(ROOT, name)) and not (
                    switched and os.path.isfile(os.path.join(self.folder, name))):
                self.write(name, None)

    def write(self, name, text):
        """The text, or the file as it is; what stands there already stays as old as it is."""
        source, target = os.path.join(ROOT, name), os.path.join(self.folder, name)
        new = text.encode() if text is not None else open(source, "rb").read()
        if os.path.isfile(target) and open(target, "rb").read() == new:
            return
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "wb") as file:
            file.write(new)
        shutil.copymode(source, target)

    def configure(self):
        subprocess.run(CONFIGURE, cwd=self.folder, stdout=subprocess.DEVNULL, check=True)

    def put_switches(self, sources, rows):
        """Builds; what the compiler does not take is left out."""
        by_line = defaultdict(list)
        for number, file, line, *_ in rows:
            by_line[file, line].append(number)
        by_file = defaultdict(list)
        for number, place in enumerate(sources.places):
            by_file[place.file].append((number, place))
        while True:
            for file, numbered in by_file.items():
                text = switches.switched(sources.texts[file], [place for _, place in numbered],
                                         numbered[0][0], self.left_out)
                self.write(file, text)
            made = subprocess.run(["ninja", "-C", self.build, "-k", "0"], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
            if made.returncode == 0:
                return
            there = {at: [number for number in numbers if number not in self.left_out]
                     for at, numbers in by_line.items()}
            refused = set()
            for part in re.split(r"^FAILED: ", made.stdout, flags=re.MULTILINE)[1:]:
                refused |= refused_in(part, there)
            if not refused:
                raise RuntimeError(made.stdout[-4000:])
            self.left_out |= refused


def refused_in(output, by_line):
    """Numbers of the changes on the lines of a file's first error."""
    refused, wrong = set(), set()
    for file, line, kind in LINE_WITH_ERROR.findall(output):
        if kind == "error" and file in wrong:
            continue
        if kind == "error":
            wrong.add(file)
        near = (by_line.get((file, int(line) + step)) for step in (0, -1, 1))
        refused |= set(next(filter(None, near), []))
    return refused


def tests_of(build):
    """All tests that see what code does, as ctest would start them."""
    listed = subprocess.run(["ctest", "--show-only=json-v1"], cwd=build, capture_output=True,
                            text=True, check=True).stdout
    tests = []
    for row in json.loads(listed)["tests"]:
        name = row["name"].partition("/")[2]
        if LEFT_OUT.search(name) or not row.get("command"):
            continue
        has = {each["name"]: each["value"] for each in row.get("properties", [])}
        tests.append({"name": name, "command": row["command"],
                      "folder": has.get("WORKING_DIRECTORY", build),
                      "environment": [each.split("=", 1) for each in has.get("ENVIRONMENT", [])],
                      "skips": has.get("SKIP_RETURN_CODE"),
                      "says_skipped": has.get("SKIP_REGULAR_EXPRESSION", [])})
    return tests


def run_test(test, environment, seconds):
    """"passed", "skipped" or how it failed, and how long it took. What it started is ended."""
    command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *test["command"]]
    begun = time.monotonic()
    with tempfile.TemporaryFile() as output:
        with subprocess.Popen(command, cwd=test["folder"], stdin=subprocess.DEVNULL, stdout=output,
                              stderr=subprocess.STDOUT, start_new_session=True,
                              env={**os.environ, **dict(test["environment"]), **environment}) as program:
            try:
                code = program.wait(seconds)
            except subprocess.TimeoutExpired:
                program.kill()
                return f"no end within {seconds:.0f} s", time.monotonic() - begun
        took = time.monotonic() - begun
        output.seek(0)
        text = output.read().decode(errors="replace")
    if code == test["skips"] or any(re.search(each, text) for each in test["says_skipped"]):
        return "skipped", took
    return "passed" if code == 0 else f"status {code}", took


def reached_by(test, scratch):
    """How the test ends without a change, how long it takes, and what it reaches."""
    with tempfile.NamedTemporaryFile(dir=scratch) as marks:
        marks.truncate(CHANGES)
        how, took = run_test(test, {"MUTATION_REACHED": marks.name}, 600)
        return how, took, [number for number, byte in enumerate(marks.read()) if byte]


def judged(number, rows, tests, sound):
    """Verdict, by which test and how, and which tests fail without a change, too."""
    broken = []
    for index, usual in rows:
        limit = 5 * usual + 8
        how, _ = run_test(tests[index], {"MUTATION_CHANGE": str(number)}, limit)
        if how in ("passed", "skipped"):
            continue
        if index not in sound and run_test(tests[index], {}, limit)[0] != "passed":
            broken.append(index)
            continue
        sound.add(index)
        return "seen", tests[index]["name"], how, broken
    return "not seen", "", "", broken


def empty(folder):
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            os.unlink(entry.path)


def serve():
    """In namespaces of its own: answers a line with a line, until there is none."""
    root, tests = json.loads(sys.stdin.readline())
    scratch = tempfile.mkdtemp(dir="/var/tmp")
    subprocess.run(["mount", "-t", "tmpfs", "none", scratch], check=True)
    mount_over(root, scratch)
    for folder in ("/tmp", "/dev/shm"):
        if not root.startswith(folder):
            subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=True)
    sound = set()
    for line in sys.stdin:
        number, rows = json.loads(line)
        if number is None:
            answer = reached_by(tests[rows], scratch)
        else:
            answer = judged(number, rows, tests, sound)
            for folder in ("/tmp", "/dev/shm"):
                if not root.startswith(folder):
                    empty(folder)
        print(json.dumps(answer), flush=True)


class Servers:
    """Processes that run tests side by side."""

    def __init__(self, root, tests, jobs, end=None):
        self.begin = json.dumps([root, tests]) + "\n"
        self.jobs, self.end, self.lock = jobs, end, threading.Lock()

    def ask(self, about, put, heard):
        """put(each) is the question about each, and heard(question, answer) is told; one at a time.
        What has not begun at the end is dropped."""
        waiting = queue.Queue()
        for each in about:
            waiting.put(each)
        threads = [threading.Thread(target=self.work, args=(waiting, put, heard))
                   for _ in range(self.jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def work(self, waiting, put, heard):
        with subprocess.Popen([*MOUNTED, sys.executable, "-B", os.path.abspath(__file__), "--serve"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
            server.stdin.write(self.begin)
            while self.end is None or time.monotonic() < self.end:
                try:
                    with self.lock:
                        question = put(waiting.get_nowait())
                except queue.Empty:
                    break
                server.stdin.write(json.dumps(question) + "\n")
                server.stdin.flush()
                answer = json.loads(server.stdout.readline())
                with self.lock:
                    heard(question, answer)
            server.stdin.close()


def learn(servers, tests):
    """For each change the tests that reach it: index, usual time, number of changes reached."""
    by_change = defaultdict(list)

    def heard(question, answer):
        how, took, numbers = answer
        if how not in ("passed", "skipped"):
            print(f"left out, fails without a change: {tests[question[1]]['name']} ({how})", flush=True)
        for number in numbers if how == "passed" else []:
            by_change[number].append((question[1], took, len(numbers)))

    longest_first = sorted(range(len(tests)), key=lambda i: not tests[i]["name"].startswith("spmd"))
    servers.ask(longest_first, lambda index: (None, index), heard)
    return by_change


def seen_before(folder):
    """Of the changes that an earlier run saw: file, operator, lines before and after -> test."""
    with open(os.path.join(folder, "changes.json"), encoding="utf-8") as file:
        rows = {number: (file, *change) for number, file, _, *change in json.load(file)}
    with open(os.path.join(folder, "verdicts.json"), encoding="utf-8") as report:
        return {rows[number]: by for number, verdict, by, _ in map(json.loads, report)
                if verdict == "seen"}


def chosen(rows, saw, first, cap, most):
    """The tests that are tried, within the time: the one that saw it before, those that saw changes of
    the same file, then the quickest ones that reach little else."""
    tried, spent = [], 0
    for index, took, width in sorted(rows, key=lambda row: (
            row[0] != first, row[1] * row[2] / (1 + 99 * saw[row[0]]))):
        if not tried or (spent + took <= cap and len(tried) < most):
            tried.append((index, took))
            spent += took
    return tried


def judge(servers, tests, numbers, rows, by_change, options, report):
    """All of them; returns the number of each verdict."""
    counts, broken, saw = Counter(), Counter(), defaultdict(Counter)
    names = {test["name"]: index for index, test in enumerate(tests)}
    before = seen_before(options.before) if options.before else {}

    def tell(number, verdict, by="", how=""):
        counts[verdict] += 1
        report.write(json.dumps([number, verdict, by, how]) + "\n")
        report.flush()
        if sum(counts.values()) % 500 == 0:
            print(dict(counts), flush=True)

    def heard(question, answer):
        number, tried = question
        verdict, by, how, fails = answer
        for index in fails:
            broken[tests[index]["name"]] += 1
        if verdict == "seen":
            saw[rows[number][1]][names[by]] += 1
        if verdict == "not seen" and len(tried) < len(by_change[number]):
            verdict = "open"
        tell(number, verdict, by, how)

    def put(number):
        _, file, _, *change = rows[number]
        first = names.get(before.get((file, *change)))
        return number, chosen(by_change[number], saw[file], first, options.cap, options.most)

    for number in numbers:
        if number not in by_change:
            tell(number, "unreached")
    servers.ask([number for number in numbers if number in by_change], put, heard)
    for name, times in broken.items():
        print(f"failed {times} times without a change: {name}")
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--files", default="")
    parser.add_argument("--numbers", type=int, nargs="+")
    parser.add_argument("--seed", type=int, default=int(time.time() // 86400))
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--jobs", type=int, default=2 * os.cpu_count())
    parser.add_argument("--cap", type=float, default=40, help="seconds of tests for a change")
    parser.add_argument("--most", type=int, default=60, help="tests for a change")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--before")
    parser.add_argument("--first", type=int)
    options = parser.parse_args()
    if not has_overlays():
        skip("root, unshare and overlayfs are needed")

    tree, kept = Tree(options.folder), os.path.join(options.folder, "reached.json")
    if not options.keep:
        tree.copy()
        tree.configure()
    sources = Sources(Build(tree.build, tree.folder), FOLDERS, ".cpp")
    rows = [[number, place.file, sources.texts[place.file].count("\n", 0, place.start) + 1,
             place.operator, *sources.lines(place)] for number, place in enumerate(sources.places)]
    assert len(rows) <= CHANGES
    tests = None
    if not options.keep:
        tree.put_switches(sources, rows)
        with open(os.path.join(options.folder, "changes.json"), "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=0)
        tests = tests_of(tree.build)
        learnt = learn(Servers(tree.folder, tests, os.cpu_count()), tests)
        with open(kept, "w", encoding="utf-8") as file:
            json.dump([sorted(tree.left_out), learnt], file)
    tests = tests or tests_of(tree.build)
    with open(kept, encoding="utf-8") as file:
        left_out, learnt = json.load(file)
    by_change = {int(number): reaching for number, reaching in learnt.items()}
    print(f"{len(rows)} changes, {len(left_out)} without a switch, {len(tests)} tests, "
          f"--seed {options.seed}", flush=True)

    equivalent = {number for number, place in enumerate(sources.places) if sources.reason(place)}
    numbers = [row[0] for row in rows if re.search(options.files, row[1])
               and row[0] not in equivalent and row[0] not in set(left_out)
               and (not options.numbers or row[0] in options.numbers)]
    random.Random(options.seed).shuffle(numbers)
    numbers = numbers[:options.first]
    end = options.seconds and time.monotonic() + options.seconds
    with open(os.path.join(options.folder, "verdicts.json"), "w", encoding="utf-8") as report:
        counts = judge(Servers(tree.folder, tests, options.jobs, end), tests, numbers, rows,
                       by_change, options, report)
    with open(os.path.join(options.folder, "verdicts.json"), encoding="utf-8") as report:
        for number, verdict, *_ in sorted(map(json.loads, report)):
            if verdict == "not seen":
                print("not seen:", *rows[number][:4], "|", rows[number][4], " -> ", rows[number][5])
    print(dict(counts))


if __name__ == "__main__":
    end_with_parent()
    if "--serve" in sys.argv:
        serve()
    else:
        main()
