#!/usr/bin/env bash
# Installs into a prefix, or builds an outside project with that prefix and runs it as one PE: outside/ is for gshmem,
# for_nvshmem/ for NVSHMEM. inside/ is a project that contains gshmem's sources, by add_subdirectory.
# Usage: build_and_run.sh install|find_package|pkg_config|module|packages|nvcc|nvshmem_... BUILD-FOLDER WORK-FOLDER [NAME]
# NAME is the name of the build folder in WORK-FOLDER.
set -euo pipefail
way=$1 build=$2 work=$3
prefix="$work/a prefix"
outside=$(cd "$(dirname "$0")" && pwd)/outside

# The build tree and other installations must not help.
unset CPATH LIBRARY_PATH LD_LIBRARY_PATH CMAKE_PREFIX_PATH PKG_CONFIG_PATH gshmem_DIR NVSHMEM_HOME NVSHMEM_DIR \
  MAKEFLAGS
export GSHMEM_DEVICE=cpu GSHMEM_BOOTSTRAP=single

if [[ $way == install ]]; then
  rm -rf "$prefix"
  mkdir -p "$work"
  cmake --install "$build" --prefix "$prefix" > "$work/install.log"
  ls "$prefix"/lib*/libgshmem.so "$prefix/include/gshmem/gshmem.h" > /dev/null
  if [[ -e $build/lib/gshnic/libmlx5.so.1 ]]; then  # the names that NCCL and NVSHMEM open first
    ls "$prefix"/lib*/gshnic/libibverbs.so "$prefix"/lib*/gshnic/libmlx5.so > /dev/null
  fi
  for file in "$build"/lib/device/gshmem_sm_*.ltoir; do  # the names that nvshmem4py looks for
    [[ ! -e $file ]] || cmp "$file" "$prefix"/lib*/gshmem/nvshmem/lib/libnvshmem_device_"${file#*/device/gshmem_}"
  done
  file=$build/lib/device/gshmem.ltoir.fatbin
  [[ ! -e $file ]] || cmp "$file" "$prefix"/lib*/gshmem/nvshmem/lib/libnvshmem_device.ltoir.fatbin
  exit
fi

skip() {
  echo "skipped: $1"
  exit 77
}

# run COMMAND...: one PE that prints its success.
run() {
  local said
  said=$("$@") || { echo "$*: $said, exit status $?"; return 1; }
  echo "$*: $said"
  [[ $said == "PE 0 of 1" ]]
}
run_with_gpu() {
  run "$@"
  if nvidia-smi -L 2> /dev/null | grep -q '^GPU '; then GSHMEM_DEVICE=cuda run "$@"; fi
}

