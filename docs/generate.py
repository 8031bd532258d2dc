#!/usr/bin/env python3
"""Makes the parts of docs/ that come from the code: api.md, the rows of variables.md, and results.svg. Usage:

    docs/generate.py [--check] BUILD    BUILD is a build folder with bin/gshmem-info, build/release for instance

--check changes nothing, prints what differs, and exits 1 when something does.
"""
import difflib
import math
import os
import re
import subprocess
import sys
from collections import OrderedDict

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HEADERS = os.path.join(ROOT, "include", "gshmem")

# --- api.md: one entry per family, from the tables ------------------------------------------------

# What stands for a family in its entry. Others are T -> int (or what has the call), N -> 32, OP -> add or sum.
TYPES = ("int", "float", "double2")
NAMES = {"N": "32", "OP": ("add", "sum")}
HOST_HEADERS = ("gshmem.h", "gshmemx.h", "collective_launch.h")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def families(text):
    """Sections and entries of a table: (title, None) for "// --- title ---", (names, description)."""
    for line in text.splitlines():
        title = re.match(r"// --- (.*?) ?-+$", line)
        entry = re.match(r"/// ([A-Za-z_.][A-Za-z_., ]*): (.*)$", line)
        more = re.match(r"///   (.*)$", line)
        if title:
            yield [title.group(1), None]
        elif entry:
            current = [entry.group(1).split(", "), entry.group(2)]
            yield current
        elif more:
            current[1] += " " + more.group(1)


def prototypes(build):
    """Name: prototype, of all functions that are made from the tables."""
    found = {}
    for header in ("functions.h", "stream_functions.h"):
        text = read(os.path.join(build, "include", "gshmem", header))
        for prototype, name in re.findall(r"^GSHMEM_EXPORT ((?:.*?)\b(gshmemx?_\w+)\(.*\);)$", text, re.M):
            found[name] = prototype
    return found


def candidates(key):
    """Names without prefix that a family's name may stand for."""
    names = [key]
    for mark, values in (("T_", [type + "_" for type in TYPES]), ("OP", NAMES["OP"]), ("N", [NAMES["N"]])):
        if mark in key:
            names = [name.replace(mark, value, 1) for name in names for value in values]
    return names + [name + scope for scope in ("_block", "_warp") for name in names]


def forms(stem, known):
    """Which other names of the function `stem` there are."""
    def has(*names):
        return any(name in known for name in names)

    plain = ("gshmem_" + stem, "gshmemx_" + stem)
    found = []
    scopes = [scope for scope in ("warp", "block") if has(*(name + "_" + scope for name in plain))]
    if scopes:
        found.append(" and ".join("`_%s`" % scope for scope in scopes))
    for mark, text in (("_nbi", "`_nbi`"), ("_vector", "`_vector`"), ("_on_stream", "`_on_stream`")):
        if has(*(name + mark for name in plain)):
            found.append(text)
    if has("gshmem_ctx_" + stem, "gshmemx_ctx_" + stem):
        found.append("`gshmem_ctx_…`" if "gshmem_ctx_" + stem in known else "`gshmemx_ctx_…`")
    if has("gshmemx_qp_" + stem):
        found.append("`gshmemx_qp_…`")
    return found


def types_of(key, known, all_types):
    """The types that the family has."""
    if not key.startswith("T_"):
        return None
    rest = key[2:]
    stems = [rest.replace("OP", op) for op in ("add", "sum", "and", "or", "xor", "max")] if "OP" in rest else [rest]
    return [type for type in all_types
            if any(prefix + type + "_" + stem in known for stem in stems for prefix in ("gshmem_", "gshmemx_"))]


def host_functions(text):
    """Of a header: (title, None), and (prototypes, description) of functions that no table has."""
    description, title = [], None
    # A declaration ends a part, and so does an empty line. A sentence of a comment may end in a semicolon, too.
    text = re.sub(r"^((?!//).*;)$", r"\1\n", text, flags=re.M)
    for part in re.split(r"\n(?=\n)", text):
        for line in part.splitlines():
            head = re.match(r"// --- (.*?) ?-*$", line)
            if head:
                title = head.group(1)
        description = [line[4:] for line in part.splitlines() if line.startswith("/// ")] or description
        prototype = re.search(r"GSHMEM_EXPORT ([^;]*\bgshmemx?_\w+\([^;]*\));", part)
        if prototype:
            if description and description[0][0].islower():
                sys.exit(f"generate.py: the text of {prototype.group(1)} begins with {description[0]!r}")
            yield title, re.sub(r"\s+", " ", prototype.group(1)) + ";", description if part.lstrip().startswith("//") else []


def wrapped(prefix, text, width=120):
    lines, line = [], prefix
    for word in text.split():
        if len(line) + 1 + len(word) > width and line.strip():
            lines.append(line)
            line = ""
        line += (" " if line and not line.endswith(" ") else "") + word
    return "\n".join(lines + [line])


