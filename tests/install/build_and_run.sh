#!/usr/bin/env bash
# Installs into a prefix, or builds the outside project against that prefix and runs it as one PE.
# Usage: build_and_run.sh install|find_package|pkg_config|nvcc BUILD-FOLDER WORK-FOLDER [NAME]
# NAME: of the folder in WORK-FOLDER to build in.
set -euo pipefail
way=$1 build=$2 work=$3
prefix="$work/a prefix"
outside=$(cd "$(dirname "$0")" && pwd)/outside

# Nothing of the build tree or of another installation may help.
unset CPATH LIBRARY_PATH LD_LIBRARY_PATH CMAKE_PREFIX_PATH PKG_CONFIG_PATH gshmem_DIR
export GSHMEM_DEVICE=cpu GSHMEM_BOOTSTRAP=single

if [[ $way == install ]]; then
  rm -rf "$prefix"
  mkdir -p "$work"
  cmake --install "$build" --prefix "$prefix" > "$work/install.log"
  ls "$prefix"/lib*/libgshmem.so "$prefix/include/gshmem/gshmem.h" > /dev/null
  exit
fi

skip() {
  echo "skipped: $1"
  exit 77
}

run() {
  local said
  said=$("$1")
  echo "$1: $said"
  [[ $said == "PE 0 of 1" ]]
}

target=$work/${4:-$way}
rm -rf "$target"
mkdir -p "$target"
pc_file=$(find "$prefix" -name gshmem.pc)
libdir=$(dirname "$pc_file")/..
gshmem_flags() { PKG_CONFIG_PATH=$(dirname "$pc_file") pkg-config "$@" gshmem; }

case $way in
  find_package)
    compat=OFF
    [[ -f $prefix/include/gshmem/compat/nvshmem.h ]] && compat=ON
    cmake -S "$outside" -B "$target" -DCMAKE_CXX_COMPILER="${CXX:-g++}" \
      -DCMAKE_PREFIX_PATH="$prefix" -DWITH_NVSHMEM=$compat
    cmake --build "$target" --verbose
    run "$target/hello"
    if [[ $compat == ON ]]; then run "$target/hello_nvshmem"; fi
    ;;
  pkg_config)
    command -v pkg-config > /dev/null || skip "no pkg-config"
    # What a shell makes of the flags, as in a rule of make.
    eval "flags=($(gshmem_flags --cflags --libs))"
    "${CXX:-g++}" -std=c++17 -Wall -Wextra -Werror "$outside/hello.cpp" -o "$target/hello" \
      "${flags[@]}" -Wl,-rpath,"$libdir"
    run "$target/hello"
    ;;
  nvcc)
    [[ -n ${CUDACXX:-} ]] || skip "built without nvcc, for CPU mode only"
    command -v pkg-config > /dev/null || skip "no pkg-config"
    eval "flags=($(gshmem_flags --cflags --libs))"
    "$CUDACXX" -arch=sm_90 -x cu "$outside/hello.cpp" -o "$target/hello" \
      "${flags[@]}" -Xlinker -rpath="$libdir"
    run "$target/hello"
    ;;
  *)
    echo "no way '$way'" >&2
    exit 2
    ;;
esac
