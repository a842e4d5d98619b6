// Variables of launchers: any values give ranks, GPUs and masks that can be, or an Error.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>

#include "base/error.hpp"
#include "launch/slurm_masks.hpp"
#include "launchers/local_rank.hpp"
#include "os/environment.hpp"

namespace {

/// Line number i of an input is the value of variable number i. Those after the last line are not set.
constexpr std::array kVariables = {"LOCAL_RANK",
                                   "LOCAL_WORLD_SIZE",
                                   "SLURM_JOB_ID",
                                   "SLURM_STEP_ID",
                                   "SLURM_LOCALID",
                                   "SLURM_NODEID",
                                   "SLURM_STEP_TASKS_PER_NODE",
                                   "SLURM_NTASKS_PER_NODE",
                                   "SLURM_CPU_BIND_TYPE",
                                   "SLURM_CPU_BIND_LIST",
                                   "CUDA_VISIBLE_DEVICES",
                                   "HIP_VISIBLE_DEVICES",
                                   "ROCR_VISIBLE_DEVICES",
                                   "OMPI_COMM_WORLD_LOCAL_RANK",
                                   "OMPI_COMM_WORLD_LOCAL_SIZE",
                                   "MPI_LOCALRANKID",
                                   "MPI_LOCALNRANKS",
                                   "MV2_COMM_WORLD_LOCAL_RANK",
                                   "MV2_COMM_WORLD_LOCAL_SIZE",
                                   "PMI_LOCAL_RANK",
                                   "PMI_LOCAL_SIZE",
                                   "PALS_LOCAL_RANKID",
                                   "LOCAL_SIZE",
                                   "ZF_RANK",
                                   "ZF_RANK_FROM",
                                   "ZF_TUNE",
                                   "PALS_LOCAL_SIZE",
                                   "JSM_NAMESPACE_LOCAL_RANK",
                                   "JSM_NAMESPACE_LOCAL_SIZE",
                                   "FLUX_TASK_LOCAL_ID",
                                   "FLUX_JOB_SIZE",
                                   "FLUX_JOB_NNODES"};

zf::Environment environment_of(const std::string& text) {
  std::map<std::string, std::string> variables;
  std::istringstream lines(text);
  std::string value;
  for (const char* name : kVariables) {
    if (!std::getline(lines, value)) break;
    if (value != "-") variables[name] = value;  // "-": not set, though a later one is
  }
  return zf::Environment(variables);
}

void require(bool holds) {
  if (!holds) std::abort();
}

/// Calls read(), which may throw an Error.
template <class Read>
void try_to(Read read) {
  try {
    read();
  } catch (const zf::Error&) {
    return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const zf::Environment environment = environment_of({reinterpret_cast<const char*>(data), size});
  zf::switched_off(environment);
  try_to([&] { zf::launchers_rank(environment); });
  try_to([&] {
    if (const auto rank = zf::local_rank(environment)) require(rank->value >= 0);
  });
  try_to([&] {
    if (const auto ranks = zf::launched_ranks(environment)) require(ranks->value >= 1);
  });
  for (const zf::GpuRuntime runtime : {zf::GpuRuntime::cuda, zf::GpuRuntime::hip}) {
    zf::visible_devices(environment, runtime);
    try_to([&] {
      if (const auto ranks = zf::local_rank_count(environment, runtime)) require(ranks->value >= 1);
    });
  }
  for (const zf::CpuSet& mask : zf::slurm_masks(environment)) require(!mask.empty());
  return 0;
}
