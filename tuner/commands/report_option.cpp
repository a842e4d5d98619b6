#include "tuner/commands/report_option.hpp"

#include <fmt/core.h>

#include <cstdio>

#include "os/file.hpp"
#include "tuner/plan_output.hpp"
#include "tuner/report/report.hpp"

namespace zf {

OptionSpec report_option() {
  return {"report", 0, "FILE",
          "also write the plan and its evidence as a page for a browser (e.g. report.html)"};
}

ReportOutput::ReportOutput(const Arguments& arguments) : path_(arguments.text("report")) {
  if (path_) need_writable(*path_, "--report");
}

void ReportOutput::write(const Plan& plan, const Topology* topology) const {
  if (!path_) return;
  write_text_file_atomically(*path_, report_of(plan, topology));
  fmt::print(stderr, "wrote {}\n", *path_);
}

}  // namespace zf
