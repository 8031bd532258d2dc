#!/usr/bin/env python3
"""Checks the rules of this tree that no compiler checks. Usage: lint.py [ROOT]

Prints "path:line: rule: what is wrong" for each violation and exits 1 when there is one. The rules
are the tables below; an exception is one line in a table, with its reason.
"""
import functools
import os
import re
import subprocess
import sys
from collections import namedtuple

TOP_LEVEL = {"CMakeLists.txt", "CMakePresets.json", "LICENSE", "README.md", "CONTRIBUTING.md",
             "CHANGELOG.md", "SECURITY.md", "docs", "pyproject.toml", "include", "host",
             "device", "transport", "bootstrap", "tests", "perftest", "examples"}

# Include direction: the first row whose prefix matches the including file lists what it may include
# from this repository. Paths are those of the source tree; a name without "/" at its end is a file.
PUBLIC_PODS = ["include/gshmem/abi/", "include/gshmem/status.h", "include/gshmem/uniqueid.h"]
ALL_BOXES = ["include/", "device/", "host/", "transport/", "bootstrap/"]
FLOORS = ["core", "pe", "network", "ops", "collective", "api"]
MAY_INCLUDE = [
    ("include/gshmem/abi/", PUBLIC_PODS),
    ("include/", ["include/", "device/"]),
    # The floors of the device library: each includes itself and those below it.
    *((f"device/{floor}/", ["include/", *(f"device/{below}/" for below in FLOORS[:at + 1])])
      for at, floor in enumerate(FLOORS)),
    ("device/library/", ["include/", "device/"]),
    ("device/", []),
    ("bootstrap/", ["bootstrap/", "host/base/", *PUBLIC_PODS]),
    # PEs of a host pass each other the descriptors of their heaps.
    ("transport/p2p/", ["transport/", "host/base/", "host/control/", *PUBLIC_PODS]),
    ("transport/softnic/tests/", ["transport/softnic/", "transport/nic/decode.h", "host/base/", "tests/*",
                                  "tests/sanitizers/"]),
    # A house of its own: a NIC that knows no library but the layouts of the wire.
    ("transport/softnic/", ["transport/softnic/", "transport/nic/decode.h", "host/base/", *PUBLIC_PODS]),
    ("transport/", ["transport/nic/", "transport/ofi/", "transport/p2p/", "host/base/", *PUBLIC_PODS]),
    ("host/base/", ["host/base/", *PUBLIC_PODS]),
    # A bootstrap's interface is how PEs learn each other's first addresses.
    ("host/control/", ["host/control/", "host/base/", "bootstrap/bootstrap.h", *PUBLIC_PODS]),
    ("host/", ALL_BOXES),
    ("examples/", ["examples/", "include/gshmem/*", "include/gshmem/compat/"]),
    # The queue protocol is measured with queues of each kind.
    ("perftest/", ["perftest/", "include/gshmem/*", "include/gshmem/compat/", "include/gshmem/abi/queue_shape.h"]),
    ("tests/", ["tests/", "examples/", "perftest/", *ALL_BOXES]),
]

# Vendor headers and the only places that may include them.
VENDOR_HEADERS = [
    (r"infiniband/", ["transport/nic/mlx5/", "transport/softnic/", "tests/"]),
    (r"rdma/", ["transport/ofi/", "tests/"]),
    (r"pmix(_\w+)?\.h$", ["bootstrap/pmix", "tests/"]),
    (r"mpi\.h$", ["bootstrap/mpi", "examples/", "tests/"]),
    (r"cuda\.h$", ["host/", "transport/", "include/gshmem/compat/", "tests/"]),
]
# Of those, the headers that a file may include only if its opening comment names what it uses.
VENDOR_NAMED_IN_COMMENT = [(r"cuda\.h$", re.compile(r"CUDA driver|cuda\.h"))]

