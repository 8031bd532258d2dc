#!/bin/sh
# needed.sh READELF LIBRARY...: checks that these need no library besides those that every system with C++ has.
readelf=$1
shift
status=0
for library; do
  needed=$("$readelf" -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]$/\1/p')
  case $needed in
    *libc.so.*) ;;
    *) echo "$library: no NEEDED libc in what $readelf says"; status=1 ;;
  esac
  for name in $needed; do
    case $name in
      libc.so.* | libm.so.* | libstdc++.so.* | libc++.so.* | libc++abi.so.* | libgcc_s.so.*) ;;
      libpthread.so.* | libdl.so.* | librt.so.* | ld-linux*.so.*) ;;
      *) echo "$library needs $name"; status=1 ;;
    esac
  done
  echo "$library:" $needed
done
exit $status
