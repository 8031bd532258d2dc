#!/usr/bin/env bash
# The PTX of device code, as a compiler that knows no more than PTX ISA 8.2 (CUDA 12.2) makes it: it assembles as that
# version, and has no fence of a later one (a later ptxas takes those in any version). Of any version: the fence by
# which what a quiet covers is at its target, and not only in order.
# Usage: old_ptx.sh NVCC ARCHITECTURE OUTPUT-FOLDER NVCC-FLAG...
set -euo pipefail
nvcc=$1 architecture=$2 out=$3
shift 3
sources=$(dirname "${BASH_SOURCE[0]}")/registers/kernels.cu
later='fence\.\(acquire\|release\)\.'
complete='fence\.sc\.sys;'
for isa in 82 86; do
  "$nvcc" -std=c++20 -O1 "-arch=sm_$architecture" -ptx "-DGSHMEM_PTX_ISA=$isa" "$@" -o "$out/$isa.ptx" "$sources"
  for call in quiet ctx_quiet qp_quiet; do
    if ! grep -q "$complete" <(sed -n "/\.entry STREAM_$call(/,/^}/p" "$out/$isa.ptx"); then
      echo "$call of PTX ISA $isa: no $complete"
      exit 1
    fi
  done
done
grep -q "$later" "$out/86.ptx"
if grep "$later" "$out/82.ptx"; then
  echo "fences of PTX ISA 8.6 for a compiler of 8.2"
  exit 1
fi
# Without the hints of later compilers, which are no instructions.
sed -i 's/^\.version .*/.version 8.2/; /\.pragma "used_bytes_mask/d' "$out/82.ptx"
"$(dirname "$nvcc")/ptxas" "-arch=sm_$architecture" -O0 -o "$out/82.cubin" "$out/82.ptx"
