#!/bin/bash
# run.sh [options] HOSTS PES command...: runs `command` with PES PEs on each of HOSTS hosts, which are created for
# this run and removed after it. PEs find each other by GSHMEM_UID_ADDRESS. Succeeds if every PE ends as expected and
# prints the expected text; exits with 77 and a reason if hosts cannot be created.
#   --launcher mpirun  Open MPI's mpirun starts the PEs and PMIx connects them
#   --exit CODE        exit code of the PEs (0)
#   --dead PE,...      these are killed by SIGKILL
#   --expect TEXT      every PE (that is not dead) prints this
#   --networks several hosts have more networks than the one between them (up.sh)
#   --cut PORT         this port of the switch goes down when a PE makes the file $HOSTS_FOLDER/ready: p<i> is
#                      that of h<i>'s eth0, q<i> that of its eth1
#   --heal SECONDS     and comes up again after so long
#   --limit SECONDS    the time limit; after it, run.sh prints where the threads are, ends, and fails
set -u
here=$(cd "$(dirname "$0")" && pwd)
launcher=uid want=0 dead= expect= cut= heal= networks=one limit=
while [[ $1 == --* ]]; do
  case $1 in
    --launcher) launcher=$2 ;;
    --exit) want=$2 ;;
    --dead) dead=$2 ;;
    --expect) expect=$2 ;;
    --networks) networks=$2 ;;
    --cut) cut=$2 ;;
    --heal) heal=$2 ;;
    --limit) limit=$2 ;;
    *) echo "run.sh: unknown option $1" >&2; exit 2 ;;
  esac
  shift 2
done
hosts=$1
pes=$2
shift 2
total=$((hosts * pes))

skip() { echo "skipped: $1"; exit 77; }
[ "$(id -u)" = 0 ] || skip "hosts as network namespaces need root"
for tool in ip nsenter unshare; do
  command -v $tool > /dev/null || skip "$tool is not installed"
done
if [ "$launcher" = mpirun ]; then
  mpirun --version 2> /dev/null | grep -q "Open MPI" || skip "no Open MPI mpirun"
fi

folder=$(mktemp -d "${TMPDIR:-/tmp}/gshmem-hosts.XXXXXX") || exit 1
export HOSTS_FOLDER=$folder
trap '"$here/down.sh" "$folder"' EXIT
trap 'exit 130' INT TERM
# SIGKILL runs no trap: this process, which has no parent, cleans up after it.
(setsid bash -c 'tail --pid="$0" -f /dev/null; exec "$1" "$2"' $$ "$here/down.sh" "$folder" \
  < /dev/null > /dev/null 2>&1 &)
if ! why=$("$here/up.sh" "$folder" "$hosts" "$networks" 2>&1); then
  skip "no network namespaces here: $why"
fi

cut_when_ready() {
  for ((i = 0; i < 6000; ++i)); do
    [ -f "$folder/ready" ] && break
    sleep 0.05
  done
  local switch
  switch="$(cat "$folder/prefix")switch"
  ip -n "$switch" link set "$cut" down && touch "$folder/cut"
  [ -n "$heal" ] && sleep "$heal" && ip -n "$switch" link set "$cut" up && touch "$folder/healed"
}
[ -n "$cut" ] && cut_when_ready &

export HOSTS_COUNT=$hosts HOSTS_PES=$pes
pids=()
if [ "$launcher" = uid ]; then
  export GSHMEM_UID_ADDRESS=10.77.0.1:4711 GSHMEM_UID_SIZE=$total
  for ((pe = 0; pe < total; ++pe)); do
    GSHMEM_UID_RANK=$pe "$here/on_host.sh" "h$((pe / pes))" "exec $(printf '%q ' "$@")" \
      > "$folder/$pe" 2>&1 &
    pids+=($!)
  done
else
  list=$(for ((i = 0; i < hosts; ++i)); do printf 'h%d:%d,' $i "$pes"; done)
  # No binding: every host would take core 0. In a process namespace of its own the remote daemon must stay.
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  "$here/on_host.sh" h0 "exec env TMPDIR=$folder $(printf '%q ' mpirun --bind-to none \
    --leave-session-attached --mca plm ^slurm --mca plm_rsh_agent "$here/on_host.sh" \
    --mca plm_rsh_no_tree_spawn 1 --mca oob_tcp_if_include eth0 --host "${list%,}" -np $total \
    -x HOSTS_COUNT -x HOSTS_PES -x HOSTS_FOLDER "$@")" > "$folder/0" 2>&1 &
  pids+=($!)
  total=1
fi

# A test that ctest ends has printed nothing: this ends it earlier.
where_it_is() {
  local namespace pid task
  while read -r namespace; do
    for pid in $(ip netns pids "$namespace"); do
      echo "$namespace: $pid $(tr '\0' ' ' < "/proc/$pid/cmdline" | cut -c 1-100)"
      for task in "/proc/$pid/task"/*; do
        echo "  $(cat "$task/comm"): $(head -n 3 "$task/stack" 2> /dev/null | sed 's/.*] //' | tr '\n' ' ')"
      done
    done
  done < "$folder/namespaces"
}
end_in_time() {
  for ((i = 0; i < limit; ++i)); do sleep 1; done
  echo "run.sh: not over after $limit s"
  where_it_is 2> /dev/null
  kill -KILL "${pids[@]}"
}
if [ -n "$limit" ]; then
  end_in_time &
  watcher=$!
fi

failed=0
for ((pe = 0; pe < total; ++pe)); do
  wait "${pids[pe]}"
  got=$?
  [ $got = 77 ] && failed=77 && continue
  expected=$want
  dies=no
  [[ ,$dead, == *,$pe,* ]] && dies=yes && expected=137
  [ $got = "$expected" ] || { echo "PE $pe ended with $got, expected $expected"; failed=1; }
  [ $dies = no ] && [ -n "$expect" ] && ! grep -qE "$expect" "$folder/$pe" &&
    { echo "PE $pe does not say: $expect"; failed=1; }
done
[ -z "$limit" ] || kill "$watcher" 2> /dev/null
# The errors come before the whole output, of which a reader may have the first part only.
if [ $failed = 1 ]; then
  (cd "$folder" && grep -nE -A 8 'FAILED|ERROR: .*(fault|PE [0-9]+ )|terminate called|mpirun (noticed|has)|ORTE|PMIx' \
    $(seq 0 $((total - 1))) /dev/null | head -n 60)
  echo "the whole output:"
fi
for ((pe = 0; pe < total; ++pe)); do
  sed "s/^/$pe: /" "$folder/$pe"
done
exit $failed
