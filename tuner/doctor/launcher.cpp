// A launcher has bound this process already: what is outside its mask is lost to the plan.
#include <fmt/core.h>

#include "base/cpu_list.hpp"
#include "tuner/doctor/doctor.hpp"

namespace zf {
namespace {

std::string remedy_for(const Environment& environment) {
  if (environment.get("SLURM_JOB_ID")) return "srun --cpu-bind=none, and zf-tune exec before the command";
  if (environment.get("OMPI_COMM_WORLD_RANK"))
    return "mpirun --bind-to none, and zf-tune exec before the command";
  if (environment.get("TORCHELASTIC_RUN_ID"))
    return "torchrun without --numa-binding, and zf-tune exec before the command";
  return "start without taskset, numactl -C or the like, and with zf-tune exec before the command";
}

}  // namespace

std::vector<Finding> launcher_findings(const Patient& patient) {
  for (const Exclusion& exclusion : patient.allowed.exclusions) {
    if (exclusion.reason != ExclusionReason::affinity_mask) continue;
    const CpuSet lost = patient.plan ? exclusion.cpus & patient.cpus : exclusion.cpus;
    if (lost.empty()) continue;
    return {{patient.plan ? Severity::severe : Severity::warning,
             fmt::format("this process is already bound: CPUs {}{} are {}", print(lost),
                         patient.plan ? " of the plan" : "", exclusion.detail),
             remedy_for(patient.environment)}};
  }
  return {};
}

}  // namespace zf
