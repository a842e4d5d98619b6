// Environment variables as a value, and what launchers say in them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace zf {

class Environment {
 public:
  Environment() = default;
  explicit Environment(std::map<std::string, std::string> variables) : variables_(std::move(variables)) {}
  /// A copy of this process's own.
  static Environment of_this_process();

  std::optional<std::string> get(const std::string& name) const;
  const std::map<std::string, std::string>& all() const { return variables_; }
  /// "NAME=value", as exec takes them.
  std::vector<std::string> words() const;

 private:
  std::map<std::string, std::string> variables_;
};

/// ZF_TUNE=off (or 0, no, false): no wrapper, hook or plan has any effect.
bool switched_off(const Environment& environment);

/// A number that a variable holds, and which variable.
struct EnvNumber {
  int value;
  std::string variable;
};

/// Which local rank this process is: ZF_RANK, LOCAL_RANK (torchrun, DeepSpeed), OMPI_COMM_WORLD_LOCAL_RANK,
/// MPI_LOCALRANKID (Intel MPI, MPICH), MV2_COMM_WORLD_LOCAL_RANK, PMI_LOCAL_RANK, PALS_LOCAL_RANKID (Cray),
/// SLURM_LOCALID; the first that is set (an empty one is not). Slurm's comes last: a batch script has it as
/// well, and whatever is started there inherits it. ZF_RANK does not
/// count where ZF_RANK_FROM is not launchers_rank(): a launcher that was started under zf-tune exec has
/// started more ranks since. Throws Error(usage) with the variable when its value is no number of 0 and up.
std::optional<EnvNumber> local_rank(const Environment& environment);

/// "LOCAL_RANK=3": the variable that local_rank() takes when there is no ZF_RANK; empty: none is set.
std::string launchers_rank(const Environment& environment);

/// How many ranks the launcher that named local_rank() has started on this node: LOCAL_WORLD_SIZE (torchrun)
/// or LOCAL_SIZE (DeepSpeed), OMPI_COMM_WORLD_LOCAL_SIZE, MPI_LOCALNRANKS, MV2_COMM_WORLD_LOCAL_SIZE,
/// PMI_LOCAL_SIZE, SLURM_STEP_TASKS_PER_NODE ("4(x2),1", of which SLURM_NODEID is ours). Absent: it does not
/// say, or nothing does.
std::optional<EnvNumber> launched_ranks(const Environment& environment);

/// The GPUs that the job may see, as the variable names them: indexes or UUIDs.
struct VisibleDevices {
  std::vector<std::string> ids;  ///< empty: the variable hides them all ("", "-1", "NoDevFiles")
  std::string variable;
};

/// The list of one variable; as in the driver, it ends at the first entry that names no device. Absent: the
/// variable is not set (it may be set to nothing).
std::optional<VisibleDevices> devices_in(const Environment& environment, const std::string& variable);

/// CUDA_VISIBLE_DEVICES, else what HIP_VISIBLE_DEVICES leaves of ROCR_VISIBLE_DEVICES: its numbers count
/// within that list. Absent: all may be seen.
std::optional<VisibleDevices> visible_devices(const Environment& environment);

/// How many local ranks this node has: LOCAL_WORLD_SIZE, LOCAL_SIZE, OMPI_COMM_WORLD_LOCAL_SIZE,
/// MPI_LOCALNRANKS, SLURM_NTASKS_PER_NODE, the first that is set; then the count of visible_devices, unless
/// it is 0. SLURM_TASKS_PER_NODE is not asked: "4(x2),1" counts the nodes of a job, not this one. Throws as
/// above, for numbers of 1 and up.
std::optional<EnvNumber> local_rank_count(const Environment& environment);

}  // namespace zf
