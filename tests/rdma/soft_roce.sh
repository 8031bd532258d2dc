#!/bin/bash
# soft_roce.sh FOLDER SPMD TRAFFIC [all|lossy [BODY...]]: genuine RDMA without a NIC. Two PEs over libfabric's verbs
# provider on two Soft-RoCE devices in a virtual machine (guest.sh), which FOLDER keeps. Exits with 77 and a reason if
# that is not possible. Without further words it runs the test of ctest, which fits its time. By hand, "all" runs
# every body (or those named) however many fail, "lossy" does so with packets lost; SOFT_ROCE_SECONDS bounds them (an
# hour).
set -u
here=$(cd "$(dirname "$0")" && pwd)
folder=$1
spmd=$(readlink -f "$2")
traffic=$(readlink -f "$3")
shift 3
seconds=1700
case ${1-} in
  "") ;;
  all | lossy) seconds=${SOFT_ROCE_SECONDS:-3600} ;;
  *) echo "soft_roce.sh: \"$1\" is neither all nor lossy" >&2; exit 2 ;;
esac

skip() { echo "skipped: $1"; exit 77; }
[ "$(id -u)" = 0 ] || skip "the virtual machine reads the files of this one as root"
for tool in rdma tc ip; do
  command -v $tool > /dev/null || skip "$tool is not installed (package iproute2)"
done
ls /etc/libibverbs.d/rxe.driver > /dev/null 2>&1 || skip "no rxe driver of libibverbs (package ibverbs-providers)"

mkdir -p "$folder"
job=$(mktemp -d "$folder/job.XXXXXX") || exit 1
# The guest runs the programs from a folder below /tmp, where a tree may be, too.
programs=$(mktemp -d "/tmp/gshmem vm.XXXXXX") || exit 1
trap 'rm -rf "$job" "$programs"' EXIT
ln -s "$spmd" "$programs/spmd"
ln -s "$traffic" "$programs/traffic"
trap 'exit 130' INT TERM
{ printf exec; printf ' %q' "$here/guest.sh" "$programs/spmd" "$programs/traffic" "$@"; echo; } > "$job/run.sh"
"$here/vm.sh" "$folder" "$job" "$seconds"
