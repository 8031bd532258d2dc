#!/usr/bin/env python3
"""The wheel of a build folder: it is made, installed in an environment without anything else, used, and uninstalled.

    wheel.py ROOT BUILD WORK [REPEAT]

REPEAT: how often jobs end in each pair of ways (1). Exit 77: this Python has no pip for a new environment.
"""
import importlib.util
import itertools
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

LIMIT = 300  # of a job, on a busy machine; ctest has a limit for all
root, build, work = (Path(argument).resolve() for argument in sys.argv[1:4])
repeat = int(sys.argv[4]) if len(sys.argv) > 4 else 1
programs = Path(__file__).resolve().parent / "python"


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def run(*command, expect=0, limit=LIMIT, **variables):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=limit, cwd=work, check=False,
                          env={**os.environ, **variables})
    if done.returncode != expect:
        sys.exit(f"{command}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


if "--jobs" in sys.argv:  # with the Python of the environment
    sys.path.insert(0, str(programs))
    import leave
    from gshmem.__main__ import start
    pairs = [*itertools.product(leave.WAYS, leave.WAYS), *((way, way) for way in leave.COLLECTIVE_WAYS)]
    for pair in [(one.__name__, other.__name__) for one, other in pairs] * repeat:
        processes = start(2, [str(programs / "leave.py"), *pair])
        got = [process.wait(timeout=LIMIT) for process in processes]
        want = [int(name == "exception") for name in pair]
        if got != want:
            sys.exit(f"PEs that leave by {pair} end with {got} instead of {want}")
    print(f"{len(pairs) * repeat} jobs ended")
    sys.exit()

if sys.version_info < (3, 11):
    skip("building the wheel needs Python 3.11, or tomli")
try:
    import pip
    import venv
except ImportError as error:
    skip(f"no new environments: {error}")
if int(pip.__version__.split(".")[0]) < 23:
    skip(f"pip {pip.__version__} cannot install into another environment: 23 can")
# The caller's environment must not help.
for name in [name for name in os.environ if name.startswith(("PYTHON", "PIP_")) or name == "LD_LIBRARY_PATH"]:
    del os.environ[name]
os.environ.update(GSHMEM_DEVICE="cpu", PIP_NO_INDEX="1", PIP_DISABLE_PIP_VERSION_CHECK="1")
work.mkdir(parents=True, exist_ok=True)
for old in work.glob("*.whl"):
    old.unlink()

sys.dont_write_bytecode = True
sys.path.insert(0, str(root / "host" / "python"))
import build_wheel  # noqa: E402

# Device libraries, which a build without CUDA does not have, are there once, and found under the names for NVSHMEM.
tree = work / "tree"
shutil.rmtree(tree, ignore_errors=True)
own, others = tree / "lib" / "gshmem" / "device", tree / "lib" / "gshmem" / "nvshmem" / "lib"
own.mkdir(parents=True)
others.mkdir(parents=True)
for name in ("gshmem_sm_80.bc", "gshmem_sm_90.bc", "gshmem.ltoir.fatbin", "gshmem_sm_90.ltoir", "gshmem_sm_90.ptx"):
    (own / name).write_text(name, encoding="ascii")
for name, target in {"_sm_80.bc": "_sm_80.bc", "_sm_90.bc": "_sm_90.bc", ".bc": "_sm_80.bc", ".ltoir.fatbin": ".ltoir.fatbin",
                     "_sm_90.ltoir": "_sm_90.ltoir"}.items():
    (others / f"libnvshmem_device{name}").symlink_to(f"../../device/gshmem{target}")
build_wheel.leave_out(tree)
build_wheel.without_links(tree)
left = {path.relative_to(tree / "lib" / "gshmem").as_posix(): path.read_text(encoding="ascii") for path in tree.rglob("*.*")}
assert left == {f"nvshmem/lib/libnvshmem_device{name}": f"gshmem{of}" for name, of in
                {"_sm_80.bc": "_sm_80.bc", "_sm_90.bc": "_sm_90.bc", ".bc": "_sm_80.bc", ".ltoir.fatbin": ".ltoir.fatbin"}.items()}, left
from gshmem import _paths  # noqa: E402
_paths.PREFIX = tree
for format, arch, name in (("bc", 80, "_sm_80.bc"), ("bc", 100, "_sm_90.bc"), ("fatbin", 90, ".ltoir.fatbin")):
    found = _paths.get_device_library(format, arch)
    assert found == others / f"libnvshmem_device{name}", found

os.chdir(root)
wheel = work / build_wheel.build_wheel(work, {"build-dir": str(build)})
print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")
assert wheel.stat().st_size <= 40e6
with zipfile.ZipFile(wheel) as archive:
    names = archive.namelist()
    assert archive.testzip() is None
    for needed in ("gshmem/py.typed", "gshmem/lib/libgshmem.so.0.1", "gshmem/include/gshmem/gshmem.h", "gshmem/bin/gshmem-info",
                   "gshmem/lib/gshmem/nvshmem/include/nvshmem.h", "gshmem/lib/gshmem/nvshmem/lib/libnvshmem_host.so.3"):
        assert needed in names, needed
    assert len(names) == len(set(names))
    # Otherwise Open MPI's libraries would be needed on systems without it.
    assert not [name for name in names if "mpi.so" in name or name.endswith("libmpi")]

environment = work / "environment"
venv.create(environment, clear=True)  # without pip
python, package = environment / "bin" / "python", next((environment / "lib").iterdir()) / "site-packages" / "gshmem"
run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", wheel)
for pes in (2, 3):
    said = run(python, "-m", "gshmem", "-n", pes, programs / "job.py")
    assert said.count(": passed") == pes, said
assert sorted(run(python, "-m", "gshmem", "-n", 2, "-c",
                  "import gshmem; gshmem.init(); print(gshmem.my_pe(), gshmem.n_pes())").split()) == ["0", "1", "2", "2"]
run(python, "-m", "gshmem", "-n", 2, "-c", "import gshmem, sys; gshmem.init(); sys.exit(3 * gshmem.my_pe())", expect=3)
# The launcher names what is wrong with its command line; help is no error.
assert "python -m gshmem -n N" in run(python, "-m", "gshmem", "--help")
for words, mistake in (("-np 2 job.py", "'-np' comes first"), ("-n 0 job.py", "instead of '0'"), ("-n", "instead of nothing"),
                       ("-n 2", "nothing is to be run"), ("", "-n N is missing")):
    said = subprocess.run([python, "-m", "gshmem", *words.split()], capture_output=True, text=True, timeout=LIMIT, check=False)
    assert said.returncode == 2 and mistake in said.stderr, (words, said)
# Without the library, the package of the sources says where it looks for it.
said = subprocess.run([sys.executable, "-B", "-c", "import gshmem; gshmem.init()"], capture_output=True, text=True, timeout=LIMIT,
                      check=False, env={**os.environ, "PYTHONPATH": str(root / "host" / "python")})
assert said.returncode == 1 and "LD_LIBRARY_PATH" in said.stderr, said
assert "problem(s)" in run(environment / "bin" / "gshmem-info", "--doctor")
run(python, "-c", f"""
import ctypes, gshmem
folder = gshmem.use_as_nvshmem()
assert folder == gshmem.get_nvshmem_home() / 'lib'
library = ctypes.CDLL('libnvshmem_host.so.3')
gshmem.init()
assert library.nvshmem_n_pes() == gshmem.n_pes() == 1
assert library.nvshmemid_init_status() == library.nvshmemx_init_status()
# Device code of NVIDIA's, which is version 3.7.2 here.
class Version(ctypes.Structure):
    _fields_ = [(part, ctypes.c_int) for part in ('major', 'minor', 'patch')]
assert library.nvshmemid_hostlib_init_attr(0, None, 0, None, Version(3, 7, 2), None) != 0
assert (gshmem.get_include() / 'gshmem' / 'gshmem.h').exists() and (gshmem.get_cmake_dir() / 'gshmem-config.cmake').exists()
maps = open('/proc/self/maps').read()
assert {str(package)!r} in maps and {str(build / 'lib')!r} not in maps
""")
print(run(python, "-B", __file__, root, build, work, repeat, "--jobs", limit=None).strip())

# Packages of others that the caller's Python has, after those of the environment.
for name in ("torch", "nvshmem"):
    spec = importlib.util.find_spec(name)
    folder = Path(next(iter(spec.submodule_search_locations))).parent if spec else None
    if folder:
        (package.parent / f"{name}.pth").write_text(f"{folder}\n", encoding="utf-8")
    else:
        print(f"not tried: no {name}")
if importlib.util.find_spec("torch"):
    os.environ["XDG_CACHE_HOME"] = str(work / "cache")  # kept: it is compiled once
    # torch has a library that NVIDIA's device code is linked into.
    run(python, "-c", "import gshmem; gshmem.use_as_nvshmem(); import torch")
    made = Path(run(python, "-m", "gshmem.torch").strip())
    print(f"torch's backend: {made}")
    # One that does not load is compiled again, here by a compiler that has the result already.
    quick = work / "quick"
    quick.mkdir(exist_ok=True)
    made.replace(quick / "made")
    made.write_text("no library", encoding="ascii")
    (quick / "c++").write_text(f"#!/bin/sh\nfor last; do :; done\ncp '{quick}/made' \"$last\"\n", encoding="utf-8")
    (quick / "c++").chmod(0o755)
    run(python, "-c", "import gshmem.torch", PATH=f"{quick}:{os.environ['PATH']}")
    for pes in (2, 3):
        store = work / "store"
        for old in work.glob("store*"):
            old.unlink()
        said = run(python, "-m", "gshmem", "-n", pes, programs / "torch_job.py", store)
        assert said.count(": passed") == pes, said
    if (build / "lib" / "gshnic" / "libibverbs.so.1").exists():  # not in the wheel
        shutil.copytree(build / "lib" / "gshnic", package / "lib" / "gshnic")
        store.unlink(missing_ok=True)
        said = run(python, "-m", "gshmem", "-n", 3, programs / "torch_network.py", store, GSHMEM_P2P="0", GSHMEM_NIC="soft")
        assert said.count(": passed") == 3, said
        shutil.rmtree(package / "lib" / "gshnic")
    else:
        print("not tried: no soft NIC")
home = run(python, "-c", "import gshmem; print(gshmem.get_nvshmem_home())").strip()
if importlib.util.find_spec("nvshmem"):
    done = subprocess.run([python, programs.parent / "for_nvshmem" / "host_api.py", "cpu", f"{home}/lib"], check=False)
    assert done.returncode in (0, 77), "nvshmem4py does not run"
    done = subprocess.run([python, programs.parent / "for_nvshmem" / "find_device.py", home], check=False)
    assert done.returncode in (0, 77), "device libraries are not found"
run(sys.executable, "-m", "pip", "--python", python, "uninstall", "--yes", "gshmem")
assert not package.exists(), f"{package} is left"
