// Writes a plan to the file of -o, and a report to the file of --report.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "commands/cli.hpp"
#include "plan/plan.hpp"
#include "topology/topology.hpp"

namespace zf {

/// A file that a command writes, or standard output.
class OutputFile {
 public:
  /// Takes the path that an option has named; `flag` is that option. "-" is standard output, and so is a name
  /// of it such as /dev/stdout. Throws Error(usage) if no file can be put there (write_target()), or if its
  /// folder cannot be written to. Make it before the work, so that no result is lost after it.
  OutputFile(std::string_view path, std::string_view flag);

  bool is_stdout() const { return name_ == "-"; }
  /// Returns the path as it was given; "-" for standard output.
  const std::string& name() const { return name_; }
  /// Returns the path with its links followed; empty for standard output.
  const std::filesystem::path& path() const { return path_; }
  /// Writes a file atomically. Throws Error(runtime_error) with the path. A failure of standard output is
  /// left to main().
  void write(std::string_view text) const;

 private:
  std::string name_;
  std::filesystem::path path_;
};

/// Throws Error(usage) if the file is a plan, or has the samples of a sweep: something else is about to take
/// its name.
void need_no_plan(const std::filesystem::path& path, std::string_view flag);

class PlanOutput {
 public:
  /// Takes the file of -o, or plan.json without it. Throws as OutputFile and FormerPlan::look() do.
  explicit PlanOutput(const Arguments& arguments);

  const OutputFile& file() const { return file_; }
  /// Writes the plan atomically. Before, moves a measured plan that has its name to NAME.old (FormerPlan).
  /// Says both on stderr, unless -q was given. Throws Error(runtime_error) with the path. A failure of
  /// standard output (-o -) is left to main().
  void write(const Plan& plan) const;

 private:
  OutputFile file_;
  bool quiet_;
};

/// Returns the file that an option names beside a plan, if it was given. `plan` is the file of the plan, "-"
/// if that goes to standard output. Throws Error(usage) if the file cannot be written, is a plan, or would
/// take the plan's place. Make it before the work.
std::optional<OutputFile> output_beside(const std::filesystem::path& plan, const Arguments& arguments,
                                        const std::string& option);

OptionSpec report_option();

/// Writes the page of --report, if it was given. With "-" it goes to standard output, and what else would be
/// there to stderr.
class ReportOutput {
 public:
  /// Throws as output_beside() does.
  ReportOutput(const Arguments& arguments, const std::filesystem::path& plan);

  bool wanted() const { return file_.has_value(); }
  bool is_stdout() const { return wanted() && file_->is_stdout(); }
  const std::optional<OutputFile>& file() const { return file_; }
  /// Writes the page atomically. Says on stderr where, unless -q was given. `topology` is that of
  /// report_of(). Throws Error(runtime_error) with the path.
  void write(const Plan& plan, const Topology* topology) const;

 private:
  std::filesystem::path plan_;
  std::optional<OutputFile> file_;
  bool quiet_;
};

}  // namespace zf
