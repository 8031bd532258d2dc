#!/usr/bin/env python3
"""Checks docs/, the READMEs and the other pages of the tree against what they describe. Usage:

check_docs.py texts ROOT                           paths, links and pictures lead somewhere, pages and sentences are short
check_docs.py links FOLDER             links of installed pages lead somewhere
check_docs.py host ROOT folder 'CC flags' 'CXX flags' 'link flags'    blocks of C and C++ compile; programs run alone
check_docs.py cuda ROOT nvcc arch folder flags..   blocks of CUDA compile; the first one of README.md links

That generated pages are current is checked by docs/generate.py --check.
"""
import ast
import concurrent.futures
import os
import re
import subprocess
import sys

MAX_README = 120  # lines
MAX_WORDS = 25    # of a sentence
# Names with "_" in code of the pages exist in the tree, except for names of others and placeholders.
FOREIGN = re.compile(r"(?:MPI|RDMAV|ibv|mlx5|shmem|extern|nvshmemx?|dp|ooo|is)_\w+|LD_PRELOAD|test_low_latency|test_intranode|MASTER_\w+|WORLD_SIZE|logPE_stride|PEER_FAILED"
                     r"|gshmem_(?:T|sm|device)_\w*|OP_\w+|GSHMEM_MACRO|snake_case|gpu_mlx5_|check_docs|gshmemx_int_put_(?:warp|block)|a_full_ring_\w+")
SOURCES = (".h", ".hpp", ".c", ".cpp", ".cu", ".def", ".py", ".cmake", ".txt", ".sh", ".json", ".in", "")


def pages(root):
    """Yields path and text of every Markdown page, that of the tree first."""
    found = []
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(f for f in folders if not f.startswith((".", "build", "__")) and f != "shared")
        for name in sorted(files, key=lambda name: (name != "README.md", name)):
            if name.endswith(".md"):
                path = os.path.relpath(os.path.join(folder, name), root)
                with open(os.path.join(root, path), encoding="utf-8") as file:
                    found.append((path, file.read()))
    return found


def prose(text):
    """Yields numbered lines of `text` without the content of code blocks and comments."""
    fenced = False
    for number, line in enumerate(re.sub(r"<!--.*?-->", "", text).splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
            line = ""
        yield number, "" if fenced else line


def anchors(text):
    """Returns the anchors that GitHub gives the headings."""
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


def names_of_code(root):
    found = set()
    for folder, folders, files in os.walk(root):
        folders[:] = [f for f in folders if not f.startswith((".", "build", "__")) and f not in ("shared", "docs", "corpus")]
        for name in files:
            if os.path.splitext(name)[1] in SOURCES:
                with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                    found.update(re.findall(r"[A-Za-z_]\w*", file.read()))
    # The build makes names from the tables, whose rows have only a part of them.
    return found, {name for name in found if not name.startswith(("gshmem", "GSHMEM"))}


def stale_names(names, path, text):
    known, stems = names
    for name in sorted({name for code in re.findall(r"`([^`\n]*)`", text)
                        for name in re.findall(r"(?<![\w-])([A-Za-z]\w*_\w+)", code)}):
        stem = re.sub(r"^gshmemx?_(?:ctx_|qp_)?(?:int_|float_)?|_on_stream$", "", name)
        if name not in known and stem not in stems and not FOREIGN.fullmatch(name):
            yield f"{path} names {name}, which no code has"


def sentences(text):
    """Yields the number of the first line and the text of every sentence outside of tables, code and headings."""
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
        if " · " in sentence:
            continue  # a row of links
        words = re.sub(r"`[^`]*`", "code", sentence).split()
        if len([word for word in words if re.search(r"\w", word)]) > MAX_WORDS:
            yield f"{path}:{number}: {len(words)} words, {MAX_WORDS} at most: {sentence}"


def bad_commands(path, text):
    """Commands can be pasted by root and on few cores. On several hosts the slots of the hosts count."""
    for code in re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S):
        for line in code.splitlines():
            if re.search(r"\bmpirun (?=-)(?!--(?:oversubscribe --allow-run-as-root|host) )(?!.*--map-by)", line):
                yield f"{path}: mpirun --oversubscribe --allow-run-as-root: {line}"


def python_signatures(root, name):
    """Yields the public functions of a module of the Python package and the methods of teams, as calls are written."""
    with open(os.path.join(root, "host/python/gshmem", name), encoding="utf-8") as file:
        body = ast.parse(file.read()).body
    teams = [node for node in body if isinstance(node, ast.ClassDef) and node.name == "Team"]
    for prefix, nodes in [("", body), *(("team.", team.body) for team in teams)]:
        for node in nodes:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and not node.decorator_list:
                node.args.args = [each for each in node.args.args if each.arg != "self"]
                for each in node.args.args + node.args.kwonlyargs:
                    each.annotation = None
                yield f"{prefix}{node.name}({ast.unparse(node.args)})".replace("'", '"')


def bad_signatures(root, path, text):
    """The table of calls has all operations and methods of teams, and no other signature than the code."""
    needed = {*python_signatures(root, "_operations.py"), *python_signatures(root, "_teams.py")}
    table = text.partition("\n## Calls\n")[2].partition("\n## ")[0]
    told = {call for line in table.splitlines() if line.startswith("|") for call in re.findall(r"`([a-z][\w.]*\([^`]*\))`", line)}
    yield from (f"{path} lacks {call}" for call in sorted(needed - told))
    yield from (f"{path}: no code has {call}" for call in sorted(told - needed - {*python_signatures(root, "_memory.py")}))