target=$work/${4:-$way}
rm -rf "$target"
mkdir -p "$target"
pc_file=$(find "$prefix" -name gshmem.pc)
libdir=$(dirname "$pc_file")/..
nvshmem=$(cd "$libdir" && pwd)/gshmem/nvshmem
for_nvshmem=$(dirname "$outside")/for_nvshmem
# make_nvshmem TARGET...: runs make in the target folder, as users of NVSHMEM do.
make_nvshmem() {
  cp "$for_nvshmem"/* "$target"
  make -s -C "$target" NVSHMEM_HOME="$nvshmem" CXX="${CXX:-g++}" \
    ${CUDACXX:+NVCC="$CUDACXX" CUDA_HOME="$(dirname "$(dirname "$CUDACXX")")"} "$@"
}
gshmem_flags() { PKG_CONFIG_PATH=$(dirname "$pc_file") pkg-config "$@" gshmem; }

case $way in
  find_package)
    cmake -S "$outside" -B "$target" -DCMAKE_CXX_COMPILER="${CXX:-g++}" -DCMAKE_PREFIX_PATH="$prefix"
    cmake --build "$target" --verbose
    run "$target/hello"
    run "$target/hello_nvshmem"
    # A project may enable its languages later.
    printf '%s\n' 'cmake_minimum_required(VERSION 3.18)' 'project(later LANGUAGES NONE)' 'find_package(gshmem 0.1 REQUIRED)' \
      > "$target/CMakeLists.txt"
    cmake -S "$target" -B "$target/later" -DCMAKE_PREFIX_PATH="$prefix"
    # A build folder is no installed gshmem.
    if cmake -S "$target" -B "$target/unfound" -DCMAKE_PREFIX_PATH="$build" 2> "$target/unfound.log"; then
      echo "find_package(gshmem) finds the build folder"
      exit 1
    fi
    grep -q 'Could not find a package configuration file provided by "gshmem"' "$target/unfound.log"
    # What is asked for and not there has a reason.
    sed 's/gshmem 0.1 REQUIRED/& COMPONENTS mpi/' "$outside/CMakeLists.txt" > "$target/CMakeLists.txt"
    if cmake -S "$target" -B "$target/none" -DCMAKE_PREFIX_PATH="$prefix" 2> "$target/none.log"; then
      echo "a component that gshmem has not is found"
      exit 1
    fi
    tr -s ' \n' ' ' < "$target/none.log" | grep -q 'gshmem has no component "mpi", and needs none: gshmem::gshmem has all'
    ;;
  add_subdirectory)
    cmake -S "$(dirname "$outside")/inside" -B "$target" -G Ninja -DCMAKE_CXX_COMPILER="${CXX:-g++}" \
      -DGSHMEM_SOURCE="$(dirname "$outside")/../.." -DGSHMEM_CUDA=OFF -DGSHMEM_PRECOMPILE=ON -DCMAKE_UNITY_BUILD=ON \
      -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0
    cmake --build "$target"
    run "$target/inside"
    ;;
  pkg_config)
    command -v pkg-config > /dev/null || skip "no pkg-config"
    # A shell must parse the flags like a rule of make.
    eval "flags=($(gshmem_flags --cflags --libs))"
    "${CXX:-g++}" -std=c++17 -Wall -Wextra -Werror "$outside/hello.cpp" -o "$target/hello" \
      "${flags[@]}" -Wl,-rpath,"$libdir"
    run "$target/hello"
    ;;
  module)
    command -v tclsh > /dev/null || skip "no tclsh"
    # The commands of modules become those of this shell.
    printf '%s\n' 'proc module-whatis args {}' 'proc conflict args {}' \
      'proc prepend-path {name path} { puts "export $name=\"$path\${$name:+:\$$name}\"; ls -d \"$path\"" }' \
      'set ModulesCurrentModulefile [lindex $argv 0]' 'source $ModulesCurrentModulefile' > "$target/read.tcl"
    commands=$(tclsh "$target/read.tcl" "$(find "$prefix" -path '*/modulefiles/gshmem/*' -type f)")
    eval "$commands"
    "${CXX:-g++}" -std=c++17 "$outside/hello.cpp" -o "$target/hello" -lgshmem
    run "$target/hello"
    [[ $(command -v gshmem-info) == "$prefix/bin/gshmem-info" ]]
    [[ -e ${MANPATH%%:*}/man1/gshmem-info.1 ]]
    ;;
  packages)
    for tool in cpack dpkg-deb dpkg-shlibdeps; do command -v $tool > /dev/null || skip "no $tool"; done
    cpack -G DEB -B "$target" --config "$build/CPackConfig.cmake" > "$target/cpack.log" 2>&1 || { cat "$target/cpack.log"; exit 1; }
    for name in libgshmem0.1 libgshmem-dev gshmem-nvshmem gshmem-tools gshmem-softnic; do
      dpkg-deb -x "$target/$name"_*.deb "$target/root"
      dpkg-deb -c "$target/$name"_*.deb | awk '$1 !~ /^d/ {print $6}' >> "$target/files"
    done
    [[ -z $(sort "$target/files" | uniq -d) ]]  # no file is in two packages
    [[ $(dpkg-deb -f "$target"/gshmem-tools_*.deb Depends) == *"libgshmem0.1 (= "* ]]
    ls "$target"/root/usr/share/doc/gshmem/{LICENSE,CHANGELOG.md,install.md} > /dev/null
    if [[ -e $build/lib/gshnic/libmlx5.so.1 ]]; then
      GSHMEM_NIC=soft "$target/root/usr/bin/gshmem-info" --nic-selftest > "$target/selftest.log"
    fi
    "$target/root/usr/bin/gshmem-info" --version
    ;;
  nvcc)
    [[ -n ${CUDACXX:-} ]] || skip "built without nvcc, for CPU mode only"
    command -v pkg-config > /dev/null || skip "no pkg-config"
    # nvcc splits a path with a space.
    ln -s "$prefix" "$target/prefix"
    eval "flags=($(gshmem_flags --define-variable=prefix="$target/prefix" --cflags --libs))"
    "$CUDACXX" -arch=sm_90 -x cu "$outside/hello.cpp" -o "$target/hello" \
      "${flags[@]}" -Xlinker -rpath="$target/prefix/${libdir#"$prefix"/}"
    run "$target/hello"
    ;;
  nvshmem_make)
    command -v make > /dev/null || skip "no make"
    make_nvshmem host framework_linked
    run "$target/plain"
    run "$target/plain_static"
    run "$target/framework_linked" weak
    run "$target/framework_linked" load "$target/extension.so"
    [[ $("$target/framework" weak) == "not linked" ]]
    export LD_LIBRARY_PATH=$nvshmem/lib
    run "$target/framework" load
    run "$target/framework" load "$target/extension.so"
    ;;
  nvshmem_nvcc)
    [[ -n ${CUDACXX:-} ]] || skip "built without nvcc, for CPU mode only"
    command -v make > /dev/null || skip "no make"
    mkdir "$target/stubs"
    for name in cuda nvidia-ml; do "${CXX:-g++}" -shared -x c++ /dev/null -o "$target/stubs/lib$name.so"; done
    # nvcc splits a path with a space.
    ln -s "$nvshmem" "$target/nvshmem"
    make_nvshmem cuda DRIVER_STUBS=stubs NVSHMEM_HOME=nvshmem
    export LD_LIBRARY_PATH=$nvshmem/lib
    for program in ring ring_static ring_dlink; do run_with_gpu "$target/$program"; done
    cp -r "$outside/../../../examples/nvshmem" "$target/example"
    make -s -C "$target/example" NVSHMEM_HOME=../nvshmem LDFLAGS=-L../stubs NVCC="$CUDACXX"
    GSHMEM_DEVICE=cuda "$target/example/jacobi" || [[ $? == 77 ]]
    ;;
  nvshmem_find_package)
    cuda=OFF
    [[ -n ${CUDACXX:-} ]] && cuda=ON
    cmake -S "$for_nvshmem" -B "$target" -DCMAKE_CXX_COMPILER="${CXX:-g++}" -DCMAKE_PREFIX_PATH="$nvshmem" \
      -DWITH_CUDA=$cuda
    cmake --build "$target" --verbose
    run "$target/plain"
    run "$target/plain_static"
    if [[ $cuda == ON ]]; then
      run_with_gpu "$target/ring"
      run_with_gpu "$target/ring_static"
    fi
    # The module of CMake 3.25 fails with CUDA 13 where a project asks for that CMake. A double of it does so always.
    if [[ $(cmake --version) == *" 3.25."* ]]; then
      mkdir -p "$target/asks"
      printf '%s\n' 'if(CMAKE_MINIMUM_REQUIRED_VERSION VERSION_GREATER_EQUAL 3.25)' 'message(FATAL_ERROR "no nvToolsExt")' \
        'endif()' > "$target/asks/FindCUDAToolkit.cmake"
      printf '%s\n' 'cmake_minimum_required(VERSION 3.25)' 'project(asks C)' 'set(CMAKE_MODULE_PATH ${CMAKE_SOURCE_DIR})' \
        'find_package(NVSHMEM REQUIRED)' 'if(NOT CMAKE_MINIMUM_REQUIRED_VERSION VERSION_EQUAL 3.25)' \
        'message(FATAL_ERROR ${CMAKE_MINIMUM_REQUIRED_VERSION})' 'endif()' > "$target/asks/CMakeLists.txt"
      cmake -S "$target/asks" -B "$target/asks/build" -DCMAKE_PREFIX_PATH="$nvshmem"
    fi
    # A user who names only gshmem's prefix wants another NVSHMEM, or none.
    if cmake -S "$for_nvshmem" -B "$target/none" -DCMAKE_PREFIX_PATH="$prefix" > "$target/none.log" 2>&1; then
      echo "find_package(NVSHMEM) finds ours in $prefix"
      exit 1
    fi
    grep -q 'Could not find a package configuration file provided by "NVSHMEM"' "$target/none.log"
    ;;
  nvshmem_headers)
    # Each path alone with one -I; then orders that programs use.
    compile() {
      local language=$1 standard=$2
      shift 2
      printf '#include <%s>\n' "$@" | "${CXX:-g++}" -x "$language" "-std=$standard" -Wall -Wextra -Wpedantic -Werror \
        -fsyntax-only -I"$nvshmem/include" ${cuda_include:+-isystem "$cuda_include"} -
    }
    cuda_include=
    cd "$nvshmem/include"
    count=0
    # NVSHMEM's private structs are missing: the compiler names the alternative.
    refused=device_host_transport/nvshmem_common_ibgda.h
    for language in "c c11" "c++ c++17"; do
      # shellcheck disable=SC2086
      if compile $language "$refused" 2> "$target/refused.txt"; then
        echo "$refused: not refused"
        exit 1
      fi
      grep -q '#error.*IBGDA structs.*nvshmemx_qp_\*.*gshmem::Burst' "$target/refused.txt"
    done
    while read -r header; do
      case $header in
        "$refused") ;;
        *.cuh) compile c++ c++17 "$header" ;;
        *) compile c c11 "$header" ;;
      esac
      count=$((count + 1))
    done < <(find . -path ./gshmem -prune -o -type f -printf '%P\n')
    echo "$count headers"
    ((count > 15))
    # These programs were first written with NVSHMEM's own headers.
    for header in device/nvshmem_device_macros.h device_host_transport/nvshmem_common_transport.h \
      non_abi/device/threadgroup/nvshmemi_common_device_defines.cuh non_abi/nvshmemx_error.h; do
      compile c++ c++17 "$header"
    done
    # perftest/common/utils.cu prints these fields.
    cat > "$target/error.h" <<< 'inline void failed(int code) { NVSHMEMI_ERROR_PRINT("error %d", code); }
      NVSHMEMI_STATIC NVSHMEMI_DEVICE_INLINE int set() { return NVSHMEM_SIGNAL_SET; }
      int use() { return set(); }'
    compile c++ c++17 non_abi/nvshmemx_error.h device/nvshmem_device_macros.h "$target/error.h"
    for language in "c c11" "c++ c++20"; do
      # shellcheck disable=SC2086
      compile $language nvshmemx.h nvshmem.h
      # shellcheck disable=SC2086
      compile $language host/nvshmemx_api.h nvshmem_host.h gshmem/gshmem.h nvshmem.h
    done
    if [[ -n ${CUDACXX:-} ]]; then
      # Programs for the host's compiler have CUDA's folder on their line, and its types from nvshmem.h.
      cuda_include=$(dirname "$(dirname "$CUDACXX")")/include
      echo 'CUmodule module; cudaStream_t stream;' > "$target/types.h"
      compile c++ c++17 nvshmem.h "$target/types.h"
      compile c c11 nvshmem.h "$target/types.h"
    fi
    # gshmem's own prefix does not hide another NVSHMEM that comes after it.
    mkdir "$target/other"
    echo '#define OTHER_NVSHMEM' | tee "$target/other/nvshmem.h" > "$target/other/nvshmemx.h"
    for header in nvshmem.h nvshmemx.h; do
      printf '#include <gshmem/gshmem.h>\n#include <%s>\n#ifndef OTHER_NVSHMEM\n#error ours\n#endif\n' "$header" |
        "${CXX:-g++}" -x c++ -std=c++17 -fsyntax-only -I"$prefix/include" -I"$target/other" -
    done
    ;;
  *)
    echo "no way '$way'" >&2
    exit 2
    ;;
esac
