#include "plan/workload_json.hpp"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

namespace zf {
namespace {

Object print_demand(const TrainingDemand& demand) {
  return {{"launches", demand.launches},
          {"launch_ns", demand.launch_ns},
          {"host_bytes", demand.host_bytes},
          {"copy_bytes", demand.copy_bytes},
          {"copy_bytes_per_s", demand.copy_bytes_per_s},
          {"gpu_ns", demand.gpu_ns}};
}

/// An hour, a million kernels, a petabyte. A larger figure has the wrong unit.
constexpr Nanoseconds kLongest = 3600 * kSecondNs;
constexpr std::uint64_t kMostLaunches = 1'000'000;
constexpr std::uint64_t kMostBytes = 1'000'000'000'000'000;

TrainingDemand read_demand(const Field& field) {
  field.object({"launches", "launch_ns", "host_bytes", "copy_bytes", "copy_bytes_per_s", "gpu_ns"});
  TrainingDemand demand;
  demand.launches = field["launches"].integer<std::uint64_t>(0, kMostLaunches);
  demand.launch_ns = field["launch_ns"].integer<Nanoseconds>(0, kLongest);
  demand.host_bytes = field["host_bytes"].integer<std::uint64_t>(0, kMostBytes);
  demand.copy_bytes = field["copy_bytes"].integer<std::uint64_t>(0, kMostBytes);
  demand.copy_bytes_per_s =
      field["copy_bytes_per_s"].integer<std::uint64_t>(demand.copy_bytes == 0 ? 0 : 1, kMostBytes);
  demand.gpu_ns = field["gpu_ns"].integer<Nanoseconds>(0, kLongest);
  return demand;
}

Mode read_mode(const Field& field) {
  const std::string name = field.text();
  if (const auto mode = mode_named(name)) return *mode;
  field.fail(fmt::format("is \"{}\"; it must be one of {}", name, mode_names()));
}

Framework read_framework(const Field& field) {
  const std::string name = field.text();
  if (const auto framework = framework_named(name)) return *framework;
  field.fail(fmt::format("is \"{}\"; it must be one of {}", name, framework_names()));
}

}  // namespace

Object print_workload(const Workload& workload) {
  Object object{{"name", workload.name},          {"params", workload.params},
                {"ranks", workload.ranks},        {"update_interval", workload.update_interval},
                {"mode", name_of(workload.mode)}, {"framework", name_of(workload.framework)}};
  if (workload.training) object["training"] = print_demand(*workload.training);
  return object;
}

Workload read_workload_fields(const Field& field) {
  Workload workload;
  workload.name = field["name"].text();
  workload.params = field["params"].integer<std::uint64_t>(1);
  workload.ranks = field["ranks"].integer(1, 4096);
  workload.update_interval = field["update_interval"].integer(1, 1'000'000);
  if (field.has("training")) workload.training = read_demand(field["training"]);
  if (field.has("mode")) workload.mode = read_mode(field["mode"]);
  if (field.has("framework")) workload.framework = read_framework(field["framework"]);
  return workload;
}

}  // namespace zf
