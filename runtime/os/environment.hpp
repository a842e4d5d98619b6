// Environment variables as a value, and the ranks and GPUs that launchers set in them.
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
  /// Returns a copy of this process's environment.
  static Environment of_this_process();

  std::optional<std::string> get(const std::string& name) const;
  const std::map<std::string, std::string>& all() const { return variables_; }
  /// Returns the variables as "NAME=value", as exec takes them.
  std::vector<std::string> words() const;

 private:
  std::map<std::string, std::string> variables_;
};

/// Returns true if ZF_TUNE is off, 0, no or false. Then no wrapper, hook or plan has any effect.
bool switched_off(const Environment& environment);

/// The number in a variable, and the name of the variable.
struct EnvNumber {
  int value;
  std::string variable;
};

/// Returns the local rank of this process, from the first of these variables that is set and not empty:
/// ZF_RANK, LOCAL_RANK (torchrun, DeepSpeed), OMPI_COMM_WORLD_LOCAL_RANK, MPI_LOCALRANKID (Intel MPI, MPICH),
/// MV2_COMM_WORLD_LOCAL_RANK, PMI_LOCAL_RANK, PALS_LOCAL_RANKID (Cray), SLURM_LOCALID. Slurm's variable comes
/// last, because everything that is started inside a task has it as well. In a batch script, which is no rank
/// and has SLURM_LOCALID=0, it does not count: there SLURM_JOB_ID is set, and SLURM_STEP_ID is not. ZF_RANK
/// is ignored if ZF_RANK_FROM differs from launchers_rank(): then a launcher that was itself started under
/// zf-tune exec has started more ranks. Throws Error(usage) with the variable if its value is not a whole
/// number of 0 or more.
std::optional<EnvNumber> local_rank(const Environment& environment);

/// Returns the variable that local_rank() uses without ZF_RANK, such as "LOCAL_RANK=3"; empty if none is set.
/// For Slurm, step and job are named too: "SLURM_LOCALID=0 SLURM_STEP_ID=2 SLURM_JOB_ID=4711". Throws like
/// local_rank().
std::string launchers_rank(const Environment& environment);

/// Returns how many ranks the launcher that set local_rank() has started on this node: LOCAL_WORLD_SIZE
/// (torchrun) or LOCAL_SIZE (DeepSpeed), OMPI_COMM_WORLD_LOCAL_SIZE, MPI_LOCALNRANKS,
/// MV2_COMM_WORLD_LOCAL_SIZE, PMI_LOCAL_SIZE, or our node's part (SLURM_NODEID) of SLURM_STEP_TASKS_PER_NODE,
/// such as "4(x2),1". If LOCAL_RANK has no count of its own, it is the count of the other launcher whose rank
/// it equals, provided that this launcher has started more than one. Returns nothing if the launcher does not
/// say, or if no launcher set a rank.
std::optional<EnvNumber> launched_ranks(const Environment& environment);

/// The GPUs that the job may see, named as in the variable: indexes or UUIDs.
struct VisibleDevices {
  std::vector<std::string> ids;  ///< empty: the variable hides all GPUs ("", "-1", "NoDevFiles")
  std::string variable;          ///< or "HIP_VISIBLE_DEVICES within ROCR_VISIBLE_DEVICES"
};

/// Who reads the variables: CUDA, or HIP on GPUs of AMD.
enum class GpuRuntime { cuda, hip };

/// Returns the list in one variable. As in the driver, the list ends at the first entry that names no device.
/// Returns nothing if the variable is not set; a variable that is set to nothing gives an empty list.
std::optional<VisibleDevices> devices_in(const Environment& environment, const std::string& variable);

/// Returns nothing if all GPUs are visible. Else:
/// - For CUDA, returns CUDA_VISIBLE_DEVICES if it is set. Otherwise returns the same as for HIP, because the
///   caller may not know the GPUs.
/// - For HIP, returns the part of ROCR_VISIBLE_DEVICES that HIP_VISIBLE_DEVICES selects. Its numbers are
///   positions in that list. HIP reads CUDA_VISIBLE_DEVICES if HIP_VISIBLE_DEVICES is not set or is empty.
std::optional<VisibleDevices> visible_devices(const Environment& environment,
                                              GpuRuntime runtime = GpuRuntime::cuda);

/// Returns how many local ranks this node has: the first of LOCAL_WORLD_SIZE, LOCAL_SIZE,
/// OMPI_COMM_WORLD_LOCAL_SIZE, MPI_LOCALNRANKS and SLURM_NTASKS_PER_NODE that is set, else the count of
/// visible_devices() unless it is 0. SLURM_TASKS_PER_NODE is not used: "4(x2),1" describes all nodes of a
/// job, not this one. Throws like local_rank(), for numbers below 1.
std::optional<EnvNumber> local_rank_count(const Environment& environment,
                                          GpuRuntime runtime = GpuRuntime::cuda);

}  // namespace zf
