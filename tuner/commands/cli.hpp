// The options of a command as data, and the arguments that the user gave. Only cli.cpp uses cxxopts.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace zf {

struct OptionSpec {
  std::string name;         ///< long name, without dashes
  char letter = 0;          ///< short name; 0 if there is none
  std::string value;        ///< placeholder ("N", "FILE"); empty for a flag
  std::string help;         ///< with default, unit and an example
  std::string values = {};  ///< all that it can have, if these are few: "text, json"
};

struct CommandSpec {
  std::string name;                 ///< "exec"
  std::string synopsis;             ///< after "zf-tune ": "exec --plan FILE [options] -- COMMAND [ARG ...]"
  std::string summary;              ///< one or two sentences
  std::vector<OptionSpec> options;  ///< a plan may also be given without --plan, if that is one of them
  bool wraps_command =
      false;  ///< a command line follows "--", or begins with the first word that is no option (or plan)
  std::size_t most_words =
      0;  ///< words that are neither options nor plans; then what follows "--" is wrapped
};

/// The arguments that the user gave to one command.
struct Arguments {
  std::string command;                         ///< CommandSpec::name, for messages
  std::map<std::string, std::string> options;  ///< by long name; a flag's value is "true"
  std::vector<std::string> words = {};         ///< as many as CommandSpec::most_words allows
  std::vector<std::string> wrapped;            ///< the command line to run, for commands that wrap one
  bool help = false;

  bool has(const std::string& option) const { return options.contains(option); }
  std::optional<std::string> text(const std::string& option) const;
  /// Returns the value as a number; nothing if the option was not given. Throws Error(usage) that names the
  /// option and the bounds if the value is not a whole number from `low` to `high`.
  std::optional<int> integer(const std::string& option, int low, int high) const;
};

/// Parses the words behind a command's name. Throws Error(usage) that names a wrong argument, and the option
/// that was meant or the help.
Arguments parse_arguments(const CommandSpec& spec, const std::vector<std::string>& words);

/// The width of help texts, unless the terminal is narrower.
inline constexpr std::size_t kHelpWidth = 80;

/// Returns the help of one command, ready to print.
std::string help_of(const CommandSpec& spec, std::size_t width = kHelpWidth);

/// Returns --topology, --sysroot, --allowed, --mems and --isolated: the options of every command that reads a
/// machine.
std::vector<OptionSpec> machine_options();

/// Returns `specific` followed by machine_options().
std::vector<OptionSpec> with_machine_options(std::vector<OptionSpec> specific);

/// Returns the same for a command that measures, which refuses --topology and --sysroot: their help says so.
std::vector<OptionSpec> with_options_of_this_machine(std::vector<OptionSpec> specific);

}  // namespace zf
