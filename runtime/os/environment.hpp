// Environment variables as a value, and the numbers and GPUs in them. launchers/ knows those of ranks.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace zf {

class Environment {
 public:
  Environment() = default;
  explicit Environment(std::map<std::string, std::string> variables) : variables_(std::move(variables)) {}
  /// Returns a copy of this process's environment.
  static Environment of_this_process();

  std::optional<std::string> get(const std::string& name) const;
  const std::map<std::string, std::string>& all() const { return variables_; }
  /// Returns the variables as "NAME=value", as exec takes them.
  std::vector<std::string> words() const;

 private:
  std::map<std::string, std::string> variables_;
};

/// Returns true if ZF_TUNE is off, 0, no or false. Then no wrapper, hook or plan has any effect.
bool switched_off(const Environment& environment);

/// The number in a variable, and the name of the variable.
struct EnvNumber {
  int value;
  std::string variable;
};

/// Returns the number in a variable, without the blanks around it; nothing if it is not set or is empty.
/// Throws Error(usage) with the variable if its value is not a whole number of `least` or more.
std::optional<EnvNumber> number_in(const Environment& environment, const std::string& variable, int least);

/// The GPUs that the job may see, named as in the variable: indexes or UUIDs.
struct VisibleDevices {
  std::vector<std::string> ids;  ///< empty: the variable hides all GPUs ("", "-1", "NoDevFiles")
  std::string variable;          ///< or "HIP_VISIBLE_DEVICES within ROCR_VISIBLE_DEVICES"
};

/// Who reads the variables: CUDA, or HIP on GPUs of AMD.
enum class GpuRuntime { cuda, hip };

/// Returns the list in one variable. As in the driver, the list ends at the first entry that names no device.
/// Returns nothing if the variable is not set; a variable that is set to nothing gives an empty list.
std::optional<VisibleDevices> devices_in(const Environment& environment, const std::string& variable);

/// Returns nothing if all GPUs are visible. Else:
/// - For CUDA, returns CUDA_VISIBLE_DEVICES if it is set. Otherwise returns the same as for HIP, because the
///   caller may not know the GPUs.
/// - For HIP, returns the part of ROCR_VISIBLE_DEVICES that HIP_VISIBLE_DEVICES selects. Its numbers are
///   positions in that list. HIP reads CUDA_VISIBLE_DEVICES if HIP_VISIBLE_DEVICES is not set or is empty.
std::optional<VisibleDevices> visible_devices(const Environment& environment,
                                              GpuRuntime runtime = GpuRuntime::cuda);

}  // namespace zf
