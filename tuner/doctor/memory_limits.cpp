// /dev/shm and locked memory: what is refused in the middle of a job when they are too small.
#include <fmt/core.h>

#include <cstdint>
#include <optional>
#include <sstream>

#include "tuner/doctor/doctor.hpp"
#include "tuner/values.hpp"

namespace zf {
namespace {

constexpr std::uint64_t kSmallSharedMemory = std::uint64_t{1} << 30;
constexpr std::uint64_t kBytesPerParameter = 4;

/// "size=65536k": of tmpfs's options, in bytes. Absent: half of the memory, the kernel's default.
std::optional<std::uint64_t> size_option(const std::string& options) {
  std::istringstream list(options);
  for (std::string option; std::getline(list, option, ',');) {
    if (!option.starts_with("size=")) continue;
    std::istringstream value(option.substr(5));
    std::uint64_t size = 0;
    char unit = 0;
    if (!(value >> size)) return std::nullopt;
    value >> unit;
    return unit == 'k' ? size << 10 : unit == 'm' ? size << 20 : unit == 'g' ? size << 30 : size;
  }
  return std::nullopt;
}

/// The options of what is mounted at /dev/shm: the last line counts. Absent: nothing is.
std::optional<std::string> shm_options(const std::string& mounts) {
  std::optional<std::string> found;
  std::istringstream lines(mounts);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string device, point, type, options;
    if (fields >> device >> point >> type >> options && point == "/dev/shm") found = options;
  }
  return found;
}

}  // namespace

std::vector<Finding> shared_memory_findings(const Patient& patient) {
  const auto mounts = patient.sysroot.read("/proc/mounts");
  if (!mounts) return {};
  constexpr const char* kRemedy = "mount -o remount,size=… /dev/shm; docker --shm-size, or --ipc=host";
  const auto options = shm_options(*mounts);
  if (!options)
    return {{Severity::warning, "/dev/shm is not mounted: data loaders and ZenFlow need it", kRemedy}};
  const auto size = size_option(*options);
  const std::uint64_t needed =
      patient.plan ? patient.plan->workload.params * kBytesPerParameter : kSmallSharedMemory;
  if (!size || *size >= needed) return {};
  return {{Severity::warning,
           patient.plan
               ? fmt::format(
                     "/dev/shm holds {}, and the plan's {} parameters are {}: ZenFlow keeps them there "
                     "(zf-optimizer does not)",
                     print_bytes(*size), print_quantity(patient.plan->workload.params), print_bytes(needed))
               : fmt::format("/dev/shm holds {}: data loaders keep batches there, ZenFlow parameters",
                             print_bytes(*size)),
           kRemedy}};
}

std::vector<Finding> locked_memory_findings(const Patient& patient) {
  std::istringstream lines(patient.sysroot.read("/proc/self/limits").value_or(""));
  constexpr std::string_view kName = "Max locked memory";
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(kName)) continue;
    std::istringstream fields(line.substr(kName.size()));
    std::uint64_t soft = 0;
    if (!(fields >> soft)) return {};  // "unlimited"
    return {
        {Severity::note,
         fmt::format("at most {} of memory may be locked: RDMA and io_uring lock what they transfer",
                     print_bytes(soft)),
         "ulimit -l unlimited; docker --ulimit memlock=-1; Slurm: PropagateResourceLimitsExcept=MEMLOCK and "
         "LimitMEMLOCK=infinity for slurmd"}};
  }
  return {};
}

}  // namespace zf
