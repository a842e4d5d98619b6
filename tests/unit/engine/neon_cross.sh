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
# A folder that is the same in each run, and one command a source: so ccache, where it is, finds them again.
work=$build/neon
rm -rf "$work"
mkdir "$work"
cd "$work"
ln -s /usr/include/fmt fmt # headers are the same for every architecture
export CCACHE_BASEDIR=$source CCACHE_NOHASHDIR=1
cache=$(command -v ccache || true)

engine=$source/runtime/engine
for file in "$engine"/{adam,gradient_norm,instruction_sets,isa,kernel,kernel_scalar,kernel_neon,reading,rollback}.cpp \
  "$engine/undo.cpp" "$source"/runtime/base/{error,format,text}.cpp "$source/tests/unit/engine/lanes_check.cpp"; do
  ${cache:+"$cache"} "$compiler" -std=c++20 -O1 -Wall -Wextra -Werror -ffp-contract=off -fno-math-errno \
    -I. -I"$build/rooms/base" -I"$build/rooms/engine" -I"$source/tests/unit/engine" -c "$file"
done
"$compiler" -static ./*.o -o lanes_check
qemu-aarch64-static ./lanes_check | tee said
grep -q 'widest lane neon: all equal' said
