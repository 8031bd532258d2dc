#!/bin/bash
# with_gpus.sh N command...: runs `command`, which starts N PEs, with GSHMEM_DEVICE=cuda where this process may
# use at least N GPUs. Where there are fewer, all of them share the first one under MPS (with_mps.sh); where there
# is none, it says so and exits with 77.
need=$1
shift
have=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ')
if [ -n "${CUDA_VISIBLE_DEVICES+set}" ]; then
  visible=$(tr ',' '\n' <<<"$CUDA_VISIBLE_DEVICES" | grep -c .)
  [ "$visible" -lt "$have" ] && have=$visible
fi
if [ "$have" -eq 0 ]; then
  echo "skipped: needs a GPU"
  exit 77
fi
# Of the 32 hardware queues that all processes have.
if [ "$have" -lt "$need" ]; then
  CUDA_DEVICE_MAX_CONNECTIONS=$((32 / need)) exec "$(dirname "$0")/with_mps.sh" "$@"
fi
GSHMEM_DEVICE=cuda exec "$@"
