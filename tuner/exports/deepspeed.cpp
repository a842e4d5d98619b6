// Writes what the launcher, ZenFlow and SuperOffload of DeepSpeed 0.19.8 read. homes/deepspeed_homes.cpp
// describes how they read it.

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "exports/deepspeed_settings.hpp"
#include "exports/export.hpp"
#include "homes/deepspeed_homes.hpp"

namespace zf {
namespace {

std::string launcher_command(const ExportInput& input) {
  CpuSet list;
  for (const RankBinding& rank : input.ranks) list |= rank.both_sides();
  return format_text("deepspeed --num_gpus {} --bind_cores_to_rank --bind_core_list {}", input.ranks.size(),
                     print(list));
}

/// Returns "4 of 8 CPUs of a rank train".
std::string sides_in_words(const RankBinding& rank) {
  const std::string all = print_count(rank.both_sides().size(), "CPU");
  return rank.shared ? format_text("both sides share the {} of a rank", all)
                     : format_text("{} of {} of a rank train", rank.training.cpus.size(), all);
}

/// Returns "default 0.8, which trains on 1".
std::string default_in_words(const DeepSpeedSetting& setting) {
  return format_text("default {}, which trains on {}", setting.usual, setting.usual_training);
}

Export command_export(const ExportInput& input, const std::vector<DeepSpeedSetting>& settings) {
  Export result{launcher_command(input) + "\n", {}};
  result.notes.push_back("the script and its options follow: ... train.py --deepspeed_config ds.json");
  for (const DeepSpeedSetting& setting : settings) {
    result.notes.push_back(format_text("for {} set {} to {:.6g} ({}): {}; --config ds.json does this",
                                       setting.optimizer, path_of(setting), setting.value,
                                       default_in_words(setting), sides_in_words(input.ranks.front())));
  }
  return result;
}

Export config_export(const ExportInput& input, const DeepSpeedOptimizer& optimizer,
                     const std::vector<DeepSpeedSetting>& settings) {
  const std::string name = input.config->path.string();
  Export result;
  if (settings.empty()) {
    result.text = input.config->text;
    result.notes.push_back(
        format_text("{} has neither ZenFlow nor SuperOffload: nothing is merged in, "
                    "and the step runs on all CPUs of a rank",
                    name));
  }
  for (const DeepSpeedSetting& setting : settings) {
    MergedConfig config = merged(*input.config, setting);
    result.text = std::move(config.text);
    result.notes.push_back(format_text(
        "{} is now {:.6g} ({}): {}", path_of(setting), setting.value,
        config.former ? format_text("{} has {}", name, *config.former) : default_in_words(setting),
        optimizer.divides ? sides_in_words(input.ranks.front()) : "for a job that turns overlap_step on"));
  }
  const Mode mode = optimizer.divides ? Mode::overlap : Mode::wait;
  if (optimizer.framework == Framework::deepspeed_zenflow && input.plan.workload.mode != mode) {
    result.notes.push_back(format_text(
        "the plan is for mode {}, and ZenFlow with{} overlap_step runs in mode {}: plan with --mode {}",
        name_of(input.plan.workload.mode), optimizer.divides ? "" : "out", name_of(mode), name_of(mode)));
  }
  result.notes.push_back(format_text("start the job with this file: {} train.py --deepspeed_config ...",
                                     launcher_command(input)));
  return result;
}

}  // namespace

Export deepspeed_export(const ExportInput& input) {
  const DeepSpeedOptimizer optimizer =
      input.config ? deepspeed_optimizer(*input.config) : deepspeed_optimizer(input.plan);
  if (const auto why = why_not_deepspeed(input.ranks, input.plan.machine.cores, optimizer.framework)) {
    if (input.plan.allocation.shared_cpus) {
      throw Error(Exit::infeasible, format_text("DeepSpeed cannot be told this plan: {}", *why),
                  "make a plan for CPUs of the job's own: zf-tune tune --for deepspeed --allowed LIST");
    }
    throw Error(
        Exit::infeasible, format_text("DeepSpeed cannot be told this plan: {}", *why),
        format_text("make a plan that it can be told: zf-tune tune --for deepspeed{}",
                    optimizer.framework == Framework::superoffload ? " --framework superoffload" : ""));
  }
  const auto settings = deepspeed_settings(input.ranks.front(), optimizer);
  Export result = input.config ? config_export(input, optimizer, settings) : command_export(input, settings);
  for (std::string& note : deepspeed_differences(input.plan, optimizer)) {
    result.notes.push_back(std::move(note));
  }
  return result;
}

}  // namespace zf
