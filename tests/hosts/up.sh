#!/bin/bash
# up.sh FOLDER N [several]: makes N hosts h0..h(N-1), each a network namespace of this machine, joined by a bridge in
# a namespace of its own; h<i> has the address 10.77.0.<i+1>. All names begin with a prefix of this run, which FOLDER
# keeps together with the hosts file. down.sh removes all of it. "several": every host has more networks. Two come
# before eth0 in the system's order: pod0 leads nowhere and has the same address on all hosts, like bridges of
# containers; part0 connects h0 and h1 only. Two come after it: eth1 connects all (10.78.0.<i+1>); own0, which
# libfabric tries first, leads nowhere from a network of its own. eth0 has an IPv6 address, fd77::<i+1>, too.
set -eu
folder=$1
n=$2
networks=${3:-one}
prefix=gshmem.${folder##*.}-  # mktemp's suffix: process numbers are local to a namespace
echo "$prefix" > "$folder/prefix"
echo "127.0.0.1 localhost" > "$folder/hosts"
: > "$folder/namespaces"

add() {  # down.sh deletes only what is listed
  ip netns add "$prefix$1"
  echo "$prefix$1" >> "$folder/namespaces"
}
add switch
switch=${prefix}switch

add_bridge() {
  ip -n "$switch" link add "$1" type bridge
  ip -n "$switch" link set "$1" up
}
connect() {  # connect HOST INTERFACE PORT BRIDGE ADDRESS
  ip -n "$switch" link add "$3" type veth peer name "$2" netns "$1"
  ip -n "$switch" link set "$3" master "$4" up
  ip -n "$1" addr add "$5" dev "$2"
  ip -n "$1" link set "$2" up
}
lonely() {  # lonely HOST INTERFACE ADDRESS
  ip -n "$1" link add "$2" type veth peer name "$2x"
  ip -n "$1" addr add "$3" dev "$2"
  ip -n "$1" link set "$2" up
  ip -n "$1" link set "$2x" up
}
networks_before() {  # networks_before HOST I
  lonely "$1" pod0 172.17.0.1/16
  [ "$2" -ge 2 ] || connect "$1" part0 "s$2" br2 "10.88.0.$(($2 + 1))/24"
}
networks_behind() {
  connect "$1" eth1 "q$2" br1 "10.78.0.$(($2 + 1))/24"
  ip -n "$1" addr add "fd77::$(($2 + 1))/64" dev eth0 nodad
  lonely "$1" own0 "10.9.$2.1/24"
}

add_bridge br0
if [ "$networks" = several ]; then
  add_bridge br1
  add_bridge br2
fi
for ((i = 0; i < n; ++i)); do
  host=${prefix}h$i
  add "h$i"
  ip -n "$host" link set lo up
  [ "$networks" = one ] || networks_before "$host" "$i"
  connect "$host" eth0 "p$i" br0 "10.77.0.$((i + 1))/24"
  [ "$networks" = one ] || networks_behind "$host" "$i"
  echo "10.77.0.$((i + 1)) h$i" >> "$folder/hosts"
done
