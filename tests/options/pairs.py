"""Every build option of the table of docs/administration.md configures, alone and with each other: all that has to be built has a rule.

Usage: pairs.py SOURCE FOLDER CMAKE C-COMPILER C++-COMPILER [CUDA-COMPILER]
                      all alone, and of the pairs a third, a day's own
       pairs.py --all ...     all pairs
       pairs.py --build ...   builds, too: as few configurations as have every pair of settings in one of them. By hand:
                              it takes as long as all legs of the tests. A configuration that is built is not built again.
"""
import datetime
import itertools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

# Settings of a user that differ from the default, each value of an option with several.
SETTINGS = [("GSHMEM_CUDA", "OFF"), ("GSHMEM_CUDA_ARCHITECTURES", "90;100"), ("GSHMEM_DEVICE_CHECKS", "ON"),
            ("GSHMEM_TESTS", "OFF"), ("GSHMEM_PERFTEST", "OFF"), ("GSHMEM_EXAMPLES", "OFF"),
            ("GSHMEM_SANITIZE", "address,undefined"), ("GSHMEM_SANITIZE", "thread"), ("GSHMEM_WERROR", "OFF")]
# Without a clang++ for CUDA configuring ends with the way out (device/library).
OF_CLANG = {"GSHMEM_BITCODE", "GSHMEM_DEVICE_CLANG"}
# Those of the legs of tests/run (tests/options/CMakeLists.txt has the rest of what they are built with).
ALONE = [("GSHMEM_HOST_TESTS", "OFF"), ("GSHMEM_QUICK_TESTS", "ON"), ("GSHMEM_PRECOMPILE", "ON")]


def documented(readme):
    table = readme.split("| option | default |")[1].split("\n\n")[0]
    return {name for row in table.splitlines()[2:] for name in re.findall(r"`(GSHMEM_[A-Z_]+)`", row.split("|")[1])}


def defaults(source):
    text = (source / "CMakeLists.txt").read_text()
    options = re.findall(r'^option\((\w+) ".*" (ON|OFF|\$\{PROJECT_IS_TOP_LEVEL\})\)', text, re.M)
    return ({name: "OFF" if value == "OFF" else "ON" for name, value in options} |
            dict(re.findall(r'^set\((\w+) "?([^" ]*)"? CACHE', text, re.M)))


def headers_elsewhere(source, folder, cmake, environment):
    """Returns the errors without the headers of libraries where compilers look, and with them in another folder."""
    rows = re.findall(r"^gshmem_headers\((\w+) (\S+) (\S+)\)", (source / "CMakeLists.txt").read_text(), re.M)
    cache = (pathlib.Path(folder) / "cpu/CMakeCache.txt").read_text()
    place = pathlib.Path(folder) / "headers"
    shutil.rmtree(place, ignore_errors=True)
    (place / "include").mkdir(parents=True)
    for name, header, package in rows:
        there = pathlib.Path(re.search(rf"^GSHMEM_{name}_INCLUDE_DIR:PATH=(.*)$", cache, re.M).group(1))
        configure = [cmake, "-G", "Ninja", "-S", str(source), "-B", str(place / "build"), "-DGSHMEM_CUDA=OFF",
                     f"-DCMAKE_PREFIX_PATH={place}", f"-DCMAKE_IGNORE_PATH={there}"]
        run = subprocess.run(configure, env=environment, capture_output=True, text=True)
        if package not in run.stderr or "-DCMAKE_PREFIX_PATH" not in run.stderr:
            yield f"without <{header}>: {run.stderr[-1500:]}"
        link = header.split("/")[0]
        (place / "include" / link).symlink_to(there / link)
    run = subprocess.run(configure, env=environment, capture_output=True, text=True)
    if run.returncode:
        yield f"with headers in {place}: {run.stderr[-1500:]}"


