#include "commands/fit_job_arguments.hpp"

#include <sstream>

#include "base/error.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "commands/model_folder.hpp"
#include "commands/shared_arguments.hpp"
#include "fit/forecast.hpp"
#include "fit/verdict.hpp"
#include "gpus/gpu_lookup.hpp"
#include "machine/rank_count.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

std::optional<bool> yes_or_no(const Arguments& arguments, const std::string& option) {
  const auto word = arguments.text(option);
  if (!word) return std::nullopt;
  if (*word == "yes" || *word == "no") return *word == "yes";
  throw Error(Exit::usage, format_text("zf-tune fit: --{}: \"{}\" is not \"yes\" or \"no\"", option, *word),
              "give one of them");
}

/// Sets what --with lists. Throws Error(usage) for a word that it does not know.
void set_extras(const Arguments& arguments, FitJob& job) {
  const auto words = arguments.text("with");
  if (!words) return;
  std::istringstream list(*words + ",");  // so that an empty one is a word, too
  for (std::string word; std::getline(list, word, ',');) {
    const auto extra = value_named<FitExtra>(word);
    if (!extra) refuse_word(arguments, "with", word, all_names<FitExtra>());
    job.set(*extra, true);
  }
}

/// Returns true if some phase of a forecast needs more than that of another.
bool needs_more(const MemoryForecast& forecast, const MemoryForecast& other) {
  for (const auto& [phase, name] : kEnumNames<FitPhase>)
    if (forecast.at(phase).bytes > other.at(phase).bytes) return true;
  return false;
}

/// Returns what of ZeRO-Offload is not counted because --with does not name it; nothing if it names all.
std::optional<std::string> not_counted(const FitJob& job) {
  std::string names;
  for (const auto& [extra, name] : kEnumNames<FitExtra>) {
    FitJob with = job;
    with.set(extra, true);
    if (job.has(extra) || why_no_such_job(with) || !needs_more(forecast_of(with), forecast_of(job))) continue;
    names += format_text("{}{}", names.empty() ? "" : ", ", name);
  }
  if (names.empty()) return std::nullopt;
  return format_text("Not counted: {}. --with changes it.", names);
}

int usual_stage(StepMethod stepper) {
  switch (stepper) {
    case StepMethod::deepspeed_offload:
    case StepMethod::deepspeed_zenflow:
      return 2;
    case StepMethod::superoffload:
      return 3;
    default:
      return 0;
  }
}

}  // namespace

std::vector<OptionSpec> fit_job_options() {
  return {
      {"params", 0, "COUNT", "number of parameters of the whole model (default: those of --model; e.g. 70B)"},
      {"model", 'm', "DIR",
       "folder of the model: the headers of its .safetensors files, else its config.json of type " +
           known_model_types() + " (default: none; e.g. Llama-3.1-8B)"},
      {"trainable", 0, "COUNT", "number of parameters that are trained (default: all; e.g. 1B)"},
      {"dtype", 0, "TYPE",
       "type of the parameters: " + all_names<ParameterType>() + " (default: bf16; e.g. fp32)",
       all_names<ParameterType>()},
      ranks_option(),
      {"nodes", 0, "N", "number of nodes with so many ranks each (default: 1; e.g. 4)"},
      {"framework", 0, "NAME",
       "who steps the parameters: " + all_names<StepMethod>() +
           " (default: deepspeed-offload with GPUs, in-place without; e.g. native)",
       all_names<StepMethod>()},
      {"stage", 0, "N",
       "stage of ZeRO, 1 to 3; with native: its partitions on zf-optimizer (default: 2 with DeepSpeed's own, "
       "3 with superoffload, none with native; e.g. 3)",
       "1, 2, 3"},
      {"mode", 0, "NAME",
       "how the step overlaps training: " + all_names<Mode>() + " (default: wait, superoffload: backward)",
       all_names<Mode>()},
      state_option(),
      {"load", 0, "HOW",
       "whole: each rank makes all of the model on the host at the start; sharded: its own part alone "
       "(zero.Init, "
       "the meta device) (default: whole; e.g. sharded)",
       all_names<Load>()},
      {"device", 0, "WHERE",
       "where forward and backward compute: " + all_names<Device>() +
           " (default: gpu if the node has GPUs for jobs; e.g. cpu)",
       all_names<Device>()},
      {"pinned", 0, "yes|no",
       "whether DeepSpeed and FSDP2 pin what they keep on the host (default: yes with GPUs; e.g. no)",
       "yes, no"},
      {"with", 0, "LIST",
       "what else is kept on the host: by DeepSpeed accumulation (of gradients over several micro steps), "
       "fp32-accumulation (of 16-bit ones in fp32: grad_accum_dtype), "
       "host-flatten (ZeRO 1 and 2 where a GPU has no room for its parameters twice), offload-param (ZeRO "
       "3); "
       "speculate (steps begin in backward), exports (a copy of the state is written beside the training) "
       "(default: none of them; e.g. accumulation)",
       all_names<FitExtra>()},
      {"reserve", 0, "SIZE",
       "memory of each rank beside its model: the process, its data loaders, CUDA (default: 3GiB with GPUs, "
       "512MiB without; e.g. 6GiB)"},
  };
}

