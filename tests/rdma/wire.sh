#!/bin/bash
# wire.sh FOLDER PATH_BYTES: packets of the kernel's Soft-RoCE in a virtual machine, which FOLDER keeps, against the
# address fields of gshmem's connections for the same path (wire.py). Exits with 77 and a reason if that is not
# possible.
set -u
here=$(cd "$(dirname "$0")" && pwd)
folder=$1
program=$(readlink -f "$2")

skip() { echo "skipped: $1"; exit 77; }
[ "$(id -u)" = 0 ] || skip "the virtual machine reads the files of this one as root"
for tool in rdma ip; do
  command -v $tool > /dev/null || skip "$tool is not installed (package iproute2)"
done
ls /etc/libibverbs.d/rxe.driver > /dev/null 2>&1 || skip "no rxe driver of libibverbs (package ibverbs-providers)"
/usr/bin/python3 -c "import pyverbs" 2> /dev/null || skip "there is no pyverbs (package python3-pyverbs)"

mkdir -p "$folder"
job=$(mktemp -d "$folder/job.XXXXXX") || exit 1
# The guest runs the program from a folder below /tmp, where a tree may be, too.
programs=$(mktemp -d "/tmp/gshmem vm.XXXXXX") || exit 1
trap 'rm -rf "$job" "$programs"' EXIT
ln -s "$program" "$programs/path_bytes"
{ printf exec; printf ' %q' "$here/wire_guest.sh" "$programs/path_bytes"; echo; } > "$job/run.sh"
"$here/vm.sh" "$folder" "$job" 500 | tee "$job/out"
status=${PIPESTATUS[0]}
[ "$status" = 0 ] || exit "$status"

/usr/bin/python3 -B "$here/wire.py" check "$job/out"
