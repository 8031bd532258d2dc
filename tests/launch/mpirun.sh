#!/bin/bash
# mpirun.sh CODE mpirun arguments...: runs mpirun as tests need it and succeeds when it exits with
# CODE (77 is passed on: the ranks skipped).
set -u
want=$1
shift

# It works as root, too, and with more ranks than cores. Without binding, PMIx's thread need not share the one core of
# its rank.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
# The same options for Open MPI 5, whose launcher is PRRTE.
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PRTE_MCA_hwloc_default_binding_policy=none
# A killed mpirun leaves its session folders: they are removed with this one.
TMPDIR=$(mktemp -d "${TMPDIR:-/tmp}/gshmem-mpirun.XXXXXX") || exit 1
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT

"$@"
got=$?
[ "$got" = "$want" ] && exit 0
echo "mpirun ended with $got, expected $want" >&2
[ "$got" = 77 ] && exit 77
exit 1
