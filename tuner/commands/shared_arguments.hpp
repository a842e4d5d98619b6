// --topology, --sysroot, --allowed, --mems, --ranks and --format, as the commands share them.
#pragma once

#include <optional>

#include "tuner/cli.hpp"
#include "tuner/machine.hpp"

namespace zf {

MachineSource machine_source(const Arguments& arguments);

/// --ranks N, with its bounds.
std::optional<int> ranks_argument(const Arguments& arguments);

OptionSpec ranks_option();

/// --format text|json.
enum class Format { text, json };

/// Throws Error(usage) for any other word. Default: text.
Format format_argument(const Arguments& arguments);

OptionSpec format_option();

}  // namespace zf
