# shellcheck shell=bash
# What examples/run and tests/run share; sourced by them. Changes to the root of the tree.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# nvcc is often outside of PATH; CMake takes it from CUDACXX.
if [[ -z ${CUDACXX:-} ]]; then
  for nvcc in "$(command -v nvcc || true)" "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" \
    /usr/local/cuda/bin/nvcc; do
    if [[ -x $nvcc ]]; then
      export CUDACXX=$nvcc
      break
    fi
  done
fi
have_nvcc() { [[ -n ${CUDACXX:-} ]]; }

if command -v ccache > /dev/null; then
  export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache \
    CMAKE_CUDA_COMPILER_LAUNCHER=ccache
fi

# mpirun in containers and on small machines: root is fine, more PEs than cores too. Bound to a core,
# a PE would share it with its own service threads.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
  OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
# The same for Open MPI 5, whose launcher is PRRTE.
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PRTE_MCA_hwloc_default_binding_policy=none

# The words with which mpirun starts programs where that environment is not set, as in a user's shell. The pages have
# them too.
mpirun_words() {
  echo mpirun
  if mpirun --version 2> /dev/null | grep -q 'Open MPI'; then echo --oversubscribe --allow-run-as-root; fi
}

# GPUs that this process may use; 0 without a driver.
gpu_count() {
  local all visible
  all=$(nvidia-smi -L 2> /dev/null | grep -c '^GPU ' || true)
  if [[ -n ${CUDA_VISIBLE_DEVICES+set} ]]; then
    visible=$(tr ',' '\n' <<< "$CUDA_VISIBLE_DEVICES" | grep -c . || true)
    ((visible < all)) && all=$visible
  fi
  echo "$all"
}
