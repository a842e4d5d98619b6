#!/usr/bin/env bash
# Writes down this machine and this allocation for a bug report: files of /proc and /sys, and hwloc's XML.
# usage: scripts/capture-machine.sh [NAME]     leaves NAME.tar.gz (default: the host's name) in this folder
#
# To look at it elsewhere:  zf-tune probe --sysroot NAME/root --topology NAME/topology.xml
# It holds names of cgroups, mounts and hardware, and launchers' variables; no other environment, no files.
set -euo pipefail
shopt -s nullglob

case ${1:-} in
  -h | --help)
    sed -n '2,6s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit 0
    ;;
esac
name=${1:-$(uname -n)}
[[ $name =~ ^[A-Za-z0-9._-]+$ ]] || { echo "capture-machine: '$name' is no plain file name" >&2 && exit 2; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/$name/root"

# Files of /proc and /sys say "4096 bytes" whatever they hold, and some refuse to be read: cat, one by one.
# /proc/self must be this shell: its cgroup and mask are the caller's, and any child has the same.
copy() {
  local path target
  for path; do
    target=$work/$name/root$path
    [[ -r $path ]] || continue
    mkdir -p "${target%/*}"
    cat "$path" >"$target" 2>/dev/null || rm -f "$target"
  done
}

copy /proc/cpuinfo /proc/meminfo /proc/version /proc/self/{status,cgroup,mountinfo,cpuset}
copy /sys/devices/system/cpu/{online,offline,possible,present,isolated,nohz_full} /proc/sys/kernel/sched_itmt_enabled
copy /sys/devices/system/cpu/cpu[0-9]*/{online,topology/*,cache/index*/*,acpi_cppc/highest_perf,cpu_capacity}
copy /sys/devices/system/cpu/cpu[0-9]*/cpufreq/{base_frequency,cpuinfo_max_freq,scaling_max_freq}
copy /sys/devices/cpu_{core,atom}/cpus
copy /sys/bus/pci/devices/*/{class,vendor,device,subsystem_vendor,subsystem_device,local_cpus,numa_node}
copy /sys/bus/pci/devices/*/{uevent,unique_id} /sys/class/kfd/kfd/topology/nodes/*/properties
copy /sys/devices/system/cpu/{amd_pstate/prefcore,cpufreq/boost,intel_pstate/no_turbo}
copy /sys/devices/system/node/{online,possible,has_memory,has_cpu,has_normal_memory}
copy /sys/devices/system/node/node[0-9]*/{cpulist,cpumap,distance,meminfo}

# The device nodes of GPUs: their names below the device, and which of them this user may open. No driver is asked.
for path in /sys/bus/pci/devices/*/{drm,accel}/*; do
  mkdir -p "$work/$name/root$path"
done
for path in /dev/null /dev/kfd /dev/nvidia[0-9]* /dev/dri/renderD*; do
  [[ -r $path && -w $path ]] || continue
  mkdir -p "$work/$name/root${path%/*}"
  : >"$work/$name/root$path"
done

# The control groups of this process: where each hierarchy is mounted, and every level from there to ours.
# Inside a container the path of /proc/self/cgroup may not exist below the mount; then the mount's root is ours.
copy_cgroup() {
  local level=$1
  copy "$level"/{cpuset.cpus,cpuset.cpus.effective,cpuset.effective_cpus,cpuset.mems,cpuset.mems.effective} \
    "$level"/{cpuset.effective_mems,cpu.cfs_quota_us,cpu.cfs_period_us,cpu.max,cgroup.controllers} \
    "$level"/{memory.limit_in_bytes,memory.max,memory.high}
}
mapfile -t mounts < <(awk '/ - cgroup2? / { print $5 }' /proc/self/mountinfo)
while IFS=: read -r _ _ group; do
  for mount in "${mounts[@]}"; do
    path=$group
    while [[ $path == /?* ]]; do
      [[ ! -d $mount$path ]] || copy_cgroup "$mount$path"
      path=${path%/*}
    done
    copy_cgroup "$mount"
  done
done </proc/self/cgroup

launchers='ZF_RANK|LOCAL_|OMPI_COMM_|MPI_LOCAL|MV2_COMM_|PMI_|PALS_|JSM_NAMESPACE_|FLUX_(JOB|TASK)_|SLURM_'
devices='CUDA_VISIBLE|NVIDIA_VISIBLE|ROCR_VISIBLE|HIP_VISIBLE|ZE_AFFINITY|HABANA_VISIBLE|ASCEND_RT_VISIBLE'
env | grep -E "^($launchers|$devices|OMP_|GOMP_|KMP_)" |
  grep -viE 'key|token|secret|passw' | sort >"$work/$name/environment" || true

if command -v lstopo-no-graphics >/dev/null; then
  lstopo-no-graphics --disallowed --of xml "$work/$name/topology.xml"
else
  echo "capture-machine: no lstopo-no-graphics, so no topology.xml; to have it: apt-get install hwloc-nox" >&2
fi

tar -C "$work" -czf "$name.tar.gz" "$name"
echo "$name.tar.gz: $(($(stat -c %s "$name.tar.gz") / 1024)) KiB, $(find "$work/$name" -type f | wc -l) files"
(cd "$work/$name" && find . -type f | cut -d/ -f2-5 | sed 's/cpu[0-9]\+$/cpuN/; s/node[0-9]\+$/nodeN/' | sort | uniq -c)
