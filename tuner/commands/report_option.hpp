// --report FILE.html, as the commands share it.
#pragma once

#include <optional>
#include <string>

#include "plan/plan.hpp"
#include "tuner/cli.hpp"
#include "tuner/topology.hpp"

namespace zf {

OptionSpec report_option();

/// Writes the page that was asked for, if one was.
class ReportOutput {
 public:
  /// Throws Error(usage) when the file cannot be written, before any work is done.
  explicit ReportOutput(const Arguments& arguments);

  bool wanted() const { return path_.has_value(); }
  /// Atomically, and says where on stderr. `topology`: see report_of(). Throws Error(runtime_error) with the
  /// path.
  void write(const Plan& plan, const Topology* topology) const;

 private:
  std::optional<std::string> path_;
};

}  // namespace zf
