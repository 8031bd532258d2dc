#!/bin/bash
# run_command.sh SOURCE: runs the README's first command, as typed by a user who has just cloned the tree:
# examples/run on a copy of the sources at a path with a space, with two PEs in CPU mode. It must succeed and run its
# three programs. The leg release compiles the library by g++, file by file and optimized; here it is compiled quickly, in
# batches, and by clang++ where there is one, which takes half as long.
set -eu
folder=$(mktemp -d "${TMPDIR:-/tmp}/gshmem run.XXXXXX")
trap 'rm -rf "$folder"' EXIT
tar -C "$1" --exclude='./build*' --exclude=./.git --exclude=./.deps -cf - . | tar -C "$folder" -xf -
quick=(-DCMAKE_UNITY_BUILD=ON -DGSHMEM_PRECOMPILE=ON
  -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 -DCMAKE_CUDA_FLAGS_DEBUG=)
if command -v clang++ > /dev/null; then quick+=(-DCMAKE_CXX_COMPILER=clang++ -DCMAKE_C_COMPILER=clang); fi
if ! GSHMEM_DEVICE=cpu PES=2 "$folder/examples/run" "${quick[@]}" > "$folder/output" 2>&1; then
  tail -n 40 "$folder/output"
  exit 1
fi
tail -n 30 "$folder/output"
for expected in "run: 2 PEs, GSHMEM_DEVICE=cpu" "bin/ring$" "bin/perftest/put_bw$" "bin/perftest/put_latency$"; do
  grep -q -- "$expected" "$folder/output" || { echo "examples/run did not say: $expected"; exit 1; }
done
# The command that it prints can be pasted, by root and with more PEs than cores.
line=$(grep -m1 '^\$ ' "$folder/output" | sed 's/^\$ //; s/-np 2/-np 9/')
if ! (cd "$folder" && env -u OMPI_ALLOW_RUN_AS_ROOT -u OMPI_ALLOW_RUN_AS_ROOT_CONFIRM -u OMPI_MCA_rmaps_base_oversubscribe \
  -u PRTE_MCA_rmaps_default_mapping_policy sh -c "$line" > "$folder/pasted" 2>&1); then
  tail -n 20 "$folder/pasted"
  echo "cannot be pasted: $line"
  exit 1
fi
