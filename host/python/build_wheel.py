"""Builds the wheel: the backend that pyproject.toml names (PEP 517), with nothing but Python, CMake and a compiler.

    pip wheel . --no-deps                                              builds in build/wheel
    pip wheel . --no-deps --config-settings build-dir=build/gpu        takes what a build folder has
    pip wheel . --no-deps --config-settings cmake=-DGSHMEM_CUDA=OFF    further arguments of CMake, one word each or several in one

(-C is short for --config-settings from pip 23.1 on.)

That for all users is for the GPUs they have, with bitcode:

    pip wheel . --no-deps --config-settings cmake="-DGSHMEM_CUDA_ARCHITECTURES='80-real;90-real;100' -DGSHMEM_BITCODE=ON"

The wheel has the installed tree as the folder gshmem/, beside the Python files: one for all Pythons.
A wheel has no symbolic links, so each library is there under the name that the loader asks for, and a linker script has the
name without a version. Its platform tag is computed of the symbols that the programs and libraries need.
"""
import base64
import hashlib
import io
import os
import platform
import re
import shlex
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from pathlib import Path

try:
    import tomllib
except ImportError:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
COMPONENTS = ("runtime", "dev", "nvshmem", "tools")
GENERATED = re.compile(r"(?:build.*|dist|\..*|.*\.egg-info|__pycache__)\Z")
# One libstdc++ for all systems: each file has of it what it uses, hidden.
LINK = "-static-libstdc++ -Wl,--gc-sections"
# Machine code is not compressed by default, and a zip file takes less off it.
KERNELS = "-Xfatbin=-compress-all"
# libnvshmem.a is a runtime of its own in each program that links it: those who build programs have it of CMake. The LTO-IR of
# all architectures is in one fatbin, compressed. PTX and machine code of the device library take 80 MB.
LEFT_OUT = re.compile(r"libnvshmem\.a|gshmem_sm_\w+\.(ltoir|ptx|fatbin)")
# Each takes 1 MB, and nvcc half a minute: what tells most of a machine. CMake installs all.
PERFTESTS = ("put_bw", "get_bw", "put_latency", "get_latency", "put_signal_ping_pong", "atomic_latency")


def project():
    with open(ROOT / "pyproject.toml", "rb") as file:
        return tomllib.load(file)["project"]


def version():
    text = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    return re.search(r"project\(gshmem VERSION ([\d.]+)", text).group(1)


def build(settings):
    """The build folder, with everything of a wheel built."""
    if settings.get("build-dir"):
        return Path(settings["build-dir"]).resolve()
    folder = ROOT / "build" / "wheel"
    given = settings.get("cmake", [])
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    subprocess.run(["cmake", "-S", ROOT, "-B", folder, *generator, "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_INSTALL_LIBDIR=lib",
                    "-DGSHMEM_TESTS=OFF", "-DGSHMEM_EXAMPLES=OFF", "-DGSHMEM_WERROR=OFF",
                    *(f"-DCMAKE_{kind}_LINKER_FLAGS={LINK}" for kind in ("EXE", "SHARED", "MODULE")), f"-DCMAKE_CUDA_FLAGS={KERNELS}",
                    f"-DGSHMEM_PERFTESTS_OF_WHEEL={';'.join(PERFTESTS)}",
                    *(word for each in ([given] if isinstance(given, str) else given) for word in shlex.split(each))], check=True)
    subprocess.run(["cmake", "--build", folder, *([] if generator else ["--parallel", str(os.cpu_count())])], check=True)
    return folder


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def leave_out(tree):
    for path in [path for path in tree.rglob("*") if LEFT_OUT.fullmatch(path.name) or
                 (path.parent.name == "perftest" and is_elf(path) and path.name not in PERFTESTS)]:
        path.unlink()


def without_links(tree):
    """Each library under its SONAME alone; the links to it become linker scripts, or go.

    A device library is there under its names for NVSHMEM instead of its own: gshmem.get_device_library knows both.
    """
    soname = {}
    links = sorted(path for path in tree.rglob("*") if path.is_symlink())
    devices = [path for path in links if not path.exists() or not is_elf(path)]
    for target in {path.resolve() for path in devices}:
        for path in [path for path in devices if path.resolve() == target]:
            path.unlink()
            if target.exists():
                shutil.copyfile(target, path)
            links.remove(path)
        target.unlink(missing_ok=True)
    for target in {path.resolve() for path in links}:
        said = subprocess.run(["readelf", "-d", target], check=True, capture_output=True, text=True).stdout
        soname[target] = re.search(r"\(SONAME\).*\[(.*)\]", said).group(1)
    for path in links:
        target = path.resolve()
        path.unlink()
        if path.name != soname[target]:
            path.write_text(f"/* GNU ld script */\nINPUT({soname[target]})\n", encoding="ascii")
    for target, name in soname.items():
        target.rename(target.with_name(name))
        for package in tree.rglob("*.cmake"):
            text = package.read_text(encoding="utf-8")
            if target.name in text:
                package.write_text(text.replace(target.name, name), encoding="utf-8")


