#include "commands/output.hpp"

#include <unistd.h>

#include <cerrno>

#include "base/error.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "commands/former_plan.hpp"
#include "os/atomic_file.hpp"
#include "os/standard_streams.hpp"
#include "plan/plan_json.hpp"
#include "report/report.hpp"

namespace zf {

void need_writable(const std::filesystem::path& path, std::string_view flag) {
  if (path.empty()) throw Error(Exit::usage, format_text("{}: the name is empty", flag), "name a file");
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::status_known(status)) {
    throw Error(Exit::usage, format_text("{} {}: {}", flag, path.string(), error.message()),
                "name a file that can be created");
  }
  if (std::filesystem::is_directory(status)) {
    throw Error(Exit::usage, format_text("{} {}: this is a folder", flag, path.string()),
                "name a file in it");
  }
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    throw Error(Exit::usage,
                format_text("{} {}: this is not a regular file (it may be a FIFO, a socket or a device)",
                            flag, path.string()),
                flag == "-o" ? "name a file, or - for standard output" : "name a file");
  }
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    throw Error(Exit::usage,
                format_text("{} {}: {}: {}", flag, path.string(), folder.string(), errno_text(errno)),
                "name a file in a folder that you may write to");
  }
}

void need_no_plan(const std::filesystem::path& path, std::string_view flag) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return;
  try {
    load_plan(path);
  } catch (const Error&) {
    return;
  }
  throw Error(Exit::usage, format_text("{} {}: this file is a plan, and would be lost", flag, path.string()),
              "name another file");
}

PlanOutput::PlanOutput(const Arguments& arguments)
    : target_(arguments.text("output").value_or("plan.json")), quiet_(arguments.has("quiet")) {
  if (target_ == "-") return;
  need_writable(target_, "-o");
  FormerPlan(target_).look();
}

void PlanOutput::write(const Plan& plan) const {
  if (target_ == "-") {
    print_stdout_text(print_plan(plan));
    flush_stdout();
    return;
  }
  FormerPlan former(target_);
  try {
    save_plan(plan, target_, [&] { former.keep(plan); });
  } catch (...) {
    former.put_back();
    throw;
  }
  if (quiet_) return;
  if (const auto note = former.note()) print_stderr("{}\n", one_line(*note));
  print_stderr("wrote {}\n", one_line(target_));
}

OptionSpec report_option() {
  return {"report", 0, "FILE",
          "also write the plan and its evidence as an HTML page (default: no page; e.g. report.html)"};
}

ReportOutput::ReportOutput(const Arguments& arguments, const std::filesystem::path& plan)
    : plan_(plan == "-" ? "plan.json" : plan), quiet_(arguments.has("quiet")) {
  const auto text = arguments.text("report");
  if (!text) return;
  path_ = *text;
  need_writable(*path_, "--report");
  if (path_->lexically_normal() == plan.lexically_normal()) {
    throw Error(Exit::usage, format_text("--report {}: this is the file of the plan", *text),
                "name another file");
  }
  need_no_plan(*path_, "--report");
}

void ReportOutput::write(const Plan& plan, const Topology* topology) const {
  if (!path_) return;
  write_text_file_atomically(*path_, report_of(plan, topology, plan_.string()));
  if (!quiet_) print_stderr("wrote {}\n", one_line(path_->string()));
}

}  // namespace zf
