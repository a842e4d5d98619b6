# shellcheck shell=bash
# Sees to it that the packages of packages.txt are installed. scripts/lib.sh sources this file.

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

# missing_packages GROUP...: prints a line "package[|alternative] why" for each package of these groups that is not
# installed, nor an alternative of it.
missing_packages() {
  local names why name found
  while read -r names why; do
    found=no
    for name in ${names//|/ }; do
      if is_installed "$name"; then found=yes; fi
    done
    [[ $found == yes ]] || printf '%s %s\n' "$names" "$why"
  done <<<"$(packages_of "$@")" # no process substitution: a bare chroot has no /dev/fd
}

# need_packages GROUP...: installs the missing packages of these groups, and says which and why. The names are those of
# Debian. On other systems, and where CMAKE_PREFIX_PATH or PKG_CONFIG_PATH names libraries of the user's own, CMake
# finds out whether something is missing, and lists it.
need_packages() {
  local missing=""
  if command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; then missing=$(missing_packages "$@"); fi
  if [[ -z $missing ]]; then
    :
  elif [[ $ZF_INSTALL != yes ]]; then
    not_installed "--no-install was given, and these packages are missing" "$missing"
  elif ! become_root; then
    not_installed "there is neither root nor sudo to install packages, and these are missing" "$missing"
  else
    install_packages "$missing"
    # The build misses what apt could not install, or tests miss it, and then skip.
    missing=$(missing_packages "$@")
    [[ -z $missing ]] || say "apt could not install:"$'\n'"$(indented "$missing")"
  fi
  need_programs
}

# need_programs: ends the script with a list if programs that build are missing. Without them CMake cannot look for the
# libraries, so the list names these too.
need_programs() {
  local missing=()
  has_compiler || missing+=("${CXX:-c++}: compiles C++20 (GCC 11, clang 14 or newer)")
  cmake_program >/dev/null || missing+=("cmake 3.25 or newer: configures the build (also: pip install cmake)")
  command -v ninja >/dev/null || missing+=("ninja: runs the build (also: pip install ninja)")
  [[ ${#missing[@]} -gt 0 ]] || return 0
  say "missing:"
  printf '  %s\n' "${missing[@]}" >&2
  printf 'Without them nothing can look for the libraries. Under the names of Debian, a build needs:\n%s\n' \
    "$(indented "$(packages_of build)")" >&2
  exit 1
}

# has_compiler: tells whether CMake will find a C++ compiler. CXX may have arguments ("ccache g++").
has_compiler() {
  local names=(c++ g++ clang++)
  [[ -z ${CXX:-} ]] || names=("${CXX%% *}")
  [[ -n $(type -P "${names[@]}") ]]
}

# not_installed REASON PACKAGES: lists what is missing and how to install it. Ends the script, unless packages have
# other names here, or the user has libraries of their own.
not_installed() {
  local command="apt-get install" names why
  while read -r names why; do command+=" ${names%%|*}"; done <<<"$2"
  [[ $EUID -eq 0 ]] || command="sudo $command"
  say "$1:"$'\n'"$(indented "$2")"$'\n'"To install them: $command"
  on_debian && [[ -z ${CMAKE_PREFIX_PATH:-}${PKG_CONFIG_PATH:-} ]] && exit 1
  say "going on with what is there"
}

# indented PACKAGES: prints the lines of missing_packages as a table.
indented() {
  local names why
  while read -r names why; do printf '  %-20s %s\n' "${names%%|*}" "$why"; done <<<"$1"
}

on_debian() { [[ $(. /etc/os-release 2>/dev/null && echo "${ID:-}") == debian ]]; }

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

# install_packages PACKAGES: installs of each line of missing_packages the first name that apt knows. Fetches apt's
# package lists first if a name is not known, or if apt cannot install: then they may be out of date.
install_packages() {
  local log names failed=no
  say "installing from apt:"$'\n'"$(indented "$1")"
  log=$(mktemp)
  if [[ $(known_names "$1" | wc -l) -lt $(wc -l <<<"$1") ]]; then
    apt_get "$log" update || failed=yes
  fi
  names=$(known_names "$1")
  if [[ -n $names ]]; then
    mapfile -t names <<<"$names"
    failed=no
    apt_get "$log" install --yes --no-install-recommends "${names[@]}" ||
      { apt_get "$log" update && apt_get "$log" install --yes --no-install-recommends "${names[@]}"; } || failed=yes
  fi
  [[ $failed == no ]] || tail -n 20 "$log" >&2
  rm -f "$log"
}

# known_names PACKAGES: prints of each line the first name that apt can install.
known_names() {
  local known names why name
  # shellcheck disable=SC2046 # a word for each name
  known=$(LC_ALL=C apt-cache policy $(sed 's/ .*//; s/|/ /g' <<<"$1") 2>/dev/null |
    awk '/^[^ ]/ { name = $1 } /^  Candidate: / && $2 != "(none)" { print name }')
  while read -r names why; do
    for name in ${names//|/ }; do
      if [[ $'\n'$known$'\n' == *$'\n'"$name:"$'\n'* ]]; then
        echo "$name"
        break
      fi
    done
  done <<<"$1"
}

# apt_get LOG ARGS...: runs apt-get without questions and appends its output to LOG. Waits up to 300 s for another apt.
apt_get() {
  local log=$1
  shift
  "${AS_ROOT[@]}" env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 \
    apt-get -q -o DPkg::Lock::Timeout=300 "$@" 2>&1 </dev/null | tee -a "$log" | apt_progress "apt-get $1"
}

# apt_progress TITLE: reads apt's output, and prints its last line every 15 seconds.
apt_progress() {
  local line last="" status=0 started=$SECONDS shown=$SECONDS
  while [[ $status -eq 0 || $status -gt 128 ]]; do # above 128: no line within a second
    IFS= read -r -t 1 line && status=0 || status=$?
    [[ -z $line ]] || last=$line
    if [[ $((SECONDS - shown)) -ge 15 ]]; then
      say "$1 ($((SECONDS - started)) s): ${last:0:80}"
      shown=$SECONDS
    fi
  done
}
