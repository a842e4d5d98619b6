// The workload: what the job is, and the figures by which both sides of a split are measured.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.hpp"

namespace zf {

/// The work that one training step of one rank does on the host, beside its GPU. configs/workloads/README.md
/// says where such figures come from.
struct TrainingDemand {
  std::uint64_t launches = 0;    ///< number of GPU kernels, launched one after the other
  Nanoseconds launch_ns = 0;     ///< CPU time of one launch
  std::uint64_t host_bytes = 0;  ///< moved by work on all training cores (accumulate, unscale, clip, cast)
  std::uint64_t copy_bytes = 0;  ///< moved between GPU and host, both directions together
  std::uint64_t copy_bytes_per_s = 0;  ///< rate of these copies; at least 1 if copy_bytes is not 0
  Nanoseconds gpu_ns = 0;              ///< compute time of the GPU if it never waits for a launch
  bool operator==(const TrainingDemand&) const = default;
};

/// How a job overlaps its optimizer step with training.
enum class Mode {
  overlap,   ///< behind the next update_interval training steps: the step uses parameters that are one late
  exact,     ///< behind the end of backward and the next forward: nothing is late
  backward,  ///< behind backward
  wait,      ///< not at all: training waits for the step
};

/// Who runs the optimizer step. This decides which CPUs a process is started on: see process_cpus().
enum class Framework {
  native,             ///< our runtime, in a process of its own
  deepspeed_offload,  ///< DeepSpeed ZeRO-Offload, in the training process
  deepspeed_zenflow,  ///< DeepSpeed ZenFlow, which divides the mask of its process by itself
  superoffload,       ///< DeepSpeed SuperOffload, likewise
  torch,              ///< an optimizer of PyTorch, in the training process
  unknown,
};

/// Return the name in files and options, such as "deepspeed-zenflow".
const char* name_of(Mode mode);
const char* name_of(Framework framework);

/// Return the value with this name; nothing if there is none.
std::optional<Mode> mode_named(std::string_view name);
std::optional<Framework> framework_named(std::string_view name);

/// Return all names, joined by ", ", for messages.
std::string mode_names();
std::string framework_names();

struct Workload {
  std::string name;
  std::uint64_t params = 0;  ///< fp32 master parameters per node, over all ranks
  int ranks = 1;
  int update_interval = 1;                      ///< training steps that one optimizer step hides behind
  std::optional<TrainingDemand> training = {};  ///< absent: only the optimizer was measured
  Mode mode = Mode::overlap;
  Framework framework = Framework::unknown;
  bool operator==(const Workload&) const = default;
};

}  // namespace zf
