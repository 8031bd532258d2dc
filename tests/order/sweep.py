"""Takes each fence, quiet, wait and barrier out of examples/ and tests/spmd in turn, and runs what is left under gshmem-check:
sweep.py BUILD [--every N] [--jobs N] [FILE...], where BUILD is a build for ThreadSanitizer with examples and tests. By hand; a file takes
minutes.

A file is compiled once: each statement with such a call becomes `{ if (sweep_keeps(K)) ...; }`, and K is left out when the
environment has GSHMEM_SWEEP=K. Every removal is one of
  reported  gshmem-check names a race
  ends      no report, but the program fails, or hangs: nobody overlooks that
  not run   no PE came there: in CPU mode the program has no such call
  harmless  a row of sweep.tsv says why the specification orders all of it without the call
  missed    a row of sweep.tsv says why the checker does not see it
  SILENT    none of these: the checker misses it, or a row is missing
What is not reported and not harmless is run again with two other seeds of gshmem-check. The programs as they are must have no report with any
of them, and end with status 0. Exit status 0: no original is reported, and at least 95 % of those that are not harmless and do not
end are reported.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CHECK = ROOT / "host/tools/check/gshmem-check"
CALL = re.compile(r"\b(?!test_)(?:[A-Za-z_]\w*(?:\(\))?(?:\.|->|::))*\w*(?:fence|quiet|wait_until|barrier)\w*(?:<[^<>;]*>)?\(")
EXAMPLES = {"ring": ["3"], "histogram": ["3"], "allreduce_pipeline": ["3"], "halo2d": ["3"], "key_exchange": ["3"], "moe": ["3"],
            "gemm_reduce_scatter": ["3"]}
KEEPS = """#ifndef GSHMEM_SWEEP_KEEPS
#define GSHMEM_SWEEP_KEEPS
#include <cstdio>
#include <cstdlib>
inline bool sweep_keeps(int number) {
  static const int left_out = std::getenv("GSHMEM_SWEEP") ? std::atoi(std::getenv("GSHMEM_SWEEP")) : 0;
  if (number != left_out) return true;
  static FILE* const reached = std::fopen(std::getenv("GSHMEM_SWEEP_REACHED"), "w");
  return reached == nullptr;
}
#endif
"""
# Bodies for files that have none of their own, or too few.
BODIES = {"handles": ["queue_handles_move_data", "threads_with_a_queue_handle_each_move_data_at_the_same_time",
                      "atomics_of_contexts_are_atomic_to_each_other", "groups_put_with_signal_by_contexts"],
          "session": ["fence_orders_a_flag_after_the_data"], "spmd": ["barrier_all_completes_puts_before_it"],
          "life": ["job_can_be_joined_again_with_another_heap", "finalize_frees_what_is_left"]}
# Files of which more is run than one of 8 combinations that differ little.
SAMPLES = {"transfers": "1"}
# Seeds of files whose first one draws arrays that alternate: nothing is stored there too early.
SEEDS = {"collectives": "2"}
CHECK_SEEDS = (1, 2, 3)
# Bodies that are left out.
NOT_RUN = {
    "amo_of_every_type_returns_and_leaves_the_right_value": "it wants the order of a PE's atomics on one word",
    "registered_memory_takes_every_atomic": "it wants the order of a PE's atomics on one word",
    "bit_operations_leave_the_bits_of_others_alone": "it wants the order of a PE's atomics on one word",
    "amo_of_every_type_by_host_thread_returns_and_leaves_the_right_value": "it wants the order of a PE's atomics on one word",
    "atomics_of_every_type_by_record_return_and_leave_the_right_value": "records go past the checker",
    "transfers_and_signals_by_record_arrive": "records go past the checker",
    "puts_to_memory_are_complete_when_it_is_unregistered": "it puts 16 times to the same memory, and takes half a minute",
}
Removal = collections.namedtuple("Removal", "file line text")


def end_of_call(text, at):
    """The place after the parenthesis that ends the call whose arguments begin at `at`."""
    depth = 1
    while depth and at < len(text):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return at


def take_apart(path, removals):
    """The text of a file in which every removable statement has a number, which is its place in `removals`."""
    text, out, done, texts = path.read_text(), [], 0, collections.Counter()
    for found in CALL.finditer(text):
        if found.start() < done:
            continue
        before = text[:found.start()]
        line = before[before.rfind("\n") + 1:]
        if "//" in line or "#" in line or line.count('"') % 2:
            continue
        begin = len(before.rstrip())
        begins = before[:begin].endswith((";", "{", "}", ")", "else")) or re.search(r"(case [\w:]+|default):$", before[:begin])
        end = end_of_call(text, found.end())
        if before[:begin].endswith("(void)"):
            begin -= len("(void)")
            begins = True
        else:
            begin = found.start()
        if not begins or text[end:end + 1] != ";":
            continue  # its value is used, or it is a definition
        name = " ".join(text[begin:end].split())
        texts[name] += 1
        if texts[name] > 1:
            name += f" #{texts[name]}"
        removals.append(Removal(str(path.relative_to(ROOT)), text.count("\n", 0, found.start()) + 1, name))
        out += [text[done:begin], f"{{ if (sweep_keeps({len(removals)})) ", text[begin:end], "; }"]
        done = end + 1
    return KEEPS + f'#line 1 "{path}"\n' + "".join(out) + text[done:]


class Program:
    """A program of the build, some of whose files are compiled again."""

    def __init__(self, build, target, folder, files, pool):
        self.removals, commands = [], []
        lines = subprocess.run(["ninja", "-C", str(build), "-t", "commands", target], capture_output=True, text=True,
                               check=True).stdout.splitlines()
        link = next(line for line in reversed(lines) if f"-o bin/{target} " in line)
        for line in lines:
            if f"/{target}.dir/" not in line or " -c " not in line:
                continue
            words = shlex.split(line)
            source, output = words[words.index("-c") + 1], words[words.index("-o") + 1]
            made = self.mutate(pathlib.Path(source), folder, files)
            if not made:
                continue
            new = folder / (output.replace("/", "_"))
            words[words.index("-c") + 1], words[words.index("-o") + 1] = str(made), str(new)
            for option in ("-include", "-MT", "-MF"):
                if option in words:
                    at = words.index(option)
                    del words[at:at + 2]
            words = [word for word in words if word not in ("-Winvalid-pch", "-MD", "-Werror")] + ["-w", "-fno-builtin"]
            commands.append(words)
            link = link.replace(f" {output}", f" {new}")
        print(f"compiling {len(commands)} units of {target}", file=sys.stderr)
        list(pool.map(lambda words: subprocess.run(words, cwd=build, check=True), commands))
        self.path = folder / target
        link = link.replace(f"-o bin/{target} ", f"-o {self.path} ")
        subprocess.run(link, shell=True, cwd=build, check=True)

    def mutate(self, source, folder, files):
        """The source, or the batch of sources, with those of `files` taken apart; None if it has none of them."""
        parts = [source]
        if not str(source).startswith(str(ROOT / "tests")) and not str(source).startswith(str(ROOT / "examples")) or \
                source.suffix == ".cxx" or source.name.startswith("batch_"):
            parts = [ROOT / found if not found.startswith("/") else pathlib.Path(found)
                     for found in re.findall(r'#include "([^"]+)"', source.read_text())]
        if not any(part in files for part in parts):
            return None
        batch = ""
        for part in parts:
            if part in files:
                copy = folder / f"{part.stem}_taken_apart.cpp"
                copy.write_text(take_apart(part, self.removals))
                part = copy
            batch += f'#include "{part}"\n'
        made = folder / f"batch_of_{source.stem}.cpp"
        made.write_text(batch)
        return made


def run(program, arguments, number, folder, seed="", check_seed=1):
    """Returns the pairs of places that are found, the exit status (None: it does not end), and whether it came to the removal."""
    report = folder / f"{program.name}_{number}.json"
    reached = folder / f"{program.name}_{number}.reached"
    report.unlink(missing_ok=True)
    command = [sys.executable, str(CHECK), "--json", str(report), "--seed", str(check_seed), str(program), *arguments]
    environment = dict(os.environ, GSHMEM_SWEEP=str(number), GSHMEM_SWEEP_REACHED=str(reached), GSHMEM_TIMEOUT="20", GSHMEM_LOG="none")
    if seed:
        environment["GSHMEM_TEST_SEED"] = seed
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        status = process.wait(timeout=90)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 2)  # gshmem-check then prints what was found
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
        status = None
    found = json.loads(report.read_text())["findings"] if report.exists() else []
    return {tuple(f"{pathlib.Path(side['file']).name}:{side['line']}" for side in each["accesses"]) for each in found}, status, reached.exists()


def seed_of(file):
    return SEEDS.get(pathlib.Path(file).stem, "")


def bodies(path):
    """SPMD_TESTs of a file that are run for it."""
    found = re.findall(r"^SPMD_TEST\w*\((?!NAME)(\w+)", path.read_text(), re.M)
    return [body for body in BODIES.get(path.stem, found) if body not in NOT_RUN]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--every", type=int, default=1, help="try one of so many removals")
    parser.add_argument("--jobs", type=int, default=1, help="run so many programs at a time")
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    options = parser.parse_intermixed_args()
    files = [path.resolve() for path in options.files] or \
        [ROOT / "examples" / f"{name}.cpp" for name in EXAMPLES] + sorted((ROOT / "tests/spmd").glob("*.cpp"))
    reasons = {tuple(line.split("\t")[:2]): line.split("\t")[2] for line in (HERE / "sweep.tsv").read_text().splitlines()
                if line and not line.startswith("#")}
    counts, bad = collections.Counter(), 0
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        folder = pathlib.Path(name)
        programs = [Program(options.build, path.stem, folder, [path], pool) for path in files if path.parent.name == "examples"]
        of_spmd = [path for path in files if path.parent.name == "spmd" and bodies(path)]
        if of_spmd:
            programs.append(Program(options.build, "spmd", folder, of_spmd, pool))
        for program in programs:
            by_file = {path: bodies(path) for path in of_spmd} if program.path.name == "spmd" else {}

            def arguments(file):
                if not by_file:
                    return EXAMPLES[program.path.name]
                return ["--mode", "threads", "--pes", "3", "--device", "cpu", "--sample", SAMPLES.get(pathlib.Path(file).stem, "8"),
                        *by_file[ROOT / file]]

            originals, statuses = {}, {}
            for file in dict.fromkeys(removal.file for removal in program.removals):
                originals[file], statuses[file] = set(), 0
                for check_seed in CHECK_SEEDS:
                    found, status, _ = run(program.path, arguments(file), 0, folder, seed_of(file), check_seed)
                    originals[file] |= found
                    statuses[file] = statuses[file] or status
                print(f"{file}: status {statuses[file]}, reports on the original: {sorted(originals[file])}", flush=True)
                bad += len(originals[file]) + (statuses[file] != 0)
            tried = [(number, removal) for number, removal in enumerate(program.removals, 1) if not number % options.every]

            def attempt(each, program=program, arguments=arguments, originals=originals, statuses=statuses):
                number, removal = each
                why = reasons.get((removal.file, removal.text), "missed: ")
                for check_seed in CHECK_SEEDS:
                    found, status, reached = run(program.path, arguments(removal.file), number, folder, seed_of(removal.file), check_seed)
                    if found - originals[removal.file]:
                        return "reported"
                    if status != statuses[removal.file]:
                        return "ends"
                    if not reached:
                        return "not run"
                    if not why.startswith("missed: "):
                        return "harmless"
                return "missed" if (removal.file, removal.text) in reasons else "SILENT"

            for (_, removal), outcome in zip(tried, pool.map(attempt, tried)):
                counts[outcome] += 1
                print(f"{outcome}\t{removal.file}:{removal.line}\t{removal.text}", flush=True)
    print(dict(counts), file=sys.stderr)
    wrong = counts["reported"] + counts["missed"] + counts["SILENT"]
    return 0 if not bad and counts["reported"] >= 0.95 * wrong else 1


if __name__ == "__main__":
    sys.exit(main())
