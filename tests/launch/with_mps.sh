#!/bin/bash
# with_mps.sh command...: runs `command` with GSHMEM_DEVICE=cuda on the first GPU that this process may use, under an
# MPS daemon with its own folder of pipes, which it ends afterwards. Exits with 77 and a reason if there is no GPU or
# MPS does not start.
set -u
skip() {
  echo "skipped: $1"
  exit 77
}

nvidia-smi -L 2> /dev/null | grep -q '^GPU ' || skip "needs a GPU"
command -v nvidia-cuda-mps-control > /dev/null || skip "needs nvidia-cuda-mps-control"
folder=$(mktemp -d "${TMPDIR:-/tmp}/gshmem-mps.XXXXXX") || exit 1
export CUDA_MPS_PIPE_DIRECTORY=$folder/pipe CUDA_MPS_LOG_DIRECTORY=$folder/log
mkdir "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_MPS_LOG_DIRECTORY"

# Its clients number its GPUs from 0.
CUDA_VISIBLE_DEVICES=$(cut -d, -f1 <<< "${CUDA_VISIBLE_DEVICES:-0}") \
  nvidia-cuda-mps-control -f > "$folder/said" 2>&1 &
daemon=$!
end_daemon() {
  if kill -0 "$daemon" 2> /dev/null; then
    echo 'quit -t 2' | timeout 20 nvidia-cuda-mps-control > /dev/null 2>&1 || kill "$daemon" 2> /dev/null
  fi
  wait "$daemon" 2> /dev/null
  rm -rf "$folder"
}
trap end_daemon EXIT
trap 'exit 143' TERM INT

answers() { echo get_server_list | timeout 5 nvidia-cuda-mps-control > /dev/null 2>&1; }
for ((i = 0; i < 100; ++i)); do
  answers && break
  if ! kill -0 "$daemon" 2> /dev/null || ((i == 99)); then
    tail -n 5 "$folder/said" "$CUDA_MPS_LOG_DIRECTORY"/* 2> /dev/null
    skip "MPS does not start here"
  fi
  sleep 0.1
done

export CUDA_VISIBLE_DEVICES=0 GSHMEM_DEVICE=cuda
"$@" &
command=$!
trap 'kill "$command" 2> /dev/null; exit 143' TERM INT
wait "$command"
