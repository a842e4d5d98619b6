// -o FILE, or -o - for standard output.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "plan/plan.hpp"
#include "tuner/cli.hpp"

namespace zf {

/// Throws Error(usage) when `path` is empty, is there and no regular file, cannot be looked at (too long), or
/// lies in a folder that cannot be written to: better before the work than after it. `flag`: the option that
/// named it.
void need_writable(const std::filesystem::path& path, std::string_view flag);

class PlanOutput {
 public:
  /// -o as given, else plan.json. Throws as need_writable().
  explicit PlanOutput(const Arguments& arguments);

  const std::string& target() const { return target_; }
  /// Atomically, and says where on stderr, unless -q was given. Throws Error(runtime_error) with the path.
  void write(const Plan& plan) const;

 private:
  std::string target_;
  bool quiet_;
};

}  // namespace zf
