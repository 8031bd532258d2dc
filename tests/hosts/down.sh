#!/bin/bash
# down.sh FOLDER: ends the programs on the hosts of up.sh and removes the hosts and FOLDER. It may be called twice.
folder=$1
[ -f "$folder/namespaces" ] || exit 0
while read -r namespace; do
  for pid in $(ip netns pids "$namespace" 2> /dev/null); do kill -KILL "$pid" 2> /dev/null; done
  ip netns del "$namespace" 2> /dev/null
done < "$folder/namespaces"
rm -rf "$folder"
