#include "tuner/commands/report_option.hpp"

#include <fmt/core.h>

#include "base/error.hpp"
#include "os/file.hpp"
#include "os/standard_streams.hpp"
#include "tuner/plan_output.hpp"
#include "tuner/report/report.hpp"

namespace zf {

OptionSpec report_option() {
  return {"report", 0, "FILE",
          "also write the plan and its evidence as a page for a browser (e.g. report.html)"};
}

ReportOutput::ReportOutput(const Arguments& arguments, const std::filesystem::path& plan)
    : quiet_(arguments.has("quiet")) {
  const auto text = arguments.text("report");
  if (!text) return;
  path_ = *text;
  need_writable(*path_, "--report");
  if (path_->lexically_normal() == plan.lexically_normal()) {
    throw Error(Exit::usage, fmt::format("--report {}: is where the plan is", *text), "name another file");
  }
}

void ReportOutput::write(const Plan& plan, const Topology* topology) const {
  if (!path_) return;
  write_text_file_atomically(*path_, report_of(plan, topology));
  if (!quiet_) print_stderr("wrote {}\n", path_->string());
}

}  // namespace zf