# Words with one home each: rule, pattern, where they may be (prefix or file, and why).
WORDS = [
    ("getenv", r"\b(?:secure_)?getenv\b|\benviron\b", {
        "host/base/config.cpp": "the one parser of the environment",
        "examples/": "programs of users", "tests/": "programs of users",
        "transport/softnic/tests/": "programs of users"}),
    ("dlopen", r"\bdlm?open\b", {
        "host/base/dynamic_library.cpp": "the one loader",
        "tests/": "tests load the library the way programs do",
        "transport/softnic/tests/": "likewise"}),
    ("volatile", r"\bvolatile\b", {"device/core/machine_gpu.h": "inline PTX", "perftest/peer/": "what programs do by hand"}),
    ("asm", r"\b(?:asm|__asm__|__asm)\b", {
        "perftest/peer/": "what programs do by hand",
        "device/core/machine_gpu.h": "the machine layer",
        "include/gshmem/abi/doorbell_cpu.h": "barriers of aarch64 that C++ does not have",
        "host/runtime/gpu/kernel_images.c": "the bytes of a file",
        "transport/softnic/verbs/symver.h": "old symbol versions; clang 14 has no attribute",
        "tests/unit/lanes/lanes.cpp": "longjmp from stack to stack, which _FORTIFY_SOURCE does not allow",
        "include/gshmem/device/": "where device/ is installed"}),
    ("__device__", r"\b__device__\b", {
        "device/core/machine.h": "defines GSHMEM_FN", "device/core/machine_gpu.h": "that machine",
        "device/core/coop.h": "thread groups",
        "include/gshmem/abi/mlx5.h": "endian types that both machines use",
        "device/core/state.h": "the __constant__ state of each translation unit",
        "device/library/library.cu": "the device API with C names",
        "host/runtime/gpu/service.cu": "the library's own kernels",
        "device/core/register_bounds.h": "names kernels for device code alone",
        "include/gshmem/complex.hpp": "constructors that kernels call, below the device library",
        "host/runtime/gpu/grid_kernels.cu": "the library's own kernels",
        "perftest/peer/": "a program of users, in NVSHMEM's names",
        "examples/": "programs of users", "tests/": "programs of users"}),
    ("catch", r"\bCatch::(?!(?:Contains|EndsWith|Matches|StartsWith)\b)\w+", {
        "tests/launch/catch3/": "where version 3 gets the names of version 2"}),
]

PRODUCT = ("include/", "device/", "transport/", "host/", "bootstrap/", "perftest/", "examples/")
# How comments of the product and of tests read (house style: subject first, "after" in time, a comment stands
# alone): rule, what no comment says, what it says instead. Names in backticks are code.
COMMENTED = (*PRODUCT, "tests/")
PROSE = [
    ("behind", r"\bbehind\b", "say 'after'"),
    ("the-same", r"\A//[/<!]* ?The same\b", "a comment stands alone: say what it is that is the same"),
    ("lest", r"\blest\b", "say 'so that ... not'"),
]

# Comments that begin with one of these words have no subject: their number may only fall.
SUBJECTLESS = re.compile(r"\A(?://[/!]?<?|/\*+<?) *(?:Of|By|As|What)\b")
SUBJECTLESS_AT_MOST = 0

# A second inclusion adds what the first one left out.
INCLUDED_AGAIN = {"include/gshmem/gshmem.h"}
# Base names of headers that several folders have. New ones are unique; one that is unique again leaves the table.
REPEATED_NAMES = set("""
    api.h atomics.h bench.h context.h fabric.h fault.h gpu.h machine.h memory.h mlx5.h prm.h queue.h report.h rma.h
    state.h team.h""".split())

# Names with "_" in comments exist in the code of this tree, but for those of others (libraries, kernel, firmware),
# and for placeholders of the tables.
FOREIGN_NAMES = re.compile(
    r"(?:[A-Z0-9_]+|T_\w+|put\w*N_\w+|\w*_(?:STEM|OP|NAME|T)(?:_\w+)?|gshmem_T_\w+"
    r"|(?:addr|cuda?|cxip|devx|dl|efa|fi|gdr|ib|iboe|mlx5|mmio|nvml|nvshmemx?|rdma|rxm|shmem|sm|source|tcp|udma|verbs|vrb)_?[A-Z_]?\w*"
    r"|nvml\w+|cuMem\w+)")
