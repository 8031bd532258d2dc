#!/bin/bash
# slurm.sh NODES TASKS command...: runs `command` with srun --mpi=pmix on NODES virtual nodes of this machine, TASKS
# per node. All its files are in one temporary folder, its daemons listen on 127.0.0.1 and end with this script. Exits
# with srun's status, or with 77 and a reason if Slurm cannot run.
set -u
nodes=$1
tasks=$2
shift 2

skip() { echo "skipped: $1"; exit 77; }
[ "$(id -u)" = 0 ] || skip "virtual Slurm nodes need root"
PATH=$PATH:/usr/sbin:/sbin
for tool in munged slurmctld slurmd srun sinfo; do
  command -v $tool >/dev/null || skip "$tool is not installed"
done

dir=$(mktemp -d "${TMPDIR:-/tmp}/gshmem-slurm.XXXXXX") || exit 1
pids=()
end() {  # end PID: an srun without its step daemons goes on waiting after SIGTERM
  kill "$1" 2>/dev/null
  for ((tries = 0; tries < 100; ++tries)); do
    kill -0 "$1" 2>/dev/null || break
    sleep 0.1
  done
  kill -KILL "$1" 2>/dev/null
  wait "$1" 2>/dev/null
}
cleanup() {
  trap - EXIT INT TERM
  scancel --state=running --state=pending 2>/dev/null
  # Slurm's daemons end before munged, which they use until then.
  for ((i = ${#pids[@]} - 1; i >= 0; --i)); do
    end "${pids[i]}"
  done
  # A step daemon leaves its parent, but it and its children have this SLURM_CONF.
  for env in /proc/[0-9]*/environ; do
    pid=${env#/proc/}
    pid=${pid%/environ}
    [ "$pid" = $$ ] && continue
    grep -qsaF "SLURM_CONF=$dir/" "$env" 2>/dev/null && kill -KILL "$pid" 2>/dev/null
  done
  rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

free_port() {  # an unused port from the range below the ephemeral ones
  local port
  while :; do
    port=$((12000 + RANDOM % 18000))
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo $port; return; }
  done
}

all_live() { for pid in "${pids[@]}"; do kill -0 "$pid" 2>/dev/null || return 1; done; }
wait_for() {  # wait_for WHAT command...: until the command succeeds, 300 s at most, or a daemon ends
  local what=$1
  shift
  for ((i = 0; i < 3000; ++i)); do
    "$@" >/dev/null 2>&1 && return
    all_live || break
    sleep 0.1
  done
  echo "$what did not come up; logs:" >&2
  tail -n 20 "$dir"/log/* >&2
  exit 1
}

host=$(hostname -s)
export SLURM_CONF=$dir/slurm.conf
mkdir -p "$dir"/{munge,state,log}
(umask 077; head -c 128 /dev/urandom >"$dir/munge/key")

cat >"$SLURM_CONF" <<CONF
ClusterName=gshmem
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$(free_port)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
CredType=cred/munge
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
TmpFS=$dir/tmp/%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/%n.pid
SlurmctldLogFile=$dir/log/slurmctld
SlurmdLogFile=$dir/log/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=pmix
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
ReturnToService=2
SlurmdParameters=config_overrides
PartitionName=p Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
# Nothing above requests control groups, but since 23.11 slurmd ends if it finds none, as in containers, unless they
# are of version 1, which it looks for only when it needs them.
echo "CgroupPlugin=cgroup/v1" >"$dir/cgroup.conf"
for ((n = 0; n < nodes; ++n)); do
  mkdir -p "$dir/spool/n$n" "$dir/tmp/n$n"
  echo "NodeName=n$n NodeHostname=$host NodeAddr=127.0.0.1 Port=$(free_port) CPUs=16" >>"$SLURM_CONF"
done

srun --mpi=list 2>&1 | grep -q pmix || skip "this Slurm has no PMIx plugin"
# The store "shmem" of PMIx 5.0.1 (Ubuntu 24.04) ends slurmstepd with a segmentation fault when ranks of
# two nodes join, and srun waits for ever. Other versions have no store of that name.
export PMIX_MCA_gds=^shmem

start() {  # start LOG command...: in the background, to be ended by pid
  local log=$1
  shift
  "$@" >"$dir/log/$log.out" 2>&1 &
  pids+=($!)
}
start munged munged --foreground --force --key-file="$dir/munge/key" \
  --socket="$dir/munge/socket" --pid-file="$dir/munge/pid" --log-file="$dir/log/munged" \
  --seed-file="$dir/munge/seed"
wait_for munged munge -n -S "$dir/munge/socket"
start slurmctld slurmctld -D -c
for ((n = 0; n < nodes; ++n)); do start "slurmd$n" slurmd -D -c -N "n$n"; done
all_idle() { [ "$(sinfo -h -o '%T %D')" = "idle $nodes" ]; }
wait_for "the cluster" all_idle

# -K: a dead rank ends the job; without it the others wait for the collective's own time limit. In
# the background, because a shell runs no trap while it waits for a foreground command.
srun -K --mpi=pmix -N "$nodes" --ntasks-per-node="$tasks" "$@" &
job=$!
pids+=("$job")
wait "$job"
