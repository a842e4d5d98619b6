// The processes that run under a plan: zf-tune exec has left ZF_PLAN and ZF_RANK in their environment.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "os/environment.hpp"
#include "os/sysroot.hpp"
#include "tuner/numa_maps.hpp"
#include "tuner/processes.hpp"

namespace zf {

enum class Side { trainer, optimizer };

struct JobProcess {
  ProcessState process;
  Side side = Side::trainer;  ///< optimizer: it is called zf-optimizer
  int rank = 0;
  std::optional<MemoryByNode> memory;  ///< absent: cannot be told
};

/// A process and its descendants, as far as they run under a plan. `rank`: taken for those that do not say.
std::vector<JobProcess> processes_below(const SysRoot& sysroot, int pid, std::optional<int> rank);

/// Every process of this node that runs under this plan; inside a Slurm job (`environment`), of that job
/// alone.
std::vector<JobProcess> processes_under(const SysRoot& sysroot, const std::filesystem::path& plan,
                                        const Environment& environment);

}  // namespace zf
