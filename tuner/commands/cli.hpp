// A command's options as data, and what the user gave. cli.cpp is the only file that knows cxxopts.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace zf {

struct OptionSpec {
  std::string name;   ///< long name, without dashes
  char letter = 0;    ///< short name; 0: none
  std::string value;  ///< placeholder ("N", "FILE"); empty: a flag
  std::string help;   ///< with default, unit and an example
};

struct CommandSpec {
  std::string name;      ///< "exec"
  std::string synopsis;  ///< after "zf-tune ": "exec --plan FILE [options] -- COMMAND [ARG ...]"
  std::string summary;   ///< one or two sentences
  std::vector<OptionSpec> options;
  std::size_t positionals = 0;  ///< how many the command takes at the most
  bool wraps_command = false;   ///< what follows "--", or the first word that is no option, is a command line
};

/// What the user gave for one command.
struct Arguments {
  std::string command;                         ///< CommandSpec::name, for messages
  std::map<std::string, std::string> options;  ///< by long name; a flag's value is "true"
  std::vector<std::string> positionals;
  std::vector<std::string> wrapped;  ///< the command line to run, for commands that wrap one
  bool help = false;

  bool has(const std::string& option) const { return options.contains(option); }
  std::optional<std::string> text(const std::string& option) const;
  /// Throws Error(usage) that names the option and the bounds.
  std::optional<int> integer(const std::string& option, int low, int high) const;
};

/// Throws Error(usage) that names the argument and where the help is.
Arguments parse_arguments(const CommandSpec& spec, const std::vector<std::string>& words);

/// The help of one command, ready to print.
std::string help_of(const CommandSpec& spec);

/// --topology, --sysroot, --allowed, --mems: the options of every command that looks at a machine.
std::vector<OptionSpec> machine_options();

/// `specific` followed by the machine's options.
std::vector<OptionSpec> with_machine_options(std::vector<OptionSpec> specific);

}  // namespace zf