def covering(settings):
    """Returns a few configurations, each a list of settings, so that each possible pair, defaults included, is in
    one."""
    options = {}
    for name, value in settings:
        options.setdefault(name, [None]).append(value)
    missing = {frozenset(pair) for a, b in itertools.combinations(options, 2)
               for pair in itertools.product(((a, v) for v in options[a]), ((b, v) for v in options[b]))}
    while missing:
        def gain(case):
            return sum(frozenset(pair) in missing for pair in itertools.combinations(case, 2))
        # Each option in turn gets the value with which most pairs are new; the first pair is one that is missing.
        case = sorted(min(missing, key=sorted_text), key=str)
        for name in options:
            if name not in dict(case):
                case.append(max(((name, value) for value in options[name]), key=lambda one: gain([*case, one])))
        missing -= {frozenset(pair) for pair in itertools.combinations(case, 2)}
        yield [(name, value) for name, value in case if value is not None]


def sorted_text(pair):
    return sorted(map(str, pair))


def build_all(source, folder, cmake, usual, environment):
    """Returns the errors of builds with little optimization, each in a folder of its own."""
    for number, case in enumerate(covering(SETTINGS)):
        what = " ".join("=".join(setting) for setting in case)
        values = usual | dict(case)
        build, begin = f"{folder}/built_{number}", time.monotonic()
        for command in ([cmake, "-G", "Ninja", "-S", str(source), "-B", build, "-DCMAKE_BUILD_TYPE=Debug",
                         "-DCMAKE_CXX_FLAGS_DEBUG=-O0", "-DCMAKE_UNITY_BUILD=ON", "-DGSHMEM_PRECOMPILE=ON",
                         *(f"-D{name}={value}" for name, value in values.items() if name != "GSHMEM_PRECOMPILE")],
                        [cmake, "--build", build]):
            run = subprocess.run(command, env=environment, capture_output=True, text=True)
            if run.returncode:
                yield f"{what}: {' '.join(command[1:3])}\n{(run.stdout + run.stderr)[-3000:]}"
                break
        print(f"{what}: {time.monotonic() - begin:.0f} s, exit {run.returncode}", flush=True)


def main(source, folder, cmake, cc, cxx, cuda="", really=False, every=False):
    source = pathlib.Path(source)
    usual = {name: value for name, value in defaults(source).items() if name.startswith("GSHMEM_")}
    unknown = documented((source / "docs/administration.md").read_text()) ^ ({name for name, _ in SETTINGS} | OF_CLANG)
    assert not unknown, f"in the table of docs/administration.md or here, not in both: {unknown}"
    assert {name for name, _ in SETTINGS + ALONE} <= set(usual), usual

    environment = {**os.environ, "CC": cc, "CXX": cxx} | ({"CUDACXX": cuda} if cuda else {})
    if really:
        bad = list(build_all(source, folder, cmake, usual, environment))
        print("\n".join(bad))
        return 1 if bad else 0
    pairs = [p for p in itertools.combinations(SETTINGS, 2) if p[0][0] != p[1][0]]
    third = datetime.date.today().toordinal() % 3
    bad, cases = [], [(), *((one,) for one in SETTINGS + ALONE), *(pairs if every else pairs[third::3])]
    for case in cases:
        # Compilers are looked for once in a folder, so there is one with CUDA and one without.
        build = f"{folder}/{'cuda' if cuda and ('GSHMEM_CUDA', 'OFF') not in case else 'cpu'}"
        values = usual | dict(case)
        for command in ([cmake, "-G", "Ninja", "-S", str(source), "-B", build,
                         *(f"-D{name}={value}" for name, value in values.items())],
                        [cmake, "--build", build, "--", "-n"]):
            run = subprocess.run(command, env=environment, capture_output=True, text=True)
            if run.returncode:
                what = " ".join("=".join(setting) for setting in case)
                bad.append(f"{what}: {' '.join(command[1:3])}\n{(run.stdout + run.stderr)[-1500:]}")
                break
    bad += headers_elsewhere(source, folder, cmake, environment)
    print("\n".join(bad))
    print(f"{len(cases)} ways to configure{'' if every else f', third {third} of the pairs'}, {len(bad)} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument not in ("--build", "--all")]
    sys.exit(main(*arguments, really="--build" in sys.argv, every="--all" in sys.argv))
