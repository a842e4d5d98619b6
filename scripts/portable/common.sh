# shellcheck shell=bash
# What the scripts of the portable build share: the compiler and the folders. They source this file, after lib.sh.
#
# The portable build is made by zig's compiler against glibc 2.28, the oldest that RHEL 8 and Debian 10 have. It links
# in all libraries but glibc and libnuma (libraries).

ZF_GLIBC=2.28
ZF_ZIG=$(sed -n 's/^ziglang==\([0-9.]*\).*/\1/p' "$ZF_ROOT/scripts/portable/requirements.txt")
ZF_PORTABLE=$ZF_ROOT/build-portable
# The time in all archives: that of the last commit. Two builds of one commit give the same bytes.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$ZF_ROOT" log -1 --format=%ct 2>/dev/null || echo 315532800)}
export SOURCE_DATE_EPOCH ZIG_GLOBAL_CACHE_DIR=$ZF_PORTABLE/zig-cache ZIG_LOCAL_CACHE_DIR=$ZF_PORTABLE/zig-cache

# need_arch ARCH...: ends the script if the portable build cannot be made for one of these architectures.
need_arch() {
  local arch
  for arch in "$@"; do
    [[ $arch == x86_64 || $arch == aarch64 ]] || fail "'$arch' is no architecture to build for; give x86_64 or aarch64"
  done
}

# need_zig: puts zig into an environment of its own, from PyPI.
need_zig() {
  local python=$ZF_PORTABLE/zig/bin/python
  if [[ $("$python" -m ziglang version 2>/dev/null) != "$ZF_ZIG" ]]; then
    say "installing ziglang $ZF_ZIG from PyPI"
    /usr/bin/python3 -m venv --clear "$ZF_PORTABLE/zig"
    "$python" -m pip install --quiet --no-deps --require-hashes -r "$ZF_ROOT/scripts/portable/requirements.txt" >&2 ||
      fail "pip cannot install ziglang $ZF_ZIG"
  fi
  ZF_ZIG_PROGRAM=$("$python" -c 'import ziglang, pathlib; print(pathlib.Path(ziglang.__file__).parent / "zig")')
}

# need_tools ARCH: writes cc, c++, ar and ranlib for this architecture (x86_64, aarch64) to its folder "tools". They
# keep this checkout's path out of what they compile.
need_tools() {
  local tools=$ZF_PORTABLE/$1/tools name arguments
  mkdir -p "$tools"
  for name in cc c++ ar ranlib; do
    arguments=$name
    [[ $name != c* ]] || arguments+=" -target $1-linux-gnu.$ZF_GLIBC -ffile-prefix-map=$ZF_ROOT=."
    printf '#!/bin/sh\nexec "%s" %s "$@"\n' "$ZF_ZIG_PROGRAM" "$arguments" >"$tools/$name.new"
    chmod +x "$tools/$name.new"
    # An unchanged file keeps its time, so that nothing is compiled again.
    cmp -s "$tools/$name.new" "$tools/$name" || cp -p "$tools/$name.new" "$tools/$name"
    rm "$tools/$name.new"
  done
}
