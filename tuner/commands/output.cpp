#include "commands/output.hpp"

#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "commands/former_plan.hpp"
#include "os/atomic_file.hpp"
#include "os/same_file.hpp"
#include "os/standard_streams.hpp"
#include "os/write_target.hpp"
#include "plan/plan_json.hpp"
#include "report/report.hpp"

namespace zf {
namespace {

bool starts_as_samples(const std::filesystem::path& path) {
  constexpr std::string_view kHead = R"({"schema":"zf-samples/)";
  std::string head(kHead.size(), '\0');
  std::ifstream(path, std::ios::binary).read(head.data(), static_cast<std::streamsize>(head.size()));
  return head == kHead;
}

}  // namespace

OutputFile::OutputFile(std::string_view path, std::string_view flag) : name_(path) {
  if (is_stdout()) return;
  WriteTarget target = write_target(name_);
  if (target.is_stdout) {
    name_ = "-";
    return;
  }
  if (!target.refusal.empty())
    throw Error(Exit::usage, format_text("{} {}: {}", flag, name_, target.refusal),
                "name a file, or - for standard output");
  path_ = std::move(target.file);
  const std::filesystem::path folder = folder_of(path_);
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    throw Error(Exit::usage, format_text("{} {}: {}: {}", flag, name_, folder.string(), errno_text(errno)),
                "name a file in a folder that you may write to");
  }
}

void OutputFile::write(std::string_view text) const {
  if (!is_stdout()) return write_text_file_atomically(path_, text);
  print_stdout_text(text);
  flush_stdout();
}

void need_no_plan(const std::filesystem::path& path, std::string_view flag) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return;
  std::string what = "has the samples of a sweep";
  if (!starts_as_samples(path)) {
    try {
      load_plan(path);
    } catch (const Error&) {
      return;
    }
    what = "is a plan";
  }
  throw Error(Exit::usage, format_text("{} {}: this file {}, and would be lost", flag, path.string(), what),
              "name another file");
}

PlanOutput::PlanOutput(const Arguments& arguments)
    : file_(arguments.text("output").value_or("plan.json"), "-o"), quiet_(arguments.has("quiet")) {
  if (!file_.is_stdout()) FormerPlan(file_.path()).look();
}

void PlanOutput::write(const Plan& plan) const {
  if (file_.is_stdout()) return file_.write(print_plan(plan));
  FormerPlan former(file_.path());
  try {
    save_plan(plan, file_.path(), [&] { former.keep(plan); });
  } catch (...) {
    former.put_back();
    throw;
  }
  if (quiet_) return;
  if (const auto note = former.note()) print_stderr("{}\n", one_line(*note));
  print_stderr("wrote {}\n", one_line(file_.name()));
}

std::optional<OutputFile> output_beside(const std::filesystem::path& plan, const Arguments& arguments,
                                        const std::string& option) {
  const auto text = arguments.text(option);
  if (!text) return std::nullopt;
  OutputFile file(*text, "--" + option);
  const bool takes_plan = file.is_stdout() ? plan == "-" : same_file(file.path(), write_target(plan).file);
  if (takes_plan) {
    throw Error(Exit::usage, format_text("--{} {}: the plan is written there", option, *text),
                "name another file");
  }
  if (!file.is_stdout()) need_no_plan(file.path(), "--" + option);
  return file;
}

OptionSpec report_option() {
  return {"report", 0, "FILE",
          "also write the plan and its evidence as an HTML page, - for standard output "
          "(default: no page; e.g. report.html)"};
}

ReportOutput::ReportOutput(const Arguments& arguments, const std::filesystem::path& plan)
    : plan_(plan == "-" ? "plan.json" : std::filesystem::absolute(plan).lexically_normal()),
      file_(output_beside(plan, arguments, "report")),
      quiet_(arguments.has("quiet")) {}

void ReportOutput::write(const Plan& plan, const Topology* topology) const {
  if (!file_) return;
  file_->write(report_of(plan, topology, plan_.string()));
  if (!quiet_ && !is_stdout()) print_stderr("wrote {}\n", one_line(file_->name()));
}

}  // namespace zf
