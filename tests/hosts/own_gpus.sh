#!/bin/bash
# own_gpus.sh command...: runs the command on host h<i> of up.sh, with GPUs of its own: HOSTS_PES of those that this
# machine has (or CUDA_VISIBLE_DEVICES names), after those of the earlier hosts.
set -u
if [ -n "${CUDA_VISIBLE_DEVICES:-}" ]; then
  IFS=, read -ra all <<< "$CUDA_VISIBLE_DEVICES"
else
  mapfile -t all < <(seq 0 $((HOSTS_COUNT * HOSTS_PES - 1)))
fi
host=$(hostname)
mine=("${all[@]:$((${host#h} * HOSTS_PES)):HOSTS_PES}")
CUDA_VISIBLE_DEVICES=$(IFS=,; echo "${mine[*]}")
export CUDA_VISIBLE_DEVICES
exec "$@"
