// The workload: what the job is, and the figures by which both sides of a split are measured.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.hpp"
#include "base/enum_names.hpp"

namespace zf {

/// The part of a training step that is forward, if the file does not say it: an estimate, since backward
/// computes about twice as much.
inline constexpr double kForwardShare = 1.0 / 3;

/// The work of the training side of one rank. Launches and GPU time are those of one training step. Work on
/// the host and copies come once per update, in its last training step, because gradients accumulate on the
/// GPU. docs/workload.md says where such figures come from.
struct TrainingDemand {
  std::uint64_t launches = 0;    ///< number of GPU kernels, launched one after the other
  Nanoseconds launch_ns = 0;     ///< CPU time of one launch
  Nanoseconds gpu_ns = 0;        ///< compute time of the GPU if it never waits for a launch
  std::uint64_t host_bytes = 0;  ///< per update: moved by work on all training cores (unscale, clip, cast)
  std::uint64_t gradient_bytes = 0;          ///< per update: copied from the GPU to the host
  std::uint64_t parameter_bytes = 0;         ///< per update: copied back after the step
  std::uint64_t copy_bytes_per_s = 0;        ///< rate of these copies; at least 1 if there are any
  std::optional<double> forward_share = {};  ///< of a training step; absent: kForwardShare, an estimate
  /// CPU time per training step of work on all training cores that computes and hardly moves memory: that of
  /// forward and backward, if there is no GPU. It follows the launches.
  Nanoseconds parallel_ns = 0;
  // The next three count in mode exact only; schedule_of() says what stands for what is absent.
  std::optional<double> first_group_share = {};      ///< the first module's part of the parameters
  std::optional<double> last_forward_share = {};     ///< the last module's forward, of a training step
  std::optional<Nanoseconds> last_gradient_ns = {};  ///< from backward's end until its last gradient is on
                                                     ///< the host and the norm of all is known
  bool operator==(const TrainingDemand&) const = default;
};

/// How a job overlaps its optimizer step with training.
enum class Mode {
  overlap,   ///< behind the next update_interval training steps: the step uses parameters that are one late
  exact,     ///< behind the end of backward and the next forward: nothing is late
  backward,  ///< behind backward
  wait,      ///< not at all: training waits for the step
};

template <>
inline constexpr auto kEnumNames<Mode> = std::to_array<EnumName<Mode>>(
    {{Mode::overlap, "overlap"}, {Mode::exact, "exact"}, {Mode::backward, "backward"}, {Mode::wait, "wait"}});

/// The mode of a job if none is given: that of plain ZeRO-Offload, of ZenFlow's default and of torch.
inline constexpr Mode kDefaultMode = Mode::wait;

/// Who runs the optimizer step. This decides which CPUs a process is started on: see process_cpus().
enum class Framework {
  native,             ///< our runtime, in a process of its own
  deepspeed_offload,  ///< DeepSpeed ZeRO-Offload, in the training process
  deepspeed_zenflow,  ///< DeepSpeed ZenFlow, which divides the mask of its process by itself
  superoffload,       ///< DeepSpeed SuperOffload, by DeepSpeed too
  torch,              ///< an optimizer of PyTorch, in the training process
  unknown,
};

template <>
inline constexpr auto kEnumNames<Framework> =
    std::to_array<EnumName<Framework>>({{Framework::native, "native"},
                                        {Framework::deepspeed_offload, "deepspeed-offload"},
                                        {Framework::deepspeed_zenflow, "deepspeed-zenflow"},
                                        {Framework::superoffload, "superoffload"},
                                        {Framework::torch, "torch"},
                                        {Framework::unknown, "unknown"}});

struct Workload {
  std::string name;
  std::uint64_t params = 0;  ///< fp32 master parameters per node, over all ranks
  int ranks = 1;
  int update_interval = 1;                      ///< training steps per optimizer step
  std::optional<TrainingDemand> training = {};  ///< absent: only the optimizer was measured
  Mode mode = kDefaultMode;
  Framework framework = Framework::unknown;
  /// The job's own optimizer step, divided by ours on the same threads: DeepSpeed's and PyTorch's take
  /// longer. Absent: 1.
  std::optional<double> step_factor = {};
  bool operator==(const Workload&) const = default;
};

}  // namespace zf
