#!/usr/bin/env python3
"""Compares the names that the library and its headers offer with expected_names.py.

Usage: names_test.py symbols LIBGSHMEM
       names_test.py nvshmem LIBNVSHMEM_HOST LIBNVSHMEM.A
       names_test.py headers CC FLAG...       gshmem.h and nvshmem.h as C units see them
       names_test.py device NVCC FLAG...      both as device code sees them
       names_test.py inventory                 what NVSHMEM and OpenSHMEM have: it is here, or the
                                               reason is (expected_names.py)
       names_test.py tested PROGRAM...         test programs, which look at data, that together call every
                                               function but those of expected_names.py's EXCUSED
       names_test.py descriptions FOLDER      the generated headers: a line and a description for each function

Prints missing and surplus names, and exits 1 when there are any.
"""
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import expected_names as expected  # noqa: E402 (beside this file)

HEADERS = {"gshmem": "gshmem/gshmem.h", "nvshmem": "gshmem/compat/nvshmem.h"}


def run(command, **options):
    result = subprocess.run(command, capture_output=True, text=True, **options)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{result.stdout}{result.stderr}")
    return result.stdout


def compare(what, found, wanted):
    """Prints the differences; returns how many there are."""
    missing, surplus = sorted(wanted - found), sorted(found - wanted)
    print(f"{what}: {len(found)} names, {len(missing)} missing, {len(surplus)} not expected")
    for title, names in (("missing", missing), ("not expected", surplus)):
        for name in names[:20]:
            print(f"  {title}: {name}")
        if len(names) > 20:
            print(f"  ... and {len(names) - 20} more")
    return len(missing) + len(surplus)


def exported(library):
    """Returns the names that a shared library of gshmem exports."""
    lines = run(["nm", "-D", "--defined-only", library]).splitlines()
    # The name of a version is absolute.
    found = {line.split()[-1] for line in lines if " A " not in line}
    # The linker defines them for libFuzzer's counters.
    return {name for name in found if not re.match(r"__(start|stop)___sancov_", name)}


def internal(library):
    """Adds the name that a library for ThreadSanitizer has besides."""
    tsan = "__tsan_init" in run(["readelf", "--dyn-syms", "--wide", library])
    return set(expected.INTERNAL) | ({"gshmemi_order_checker"} if tsan else set())


def exports(prefix):
    return expected.names(prefix) | expected.launch_names(prefix)


def check_symbols(library):
    dynamic = run(["readelf", "--dynamic", "--wide", library])
    # dlclose must not unmap the code of threads that run.
    if "NODELETE" not in dynamic:
        print(f"{library} is not linked with -z nodelete")
        return 1
    # All names have the library's version, "name@@GSHMEM_0.1", and none is one of C++.
    version = "@@GSHMEM_" + re.search(r"SONAME.*\[libgshmem\.so\.(\d+\.\d+)\]", dynamic).group(1)
    wanted = {name + version for name in exports("gshmem") | internal(library)}
    return compare("symbols", exported(library), wanted)


def check_nvshmem(host, static):
    """Names that loaders look up, and names of gshmem that nvshmem.h's inline functions call."""
    file = "libnvshmem_host.so." + ".".join(map(str, expected.NVSHMEM_RELEASE))
    if os.path.basename(os.path.realpath(host)) != file:
        print(f"{host} is {os.path.realpath(host)}, not {file}")
        return 1
    wanted = exports("nvshmem") | exports("gshmem") | set(expected.INTERNAL) | set(expected.NVSHMEM_DEVICE_LIBRARY)
    errors = compare("libnvshmem_host", exported(host), wanted)
    lines = run(["nm", "--defined-only", "--extern-only", static]).splitlines()
    inside = {line.split()[-1] for line in lines if line}
    return errors + compare("libnvshmem.a", inside & wanted, wanted)


def declared(compiler, flags, header, prefix):
    """Functions that a C unit finds after including `header`."""
    text = run([*compiler, *flags, "-E", "-P", "-"], input=f"#include <{header}>\n")
    return set(re.findall(rf"\b({prefix}x?_\w+)\s*\(", text))


def check_headers(compiler, *flags):
    errors = 0
    compiler = [compiler, "-x", "c", "-std=c11"]
    for prefix, header in HEADERS.items():
        found = declared(compiler, flags, header, prefix)
        # The launches are declared if CUDA's headers are there.
        errors += compare(header, found - expected.launch_names(prefix), expected.names(prefix))
        # A declared name may still be unusable, so the unit takes every address.
        uses = "".join(f"  (void (*)(void)){name},\n" for name in sorted(expected.names(prefix)))
        unit = f"#include <{header}>\nvoid (*uses[])(void) = {{\n{uses}}};\n"
        run([*compiler, *flags, "-fsyntax-only", "-"], input=unit)
    macros = run([*compiler, *flags, "-E", "-dM", "-"], input=f"#include <{HEADERS['gshmem']}>\n")
    errors += compare("names without a type", set(re.findall(r"#define gshmem_(\w+)\(\.\.\.\)", macros)),
                      set(expected.generics()))
    check_constants(compiler, flags)
    return errors


