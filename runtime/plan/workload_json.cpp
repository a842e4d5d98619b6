#include "plan/workload_json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/format.hpp"

namespace zf {
namespace {

Object print_demand(const TrainingDemand& demand) {
  Object object{{"launches", demand.launches},
                {"launch_ns", demand.launch_ns},
                {"gpu_ns", demand.gpu_ns},
                {"host_bytes", demand.host_bytes},
                {"gradient_bytes", demand.gradient_bytes},
                {"parameter_bytes", demand.parameter_bytes},
                {"copy_bytes_per_s", demand.copy_bytes_per_s}};
  if (demand.forward_share) object["forward_share"] = *demand.forward_share;
  if (demand.parallel_ns != 0) object["parallel_ns"] = demand.parallel_ns;
  return object;
}

/// An hour, a million kernels, a petabyte, a step a million times as long as ours (that of a tiny model). A
/// larger figure has the wrong unit.
constexpr Nanoseconds kLongest = 3600 * kSecondNs;
constexpr Nanoseconds kMostCpuTime = 1024 * kLongest;  // on as many cores
constexpr std::uint64_t kMostLaunches = 1'000'000;
constexpr double kLargestStepFactor = 1e6;
constexpr std::uint64_t kMostBytes = 1'000'000'000'000'000;

/// Reads a demand of the former format: bytes were those of each training step, copies of both directions
/// together.
TrainingDemand read_former_demand(const Field& field, int update_interval) {
  field.object({"launches", "launch_ns", "host_bytes", "copy_bytes", "copy_bytes_per_s", "gpu_ns"});
  const auto of_all_steps = [&](const char* name) {
    const auto steps = static_cast<std::uint64_t>(update_interval);
    return steps * std::min(field[name].integer<std::uint64_t>(0, kMostBytes), kMostBytes / steps);
  };
  TrainingDemand demand;
  demand.host_bytes = of_all_steps("host_bytes");
  demand.gradient_bytes = of_all_steps("copy_bytes");
  return demand;
}

TrainingDemand read_present_demand(const Field& field) {
  field.object({"launches", "launch_ns", "gpu_ns", "host_bytes", "gradient_bytes", "parameter_bytes",
                "copy_bytes_per_s", "forward_share", "parallel_ns"},
               {"forward_share", "parallel_ns"});
  TrainingDemand demand;
  demand.host_bytes = field["host_bytes"].integer<std::uint64_t>(0, kMostBytes);
  demand.gradient_bytes = field["gradient_bytes"].integer<std::uint64_t>(0, kMostBytes);
  demand.parameter_bytes = field["parameter_bytes"].integer<std::uint64_t>(0, kMostBytes);
  if (field.has("forward_share")) {
    demand.forward_share = field["forward_share"].number();
    if (!(*demand.forward_share > 0 && *demand.forward_share < 1))
      field["forward_share"].fail("must be between 0 and 1, both excluded");
  }
  if (field.has("parallel_ns"))
    demand.parallel_ns = field["parallel_ns"].integer<Nanoseconds>(0, kMostCpuTime);
  return demand;
}

TrainingDemand read_demand(const Field& field, int update_interval) {
  TrainingDemand demand =
      field.has("copy_bytes") ? read_former_demand(field, update_interval) : read_present_demand(field);
  demand.launches = field["launches"].integer<std::uint64_t>(0, kMostLaunches);
  demand.launch_ns = field["launch_ns"].integer<Nanoseconds>(0, kLongest);
  demand.gpu_ns = field["gpu_ns"].integer<Nanoseconds>(0, kLongest);
  const bool copies = demand.gradient_bytes + demand.parameter_bytes != 0;
  demand.copy_bytes_per_s = field["copy_bytes_per_s"].integer<std::uint64_t>(copies ? 1 : 0, kMostBytes);
  return demand;
}

}  // namespace

Object print_workload(const Workload& workload) {
  Object object{{"name", workload.name},          {"params", workload.params},
                {"ranks", workload.ranks},        {"update_interval", workload.update_interval},
                {"mode", name_of(workload.mode)}, {"framework", name_of(workload.framework)}};
  if (workload.training) object["training"] = print_demand(*workload.training);
  if (workload.step_factor) object["step_factor"] = *workload.step_factor;
  return object;
}

Workload read_workload_fields(const Field& field, Mode absent) {
  Workload workload;
  workload.name = field["name"].text();
  workload.params = field["params"].integer<std::uint64_t>(1);
  workload.ranks = field["ranks"].integer(1, 4096);
  workload.update_interval = field["update_interval"].integer(1, 1'000'000);
  if (field.has("training")) {
    workload.training = read_demand(field["training"], workload.update_interval);
  }
  workload.mode = field.has("mode") ? field["mode"].one_of<Mode>() : absent;
  if (field.has("framework")) workload.framework = field["framework"].one_of<Framework>();
  if (field.has("step_factor")) {
    workload.step_factor = field["step_factor"].number();
    if (!(*workload.step_factor > 0 && *workload.step_factor <= kLargestStepFactor))
      field["step_factor"].fail(format_text("must be above 0 and at most {:.0f}", kLargestStepFactor));
  }
  return workload;
}

}  // namespace zf
