#!/usr/bin/env bash
# nodes.sh COMMAND...: runs it with /dev and /sys as on a machine with a ConnectX-7 at mlx5_0, or with as many as
# GSHNIC_DEVICES says, and ports as in GSHNIC_PROFILE. UCX, NCCL and NVSHMEM read them before they call libibverbs. It
# uses a mount namespace of its own, as root or as a user who may make user namespaces, and leaves nothing.
set -euo pipefail

if [[ ${GSHNIC_NODES:-} != made ]]; then
  as_root=()
  ((EUID == 0)) || as_root=(--map-root-user)
  unshare --mount --propagation private "${as_root[@]}" mount -t tmpfs gshnic /tmp 2> /dev/null ||
    { echo "no mount namespaces here"; exit 77; }
  exec env GSHNIC_NODES=made unshare --mount --propagation private "${as_root[@]}" "$0" "$@"
fi

stage=$(mktemp -d)
mount -t tmpfs gshnic "$stage"

# /dev: its current content, and the device of the kernel's verbs.
mkdir -p "$stage/dev/infiniband"
for entry in /dev/*; do
  name=$stage/dev/${entry##*/}
  if [[ -L $entry ]]; then
    cp -P "$entry" "$name"
  elif [[ -d $entry ]]; then
    mkdir -p "$name" && mount --rbind "$entry" "$name"
  else
    touch "$name" && mount --bind "$entry" "$name"
  fi
done
for ((i = 0; i < ${GSHNIC_DEVICES:-1}; i++)); do
  touch "$stage/dev/infiniband/uverbs$i"
  mount --bind /dev/null "$stage/dev/infiniband/uverbs$i"
done

# /sys/class: its current links, and each device below a PCI device.
for class in /sys/class/*; do
  mkdir -p "$stage/class/${class##*/}"
  find "$class" -maxdepth 1 -type l -exec cp -P -t "$stage/class/${class##*/}" {} +
done
mkdir -p "$stage/class/infiniband"
# GIDs as in profile.cpp: each address for both versions of RoCE.
case ${GSHNIC_PROFILE:-} in
  *roce6*) types=("IB/RoCE v1" "RoCE v2") ;;
  *roce*) types=("IB/RoCE v1" "RoCE v2" "IB/RoCE v1" "RoCE v2") ;;
  *) types=("IB/RoCE v1") ;;
esac
for ((i = 0; i < ${GSHNIC_DEVICES:-1}; i++)); do
  pci=pci0000:3$i/0000:3$i:00.0
  device=$stage/class/gshnic/$pci/infiniband/mlx5_$i
  mkdir -p "$device/ports/1/gid_attrs/types"
  echo 0x15b3 > "$stage/class/gshnic/$pci/vendor"
  echo 0x1021 > "$stage/class/gshnic/$pci/device"
  echo -1 > "$stage/class/gshnic/$pci/numa_node"
  for index in "${!types[@]}"; do
    echo "${types[$index]}" > "$device/ports/1/gid_attrs/types/$index"
  done
  ln -s ../.. "$device/device"
  ln -s "../gshnic/$pci/infiniband/mlx5_$i" "$stage/class/infiniband/mlx5_$i"
done

mount --rbind "$stage/dev" /dev
mount --bind "$stage/class" /sys/class
umount -l "$stage" && rmdir "$stage"
exec "$@"
