#!/usr/bin/env bash
# other_host.sh PROGRAM: runs two PEs of which one believes that it is on another host (a UTS namespace of its own).
# Without a NIC both must fail and name the PE, the hosts and the variable. It needs root for the namespace, otherwise
# it is skipped.
set -u
program=$1
if ! unshare --uts true 2> /dev/null; then
  echo "skipped: needs root for a UTS namespace"
  exit 77
fi
export GSHMEM_NIC=none GSHMEM_DEVICE=cpu GSHMEM_BOOTSTRAP=uid GSHMEM_UID_SIZE=2 GSHMEM_BOOTSTRAP_TIMEOUT=300
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# The port is below those that the kernel gives to clients, but another test may still use it.
for _ in 1 2 3; do
  export GSHMEM_UID_ADDRESS=127.0.0.1:$((12000 + RANDOM % 18000))
  GSHMEM_UID_RANK=1 unshare --uts sh -c "hostname elsewhere; exec '$program'" > "$folder/1" 2>&1 &
  GSHMEM_UID_RANK=0 "$program" > "$folder/0" 2>&1
  first=$?
  wait $!
  second=$?
  grep -q "another process listens on $GSHMEM_UID_ADDRESS" "$folder/0" || break
done
cat "$folder"/*
for rank in 0 1; do
  grep -q "PE 1 is on host elsewhere .*, PE 0 on host $(uname -n) .*GSHMEM_NIC=none" "$folder/$rank" ||
    { echo "PE $rank does not name the hosts and the variable"; exit 1; }
done
if ((first == 0 || second == 0)); then
  echo "exit statuses $first and $second, expected failures"
  exit 1
fi
