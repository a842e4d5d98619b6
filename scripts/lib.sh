# shellcheck shell=bash
# The set-up and the build that scripts/tune, scripts/test, scripts/check and others share. They source this file.
#
# Messages go to stderr, so that stdout stays free for results. No function changes the current directory.

set -euo pipefail

# Look for programs in the system's folders first: packages.txt lists the system's packages, and PATH may name others.
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH

ZF_ROOT=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
ZF_INSTALL=${ZF_INSTALL:-yes} # no (--no-install): install nothing, but say what to run

# Lets ccache, where it is installed, find what another checkout has compiled, also with a precompiled header. Debug
# information may then name the other checkout.
export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$ZF_ROOT} CCACHE_NOHASHDIR=1
export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:-pch_defines,time_macros,include_file_mtime,include_file_ctime}

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
fail() {
  say "$*"
  exit 1
}

# Prints the number of parallel build jobs: CMAKE_BUILD_PARALLEL_LEVEL if it is set, else the number of CPUs that this
# process may use. The OpenMP variables are removed, because nproc obeys them, and they do not limit a build.
build_jobs() {
  echo "${CMAKE_BUILD_PARALLEL_LEVEL:-$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)}"
}

export PYTHONDONTWRITEBYTECODE=1 # nothing is written beside the sources

# shellcheck source-path=SCRIPTDIR source=packages.sh
source "$ZF_ROOT/scripts/packages.sh"

# Prints the path of the cmake to use: /usr/bin/cmake, which packages.txt names, if it is there and new enough. Else the
# first in PATH that is. Prints nothing and returns 1 if there is none.
cmake_program() {
  local program in_path version
  mapfile -t in_path <<<"$(type -aP cmake)"
  for program in /usr/bin/cmake "${in_path[@]}"; do
    version=$("$program" --version 2>/dev/null | sed -n '1s/^cmake version //p') || continue
    if [[ -n $version && $(printf '%s\n' 3.25 "$version" | sort -V | head -n 1) == 3.25 ]]; then
      echo "$program"
      return
    fi
  done
  return 1
}

# configure PRESET [-D...]: runs CMake. If it fails, shows the list of what is missing, or its output. Warnings are
# errors only if ZF_WERROR=ON is in the environment, as in .ci/run: a newer compiler must not stop a user's build.
configure() {
  local preset=$1 folder log launcher cmake
  shift
  folder=$ZF_ROOT/build
  [[ $preset == release ]] || folder+=-$preset
  cmake=$(cmake_program) || fail "no CMake 3.25 or newer here; install one, for example with: pip install cmake"
  # Pass the launcher even if it is empty. Otherwise the build folder would keep a ccache that is no longer installed.
  launcher=$(command -v ccache || true)
  set -- -DCMAKE_C_COMPILER_LAUNCHER="$launcher" -DCMAKE_CXX_COMPILER_LAUNCHER="$launcher" \
    -DZF_WERROR="${ZF_WERROR:-OFF}" "$@"
  # Always use the same ninja. Another version would not trust this one's log, and would build everything again.
  [[ ! -x /usr/bin/ninja ]] || set -- -DCMAKE_MAKE_PROGRAM=/usr/bin/ninja "$@"
  log=$(mktemp)
  rm -f "$folder/missing.txt"
  if ! "$cmake" -S "$ZF_ROOT" --preset "$preset" "$@" >"$log" 2>&1; then
    if [[ -s $folder/missing.txt ]]; then
      rm -f "$log"
      fail "$(<"$folder/missing.txt")"
    fi
    cat "$log" >&2
    rm -f "$log"
    fail "CMake could not configure; if the checkout was moved or the compiler changed, remove its build folder"
  fi
  rm -f "$log"
}

# need_machine: ends the script if the files that describe this machine are not here, as in a chroot without them.
need_machine() {
  [[ -r /proc/self/status ]] ||
    fail "no /proc is mounted here, and zf-tune needs it; run as root: mount -t proc proc /proc"
  [[ -r /sys/devices/system/cpu/online ]] ||
    fail "no /sys is mounted here, and zf-tune reads the machine from it; run as root: mount -t sysfs sysfs /sys"
}

# ctest_program FOLDER: prints the ctest that belongs to the cmake that configured the folder.
ctest_program() { sed -n 's/^CMAKE_CTEST_COMMAND:INTERNAL=//p' "$1/CMakeCache.txt"; }

# run_ctest FOLDER ARGUMENTS...: runs the ctest that belongs to the folder. Prints before its summary why tests were
# skipped. Does not return, because this replaces the script.
run_ctest() {
  local folder=$1
  shift
  exec /usr/bin/python3 "$ZF_ROOT/scripts/run_ctest.py" "$folder" \
    "$(ctest_program "$folder")" --test-dir "$folder" --output-on-failure --no-label-summary "$@"
}

# build FOLDER [TARGET...] [-- NINJA'S ARGUMENTS]: builds and shows the progress. Shows the failed commands if it fails.
build() {
  local folder=$1 log started=$SECONDS
  shift
  log=$(mktemp)
  local -a command=("$(cmake_program)" --build "$folder" --parallel "$(build_jobs)")
  [[ $# -eq 0 || $1 == -- ]] || command+=(--target)
  command+=("$@")
  if ! NINJA_STATUS='[%f/%t] ' "${command[@]}" 2>&1 | tee "$log" | progress "building in ${folder##*/}"; then
    sed -n '/^FAILED/,$p' "$log" | grep -v '^\[' | head -n 400 >&2 || true
    grep -q '^FAILED' "$log" || tail -n 20 "$log" >&2
    rm -f "$log"
    fail "the build failed"
  fi
  rm -f "$log"
  say "built in ${folder##*/} ($((SECONDS - started)) s)"
}

# progress TITLE: reads ninja's output and shows how far the build is and how long it will take. On a terminal it keeps
# changing one line. Elsewhere it prints a line every 15 seconds.
progress() {
  local line columns status left started=$SECONDS shown=$SECONDS
  [[ -t 2 ]] || say "$1"
  columns=$(tput cols 2>/dev/null || echo 80)
  while IFS= read -r line; do
    [[ $line =~ ^\[([0-9]+)/([0-9]+)\]\ (.*) ]] || continue
    left=$(time_left "$((SECONDS - started))" "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}")
    status="$1: ${BASH_REMATCH[1]} of ${BASH_REMATCH[2]} ($((SECONDS - started)) s$left)"
    if [[ -t 2 ]]; then
      printf '\r\033[K%.*s' "$((columns - 1))" "$status ${BASH_REMATCH[3]##*/}" >&2
    elif [[ $((SECONDS - shown)) -ge 15 ]]; then
      say "$status"
      shown=$SECONDS
    fi
  done
  [[ ! -t 2 ]] || printf '\r\033[K' >&2
}

# time_left SECONDS DONE ALL: prints ", about N s left", as if each step that is left takes as long as those before.
# Prints nothing in the first 5 seconds, nor before 10 steps and a tenth of all are done: these say too little.
time_left() {
  [[ $1 -lt 5 || $2 -lt 10 || $(($2 * 10)) -lt $3 ]] || printf ', about %d s left' "$((($3 - $2) * $1 / $2))"
}