std::uint64_t usual_reserve(Device device) {
  // A process of torch and DeepSpeed that stops before its model has 213 to 237 MiB without a GPU
  // (docs/memory.md). What CUDA adds was not measured.
  return device == Device::gpu ? std::uint64_t{3} << 30 : std::uint64_t{512} << 20;
}

ModelSize fit_model_argument(const Arguments& arguments) {
  const auto params = arguments.text("params"), folder = arguments.text("model");
  if (params && folder)
    throw Error(Exit::usage, "zf-tune fit: --params cannot be used with --model", "leave out one of them");
  if (!params && !folder)
    throw Error(Exit::usage, "zf-tune fit: the size of the model is missing",
                "give --params, such as 70B, or --model, its folder");
  ModelSize model =
      params ? usual_model(parse_quantity(*params, "zf-tune fit: --params")) : read_model(*folder);
  if (const auto trainable = arguments.text("trainable")) {
    model.trainable = parse_quantity(*trainable, "zf-tune fit: --trainable");
    if (model.trainable > model.params) {
      throw Error(Exit::usage,
                  format_text("zf-tune fit: --trainable: {} are more than the model's {} parameters",
                              *trainable, print_quantity(model.params)),
                  "give fewer");
    }
  }
  return model;
}

FitArguments fit_job_of(const Arguments& arguments, const ModelSize& model, const Machine& machine,
                        const Environment& environment) {
  FitArguments fit;
  FitJob& job = fit.job;
  job.model = model;
  job.type = named_argument<ParameterType>(arguments, "dtype").value_or(ParameterType::bf16);
  job.state = named_argument<StateFormat>(arguments, "state").value_or(StateFormat::fp32);
  job.nodes = arguments.integer("nodes", 1, 100'000).value_or(1);
  job.load = named_argument<Load>(arguments, "load").value_or(Load::whole);

  const RankCount ranks = rank_count_of(ranks_argument(arguments), environment, machine.topology);
  job.ranks = ranks.count;
  if (const std::string note = rank_count_note(ranks); !note.empty()) fit.assumed.push_back(note + ".");

  const bool has_gpus = !usable_gpus(machine.topology).empty();
  const auto stepper = named_argument<StepMethod>(arguments, "framework");
  const auto device = named_argument<Device>(arguments, "device");
  const bool on_cpu = stepper == StepMethod::in_place || stepper == StepMethod::torch;
  job.device = device.value_or(has_gpus && !on_cpu ? Device::gpu : Device::cpu);
  if (!device && !on_cpu)
    fit.assumed.push_back(
        has_gpus ? "This node has GPUs, so the job computes on them: --device changes it."
                 : "This node has no GPU that is known, so the job computes on its CPUs: --device "
                   "changes it.");
  const auto stage = arguments.integer("stage", 1, 3);
  job.stepper = stepper.value_or(job.device == Device::gpu || stage ? StepMethod::deepspeed_offload
                                                                    : StepMethod::in_place);
  if (!stepper)
    fit.assumed.push_back(
        format_text("Who steps was not said: {}, --framework changes it.", name_of(job.stepper)));
  job.stage = stage.value_or(usual_stage(job.stepper));
  job.mode = named_argument<Mode>(arguments, "mode")
                 .value_or(job.stepper == StepMethod::superoffload ? Mode::backward : Mode::wait);
  job.pinned = yes_or_no(arguments, "pinned").value_or(job.device == Device::gpu);
  set_extras(arguments, job);
  const auto reserve = arguments.text("reserve");
  job.process_bytes = reserve ? parse_size(*reserve, "zf-tune fit: --reserve") : usual_reserve(job.device);
  if (!reserve)
    fit.assumed.push_back(
        format_text("Each rank's process is taken to need {} beside the model: --reserve changes "
                    "it.",
                    print_memory(job.process_bytes)));
  if (model.estimated)
    fit.assumed.push_back("The largest parameter and layer are those of usual models: --model knows them.");
  if (const auto why = why_no_such_job(job))
    throw Error(Exit::usage, format_text("zf-tune fit: {}", *why), "see zf-tune fit --help");
  if (const auto sentence = not_counted(job)) fit.assumed.push_back(*sentence);
  return fit;
}

}  // namespace zf
