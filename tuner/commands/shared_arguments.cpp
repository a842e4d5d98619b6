#include "commands/shared_arguments.hpp"

#include <utility>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "commands/terminal.hpp"
#include "os/standard_streams.hpp"
#include "plan/plan_json.hpp"
#include "planning/plan_differences.hpp"
#include "text/nearest.hpp"
#include "text/table.hpp"

namespace zf {

void refuse_word(const Arguments& arguments, const std::string& option, std::string_view word,
                 const std::string& known) {
  throw Error(Exit::usage,
              format_text("zf-tune {}: --{}: \"{}\" is not known", arguments.command, option, word),
              did_you_mean(word, known).value_or("give one of " + known));
}

MachineSource machine_source(const Arguments& arguments) {
  MachineSource source;
  source.topology = arguments.text("topology").value_or("");
  if (const auto folder = arguments.text("sysroot")) source.sysroot = SysRoot(*folder);
  if (const auto list = arguments.text("allowed")) source.allowed = parse_cpu_list(*list, "--allowed");
  if (const auto list = arguments.text("mems")) source.mems = parse_node_list(*list, "--mems");
  source.keep_isolated = arguments.has("isolated");
  return source;
}

MachineSource source_for_planning(const Arguments& arguments) {
  MachineSource source = machine_source(arguments);
  source.with_device_nodes = !arguments.has("all-gpus");
  return source;
}

std::filesystem::path named_or_default_plan(const Arguments& arguments) {
  if (const auto named = arguments.text("plan")) return *named;
  std::filesystem::path path = "plan.json";
  std::error_code unknown;
  if (std::filesystem::status(path, unknown).type() != std::filesystem::file_type::not_found) return path;
  throw Error(Exit::usage, "no plan.json here: make one with zf-tune tune, or name one with --plan");
}

OptionSpec plan_option(std::string help) { return {"plan", 'p', "FILE", std::move(help)}; }

std::optional<int> ranks_argument(const Arguments& arguments) { return arguments.integer("ranks", 1, 4096); }

OptionSpec ranks_option() {
  return {"ranks", 'r', "N",
          "number of training processes on this node (default: from the launcher's environment variables, "
          "else one per GPU, else 1; e.g. 2)"};
}

GpuShare gpu_share_argument(const Arguments& arguments) {
  return {arguments.integer("gpus-per-rank", 1, 4096).value_or(0),
          arguments.integer("ranks-per-gpu", 1, 4096).value_or(0)};
}

OptionSpec gpus_per_rank_option() {
  return {
      "gpus-per-rank", 0, "N",
      "GPUs of each rank: rank i has those from i x N on, and its home is near any of them (default: GPU i "
      "alone; e.g. 2)"};
}

OptionSpec ranks_per_gpu_option() {
  return {
      "ranks-per-gpu", 0, "N",
      "ranks of each GPU, such as one for each of its tiles or parts: rank i has GPU i / N (default: none "
      "is guessed if there are more ranks than GPUs; e.g. 3)"};
}

bool for_deepspeed(const Arguments& arguments) {
  const auto word = arguments.text("for");
  if (!word || *word == "deepspeed") return word.has_value();
  throw Error(Exit::usage,
              format_text("zf-tune {}: --for: \"{}\" is not \"deepspeed\", the only value here",
                          arguments.command, *word),
              "leave out --for: zf-tune export --for writes any plan for other launchers");
}

OptionSpec for_deepspeed_option() {
  return {"for", 0, "deepspeed",
          "use only splits that DeepSpeed's own options can express, and say what that costs "
          "(default: all splits)",
          "deepspeed"};
}

OptionSpec framework_option() {
  return {"framework", 0, "NAME",
          "who runs the optimizer step: " + all_names<Framework>() +
              "; a process of any but native is started on its whole home (default: the workload's, else "
              "unknown; e.g. torch)",
          all_names<Framework>()};
}

OptionSpec mode_option() {
  return {"mode", 0, "NAME",
          "how the job overlaps the optimizer step with training: " + all_names<Mode>() +
              " (default: the workload's, else wait, as plain ZeRO-Offload, ZenFlow's default and torch do)",
          all_names<Mode>()};
}

OptionSpec state_option() {
  return {"state", 0, "FORMAT",
          "how the job keeps moments and masters: " + all_names<StateFormat>() +
              "; the plan tells the runtime (default: fp32; e.g. bf16)",
          all_names<StateFormat>()};
}

std::optional<int> update_interval_argument(const Arguments& arguments) {
  return arguments.integer("update-interval", 1, 1'000'000);
}

OptionSpec update_interval_option() {
  return {"update-interval", 0, "STEPS",
          "training steps per optimizer step (default: the workload's, else 1; e.g. 4)"};
}

Format format_argument(const Arguments& arguments) {
  return named_argument<Format>(arguments, "format").value_or(Format::text);
}

OptionSpec wide_option() {
  return {"wide", 0, "",
          "show all columns and break no line (default: fit the width of the terminal, or 80 columns)"};
}

std::size_t page_width(const Arguments& arguments, int stream) {
  return arguments.has("wide") ? kUnlimitedWidth : terminal_columns(stream);
}

OptionSpec format_option() {
  return {"format", 'f', "text|json", "output format (default: text)", all_names<Format>()};
}

}  // namespace zf
