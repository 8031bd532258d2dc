#!/bin/bash
# with_gpus.sh N command...: runs `command`, which starts N PEs, with GSHMEM_DEVICE=cuda if this process may use at
# least N GPUs. If there are fewer, all PEs share the first one under MPS (with_mps.sh). If there is none, it prints
# so and exits with 77.
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
# All processes together have 32 hardware queues.
if [ "$have" -lt "$need" ]; then
  CUDA_DEVICE_MAX_CONNECTIONS=$((32 / need)) exec "$(dirname "$0")/with_mps.sh" "$@"
fi
GSHMEM_DEVICE=cuda exec "$@"