FOREIGN_WORDS = set("""
    atomic_host_endian_min_size atomic_req_8B_endianness_mode create_rmp_in general_obj_in_cmd_hdr
    general_obj_out_cmd_hdr hw_sq_wqebb_counter last_notified_index ofi_check_info os_is_administrator pin_user_pages
    post_send_db Q_Key qp_state_table qp_ts_format query_qp_out roce_caps rst2init_qp_in set_atomic_seg srqn_uidx
    sw_sq_wqebb_counter user_namespaces""".split())
NAME_IN_COMMENT = re.compile(r"(?<![\w/.%-])([A-Za-z]\w*_\w+)(?![\w/-]|\.\w)")

# Subjects of commits since then: "area: imperative summary", one change (CONTRIBUTING.md).
COMMITS_SINCE = "2026-11-29T00:00:00Z"
SUBJECT = re.compile(r"[\w./+-]+(?:, [\w./+-]+)*: \S[^;]*\Z")
MAX_SUBJECT = 72

# Where the standard says that names of std:: are declared. A file includes what it uses, itself or by
# headers of this tree: the legs of the tests precompile these headers and would not see it missing,
# and what one standard header includes of another differs between compilers.
STD_NAMES = {
    "algorithm": r"all_of any_of binary_search clamp copy copy_if copy_n count count_if equal fill fill_n "
                 r"find find_if generate is_sorted lower_bound max max_element min min_element mismatch "
                 r"none_of remove_if replace replace_if reverse sort stable_sort transform unique "
                 r"upper_bound",
    "array": r"array to_array",
    "atomic": r"atomic atomic_\w+ memory_order\w*",
    "barrier": r"barrier",
    "bit": r"bit_\w+ countl_zero countr_zero has_single_bit popcount",
    "cctype": r"isalnum isdigit isspace isxdigit tolower toupper",
    "charconv": r"from_chars to_chars",
    "chrono": r"chrono",
    "cmath": r"ceil fabs floor fmax isfinite isnan ldexp pow signbit sqrt",
    "concepts": r"convertible_to invocable same_as",
    "condition_variable": r"condition_variable\w*",
    "csignal": r"raise signal",
    "cstddef": r"byte max_align_t nullptr_t ptrdiff_t size_t to_integer",
    "cstdint": r"u?int\d+_t u?intptr_t",
    "cstdio": r"FILE fclose fflush fgets fopen fprintf fputc fputs fread fwrite perror printf puts rename "
              r"rewind setvbuf snprintf sscanf tmpfile vprintf vsnprintf",
    "cstdlib": r"_Exit abort aligned_alloc atof atoi calloc exit free getenv malloc strtod strtoul?l?",
    "cstring": r"memchr memcmp memcpy memmove memset strchr strcmp strcpy strcspn strerror strlen strncmp "
               r"strncpy strrchr strstr",
    "deque": r"deque",
    "exception": r"current_exception exception exception_ptr rethrow_exception terminate",
    "filesystem": r"filesystem",
    "fstream": r"[io]?fstream",
    "functional": r"function hash reference_wrapper",
    "ios": r"hex ios streamsize",
    "iterator": r"back_inserter begin distance end istreambuf_iterator next prev size",
    "limits": r"numeric_limits",
    "map": r"map multimap",
    "memory": r"default_delete make_shared make_unique\w* shared_ptr unique_ptr weak_ptr",
    "mutex": r"call_once lock_guard mutex once_flag scoped_lock unique_lock",
    "new": r"align_val_t bad_alloc",
    "numeric": r"accumulate gcd iota lcm",
    "optional": r"nullopt optional",
    "random": r"minstd_rand mt19937 mt19937_64 random_device uniform_int_distribution",
    "set": r"multiset set",
    "source_location": r"source_location",
    "span": r"as_bytes as_writable_bytes span",
    "sstream": r"[io]?stringstream",
    "stdexcept": r"invalid_argument logic_error out_of_range runtime_error",
    "string": r"getline stoi stoul stoull string to_string",
    "string_view": r"string_view",
    "system_error": r"errc error_code",
    "thread": r"jthread this_thread thread",
    "tuple": r"apply make_tuple tie tuple",
    "type_traits": r"conditional_t decay_t enable_if_t invoke_result_t is_\w+_v remove_\w+_t "
                   r"type_identity_t underlying_type_t",
    "unordered_map": r"unordered_map",
    "unordered_set": r"unordered_set",
    "utility": r"exchange forward index_sequence move pair swap",
    "variant": r"get_if holds_alternative variant visit",
    "vector": r"vector",
}
STD_NAMES = {header: re.compile("|".join(names.split()))
             for header, names in STD_NAMES.items()}
