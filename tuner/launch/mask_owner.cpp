#include "launch/mask_owner.hpp"

#include "launchers/launcher.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

bool is_whole_job(const Environment& environment, const CpuSet& seen) {
  const auto cpus = parse_number<std::size_t>(environment.get("SLURM_CPUS_ON_NODE").value_or(""));
  return cpus && seen.size() >= *cpus;
}

/// Returns true if Slurm binds the tasks of this step by masks that slurm_masks() cannot read.
bool binds_by_unnamed_masks(const Environment& environment) {
  const std::string type = environment.get("SLURM_CPU_BIND_TYPE").value_or("");
  return !type.empty() && !type.starts_with("none") && !type.starts_with("mask_cpu") &&
         !type.starts_with("map_cpu");
}

}  // namespace

bool may_bind_each_rank(const std::string& variable) {
  const Launcher* const launcher = launcher_of(variable);
  return launcher != nullptr && launcher->may_bind_each_rank;
}

bool sees_cpus_of_slurm_job(const Environment& environment, const std::string& rank, const std::string& count,
                            const CpuSet& seen, const CpuSet& of_job) {
  if (!environment.get("SLURM_JOB_ID")) return false;
  if (seen == of_job) return true;
  if (may_bind_each_rank(rank) || may_bind_each_rank(count)) return is_whole_job(environment, seen);
  return count != "SLURM_STEP_TASKS_PER_NODE" || !binds_by_unnamed_masks(environment);
}

}  // namespace zf
