#!/bin/bash
# guest.sh SPMD TRAFFIC [all|lossy [BODY...]]: the part of soft_roce.sh that runs in the virtual machine. There are
# two Soft-RoCE NICs, rxe0 and rxe1, on the two ends of a cable (veth), and one PE on each. All traffic of the PEs
# beside the bootstrap uses it by libfabric's verbs;ofi_rxm: first unchanged, then with 2 % of the packets lost, then
# the link goes down. Or it runs all bodies, in jobs of a few, without losses (all) or with packets lost (lossy).
set -u
spmd=$1
traffic=$2
shift 2
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp
work=$(mktemp -d) || exit 1
ulimit -l unlimited

# The bodies, by their duration (emulated, two cores): only as many as fit the time limit of the test.
clean=(
  amo_of_every_type_returns_and_leaves_the_right_value
  barrier_all_by_host_threads_holds_all_pes
  bind_thread_refuses_an_invalid_handle
  bit_operations_leave_the_bits_of_others_alone
  context_functions_by_host_thread_reach_the_next_pe
  contexts_come_and_go
  contexts_of_their_own_post_to_no_other_queue
  default_context_by_its_name_moves_data
  fence_orders_a_flag_after_the_data
  get_of_every_type_by_thread_reads_every_pe
  ptr_by_host_thread_is_null_for_memory_that_is_not_symmetric
  ptr_gives_plain_access_to_every_pe
  put_of_every_type_by_thread_arrives_everywhere
  put_signal_by_host_thread_shows_its_payload_before_its_signal
  put_signal_of_every_type_by_thread_arrives_everywhere
  queue_handles_post_to_no_other_queue
  quiet_and_fence_of_queue_handles_complete_their_operations
  quiet_completes_nbi_puts_before_a_flag
  random_operations_leave_the_memory_that_a_sequential_model_predicts
  several_host_threads_of_one_pe_work_at_the_same_time
  signal_wait_until_knows_every_comparison
  signals_of_all_pes_to_one_word_add_up
  too_many_contexts_are_an_error_and_the_others_work
  wait_until_and_test_of_every_type_in_every_form
  wait_until_by_host_thread_sees_every_pe
)
lossy=(
  fence_orders_a_flag_after_the_data
  put_of_every_type_by_thread_arrives_everywhere
  put_signal_by_host_thread_shows_its_payload_before_its_signal
  quiet_completes_nbi_puts_before_a_flag
  random_operations_leave_the_memory_that_a_sequential_model_predicts
  signals_of_all_pes_to_one_word_add_up
  several_host_threads_of_one_pe_work_at_the_same_time
  wait_until_by_host_thread_sees_every_pe
)

# shellcheck source=tests/rdma/network.sh
. "$(dirname "$0")/network.sh"

counter() { cat "/sys/class/infiniband/$1/ports/1/hw_counters/$2"; }

# pes SECONDS COMMAND...: runs a PE on each NIC.
pes() {
  local seconds=$1 rank status=0 pids=()
  shift
  for rank in 0 1; do
    env GSHMEM_NIC=ofi GSHMEM_P2P=0 GSHMEM_OFI_PROVIDER="verbs;ofi_rxm" GSHMEM_OFI_INTERFACE=v$rank \
      GSHMEM_DEVICE=cpu GSHMEM_SYMMETRIC_SIZE=64M GSHMEM_BOOTSTRAP_TIMEOUT=600 GSHMEM_LOG=info \
      GSHMEM_UID_ADDRESS=127.0.0.1:4711 GSHMEM_UID_SIZE=2 GSHMEM_UID_RANK=$rank \
      timeout -k 5 "$seconds" "$@" > "$work/pe$rank" 2>&1 &
    pids+=($!)
  done
  for rank in 0 1; do
    wait "${pids[rank]}" || { status=$?; echo "PE $rank ended with $status"; }
    sed "s/^/$rank: /" "$work/pe$rank"
    grep -q "by ofi .*verbs;ofi_rxm on 10.1.$rank.1 (domain rxe$rank)" "$work/pe$rank" ||
      { echo "PE $rank does not use rxe$rank"; status=1; }
  done
  return $status
}

# bodies SECONDS BODY...: runs them in one job; each must have reported success, not that it is left out.
bodies() {
  local seconds=$1 body status=0
  shift
  pes "$seconds" env GSHMEM_TIMEOUT=1000 "$spmd" --mode launched "$@" || return
  for body; do
    grep -q "^ok $body " "$work/pe0" || { echo "no word of $body"; status=1; }
  done
  return $status
}

# in_jobs_of N BODY...: runs all of them, however many fail. A failed job is run again body by body, which separates
# the bad ones from those after them; if all of them succeed alone, that is a failure, too.
in_jobs_of() {
  local n=$1 bad=() body job
  shift
  local count=$#
  while [ $# -gt 0 ]; do
    job=("${@:1:n}")
    shift ${#job[@]}
    say "${job[*]}"
    bodies $((400 + 100 * ${#job[@]})) "${job[@]}" && continue
    [ ${#job[@]} = 1 ] && { bad+=("${job[@]}"); continue; }
    local before=${#bad[@]}
    for body in "${job[@]}"; do
      say "$body, alone"
      bodies 500 "$body" || bad+=("$body")
    done
    [ ${#bad[@]} = "$before" ] && bad+=("together:${job[*]}")
  done
  say "$count bodies, ${#bad[@]} failed: ${bad[*]}"
  [ ${#bad[@]} = 0 ]
}

check_received() {  # check_received PACKETS: more than these
  local i
  for i in 0 1; do
    [ "$(counter rxe$i rcvd_pkts)" -gt "$1" ] || die "rxe$i has received $(counter rxe$i rcvd_pkts) packets only"
  done
}

lose_packets() {
  local i
  for i in 0 1; do tc qdisc add dev v$i root netem loss 2% || die "no netem"; done
}

check_losses() {
  local i
  for i in 0 1; do
    tc -s qdisc show dev v$i
    tc -s qdisc show dev v$i | grep -q "dropped [1-9]" || die "no packet of v$i was lost"
    tc qdisc del dev v$i root
  done
}

# every_body [lossy|all] [BODY...]
every_body() {
  local how=$1
  shift
  # shellcheck disable=SC2046
  [ $# -gt 0 ] || set -- $("$spmd" --list)
  [ $# -gt 0 ] || die "$spmd names no bodies"
  [ "$how" = all ] || lose_packets
  in_jobs_of 8 "$@" || die "bodies over verbs;ofi_rxm"
  check_received $((10 * $#))
  [ "$how" = all ] || check_losses
}

set_up_network || die "no Soft-RoCE"
rdma link

if [ $# -gt 0 ]; then
  every_body "$@"
  exit
fi

say "bodies"
bodies 800 "${clean[@]}" || die "bodies over verbs;ofi_rxm"
check_received 1000

say "bodies, 2 % of the packets lost"
lose_packets
bodies 800 "${lossy[@]}" || die "bodies with loss"
check_losses

say "the link goes down"
export HOSTS_COUNT=2 HOSTS_PES=1 HOSTS_FOLDER=$work/traffic
mkdir "$HOSTS_FOLDER"
(until [ -f "$HOSTS_FOLDER/ready" ]; do sleep 0.1; done; ip link set v1 down; say "v1 is down") &
pes 400 env GSHMEM_TIMEOUT=10 GSHMEM_FAULT=report "$traffic" cut_port || die "link down"
say "all is well"