def platform_tag(tree):
    """manylinux of the newest glibc that a file needs; linux where one needs the system's libstdc++."""
    needed, machine = (2, 17), platform.machine()
    for path in filter(is_elf, (path for path in tree.rglob("*") if path.is_file() and path.suffix != ".a")):
        said = subprocess.run(["readelf", "-W", "-d", "-V", path], check=True, capture_output=True, text=True).stdout
        if "libstdc++" in said:
            return f"linux_{machine}"
        needed = max([needed, *((int(a), int(b)) for a, b in re.findall(r"Name: GLIBC_(\d+)\.(\d+)", said))])
    return f"manylinux_{needed[0]}_{needed[1]}_{machine}"


def metadata():
    known = project()
    fields = [("Metadata-Version", "2.1"), ("Name", known["name"]), ("Version", version()), ("Summary", known["description"]),
              ("License", known["license"]["text"]), ("Requires-Python", known["requires-python"]),
              *(("Classifier", each) for each in known["classifiers"]), ("Description-Content-Type", "text/markdown")]
    text = (ROOT / known["readme"]).read_text(encoding="utf-8")
    return ("".join(f"{name}: {value}\n" for name, value in fields) + "\n" + text).encode()


class Wheel(zipfile.ZipFile):
    """A zip file that keeps what RECORD says of its members."""

    def __init__(self, path):
        super().__init__(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9)
        self.record = []

    def add(self, name, data, mode=0o644):
        entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
        entry.external_attr = (0o100000 | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self.writestr(entry, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(data)}")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    folder = build(config_settings or {})
    with tempfile.TemporaryDirectory() as temporary:
        tree = Path(temporary) / "gshmem"
        for component in COMPONENTS:
            subprocess.run(["cmake", "--install", folder, "--prefix", tree, "--component", component, "--strip"], check=True,
                           stdout=subprocess.DEVNULL)
        if not (tree / "lib" / "cmake").is_dir():
            raise SystemExit(f"{folder} does not install to lib/: configure it with -DCMAKE_INSTALL_LIBDIR=lib")
        leave_out(tree)
        without_links(tree)
        # The backend for torch is compiled where torch is, so its sources are in the package.
        shutil.copytree(Path(__file__).parent / "gshmem", tree, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        tag = f"py3-none-{platform_tag(tree)}"
        name = f"gshmem-{version()}"
        path = Path(wheel_directory) / f"{name}-{tag}.whl"
        with Wheel(path) as wheel:
            for file in sorted(path for path in tree.rglob("*") if path.is_file()):
                wheel.add(str(file.relative_to(temporary)), file.read_bytes(), 0o755 if os.access(file, os.X_OK) else 0o644)
            information = f"{name}.dist-info/"
            wheel.add(information + "licenses/LICENSE", (ROOT / "LICENSE").read_bytes())
            wheel.add(information + "METADATA", metadata())
            wheel.add(information + "WHEEL", f"Wheel-Version: 1.0\nGenerator: gshmem\nRoot-Is-Purelib: false\nTag: {tag}\n".encode())
            scripts = "".join(f"{script} = {target}\n" for script, target in project()["scripts"].items())
            wheel.add(information + "entry_points.txt", f"[console_scripts]\n{scripts}".encode())
            wheel.writestr(information + "RECORD", "\n".join([*wheel.record, information + "RECORD,,", ""]))
    return path.name


def build_sdist(sdist_directory, config_settings=None):
    name = f"gshmem-{version()}"
    with tarfile.open(Path(sdist_directory) / f"{name}.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for top in sorted(os.listdir(ROOT)):
            if not GENERATED.match(top):
                archive.add(ROOT / top, f"{name}/{top}", filter=lambda each: None if "__pycache__" in each.name else each)
        data = metadata()
        entry = tarfile.TarInfo(f"{name}/PKG-INFO")
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    return f"{name}.tar.gz"
