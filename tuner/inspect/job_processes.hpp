// The processes that run under a plan: zf-tune exec has left ZF_PLAN and ZF_RANK in their environment.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "inspect/processes.hpp"
#include "os/environment.hpp"
#include "os/sysroot.hpp"

namespace zf {

enum class Side { trainer, optimizer };

struct JobProcess {
  ProcessState process;
  Side side = Side::trainer;  ///< optimizer: it is called zf-optimizer
  int rank = 0;
  std::filesystem::path plan;          ///< its ZF_PLAN; empty: it has none
  std::optional<MemoryByNode> memory;  ///< absent: cannot be told
};

/// A process and its descendants, as far as they run under a plan. `rank`: taken for those that do not say.
std::vector<JobProcess> processes_below(const SysRoot& sysroot, int pid, std::optional<int> rank);

/// Every process of this node that zf-tune exec started and that we may look at: where `slurm_job` is given,
/// of that job alone; where `plan` is given, under that file alone (exec may have fitted the plan to the
/// allocation, and then the job runs under a file of its own).
std::vector<JobProcess> processes_of_job(const SysRoot& sysroot, const std::optional<std::string>& slurm_job,
                                         const std::optional<std::filesystem::path>& plan);

/// Two names of one file, the one in ZF_PLAN for instance. It need not be there.
bool same_file(const std::filesystem::path& a, const std::filesystem::path& b);

}  // namespace zf
