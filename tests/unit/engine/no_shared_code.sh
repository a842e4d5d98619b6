#!/bin/sh
# no_shared_code.sh NM OBJECT...: fails when an object compiled for AVX2 or AVX-512 defines a weak symbol, an
# inline function that the linker may keep for the whole program (see runtime/engine/adam_loop.hpp).
set -eu
nm=$1
shift
looked_at=0
for object; do
  case $object in
    *kernel_avx*) ;;
    *) continue ;;
  esac
  looked_at=$((looked_at + 1))
  # V DW.ref...: a pointer for unwinding, no code.
  if "$nm" "$object" | grep -E ' [WVu] ' | grep -v ' DW\.ref\.'; then
    echo "$object: the symbols above are shared with files compiled for other machines" >&2
    exit 1
  fi
done
[ "$looked_at" -eq 2 ] || { echo "expected 2 objects of vector lanes, got $looked_at" >&2; exit 1; }
