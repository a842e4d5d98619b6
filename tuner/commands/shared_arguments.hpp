// Options that several commands share, and what they mean.
#pragma once

#include <cstddef>
#include <optional>

#include "commands/cli.hpp"
#include "machine/machine.hpp"

namespace zf {

MachineSource machine_source(const Arguments& arguments);

/// The machine of these arguments, for who plans by the GPUs that the environment names: NVML is asked for
/// those that nothing else knows, which takes seconds.
Machine read_machine_and_ask_nvml(const Arguments& arguments);

/// --ranks N, with its bounds.
std::optional<int> ranks_argument(const Arguments& arguments);

OptionSpec ranks_option();

/// --for deepspeed: whether the plan is kept to what DeepSpeed can be told. Throws Error(usage) for any other
/// word: other launchers can be told every plan.
bool for_deepspeed(const Arguments& arguments);

OptionSpec for_deepspeed_option();

/// --format text|json.
enum class Format { text, json };

/// Throws Error(usage) for any other word. Default: text.
Format format_argument(const Arguments& arguments);

OptionSpec format_option();

/// --wide.
OptionSpec wide_option();

/// Returns how many columns a text may have that goes to `stream` (STDOUT_FILENO or STDERR_FILENO): unlimited
/// with --wide, else as many as its terminal has. What is no terminal has COLUMNS columns, or 80.
std::size_t page_width(const Arguments& arguments, int stream);

}  // namespace zf
