#!/bin/bash
# on_host.sh [options] HOST command...: runs a command on a host of up.sh, as ssh would: in its network, under its
# name, with its own /dev/shm, IPC and processes, so that hosts share nothing by accident. Options are those of ssh
# and have no effect. HOSTS_FOLDER is the folder that up.sh was given. The command is not process 1 of its host, which
# handles signals differently.
set -u
while [[ $1 == -* ]]; do shift; done
host=$1
shift
folder=$HOSTS_FOLDER
exec nsenter --net="/run/netns/$(cat "$folder/prefix")$host" \
  unshare --pid --fork --kill-child --mount-proc --uts --ipc --mount --propagation private \
  bash -c 'hostname "$0" && mount -t tmpfs -o size=4g,mode=1777 shm /dev/shm &&
    mount --bind "$1" /etc/hosts && shift && bash -c "$*"; exit $?' "$host" "$folder/hosts" "$@"
