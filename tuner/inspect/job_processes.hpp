// The processes that run under a plan. zf-tune exec set ZF_PLAN, ZF_RANK and ZF_BINDING in their environment.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/enum_names.hpp"
#include "inspect/processes.hpp"
#include "os/environment.hpp"
#include "os/sysroot.hpp"
#include "plan/process_binding.hpp"

namespace zf {

enum class Side { trainer, optimizer };

template <>
inline constexpr auto kEnumNames<Side> = std::to_array<EnumName<Side>>({{Side::trainer, "trainer"},
                                                                        {Side::optimizer, "optimizer"}});

struct JobProcess {
  ProcessState process;
  Side side = Side::trainer;  ///< optimizer: the process is called zf-optimizer
  int rank = 0;
  std::filesystem::path plan;                  ///< its ZF_PLAN; empty if it has none
  std::optional<MemoryByNode> memory;          ///< absent: unknown
  std::optional<ProcessBinding> binding = {};  ///< its own ZF_BINDING, if it has one
  std::string binding_fault = {};              ///< why its ZF_BINDING cannot be read; empty: it can
  /// What OpenMP binds its threads by, as "OMP_PROC_BIND=close"; set inside the job, or kept by --omp keep.
  std::vector<std::string> openmp = {};
  CpuSet available = {};  ///< see available_cpus(): the CPUs that it could use if it were not bound
};

/// Returns those of a process and its descendants that run under a plan. `rank` applies to processes without
/// a ZF_RANK. The rank of the others is local_rank(): a launcher under zf-tune exec may have started them as
/// other ranks.
std::vector<JobProcess> processes_below(const SysRoot& sysroot, int pid, std::optional<int> rank);

/// Returns every process of this node that zf-tune exec started and that this user may read. If `slurm_job`
/// is given, only processes of that job; if `plan` is given, only those under that file. (If exec retargeted
/// the plan, the job runs under a file of its own.)
std::vector<JobProcess> processes_of_job(const SysRoot& sysroot, const std::optional<std::string>& slurm_job,
                                         const std::optional<std::filesystem::path>& plan);

}  // namespace zf
