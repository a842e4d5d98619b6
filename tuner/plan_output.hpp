// -o FILE, or -o - for standard output.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "plan/plan.hpp"

namespace zf {

/// Throws Error(usage) when `path` is a folder, or when its folder cannot be written to. `flag`: the option
/// that named it.
void need_writable(const std::filesystem::path& path, std::string_view flag);

class PlanOutput {
 public:
  /// Throws Error(usage) when `target` is a folder or its folder cannot be written to: better now than after
  /// a minute of measuring.
  explicit PlanOutput(std::string target);

  /// Atomically, and says where on stderr. Throws Error(runtime_error) with the path.
  void write(const Plan& plan) const;

 private:
  std::string target_;
};

}  // namespace zf
