#!/bin/bash
# roomy_tcp.sh command...: runs `command` in a network of its own, whose TCP connections have receive buffers of
# 4 MiB. libfabric's provider `sockets` stops for ever when the receive window closes within a message header: it
# waits for all 24 bytes before it takes the first (sock_pe_peek_hdr), and the rest of the packet that they lie in
# keeps the window closed. With the usual 128 KiB that is one job of some hundreds on a loopback interface; with 4 MiB
# a packet is never that large. Where no such network can be made, the command runs in that of the machine.
set -u
widen='ip link set lo up && echo "4096 4194304 33554432" > /proc/sys/net/ipv4/tcp_rmem'
for own in "unshare --net" "unshare --user --map-root-user --net"; do
  $own bash -c "$widen" 2> /dev/null || continue
  exec $own bash -c "$widen"' && exec "$@"' roomy_tcp.sh "$@"
done
echo "roomy_tcp.sh: no network can be made here: legs over sockets may stall" >&2
exec "$@"
