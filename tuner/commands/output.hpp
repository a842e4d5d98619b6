// Writes a plan to the file of -o, and a report to the file of --report.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "commands/cli.hpp"
#include "machine/topology.hpp"
#include "plan/plan.hpp"

namespace zf {

/// Throws Error(usage) if `path` is empty, exists and is not a regular file, cannot be examined (too long),
/// or lies in a folder that cannot be written to. Call it before the work, so that no result is lost after
/// it. `flag` is the option that named the path.
void need_writable(const std::filesystem::path& path, std::string_view flag);

/// Throws Error(usage) if the file is a plan: something else is about to take its name.
void need_no_plan(const std::filesystem::path& path, std::string_view flag);

class PlanOutput {
 public:
  /// Takes the file of -o, or plan.json without it. Throws as need_writable(), and as FormerPlan::look()
  /// does.
  explicit PlanOutput(const Arguments& arguments);

  const std::string& target() const { return target_; }
  /// Writes the plan atomically. Before, moves a measured plan that has its name to NAME.old (FormerPlan).
  /// Says both on stderr, unless -q was given. Throws Error(runtime_error) with the path. A failure of
  /// standard output (-o -) is left to main().
  void write(const Plan& plan) const;

 private:
  std::string target_;
  bool quiet_;
};

OptionSpec report_option();

/// Writes the page of --report, if it was given.
class ReportOutput {
 public:
  /// `plan` is the file of the plan, "-" for standard output. Throws Error(usage) if the page cannot be
  /// written or would take the plan's place. Make it before the work.
  ReportOutput(const Arguments& arguments, const std::filesystem::path& plan);

  bool wanted() const { return path_.has_value(); }
  /// Writes the page atomically. Says on stderr where, unless -q was given. `topology` is that of
  /// report_of(). Throws Error(runtime_error) with the path.
  void write(const Plan& plan, const Topology* topology) const;

 private:
  std::filesystem::path plan_;
  std::optional<std::filesystem::path> path_;
  bool quiet_;
};

}  // namespace zf
