// Where a plan goes (-o) and where a report goes (--report).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "commands/cli.hpp"
#include "machine/topology.hpp"
#include "plan/plan.hpp"

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
