// The job to forecast the host memory of: a model, who steps it and how, and over how many processes.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/enum_names.hpp"
#include "base/state_format.hpp"
#include "fit/model_size.hpp"
#include "plan/workload.hpp"

namespace zf {

/// Who steps the model. Names that Framework has, too, mean the same.
enum class StepMethod {
  in_place,           ///< zf_runtime.AdamW on the job's own tensors, on the CPU
  torch,              ///< torch.optim.AdamW, on the CPU
  fsdp2,              ///< FSDP2 with CPUOffloadPolicy and torch.optim.AdamW
  fsdp2_in_place,     ///< the same with zf_runtime.AdamW
  native,             ///< zf_runtime.AdamW with a process; with a ZeRO stage, python -m zf_runtime.deepspeed
  deepspeed_offload,  ///< ZeRO-Offload
  deepspeed_zenflow,  ///< ZenFlow
  superoffload,       ///< SuperOffload
};

template <>
inline constexpr auto kEnumNames<StepMethod> =
    std::to_array<EnumName<StepMethod>>({{StepMethod::in_place, "in-place"},
                                         {StepMethod::torch, "torch"},
                                         {StepMethod::fsdp2, "fsdp2"},
                                         {StepMethod::fsdp2_in_place, "fsdp2-in-place"},
                                         {StepMethod::native, "native"},
                                         {StepMethod::deepspeed_offload, "deepspeed-offload"},
                                         {StepMethod::deepspeed_zenflow, "deepspeed-zenflow"},
                                         {StepMethod::superoffload, "superoffload"}});

/// The type of a model's parameters.
enum class ParameterType { fp32, bf16, fp16 };

template <>
inline constexpr auto kEnumNames<ParameterType> = std::to_array<EnumName<ParameterType>>(
    {{ParameterType::fp32, "fp32"}, {ParameterType::bf16, "bf16"}, {ParameterType::fp16, "fp16"}});

constexpr std::uint64_t bytes_of(ParameterType type) { return type == ParameterType::fp32 ? 4 : 2; }

/// How the model comes into memory when the job starts.
enum class Load {
  whole,    ///< each rank makes or reads all of it in host memory
  sharded,  ///< each rank makes its own part alone (zero.Init, the meta device)
};

template <>
inline constexpr auto kEnumNames<Load> = std::to_array<EnumName<Load>>({{Load::whole, "whole"},
                                                                        {Load::sharded, "sharded"}});

/// Where forward and backward compute: GPU memory is not forecast.
enum class Device { gpu, cpu };

template <>
inline constexpr auto kEnumNames<Device> = std::to_array<EnumName<Device>>({{Device::gpu, "gpu"},
                                                                            {Device::cpu, "cpu"}});

/// What else a job may keep on the host; all except the last two are DeepSpeed's.
enum class FitExtra {
  accumulation,       ///< gradients add up over several micro steps
  fp32_accumulation,  ///< gradients of 16-bit parameters add up in fp32 (grad_accum_dtype)
  host_flatten,   ///< ZeRO 1 and 2: a GPU has no room for its parameters twice, so they are flattened on the
                  ///< host
  offload_param,  ///< ZeRO 3: the parameters are on the host, too
  speculate,      ///< steps begin in backward, with a ZeRO stage, too: speculate=True
  exports,        ///< a copy of the state is written beside the training: save_async()
};

template <>
inline constexpr auto kEnumNames<FitExtra> =
    std::to_array<EnumName<FitExtra>>({{FitExtra::accumulation, "accumulation"},
                                       {FitExtra::fp32_accumulation, "fp32-accumulation"},
                                       {FitExtra::host_flatten, "host-flatten"},
                                       {FitExtra::offload_param, "offload-param"},
                                       {FitExtra::speculate, "speculate"},
                                       {FitExtra::exports, "exports"}});

struct FitJob {
  ModelSize model;
  ParameterType type = ParameterType::bf16;
  StepMethod stepper = StepMethod::deepspeed_offload;
  int stage = 0;  ///< of ZeRO, 1 to 3; 0: none
  Mode mode = Mode::wait;
  StateFormat state = StateFormat::fp32;
  int ranks = 1;  ///< on this node
  int nodes = 1;
  Device device = Device::gpu;
  Load load = Load::whole;
  bool pinned = false;                                     ///< offload buffers are pinned for the GPU
  std::array<bool, kEnumNames<FitExtra>.size()> extras{};  ///< by FitExtra
  std::uint64_t process_bytes = 0;                         ///< of each rank without its model: the reserve
  std::uint64_t bucket = 500'000'000;                      ///< ZeRO's reduce_bucket_size, in elements
  std::uint64_t sub_group = 1'000'000'000;                 ///< ZeRO-3's sub_group_size, in elements

  /// Returns the number of ranks on all nodes.
  std::uint64_t world() const {
    return static_cast<std::uint64_t>(ranks) * static_cast<std::uint64_t>(nodes);
  }
  bool has(FitExtra extra) const { return extras[static_cast<std::size_t>(extra)]; }
  void set(FitExtra extra, bool value) { extras[static_cast<std::size_t>(extra)] = value; }
  bool is_half() const { return type != ParameterType::fp32; }
};

/// Returns why there is no such job, as the end of a sentence; nothing if there is one. Pure.
std::optional<std::string> why_no_such_job(const FitJob& job);

/// Returns who steps, and how, for a person: "ZeRO-Offload, stage 2, state fp32". Pure.
std::string in_words(const FitJob& job);

}  // namespace zf