# Other headers that the standard gives those names, too, or that say to include them.
STD_ALSO = {
    "cstddef": "algorithm array bit cstdio cstdlib cstring memory new span stddef.h string string_view "
               "vector",
    "cstdint": "stdint.h",
    "concepts": "iterator ranges",
    "exception": "new stdexcept",
    "initializer_list": "algorithm array deque map memory set string vector",
    "ios": "fstream iomanip iostream sstream",
    "iterator": "array deque map optional set span string string_view vector",
    "system_error": "charconv filesystem",
    "utility": "map memory set tuple unordered_map vector",
}
STD_ALSO = {header: set(names.split()) for header, names in STD_ALSO.items()}

WARN_LINES = 400
MAX_LINES = 600
LONG_FILES = {}  # path: reason

SOURCES = (".h", ".hpp", ".c", ".cpp", ".cu")
HEADERS = (".h", ".hpp")
TEXTS = SOURCES + (".def", ".py", ".cmake", ".in", ".txt", ".sh", "")
UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME)\b(?!.*#\d)")

Finding = namedtuple("Finding", "path line rule text")
TOKENS = re.compile(
    r'''//(?:\\\n|[^\n])*|/\*.*?\*/|R"(?P<d>[^\s()\\]*)\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"'''
    r"""|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'""", re.DOTALL)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"](.*)$', re.MULTILINE)


@functools.lru_cache(maxsize=None)
def blank(text, strings):
    """Source text with comments, and with `strings` literals too, replaced by spaces."""
    def spaces(match):
        token = match.group(0)
        if token[0] != "/" and not strings:
            return token
        return re.sub(r"[^\n]", " ", token)
    return TOKENS.sub(spaces, text)


def opening_comment(text):
    return re.match(r"(?://[^\n]*\n|\s)*", text).group(0)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def matches(path, places):
    """Is `path` one of `places`: "folder/", "file", "prefix" or "folder/*" (its files only)?"""
    for place in places:
        if place.endswith("*"):
            if path.startswith(place[:-1]) and "/" not in path[len(place) - 1:]:
                return True
        elif path.startswith(place):
            return True
    return False


class Tree:
    def __init__(self, root):
        self.root = root
        self.files = sorted(list_files(root))
        self.names = set(self.files)
        self.included = {}  # path: headers of this tree, and others, that its text names

    def read(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8", errors="replace") as file:
            return file.read()

    def resolve(self, path, quote, name):
        """The file of this tree that an #include means; None for a header from outside."""
        beside = os.path.normpath(os.path.join(os.path.dirname(path), name))
        if quote == '"' and beside in self.names:
            return beside
        if name.startswith("gshmem/device/"):
            return name[len("gshmem/"):]
        if name.startswith("gshmem/"):
            return "include/" + name
        for candidate in ("include/gshmem/compat/" + name, name):
            if candidate in self.names:
                return candidate
        own = tuple(prefix for prefix, _ in MAY_INCLUDE)
        return name if quote == '"' and name.startswith(own) else None


    def outside_headers(self, path):
        """The headers from outside that `path` includes, itself or by headers of this tree."""
        found, seen, todo = set(), {path}, [path]
        while todo:
            file = todo.pop()
            if file not in self.included:
                code = blank(self.read(file), strings=False)
                names = [match.group(1, 2) for match in INCLUDE.finditer(code)]
                targets = [(self.resolve(file, *name), name[1]) for name in names]
                self.included[file] = ({own for own, _ in targets if own in self.names},
                                       {name for own, name in targets if own not in self.names})
            own, outside = self.included[file]
            found |= outside
            todo += own - seen
            seen |= own
        return found


def list_files(root):
    """Tracked and new files as git sees them; without git, everything but build folders."""
    try:
        if os.path.exists(os.path.join(root, ".git")):
            out = subprocess.run(
                ["git", "-C", root, "ls-files", "-z", "-co", "--exclude-standard"],
                check=True, capture_output=True, text=True).stdout
            return [f for f in out.split("\0") if f and os.path.isfile(os.path.join(root, f))]
    except (OSError, subprocess.CalledProcessError):
        pass
    found = []
    for folder, folders, files in os.walk(root):
        if folder == root:
            folders[:] = [f for f in folders if not f.startswith((".git", "build"))]
        folders[:] = [f for f in folders if f != "__pycache__"]
        found += [os.path.relpath(os.path.join(folder, f), root) for f in files]
    return found


def check_top_level(tree):
    for name in sorted({path.split("/")[0] for path in tree.files}):
        if not name.startswith(".") and name not in TOP_LEVEL:
            yield Finding(name, 1, "top-level", "not one of the fixed names of the top level")


def check_includes(tree, path, text):
    allowed = next((places for prefix, places in MAY_INCLUDE if path.startswith(prefix)), None)
    for match in INCLUDE.finditer(blank(text, strings=False)):
        quote, name, _ = match.groups()
        line = line_of(text, match.start())
        target = tree.resolve(path, quote, name)
        if target is not None:
            if allowed is not None and not matches(target, allowed):
                yield Finding(path, line, "include-direction",
                              f"{path.split('/')[0]}/ must not include {target}")
            continue
        for pattern, places in VENDOR_HEADERS:
            if re.match(pattern, name) and not matches(path, places):
                yield Finding(path, line, "vendor-header",
                              f"<{name}> belongs to {', '.join(places)} only")
        for pattern, word in VENDOR_NAMED_IN_COMMENT:
            if (re.match(pattern, name) and not path.startswith("tests/")
                    and not word.search(opening_comment(text))):
                yield Finding(path, line, "vendor-reason",
                              f"the opening comment does not say why <{name}> is here")


def check_std_includes(tree, path, text):
    code = blank(text, strings=True)
    used = {match.group(1): match for match in reversed(list(re.finditer(r"\bstd::(\w+)\b", code)))}
    if not used:
        return
    included = tree.outside_headers(path)
    for header, names in STD_NAMES.items():
        if header in included or STD_ALSO.get(header, set()) & included:
            continue
        for match in sorted((used[name] for name in used if names.fullmatch(name)), key=lambda m: m.start())[:1]:
            yield Finding(path, line_of(code, match.start()), "std-include",
                          f"{match.group(0)} without <{header}>")


def check_words(path, text):
    code = blank(text, strings=True)
    for rule, pattern, homes in WORDS:
        if matches(path, homes):
            continue
        for match in re.finditer(pattern, code):
            yield Finding(path, line_of(code, match.start()), rule,
                          f"'{match.group(0)}' outside of {', '.join(homes)}")


@functools.lru_cache(maxsize=None)
def comments(text):
    """Position and text of every comment; lines of // that follow each other are one."""
    return tuple(find_comments(text))


def find_comments(text):
    start, end, block = 0, -1, ""
    for match in TOKENS.finditer(text):
        token = match.group(0)
        if token[0] != "/":
            continue
        between = text[end:match.start()] if end >= 0 else "x"
        if block and token.startswith("//") and re.fullmatch(r"\n[ \t]*", between):
            block += between + token
        else:
            if block:
                yield start, block
            start, block = match.start(), token
        end = match.end()
    if block:
        yield start, block


def check_prose(path, text):
    if not path.startswith(COMMENTED):
        return
    for start, comment in comments(text):
        plain = re.sub(r"`[^`\n]*`", lambda match: " " * len(match.group(0)), comment)
        for rule, pattern, instead in PROSE:
            for match in re.finditer(pattern, plain, re.IGNORECASE if rule == "behind" else 0):
                yield Finding(path, line_of(text, start + match.start()), rule, instead)


def check_names_in_comments(tree, texts):
    """Yields names in comments that no code has. `texts` are pairs of path and text."""
    known = set()
    for path in tree.files:
        if os.path.splitext(path)[1] in TEXTS and path != "LICENSE" and not path.startswith("tests/lint/"):
            text = tree.read(path)
            code = blank(text, strings=False) if path.endswith((*SOURCES, ".def")) else text
            known.update(re.findall(r"[A-Za-z_]\w*", code))
    for path, text in texts:
        for start, comment in comments(text):
            for match in NAME_IN_COMMENT.finditer(comment):
                name = match.group(1)
                if name not in known and name not in FOREIGN_WORDS and not FOREIGN_NAMES.fullmatch(name):
                    yield Finding(path, line_of(text, start + match.start()), "stale-name", f"no code has {name}")


def check_openings(texts):
    places = [(path, line_of(text, start)) for path, text in texts
              for start, comment in comments(text) if SUBJECTLESS.match(comment)]
    if len(places) > SUBJECTLESS_AT_MOST:
        yield Finding(*places[-1], "subject", f"{len(places)} comments begin with Of, By, As or What, "
                      f"{SUBJECTLESS_AT_MOST} at most: begin yours with a subject")
    elif len(places) < SUBJECTLESS_AT_MOST:
        print(f"lint: {len(places)} comments without a subject: SUBJECTLESS_AT_MOST may be that")


def check_repeated_names(tree):
    places = {}
    for path in tree.files:
        if path.startswith(PRODUCT) and path.endswith(HEADERS):
            places.setdefault(os.path.basename(path), []).append(path)
    for name, paths in sorted(places.items()):
        if len(paths) > 1 and name not in REPEATED_NAMES:
            yield Finding(paths[-1], 1, "repeated-name", f"{name} is also {', '.join(paths[:-1])}: one name, one file")


def check_subjects(root, since=COMMITS_SINCE):
    try:
        log = subprocess.run(["git", "-C", root, "log", "--no-merges", f"--since={since}", "--format=%h%x09%s"],
                             check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return  # no history here
    for line in log.splitlines():
        commit, _, subject = line.partition("\t")
        if len(subject) > MAX_SUBJECT or not SUBJECT.match(subject):
            yield Finding(commit, 1, "commit-subject",
                          f"'{subject}': 'area: imperative summary', {MAX_SUBJECT} characters at most, no ';'")


def check_text(path, text):
    lines = text.splitlines()
    if len(lines) > MAX_LINES and path not in LONG_FILES:
        yield Finding(path, len(lines), "length", f"{len(lines)} lines, {MAX_LINES} at most")
    elif len(lines) > WARN_LINES:
        print(f"{path}: warning: {len(lines)} lines; is it still one idea?")
    for number, line in enumerate(lines, 1):
        if UNFINISHED.search(line):
            yield Finding(path, number, "unfinished", "unfinished mark without an issue number")
        if path.endswith(("CMakeLists.txt", ".cmake")) and re.match(r"[^#]*--split-compile", line):
            yield Finding(path, number, "split-compile", "nvcc 13.0 then counts too little stack (device/README.md)")


def check(root):
    """Every violation in the tree under `root`."""
    tree = Tree(root)
    findings = [*check_top_level(tree), *check_repeated_names(tree), *check_subjects(root)]
    commented = [(path, tree.read(path)) for path in tree.files
                 if path.startswith(COMMENTED) and path.endswith((*SOURCES, ".def"))]
    findings += check_names_in_comments(tree, commented)
    findings += check_openings(commented)
    for path in tree.files:
        if os.path.splitext(path)[1] not in TEXTS or path == "LICENSE":
            continue
        text = tree.read(path)
        findings += check_text(path, text)
        if path.endswith((*SOURCES, ".def")):
            findings += check_prose(path, text)
        if not path.endswith(SOURCES):
            continue
        findings += check_includes(tree, path, text)
        findings += check_std_includes(tree, path, text)
        findings += check_words(path, text)
        if path.endswith(HEADERS) and path not in INCLUDED_AGAIN and not re.search(r"^#pragma once$", text, re.MULTILINE):
            findings.append(Finding(path, 1, "pragma-once", "header without #pragma once"))
    return findings


def main():
    root = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else ".")
    findings = check(root)
    for finding in findings:
        print("{}:{}: {}: {}".format(*finding))
    print(f"lint: {len(findings)} violation(s)")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
