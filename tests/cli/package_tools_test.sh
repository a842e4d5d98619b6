#!/usr/bin/env bash
# Without the programs that find what a .deb depends on, CPack makes none, and says what to install.
# usage: package_tools_test.sh CPACK BUILD_FOLDER
set -euo pipefail

cpack=$1 build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tree"
cp -L "$(type -P true)" "$work/tree/"

# pack GENERATOR [TOOL]: packs one program where of those tools only this one is found.
pack() {
  rm -rf "$work/path" "$work/out"
  mkdir "$work/path"
  for tool in find strip touch ${2:+"$2"}; do ln -s "$(type -P "$tool" || echo /bin/true)" "$work/path/$tool"; done
  PATH=$work/path "$cpack" -G "$1" -B "$work/out" --config "$build/CPackConfig.cmake" \
    -D CMAKE_FIND_USE_CMAKE_SYSTEM_PATH=FALSE -D CPACK_INSTALL_CMAKE_PROJECTS= \
    -D "CPACK_INSTALLED_DIRECTORIES=$work/tree;/" >"$work/log" 2>&1
}

failures=0
complain() {
  echo "$*"
  cat "$work/log"
  failures=$((failures + 1))
}

for found in file dpkg-shlibdeps; do
  if pack DEB "$found"; then complain "a .deb was made with $found alone"; fi
  grep 'missing: apt-get install dpkg-dev file$' "$work/log" >/dev/null || complain "no word of what to install"
done
pack TGZ || complain "a .tar.gz needs neither of them"

exit "$((failures > 0))"
