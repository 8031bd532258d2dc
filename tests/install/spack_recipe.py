#!/usr/bin/env python3
"""Spack's recipe names options that exist: the build takes the arguments of each variant, and uses all of them.

    spack_recipe.py ROOT WORK CMAKE

Spack itself is not needed: what the recipe takes of it is here, as far as it is used. Spack has not run it.
"""
import re
import shutil
import subprocess
import sys
import types
from pathlib import Path

root, work, cmake = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
told = []  # the directives of the recipe


def directive(name):
    return lambda *words, **settings: told.append((name, words, settings))


class Spec:
    def __init__(self, on):
        self.on = on
        self.variants = {"cuda_arch": types.SimpleNamespace(value=("80", "90"))}

    def satisfies(self, text):
        return (text[0] == "+") == (text[1:] in self.on)

    def __getitem__(self, package):
        place = f"/spack/{package}"
        return types.SimpleNamespace(prefix=types.SimpleNamespace(lib=f"{place}/lib", bin=types.SimpleNamespace(
            join=lambda name: f"{place}/bin/{name}")))


class CMakePackage:
    def __init__(self, on):
        self.spec = Spec(on)

    @staticmethod
    def define(name, value):
        words = {True: "ON", False: "OFF"}
        return f"-D{name}={words[value] if isinstance(value, bool) else value if isinstance(value, str) else ';'.join(value)}"

    def define_from_variant(self, name, variant):
        return self.define(name, variant in self.spec.on)


sys.dont_write_bytecode = True
spack = types.ModuleType("spack.package")
for name in ("license", "version", "variant", "depends_on", "conflicts"):
    setattr(spack, name, directive(name))
systems = {"cmake": {"CMakePackage": CMakePackage, "generator": directive("generator")},
           "cuda": {"CudaPackage": type("CudaPackage", (), {})}}
sys.modules.update({"spack": types.ModuleType("spack"), "spack.package": spack})
for name in ("spack_repo", "spack_repo.builtin", "spack_repo.builtin.build_systems"):
    sys.modules[name] = types.ModuleType(name)
for name, members in systems.items():
    sys.modules[f"spack_repo.builtin.build_systems.{name}"] = module = types.ModuleType(name)
    vars(module).update(members)
recipe = {"__name__": "recipe"}
path = root / "host" / "packages" / "spack_repo" / "gshmem" / "packages" / "gshmem" / "package.py"
exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), recipe)

variants = {words[0] for name, words, _ in told if name == "variant"}
for name, _, settings in told:
    condition = settings.get("when", "+cuda")
    assert condition[1:] in variants, f"{name} when {condition}"
needed = re.search(r"cmake_minimum_required\(VERSION ([\d.]+)\)", (root / "CMakeLists.txt").read_text(encoding="utf-8"))[1]
assert any(words[0] == f"cmake@{needed}:" for name, words, _ in told if name == "depends_on"), f"cmake@{needed}: is no dependency"

known = "".join(file.read_text(encoding="utf-8") for file in (root / "CMakeLists.txt", root / "device" / "library" / "CMakeLists.txt"))
for on in (variants, variants - {"bitcode"}, variants - {"cuda", "bitcode"}, set()):
    package = recipe["Gshmem"](on)
    args = package.cmake_args()
    for option in re.findall(r"-D(GSHMEM_\w+)=", " ".join(args)):
        assert re.search(rf"\b{option}\b", known), f"{option} is no option"
    paths = []
    package.setup_run_environment(types.SimpleNamespace(prepend_path=lambda *words: paths.append(words)))
    assert len(paths) == len(on & {"pmix", "libfabric", "rdma"}), paths
    if "cuda" in on:
        continue  # configuring needs nvcc
    folder = work / "spack"
    shutil.rmtree(folder, ignore_errors=True)
    done = subprocess.run([cmake, "-S", root, "-B", folder, "-G", "Ninja", *args], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "not used by the project" not in done.stderr, done.stderr
    there = (folder / "CMakeCache.txt").read_text(encoding="utf-8")
    for name, value in (arg[2:].split("=", 1) for arg in args):
        assert re.search(rf"^{name}:\w+={re.escape(value)}$", there, re.M), f"{name} is not {value}"
print(f"{len(told)} directives, {len(variants)} variants")
