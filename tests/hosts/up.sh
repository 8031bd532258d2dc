#!/bin/bash
# up.sh FOLDER N: N hosts h0..h(N-1), each a network namespace of this machine, joined by a bridge in a
# namespace of its own; h<i> has the address 10.77.0.<i+1>. All names start with a prefix of this run, which FOLDER
# keeps together with the hosts file. down.sh takes it all away again.
set -eu
folder=$1
n=$2
prefix=gshmem$$-
echo "$prefix" > "$folder/prefix"
echo "127.0.0.1 localhost" > "$folder/hosts"
: > "$folder/namespaces"

add() {  # only what is listed is ever deleted
  ip netns add "$prefix$1"
  echo "$prefix$1" >> "$folder/namespaces"
}
add switch
switch=${prefix}switch
ip -n "$switch" link add br0 type bridge
ip -n "$switch" link set br0 up
for ((i = 0; i < n; ++i)); do
  host=${prefix}h$i
  add "h$i"
  ip -n "$host" link set lo up
  ip -n "$switch" link add "p$i" type veth peer name eth0 netns "$host"
  ip -n "$switch" link set "p$i" master br0 up
  ip -n "$host" addr add "10.77.0.$((i + 1))/24" dev eth0
  ip -n "$host" link set eth0 up
  echo "10.77.0.$((i + 1)) h$i" >> "$folder/hosts"
done
