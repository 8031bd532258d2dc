#!/bin/bash
# with_mlx5.sh N command...: runs `command` with GSHMEM_NIC=mlx5 if N ports of such cards are active. Otherwise it
# prints which ports there are and exits with 77.
need=$1
shift
active=0 found=
for device in "${GSHMEM_TEST_SYSFS:-/sys}"/class/infiniband/*; do
  [ -e "$device" ] || continue
  driver=$(basename "$(readlink "$device/device/driver")")
  for port in "$device"/ports/*; do
    state=$(cat "$port/state" 2> /dev/null)
    found+="${found:+, }$(basename "$device"):$(basename "$port") (${driver:-no driver}, ${state:-no state})"
    [[ $driver == mlx5_core && $state == *ACTIVE ]] && ((++active))
  done
done
if ((active < need)); then
  echo "skipped: needs $need active mlx5 port(s); there is: ${found:-no RDMA device}"
  exit 77
fi
GSHMEM_NIC=mlx5 exec "$@"
