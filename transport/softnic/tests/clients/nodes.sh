#!/usr/bin/env bash
# nodes.sh COMMAND...: runs it where /dev and /sys have what they have on a machine with a ConnectX-7 at
# mlx5_0. UCX, NCCL and NVSHMEM look there before they ask libibverbs. In a mount namespace of its own,
# as root or as a user who may make user namespaces; nothing is left of it.
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

# /dev: all that is there, and the device of the kernel's verbs.
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
touch "$stage/dev/infiniband/uverbs0"
mount --bind /dev/null "$stage/dev/infiniband/uverbs0"

# /sys/class: the links that are there, and an mlx5_0 below a PCI device.
for class in /sys/class/*; do
  mkdir -p "$stage/class/${class##*/}"
  find "$class" -maxdepth 1 -type l -exec cp -P -t "$stage/class/${class##*/}" {} +
done
pci=$stage/class/gshnic/pci0000:00/0000:3b:00.0
device=$pci/infiniband/mlx5_0
mkdir -p "$device/ports/1/gid_attrs/types" "$stage/class/infiniband"
echo 0x15b3 > "$pci/vendor"
echo 0x1021 > "$pci/device"
echo -1 > "$pci/numa_node"
echo "IB/RoCE v1" > "$device/ports/1/gid_attrs/types/0"
ln -s ../.. "$device/device"
ln -s ../gshnic/pci0000:00/0000:3b:00.0/infiniband/mlx5_0 "$stage/class/infiniband/mlx5_0"

mount --rbind "$stage/dev" /dev
mount --bind "$stage/class" /sys/class
umount -l "$stage" && rmdir "$stage"
exec "$@"
