# shellcheck shell=bash
# The set-up and the build that scripts/tune, scripts/test, scripts/check and others share. They source this file.
#
# Messages go to stderr, so that stdout stays free for results. No function changes the current directory.

set -euo pipefail

# Look for programs in the system's folders first: packages.txt lists the system's packages, and PATH may name others.
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH

ZF_ROOT=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
ZF_INSTALL=${ZF_INSTALL:-yes} # no (--no-install): install nothing, but say what to run

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

# packages_of GROUP...: prints a line "package[|alternative] why" for each package of these groups in packages.txt.
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

# missing_packages GROUP...: prints a line "package why" for each package of these groups that is not installed.
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

# need_packages GROUP...: installs the missing packages of these groups, and says which and why.
# A missing package is an error only on Debian 12. Other systems may name their packages otherwise, so there CMake
# decides whether something is missing.
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

# cannot_install REASON PACKAGE...: ends the script on Debian 12, where the packages have these names. Elsewhere it only
# prints the reason.
cannot_install() {
  local reason=$1 by_hand
  shift
  by_hand="apt-get install $*"
  [[ $EUID -eq 0 ]] || by_hand="sudo $by_hand"
  if on_debian_12; then fail "$reason; run: $by_hand"; fi
  say "$reason; going on with what is there (Debian 12 would need: $by_hand)"
}

# Sets AS_ROOT to the words that come before a command to run it as root. Returns 1 if there is no way to be root. sudo
# asks for a password only on a terminal.
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

# install_packages PACKAGE...: installs the packages. Fetches apt's package lists first if there are none. If apt cannot
# install, the lists may be out of date, so it fetches them and tries once more.
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

# apt_get LOG ARGS...: runs apt-get without questions and appends its output to LOG. Waits up to 300 s for another apt.
apt_get() {
  local log=$1
  shift
  "${AS_ROOT[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@" >>"$log" 2>&1 </dev/null
}

on_debian_12() { [[ $(. /etc/os-release 2>/dev/null && echo "${ID:-} ${VERSION_ID:-}") == 'debian 12' ]]; }

# Prints the path of the cmake to use: /usr/bin/cmake, which packages.txt names, if it is there and new enough. Else the
# first cmake in PATH.
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

# configure PRESET [-D...]: runs CMake. Shows its output only if it fails.
configure() {
  local preset=$1 log launcher cmake
  shift
  cmake=$(cmake_program)
  # Pass the launcher even if it is empty. Otherwise the build folder would keep a ccache that is no longer installed.
  launcher=$(command -v ccache || true)
  set -- -DCMAKE_C_COMPILER_LAUNCHER="$launcher" -DCMAKE_CXX_COMPILER_LAUNCHER="$launcher" "$@"
  # Always use the same ninja. Another version would not trust this one's log, and would build everything again.
  [[ ! -x /usr/bin/ninja ]] || set -- -DCMAKE_MAKE_PROGRAM=/usr/bin/ninja "$@"
  log=$(mktemp)
  if ! "$cmake" -S "$ZF_ROOT" --preset "$preset" "$@" >"$log" 2>&1; then
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

# run_ctest FOLDER ARGUMENTS...: runs the ctest that belongs to the cmake that configured the folder. Prints before its
# summary why tests were skipped. Does not return, because this replaces the script.
run_ctest() {
  local folder=$1 ctest
  shift
  ctest=$(sed -n 's/^CMAKE_CTEST_COMMAND:INTERNAL=//p' "$folder/CMakeCache.txt")
  exec /usr/bin/python3 "$ZF_ROOT/scripts/run_ctest.py" "$folder" \
    "$ctest" --test-dir "$folder" --output-on-failure --no-label-summary "$@"
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

# progress TITLE: reads ninja's output and shows how far the build is. On a terminal it keeps changing one line.
# Elsewhere it prints a line every 15 seconds.
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
