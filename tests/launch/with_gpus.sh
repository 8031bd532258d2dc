#!/bin/bash
# with_gpus.sh N command...: runs `command` with GSHMEM_DEVICE=cuda where this process may use at
# least N GPUs, else says why not and exits with 77.
need=$1
shift
have=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ')
if [ -n "${CUDA_VISIBLE_DEVICES+set}" ]; then
  visible=$(tr ',' '\n' <<<"$CUDA_VISIBLE_DEVICES" | grep -c .)
  [ "$visible" -lt "$have" ] && have=$visible
fi
if [ "$have" -lt "$need" ]; then
  echo "skipped: needs $need GPUs, there are $have"
  exit 77
fi
GSHMEM_DEVICE=cuda exec "$@"
