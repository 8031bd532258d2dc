#!/usr/bin/env python3
"""Checks the READMEs, of the tree and of each folder, against what they describe. Usage:

check_readme.py variables ROOT gshmem-info         the table of variables is the one of the library
check_readme.py texts ROOT                         paths and links lead somewhere, README.md is short, sentences too
check_readme.py program ROOT nvcc arch out flags.. the first kernel of README.md compiles and links with these flags,
                                                   and all other pieces of CUDA compile
"""
import difflib
import os
import re
import subprocess
import sys

MAX_LINES = 220  # of README.md
MAX_WORDS = 25   # of a sentence


def readmes(root):
    """Path and text of every README.md, that of the tree first."""
    found = []
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(f for f in folders if not f.startswith((".", "build", "__")))
        if "README.md" in files:
            path = os.path.relpath(os.path.join(folder, "README.md"), root)
            with open(os.path.join(root, path), encoding="utf-8") as file:
                found.append((path, file.read()))
    return found


def check_variables(root, info):
    want = subprocess.run([info, "--markdown"], check=True, capture_output=True, text=True).stdout
    tables = [table for _, text in readmes(root) for table in
              re.findall(r"<!-- variables: .*? -->\n(.*?)<!-- end of variables -->", text, re.DOTALL)]
    assert len(tables) == 1, f"{len(tables)} tables of variables in the READMEs"
    diff = list(difflib.unified_diff(tables[0].splitlines(), want.splitlines(), "README.md",
                                     "gshmem-info --markdown", lineterm=""))
    print("\n".join(diff) or f"{len(want.splitlines()) - 2} variables as in the library")
    return not diff


def prose(text):
    """Numbered lines of `text` with the content of code blocks and comments left out."""
    fenced = False
    for number, line in enumerate(re.sub(r"<!--.*?-->", "", text).splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
            line = ""
        yield number, "" if fenced else line


def anchors(text):
    """What GitHub calls the headings."""
    titles = (line.lstrip("#").strip() for _, line in prose(text) if re.match(r"#+ ", line))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def bad_paths(root, path, text):
    tops = [name for name in os.listdir(root) if not name.startswith((".git", "build"))]
    for name in set(re.findall(r"`((?:%s)(?:/[\w.\-/]*)?)`" % "|".join(map(re.escape, tops)), text)):
        if not os.path.exists(os.path.join(root, name)):
            yield f"{path} names {name}, which does not exist"


def bad_links(root, path, text):
    for number, line in prose(text):
        for link in re.findall(r"\]\(([^)\s]*)\)", line):
            if re.match(r"\w+://", link):
                continue
            name, _, anchor = link.partition("#")
            target = os.path.normpath(os.path.join(root, os.path.dirname(path), name)) if name else os.path.join(root, path)
            if not os.path.exists(target):
                yield f"{path}:{number}: no {link}"
            elif anchor:
                with open(target, encoding="utf-8") as file:
                    if anchor not in anchors(file.read()):
                        yield f"{path}:{number}: no heading for {link}"


def sentences(text):
    """Number of the first line and text of every sentence outside of tables, code and headings."""
    block, start = [], 0
    for number, line in [*prose(text), (0, "")]:
        new = re.match(r"\s*(?:[-*]|\d+\.) ", line)
        if new or not line.strip() or re.match(r"\s*\||#", line):
            # An abbreviation or a list with colons and semicolons does not end where a sentence does.
            for sentence in re.split(r"(?<=[.?!:;])[*)\"]*\s+", " ".join(block)):
                yield start, sentence
            block = []
        if line.strip() and not re.match(r"\s*\||#", line):
            start = start if block else number
            block.append(re.sub(r"^\s*(?:[-*]|\d+\.) ", "", line).strip())


def long_sentences(path, text):
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)  # links read as their text
    for number, sentence in sentences(text):
        words = re.sub(r"`[^`]*`", "code", sentence).split()
        if len([word for word in words if re.search(r"\w", word)]) > MAX_WORDS:
            yield f"{path}:{number}: {len(words)} words, {MAX_WORDS} at most: {sentence}"


def check_texts(root):
    texts = dict(readmes(root))
    bad = []
    for path, text in texts.items():
        bad += sorted(bad_paths(root, path, text))
        bad += bad_links(root, path, text)
        bad += long_sentences(path, text)
        bad += [f"{path}:{number}: 'behind': say 'after'" for number, line in prose(text)
                if re.search(r"\bbehind\b", line)]
        if path != "README.md" and not re.search(r"^Read first\b", "\n".join(text.splitlines()[:5]), re.M):
            bad.append(f"{path} does not begin with what to read first")
    length = texts["README.md"].count("\n")
    if length > MAX_LINES:
        bad.append(f"README.md has {length} lines, {MAX_LINES} at most")
    bad += [f"README.md does not link to {path}" for path in texts
            if path != "README.md" and f"]({path})" not in texts["README.md"]]
    bad += [f"{name}/ has no README.md" for name in sorted(os.listdir(root))
            if not name.startswith((".", "build")) and name != "shared" and os.path.isdir(os.path.join(root, name))
            and f"{name}/README.md" not in texts]
    print("\n".join(bad) or f"{len(texts)} READMEs, {length} lines in README.md")
    return not bad


def check_program(root, nvcc, arch, out, *flags):
    programs = [program for _, text in readmes(root) for program in re.findall(r"```cuda\n(.*?)```", text, re.DOTALL)]
    good = len(programs) > 1
    for number, program in enumerate(programs):
        source = f"{out}{number or ''}.cu"
        with open(source, "w", encoding="utf-8") as file:
            file.write(program)
        target = ["-o", out] if number == 0 else ["-std=c++20", "-c", "-o", source + ".o"]
        command = [nvcc, f"-arch={arch}", "-Werror=all-warnings", source, *target, *flags]
        print(*command, flush=True)
        good &= subprocess.run(command).returncode == 0
    return good


def main():
    case, root, *rest = sys.argv[1:]
    check = {"variables": check_variables, "texts": check_texts, "program": check_program}[case]
    return 0 if check(root, *rest) else 1


if __name__ == "__main__":
    sys.exit(main())
