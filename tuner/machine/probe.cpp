#include "machine/probe.hpp"

#include <array>
#include <utility>

#include "launchers/local_rank.hpp"

namespace zf {
namespace {

/// The variables to look at when a job runs on the wrong CPUs. Slurm sets a hundred more.
constexpr std::array kSlurmVariables{
    "SLURM_JOB_ID",           "SLURM_STEP_ID",       "SLURMD_NODENAME",    "SLURM_NODEID",
    "SLURM_PROCID",           "SLURM_LOCALID",       "SLURM_NTASKS",       "SLURM_NTASKS_PER_NODE",
    "SLURM_TASKS_PER_NODE",   "SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE", "SLURM_JOB_CPUS_PER_NODE",
    "SLURM_THREADS_PER_CORE", "SLURM_DISTRIBUTION",  "SLURM_CPU_BIND",     "SLURM_CPU_BIND_TYPE",
    "SLURM_CPU_BIND_LIST",    "SLURM_MEM_BIND",      "SLURM_MEM_PER_NODE", "SLURM_MEM_PER_CPU",
    "SLURM_GPUS_ON_NODE",     "SLURM_GPUS_PER_TASK", "SLURM_JOB_GPUS",     "SLURM_STEP_GPUS",
};

}  // namespace

Probe probe_of(Machine machine, const Environment& environment, std::optional<int> ranks_option,
               GpuShare share) {
  Probe probe;
  probe.ranks = rank_count_of(ranks_option, environment, machine.topology, share);
  probe.gpus = rank_gpus(environment, machine.topology, probe.ranks.count, share);
  if (machine.topology.is_this_machine) {  // this job's variables do not describe another machine
    probe.local_rank = local_rank(environment);
    for (const char* name : kSlurmVariables) {
      if (auto value = environment.get(name)) probe.slurm[name] = *std::move(value);
    }
  }
  probe.machine = std::move(machine);
  return probe;
}

}  // namespace zf
