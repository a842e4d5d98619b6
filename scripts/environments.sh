# shellcheck shell=bash
# Makes virtual environments of Python, each whole or not at all. Scripts source this file after lib.sh, and define
# cannot_make REASON, which ends the script if this machine lacks something.
#
# An environment has a file `stamp`, written last, that says what it depends on. Without it, or with another one, the
# environment is made anew. What pip says goes to FOLDER.log.

# environment_stamp FOLDER FILE... <MORE: prints in one word what an environment depends on: the files, the folder (a
# virtual environment cannot be moved), the interpreter, and what stdin says.
environment_stamp() {
  local folder=$1
  shift
  {
    cat "$@"
    echo "$folder"
    /usr/bin/python3 --version
    cat
  } | sha256sum | cut -d' ' -f1
}

# lock_environment FOLDER: waits until no other script makes this environment, and keeps others waiting until this ends.
lock_environment() {
  mkdir -p "${1%/*}"
  exec {environment_lock}>"$1.lock"
  flock "$environment_lock"
}

# has_environment FOLDER STAMP: tells whether the environment is there, whole and with this stamp.
has_environment() { [[ -r $1/stamp && $(<"$1/stamp") == "$2" ]]; }

# mark_whole FOLDER STAMP: says that the environment is whole. Call it last.
mark_whole() { echo "$2" >"$1/stamp"; }

# new_environment FOLDER: makes an empty environment in the place of what is there.
new_environment() {
  rm -rf "$1"
  mkdir -p "${1%/*}"
  : >"$1.log"
  /usr/bin/python3 -c 'import ensurepip' 2>/dev/null || cannot_make "no venv in /usr/bin/python3 (Debian: python3-venv)"
  logged "$1" "virtual environment" /usr/bin/python3 -m venv "$1" || fail "venv failed: $1.log"
}

# pip_install FOLDER WHAT ARGUMENTS...: installs from the package index that pip is set up for, or not at all. Python
# files are compiled when they are first imported (--no-compile): most of a large package's never are.
pip_install() {
  local folder=$1 what=$2
  shift 2
  logged "$folder" "$what" "$folder/bin/python" -m pip --disable-pip-version-check install --quiet --no-deps \
    --no-compile --timeout 60 --retries 2 "$@" ||
    cannot_make "pip cannot install $what (no package index in reach?): ${folder#"$ZF_ROOT/"}.log"
}

# need_all_requirements FOLDER FILE: ends the script if the file of requirements lacks one that another one needs.
need_all_requirements() {
  "$1/bin/python" -m pip check >>"$1.log" 2>&1 || fail "${2#"$ZF_ROOT/"} is not complete: $1.log"
}

# logged FOLDER WHAT COMMAND...: runs a command with its output in FOLDER.log, and says how long it took. Returns 1 if
# it fails.
logged() {
  local log=$1.log what=$2 started=$SECONDS
  shift 2
  "$@" >>"$log" 2>&1 </dev/null || return 1
  say "$what ($((SECONDS - started)) s)"
}
