// --report FILE.html, as the commands share it.
#pragma once

#include <filesystem>
#include <optional>

#include "plan/plan.hpp"
#include "tuner/cli.hpp"
#include "tuner/topology.hpp"

namespace zf {

OptionSpec report_option();

/// Writes the page that was asked for, if one was.
class ReportOutput {
 public:
  /// Throws Error(usage) when the file cannot be written, before any work is done, and when it is the plan's.
  ReportOutput(const Arguments& arguments, const std::filesystem::path& plan);

  bool wanted() const { return path_.has_value(); }
  /// Atomically, and says where on stderr, unless -q was given. `topology`: see report_of(). Throws
  /// Error(runtime_error) with the path.
  void write(const Plan& plan, const Topology* topology) const;

 private:
  std::optional<std::filesystem::path> path_;
  bool quiet_;
};

}  // namespace zf
