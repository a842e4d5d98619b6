# shellcheck shell=bash
# What scripts/tune, scripts/test and scripts/check share: the set-up and the build. To be sourced.
#
# Talk goes to stderr, so that stdout stays free for results. Nothing here changes the current directory.

set -euo pipefail

# The system's programs first, whatever stands before them in PATH: packages.txt is a list of the system's.
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH

ZF_ROOT=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
ZF_INSTALL=${ZF_INSTALL:-yes} # no: refuse, and say what to run (--no-install)

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
fail() {
  say "$*"
  exit 1
}

# How many jobs to build with: what was asked for, else the CPUs that this process may really use.
# nproc would obey OMP_NUM_THREADS, which is about another thing.
build_jobs() {
  echo "${CMAKE_BUILD_PARALLEL_LEVEL:-$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)}"
}

# packages_of GROUP...: lines "package[|alternative] why" of packages.txt.
packages_of() {
  local group package why
  while read -r group package why; do
    [[ " $* " == *" $group "* ]] && printf '%s %s\n' "$package" "$why"
  done <"$ZF_ROOT/scripts/packages.txt"
  return 0
}

is_installed() {
  [[ $(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

# One "package why" line for each package of the groups that is not installed.
missing_packages() {
  local names why name found
  while read -r names why; do
    found=no
    for name in ${names//|/ }; do
      if is_installed "$name"; then found=yes; fi
    done
    [[ $found == yes ]] || printf '%s %s\n' "${names%%|*}" "$why"
  done < <(packages_of "$@")
}

# need_packages GROUP...: installs what is missing of these groups of packages.txt, and says what and why.
# On a system that is not Debian 12 nothing here is fatal: CMake has the last word on what is there.
need_packages() {
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    say "no apt here; going on with what is installed. In Debian's names, this needs:" \
      "$(packages_of "$@" | cut -d' ' -f1 | tr '\n' ' ')"
    return 0
  fi

  local missing packages why package
  missing=$(missing_packages "$@")
  [[ -n $missing ]] || return 0
  mapfile -t packages < <(cut -d' ' -f1 <<<"$missing")

  if [[ $ZF_INSTALL != yes ]]; then
    cannot_install "missing packages, and --no-install was given" "${packages[@]}"
  elif ! become_root; then
    cannot_install "missing packages, and neither root nor sudo to install them" "${packages[@]}"
  else
    say "installing from apt:"
    while read -r package why; do printf '  %-20s %s\n' "$package" "$why" >&2; done <<<"$missing"
    install_packages "${packages[@]}" || cannot_install "apt could not install all of it" "${packages[@]}"
  fi
}

# cannot_install REASON PACKAGE...: ends here on Debian 12, where the names are right; elsewhere goes on.
cannot_install() {
  local reason=$1 by_hand
  shift
  by_hand="apt-get install $*"
  [[ $EUID -eq 0 ]] || by_hand="sudo $by_hand"
  if on_debian_12; then fail "$reason; run: $by_hand"; fi
  say "$reason; going on with what is there (Debian 12 would need: $by_hand)"
}

# Sets AS_ROOT, the words that a root command starts with. sudo asks for a password only on a terminal.
become_root() {
  AS_ROOT=()
  [[ $EUID -ne 0 ]] || return 0
  command -v sudo >/dev/null || return 1
  if sudo -n true 2>/dev/null; then
    AS_ROOT=(sudo -n)
  else
    [[ -t 0 && -t 2 ]] || return 1
    AS_ROOT=(sudo)
    sudo -v
  fi
}

# Package lists are fetched if there are none, or if apt could not install from those it has (stale).
install_packages() {
  local log result=0
  log=$(mktemp)
  if ! ls /var/lib/apt/lists/*_Packages* >/dev/null 2>&1; then
    apt_get "$log" update || true
  fi
  apt_get "$log" install --yes --no-install-recommends "$@" ||
    { apt_get "$log" update && apt_get "$log" install --yes --no-install-recommends "$@"; } ||
    { result=1 && tail -n 20 "$log" >&2; }
  rm -f "$log"
  return "$result"
}

# apt_get LOG ARGS...: quiet, asks nothing, waits for another apt to finish.
apt_get() {
  local log=$1
  shift
  "${AS_ROOT[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@" >>"$log" 2>&1 </dev/null
}

on_debian_12() { [[ $(. /etc/os-release 2>/dev/null && echo "${ID:-} ${VERSION_ID:-}") == 'debian 12' ]]; }

# The cmake to use: the system's, which packages.txt names, whatever stands before it in PATH; PATH's elsewhere,
# and where the system's is too old.
cmake_program() {
  local program version
  for program in /usr/bin/cmake "$(command -v cmake)"; do
    version=$("$program" --version 2>/dev/null | sed -n '1s/^cmake version //p') || continue
    if [[ $(printf '%s\n' 3.25 "$version" | sort -V | head -n 1) == 3.25 ]]; then
      echo "$program"
      return
    fi
  done
  fail "no CMake 3.25 or newer here; install cmake"
}

# configure PRESET [-D...]: quiet; shows everything CMake said when it fails.
configure() {
  local preset=$1 log launcher cmake
  shift
  cmake=$(cmake_program)
  # Said each time, also when empty: the build folder would remember a ccache that has been removed since.
  launcher=$(command -v ccache || true)
  set -- -DCMAKE_C_COMPILER_LAUNCHER="$launcher" -DCMAKE_CXX_COMPILER_LAUNCHER="$launcher" "$@"
  # One ninja for all: another version would not trust the log of this one, and build everything anew.
  [[ ! -x /usr/bin/ninja ]] || set -- -DCMAKE_MAKE_PROGRAM=/usr/bin/ninja "$@"
  log=$(mktemp)
  if ! "$cmake" -S "$ZF_ROOT" --preset "$preset" "$@" >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    fail "CMake could not configure; if the checkout was moved or the compiler changed, remove its build folder"
  fi
  rm -f "$log"
}

# run_ctest FOLDER ARGUMENTS...: with the ctest of the cmake that configured the folder; becomes it.
run_ctest() {
  local folder=$1 ctest
  shift
  ctest=$(sed -n 's/^CMAKE_CTEST_COMMAND:INTERNAL=//p' "$folder/CMakeCache.txt")
  exec "$ctest" --test-dir "$folder" --output-on-failure --no-label-summary "$@"
}

# build FOLDER [TARGET...] [-- NINJA'S ARGUMENTS]: shows how far it is, and what failed when it fails.
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

# progress TITLE: shows how far ninja's output is, as one line that changes on a terminal, elsewhere as a line
# every 15 seconds.
progress() {
  local line columns started=$SECONDS shown=$SECONDS
  [[ -t 2 ]] || say "$1"
  columns=$(tput cols 2>/dev/null || echo 80)
  while IFS= read -r line; do
    if [[ -t 2 ]]; then
      printf '\r\033[K%.*s' "$((columns - 1))" "$1 $line" >&2
    elif [[ $line =~ ^\[([0-9]+)/([0-9]+)\] && $((SECONDS - shown)) -ge 15 ]]; then
      say "$1: ${BASH_REMATCH[1]} of ${BASH_REMATCH[2]} ($((SECONDS - started)) s)"
      shown=$SECONDS
    fi
  done
  [[ ! -t 2 ]] || printf '\r\033[K' >&2
}
