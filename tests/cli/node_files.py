"""What a captured node of four CPUs says besides what make_node() writes: a job's limits, processes, interrupts."""


def _process(pid: int, name: str, *cpus_of_threads: str) -> dict[str, str]:
    """Returns the files of a process, one list of CPUs per thread."""
    status = f"Name:\t{name}\nPPid:\t1\nCpus_allowed_list:\t"
    files = {f"proc/{pid}/cgroup": "0::/job", f"proc/{pid}/numa_maps": "7f6c default anon=12 N0=12 kernelpagesize_kB=4"}
    for tid, cpus in enumerate(cpus_of_threads, pid):
        files[f"proc/{pid}/task/{tid}/status"] = status + cpus
        files[f"proc/{pid}/task/{tid}/stat"] = f"{tid} ({name}) S 1 " + "0 " * 48
    return files


_BINDING = ("zf-binding/1 rank=0 framework=unknown started_on=home home=0-3 home_threads=4 training=0-1 threads=2 "
            "optimizer=2-3 mems=0 policy=preferred shared=no")
NODE_FILES = {
    "proc/cpuinfo": "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\nmodel name\t: A processor",
    "proc/meminfo": "MemTotal:        1048576 kB\nMemAvailable:    1000000 kB",
    "proc/self/status": "Name:\tzf-tune\nCpus_allowed_list:\t0-3\nMems_allowed_list:\t0",
    "proc/self/cgroup": "0::/job",
    "proc/self/mountinfo": "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw",
    "proc/self/limits": "Limit  Soft Limit  Hard Limit  Units\nMax locked memory         65536 65536 bytes",
    "proc/mounts": "tmpfs /dev/shm tmpfs rw,size=1024k 0 0",
    "proc/swaps": "Filename Type Size Used Priority\n/swapfile file 1000 10 -2",
    "proc/sys/vm/zone_reclaim_mode": "1",
    "proc/interrupts": "   CPU0 CPU1 CPU2 CPU3\n 30: 1 2 3 4 PCI-MSI eth0-rx",
    **_process(4242, "bound-late", "0-1", "0-3"),
    **_process(4343, "trainer", "1-2"),
    "proc/4343/environ": f"ZF_RANK=0\0ZF_PLAN=/plan.json\0SLURM_JOB_ID=4711\0ZF_BINDING={_BINDING}\0",
    "sys/fs/cgroup/cgroup.controllers": "cpuset cpu memory",
    "sys/fs/cgroup/job/cpuset.cpus.effective": "0-3",
    "sys/fs/cgroup/job/cpuset.mems.effective": "0",
    "sys/fs/cgroup/job/cpu.max": "300000 100000",
    "sys/fs/cgroup/job/cpu.stat": "nr_periods 100\nnr_throttled 50\nthrottled_usec 1000000",
    "sys/fs/cgroup/job/memory.max": "900000000",
    "sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave",
    "sys/devices/system/cpu/isolated": "3",
}