def escape(text):
    """Plain text of a header as Markdown: names and expressions are code."""
    code = r"`[^`]*`|\bg?shmemx?_\w+(?:\(\))?|\bGSHMEMX?_\w+|\b\w+\[[^\]]*\]|\*\w+|\b\w+_\w+\b|\b_\w+\b"
    return re.sub(code, lambda match: match.group(0) if match.group(0)[0] == "`" else "`%s`" % match.group(0), text)


def api_page(build):
    known = prototypes(build)
    all_types = re.findall(r"^GSHMEM_TYPE\((\w+),", read(os.path.join(HEADERS, "types.def")), re.M)
    out = ["# API reference", "",
           "Made by `docs/generate.py` from the tables in `include/gshmem`; do not edit. One entry per family. [The guide](guide.md)",
           "has guarantees and examples, `include/gshmem/functions.def` what is common to all: shapes, units, threads, errors.", "",
           "- `T` is a type of `include/gshmem/types.def`, `N` is 8, 16, 32, 64 or 128 bits, `OP` an operator. The prototype shown is one of",
           "  the family.",
           "- *Forms*: `_warp` and `_block` are called by all threads of a group, in kernels. `_nbi` may return before the transfer is",
           "  complete. `_on_stream` has a stream as its last argument. `gshmem_ctx_…` has a context first, `gshmemx_qp_…` a queue handle last.",
           "- Names `gshmemx_` are extensions. A build has the prototypes in `gshmem/functions.h` and `gshmem/stream_functions.h`; those for",
           "  hosts alone are in `gshmem.h` and `gshmemx.h`.",
           "- Not here: the C++ API (`include/gshmem/gshmem.hpp`), tiles (`include/gshmem/tile.hpp`), and the functions for DeepEP",
           "  (`include/gshmem/deepep.h`). These headers describe them.", ""]
    toc, body, used = [], [], set()
    for table in ("functions.def", "lists.def", "blocks.def", "regions.def"):
        for names, description in list(families(read(os.path.join(HEADERS, table)))):
            if description is None:
                title = re.sub(r": (sections? [\d.]+)(.*)", "", names)
                if title in used:
                    continue
                used.add(title)
                body += ["## " + title, ""]
                toc.append(title)
                continue
            if any("..." in name for name in names):
                continue
            shown = next(((full, stem) for key in names for stem in candidates(key)
                          for full in ("gshmem_" + stem, "gshmemx_" + stem) if full in known), None)
            if shown is None:
                raise SystemExit("docs/generate.py: no prototype for %s of %s" % (", ".join(names), table))
            if table == "blocks.def" and table not in used:
                used.add(table)
                body += ["## Blocks with gaps", ""]
                toc.append("Blocks with gaps")
            body += ["### " + ", ".join("`%s`" % name for name in names), "", "```c", known[shown[0]], "```", "",
                     wrapped("", escape(description))]
            notes = []
            if forms(shown[1], known):
                notes.append("Forms: " + ", ".join(forms(shown[1], known)))
            types = types_of(names[0], known, all_types)
            if types is not None:
                notes.append("Types: " + ("all %d" % len(types) if len(types) == len(all_types) else
                                           "%d of %d" % (len(types), len(all_types)) if len(types) > 6 else
                                           ", ".join("`%s`" % type for type in types) or "`double2`"))
            if notes:
                body += ["", ". ".join(notes) + "."]
            body.append("")
    for header in HOST_HEADERS:
        last = None
        for title, prototype, description in host_functions(read(os.path.join(HEADERS, header))):
            title = re.sub(r": OpenSHMEM.*|: section.*|\. Host only.*", "", title or "Other")
            if title == last and not description:  # described by the one before
                body.insert(len(body) - body[::-1].index("```") - 1, prototype)
                continue
            if title != last:
                last = title
                body += ["## %s (host)" % title, ""]
                toc.append(title + " (host)")
            body += ["```c", prototype, "```", ""]
            if description:
                body += [wrapped("", escape(" ".join(description))), ""]
    link = lambda title: "[%s](#%s)" % (title, re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-"))
    return "\n".join(out + [wrapped("", " · ".join(link(title) for title in toc)), ""] + body).rstrip() + "\n"


# --- variables.md: rows of `gshmem-info --markdown`, by who needs them ----------------------------

def variables_page(build):
    """The page with each row as the library has it. New rows are to be put under a heading by hand first."""
    table = subprocess.run([os.path.join(build, "bin", "gshmem-info"), "--markdown"], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    rows = OrderedDict((re.match(r"\| `(\w+)`", row).group(1), row) for row in table[2:])
    page = read(os.path.join(ROOT, "docs", "variables.md"))
    lines, seen = [], set()
    for line in page.splitlines():
        name = re.match(r"\| `(GSHMEM_\w+)`", line)
        if name:
            if name.group(1) not in rows:
                continue
            seen.add(name.group(1))
            line = rows[name.group(1)]
        lines.append(line)
    missing = [name for name in rows if name not in seen]
    if missing:
        lines += ["", "## New", "", *table[:2], *(rows[name] for name in missing)]
    return "\n".join(lines) + "\n"


# --- results.svg: rows of a page of figures, as a plot --------------------------------------------

RESULTS = ("2026-11-h200.md", "Two H200, load/store over NVLink; NVSHMEM 3.4.5 in the same run", [
    ("put+quiet thread 8", "put + quiet, 8 B, a thread"), ("put+quiet thread 4096", "put + quiet, 4 KiB, a thread"),
    ("put+quiet warp 32768", "put + quiet, 32 KiB, a warp"), ("put+quiet block 262144", "put + quiet, 256 KiB, a block"),
    ("get thread 4096", "get, 4 KiB, a thread"), ("get warp 32768", "get, 32 KiB, a warp"),
    ("get block 262144", "get, 256 KiB, a block"), ("fetch_add", "atomic fetch-and-add"),
    ("signal round trip", "signal round trip"), ("sync thread", "sync, a thread"), ("barrier block", "barrier, a block")])


def results_plot(_):
    page, title, wanted = RESULTS
    text = read(os.path.join(ROOT, "docs", "figures", page))
    figures = {name: (float(ours), float(theirs)) for name, ours, theirs in
               re.findall(r"^\| ([^|]+?) \| ([\d.]+) us \| ([\d.]+) us \|", text, re.M)}
    left, right, top, step, low, high = 230, 30, 64, 26, 0.5, 200
    width, height = 760, top + step * len(wanted) + 44
    at = lambda us: left + (width - left - right) * math.log(us / low) / math.log(high / low)
    bottom = height - 36
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
           f'aria-label="Times of gshmem and NVSHMEM">',
           """<style>
  svg { --paper: #ffffff; --ink: #1f2328; --soft: #59636e; --line: #d1d9e0; --ours: #0969da; --theirs: #b35900; }
  @media (prefers-color-scheme: dark) {
    svg { --paper: #0d1117; --ink: #e6edf3; --soft: #9198a1; --line: #3d444d; --ours: #58a6ff; --theirs: #f0a050; }
  }
  .paper { fill: #ffffff; fill: var(--paper); }
  text { font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2328; fill: var(--ink); }
  .s { font-size: 12px; fill: #59636e; fill: var(--soft); }
  .e { text-anchor: end; } .c { text-anchor: middle; }
  .l { stroke: #d1d9e0; stroke: var(--line); }
  .w { stroke: #59636e; stroke: var(--soft); stroke-width: 2; }
  .ours { fill: #0969da; fill: var(--ours); }
  .theirs { fill: #b35900; fill: var(--theirs); }
</style>""", f'<rect class="paper" width="{width}" height="{height}" rx="8"/>',
           f'<text x="20" y="28">{title}</text>',
           '<circle class="ours" cx="26" cy="46" r="5"/><text class="s" x="36" y="50">gshmem</text>',
           '<rect class="theirs" x="101" y="41" width="10" height="10"/><text class="s" x="116" y="50">NVSHMEM</text>',
           f'<text class="s e" x="{width - right}" y="50">time in us, less is better</text>']
    for us in (0.5, 1, 2, 5, 10, 20, 50, 100, 200):
        out.append(f'<path class="l" d="M{at(us):.1f} {top} V{bottom}"/>'
                   f'<text class="s c" x="{at(us):.1f}" y="{bottom + 18}">{us:g}</text>')
    for number, (name, label) in enumerate(wanted):
        ours, theirs = figures[name]
        y = top + step * number + step // 2
        out += [f'<text class="e" x="{left - 12}" y="{y + 4}">{label}</text>',
                f'<path class="w" d="M{at(ours):.1f} {y} H{at(theirs):.1f}"/>',
                f'<rect class="theirs" x="{at(theirs) - 5:.1f}" y="{y - 5}" width="10" height="10"/>',
                f'<circle class="ours" cx="{at(ours):.1f}" cy="{y}" r="5"/>']
    return "\n".join(out + ["</svg>"]) + "\n"


PAGES = {"docs/api.md": api_page, "docs/variables.md": variables_page, "docs/results.svg": results_plot}


def main():
    check = "--check" in sys.argv
    folders = [argument for argument in sys.argv[1:] if argument != "--check"]
    if len(folders) != 1:
        print(__doc__)
        return 2
    stale = False
    for path, make in PAGES.items():
        full = os.path.join(ROOT, path)
        now = read(full) if os.path.exists(full) else ""
        want = make(folders[0])
        if now == want:
            continue
        stale = True
        if check:
            print("\n".join(list(difflib.unified_diff(now.splitlines(), want.splitlines(), path, "generated", lineterm=""))[:40]))
        else:
            with open(full, "w", encoding="utf-8") as file:
                file.write(want)
            print(path)
    if check:
        print("run docs/generate.py BUILD" if stale else "%d generated pages are current" % len(PAGES))
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
