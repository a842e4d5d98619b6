// The variables by which zf-tune exec --set-gpus shows a job the GPUs of its plan. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "os/environment.hpp"
#include "plan/plan.hpp"

namespace zf {

struct GpuSetting {
  std::map<std::string, std::string> variables;  ///< equal for all ranks; empty: none is set
  std::string note;                              ///< what is set, or why nothing is; one sentence
  bool spreads = false;                          ///< the ranks have RankBinding::spread_gpu, not `gpu`
};

/// Returns the variables that show a job of `ranks` ranks the plan's GPUs, in the order of the ranks:
/// RankBinding::spread_gpu if all ranks have one, else `gpu` and `more_gpus`. UUIDs are those of the host
/// where the plan was made; on another `host`, CUDA's numbers stand for them. Sets nothing if the user or a
/// launcher has set such a variable, or if the GPUs are not known, are shared by ranks, or are those of other
/// ranks.
GpuSetting gpu_setting(const Plan& plan, int ranks, std::string_view host, const Environment& environment);

/// Returns how --set-gpus would spread the ranks, as the plan offers; empty if it would not. One sentence.
std::string offered_gpus(const Plan& plan, int ranks, std::string_view host, const Environment& environment);

/// Returns the plan with each rank's spread_gpu in the place of its `gpu`. Precondition: all ranks have one.
Plan with_spread_gpus(Plan plan);

}  // namespace zf
