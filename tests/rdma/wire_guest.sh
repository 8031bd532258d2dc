#!/bin/bash
# wire_guest.sh PATH_BYTES: the part of wire.sh that runs in the virtual machine.
set -u
here=$(cd "$(dirname "$0")" && pwd)
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp
# shellcheck source=tests/rdma/network.sh
. "$here/network.sh"
set_up_network || die "no Soft-RoCE"
rdma link
/usr/bin/python3 -B "$here/wire.py" send "$1" || die "no packets"
