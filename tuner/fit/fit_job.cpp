#include "fit/fit_job.hpp"

#include "base/format.hpp"

namespace zf {
namespace {

using enum StepMethod;

bool is_ours(StepMethod stepper) {
  return stepper == in_place || stepper == fsdp2_in_place || stepper == native;
}

std::string stepper_in_words(const FitJob& job) {
  switch (job.stepper) {
    case in_place:
      return job.mode == Mode::backward ? "zf_runtime.AdamW in backward" : "zf_runtime.AdamW in place";
    case torch:
      return "torch.optim.AdamW";
    case fsdp2:
      return "FSDP2 with CPU offload and torch.optim.AdamW";
    case fsdp2_in_place:
      return "FSDP2 with CPU offload and zf_runtime.AdamW";
    case native:
      if (job.stage > 0)
        return format_text("ZeRO-Offload stage {} on zf-optimizer{}", job.stage,
                           job.mode == Mode::exact ? ", mode exact" : "");
      return format_text("zf_runtime.AdamW with a process, overlap \"{}\"", job.mode == Mode::wait ? "off"
                                                                            : job.mode == Mode::exact
                                                                                ? "exact"
                                                                                : "late");
    case deepspeed_offload:
      return format_text("ZeRO-Offload stage {}", job.stage);
    case deepspeed_zenflow:
      return format_text("ZenFlow stage {}{}", job.stage,
                         job.mode == Mode::overlap ? " with overlap_step" : "");
    case superoffload:
      return "SuperOffload";
  }
  return "";
}

/// Returns why an extra does not go with this job; nothing if all do.
std::optional<std::string> why_no_such_extra(const FitJob& job) {
  const bool is_zero = job.stage > 0 && (job.stepper == deepspeed_offload || is_ours(job.stepper));
  if (job.has(FitExtra::accumulation) && !is_zero)
    return "accumulation counts with ZeRO-Offload alone: elsewhere it needs no host memory, or it is not "
           "known";
  if (job.has(FitExtra::fp32_accumulation) && !(is_zero && job.is_half()))
    return "fp32-accumulation is for ZeRO-Offload with 16-bit parameters";
  if (job.has(FitExtra::host_flatten) && !(is_zero && job.stage < 3 && job.device == Device::gpu))
    return "host-flatten is for ZeRO-Offload 1 and 2 with GPUs";
  if (job.has(FitExtra::offload_param) && !(is_zero && job.stage == 3 && job.device == Device::gpu))
    return "offload-param is for ZeRO-Offload 3 with GPUs";
  if (job.has(FitExtra::speculate) && !(job.mode == Mode::exact && job.state == StateFormat::fp32))
    return "speculate is for zf_runtime in mode exact with state fp32";
  if (job.has(FitExtra::exports) && !(job.stepper == native && job.stage == 0))
    return "exports beside the training are for zf_runtime.AdamW with a process: --framework native, and no "
           "--stage";
  return std::nullopt;
}

}  // namespace

std::optional<std::string> why_no_such_job(const FitJob& job) {
  const bool needs_stage = job.stepper == deepspeed_offload || job.stepper == deepspeed_zenflow;
  if (needs_stage && job.stage == 0) return "DeepSpeed's offload needs a ZeRO stage, 1 to 3";
  if (job.stepper == superoffload && job.stage != 3) return "SuperOffload has ZeRO stage 3 alone";
  if (job.stage != 0 && !needs_stage && job.stepper != native && job.stepper != superoffload)
    return format_text("{} has no ZeRO stage", name_of(job.stepper));
  if (job.stepper == superoffload && job.device == Device::cpu) return "SuperOffload needs a GPU";
  if ((job.stepper == in_place || job.stepper == torch) && job.device == Device::gpu)
    return format_text("{} steps parameters on the CPU, and this job computes on a GPU",
                       name_of(job.stepper));
  if (job.state != StateFormat::fp32) {
    if (!is_ours(job.stepper))
      return format_text("the state format {} is zf_runtime's alone", name_of(job.state));
    if (has_split_masters(job.state) && job.type != ParameterType::bf16)
      return format_text("the state format {} is for bf16 parameters", name_of(job.state));
    if (has_split_masters(job.state) && job.stage > 0)
      return format_text("DeepSpeed's partitions can have the state formats fp32 and bf16, and not {}",
                         name_of(job.state));
    if (job.type == ParameterType::fp16)
      return format_text("the state format {} is for fp32 and bf16 parameters", name_of(job.state));
  }
  if (job.mode == Mode::backward && job.stepper != superoffload && job.stepper != in_place)
    return "mode backward is SuperOffload's and that of zf_runtime.AdamW in place";
  if (job.mode == Mode::backward && job.stepper == in_place && job.world() > 1)
    return "mode backward of zf_runtime.AdamW is for one rank: DistributedDataParallel keeps all gradients";
  if (job.mode == Mode::exact && job.stepper != native)
    return "mode exact is that of zf_runtime with a process alone: --framework native";
  if (job.mode == Mode::overlap && job.stepper != native && job.stepper != deepspeed_zenflow)
    return format_text("{} does not overlap its step", name_of(job.stepper));
  if (job.load == Load::sharded && job.stage < 3 && job.stepper != fsdp2 && job.stepper != fsdp2_in_place)
    return "only ZeRO stage 3 and FSDP2 can make a model in parts";
  return why_no_such_extra(job);
}

std::string in_words(const FitJob& job) {
  std::string words = format_text("{}, {} parameters, state {}", stepper_in_words(job), name_of(job.type),
                                  name_of(job.state));
  for (const auto& [extra, name] : kEnumNames<FitExtra>) {
    if (job.has(extra)) words += format_text(", {}", name);
  }
  return words;
}

}  // namespace zf
