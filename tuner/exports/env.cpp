// What exec sets for its command, for a shell that starts the command by other means.
#include <fmt/core.h>

#include "tuner/command_line.hpp"
#include "tuner/exec.hpp"
#include "tuner/exports/export.hpp"

namespace zf {

Export env_export(const ExportInput& input) {
  Export result;
  for (const auto& [name, value] : variables_of(input.ranks.front(), input.plan_path)) {
    result.text += fmt::format("export {}={}\n", name, shell_quoted(value));
  }
  result.notes = {"variables bind nothing by themselves: zf-tune exec sets them and binds"};
  return result;
}

}  // namespace zf
