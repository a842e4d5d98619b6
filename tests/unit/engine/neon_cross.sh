#!/usr/bin/env bash
# Builds the engine's kernels for AArch64 and runs them in an emulator: NEON equals scalar, bit for bit.
# usage: neon_cross.sh SOURCE_FOLDER BUILD_FOLDER
set -euo pipefail

source=$1 build=$2
compiler=aarch64-linux-gnu-g++
for tool in "$compiler" qemu-aarch64-static; do
  command -v "$tool" >/dev/null ||
    { echo "skipped: no $tool; install g++-aarch64-linux-gnu and qemu-user-static" && exit 77; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ln -s /usr/include/fmt "$work/fmt" # headers are the same for every architecture

engine=$source/runtime/engine
"$compiler" -std=c++20 -O1 -static -Wall -Wextra -Werror -ffp-contract=off -fno-math-errno \
  -I"$work" -I"$build/rooms/base" -I"$build/rooms/engine" -I"$source/tests/unit/engine" \
  "$engine"/{adam,gradient_norm,instruction_sets,isa,kernel,kernel_scalar,kernel_neon,reading,rollback,undo}.cpp \
  "$source"/runtime/base/{error,format,text}.cpp \
  "$source/tests/unit/engine/lanes_check.cpp" -o "$work/lanes_check"
qemu-aarch64-static "$work/lanes_check" | tee "$work/said"
grep -q 'widest lane neon: all equal' "$work/said"
