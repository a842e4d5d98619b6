// Checks the words that a user typed for the options of a command. What is wrong is said in our words, and
// with what may have been meant.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "commands/cli.hpp"

namespace zf {

/// Returns the option with this long name or, unless it is 0, this letter; null if the command has none.
/// Every command has --help.
const OptionSpec* option_named(const CommandSpec& spec, std::string_view name, char letter);

/// Returns whether the command has the option --plan. Then the plan may also stand alone: "check plan.json".
bool reads_plan(const CommandSpec& spec);

/// Returns whether this word before "--" ends the options of a command that wraps another: it is neither an
/// option nor a plan's file that ends in .json.
bool begins_wrapped_command(const CommandSpec& spec, std::string_view word);

/// Returns what to do next after an argument that is wrong: "see zf-tune check --help".
std::string see_help(const CommandSpec& spec);

/// Returns the index of the word where the options end: "--", or the first word of a wrapped command. Throws
/// Error(usage) for the first word before it that cxxopts would not understand: an option that does not
/// exist, one without its value, or a flag with one.
std::size_t end_of_options(const CommandSpec& spec, const std::vector<std::string>& words);

}  // namespace zf
