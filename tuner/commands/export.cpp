#include "exports/export.hpp"

#include <cstdio>
#include <filesystem>

#include "base/error.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "commands/commands.hpp"
#include "commands/output.hpp"
#include "commands/shared_arguments.hpp"
#include "os/file.hpp"
#include "os/standard_streams.hpp"
#include "plan/plan_json.hpp"

namespace zf {
namespace {

CommandSpec export_spec() {
  std::string names;
  std::string listed;
  std::string help = "the launcher or tool that reads the export: ";
  for (const Consumer& consumer : consumers()) {
    names += format_text("{}{}", names.empty() ? "" : "|", consumer.name);
    listed += format_text("{}{}", listed.empty() ? "" : ", ", consumer.name);
    help += format_text("{} ({}), ", consumer.name, consumer.reads);
  }
  help.resize(help.size() - 2);
  return {"export",
          format_text("export [PLAN] --for {} [--rank R] [--config FILE] [-o FILE]", names),
          "Writes a plan (default: plan.json) as the options or settings of another launcher. Refuses if "
          "that launcher cannot express the plan.",
          {
              plan_option(),
              {"for", 0, "WHO", help, listed},
              {"rank", 0, "N", "only this rank (default: every rank, one line each; e.g. 0)"},
              {"config", 0, "FILE",
               "with --for deepspeed: write this DeepSpeed configuration with the plan merged in, instead of "
               "the command (default: none; e.g. ds.json)"},
              {"output", 'o', "FILE", "file to write, - for standard output (default: -; e.g. ranks.txt)"},
              {"quiet", 'q', "", "print no notes, only errors"},
          }};
}

/// Throws Error(usage) if writing the export to `output` would replace `input`. `what` says what that is.
void need_another_file(const OutputFile& output, const std::filesystem::path& input, std::string_view what) {
  std::error_code ignored;  // a file that does not exist yet is another file
  if (std::filesystem::equivalent(output.path(), input, ignored)) {
    throw Error(Exit::usage, format_text("-o {}: this file is {}", output.name(), what), "name another file");
  }
}

Exit export_run(const Arguments& arguments) {
  const auto consumer = arguments.text("for");
  if (!consumer)
    throw Error(Exit::usage, "zf-tune export: --for is missing", "name the reader, e.g. --for numactl");
  const OutputFile output(arguments.text("output").value_or("-"), "-o");
  const std::filesystem::path path = named_or_default_plan(arguments);
  const auto config = arguments.text("config");
  if (!output.is_stdout()) {
    need_another_file(output, path, "the plan that is exported");
    if (config) need_another_file(output, *config, "the configuration that the plan is merged into");
    need_no_plan(output.path(), "-o");
  }
  const Plan plan = load_plan(path);
  ExportRequest request{plan, std::filesystem::absolute(path), arguments.integer("rank", 0, 65535)};
  if (config) request.config = ConfigFile{*config, read_text_file(*config)};
  const Export result = export_plan(*consumer, request);
  output.write(result.text);
  if (!arguments.has("quiet")) {
    for (const std::string& note : result.notes) print_stderr("zf-tune export: {}\n", one_line(note));
  }
  return Exit::done;
}

}  // namespace

Command export_command() { return {export_spec(), export_run}; }

}  // namespace zf
