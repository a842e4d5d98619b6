# shellcheck shell=bash
# Functions for the scripts that Slurm runs on a node. To be sourced. Needs bash 4.4, coreutils and util-linux.
#
# Slurm drains a node whose Prolog or Epilog fails, and waits for both. So nothing here ends a script, and every
# wait has a deadline. Nobody waits for the end of a program that hangs either: a process that is stuck on a dead
# file system cannot be killed.
# shellcheck disable=SC2034  # the variables are for the scripts that source this

PATH=/usr/sbin:/usr/bin:/sbin:/bin
LC_ALL=C

# read_settings: sets the variables below to their defaults, then to the values of /etc/zf-tune/slurm.conf
# (NAME=VALUE, # comments). Ignores other lines.
read_settings() {
  program=/usr/bin/zf-tune
  plans=/etc/zf-tune/plans # holds one plan per class of nodes; may be on a shared file system
  run=/run/zf-tune         # where jobs find their plan; on a local file system
  deadline=0.7             # seconds for everything that a prolog does, except logging
  class=/var/lib/zf-tune/class # the health check remembers the node's class here
  strict=no                # yes: the health check drains a node that differs from its plan
  scontrol=/usr/bin/scontrol
  local file=/etc/zf-tune/slurm.conf line name
  [[ -f $file && -r $file ]] || return 0
  while IFS= read -r line || [[ -n $line ]]; do
    line=${line%%#*}
    line=${line%"${line##*[![:space:]]}"}
    name=${line%%=*}
    case $line in
      program=* | plans=* | run=* | deadline=* | class=* | strict=* | scontrol=*) printf -v "$name" %s "${line#*=}" ;;
    esac
  done <"$file"
  [[ $deadline =~ ^[0-9]*\.?[0-9]+$ ]] || deadline=0.7
}

# bounded SECONDS COMMAND...: runs COMMAND. Returns its exit status, or 124 if it took too long. Sets $answer to its
# output.
bounded() {
  local seconds=$1 status=124
  shift
  if IFS= read -r -d '' -t "$seconds" answer < <(
    exec 2>/dev/null # slurmd reads our stderr until it is closed
    timeout --signal=KILL "$seconds" "$@" </dev/null 2>&1
    printf '\n%d\0' "$?"
  ); then
    status=${answer##*$'\n'}
    answer=${answer%$'\n'*}
    answer=${answer%$'\n'}
  fi
  if [[ $status == 124 || $status == 137 ]]; then # timeout(1) also ends with 137 when it kills
    answer="no answer within $seconds s: a program or a file system hangs"
  fi
  [[ $status =~ ^[0-9]+$ ]] || status=1 # COMMAND wrote a NUL byte
  [[ $status == 0 || -n $answer ]] || answer="$1 ended with status $status and printed nothing"
  return "$status"
}

# log TEXT: writes one printable line to the system's log, whatever TEXT contains. Waits 0.2 s at most. On a busy node
# the line may come later: logger has a session of its own, because slurmd kills the process group of a script that ends.
log() {
  local text=${1//[^[:print:]]/ } ended
  IFS= read -r -t 0.2 ended < <(
    exec 2>/dev/null
    setsid timeout --signal=KILL 10 logger --tag zf-tune --priority daemon.notice -- "${text:0:800}" </dev/null
  )
  return 0
}

# switched_off: true if the job has switched zf-tune off, by ZF_TUNE=off or by --comment=zf-tune=off.
switched_off() {
  [[ ${ZF_TUNE:-} =~ ^(off|0|no|false)$ || ${SLURM_JOB_COMMENT:-} == *zf-tune=off* ]]
}

# name_of_the_jobs_plan: sets $published to the path of this job's plan on this node. False if the job has no number.
name_of_the_jobs_plan() {
  published=$run/${SLURM_JOB_ID:-}.json
  [[ ${SLURM_JOB_ID:-} =~ ^[0-9]+$ ]]
}

# find_the_jobs_plan: sets $published to the plan that the Prolog published for this task's job. False if there is none.
# In a heterogeneous job each component has a number of its own, and the Prolog knows only that number. A task gets the
# number of the first component in SLURM_JOB_ID, and all of them in SLURM_JOB_ID_HET_GROUP_N (PACK_GROUP before 20.02).
find_the_jobs_plan() {
  local variable
  name_of_the_jobs_plan || return 1
  for variable in "${!SLURM_JOB_ID_HET_GROUP_@}" "${!SLURM_JOB_ID_PACK_GROUP_@}"; do
    [[ ! -f $published ]] || break
    [[ ${!variable} =~ ^[0-9]+$ ]] && published=$run/${!variable}.json
  done
  [[ -f $published && -r $published ]]
}
