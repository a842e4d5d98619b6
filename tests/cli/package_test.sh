#!/usr/bin/env bash
# The .deb holds everything where Debian would put it, and what it holds runs.
# usage: package_test.sh CPACK BUILD_FOLDER [LIBRARY_TRIPLET]
set -euo pipefail

cpack=$1 build=$2
libraries=usr/lib${3:+/$3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for tool in dpkg-deb dpkg-shlibdeps file; do
  command -v "$tool" >/dev/null || { echo "skipped: no $tool; install dpkg-dev and file" && exit 77; }
done

(cd "$build" && "$cpack" -G DEB -B "$work/out") >"$work/log" 2>&1 || { cat "$work/log" && exit 1; }
deb=$(ls "$work"/out/*.deb)
dpkg-deb -x "$deb" "$work/tree"

failures=0
complain() {
  echo "$*"
  failures=$((failures + 1))
}

for path in usr/bin/zf-tune usr/bin/zf-optimizer "$libraries/libzf_runtime.so" "$libraries/libzf_runtime.so.0" \
  usr/include/zf_runtime.h usr/include/zf_runtime.hpp usr/share/zf-tune/plan.schema.json usr/share/zf-tune/workloads \
  usr/share/man/man1/zf-tune.1.gz usr/share/doc/zf-tune/copyright usr/share/doc/zf-tune/changelog.gz \
  usr/share/bash-completion/completions/zf-tune usr/share/zsh/site-functions/_zf-tune \
  usr/share/fish/vendor_completions.d/zf-tune.fish; do
  [[ -e $work/tree/$path ]] || complain "missing: /$path"
done

# Nothing of the build machine: owners, run paths, groups that may write.
if dpkg-deb -c "$deb" | grep -v ' root/root '; then complain "files that are not root's"; fi
if dpkg-deb -c "$deb" | grep -E '^[-d].{4}w|^[-d].{7}w'; then complain "files that others may write"; fi
for program in usr/bin/zf-tune usr/bin/zf-optimizer "$libraries/libzf_runtime.so"; do
  if readelf -d "$work/tree/$program" | grep -E 'RPATH|RUNPATH'; then complain "run path in /$program"; fi
  # fmt is linked in (runtime/base/format.cpp), because the next Debian has another version of libfmt.
  if readelf -d "$work/tree/$program" | grep 'NEEDED.*libfmt'; then complain "libfmt in /$program"; fi
  if readelf -d "$work/tree/$program" | grep -E 'NEEDED.*(gomp|libomp|iomp)'; then complain "OpenMP in /$program"; fi
done
[[ $(readlink "$work/tree/$libraries/libzf_runtime.so") == libzf_runtime.so.0 ]] ||
  complain "libzf_runtime.so is no link"

depends=$(dpkg-deb -f "$deb" Depends)
[[ $depends == *libhwloc* && $depends == *libc6* ]] || complain "dependencies without hwloc or libc: '$depends'"

version=$("$work/tree/usr/bin/zf-tune" --version)
[[ $version == "zf-tune $(dpkg-deb -f "$deb" Version)" ]] || complain "the program says '$version'"
MANWIDTH=80 man -l "$work/tree/usr/share/man/man1/zf-tune.1.gz" 2>/dev/null | grep 'zf-tune exec' >/dev/null ||
  ! command -v man >/dev/null || complain "the man page does not show"

[[ $failures -eq 0 ]] && echo "$(basename "$deb"): good"
exit "$((failures > 0))"
