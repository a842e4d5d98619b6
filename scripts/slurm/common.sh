# shellcheck shell=bash
# What the scripts that Slurm runs on a node share. To be sourced; needs bash 4.4 and coreutils, nothing else.
#
# Slurm drains a node whose Prolog or Epilog fails, and waits for both. So nothing here ends a script, and nothing is
# waited for beyond a deadline, not even for the death of what hangs: a process stuck on a dead file system cannot
# be killed.
# shellcheck disable=SC2034  # the variables are for the scripts that source this

PATH=/usr/sbin:/usr/bin:/sbin:/bin
LC_ALL=C

# read_settings: the variables below, as /etc/zf-tune/slurm.conf (NAME=VALUE, # comments) changes them. Other lines
# are left alone.
read_settings() {
  program=/usr/bin/zf-tune
  plans=/etc/zf-tune/plans # one plan per class of nodes; may be on a shared file system
  run=/run/zf-tune         # where jobs find theirs; on a local one
  deadline=0.7             # seconds for all that a prolog does, besides logging
  class=/var/lib/zf-tune/class # where the health check remembers the node's class
  strict=no                # yes: the health check drains a node that falls behind its plan
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

# bounded SECONDS COMMAND...: its exit status, with what it wrote in $answer; 124 when it took too long.
bounded() {
  local seconds=$1 status=124
  shift
  if IFS= read -r -d '' -t "$seconds" answer < <(
    exec 2>/dev/null # slurmd reads ours to its end
    timeout --signal=KILL "$seconds" "$@" </dev/null 2>&1
    printf '\n%d\0' "$?"
  ); then
    status=${answer##*$'\n'}
    answer=${answer%$'\n'*}
    answer=${answer%$'\n'}
  fi
  if [[ $status == 124 || $status == 137 ]]; then # timeout(1) dies with what it kills: 137
    answer="no answer within $seconds s: a program or a file system hangs"
  fi
  [[ $status =~ ^[0-9]+$ ]] || status=1 # it wrote a NUL
  return "$status"
}

# log TEXT: one line in the system's log, whatever is in the text.
log() {
  local text=${1//[^[:print:]]/ }
  bounded 0.2 logger --tag zf-tune --priority daemon.notice -- "${text:0:800}"
}

# switched_off: whether the job asked to be left alone, by ZF_TUNE=off or by --comment=zf-tune=off.
switched_off() {
  [[ ${ZF_TUNE:-} =~ ^(off|0|no|false)$ || ${SLURM_JOB_COMMENT:-} == *zf-tune=off* ]]
}

# Sets $published, where this job's plan lies on this node. False when the job has no number.
name_of_the_jobs_plan() {
  published=$run/${SLURM_JOB_ID:-}.json
  [[ ${SLURM_JOB_ID:-} =~ ^[0-9]+$ ]]
}