def check_constants(compiler, flags):
    """Values, sizes and initializers of NVSHMEM, by a C unit that asserts them."""
    unit = f"#include <{HEADERS['nvshmem']}>\n"
    for stem, values in expected.CONSTANTS.items():
        unit += "".join(f'_Static_assert({stem}{end} == {value}, "{stem}{end}");\n'
                        for end, value in values.items())
    unit += "".join(f'_Static_assert(sizeof({name}) == {size}, "{name}");\n'
                    for name, size in expected.TYPES.items())
    unit += "".join(f"{kind} begin_{i} = {name};\n"
                    for i, (name, kind) in enumerate(expected.INITIALIZERS.items()))
    run([*compiler, *flags, "-fsyntax-only", "-"], input=unit)


def check_inventory():
    """The inventories are complete, and no name on their lists of absent names exists."""
    errors = 0
    for title, prefix, inventory, absent in (
            ("NVSHMEM", "nvshmem", expected.nvshmem_inventory(), expected.ABSENT_NVSHMEM),
            ("OpenSHMEM", "gshmem", {f"gshmem_{n}" for n in expected.openshmem_inventory()},
             {why: [f"_{n}" for n in names] for why, names in expected.ABSENT_OPENSHMEM.items()})):
        here = (expected.names(prefix) | expected.launch_names(prefix)) & inventory
        listed = {prefix + name for names in absent.values() for name in names}
        for why, names in absent.items():
            print(f"{title}: {len(names)} absent, {why}")
        errors += compare(f"{title}, here or on the list", here | listed, inventory)
        errors += compare(f"{title}, here and on the list", here & listed, set())
    return errors


def check_tested(*programs):
    """Every function of gshmem that a C unit can call is called by one of the programs, or excused."""
    called, errors = set(), 0
    for program in programs:
        lines = run(["nm", "-D", "--undefined-only", program]).splitlines()
        called |= {line.split()[-1].split("@")[0] for line in lines if line}
    wanted = expected.names("gshmem")
    for pattern, instead, why in expected.EXCUSED:
        excused = {name for name in wanted - called if re.fullmatch(pattern, name)}
        untested = {re.sub(pattern, instead, name) for name in excused} - called if instead else set()
        print(f"{len(excused)} excused, {pattern}: {why}")
        if not excused or untested:
            print(f"  not needed, or tested by no call: {sorted(untested)[:5]}")
            errors += 1
        wanted -= excused
    return errors + compare("called by tests", called & wanted, wanted)


def check_descriptions(folder):
    """Each function once, on a line of its own, after at least one line of a description."""
    found, bad = set(), 0
    for header in ("functions.h", "stream_functions.h"):
        with open(os.path.join(folder, header), encoding="utf-8") as file:
            lines = file.read().splitlines()
        for before, line in zip(lines, lines[1:]):
            match = re.fullmatch(r"GSHMEM_(?:API|EXPORT) [^(]+?(gshmemx?_\w+)\([^()]*\);", line)
            if match is None:
                bad += line.startswith("GSHMEM_")
                continue
            if match.group(1) in found or not re.match(r"/// \S", before):
                bad += 1
                print(f"{header}: twice, or without a description: {line}")
            found.add(match.group(1))
    return bad + compare("descriptions", found,
                         expected.device_names("gshmem") | {f"gshmemx_{n}" for n in expected.on_streams("gshmem")} |
                         {f"gshmem_{n}" for n in expected.long_double()})


# With nvcc these functions are templates in all units (include/gshmem/blocks.h).
TEMPLATE = re.compile(r"_ib(put|get)\d*$")


def address(name):
    return f"  (void)&{name}{'<>' if TEMPLATE.search(name) and 'longdouble' not in name else ''};\n"


def check_device(nvcc, *flags):
    """Takes addresses in device code, which is an error for a name that does not exist or is a host function."""
    unit = "#define GSHMEM_PLAIN_FUNCTIONS 1\n"
    unit += "".join(f"#include <{header}>\n" for header in [*HEADERS.values(), "gshmem/blocks.h", "gshmem/tile.hpp"])
    for prefix in HEADERS:
        unit += "".join(f"namespace of_{prefix} {{ using {prefix}x::{name}; }}\n" for name in expected.tiles())
        uses = "".join(address(name) for name in sorted(expected.device_names(prefix)))
        unit += f"__global__ void device_{prefix}() {{\n{uses}}}\n"
        uses = "".join(address(name) for name in sorted(
            expected.names(prefix) | expected.launch_names(prefix)))
        unit += f"void host_{prefix}() {{\n{uses}}}\n"
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "uses.cu")
        with open(source, "w", encoding="utf-8") as file:
            file.write(unit)
        run([nvcc, "-std=c++17", *flags, "-c", "-o", os.path.join(folder, "uses.o"), source])
    for prefix in HEADERS:
        print(f"device: {len(expected.device_names(prefix))} names of {prefix}")
    return 0


def main():
    checks = {"symbols": check_symbols, "nvshmem": check_nvshmem, "headers": check_headers,
              "device": check_device, "inventory": check_inventory, "tested": check_tested,
              "descriptions": check_descriptions}
    return 1 if checks[sys.argv[1]](*sys.argv[2:]) else 0


if __name__ == "__main__":
    sys.exit(main())
