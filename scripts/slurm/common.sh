# shellcheck shell=bash
# Functions for the scripts that Slurm runs on a node. To be sourced. Needs bash 4.4, coreutils, grep and
# util-linux.
#
# Slurm drains a node if its Prolog or Epilog fails, and waits for both. So nothing here ends a script, and every
# wait has a deadline. Nothing waits for the end of a program that hangs either: a process that is stuck on a dead
# file system cannot be killed.
# shellcheck disable=SC2034  # the variables are for the scripts that source this

PATH=/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL=C

# The largest /etc/zf-tune/slurm.conf that is read, and the largest output of a program that is kept, in bytes. Bash
# reads slowly: 64 KiB took it 0.2 to 0.4 s. And expansions like ${text##*[!x]} are quadratic in bash: 16,000 blanks
# took it 4 to 12 s. So nothing here expands a longer text, and lines of settings are read by a regular expression.
largest_text=16384

# read_settings: sets the variables below to their defaults, then to the values of /etc/zf-tune/slurm.conf
# (NAME=VALUE, # comments). Ignores other lines, and a deadline below 0.1 s. Waits 0.3 s at most for the file, which may
# be on a dead file server; then the defaults hold. With `read_settings loud`, the log has what is wrong with the file;
# with `quiet` it has not.
read_settings() {
  local say=$1
  program=/usr/bin/zf-tune
  plans=/etc/zf-tune/plans # holds one plan per class of nodes; may be on a shared file system
  run=/run/zf-tune         # where jobs find their plan; on a local file system
  deadline=0.7             # seconds for everything that a prolog does, except logging
  class=/var/lib/zf-tune/class # the health check remembers the node's class here
  survey=                  # the JSON of a survey: the health check compares the node with its class there
  strict=no                # yes: the health check drains a node that differs from its plan
  scontrol=/usr/bin/scontrol
  local file=/etc/zf-tune/slurm.conf line empty=""
  # Not even `[[ -f $file ]]` before: it would hang like reading does.
  if ! bounded 0.3 head -c $((largest_text + 2)) -- "$file"; then
    [[ $answer == *'No such file'* || $say == quiet ]] || log "$file is not read, the defaults hold: $answer"
    return 0
  fi
  if [[ ${#answer} -gt $largest_text ]]; then
    [[ $say == quiet ]] || log "$file is not read, the defaults hold: it has more than $largest_text bytes"
    return 0
  fi
  while IFS= read -r line || [[ -n $line ]]; do
    case $line in
      program=* | plans=* | run=* | deadline=* | class=* | survey=* | strict=* | scontrol=*)
        # The value ends before the comment, and before the blanks at its end.
        [[ $line =~ ^([a-z]+)=([^#]*[^#[:space:]])? ]] || continue
        if [[ -n ${BASH_REMATCH[2]} ]]; then
          printf -v "${BASH_REMATCH[1]}" %s "${BASH_REMATCH[2]}"
        else
          empty=${BASH_REMATCH[1]}
        fi
        ;;
    esac
  done <<<"$answer"
  [[ -z $empty || $say == quiet ]] || log "$empty= has no value, so what it was before holds"
  # No answer comes within 0 s, and `timeout 0` sets no limit.
  if [[ ! $deadline =~ ^[0-9]{0,6}\.?[0-9]{1,6}$ || ! $deadline =~ ^[0-9]*[1-9]|\.[1-9] ]]; then
    [[ $say == quiet ]] ||
      log "deadline=${deadline:0:40} is not obeyed, 0.7 s is used: it must be a number of seconds, 0.1 or more"
    deadline=0.7
  fi
  cap_deadline
}

# cap_deadline: Slurm kills a Prolog or an Epilog after PrologEpilogTimeout (newer ones: also PrologTimeout and
# EpilogTimeout), and drains the node. So the deadline is at most 10 s, and at most the shortest of these times less
# 1.5 s for everything else. If that time is 1 or 2 s, the deadline is 0.7 s, and the log says that the time is too
# short. If slurm.conf cannot be read, the time may be short: the deadline is 0.7 s, and the log says why.
# Reads slurm.conf only for a deadline of 1 s or more.
cap_deadline() {
  local most=10 seconds="" name=PrologEpilogTimeout line whole=${deadline%%.*} why="" status
  local limit="no job waits longer for a plan"
  ((10#0$whole >= 1)) || return 0
  bounded 0.3 grep -iE '^[[:space:]]*(Prolog|Epilog|PrologEpilog)Timeout[[:space:]]*=' -- \
    "${SLURM_CONF:-/etc/slurm/slurm.conf}"
  status=$?
  [[ ${#answer} -le $largest_text ]] || status=2 answer="these lines have more than $largest_text bytes"
  case $status in
    0)
      while IFS= read -r line; do
        [[ $line =~ ^[[:space:]]*([[:alpha:]]+)[[:space:]]*=[[:space:]]*([0-9]{1,5})([^0-9]|$) ]] || continue
        if [[ -z $seconds ]] || ((10#${BASH_REMATCH[2]} < seconds)); then
          name=${BASH_REMATCH[1]} seconds=$((10#${BASH_REMATCH[2]}))
        fi
      done <<<"$answer"
      if [[ -n $seconds ]] && ((seconds < 12)); then
        most=$((seconds - 2)).5
        limit="Slurm drains a node if its Prolog takes longer than $name"
        if ((seconds < 3)); then
          most=0.7
          why=". $seconds s are too short for this Prolog if a file server hangs: set $name=4"
        fi
      fi
      ;;
    1) ;; # no such line
    *)
      most=0.7
      limit="Slurm drains a node if its Prolog takes longer than $name, which is not known: $answer"
      ;;
  esac
  [[ $(printf '%s\n' "$deadline" "$most" | sort -g | head -n 1) == "$deadline" ]] && return 0
  [[ ${say:-quiet} == quiet ]] ||
    log "deadline=$deadline is too long, $most s is used: $limit$why"
  deadline=$most
}

# bounded SECONDS COMMAND...: runs COMMAND. Returns its exit status, or 124 if it took too long. Sets $answer to its
# output, cut after $largest_text + 1 bytes.
bounded() {
  local seconds=$1 status=124
  shift
  if IFS= read -r -d '' -t "$seconds" answer < <(
    exec 2>/dev/null # slurmd reads our stderr until it is closed
    timeout --signal=KILL "$seconds" "$@" </dev/null 2>&1
    printf '\n%03d\0' "$?"
  ); then
    if [[ ${answer: -4} == $'\n'[0-9][0-9][0-9] ]]; then
      status=$((10#${answer: -3}))
      answer=${answer:0:${#answer}-4}
      [[ ${answer: -1} != $'\n' ]] || answer=${answer:0:${#answer}-1}
      answer=${answer:0:largest_text+1}
    else # COMMAND wrote a NUL byte
      status=1
      answer="$1 printed something that is not text"
    fi
  fi
  if [[ $status == 124 || $status == 137 ]]; then # timeout(1) also ends with 137 when it kills
    answer="no answer within $seconds s: a program or a file system hangs"
  fi
  [[ $status == 0 || $answer == *[[:graph:]]* ]] || answer="$1 ended with status $status and printed nothing"
  return "$status"
}

# log TEXT: writes one printable line to the system's log, whatever TEXT contains. Waits 0.2 s at most. On a busy node
# the line may come later: logger has a session of its own, because slurmd kills the process group of a script that
# ends.
log() {
  local text=${1:0:800} ended # cut first: the next line is slow for a long text
  text=${text//[^[:print:]]/ }
  IFS= read -r -t 0.2 ended < <(
    exec 2>/dev/null
    setsid timeout --signal=KILL 10 logger --tag zf-tune --priority daemon.notice -- "$text" </dev/null
  )
  return 0
}

# switched_off: true if the job has switched zf-tune off, by ZF_TUNE=off or by --comment=zf-tune=off.
switched_off() {
  kind_of_job
  [[ ${ZF_TUNE:-} =~ ^(off|0|no|false)$ || $kind == off ]]
}

# kind_of_job: sets $kind to NAME if the job was submitted with --comment=zf-tune=NAME, else to nothing. False if NAME
# can be no folder of plans: it is letters, digits, dashes and underscores.
kind_of_job() {
  kind=
  [[ ${SLURM_JOB_COMMENT:-} =~ (^|[[:space:],;])zf-tune=([^[:space:],;]*) ]] || return 0
  kind=${BASH_REMATCH[2]}
  [[ $kind =~ ^[A-Za-z0-9][A-Za-z0-9_-]*$ ]]
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

# only_root_writes_in FOLDER: true if FOLDER is no link and belongs to root, and neither its group nor others may write
# in it. The last two digits of a mode are those of the group and of others. Those who may write have 2, 3, 6 or 7
# there. A link has mode 777.
only_root_writes_in() {
  [[ $(stat --format='%u %a' -- "$1") =~ ^0\ ([0-7]*[0145])?[0145]$ ]]
}
