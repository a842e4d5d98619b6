#!/usr/bin/env bash
# A private Slurm of one machine: starts munged, slurmctld and slurmd, runs a script beside them, stops them.
# usage: lab.sh SCRIPT            (a bash script, with the functions below; its exit code is the lab's)
#
# Runs as root in namespaces of its own (lab.py), or in a guest. What slurm.conf is to say comes from /opt/zf-lab:
#   slurm.conf   more lines; a NodeName line of its own replaces that of this machine
#   cgroup.conf  as it is; without it nothing is confined
#   node.sh      starts a slurmd (node.sh NODE COMMAND...), in mounts of its own
# shellcheck disable=SC2317  # functions are called by until_true and by scripts
set -uo pipefail
export PATH=/opt/zf-lab/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
given=/opt/zf-lab
lab=/run/lab
daemons=()

start() { # start NAME COMMAND...
  "${@:2}" </dev/null >>"$lab/log/$1.out" 2>&1 &
  daemons+=("$!")
}

# until_true SECONDS COMMAND...
until_true() {
  local end=$((SECONDS + $1))
  until "${@:2}"; do
    [[ $SECONDS -lt $end ]] || return 1
    sleep 0.1
  done
}

write_conf() {
  local nodes=() node port=17830
  mapfile -t nodes < <(grep '^NodeName=' "$given/slurm.conf")
  [[ ${#nodes[@]} -gt 0 ]] ||
    nodes=("NodeName=lab $(slurmd -C | head -n 1 | cut -d' ' -f2- | sed 's/RealMemory=[0-9]*/RealMemory=500/')")
  cat <<CONF
ClusterName=lab
SlurmctldHost=lab(127.0.0.1)
SlurmctldPort=17829
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$lab/munge/socket
StateSaveLocation=$lab/state
SlurmdSpoolDir=$lab/spool/%n
SlurmctldPidFile=$lab/slurmctld.pid
SlurmdPidFile=$lab/slurmd-%n.pid
SlurmctldLogFile=$lab/log/slurmctld
SlurmdLogFile=$lab/log/slurmd-%n
SlurmctldDebug=info
SlurmdDebug=verbose
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0,bf_interval=1
JobAcctGatherType=jobacct_gather/none
ReturnToService=0
SlurmdParameters=config_overrides
KillWait=2
MinJobAge=300
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
  grep -v '^NodeName=' "$given/slurm.conf"
  for node in "${nodes[@]}"; do
    echo "$node NodeHostname=lab NodeAddr=127.0.0.1 Port=$((port++)) State=UNKNOWN"
  done
}

node_names() { sed -n 's/^NodeName=\([^ ]*\).*/\1/p' /etc/slurm/slurm.conf; }
nodes_idle() { [[ $(sinfo -h -N -o '%t' 2>/dev/null | sort -u) == idle ]]; }

up() {
  hostname lab
  echo 127.0.0.1 lab >>/etc/hosts
  # Slurm asks for names with AI_ADDRCONFIG, which finds nothing where there is only loopback's own address.
  ip addr add 192.0.2.1/32 dev lo
  mkdir -p "$lab"/{state,spool,log,munge}
  cd "$lab" || return # what a script or a daemon writes beside it is the lab's own
  chmod 755 "$lab" "$lab/munge"
  busybox syslogd -n -O "$lab/log/syslog" &
  daemons+=("$!")
  head -c 128 /dev/urandom >"$lab/munge/key"
  chmod 600 "$lab/munge/key"
  start munged munged --force -F --key-file="$lab/munge/key" --socket="$lab/munge/socket" --num-threads=2 \
    --pid-file="$lab/munge/pid" --log-file="$lab/log/munged" --seed-file="$lab/munge/seed"
  mkdir -p /etc/slurm
  write_conf >/etc/slurm/slurm.conf
  [[ ! -e $given/cgroup.conf ]] || cp "$given/cgroup.conf" /etc/slurm/
  until_true 10 test -S "$lab/munge/socket" || return
  start slurmctld slurmctld -D -i
  local node around=()
  for node in $(node_names); do
    mkdir -p "$lab/spool/$node"
    [[ ! -e $given/node.sh ]] || around=(unshare -m "$given/node.sh" "$node")
    start "slurmd-$node" "${around[@]}" slurmd -D -N "$node"
  done
  until_true 60 nodes_idle
}

down() {
  kill -TERM "${daemons[@]}"
  (sleep 5 && kill -KILL "${daemons[@]}") 2>/dev/null &
  wait "${daemons[@]}" 2>/dev/null
}

# For scripts. A user like any other:
as_user() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
# What our scripts said to syslog:
said() { sed -n 's/^.\{15\} [^ ]* [^ ]* zf-tune: //p' "$lab/log/syslog"; }
# class_plan [OPTION...]: a plan for this node, made without measuring, where the Prolog looks for it.
class_plan() {
  mkdir -p /etc/zf-tune/plans
  zf-tune plan -q --mode overlap -o "/etc/zf-tune/plans/$(node_class).json" "$@" 2>/dev/null
}
node_class() { zf-tune probe --format json | grep -m 1 '"fingerprint"' | cut -d'"' -f4; }
job_gone() { [[ -z $(squeue -h -o %i 2>/dev/null) ]]; }
# "planned" is a mark of the scheduler at a node for which a job has waited. It goes with the scheduler's next round.
not_planned() { [[ $(sinfo -h -o %T) != planned ]]; }
node_state() { until_true 10 not_planned; sinfo -h -o 'node is %T'; }
export lab
export -f as_user said class_plan node_class job_gone nodes_idle not_planned node_state until_true

if ! up; then
  echo "lab: Slurm did not come up" >&2
  tail -n 20 "$lab"/log/* >&2
  exit 99
fi
bash "$1"
code=$?
until_true 10 job_gone
if [[ $code -ne 0 ]]; then tail -n 40 "$lab"/log/slurm* "$lab/log/syslog" >&2; fi
down
exit "$code"
