// Says what the reader of a plan types next.
#include "report/page_parts.hpp"

#include "base/format.hpp"
#include "base/text.hpp"
#include "report/comparisons.hpp"
#include "text/command_line.hpp"

namespace zf {
namespace {

/// Stands for a job that is not known.
constexpr const char* kExample = "python train.py";

bool is_deepspeed(Framework framework) {
  return framework == Framework::deepspeed_offload || framework == Framework::deepspeed_zenflow ||
         framework == Framework::superoffload;
}

/// Returns how DeepSpeed's own launcher is told the plan.
NextStep told_to_deepspeed(const std::string& plan) {
  return {{format_text("zf-tune export --for deepspeed --config ds.json -o with-plan.json {}", plan),
           format_text("$(zf-tune export -q --for deepspeed {}) train.py --deepspeed_config with-plan.json",
                       plan)},
          "Put your job in place of train.py, and its configuration in place of ds.json."};
}

/// Returns the start of a job that a trial ran. With several ranks, it starts `zf-tune exec` by itself.
NextStep tried_job(const Plan& plan, const std::string& file) {
  const std::string command = one_line(plan.trial->command);
  return {{plan.ranks.size() > 1 ? format_text("ZF_PLAN={} {}", file, command)
                                 : format_text("zf-tune exec --plan {} -- {}", file, command)},
          "This is the job that was tried."};
}

}  // namespace

NextStep next_step(const Plan& plan, const std::string& plan_file) {
  if (plan.evidence.isa == kSimulated)
    return {{"zf-tune tune"},
            "The machine of this plan was simulated. This measures yours, and makes its plan."};
  const std::string file = shell_quoted(plan_file);
  if (is_unbound_better(plan)) return {{}, "Start your job as it is, without zf-tune exec."};
  if (plan.trial) return tried_job(plan, file);
  const Framework framework = plan.workload.framework;
  if (plan.intent.for_deepspeed &&
      (framework == Framework::deepspeed_zenflow || framework == Framework::superoffload))
    return told_to_deepspeed(file);
  const std::string exec = format_text("zf-tune exec --plan {} -- {}", file, kExample);
  NextStep next{{exec}, format_text("Put your job's command in place of {}.", kExample)};
  if (plan.ranks.size() > 1) {
    next.commands = {is_deepspeed(framework) ? format_text("deepspeed --no_python {}", exec)
                                             : format_text("torchrun --nproc-per-node {} --no-python {}",
                                                           plan.ranks.size(), exec)};
    next.words =
        format_text("Put your job in place of {}, and your launcher in place of this one.", kExample);
  }
  if (plan.evidence.candidates.empty()) next.words += " To measure first: zf-tune tune.";
  return next;
}

}  // namespace zf