def check_texts(root):
    texts = dict(pages(root))
    linked = {os.path.normpath(os.path.join(os.path.dirname(path), link.partition("#")[0]))
              for path, text in texts.items() for link in re.findall(r"\]\(([^)\s]*)\)", text)}
    names = names_of_code(root)
    bad = []
    for path, text in texts.items():
        bad += sorted(bad_paths(root, path, text))
        if path != "docs/api.md":
            bad += stale_names(names, path, text)
        bad += bad_links(root, path, text)
        if path == "docs/python.md":
            bad += bad_signatures(root, path, text)
        bad += bad_commands(path, text)
        if path != "docs/api.md":
            bad += long_sentences(path, text)
        bad += [f"{path}:{number}: 'behind': say 'after'" for number, line in prose(text)
                if re.search(r"\bbehind\b", line)]
        if path not in linked and path != "README.md":
            bad.append(f"no page links to {path}")
        if not path.endswith("README.md"):
            continue
        if path != "README.md" and not re.search(r"^Read first\b", "\n".join(text.splitlines()[:5]), re.M):
            bad.append(f"{path} does not begin with what to read first")
        if text.count("\n") > MAX_README:
            bad.append(f"{path} has {text.count(chr(10))} lines, {MAX_README} at most: details belong in docs/")
        if path not in ("README.md", "docs/figures/README.md") and f"]({path})" not in texts["README.md"]:
            bad.append(f"README.md does not link to {path}")
    bad += [f"{path}:{number}: a table of measured times belongs in docs/figures" for path, text in texts.items()
            if not path.startswith("docs/figures/") for number, line in prose(text)
            if re.match(r"\|.*\d\.\d+ (?:us|ms|GB/s)\b.*\d\.\d+ (?:us|ms|GB/s)\b", line)]
    bad += [f"{name}/ has no README.md" for name in sorted(os.listdir(root))
            if not name.startswith((".", "build")) and name != "shared" and os.path.isdir(os.path.join(root, name))
            and f"{name}/README.md" not in texts]
    print("\n".join(bad) or f"{len(texts)} pages")
    return not bad


def check_links(root):
    texts = pages(root)
    bad = [each for path, text in texts for each in bad_links(root, path, text)]
    print("\n".join(bad) or f"{len(texts)} pages")
    return bool(texts) and not bad


def blocks(root, *languages):
    """Yields page, number and text of the code blocks of these languages."""
    for path, text in pages(root):
        if path == "docs/api.md":
            continue  # prototypes, which the library is compiled with
        for number, (_, code) in enumerate(re.findall(r"^```(%s)\n(.*?)^```" % "|".join(map(re.escape, languages)), text,
                                                      re.M | re.S)):
            yield path, number, code


def run(command, env=None):
    """True when the command succeeds; it and what it prints are printed together."""
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(" ".join(command) + "\n" + done.stdout, end="", flush=True)
    return done.returncode == 0


def run_each(commands):
    """Runs all of them, as many at a time as there are processors."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return all(list(pool.map(run, commands)))


def write_blocks(root, folder, language, suffix):
    """Yields source file and text of the blocks of a language."""
    os.makedirs(folder, exist_ok=True)
    for path, number, code in blocks(root, language):
        source = os.path.join(folder, re.sub(r"\W", "_", path) + str(number) + suffix)
        with open(source, "w", encoding="utf-8") as file:
            file.write(code)
        yield source, code


def check_host(root, folder, c, cxx, link):
    commands, programs = [], []
    for language, suffix, compiler in (("c", ".c", c.split()), ("c++", ".cpp", cxx.split())):
        for source, code in write_blocks(root, folder, language, suffix):
            if re.search(r"^int main\b", code, re.M):
                programs.append(source + ".out")
                commands.append([*compiler, "-o", source + ".out", source, *link.split()])
            else:
                commands.append([*compiler, "-c", "-o", source + ".o", source])
    alone = dict(os.environ, GSHMEM_DEVICE="cpu", GSHMEM_BOOTSTRAP="single", GSHMEM_SYMMETRIC_SIZE="4M")
    return run_each(commands) and all([run([program], alone) for program in programs]) and len(programs) > 1


def check_cuda(root, nvcc, arch, folder, *flags):
    commands = []
    for source, _ in write_blocks(root, folder, "cuda", ".cu"):
        links = os.path.basename(source) == "README_md0.cu"
        # nvcc's device compiler reads the code for the host, too; all of nvcc takes three times as long.
        target = ["-o", source + ".out", *flags] if links else ["-std=c++20", *flags, "-ptx", "-o", source + ".ptx"]
        commands.append([nvcc, f"-arch={arch}", "-Werror=all-warnings", source, *target])
    return run_each(commands)


def main():
    case, root, *rest = sys.argv[1:]
    check = {"texts": check_texts, "links": check_links, "host": check_host, "cuda": check_cuda}[case]
    return 0 if check(root, *rest) else 1


if __name__ == "__main__":
    sys.exit(main())
