// Options that several commands share, and functions that read them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/enum_names.hpp"
#include "commands/cli.hpp"
#include "machine/machine.hpp"
#include "plan/plan.hpp"

namespace zf {

/// Throws Error(usage) for a word that an option does not know; `known` are those that it knows.
[[noreturn]] void refuse_word(const Arguments& arguments, const std::string& option, std::string_view word,
                              const std::string& known);

/// Returns the value of an option that names one of an enum's values; nothing if it was not given. Throws
/// Error(usage) for another word.
template <NamedEnum Enum>
std::optional<Enum> named_argument(const Arguments& arguments, const std::string& option) {
  const auto word = arguments.text(option);
  if (!word) return std::nullopt;
  if (const auto value = value_named<Enum>(*word)) return value;
  refuse_word(arguments, option, *word, all_names<Enum>());
}

/// Returns the machine that machine_options() name. Throws Error(usage) for a list that cannot be parsed.
MachineSource machine_source(const Arguments& arguments);

/// Returns the same for a command that gives GPUs to ranks (probe, plan, tune): it also looks at the device
/// nodes of GPUs. No rank may do so: a driver may answer one rank and not another.
MachineSource source_for_planning(const Arguments& arguments);

/// Returns the value of --plan, else the plan.json of the current directory. If there is none, throws
/// Error(usage) that says how to make one.
std::filesystem::path named_or_default_plan(const Arguments& arguments);

/// Returns the option --plan. `help` also says its default.
OptionSpec plan_option(std::string help = "the plan, also without --plan (default: plan.json)");

/// Returns the value of --ranks, 1 to 4096; nothing if it was not given.
std::optional<int> ranks_argument(const Arguments& arguments);

OptionSpec ranks_option();

/// Returns the values of --gpus-per-rank and --ranks-per-gpu. rank_count_of() says what is wrong with them.
GpuShare gpu_share_argument(const Arguments& arguments);

OptionSpec gpus_per_rank_option();
OptionSpec ranks_per_gpu_option();

/// Returns whether --for deepspeed was given: then the plan uses only splits that DeepSpeed can be told.
/// Throws Error(usage) for any other word, because other launchers can be told every plan.
bool for_deepspeed(const Arguments& arguments);

OptionSpec for_deepspeed_option();

OptionSpec framework_option();

OptionSpec mode_option();

OptionSpec state_option();

/// Returns the value of --update-interval; nothing if it was not given.
std::optional<int> update_interval_argument(const Arguments& arguments);

OptionSpec update_interval_option();

enum class Format { text, json };

template <>
inline constexpr auto kEnumNames<Format> = std::to_array<EnumName<Format>>({{Format::text, "text"},
                                                                            {Format::json, "json"}});

/// Returns the value of --format, text by default.
Format format_argument(const Arguments& arguments);

OptionSpec format_option();

/// Returns the option --wide.
OptionSpec wide_option();

/// Returns how many columns a text may have that goes to `stream` (STDOUT_FILENO or STDERR_FILENO): unlimited
/// with --wide, otherwise terminal_columns().
std::size_t page_width(const Arguments& arguments, int stream);

}  // namespace zf
