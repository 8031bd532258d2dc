#!/bin/bash
# killed_mpirun.sh PROGRAM mpirun arguments...: mpirun starts two PEs, and is killed. They end by themselves, with the
# reason in their log.
set -u
program=$1
shift
folder=$(mktemp -d "${TMPDIR:-/tmp}/gshmem-killed.XXXXXX") || exit 1
export TMPDIR=$folder GSHMEM_DEVICE=cpu GSHMEM_FAULT=abort GSHMEM_LOG_FILE=$folder/log.%p
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PRTE_MCA_hwloc_default_binding_policy=none
pes=()
end() {
  kill -KILL "$launcher" "${pes[@]}" 2> /dev/null
  rm -rf "$folder"
}
# Not one that has ended, and whose parent has not asked for it: not every container's first process does.
runs() { kill -0 "$1" 2> /dev/null && ! grep -q '^State:[[:space:]]*Z' "/proc/$1/status" 2> /dev/null; }
"$@" -np 2 "$program" "$folder" &
launcher=$!
trap end EXIT
for pe in 0 1; do
  while [ ! -e "$folder/PE$pe" ]; do
    kill -0 "$launcher" 2> /dev/null || { echo "mpirun ended early" >&2; exit 1; }
    sleep 0.1
  done
  pes+=("$(cat "$folder/PE$pe")")
done
kill -KILL "$launcher"
begin=$SECONDS
for pe in 0 1; do
  while runs "${pes[$pe]}"; do
    [ $((SECONDS - begin)) -lt 60 ] || { echo "PE $pe still runs 60 s after mpirun was killed" >&2; exit 1; }
    sleep 0.1
  done
done
# The PE that hears of it first may end the other one.
cat "$folder"/log.*
grep -q "the launcher has ended: its PMIx server is gone" "$folder"/log.*
