#include "launchers/launcher.hpp"

#include <algorithm>

#include "base/format.hpp"

namespace zf {
namespace {

constexpr std::array kLaunchers{
    // torchrun, and accelerate and Ray in the same way; LOCAL_SIZE is DeepSpeed's.
    Launcher{.rank = "LOCAL_RANK", .counts = {"LOCAL_WORLD_SIZE", "LOCAL_SIZE"}},
    // Open MPI
    Launcher{.rank = "OMPI_COMM_WORLD_LOCAL_RANK",
             .counts = {"OMPI_COMM_WORLD_LOCAL_SIZE"},
             .unbind = "mpirun --bind-to none",
             .may_bind_each_rank = true},
    // Intel MPI, MPICH
    Launcher{.rank = "MPI_LOCALRANKID",
             .counts = {"MPI_LOCALNRANKS"},
             .unbind = "mpiexec -bind-to none (Intel MPI: I_MPI_PIN=off)",
             .may_bind_each_rank = true},
    // MVAPICH2
    Launcher{.rank = "MV2_COMM_WORLD_LOCAL_RANK",
             .counts = {"MV2_COMM_WORLD_LOCAL_SIZE"},
             .unbind = "MV2_ENABLE_AFFINITY=0",
             .may_bind_each_rank = true},
    // MPICH by PMI, Cray MPICH
    Launcher{.rank = "PMI_LOCAL_RANK",
             .counts = {"PMI_LOCAL_SIZE"},
             .unbind = "mpiexec -bind-to none",
             .may_bind_each_rank = true},
    // Cray PALS
    Launcher{.rank = "PALS_LOCAL_RANKID",
             .counts = {"PALS_LOCAL_SIZE"},
             .unbind = "mpiexec --cpu-bind none",
             .may_bind_each_rank = true},
    // jsrun of LSF
    Launcher{.rank = "JSM_NAMESPACE_LOCAL_RANK",
             .counts = {"JSM_NAMESPACE_LOCAL_SIZE"},
             .unbind = "jsrun --bind none",
             .may_bind_each_rank = true,
             .may_start_launchers = true},
    // Flux. A batch script has none of these: flux-environment(7), "initial program environment".
    Launcher{.rank = "FLUX_TASK_LOCAL_ID",
             .counts = {"FLUX_JOB_SIZE", "FLUX_JOB_NNODES"},
             .rule = CountRule::quotient,
             .job = {"FLUX_JOB_ID"},
             .unbind = "flux run -o cpu-affinity=off",
             .may_bind_each_rank = true,
             .may_start_launchers = true},
    // Slurm. Its variables also tell how it binds: launch/slurm_masks.hpp.
    Launcher{.rank = "SLURM_LOCALID",
             .counts = {"SLURM_STEP_TASKS_PER_NODE", "SLURM_NODEID"},
             .rule = CountRule::per_node,
             .job = {"SLURM_STEP_ID", "SLURM_JOB_ID"},
             .asked_count = "SLURM_NTASKS_PER_NODE",
             .may_start_launchers = true},
};

}  // namespace

std::span<const Launcher> launchers() { return kLaunchers; }

std::string count_name(const Launcher& launcher) {
  if (launcher.rule != CountRule::quotient) return launcher.counts[0];
  return format_text("{} / {}", launcher.counts[0], launcher.counts[1]);
}

const Launcher* launcher_of(std::string_view variable) {
  const auto is = [&](const char* name) { return name != nullptr && variable == name; };
  const auto sets = [&](const Launcher& launcher) {
    return is(launcher.rank) || is(launcher.counts[0]) || is(launcher.counts[1]) ||
           is(launcher.asked_count) || variable == count_name(launcher);
  };
  const auto found = std::find_if(kLaunchers.begin(), kLaunchers.end(), sets);
  return found == kLaunchers.end() ? nullptr : &*found;
}

}  // namespace zf
