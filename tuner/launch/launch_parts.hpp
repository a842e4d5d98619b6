// What resolve_launch() asks in turn about this process and this node.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/launch.hpp"
#include "launch/launch_request.hpp"
#include "machine/machine.hpp"
#include "os/allowed.hpp"
#include "os/environment.hpp"
#include "plan/plan.hpp"

namespace zf {

/// Returns the launch that an outer zf-tune exec has prepared for this rank by the same plan, by its
/// ZF_BINDING; nothing if there is none, if the plan has changed since, or if it does not fit here any more.
/// Pure.
std::optional<Launch> outer_launch(const Plan& plan, const LaunchRequest& request, const Allowed& allowed,
                                   const Environment& environment);

/// Returns this process's local rank and its source. Throws Error(usage) if the rank is unknown. Pure.
EnvNumber launch_rank(const Plan& plan, const LaunchRequest& request, const Environment& environment);

/// Returns how many ranks run on this node: the request's number, else the launcher's, else the plan's. Pure.
int launch_rank_count(const Plan& plan, const LaunchRequest& request, const Environment& environment);

/// Returns the way to read the machine that gives every rank of a node the same answer. It asks no driver,
/// and reads no speeds, because these change.
MachineSource source_for_all_ranks();

/// A plan for this node, and a note if its homes are not those of the file.
struct PlanHere {
  Plan plan;
  std::vector<std::string> notes = {};
};

/// Returns the plan with homes near this node's GPUs, as `zf-tune publish` does, if PCI shows other GPUs than
/// the plan has, or shows them elsewhere. Every rank does this by itself. All find the same plan, because PCI
/// shows all of them the same. If the homes cannot be fitted, the plan stays as it is, and a note says why.
PlanHere fitted_to_gpus_here(const Plan& plan, const std::string& path);

/// The variables by which --set-gpus shows a job the GPUs of its plan.
struct GpuSetting {
  std::map<std::string, std::string> variables;  ///< equal for all ranks; empty: none is set
  std::string note;                              ///< what is set, or why nothing is; one sentence
  bool spreads = false;                          ///< the ranks have RankBinding::spread_gpu, not `gpu`
};

/// Returns the variables that show a job of `ranks` ranks the plan's GPUs, in the order of the ranks:
/// RankBinding::spread_gpu if all ranks have one, else `gpu` and `more_gpus`. UUIDs are those of the host
/// where the plan was made; on another `host`, CUDA's numbers stand for them. Sets nothing if the user or a
/// launcher has set such a variable, or if the GPUs are not known, are shared by ranks, or are those of other
/// ranks. Pure.
GpuSetting gpu_setting(const Plan& plan, int ranks, std::string_view host, const Environment& environment);

/// Returns how --set-gpus would spread the ranks, as the plan offers; empty if it would not. One sentence.
/// Pure.
std::string offered_gpus(const Plan& plan, int ranks, std::string_view host, const Environment& environment);

/// Returns the plan with each rank's spread_gpu in the place of its `gpu`. Pure. Precondition: all ranks have
/// one.
Plan with_spread_gpus(Plan plan);

}  // namespace zf
