from spack_repo.builtin.build_systems.cmake import CMakePackage, generator
from spack_repo.builtin.build_systems.cuda import CudaPackage

from spack.package import *


class Gshmem(CMakePackage, CudaPackage):
    """PGAS runtime for NVIDIA GPUs: symmetric memory, one-sided transfers, NVSHMEM's interface."""

    license("Apache-2.0")

    # There is no release to fetch: `spack dev-build` takes the folder of the sources.
    version("main")

    variant("cuda", default=True, description="Support GPUs; otherwise CPU mode only")
    variant("bitcode", default=False, when="+cuda", description="Bitcode of the device library, for Triton and CuTe DSL")
    variant("perftest", default=True, description="Build the perftests")
    variant("mpi", default=True, description="Jobs on a communicator of MPI")
    variant("pmix", default=True, description="Jobs of launchers with PMIx")
    variant("libfabric", default=True, description="Networks by libfabric")
    variant("rdma", default=True, description="ConnectX by verbs")

    generator("ninja")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("cli11", type="build")
    depends_on("nlohmann-json", type="build")
    depends_on("cuda@12.2:", when="+cuda")
    depends_on("llvm@18: +clang", type="build", when="+bitcode")
    depends_on("mpi", when="+mpi")
    depends_on("pmix", when="+pmix")
    depends_on("libfabric", when="+libfabric")
    depends_on("rdma-core", when="+rdma")

    conflicts("cuda_arch=none", when="+cuda", msg="name the GPUs: cuda_arch=90")

    def cmake_args(self):
        args = [
            self.define("GSHMEM_TESTS", False),
            self.define("GSHMEM_EXAMPLES", False),
            self.define("GSHMEM_WERROR", False),
            self.define_from_variant("GSHMEM_CUDA", "cuda"),
            self.define_from_variant("GSHMEM_PERFTEST", "perftest"),
            self.define("CMAKE_DISABLE_FIND_PACKAGE_MPI", self.spec.satisfies("~mpi")),
        ]
        if self.spec.satisfies("+cuda"):
            args.append(self.define("GSHMEM_CUDA_ARCHITECTURES", self.spec.variants["cuda_arch"].value))
            args.append(self.define_from_variant("GSHMEM_BITCODE", "bitcode"))
        if self.spec.satisfies("+bitcode"):
            args.append(self.define("GSHMEM_DEVICE_CLANG", self.spec["llvm"].prefix.bin.join("clang++")))
        return args

    def setup_run_environment(self, env):
        # The library looks for them when it needs them.
        for variant, package in (("+pmix", "pmix"), ("+libfabric", "libfabric"), ("+rdma", "rdma-core")):
            if self.spec.satisfies(variant):
                env.prepend_path("LD_LIBRARY_PATH", self.spec[package].prefix.lib)
